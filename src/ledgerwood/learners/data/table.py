"""Tables as the learners see them: float32 numbers clipped to bounds, or integer codes of categories.

Reading has two steps. :func:`read_columns` looks at public metadata only (names, types, shapes) and raises on
them; :meth:`Columns.table` looks at values and never raises: out of bounds is clipped, infinities too, nan and masked
values are missing, a value that is not a declared category gets the reserved code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ledgerwood.errors import ParameterError
from ledgerwood.learners.data.cells import category_codes, number, write_numbers
from ledgerwood.learners.data.columns import Column, DeclaredColumns, Key, Kind, Values
from ledgerwood.learners.data.frames import RawColumn, is_frame, raw_columns, refuse_empty
from ledgerwood.learners.data.threads import TUNING, RowThreads

__all__ = ["Columns", "Table", "read_as", "read_columns", "read_table"]


@dataclass(frozen=True)
class Table:
    """Columns ready to learn from.

    Attributes
    ----------
    columns
        What each is, with bounds or categories known.
    values
        One array per column: float32 with nan for missing, or int32 codes in the declared order of the categories;
        the code ``len(categories)`` is reserved for missing and unknown.
    rows
        The number of rows.
    numbers
        A number for each record that does not depend on its place, if they have an id: samples of rows are drawn by it.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"hours": [3.0], "colour": ["red"]})
    >>> from ledgerwood.learners import Schema
    >>> table = read_table(frame, Schema(bounds={"hours": (0, 5)}, categories={"colour": ["green", "red"]}))
    >>> table.names, [values.tolist() for values in table.values]
    (('hours', 'colour'), [[3.0], [1]])
    """

    columns: tuple[Column, ...]
    values: tuple[Values, ...]
    rows: int
    numbers: NDArray[np.uint64] | None = None

    def __len__(self) -> int:
        return self.rows

    @property
    def names(self) -> tuple[Key, ...]:
        """The columns' names."""
        return tuple(column.name for column in self.columns)


@dataclass(frozen=True)
class Columns:
    """Columns as they came, with their kinds read from their types and the schema."""

    columns: tuple[Column, ...]
    values: tuple[Values, ...]
    units: Values | None
    rows: int
    numbers: NDArray[np.uint64] | None = None
    drops_unlabelled: ClassVar[bool] = False

    @property
    def counted(self) -> int:
        """How many rows count: exact, and private."""
        return self.rows

    def table(self, columns: Sequence[Column] | None = None, *, n_threads: int | None = None) -> Table:
        """Return the table for columns whose bounds and categories are known by now. Total on values."""
        known = tuple(self.columns if columns is None else columns)
        read: list[Values] = []
        for column, values in zip(known, self.values, strict=True):
            if not column.is_known:
                raise ParameterError("schema", "give bounds or categories of every column here", column.name)
            if column.kind == "number":
                read.append(np.empty(len(values), dtype=np.float32))
            else:
                read.append(category_codes(values, column.categories or ()))
        numbers = [i for i, column in enumerate(known) if column.kind == "number"]

        def write(_: None, lo: int, hi: int) -> None:
            for i in numbers:
                write_numbers(self.values[i][lo:hi], known[i], read[i][lo:hi])

        # By blocks of rows: columns of one array in row order are then read from the cache, all but the first.
        RowThreads(n_threads).run(self.rows, lambda: None, write, TUNING.table_block)
        return Table(known, tuple(read), self.rows, self.numbers)

    def take(self, rows: NDArray[np.int64], numbers: NDArray[np.uint64] | None = None) -> Columns:
        """Return the given rows, with their numbers."""
        units = None if self.units is None else self.units[rows]
        return Columns(self.columns, tuple(values[rows] for values in self.values), units, len(rows), numbers)


def read_table(X: Any, schema: DeclaredColumns) -> Table:
    """Read a table all of whose columns are declared.

    >>> from ledgerwood.learners import Schema
    >>> table = read_table([[1.0, float("nan")], [9.0, 0.5]], Schema(bounds={0: (0, 4), 1: (0, 1)}))
    >>> [values.tolist() for values in table.values]
    [[1.0, 4.0], [nan, 0.5]]
    """
    return read_columns(X, schema).table()


def read_columns(X: Any, schema: DeclaredColumns) -> Columns:
    """Read names, types and shapes, and each cell as its column is declared. Raises on public metadata only."""
    raw = raw_columns(X)
    refuse_empty(len(raw[0]), len(raw))
    _check_names([column.name for column in raw], schema)
    assert schema.bounds is not None and schema.categories is not None
    units, columns, kept = None, [], []
    for given in raw:
        if given.name == schema.unit:
            units = given.ids()
            continue
        kind = _kind(given, schema)
        bounds = schema.bounds.get(given.name) or ((0.0, 1.0) if given.type == "boolean" else None)
        categories = schema.categories.get(given.name)
        columns.append(
            Column(
                given.name,
                kind,
                bounds if kind == "number" else None,
                None if categories is None else tuple(categories),
            )
        )
        kept.append(_values(given, kind))
    if not columns:
        raise ParameterError("X", "have at least one feature besides the unit", [column.name for column in raw])
    return Columns(tuple(columns), tuple(kept), units, len(raw[0]))


def read_as(X: Any, columns: Sequence[Column], *, any_type: bool = False) -> Table:
    """Read a table with the columns of an earlier one, known by now: what predict does.

    With ``any_type`` it is a part of a table in training, where cells of a type that cannot be read are missing.
    """
    raw = raw_columns(X, any_type=any_type)
    refuse_empty(len(raw[0]), len(raw))
    names = [column.name for column in raw]
    if is_frame(X) and names != [column.name for column in columns]:
        raise ParameterError("X", "have the columns of the fit, in their order", names[:20])
    values = tuple(_values(given, column.kind) for given, column in zip(raw, columns, strict=True))
    return Columns(tuple(columns), values, None, len(raw[0])).table()


def _check_names(names: Sequence[Key], schema: DeclaredColumns) -> None:
    assert schema.bounds is not None and schema.categories is not None and schema.kinds is not None
    unit = [] if schema.unit is None else [schema.unit]
    declared: list[Key] = [*schema.bounds, *schema.categories, *schema.kinds, *unit]
    missing = [name for name in declared if name not in set(names)]
    if missing:
        numbered = all(isinstance(name, int) for name in names)
        hint = (
            "An array has column numbers: use them as keys, or pass a data frame"
            if numbered and any(isinstance(name, str) for name in missing)
            else f"X has {list(names)[:20]}"
        )
        raise ParameterError("schema", "name columns that X has", missing, hint)


# ---- values


def _kind(given: RawColumn, schema: DeclaredColumns) -> Kind:
    """Return what a column is: as declared, otherwise by its type."""
    assert schema.bounds is not None and schema.categories is not None and schema.kinds is not None
    name = given.name
    if name in schema.categories:
        if given.type in ("number", "boolean") and all(number(c) != number(c) for c in schema.categories[name]):
            rule = "be numbers: the column is of a numeric type"
            raise ParameterError(f"categories[{name!r}]", rule, schema.categories[name])
        return "category"
    if name in schema.bounds:
        return "number"
    if name in schema.kinds:
        return schema.kinds[name]
    if given.type in ("number", "boolean"):
        return "number"
    if isinstance(name, int) and given.type == "text":
        raise ParameterError(
            f"column {name!r}", "be declared: an array of texts does not say what they stand for", "text",
            f'Declare Schema(kinds={{{name!r}: "number"}}), its bounds, or its categories',
        )  # fmt: skip
    return "number" if isinstance(name, int) else "category"


def _values(given: RawColumn, kind: Kind) -> Values:
    return given.numbers() if kind == "number" else given.values()
