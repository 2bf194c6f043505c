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
from ledgerwood.accounting.costs.allocation import RandomAllocation
from ledgerwood.accounting.costs.base import Composition, Cost, compose, zero
from ledgerwood.accounting.costs.discrete_noise import DiscreteLaplace, RandomizedResponse
from ledgerwood.accounting.costs.fixed_batches import TruncatedPoisson, WithoutReplacement
from ledgerwood.accounting.costs.guarantees import RDP, ZCDP
from ledgerwood.accounting.costs.noise import Gaussian, Laplace
from ledgerwood.accounting.costs.sampled_gaussians import PoissonSubsampledGroup
from ledgerwood.accounting.costs.subsampled import PoissonSubsampled
from ledgerwood.accounting.curves.dominating_pairs.mixtures import MixturePair
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

    Gaussian, Laplace, discrete Laplace, randomized response, zCDP, Poisson subsampling of a release, truncated Poisson
    samples and groups in Poisson samples, and sums of these. The neighbouring relation is the accountant's business
    there, not the event's: give it the same one.

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
    if isinstance(cost, TruncatedPoisson):
        noise = denominator_down(1, cost.cost.mu() or 0.0)
        return dp.TruncatedSubsampledGaussianDpEvent(cost.population, cost.rate, cost.limit, noise)
    if isinstance(cost, PoissonSubsampledGroup) and isinstance(pair := cost.pairs()[0], MixturePair):
        weights, means = zip(*pair.of_p, strict=True)
        return dp.MixtureOfGaussiansDpEvent(1.0, list(means), list(weights))
    raise ParameterError("cost", "have an event in dp-accounting", cost, _WITHOUT_EVENT.get(type(cost), _EVENTS_OUT))


def from_dp_accounting(event: Any, *, neighbours: str = "add_remove") -> Cost:
    """A ``dp_accounting`` event as a cost under the given neighbouring relation.

    The noise of a Gaussian, Laplace or discrete Laplace event is measured in the bound C on one record's
    contribution to a sum, whatever the relation. Adding or removing a record moves the sum by at most C, replacing
    one by at most 2C: under replace-one the sensitivity is doubled. A zCDP event states its guarantee under the
    relation asked for. Randomised response is about one record's value, so it has a cost under replace-one only, and
    so have samples without replacement. Truncated Poisson samples have one under zero-out (``REPLACE_SPECIAL`` there)
    and replace-one. Events without a cost here are refused with the reason.

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
        # A replaced record is there or not: the cost inside is that of one added or removed.
        inside = Neighbours.ADD_REMOVE if relation is Neighbours.REPLACE_ONE else relation
        inner = from_dp_accounting(event.event, neighbours=inside)
        return PoissonSubsampled(inner, rate=event.sampling_probability, neighbours=relation)
    if isinstance(event, dp.SampledWithoutReplacementDpEvent):
        inner = from_dp_accounting(event.event, neighbours=relation)
        return WithoutReplacement(inner, population=event.source_dataset_size, batch=event.sample_size)
    if isinstance(event, dp.TruncatedSubsampledGaussianDpEvent):
        return TruncatedPoisson(
            Gaussian(sigma=event.noise_multiplier),
            rate=event.sampling_probability,
            limit=event.truncated_batch_size,
            population=event.dataset_size,
            neighbours=relation,
        )
    if isinstance(event, dp.MixtureOfGaussiansDpEvent) and len(event.sensitivities) == 2 and 0 in event.sensitivities:
        moved = max((0, 1), key=lambda i: abs(event.sensitivities[i]))
        inner = Gaussian(sigma=event.standard_deviation, sensitivity=abs(event.sensitivities[moved]))
        return PoissonSubsampled(inner, rate=event.sampling_probs[moved], neighbours=relation)
    hint = _WITHOUT_COST.get(type(event).__name__, _EVENTS_IN)
    raise ParameterError("event", "be a dp-accounting event with a cost here", event, hint)


_EVENTS_OUT = (
    "dp-accounting has events for Gaussian, Laplace, DiscreteLaplace, RandomizedResponse, ZCDP, Poisson samples, "
    "groups in them and truncated ones; a looser stand-in is ZCDP(cost.rho())"
)
_EVENTS_IN = (
    "Known events: NoOp, SelfComposed, Composed, Gaussian, Laplace, DiscreteLaplace, RandomizedResponse with noise, "
    "ZCDp, PoissonSampled, SampledWithoutReplacement, TruncatedSubsampledGaussian and MixtureOfGaussians of two parts"
)
#: Costs whose event would be priced too low there, or that have none.
_WITHOUT_EVENT: dict[type[Cost], str] = {
    WithoutReplacement: (
        "Only its RDP accountant takes samples without replacement, and prices Gaussian noise in them with half the "
        "sensitivity of a replaced record"
    ),
    RandomAllocation: "dp-accounting 0.6.0 has no event for random allocation; Poisson batches have one",
}
#: Events that have no cost here, and why.
_WITHOUT_COST = {
    "NonPrivateDpEvent": "It has no finite price",
    "UnsupportedDpEvent": "It says nothing of what was released",
    "SampledWithReplacementDpEvent": (
        "Samples in which a record may be twice are not priced here; draw without replacement or by Poisson sampling"
    ),
    "MixtureOfGaussiansDpEvent": "Only a mixture with one sensitivity besides 0, a Poisson sample, has a cost here",
    "SingleEpochTreeAggregationDpEvent": (
        "State the Gaussian release of the whole tree: a record is in one node of each level, so its sensitivity is "
        "the square root of the number of levels"
    ),
    "RepeatAndSelectDpEvent": "Choosing the best of a random number of runs has no cost here",
}


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
