"""The methods of the papers, as data: each is a few components of one algorithm; and the rule behind ``recipe="auto"``.

The papers are "Revisiting Differentially Private XGBoost" (DP-XGB: greedy boosting with adaptive Hessian candidates),
Maddock et al. 2022 (a federated framework of private boosted trees) and Grislain & Gonzalez 2021 (DP-XGBoost, by
Sarus). A recipe carries its paper's budget split and hyper-parameters; any of them can be overridden.

The rule looks at how many rows and features there are, the task, and the budget. Its one derived number is the
signal-to-noise ratio n mu: rows times the Gaussian parameter of (epsilon, delta), the signal that one release of the
whole budget would have over its noise. What each line is worth is measured in ``docs/explanation/auto.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ledgerwood import _checks
from ledgerwood.accounting.curves import gaussian
from ledgerwood.accounting.curves.numerics import boundary
from ledgerwood.errors import ParameterError, did_you_mean
from ledgerwood.learners.training.codec import stored
from ledgerwood.learners.training.public_metadata import PublicMetadata
from ledgerwood.learners.trees.loss import LossName
from ledgerwood.learners.trees.settings import TreeSettings

__all__ = [
    "RECIPES",
    "AutoChoice",
    "Reason",
    "Recipe",
    "RecipeTable",
    "choice_for",
    "choose_trees",
    "recipe_settings",
    "recipes",
    "signal_to_noise",
]


@dataclass(frozen=True, slots=True)
class Recipe:
    """A named method: where it comes from, what it is, and what it sets."""

    name: str
    paper: str
    summary: str
    options: dict[str, Any]


_GREEDY = {"split": "exponential", "n_trees": 50, "shares": (0.0, 0.7, 0.3)}

_ADAPTIVE = {"candidates": "hessian"}

_CYCLIC = {"features": "cyclic", "features_per_tree": 1}

_HISTOGRAM = {"n_trees": 25, "learning_rate": 0.3}

_DP_XGB, _MADDOCK, _SARUS = "DP-XGB", "Maddock et al. 2022", "Grislain & Gonzalez 2021"

_ALL = (
    Recipe("xgb", _DP_XGB, "greedy trees by the exponential mechanism", {**_GREEDY}),
    Recipe("xgb_cyc", _DP_XGB, "greedy, one feature per tree, cyclically", {**_GREEDY, **_CYCLIC}),
    Recipe("xgb_ada", _DP_XGB, "greedy, candidates refined by hessian sums", {
        **_GREEDY, **_ADAPTIVE, "shares": (0.1, 0.6, 0.3),
    }),
    Recipe("tr", f"{_DP_XGB}, {_MADDOCK}", "totally random trees, Newton leaves", {}),
    Recipe("tr_cyc", f"{_DP_XGB}, {_MADDOCK}", "totally random, one feature per tree, cyclically", {**_CYCLIC}),
    Recipe("tr_ada", f"{_DP_XGB}, {_MADDOCK}", "totally random, candidates refined by hessian sums", {**_ADAPTIVE}),
    Recipe("tr_ada_cyc", f"{_DP_XGB}, {_MADDOCK}", "both", {**_ADAPTIVE, **_CYCLIC}),
    Recipe("dp_ebm", _MADDOCK, "additive model: random trees of one feature, gradient leaves, n_trees per feature", {
        **_CYCLIC, "leaf": "gradient", "n_trees": 10, "trees_per_feature": True,
    }),
    Recipe("dp_ebm_newton", _MADDOCK, "additive model, Newton leaves, n_trees in all", {**_CYCLIC}),
    Recipe("dp_rf", _MADDOCK, "random forest: random trees, averaged class shares", {"leaf": "average", "batch": 1.0}),
    Recipe("feverless", _MADDOCK, "the best split of noisy histograms, leaves from them", {
        **_HISTOGRAM, "split": "histogram",
    }),
    Recipe("pr", _MADDOCK, "the best of one random candidate per feature, by noisy sums", {
        **_HISTOGRAM, "split": "partial",
    }),
    Recipe("tr_ih_ebm", _MADDOCK, "tr_cyc with iterative Hessian candidates", {**_ADAPTIVE, **_CYCLIC}),
    Recipe("tr_ih_ebm_batched", _MADDOCK, "the same in four batches", {**_ADAPTIVE, **_CYCLIC, "batch": 0.25}),
    Recipe("sarus", _SARUS, "greedy on Laplace sketches, squared loss, row samples; repaired", {
        "candidates": "laplace_sketch", "split": "exponential", "leaf": "noisy_average", "loss": "squared",
        "n_trees": 20, "max_depth": 6, "l2": 0.1, "rows": 0.1, "min_child_weight": 5.0, "n_bins": 50,
        "shares": (1.0, 1.0, 1.0), "paper_method": "pure",
    }),
)  # fmt: skip

RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in _ALL}


def recipe_settings(recipe: str, **options: Any) -> TreeSettings:
    """Return a recipe's settings with some of them overridden.

    >>> recipe_settings("xgb_ada", max_depth=6).candidates
    'hessian'
    """
    found = RECIPES.get(recipe) if isinstance(recipe, str) else None
    if found is None:
        hint = did_you_mean(recipe, RECIPES) or "Estimators also take 'auto'"
        raise ParameterError("recipe", f"be one of {', '.join(RECIPES)}", recipe, hint)
    merged = {**found.options, **options}
    if options.get("accounting") == "paper":
        merged = {"ridge": 0.0, **merged}
    return TreeSettings().with_options(**merged)


class RecipeTable(tuple[dict[str, Any], ...]):
    """Rows of the recipe table; prints as text."""

    def __str__(self) -> str:
        names = list(self[0])
        widths = [max(len(name), *(len(str(row[name])) for row in self)) for name in names]
        lines = [names, *([str(row[name]) for name in names] for row in self)]
        return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, widths)).rstrip() for line in lines)

    __repr__ = __str__


def recipes() -> RecipeTable:
    """Return the table of recipes.

    >>> print(recipes())
    recipe             paper                        candidates      split             ...
    xgb                DP-XGB                       uniform         exponential       ...
    """
    rows = []
    for recipe in RECIPES.values():
        s = recipe_settings(recipe.name)
        grouping = s.features if s.features == "all" else f"{s.features} {s.features_per_tree}-way"
        updates = "forest" if s.is_forest else "boosting" if s.batch == 1 else f"batches of {s.batch:g}"
        rows.append({
            "recipe": recipe.name, "paper": recipe.paper, "candidates": s.candidates, "split": s.split,
            "leaf": s.leaf, "features": grouping, "updates": updates, "rows": s.rows, "trees": s.n_trees,
            "depth": s.max_depth, "shares": s.shares or "equal per query", "summary": recipe.summary,
        })  # fmt: skip
    return RecipeTable(rows)


FEW_FEATURES = 4
"""Up to this many features every tree is a grid of several: it sees what no linear model can."""


@stored("Reason")
@dataclass(frozen=True, slots=True)
class Reason:
    """One setting, its value, and why."""

    name: str
    value: Any
    why: str


@stored("Choice", keys={"metadata": "facts"})
@dataclass(frozen=True, slots=True)
class AutoChoice:
    """Settings and the reasons for them; prints as a text.

    Attributes
    ----------
    model
        What is trained, in a few words.
    settings
        The settings of the trees; None if the model is linear.
    metadata
        The public metadata that the rule looked at.
    reasons
        One for each setting that the rule decides.
    linear
        The settings of the linear part; None if there is none.
    linear_share
        The part of the squared Gaussian parameter that the linear part takes.
    """

    model: str
    settings: TreeSettings | None
    metadata: tuple[tuple[str, Any], ...]
    reasons: tuple[Reason, ...]
    linear: tuple[tuple[str, Any], ...] | None = None
    linear_share: float = 0.0

    @property
    def options(self) -> tuple[tuple[str, Any], ...]:
        """The chosen settings by name."""
        return tuple((reason.name, reason.value) for reason in self.reasons)

    def __str__(self) -> str:
        known = ", ".join(f"{name} = {_short(value)}" for name, value in self.metadata)
        names = [f"{reason.name} = {_short(reason.value)}" for reason in self.reasons]
        width = max(map(len, names))
        lines = [f"  {name.ljust(width)}  {reason.why}" for name, reason in zip(names, self.reasons)]
        return "\n".join([f"{self.model}, chosen from public metadata: {known}", *lines])


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


@lru_cache(maxsize=256)
def signal_to_noise(n_rows: int, epsilon: float, delta: float, max_rows_per_unit: int = 1) -> float:
    """Return n mu / k: rows times the mu at which Gaussian noise is (epsilon, delta)-private, for units of k rows.

    >>> round(signal_to_noise(34189, 1.0, 1 / 34189))
    9814
    """
    if not 0 < delta < 1:
        raise ParameterError("delta", "lie in (0, 1) for the automatic choice: it adds Gaussian noise", delta)
    target = math.log(delta)
    low, high = 1e-12, 2 * math.sqrt(2 * epsilon) + 2 * epsilon + 16.0
    if gaussian.log_delta(low, epsilon) >= target:
        return n_rows * low / max_rows_per_unit
    gap = lambda log_mu: gaussian.log_delta(math.exp(log_mu), epsilon) - target  # noqa: E731
    log_mu = boundary(gap, good=math.log(low), bad=math.log(high), tolerance=1e-12)
    return n_rows * math.exp(log_mu) / max_rows_per_unit


def choice_for(metadata: PublicMetadata) -> AutoChoice:
    """Return the choice of ``recipe="auto"`` for the public metadata of a fit."""
    return choose_trees(
        n_rows=metadata.rows,
        n_features=metadata.n_features,
        epsilon=metadata.epsilon,
        delta=metadata.delta,
        n_classes=None if metadata.task == "regression" else len(metadata.classes or ()),
        neighbours=str(metadata.neighbours),
        max_rows_per_unit=metadata.max_rows_per_unit,
    )


def choose_trees(
    *,
    n_rows: int,
    n_features: int,
    epsilon: float,
    delta: float,
    n_classes: int | None = 2,
    neighbours: str = "add_remove",
    max_rows_per_unit: int = 1,
) -> AutoChoice:
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
        The relation, and how many rows a privacy unit may have.

    Examples
    --------
    >>> choice = choose_trees(n_rows=30000, n_features=14, epsilon=1.0, delta=3e-5)
    >>> choice.settings.n_trees, choice.settings.max_depth
    (357, 3)
    """
    for name, value in (("n_rows", n_rows), ("n_features", n_features)):
        _checks.integer(name, value, 1, hint="The automatic choice needs it")
    snr = signal_to_noise(n_rows, float(epsilon), float(delta), max_rows_per_unit)
    regression = n_classes is None
    several = (n_classes or 0) > 2 and n_features > FEW_FEATURES
    of_features = (
        _several_classes(snr, n_features) if several else _features_part(snr, n_features, regression=regression)
    )
    interactions = next((reason.value for reason in of_features if reason.name == "interactions"), 0.0)
    reasons = [
        Reason("candidates", "uniform", "even bin edges: what separates several classes is not crowded near zero")
        if several
        else Reason("candidates", "mixed", "even bin edges, and dense ones near zero where amounts and counts crowd"),
        Reason("n_bins", 160, "places where a number may be split: none of them costs anything"),
        Reason(
            "structure", "grid", "each feature of a tree is split into intervals at random: structure costs nothing"
        ),
        Reason("shares", None, "all of the budget goes to sums in leaves, the same to every tree"),
        *_loss_part(n_classes),
        _trees_by_snr(snr, n_features, regression=regression)
        if regression or several
        else _trees_by_turns(snr, n_features, interactions),
        *of_features,
    ]
    task = "regression" if regression else f"{n_classes} classes"
    loss: LossName = "squared" if regression else "softmax" if (n_classes or 0) > 2 else "logistic"
    options = {reason.name: reason.value for reason in reasons}
    settings = TreeSettings(
        loss=loss, n_classes=2 if n_classes is None else max(n_classes, 2), neighbours=neighbours, **options
    )  # fmt: skip
    metadata = (
        ("rows", n_rows), ("features", n_features), ("task", task), ("epsilon", float(epsilon)),
        ("delta", float(delta)), ("signal-to-noise ratio n mu", snr),
    )  # fmt: skip
    return AutoChoice("boosted random grids", settings, metadata, tuple(reasons))


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


def _trees_by_snr(snr: float, n_features: int, *, regression: bool) -> Reason:
    if regression:
        by_snr, why = min(max(0.4 * snr, 40), 300), "0.4 times the signal-to-noise ratio, between 40 and 300"
    else:
        by_snr, why = min(max(snr / 8, 60), 300), "an eighth of the signal-to-noise ratio, between 60 and 300"
    turns = min(4 * n_features, 500)
    if turns > by_snr:
        return Reason("n_trees", turns, "four turns of each feature, at most 500 trees")
    return Reason("n_trees", round(by_snr), f"{why}: more trees, more noise in each")


def _trees_by_turns(snr: float, n_features: int, interactions: float) -> Reason:
    """An additive model is done when each feature had its turns; interactions beside it, in numbers, want theirs."""
    turns = 3 * (snr / n_features) ** (1 / 3)
    times, more = (1, "") if interactions < 0.5 else (2, ", twice") if interactions < 1 else (3, ", three times")
    most = 1000 if times == 1 else 400  # grids of three features would fit the rows, whatever the noise
    why = f"{turns:.1f} turns of each feature{more}, between 60 and {most}: 3 cube roots of the ratio per feature"
    return Reason("n_trees", round(min(max(times * turns * n_features, 60), most)), why)


def _several_classes(snr: float, n_features: int) -> list[Reason]:
    """More than two classes are separated by several features at once: no tree is of one feature."""
    order = 4 if snr < 50 * n_features else min(6, n_features)
    return [
        Reason("features", "shuffled", "several features per tree, drawn at random"),
        Reason("max_depth", 3, "of a tree of one feature; there are none"),
        Reason("interactions", 1.0, "more than two classes: every tree looks at several features"),
        Reason(
            "interaction_order",
            order,
            f"features of a tree; signal-to-noise ratio per feature is {snr / n_features:.0f}",
        ),
        Reason("interaction_depth", order, "one split of each"),
    ]


def _features_part(snr: float, n_features: int, *, regression: bool) -> list[Reason]:
    found = [
        Reason("features", "shuffled", "one feature per tree, in turns: an additive model, which noise spoils least"),
        Reason("max_depth", 3, "eight intervals of that feature"),
    ]
    if n_features < 2:
        return found
    per_pair = snr / (n_features * (n_features - 1) / 2)
    order = 2
    if n_features <= FEW_FEATURES:
        share, order, why = 1.0, 3, "few features: every tree may cover their interactions"
    elif per_pair < 15:
        share, why = (
            0.0,
            f"the signal-to-noise ratio per pair of features is {per_pair:.1f}, below 15: interactions would be noise",
        )
    elif regression or (n_features <= 8 and per_pair >= 50):
        share, why = (
            0.5,
            f"the signal-to-noise ratio per pair of features is {per_pair:.0f}: half of the trees interact",
        )
        order = 2 if regression else 3
    else:
        share, why = 0.25, f"the signal-to-noise ratio per pair of features is {per_pair:.0f}, at least 15"
    return [
        *found,
        Reason("interactions", share, why),
        Reason("interaction_order", min(order, n_features), "features of an interaction"),
        Reason("interaction_depth", 2 * min(order, n_features), "four intervals of each"),
    ]
