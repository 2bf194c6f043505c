"""Privacy amplification by Poisson subsampling."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ledgerwood import _checks
from ledgerwood._checks import Array
from ledgerwood.accounting.adjacency import Neighbours, as_neighbours
from ledgerwood.accounting.costs.base import Atom, Cost, set_fields
from ledgerwood.accounting.costs.guarantees import RDP, PureDP, group_curve
from ledgerwood.accounting.costs.noise import Gaussian
from ledgerwood.accounting.costs.sampled_gaussians import (
    MOST_RECORDS,
    PoissonSubsampledGroup,
    amplified,
    replaced_pair,
    sampled_curve,
    sampled_gaussian,
)
from ledgerwood.accounting.costs.selection import BoundedRange
from ledgerwood.accounting.curves import renyi
from ledgerwood.accounting.curves.numerics import log_factorial
from ledgerwood.errors import ParameterError

if TYPE_CHECKING:
    from ledgerwood.accounting.curves.dominating_pairs.base import LossPair

#: Largest αμ (or αε) for which the subsampled curve is integrated; beyond it the base curve is charged.
_REACH = 2000.0


@dataclass(frozen=True, slots=True, init=False, repr=False)
class PoissonSubsampled(Atom):
    r"""A release computed on a random subset: each record is kept with probability ``rate``, independently.

    Under add/remove, if (P₀, Q₀) dominates the release then the pairs ((1−q)Q₀ + qP₀, Q₀) and its reverse dominate
    the subsampled one (Zhu, Dong & Wang 2022, Theorem 11). Pure DP becomes log(1 + q(e^ε − 1)). A cost known only by
    its Rényi curve uses Zhu & Wang 2019, Theorem 5. The same holds of a record that is made void (``zero_out``).

    With ``neighbours="replace_one"`` the cost inside stays that of a record that is there or not, Gaussian noise with σ
    over the clipping norm: the record's own contribution and the other one's both count, the worst is that they point
    in opposite directions (docs/theory/batch-samplers.md). A replace-one cost inside is refused: what a replaced
    record costs in a batch bounds nothing when the record may be absent from it.

    >>> from ledgerwood.accounting import Gaussian
    >>> step = PoissonSubsampled(Gaussian(sigma=1.0), rate=0.01)
    >>> (10_000 * step).epsilon(delta=1e-5, method="rdp") <= 6.714
    True
    """

    cost: Cost
    rate: float
    replaced: bool  # whether replacing is derived from the cost inside; a relation alone may only be a label
    neighbours: Neighbours

    def __init__(self, cost: Cost, *, rate: float, neighbours: str | None = None) -> None:
        if not isinstance(cost, Cost):
            raise ParameterError("cost", "be a cost", cost)
        relation = cost.neighbours if neighbours is None else as_neighbours(neighbours)
        if relation is Neighbours.REPLACE_ONE:
            sampled_gaussian("PoissonSubsampled", cost)
        elif relation is not cost.neighbours:
            raise ParameterError("neighbours", f"equal those of the cost ({str(cost.neighbours)!r})", neighbours)
        replaced = relation is Neighbours.REPLACE_ONE
        set_fields(self, relation, cost=cost, rate=_checks.probability("rate", rate), replaced=replaced)

    def parameters(self) -> dict[str, Any]:
        return {"cost": self.cost, "rate": self.rate}

    def at_most(self, other: Cost) -> bool:
        if not isinstance(other, PoissonSubsampled) or self.replaced != other.replaced:
            return False
        return self.cost == other.cost and self.rate <= other.rate

    def _amplified(self, epsilon: float) -> float:
        return amplified(epsilon, self.rate)

    @property
    def _replaced(self) -> Gaussian | None:
        """Under replace-one: the release on all the data, where a replaced record moves the mean twice as far."""
        if not self.replaced:
            return None
        return Gaussian(mu=2 * (self.cost.mu() or 0.0), neighbours=self.neighbours)

    def pure_epsilon(self) -> float:
        base = self.cost.pure_epsilon()
        return (math.inf if self.rate else 0.0) if base == math.inf else self._amplified(base)

    def is_tight(self) -> bool:
        # One pair bounds a selection, but no single selection attains it in a composition.
        terms = self.cost.priced_terms()
        return self.cost.infinite_mass() == 0 and all(
            p.is_tight() and not isinstance(p, BoundedRange) for p, _ in terms
        )

    def infinite_mass(self) -> float:
        mass = self.cost.infinite_mass()
        return min(math.nextafter(self.rate * mass, 1.0), mass) if self.rate and mass else 0.0

    def priced_terms(self) -> tuple[tuple[Cost, int], ...]:
        whole = self._replaced or self.cost
        return whole.priced_terms() if self.rate == 1.0 else Atom.priced_terms(self)

    def mu(self) -> float | None:
        whole = self._replaced or self.cost
        return whole.mu() if self.rate == 1.0 else None

    def largest_order(self) -> float:
        return self.cost.largest_order()

    def _atoms(self, largest: float) -> tuple[Array, Array] | None:
        inner = self._flat()[0]
        mu = inner.mu()
        if mu is not None:
            return _gaussian_atoms(mu, largest)
        return inner.loss_atoms(largest) if isinstance(inner, Atom) else None

    def renyi(self, alpha: Array) -> Array:
        alpha = np.asarray(alpha, dtype=np.float64)
        return _remembered(self, alpha.tobytes()).reshape(alpha.shape).copy()

    def _renyi(self, alpha: Array) -> Array:
        if self.rate == 0.0 or self.is_free():
            return np.zeros_like(alpha)
        if (whole := self._replaced) is not None:
            pairs = self.pairs()
            return whole.renyi(alpha) if self.rate == 1.0 or not pairs else sampled_curve(pairs, whole.renyi, alpha)
        base = self.cost.renyi(alpha)
        if self.rate == 1.0:
            return base
        bound = np.minimum(base, self.pure_epsilon())
        if self.cost.infinite_mass() > 0:
            return np.minimum(bound, renyi.randomized_response(self._amplified(self.cost.pure_epsilon()), alpha))
        inner, rate = self._flat()
        reach = _REACH / max(_size(inner), 1e-2)
        curve = bound.copy().ravel()
        flat = alpha.ravel()
        # Orders are handled in groups, so that small ones do not pay for the fine quadrature of large ones.
        edges = [0.0, 8.0, 64.0, 512.0, 4096.0, 32768.0, math.inf]
        for low, high in pairwise(edges):
            chosen = (flat > low) & (flat <= high) & (flat <= reach)
            if not np.any(chosen):
                continue
            atoms = self._atoms(float(np.max(flat[chosen])))
            if atoms is None:
                curve[chosen] = np.minimum(curve[chosen], _from_curve(inner.renyi, rate, flat[chosen]))
                pairs = self.pairs() or ()
                if pairs and all(pair.closed_form for pair in pairs):
                    curve[chosen] = np.minimum(curve[chosen], sampled_curve(pairs, inner.renyi, flat[chosen]))
            else:
                curve[chosen] = np.minimum(curve[chosen], _from_atoms(*atoms, rate, flat[chosen]))
        return curve.reshape(alpha.shape)

    def pairs(self) -> tuple[LossPair, ...] | None:
        from ledgerwood.accounting.curves.dominating_pairs.base import SubsampledPair
        from ledgerwood.accounting.curves.dominating_pairs.discrete import ApproxDPPair

        if (whole := self._replaced) is not None:
            return whole.pairs() if self.rate == 1.0 else (replaced_pair((whole.mu() or 0.0) / 2, self.rate),)
        if self.cost.infinite_mass() > 0:
            return (ApproxDPPair(self._amplified(self.cost.pure_epsilon()), self.infinite_mass()),)
        if self.rate == 1.0:
            return self.cost.pairs()
        inner, rate = self._flat()
        base = _base_pair(inner)
        if base is None:
            return PureDP(self.pure_epsilon()).pairs() if self.pure_epsilon() < math.inf else None
        return SubsampledPair(base, rate, "remove"), SubsampledPair(base, rate, "add")

    def lower_pairs(self) -> tuple[LossPair, ...] | None:
        """Of the releases inside that have some, sampled."""
        from ledgerwood.accounting.curves.dominating_pairs.base import SubsampledPair

        exact = self.pairs() if self.is_tight() else None
        if exact or self.replaced or self.rate in (0.0, 1.0) or self.cost.infinite_mass() > 0:
            return exact
        inner, rate = self._flat()
        found = [pairs for part, n in inner.priced_terms() if (pairs := part.lower_pairs()) and n == 1]
        base = next((pairs[0] for pairs in found if pairs[0].reversed() == pairs[-1]), None)
        if base is None:
            return None
        return SubsampledPair(base, rate * (1 - 1e-15), "remove"), SubsampledPair(base, rate * (1 - 1e-15), "add")

    def _flat(self) -> tuple[Cost, float]:
        """The release on a sample of a sample of ..., and the product of the rates, rounded up."""
        inner: Cost = self.cost
        rate = self.rate
        while isinstance(inner, PoissonSubsampled):
            rate = min(math.nextafter(rate * inner.rate, 1.0), rate)
            inner = inner.cost
        return inner, rate

    def _group(self, k: int) -> Cost:
        if self.cost.mu() is not None and self._replaced is None and k <= MOST_RECORDS:
            return PoissonSubsampledGroup(self.cost, rate=self.rate, records=k)
        if self.pure_epsilon() < math.inf and self.infinite_mass() == 0:
            return PureDP(k * self.pure_epsilon(), neighbours=self.neighbours)
        if self.infinite_mass() > 0:
            raise ParameterError("k", "be 1 for a subsampled approximate-DP cost", k)
        return RDP(group_curve(self.renyi, k), neighbours=self.neighbours)


def _size(cost: Cost) -> float:
    """About the standard deviation of the loss, or its bound; 1 if neither is known."""
    mu, rho = cost.mu(), cost.rho()
    known = [mu] if mu is not None else [cost.pure_epsilon()] + ([math.sqrt(2 * rho)] if rho is not None else [])
    return min((size for size in known if size < math.inf), default=1.0)


def _base_pair(cost: Cost) -> LossPair | None:
    """The pair of removals of all releases on one sample, of which the reverse is that of additions."""
    from ledgerwood.accounting.curves.dominating_pairs.composite import ProductPair
    from ledgerwood.accounting.curves.dominating_pairs.continuous import GaussianPair

    mu = cost.mu()
    if mu is not None:
        return GaussianPair(mu) if mu > 0 else None
    parts = []
    for part, n in cost.priced_terms():
        pairs = part.pairs()
        if pairs is None or (len(pairs) == 1 and not pairs[0].symmetric) or pairs[0].reversed() != pairs[-1]:
            return None
        parts.append((pairs[0], n))
    if not parts:
        return None
    return parts[0][0] if len(parts) == 1 and parts[0][1] == 1 else ProductPair(tuple(parts))


@lru_cache(maxsize=64)  # each price of a plan begins at the same orders
def _remembered(cost: PoissonSubsampled, orders: bytes) -> Array:
    return cost._renyi(np.frombuffer(orders))


def _gaussian_atoms(mu: float, largest_order: float) -> tuple[Array, Array]:
    """Trapezoidal nodes of N(0,1) against N(μ,1), under P; the error decays like e^{-2π²/h} (analytic integrand)."""
    step = 0.125 / max(1.0, mu)
    x = np.arange(-13.0, (largest_order + 1) * mu + 13.0, step)
    return mu * x - mu * mu / 2, -((x - mu) ** 2) / 2 + math.log(step / math.sqrt(2 * math.pi))


def _from_atoms(losses: Array, log_p: Array, rate: float, alpha: Array) -> Array:
    """The worse of the two directions of the subsampled pair, at each order."""
    log_q = log_p - losses
    mixed = np.logaddexp(math.log1p(-rate), math.log(rate) + losses)
    small = np.abs(losses) < 1e-2
    mixed = np.where(small, np.log1p(rate * np.expm1(np.where(small, losses, 0.0))), mixed)
    remove = renyi.from_losses(mixed, log_q + mixed, alpha)
    add = renyi.from_losses(-mixed, log_q, alpha)
    return np.maximum(remove, add)


def _from_curve(curve: Any, rate: float, alpha: Array) -> Array:
    r"""Zhu & Wang 2019 (ICML), Theorem 5, at integer orders; interpolated between them.

    .. math:: e^{(\alpha-1)D'}\le(1-q)^{\alpha-1}(\alpha q-q+1)+\binom\alpha2 q^2(1-q)^{\alpha-2}e^{D_2}
              +3\sum_{l=3}^{\alpha}\binom\alpha l(1-q)^{\alpha-l}q^l e^{(l-1)D_l}
    """

    def at_integer(a: int) -> float:
        orders = np.arange(2, a + 1, dtype=np.float64)
        values = curve(orders)
        logs = (
            log_factorial(a)
            - log_factorial(orders)
            - log_factorial(a - orders)
            + (a - orders) * math.log1p(-rate)
            + orders * math.log(rate)
            + (orders - 1) * values
        )
        logs[1:] += math.log(3)
        first = (a - 1) * math.log1p(-rate) + math.log1p((a - 1) * rate)
        every = np.concatenate([[first], logs])
        peak = float(np.max(every))
        total = peak + math.log(float(np.sum(np.exp(every - peak)))) if peak < math.inf else math.inf
        return max(total, 0.0)  # (α-1)·D

    result = np.full(alpha.shape, math.inf)
    for i, a in enumerate(alpha):
        if a > 2000:
            continue
        low, high = max(2, math.floor(a)), max(2, math.ceil(a))
        share = min(max(a - low, 0.0), 1.0)
        moment = (1 - share) * at_integer(low) + (share * at_integer(high) if share else 0.0)
        result[i] = moment / max(a - 1.0, 1.0)
    return result
