"""What a privacy claim says about one event: the null hypotheses that a certificate can contradict.

A family of hypotheses bounds the probability of the event on one input by its probability on the other, and brings the
statistic that orders the counts (``RatioHypothesis``, ``GaussianHypothesis``). Which members of the family a claim
asserts is its ``ClaimedProfile``.

A cost object is read through ``epsilon(delta)`` and ``delta(epsilon)`` only. A *point* claim (pure or approximate DP)
is tested at its own delta: it says nothing more than that. A *profile* claim (RDP, zCDP, GDP, a composition, a bounded
range, Laplace noise) holds at every epsilon at once, and is tested at the point that the selection sample finds worst.
A GDP claim is tested a second time, on mu itself.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ledgerwood.errors import LedgerwoodError, OrderAtEdge, ParameterError
from ledgerwood.verification.auditor.certificate.counts import estimated_bound

__all__ = ["ClaimedProfile", "GaussianHypothesis", "Hypothesis", "NullHypothesis", "RatioHypothesis", "read_claim"]


Floats = NDArray[np.float64]


class NullHypothesis(Protocol):
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
class RatioHypothesis:
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
        center = ratio * (hits2 + 1.0 + max(z * z - 1.0, 0.0) / 3.0) + n * self.delta
        return np.asarray(center + z * np.sqrt(spread), dtype=np.float64)

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
class GaussianHypothesis:
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


_DELTA = 1e-5  # where a profile is read
_HUGE = 300.0  # an epsilon that no counts reach, and whose ratio has a square


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """``quantity`` ("epsilon" at ``delta``, or "mu") is at most ``claimed``."""

    quantity: str
    claimed: float
    delta: float = 0.0

    @property
    def null(self) -> NullHypothesis:
        """The family of hypotheses whose parameter is the quantity."""
        return GaussianHypothesis() if self.quantity == "mu" else RatioHypothesis(self.delta)

    def estimated_bound(self, hits1: Floats, hits2: Floats, n: int, z_margin: float) -> Floats:
        """A rough bound from these counts, less ``z_margin`` standard errors; for choosing events only."""
        x1, x2 = np.asarray(hits1, np.float64), np.asarray(hits2, np.float64)
        if self.quantity == "mu":
            from scipy.special import ndtri

            q1, q2 = (x1 + 0.5) / (n + 1), (x2 + 0.5) / (n + 1)
            a, b = ndtri(q1), ndtri(q2)
            variance = q1 * (1 - q1) * 2 * math.pi * np.exp(a * a) + q2 * (1 - q2) * 2 * math.pi * np.exp(b * b)
            return np.asarray(a - b - z_margin * np.sqrt(variance / n), np.float64)
        return estimated_bound(x1 - n * self.delta, x1 * (1 - x1 / n) + 1, x2, (x2 + 1) * (1 - x2 / n), z_margin)


@dataclass(frozen=True, slots=True)
class ClaimedProfile:
    """A claim as the hypotheses to test: for a profile one per point of it."""

    source: Any
    points: tuple[Hypothesis, ...]
    mu: Hypothesis | None = None
    at_delta: Hypothesis | None = None

    @property
    def is_profile(self) -> bool:
        """Whether the worst of several points has to be chosen."""
        return len(self.points) > 1

    @property
    def extras(self) -> tuple[Hypothesis, ...]:
        """What else is bounded beside the claim's own quantity."""
        return tuple(each for each in (self.mu, self.at_delta) if each is not None)

    @property
    def claimed_delta(self) -> float | None:
        """The delta of a claim at one point; None for a profile."""
        return None if self.is_profile else self.points[0].delta

    def estimated_bound(self, hits1: Floats, hits2: Floats, n: int, z_margin: float) -> Floats:
        """As for one hypothesis; for a profile, the largest violation in standard errors, less ``z_margin``."""
        if not self.is_profile:
            return self.points[0].estimated_bound(hits1, hits2, n, z_margin)
        return np.asarray(np.max(self._violations(hits1, hits2, n), axis=0) - z_margin, dtype=np.float64)

    def worst(self, hits1: float, hits2: float, n: int) -> Hypothesis:
        """The hypothesis most violated by these counts."""
        if not self.is_profile:
            return self.points[0]
        return self.points[int(np.argmax(self._violations(np.asarray([hits1]), np.asarray([hits2]), n)[:, 0]))]

    def _violations(self, hits1: Floats, hits2: Floats, n: int) -> Floats:
        p1, p2 = np.asarray(hits1, np.float64) / n, np.asarray(hits2, np.float64) / n
        ratio = np.exp([min(point.claimed, _HUGE) for point in self.points])[:, None]
        delta = np.asarray([point.delta for point in self.points])[:, None]
        spread = p1 * (1 - p1) + ratio**2 * p2 * (1 - p2) + (1 + ratio**2) / n
        return np.asarray((p1 - ratio * p2 - delta) / np.sqrt(spread / n), np.float64)


def read_claim(claim: Any, delta: float | None = None) -> ClaimedProfile:
    """Read a cost object; ``delta`` is where a profile is read beside its worst point. Raise ``ParameterError`` if it does not answer ``epsilon`` and ``delta``.

    >>> from ledgerwood.accounting import PureDP
    >>> read_claim(PureDP(1.0)).is_profile, read_claim(10 * PureDP(0.1)).is_profile
    (False, True)
    """
    if not (callable(getattr(claim, "epsilon", None)) and callable(getattr(claim, "delta", None))):
        raise ParameterError(
            "claim", "be a cost of ledgerwood.accounting", claim, "For example PureDP(0.1) or Gaussian(mu=0.5)."
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OrderAtEdge)  # the bound that the curve gives is the claim
        return _read(claim, delta)


def _read(claim: Any, delta: float | None) -> ClaimedProfile:
    floor = _floor(claim)
    at_floor = _epsilon(claim, floor)
    end = [Hypothesis("epsilon", at_floor, floor)] if math.isfinite(at_floor) else []
    if end and not _says_more(claim, at_floor, floor):
        if delta is not None and delta != floor:
            raise ParameterError("delta", f"be {floor:g}, the only one that the claim speaks of", delta)
        return ClaimedProfile(claim, tuple(end))
    reach = next((e for e in (_epsilon(claim, 10.0**-k) for k in range(10, 0, -1)) if math.isfinite(e)), math.inf)
    reach = min(reach, at_floor)
    if not math.isfinite(reach):
        raise ParameterError("claim", "bound epsilon at some delta", claim)
    grid = np.concatenate([[0.0], reach * np.linspace(0.02, 1.0, 40)])
    inner = [float(e) for e in grid if e < at_floor]
    points = [Hypothesis("epsilon", e, delta) for e in inner if (delta := _delta(claim, e)) < 1.0]
    mu = getattr(claim, "mu", None)
    value = mu() if callable(mu) else mu
    gaussian = float(value) if isinstance(value, (int, float)) and math.isfinite(value) else math.inf
    if delta is None:
        delta = max(_DELTA, floor)
    elif not 0 < delta < 1:
        raise ParameterError("delta", "lie in (0, 1)", delta)
    at = Hypothesis("epsilon", _epsilon(claim, delta), delta)
    return ClaimedProfile(claim, tuple(points + end), Hypothesis("mu", gaussian), at)


def _says_more(claim: Any, epsilon: float, delta: float) -> bool:
    r"""Whether a claim of finite epsilon at its floor delta says more than that point.

    :math:`(\varepsilon, \delta)`-DP forces no more at :math:`x < \varepsilon` than :math:`\delta + (1 - \delta)
    \frac{e^\varepsilon - e^x}{e^\varepsilon + 1}`, which randomized response attains. A composition lies below it.
    """
    for x in (share * epsilon for share in (0.0, 0.25, 0.5, 0.75)):
        implied = delta - (1.0 - delta) * math.expm1(x - epsilon) / (1.0 + math.exp(-epsilon))
        if _delta(claim, x) < implied * (1.0 - 1e-6):
            return True
    return False


def _floor(claim: Any) -> float:
    """The delta that no epsilon removes: 0 for pure claims and smooth profiles, delta for an approximate claim."""
    rest = _delta(claim, 500.0)
    if rest < 1e-100:
        return 0.0
    rounded = float(f"{rest:.12g}")  # the claim's own decimal, if the profile has rounded it
    return rounded if math.isfinite(_epsilon(claim, rounded)) else rest * (1.0 + 1e-9)


def _epsilon(claim: Any, delta: float) -> float:
    try:
        return float(claim.epsilon(delta))
    except LedgerwoodError:
        return math.inf


def _delta(claim: Any, epsilon: float) -> float:
    try:
        return float(claim.delta(epsilon))
    except LedgerwoodError:
        return 1.0
