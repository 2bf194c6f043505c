"""Pairs whose loss is discrete: randomised response, approximate DP, integer noise, a pmf of one's own."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ledgerwood import _checks
from ledgerwood.accounting.curves.dominating_pairs.base import Array, LossPair, log1mexp
from ledgerwood.errors import ParameterError

__all__ = [
    "ApproxDPPair",
    "AtomPair",
    "CoarseSkellamPair",
    "DiscreteGaussianPair",
    "DiscreteLaplacePair",
    "LossAtoms",
    "PmfPair",
    "PureDPPair",
    "RandomizedResponsePair",
    "SkellamPair",
]

LOG_TAIL = 740.0
"""Atoms of an infinite lattice are listed until the tails left out weigh less than ``exp(-LOG_TAIL)`` (about
1e-321)."""


@dataclass(frozen=True)
class LossAtoms:
    """Finitely many losses in rising order with their log P-mass; Q-mass e^{-loss} p."""

    loss: Array
    log_p: Array


class AtomPair(LossPair):
    """A pair given by its atoms, infinite loss, and the Q-mass left at loss -inf."""

    @abstractmethod
    def _atoms(self) -> LossAtoms: ...

    def _lost_mass(self) -> float:
        return self.infinite_mass

    def _log_cells(self, edges: Array) -> tuple[Array, Array]:
        atoms = self._atoms()
        cell = np.searchsorted(edges, atoms.loss, side="left")
        log_p = _log_sum_by(cell, atoms.log_p, len(edges) + 1)
        log_q = _log_sum_by(cell, atoms.log_p - atoms.loss, len(edges) + 1)
        with np.errstate(divide="ignore"):
            log_p[-1] = np.logaddexp(log_p[-1], np.log(self.infinite_mass))
            log_q[0] = np.logaddexp(log_q[0], np.log(self._lost_mass()))
        return log_p, log_q

    def _log_delta(self, epsilon: Array) -> Array:
        atoms = self._atoms()
        out = np.empty(epsilon.shape)
        with np.errstate(divide="ignore"):
            log_infinite = float(np.log(self.infinite_mass))
        for index, e in np.ndenumerate(epsilon):
            above = slice(int(np.searchsorted(atoms.loss, e, side="right")), None)
            terms = atoms.log_p[above] + log1mexp(e - atoms.loss[above])
            top = max(float(np.max(terms, initial=-np.inf)), log_infinite, -1e300)
            total = float(np.sum(np.exp(terms - top))) + math.exp(log_infinite - top)
            out[index] = top + math.log(total) if total > 0 else -np.inf
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
class RandomizedResponsePair(AtomPair):
    r"""k-ary randomised response: the truth with odds :math:`e^{\varepsilon} : 1` against each other answer.

    Losses eps, 0, -eps with P-masses :math:`e^{\varepsilon}, k - 2, 1` over :math:`e^{\varepsilon} + k - 1`.
    With k = 2 it dominates every
    epsilon-DP mechanism (Kairouz, Oh & Viswanath 2015).

    >>> float(np.exp(RandomizedResponsePair(1.0, 2).log_delta(0.0)).round(6))  # tanh(1/2)
    0.462117
    """

    epsilon: float
    k: int = 2

    def __post_init__(self) -> None:
        _checks.positive("epsilon", self.epsilon)
        if self.k < 2:
            raise ParameterError("k", "be an integer of at least 2", self.k)

    def _lattice(self) -> tuple[float, bool]:
        return (2 * self.epsilon if self.k == 2 else self.epsilon), True

    def _support(self) -> tuple[float, float]:
        return -self.epsilon, self.epsilon

    def _atoms(self) -> LossAtoms:
        total = self.epsilon + math.log1p((self.k - 1) * math.exp(-self.epsilon))
        if self.k == 2:
            return LossAtoms(np.array([-self.epsilon, self.epsilon]), np.array([-total, self.epsilon - total]))
        log_p = np.array([-total, math.log(self.k - 2) - total, self.epsilon - total])
        return LossAtoms(np.array([-self.epsilon, 0.0, self.epsilon]), log_p)


def PureDPPair(epsilon: float) -> RandomizedResponsePair:
    """The pair that dominates every epsilon-DP mechanism: binary randomised response."""
    return RandomizedResponsePair(epsilon, 2)


@dataclass(frozen=True)
class ApproxDPPair(AtomPair):
    r"""Any (epsilon, delta)-DP mechanism: infinite loss with probability delta, else binary randomised
    response.

    Exact as a class (Kairouz, Oh & Viswanath 2015, Theorem 3.4 and its proof).
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not 0 <= self.epsilon < math.inf:
            raise ParameterError("epsilon", "be finite and not negative", self.epsilon)
        if not 0 <= self.delta < 1:
            raise ParameterError("delta", "lie in [0, 1)", self.delta)

    def _infinite_mass(self) -> float:
        return self.delta

    def _lattice(self) -> tuple[float, bool] | None:
        return (2 * self.epsilon, True) if self.epsilon else None

    def _support(self) -> tuple[float, float]:
        return -self.epsilon, self.epsilon

    def _atoms(self) -> LossAtoms:
        low = -self.epsilon - math.log1p(math.exp(-self.epsilon))
        losses = np.array([-self.epsilon, self.epsilon])
        return LossAtoms(losses, math.log1p(-self.delta) + np.array([low, low + self.epsilon]))


@dataclass(frozen=True)
class DiscreteLaplacePair(AtomPair):
    r"""Integer noise :math:`\propto e^{-|x|/\text{scale}}` under a shift: losses (2j - shift)/scale, j =
    0..shift.
    """

    scale: float
    shift: int = 1

    def __post_init__(self) -> None:
        _checks.positive("scale", self.scale)
        _check_shift(self.shift)

    def _lattice(self) -> tuple[float, bool]:
        return 2 / self.scale, True

    def _support(self) -> tuple[float, float]:
        return -self.shift / self.scale, self.shift / self.scale

    def _atoms(self) -> LossAtoms:
        j = np.arange(self.shift + 1)
        log_p = -(self.shift - j) / self.scale - math.log1p(math.exp(-1 / self.scale))
        log_p[1:-1] += math.log(-math.expm1(-1 / self.scale))  # the end atoms are whole geometric tails
        return LossAtoms(np.asarray((2.0 * j - self.shift) / self.scale), np.asarray(log_p))


@dataclass(frozen=True)
class DiscreteGaussianPair(AtomPair):
    r"""Integer noise :math:`\propto e^{-x^2/(2\sigma^2)}` under a shift s: losses s(2x - s)/(2 sigma^2), x
    integer.

    One dimension, exact: not the Gaussian's profile (at sigma = shift = 1 its delta is up to 1.3 times as
    large for
    epsilon up to 3, and 3 times for epsilon up to 9).
    """

    sigma: float
    shift: int = 1

    def __post_init__(self) -> None:
        _checks.positive("sigma", self.sigma)
        _check_shift(self.shift)

    def _anchor(self) -> float:
        return -(self.shift**2) / (2 * self.sigma**2)

    def _lattice(self) -> tuple[float, bool]:
        return self.shift / self.sigma**2, True

    def _support(self) -> tuple[float, float]:
        return -math.inf, math.inf

    def _atoms(self) -> LossAtoms:
        return _discrete_gaussian_atoms(self.sigma, self.shift)


@lru_cache(maxsize=8)
def _discrete_gaussian_atoms(sigma: float, shift: int) -> LossAtoms:
    reach = math.ceil(sigma * math.sqrt(2 * LOG_TAIL + 60)) + 2
    x = np.arange(-reach, shift + reach + 1)
    weight = -((x - shift) ** 2) / (2 * sigma**2)
    # The normaliser sums to one side of the centre, small terms first.
    half = np.exp(-(np.arange(reach, 0, -1.0) ** 2) / (2 * sigma**2))
    loss = shift * (2.0 * x - shift) / (2 * sigma**2)
    return LossAtoms(np.asarray(loss), np.asarray(weight - math.log(1 + 2 * math.fsum(half))))


@dataclass(frozen=True)
class SkellamPair(AtomPair):
    r"""Skellam noise (the difference of two Poissons of mean variance/2) under an integer shift, one
    dimension.

    The pmf is :math:`e^{-v} I_{|x|}(v)`, log-concave, so the loss rises with x and every best event is a
    half-line.
    Logs come from the ratios :math:`r_x = I_{x+1}/I_x = 1/(2(x+1)/v + r_{x+1})`, run downwards (stable), and
    from
    :math:`I_0 + 2\sum_{x \ge 1} I_x = e^v`.
    """

    variance: float
    shift: int = 1

    def __post_init__(self) -> None:
        _checks.positive("variance", self.variance)
        _check_shift(self.shift)

    def _support(self) -> tuple[float, float]:
        return -math.inf, math.inf

    def _rounding(self) -> float:
        return 2.0**-44 * max(
            1.0, math.sqrt(self.variance) / 100
        )  # errors of the ratios add up over sqrt(variance) terms

    def _atoms(self) -> LossAtoms:
        return _skellam_atoms(self.variance, self.shift)


@lru_cache(maxsize=8)
def _skellam_atoms(variance: float, shift: int) -> LossAtoms:
    # Tail: P(X >= x) <= exp(-v h(x/v)), h(t) = t asinh(t) - sqrt(1 + t^2) + 1 (Chernoff); find x with v h =
    # LOG_TAIL + 30.
    reach = 1
    while reach * math.asinh(reach / variance) - math.hypot(variance, reach) + variance < LOG_TAIL + 30:
        reach = math.ceil(1.1 * reach) + 1
    reach += 2 * shift
    log_ratio = np.empty(reach + 1)
    r = 0.0
    for n in range(2 * reach + 60, -1, -1):  # started far beyond, where r = 0 is as good as exact
        r = 1.0 / (2.0 * (n + 1) / variance + r)
        if n <= reach:
            log_ratio[n] = math.log(r)
    log_i = np.concatenate(([0.0], np.cumsum(log_ratio)))  # log I_x / I_0, x = 0..reach+1
    log_i -= math.log(1 + 2 * math.fsum(np.exp(log_i[:0:-1])))
    x = np.arange(-reach + shift, reach + 1)
    # The loss log pmf(x - shift) - log pmf(x) as a short sum of log-ratios rather than a difference of long
    # ones.
    loss = np.zeros(len(x))
    for j in range(shift):
        y = x - j  # log pmf(y - 1) - log pmf(y)
        loss += np.where(y >= 1, -log_ratio[np.maximum(y - 1, 0)], log_ratio[np.maximum(-y, 0)])
    return LossAtoms(loss, log_i[np.abs(x - shift)])


def skellam_step(variance: float) -> float:
    r"""How far apart at most neighbouring outputs of Skellam noise are as quantiles of a normal distribution.

    For a variance of at least 40: docs/theory/skellam.md, Theorem. The result is rounded up.
    """
    gain = skellam_curvature(variance)
    return math.sqrt(gain / (1 - gain / 3)) * (1 + 2.0**-40)


def skellam_curvature(variance: float) -> float:
    r"""An upper bound of :math:`-\Delta^2 \log` of the Skellam pmf: about 1/variance (docs/theory/skellam.md)."""
    rho = 2.0 / variance
    for _ in range(8):  # falls towards the fixed point, and stays above it
        rho = math.asinh(math.exp(rho / 2) / variance)
    s = math.exp(rho / 2) / variance
    return (rho + 2 * s**3 * variance / (1 - s / 2)) * (1 + 2.0**-40)


@dataclass(frozen=True)
class CoarseSkellamPair(AtomPair):
    """One that Skellam noise of a large variance under a shift dominates: blocks of outputs, each with bounds.

    Masses are too small and losses too small, by about 1/variance and by the square of a block's width.
    """

    variance: float
    shift: float

    def _support(self) -> tuple[float, float]:
        return -math.inf, math.inf

    def _anchor(self) -> float:
        return 0.0

    def _symmetric(self) -> bool:
        return False

    def _atoms(self) -> LossAtoms:
        return _coarse_skellam_atoms(self.variance, self.shift)


@lru_cache(maxsize=8)
def _coarse_skellam_atoms(v: float, shift: float) -> LossAtoms:
    # Names and inequalities as in docs/theory/skellam.md, "Lower ends".
    gain = skellam_curvature(v)
    more = math.exp(gain / 2)
    width = max(1.0, math.floor(math.sqrt(v) / 200))
    count = math.ceil(39 * math.sqrt(v) / width)
    first = np.asarray(np.arange(-float(count), float(count)) * width, dtype=np.float64)  # of each block, and its last
    last: Array = first + (width - 1)

    def integral(x: Array, factor: float) -> Array:
        """Of asinh(factor t / v) for t from 0 to x."""
        at = np.abs(x) * factor / v
        return np.asarray(v / factor * (at * np.arcsinh(at) - at * at / (np.hypot(1.0, at) + 1)))

    def log_pmf(x: Array) -> Array:
        return np.asarray(-0.5 * math.log(2 * math.pi * v) - integral(x, more) - gain / 4 - 2.0**-38)

    def loss(x: Array) -> Array:
        def antiderivative(t: Array) -> Array:
            return np.where(t >= 0, integral(t, 1.0), integral(t, more))

        slope = np.where(x >= 0, np.arcsinh(x / v), np.arcsinh(more * x / v))
        found = np.maximum(antiderivative(x + shift) - antiderivative(x) - 2.0**-38, shift * slope)
        return np.asarray(found - gain / 4 - shift * (np.abs(x) + shift) * more**4 / (12 * v**3))

    left, right = loss(first), loss(last)
    wide = np.maximum(right - left, 0.0)
    uneven = 0.0 if width == 1 else np.expm1(np.abs(log_pmf(first) - log_pmf(last)) + 2 * gain * (1 + 800.0))
    bend = 0.0 if width == 1 else width**2 * shift * (np.abs(first) + width + shift) * more**4 / (8 * v**3)
    mean = left - np.log((1 + np.exp(-wide)) / 2 + uneven * -np.expm1(-wide) / 4) - bend
    mass = math.log(width) + (log_pmf(first) + log_pmf(last)) / 2
    order = np.argsort(mean, kind="stable")
    return LossAtoms(mean[order], mass[order])


def _check_shift(shift: int) -> None:
    if shift < 1 or shift != int(shift):
        raise ParameterError("shift", "be a positive integer", shift)


@dataclass(frozen=True)
class PmfPair(AtomPair):
    r"""A privacy-loss pmf of one's own: ``probabilities`` are P's, Q has :math:`e^{-l}p` and what is left at
    loss -inf.

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

    def _symmetric(self) -> bool:
        return False

    def _infinite_mass(self) -> float:
        return math.fsum(p for loss, p in zip(self.losses, self.probabilities, strict=True) if loss == math.inf)

    def _anchor(self) -> float:
        atoms = self._atoms()
        return float(atoms.loss[np.argmax(atoms.log_p)]) if len(atoms.loss) else 0.0

    def _support(self) -> tuple[float, float]:
        finite = self._atoms().loss
        return (float(finite[0]), float(finite[-1])) if len(finite) else (0.0, 0.0)

    def _atoms(self) -> LossAtoms:
        return _pmf_atoms(self.losses, self.probabilities)

    def _lost_mass(self) -> float:
        return max(0.0, 1 - self._q_mass())

    def _reversed(self) -> PmfPair:
        atoms = self._atoms()
        q = [float(v) for v in np.exp(atoms.log_p - atoms.loss)]
        lost = max(0.0, 1 - math.fsum(q))
        return PmfPair((*(-float(v) for v in atoms.loss), math.inf), (*q, lost))


@lru_cache(maxsize=8)
def _pmf_atoms(losses: tuple[float, ...], probabilities: tuple[float, ...]) -> LossAtoms:
    loss, p = np.asarray(losses, dtype=float), np.asarray(probabilities, dtype=float)
    keep = (p > 0) & (loss < np.inf)
    order = np.argsort(loss[keep], kind="stable")
    return LossAtoms(loss[keep][order], np.log(p[keep][order]))
