"""What came in: the names and columns of anything that is a table, as numpy arrays.

Only names, types and shapes are looked at, and only they raise: they are public facts. The Python types inside an
object column count as its type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.errors import ParameterError
from ledgerwood.learners.schema import Key

__all__ = ["Values", "boolean_names", "is_frame", "objects", "raw_columns", "take_rows", "without_unit"]

Values = NDArray[Any]


def raw_columns(X: Any, unit: Key | None = None) -> tuple[list[Key], list[Values]]:
    """Return the names and the columns of anything that is a table; the column ``unit`` without any rounding."""
    from narwhals.exceptions import DuplicateError

    try:
        _refuse_what_is_no_table(X)
        return _from_frame(X, unit) if is_frame(X) else _from_array(X, unit)
    except DuplicateError:
        raise ParameterError("X", "have distinct column names", "repeated names", "Rename them") from None


def is_frame(X: Any) -> bool:
    """Pandas, polars, Arrow and their like; not arrays or lists."""
    if isinstance(X, np.ndarray | list | tuple):
        return False
    import narwhals.stable.v2 as nw

    return isinstance(nw.from_native(X, eager_only=True, pass_through=True), nw.DataFrame)


def boolean_names(X: Any) -> set[Key]:
    """The columns whose type is boolean, whether or not a value is missing: a type is public, a null is not."""
    if not is_frame(X):
        array = X if isinstance(X, np.ndarray) else np.asarray(X)
        return set(range(array.shape[1])) if array.dtype.kind == "b" else set()
    import narwhals.stable.v2 as nw

    kinds = nw.from_native(X, eager_only=True).schema
    return {_name(name) for name, kind in kinds.items() if kind == nw.Boolean}


def without_unit(X: Any, unit: Key | None, n_features: int | None = None) -> Any:
    """Return X without the column that names the unit: it is no feature. At predict it may be there or not."""
    if unit is None:
        return X
    if is_frame(X):
        import narwhals.stable.v2 as nw

        frame = nw.from_native(X, eager_only=True)
        return frame.drop(unit).to_native() if unit in frame.columns else X
    array = X if isinstance(X, np.ndarray) else np.asarray(X)  # a mask stays
    if array.ndim != 2 or not isinstance(unit, int) or array.shape[1] == n_features:
        return X
    return array[:, [j for j in range(array.shape[1]) if j != unit]]


def take_rows(X: Any, rows: NDArray[Any]) -> Any:
    """Return some rows of a table, by numbers or a mask, as the same kind of table."""
    if not is_frame(X):
        return (X if isinstance(X, np.ndarray) else np.asarray(X))[rows]
    import narwhals.stable.v2 as nw

    numbers = np.flatnonzero(rows) if rows.dtype == bool else rows
    return nw.from_native(X, eager_only=True)[numbers.tolist()].to_native()


def objects(values: Any) -> Values:
    """Return values one by one, lists among them too, as an array of objects."""
    found = np.empty(len(values), dtype=object)
    found[:] = values if isinstance(values, list) else list(values)
    return found


# ---- what is no table


def _refuse_what_is_no_table(X: Any) -> None:
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


def _raise_empty(rows: int, columns: int) -> None:
    what = "feature(s)" if columns == 0 else "sample(s)"
    raise ValueError(f"X has 0 {what} (shape=({rows}, {columns})) while a minimum of 1 is required.")


# ---- data frames


def _from_frame(X: Any, unit: Key | None = None) -> tuple[list[Key], list[Values]]:
    import narwhals.stable.v2 as nw

    frame = nw.from_native(X, eager_only=True)
    names = [_name(name) for name in frame.columns]
    if not names or not len(frame):
        _raise_empty(len(frame), len(names))
    columns = zip(frame.iter_columns(), names, strict=True)
    return names, [_exact(s, name) if name == unit else _from_series(s, name) for s, name in columns]


def _name(name: Any) -> Key:
    if isinstance(name, str):
        return name
    if isinstance(name, bool) or not isinstance(name, int | np.integer):
        hint = "Rename them: df.columns = [str(name) for name in df.columns]"
        raise ParameterError("X", "have columns named by strings or whole numbers", type(name).__name__, hint)
    return int(name)


def _exact(series: Any, name: Any) -> Values:
    """The column that names the unit. One null must not make floats of large integers: units would merge by rounding,
    and a single record would decide which rows of all the others are kept. Nor may decimals become floats.
    """
    if series.dtype.is_decimal() or (series.dtype.is_integer() and series.null_count()):
        return objects(series.to_list())
    return _from_series(series, name)


def _from_series(series: Any, name: Any) -> Values:
    import narwhals.stable.v2 as nw

    dtype = series.dtype
    if dtype == nw.Boolean and series.null_count() == 0:
        return np.asarray(series.to_numpy(), dtype=bool)
    if dtype == nw.Boolean or dtype.is_decimal():
        return np.asarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64)
    if dtype.is_numeric():
        return _native_numbers(series)
    if dtype in (nw.String, nw.Categorical, nw.Enum, nw.Object):
        return objects(series.to_list())
    native = series.to_native()
    own = str(getattr(native, "dtype", None) or getattr(native, "type", dtype))
    if own.lower() in ("null", "null[pyarrow]"):  # nothing but missing values
        return objects(series.to_list())
    if own.lower().startswith("sparse"):
        raise _sparse("df.sparse.to_dense()")
    raise ParameterError(
        f"column {name!r}",
        "hold numbers, booleans or text",
        own if dtype == nw.Unknown else str(dtype),
        "Convert it before: a date to a number of days, a list to several columns",
    )


def _native_numbers(series: Any) -> Values:
    """A numeric column; nulls become nan."""
    import narwhals.stable.v2 as nw

    values = np.asarray(series.to_numpy())
    if values.dtype.kind in "iuf":
        return values
    return np.asarray(series.cast(nw.Float64).fill_null(float("nan")).to_numpy(), dtype=np.float64)


# ---- arrays


def _from_array(X: Any, unit: Key | None = None) -> tuple[list[Key], list[Values]]:
    mask = np.ma.getmaskarray(X) if np.ma.isMaskedArray(X) else None
    array = _as_array(np.ma.getdata(X) if mask is not None else X)
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported: X must hold real numbers. Split it into two columns")
    if array.ndim != 2:
        raise ValueError(
            f"X must be a table with rows and columns, got an array of {array.ndim} dimensions. Reshape your data: "
            "array.reshape(-1, 1) if it has one column, array.reshape(1, -1) if it is one row"
        )
    if 0 in array.shape:
        _raise_empty(*array.shape)
    if array.dtype.kind not in "biufOUST":
        hint = "Convert it before: a date to a number of days"
        raise ParameterError("X", "hold numbers, booleans or text", str(array.dtype), hint)
    columns = []
    for j in range(array.shape[1]):
        column = array[:, j]
        if mask is not None and array.dtype.kind in "biuf" and j != unit:
            column = np.where(mask[:, j], np.nan, column.astype(np.float64))
        elif mask is not None:
            column = column.astype(object)
            column[mask[:, j]] = None
        columns.append(column)
    return list(range(array.shape[1])), columns


def _as_array(X: Any) -> Values:
    try:
        return np.asarray(X)
    except ValueError:
        pass  # numpy's message names no way out
    raise ValueError("X must be a table: its rows have different lengths. Fill them up, missing values are nan")
