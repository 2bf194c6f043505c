r"""The two finite distributions from which every order-preserving map is built, and the arithmetic that encloses them.

**Enclosures.** The exact samplers compare random bits with irrational numbers such as the cumulative probabilities of
:math:`p_o \propto e^{-c|x-o|}`. They need those numbers to as many bits as a comparison asks for, with a
bound that cannot fail; Python's integers give both without a library of big floats.

A `Ball` holds integers ``lower <= value * 2**precision <= upper``. Every operation rounds the lower end down
and the upper end up, so the enclosure is kept whatever the size of the numbers.

**Distributions.** Both are discrete Laplace noise :math:`\Pr[z] \propto q^{|z|}`, :math:`q = e^{-c}`, brought back to
``width`` values:

- `BoundedLaplace`: noise drawn again until it lands inside. It is *also* the exponential mechanism with the
  distance as score (Algorithm 1 of OpBoost, Li et al. 2022, arXiv:2210.01318, is :math:`c = \varepsilon/2`), so
  OpBoost's two ways of sampling have one distribution:

  .. math:: \Pr[o \mid x] = \frac{q^{|x-o|}}{S(x)}, \qquad
            S(x) = \sum_{j=0}^{w-1} q^{|x-j|} = \frac{1 + q - q^{x+1} - q^{w-x}}{1 - q}

- `ClampedLaplace`: noise added once and moved to the nearer end when outside. Clamping is post-processing, so
  no normaliser changes with :math:`x` and the noise may be twice as small for the same guarantee.

A distribution knows its log-probabilities in doubles, and as certified enclosures its cumulative probabilities and
those of the binary digits of the noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from ledgerwood.mechanisms.local.domain import Codes
from ledgerwood.mechanisms.sampling.arithmetic import exp_minus


@dataclass(frozen=True, slots=True)
class Ball:
    """A non-negative real number enclosed by ``[lower, upper] / 2**precision``.

    >>> third = Ball.of(Fraction(1, 3), 10)
    >>> third.lower, third.upper
    (341, 342)
    """

    lower: int
    upper: int
    precision: int

    @classmethod
    def of(cls, value: Fraction | int, precision: int) -> Ball:
        """Enclose a rational number."""
        numerator, denominator = value.numerator << precision, value.denominator
        return cls(numerator // denominator, -(-numerator // denominator), precision)

    @classmethod
    def exp_minus(cls, exponent: Fraction, precision: int) -> Ball:
        r"""Enclose :math:`e^{-r}` for a rational :math:`r \ge 0`, within two units.

        >>> Ball.exp_minus(Fraction(1), 20)
        Ball(lower=385749, upper=385750, precision=20)
        """
        return cls(*exp_minus(exponent, precision), precision)

    def __add__(self, other: Ball) -> Ball:
        return Ball(self.lower + other.lower, self.upper + other.upper, self.precision)

    def __sub__(self, other: Ball) -> Ball:
        """Subtract a number known to be no larger: the lower end never falls below zero."""
        return Ball(max(0, self.lower - other.upper), max(0, self.upper - other.lower), self.precision)

    def __mul__(self, other: Ball) -> Ball:
        p = self.precision
        return Ball((self.lower * other.lower) >> p, -((-self.upper * other.upper) >> p), p)

    def __truediv__(self, other: Ball) -> Ball:
        p = self.precision
        return Ball((self.lower << p) // other.upper, -((-self.upper << p) // other.lower), p)


def powers(base: Ball, count: int) -> list[Ball]:
    """``base**0, base**1, ..., base**(count - 1)``; each step widens the enclosure by at most two units."""
    result = [Ball.of(1, base.precision)]
    for _ in range(count - 1):
        result.append(result[-1] * base)
    return result


Floats = NDArray[np.float64]


def bounded_laplace_tau(lower: int, upper: int, rate: float) -> float:
    r"""OpBoost, Lemma 4.10, corrected: the factor by which resampling to a range raises each probability.

    With :math:`q = e^{-c}`, discrete Laplace noise lands in the range with probability :math:`1/\tau`,

    .. math:: \tau = \frac{1+q}{1 - q^{1-l} - q^{u+1} + q} \quad (l \le 0 \le u), \qquad
              \tau = \frac{1+q}{q^{l} (1 - q^{u-l+1})} \quad (0 < l),

    and its mirror image for :math:`u < 0`. OpBoost prints 2 for the numerator, from
    :math:`\sum_z q^{|z|} \simeq 2/(1-q)`, which counts zero twice: the sum is :math:`(1+q)/(1-q)`.

    >>> round(bounded_laplace_tau(-1, 1, math.log(2)), 12)  # OpBoost's formula gives 2
    1.5
    """
    if upper < 0:
        lower, upper = -upper, -lower
    q = math.exp(-rate)
    if lower > 0:
        return (1 + q) / (math.exp(-rate * lower) * -math.expm1(-rate * (upper - lower + 1)))
    return (1 + q) / (-math.expm1(-rate * (1 - lower)) - q * math.expm1(-rate * upper))


@dataclass(frozen=True)
class BoundedLaplace:
    """Noise redrawn until the output lies in ``0, ..., width - 1``; an exponential mechanism.

    >>> distribution = BoundedLaplace(width=3, rate=math.log(2))
    >>> np.exp(distribution.log_probabilities(np.array([0]), np.arange(3))).round(6).tolist()
    [0.571429, 0.285714, 0.142857]
    """

    width: int
    rate: float

    def log_normaliser(self, rows: Codes) -> Floats:
        """``log S(x)``: the sum split at x into two geometric sums, each by ``expm1`` (nothing cancels)."""
        c = self.rate
        left = -np.expm1(-c * (rows + 1.0))
        right = -np.expm1(-c * (self.width - 1.0 - rows))
        return np.asarray(np.log(left + math.exp(-c) * right) - math.log(-math.expm1(-c)))

    def log_probabilities(self, rows: Codes, outputs: Codes) -> Floats:
        """``-c |x - o| - log S(x)``."""
        return np.asarray(-self.rate * np.abs(rows - outputs) - self.log_normaliser(rows))

    def cumulative(self, row: int, precision: int) -> tuple[list[int], list[int]]:
        """Partial geometric sums on the two sides of ``x``, over their total."""
        one, p = 1 << precision, precision
        low, high = _geometric_sums(self.rate, self.width, precision)  # of 1 + q + ... + q**d
        other = self.width - 1 - row
        share = Ball.of(1, p) / Ball(low[row] + low[other] - one, high[row] + high[other] - one, p)
        least = [low[row] - high[row - o - 1] for o in range(min(row, self.width - 1))]
        least += [low[row] + low[o - row] - one for o in range(row, self.width - 1)]
        most = [high[row] - low[row - o - 1] for o in range(min(row, self.width - 1))]
        most += [high[row] + high[o - row] - one for o in range(row, self.width - 1)]
        return (
            [max(0, value) * share.lower >> p for value in least],
            [-(-value * share.upper >> p) for value in most],
        )

    def magnitude_bits(self) -> int:
        """Enough for the largest noise that can land inside, ``width - 1``."""
        return (self.width - 1).bit_length()

    def magnitude_bit(self, index: int, precision: int) -> Ball:
        r"""The bits of a geometric number are independent, bit j being one with odds :math:`q^{2^j}` to 1."""
        odds = Ball.exp_minus(Fraction(self.rate) * 2**index, precision)
        return odds / (Ball.of(1, precision) + odds)


@dataclass(frozen=True)
class ClampedLaplace:
    """Noise added once, then clamped to ``0, ..., width - 1`` (the truncated geometric mechanism).

    >>> distribution = ClampedLaplace(width=3, rate=math.log(2))
    >>> np.exp(distribution.log_probabilities(np.array([0]), np.arange(3))).round(6).tolist()
    [0.666667, 0.166667, 0.166667]
    """

    width: int
    rate: float

    def log_probabilities(self, rows: Codes, outputs: Codes) -> Floats:
        r""":math:`-c|x-o| - \log(1+q)` at the two ends (a whole tail), and :math:`\log(1-q)` more inside."""
        c = self.rate
        at_end = (outputs == 0) | (outputs == self.width - 1)
        share = np.where(at_end, 0.0, math.log(-math.expm1(-c)))
        return np.asarray(-c * np.abs(rows - outputs) + share - math.log1p(math.exp(-c)))

    def cumulative(self, row: int, precision: int) -> tuple[list[int], list[int]]:
        r""":math:`q^{x-o}/(1+q)` below ``x``, :math:`1 - q^{o-x+1}/(1+q)` from ``x`` on."""
        one, tails = 1 << precision, _tails(self.rate, self.width, precision)
        left = [tails[row - o] for o in range(min(row, self.width - 1))]
        right = [tails[o - row + 1] for o in range(row, self.width - 1)]
        return (
            [ball.lower for ball in left] + [one - ball.upper for ball in right],
            [ball.upper for ball in left] + [one - ball.lower for ball in right],
        )

    def magnitude_bits(self) -> int:
        """Enough for the largest noise that is not clamped, and one bit for "larger"."""
        return (self.width - 1).bit_length() + 1

    def magnitude_bit(self, index: int, precision: int) -> Ball:
        r"""Bits as in `BoundedLaplace`, but the last says that the noise is :math:`2^j` or more."""
        odds = Ball.exp_minus(Fraction(self.rate) * 2**index, precision)
        if index == self.magnitude_bits() - 1:
            return odds
        return odds / (Ball.of(1, precision) + odds)


FiniteDistribution = BoundedLaplace | ClampedLaplace
"""A square table of probabilities: row x is the distribution of the output for the input x."""


@lru_cache(maxsize=8)
def _geometric_sums(rate: float, count: int, precision: int) -> tuple[list[int], list[int]]:
    """Bounds of ``1 + q + ... + q**d`` for ``d < count``."""
    terms = powers(Ball.exp_minus(Fraction(rate), precision), count)
    return list(accumulate(t.lower for t in terms)), list(accumulate(t.upper for t in terms))


@lru_cache(maxsize=8)
def _tails(rate: float, count: int, precision: int) -> list[Ball]:
    """``q**d / (1 + q)``, the probability of noise at ``d`` or beyond, for ``d <= count``."""
    q = Ball.exp_minus(Fraction(rate), precision)
    both = Ball.of(1, precision) + q
    return [power / both for power in powers(q, count + 1)]
