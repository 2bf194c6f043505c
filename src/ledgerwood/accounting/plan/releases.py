"""What a plan is made of: kinds of release, and groups of them in sequence or in parallel."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias, cast

import numpy as np

from ledgerwood import _checks
from ledgerwood._rounding import MARGIN
from ledgerwood.accounting.adjacency import Neighbours
from ledgerwood.accounting.costs.base import Atom, Cost
from ledgerwood.accounting.costs.parallel import parallel
from ledgerwood.accounting.costs.subsampled import PoissonSubsampled
from ledgerwood.accounting.curves.numerics import boundary
from ledgerwood.errors import CalibrationError, ParameterError

RESERVE = "reserve"
RESERVE_SLACK = 2 * MARGIN
"""A plan pays for a reserve whose squared mu is larger by this, so that the whole can be spent despite rounding."""
Template: TypeAlias = type[Atom] | Callable[[float], Cost] | Cost


@dataclass(frozen=True, slots=True, init=False)
class Release:
    """One kind of release.

    Parameters
    ----------
    label
        A public name, unique in its plan.
    cost
        A cost class (``Gaussian``, ``BoundedRange``, ...), a function from the noise parameter to a cost, or a cost.
    times
        How often it runs.
    share
        Its share of the calibrated spend, relative to the sum of all shares. Without one the noise is fixed.
    scale
        The noise parameter: given when the noise is fixed, found by calibration when there is a share.
    group
        The cost is that of one record; what is charged is the cost of this many records changed at once.
    rate
        The release is about a Poisson sample of the records; what is charged is the cost amplified by this rate. For
        its share of the spend it counts as the square of the rate times its cost without sampling.
    **fixed
        Further arguments of the cost class, such as ``sensitivity=2.0``.

    Examples
    --------
    >>> from ledgerwood.accounting import Gaussian, Release
    >>> Release("leaf", cost=Gaussian, times=50, scale=45.0).priced()
    Gaussian(sigma=45.0, sensitivity=1.0)
    >>> person = Release("leaf", cost=Gaussian, scale=45.0, group=3)
    >>> person.record_cost(), person.priced()
    (Gaussian(sigma=45.0, sensitivity=1.0), Gaussian(mu=0.06666666666666667))
    """

    label: str
    cost: Template
    times: int
    share: float | None
    scale: float | None
    fixed: tuple[tuple[str, Any], ...]
    group: int
    rate: float

    def __init__(
        self,
        label: str,
        cost: Template,
        times: int = 1,
        share: float | None = None,
        scale: float | None = None,
        *,
        group: int = 1,
        rate: float = 1.0,
        **fixed: Any,
    ) -> None:
        check_label(label)
        if isinstance(cost, Cost):
            if share is not None or fixed:
                raise ParameterError("cost", "be a class or a function to be given a share or arguments", cost)
            scale = scale_of(cost) if scale is None else scale
        elif isinstance(cost, type):
            if not issubclass(cost, Atom) or cost.noise_parameter is None:
                raise ParameterError("cost", "be a cost class with a noise parameter", cost.__name__)
            for name in {"neighbours", cost.noise_parameter} & fixed.keys():
                raise ParameterError(name, "be left to the plan (neighbours=) or to scale=", fixed[name])
            known = _arguments(cost)
            for name in sorted(fixed.keys() - known.keys()):
                raise ParameterError(name, f"be an argument of {cost.__name__} ({', '.join(known)})", fixed[name])
        elif not callable(cost):
            raise ParameterError("cost", "be a cost, a cost class or a function of the noise parameter", cost)
        elif fixed:
            raise ParameterError("fixed", "be empty for a function of the noise parameter", sorted(fixed))
        for name, value in {
            "label": label,
            "cost": cost,
            "times": _checks.integer("times", times, 1),
            "share": None if share is None else _checks.positive("share", share),
            "scale": None if scale is None else _checks.positive("scale", scale),
            "fixed": tuple(sorted(fixed.items())),
            "group": _checks.integer("group", group, 1),
            "rate": _checked_rate(rate, group),
        }.items():
            object.__setattr__(self, name, value)

    @property
    def kind(self) -> type[Atom] | None:
        """The cost class, if the cost was given as one."""
        return cast("type[Atom]", self.cost) if isinstance(self.cost, type) else None

    @property
    def is_known(self) -> bool:
        """Whether its noise is known: fixed, or calibrated."""
        return isinstance(self.cost, Cost) or self.scale is not None

    def priced(self, neighbours: str = "add_remove") -> Cost:
        """Return what one run is charged: the cost of the group, amplified by sampling. The noise must be known."""
        return self.for_unit(self.record_cost(neighbours))

    def for_unit(self, cost: Cost) -> Cost:
        """Return what is charged for one run, from what it costs for one record."""
        whole = cost.group(self.group)
        return whole if self.rate == 1 else PoissonSubsampled(whole, rate=self.rate)

    def record_cost(self, neighbours: str = "add_remove") -> Cost:
        """Return the cost of one run for one record of the sample: that of the mechanism which draws its noise."""
        if isinstance(self.cost, Cost):
            return self.cost
        if self.scale is None:
            raise ParameterError("plan", "be calibrated first: plan.calibrate(epsilon=..., delta=...)", self.label)
        if self.kind is None:
            return cast("Callable[[float], Cost]", self.cost)(self.scale)
        arguments = {str(self.kind.noise_parameter): self.scale, "neighbours": neighbours, **dict(self.fixed)}
        return self.kind(**arguments)

    def with_scale(self, scale: float | None) -> Release:
        """Return the same release with another noise parameter."""
        return self._changed(scale=scale)

    def with_times(self, times: int) -> Release:
        """Return the same release run more or less often."""
        return self._changed(times=times)

    def with_share(self, share: float | None) -> Release:
        """Return the same release, not yet calibrated, with another share."""
        return self._changed(share=share, scale=None)

    def with_group(self, group: int) -> Release:
        """Return the same release, charged for this many records changed at once."""
        return self._changed(group=group)

    def _changed(self, **fields: Any) -> Release:
        own = {name: getattr(self, name) for name in ("times", "share", "scale", "group", "rate")}
        return Release(self.label, self.cost, **{**own, **fields}, **dict(self.fixed))

    def frozen(self) -> Release:
        """Return the release with its cost instead of the function that gave it: the function is not called again."""
        if isinstance(self.cost, Cost) or self.kind is not None:
            return self
        return Release(self.label, self.record_cost(), self.times, None, self.scale, group=self.group, rate=self.rate)

    def at_rho(self, rho: float, neighbours: str) -> Release:
        """Return the release with the noise at which one run has the small-scale concentrated cost ``rho``.

        That of its group. Sampled at a small rate q, a spend rho composes like q^2 rho, which is what counts here.
        """
        rho /= self.rate**2
        if self.kind is None or self.group > 1:

            def of_group(scale: float) -> Cost:
                return self.with_scale(scale).record_cost(neighbours).group(self.group)

            return self.with_scale(_scale_at_rho(of_group, rho))
        return self.with_scale(scale_of(self.kind.from_rho(rho, neighbours=neighbours, **dict(self.fixed))))


@lru_cache(maxsize=64)
def _arguments(kind: type[Atom]) -> Mapping[str, inspect.Parameter]:
    """The arguments of a cost class; remembered, because a plan of a thousand releases asks at every step."""
    return inspect.signature(kind).parameters


@dataclass(frozen=True, slots=True)
class InSequence:
    """A round of releases, one after the other, run ``times`` times.

    >>> from ledgerwood.accounting import BoundedRange, Gaussian, InSequence, Release
    >>> split, leaf = Release("split", BoundedRange, times=4, share=0.7), Release("leaf", Gaussian, share=0.3)
    >>> InSequence("tree", [split, leaf], times=50).times
    50
    """

    label: str
    releases: Iterable[Release]
    times: int = 1

    def __post_init__(self) -> None:
        _check_group(self)

    @property
    def members(self) -> tuple[Release, ...]:
        """The releases of one round."""
        return tuple(self.releases)


@dataclass(frozen=True, slots=True)
class InParallel:
    """Releases about disjoint records: each part follows one of ``releases``; any number of parts.

    The costs inside are those of a part when one record is added to it or removed from it, under either relation:
    see :func:`parallel`. Under add/remove a round costs its worst kind of part; under replace-one, two parts together
    or two records of one. The group has the share and every kind of part is calibrated to it, so the releases inside
    have none of their own.

    >>> from ledgerwood.accounting import Gaussian, InParallel, Release
    >>> InParallel("regions", [Release("region", Gaussian, times=2)], share=1.0).label
    'regions'
    """

    label: str
    releases: Iterable[Release]
    times: int = 1
    share: float | None = None

    def __post_init__(self) -> None:
        _check_group(self)
        if self.share is not None:
            object.__setattr__(self, "share", _checks.positive("share", self.share))
        for release in self.members:
            if release.group > 1:
                rule = "be 1 inside a parallel group: the records of a unit may lie in several parts"
                raise ParameterError("group", rule, release.group)
            if release.share is not None:
                raise ParameterError("share", "be given to the parallel group, not inside it", release.share)
            if self.share is None and not release.is_known:
                raise ParameterError("share", "be given to a parallel group that is to be calibrated", None)
            if self.share is not None and isinstance(release.cost, Cost):
                raise ParameterError("cost", "be a class or a function inside a group with a share", release.cost)

    @property
    def members(self) -> tuple[Release, ...]:
        """The kinds of part."""
        return tuple(self.releases)

    def unit(self, neighbours: str) -> Cost:
        """Return the cost of one round: two parts of each kind already show the worst of any number."""
        parts = [release.priced() * release.times for release in self.members]
        return parallel(*parts, *parts, neighbours=neighbours)


def relation_inside(item: Release | InSequence | InParallel, neighbours: str) -> str:
    """Return the relation that the releases of an item are stated for, in a plan under ``neighbours``."""
    return str(Neighbours.ADD_REMOVE) if isinstance(item, InParallel) else neighbours


Item: TypeAlias = Release | InSequence | InParallel


def _checked_rate(rate: Any, group: int) -> float:
    found = _checks.probability("rate", rate)
    if found == 0:
        raise ParameterError("rate", "lie in (0, 1]", rate)
    if found < 1 and group > 1:
        raise ParameterError("rate", "be 1 for a group: each of its records would be drawn by a coin of its own", rate)
    return found


def check_label(label: Any) -> None:
    """Refuse what cannot name a release."""
    if not isinstance(label, str) or not label or label == RESERVE:
        raise ParameterError("label", f"be a non-empty string other than {RESERVE!r}", label)


def small_scale_rho(cost: Cost) -> float:
    """Return the concentrated cost that shares are measured in; half the order-2 divergence where none is known."""
    rho = cost.rho()
    if rho is not None:
        return rho
    with np.errstate(over="ignore", invalid="ignore"):  # a search may probe scales at which nothing is finite
        return float(cost.renyi(np.array([2.0]))[0]) / 2


def scale_of(cost: Cost) -> float | None:
    """Return the noise parameter of a single release, None if it has none or states its noise in another way."""
    name = type(cost).noise_parameter if isinstance(cost, Atom) else None
    if name is None:
        return None
    value = getattr(cost, name, None) if name != "epsilon" else None  # ``epsilon`` is the method of a cost
    if not isinstance(value, float):
        value = cost.parameters().get(name)  # type: ignore[attr-defined]
    return None if value is None else float(value)


def _scale_at_rho(cost: Callable[[float], Cost], rho: float) -> float:
    """Return the scale at which a monotone function of it has small-scale concentrated cost at most ``rho``.

    For functions, whose inverse is not known; a cost class has a closed form (``from_rho``).
    """
    growing = small_scale_rho(cost(2.0)) > small_scale_rho(cost(1.0))  # more scale, more cost: an epsilon

    def gap(log_noise: float) -> float:
        spend = small_scale_rho(cost(math.exp(-log_noise if growing else log_noise)))
        return math.log(spend / rho) if 0 < spend < math.inf else math.copysign(math.inf, spend - rho)

    bad = good = 0.0
    step = 0.5
    while gap(good) > 0:
        bad, good, step = good, good + step, 2 * step
        if good > 600:
            raise CalibrationError("the cost function reaches no cost that small at any scale")
    while gap(bad) <= 0:
        bad, step = bad - step, 2 * step
        if bad < -600:
            raise CalibrationError("the cost function stays that small at every scale: does it depend on the scale?")
    noise = math.exp(boundary(gap, good=good, bad=bad, tolerance=1e-10))
    return 1 / noise if growing else noise


def _check_group(group: InSequence | InParallel) -> None:
    check_label(group.label)
    object.__setattr__(group, "releases", tuple(group.releases))
    if not group.members or not all(isinstance(release, Release) for release in group.members):
        raise ParameterError("releases", "be one or more releases", group.releases)
    _checks.integer("times", group.times, 1)
