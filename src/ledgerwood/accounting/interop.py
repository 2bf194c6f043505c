"""Costs as other libraries' values, and theirs as costs: autodp and dp-accounting.

Both packages are optional and imported at first use (``pip install 'ledgerwood[peers]'``). What crosses over is a
bound in both directions: a cost becomes a mechanism that promises no more than the cost does.

>>> from ledgerwood.accounting import Gaussian
>>> to_dp_accounting(1000 * Gaussian(sigma=50.0))
SelfComposedDpEvent(event=GaussianDpEvent(noise_multiplier=50.0), count=1000)
>>> from_dp_accounting(_)
1000 * Gaussian(sigma=50.0, sensitivity=1.0)
"""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np

from ledgerwood import _checks
from ledgerwood._checks import Array
from ledgerwood._rounding import ULP, denominator_down, raised, ratio_up
from ledgerwood.accounting.adjacency import Neighbours, as_neighbours
from ledgerwood.accounting.costs.base import Composition, Cost, compose, zero
from ledgerwood.accounting.costs.discrete_noise import DiscreteLaplace, RandomizedResponse
from ledgerwood.accounting.costs.guarantees import RDP, ZCDP
from ledgerwood.accounting.costs.noise import Gaussian, Laplace
from ledgerwood.accounting.costs.subsampled import PoissonSubsampled
from ledgerwood.errors import MissingDependency, ParameterError

__all__ = ["from_autodp", "from_dp_accounting", "to_autodp", "to_dp_accounting"]


def _peer(module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingDependency(package, "exchanging costs with it", "peers") from None


# -- autodp -----------------------------------------------------------------------------------------------------------


def to_autodp(cost: Cost) -> Any:
    """The cost as an ``autodp`` mechanism: its Rényi curve, its ε(δ) and δ(ε), its pure ε.

    On its own the mechanism answers with this library's tightest price; composed with others by autodp it is priced
    through its Rényi curve, as autodp does.

    >>> from ledgerwood.accounting import BoundedRange
    >>> mechanism = to_autodp(200 * BoundedRange(0.1))
    >>> f"{mechanism.get_approxDP(1e-5):.2f} {mechanism.RenyiDP(2.0):.4f}"
    '2.94 0.4998'
    """
    core = _peer("autodp.autodp_core", "autodp")
    mechanism = core.Mechanism()
    mechanism.name = repr(cost)
    mechanism.params = {}
    mechanism.neighboring = str(cost.neighbours)
    mass = cost.infinite_mass()
    if mass == 0:
        # autodp probes orders below 1 as well; the divergence grows with the order, so the value at 1 is a bound.
        mechanism.propagate_updates(lambda alpha: cost.rdp(max(float(alpha), 1.0)), "RDP")
        mechanism.eps_pureDP = cost.pure_epsilon()
    mechanism.delta0 = mass
    mechanism.approxDP = lambda delta: cost.epsilon(float(delta))
    mechanism.approx_delta = lambda epsilon: cost.delta(float(epsilon))
    return mechanism


def from_autodp(mechanism: Any, *, neighbours: str | None = None) -> Cost:
    """An ``autodp`` mechanism as a cost, by its Rényi curve and its pure ε.

    Only orders from 2 up are asked, since autodp's curves lose their digits near 1 (some fall to 0 or below there,
    see docs/explanation/peers.md); smaller orders take the value at 2, which bounds them. A value that is not a
    positive number says nothing and counts as infinite.

    Parameters
    ----------
    mechanism
        An ``autodp.autodp_core.Mechanism`` with a Rényi curve.
    neighbours
        The relation; the mechanism's own by default.

    >>> from autodp.mechanism_zoo import GaussianMechanism
    >>> from ledgerwood.accounting.interop import from_autodp
    >>> f"{(10 * from_autodp(GaussianMechanism(sigma=20.0))).epsilon(1e-6):.3f}"
    '0.700'
    """
    core = _peer("autodp.autodp_core", "autodp")
    if not isinstance(mechanism, core.Mechanism):
        raise ParameterError("mechanism", "be an autodp mechanism", mechanism)
    relation = str(mechanism.neighboring) if neighbours is None else neighbours
    if mechanism.eps_pureDP == 0:
        return zero(relation)
    pure = float(mechanism.eps_pureDP)

    def at(alpha: float) -> float:
        if alpha == math.inf:
            return pure
        with np.errstate(all="ignore"):
            value = float(mechanism.RenyiDP(max(alpha, 2.0)))
        return min(value, pure) if value > 0 else pure

    def curve(alpha: Array) -> Array:
        orders = np.asarray(alpha, dtype=np.float64)
        return np.array([at(float(a)) for a in orders.ravel()]).reshape(orders.shape)

    return RDP(curve, neighbours=relation)


# -- dp-accounting ----------------------------------------------------------------------------------------------------


def to_dp_accounting(cost: Cost) -> Any:
    """The cost as a ``dp_accounting`` event, where that library has one.

    Gaussian, Laplace, discrete Laplace, randomized response, zCDP, Poisson subsampling of a release, and sums of
    these. The neighbouring relation is the accountant's business there, not the event's: give it the same one.

    The noise of an event is measured in the bound C on one record's contribution. A record replaced by another moves
    a sum by up to 2C, so a Gaussian under replace-one has twice the noise multiplier in its event. dp-accounting
    0.6.0 agrees in its PLD accountant; its RDP accountant forgets the factor 2 and reports too little, so for that
    one export ``ZCDP(cost.rho())``. Laplace noise under replace-one is refused: the only accountant there that takes
    it is that one. Randomised response has an event for replace-one only, as in their accountants.

    k randomized responses are written out as k events: dp-accounting 0.6.0 forgets the count of a self-composed
    randomized response in its PLD accountant and would report the price of one.

    >>> from ledgerwood.accounting import Gaussian
    >>> from ledgerwood.accounting.interop import to_dp_accounting
    >>> type(to_dp_accounting(10 * Gaussian(sigma=20.0))).__name__
    'SelfComposedDpEvent'
    >>> to_dp_accounting(Gaussian(sigma=3.0, neighbours="replace_one"))
    GaussianDpEvent(noise_multiplier=6.0)
    """
    dp = _peer("dp_accounting.dp_event", "dp-accounting")
    if isinstance(cost, Composition):
        events = []
        for part, n in cost.parts:
            event = to_dp_accounting(part)
            if isinstance(part, RandomizedResponse):
                events += [event] * n
            else:
                events.append(event if n == 1 else dp.SelfComposedDpEvent(event, n))
        if not events:
            return dp.NoOpDpEvent()
        return events[0] if len(events) == 1 else dp.ComposedDpEvent(events)
    replace = cost.neighbours is Neighbours.REPLACE_ONE
    if cost.is_free():
        return dp.NoOpDpEvent()
    if isinstance(cost, Gaussian):
        return dp.GaussianDpEvent(denominator_down(2 if replace else 1, cost.ratio))
    if isinstance(cost, (Laplace, DiscreteLaplace)) and replace:
        hint = (
            "Its PLD accountant refuses Laplace noise under REPLACE_ONE and its RDP accountant prices it with half the "
            "sensitivity; a looser stand-in is ZCDP(cost.rho(), neighbours='replace_one')"
        )
        raise ParameterError("cost", "have an event that dp-accounting prices rightly", cost, hint)
    if isinstance(cost, Laplace):
        return dp.LaplaceDpEvent(denominator_down(1, cost.size))
    if isinstance(cost, DiscreteLaplace):
        return dp.DiscreteLaplaceDpEvent(ratio_up(1, cost.scale), cost.sensitivity)
    if isinstance(cost, RandomizedResponse):
        _replaced(cost.neighbours)
        # Pr[true]/Pr[other] = e^ε with Pr[other] = p/k and Pr[true] = 1 − p + p/k.
        p = cost.k / (math.expm1(cost.size) + cost.k) * (1 - 4 * ULP)  # of the few operations
        return dp.RandomizedResponseDpEvent(p, cost.k)
    if isinstance(cost, ZCDP):
        return dp.ZCDpEvent(cost.size)
    if isinstance(cost, PoissonSubsampled):
        return dp.PoissonSampledDpEvent(cost.rate, to_dp_accounting(cost.cost))
    hint = (
        "dp-accounting has events for Gaussian, Laplace, DiscreteLaplace, RandomizedResponse, ZCDP and Poisson "
        "subsampling; a looser stand-in is ZCDP(cost.rho())"
    )
    raise ParameterError("cost", "have an event in dp-accounting", cost, hint)


def from_dp_accounting(event: Any, *, neighbours: str = "add_remove") -> Cost:
    """A ``dp_accounting`` event as a cost under the given neighbouring relation.

    The noise of a Gaussian, Laplace or discrete Laplace event is measured in the bound C on one record's
    contribution to a sum, whatever the relation. Adding or removing a record moves the sum by at most C, replacing
    one by at most 2C: under replace-one the sensitivity is doubled. A zCDP event states its guarantee under the
    relation asked for. Randomised response is about one record's value, so it has a cost under replace-one only;
    Poisson samples have one under add/remove only.

    >>> import dp_accounting as dp
    >>> from_dp_accounting(dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1.0)))
    PoissonSubsampled(cost=Gaussian(sigma=1.0, sensitivity=1.0), rate=0.01)
    >>> from_dp_accounting(dp.GaussianDpEvent(1.0), neighbours="replace_one")
    Gaussian(sigma=1.0, sensitivity=2.0, neighbours='replace_one')
    """
    dp = _peer("dp_accounting.dp_event", "dp-accounting")
    relation = as_neighbours(neighbours)
    moves = 2 if relation is Neighbours.REPLACE_ONE else 1
    if isinstance(event, dp.NoOpDpEvent):
        return zero(relation)
    if isinstance(event, dp.SelfComposedDpEvent):
        return from_dp_accounting(event.event, neighbours=relation) * _checks.integer("count", event.count)
    if isinstance(event, dp.ComposedDpEvent):
        costs = [from_dp_accounting(e, neighbours=relation) for e in event.events]
        return compose([term for cost in costs for term in cost.terms], neighbours=relation)
    if isinstance(event, dp.GaussianDpEvent):
        return Gaussian(sigma=event.noise_multiplier, sensitivity=moves, neighbours=relation)
    if isinstance(event, dp.LaplaceDpEvent):
        return Laplace(scale=event.noise_multiplier, sensitivity=moves, neighbours=relation)
    if isinstance(event, dp.DiscreteLaplaceDpEvent):
        scale = denominator_down(1, _checks.positive("noise_parameter", event.noise_parameter))
        return DiscreteLaplace(scale=scale, sensitivity=moves * event.sensitivity, neighbours=relation)
    if isinstance(event, dp.RandomizedResponseDpEvent):
        _replaced(relation)
        p, k = event.noise_parameter, event.num_buckets
        if k == 1 or p == 1:
            return zero(relation)
        if 0 < p < 1:
            return RandomizedResponse(raised(math.log1p(k * (1 - p) / p)), k=k, neighbours=relation)
    if isinstance(event, dp.ZCDpEvent):
        xi, rho = _checks.non_negative("xi", event.xi), _checks.non_negative("rho", event.rho)
        return ZCDP(rho, neighbours=relation) if xi == 0 else RDP(_Line(xi, rho), neighbours=relation)
    if isinstance(event, dp.PoissonSampledDpEvent):
        return PoissonSubsampled(from_dp_accounting(event.event, neighbours=relation), rate=event.sampling_probability)
    hint = (
        "Known events: NoOp, SelfComposed, Composed, Gaussian, Laplace, DiscreteLaplace, RandomizedResponse with "
        "noise, ZCDp and PoissonSampled"
    )
    raise ParameterError("event", "be a dp-accounting event with a cost here", event, hint)


def _replaced(neighbours: Neighbours) -> None:
    """Refuse randomized response under add/remove: a record that is not there has no answer to randomize."""
    if neighbours is not Neighbours.REPLACE_ONE:
        hint = "The event randomises the value of one record that is there; dp-accounting refuses it too"
        raise ParameterError("neighbours", "be 'replace_one' for randomized response", str(neighbours), hint)


class _Line:
    """The Rényi curve ξ + ρα of (ξ, ρ)-zCDP."""

    def __init__(self, xi: float, rho: float) -> None:
        self.xi, self.rho = xi, rho

    def __call__(self, alpha: Any) -> Any:
        return self.xi + self.rho * alpha
