"""The costs of selections: bounded range, noisy max and permute-and-flip, and the sparse vector technique."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from ledgerwood import _checks
from ledgerwood._checks import Array
from ledgerwood.accounting.adjacency import Neighbours
from ledgerwood.accounting.costs.base import Atom, Cost, EpsilonCost, set_fields
from ledgerwood.accounting.costs.guarantees import RDP, PureDP, group_curve
from ledgerwood.accounting.costs.noise import composite_legendre, laplace_atoms
from ledgerwood.accounting.curves import renyi
from ledgerwood.accounting.curves.numerics import log_ndtr
from ledgerwood.errors import ParameterError

if TYPE_CHECKING:
    from ledgerwood.accounting.curves.dominating_pairs.base import LossPair


@dataclass(frozen=True, slots=True, init=False, repr=False)
class NoisyMax(EpsilonCost):
    """Report-noisy-max with Laplace noise: no easier to attack than one Laplace release of the same ε.

    The Laplace pair dominates it for any number of candidates, which is more than pure ε-DP says
    (docs/theory/noisy-max.md). It is *not* ε-bounded-range.

    >>> f"{(100 * NoisyMax(0.1)).epsilon(delta=1e-5):.4f}"
    '4.2203'
    """

    def at_most(self, other: Cost) -> bool:
        return isinstance(other, (NoisyMax, PureDP)) and self.size <= other.size

    def is_tight(self) -> bool:
        return False  # a selection among few candidates says less than the noise itself

    def renyi(self, alpha: Array) -> Array:
        return renyi.laplace(self.size, alpha)

    def pairs(self) -> tuple[LossPair, ...] | None:
        from ledgerwood.accounting.curves.dominating_pairs.continuous import LaplacePair

        return (LaplacePair(self.size),)

    def loss_atoms(self, largest_order: float) -> tuple[Array, Array]:
        return laplace_atoms(self.size, largest_order)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class PermuteAndFlip(NoisyMax):
    """Permute-and-flip selection: exactly pure ε-DP, dominated by the Laplace pair, and *not* ε-bounded-range.

    With two candidates its loss has range ε + log(2 − e^{−ε}) ≈ 2ε, so the bounded-range price would be wrong
    (docs/theory/theorem-1.md). It is report-noisy-max with exponential noise, which the Laplace pair dominates
    (docs/theory/noisy-max.md).

    >>> PermuteAndFlip(0.1).rdp(2.0) > BoundedRange(0.1).rdp(2.0)
    True
    >>> account = (100 * PermuteAndFlip(0.1)).account(delta=1e-5)
    >>> 4.18 < account.lower < account.epsilon < 4.2204
    True
    """

    def lower_pairs(self) -> tuple[LossPair, ...] | None:
        """Of two candidates whose scores pass each other: randomised response with odds 2e^{ε/2} − 1."""
        from ledgerwood.accounting.curves.dominating_pairs.discrete import PureDPPair

        size = math.log1p(2 * math.expm1(self.size / 2)) if self.size < 1000 else self.size / 2
        return (PureDPPair(size * (1 - 1e-14)),) if size > 0 else None


@dataclass(frozen=True, slots=True, init=False, repr=False)
class BoundedRange(EpsilonCost):
    """ε-bounded range: the exponential mechanism, whose loss lies in an interval of length ε.

    Rényi curve: Theorem 1 in closed form. One release: the exact profile. Many: the optimal adaptive recursion.

    >>> BoundedRange(0.1).rdp([1.0, 2.0]).round(8)
    array([0.00124983, 0.00249896])
    """

    rho_ratio: ClassVar[float] = 0.25

    def at_most(self, other: Cost) -> bool:
        return isinstance(other, (BoundedRange, NoisyMax, PureDP)) and self.size <= other.size

    def renyi(self, alpha: Array) -> Array:
        return renyi.bounded_range(self.size, alpha)

    def pairs(self) -> tuple[LossPair, ...] | None:
        from ledgerwood.accounting.curves.dominating_pairs.continuous import BoundedRangePair

        return (BoundedRangePair(self.size),)

    def loss_atoms(self, largest_order: float) -> tuple[Array, Array]:
        # The least profile valid for the class has loss density e^{(l-ε)/2}/(2(1-e^{-ε})) on [-ε, ε] under P.
        u, w = composite_legendre(1 + math.ceil(largest_order * self.size / 8))
        losses = self.size * (2 * u - 1)
        return losses, (losses - self.size) / 2 + np.log(w * self.size / -math.expm1(-self.size))


@dataclass(frozen=True, slots=True, init=False, repr=False)
class SparseVector(Atom):
    r"""Above-threshold queries until ``cutoff`` answers are positive.

    ``SparseVector(epsilon=…)``: Laplace noise, the correct variant (Lyu, Su & Li 2017, Alg. 7): pure ε-DP for any
    number of queries. ``SparseVector(sigma_threshold=…, sigma_query=…, max_queries=…)``: Gaussian noise with a fresh
    threshold after each positive answer. With s = 2Δ/σ_query (Δ/σ_query for monotone queries) and Ψ = 1 − Φ, one
    run of at most k queries has

    .. math:: D_\alpha\le\frac{\alpha\Delta^2}{2\sigma_{thr}^2}+\frac{\log W_k}{\alpha-1},\quad W_0=1,\quad
              W_j=\sup_u\;\Psi(u)^{\alpha}\Psi(u+s)^{1-\alpha}+(1-\Psi(u))\,W_{j-1}

    (Hölder's inequality over the threshold's noise, then the worst query at each step; the derivation is in
    docs/theory/sparse-vector.md, and improves on the closed form of Zhu & Wang 2020).

    >>> svt = SparseVector(sigma_threshold=10.0, sigma_query=20.0, max_queries=100)
    >>> 0 < svt.epsilon(delta=1e-6) < 2
    True
    """

    noise_parameter: ClassVar[str | None] = "epsilon"

    size: float | None
    sigma_threshold: float | None
    sigma_query: float | None
    max_queries: int | None
    cutoff: int
    sensitivity: float
    monotone: bool
    neighbours: Neighbours

    def __init__(
        self,
        epsilon: float | None = None,
        *,
        sigma_threshold: float | None = None,
        sigma_query: float | None = None,
        max_queries: int | None = None,
        cutoff: int = 1,
        sensitivity: float = 1.0,
        monotone: bool = False,
        neighbours: str = "add_remove",
    ) -> None:
        common = {
            "cutoff": _checks.integer("cutoff", cutoff, 1),
            "sensitivity": _checks.non_negative("sensitivity", sensitivity),
            "monotone": bool(monotone),
        }
        gaussian = (sigma_threshold, sigma_query, max_queries)
        if epsilon is not None and gaussian == (None, None, None):
            size = _checks.non_negative("epsilon", epsilon)
            set_fields(
                self,
                neighbours,
                size=size,
                sigma_threshold=None,
                sigma_query=None,
                max_queries=None,
                **common,
            )
        elif epsilon is None and None not in gaussian:
            set_fields(
                self,
                neighbours,
                size=None,
                sigma_threshold=_checks.positive("sigma_threshold", sigma_threshold),
                sigma_query=_checks.positive("sigma_query", sigma_query),
                max_queries=_checks.integer("max_queries", max_queries, 1),
                **common,
            )
        else:
            rule = "be given alone (Laplace), or else sigma_threshold, sigma_query and max_queries (Gaussian)"
            raise ParameterError("epsilon", rule, epsilon)

    def parameters(self) -> dict[str, Any]:
        if self.size is not None:
            return {"epsilon": self.size}
        names = ("sigma_threshold", "sigma_query", "max_queries", "cutoff", "sensitivity", "monotone")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_rho(cls, rho: float, **fixed: Any) -> Self:
        return cls(math.sqrt(2 * rho), **fixed)

    def at_most(self, other: Cost) -> bool:
        if self == other:
            return True
        return self.size is not None and isinstance(other, PureDP) and self.size <= other.size

    def is_tight(self) -> bool:
        return False

    def pure_epsilon(self) -> float:
        return math.inf if self.size is None else self.size

    def rho(self) -> float | None:
        return None if self.size is None else _checks.half_square(self.size)

    def renyi(self, alpha: Array) -> Array:
        if self.size is not None:
            return renyi.randomized_response(self.size, alpha)
        assert self.sigma_threshold is not None and self.sigma_query is not None and self.max_queries is not None
        threshold = _checks.half_square(self.sensitivity / self.sigma_threshold)
        shift = (1 if self.monotone else 2) * self.sensitivity / self.sigma_query
        # D is increasing in the order, so orders below 1.01 take the value at 1.01.
        flat = np.maximum(alpha.ravel(), 1.01)
        curve = [
            a * threshold + _log_stopping_moment(a, shift, self.max_queries) / (a - 1) if a < 1e4 else math.inf
            for a in flat
        ]
        return self.cutoff * np.array(curve).reshape(alpha.shape)

    def pairs(self) -> tuple[LossPair, ...] | None:
        return None if self.size is None else PureDP(self.size).pairs()

    def _group(self, k: int) -> Cost:
        if self.size is not None:
            return PureDP(k * self.size, neighbours=self.neighbours)
        return RDP(group_curve(self.renyi, k), neighbours=self.neighbours)


def _log_stopping_moment(alpha: float, shift: float, queries: int) -> float:
    """Log W_k of the recursion above, rounded upwards.

    The increments W_j − W_{j−1} = sup_u g(u) − Ψ(u)·W_{j−1} shrink as W grows, so several steps may be taken with
    the first one's increment: an upper bound that needs only O(log k) suprema. Each supremum is searched on a grid,
    then on a grid of spacing d inside its best cells; |(log g)''| ≤ α bounds what lies between by a factor
    1 + (α+1)d².
    """
    if shift == 0.0:
        return 0.0

    def logs(u: Array) -> tuple[Array, Array]:
        tail = log_ndtr(-u)
        return alpha * tail + (1 - alpha) * log_ndtr(-u - shift), tail

    grid = np.linspace(-9.0, alpha * shift + 9.0, 2001)
    coarse = logs(grid)
    spacing = float(grid[1] - grid[0])
    slack = 1 + (alpha + 1) * (spacing / 32) * (spacing / 32)
    if not float(np.max(coarse[0])) <= 600:
        return math.inf
    log_w, done = 0.0, 0
    while done < queries:
        best = float(grid[int(np.argmax(np.exp(coarse[0] - log_w) - np.exp(coarse[1])))])
        log_g, tail = logs(best + spacing * np.linspace(-1.0, 1.0, 65))
        peak = np.exp(log_g - log_w) * slack - np.exp(tail)
        steps = min(max(1, done // 16), queries - done)
        log_w += math.log1p(steps * max(float(np.max(peak)), 0.0))
        done += steps
    return log_w
