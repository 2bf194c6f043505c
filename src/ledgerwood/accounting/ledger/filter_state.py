"""The state of a ledger that is guarded by a privacy filter: what is spent, by which block and part, and what fits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from ledgerwood._rounding import format_down, format_up, raised
from ledgerwood.accounting.accountant.filters import (
    Balance,
    Filter,
    choose_filter,
    from_units,
    make_filter,
    to_units,
)
from ledgerwood.accounting.adjacency import Neighbours
from ledgerwood.accounting.costs.base import Atom, Cost
from ledgerwood.accounting.costs.guarantees import ApproxDP
from ledgerwood.accounting.costs.noise import Gaussian
from ledgerwood.accounting.curves.numerics import least
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
from ledgerwood.accounting.ledger.odometer import ORDERS, loss_curve, no_loss, own_delta
from ledgerwood.accounting.ledger.plan_state import PlanState
from ledgerwood.accounting.plan.plan import Plan
from ledgerwood.errors import (
    BudgetExceeded,
    FormatError,
    LedgerClosed,
    MethodUnavailable,
    NeighboursMismatch,
    ParameterError,
)


class FilterState:
    """State kept by a privacy filter: any cost, chosen at any time, while the sum stays within the limit."""

    _CACHE = 4096

    def __init__(
        self,
        rule: Filter | None,
        budget: tuple[int, int] | None = None,
        *,
        neighbours: str,
        terms: tuple[float, float] | None = None,
    ) -> None:
        self.neighbours = neighbours
        self._terms = terms  # of a ledger that has not chosen its filter
        self._prices: dict[Cost, Amount] = {}
        self._use(choose_filter(*terms, None) if rule is None and terms is not None else rule, budget)
        self.used = self.delta_used = 0
        self.running_total = RunningTotal()
        self.closed = False
        self._blocks: dict[int, ParallelBlock] = {}
        self._children: dict[str, tuple[int, int]] = {}
        self._plans: dict[int, tuple[str, PlanState]] = {}
        self._entries = 1  # the opening record is number 0

    def _use(self, rule: Filter | None, budget: tuple[int, int] | None = None) -> None:
        assert rule is not None
        self.filter: Filter = rule
        self.limit, self.delta_limit = budget or _limits(rule)
        self._prices.clear()

    def _choose(self, entry: LedgerEntry) -> LedgerEntry:
        """Fix the filter for the first request that has a price; it stands once that request is committed."""
        assert self._terms is not None
        if entry.rule is not None:
            rule, budget = read_filter(entry.rule)
            if (rule.epsilon, rule.delta) != self._terms:
                raise FormatError("the filter on record is not one for the terms of the journal's opening record")
            self._use(rule, budget)
            return entry
        match entry.kind:
            case "plan":
                cost = None
            case "split":  # nothing is known of what will be asked
                self._use(make_filter("rdp", *self._terms))
                return entry._replace(rule=written_filter(self.filter))
            case _:
                cost = entry.cost
                if not isinstance(cost, Cost):
                    return entry  # refused where it is priced
        self._use(choose_filter(*self._terms, cost))
        return entry._replace(rule=written_filter(self.filter))

    def quote(self, entry: LedgerEntry) -> Charge:
        """Return what the entry takes; refuse only what cannot be entered at all (a replay must not refuse)."""
        if self._terms is not None and entry.kind in _PRICED:
            entry = self._choose(entry)
        match entry.kind:
            case "release" | "charge" if entry.block in self._plans and entry.part is None:
                return Charge(entry, step=self._in_plan(entry))
            case "plan":
                return self._quote_plan(entry)
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
        if entry.kind in _PRICED:
            self._terms = None
        match entry.kind:
            case "release" | "charge" if charge.step is not None:
                assert entry.block is not None
                self._plans[entry.block][1].commit(charge.step)
            case "plan":
                assert entry.cost is not None
                self._plans[self._entries] = entry.label, charge.step
                self.running_total.add_cost(entry.cost)
            case "release" | "charge" if charge.block is None:
                assert entry.cost is not None
                self.running_total.add_cost(self._as_charged(entry.cost, charge))
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

    def _unchosen(self) -> None:
        """Before the filter is chosen a balance is told as a whole plan would find it."""
        if self._terms is not None:
            self._use(choose_filter(*self._terms, None))

    @property
    def is_chosen(self) -> bool:
        """Whether the filter is fixed."""
        return self._terms is None

    def spent(self) -> Balance:
        """Return what has been spent, what sub-ledgers hold included."""
        self._unchosen()
        return self._balance(self.used, self.delta_used)

    def remaining(self) -> Balance:
        """Return what is left."""
        self._unchosen()
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
            f"accounting: {self._accounting()}, fixed before the first release; assumed: the sensitivities the "
            f"mechanisms state, disjoint parts in parallel blocks, and no other way out of the data."
            + ("" if private else NOT_PRIVATE)
        )

    def _accounting(self) -> str:
        if not self.is_chosen:
            return "a filter that the first request chooses"
        return "epsilons and deltas add" if self.filter.name == "pure" else f"{self.filter.name} filter"

    def divide(self, by: list[float]) -> list[tuple[int, int]]:
        """Return shares of what is left, in units, never more in all than is left."""
        if self._terms is not None:
            self._use(make_filter("rdp", *self._terms))
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
            if cost.infinite_mass() > 0 and self.delta_limit == 0:
                raise MethodUnavailable(
                    self.filter.name,
                    "it has a delta of its own and the ledger has reserved none for such costs; nothing was released. "
                    "Open the ledger with reserved_delta=... (a part of delta)",
                )
            amount, delta = self.filter.charge(cost)
            found = Amount(to_units(amount), to_units(delta), no_loss())
            if len(self._prices) >= self._CACHE:
                self._prices.clear()
            self._prices[cost] = found
        return found

    def _with_curve(self, cost: Cost) -> Amount:
        """Like :meth:`_amount`, with the loss curve that a block adds up part by part."""
        found = self._amount(cost)
        if not found.curve.any() and not cost.is_free():
            charged = self._as_charged(cost, Charge(LedgerEntry("release"), found.units, found.delta_units))
            found = self._prices[cost] = found._replace(curve=loss_curve(charged))
        return found

    def _as_charged(self, cost: Cost, charge: Charge) -> Cost:
        """Return the cost, or the (epsilon, delta) that it was charged in its stead."""
        if self.filter.name != "pure" or cost.pure_epsilon() <= self.filter.epsilon or not charge.delta_units:
            return cost
        epsilon = raised(from_units(charge.units))
        return ApproxDP(epsilon, from_units(charge.delta_units), neighbours=cost.neighbours)

    def _quote_plan(self, entry: LedgerEntry) -> Charge:
        """A whole plan at what it states; its releases then cost nothing more, and must be those of the plan."""
        assert entry.data is not None
        plan = Plan.from_dict(entry.data["plan"])
        if plan.neighbours != self.neighbours:
            raise NeighboursMismatch(str(self.neighbours), str(plan.neighbours))
        cost = entry.cost
        if not isinstance(cost, ApproxDP) or (cost.size, cost.mass) != (plan.epsilon, plan.delta):
            raise FormatError(f"the plan {entry.label!r} is on record with another price than it states")
        if self.filter.name != "pure":
            raise MethodUnavailable(
                self.filter.name,
                "a whole plan is taken by a ledger that adds epsilons and deltas; nothing was released. Open a new "
                "ledger with filter='pure', or charge the plan's releases one by one",
            )
        charged = to_units(cost.size), to_units(cost.mass)
        return Charge(entry._replace(charged=charged), *charged, step=PlanState(plan))

    def _in_plan(self, entry: LedgerEntry) -> Charge:
        assert entry.block is not None
        label, state = self._plans[entry.block]
        return state.quote(entry._replace(block=None, label=entry.label.removeprefix(f"{label}: ")))

    def _quote_release(self, entry: LedgerEntry) -> Charge:
        if entry.block is None:
            cost = checked_cost(entry.cost, self.neighbours)
            if entry.charged is not None:  # on record: not priced again
                return Charge(entry, *entry.charged)
            amount = self._amount(cost)
            charged = amount.units, amount.delta_units
            return Charge(entry._replace(charged=charged), *charged)
        block = self._blocks.get(entry.block)
        if block is None:
            raise LedgerClosed("this parallel block has ended; nothing was released")
        assert entry.part is not None
        total = block.total_with(entry.part, touched(checked_part_cost(entry.cost), self._with_curve, block))
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
        entry, units, delta_units = charge.entry, charge.units, charge.delta_units
        if charge.step is not None and entry.kind != "plan":
            assert entry.block is not None
            self._plans[entry.block][1].check(charge.step)
            return
        left, delta_left = self.limit - self.used, self.delta_limit - self.delta_used
        if units <= left and delta_units <= delta_left:
            return
        rule = self.filter
        if units > left:
            needed, remaining, limit, unit = units, left, self.limit, rule.unit
        else:
            needed, remaining, limit, unit = delta_units, delta_left, self.delta_limit, "delta"
            if rule.name != "pure":
                unit = "reserved delta, for costs with a delta of their own"
        raise BudgetExceeded(
            entry.label,
            needed=from_units(needed),
            remaining=from_units(remaining),
            delta=rule.delta,
            limit=from_units(limit),
            unit=unit,
            hint=self._what_fits(charge, max(left, 0), max(delta_left, 0)),
        )

    def _what_fits(self, charge: Charge, left: int, delta_left: int) -> str:
        """Say what of this kind would fit, and which filter would count it otherwise."""
        entry, rule = charge.entry, self.filter
        if entry.kind == "plan":
            if charge.delta_units > delta_left:
                return f"A plan with delta at most {format_down(from_units(delta_left))} would fit."
            most = f"A plan of epsilon={format_down(from_units(left))} would fit" if left else "Nothing more would fit"
            return f"The ledger cannot pay for the whole plan, so the fit was not begun. {most}."
        hint = ""
        if isinstance(entry.cost, Cost) and entry.block is None and left:
            hint = least_noise_hint(entry.cost, lambda cost: self._fits(cost, left, delta_left))
        if not hint:
            hint = "Use more noise or fewer releases."
        other = {"rdp": "filter='gdp'" if isinstance(entry.cost, Gaussian) else "filter='pure'", "pure": "filter='rdp'"}
        if rule.name in other:
            why = "takes a whole plan at its epsilon" if rule.name == "rdp" else "takes many small releases"
            if "gdp" in other[rule.name]:
                why = "takes more Gaussian noise"
            hint += f" A new ledger with {other[rule.name]} {why}."
        return hint

    def _fits(self, cost: Cost, left: int, delta_left: int) -> bool:
        try:
            amount, delta = self.filter.charge(cost)
        except MethodUnavailable:
            return False
        return to_units(amount) <= left and to_units(delta) <= delta_left

    def _balance(self, units: int, delta_units: int) -> Balance:
        amount = from_units(max(units, 0))
        return Balance(
            amount, from_units(self.limit), self.filter.epsilon_of(amount), self.filter.delta, from_units(delta_units),
            self.filter, self.is_chosen,
        )  # fmt: skip

    def _reserve_curve(self, units: int) -> Curve:
        amount = from_units(units)
        pure = amount if self.filter.name == "pure" else (np.inf if amount > 0 else 0.0)
        return np.append(self.filter.curve(amount, ORDERS), pure)


_PRICED = frozenset({"release", "charge", "plan", "split"})


def _limits(rule: Filter) -> tuple[int, int]:
    return to_units(rule.limit, up=False), to_units(rule.reserved_delta, up=False)


def written_filter(rule: Filter) -> dict[str, Any]:
    """Return a filter and its limits as plain values."""
    units, delta_units = _limits(rule)
    return {**rule.to_dict(), "budget": [str(units), str(delta_units)]}


def read_filter(written: Mapping[str, Any]) -> tuple[Filter, tuple[int, int]]:
    """Read what :func:`written_filter` wrote."""
    rule = make_filter(
        written["filter"],
        written["epsilon"],
        written["delta"],
        reserved_delta=written.get("outright", 0.0),
        order=written.get("order"),
    )
    units, delta_units = written["budget"]
    return rule, (int(units), int(delta_units))


def least_noise_hint(cost: Cost, fits: Callable[[Cost], bool]) -> str:
    """Say how many of these releases would fit, or with how much noise one would; empty if neither is known."""
    part, times = cost.terms[0] if len(cost.terms) == 1 else (cost, 1)
    if times > 1 and fits(part):
        low, high = 1, times
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle * part) else (low, middle)
        return f"{low} of its {times} releases would fit."
    name = part.noise_parameter if isinstance(part, Atom) else None
    if not isinstance(part, Atom) or name is None:
        return ""
    arguments = {**part.parameters(), "neighbours": part.neighbours}
    kind, power = type(part), part.noise_direction
    start = float(arguments[name]) ** power
    noise = least(lambda x: x > 0 and fits(times * kind(**{**arguments, name: x**power})), guess=start, tolerance=1e-6)
    if not math.isfinite(noise):
        return ""
    scale = noise**power
    shown = format_up(scale) if power > 0 else format_down(scale)
    return f"The same with {name}={shown} would fit."


def _commit_part(charge: Charge) -> None:
    block, part, total = charge.block, charge.entry.part, charge.total
    assert block is not None and part is not None and total is not None
    block.parts[part] = total
    block.units, block.delta_units = _raised(block, part, total)


def _shares(entry: LedgerEntry) -> list[tuple[int, int]]:
    assert entry.data is not None
    return [(int(units), int(delta_units)) for units, delta_units in entry.data["shares"]]
