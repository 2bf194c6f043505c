"""The public metadata of one fit, and the plan that is complete for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, Context
from functools import lru_cache
from typing import Any

from ledgerwood import _checks
from ledgerwood.accounting import Plan
from ledgerwood.accounting.plan.releases import InParallel, InSequence, Item, Release
from ledgerwood.errors import ParameterError
from ledgerwood.learners.data.columns import Column, Scalar, Task

MAX_ROWS = 2**36
"""The rows up to which the integer sums and scores of trees are exact, whatever the values: a public limit.

A record adds at most 2**12 to a sum of gradients and 5/4 of it to one of hessians: 2**49 in all. Selections score
floor(S^2 / n) summed over outputs and sides, at most 2**25 for each record: 2**61, the most that a mechanism takes.
"""


@dataclass(frozen=True)
class PublicMetadata:
    """All that a plan may depend on.

    Attributes
    ----------
    columns
        The features. Bounds and categories that are not declared are None here: they are learned later, at a cost.
    task
        ``"classification"`` or ``"regression"``.
    rows
        The public number of rows, or by convention the number of rows given.
    epsilon, delta, neighbours
        The target.
    classes, target_bounds
        The label values, or the target's bounds if they are declared.
    rows_per_unit
        The most rows of a privacy unit: costs are priced for groups of this size.
    """

    columns: tuple[Column, ...]
    task: Task
    rows: int
    epsilon: float
    delta: float
    neighbours: str = "add_remove"
    classes: tuple[Scalar, ...] | None = None
    target_bounds: tuple[float, float] | None = None
    max_rows_per_unit: int = 1

    @property
    def n_features(self) -> int:
        """The number of features."""
        return len(self.columns)

    @property
    def n_outputs(self) -> int:
        """Scores per row: one, or one per class from three classes on."""
        return len(self.classes) if self.classes is not None and len(self.classes) > 2 else 1


def check_rows(rows: int, most: int) -> None:
    """Refuse more rows than a learner's sums can hold: by their number alone, before anything is spent.

    >>> check_rows(2**40, most=2**36)
    Traceback (most recent call last):
    ...
    ledgerwood.errors.ParameterError: rows must be at most 68719476736, up to which the sums are exact, got ...
    """
    if rows > most:
        hint = "Train on a part of the table; nothing was spent"
        raise ParameterError("rows", f"be at most {most}, up to which the sums are exact", rows, hint)


def delta_of(rows: int) -> float:
    """Return the delta of ``delta=None``: 1e-6, or a tenth of 1/n rounded down to one digit if that is less.

    A delta of 1/n would allow to publish the record of one person, chosen at random.

    >>> delta_of(32561), delta_of(3_000_000)
    (1e-06, 3e-08)
    """
    return float(Context(prec=1, rounding=ROUND_DOWN).create_decimal(repr(min(1e-6, 0.1 / max(rows, 1)))))


@lru_cache(maxsize=64)
def complete_plan(
    plan: Plan, metadata: PublicMetadata, extra: tuple[Release, ...] = (), method: str | None = None
) -> Plan:
    """Return a learner's plan, with the releases that come before it, priced for the unit and calibrated.

    Parameters
    ----------
    plan
        What the learner releases, calibrated or not. Its releases keep their noise parameters' meaning: that of
        *one record's* mechanism, whatever the unit.
    metadata
        The public metadata.
    extra
        Releases made before training (bounds, categories), already priced for the unit, with shares on the scale of
        ``plan``'s shares.
    method
        The accounting method for calibrating; by default the tightest certified one.
    """
    if plan.neighbours != metadata.neighbours:
        raise ParameterError(
            "plan", f"be stated for the schema's neighbours, {metadata.neighbours!r}", str(plan.neighbours)
        )
    if metadata.max_rows_per_unit == 1 and not extra:
        return plan if plan.is_calibrated else plan.calibrate(metadata.epsilon, metadata.delta, method=method)
    items = (*extra, *(_for_unit(item, metadata.max_rows_per_unit) for item in plan.items))
    return replace(plan, items=items, epsilon=None, delta=None, reserve_mu=None).calibrate(
        metadata.epsilon, metadata.delta, method=method
    )


def total_share(plan: Plan) -> float:
    """Return the sum of a plan's shares."""
    return plan._shares()


def _for_unit(item: Item, rows: int) -> Item:
    """Return an item of a plan for one record, charged for a unit of that many rows."""
    if rows == 1:
        return item
    match item:
        case Release():
            return item.with_group(rows)
        case InSequence():
            return replace(item, releases=tuple(release.with_group(rows) for release in item.members))
        case InParallel():
            raise ParameterError(
                "plan",
                "have no parallel groups when a unit has several rows: they may lie in several parts",
                item.label,
            )


def checked_budget(epsilon: Any, delta: Any, rows: int) -> tuple[float, float]:
    """Return epsilon and delta, the latter resolved from the number of rows if it is None."""
    target = _checks.positive("epsilon", epsilon)
    return target, delta_of(rows) if delta is None else _checks.delta_value(delta)
