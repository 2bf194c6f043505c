"""The state of a ledger that is guarded by a privacy filter: what is spent, by which block and part, and what fits."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from ledgerwood._rounding import format_up
from ledgerwood.accounting.accountant.filters import Balance, Filter, from_units, to_units
from ledgerwood.accounting.adjacency import Neighbours
from ledgerwood.accounting.costs.base import Cost
from ledgerwood.accounting.ledger.entries import (
    NOT_PRIVATE,
    Amount,
    Charge,
    Curve,
    LedgerEntry,
    ParallelBlock,
    RunningTotal,
    _raised,
    checked_cost,
    checked_part_cost,
    child_name,
    curve_from_json,
    touched,
)
from ledgerwood.accounting.ledger.odometer import ORDERS, loss_curve, own_delta
from ledgerwood.errors import BudgetExceeded, LedgerClosed, MethodUnavailable, ParameterError


class FilterState:
    """State kept by a privacy filter: any cost, chosen at any time, while the sum stays within the limit."""

    _CACHE = 4096

    def __init__(self, rule: Filter, neighbours: str, budget: tuple[int, int] | None = None) -> None:
        self.filter: Filter = rule
        self.neighbours = neighbours
        self.limit, self.delta_limit = budget or (
            to_units(rule.limit, up=False),
            to_units(rule.reserved_delta, up=False),
        )
        self.used = self.delta_used = 0
        self.running_total = RunningTotal()
        self.closed = False
        self._blocks: dict[int, ParallelBlock] = {}
        self._children: dict[str, tuple[int, int]] = {}
        self._entries = 1  # the opening record is number 0
        self._prices: dict[Cost, Amount] = {}

    def quote(self, entry: LedgerEntry) -> Charge:
        """Return what the entry takes; refuse only what cannot be entered at all (a replay must not refuse)."""
        match entry.kind:
            case "release" | "charge":
                return self._quote_release(entry)
            case "split":
                units = sum(child[0] for child in _shares(entry))
                delta_units = sum(child[1] for child in _shares(entry))
                return Charge(entry, units, delta_units)
            case "merge":
                return self._quote_merge(entry)
        return Charge(entry)

    def commit(self, charge: Charge) -> None:
        """Add a quoted charge to the state."""
        entry = charge.entry
        self.used += charge.units
        self.delta_used += charge.delta_units
        match entry.kind:
            case "release" | "charge" if charge.block is None:
                assert charge.amount is not None
                self.running_total.add(charge.amount.curve)
            case "release" | "charge":
                _commit_part(charge)
            case "parallel":
                block = ParallelBlock.begin(entry.label, pairs=self.neighbours == "replace_one")
                self._blocks[self._entries] = block
                self.running_total.watch(self._entries, block)
            case "end":
                assert entry.block is not None
                del self._blocks[entry.block]
                self.running_total.finalize(entry.block)
            case "split":
                for i, (units, delta_units) in enumerate(_shares(entry)):
                    child = child_name(self._entries, i)
                    self._children[child] = (units, delta_units)
                    self.running_total.reserve(child, self._reserve_curve(units))
            case "merge":
                assert entry.data is not None
                del self._children[entry.data["child"]]
                self.running_total.add(curve_from_json(entry.data["curve"]))
                self.running_total.unreserve(entry.data["child"])
            case "closed":
                self.closed = True
        self._entries += 1

    @property
    def next_number(self) -> int:
        """The number the next entry will have."""
        return self._entries

    def spent(self) -> Balance:
        """Return what has been spent, what sub-ledgers hold included."""
        return self._balance(self.used, self.delta_used)

    def remaining(self) -> Balance:
        """Return what is left."""
        return self._balance(self.limit - self.used, max(self.delta_limit - self.delta_used, 0))

    def odometer_delta(self, delta: float | None) -> float | None:
        """Return the part of delta (the ledger's by default) that is the odometer's own."""
        whole = self.filter.delta if delta is None else delta
        return own_delta(whole, self.filter.reserved_delta, spent=self.delta_used > 0)

    def statement(self, *, releases: int, private: bool) -> str:
        """Return the guarantee as a full sentence."""
        rule, epsilon = self.filter, self.filter.epsilon_of(from_units(self.limit))
        return (
            f"The {releases} releases recorded here so far, and all that this ledger will still allow, are together "
            f"(epsilon={format_up(epsilon)}, delta={format_up(rule.delta)})-differentially "
            f"private for {Neighbours(self.neighbours).sentence}, however each was chosen from earlier outputs; "
            f"accounting: {rule.name} filter, fixed before the first release; assumed: the sensitivities the "
            f"mechanisms state, disjoint parts in parallel blocks, and no other way out of the data."
            + ("" if private else NOT_PRIVATE)
        )

    def divide(self, by: list[float]) -> list[tuple[int, int]]:
        """Return shares of what is left, in units, never more in all than is left."""
        left, delta_left = self.limit - self.used, self.delta_limit - self.delta_used
        units, delta_units = left, delta_left
        shares = []
        for fraction in map(Fraction, map(repr, by)):
            share = min(int(units * fraction), left), min(int(delta_units * fraction), delta_left)
            left, delta_left = left - share[0], delta_left - share[1]
            shares.append(share)
        return shares

    def _amount(self, cost: Cost) -> Amount:
        found = self._prices.get(cost)
        if found is None:
            delta_units = cost.infinite_mass()
            if delta_units > 0 and self.delta_limit == 0:
                raise MethodUnavailable(
                    self.filter.name,
                    "it has a delta of its own and the ledger has reserved none for such costs; nothing was released. "
                    "Open the ledger with reserved_delta=... (a part of delta)",
                )
            found = Amount(to_units(self.filter.price(cost)), to_units(delta_units), loss_curve(cost))
            if len(self._prices) >= self._CACHE:
                self._prices.clear()
            self._prices[cost] = found
        return found

    def _quote_release(self, entry: LedgerEntry) -> Charge:
        if entry.block is None:
            amount = self._amount(checked_cost(entry.cost, self.neighbours))
            return Charge(entry, amount.units, amount.delta_units, amount)
        block = self._blocks.get(entry.block)
        if block is None:
            raise LedgerClosed("this parallel block has ended; nothing was released")
        assert entry.part is not None
        total = block.total_with(entry.part, touched(checked_part_cost(entry.cost), self._amount, block))
        after = _raised(block, entry.part, total)
        units, delta_units = after[0].value - block.units.value, after[1].value - block.delta_units.value
        return Charge(entry, units, delta_units, block=block, total=total)

    def _quote_merge(self, entry: LedgerEntry) -> Charge:
        assert entry.data is not None
        held = self._children.get(entry.data["child"])
        if held is None:
            raise ParameterError("child", "be a sub-ledger of this ledger that was not merged yet", entry.label)
        units, delta_units = int(entry.data["units"]), int(entry.data["outright"])
        return Charge(entry, units - held[0], delta_units - held[1])

    def check(self, charge: Charge) -> None:
        """Refuse a charge that would overspend, and any charge once the ledger is closed."""
        if self.closed:
            raise LedgerClosed("this ledger was closed; nothing was released")
        units, delta_units = charge.units, charge.delta_units
        total = self.used + units
        if total <= self.limit and self.delta_used + delta_units <= self.delta_limit:
            return
        epsilon_of, whole = self.filter.epsilon_of, from_units(self.limit)
        limit = epsilon_of(whole)
        left = (self.limit - self.used) / self.limit
        hint = (
            f"It takes {from_units(units) / from_units(self.limit):.3g} of the budget and {left:.3g} is left"
            if total > self.limit
            else f"It has a delta of its own, {from_units(delta_units):.3g}, and "
            f"{from_units(self.delta_limit - self.delta_used):.3g} of the reserved delta is left"
        )
        raise BudgetExceeded(
            charge.entry.label,
            needed=epsilon_of(from_units(total)),
            remaining=self.remaining().epsilon,
            delta=self.filter.delta,
            limit=limit,
            hint=f"{hint}. Use more noise or fewer releases.",
        )

    def _balance(self, units: int, delta_units: int) -> Balance:
        amount = from_units(max(units, 0))
        return Balance(
            amount, from_units(self.limit), self.filter.epsilon_of(amount), self.filter.delta, from_units(delta_units),
            self.filter,
        )  # fmt: skip

    def _reserve_curve(self, units: int) -> Curve:
        amount = from_units(units)
        pure = amount if self.filter.name == "pure" else (np.inf if amount > 0 else 0.0)
        return np.append(self.filter.curve(amount, ORDERS), pure)


def _commit_part(charge: Charge) -> None:
    block, part, total = charge.block, charge.entry.part, charge.total
    assert block is not None and part is not None and total is not None
    block.parts[part] = total
    block.units, block.delta_units = _raised(block, part, total)


def _shares(entry: LedgerEntry) -> list[tuple[int, int]]:
    assert entry.data is not None
    return [(int(units), int(delta_units)) for units, delta_units in entry.data["shares"]]
