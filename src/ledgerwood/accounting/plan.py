r"""Plans: decide from public facts what will be released, how often, and with how much noise.

A plan is an immutable list of releases in their order of execution. A release either has its noise fixed or a *share*;
calibration finds one number :math:`s` and gives every shared release the noise at which

.. math:: n_i \rho_i = \text{share}_i \cdot s / \textstyle\sum_j \text{share}_j,

where :math:`n_i` is how often it is paid for and :math:`\rho_i` its small-scale concentrated cost
(bounded range :math:`\varepsilon^2/8`, Gaussian :math:`\mu^2/2`, pure and Laplace :math:`\varepsilon^2/2`). More
:math:`s` is less noise everywhere, so the largest :math:`s` whose price meets the target is found by bisection.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from ledgerwood.accounting import checks, serialize
from ledgerwood.accounting.algebra import Atom, Cost, sequence
from ledgerwood.accounting.calibration import calibrate
from ledgerwood.accounting.costs import Gaussian
from ledgerwood.accounting.disjoint import parallel
from ledgerwood.accounting.neighbours import Neighbours, as_neighbours
from ledgerwood.accounting.tables import Table
from ledgerwood.errors import CalibrationError, FormatError, ParameterError

if TYPE_CHECKING:
    from ledgerwood.accounting.account import Account
    from ledgerwood.accounting.books import Balance

VERSION = 1
RESERVE = "reserve"
Template: TypeAlias = "type[Atom] | Callable[[float], Cost] | Cost"


@dataclass(frozen=True, slots=True, init=False)
class Release:
    """One kind of release.

    Parameters
    ----------
    label
        A public name, unique in its plan.
    cost
        A cost class (``Gaussian``, ``BoundedRange``, ...), a function from the noise parameter to a cost, or a cost
        (whose noise is then fixed).
    times
        How often it runs.
    share
        Its share of the calibrated spend; shares are relative to their sum.
    scale
        The noise parameter, if it is fixed rather than calibrated.
    **fixed
        Further arguments of the cost class, such as ``sensitivity=2.0``.

    Examples
    --------
    >>> from ledgerwood.accounting import Gaussian, Release
    >>> Release("leaf", cost=Gaussian, times=50, scale=45.0).priced("add_remove").rho() == 0.5 / 45**2
    True
    """

    label: str
    cost: Template
    times: int
    share: float | None
    scale: float | None
    fixed: tuple[tuple[str, Any], ...]

    def __init__(
        self,
        label: str,
        cost: Template,
        times: int = 1,
        share: float | None = None,
        scale: float | None = None,
        **fixed: Any,
    ) -> None:
        if not isinstance(label, str) or not label or label == RESERVE:
            raise ParameterError("label", f"be a non-empty string other than {RESERVE!r}", label)
        if isinstance(cost, Cost):
            if scale is not None or share is not None or fixed:
                raise ParameterError("cost", "be a class or a function to be given a share or a scale", cost)
        elif isinstance(cost, type):
            if not issubclass(cost, Atom) or cost.noise_parameter is None:
                raise ParameterError("cost", "be a cost class with a noise parameter", cost.__name__)
            _refuse_reserved(fixed, cost.noise_parameter)
        elif not callable(cost):
            raise ParameterError("cost", "be a cost, a cost class or a function of the noise parameter", cost)
        elif fixed:
            raise ParameterError("fixed", "be empty for a function of the noise parameter", sorted(fixed))
        if share is not None and scale is not None:
            raise ParameterError("share", "be left out when the scale is fixed", share)
        for name, value in {
            "label": label,
            "cost": cost,
            "times": checks.count("times", times, least=1),
            "share": None if share is None else checks.positive("share", share),
            "scale": None if scale is None else checks.positive("scale", scale),
            "fixed": tuple(sorted(fixed.items())),
        }.items():
            object.__setattr__(self, name, value)

    @property
    def is_fixed(self) -> bool:
        """Whether its noise is known."""
        return isinstance(self.cost, Cost) or self.scale is not None

    def priced(self, neighbours: str) -> Cost:
        """Return the cost of one run; the noise must be known."""
        if isinstance(self.cost, Cost):
            return self.cost
        if self.scale is None:
            raise ParameterError("plan", "be calibrated first: plan.calibrate(epsilon=..., delta=...)", self.label)
        if isinstance(self.cost, type):
            arguments = {str(self.cost.noise_parameter): self.scale, "neighbours": neighbours, **dict(self.fixed)}
            return self.cost(**arguments)
        return self.cost(self.scale)

    def at_rho(self, rho: float, neighbours: str) -> Release:
        """Return the release with the noise at which one run has the small-scale concentrated cost ``rho``."""
        if isinstance(self.cost, type):
            scale = _scale_of(self.cost.from_rho(rho, neighbours=neighbours, **dict(self.fixed)))
        else:
            assert not isinstance(self.cost, Cost)
            scale = _scale_at_rho(self.cost, rho)
        return _with(self, scale=scale)


@dataclass(frozen=True, slots=True)
class InSequence:
    """Releases that run one after the other, the whole round ``times`` times.

    >>> from ledgerwood.accounting import BoundedRange, Gaussian, InSequence, Release
    >>> tree = InSequence("tree", [Release("split", BoundedRange, 4, 0.7), Release("leaf", Gaussian, 1, 0.3)], times=50)
    """

    label: str
    releases: Sequence[Release]
    times: int = 1

    def __post_init__(self) -> None:
        _check_group(self)


@dataclass(frozen=True, slots=True)
class InParallel:
    """Releases about disjoint records: every part follows one of ``releases``, any number of parts.

    Under add/remove a round costs its worst kind of part; under replace-one, the worst two together. The group has the
    share and every kind of part is calibrated to it; so the releases inside have no share of their own.
    """

    label: str
    releases: Sequence[Release]
    times: int = 1
    share: float | None = None

    def __post_init__(self) -> None:
        _check_group(self)
        if self.share is not None:
            checks.positive("share", self.share)
        for release in self.releases:
            if release.share is not None:
                raise ParameterError("share", "be given to the parallel group, not inside it", release.label)
        if self.share is None and not all(release.is_fixed for release in self.releases):
            raise ParameterError("share", "be given to a parallel group that is to be calibrated", None)

    def unit(self, neighbours: str) -> Cost:
        """Return the cost of one round."""
        parts = [release.priced(neighbours) * release.times for release in self.releases]
        return parallel(*parts, *parts)


Item: TypeAlias = Release | InSequence | InParallel


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive executions of one label: what the ledger follows."""

    label: str
    cost: Cost
    times: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Releases in their order, made from public facts only.

    Parameters
    ----------
    items
        :class:`Release`, :class:`InSequence`, :class:`InParallel`.
    neighbours
        The relation of every cost in the plan.
    reserve
        A share kept for releases that are not known yet: Gaussian-DP releases under the label ``"reserve"``, their sizes
        chosen at any time.
    epsilon, delta
        The target it was calibrated to; None before.

    Examples
    --------
    >>> from ledgerwood.accounting import BoundedRange, Gaussian, Plan, Release
    >>> plan = Plan([
    ...     Release("split", cost=BoundedRange, times=50 * 4, share=0.7),
    ...     Release("leaf", cost=Gaussian, times=50, share=0.3),
    ... ]).calibrate(epsilon=1.0, delta=1 / 32561)
    >>> round(plan["leaf"].scale, 1)
    51.8
    >>> plan.account().epsilon <= 1.0
    True
    """

    items: Sequence[Item]
    neighbours: str = "add_remove"
    reserve: float | None = None
    epsilon: float | None = None
    delta: float | None = None
    reserve_mu: float | None = None
    _cost: list[Cost] = field(default_factory=list, init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "items", tuple(self.items))
        object.__setattr__(self, "neighbours", as_neighbours(self.neighbours))
        if not self.items or not all(isinstance(item, Release | InSequence | InParallel) for item in self.items):
            raise ParameterError("items", "be one or more releases or groups of releases", self.items)
        labels = [item.label for item in self.items] + [
            release.label for item in self.items if not isinstance(item, Release) for release in item.releases
        ]
        twice = sorted({label for label in labels if labels.count(label) > 1 and not self._lone(label)})
        if twice:
            raise ParameterError("label", "be unique in the plan", twice[0])
        for release in self.releases():
            if not release.is_fixed and release.share is None and not self._in_parallel(release):
                raise ParameterError("share", "be given when the noise is not fixed", release.label)
            if release.is_fixed and release.priced(self.neighbours).neighbours != self.neighbours:
                raise ParameterError("neighbours", "be the same for the plan and its costs", self.neighbours)
        if self.reserve is not None:
            checks.positive("reserve", self.reserve)

    # ---- reading

    def releases(self) -> Iterator[Release]:
        """Yield every release, groups opened."""
        for item in self.items:
            if isinstance(item, Release):
                yield item
            else:
                yield from item.releases

    def __getitem__(self, label: str) -> Release:
        for release in self.releases():
            if release.label == label:
                return release
        raise ParameterError("label", "name a release of the plan", label)

    @property
    def is_calibrated(self) -> bool:
        """Whether all noise is known."""
        return all(release.is_fixed for release in self.releases())

    @property
    def cost(self) -> Cost:
        """The whole plan as one cost, in its own order."""
        if not self._cost:
            self._cost.append(
                sequence([(run.cost, run.times) for run in self.runs()], neighbours=self.neighbours)
            )
        return self._cost[0]

    def runs(self) -> tuple[Run, ...]:
        """Return what is executed, in order; a round of a parallel group is one run of the group."""
        found: list[Run] = []
        for item in self.items:
            match item:
                case Release():
                    found.append(Run(item.label, item.priced(self.neighbours), item.times))
                case InParallel():
                    found.append(Run(item.label, item.unit(self.neighbours), item.times))
                case InSequence():
                    round_ = [Run(r.label, r.priced(self.neighbours), r.times) for r in item.releases]
                    found.extend(round_ * item.times)
        if self.reserve_mu is not None:
            found.append(Run(RESERVE, Gaussian(mu=self.reserve_mu, neighbours=self.neighbours), 1))
        return tuple(found)

    def account(self) -> Account:
        """Return the price by every method, at the plan's delta."""
        return self.cost.account(self._target()[1])

    def table(self) -> Table:
        """Return one row per kind of release."""
        rows = []
        spends = self._spends()
        total = math.fsum(spend for _, spend in spends.values()) or 1.0
        for label, (release, spend) in spends.items():
            cost = release.priced(self.neighbours) if release else Gaussian(mu=self.reserve_mu or 0.0)
            name = type(cost).noise_parameter if isinstance(cost, Atom) else None
            rows.append({
                "label": label,
                "cost": type(cost).__name__,
                "times": self._runs_of(label),
                "noise": name or "",
                "scale": release.scale if release and release.scale is not None else _scale_or_none(cost),
                "spend": spend / total,
            })  # fmt: skip
        return Table(rows)

    def explain(self) -> Table:
        """Return the price of each release alone and of the rest without it, then the whole by every method."""
        delta = self._target()[1]
        rows: list[dict[str, Any]] = []
        runs = self.runs()
        for label in dict.fromkeys(run.label for run in runs):
            alone = sequence([(r.cost, r.times) for r in runs if r.label == label])
            rest = [(r.cost, r.times) for r in runs if r.label != label]
            rows.append({
                "part": label,
                "method": "optimal",
                "epsilon": alone.epsilon(delta),
                "epsilon_of_the_rest": sequence(rest).epsilon(delta) if rest else 0.0,
            })  # fmt: skip
        for method, epsilon in self.account().methods.items():
            rows.append({"part": "whole plan", "method": method, "epsilon": epsilon, "epsilon_of_the_rest": None})
        return Table(rows)

    def statement(self) -> str:
        """Return the guarantee as a full sentence."""
        epsilon, delta = self._target()
        listed = ", ".join(
            f"{self._runs_of(label)} x {label}" for label in dict.fromkeys(run.label for run in self.runs())
        )
        return (
            f"Releasing {listed}, in this order and with the noise of the plan, is (epsilon={_up(epsilon)}, "
            f"delta={delta:.6g})-differentially private for {Neighbours(self.neighbours).sentence}, whatever choices are "
            f"made from earlier outputs within the plan; accounting: optimal adaptive composition; assumed: the stated "
            f"sensitivities, disjoint parts in parallel groups, and noise from the operating system's source."
        )

    # ---- calibrating

    def calibrate(
        self, epsilon: float | None = None, delta: float | None = None, *, budget: Balance | None = None
    ) -> Plan:
        """Return the plan with the least noise that meets (epsilon, delta), or fits in what a ledger has left.

        Parameters
        ----------
        epsilon, delta
            The target for the whole plan, priced in its own order by the optimal accountant.
        budget
            ``ledger.remaining()``: the plan's releases will all be accepted by that ledger's filter.
        """
        if budget is not None:
            if epsilon is not None or delta is not None:
                raise ParameterError("budget", "be given without epsilon and delta", budget)
            return self._within(budget)
        if epsilon is None or delta is None:
            raise ParameterError("epsilon", "be given with delta (or a budget instead)", epsilon)
        target = checks.positive("epsilon", epsilon), checks.delta_value(delta)
        bare = replace(self, epsilon=target[0], delta=target[1])
        if not self._shares():
            if self.cost.epsilon(target[1]) > target[0]:
                raise CalibrationError(f"the fixed releases alone cost more than epsilon={epsilon} at delta={delta}")
            return bare
        noise = calibrate(
            lambda x: bare._scaled(1 / (x * x)).cost, epsilon=target[0], delta=target[1], guess=self._guess(*target)
        )
        _LAST[self._key()] = (target[0], noise)
        return bare._scaled(1 / (noise * noise))

    def what_if(
        self, *, epsilon: Sequence[float], delta: float | None = None, times: Mapping[str, Sequence[int]] | None = None
    ) -> Table:
        """Return the calibrated scales for each epsilon and each alternative number of runs, as tidy rows.

        ``times={"leaf": [50, 100]}`` varies one release at a time.
        """
        delta = self._target()[1] if delta is None else checks.delta_value(delta)
        variants: list[tuple[str, int | None, Plan]] = [("", None, self)]
        for label, counts in (times or {}).items():
            variants = [(label, n, self._with_times(label, n)) for n in counts] + variants[1:]
        rows = []
        for label, count, plan in variants:
            for target in epsilon:
                fitted = plan._uncalibrated().calibrate(epsilon=target, delta=delta)
                for release in fitted.releases():
                    rows.append({
                        "epsilon": target, "delta": delta, "varied": label, "times": count,
                        "label": release.label, "scale": release.scale,
                    })  # fmt: skip
        return Table(rows)
