"""Gaussian releases on a random part of the data, beyond one record added or removed: normal mixtures."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ledgerwood import _checks
from ledgerwood._checks import Array
from ledgerwood._rounding import raised
from ledgerwood.accounting.adjacency import Neighbours
from ledgerwood.accounting.costs.base import Atom, Cost, set_fields
from ledgerwood.accounting.costs.noise import Gaussian
from ledgerwood.accounting.curves.numerics import log_factorial
from ledgerwood.errors import ParameterError

if TYPE_CHECKING:
    from ledgerwood.accounting.curves.dominating_pairs.base import LossPair
    from ledgerwood.accounting.curves.dominating_pairs.mixtures import MixturePair


def amplified(epsilon: float, rate: float) -> float:
    """log(1 + q(e^ε − 1)), rounded up, also where e^ε overflows."""
    if rate == 0 or epsilon == 0:
        return 0.0
    if epsilon <= 700:
        value = raised(math.log1p(rate * math.expm1(epsilon)), 49)
    else:  # at most log(1 + qe^ε); log q and ε may cancel, and their sum x has log(1 + e^x) for a bound of error
        value = float(np.logaddexp(0.0, math.log(rate) + epsilon)) * (1 + 1e-12)
    return min(raised(value, 52) + 5e-324, epsilon)


def sampled_gaussian(name: str, cost: Cost, relations: tuple[Neighbours, ...] = (Neighbours.ADD_REMOVE,)) -> float:
    """The μ of a Gaussian cost of a record that is there or not, to be sampled in another way; or a clear error."""
    if not isinstance(cost, Cost):
        raise ParameterError("cost", "be a cost", cost)
    if cost.neighbours not in relations:
        hint = (
            "What a replaced record costs does not bound what one costs that is there or not. State the noise over the "
            "clipping norm: Gaussian(sigma=…)"
        )
        raise ParameterError("neighbours", f"be 'add_remove' for the cost inside {name}", str(cost.neighbours), hint)
    mu = cost.mu()
    if mu is None:
        hint = "The worst case of other noise is not known"
        raise ParameterError("cost", f"be Gaussian inside {name} under this relation", cost, hint)
    return mu


def replaced_pair(mu: float, rate: float) -> LossPair:
    """Poisson sampling under replace-one: the record moves the mean by μ, or the other one by −μ."""
    from ledgerwood.accounting.curves.dominating_pairs.mixtures import MixturePair

    return MixturePair(((1 - rate, 0.0), (rate, mu)), ((1 - rate, 0.0), (rate, -mu)))


def sampled_curve(pairs: tuple[LossPair, ...], unsampled: Callable[[Array], Array], alpha: Array) -> Array:
    """The Rényi curve of the worse of the pairs, remembered: each price of a plan begins at the same orders."""
    orders = np.asarray(alpha, dtype=np.float64)
    return _remembered(pairs, unsampled, orders.tobytes()).reshape(orders.shape).copy()


@lru_cache(maxsize=64)
def _remembered(pairs: tuple[LossPair, ...], unsampled: Callable[[Array], Array], orders: bytes) -> Array:
    from ledgerwood.accounting.curves.dominating_pairs.mixtures import renyi_above

    return np.asarray(np.max([renyi_above(pair, np.frombuffer(orders), unsampled) for pair in pairs], axis=0))


@dataclass(frozen=True, slots=True, init=False, repr=False)
class PoissonSubsampledGroup(Atom):
    r"""A Gaussian release on a Poisson sample, of which ``records`` records are all there or all absent.

    Bin(records, rate) of them are in the sample, and j of them move the mean by at most j times one of them: the pair
    is :math:`\sum_j \binom kj q^j(1-q)^{k-j} N(j\mu, 1)` against :math:`N(0, 1)` (Choquette-Choo et al. 2023,
    arXiv:2310.15526).
    Made by ``PoissonSubsampled(…).group(k)``. Theory: docs/theory/batch-samplers.md.
    """

    cost: Cost
    rate: float
    records: int
    neighbours: Neighbours

    def __init__(self, cost: Cost, *, rate: float, records: int, neighbours: str | None = None) -> None:
        if neighbours is not None and isinstance(cost, Cost) and neighbours != cost.neighbours:
            raise ParameterError("neighbours", f"equal those of the cost ({str(cost.neighbours)!r})", neighbours)
        sampled_gaussian(type(self).__name__, cost, (Neighbours.ADD_REMOVE, Neighbours.ZERO_OUT))
        count = _checks.integer("records", records, 1)
        if count > MOST_RECORDS:
            raise ParameterError("records", f"be at most {MOST_RECORDS}", records)
        set_fields(self, cost.neighbours, cost=cost, rate=_checks.probability("rate", rate), records=count)

    def parameters(self) -> dict[str, Any]:
        return {"cost": self.cost, "rate": self.rate, "records": self.records}

    @property
    def _all(self) -> Gaussian:
        """All of them in the sample, surely."""
        mu = self.cost.mu()
        assert mu is not None
        return Gaussian(mu=self.records * mu, neighbours=self.neighbours)

    def at_most(self, other: Cost) -> bool:
        return (
            isinstance(other, PoissonSubsampledGroup)
            and self.cost == other.cost
            and self.rate <= other.rate
            and self.records <= other.records
        )

    def pure_epsilon(self) -> float:
        return self._all.pure_epsilon() if self.rate else 0.0

    def is_tight(self) -> bool:
        return self.cost.is_tight()

    def mu(self) -> float | None:
        return self._all.mu() if self.rate == 1.0 else 0.0 if self.is_free() else None

    def renyi(self, alpha: Array) -> Array:
        if self.is_free() or self.rate == 1.0:
            return np.zeros_like(alpha) if self.is_free() else self._all.renyi(alpha)
        return sampled_curve(self.pairs(), self._all.renyi, alpha)

    def pairs(self) -> tuple[LossPair, ...]:
        if self.rate == 1.0 or self.is_free():
            return self._all.pairs() or ()
        pair = _group_pair(self.cost.mu() or 0.0, self.rate, self.records)
        return pair, pair.reversed()

    def _group(self, k: int) -> Cost:
        return PoissonSubsampledGroup(self.cost, rate=self.rate, records=k * self.records)


MOST_RECORDS = 64
"""Records of one group: each number of them in the sample is a part of the mixture. Larger ones are priced by Rényi."""


@lru_cache(maxsize=32)
def _group_pair(mu: float, rate: float, records: int) -> MixturePair:
    from ledgerwood.accounting.curves.dominating_pairs.mixtures import MixturePair

    j = np.arange(records + 1)
    logs = log_factorial(records) - log_factorial(j) - log_factorial(records - j)
    logs = logs + j * math.log(rate) + (records - j) * math.log1p(-rate)
    # Numbers that come up less often than 1e-300 are counted as the largest of all, which is dearer.
    weights = np.exp(logs)
    kept = weights > 1e-300
    kept[0], kept[-1] = True, True
    weights[-1] += math.fsum(weights[~kept]) + 1e-300
    weights[0] = max(weights[0], 1e-300)
    weights /= math.fsum(weights[kept])
    return MixturePair(
        tuple((float(w), float(mu * i)) for w, i in zip(weights[kept], j[kept], strict=True)), ((1.0, 0.0),)
    )
