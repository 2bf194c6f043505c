"""From public facts to an answer: what the command line and the page both ask.

>>> facts = Facts(recipe="xgb", rows=32561, trees=50, depth=4, epsilon=1.0)
>>> facts.target_delta
3e-05
>>> [release.label for release in facts.open_plan().releases()]
['split', 'leaf']
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Self

from ledgerwood.errors import CalibrationError, FormatError, ParameterError

if TYPE_CHECKING:
    from ledgerwood.accounting import Plan, Release
    from ledgerwood.learners.trees.settings import Settings

AUTO = "auto"
_LIMITS = {
    "rows": (2, 10**12),
    "features": (1, 100_000),
    "trees": (1, 2000),
    "depth": (1, 8),
    "epsilon": (1e-3, 100.0),
    "delta": (0.0, 0.5),
    "share": (0.01, 0.99),
}


@cache
def recipe_table() -> list[dict[str, Any]]:
    """Return the recipes for a menu: name, summary, usual size, and whether the budget can be divided."""
    from ledgerwood.learners.trees.recipes import RECIPES, recipe_settings

    chosen = _chosen(32561, 14, 1.0, 3e-5, "add_remove")
    ours = "boosted random grids; all that is not given here is chosen from the public facts"
    rows: list[dict[str, Any]] = [{"name": AUTO, "paper": "ours", "summary": ours, **_size(chosen)}]
    for recipe in RECIPES.values():
        settings = recipe_settings(recipe.name)
        row = {"name": recipe.name, "paper": recipe.paper, "summary": recipe.summary}
        rows.append({**row, **_size(settings)})
    return rows


def _size(settings: Settings) -> dict[str, Any]:
    size = {"trees": settings.n_trees, "depth": settings.max_depth}
    return {**size, "divided": _is_divided(settings), "share": _usual_share(settings)}


def _chosen(rows: int, features: int, epsilon: float, delta: float, neighbours: str) -> Settings:
    """Return what ``recipe="auto"`` takes for a classification with two classes."""
    from ledgerwood.learners.auto import choose_trees

    facts: dict[str, Any] = {"n_rows": rows, "n_features": features, "epsilon": epsilon, "delta": delta}
    settings = choose_trees(**facts, neighbours=neighbours).settings
    assert settings is not None
    return settings


def _is_divided(settings: Settings) -> bool:
    loops = settings.loops(2)
    return bool(loops.splits and loops.leaves)


def _usual_share(settings: Settings, n_features: int = 2) -> float | None:
    """Return the part that splits take of what splits and leaves take together."""
    if not _is_divided(settings):
        return None
    _, split, leaf = settings.shares or settings.loops(n_features).queries
    return split / (split + leaf)


@dataclass(frozen=True, slots=True)
class Facts:
    """Public facts about a training run that has not happened yet. No data, nothing learned from data.

    Attributes
    ----------
    recipe, rows, features, trees, depth
        The method, the public size of the table, the size of the model.
    epsilon, delta
        The target; delta is 1/rows rounded down to one digit if it is not given.
    share
        The part of the budget for choosing splits, the rest being for the leaves; None is the recipe's own.
    neighbours
        What the guarantee compares.
    """

    recipe: str = "xgb"
    rows: int = 32561
    features: int = 14
    trees: int = 50
    depth: int = 4
    epsilon: float = 1.0
    delta: float | None = None
    share: float | None = None
    neighbours: str = "add_remove"

    def __post_init__(self) -> None:
        known = [row["name"] for row in recipe_table()]
        if self.recipe not in known:
            raise ParameterError("recipe", f"be one of {', '.join(known)}", self.recipe)
        for name, (low, high) in _LIMITS.items():
            value = getattr(self, name)
            if value is None and name in ("delta", "share"):
                continue
            whole = name in ("rows", "features", "trees", "depth")
            if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
                raise ParameterError(name, "be an integer" if whole else "be a number", value)
            if not low <= value <= high:
                raise ParameterError(name, f"lie between {low:g} and {high:g}", value)
            object.__setattr__(self, name, int(value) if whole else float(value))  # JSON may say 1 for 1.0
        if self.delta == 0:
            raise ParameterError("delta", "be positive", self.delta)
        if self.neighbours not in ("add_remove", "replace_one"):
            raise ParameterError("neighbours", "be 'add_remove' or 'replace_one'", self.neighbours)

    @classmethod
    def from_mapping(cls, given: Any) -> Self:
        """Read facts from JSON values, strictly."""
        if not isinstance(given, Mapping):
            raise FormatError("the facts must be a JSON object")
        known = [field.name for field in fields(cls)]
        for name in given:
            if name not in known:
                raise FormatError(f"unknown fact {name!r}; known are {', '.join(known)}")
        return cls(**given)

    @classmethod
    def of_recipe(cls, recipe: str, trees: int | None = None, depth: int | None = None, **facts: Any) -> Self:
        """Return facts with the recipe's own size where none is given."""
        row = next((row for row in recipe_table() if row["name"] == recipe), {"trees": 1, "depth": 1})
        if recipe == AUTO:
            known = cls(recipe=recipe, **facts)
            row = _size(_chosen(known.rows, known.features, known.epsilon, known.target_delta, known.neighbours))
        trees = row["trees"] if trees is None else trees
        return cls(recipe=recipe, trees=trees, depth=row["depth"] if depth is None else depth, **facts)

    @property
    def target_delta(self) -> float:
        """The delta of the guarantee."""
        from ledgerwood.learners.facts import delta_of

        return delta_of(self.rows) if self.delta is None else float(self.delta)

    @property
    def settings(self) -> Settings:
        """What the learner would be given."""
        from ledgerwood.learners.trees.recipes import recipe_settings

        size = {"n_trees": self.trees, "max_depth": self.depth}
        if self.recipe == AUTO:
            chosen = _chosen(self.rows, self.features, self.epsilon, self.target_delta, self.neighbours)
            settings = chosen.with_options(**size)
        else:
            settings = recipe_settings(self.recipe, **size, neighbours=self.neighbours)
        shares = self._shares(settings)
        return settings if shares is None else settings.with_options(shares=shares)

    def _shares(self, settings: Settings) -> tuple[float, float, float] | None:
        """Return the shares of (sketch, split, leaf) if another division than the recipe's is asked for."""
        if self.share is None or not _is_divided(settings):
            return None
        sketch, split, leaf = settings.shares or settings.loops(self.features).queries
        whole = sketch + split + leaf
        rest = (split + leaf) / whole
        return sketch / whole, rest * self.share, rest * (1 - self.share)

    def open_plan(self) -> Plan:
        """Return the releases of the training run, before their noise is known."""
        from ledgerwood.learners.trees.plan import outline

        return outline(self.settings, self.features)

    def plan(self, method: str | None = None) -> Plan:
        """Return the calibrated plan: what a training run with these facts will spend."""
        from ledgerwood.learners.trees.plan import plan_boosting

        target: dict[str, Any] = {"epsilon": self.epsilon, "delta": self.target_delta}
        return plan_boosting(self.settings, n_features=self.features, **target, method=method)

    def elsewhere(self) -> str | None:
        """Return what ``ledgerwood train`` chooses with ``auto`` and these facts, if it is not trees."""
        from ledgerwood.learners.auto import choice_of_learner
        from ledgerwood.learners.facts import Column, PublicFacts

        if self.recipe != AUTO:
            return None
        public = PublicFacts(
            columns=(Column(0, "number", (0.0, 1.0)),) * self.features, task="classification", rows=self.rows,
            epsilon=self.epsilon, delta=self.target_delta, neighbours=self.neighbours, classes=(0, 1),
        )  # fmt: skip
        choice = choice_of_learner(public)
        return choice.model if choice.settings is None else None

    # ---- the same question elsewhere

    def command(self) -> str:
        """Return the command that asks the same."""
        words = ["ledgerwood", "plan"]
        for name, value in self._told().items():
            words += [f"--{name}", str(value)]
        return shlex.join(words)

    def python(self) -> str:
        """Return Python that makes the same plan, and the model that will spend it."""
        options: dict[str, Any] = {"n_trees": self.trees, "max_depth": self.depth}
        shares = self._shares(self.settings)
        if shares is not None:
            options["shares"] = shares
        columns, target = {"n_features": self.features}, {"epsilon": self.epsilon, "delta": self.target_delta}
        relation = {} if self.neighbours == "add_remove" else {"neighbours": self.neighbours}
        model = f"model = PrivateBoostingClassifier({_listed(recipe=self.recipe, **target, **options)})"
        if self.recipe == AUTO:
            known = _listed(n_rows=self.rows, **columns, **target, **relation)
            return (
                "from ledgerwood.learners import PrivateBoostingClassifier, plan_boosting\n"
                "from ledgerwood.learners.auto import choose_trees\n\n"
                f"settings = choose_trees({known}).settings\n"
                f"plan = plan_boosting(settings, {_listed(**columns, **target, **options)})\n"
                "print(plan.table())\n"
                f"{model}"
            )
        return (
            "from ledgerwood.learners import PrivateBoostingClassifier, plan_boosting\n\n"
            f"plan = plan_boosting({self.recipe!r}, {_listed(**columns, **target, **options, **relation)})\n"
            "print(plan.table())\n"
            f"{model}"
        )

    def _told(self) -> dict[str, Any]:
        told = {**asdict(self), "delta": self.target_delta}
        if self.neighbours == "add_remove":
            del told["neighbours"]
        if self.share is None:
            del told["share"]
        return told

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, delta and share filled in."""
        settings = self.settings
        return {**asdict(self), "delta": self.target_delta, "share": _usual_share(settings, self.features)}


def _listed(**arguments: Any) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items())


@dataclass(frozen=True, slots=True)
class LeafNoise:
    r"""How noise moves the weight of a leaf.

    The weight is :math:`-G/(H+\lambda)`. Noise of standard deviation ``noise`` on :math:`G` moves it by
    :math:`\text{noise}/(H+\lambda)`; :math:`H` is ``curvature`` per row, 1/4 for the logistic loss at an even chance.
    For averages :math:`H` is the number of rows.

    >>> LeafNoise(noise=45.0, curvature=0.25, penalty=1.0).error(500.0)
    0.35714285714285715
    """

    noise: float
    curvature: float
    penalty: float

    @classmethod
    def of(cls, facts: Facts, plan: Plan) -> Self:
        """Return that of a plan's leaves."""
        settings = facts.settings
        averages = settings.leaf in ("average", "noisy_average") or settings.loss == "squared"
        per_row = settings.rows * (1.0 if averages else 0.25)
        return cls(_deviation(_leaf_release(plan)), per_row, settings.l2)

    def error(self, rows: float) -> float:
        """Return the typical error of the weight of a leaf with so many rows."""
        return self.noise / (rows * self.curvature + self.penalty)


def _leaf_release(plan: Plan) -> Release:
    """Return the release the leaf weights come from: their own, or the histograms of the splits."""
    labels = [release.label for release in plan.releases()]
    return plan["leaf" if "leaf" in labels else labels[-1]]


def _deviation(release: Release) -> float:
    """Return the standard deviation of its noise, in units of one record's largest contribution."""
    from ledgerwood.accounting import Laplace

    kind = getattr(release.cost, "kind", release.cost)
    scale = release.scale or math.nan
    return math.sqrt(2) * scale if kind is Laplace else scale


def saving(plan: Plan, other: Plan) -> float:
    """Return which part of another plan's noise this one saves, at the leaves."""
    mine, its = _leaf_release(plan).scale, _leaf_release(other).scale
    return max(0.0, 1 - mine / its) if mine and its else 0.0


def trees_for_error(facts: Facts, rows: float, error: float) -> int:
    """Return how many trees keep the leaf error within a limit at these facts' epsilon (0 if not even one).

    Noise grows with the number of trees. Priced by Rényi accounting, which is quick and asks for a little more noise
    than the plan will need, so the answer is on the safe side.
    """

    def fits(trees: int) -> bool:
        asked = replace(facts, trees=trees)
        try:
            plan = asked.plan(method="rdp")
        except CalibrationError:
            return False
        return LeafNoise.of(asked, plan).error(rows) <= error

    most = int(_LIMITS["trees"][1])
    if not fits(1):
        return 0
    low, high = 1, 2
    while high <= most and fits(high):
        low, high = high, 2 * high
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
