"""Labels of any kind of column, one cell at a time.

A whole column is never converted at once where its values would decide how: numpy makes floats of integers beside one
float, and strings of all beside one string. What a column is converted by is its type, a public fact.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Cells", "label_cells"]

Cells: TypeAlias = tuple[NDArray[Any], NDArray[np.bool_] | None]
"""Values, typed or objects, and which of them are missing (their values then mean nothing)."""


def label_cells(y: Any) -> Cells:
    """Return the cells of a column of labels, each as it is. Of all facts only the shape raises.

    >>> values, missing = label_cells(np.ma.masked_array([2**60 + 1, 5], mask=[False, True]))
    >>> values.tolist()[0] == 2**60 + 1, missing.tolist()
    (True, [False, True])
    """
    values, missing = _cells(y)
    if values.ndim == 2 and values.shape[1] == 1:
        return values[:, 0], None if missing is None else missing[:, 0]
    if values.ndim != 1:
        raise ValueError(f"y must be one column of labels, got an array of {values.ndim} dimensions")
    return values, missing


def _cells(y: Any) -> Cells:
    if np.ma.isMaskedArray(y):
        return np.ma.getdata(y), np.ma.getmaskarray(y)
    if isinstance(y, np.ndarray):
        return y, None
    if isinstance(y, list | tuple | range):
        return _objects(y), None
    if type(y).__module__.startswith("pyarrow"):
        return _of_arrow(y)
    if type(y).__module__.startswith("pandas") and hasattr(y, "dtype"):
        return _of_pandas(y)
    import narwhals.stable.v2 as nw

    found = nw.from_native(y, allow_series=True, eager_only=True, pass_through=True)
    if isinstance(found, nw.DataFrame) and len(found.columns) == 1:
        return _cells(found[found.columns[0]].to_native())
    if isinstance(found, nw.Series):
        return _of_series(found)
    return (np.asarray(y), None) if hasattr(y, "__array__") else (_objects(y), None)


def _objects(values: Any) -> NDArray[Any]:
    found = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):  # a slice would look into cells that are sequences
        found[i] = value
    return found


def _no_labels(rows: int) -> Cells:
    """A column of a type that is neither numbers nor text: dates, lists."""
    return np.zeros(rows, dtype="V1"), None


def _of_series(series: Any) -> Cells:
    """A column of polars, or of another library that narwhals knows."""
    import narwhals.stable.v2 as nw

    kind = series.dtype
    if kind.is_integer() or kind == nw.Boolean:
        filled = series.fill_null(False if kind == nw.Boolean else 0).to_numpy()
        return np.asarray(filled), np.asarray(series.is_null().to_numpy(), dtype=bool)
    if kind.is_float():
        return np.asarray(series.to_numpy()), None
    if kind in (nw.String, nw.Categorical, nw.Enum, nw.Binary, nw.Object) or kind.is_decimal():
        return _objects(series.to_list()), None
    return _no_labels(len(series))


def _of_pandas(column: Any) -> Cells:
    import pandas as pd

    if isinstance(column.dtype, np.dtype):
        return column.to_numpy(), None
    array = column if isinstance(column, pd.api.extensions.ExtensionArray) else column.array
    kind = array.dtype
    if isinstance(kind, pd.CategoricalDtype):
        values, missing = label_cells(kind.categories)
        return _taken(values, missing, np.asarray(array.codes))
    if isinstance(kind, pd.ArrowDtype) or (isinstance(kind, pd.StringDtype) and kind.storage == "pyarrow"):
        return _of_arrow(array.__arrow_array__())
    if hasattr(kind, "numpy_dtype"):  # nullable numbers and booleans
        return array.to_numpy(dtype=kind.numpy_dtype, na_value=0), array.isna()
    return np.asarray(array, dtype=object), None


def _of_arrow(column: Any) -> Cells:
    import pyarrow as pa

    if isinstance(column, pa.Table | pa.RecordBatch):
        if column.num_columns != 1:
            raise ValueError(f"y must be one column of labels, got {column.num_columns}")
        column = column.column(0)
    if not isinstance(column, pa.ChunkedArray):
        return _of_chunk(column)
    if column.num_chunks == 0:
        return _no_labels(0)
    parts = [_of_chunk(chunk) for chunk in column.chunks]
    missing = [np.zeros(len(values), dtype=bool) if gaps is None else gaps for values, gaps in parts]
    return np.concatenate([values for values, _ in parts]), np.concatenate(missing)


def _of_chunk(array: Any) -> Cells:
    import pyarrow as pa
    from pyarrow import compute, types

    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return _of_chunk(array.storage)
    if types.is_dictionary(kind):
        codes = array.indices.cast(pa.int64()).fill_null(-1)
        return _taken(*_of_chunk(array.dictionary), codes.to_numpy(zero_copy_only=False))
    if types.is_run_end_encoded(kind):
        return _of_chunk(compute.run_end_decode(array))
    if types.is_integer(kind) or types.is_boolean(kind):
        filled = array.fill_null(False if types.is_boolean(kind) else 0)
        return filled.to_numpy(zero_copy_only=False), array.is_null().to_numpy(zero_copy_only=False)
    if types.is_floating(kind):
        return array.to_numpy(zero_copy_only=False), None
    if types.is_decimal(kind):
        return _objects(array.to_pylist()), None
    if str(kind) in ("binary", "large_binary", "binary_view"):
        return array.cast(pa.large_binary()).to_numpy(zero_copy_only=False), None
    if str(kind) in ("string", "large_string", "string_view"):
        try:
            return array.to_numpy(zero_copy_only=False), None
        except (UnicodeDecodeError, pa.ArrowException):
            pass  # Arrow does not promise that its text is UTF-8: then each cell is decoded by itself
        return _objects([_decoded(cell) for cell in array.cast(pa.large_binary()).to_pylist()]), None
    return _no_labels(len(array))


def _decoded(cell: bytes | None) -> str | None:
    try:
        return None if cell is None else cell.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _taken(values: NDArray[Any], missing: NDArray[np.bool_] | None, codes: NDArray[Any]) -> Cells:
    """Return the values that codes stand for; a code below 0 is missing."""
    gaps = codes < 0
    if not len(values):
        return np.zeros(len(codes)), np.ones(len(codes), dtype=bool)
    at = np.where(gaps, 0, codes)
    return values[at], gaps if missing is None else gaps | missing[at]
