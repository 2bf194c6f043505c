"""The public metadata of one fit, and the plan that is complete for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, Context
from functools import lru_cache
from typing import Any, Literal

from ledgerwood import _checks
from ledgerwood._rounding import difference_down, ratio_up
from ledgerwood.accounting import DiscreteLaplace, Plan
from ledgerwood.accounting.plan.releases import InParallel, InSequence, Item, Release
from ledgerwood.errors import ParameterError
from ledgerwood.learners.data.columns import Column, Scalar, Task
from ledgerwood.learners.data.schema import Schema
from ledgerwood.mechanisms import DiscreteLaplaceMechanism

MAX_ROWS = 2**36
"""The rows up to which the integer sums and scores of trees are exact, whatever the values: a public limit.

A record adds at most 2**12 to a sum of gradients and 5/4 of it to one of hessians: 2**49 in all. Selections score
floor(S^2 / n) summed over outputs and sides, at most 2**25 for each record: 2**61, the most that a mechanism takes.
"""


ROW_COUNT = "row count"
"""The label of the release that comes before all others where the number of rows is private."""

HOW_TO_DECLARE = (
    "Declare it: Schema(rows=20_000), or --rows 20000 on the command line; a round public number near the true one is "
    'enough. Or say that the exact number is public: Schema(rows="public")'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCountTuning:
    """What the release of the row count may cost (``benchmarks/row_count.py``, ``docs/theory/row-count.md``)."""

    share: float = 0.01  # of epsilon: .005 to .02 lose at most .002 of accuracy from 5 000 rows on, .05 up to .004
    supposed: int = 10_000  # rows of the plan that must fit a given ledger before the count is released


TUNING = RowCountTuning()


@dataclass(frozen=True)
class RowCount:
    """The number of rows that settings may depend on, and why it may be known.

    Attributes
    ----------
    number
        The number. None while it is private and not yet released.
    source
        ``"declared"`` in the schema, ``"replace_one"``: public by the relation, ``"public"``: the caller says that the
        exact number is, ``"paper"``: by the convention of a paper that is followed to the letter, or ``"released"``.
    epsilon, scale
        What its release costs, as pure DP, and the scale of its discrete Laplace noise; 0 if it is not released.
    """

    number: int | None
    source: Literal["declared", "replace_one", "public", "paper", "released"] = "declared"
    epsilon: float = 0.0
    scale: float = 0.0

    @property
    def is_exact(self) -> bool:
        """Whether it is the true number, which one record more changes: taken as public by the caller or a paper."""
        return self.source in ("public", "paper")

    @classmethod
    def of(cls, schema: Schema, exact: int, epsilon: float, *, paper: bool = False) -> RowCount:
        """Return the count of a fit: the only place where it is decided whether the exact number may be known.

        >>> RowCount.of(Schema(rows=20_000), exact=19_873, epsilon=1.0).number
        20000
        >>> RowCount.of(Schema(), exact=19_873, epsilon=1.0)
        RowCount(number=None, source='released', epsilon=0.01, scale=100.0)
        """
        if schema.rows not in (None, "public"):
            return cls(int(schema.rows), "declared")
        if schema.neighbours == "replace_one" and schema.unit is None:
            return cls(exact, "replace_one")
        if schema.rows == "public":
            return cls(exact, "public")
        if paper:
            return cls(exact, "paper")
        scale = ratio_up(schema.max_rows_per_unit, TUNING.share * epsilon)
        cost = DiscreteLaplace(scale=scale, sensitivity=schema.max_rows_per_unit, neighbours=schema.neighbours)
        return cls(None, "released", cost.pure_epsilon(), scale)

    def known(self) -> int:
        """Return the number; raise if it is not released."""
        if self.number is None:
            rule = "be declared where a plan is made before the fit: the number of rows is private"
            raise ParameterError("rows", rule, None, HOW_TO_DECLARE)
        return self.number

    def released(self, noisy: int) -> RowCount:
        """Return the count after its release, forced into the public range 1 .. :data:`MAX_ROWS`."""
        return replace(self, number=min(max(int(noisy), 1), MAX_ROWS))

    def mechanism(self, max_rows_per_unit: int, neighbours: str) -> DiscreteLaplaceMechanism:
        """Return what releases it: a unit more or less moves the number by at most its rows."""
        return DiscreteLaplaceMechanism(self.scale, max_rows_per_unit, (0, MAX_ROWS), str(neighbours))


@dataclass(frozen=True)
class PublicMetadata:
    """All that a plan may depend on.

    Attributes
    ----------
    columns
        The features. Bounds and categories that are not declared are None here: they are learned later, at a cost.
    task
        ``"classification"`` or ``"regression"``.
    count
        The number of rows that may be known, and why.
    epsilon, delta, neighbours
        The target of everything that is released after the row count.
    classes, target_bounds
        The label values, or the target's bounds if they are declared.
    rows_per_unit
        The most rows of a privacy unit: costs are priced for groups of this size.
    """

    columns: tuple[Column, ...]
    task: Task
    count: RowCount
    epsilon: float
    delta: float
    neighbours: str = "add_remove"
    classes: tuple[Scalar, ...] | None = None
    target_bounds: tuple[float, float] | None = None
    max_rows_per_unit: int = 1

    @property
    def rows(self) -> int:
        """The declared, public or released number of rows."""
        return self.count.known()

    @property
    def opening(self) -> Release | None:
        """The release of the row count, if there is one."""
        if self.count.source != "released":
            return None
        return Release(ROW_COUNT, self.count.mechanism(self.max_rows_per_unit, self.neighbours).cost)

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

    >>> check_rows(2**40, most=2**20)
    Traceback (most recent call last):
    ...
    ledgerwood.errors.ParameterError: rows must be at most 1048576, up to which the sums are exact, got rows='more'...
    """
    if rows > most:
        hint = "Train on a part of the table; nothing was spent"
        raise ParameterError("rows", f"be at most {most}, up to which the sums are exact", "more", hint)


def delta_of(rows: int | None) -> float:
    """Return the delta of ``delta=None``: 1e-6, or if n is public at most a tenth of 1/n, rounded down to one digit.

    A delta of 1/n would allow to publish the record of one person, chosen at random.

    >>> delta_of(None), delta_of(32561), delta_of(3_000_000)
    (1e-06, 1e-06, 3e-08)
    """
    return float(Context(prec=1, rounding=ROUND_DOWN).create_decimal(repr(min(1e-6, 0.1 / max(rows or 1, 1)))))


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


def checked_budget(epsilon: Any, delta: Any, rows: int | None) -> tuple[float, float]:
    """Return epsilon and delta, the latter resolved from the number of rows, if that is public, where it is None."""
    target = _checks.positive("epsilon", epsilon)
    return target, delta_of(rows) if delta is None else _checks.delta_value(delta)


def left_after(count: RowCount, epsilon: float) -> float:
    """Return the epsilon that the release of the row count leaves for all others."""
    return difference_down(epsilon, count.epsilon) if count.epsilon else epsilon
