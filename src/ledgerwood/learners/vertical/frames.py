"""Columns by name out of numpy, pandas, polars or Arrow tables; only types and shapes are looked at."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from ledgerwood.errors import ParameterError


def column_names(X: Any) -> list[Hashable]:
    """The names of the columns; numbers for an array.

    >>> column_names(np.zeros((4, 2)))
    [0, 1]
    """
    frame = _frame(X)
    if frame is not None:
        return list(frame.columns)
    return list(range(_array(X).shape[1]))


def columns_of(X: Any, names: Sequence[Hashable]) -> list[Any]:
    """The cells of each column; a frame's columns are found by name, in whatever order it has them."""
    frame = _frame(X)
    if frame is None:
        array = _array(X)
        if array.shape[1] != len(names):
            raise ParameterError("X", f"have the {len(names)} columns that were declared", array.shape[1])
        return [array[:, i] for i in range(len(names))]
    if set(frame.columns) != set(names):
        wrong = sorted(map(str, set(frame.columns) ^ set(names)))
        raise ParameterError("X", "have the columns that were declared", wrong)
    return [_cells(frame[name]) for name in names]


def rows_of(X: Any) -> int:
    """How many records there are."""
    frame = _frame(X)
    return int(len(frame) if frame is not None else _array(X).shape[0])


def _cells(series: Any) -> Any:
    cells = series.to_numpy()
    if cells.dtype.kind in "biuf" or not series.dtype.is_numeric():
        return cells
    return series.cast(_narwhals().Float64).to_numpy()  # a nullable type: its missing cells become nan


def _narwhals() -> Any:
    import narwhals

    return narwhals


def _frame(X: Any) -> Any:
    if isinstance(X, np.ndarray | list | tuple):
        return None
    try:
        return _narwhals().from_native(X, eager_only=True)
    except TypeError:
        return None


def _array(X: Any) -> Any:
    if hasattr(X, "toarray") and not isinstance(X, np.ndarray):
        raise ParameterError("X", "be dense", type(X).__name__, "Every cell is randomised, zeros too.")
    try:
        # cell by cell: one text among numbers must not turn the numbers of the other records into texts
        array = np.array(X, dtype=object) if isinstance(X, list | tuple) else np.asarray(X)
    except ValueError as error:
        raise ParameterError("X", "be a table", type(X).__name__) from error
    if array.ndim != 2:
        raise ParameterError("X", "be a table of rows and columns", f"{array.ndim} dimensions")
    return array
