"""The one validator: checks of public parameters, with one wording of each error."""

from __future__ import annotations

import math
import numbers
import sys
from collections.abc import Iterable
from typing import Any, TypeGuard

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
    if not is_real(value):
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


def is_bool(value: Any) -> bool:
    """Whether a value is a boolean of Python or numpy."""
    return isinstance(value, (bool, np.bool_))


def is_integer(value: Any) -> TypeGuard[int]:
    """Whether a value is an integer of Python or numpy; booleans are not.

    >>> is_integer(3), is_integer(True), is_integer(3.0)
    (True, False, False)
    """
    return isinstance(value, (int, np.integer)) and not is_bool(value)


def is_real(value: Any) -> bool:
    """Whether a value is a real number of Python or numpy; booleans and strings are not.

    >>> is_real(3), is_real(np.float32(0.5)), is_real(True), is_real("3")
    (True, True, False, False)
    """
    return isinstance(value, (numbers.Real, np.floating, np.integer)) and not is_bool(value)


def integer(
    name: str, value: Any, at_least: int | None = 0, at_most: int | None = LARGEST_COUNT, *, hint: str | None = None
) -> int:
    """An integer in a range, as an int; floats and booleans are refused. None means no limit.

    >>> integer("n_trees", 50, 1)
    50
    >>> integer("n_trees", 0, 1)
    Traceback (most recent call last):
    ...
    ledgerwood.errors.ParameterError: n_trees must be an integer that is at least 1, got n_trees=0
    """
    whole = is_integer(value)
    if whole and (at_least is None or value >= at_least) and (at_most is None or value <= at_most):
        return int(value)
    limits = [] if at_least is None else [f"at least {at_least}"]
    if at_most is not None and at_most != LARGEST_COUNT:
        limits.append(f"at most {at_most}")
    elif at_most is not None and whole and value > at_most:
        limits.append("at most 10**18")
    long = whole and int(value).bit_length() > 64
    rule = "be an integer" + (f" that is {' and '.join(limits)}" if limits else "")
    raise ParameterError(name, rule, f"<{int(value).bit_length()} bits>" if long else value, hint)


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
