r"""Sums of independent losses on a grid by FFT, exponentially tilted, with a bound on every rounding error.

With :math:`\tilde p_j \propto p_j e^{\lambda l_j}` and M the normaliser, the hockey stick of the k-fold sum
is

.. math:: \delta(\varepsilon) = M^k e^{-\lambda\varepsilon} \sum_{l > \varepsilon} \tilde c(l)\,
e^{-\lambda(l-\varepsilon)} (1 - e^{-(l-\varepsilon)}),
          \qquad \tilde c = \tilde p^{*k},

so an absolute error of :math:`\tilde c` becomes an error relative to the Chernoff bound
:math:`M^k e^{-\lambda\varepsilon}`, however small delta is.

The bounds used (derived in ``docs/theory/privacy-loss-distributions.md``): for a transform of length
:math:`N = 2^m`, with unit roundoff u,
:math:`|\Delta F_j| \le \gamma \|p\|_1` and :math:`\|\Delta F\|_2 \le \gamma \|F\|_2`, :math:`\gamma = 8 m u`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ledgerwood.accounting.curves.dominating_pairs.base import Array

__all__ = ["GridPart", "TiltedSum", "log_moment", "tilted_moments", "tilted_sum"]

UNIT_ROUNDOFF = 2.0**-53
TAIL = 1e-14
"""Tilted probability left outside the window on each side."""

GridPart = tuple[int, Array, int]
"""First index, log masses, how many times."""


def _log_sum_exp(values: Array) -> float:
    top = float(np.max(values))
    return top + math.log(float(np.sum(np.exp(values - top)))) if top > -math.inf else -math.inf


def log_moment(parts: Sequence[GridPart], step: float, order: float) -> float:
    """Log of the total moment E[e^{order * loss}] of the sum."""
    total = 0.0
    for first, log_mass, count in parts:
        total += count * _log_sum_exp(log_mass + (order * step) * np.arange(first, first + len(log_mass)))
    return total


def tilted_moments(parts: Sequence[GridPart], step: float, tilt: float) -> tuple[float, float]:
    """Mean and variance of the tilted sum."""
    mean, variance = 0.0, 0.0
    for first, log_mass, count in parts:
        loss = np.arange(first, first + len(log_mass)) * step
        exponent = log_mass + tilt * loss
        p = np.exp(exponent - np.max(exponent))
        p /= np.sum(p)
        m = float(np.sum(p * loss))
        mean += count * m
        variance += count * float(np.sum(p * (loss - m) ** 2))
    return mean, variance


@dataclass(frozen=True)
class TiltedSum:
    """The tilted law of a sum on the window ``first, first + 1, ...`` of the grid, and what bounds its
    errors.
    """

    step: float
    tilt: float
    first: int
    mass: Array
    log_scale: float
    """Log of the normaliser M^k."""
    relative_error: float
    """Every true mass lies within this factor of an exact convolution's."""
    norm_error: float
    """Two-norm of the error of ``mass``."""
    outside: float
    """Bound of the tilted mass beyond either end of the window (its aliases are in the window)."""
    log_upper_tail: float
    """Log of a bound of the untilted mass above the window."""

    def log_hockey_stick(self, epsilon: float) -> tuple[float, float]:
        """Logs of a lower and an upper bound of the sum's hockey stick (without its infinite mass)."""
        start = max(0, math.floor(epsilon / self.step) + 1 - self.first)
        end = len(self.mass)
        if self.tilt > 0:  # beyond this the weight is below e^-100, and all the mass there below 2
            end = min(end, start + math.ceil(100 / (self.tilt * self.step)))
        gap = np.arange(self.first + start, self.first + end) * self.step - epsilon
        gap = np.maximum(gap, 0.0)
        weight = np.exp(-self.tilt * gap) * -np.expm1(-gap)
        terms = weight * self.mass[start:end]
        value = float(np.sum(terms))
        # Weights that underflow and terms that were cut still count: at most the total mass, below 2, times
        # their bound.
        slack = float(np.sum(np.abs(terms))) * 2.0**-46
        slack += 2 * math.exp(-100) if end < len(self.mass) else 2.0**-1060
        top = float(np.max(weight, initial=0.0))  # taken out, or the squares underflow long before the weights
        if top > 0:
            slack += self.norm_error * top * math.sqrt(float(np.sum((weight / top) ** 2))) * (1 + 2.0**-30)
        log_front = self.log_scale - self.tilt * epsilon
        rounding = self.relative_error + 2.0**-49 * (abs(self.log_scale) + abs(self.tilt * epsilon) + 16)
        # What lies below the window sits, aliased, at losses of too small a weight: for an epsilon below the window it
        # must be added at its greatest weight, and for the lower end it may have to be taken away.
        stray = self.outside * _greatest_weight(self.tilt)
        below_window = epsilon < self.first * self.step
        upper, lower = value + slack + (stray if below_window else 0.0), value - slack - stray
        log_upper = log_front + math.log(upper) + rounding if upper > 0 else -math.inf
        log_lower = log_front + math.log(lower) - rounding if lower > 0 else -math.inf
        return log_lower, float(np.logaddexp(log_upper, self.log_upper_tail))


def _greatest_weight(tilt: float) -> float:
    """Supremum over t > 0 of e^{-tilt t}(1 - e^{-t}), attained at e^{-t} = tilt / (1 + tilt)."""
    return (tilt / (1 + tilt)) ** tilt / (1 + tilt) if tilt > 0 else 1.0


def _tail_end(parts: Sequence[GridPart], step: float, sign: int, scale: float, extreme: float) -> tuple[float, float]:
    """A loss beyond which the (tilted, normalised) sum has mass at most TAIL, and that mass: Chernoff or the
    support.
    """
    target = -math.log(TAIL)
    best = extreme
    for factor in (0.03, 0.1, 0.25, 0.5, 0.75, 1.0, 1.35):
        order = sign * factor * scale
        end = sign * (log_moment(parts, step, order) + target) / abs(order)
        best = min(best, end) if sign > 0 else max(best, end)
    return best, (0.0 if best == extreme else TAIL)


def tilted_sum(parts: Sequence[GridPart], step: float, tilt: float, limit: int) -> TiltedSum | int:
    """Compose by FFT; the length needed instead, when it exceeds ``limit``."""
    tilted: list[GridPart] = []
    log_scale, relative, mean, variance = 0.0, 0.0, 0.0, 0.0
    for first, log_mass, count in parts:
        loss = np.arange(first, first + len(log_mass)) * step
        exponent = log_mass + tilt * loss
        norm = _log_sum_exp(exponent)
        log_scale += count * norm
        log_p = exponent - norm
        heavy = log_p > -745
        size = np.abs(log_mass[heavy]) + np.abs(tilt * loss[heavy])
        relative += count * 2.0**-51 * (float(np.max(size)) + abs(norm) + 8)
        p = np.exp(log_p)
        m = float(np.sum(p * loss))
        mean += count * m
        variance += count * float(np.sum(p * (loss - m) ** 2))
        tilted.append((first, log_p, count))
    lowest = step * sum(first * count for first, _, count in parts)
    highest = step * sum((first + len(log_p) - 1) * count for first, log_p, count in parts)
    scale = math.sqrt(-2 * math.log(TAIL) / max(variance, (1e-3 * step) ** 2))
    low, tail_low = _tail_end(tilted, step, -1, scale, lowest)
    high, tail_high = _tail_end(tilted, step, +1, scale, highest)
    start = math.floor(low / step + 1e-6)
    length = math.ceil(high / step - 1e-6) - start + 1
    size = 1 << max(4, (length - 1).bit_length())
    if size > limit:
        return size
    bits = size.bit_length() - 1
    gamma = 8 * bits * UNIT_ROUNDOFF
    product = np.ones(size // 2 + 1, dtype=complex)
    log_reach = np.zeros(size // 2 + 1)
    share = np.zeros(size // 2 + 1)
    total = sum(count for _, _, count in parts)
    for first, log_p, count in tilted:
        ring = np.bincount(np.arange(first, first + len(log_p)) % size, weights=np.exp(log_p), minlength=size)
        factor = np.fft.rfft(ring)
        reach = np.abs(factor) + (gamma + 2.0**-50)
        log_reach += count * np.log(reach)
        share += count * (gamma + 8 * UNIT_ROUNDOFF) / reach
        product *= _power(factor, count)
    mass = np.fft.irfft(product, size)
    error = np.exp(log_reach) * share + total * 2.0**-1000
    forward = math.sqrt(2 * float(np.sum(error * error)) / size)
    inverse = gamma * float(np.sqrt(np.sum(mass * mass))) / (1 - gamma)
    log_tail = log_scale - tilt * high + math.log(2 * tail_high) if tail_high else -math.inf
    return TiltedSum(
        step,
        tilt,
        start,
        np.roll(mass, -(start % size)),
        log_scale,
        relative,
        1.01 * (forward + inverse),
        2 * (tail_low + tail_high),
        log_tail,
    )


def _power(base: np.ndarray, exponent: int) -> np.ndarray:
    """Integer power by squaring: a relative error of at most sqrt(5) u per factor of the product."""
    result = np.ones_like(base)
    while exponent:
        if exponent & 1:
            result = result * base
        exponent >>= 1
        if exponent:
            base = base * base
    return result
