"""Columns by name out of anything that is a table; only types and shapes are looked at."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from ledgerwood.errors import ParameterError
from ledgerwood.learners.data.frames import RawColumn, is_frame, raw_columns


def column_names(X: Any) -> list[Hashable]:
    """The names of the columns; numbers for an array.

    >>> column_names([[0.5, 1], [2, "x"]])
    [0, 1]
    """
    return [column.name for column in raw_columns(X)]


def columns_of(X: Any, names: Sequence[Hashable]) -> list[RawColumn]:
    """The columns of a table; a frame's are found by name, in whatever order it has them."""
    columns = raw_columns(X)
    if not is_frame(X):
        if len(columns) != len(names):
            raise ParameterError("X", f"have the {len(names)} columns that were declared", len(columns))
        return columns
    found: dict[Hashable, RawColumn] = {column.name: column for column in columns}
    if set(found) != set(names):
        raise ParameterError("X", "have the columns that were declared", sorted(map(str, set(found) ^ set(names))))
    return [found[name] for name in names]


def rows_of(X: Any) -> int:
    """How many records there are."""
    return len(raw_columns(X)[0])
