"""What a privacy claim says about one event: families of null hypotheses, and statistics that order the counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["GaussianNull", "Null", "RatioNull"]

Floats = NDArray[np.float64]


class Null(Protocol):
    """A family of null hypotheses ``p1 <= largest(parameter, p2)``, growing in its parameter."""

    def largest(self, parameter: float, p2: Floats) -> Floats:
        """The largest ``p1`` that the hypothesis allows beside ``p2``."""
        ...

    def estimate(self, hits1: Floats, hits2: Floats, n: int, z: float) -> Floats:
        """The statistic T: an approximate lower bound on the parameter, at ``z`` standard errors."""
        ...

    def boundary(self, statistic: float, hits2: Floats, n: int, z: float) -> Floats:
        """For each ``hits2`` the least (real) ``hits1`` whose statistic reaches ``statistic``."""
        ...


def _variance(p: Floats) -> Floats:
    """P (1 - p), held at its maximum beyond one half so that it never decreases."""
    q = np.minimum(p, 0.5)
    return q * (1.0 - q)


@dataclass(frozen=True, slots=True)
class RatioNull:
    r"""``p1 <= exp(epsilon) p2 + delta``; the parameter is epsilon.

    The statistic is the root :math:`\rho = e^T` of :math:`y_1 = A_\rho(y_2)`, an explicit score boundary

    .. math:: A_\rho(y_2) = \rho\,(y_2 + 1 + (z^2-1)/3) + n\delta + z \sqrt{n\,v(\rho q + \delta) + \rho^2 n\,v(q)},
              \quad q = (y_2+1)/(n+1),

    in which v(p) = p(1-p) is held constant beyond one half: every term increases in both arguments, hence T is
    monotone.
    """

    delta: float = 0.0

    def largest(self, parameter: float, p2: Floats) -> Floats:
        with np.errstate(over="ignore", invalid="ignore"):
            bound = np.where(p2 > 0.0, np.exp(parameter) * p2, 0.0) + self.delta
        return np.minimum(bound * (1.0 + 1e-14), 1.0)

    def boundary(self, statistic: float, hits2: Floats, n: int, z: float) -> Floats:
        return self._boundary(np.exp(np.float64(statistic)), hits2, n, z)

    def _boundary(self, ratio: Floats | np.float64, hits2: Floats, n: int, z: float) -> Floats:
        q = (hits2 + 1.0) / (n + 1.0)
        spread = n * _variance(ratio * q + self.delta) + ratio**2 * (n * _variance(q))
        centre = ratio * (hits2 + 1.0 + max(z * z - 1.0, 0.0) / 3.0) + n * self.delta
        return np.asarray(centre + z * np.sqrt(spread), dtype=np.float64)

    def estimate(self, hits1: Floats, hits2: Floats, n: int, z: float) -> Floats:
        x1, x2 = np.broadcast_arrays(np.asarray(hits1, np.float64), np.asarray(hits2, np.float64))
        low = np.full(x1.shape, -40.0)
        high = np.full(x1.shape, math.log(n) + 2.0)
        for _ in range(60):
            middle = 0.5 * (low + high)
            inside = self._boundary(np.exp(middle), x2, n, z) <= x1
            low, high = np.where(inside, middle, low), np.where(inside, high, middle)
        return np.where(low > -39.0, low, -math.inf)


@dataclass(frozen=True, slots=True)
class GaussianNull:
    r"""``p1 <= Phi(Phi^{-1}(p2) + mu)``: the trade-off curve of :math:`\mu`-GDP; the parameter is mu.

    The statistic is the plug-in :math:`\Phi^{-1}(q_1) - \Phi^{-1}(q_2)`, :math:`q_i = (y_i + 1/2)/(n + 1)`.
    Dong, Roth and Su, arXiv:1905.02383, Def. 2.6.
    """

    def largest(self, parameter: float, p2: Floats) -> Floats:
        from scipy.special import ndtr, ndtri

        return np.minimum(np.asarray(ndtr(ndtri(p2) + parameter), np.float64) * (1.0 + 1e-13), 1.0)

    def boundary(self, statistic: float, hits2: Floats, n: int, z: float) -> Floats:
        from scipy.special import ndtr, ndtri

        return np.asarray((n + 1.0) * ndtr(ndtri((hits2 + 0.5) / (n + 1.0)) + statistic) - 0.5, np.float64)

    def estimate(self, hits1: Floats, hits2: Floats, n: int, z: float) -> Floats:
        from scipy.special import ndtri

        return np.asarray(ndtri((hits1 + 0.5) / (n + 1.0)) - ndtri((hits2 + 0.5) / (n + 1.0)), np.float64)
