"""Tables as the learners see them: float32 numbers clipped to bounds, or integer codes of categories.

Reading has two steps. :func:`read_columns` looks at public facts only (names, types, shapes) and raises on
them; :meth:`Columns.table` looks at values and never raises: out of bounds is clipped, infinities too, nan and masked
values are missing, a value that is no declared category gets the reserved code.

The Python types inside an object column count as its type, so they are public facts: a column of numbers that
holds a string is refused as "strings as numbers".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.errors import ParameterError
from ledgerwood.learners.facts import Column, Kind
from ledgerwood.learners.labels import Labels, as_numbers, as_vector, read_labels, read_target
from ledgerwood.learners.schema import Key, Schema
from ledgerwood.learners.trees.threads import RowThreads

__all__ = [
    "Columns",
    "Labels",
    "Table",
    "as_numbers",
    "as_vector",
    "raw_columns",
    "read_as",
    "read_columns",
    "read_labels",
    "read_table",
    "read_target",
    "take_rows",
    "without_unit",
]

Values = NDArray[Any]
_BLOCK_ROWS = 8192


@dataclass(frozen=True)
class Table:
    """Columns ready to learn from.

    Attributes
    ----------
    columns
        What each is, with bounds or categories known.
    cells
        One array per column: float32 with nan for missing, or int32 codes in the declared order of the categories;
        the code ``len(categories)`` is reserved for missing and unknown.
    rows
        The number of rows.
    """

    columns: tuple[Column, ...]
    cells: tuple[Values, ...]
    rows: int

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

    def table(self, columns: Sequence[Column] | None = None, *, n_threads: int | None = None) -> Table:
        """Return the table for columns whose bounds and categories are known by now. Total on values."""
        known = tuple(self.columns if columns is None else columns)
        cells: list[Values] = []
        for column, values in zip(known, self.values, strict=True):
            if not column.is_known:
                raise ParameterError("schema", "give bounds or categories of every column here", column.name)
            number = column.kind == "number"
            cells.append(np.empty(len(values), dtype=np.float32) if number else _codes(values, column))
        numbers = [i for i, column in enumerate(known) if column.kind == "number"]

        def read(_: None, lo: int, hi: int) -> None:
            with np.errstate(invalid="ignore", over="ignore"):
                for i in numbers:
                    _read_numbers(self.values[i][lo:hi], known[i], cells[i][lo:hi])

        # By blocks of rows: columns of one array in row order are then read from the cache, all but the first.
        RowThreads(n_threads).run(self.rows, lambda: None, read, _BLOCK_ROWS)
        return Table(known, tuple(cells), self.rows)

    def take(self, rows: NDArray[np.int64]) -> Columns:
        """Return the given rows."""
        units = None if self.units is None else self.units[rows]
        return Columns(self.columns, tuple(values[rows] for values in self.values), units, len(rows))


def read_table(X: Any, schema: Schema) -> Table:
    """Read a table all of whose columns are declared.

    >>> table = read_table([[1.0, float("nan")], [9.0, 0.5]], Schema(bounds={0: (0, 4), 1: (0, 1)}))
    >>> [cells.tolist() for cells in table.cells]
    [[1.0, 4.0], [nan, 0.5]]
    """
    return read_columns(X, schema).table()


def raw_columns(X: Any, unit: Key | None = None) -> tuple[list[Key], list[Values]]:
    """Return the names and the columns of anything that is a table; the column ``unit`` without any rounding."""
    from narwhals.exceptions import DuplicateError

    _refuse_sparse(X)
    try:
        return _from_frame(X, unit) if _is_frame(X) else _from_array(X)
    except DuplicateError:
        raise ParameterError("X", "have distinct column names", "repeated names") from None


def read_columns(X: Any, schema: Schema) -> Columns:
    """Read names, types and shapes; values are not looked at. Raises on public facts only."""
    names, values = raw_columns(X, schema.unit)
    _check_names(names, schema)
    assert schema.bounds is not None and schema.categories is not None
    units, columns, kept = None, [], []
    rows, flags = len(values[0]), _boolean_names(X)
    for name, column in zip(names, values, strict=True):
        if name == schema.unit:
            units = column
            continue
        kind, read = _kind(name, column, schema)
        bounds = schema.bounds.get(name) or ((0.0, 1.0) if name in flags else None)
        categories = schema.categories.get(name)
        columns.append(
            Column(name, kind, bounds if kind == "number" else None, None if categories is None else tuple(categories))
        )
        kept.append(read)
    if not columns:
        raise ParameterError("X", "have at least one feature besides the unit", list(names))
    return Columns(tuple(columns), tuple(kept), units, rows)


def read_as(X: Any, columns: Sequence[Column]) -> Table:
    """Read a table with the columns of an earlier one, known by now: what predict does."""
    names, values = raw_columns(X)
    if all(isinstance(name, str) for name in names) and names != [column.name for column in columns]:
        raise ParameterError("X", "have the columns of the fit, in their order", names[:20])
    read = []
    for column, raw in zip(columns, values, strict=True):
        numeric = raw.dtype.kind in "biuf"
        if column.kind == "number":
            read.append(raw if numeric else _floats(column.name, raw))
        else:
            texts = isinstance(next(iter(column.categories or ()), None), str)
            read.append(raw if numeric and not texts else _objects(raw))
    return Columns(tuple(columns), tuple(read), None, len(values[0])).table()


def without_unit(X: Any, unit: Key | None, n_features: int | None = None) -> Any:
    """Return X without the column that names the unit: it is no feature. At predict it may be there or not."""
    if unit is None:
        return X
    if _is_frame(X):
        import narwhals.stable.v2 as nw

        frame = nw.from_native(X, eager_only=True)
        return frame.drop(unit).to_native() if unit in frame.columns else X
    array = X if isinstance(X, np.ndarray) else np.asarray(X)  # a mask stays
    if array.ndim != 2 or not isinstance(unit, int) or array.shape[1] == n_features:
        return X
    return array[:, [j for j in range(array.shape[1]) if j != unit]]


def take_rows(X: Any, rows: NDArray[Any]) -> Any:
    """Return some rows of a table, by numbers or a mask, as the same kind of table."""
    if not _is_frame(X):
        return (X if isinstance(X, np.ndarray) else np.asarray(X))[rows]
    import narwhals.stable.v2 as nw

    numbers = np.flatnonzero(rows) if rows.dtype == bool else rows
    return nw.from_native(X, eager_only=True)[numbers.tolist()].to_native()


# ---- what came in


def _refuse_sparse(X: Any) -> None:
    from scipy.sparse import issparse

    if issparse(X):
        raise TypeError(
            "X is sparse, and private learners need dense data: whether a cell is stored is data too. "
            "Use X.toarray(), and declare bounds with a Schema"
        )


def _is_frame(X: Any) -> bool:
    """Pandas, polars, Arrow and their like; not arrays or lists."""
    if isinstance(X, np.ndarray | list | tuple):
        return False
    import narwhals.stable.v2 as nw

    return isinstance(nw.from_native(X, eager_only=True, pass_through=True), nw.DataFrame)


def _from_frame(X: Any, unit: Key | None = None) -> tuple[list[Key], list[Values]]:
    import narwhals.stable.v2 as nw

    frame = nw.from_native(X, eager_only=True)
    names = [name if isinstance(name, str) else int(name) for name in frame.columns]
    if not names or not len(frame):
        _raise_empty(len(frame), len(names))
    columns = zip(frame.iter_columns(), names, strict=True)
    return list(names), [_exact(s, name) if name == unit else _from_series(s, name) for s, name in columns]


def _exact(series: Any, name: Any) -> Values:
    """The column that names the unit. One null must not make floats of large integers: units would merge by rounding,
    and a single record would decide which rows of all the others are kept.
    """
    if series.dtype.is_integer() and series.null_count():
        return _objects(series.to_list())
    return _from_series(series, name)


def _boolean_names(X: Any) -> set[Key]:
    """The columns whose type is boolean, whether or not a value is missing: a type is public, a null is not."""
    if not _is_frame(X):
        array = X if isinstance(X, np.ndarray) else np.asarray(X)
        return set(range(array.shape[1])) if array.dtype.kind == "b" else set()
    import narwhals.stable.v2 as nw

    kinds = nw.from_native(X, eager_only=True).schema
    return {name if isinstance(name, str) else int(name) for name, kind in kinds.items() if kind == nw.Boolean}


def _from_series(series: Any, name: Any) -> Values:
    import narwhals.stable.v2 as nw

    dtype = series.dtype
    if dtype == nw.Boolean and series.null_count() == 0:
        return np.asarray(series.to_numpy(), dtype=bool)
    if dtype == nw.Boolean or dtype.is_decimal():
        return np.asarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64)
    if dtype.is_numeric():
        return _native_numbers(series)
    if dtype in (nw.String, nw.Categorical, nw.Enum, nw.Object, nw.Unknown):
        return _objects(series.to_list())
    raise ParameterError(
        f"column {name!r}",
        "hold numbers, booleans or text",
        str(dtype),
        "Convert it before: a date to a number of days, a list to several columns",
    )


def _native_numbers(series: Any) -> Values:
    """A numeric column; nulls become nan."""
    import narwhals.stable.v2 as nw

    values = np.asarray(series.to_numpy())
    if values.dtype.kind in "iuf":
        return values
    return np.asarray(series.cast(nw.Float64).fill_null(float("nan")).to_numpy(), dtype=np.float64)


def _from_array(X: Any) -> tuple[list[Key], list[Values]]:
    mask = np.ma.getmaskarray(X) if np.ma.isMaskedArray(X) else None
    array = np.asarray(np.ma.getdata(X) if mask is not None else X)
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported: X must hold real numbers. Split it into two columns")
    if array.ndim != 2:
        raise ValueError(
            f"X must be a table with rows and columns, got an array of {array.ndim} dimensions. Reshape your data: "
            "array.reshape(-1, 1) if it has one column, array.reshape(1, -1) if it is one row"
        )
    if 0 in array.shape:
        _raise_empty(*array.shape)
    columns = []
    for j in range(array.shape[1]):
        column = array[:, j]
        if mask is not None and array.dtype.kind in "biuf":
            column = np.where(mask[:, j], np.nan, column.astype(np.float64))
        elif mask is not None:
            column = column.astype(object)
            column[mask[:, j]] = None
        columns.append(column)
    return list(range(array.shape[1])), columns


def _raise_empty(rows: int, columns: int) -> None:
    what = "feature(s)" if columns == 0 else "sample(s)"
    raise ValueError(f"X has 0 {what} (shape=({rows}, {columns})) while a minimum of 1 is required.")


def _check_names(names: Sequence[Key], schema: Schema) -> None:
    assert schema.bounds is not None and schema.categories is not None
    declared: list[Key] = [*schema.bounds, *schema.categories, *([] if schema.unit is None else [schema.unit])]
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


def _kind(name: Key, values: Values, schema: Schema) -> tuple[Kind, Values]:
    """Return the kind of a column and its values in a form fit for it."""
    assert schema.bounds is not None and schema.categories is not None
    numeric = values.dtype.kind in "biuf"
    if name in schema.categories:
        texts = isinstance(schema.categories[name][0], str)
        if numeric and texts:
            raise ParameterError(
                f"categories[{name!r}]", f"be numbers: the column is of type {values.dtype}", schema.categories[name]
            )
        return "category", values if numeric else _objects(values)
    if numeric:
        return "number", values
    if name in schema.bounds or isinstance(name, int):
        return "number", _floats(name, values)
    return "category", _objects(values)


def _floats(name: Key, values: Values) -> Values:
    """An object column as numbers; None and pandas.NA are missing; a string is a public mistake (see above)."""
    if values.dtype.kind in "US" or any(isinstance(value, str | bytes) for value in values):
        raise ParameterError(
            f"column {name!r}", "hold numbers", "text", f"Convert it, or declare Schema(categories={{{name!r}: [...]}})"
        )
    return np.array([np.nan if _is_missing(value) else _float(value) for value in values], dtype=np.float64)


def _is_missing(value: Any) -> bool:
    return value is None or type(value).__name__ == "NAType"


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer beyond all floats: like any other value out of bounds
        return float("inf") if value > 0 else float("-inf")


def _objects(values: Any) -> Values:
    found = np.empty(len(values), dtype=object)
    found[:] = values if isinstance(values, list) else list(values)
    return found


def _read_numbers(values: Values, column: Column, out: NDArray[np.float32]) -> None:
    """Write numbers clipped to their bounds, in float32."""
    assert column.bounds is not None
    low, high = column.bounds
    if values.dtype != np.float32:
        values = np.clip(values.astype(np.float64) if values.dtype.kind in "biu" else values, low, high)
        values = values.astype(np.float32)
    # Rounding to float32 may step over a bound that is no float32: float32 numbers are clipped to rounded bounds.
    np.maximum(values, np.float32(low), out=out)
    np.minimum(out, np.float32(high), out=out)


def _codes(values: Values, column: Column) -> NDArray[np.int32]:
    assert column.categories is not None
    reserved = len(column.categories)
    if values.dtype.kind in "biuf":
        known = np.array([float(value) for value in column.categories])
        order = np.argsort(known, kind="stable")
        floats = values.astype(np.float64)
        at = np.minimum(np.searchsorted(known[order], floats), reserved - 1)
        return np.where(known[order][at] == floats, order[at], reserved).astype(np.int32)
    code = {value: i for i, value in enumerate(column.categories)}
    try:
        found = [code.get(value, reserved) for value in values]
    except TypeError:  # something that cannot be a category, such as a list
        found = [code.get(value, reserved) if _is_atom(value) else reserved for value in values]
    return np.array(found, dtype=np.int32)


def _is_atom(value: Any) -> bool:
    return isinstance(value, str | int | float | np.generic)
