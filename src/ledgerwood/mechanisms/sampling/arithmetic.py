"""Enclosures in integers: exp(-x), and the distribution functions of the distributions that are sampled.

Everything here is a pair of Python integers (lo, hi) with lo <= 2**precision * (the real number) <= hi. Lower ends
are rounded down, upper ends up, at each operation, so the pair encloses the real number whatever the precision.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Cumulative",
    "Geometric",
    "HalfGaussian",
    "Poisson",
    "SampledDistribution",
    "cumulative",
    "exp_minus",
    "thresholds",
]


def exp_minus(x: Fraction, precision: int) -> tuple[int, int]:
    """Enclose exp(-x) for a rational x >= 0, at most a few units wide.

    With y = x / 2**k < 2**-4: Taylor's series of exp(-y) in fixed point, where each of the N terms is off by at
    most one unit (floor) and the rest by less than one, then k squarings, each rounded outwards.

    >>> exp_minus(Fraction(1), 20), 2**20 / 2.718281828459045
    ((385749, 385750), 385749.55...)
    """
    if x == 0:
        return 1 << precision, 1 << precision
    if x > precision:  # exp(-x) < 2**-precision
        return 0, 1
    k = max(0, (x.numerator // x.denominator).bit_length() + 4)
    work = precision + k + 16
    y = (x.numerator << work) // (x.denominator << k)  # y 2**work, rounded down
    total = term = 1 << work
    n = 0
    while term:
        n += 1
        term = (term * y >> work) // n
        total += term if n % 2 == 0 else -term
    lo, hi = total - n - 3, min(total + n + 3, 1 << work)
    for _ in range(k):
        lo, hi = lo * lo >> work, -(-hi * hi >> work)
    return lo >> (work - precision), -(-hi >> (work - precision))


@dataclass(frozen=True, slots=True)
class Weights:
    """Enclosed weights of first, first + 1, ... and upper bounds of all that lies below and above them."""

    first: int
    lo: list[int]
    hi: list[int]
    below: int
    above: int


class SampledDistribution(Hashable, Protocol):
    """A distribution on the integers, by its weights (which need not add up to one)."""

    def weights(self, precision: int) -> Weights:
        """Weights with all but about 2**-precision of the mass listed."""


@dataclass(frozen=True, slots=True)
class HalfGaussian:
    """exp(-k^2 / (2 variance)) for k = 0, 1, ...; ``folded``: twice that for k > 0: |Y| for Y on all of Z.

    Products w_{k+1} = w_k r_k, r_{k+1} = r_k g with r_0 = exp(-1/(2v)) and g = exp(-1/v). The ratios decrease, so
    everything after k is at most w_{k+1} / (1 - r_{k+1}).
    """

    variance: Fraction
    folded: bool

    def weights(self, precision: int) -> Weights:
        """Weights until the rest is negligible at this precision."""
        reach = int(2 + (1.4 * (precision + 8) * float(self.variance)) ** 0.5)
        p = precision + 3 * reach.bit_length() + 16
        one = 1 << p
        a = 1 / (2 * self.variance)
        (ratio_lo, ratio_hi), (step_lo, step_hi) = exp_minus(a, p), exp_minus(2 * a, p)
        lo, hi = [one], [one]
        w_lo, w_hi = one, one
        while True:
            w_lo, w_hi = w_lo * ratio_lo >> p, -(-w_hi * ratio_hi >> p)
            ratio_lo, ratio_hi = ratio_lo * step_lo >> p, -(-ratio_hi * step_hi >> p)
            if w_hi << precision + 1 < one - ratio_hi:  # all that follows is below 2**-(precision + 1)
                break
            lo.append(w_lo)
            hi.append(w_hi)
        return _fold(Weights(0, lo, hi, 0, one >> precision + 1), self.folded)


@dataclass(frozen=True, slots=True)
class Geometric:
    """exp(-rate k) for k = 0, 1, ...; ``folded``: twice that for k > 0: |Y| for the discrete Laplace Y."""

    rate: Fraction
    folded: bool

    def weights(self, precision: int) -> Weights:
        """Weights until the rest, w_{k+1} / (1 - exp(-rate)), is negligible at this precision."""
        reach = int(2 + 0.75 * (precision + 64) / float(self.rate))
        p = precision + 2 * reach.bit_length() + 16
        one = 1 << p
        q_lo, q_hi = exp_minus(self.rate, p)
        lo, hi = [one], [one]
        w_lo, w_hi = one, one
        while True:
            w_lo, w_hi = w_lo * q_lo >> p, -(-w_hi * q_hi >> p)
            if w_hi << precision + 1 < one - q_hi:  # all that follows is below 2**-(precision + 1)
                break
            lo.append(w_lo)
            hi.append(w_hi)
        return _fold(Weights(0, lo, hi, 0, one >> precision + 1), self.folded)


def _fold(weights: Weights, folded: bool) -> Weights:
    if not folded:
        return weights
    lo, hi = ([side[0], *(2 * w for w in side[1:])] for side in (weights.lo, weights.hi))
    return Weights(0, lo, hi, 0, 2 * weights.above)


@dataclass(frozen=True, slots=True)
class Poisson:
    """mean^k / k!, from the mode m outwards, relative to its weight.

    Upwards the ratios mean / (k+1) decrease, downwards the ratios k / mean do: geometric bounds of both tails.
    """

    mean: Fraction

    def weights(self, precision: int) -> Weights:
        """Weights around the mode, until both tails are negligible at this precision."""
        a, b = self.mean.numerator, self.mean.denominator
        mode = a // b
        p = precision + 2 * mode.bit_length() + 40
        one = 1 << p
        floor = 1 << (p - precision - 1)
        up_lo, up_hi = [one], [one]
        k = mode
        while True:
            k += 1
            w_lo, w_hi = up_lo[-1] * a // (b * k), -(-up_hi[-1] * a // (b * k))
            above = -(-w_hi * b * (k + 1) // (b * (k + 1) - a))
            if above < floor:
                break
            up_lo.append(w_lo)
            up_hi.append(w_hi)
        down_lo: list[int] = []
        down_hi: list[int] = []
        w_lo = w_hi = one
        below, k = 0, mode
        while k > 0:
            w_lo, w_hi = w_lo * b * k // a, -(-w_hi * b * k // a)
            k -= 1
            below = -(-w_hi * a // (a - b * k)) if a > b * k else one * one
            if below < floor:
                k += 1
                break
            down_lo.append(w_lo)
            down_hi.append(w_hi)
            below = 0
        return Weights(k, down_lo[::-1] + up_lo, down_hi[::-1] + up_hi, below, above)


@dataclass(frozen=True, slots=True)
class Cumulative:
    """Enclosures of 2**precision F(first - 1), F(first), F(first + 1), ...; ``first`` belongs to entry 1."""

    first: int
    lo: list[int]
    hi: list[int]


def accumulate_weights(weights: Weights, precision: int) -> Cumulative:
    """Partial sums over the total, each rounded outwards."""
    lo = [0, *accumulate(weights.lo)]
    hi = list(accumulate([weights.below, *weights.hi]))
    total_lo, total_hi = lo[-1], hi[-1] + weights.above
    one = 1 << precision
    return Cumulative(
        weights.first,
        [(s << precision) // total_hi for s in lo],
        [min(one, -(-(s << precision) // total_lo)) for s in hi],
    )


@lru_cache(maxsize=64)
def cumulative(distribution: SampledDistribution, precision: int) -> Cumulative:
    """Enclosed distribution function of a distribution; kept, for it is asked for again."""
    return accumulate_weights(distribution.weights(precision), precision)


@lru_cache(maxsize=64)
def thresholds(distribution: SampledDistribution, bits: int) -> tuple[int, NDArray[np.uint64]]:
    """Return (offset, T) with T[j] = floor(2**bits F(offset + j)), up to the first entry of 2**bits - 1.

    With v the first ``bits`` bits of U: v < T[j] implies U < F(offset + j), and v > T[j] implies U > F(offset + j).
    Only v == T[j] decides nothing. Every v has a T[j] >= v, since the last entry is the largest v there is; and if
    the distribution reaches below ``offset + 1`` the first entry is 0, so that v = 0 is left undecided.
    """
    precision = bits + 64
    while True:
        table = cumulative(distribution, precision)
        shift = precision - bits
        lo, hi = [s >> shift for s in table.lo], [min(s >> shift, (1 << bits) - 1) for s in table.hi]
        if lo == hi:
            break
        precision *= 2
    first = 0 if table.first > 0 else 1  # F(-1) = 0 is not a boundary for a distribution on 0, 1, ...
    last = hi.index((1 << bits) - 1, first)
    return table.first - 1 + first, np.array(lo[first : last + 1], dtype=np.uint64)
