"""From public facts to an answer: what the command line and the page both ask.

>>> facts = Facts(rows=32561, trees=50, depth=4, epsilon=1.0)
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
from typing import TYPE_CHECKING, Any, Self

from ledgerwood.app.options import delta_for
from ledgerwood.errors import CalibrationError, FormatError, ParameterError

if TYPE_CHECKING:
    from ledgerwood.accounting import Plan

RECIPES = {"xgb": "DP-XGB: greedy splits by private selection, Newton leaves"}
_LIMITS = {
    "rows": (1, 10**12),
    "features": (1, 100_000),
    "trees": (1, 2000),
    "depth": (1, 12),
    "epsilon": (1e-3, 100.0),
    "delta": (0.0, 0.5),
    "share": (0.01, 0.99),
}


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
        The part of the budget for choosing splits; the rest is for the leaves.
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
    share: float = 0.7
    neighbours: str = "add_remove"

    def __post_init__(self) -> None:
        if self.recipe not in RECIPES:
            raise ParameterError("recipe", f"be one of {', '.join(RECIPES)}", self.recipe)
        for name, (low, high) in _LIMITS.items():
            value = getattr(self, name)
            if value is None:
                continue
            wanted = int if name in ("rows", "features", "trees", "depth") else (int, float)
            if isinstance(value, bool) or not isinstance(value, wanted):
                raise ParameterError(name, "be an integer" if wanted is int else "be a number", value)
            if not low <= value <= high:
                raise ParameterError(name, f"lie between {low:g} and {high:g}", value)
        if self.delta == 0:
            raise ParameterError("delta", "be positive: leaves get Gaussian noise", self.delta)
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

    @property
    def target_delta(self) -> float:
        """The delta of the guarantee."""
        return delta_for(self.rows) if self.delta is None else float(self.delta)

    def open_plan(self) -> Plan:
        """Return the releases of the training run, before their noise is known."""
        from ledgerwood.accounting import BoundedRange, Gaussian, Plan, Release

        return Plan(
            [
                Release("split", cost=BoundedRange, times=self.trees * self.depth, share=self.share),
                Release("leaf", cost=Gaussian, times=self.trees, share=1 - self.share),
            ],
            neighbours=self.neighbours,
        )

    def plan(self, method: str | None = None) -> Plan:
        """Return the calibrated plan: what a training run with these facts will spend."""
        return self.open_plan().calibrate(epsilon=self.epsilon, delta=self.target_delta, method=method)

    # ---- the same question elsewhere

    def command(self) -> str:
        """Return the command that asks the same."""
        words = ["ledgerwood", "plan"]
        for name, value in self._told().items():
            words += [f"--{name}", str(value)]
        return shlex.join(words)

    def python(self) -> str:
        """Return the Python that asks the same."""
        arguments = ", ".join(f"{name}={value!r}" for name, value in self._told().items())
        return f"from ledgerwood.app.planning import Facts\n\nplan = Facts({arguments}).plan()\nprint(plan.table())"

    def _told(self) -> dict[str, Any]:
        told = {**asdict(self), "delta": self.target_delta}
        if self.neighbours == "add_remove":
            del told["neighbours"]
        return told

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, delta filled in."""
        return {**asdict(self), "delta": self.target_delta}


def leaf_error(sigma: float, rows: float, *, curvature: float = 0.25, penalty: float = 1.0) -> float:
    r"""Return the typical error that noise puts on the weight of a leaf with so many rows.

    The weight is :math:`-G/(H+\lambda)`. Noise of standard deviation sigma on :math:`G` moves it by
    :math:`\sigma/(H+\lambda)`; :math:`H` is ``curvature`` per row, 1/4 for the logistic loss at an even chance, where
    the noise on :math:`H` matters least. Log-odds of 1 are a factor of e.

    >>> leaf_error(45.0, 500.0) < 0.4 < leaf_error(45.0, 50.0)
    True
    """
    return sigma / (rows * curvature + penalty)


def trees_for_error(facts: Facts, rows: float, error: float) -> int:
    """Return how many trees keep the leaf error within a limit at these facts' epsilon (0 if not even one).

    Noise grows with the number of trees. Priced by Rényi accounting, which is quick and asks for a little more noise
    than the plan will need, so the answer is on the safe side.
    """

    def fits(trees: int) -> bool:
        try:
            plan = replace(facts, trees=trees).plan(method="rdp")
        except CalibrationError:
            return False
        return leaf_error(sigma_of(plan), rows) <= error

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


def sigma_of(plan: Plan) -> float:
    """Return the largest noise among the plan's leaf releases, per unit of sensitivity."""
    return max((r.scale for r in plan.releases() if r.label.startswith("leaf") and r.scale), default=math.nan)
