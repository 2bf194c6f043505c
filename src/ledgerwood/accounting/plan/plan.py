r"""Plans: decide from public metadata what will be released, how often, and with how much noise.

Calibration finds one number :math:`s` and gives every release with a share the noise at which

.. math:: n_i \rho_i = s \cdot \text{share}_i / \textstyle\sum_j \text{share}_j,

where :math:`n_i` is how often it is paid for and :math:`\rho_i` its small-scale concentrated cost (bounded range
:math:`\varepsilon^2/8`, Gaussian :math:`\mu^2/2`, pure and Laplace :math:`\varepsilon^2/2`). More :math:`s` is less
noise everywhere, so the largest :math:`s` whose price meets the target is found by bisection on the safe side.

What a plan says about itself are tables of named values (:class:`TextTable`): they print well and need no dependency.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ledgerwood import _checks
from ledgerwood._files import parse_json
from ledgerwood._rounding import format_down, format_up
from ledgerwood.accounting.accountant.calibration import calibrate
from ledgerwood.accounting.accountant.filters import Filter, from_units, to_units
from ledgerwood.accounting.adjacency import Neighbours, as_neighbours
from ledgerwood.accounting.costs.base import Cost, sequence
from ledgerwood.accounting.costs.noise import Gaussian
from ledgerwood.accounting.costs.parallel import PART_HINT, PART_RULE
from ledgerwood.accounting.curves.numerics import least
from ledgerwood.accounting.plan.releases import (
    RESERVE,
    RESERVE_SLACK,
    InParallel,
    InSequence,
    Item,
    Release,
    relation_inside,
    small_scale_rho,
)
from ledgerwood.accounting.plan.serialization import fields_from_dict, fields_to_dict
from ledgerwood.errors import BudgetExceeded, CalibrationError, FormatError, MethodUnavailable, ParameterError

if TYPE_CHECKING:
    from ledgerwood.accounting.accountant.filters import Balance
    from ledgerwood.accounting.costs.base import Account


_LARGE = 5000
"""More runs than this are calibrated by Rényi accounting unless a method is named."""


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive executions of one label."""

    label: str
    cost: Cost
    times: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Releases in their order of execution, made from public metadata only.

    Parameters
    ----------
    items
        :class:`Release`, :class:`InSequence`, :class:`InParallel`.
    neighbours
        The relation of every cost in the plan.
    reserve
        A share kept for releases not known yet: of Gaussian DP, any size, under the label ``"reserve"``.
    epsilon, delta, reserve_mu
        What :meth:`calibrate` fills in: the target, and the Gaussian DP parameter of the reserve.

    Examples
    --------
    >>> from ledgerwood.accounting import BoundedRange, Gaussian, Plan, Release
    >>> plan = Plan([
    ...     Release("split", cost=BoundedRange, times=50 * 4, share=0.7),
    ...     Release("leaf", cost=Gaussian, times=50, share=0.3),
    ... ]).calibrate(epsilon=1.0, delta=1 / 32561)
    >>> 44 < plan["leaf"].scale < 46
    True
    """

    items: Iterable[Item]
    neighbours: str = "add_remove"
    reserve: float | None = None
    epsilon: float | None = None
    delta: float | None = None
    reserve_mu: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "items", tuple(self.items))
        object.__setattr__(self, "neighbours", as_neighbours(self.neighbours))
        if not self.items or not all(isinstance(item, Release | InSequence | InParallel) for item in self.items):
            raise ParameterError("items", "be one or more releases or groups of releases", self.items)
        seen: set[str] = set()
        for label in self._labels():
            if label in seen:
                raise ParameterError("label", "be unique in the plan", label)
            seen.add(label)
        for item in self.items:
            for release in () if isinstance(item, InParallel) else _members(item):
                if release.share is None and not release.is_known:
                    raise ParameterError("share", "be given when the noise is not fixed", None, repr(release.label))
        for item in self.items:
            relation = relation_inside(item, self.neighbours)
            if all(not r.is_known or r.priced(relation).neighbours == relation for r in _members(item)):
                continue
            if isinstance(item, InParallel):
                raise ParameterError("releases", PART_RULE, item.label, PART_HINT)
            raise ParameterError("neighbours", "be the same for the plan and its costs", self.neighbours)
        for name in ("reserve", "epsilon", "reserve_mu"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _checks.positive(name, getattr(self, name)))
        if self.delta is not None:
            object.__setattr__(self, "delta", _checks.delta_value(self.delta))
        if self.reserve is None and self.reserve_mu is not None:
            raise ParameterError("reserve_mu", "come with a reserve", self.reserve_mu)

    # ---- reading

    def releases(self) -> Iterator[Release]:
        """Yield every release, groups opened."""
        for item in self.items:
            yield from _members(item)

    def __getitem__(self, label: str) -> Release:
        for release in self.releases():
            if release.label == label:
                return release
        raise ParameterError("label", f"be one of {', '.join(r.label for r in self.releases())}", label)

    @property
    def is_calibrated(self) -> bool:
        """Whether all noise is known."""
        return all(r.is_known for r in self.releases()) and (self.reserve is None or self.reserve_mu is not None)

    @property
    def cost(self) -> Cost:
        """The whole plan as one cost, in its own order."""
        return sequence([(run.cost, run.times) for run in self.runs()], neighbours=self.neighbours)

    def runs(self) -> tuple[Run, ...]:
        """Return what is executed, in order; a round of a parallel group is one run of the group."""
        return _runs(self)

    def account(self, *, lower_end: bool = True) -> Account:
        """Return the price by every method, at the plan's delta; with its certified lower end unless not wanted."""
        return self.cost.account(self._target()[1], lower_end=lower_end)

    def is_within_target(self) -> bool:
        """Whether the noise really meets the epsilon and delta the plan states; a plan read from JSON may not."""
        return _is_within_target(self)

    def fits(self, budget: Balance) -> bool:
        """Whether a ledger with that much left (``ledger.remaining()``) accepts this plan.

        One whose filter adds epsilons takes a calibrated plan as a whole, at what it states; any other, every release.

        >>> from ledgerwood.accounting import Gaussian, Ledger, Plan, Release
        >>> plan = Plan([Release("rows", Gaussian, share=1.0)]).calibrate(epsilon=1.0, delta=1e-6)
        >>> [plan.fits(Ledger(epsilon, 1e-6, filter="gdp").remaining()) for epsilon in (0.9, 1.1)]
        [False, True]
        """
        if budget.filter is None:
            raise ParameterError("budget", "come from a ledger with a filter", budget)
        limits = to_units(budget.amount, up=False), to_units(budget.reserved_delta, up=False)
        if self.is_calibrated and self.epsilon is not None and self.delta is not None:
            if not budget.is_chosen:
                limits = to_units(budget.filter.epsilon, up=False), to_units(budget.filter.delta, up=False)
            if not budget.is_chosen or budget.filter.name == "pure":
                return to_units(self.epsilon) <= limits[0] and to_units(self.delta) <= limits[1]
        return _fits(self, budget.filter, limits)

    def refusal(self, budget: Balance, label: str) -> BudgetExceeded:
        """Return the error for a ledger with that much left, release by release, that does not accept this plan."""
        rule = budget.filter
        assert rule is not None
        units, delta_units = _taken(self, rule)
        needed, left, limit, unit = from_units(units), budget.amount, budget.limit, rule.unit
        hint = "The ledger cannot pay for the whole plan, so the fit was not begun. "
        if units <= to_units(budget.amount, up=False):
            needed, left, limit = from_units(delta_units), budget.reserved_delta, rule.reserved_delta
            unit = "reserved delta, for costs with a delta of their own"
            hint += "Open a new ledger with reserved_delta=..., or "
        else:
            with contextlib.suppress(CalibrationError, MethodUnavailable):
                largest = self.calibrate(budget=budget).cost.epsilon(self._target()[1])
                hint += f"At most epsilon={format_down(largest, 4)} of this plan would fit. Lower its epsilon, or "
        hint += "begin a new ledger with it: one whose first request is a whole plan pays what the plan states"
        return BudgetExceeded(label, needed=needed, remaining=left, delta=rule.delta, limit=limit, unit=unit, hint=hint)

    def table(self) -> TextTable:
        """Return one row per label: its kind of cost, how often, its noise, its part of the spend."""
        spends = self._spends()
        total = math.fsum(spends.values())
        rows = []
        for item in self.items:
            for release in _members(item):
                cost = release.priced(relation_inside(item, self.neighbours))
                label = item.label if isinstance(item, InParallel) else release.label
                times = release.times if isinstance(item, Release) else release.times * item.times
                rows.append(_row(release.label, cost, times, release.scale, spends[label] / total))
        if self.reserve_mu is not None:
            cost = Gaussian(mu=self.reserve_mu)
            rows.append(_row(RESERVE, cost, 1, cost.sigma, spends[RESERVE] / total))
        return TextTable(rows)

    def explain(self) -> TextTable:
        """Return what each label costs alone and what the rest costs without it; then the whole by every method."""
        delta = self._target()[1]
        runs = self.runs()
        account = self.account()
        rows: list[dict[str, Any]] = []
        for label in dict.fromkeys(run.label for run in runs):
            parts: dict[bool, list[tuple[Cost, int]]] = {False: [], True: []}
            for run in runs:
                parts[run.label == label].append((run.cost, run.times))
            alone, rest = (sequence(parts[own], neighbours=self.neighbours) for own in (True, False))
            prices = {"epsilon": alone.epsilon(delta), "epsilon_of_the_rest": rest.epsilon(delta)}
            rows.append({"part": label, "method": account.method, **prices, "note": ""})
        for method, found in account.table.items():
            price, note = (None, found) if isinstance(found, str) else (found, "")
            row = {"part": "whole plan", "method": method, "epsilon": price, "epsilon_of_the_rest": None}
            rows.append({**row, "note": note})
        return TextTable(rows)

    def statement(self, protects: str | None = None) -> str:
        """Return the guarantee as a full sentence.

        Parameters
        ----------
        protects
            What one guarantee is about, in words, for a plan whose costs are those of all rows of a privacy unit. By
            default the adjacency of the plan, such as "one record added or removed".
        """
        epsilon, delta = self._target()
        counts: dict[str, int] = {}
        for run in self.runs():
            counts[run.label] = counts.get(run.label, 0) + run.times
        listed = ", ".join(f"{count} x {label}" for label, count in counts.items())
        protects = protects or Neighbours(self.neighbours).sentence
        return (
            f"Releasing {listed}, with the noise of the plan and in its order, is (epsilon={format_up(epsilon)}, "
            f"delta={format_up(delta)})-differentially private for {protects}, whatever is "
            f"asked on the strength of earlier outputs; accounting: adaptive composition in the plan's order; assumed: "
            f"the stated sensitivities, disjoint parts in parallel groups, noise from the operating system's source."
        )

    def same_charges(self, other: Plan) -> bool:
        """Whether two plans run the same costs under the same labels for the same target, however they state them."""
        mine, theirs = ((plan.neighbours, plan.epsilon, plan.delta, plan.runs()) for plan in (self, other))
        return mine == theirs

    def frozen(self) -> Plan:
        """Return the plan with costs instead of functions: what a ledger follows, and what JSON holds."""
        items: list[Item] = []
        for item in self.items:
            if isinstance(item, Release):
                items.append(item.frozen())
                continue
            item = replace(item, releases=[release.frozen() for release in item.members])
            if isinstance(item, InParallel) and not all(release.kind is not None for release in item.members):
                item = replace(item, share=None)
            items.append(item)
        return replace(self, items=items)

    # ---- calibrating

    def calibrate(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        method: str | None = None,
        budget: Balance | None = None,
        tolerance: float | None = None,
    ) -> Plan:
        """Return the plan with the least noise that meets (epsilon, delta), or that fits what a ledger has left.

        Parameters
        ----------
        epsilon, delta
            The target for the whole plan, priced in its own order.
        method
            The accounting method. By default the tightest certified one, and ``"rdp"`` for a plan of more than
            5000 runs, where the tightest price takes long and is about 8 % of noise better.
        budget
            ``ledger.remaining()``: that ledger's filter will accept every release of the plan.
        tolerance
            How far above the least noise the answer may lie, as a part of it; as :func:`calibrate` has it by default.
        """
        if budget is not None:
            if epsilon is not None or delta is not None:
                raise ParameterError("budget", "be given without epsilon and delta", budget)
            return self._within(budget)
        if epsilon is None or delta is None:
            raise ParameterError("epsilon", "be given together with delta", (epsilon, delta))
        target = replace(self, epsilon=_checks.positive("epsilon", epsilon), delta=_checks.delta_value(delta))
        if not self._shares():
            if self.cost.epsilon(delta, method) > epsilon:
                raise CalibrationError(f"the fixed releases cost more than epsilon={epsilon} at delta={delta}")
            return target
        method = self._method() if method is None else method

        def cost(noise: float) -> Cost:
            return target._with_noise(noise).cost

        options = {} if tolerance is None else {"tolerance": tolerance}
        guess = _first_noise(epsilon, delta)
        noise = calibrate(cost, epsilon=epsilon, delta=delta, method=method, guess=guess, **options)
        return target._with_noise(noise)

    def what_if(
        self,
        *,
        epsilon: Sequence[float],
        delta: float | None = None,
        times: Mapping[str, Sequence[int]] | None = None,
    ) -> TextTable:
        """Return the scales for each epsilon and each alternative number of runs, one row per release: tidy.

        ``times={"leaf": [50, 100]}`` varies one label at a time; each value is combined with every epsilon.
        """
        delta = self._target()[1] if delta is None else delta
        variants: list[tuple[str | None, int | None, Plan]] = [
            (label, n, self._with_times(label, n)) for label, counts in (times or {}).items() for n in counts
        ]
        rows = []
        for label, count, plan in variants or [(None, None, self)]:
            for target in epsilon:
                for release in plan.calibrate(epsilon=target, delta=delta).releases():
                    rows.append({
                        "epsilon": target, "delta": delta, "varied": label, "times": count,
                        "label": release.label, "scale": release.scale,
                    })  # fmt: skip
        return TextTable(rows)

    # ---- JSON

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values, which JSON holds exactly."""
        return fields_to_dict(
            self.items,
            neighbours=str(self.neighbours),
            reserve=self.reserve,
            epsilon=self.epsilon,
            delta=self.delta,
            reserve_mu=self.reserve_mu,
        )

    @classmethod
    def from_dict(cls, data: Any) -> Plan:
        """Read what :meth:`to_dict` wrote."""
        plan = cls(**fields_from_dict(data))
        moving = plan.neighbours == "replace_one" and any(isinstance(item, InParallel) for item in plan.items)
        if moving and plan.epsilon is not None and plan.is_calibrated and not plan.is_within_target():
            raise FormatError(
                f"the plan has parallel groups under replace-one and costs more than the epsilon={plan.epsilon} "
                "it states; earlier versions left out the records that move between parts. Calibrate it again"
            )
        return plan

    def to_json(self) -> str:
        """Return the plan as JSON; :meth:`from_json` gives back an equal plan."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Read what :meth:`to_json` wrote."""
        return cls.from_dict(parse_json(text))

    # ---- inside

    def _labels(self) -> Iterator[str]:
        for item in self.items:
            yield item.label
            if not isinstance(item, Release):
                yield from (release.label for release in item.members)

    def _target(self) -> tuple[float, float]:
        if self.epsilon is None or self.delta is None:
            raise ParameterError("plan", "be calibrated first: plan.calibrate(epsilon=..., delta=...)", None)
        return self.epsilon, self.delta

    def _method(self) -> str | None:
        runs = 0
        for item in self.items:
            rounds = 1 if isinstance(item, Release) else item.times
            runs += rounds * sum(release.times for release in _members(item))
        return "rdp" if runs > _LARGE else None

    def _shares(self) -> float:
        return math.fsum(_share(item) for item in self.items) + (self.reserve or 0.0)

    def _with_noise(self, noise: float) -> Plan:
        """Return the plan in which the shares divide a spend of 1 / noise^2."""
        unit = 1 / (noise * noise) / self._shares()
        records = 2 if self.neighbours == "replace_one" else 1  # a group of k records has k² times the rho
        items: list[Item] = []
        for item in self.items:
            match item:
                case InParallel(share=float(share)):
                    rho = share * unit / (records**2 * item.times)
                    parts = [r.at_rho(rho / r.times, relation_inside(item, self.neighbours)) for r in item.members]
                    items.append(replace(item, releases=parts))
                case InSequence():
                    items.append(replace(item, releases=[self._at(r, unit, item.times) for r in item.members]))
                case Release():
                    items.append(self._at(item, unit, 1))
                case _:
                    items.append(item)
        mu = None if self.reserve is None else math.sqrt(2 * self.reserve * unit)
        return replace(self, items=items, reserve_mu=mu)

    def _at(self, release: Release, unit: float, rounds: int) -> Release:
        if release.share is None:
            return release
        return release.at_rho(release.share * unit / (release.times * rounds), self.neighbours)

    def _with_times(self, label: str, times: int) -> Plan:
        items: list[Item] = []
        for item in self.items:
            if isinstance(item, Release):
                items.append(item.with_times(times) if item.label == label else item)
            elif item.label == label:
                items.append(replace(item, times=times))
            else:
                items.append(
                    replace(item, releases=[r.with_times(times) if r.label == label else r for r in item.members])
                )
        if label not in set(self._labels()):
            raise ParameterError("label", "name a release or a group of the plan", label)
        return replace(self, items=items, epsilon=None, delta=None)

    def _spends(self) -> dict[str, float]:
        """Return the small-scale concentrated spend of each label."""
        spends: dict[str, float] = {}
        for run in self.runs():
            spends[run.label] = spends.get(run.label, 0.0) + run.times * small_scale_rho(run.cost)
        return spends

    def _within(self, budget: Balance) -> Plan:
        rule = budget.filter
        if rule is None or not budget.is_chosen:
            raise ParameterError("budget", "come from a ledger with a filter", budget, "Open it with filter='rdp'")
        target = replace(self, epsilon=budget.epsilon, delta=budget.delta)
        limits = to_units(budget.amount, up=False), to_units(budget.reserved_delta, up=False)

        def fits(noise: float) -> bool:
            return noise > 0 and _fits(target._with_noise(noise) if self._shares() else target, rule, limits)

        noise = least(fits, guess=1.0) if self._shares() else 1.0
        if not math.isfinite(noise) or not fits(noise):
            raise CalibrationError("the fixed releases alone do not fit in what the ledger has left")
        return target._with_noise(noise) if self._shares() else target


@lru_cache(maxsize=64)
def _runs(plan: Plan) -> tuple[Run, ...]:
    found: list[Run] = []
    for item in plan.items:
        match item:
            case Release():
                found.append(Run(item.label, item.priced(plan.neighbours), item.times))
            case InParallel():
                found.append(Run(item.label, item.unit(plan.neighbours), item.times))
            case InSequence():
                found += [Run(r.label, r.priced(plan.neighbours), r.times) for r in item.members] * item.times
    if plan.reserve_mu is not None:
        mu = plan.reserve_mu * (1 + RESERVE_SLACK)
        found.append(Run(RESERVE, Gaussian(mu=mu, neighbours=plan.neighbours), 1))
    return tuple(found)


@lru_cache(maxsize=64)
def _is_within_target(plan: Plan) -> bool:
    epsilon, delta = plan._target()
    return any(plan.cost.epsilon(delta, method) <= epsilon for method in ("rdp", None))


def _members(item: Item) -> tuple[Release, ...]:
    return (item,) if isinstance(item, Release) else item.members


def _share(item: Item) -> float:
    match item:
        case InSequence():
            return math.fsum(release.share or 0.0 for release in item.members)
        case _:
            return item.share or 0.0


def _row(label: str, cost: Cost, times: int, scale: float | None, spend: float) -> dict[str, Any]:
    noise = getattr(type(cost), "noise_parameter", None)
    return {
        "label": label,
        "cost": type(cost).__name__,
        "times": times,
        "noise": noise,
        "scale": scale,
        "spend": spend,
    }


def _first_noise(epsilon: float, delta: float) -> float:
    """Return where to start: the spend rho with rho + 2 sqrt(rho log(1/delta)) = epsilon."""
    log = math.log(1 / delta) if delta > 0 else 0.0
    return (math.sqrt(log + epsilon) + math.sqrt(log)) / epsilon  # as 1 / (difference), without its cancellation


def _fits(plan: Plan, rule: Filter, limits: tuple[int, int]) -> bool:
    """Whether a filter would accept every release of the plan."""
    units, delta_units = _taken(plan, rule)
    return units <= limits[0] and delta_units <= limits[1]


def _taken(plan: Plan, rule: Filter) -> tuple[int, int]:
    """What the plan's releases take of a filter's limit and of its delta, counted as the ledger counts."""
    units = delta_units = 0
    moving = plan.neighbours == "replace_one"
    for item in plan.items:
        costs = [(r.priced(relation_inside(item, plan.neighbours)), r.times) for r in _members(item)]
        rounds = 1 if isinstance(item, Release) else item.times
        for column in (0, 1):
            once = [n * to_units(rule.charge(cost)[column]) for cost, n in costs]
            if not isinstance(item, InParallel):
                spent = sum(once)
            elif moving:  # two parts, or two records of one
                spent = max(2 * max(once), *(n * to_units(rule.charge(cost.group(2))[column]) for cost, n in costs))
            else:
                spent = max(once)
            if column == 0:
                units += rounds * spent
            else:
                delta_units += rounds * spent
    if plan.reserve_mu is not None:
        units += to_units(rule.price(Gaussian(mu=plan.reserve_mu, neighbours=plan.neighbours)))
    return units, delta_units


class TextTable(tuple[dict[str, Any], ...]):
    """A tuple of rows, each a dict with the same keys. ``pandas.DataFrame(table)`` works.

    >>> print(TextTable([{"label": "leaf", "scale": 44.73}, {"label": "split", "scale": None}]))
    label  scale
    leaf   44.73
    split
    """

    def __new__(cls, rows: Iterable[Mapping[str, Any]]) -> TextTable:
        return super().__new__(cls, (dict(row) for row in rows))

    def column(self, name: str) -> list[Any]:
        """Return one column."""
        return [row[name] for row in self]

    def __str__(self) -> str:
        if not self:
            return "(empty)"
        names = list(self[0])
        cells = [names] + [[_shown(row[name]) for name in names] for row in self]
        widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
        return "\n".join("  ".join(text.ljust(w) for text, w in zip(line, widths)).rstrip() for line in cells)


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
