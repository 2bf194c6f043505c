"""Which learner the auto estimators train: trees, a linear model, or both, from public metadata alone.

The settings of the trees are those of ``recipe="auto"`` (:mod:`ledgerwood.learners.trees.recipes`), whose derived
number, the signal-to-noise ratio n mu, decides here too. What each line is worth is measured in
``docs/explanation/auto.md``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ledgerwood.learners.linear.plan import automatic_rounds
from ledgerwood.learners.training.public_metadata import PublicMetadata
from ledgerwood.learners.trees.recipes import FEW_FEATURES, AutoChoice, Reason, choice_for

__all__ = ["choice_of_learner"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoTuning:
    """Where the rule changes its mind. ``benchmarks/auto`` chose each (``docs/explanation/auto.md``)."""

    trees_from: float = 25.0  # below this signal-to-noise ratio per feature a linear model beats additive trees
    several_from: float = 15.0  # the same for more than two classes, where a linear model takes the numbers as they are
    start_features: int = 16  # up to this many numbers a linear start takes them as they are
    many_features: int = 40  # from more features than this bins make a linear model too wide for its noise
    start_signal_to_noise: float = 1500.0  # below this ratio the linear start of a regression takes half of the budget


TUNING = AutoTuning()


def choice_of_learner(metadata: PublicMetadata) -> AutoChoice:
    """Return the choice of the auto estimators: trees, a linear model, or trees that start from a linear model."""
    trees = choice_for(metadata)
    snr = dict(trees.metadata)["signal-to-noise ratio n mu"]
    if metadata.task == "regression":
        return _regression(trees, snr)
    two = len(metadata.classes or ()) == 2
    if metadata.n_features <= FEW_FEATURES or len(metadata.classes or ()) < 2:
        return trees
    if snr < (TUNING.trees_from if two else TUNING.several_from) * metadata.n_features:
        return _linear(trees, snr / metadata.n_features, automatic_rounds(metadata), two=two)
    if not two:
        return trees
    if all(column.kind == "number" for column in metadata.columns):
        return _linear_start(trees, metadata.n_features)
    return trees


def _encoding(n_features: int, few: int) -> Reason:
    if few < n_features <= TUNING.many_features:
        return Reason(
            "bins", 8, "for the linear part: indicators of public bins, half of them dense near the lower bound"
        )
    return Reason("bins", None, "for the linear part: numbers as they are, one column each")


def _linear(trees: AutoChoice, snr: float, rounds: int, *, two: bool) -> AutoChoice:
    limit = TUNING.trees_from if two else TUNING.several_from
    why = f"the signal-to-noise ratio per feature is {snr:.0f}, below {limit:.0f}"
    bins = _encoding(dict(trees.metadata)["features"], FEW_FEATURES)
    clip = Reason("gradient_clip", 0.5, "the gradient at the start: half the noise, and the ranking is kept")
    reasons = (
        bins if two else replace(bins, value=None, why="for the linear part: numbers as they are, one column each"),
        Reason("n_rounds", rounds, f"gradients; {why}: one X'X serves all rounds, trees would be noise"),
        *([clip] if two else []),
    )
    linear = tuple((reason.name, reason.value) for reason in reasons)
    return AutoChoice("boosted AdaSSP, a linear model", None, trees.metadata, reasons, linear, 1.0)


def _linear_start(trees: AutoChoice, n_features: int) -> AutoChoice:
    """Numbers, and nothing else: a linear model is cheap, and trees add what it misses."""
    bins = _encoding(n_features, TUNING.start_features)
    share = Reason("linear_share", 0.15 if bins.value is None else 0.3, "of mu^2, for a linear model to start from")
    linear = (("bins", bins.value), ("n_rounds", 10), ("gradient_clip", 0.5))
    settings, reasons = trees.settings, trees.reasons
    if n_features > TUNING.start_features and settings is not None:
        finer = Reason("max_depth", 4, "sixteen intervals of that feature: the linear part has the coarse shape")
        settings = settings.with_options(max_depth=finer.value)
        reasons = tuple(finer if reason.name == finer.name else reason for reason in reasons)
    return replace(
        trees, model=f"boosted AdaSSP, then {trees.model}", settings=settings, reasons=(share, bins, *reasons),
        linear=linear, linear_share=share.value,
    )  # fmt: skip


def _regression(trees: AutoChoice, snr: float) -> AutoChoice:
    """Regression: a line through each number is cheap; trees then see residuals that are small beside the range."""
    assert trees.settings is not None
    share = 0.5 if snr < TUNING.start_signal_to_noise else 0.3
    less = "below" if share == 0.5 else "at least"
    changed = {
        "gradient_clip": Reason("gradient_clip", 0.2, "of half the target's range: residuals of the linear part"),
        "ridge": Reason("ridge", 18.0, "times the noise, in every leaf's denominator: what is left to learn is small"),
    }
    reasons = (
        Reason(
            "linear_share",
            share,
            "of mu^2 for a linear model to start from; signal-to-noise ratio "
            f"{less} {TUNING.start_signal_to_noise:.0f}",
        ),
        *(changed.get(reason.name, reason) for reason in trees.reasons),
    )
    settings = trees.settings.with_options(**{name: reason.value for name, reason in changed.items()})
    return AutoChoice(f"boosted AdaSSP, then {trees.model}", settings, trees.metadata, reasons, (), share)
