"""Interval arithmetic: numbers as certified enclosures, and their outward rounding to floats.

The exact verifier computes in rationals where its inputs are rational and in intervals of 160 bits elsewhere.
Every operation rounds outwards, so an enclosure is a theorem about the real number inside it.

>>> from fractions import Fraction
>>> exponential(Fraction(1)).bounds()
Bounds(lower=2.718281828459045, upper=2.7182818284590455)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from ledgerwood.errors import MissingDependency, ParameterError

try:
    from mpmath import libmp
except ModuleNotFoundError as missing:  # pragma: no cover - depends on the installation
    raise MissingDependency("mpmath", "the exact verifier", "verification") from missing

_PRECISION = 160
_ROUND_DOWN, _ROUND_UP = "f", "c"

#: What a caller may give as a number. Floats stand for their exact binary value.
Number: TypeAlias = "int | float | Fraction | Interval"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Two floats with the real number between them.

    >>> 0.5 in Bounds(0.25, 0.75), str(Bounds(0.25, 0.75))
    (True, '[0.25, 0.75]')
    """

    lower: float
    upper: float

    def __str__(self) -> str:
        if self.lower == self.upper or self.upper - self.lower <= 5e-7 * abs(self.upper) < math.inf:
            return f"{self.upper:.6g}"
        return f"[{self.lower:.6g}, {self.upper:.6g}]"

    def __contains__(self, value: float) -> bool:
        return self.lower <= value <= self.upper


class Interval:
    """A closed interval [low, high] of reals (its ends are mpmath's raw binary numbers).

    ``a <= b`` is not defined: ask :meth:`surely_at_most` or :meth:`surely_above`, whose True is a proof.

    >>> third = interval(1) / 3
    >>> third.surely_above(0.333), 1 / 3 in third.bounds()
    (True, True)
    """

    __slots__ = ("high", "low")

    def __init__(self, low: Any, high: Any) -> None:
        self.low, self.high = low, high

    def bounds(self) -> Bounds:
        """Both ends as floats, rounded outwards."""
        return Bounds(_to_float_down(self.low), 0.0 - _to_float_down(libmp.mpf_neg(self.high)))

    def __repr__(self) -> str:
        return f"Interval({self.bounds().lower!r}, {self.bounds().upper!r})"

    def __add__(self, other: Number) -> Interval:
        return self._apply(libmp.libmpi.mpi_add, other)

    def __sub__(self, other: Number) -> Interval:
        return self._apply(libmp.libmpi.mpi_sub, other)

    def __mul__(self, other: Number) -> Interval:
        return self._apply(libmp.libmpi.mpi_mul, other)

    def __truediv__(self, other: Number) -> Interval:
        return self._apply(libmp.libmpi.mpi_div, other)

    def __radd__(self, other: Number) -> Interval:
        return self + other

    def __rmul__(self, other: Number) -> Interval:
        return self * other

    def __rsub__(self, other: Number) -> Interval:
        return interval(other) - self

    def __rtruediv__(self, other: Number) -> Interval:
        return interval(other) / self

    def __neg__(self) -> Interval:
        return Interval(libmp.mpf_neg(self.high), libmp.mpf_neg(self.low))

    def power(self, exponent: int) -> Interval:
        """The enclosure raised to a non-negative integer power."""
        low, high = libmp.libmpi.mpi_pow_int((self.low, self.high), exponent, _PRECISION)
        return Interval(low, high)

    def surely_at_most(self, other: Number) -> bool:
        """Whether every number here is <= every number there."""
        return bool(libmp.mpf_le(self.high, interval(other).low))

    def surely_above(self, other: Number) -> bool:
        """Whether every number here is > every number there."""
        return bool(libmp.mpf_gt(self.low, interval(other).high))

    def positive_part(self) -> Interval:
        """Enclosure of max(x, 0)."""
        return Interval(*(libmp.fzero if libmp.mpf_lt(end, libmp.fzero) else end for end in (self.low, self.high)))

    def lower_end(self) -> Interval:
        """The degenerate interval at the lower end."""
        return Interval(self.low, self.low)

    def upper_end(self) -> Interval:
        """The degenerate interval at the upper end."""
        return Interval(self.high, self.high)

    def midpoint(self) -> float:
        """A float inside or next to the interval, for sorting and display only."""
        ends = self.bounds()
        return ends.lower if ends.lower == ends.upper else ends.lower / 2 + ends.upper / 2

    def _apply(self, operation: Callable[..., tuple[Any, Any]], other: Number) -> Interval:
        right = interval(other)
        return Interval(*operation((self.low, self.high), (right.low, right.high), _PRECISION))


def interval(value: Number) -> Interval:
    """Enclose a number: exactly if it is a float or a short integer, else in one unit of the last place.

    >>> from fractions import Fraction
    >>> (interval(Fraction(1, 3)) * 3).bounds()
    Bounds(lower=0.9999999999999999, upper=1.0000000000000002)
    """
    if isinstance(value, Interval):
        return value
    if isinstance(value, Fraction):
        ends = (
            libmp.from_rational(value.numerator, value.denominator, _PRECISION, rounding)
            for rounding in (_ROUND_DOWN, _ROUND_UP)
        )
        return Interval(*ends)
    if isinstance(value, int):
        ends = (libmp.from_int(value, _PRECISION, rounding) for rounding in (_ROUND_DOWN, _ROUND_UP))
        return Interval(*ends)
    number = float(value)
    if math.isnan(number):
        raise ParameterError("value", "be a number", value)
    raw = libmp.from_float(number)
    return Interval(raw, raw)


INFINITY = interval(math.inf)
ZERO = interval(0)
ONE = interval(1)


def hull(*values: Number) -> Interval:
    """Smallest interval that holds all the arguments."""
    first, *rest = (interval(value) for value in values)
    low, high = first.low, first.high
    for other in rest:
        low = other.low if libmp.mpf_lt(other.low, low) else low
        high = other.high if libmp.mpf_gt(other.high, high) else high
    return Interval(low, high)


def maximum(values: Iterable[Interval]) -> Interval:
    """Enclosure of the largest of some numbers."""
    return _extreme(values, libmp.mpf_gt)


def minimum(values: Iterable[Interval]) -> Interval:
    """Enclosure of the least of some numbers."""
    return _extreme(values, libmp.mpf_lt)


def total(values: Iterable[Interval]) -> Interval:
    """Enclosure of a sum."""
    result = ZERO
    for value in values:
        result = result + value
    return result


def exponential(value: Number) -> Interval:
    """Enclosure of exp(value)."""
    x = interval(value)
    return Interval(*libmp.libmpi.mpi_exp((x.low, x.high), _PRECISION))


def logarithm(value: Number) -> Interval:
    """Enclosure of log(value), value >= 0; the logarithm of 0 is minus infinity."""
    x = interval(value)
    if libmp.mpf_lt(x.low, libmp.fzero):
        raise ParameterError("value", "be non-negative", value)
    ends = []
    for end, side in ((x.low, 0), (x.high, 1)):
        if end in (libmp.fzero, libmp.finf):
            ends.append(libmp.fninf if end == libmp.fzero else libmp.finf)
        else:
            ends.append(libmp.libmpi.mpi_log((end, end), _PRECISION)[side])
    return Interval(*ends)


def square_root(value: Number) -> Interval:
    """Enclosure of the square root of a non-negative number."""
    x = interval(value)
    return Interval(*libmp.libmpi.mpi_sqrt((x.low, x.high), _PRECISION))


def real_power(base: Number, exponent: Number) -> Interval:
    """Enclosure of base ** exponent for a positive base."""
    return exponential(interval(exponent) * logarithm(base))


def normal_cdf(value: Number) -> Interval:
    r"""Enclosure of the standard normal distribution function.

    .. math:: \Phi(x) = \tfrac12 + \frac{1}{\sqrt{2\pi}} \sum_{n \ge 0} \frac{(-1)^n x^{2n+1}}{n!\,2^n\,(2n+1)}

    evaluated at the two ends (Phi increases). Once the terms shrink, the alternating-series theorem puts the sum
    between two consecutive partial sums. Beyond 9 standard deviations the tail is enclosed by
    :math:`0 \le \Phi(-x) \le e^{-x^2/2} / (x\sqrt{2\pi})`.

    >>> normal_cdf(-3).bounds().lower
    0.0013498980316300944
    """
    x = interval(value)
    return hull(_normal_cdf_at(x.lower_end()), _normal_cdf_at(x.upper_end()))


def _normal_cdf_at(x: Interval) -> Interval:
    pi = Interval(*(libmp.mpf_pi(_PRECISION, rounding) for rounding in (_ROUND_DOWN, _ROUND_UP)))
    root = square_root(2 * pi)
    point = x.midpoint()
    if abs(point) > 9:
        tail = ZERO if math.isinf(point) else hull(ZERO, exponential(-x * x / 2) / (9 * root))
        return tail if point < 0 else ONE - tail
    square, term, n, partial = x * x, x, 0, ZERO
    while n <= point * point or abs(term.midpoint()) > 2.0**-_PRECISION:
        partial = partial + term / (2 * n + 1)
        n += 1
        term = -term * square / (2 * n)
    return Fraction(1, 2) + hull(partial, partial + term / (2 * n + 1)) / root


def _extreme(values: Iterable[Interval], wins: Callable[[Any, Any], bool]) -> Interval:
    first, *rest = values
    low, high = first.low, first.high
    for other in rest:
        low = other.low if wins(other.low, low) else low
        high = other.high if wins(other.high, high) else high
    return Interval(low, high)


def _to_float_down(end: Any) -> float:
    nearest = float(libmp.to_float(end))
    if math.isfinite(nearest) and not libmp.mpf_le(libmp.from_float(nearest), end):
        return math.nextafter(nearest, -math.inf)
    if nearest == math.inf and end != libmp.finf:
        return math.nextafter(math.inf, 0.0)
    return nearest
