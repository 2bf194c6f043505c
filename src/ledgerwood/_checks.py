"""One grammar for the rules that public parameters obey."""

from __future__ import annotations

import math
import numbers
import sys
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ledgerwood.errors import ParameterError

Array = npt.NDArray[np.float64]

LARGEST_COUNT = 10**18
"""More releases, records or categories than any data has; beyond it products leave the range of floats."""


def real(name: str, value: Any, rule: str = "be a real number") -> float:
    """A float that is not nan; booleans and strings are refused."""
    if type(value) is float and value == value:  # what comes nearly always; the general question takes ten times longer
        return value
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (numbers.Real, np.floating, np.integer)):
        raise ParameterError(name, rule, value)
    try:
        number = float(value)
    except OverflowError:
        raise ParameterError(name, rule, value) from None
    if math.isnan(number):
        raise ParameterError(name, rule, value)
    return number


def non_negative(name: str, value: Any) -> float:
    """A finite number that is at least 0."""
    rule = "be finite and at least 0"
    number = real(name, value, rule)
    if not 0.0 <= number < math.inf:
        raise ParameterError(name, rule, value)
    return number + 0.0  # -0.0 becomes 0.0


def positive(name: str, value: Any) -> float:
    """A finite number above 0."""
    rule = "be positive and finite"
    number = real(name, value, rule)
    if not 0.0 < number < math.inf:
        raise ParameterError(name, rule, value)
    return number


def probability(name: str, value: Any) -> float:
    """A number in [0, 1]."""
    rule = "lie in [0, 1]"
    number = real(name, value, rule)
    if not 0.0 <= number <= 1.0:
        raise ParameterError(name, rule, value)
    return number + 0.0


def delta_value(value: Any, name: str = "delta") -> float:
    """A δ in [0, 1)."""
    rule = "lie in [0, 1)"
    number = real(name, value, rule)
    if not 0.0 <= number < 1.0:
        raise ParameterError(name, rule, value)
    return number + 0.0


def count(name: str, value: Any, least: int = 0) -> int:
    """An integer that is at least ``least`` and at most 10**18; floats and booleans are refused."""
    rule = f"be an integer that is at least {least}"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)) or value < least:
        raise ParameterError(name, rule, value)
    if value > LARGEST_COUNT:
        raise ParameterError(name, "be at most 10**18", f"<{int(value).bit_length()} bits>")
    return int(value)


@lru_cache(maxsize=1024)
def ratio_above(numerator: float, denominator: float) -> float:
    """The least float that is at least numerator / denominator, in exact arithmetic; ``inf`` beyond the largest.

    >>> ratio_above(1.0, 3.0), 1 / 3
    (0.33333333333333337, 0.3333333333333333)
    """
    exact = Fraction(numerator) / Fraction(denominator)
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf
    return nearest if nearest >= exact else math.nextafter(nearest, math.inf)


def total(amounts: Iterable[float]) -> float:
    """The sum of amounts that are at least 0; ``inf`` beyond the largest float."""
    try:
        return math.fsum(amounts)
    except OverflowError:
        return math.inf


def half_square(size: float) -> float:
    """size²/2, and the least normal float where that would vanish: a cost that is there never rounds to none.

    >>> half_square(3.0), half_square(1e-200) > 0, half_square(0.0)
    (4.5, True, 0.0)
    """
    return max(size * size / 2, sys.float_info.min) if size else 0.0


def orders(alpha: Any) -> Array:
    """Rényi orders: a number or an array of numbers in [1, ∞]."""
    rule = "be an order, or an array of orders, in [1, inf]"
    try:
        values = np.asarray(list(alpha) if isinstance(alpha, Iterable) else alpha)
        if values.dtype.kind not in "iuf":
            raise TypeError
        values = values.astype(np.float64)
    except (TypeError, ValueError):
        raise ParameterError("alpha", rule, alpha) from None
    if not np.all(values >= 1.0):  # also catches nan
        raise ParameterError("alpha", rule, alpha)
    return values
