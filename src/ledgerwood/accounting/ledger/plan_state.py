r"""The state of a ledger that follows a plan: its releases, with its costs, in its order; nothing else.

What may vary, and why the plan's price still holds (``docs/theory/filters.md``, Theorem 6):

* Releases with a fixed dominating pair (Gaussian, Laplace, ...) may run at any time, in any order.
* Bounded-range releases must keep their order among themselves: their costs form a subsequence of the planned ones.
* Anything may be left out. A bounded-range release that was passed over cannot be made up for later.
* The reserve is a Gaussian filter of its own: :math:`\sum \mu_t^2 \le \mu^2`, sizes chosen at any time.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from ledgerwood._rounding import format_up
from ledgerwood.accounting.accountant.filters import Balance, to_units
from ledgerwood.accounting.adjacency import Neighbours
from ledgerwood.accounting.costs.base import Atom, Composition, Cost, sequence
from ledgerwood.accounting.costs.parallel import Worst as WorstOf
from ledgerwood.accounting.costs.selection import BoundedRange
from ledgerwood.accounting.ledger.entries import (
    NOT_PRIVATE,
    Amount,
    Charge,
    LedgerEntry,
    ParallelBlock,
    RunningTotal,
    checked_cost,
    checked_part_cost,
    touched,
)
from ledgerwood.accounting.ledger.odometer import loss_curve, own_delta
from ledgerwood.accounting.plan.plan import Plan, Run
from ledgerwood.accounting.plan.releases import RESERVE, RESERVE_SLACK, InParallel, small_scale_rho
from ledgerwood.errors import LedgerClosed, OffPlan


def needs_order(cost: Cost) -> bool:
    """Whether a cost contains a bounded-range release, the only kind whose order changes the price."""
    match cost:
        case Composition():
            return any(needs_order(part) for part, _ in cost.parts)
        case WorstOf():
            return any(needs_order(option) for option in cost.options)
        case Atom():
            return isinstance(cost, BoundedRange)
    return True


class Place(NamedTuple):
    """A place in the planned order: which stretch of equal costs, and how many of it are used."""

    stretch: int
    used: int


@dataclass(slots=True)
class Order:
    """The planned order of the releases that need one, as stretches of equal costs."""

    stretches: list[tuple[Cost, int]]
    place: Place

    @classmethod
    def of(cls, runs: tuple[Run, ...]) -> Order:
        """Return the order of a plan's runs."""
        found: list[tuple[Cost, int]] = []
        for run in runs:
            if not needs_order(run.cost):
                continue
            if found and found[-1][0] == run.cost:
                found[-1] = (run.cost, found[-1][1] + run.times)
            else:
                found.append((run.cost, run.times))
        return cls(found, Place(0, 0))

    def after(self, cost: Cost) -> Place | None:
        """Return the place after one more release of that cost; None when the plan has none left."""
        stretch, used = self.place
        for i in range(stretch, len(self.stretches)):
            planned, times = self.stretches[i]
            if planned == cost and used < times:
                return Place(i, used + 1)
            used = 0
        return None


class PlannedBlock(NamedTuple):
    """A parallel block that follows a plan: which labels a part may use, and how often."""

    block: ParallelBlock
    allowed: dict[str, tuple[Cost, int]]
    uses: Counter[tuple[int | str, str]]
    chosen: dict[int | str, str]
    ordered: bool


class PlanState:
    """The state of a ledger that follows a calibrated plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.neighbours = plan.neighbours
        self.filter = None
        self.running_total = RunningTotal()
        self.closed = False
        self._runs = plan.runs()
        self._order = Order.of(self._runs)
        self._planned: Counter[str] = Counter()
        self._costs: dict[str, Cost] = {}
        for run in self._runs:
            self._planned[run.label] += run.times
            self._costs[run.label] = run.cost
        self._needs_order = {label: needs_order(cost) for label, cost in self._costs.items()}
        self._groups = frozenset(item.label for item in plan.items if isinstance(item, InParallel))
        self._reserve_limit = to_units(plan.reserve_mu**2 * (1 + RESERVE_SLACK), up=False) if plan.reserve_mu else 0
        self._reserve_used = 0
        self._used: Counter[str] = Counter()
        self._blocks: dict[int, PlannedBlock] = {}
        self._curves: dict[Cost, Amount] = {}
        self._entries = 1

    @property
    def next_number(self) -> int:
        """The number the next entry will have."""
        return self._entries

    def quote(self, entry: LedgerEntry) -> Charge:
        """Return what an entry uses of the plan."""
        match entry.kind:
            case "release" | "charge" if entry.block is not None:
                return self._quote_part(entry)
            case "release" | "charge" if entry.label == RESERVE:
                return self._quote_reserve(entry)
            case "release" | "charge":
                amount = self._amount(checked_cost(entry.cost, self.neighbours))
                return Charge(entry, amount=amount, step=self._step(entry))
            case "parallel":
                return Charge(entry, step=self._step(entry))
        return Charge(entry)

    def check(self, charge: Charge) -> None:
        """Refuse what the plan does not have next."""
        if self.closed:
            raise LedgerClosed("this ledger was closed; nothing was released")
        entry = charge.entry
        match entry.kind:
            case "release" | "charge" if entry.block is not None:
                self._check_part(entry)
            case "release" | "charge" if entry.label == RESERVE:
                if self._reserve_used + charge.units > self._reserve_limit:
                    raise OffPlan("what is left of the plan's reserve is too small; nothing was released")
            case "release" | "charge":
                self._check_step(entry, charge.step)
                if entry.label in self._groups:
                    raise OffPlan(
                        f"{entry.label!r} is a parallel group of the plan; nothing was released. "
                        f"Use `with ledger.parallel({entry.label!r}) as parts:`"
                    )
                if entry.cost != self._costs[entry.label]:
                    raise OffPlan(
                        f"{entry.label!r} is planned at the cost {self._costs[entry.label]!r} and this mechanism costs "
                        f"{entry.cost!r}; nothing was released. Build the mechanism from plan[{entry.label!r}].scale"
                    )
            case "parallel":
                self._check_step(entry, charge.step)
                if entry.label not in self._groups and self.neighbours != "add_remove":
                    raise OffPlan(
                        f"{entry.label!r} is not a parallel group of the plan, and for replace-one neighbours a block "
                        f"costs two parts; nothing was released. Plan it with InParallel"
                    )

    def commit(self, charge: Charge) -> None:
        """Add a quoted charge to the state."""
        entry = charge.entry
        match entry.kind:
            case "release" | "charge" if entry.block is not None:
                found = self._blocks[entry.block]
                assert entry.part is not None and charge.total is not None
                found.uses[entry.part, entry.label] += 1
                found.chosen.setdefault(entry.part, entry.label)
                found.block.parts[entry.part] = charge.total
            case "release" | "charge":
                assert charge.amount is not None
                self.running_total.add(charge.amount.curve)
                self._reserve_used += charge.units
                self._take(entry, charge.step)
            case "parallel":
                self._take(entry, charge.step)
                self._begin(entry.label)
            case "end":
                assert entry.block is not None
                self._blocks.pop(entry.block)
                self.running_total.finalize(entry.block)
            case "closed":
                self.closed = True
        self._entries += 1

    def spent(self) -> Balance:
        """Return the spend so far: the concentrated spend as amount, the price of what ran as epsilon."""
        return self._balance(self._used)

    def remaining(self) -> Balance:
        """Return what of the plan has not run."""
        return self._balance(self._planned - self._used)

    def odometer_delta(self, delta: float | None) -> float | None:
        """Return the part of delta (the plan's by default) that is the odometer's own."""
        assert self.plan.delta is not None
        spent = any(self._used[label] and cost.infinite_mass() > 0 for label, cost in self._costs.items())
        whole = self.plan.delta if delta is None else delta
        return own_delta(whole, self.plan.rest().cost.infinite_mass(), spent=spent)

    def statement(self, *, releases: int, private: bool) -> str:
        """Return the guarantee as a full sentence."""
        assert self.plan.epsilon is not None and self.plan.delta is not None
        return (
            f"The {releases} releases recorded so far, and all that the plan still allows, are together "
            f"(epsilon={format_up(self.plan.epsilon)}, delta={format_up(self.plan.delta)})-differentially private for "
            f"{Neighbours(self.neighbours).sentence}; accounting: the plan's costs in the plan's order"
            f"{self.plan._opening_words()}; assumed: the "
            f"sensitivities the mechanisms state, disjoint parts in parallel blocks, and no other way out of the data."
            + ("" if private else NOT_PRIVATE)
        )

    # ---- inside

    def _step(self, entry: LedgerEntry) -> Place | None:
        cost = self._costs.get(entry.label)
        if cost is None or not self._needs_order[entry.label]:
            return self._order.place
        return self._order.after(cost)

    def _check_step(self, entry: LedgerEntry, step: Place | None) -> None:
        label = entry.label
        if label not in self._planned or label == RESERVE:
            known = ", ".join(sorted(self._planned))
            raise OffPlan(f"{label!r} is not in the plan ({known}); nothing was released")
        if self._used[label] >= self._planned[label]:
            raise OffPlan(f"all {self._planned[label]} runs of {label!r} are used; nothing was released")
        if step is None:
            raise OffPlan(
                f"the turn of {label!r} has passed: a later selection of the plan has run; nothing was released. "
                "Selections must keep the plan's order"
            )
        if self._needs_order[label] and any(found.ordered for found in self._blocks.values()):
            raise OffPlan(f"{label!r} must wait until the open parallel block ends; nothing was released")

    def _take(self, entry: LedgerEntry, step: Place | None) -> None:
        if entry.label == RESERVE:
            return
        self._used[entry.label] += 1
        if step is not None:
            self._order.place = step

    def _begin(self, label: str) -> None:
        allowed: dict[str, tuple[Cost, int]] = {}
        for item in self.plan.items:
            if isinstance(item, InParallel) and item.label == label:
                allowed = {r.label: (r.priced(), r.times) for r in item.members}
        if not allowed:
            allowed = {label: (self._costs[label], 1)}
        block = ParallelBlock.begin(label, pairs=self.neighbours == "replace_one")
        self._blocks[self._entries] = PlannedBlock(block, allowed, Counter(), {}, self._needs_order[label])
        self.running_total.watch(self._entries, block)

    def _quote_part(self, entry: LedgerEntry) -> Charge:
        assert entry.block is not None and entry.part is not None
        found = self._blocks.get(entry.block)
        if found is None:
            raise LedgerClosed("this parallel block has ended; nothing was released")
        cost = checked_part_cost(entry.cost)
        total = found.block.total_with(entry.part, touched(cost, self._amount, found.block))
        return Charge(entry, block=found.block, total=total)

    def _check_part(self, entry: LedgerEntry) -> None:
        assert entry.block is not None and entry.part is not None
        found = self._blocks[entry.block]
        cost, times = found.allowed.get(entry.label, (None, 0))
        if cost is None:
            raise OffPlan(
                f"{entry.label!r} is not planned in the block {found.block.label!r} "
                f"({', '.join(found.allowed)}); nothing was released"
            )
        if found.chosen.get(entry.part, entry.label) != entry.label:
            raise OffPlan(f"this part already follows {found.chosen[entry.part]!r}; nothing was released")
        if found.uses[entry.part, entry.label] >= times:
            raise OffPlan(f"{entry.label!r} may run {times} times in each part; nothing was released")
        if cost != entry.cost:
            raise OffPlan(f"{entry.label!r} is planned at the cost {cost!r}, not {entry.cost!r}; nothing was released")

    def _quote_reserve(self, entry: LedgerEntry) -> Charge:
        cost = checked_cost(entry.cost, self.neighbours)
        mu = cost.mu()
        if mu is None or cost.infinite_mass() > 0:
            raise OffPlan("the reserve takes releases of Gaussian DP only; nothing was released")
        return Charge(entry, to_units(mu * mu * (1 + RESERVE_SLACK / 2)), amount=self._amount(cost))

    def _amount(self, cost: Cost) -> Amount:
        found = self._curves.get(cost)
        if found is None:
            found = Amount(0, 0, loss_curve(cost))
            if len(self._curves) >= 4096:
                self._curves.clear()
            self._curves[cost] = found
        return found

    def _balance(self, counts: Counter[str]) -> Balance:
        assert self.plan.delta is not None
        left, parts, amount, limit, before = Counter(counts), [], 0.0, 0.0, 0.0
        for run in self._runs:
            taken = min(run.times, left[run.label])
            left[run.label] -= taken
            if self.plan.opening is not None and run.label == self.plan.opening.label:
                before = taken * (run.cost.pure_epsilon() or 0.0)  # the others are chosen after it: epsilons add
            else:
                parts.append((run.cost, taken))
            amount += taken * small_scale_rho(run.cost)
            limit += run.times * small_scale_rho(run.cost)
        rest = sequence(parts, neighbours=self.neighbours).epsilon(self.plan.delta) if amount else 0.0
        return Balance(amount, limit, before + rest, self.plan.delta, 0.0, None)
