"""The columns of anything that is a table in memory: arrays, lists of rows, and the data frames of any library.

Only names, types and shapes are looked at here, and only they raise: they are public. Values are converted cell by cell
(:mod:`.cells`) once the schema has said what each column is.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from ledgerwood._checks import is_integer
from ledgerwood.errors import ParameterError
from ledgerwood.learners.data.cells import numbers, numbers_of_text, objects, scalars, scalars_of_text, texts_of
from ledgerwood.learners.data.columns import Key, Values
from ledgerwood.learners.data.series import Exact, arrow_text, exact_values

__all__ = [
    "RawColumn",
    "array_or_list",
    "column_names",
    "columns_of",
    "is_frame",
    "raw_columns",
    "raw_vector",
    "refuse_empty",
    "unit_column",
    "without_unit",
]


Type = Literal["number", "boolean", "text", "mixed"]
"""What the type of a column says: ``mixed`` says nothing, each cell may hold anything."""


@dataclass(frozen=True)
class RawColumn:
    """A column as it came: its name, its public type, and its cells.

    >>> [column] = raw_columns([["7"], [None]])
    >>> column.type, column.numbers().tolist(), column.values().tolist()
    ('mixed', [7.0, nan], ['7', None])
    """

    name: Key
    type: Type
    source: Any = field(repr=False)

    def __len__(self) -> int:
        return len(self.source)

    def numbers(self) -> Values:
        """Return an array of a numeric type; what is missing or no number is nan."""
        if (arrow := self._arrow_text()) is not None:
            return numbers_of_text(arrow)
        values, missing = self._exact()
        found = numbers(values)
        return found if missing is None or not missing.any() else np.where(missing, np.nan, found.astype(np.float64))

    def values(self) -> Values:
        """Return an array of a numeric type, or of objects that are text, finite numbers or None."""
        if (arrow := self._arrow_text()) is not None:
            return scalars_of_text(arrow)
        found = self.ids()
        return found if found.dtype.kind in "biuf" else scalars(found)

    def ids(self) -> Values:
        """Return the cells without any rounding: an array of a numeric type, or of objects, None where missing.

        One null must not make floats of large integers: units would merge by rounding, and a single record would decide
        which rows of all the others are kept. Nor may decimals become floats.
        """
        if (arrow := self._arrow_text()) is not None:
            return texts_of(arrow)
        values, missing = self._exact()
        if missing is None or not missing.any():
            return values
        found = objects(values.tolist())
        found[missing] = None
        return found

    def _exact(self) -> Exact:
        if isinstance(self.source, np.ma.MaskedArray):
            return np.ma.getdata(self.source), np.ma.getmaskarray(self.source)
        if isinstance(self.source, np.ndarray):
            return self.source, None
        if isinstance(self.source, tuple):
            return objects(self.source), None
        return exact_values(self.source)

    def _arrow_text(self) -> Any:
        """The Arrow column behind a column of texts if there is one: it may hold bytes that are not UTF-8."""
        return None if self.type != "text" or isinstance(self.source, np.ndarray) else arrow_text(self.source)


def raw_columns(X: Any, *, any_type: bool = False) -> list[RawColumn]:
    """Return the columns of anything that is a table.

    A column of a type that holds neither numbers nor text raises; with ``any_type`` its cells are missing. That is for
    parts of a table whose types were looked at before: those of a part may follow from the values in it.
    """
    from narwhals.exceptions import DuplicateError

    X = array_or_list(X)
    try:
        _refuse_non_tables(X)
        if isinstance(X, list | tuple):
            return _from_rows(X)
        return _from_frame(X, any_type) if is_frame(X) else _from_array(X, any_type)
    except DuplicateError:
        raise ParameterError("X", "have distinct column names", "repeated names", "Rename them") from None


def column_names(X: Any) -> list[Hashable]:
    """Return the names of the columns; numbers for an array.

    >>> column_names([[0.5, 1], [2, "x"]])
    [0, 1]
    """
    return [column.name for column in raw_columns(X)]


def columns_of(X: Any, names: Sequence[Hashable]) -> list[RawColumn]:
    """Return the columns of these names; those of a data frame may be in any order."""
    columns = raw_columns(X)
    if not is_frame(X):
        if len(columns) != len(names):
            raise ParameterError("X", f"have the {len(names)} columns that were declared", len(columns))
        return columns
    found: dict[Hashable, RawColumn] = {column.name: column for column in columns}
    if set(found) != set(names):
        raise ParameterError("X", "have the columns that were declared", sorted(map(str, set(found) ^ set(names))))
    return [found[name] for name in names]


def raw_vector(y: Any) -> RawColumn:
    """Return labels, in an array, a list, a series or a frame of one column, as a column; of a type that can hold none
    (dates, lists) all cells are missing.

    >>> raw_vector(["yes", 1]).values().tolist()
    ['yes', 1]
    """
    import narwhals.stable.v2 as nw

    y = array_or_list(y)
    if isinstance(y, list | tuple):
        return RawColumn(0, "mixed", tuple(y))
    if not isinstance(y, np.ndarray):
        found = nw.from_native(y, allow_series=True, eager_only=True, pass_through=True)
        if isinstance(found, nw.DataFrame) and len(found.columns) == 1:
            found = found[found.columns[0]]
        if isinstance(found, nw.Series):
            return RawColumn(0, "text" if _is_text(found) else "mixed", found.to_native())
        if type(y).__module__.startswith(("pyarrow", "pandas")) and hasattr(y, "__len__") and not is_frame(y):
            return RawColumn(0, "mixed", y)  # an array of a library's own
    array = _as_array(y)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"y must be one column of labels, got an array of {array.ndim} dimensions")
    return RawColumn(0, "mixed", array)


def array_or_list(values: Any) -> Any:
    """Return any sequence of Python's as a list; arrays, lists, frames and all else as they are.

    Numpy would take the type of a deque from all its values, as it would of a list: one text makes texts of all.

    >>> from collections import deque
    >>> array_or_list(deque([2**60 + 1, 0.5]))
    [1152921504606846977, 0.5]
    """
    known = isinstance(values, np.ndarray | list | tuple | str | bytes | memoryview) or _has_type(values)
    return list(values) if isinstance(values, Sequence) and not known else values


def _has_type(values: Any) -> bool:
    """Whether these are an array of some library, which has a type that numpy takes over."""
    return any(hasattr(type(values), name) for name in ("__array__", "__array_interface__", "__array_struct__"))


def _as_array(values: Any) -> Values:
    """Return an array as numpy's, a mask with it; what has no type of its own has no dimension."""
    if isinstance(values, np.ndarray):
        return values
    return np.asarray(values) if _has_type(values) or isinstance(values, memoryview) else np.empty((), dtype=object)


def is_frame(X: Any) -> bool:
    """Pandas, polars, Arrow and their like; not arrays or lists."""
    if isinstance(X, np.ndarray | list | tuple):
        return False
    import narwhals.stable.v2 as nw

    return isinstance(nw.from_native(X, eager_only=True, pass_through=True), nw.DataFrame)


def unit_column(X: Any, unit: Key) -> Values:
    """Return the ids of the units of all rows."""
    found = [column for column in raw_columns(X) if column.name == unit]
    if not found:
        raise ParameterError("X", "have the column that names the unit", unit)
    return found[0].ids()


def without_unit(X: Any, unit: Key | None, n_features: int | None = None) -> Any:
    """Return X without the column that names the unit: it is not a feature. At predict it may be there or not."""
    if unit is None:
        return X
    if is_frame(X):
        import narwhals.stable.v2 as nw

        frame = nw.from_native(X, eager_only=True)
        return frame.drop(unit).to_native() if unit in frame.columns else X
    if not isinstance(unit, int):
        return X
    X = array_or_list(X)
    if isinstance(X, list | tuple):
        return [_without(row, unit) if len(row) != n_features else row for row in X]
    array = _as_array(X)
    if array.ndim != 2 or array.shape[1] == n_features:
        return X
    return array[:, [j for j in range(array.shape[1]) if j != unit]]


def _without(row: Sequence[Any], place: int) -> list[Any]:
    return [*row[:place], *row[place + 1 :]]


# ---- what is not a table


def _refuse_non_tables(X: Any) -> None:
    from scipy.sparse import issparse

    if issparse(X):
        raise _sparse("X.toarray()")
    if isinstance(X, np.ndarray | list | tuple):
        return
    import narwhals.stable.v2 as nw

    found = nw.from_native(X, allow_series=True, pass_through=True)
    kind = type(X).__name__
    if isinstance(found, nw.LazyFrame):
        raise ParameterError("X", "be a table in memory", kind, "Collect it: X.collect(), X.compute()")
    if isinstance(found, nw.Series):
        raise ValueError(f"X must be a table with rows and columns, got a {kind}. Reshape your data: X.to_frame()")
    if isinstance(X, Mapping):
        raise ParameterError("X", "be a table", kind, "Make one: pandas.DataFrame(X)")
    if kind == "RecordBatch":
        raise ParameterError("X", "be a table", kind, "Make one: pyarrow.Table.from_batches([X])")


def _sparse(way_out: str) -> TypeError:
    return TypeError(
        "X is sparse, and private learners need dense data: whether a cell is stored is data too. "
        f"Use {way_out}, and declare bounds with a Schema"
    )


def refuse_empty(rows: int, columns: int) -> None:
    """Raise if there are no columns, or no rows; how many rows there are is not said."""
    if not rows or not columns:
        what, shape = ("feature(s)", ", 0") if not columns else ("sample(s)", f"0, {columns}")
        raise ValueError(f"X has 0 {what} (shape=({shape})) while a minimum of 1 is required.")


# ---- data frames


def _from_frame(X: Any, any_type: bool) -> list[RawColumn]:
    import narwhals.stable.v2 as nw

    frame = nw.from_native(X, eager_only=True)
    names = [_name(name) for name in frame.columns]
    if not names:
        refuse_empty(len(frame), 0)
    columns = zip(frame.iter_columns(), names, strict=True)
    return [RawColumn(name, _type(series, name, any_type), series.to_native()) for series, name in columns]


def _name(name: Any) -> Key:
    if isinstance(name, str):
        return name
    if not is_integer(name):
        hint = "Rename them: df.columns = [str(name) for name in df.columns]"
        raise ParameterError("X", "have columns named by strings or integers", type(name).__name__, hint)
    return int(name)


def _own_type(series: Any) -> str:
    native = series.to_native()
    own = getattr(native, "dtype", None) or getattr(native, "type", None)
    return str(series.dtype if own is None else own)


def _is_text(series: Any) -> bool:
    """Whether the type is text; narwhals looks at the values of a column of objects, so it is not asked about one."""
    import narwhals.stable.v2 as nw

    return _own_type(series) != "object" and bool(series.dtype == nw.String)


def _type(series: Any, name: Key, any_type: bool) -> Type:
    import narwhals.stable.v2 as nw

    own = _own_type(series)
    if own == "object":
        return "mixed"
    dtype = series.dtype
    if dtype == nw.Boolean:
        return "boolean"
    if dtype.is_numeric():
        return "number"
    if _is_text(series):
        return "text"
    if any_type or dtype in (nw.Categorical, nw.Enum, nw.Object) or own.lower() in ("null", "null[pyarrow]"):
        return "mixed"
    if own.lower().startswith("sparse"):
        raise _sparse("df.sparse.to_dense()")
    raise ParameterError(
        f"column {name!r}",
        "hold numbers, booleans or text",
        own if dtype == nw.Unknown else str(dtype),
        "Convert it before: a date to a number of days, a list to several columns",
    )


# ---- lists and arrays


def _from_rows(X: Sequence[Any]) -> list[RawColumn]:
    """Lists have no type: each cell is read by itself, so one float among integers rounds none of them."""
    rows = [row.tolist() if isinstance(row, np.ndarray) else row for row in X]
    if any(not isinstance(row, list | tuple) for row in rows):
        raise _no_table(1)
    widths = {len(row) for row in rows}
    if len(widths) > 1:
        raise ValueError("X must be a table: its rows have different lengths. Fill them up, missing values are nan")
    width = widths.pop() if rows else 0
    if not width:
        refuse_empty(len(rows), width)
    return [RawColumn(j, "mixed", column) for j, column in enumerate(zip(*rows, strict=True))]


def _no_table(dimensions: int) -> ValueError:
    return ValueError(
        f"X must be a table with rows and columns, got an array of {dimensions} dimensions. Reshape your data: "
        "array.reshape(-1, 1) if it has one column, array.reshape(1, -1) if it is one row"
    )


def _from_array(X: Any, any_type: bool) -> list[RawColumn]:
    array = _as_array(X)
    kind = array.dtype.kind
    if kind == "c" and not any_type:
        raise ValueError("Complex data not supported: X must hold real numbers. Split it into two columns")
    if array.ndim != 2:
        raise _no_table(array.ndim)
    if not array.shape[1]:
        refuse_empty(*array.shape)
    if kind not in "biufOUST" and not any_type:
        hint = "Convert it before: a date to a number of days"
        raise ParameterError("X", "hold numbers, booleans or text", str(array.dtype), hint)
    types: dict[str, Type] = {"b": "boolean", "i": "number", "u": "number", "f": "number"}
    own = types.get(kind, "text" if kind in "UST" else "mixed")
    return [RawColumn(j, own, array[:, j]) for j in range(array.shape[1])]
