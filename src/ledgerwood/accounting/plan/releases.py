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
from ledgerwood.accounting.adjacency import Neighbours
from ledgerwood.accounting.costs.base import Atom, Cost
from ledgerwood.accounting.costs.parallel import parallel
from ledgerwood.accounting.curves.numerics import boundary
from ledgerwood.errors import CalibrationError, ParameterError

RESERVE = "reserve"
RESERVE_SLACK = 2.0**-39
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
    **fixed
        Further arguments of the cost class, such as ``sensitivity=2.0``.

    Examples
    --------
    >>> from ledgerwood.accounting import Gaussian, Release
    >>> Release("leaf", cost=Gaussian, times=50, scale=45.0).priced()
    Gaussian(sigma=45.0, sensitivity=1.0)
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
            "times": _checks.count("times", times, least=1),
            "share": None if share is None else _checks.positive("share", share),
            "scale": None if scale is None else _checks.positive("scale", scale),
            "fixed": tuple(sorted(fixed.items())),
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
        """Return the cost of one run; the noise must be known."""
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
        return Release(self.label, self.cost, self.times, self.share, scale, **dict(self.fixed))

    def with_times(self, times: int) -> Release:
        """Return the same release run more or less often."""
        return Release(self.label, self.cost, times, self.share, self.scale, **dict(self.fixed))

    def at_rho(self, rho: float, neighbours: str) -> Release:
        """Return the release with the noise at which one run has the small-scale concentrated cost ``rho``."""
        if self.kind is None:
            return self.with_scale(_scale_at_rho(cast("Callable[[float], Cost]", self.cost), rho))
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
    """Return the relation that the releases of an item speak of, in a plan under ``neighbours``."""
    return str(Neighbours.ADD_REMOVE) if isinstance(item, InParallel) else neighbours


Item: TypeAlias = Release | InSequence | InParallel


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
    """Return the noise parameter of a single release, None if it has none."""
    name = type(cost).noise_parameter if isinstance(cost, Atom) else None
    if name is None:
        return None
    value = getattr(cost, name, None) if name != "epsilon" else None
    return float(value) if isinstance(value, float) else float(cost.parameters()[name])  # type: ignore[attr-defined]


def _scale_at_rho(cost: Callable[[float], Cost], rho: float) -> float:
    """Return the scale at which a monotone function of it has small-scale concentrated cost at most ``rho``."""
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
    _checks.count("times", group.times, least=1)
