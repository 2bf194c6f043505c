"""From public metadata to a plan: what the command line and the page both ask of the learners.

>>> request = PlanRequest(recipe="xgb", rows=32561, trees=50, depth=4, epsilon=1.0)
>>> request.target_delta
1e-06
>>> [release.label for release in request.plan().releases()]
['split', 'leaf']
>>> PlanRequest(rows=32561, features=14).what()
'boosted AdaSSP, then boosted random grids: 344 trees of depth 3'
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Self

from ledgerwood import _checks
from ledgerwood.errors import FormatError, ParameterError, did_you_mean

if TYPE_CHECKING:
    from ledgerwood.accounting import Plan
    from ledgerwood.learners.auto.planner import PlannedTraining
    from ledgerwood.learners.trees.settings import TreeSettings

AUTO, LINEAR = "auto", "linear"
MOST_TREES = 2000
_LIMITS = {
    "rows": (2, 10**12),
    "features": (1, 100_000),
    "categories": (0, 100_000),
    "classes": (0, 100),
    "learned": (0, 100_001),
    "unit_rows": (1, 10_000),
    "trees": (1, MOST_TREES),
    "depth": (1, 8),
    "epsilon": (1e-3, 100.0),
    "delta": (0.0, 0.5),
    "share": (0.01, 0.99),
}
_WHOLE = ("rows", "features", "categories", "classes", "learned", "unit_rows", "trees", "depth")
_OPTIONAL = ("delta", "share", "trees", "depth")
_SHOWN_IF_CHANGED = {"categories": 0, "classes": 2, "learned": 0, "unit_rows": 1, "neighbours": "add_remove"}


@cache
def recipe_table() -> list[dict[str, Any]]:
    """Return the recipes for a menu: name, summary, usual size, and whether the budget can be divided."""
    from ledgerwood.learners.trees.recipes import RECIPES, recipe_settings

    chosen = {"trees": None, "depth": None, "divided": False, "share": None}
    ours = "chosen from the public metadata: boosted random grids, a linear model, or one after the other"
    line = "boosted AdaSSP, a linear model; it has no trees"
    rows: list[dict[str, Any]] = [
        {"name": AUTO, "paper": "ours", "summary": ours, **chosen},
        {"name": LINEAR, "paper": "Rho et al. 2022, ours", "summary": line, **chosen},
    ]
    for recipe in RECIPES.values():
        settings = recipe_settings(recipe.name)
        size = {"trees": settings.n_trees, "depth": settings.max_depth}
        divided = {"divided": _is_divided(settings), "share": _usual_share(settings)}
        rows.append({"name": recipe.name, "paper": recipe.paper, "summary": recipe.summary, **size, **divided})
    return rows


def _is_divided(settings: TreeSettings) -> bool:
    loops = settings.loops(2)
    return bool(loops.splits and loops.leaves)


def _usual_share(settings: TreeSettings | None, n_features: int = 2) -> float | None:
    """Return the part that splits take of what splits and leaves take together."""
    if settings is None or not _is_divided(settings):
        return None
    _, split, leaf = settings.shares or settings.loops(n_features).queries
    return split / (split + leaf)


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """Public metadata about a training run that has not happened yet. No data, nothing learned from data.

    Attributes
    ----------
    recipe
        ``auto`` (what ``ledgerwood train`` does by itself), ``linear``, or a recipe for trees.
    rows, features, categories
        The public size of the table; how many of the features are categories.
    classes
        The number of classes; 0 is a number to predict.
    learned
        How many columns of numbers have no public bounds, so that these are learned first.
    unit_rows
        How many rows one person (the privacy unit) may have.
    trees, depth
        The size of the model; None is the recipe's own, or the rule's choice.
    epsilon, delta
        The target; delta is 1e-6, or a tenth of 1/rows if that is less, if it is not given.
    share
        The part of the budget for choosing splits, the rest being for the leaves; None is the recipe's own.
    neighbours
        What the guarantee compares.
    """

    recipe: str = AUTO
    rows: int = 32561
    features: int = 14
    trees: int | None = None
    depth: int | None = None
    epsilon: float = 1.0
    delta: float | None = None
    share: float | None = None
    neighbours: str = "add_remove"
    categories: int = 0
    classes: int = 2
    learned: int = 0
    unit_rows: int = 1

    def __post_init__(self) -> None:
        known = {row["name"]: row for row in recipe_table()}
        if not isinstance(self.recipe, str) or self.recipe not in known:
            raise ParameterError(
                "recipe", f"be one of {', '.join(known)}", self.recipe, did_you_mean(self.recipe, known)
            )
        for name in ("trees", "depth"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, known[self.recipe][name])
            elif self.recipe == LINEAR:
                raise ParameterError(name, "be left out: a linear model has no trees", getattr(self, name))
        for name, (low, high) in _LIMITS.items():
            value = getattr(self, name)
            if value is None and name in _OPTIONAL:
                continue
            whole = name in _WHOLE
            if not (_checks.is_integer(value) if whole else _checks.is_real(value)):
                raise ParameterError(name, "be an integer" if whole else "be a number", value)
            if not low <= value <= high:
                raise ParameterError(name, f"lie between {low:g} and {high:g}", value)
            object.__setattr__(self, name, int(value) if whole else float(value))  # JSON may say 1 for 1.0
        if self.delta == 0:
            raise ParameterError("delta", "be positive", self.delta)
        if self.classes == 1:
            raise ParameterError("classes", "be at least 2, or 0 for a number to predict", self.classes)
        if self.categories > self.features:
            raise ParameterError("categories", f"be at most the number of features, {self.features}", self.categories)
        numbers = self.features - self.categories + (self.classes == 0)
        if self.learned > numbers:
            raise ParameterError("learned", f"be at most {numbers}, the columns of numbers", self.learned)
        if self.neighbours not in ("add_remove", "replace_one"):
            raise ParameterError("neighbours", "be 'add_remove' or 'replace_one'", self.neighbours)
        if self.neighbours == "replace_one" and self.unit_rows > 1:
            raise ParameterError("unit_rows", "be 1 under neighbours='replace_one'", self.unit_rows)

    @classmethod
    def from_mapping(cls, given: Any) -> Self:
        """Read a request from JSON values, strictly."""
        if not isinstance(given, Mapping):
            raise FormatError("the request must be a JSON object")
        known = [field.name for field in fields(cls)]
        for name in given:
            if name not in known:
                raise FormatError(f"unknown field {name!r}; known are {', '.join(known)}")
        return cls(**given)

    def to_mapping(self) -> dict[str, Any]:
        """Return what :meth:`from_mapping` reads."""
        return asdict(self)

    @property
    def target_delta(self) -> float:
        """The delta of the guarantee."""
        from ledgerwood.learners.training.public_metadata import delta_of

        return delta_of(self.rows) if self.delta is None else float(self.delta)

    @property
    def training(self) -> PlannedTraining:
        """The training that ``ledgerwood train`` would run."""
        return _training(self)

    @property
    def settings(self) -> TreeSettings | None:
        """The settings of its trees, None if it has none."""
        return self.training.settings

    def plan(self, method: str | None = None) -> Plan:
        """Return the calibrated plan: what a training run of this request will spend."""
        return self.training.plan(method)

    def what(self) -> str:
        """Return in a few words what is trained."""
        choice, settings = self.training.choice, self.settings
        name = choice.model if choice is not None else "boosted AdaSSP" if settings is None else self.recipe
        if settings is None:
            return name
        several = "tree" if settings.n_trees == 1 else "trees"
        each = " for each feature" if settings.trees_per_feature else ""
        return f"{name}: {settings.n_trees} {several}{each} of depth {settings.max_depth}"

    def steps(self) -> tuple[int, str]:
        """Return how many equal steps the training has, and their name: trees, or the rounds of a linear model."""
        if self.settings is not None:
            return self.settings.n_trees, "trees"
        return self.plan("rdp")["gradients"].times, "rounds"

    def _size(self) -> dict[str, Any]:
        settings = self.settings
        if settings is None:
            return {"trees": None, "depth": None}
        return {"trees": settings.n_trees, "depth": settings.max_depth}

    def statement(self, plan: Plan) -> str:
        """Return the sentence that may be published about a plan of this request."""
        person = f"one person, of whom at most {self.unit_rows} rows are used, added or removed"
        return " ".join([plan.statement(person if self.unit_rows > 1 else None), *self.cautions()])

    def cautions(self) -> tuple[str, ...]:
        """Return why the guarantee says little, if it does."""
        from ledgerwood.learners.training.statement import cautions

        return cautions(self.epsilon, self.target_delta, self.rows)

    # ---- the same question elsewhere

    def command(self) -> str:
        """Return the command that asks the same."""
        words = ["ledgerwood", "plan"]
        for name, value in self._shown().items():
            words += [f"--{name.replace('_', '-')}", str(value)]
        return shlex.join(words)

    def _shown(self) -> dict[str, Any]:
        every = {**asdict(self), "delta": self.target_delta}
        if self.classes == 0:
            every = {**every, "task": "regression", "classes": 2}
        return {
            name: value for name, value in every.items() if value is not None and value != _SHOWN_IF_CHANGED.get(name)
        }

    def python(self) -> str:
        """Return Python that makes the same plan, and the model that will spend it."""
        target = {"epsilon": self.epsilon, "delta": self.target_delta}
        known: dict[str, Any] = {"n_rows": self.rows, "n_features": self.features, **target}
        more = {
            "n_categories": (self.categories, 0), "n_classes": (self.classes or None, 2),
            "n_learned": (self.learned, 0), "max_rows_per_unit": (self.unit_rows, 1),
            "neighbours": (self.neighbours, "add_remove"),
        }  # fmt: skip
        known |= {name: value for name, (value, usual) in more.items() if value != usual}
        options = _options(self)
        family = {AUTO: "Private" if not options else "PrivateBoosting", LINEAR: "BoostedAdaSSP"}
        kind = f"{family.get(self.recipe, 'PrivateBoosting')}{'Classifier' if self.classes else 'Regressor'}"
        recipe = {"recipe": self.recipe} if kind.startswith("PrivateBoosting") else {}
        return (
            f"from ledgerwood.learners import {kind}, plan_training\n\n"
            f"plan = plan_training({self.recipe!r}, {_listed(**known, **options)})\n"
            "print(plan.table())\n"
            f"model = {kind}({_listed(**recipe, **target, **options)})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, what was left open filled in."""
        share = _usual_share(self.settings, self.features)
        return {**asdict(self), **self._size(), "delta": self.target_delta, "share": share}


@lru_cache(maxsize=256)
def _training(request: PlanRequest) -> PlannedTraining:
    from ledgerwood.learners.auto.planner import declared_metadata, training_of

    public = declared_metadata(
        n_rows=request.rows, n_features=request.features, epsilon=request.epsilon, delta=request.target_delta,
        n_categories=request.categories, n_classes=request.classes or None, n_learned=request.learned,
        neighbours=request.neighbours, max_rows_per_unit=request.unit_rows,
    )  # fmt: skip
    return training_of(request.recipe, public, **_options(request))


def _options(request: PlanRequest) -> dict[str, Any]:
    """Return the settings that are not the recipe's own choice."""
    found: dict[str, Any] = {"n_trees": request.trees, "max_depth": request.depth}
    if request.share is not None and request.recipe not in (AUTO, LINEAR):
        from ledgerwood.learners.trees.recipes import recipe_settings

        settings = recipe_settings(request.recipe, **{k: v for k, v in found.items() if v is not None})
        if _is_divided(settings):
            sketch, split, leaf = settings.shares or settings.loops(request.features).queries
            whole = sketch + split + leaf
            rest = (split + leaf) / whole
            found["shares"] = sketch / whole, rest * request.share, rest * (1 - request.share)
    return {name: value for name, value in found.items() if value is not None}


def _listed(**arguments: Any) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items())
