r"""Certified fixed-point arithmetic: real numbers between two integers over a power of two.

The exact samplers compare random bits with irrational numbers such as the cumulative probabilities of
:math:`p_o \propto e^{-c|x-o|}`. They need those numbers to as many bits as a comparison asks for, with a
bound that cannot fail; Python's integers give both without a library of big floats.

A `Ball` holds integers ``lower <= value * 2**precision <= upper``. Every operation rounds the lower end down
and the upper end up, so the enclosure is kept whatever the size of the numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

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
