"""``recipe="auto"``: the settings of boosted trees from public facts alone.

The rule looks at how many rows and features there are, the task, and the budget. Its one derived number is the
*strength* n mu: rows times the Gaussian parameter of (epsilon, delta), the signal that one release of the whole budget
would have over its noise. What each line is worth is measured in ``docs/explanation/auto.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from ledgerwood.accounting import gdp
from ledgerwood.accounting.search import boundary
from ledgerwood.errors import ParameterError
from ledgerwood.learners.facts import PublicFacts
from ledgerwood.learners.linear.defaults import automatic_rounds
from ledgerwood.learners.trees.losses import LossName
from ledgerwood.learners.trees.settings import Settings

__all__ = ["Choice", "Reason", "choice_for", "choice_of_learner", "choose_trees", "strength_of"]

TREES_FROM = 25.0
"""Below this strength per feature a linear model classifies better than additive trees: ``benchmarks/auto``."""
SEVERAL_FROM = 15.0
"""The same for more than two classes, where a linear model takes the numbers as they are: ``benchmarks/auto``."""
START_FEATURES = 16
"""Up to so many numbers a linear start takes them as they are: bins would not pay before trees: ``benchmarks/auto``."""
MANY_FEATURES = 40
"""From more features than this bins make a linear model too wide for its noise: ``benchmarks/auto``."""
START_STRENGTH = 1500.0
"""Below this strength the linear start of a regression takes half of the budget, above it less: ``benchmarks/auto``."""
FEW_FEATURES = 4
"""Up to so many features every tree is a grid of several: it sees what no linear model can."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One setting, its value, and why."""

    name: str
    value: Any
    why: str


@dataclass(frozen=True, slots=True)
class Choice:
    """Settings and the reasons for them; prints as a text.

    Attributes
    ----------
    model
        What is trained, in a few words.
    settings
        The settings of the trees; None if the model is linear.
    facts
        The public facts that the rule looked at.
    reasons
        One for each setting that the rule decides.
    linear
        The settings of the linear part; None if there is none.
    linear_share
        The part of the squared Gaussian parameter that the linear part takes.
    """

    model: str
    settings: Settings | None
    facts: tuple[tuple[str, Any], ...]
    reasons: tuple[Reason, ...]
    linear: tuple[tuple[str, Any], ...] | None = None
    linear_share: float = 0.0

    @property
    def options(self) -> tuple[tuple[str, Any], ...]:
        """The chosen settings by name."""
        return tuple((reason.name, reason.value) for reason in self.reasons)

    def __str__(self) -> str:
        known = ", ".join(f"{name} = {_short(value)}" for name, value in self.facts)
        names = [f"{reason.name} = {_short(reason.value)}" for reason in self.reasons]
        width = max(map(len, names))
        lines = [f"  {name.ljust(width)}  {reason.why}" for name, reason in zip(names, self.reasons)]
        return "\n".join([f"{self.model}, chosen from public facts: {known}", *lines])


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


@lru_cache(maxsize=256)
def strength_of(n_rows: int, epsilon: float, delta: float, rows_per_unit: int = 1) -> float:
    """Return n mu / k: rows times the mu at which Gaussian noise is (epsilon, delta)-private, for units of k rows.

    >>> round(strength_of(34189, 1.0, 1 / 34189))
    9814
    """
    if not 0 < delta < 1:
        raise ParameterError("delta", "lie in (0, 1) for the automatic choice: it adds Gaussian noise", delta)
    target = math.log(delta)
    low, high = 1e-12, 2 * math.sqrt(2 * epsilon) + 2 * epsilon + 16.0
    if gdp.log_delta(low, epsilon) >= target:
        return n_rows * low / rows_per_unit
    gap = lambda log_mu: gdp.log_delta(math.exp(log_mu), epsilon) - target  # noqa: E731
    log_mu = boundary(gap, good=math.log(low), bad=math.log(high), tolerance=1e-12)
    return n_rows * math.exp(log_mu) / rows_per_unit


def choice_of_learner(facts: PublicFacts) -> Choice:
    """Return the choice of the front door: trees, a linear model, or trees that start from a linear model."""
    trees = choice_for(facts)
    strength = dict(trees.facts)["strength n mu"]
    if facts.task == "regression":
        return _regression(trees, strength)
    two = len(facts.classes or ()) == 2
    if facts.n_features <= FEW_FEATURES or len(facts.classes or ()) < 2:
        return trees
    if strength < (TREES_FROM if two else SEVERAL_FROM) * facts.n_features:
        return _linear(trees, strength / facts.n_features, automatic_rounds(facts), two=two)
    if not two:
        return trees
    if all(column.kind == "number" for column in facts.columns):
        return _linear_start(trees, facts.n_features)
    return trees


def _encoding(n_features: int, few: int) -> Reason:
    if few < n_features <= MANY_FEATURES:
        return Reason(
            "bins", 8, "for the linear part: indicators of public bins, half of them dense near the lower bound"
        )
    return Reason("bins", None, "for the linear part: numbers as they are, one column each")


def _linear(trees: Choice, strength: float, rounds: int, *, two: bool) -> Choice:
    why = f"strength per feature is {strength:.0f}, below {TREES_FROM if two else SEVERAL_FROM:.0f}"
    bins = _encoding(dict(trees.facts)["features"], FEW_FEATURES)
    clip = Reason("gradient_clip", 0.5, "the gradient at the start: half the noise, and the ranking is kept")
    reasons = (
        bins if two else replace(bins, value=None, why="for the linear part: numbers as they are, one column each"),
        Reason("n_rounds", rounds, f"gradients; {why}: one X'X serves all rounds, trees would be noise"),
        *([clip] if two else []),
    )
    linear = tuple((reason.name, reason.value) for reason in reasons)
    return Choice("boosted AdaSSP, a linear model", None, trees.facts, reasons, linear, 1.0)


def _linear_start(trees: Choice, n_features: int) -> Choice:
    """Numbers, and nothing else: a linear model is cheap, and trees add what it misses."""
    bins = _encoding(n_features, START_FEATURES)
    share = Reason("linear_share", 0.15 if bins.value is None else 0.3, "of mu^2, for a linear model to start from")
    linear = (("bins", bins.value), ("n_rounds", 10), ("gradient_clip", 0.5))
    settings, reasons = trees.settings, trees.reasons
    if n_features > START_FEATURES and settings is not None:
        finer = Reason("max_depth", 4, "sixteen intervals of that feature: the linear part has the coarse shape")
        settings = settings.with_options(max_depth=finer.value)
        reasons = tuple(finer if reason.name == finer.name else reason for reason in reasons)
    return replace(
        trees, model=f"boosted AdaSSP, then {trees.model}", settings=settings, reasons=(share, bins, *reasons),
        linear=linear, linear_share=share.value,
    )  # fmt: skip


def _regression(trees: Choice, strength: float) -> Choice:
    """Regression: a line through each number is cheap; trees then see residuals that are small beside the range."""
    assert trees.settings is not None
    share = 0.5 if strength < START_STRENGTH else 0.3
    less = "below" if share == 0.5 else "at least"
    changed = {
        "gradient_clip": Reason("gradient_clip", 0.2, "of half the target's range: residuals of the linear part"),
        "ridge": Reason("ridge", 18.0, "times the noise, in every leaf's denominator: what is left to learn is small"),
    }
    reasons = (
        Reason(
            "linear_share", share, f"of mu^2 for a linear model to start from; strength is {less} {START_STRENGTH:.0f}"
        ),
        *(changed.get(reason.name, reason) for reason in trees.reasons),
    )
    settings = trees.settings.with_options(**{name: reason.value for name, reason in changed.items()})
    return Choice(f"boosted AdaSSP, then {trees.model}", settings, trees.facts, reasons, (), share)


def choice_for(facts: PublicFacts) -> Choice:
    """Return the choice of ``recipe="auto"`` for the public facts of a fit."""
    return choose_trees(
        n_rows=facts.rows,
        n_features=facts.n_features,
        epsilon=facts.epsilon,
        delta=facts.delta,
        n_classes=None if facts.task == "regression" else len(facts.classes or ()),
        neighbours=str(facts.neighbours),
        rows_per_unit=facts.rows_per_unit,
    )


def choose_trees(
    *,
    n_rows: int,
    n_features: int,
    epsilon: float,
    delta: float,
    n_classes: int | None = 2,
    neighbours: str = "add_remove",
    rows_per_unit: int = 1,
) -> Choice:
    """Return the automatic settings of boosted trees.

    Parameters
    ----------
    n_rows
        The public number of rows.
    n_features
        The number of features.
    epsilon, delta
        The budget.
    n_classes
        The number of classes, None for regression.
    neighbours, rows_per_unit
        The relation, and how many rows a unit of privacy may have.

    Examples
    --------
    >>> choice = choose_trees(n_rows=30000, n_features=14, epsilon=1.0, delta=3e-5)
    >>> choice.settings.n_trees, choice.settings.max_depth
    (357, 3)
    """
    for name, value in (("n_rows", n_rows), ("n_features", n_features)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ParameterError(name, "be a whole number of at least 1 for the automatic choice", value)
    strength = strength_of(n_rows, float(epsilon), float(delta), rows_per_unit)
    regression = n_classes is None
    several = (n_classes or 0) > 2 and n_features > FEW_FEATURES
    of_features = (
        _several_classes(strength, n_features)
        if several
        else _features_part(strength, n_features, regression=regression)
    )
    interactions = next((reason.value for reason in of_features if reason.name == "interactions"), 0.0)
    reasons = [
        Reason("candidates", "uniform", "even edges: what tells several classes apart is not crowded near zero")
        if several
        else Reason("candidates", "mixed", "even edges, and edges dense near zero where amounts and counts crowd"),
        Reason("n_bins", 160, "places where a number may be cut: none of them costs anything"),
        Reason("structure", "grid", "each feature of a tree is cut into intervals at random: structure costs nothing"),
        Reason("shares", None, "all of the budget goes to sums in leaves, the same to every tree"),
        *_loss_part(n_classes),
        _trees_by_strength(strength, n_features, regression=regression)
        if regression or several
        else _trees_by_turns(strength, n_features, interactions),
        *of_features,
    ]
    task = "regression" if regression else f"{n_classes} classes"
    loss: LossName = "squared" if regression else "softmax" if (n_classes or 0) > 2 else "logistic"
    options = {reason.name: reason.value for reason in reasons}
    settings = Settings(
        loss=loss, n_classes=2 if n_classes is None else max(n_classes, 2), neighbours=neighbours, **options
    )  # fmt: skip
    facts = (
        ("rows", n_rows), ("features", n_features), ("task", task), ("epsilon", float(epsilon)),
        ("delta", float(delta)), ("strength n mu", strength),
    )  # fmt: skip
    return Choice("boosted random grids", settings, facts, tuple(reasons))


def _loss_part(n_classes: int | None) -> list[Reason]:
    if n_classes is None:
        return [
            Reason("gradient_clip", 0.4, "of half the target's range: less noise for all, little bias for most"),
            Reason("ridge", 6.0, "times the noise, in every leaf's denominator: residuals are small beside the range"),
            Reason("shrink", 1.0, "a tree whose sums the noise alone explains is dropped"),
            Reason("learning_rate", 0.5, "the first trees must find the mean"),
        ]
    clip = [] if n_classes > 2 else [
        Reason("gradient_clip", 0.5, "the gradient at the start: half the noise, and the ranking is kept")
    ]  # fmt: skip
    return [
        *clip,
        Reason("ridge", 2.0, "times the noise, in every leaf's denominator"),
        Reason("shrink", 0.5, "a tree's weights shrink by half of what the noise explains of its sums"),
        Reason("learning_rate", 0.3, "noise of early trees is corrected by later ones"),
    ]


def _trees_by_strength(strength: float, n_features: int, *, regression: bool) -> Reason:
    if regression:
        by_strength, why = min(max(0.4 * strength, 40), 300), "0.4 times the strength, between 40 and 300"
    else:
        by_strength, why = min(max(strength / 8, 60), 300), "an eighth of the strength, between 60 and 300"
    turns = min(4 * n_features, 500)
    if turns > by_strength:
        return Reason("n_trees", turns, "four turns of each feature, at most 500 trees")
    return Reason("n_trees", round(by_strength), f"{why}: more trees, more noise in each")


def _trees_by_turns(strength: float, n_features: int, interactions: float) -> Reason:
    """An additive model is done when each feature had its turns; interactions beside it, in numbers, want theirs."""
    turns = 3 * (strength / n_features) ** (1 / 3)
    times, more = (1, "") if interactions < 0.5 else (2, ", twice") if interactions < 1 else (3, ", three times")
    most = 1000 if times == 1 else 400  # grids of three features would fit the rows, whatever the noise
    why = (
        f"{turns:.1f} turns of each feature{more}, between 60 and {most}: three cube roots of the strength per feature"
    )
    return Reason("n_trees", round(min(max(times * turns * n_features, 60), most)), why)


def _several_classes(strength: float, n_features: int) -> list[Reason]:
    """More than two classes are told apart by several features at once: no tree is of one feature."""
    order = 4 if strength < 50 * n_features else min(6, n_features)
    return [
        Reason("features", "shuffled", "several features per tree, drawn at random"),
        Reason("max_depth", 3, "of a tree of one feature; there are none"),
        Reason("interactions", 1.0, "more than two classes: every tree looks at several features"),
        Reason("interaction_order", order, f"features of a tree; strength per feature is {strength / n_features:.0f}"),
        Reason("interaction_depth", order, "one cut of each"),
    ]


def _features_part(strength: float, n_features: int, *, regression: bool) -> list[Reason]:
    found = [
        Reason("features", "shuffled", "one feature per tree, in turns: an additive model, which noise spoils least"),
        Reason("max_depth", 3, "eight intervals of that feature"),
    ]
    if n_features < 2:
        return found
    per_pair = strength / (n_features * (n_features - 1) / 2)
    order = 2
    if n_features <= FEW_FEATURES:
        share, order, why = 1.0, 3, "few features: every tree may cover their interactions"
    elif per_pair < 15:
        share, why = 0.0, f"strength per pair of features is {per_pair:.1f}, below 15: interactions would be noise"
    elif regression or (n_features <= 8 and per_pair >= 50):
        share, why = 0.5, f"strength per pair of features is {per_pair:.0f}: half of the trees look for interactions"
        order = 2 if regression else 3
    else:
        share, why = 0.25, f"strength per pair of features is {per_pair:.0f}, at least 15"
    return [
        *found,
        Reason("interactions", share, why),
        Reason("interaction_order", min(order, n_features), "features of an interaction"),
        Reason("interaction_depth", 2 * min(order, n_features), "four intervals of each"),
    ]
