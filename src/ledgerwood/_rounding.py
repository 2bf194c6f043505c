"""One way to round: every number that becomes part of a guarantee is rounded here, on the safe side."""

from __future__ import annotations

import math
import sys
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from fractions import Fraction
from functools import lru_cache
from typing import Any, SupportsFloat

import numpy as np
from numpy.typing import NDArray

from ledgerwood.errors import ParameterError

MARGIN = 2.0**-40
"""Relative allowance for rounding in a computed price, limit or curve; these are accurate to 1e-12."""
ULP = 2.0**-52
"""Relative distance of neighbouring floats: a sum of n of them, each rounded, is off by at most n of it."""


def format_up(value: float, digits: int = 6) -> str:
    """Return a number with that many significant digits, never less than it is.

    >>> format_up(1.00000001), format_up(0.1)
    ('1.00001', '0.1')
    """
    context = Context(prec=digits, rounding=ROUND_CEILING)
    return f"{float(context.create_decimal(repr(float(value)))):.{digits}g}"


def format_down(value: float, digits: int = 6) -> str:
    """Return a number with that many significant digits, never more than it is.

    >>> format_down(0.99999999), format_down(0.1)
    ('0.999999', '0.1')
    """
    context = Context(prec=digits, rounding=ROUND_FLOOR)
    return f"{float(context.create_decimal(repr(float(value)))):.{digits}g}"


def sqrt_up(square: Fraction) -> float:
    """The square root, rounded up: from the integer root of some 128 bits, whatever the size of the number."""
    shift = (128 - square.numerator.bit_length() + square.denominator.bit_length()) // 2
    root = math.isqrt(math.floor(square * Fraction(4) ** shift)) / Fraction(2) ** shift
    try:
        bound = float(root)
    except OverflowError:
        bound = math.inf
    while bound < math.inf and Fraction(bound) ** 2 < square:
        bound = math.nextafter(bound, math.inf)
    if bound == math.inf:
        raise ParameterError("sensitivity", "be finite in the norm that counts", bound, "Take another unit")
    return bound


@lru_cache(maxsize=1024)
def ratio_up(numerator: float, denominator: float) -> float:
    """The least float that is at least numerator / denominator, in exact arithmetic; ``inf`` beyond the largest.

    >>> ratio_up(1.0, 3.0), 1 / 3
    (0.33333333333333337, 0.3333333333333333)
    """
    exact = Fraction(numerator) / Fraction(denominator)
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf
    return nearest if nearest >= exact else math.nextafter(nearest, math.inf)


@lru_cache(maxsize=1024)
def ratio_down(numerator: float, denominator: float) -> float:
    """The largest float c with c * denominator <= numerator, in exact arithmetic.

    >>> from fractions import Fraction
    >>> c = ratio_down(0.1, 3.0)
    >>> Fraction(c) * 3 <= Fraction(0.1) < Fraction(math.nextafter(c, 1)) * 3
    True
    """
    a, b = Fraction(numerator), Fraction(denominator)
    c = min(numerator / denominator, sys.float_info.max)
    while c > 0 and Fraction(c) * b > a:
        c = math.nextafter(c, 0.0)
    while math.nextafter(c, math.inf) < math.inf and Fraction(math.nextafter(c, math.inf)) * b <= a:
        c = math.nextafter(c, math.inf)
    if not 0 < c < sys.float_info.max:
        raise ParameterError("epsilon", "be neither negligible nor huge beside the sensitivity", numerator)
    return c


def with_quotient(numerator: float, quotient: float) -> tuple[float, float]:
    """Return floats (d, n) with n / d == quotient as a float, n the least found that is at least ``numerator``.

    >>> d, n = with_quotient(1234.5, 0.1)
    >>> n / d == 0.1 and 1234.5 <= n < 1234.5000001
    True
    """
    while True:
        denominator = numerator * (1 / quotient)
        for near in (denominator, math.nextafter(denominator, math.inf), math.nextafter(denominator, 0.0)):
            if numerator / near == quotient:
                return near, numerator
        numerator = math.nextafter(numerator, math.inf)


def raised(value: float, bits: int = 50) -> float:
    """Return the value and 2**-bits of it more: above the true one if it was computed to that precision.

    >>> raised(math.sqrt(2)) ** 2 >= 2 and raised(1.0) < 1 + 1e-15
    True
    """
    return value * (1 + 2.0**-bits)


def float_up(value: SupportsFloat) -> float:
    """Return the least float not below a number, whatever its type.

    >>> float_up(Fraction(1, 10)) >= Fraction(1, 10) and float_up(0.25) == 0.25
    True
    """
    exact: Any = value.item() if isinstance(value, np.generic) else value  # numpy compares after rounding
    found = float(exact)
    return found if found >= exact else math.nextafter(found, math.inf)


def next_up(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the next larger float of each: above the sum of two, however that was rounded."""
    return np.nextafter(values, np.inf)


def share_down(whole: float, parts: int) -> float:
    """Return the largest float of which ``parts`` are together at most ``whole``.

    >>> share_down(1.0, 3) * 3 <= 1
    True
    """
    part = whole / parts
    while math.isfinite(part) and Fraction(part) * parts > Fraction(whole):
        part = math.nextafter(part, 0.0)
    return part


def denominator_down(numerator: float, quotient: float) -> float:
    """Return a float d next to numerator / quotient with numerator / d, rounded up, at least ``quotient``.

    >>> ratio_up(1.0, denominator_down(1.0, 0.3)) >= 0.3
    True
    """
    found = numerator / quotient
    while ratio_up(numerator, found) < quotient:
        found = math.nextafter(found, 0.0)
    return found


def sum_up(count: int, size: float, more: int = 0, other: float = 0.0) -> float:
    """``count * size + more * other`` as the least double not below it."""
    terms = [(times, part) for times, part in ((count, size), (more, other)) if times]
    if any(part == math.inf for _, part in terms):
        return math.inf
    exact = sum((times * Fraction(part) for times, part in terms), Fraction(0))
    nearest = float(exact)
    return nearest if nearest >= exact else math.nextafter(nearest, math.inf)


def format_up_short(number: float) -> str:
    """Four digits, rounded up."""
    if not math.isfinite(number) or number == 0:
        return f"{number:g}"
    scale = 10.0 ** (3 - math.floor(math.log10(number)))
    return f"{math.ceil(number * scale * (1 - 1e-12)) / scale:.4g}"
