"""One column of pandas, polars, Arrow or another library, its cells as they are.

A whole column is never converted at once where its values would decide how: numpy makes floats of integers beside one
that is missing, and strings of all beside one string. Its type, which is public, decides how a column is converted.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ledgerwood.learners.data.cells import objects, texts_of

__all__ = ["Exact", "arrow_text", "exact_values"]

Exact: TypeAlias = tuple[NDArray[Any], NDArray[np.bool_] | None]
"""Values, typed or objects, and which of them are missing (their values then mean nothing)."""


def exact_values(column: Any) -> Exact:
    """Return the cells of a column, each as it is.

    >>> import pandas as pd
    >>> values, missing = exact_values(pd.Series([2**60 + 1, None], dtype="Int64"))
    >>> values.tolist()[0] == 2**60 + 1, missing.tolist()
    (True, [False, True])
    """
    if type(column).__module__.startswith("pyarrow"):
        return _of_arrow(column)
    if type(column).__module__.startswith("pandas"):
        return _of_pandas(column)
    import narwhals.stable.v2 as nw

    return _of_series(nw.from_native(column, series_only=True))


def arrow_text(column: Any) -> Any:
    """Return the Arrow column behind a column of texts, None if there is none."""
    if type(column).__module__.startswith("pyarrow"):
        return column
    dtype = getattr(column, "dtype", None)
    if type(dtype).__name__ == "ArrowDtype" or getattr(dtype, "storage", None) == "pyarrow":
        array = getattr(column, "array", column)
        return array.__arrow_array__()
    return None


def _nothing(rows: int) -> Exact:
    """A column of a type that is neither numbers nor text: dates, lists."""
    return np.zeros(rows, dtype="V1"), np.ones(rows, dtype=bool)


def _of_series(series: Any) -> Exact:
    """A column of polars, or of another library that narwhals knows."""
    import narwhals.stable.v2 as nw

    kind = series.dtype
    if kind.is_integer() or kind == nw.Boolean:
        filled = series.fill_null(False if kind == nw.Boolean else 0).to_numpy()
        return np.asarray(filled), np.asarray(series.is_null().to_numpy(), dtype=bool)
    if kind.is_float():
        return np.asarray(series.to_numpy()), None
    if kind in (nw.String, nw.Categorical, nw.Enum, nw.Binary, nw.Object) or kind.is_decimal():
        return objects(series.to_list()), None
    return _nothing(len(series))


def _of_pandas(column: Any) -> Exact:
    import pandas as pd

    if isinstance(column.dtype, np.dtype):  # dates as objects: they have one name, in a column of objects too
        return column.to_numpy(dtype=object if column.dtype.kind in "mM" else None), None
    array = column if isinstance(column, pd.api.extensions.ExtensionArray) else column.array
    kind = array.dtype
    if isinstance(kind, pd.CategoricalDtype):
        values, missing = exact_values(kind.categories)
        return _taken(values, missing, np.asarray(array.codes))
    if isinstance(kind, pd.ArrowDtype) or (isinstance(kind, pd.StringDtype) and kind.storage == "pyarrow"):
        return _of_arrow(array.__arrow_array__())
    if hasattr(kind, "numpy_dtype"):  # nullable numbers and booleans
        return array.to_numpy(dtype=kind.numpy_dtype, na_value=0), array.isna()
    return np.asarray(array, dtype=object), None


def _of_arrow(column: Any) -> Exact:
    import pyarrow as pa

    if not isinstance(column, pa.ChunkedArray):
        return _of_chunk(column)
    if column.num_chunks == 0:
        return _nothing(0)
    parts = [_of_chunk(chunk) for chunk in column.chunks]
    missing = [np.zeros(len(values), dtype=bool) if gaps is None else gaps for values, gaps in parts]
    return np.concatenate([values for values, _ in parts]), np.concatenate(missing)


def _of_chunk(array: Any) -> Exact:
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
        return objects(array.to_pylist()), None
    if str(kind) in ("binary", "large_binary", "binary_view"):
        return array.cast(pa.large_binary()).to_numpy(zero_copy_only=False), None
    if str(kind) in ("string", "large_string", "string_view"):
        return texts_of(pa.chunked_array([array])), None
    return _nothing(len(array))


def _taken(values: NDArray[Any], missing: NDArray[np.bool_] | None, codes: NDArray[Any]) -> Exact:
    """Return the values that codes stand for; a code below 0 is missing."""
    gaps = codes < 0
    if not len(values):
        # of the same type: beside floats the integers of other chunks would become floats
        return np.zeros(len(codes), dtype=values.dtype), np.ones(len(codes), dtype=bool)
    at = np.where(gaps, 0, codes)
    return values[at], gaps if missing is None else gaps | missing[at]
