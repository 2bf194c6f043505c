"""Pairs whose loss has a density: Gaussian, Laplace, bounded range."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ledgerwood import _checks
from ledgerwood.accounting.curves.dominating_pairs.base import (
    Array,
    LossPair,
    intervals,
    log1mexp,
    log_difference,
    log_normal_interval,
)
from ledgerwood.accounting.curves.numerics import log_ndtr, mills

__all__ = ["BoundedRangePair", "GaussianPair", "LaplacePair", "NearGaussianPair", "NearLaplacePair"]


@dataclass(frozen=True)
class GaussianPair(LossPair):
    r"""N(mu, 1) against N(0, 1): the Gaussian mechanism with mu = sensitivity / sigma.

    .. math:: L \sim N(\mu^2/2, \mu^2), \qquad
              \delta(\varepsilon) = \Phi(\mu/2 - \varepsilon/\mu) - e^{\varepsilon}\,\Phi(-\mu/2 -
              \varepsilon/\mu)

    Exact: Balle & Wang 2018 (arXiv:1805.06530), Theorem 8.

    >>> float(np.exp(GaussianPair(1.0).log_delta(1.0)).round(6))
    0.126937
    """

    mu: float

    def __post_init__(self) -> None:
        _checks.positive("mu", self.mu)

    def _support(self) -> tuple[float, float]:
        return -math.inf, math.inf

    def _log_cells(self, edges: Array) -> tuple[Array, Array]:
        z, half = edges / self.mu, self.mu / 2
        width = np.concatenate(([np.inf], np.diff(edges) / self.mu, [np.inf]))
        log_p, log_q = (log_normal_interval(*intervals(z + move), width) for move in (-half, half))
        return log_p, log_q

    def _log_delta(self, epsilon: Array) -> Array:
        eps = epsilon
        a = self.mu / 2 - eps / self.mu
        b = -self.mu / 2 - eps / self.mu
        # Close to one, the plain difference; else the two terms may be nearly equal, and Mills' ratio m = (1
        # - Phi)/phi
        # takes the common factor out: delta = phi(a) (m(-a) - m(-b)), since e^eps phi(b) = phi(a).
        direct = log_difference(log_ndtr(a), eps + log_ndtr(b))
        scaled = -a * a / 2 - 0.5 * math.log(2 * math.pi) + np.log(_mills_difference(-a, self.mu))
        return np.where(a < 5, scaled, direct)


@dataclass(frozen=True)
class NearGaussianPair(GaussianPair):
    """A pair between two Gaussian ones: dominated by that of ``mu``, dominating that of ``lower_mu``."""

    lower_mu: float = 0.0

    def _below(self) -> LossPair:
        return GaussianPair(self.lower_mu)


def _mills_difference(x: Array, gap: float) -> Array:
    r"""Mills' ratio at x minus at x + gap, x >= -5: the integral of :math:`-m'(y) = 1 - y\,m(y)` if the gap
    is small.
    """
    x = np.maximum(x, -5.0)
    plain = mills(x) - mills(x + gap)
    nodes, weights = np.polynomial.legendre.leggauss(12)
    total = np.zeros(np.shape(x))
    for node, weight in zip(nodes, weights, strict=True):
        total += weight * gap / 2 * _one_minus_y_mills(x + gap * (node + 1) / 2)
    return np.where(gap < 0.5 * (1 + np.maximum(x, 0.0)), total, plain)


def _one_minus_y_mills(y: Array) -> Array:
    r""":math:`1 - y\,m(y)` with m Mills' ratio: direct below 12, by its asymptotic series above
    (rel. 1e-15).
    """
    direct = 1 - y * mills(y)
    inverse = 1 / np.maximum(y, 12.0) ** 2
    series = np.zeros(np.shape(y))
    for j in range(14, 0, -1):  # 1/y^2 (1 - 3/y^2 (1 - 5/y^2 (...)))
        series = (2 * j - 1) * inverse * (1 - series)
    return np.where(y < 12, direct, series)


@dataclass(frozen=True)
class LaplacePair(LossPair):
    r"""Laplace noise with ``epsilon`` = sensitivity / scale.

    Atoms: P(L = eps) = 1/2, P(L = -eps) = e^{-eps}/2; between them the density under P is
    :math:`\tfrac14 e^{(l-\varepsilon)/2}`.

    .. math:: \delta(\gamma) = 1 - e^{(\gamma - \varepsilon)/2}, \quad |\gamma| \le \varepsilon
    """

    epsilon: float

    def __post_init__(self) -> None:
        _checks.positive("epsilon", self.epsilon)

    def _lattice(self) -> tuple[float, bool]:
        return 2 * self.epsilon, False

    def _support(self) -> tuple[float, float]:
        return -self.epsilon, self.epsilon

    def _log_cells(self, edges: Array) -> tuple[Array, Array]:
        left, right = intervals(edges)
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

    def _log_delta(self, epsilon: Array) -> Array:
        gamma = epsilon
        inside = log1mexp((np.clip(gamma, -self.epsilon, self.epsilon) - self.epsilon) / 2)
        return _outside_support(gamma, self.epsilon, inside)


@dataclass(frozen=True)
class NearLaplacePair(LaplacePair):
    """A pair between two Laplace ones: dominated by that of ``epsilon``, dominating that of ``lower_epsilon``."""

    lower_epsilon: float = 0.0

    def _below(self) -> LossPair:
        return LaplacePair(self.lower_epsilon)


@dataclass(frozen=True)
class BoundedRangePair(LossPair):
    r"""Any epsilon-bounded-range mechanism, as one pair: a *bound* under composition, exact for one release.

    The loss has density proportional to :math:`e^{l/2}` on :math:`[-\varepsilon, \varepsilon]` under P, and

    .. math:: \delta(\gamma) = (1 - e^{(\gamma - \varepsilon)/2})^2 / (1 - e^{-\varepsilon}), \quad |\gamma|
    \le \varepsilon,

    is the least profile valid for every such mechanism (Dong, Durfee & Rogers 2020). Composing this pair is
    valid in
    every order of the steps, but the ``optimal`` recursion is tighter.
    """

    epsilon: float

    def __post_init__(self) -> None:
        _checks.positive("epsilon", self.epsilon)

    def _lattice(self) -> tuple[float, bool]:
        return 2 * self.epsilon, False

    def _support(self) -> tuple[float, float]:
        return -self.epsilon, self.epsilon

    def _log_cells(self, edges: Array) -> tuple[Array, Array]:
        left, right = intervals(edges)
        scale = -math.log(-math.expm1(-self.epsilon))
        return (
            _log_exponential_cells(left, right, self.epsilon, scale),
            _log_exponential_cells(-right, -left, self.epsilon, scale),
        )

    def _log_delta(self, epsilon: Array) -> Array:
        gamma = epsilon
        root = log1mexp((np.clip(gamma, -self.epsilon, self.epsilon) - self.epsilon) / 2)
        return _outside_support(gamma, self.epsilon, 2 * root - math.log(-math.expm1(-self.epsilon)))


def _log_exponential_cells(left: Array, right: Array, end: float, log_scale: float) -> Array:
    """Log of scale * (e^{(b - end)/2} - e^{(a - end)/2}) on the part (a, b] of each cell inside [-end,
    end].
    """
    a, b = np.clip(left, -end, end), np.clip(right, -end, end)
    return log_scale + (b - end) / 2 + log1mexp(-np.maximum(b - a, 0.0) / 2)


def _outside_support(gamma: Array, end: float, inside: Array) -> Array:
    """A profile on [-end, end] continued: 1 - e^gamma below, 0 above."""
    below = log1mexp(np.minimum(gamma, -end))
    return np.where(gamma <= -end, below, np.where(gamma >= end, -np.inf, inside))
