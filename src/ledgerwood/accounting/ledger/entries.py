"""The arithmetic of a ledger: entries, what each takes, and the totals.

A ledger's state knows nothing of files, threads or noise. A new entry passes three steps: ``quote`` (what would it
take?), ``check`` (refuse by raising) and ``commit``. A replay runs the first and the last: what is on record was spent.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ledgerwood._rounding import ULP
from ledgerwood.accounting.adjacency import Neighbours
from ledgerwood.accounting.costs.base import Cost
from ledgerwood.accounting.costs.parallel import PART_HINT, PART_RULE
from ledgerwood.accounting.ledger.odometer import loss_curve, no_loss, time_uniform_epsilon
from ledgerwood.errors import NeighboursMismatch, ParameterError

Curve = NDArray[np.float64]

KINDS = frozenset({"release", "charge", "plan", "parallel", "end", "split", "merge", "closed", "torn"})


NOT_PRIVATE = " WARNING: some noise came from a seeded generator, so the releases are reproducible and not private."


def drawn_elsewhere(charges: int) -> str:
    """What a statement says about charges for noise that the ledger did not draw; nothing if there are none."""
    if not charges:
        return ""
    return f" The noise of {charges} of the charges was drawn elsewhere; that it has the cost charged is assumed."


class LedgerEntry(NamedTuple):
    """One line of a journal.

    ``kind`` is ``"release"``, ``"charge"`` (its noise is drawn elsewhere), ``"plan"`` (a whole plan is paid),
    ``"parallel"`` (a block begins), ``"end"`` (it ends), ``"split"``, ``"merge"``, ``"closed"`` or ``"torn"``.
    ``block`` and ``part`` place a release in a parallel block; ``block`` alone, in a plan. ``id`` names a release whose
    noise is a function of that name: the same release may then be made again, at no cost. ``at`` is when it was
    recorded (ISO 8601, with its zone), ``who`` the label of whoever asked. ``charged`` is what it took, in units of
    1e-30 of the filter's limit and of the reserved delta; ``rule`` the filter, if this request chose it.
    """

    kind: str
    label: str = ""
    cost: Cost | None = None
    private: bool = True
    block: int | None = None
    part: int | str | None = None
    data: Mapping[str, Any] | None = None
    id: str | None = None
    at: str | None = None
    who: str | None = None
    charged: tuple[int, int] | None = None
    rule: Mapping[str, Any] | None = None

    @property
    def request(self) -> LedgerEntry:
        """The entry without what the ledger added to it: when, for whom, and at what price."""
        return self._replace(at=None, who=None, charged=None, rule=None)


class Amount(NamedTuple):
    """What a release takes: filter units, delta of its own (in units), and its loss curve."""

    units: int
    delta_units: int
    curve: Curve

    def plus(self, more: Amount) -> Amount:
        """Return the sum."""
        return Amount(self.units + more.units, self.delta_units + more.delta_units, self.curve + more.curve)


class Touched(NamedTuple):
    """What a part's releases take for one record added or removed, and for two: a record replaced inside the part."""

    once: Amount
    twice: Amount

    def plus(self, more: Touched) -> Touched:
        """Return the sum."""
        return Touched(self.once.plus(more.once), self.twice.plus(more.twice))


@dataclass(slots=True)
class WorstPart:
    """The worst total, of totals that only grow: over parts (add/remove); for replace-one over pairs of parts and
    over two records of one part (docs/theory/parallel-composition.md).
    """

    pairs: bool
    first: tuple[Hashable, int] = (None, 0)
    second: tuple[Hashable, int] = (None, 0)
    twice: int = 0

    @property
    def value(self) -> int:
        """The worst so far."""
        return max(self.first[1] + self.second[1], self.twice) if self.pairs else self.first[1]

    def raised(self, part: Hashable, total: int, twice: int) -> WorstPart:
        """Return the state after ``part``'s total grew to ``total``, that of two records to ``twice``."""
        first, second, mine = self.first, self.second, (part, total)
        if first[0] == part:
            first = mine
        elif total > first[1]:
            first, second = mine, first
        elif second[0] == part or total > second[1]:
            second = mine
        return WorstPart(self.pairs, first, second, max(self.twice, twice))


@dataclass(slots=True)
class ParallelBlock:
    """A parallel block: totals of each part, and the worst of them."""

    label: str
    units: WorstPart
    delta_units: WorstPart
    parts: dict[int | str, Touched] = field(default_factory=dict)

    @classmethod
    def begin(cls, label: str, *, pairs: bool) -> ParallelBlock:
        """Return a block in which nothing has been released."""
        return cls(label, WorstPart(pairs), WorstPart(pairs))

    def total_with(self, part: int | str, amount: Touched) -> Touched:
        """Return the total of ``part`` after one more release."""
        before = self.parts.get(part)
        return amount if before is None else before.plus(amount)

    def curve(self) -> Curve:
        """Return the worst loss curve, order by order."""
        if not self.parts:
            return no_loss()
        ranked = np.sort(np.array([total.once.curve for total in self.parts.values()]), axis=0)
        worst: Curve = ranked[-1]
        if self.units.pairs:
            twice = np.max([total.twice.curve for total in self.parts.values()], axis=0)
            worst = np.maximum(ranked[-2:].sum(axis=0), twice)
        return worst


class Charge(NamedTuple):
    """A quoted entry: what committing it adds to the total."""

    entry: LedgerEntry
    units: int = 0
    delta_units: int = 0
    amount: Amount | None = None
    block: ParallelBlock | None = None
    total: Touched | None = None
    step: Any = None


class RunningTotal:
    """Loss curves of everything released, for the odometer."""

    def __init__(self) -> None:
        self._base = no_loss()
        self._additions = 0
        self._open: dict[int, ParallelBlock] = {}
        self._reserved: dict[str, Curve] = {}
        self._waiting: dict[Cost, int] = {}

    def add_cost(self, cost: Cost) -> None:
        """Add a release outside of any block whose curve is computed when it is asked for."""
        self._waiting[cost] = self._waiting.get(cost, 0) + 1

    def add(self, curve: Curve) -> None:
        """Add a release outside of any block."""
        self._base += curve
        self._additions += 1

    def watch(self, number: int, block: ParallelBlock) -> None:
        """Follow an open block."""
        self._open[number] = block

    def finalize(self, number: int) -> None:
        """Add a block that has ended."""
        block = self._open[number]
        self._additions += len(block.parts)
        self.add(block.curve())
        del self._open[number]  # last: an interrupt may count it twice, not lose it

    def reserve(self, child: str, curve: Curve) -> None:
        """Set aside what a sub-ledger may spend."""
        self._reserved[child] = curve

    def unreserve(self, child: str) -> None:
        """Take back what was set aside."""
        del self._reserved[child]

    def total(self) -> Curve:
        """Return the sum of everything added, open or set aside, rounded up."""
        for cost, times in self._waiting.items():
            self._base += times * loss_curve(cost)
            self._additions += 2
        self._waiting = {}
        total = self._base.copy()
        for curve in (*(block.curve() for block in self._open.values()), *self._reserved.values()):
            total += curve
        # Each addition may have lost half a unit in the last place.
        additions = self._additions + sum(len(b.parts) + 1 for b in self._open.values()) + len(self._reserved)
        return total * (1 + (additions + 1) * ULP)

    def epsilon(self, delta: float) -> float:
        """Return the odometer's reading."""
        return time_uniform_epsilon(self.total(), delta)


def checked_cost(cost: Any, neighbours: str) -> Cost:
    """Refuse what is not a cost, or is stated for another adjacency than the ledger."""
    if not isinstance(cost, Cost):
        raise ParameterError("mechanism.cost", "be a cost", type(cost).__name__)
    if cost.neighbours != neighbours:
        raise NeighboursMismatch(neighbours, cost.neighbours)
    return cost


def checked_part_cost(cost: Any) -> Cost:
    """Refuse what is not the cost of a part for one record added or removed."""
    if isinstance(cost, Cost) and cost.neighbours != Neighbours.ADD_REMOVE:
        raise ParameterError("mechanism.cost", PART_RULE, str(cost.neighbours), PART_HINT)
    return checked_cost(cost, Neighbours.ADD_REMOVE)


def touched(cost: Cost, amount: Callable[[Cost], Amount], block: ParallelBlock) -> Touched:
    """Return what a release in a part takes; two records of one part are asked for under replace-one only."""
    once = amount(cost)
    return Touched(once, amount(cost.group(2)) if block.units.pairs else once)


def _raised(block: ParallelBlock, part: int | str, total: Touched) -> tuple[WorstPart, WorstPart]:
    once, twice = total
    return (
        block.units.raised(part, once.units, twice.units),
        block.delta_units.raised(part, once.delta_units, twice.delta_units),
    )


def child_name(number: int, index: int) -> str:
    """Return the name of the sub-ledger ``index`` of the split that is entry ``number``."""
    return f"{number}-{index}"


def curve_to_json(curve: Curve) -> list[float | None]:
    """Return a curve as JSON numbers, infinity as null."""
    return [float(x) if np.isfinite(x) else None for x in curve]


def curve_from_json(values: list[float | None]) -> Curve:
    """Read what :func:`curve_to_json` wrote."""
    return np.array([np.inf if x is None else x for x in values], dtype=np.float64)
