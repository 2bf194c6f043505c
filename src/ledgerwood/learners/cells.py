"""From the values of a column to the cells that learners see. Total on values: nothing here raises on one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.errors import ParameterError
from ledgerwood.learners.facts import Column
from ledgerwood.learners.frames import Values
from ledgerwood.learners.schema import Key

__all__ = ["codes", "floats", "write_numbers"]


def floats(name: Key, values: Values) -> Values:
    """An object column as numbers; what is none is missing. Text is refused: the types inside count as its type."""
    if values.dtype.kind in "UST" or any(isinstance(value, str | bytes) for value in values):
        raise ParameterError(
            f"column {name!r}", "hold numbers", "text", f"Convert it, or declare Schema(categories={{{name!r}: [...]}})"
        )
    return np.array([_float(value) for value in values], dtype=np.float64)


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer beyond all floats: like any other value out of bounds
        return float("inf") if value > 0 else float("-inf")
    except (TypeError, ValueError):  # None, pandas.NA, lists, a decimal's signalling nan
        return float("nan")


def write_numbers(values: Values, column: Column, out: NDArray[np.float32]) -> None:
    """Write numbers clipped to their bounds, in float32."""
    assert column.bounds is not None
    low, high = column.bounds
    with np.errstate(invalid="ignore", over="ignore"):
        if values.dtype != np.float32:
            clipped = np.clip(values.astype(np.float64) if values.dtype.kind in "biu" else values, low, high)
            values = clipped.astype(np.float32)
        # Rounding to float32 may step over a bound that is no float32: float32 numbers are clipped to rounded bounds.
        np.maximum(values, np.float32(low), out=out)
        np.minimum(out, np.float32(high), out=out)


def codes(values: Values, column: Column) -> NDArray[np.int32]:
    """The place of every value among the declared categories; their number for what is missing or unknown."""
    assert column.categories is not None
    reserved = len(column.categories)
    if values.dtype.kind in "biuf":
        known = np.array([float(value) for value in column.categories])
        order = np.argsort(known, kind="stable")
        numbers = values.astype(np.float64)
        at = np.minimum(np.searchsorted(known[order], numbers), reserved - 1)
        return np.where(known[order][at] == numbers, order[at], reserved).astype(np.int32)
    code = {value: i for i, value in enumerate(column.categories)}
    try:
        found = [code.get(value, reserved) for value in values]
    except TypeError:  # something that cannot be a category, such as a list
        found = [code.get(value, reserved) if _is_atom(value) else reserved for value in values]
    return np.array(found, dtype=np.int32)


def _is_atom(value: Any) -> bool:
    return isinstance(value, str | int | float | np.generic)
