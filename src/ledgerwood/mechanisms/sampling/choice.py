"""Coins of probability exp(-x) and choices with weights exp(-x), for exact rational x.

The x are ``coefficient * (top - score)``: floats and integers are rationals, and so is their product.
Floating point decides only what its error bounds leave no doubt about; the rest goes to :mod:`.exact`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ledgerwood.mechanisms.randomness import RandomSource
from ledgerwood.mechanisms.sampling import exact
from ledgerwood.mechanisms.sampling.arithmetic import Weights, accumulate_weights, exp_minus

__all__ = ["Exponents", "choose", "coins"]

_BLOCK = 1024
_UNIT_ROUNDOFF = 2.0**-53


@dataclass(frozen=True, slots=True)
class Exponents:
    """x_i = coefficient * (top - score_i), with ``top`` no less than any score; 0 <= x_i."""

    coefficient: Fraction
    scores: NDArray[np.int64] | NDArray[np.float64]
    top: int | float

    @classmethod
    def below_the_best(cls, coefficient: Fraction, scores: NDArray[np.int64] | NDArray[np.float64]) -> Exponents:
        """Measured from the largest score."""
        return cls(coefficient, scores, scores.max().item())

    def floats(self) -> NDArray[np.float64]:
        """Floats with at most four roundings; an overflow to infinity stands for a weight below 1e-300."""
        c = float(self.coefficient)
        with np.errstate(over="ignore"):  # differences of integers of at most 2**61 are exact
            behind = np.asarray(self.top - self.scores, dtype=np.float64)
            if np.isinf(behind.max()):  # scores further apart than the largest float: halve the large ones first
                halves = self.top / 2 - self.scores / 2
                return np.where(np.isinf(behind), 2 * (c * halves), c * behind)
            return c * behind

    def capped(self) -> NDArray[np.float64]:
        """The same floats, with 2**1000 for all that lies beyond: no infinity minus infinity in a comparison."""
        return np.minimum(self.floats(), 2.0**1000)

    def exact(self, i: int) -> Fraction:
        """The i-th exponent."""
        return self.coefficient * (Fraction(self.top) - Fraction(self.scores[i].item()))


def coins(exponents: Exponents, source: RandomSource) -> NDArray[np.bool_]:
    """Independent coins: the i-th shows True with probability exactly exp(-x_i).

    The float p = exp(-x) is off by at most (4 x e^{-x} + 4) 2**-53 (four roundings in x, and numpy's exp within
    4 ulp), the word by 2**-53: far less than the margin of 2**-48.
    """
    p = np.exp(-exponents.floats())
    words = source.words(len(p))
    unit, margin = 2.0**-source.word_bits, 2.0**-48
    a = words * unit
    heads = a + unit <= p - margin
    for i in np.flatnonzero(~heads & (a < p + margin)):
        x = exponents.exact(int(i))
        uniform = exact.Uniform(int(words[i]), source.word_bits, exact.Reader(source))
        heads[i] = exact.bernoulli(uniform, lambda x=x: (x, x))  # type: ignore[misc]
    return heads


def choose(exponents: Exponents, source: RandomSource, counts: NDArray[np.int64] | None = None) -> int:
    """Index i with probability exactly proportional to counts_i exp(-x_i) (counts: positive, 1 if left out).

    Inversion over the running sums of the weights. Error of a float weight, relative: 2**-53 (4 x + 8), with x < 745
    or else a weight below 1e-300; of a sum of n positive numbers: n 2**-53 relative to the whole. Sums are
    made in blocks, so that n is about 1024 + m / 1024. A comparison closer than that bound is left to integers.
    """
    m = len(exponents.scores)
    weights = np.exp(-exponents.floats())
    if counts is not None:
        weights *= counts
    blocks = np.cumsum(np.add.reduceat(weights, np.arange(0, m, _BLOCK)))
    total = float(blocks[-1])
    margin = total * _UNIT_ROUNDOFF * (4 * 745 + 16 + 2 * (_BLOCK + len(blocks)))
    uniform = exact.Uniform.fresh(exact.Reader(source))
    left, right = uniform.prefix * 2.0**-uniform.bits * total, (uniform.prefix + 1) * 2.0**-uniform.bits * total
    b = min(int(np.searchsorted(blocks, left)), len(blocks) - 1)
    inner = (blocks[b - 1] if b else 0.0) + np.cumsum(weights[b * _BLOCK : (b + 1) * _BLOCK])
    k = int(np.searchsorted(inner, left))
    if k < len(inner):
        i = b * _BLOCK + k
        lower = inner[k - 1] if k else (blocks[b - 1] if b else -np.inf)
        upper = inner[k] if i < m - 1 else np.inf
        if lower + margin <= left and right <= upper - margin:
            return i
    return _choose_exactly(exponents, uniform, counts)


def _choose_exactly(exponents: Exponents, uniform: exact.Uniform, counts: NDArray[np.int64] | None) -> int:
    x = [exponents.exact(i) for i in range(len(exponents.scores))]
    n = [1] * len(x) if counts is None else [int(count) for count in counts]

    def boundaries(precision: int) -> tuple[list[int], list[int]]:
        work = precision + len(x).bit_length() + 8
        known = {value: exp_minus(value, work) for value in set(x)}
        lo = [count * known[value][0] for value, count in zip(x, n, strict=True)]
        hi = [count * known[value][1] for value, count in zip(x, n, strict=True)]
        table = accumulate_weights(Weights(0, lo, hi, 0, 0), precision)
        return table.lo[1:-1], table.hi[1:-1]

    return exact.locate(uniform, boundaries)
