"""The ledger's arithmetic: entries, what they take, and whether they may be posted.

Books know nothing of files, threads or noise. A live entry runs three steps: ``review`` (what would it take?),
``admit`` (refuse by raising) and ``post``. A replay runs the first and the last: what is on record was spent.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ledgerwood.accounting.algebra import Cost
from ledgerwood.accounting.disjoint import PART_HINT, PART_RULE
from ledgerwood.accounting.filters import Filter, from_units, to_units
from ledgerwood.accounting.neighbours import Neighbours
from ledgerwood.accounting.odometer import ORDERS, loss_curve, no_loss, own_delta, time_uniform_epsilon
from ledgerwood.errors import (
    BudgetExceeded,
    LedgerClosed,
    MethodUnavailable,
    NeighboursMismatch,
    ParameterError,
)

Curve = NDArray[np.float64]
KINDS = frozenset({"release", "parallel", "end", "split", "merge", "closed", "torn"})


NOT_PRIVATE = " WARNING: some noise came from a seeded generator, so the releases are reproducible and not private."


def round_up(value: float, digits: int = 6) -> str:
    """Return a number with that many significant digits, never less than it is.

    >>> round_up(1.00000001), round_up(0.1)
    ('1.00001', '0.1')
    """
    context = Context(prec=digits, rounding=ROUND_CEILING)
    return f"{float(context.create_decimal(repr(float(value)))):.{digits}g}"


class Entry(NamedTuple):
    """One line of a journal.

    ``kind`` is ``"release"``, ``"parallel"`` (a block begins), ``"end"`` (it ends), ``"split"``, ``"merge"``,
    ``"closed"`` or ``"torn"``. ``block`` and ``part`` place a release in a parallel block. ``id`` names a release
    whose noise is a function of that name: the same release may then be made again, for nothing.
    """

    kind: str
    label: str = ""
    cost: Cost | None = None
    private: bool = True
    block: int | None = None
    part: int | str | None = None
    data: Mapping[str, Any] | None = None
    id: str | None = None


class Amount(NamedTuple):
    """What a release takes: filter units, outright delta (in units), and its loss curve."""

    units: int
    outright: int
    curve: Curve

    def plus(self, more: Amount) -> Amount:
        """Return the sum."""
        return Amount(self.units + more.units, self.outright + more.outright, self.curve + more.curve)


@dataclass(frozen=True, slots=True)
class Balance:
    """An amount of a ledger's budget.

    Attributes
    ----------
    amount
        In the unit of the ledger's filter.
    limit
        The ledger's whole budget in that unit.
    epsilon
        What a ledger with that amount as its whole budget would be worth, at ``delta``.
    delta
        The ledger's delta.
    outright
        The part of delta spent (or left) by costs that spend delta outright.
    filter
        The filter whose unit this is; None for a plan, whose unit is the small-scale concentrated cost.
    """

    amount: float
    limit: float
    epsilon: float
    delta: float
    outright: float
    filter: Filter | None

    @property
    def fraction(self) -> float:
        """The amount as a fraction of the limit."""
        return self.amount / self.limit


class Touched(NamedTuple):
    """What a part's releases take for one record added or removed, and for two: a record replaced inside the part."""

    once: Amount
    twice: Amount

    def plus(self, more: Touched) -> Touched:
        """Return the sum."""
        return Touched(self.once.plus(more.once), self.twice.plus(more.twice))


@dataclass(slots=True)
class Worst:
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

    def raised(self, part: Hashable, total: int, twice: int) -> Worst:
        """Return the state after ``part``'s total grew to ``total``, that of two records to ``twice``."""
        first, second, mine = self.first, self.second, (part, total)
        if first[0] == part:
            first = mine
        elif total > first[1]:
            first, second = mine, first
        elif second[0] == part or total > second[1]:
            second = mine
        return Worst(self.pairs, first, second, max(self.twice, twice))


@dataclass(slots=True)
class Block:
    """A parallel block: totals of each part, and the worst of them."""

    label: str
    units: Worst
    outright: Worst
    parts: dict[int | str, Touched] = field(default_factory=dict)

    @classmethod
    def begin(cls, label: str, *, pairs: bool) -> Block:
        """Return a block in which nothing has been released."""
        return cls(label, Worst(pairs), Worst(pairs))

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


class Posting(NamedTuple):
    """A reviewed entry: what posting it adds to the total."""

    entry: Entry
    units: int = 0
    outright: int = 0
    amount: Amount | None = None
    block: Block | None = None
    total: Touched | None = None
    step: Any = None


class Tally:
    """Loss curves of everything released, for the odometer."""

    def __init__(self) -> None:
        self._base = no_loss()
        self._additions = 0
        self._open: dict[int, Block] = {}
        self._reserved: dict[str, Curve] = {}

    def add(self, curve: Curve) -> None:
        """Enter a release outside of any block."""
        self._base += curve
        self._additions += 1

    def watch(self, number: int, block: Block) -> None:
        """Follow an open block."""
        self._open[number] = block

    def settle(self, number: int) -> None:
        """Enter a block that has ended."""
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
        """Return the sum of everything entered, open or set aside, rounded up."""
        total = self._base.copy()
        for curve in (*(block.curve() for block in self._open.values()), *self._reserved.values()):
            total += curve
        # Each addition may have lost half a unit in the last place.
        additions = self._additions + sum(len(b.parts) + 1 for b in self._open.values()) + len(self._reserved)
        return total * (1 + (additions + 1) * 2.0**-52)

    def epsilon(self, delta: float) -> float:
        """Return the odometer's reading."""
        return time_uniform_epsilon(self.total(), delta)


def checked_cost(cost: Any, neighbours: str) -> Cost:
    """Refuse what is no cost, or speaks of other neighbours than the ledger."""
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


class FilterBooks:
    """Books kept by a privacy filter: any cost, chosen at any time, while the sum stays within the limit."""

    _CACHE = 4096

    def __init__(self, rule: Filter, neighbours: str, budget: tuple[int, int] | None = None) -> None:
        self.filter: Filter = rule
        self.neighbours = neighbours
        self.limit, self.outright_limit = budget or (
            to_units(rule.limit, up=False),
            to_units(rule.outright, up=False),
        )
        self.used = self.outright_used = 0
        self.tally = Tally()
        self.closed = False
        self._blocks: dict[int, Block] = {}
        self._children: dict[str, tuple[int, int]] = {}
        self._entries = 1  # the opening record is number 0
        self._prices: dict[Cost, Amount] = {}

    def review(self, entry: Entry) -> Posting:
        """Return what the entry takes; refuse only what cannot be entered at all (a replay must not refuse)."""
        match entry.kind:
            case "release":
                return self._review_release(entry)
            case "split":
                units = sum(child[0] for child in _shares(entry))
                outright = sum(child[1] for child in _shares(entry))
                return Posting(entry, units, outright)
            case "merge":
                return self._review_merge(entry)
        return Posting(entry)

    def post(self, posting: Posting) -> None:
        """Enter a reviewed entry."""
        entry = posting.entry
        self.used += posting.units
        self.outright_used += posting.outright
        match entry.kind:
            case "release" if posting.block is None:
                assert posting.amount is not None
                self.tally.add(posting.amount.curve)
            case "release":
                _enter(posting)
            case "parallel":
                block = Block.begin(entry.label, pairs=self.neighbours == "replace_one")
                self._blocks[self._entries] = block
                self.tally.watch(self._entries, block)
            case "end":
                assert entry.block is not None
                del self._blocks[entry.block]
                self.tally.settle(entry.block)
            case "split":
                for i, (units, outright) in enumerate(_shares(entry)):
                    child = child_name(self._entries, i)
                    self._children[child] = (units, outright)
                    self.tally.reserve(child, self._reserve_curve(units))
            case "merge":
                assert entry.data is not None
                del self._children[entry.data["child"]]
                self.tally.add(curve_from_json(entry.data["curve"]))
                self.tally.unreserve(entry.data["child"])
            case "closed":
                self.closed = True
        self._entries += 1

    @property
    def next_number(self) -> int:
        """The number the next entry will have."""
        return self._entries

    def spent(self) -> Balance:
        """Return what has been spent, what sub-ledgers hold included."""
        return self._balance(self.used, self.outright_used)

    def remaining(self) -> Balance:
        """Return what is left."""
        return self._balance(self.limit - self.used, max(self.outright_limit - self.outright_used, 0))

    def odometer_delta(self, delta: float | None) -> float | None:
        """Return the part of delta (the ledger's by default) that is the odometer's own."""
        whole = self.filter.delta if delta is None else delta
        return own_delta(whole, self.filter.outright, spent=self.outright_used > 0)

    def statement(self, *, releases: int, private: bool) -> str:
        """Return the guarantee as a full sentence."""
        rule = self.filter
        return (
            f"The {releases} releases recorded here so far, and all that this ledger will still allow, are together "
            f"(epsilon={round_up(rule.worth(from_units(self.limit)))}, delta={round_up(rule.delta)})-differentially "
            f"private for {Neighbours(self.neighbours).sentence}, however each was chosen from earlier outputs; "
            f"accounting: {rule.name} filter, fixed before the first release; assumed: the sensitivities the "
            f"mechanisms state, disjoint parts in parallel blocks, and no other way out of the data."
            + ("" if private else NOT_PRIVATE)
        )

    def divide(self, by: list[float]) -> list[tuple[int, int]]:
        """Return shares of what is left, in units, never more in all than is left."""
        left, outright_left = self.limit - self.used, self.outright_limit - self.outright_used
        units, outright = left, outright_left
        shares = []
        for fraction in map(Fraction, map(repr, by)):
            share = min(int(units * fraction), left), min(int(outright * fraction), outright_left)
            left, outright_left = left - share[0], outright_left - share[1]
            shares.append(share)
        return shares

    def _amount(self, cost: Cost) -> Amount:
        found = self._prices.get(cost)
        if found is None:
            outright = cost.infinite_mass()
            if outright > 0 and self.outright_limit == 0:
                raise MethodUnavailable(
                    self.filter.name,
                    "it spends delta outright and the ledger keeps none for that; nothing was released. "
                    "Open the ledger with outright=... (a part of delta)",
                )
            found = Amount(to_units(self.filter.price(cost)), to_units(outright), loss_curve(cost))
            if len(self._prices) >= self._CACHE:
                self._prices.clear()
            self._prices[cost] = found
        return found

    def _review_release(self, entry: Entry) -> Posting:
        if entry.block is None:
            amount = self._amount(checked_cost(entry.cost, self.neighbours))
            return Posting(entry, amount.units, amount.outright, amount)
        block = self._blocks.get(entry.block)
        if block is None:
            raise LedgerClosed("this parallel block has ended; nothing was released")
        assert entry.part is not None
        total = block.total_with(entry.part, touched(checked_part_cost(entry.cost), self._amount, block))
        after = _raised(block, entry.part, total)
        units, outright = after[0].value - block.units.value, after[1].value - block.outright.value
        return Posting(entry, units, outright, block=block, total=total)

    def _review_merge(self, entry: Entry) -> Posting:
        assert entry.data is not None
        held = self._children.get(entry.data["child"])
        if held is None:
            raise ParameterError("child", "be a sub-ledger of this ledger that was not merged yet", entry.label)
        units, outright = int(entry.data["units"]), int(entry.data["outright"])
        return Posting(entry, units - held[0], outright - held[1])

    def admit(self, posting: Posting) -> None:
        """Refuse a posting that would overspend, or any on closed books."""
        if self.closed:
            raise LedgerClosed("this ledger was closed; nothing was released")
        units, outright = posting.units, posting.outright
        total = self.used + units
        if total <= self.limit and self.outright_used + outright <= self.outright_limit:
            return
        worth, whole = self.filter.worth, from_units(self.limit)
        limit = worth(whole)
        left = (self.limit - self.used) / self.limit
        hint = (
            f"It takes {from_units(units) / from_units(self.limit):.3g} of the budget and {left:.3g} is left"
            if total > self.limit
            else f"It spends delta={from_units(outright):.3g} outright and "
            f"{from_units(self.outright_limit - self.outright_used):.3g} is left for that"
        )
        raise BudgetExceeded(
            posting.entry.label,
            needed=worth(from_units(total)),
            remaining=self.remaining().epsilon,
            delta=self.filter.delta,
            limit=limit,
            hint=f"{hint}. Use more noise or fewer releases.",
        )

    def _balance(self, units: int, outright: int) -> Balance:
        amount = from_units(max(units, 0))
        return Balance(
            amount, from_units(self.limit), self.filter.worth(amount), self.filter.delta, from_units(outright),
            self.filter,
        )  # fmt: skip

    def _reserve_curve(self, units: int) -> Curve:
        amount = from_units(units)
        pure = amount if self.filter.name == "pure" else (np.inf if amount > 0 else 0.0)
        return np.append(self.filter.curve(amount, ORDERS), pure)


def touched(cost: Cost, amount: Callable[[Cost], Amount], block: Block) -> Touched:
    """Return what a release in a part takes; two records of one part are asked for under replace-one only."""
    once = amount(cost)
    return Touched(once, amount(cost.group(2)) if block.units.pairs else once)


def _raised(block: Block, part: int | str, total: Touched) -> tuple[Worst, Worst]:
    once, twice = total
    return (
        block.units.raised(part, once.units, twice.units),
        block.outright.raised(part, once.outright, twice.outright),
    )


def _enter(posting: Posting) -> None:
    block, part, total = posting.block, posting.entry.part, posting.total
    assert block is not None and part is not None and total is not None
    block.parts[part] = total
    block.units, block.outright = _raised(block, part, total)


def _shares(entry: Entry) -> list[tuple[int, int]]:
    assert entry.data is not None
    return [(int(units), int(outright)) for units, outright in entry.data["shares"]]


def child_name(number: int, index: int) -> str:
    """Return the name of the sub-ledger ``index`` of the split that is entry ``number``."""
    return f"{number}-{index}"


def curve_to_json(curve: Curve) -> list[float | None]:
    """Return a curve as JSON numbers, infinity as null."""
    return [float(x) if np.isfinite(x) else None for x in curve]


def curve_from_json(values: list[float | None]) -> Curve:
    """Read what :func:`curve_to_json` wrote."""
    return np.array([np.inf if x is None else x for x in values], dtype=np.float64)
