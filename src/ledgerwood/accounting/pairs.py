r"""Dominating pairs: each mechanism as the law of one privacy loss.

An ordered pair :math:`(P, Q)` *dominates* a mechanism when its profile
:math:`\delta(\varepsilon) = \sup_S P(S) - e^{\varepsilon} Q(S)` is at least that of every pair of output laws on neighbouring
inputs. Composition acts on the law of the loss :math:`L = \log dP/dQ` alone, so a pair is described here by the masses
that P and Q give to cells of the loss axis, in logs and without cancellation (:meth:`LossPair.log_cells`).

Every pair below is exact for its mechanism (its profile is attained) unless its docstring says *bound*.
Derivations: ``docs/theory/privacy-loss-distributions.md``.

References
----------
Zhu, Dong & Wang, "Optimal accounting of differential privacy via characteristic function", AISTATS 2022 (ZDW).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from ledgerwood.errors import ParameterError

__all__ = [
    "ApproxDPPair",
    "BoundedRangePair",
    "DiscreteGaussianPair",
    "DiscreteLaplacePair",
    "GaussianPair",
    "LaplacePair",
    "LossPair",
    "MaxPair",
    "PmfPair",
    "PureDPPair",
    "RandomizedResponsePair",
    "SkellamPair",
    "SubsampledPair",
]

Array = npt.NDArray[np.float64]

LOG_TAIL = 740.0
"""Atoms of an infinite lattice are listed until the tails left out weigh less than ``exp(-LOG_TAIL)`` (about 1e-321)."""


class LossPair(Protocol):
    """What the accountant asks of an ordered pair (P, Q).

    The masses of :meth:`log_cells` are right to ``2**-48 * (16 + |log p| + |log q|)`` in the logs, for edges right to
    ``2**-47`` (an atom within that distance of an edge may be counted on either side); the accountant's bounds
    allow for exactly these errors.
    """

    @property
    def symmetric(self) -> bool:
        """Whether (Q, P) has the same profile."""

    @property
    def infinite_mass(self) -> float:
        """P-mass where Q vanishes."""

    @property
    def lattice(self) -> tuple[float, bool] | None:
        """A step whose multiples hold every atom and edge of the loss, and whether the loss has no other values."""

    def support(self) -> tuple[float, float]:
        """Least and greatest finite loss (may be infinite)."""

    def log_cells(self, edges: npt.ArrayLike) -> tuple[Array, Array]:
        """Log P- and log Q-mass of the loss in (-inf, e_0], (e_0, e_1], ..., (e_n, inf); n + 2 cells."""

    def log_delta(self, epsilon: npt.ArrayLike) -> Array:
        """Logarithm of the profile, in closed form (one release, no grid)."""

    def reversed(self) -> LossPair:
        """The pair (Q, P)."""


# ---------------------------------------------------------------------------------------------------------------
# logarithms without cancellation


def _log1mexp(x: Array) -> Array:
    """Log(1 - e^x) for x <= 0."""
    with np.errstate(divide="ignore"):
        return np.where(x > -math.log(2), np.log(-np.expm1(np.minimum(x, 0.0))), np.log1p(-np.exp(x)))


def _log_difference(a: Array, b: Array) -> Array:
    """Log(e^a - e^b), and -inf where b >= a."""
    a, b = np.broadcast_arrays(np.asarray(a, dtype=float), np.asarray(b, dtype=float))
    keep = (b < a) & (a > -np.inf)
    out = np.full(a.shape, -np.inf)
    out[keep] = a[keep] + _log1mexp(b[keep] - a[keep])
    return out


def _log_normal_interval(a: Array, b: Array) -> Array:
    r"""Log(:math:`\Phi(b) - \Phi(a)`), right in relative terms for every width and both tails.

    Narrow intervals, :math:`w(1 + |m|) \le 1` for width w and centre m, are integrated by an eight-point Gauss rule about the
    centre (relative error below 1e-20); wide ones are differences of tails that are not close to each other.
    """
    from scipy.special import log_ndtr, ndtr

    flip = a + b < 0
    a, b = np.where(flip, -b, a), np.where(flip, -a, b)
    out = np.full(np.shape(a), -np.inf)
    some = b > a
    with np.errstate(invalid="ignore"):
        width, centre = b - a, (a + b) / 2
        narrow = some & (width * (1 + centre) <= 1)
    nodes, weights = np.polynomial.legendre.leggauss(8)
    w, m = width[narrow] / 2, centre[narrow]
    total = np.zeros(w.shape)
    for x, c in zip(nodes, weights, strict=True):
        total += c * np.exp(-w * x * (m + w * x / 2))
    out[narrow] = np.log(w * total) - m * m / 2 - 0.5 * math.log(2 * math.pi)
    inside = some & ~narrow & (a <= 0)
    out[inside] = np.log1p(-(ndtr(-b[inside]) + ndtr(a[inside])))
    outside = some & ~narrow & (a > 0)
    out[outside] = _log_difference(log_ndtr(-a[outside]), log_ndtr(-b[outside]))
    return out


def _intervals(edges: Array) -> tuple[Array, Array]:
    """The left and right ends of the n + 2 cells."""
    return np.concatenate(([-np.inf], edges)), np.concatenate((edges, [np.inf]))


def _positive(name: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise ParameterError(name, "be positive and finite", value)


# ---------------------------------------------------------------------------------------------------------------
# continuous losses


@dataclass(frozen=True)
class GaussianPair:
    r"""N(mu, 1) against N(0, 1): the Gaussian mechanism with mu = sensitivity / sigma.

    .. math:: L \sim N(\mu^2/2, \mu^2), \qquad
              \delta(\varepsilon) = \Phi(\mu/2 - \varepsilon/\mu) - e^{\varepsilon}\,\Phi(-\mu/2 - \varepsilon/\mu)

    Exact: Balle & Wang 2018 (arXiv:1805.06530), Theorem 8.

    >>> float(np.exp(GaussianPair(1.0).log_delta(1.0)).round(6))
    0.126937
    """

    mu: float

    def __post_init__(self) -> None:
        _positive("mu", self.mu)

    symmetric = True
    infinite_mass = 0.0
    lattice = None

    def support(self) -> tuple[float, float]:  # noqa: D102
        return -math.inf, math.inf

    def log_cells(self, edges: npt.ArrayLike) -> tuple[Array, Array]:  # noqa: D102
        z = np.asarray(edges, dtype=float) / self.mu
        half = self.mu / 2
        return _log_normal_interval(*_intervals(z - half)), _log_normal_interval(*_intervals(z + half))

    def log_delta(self, epsilon: npt.ArrayLike) -> Array:  # noqa: D102
        from scipy.special import log_ndtr

        eps = np.asarray(epsilon, dtype=float)
        a = self.mu / 2 - eps / self.mu
        b = -self.mu / 2 - eps / self.mu
        # For large eps/mu both terms are nearly equal; the scaled complementary error function m(x) = Phi(-x)/phi(x)
        # takes the common factor out: delta = phi(a) (m(-a) - m(-b)), since e^eps phi(b) = phi(a).
        direct = _log_difference(log_ndtr(a), eps + log_ndtr(b))
        scaled = -a * a / 2 - 0.5 * math.log(2 * math.pi) + np.log(_mills_difference(-a, self.mu))
        return np.where(a < -1, scaled, direct)

    def reversed(self) -> GaussianPair:  # noqa: D102
        return self


def _mills_difference(x: Array, gap: float) -> Array:
    r"""Mills' ratio at x minus at x + gap, x > 0: :math:`\int_0^\infty e^{-xt - t^2/2}(1 - e^{-t\,gap})\,dt`."""
    from scipy.special import erfcx

    root = math.sqrt(2)
    x = np.maximum(x, 0.0)
    plain = math.sqrt(math.pi / 2) * (erfcx(x / root) - erfcx((x + gap) / root))
    # A small gap: the integral of -m'(y) = 1 - y m(y) over [x, x + gap]; the integrand itself cancels only for large y,
    # where it is 1/y^2 - 3/y^4 + 15/y^6 - ..., so it is taken from that series there.
    nodes, weights = np.polynomial.legendre.leggauss(12)
    total = np.zeros(np.shape(x))
    for node, weight in zip(nodes, weights, strict=True):
        y = x + gap * (node + 1) / 2
        total += weight * gap / 2 * _one_minus_y_mills(y)
    return np.where(gap < 0.5 * (1 + x), total, plain)


def _one_minus_y_mills(y: Array) -> Array:
    r""":math:`1 - y\,m(y)` for y >= 0, with m Mills' ratio: direct below 12, by its asymptotic series above (rel. 1e-15)."""
    from scipy.special import erfcx

    direct = 1 - y * math.sqrt(math.pi / 2) * erfcx(y / math.sqrt(2))
    inverse = 1 / np.maximum(y, 12.0) ** 2
    series = np.zeros(np.shape(y))
    for j in range(14, 0, -1):  # 1/y^2 (1 - 3/y^2 (1 - 5/y^2 (...)))
        series = (2 * j - 1) * inverse * (1 - series)
    return np.where(y < 12, direct, series)


@dataclass(frozen=True)
class LaplacePair:
    r"""Laplace noise with ``epsilon`` = sensitivity / scale.

    Atoms: P(L = eps) = 1/2, P(L = -eps) = e^{-eps}/2; between them the density under P is :math:`\tfrac14 e^{(l-\varepsilon)/2}`.

    .. math:: \delta(\gamma) = 1 - e^{(\gamma - \varepsilon)/2}, \quad |\gamma| \le \varepsilon
    """

    epsilon: float

    def __post_init__(self) -> None:
        _positive("epsilon", self.epsilon)

    symmetric = True
    infinite_mass = 0.0

    @property
    def lattice(self) -> tuple[float, bool]:  # noqa: D102
        return self.epsilon, False

    def support(self) -> tuple[float, float]:  # noqa: D102
        return -self.epsilon, self.epsilon

    def log_cells(self, edges: npt.ArrayLike) -> tuple[Array, Array]:  # noqa: D102
        left, right = _intervals(np.asarray(edges, dtype=float))
        log_p = _log_exponential_cells(left, right, self.epsilon, math.log(0.5))
        log_q = _log_exponential_cells(-right, -left, self.epsilon, math.log(0.5))
        top = (left < self.epsilon) & (self.epsilon <= right)
        bottom = (left < -self.epsilon) & (-self.epsilon <= right)
        for at, p, q in (
            (top, math.log(0.5), math.log(0.5) - self.epsilon),
            (bottom, math.log(0.5) - self.epsilon, math.log(0.5)),
        ):
            log_p[at] = np.logaddexp(log_p[at], p)
            log_q[at] = np.logaddexp(log_q[at], q)
        return log_p, log_q

    def log_delta(self, epsilon: npt.ArrayLike) -> Array:  # noqa: D102
        gamma = np.asarray(epsilon, dtype=float)
        inside = _log1mexp((np.clip(gamma, -self.epsilon, self.epsilon) - self.epsilon) / 2)
        return _outside_support(gamma, self.epsilon, inside)

    def reversed(self) -> LaplacePair:  # noqa: D102
        return self


@dataclass(frozen=True)
class BoundedRangePair:
    r"""Any epsilon-bounded-range mechanism, as one pair: a *bound* under composition, exact for one release.

    The loss has density proportional to :math:`e^{l/2}` on :math:`[-\varepsilon, \varepsilon]` under P, and

    .. math:: \delta(\gamma) = (1 - e^{(\gamma - \varepsilon)/2})^2 / (1 - e^{-\varepsilon}), \quad |\gamma| \le \varepsilon,

    is the least profile valid for every such mechanism (Dong, Durfee & Rogers 2020). Composing this pair is valid in
    every order of the steps, but the ``optimal`` recursion is tighter.
    """

    epsilon: float

    def __post_init__(self) -> None:
        _positive("epsilon", self.epsilon)

    symmetric = True
    infinite_mass = 0.0

    @property
    def lattice(self) -> tuple[float, bool]:  # noqa: D102
        return self.epsilon, False

    def support(self) -> tuple[float, float]:  # noqa: D102
        return -self.epsilon, self.epsilon

    def log_cells(self, edges: npt.ArrayLike) -> tuple[Array, Array]:  # noqa: D102
        left, right = _intervals(np.asarray(edges, dtype=float))
        scale = -math.log(-math.expm1(-self.epsilon))
        return (
            _log_exponential_cells(left, right, self.epsilon, scale),
            _log_exponential_cells(-right, -left, self.epsilon, scale),
        )

    def log_delta(self, epsilon: npt.ArrayLike) -> Array:  # noqa: D102
        gamma = np.asarray(epsilon, dtype=float)
        root = _log1mexp((np.clip(gamma, -self.epsilon, self.epsilon) - self.epsilon) / 2)
        return _outside_support(gamma, self.epsilon, 2 * root - math.log(-math.expm1(-self.epsilon)))

    def reversed(self) -> BoundedRangePair:  # noqa: D102
        return self


def _log_exponential_cells(left: Array, right: Array, end: float, log_scale: float) -> Array:
    """Log of scale * (e^{(b - end)/2} - e^{(a - end)/2}) on the part (a, b] of each cell inside [-end, end]."""
    a, b = np.clip(left, -end, end), np.clip(right, -end, end)
    return log_scale + (b - end) / 2 + _log1mexp(-np.maximum(b - a, 0.0) / 2)


def _outside_support(gamma: Array, end: float, inside: Array) -> Array:
    """A profile on [-end, end] continued: 1 - e^gamma below, 0 above."""
    below = _log1mexp(np.minimum(gamma, -end))
    return np.where(gamma <= -end, below, np.where(gamma >= end, -np.inf, inside))


# ---------------------------------------------------------------------------------------------------------------
# losses with atoms


@dataclass(frozen=True)
class _Atoms:
    """Finitely many losses in rising order with their log P-mass; Q-mass e^{-loss} p."""

    loss: Array
    log_p: Array

    def log_cells(self, edges: Array, infinite_mass: float, lost_mass: float) -> tuple[Array, Array]:
        cell = np.searchsorted(edges, self.loss, side="left")
        log_p = _log_sum_by(cell, self.log_p, len(edges) + 1)
        log_q = _log_sum_by(cell, self.log_p - self.loss, len(edges) + 1)
        with np.errstate(divide="ignore"):
            log_p[-1] = np.logaddexp(log_p[-1], np.log(infinite_mass))
            log_q[0] = np.logaddexp(log_q[0], np.log(lost_mass))
        return log_p, log_q

    def log_delta(self, epsilon: npt.ArrayLike, infinite_mass: float) -> Array:
        eps = np.asarray(epsilon, dtype=float)
        out = np.empty(eps.shape)
        with np.errstate(divide="ignore"):
            log_infinite = np.log(infinite_mass)
            for index, e in np.ndenumerate(eps):
                above = self.loss > e
                terms = self.log_p[above] + _log1mexp(e - self.loss[above])
                out[index] = np.logaddexp.reduce(terms, initial=log_infinite)
        return out


def _log_sum_by(cell: npt.NDArray[np.intp], values: Array, size: int) -> Array:
    """Log-sum-exp of ``values`` within each (rising) cell number."""
    out = np.full(size, -np.inf)
    cells, starts = np.unique(cell, return_index=True)
    if len(cells):
        top = np.maximum.reduceat(values, starts)
        shift = np.repeat(top, np.diff(np.append(starts, len(values))))
        out[cells] = top + np.log(np.add.reduceat(np.exp(values - shift), starts))
    return out


@dataclass(frozen=True)
class RandomizedResponsePair:
    r"""k-ary randomised response: the truth with odds :math:`e^{\varepsilon} : 1` against each other answer.

    Losses eps, 0, -eps with P-masses :math:`e^{\varepsilon}, k - 2, 1` over :math:`e^{\varepsilon} + k - 1`. With k = 2 it dominates every
    epsilon-DP mechanism (Kairouz, Oh & Viswanath 2015).

    >>> float(np.exp(RandomizedResponsePair(1.0, 2).log_delta(0.0)).round(6))  # tanh(1/2)
    0.462117
    """

    epsilon: float
    k: int = 2

    def __post_init__(self) -> None:
        _positive("epsilon", self.epsilon)
        if self.k < 2:
            raise ParameterError("k", "be an integer of at least 2", self.k)

    symmetric = True
    infinite_mass = 0.0

    @property
    def lattice(self) -> tuple[float, bool]:  # noqa: D102
        return self.epsilon, True

    def support(self) -> tuple[float, float]:  # noqa: D102
        return -self.epsilon, self.epsilon

    def _atoms(self) -> _Atoms:
        total = self.epsilon + math.log1p((self.k - 1) * math.exp(-self.epsilon))
        if self.k == 2:
            return _Atoms(np.array([-self.epsilon, self.epsilon]), np.array([-total, self.epsilon - total]))
        log_p = np.array([-total, math.log(self.k - 2) - total, self.epsilon - total])
        return _Atoms(np.array([-self.epsilon, 0.0, self.epsilon]), log_p)

    def log_cells(self, edges: npt.ArrayLike) -> tuple[Array, Array]:  # noqa: D102
        return self._atoms().log_cells(np.asarray(edges, dtype=float), 0.0, 0.0)

    def log_delta(self, epsilon: npt.ArrayLike) -> Array:  # noqa: D102
        return self._atoms().log_delta(epsilon, 0.0)

    def reversed(self) -> RandomizedResponsePair:  # noqa: D102
        return self


def PureDPPair(epsilon: float) -> RandomizedResponsePair:
    """The pair that dominates every epsilon-DP mechanism: binary randomised response."""
    return RandomizedResponsePair(epsilon, 2)


@dataclass(frozen=True)
class ApproxDPPair:
    r"""Any (epsilon, delta)-DP mechanism: infinite loss with probability delta, else binary randomised response.

    Exact as a class (Kairouz, Oh & Viswanath 2015, Theorem 3.4 and its proof).
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not 0 <= self.epsilon < math.inf:
            raise ParameterError("epsilon", "be finite and not negative", self.epsilon)
        if not 0 <= self.delta < 1:
            raise ParameterError("delta", "lie in [0, 1)", self.delta)

    symmetric = True

    @property
    def infinite_mass(self) -> float:  # noqa: D102
        return self.delta

    @property
    def lattice(self) -> tuple[float, bool] | None:  # noqa: D102
        return (self.epsilon, True) if self.epsilon else None

    def support(self) -> tuple[float, float]:  # noqa: D102
        return -self.epsilon, self.epsilon

    def _atoms(self) -> _Atoms:
        low = -self.epsilon - math.log1p(math.exp(-self.epsilon))
        losses = np.array([-self.epsilon, self.epsilon])
        return _Atoms(losses, math.log1p(-self.delta) + np.array([low, low + self.epsilon]))

    def log_cells(self, edges: npt.ArrayLike) -> tuple[Array, Array]:  # noqa: D102
        return self._atoms().log_cells(np.asarray(edges, dtype=float), self.delta, self.delta)

    def log_delta(self, epsilon: npt.ArrayLike) -> Array:  # noqa: D102
        return self._atoms().log_delta(epsilon, self.delta)

    def reversed(self) -> ApproxDPPair:  # noqa: D102
        return self


@dataclass(frozen=True)
class DiscreteLaplacePair:
    r"""Integer noise :math:`\propto e^{-|x|/\text{scale}}` under a shift: losses (2j - shift)/scale, j = 0..shift."""

    scale: float
    shift: int = 1

    def __post_init__(self) -> None:
        _positive("scale", self.scale)
        _check_shift(self.shift)

    symmetric = True
    infinite_mass = 0.0

    @property
    def lattice(self) -> tuple[float, bool]:  # noqa: D102
        return 1 / self.scale, True

    def support(self) -> tuple[float, float]:  # noqa: D102
        return -self.shift / self.scale, self.shift / self.scale

    def _atoms(self) -> _Atoms:
        j = np.arange(self.shift + 1)
        log_p = -(self.shift - j) / self.scale - math.log1p(math.exp(-1 / self.scale))
        log_p[1:-1] += math.log(-math.expm1(-1 / self.scale))  # the end atoms are whole geometric tails
        return _Atoms((2.0 * j - self.shift) / self.scale, log_p)

    def log_cells(self, edges: npt.ArrayLike) -> tuple[Array, Array]:  # noqa: D102
        return self._atoms().log_cells(np.asarray(edges, dtype=float), 0.0, 0.0)

    def log_delta(self, epsilon: npt.ArrayLike) -> Array:  # noqa: D102
        return self._atoms().log_delta(epsilon, 0.0)

    def reversed(self) -> DiscreteLaplacePair:  # noqa: D102
        return self


@dataclass(frozen=True)
class DiscreteGaussianPair:
    r"""Integer noise :math:`\propto e^{-x^2/(2\sigma^2)}` under a shift s: losses s(2x - s)/(2 sigma^2), x integer.

    One dimension, exact: not the Gaussian's profile (at sigma = shift = 1 its delta is up to 1.8 times as large).
    """

    sigma: float
    shift: int = 1

    def __post_init__(self) -> None:
        _positive("sigma", self.sigma)
        _check_shift(self.shift)

    symmetric = True
    infinite_mass = 0.0

    @property
    def lattice(self) -> tuple[float, bool]:  # noqa: D102
        return self.shift / (2 * self.sigma**2), True

    def support(self) -> tuple[float, float]:  # noqa: D102
        return -math.inf, math.inf

    def _atoms(self) -> _Atoms:
        return _discrete_gaussian_atoms(self.sigma, self.shift)

    def log_cells(self, edges: npt.ArrayLike) -> tuple[Array, Array]:  # noqa: D102
        return self._atoms().log_cells(np.asarray(edges, dtype=float), 0.0, 0.0)

    def log_delta(self, epsilon: npt.ArrayLike) -> Array:  # noqa: D102
        return self._atoms().log_delta(epsilon, 0.0)

    def reversed(self) -> DiscreteGaussianPair:  # noqa: D102
        return self


@lru_cache(maxsize=8)
def _discrete_gaussian_atoms(sigma: float, shift: int) -> _Atoms:
    reach = math.ceil(sigma * math.sqrt(2 * LOG_TAIL + 60)) + 2
    x = np.arange(-reach, shift + reach + 1)
    weight = -((x - shift) ** 2) / (2 * sigma**2)
    # The normaliser sums to one side of the centre, small terms first.
    half = np.exp(-(np.arange(reach, 0, -1.0) ** 2) / (2 * sigma**2))
    return _Atoms(shift * (2.0 * x - shift) / (2 * sigma**2), weight - math.log(1 + 2 * math.fsum(half)))


@dataclass(frozen=True)
class SkellamPair:
    r"""Skellam noise (the difference of two Poissons of mean variance/2) under an integer shift, one dimension.

    The pmf is :math:`e^{-v} I_{|x|}(v)`, log-concave, so the loss rises with x and every best event is a half-line.
    Logs come from the ratios :math:`r_x = I_{x+1}/I_x = 1/(2(x+1)/v + r_{x+1})`, run downwards (stable), and from
    :math:`I_0 + 2\sum_{x \ge 1} I_x = e^v`.
    """

    variance: float
    shift: int = 1

    def __post_init__(self) -> None:
        _positive("variance", self.variance)
        _check_shift(self.shift)

    symmetric = True
    infinite_mass = 0.0
    lattice = None

    def support(self) -> tuple[float, float]:  # noqa: D102
        return -math.inf, math.inf

    def _atoms(self) -> _Atoms:
        return _skellam_atoms(self.variance, self.shift)

    def log_cells(self, edges: npt.ArrayLike) -> tuple[Array, Array]:  # noqa: D102
        return self._atoms().log_cells(np.asarray(edges, dtype=float), 0.0, 0.0)

    def log_delta(self, epsilon: npt.ArrayLike) -> Array:  # noqa: D102
        return self._atoms().log_delta(epsilon, 0.0)

    def reversed(self) -> SkellamPair:  # noqa: D102
        return self


@lru_cache(maxsize=8)
def _skellam_atoms(variance: float, shift: int) -> _Atoms:
    # Tail: P(X >= x) <= exp(-v h(x/v)), h(t) = t asinh(t) - sqrt(1 + t^2) + 1 (Chernoff); find x with v h = LOG_TAIL + 30.
    reach = 1
    while reach * math.asinh(reach / variance) - math.hypot(variance, reach) + variance < LOG_TAIL + 30:
        reach = math.ceil(1.1 * reach) + 1
    reach += 2 * shift
    log_ratio = np.empty(reach + 1)
    r = 0.0
    for x in range(2 * reach + 60, -1, -1):  # started far beyond, where r = 0 is as good as exact
        r = 1.0 / (2.0 * (x + 1) / variance + r)
        if x <= reach:
            log_ratio[x] = math.log(r)
    log_i = np.concatenate(([0.0], np.cumsum(log_ratio)))  # log I_x / I_0, x = 0..reach+1
    log_i -= math.log(1 + 2 * math.fsum(np.exp(log_i[:0:-1])))
    x = np.arange(-reach + shift, reach + 1)
    # The loss log pmf(x - shift) - log pmf(x) as a short sum of log-ratios rather than a difference of long ones.
    loss = np.zeros(len(x))
    for j in range(shift):
        y = x - j  # log pmf(y - 1) - log pmf(y)
        loss += np.where(y >= 1, -log_ratio[np.maximum(y - 1, 0)], log_ratio[np.maximum(-y, 0)])
    return _Atoms(loss, log_i[np.abs(x - shift)])


def _check_shift(shift: int) -> None:
    if shift < 1 or shift != int(shift):
        raise ParameterError("shift", "be a positive integer", shift)


@dataclass(frozen=True)
class PmfPair:
    r"""A privacy-loss pmf of one's own: ``probabilities`` are P's, Q has :math:`e^{-l}p` and what is left at loss -inf.

    >>> PmfPair((-1.0, 1.0, float("inf")), (0.2, 0.7, 0.1)).infinite_mass
    0.1
    """

    losses: tuple[float, ...]
    probabilities: tuple[float, ...]

    def __post_init__(self) -> None:
        loss, p = np.asarray(self.losses, dtype=float), np.asarray(self.probabilities, dtype=float)
        if loss.shape != p.shape or loss.ndim != 1 or not len(loss):
            raise ParameterError("losses", "match the probabilities in number", len(loss))
        if np.isnan(loss).any() or (loss == -np.inf).any():
            raise ParameterError("losses", "be numbers above -inf", self.losses)
        if not (p >= 0).all() or abs(math.fsum(p) - 1) > 1e-9:
            raise ParameterError("probabilities", "be non-negative and sum to 1", math.fsum(p))
        if self._q_mass() > 1 + 1e-9:
            raise ParameterError(
                "losses",
                "have E[exp(-loss)] of at most 1",
                self._q_mass(),
                "Q = exp(-loss) P would weigh more than 1: are these the losses under P?",
            )

    def _q_mass(self) -> float:
        return math.fsum(p * math.exp(-loss) for loss, p in zip(self.losses, self.probabilities, strict=True) if p)

    symmetric = False
    lattice = None

    @property
    def infinite_mass(self) -> float:  # noqa: D102
        return math.fsum(p for loss, p in zip(self.losses, self.probabilities, strict=True) if loss == math.inf)

    def support(self) -> tuple[float, float]:  # noqa: D102
        finite = self._atoms().loss
        return (float(finite[0]), float(finite[-1])) if len(finite) else (0.0, 0.0)

    def _atoms(self) -> _Atoms:
        return _pmf_atoms(self.losses, self.probabilities)

    def log_cells(self, edges: npt.ArrayLike) -> tuple[Array, Array]:  # noqa: D102
        lost = max(0.0, 1 - self._q_mass())
        return self._atoms().log_cells(np.asarray(edges, dtype=float), self.infinite_mass, lost)

    def log_delta(self, epsilon: npt.ArrayLike) -> Array:  # noqa: D102
        return self._atoms().log_delta(epsilon, self.infinite_mass)

    def reversed(self) -> PmfPair:  # noqa: D102
        atoms = self._atoms()
        q = [float(v) for v in np.exp(atoms.log_p - atoms.loss)]
        lost = max(0.0, 1 - math.fsum(q))
        return PmfPair((*(-float(v) for v in atoms.loss), math.inf), (*q, lost))


@lru_cache(maxsize=8)
def _pmf_atoms(losses: tuple[float, ...], probabilities: tuple[float, ...]) -> _Atoms:
    loss, p = np.asarray(losses, dtype=float), np.asarray(probabilities, dtype=float)
    keep = (p > 0) & (loss < np.inf)
    order = np.argsort(loss[keep], kind="stable")
    return _Atoms(loss[keep][order], np.log(p[keep][order]))


# ---------------------------------------------------------------------------------------------------------------
# pairs made of pairs


@dataclass(frozen=True)
class SubsampledPair:
    r"""Poisson subsampling of ``base`` at ``rate`` q, under add/remove neighbours.

    ``base`` = (P0, Q0) dominates the mechanism for removals (P0 with the record, Q0 without it). Then (ZDW Theorem 11)
    ``"remove"`` is :math:`((1-q)Q_0 + qP_0,\; Q_0)` and ``"add"`` is its reverse :math:`(Q_0,\; (1-q)Q_0 + qP_0)`.
    The loss is the monotone map :math:`\pm\log(1 - q + q e^{l_0})` of the base loss, so cells are the base's cells.

    Exact when the base pair is attained by a mechanism that ignores the other records.
    """

    base: LossPair
    rate: float
    direction: Literal["remove", "add"] = "remove"

    def __post_init__(self) -> None:
        if not 0 < self.rate < 1:
            raise ParameterError("rate", "lie in (0, 1)", self.rate, "Rate 1 is the base pair itself.")
        if self.direction not in ("remove", "add"):
            raise ParameterError("direction", "be 'remove' or 'add'", self.direction)

    symmetric = False
    lattice = None

    @property
    def infinite_mass(self) -> float:  # noqa: D102
        return self.rate * self.base.infinite_mass if self.direction == "remove" else 0.0

    def _loss(self, base_loss: float) -> float:
        q = self.rate
        if base_loss > 1:
            return base_loss + math.log(q + (1 - q) * math.exp(-base_loss))
        return math.log1p(q * math.expm1(base_loss))

    def support(self) -> tuple[float, float]:  # noqa: D102
        low, high = (self._loss(v) for v in self.base.support())
        return (low, high) if self.direction == "remove" else (-high, -low)

    def _base_edges(self, edges: Array) -> Array:
        """Base losses with log(1 - q + q e^l0) = edge, for edges above log(1 - q)."""
        q = self.rate
        small = np.log1p(np.expm1(np.minimum(edges, 30.0)) / q)
        large = edges - math.log(q) + np.log1p(-(1 - q) * np.exp(-np.maximum(edges, 1.0)))
        return np.where(edges > 1, large, small)

    def log_cells(self, edges: npt.ArrayLike) -> tuple[Array, Array]:  # noqa: D102
        e = np.asarray(edges, dtype=float)
        if self.direction == "add":
            log_p, log_q = SubsampledPair(self.base, self.rate, "remove").log_cells(-e[::-1])
            return log_q[::-1], log_p[::-1]
        below = int(np.searchsorted(np.expm1(np.minimum(e, 1.0)), -self.rate, side="right"))
        log_p0, log_q0 = self.base.log_cells(np.maximum.accumulate(self._base_edges(e[below:])))
        log_p = np.logaddexp(math.log(self.rate) + log_p0, math.log1p(-self.rate) + log_q0)
        empty = np.full(below, -np.inf)
        return np.concatenate((empty, log_p)), np.concatenate((empty, log_q0))

    def log_delta(self, epsilon: npt.ArrayLike) -> Array:
        r"""With :math:`x = e^\varepsilon`: :math:`q\,\delta_0((x-1+q)/q)`, or :math:`(1-x(1-q))\,\delta_0^{rev}(xq/(1-x(1-q)))` for additions."""
        eps = np.asarray(epsilon, dtype=float)
        q = self.rate
        if self.direction == "remove":
            inside = np.expm1(eps) > -q
            values = math.log(q) + self.base.log_delta(self._base_edges(np.where(inside, eps, 0.0)))
            return np.where(inside, values, _log1mexp(np.minimum(eps, 0.0)))
        share = np.exp(np.minimum(eps, 700.0)) * (1 - q)
        inside = share < 1
        log_rest = np.log1p(-np.where(inside, share, 0.0))
        at = np.where(inside, eps + math.log(q) - log_rest, 0.0)
        return np.where(inside, log_rest + self.base.reversed().log_delta(at), -np.inf)

    def reversed(self) -> SubsampledPair:  # noqa: D102
        return SubsampledPair(self.base, self.rate, "add" if self.direction == "remove" else "remove")


@dataclass(frozen=True)
class MaxPair:
    r"""The pair whose profile is the pointwise maximum of several: parallel composition under add/remove.

    A maximum of profiles (convex in :math:`x = e^\varepsilon`, between :math:`(1-x)_+` and 1) is a profile. At an edge its one-sided
    derivatives are those of the pair that attains the maximum there, and the mass of a cell is the difference of
    the tails at its two ends, so the cells follow from the pairs' own.
    """

    pairs: tuple[LossPair, ...]

    def __init__(self, pairs: Sequence[LossPair]) -> None:
        if not pairs:
            raise ParameterError("pairs", "hold at least one pair", pairs)
        object.__setattr__(self, "pairs", tuple(pairs))

    @property
    def symmetric(self) -> bool:  # noqa: D102
        return all(pair.symmetric for pair in self.pairs)

    @property
    def infinite_mass(self) -> float:  # noqa: D102
        return max(pair.infinite_mass for pair in self.pairs)

    @property
    def lattice(self) -> tuple[float, bool] | None:  # noqa: D102
        return self.pairs[0].lattice if len(self.pairs) == 1 else None

    def support(self) -> tuple[float, float]:  # noqa: D102
        return min(pair.support()[0] for pair in self.pairs), max(pair.support()[1] for pair in self.pairs)

    def log_cells(self, edges: npt.ArrayLike) -> tuple[Array, Array]:  # noqa: D102
        e = np.asarray(edges, dtype=float)
        cells = [pair.log_cells(e) for pair in self.pairs]
        above_p = np.array([np.logaddexp.accumulate(p[::-1])[::-1] for p, _ in cells])  # mass of cells i, i+1, ...
        above_q = np.array([np.logaddexp.accumulate(q[::-1])[::-1] for _, q in cells])
        profile = np.array([pair.log_delta(e) for pair in self.pairs])
        best = np.argmax(profile, axis=0)  # at edge i, which has the tail of cells i+1, i+2, ...
        left, right = np.append(best[0], best), np.append(best, best[-1])
        columns = np.arange(len(left))
        own = np.array([p for p, _ in cells])[left, columns], np.array([q for _, q in cells])[left, columns]
        p = _log_difference(above_p[left, columns], np.append(above_p[right[:-1], columns[1:]], -np.inf))
        q = _log_difference(above_q[left, columns], np.append(above_q[right[:-1], columns[1:]], -np.inf))
        return np.where(left == right, own[0], p), np.where(left == right, own[1], q)

    def log_delta(self, epsilon: npt.ArrayLike) -> Array:  # noqa: D102
        return np.max([pair.log_delta(epsilon) for pair in self.pairs], axis=0)

    def reversed(self) -> MaxPair:  # noqa: D102
        return MaxPair([pair.reversed() for pair in self.pairs])
