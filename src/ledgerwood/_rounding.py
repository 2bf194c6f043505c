"""One way to round: every number that becomes part of a guarantee is rounded here, on the safe side."""

from __future__ import annotations

import math
import sys
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from functools import lru_cache

from ledgerwood.errors import ParameterError


def format_up(value: float, digits: int = 6) -> str:
    """Return a number with that many significant digits, never less than it is.

    >>> format_up(1.00000001), format_up(0.1)
    ('1.00001', '0.1')
    """
    context = Context(prec=digits, rounding=ROUND_CEILING)
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


UP = 1 + 2.0**-50


def sqrt_up_of_int(square: int) -> float:
    """Return the square root, rounded up.

    >>> sqrt_up_of_int(16) >= 4.0 and sqrt_up_of_int(2) ** 2 >= 2
    True
    """
    return math.sqrt(square) * UP


def float_up(value: Fraction) -> float:
    """Return the least float not below an exact number."""
    found = float(value)
    return found if Fraction(found) >= value else math.nextafter(found, math.inf)


def sqrt_up_from_float(square: Fraction) -> float:
    """Return the square root of an exact number within the range of floats, rounded up."""
    root = math.sqrt(square)
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    return root


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
