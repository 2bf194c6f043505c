"""Reading tables: public metadata raise with a way out, values never do."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerwood.errors import ParameterError
from ledgerwood.learners import Column, Schema
from ledgerwood.learners.data.labels import read_labels, trainable
from ledgerwood.learners.data.table import read_as, read_columns, read_table

arrow = pd.ArrowDtype
SCHEMA = Schema(bounds={"age": (0, 100), "paid": (0, 1)}, categories={"sex": ["f", "m"]})
DATA = {"age": [20, 120, None], "sex": ["m", None, "x"], "paid": [True, False, True]}


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "arrow"])
def test_every_kind_of_frame_reads_alike(make: Any) -> None:
    table = read_table(make(DATA), SCHEMA)
    assert table.names == ("age", "sex", "paid")
    np.testing.assert_array_equal(table.values[0], np.array([20, 100, np.nan], dtype=np.float32))
    assert table.values[1].tolist() == [1, 2, 2]
    assert table.values[2].tolist() == [1.0, 0.0, 1.0]
    assert table.values[0].dtype == np.float32


@pytest.mark.parametrize("dtype", ["Int64", "Float64", "boolean"])
def test_nullable_pandas_columns_read_their_nulls_as_missing(dtype: str) -> None:
    frame = pd.DataFrame({"a": pd.array([1, None, 0], dtype=dtype)})
    np.testing.assert_array_equal(read_table(frame, Schema(bounds={"a": (0, 9)})).values[0], [1, np.nan, 0])


@pytest.mark.parametrize("kind", [np.int64, np.float32, object])
def test_masked_cells_are_missing_not_read(kind: type) -> None:
    X = np.ma.masked_array(np.array([[1], [7]], dtype=kind), mask=[[False], [True]])
    np.testing.assert_array_equal(read_table(X, Schema(bounds={0: (0, 9)})).values[0], [1, np.nan])


def test_masked_labels_are_missing_so_that_fit_refuses_them() -> None:
    y = np.ma.masked_array([0, 1], mask=[False, True])
    with pytest.raises(ValueError, match="a label is missing"):
        trainable(y)


def test_numeric_categories_keep_their_declared_order() -> None:
    table = read_table([[3], [1], [2]], Schema(categories={0: [3, 1]}))
    assert table.values[0].tolist() == [0, 1, 2]


@given(st.lists(st.floats(width=64) | st.none() | st.integers(), min_size=1, max_size=20))
@settings(deadline=None, max_examples=100)
def test_no_number_whatever_raises_and_all_land_in_bounds(values: list[Any]) -> None:
    X = np.array([[value] for value in values], dtype=object)
    cells = read_table(X, Schema(bounds={0: (-1.1, 1.3)})).values[0]
    kept = cells[~np.isnan(cells)]
    assert ((kept >= np.float32(-1.1)) & (kept <= np.float32(1.3))).all()
    assert np.isnan(cells).sum() == sum(value is None or value != value for value in values)


@given(st.lists(st.text() | st.none() | st.floats() | st.booleans() | st.lists(st.integers()), min_size=1, max_size=9))
@settings(deadline=None, max_examples=100)
def test_no_category_whatever_raises(values: list[Any]) -> None:
    X = np.empty((len(values), 1), dtype=object)
    X[:, 0] = [value if not isinstance(value, list) else tuple(value) for value in values]
    codes = read_table(X, Schema(categories={0: ["a", "b"]})).values[0]
    assert set(codes.tolist()) <= {0, 1, 2}


WRONG: list[tuple[str, Any, Schema, type[Exception], str]] = [
    ("a column that is not there", pd.DataFrame({"b": [1]}), Schema(bounds={"a": (0, 1)}), ParameterError,
     "schema must name columns that X has, got schema=['a']. X has ['b']"),
    ("names for an array", [[1.0]], Schema(bounds={"a": (0, 1)}), ParameterError,
     "An array has column numbers: use them as keys, or pass a data frame"),
    ("texts that may be numbers", np.array([["1"], ["2"]]), Schema(), ParameterError,
     "column 0 must be declared: an array of texts does not say what they stand for"),
    ("sparse", scipy.sparse.csr_matrix([[1.0]]), Schema(), TypeError, "X is sparse"),
    ("complex", np.array([[1j]]), Schema(), ValueError, "Complex data not supported"),
    ("one dimension", np.zeros(3), Schema(), ValueError, "Reshape your data"),
    ("no rows", np.zeros((0, 3)), Schema(), ValueError, "0 sample(s) (shape=(0, 3)) while a minimum of 1 is required"),
    ("no columns", np.zeros((3, 0)), Schema(), ValueError, "0 feature(s)"),
    ("an empty frame", pd.DataFrame({"a": []}), Schema(), ValueError, "0 sample(s)"),
    ("dates", pd.DataFrame({"a": pd.to_datetime(["2020-01-01"])}), Schema(), ParameterError,
     "Convert it before: a date to a number of days"),
    ("words for numbers", np.array([[1.0]]), Schema(categories={0: ["one"]}), ParameterError, "be numbers"),
    ("nothing but the unit", pd.DataFrame({"p": [1]}), Schema(unit="p"), ParameterError, "at least one feature"),
    ("a name twice", pd.DataFrame([[1, 2]], columns=["a", "a"]), Schema(), ParameterError, "distinct column names"),
    ("a name that is no text", pd.DataFrame({("a", 1): [1], ("a", 2): [1]}), Schema(), ParameterError, "df.columns ="),
    ("a fractional name", pd.DataFrame({1.5: [1], 1.2: [1]}), Schema(), ParameterError, "df.columns ="),
    ("a sparse column", pd.DataFrame({"a": pd.arrays.SparseArray([0.0, 1.0])}), Schema(), TypeError, "to_dense()"),
    ("periods", pd.DataFrame({"a": pd.period_range("2020", periods=2)}), Schema(), ParameterError, "a date to"),
    ("lists", pl.DataFrame({"a": [[1], [2]]}), Schema(), ParameterError, "a list to several columns"),
    ("an array of dates", np.array([["2020"]], dtype="datetime64[D]"), Schema(), ParameterError, "a date to a number"),
    ("a lazy frame", pl.LazyFrame({"a": [1]}), Schema(), ParameterError, "X.collect()"),
    ("one column", pd.Series([1.0]), Schema(), ValueError, "X.to_frame()"),
    ("a dictionary", {"a": [1.0]}, Schema(), ParameterError, "pandas.DataFrame(X)"),
    ("a batch", pa.record_batch({"a": [1.0]}), Schema(), ParameterError, "pyarrow.Table.from_batches([X])"),
    ("rows of different lengths", [[1, 2], [3]], Schema(), ValueError, "its rows have different lengths"),
    ("nothing", None, Schema(), ValueError, "X must be a table"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "X", "schema", "error", "text"), WRONG, ids=[case[0] for case in WRONG])
def test_wrong_public_metadata_says_how_to_fix_it(
    name: str, X: Any, schema: Schema, error: type[Exception], text: str
) -> None:
    with pytest.raises(error) as caught:
        read_columns(X, schema)
    assert text in str(caught.value)


@pytest.mark.parametrize("value", [{}, [1], None, pd.NA, Decimal("sNaN"), date(2020, 1, 1), 1j], ids=repr)
def test_what_is_no_number_is_missing(value: Any) -> None:
    X = np.empty((2, 1), dtype=object)
    X[:, 0] = [0.5, value]
    np.testing.assert_array_equal(read_table(X, Schema(bounds={0: (0, 1)})).values[0], [0.5, np.nan])


@pytest.mark.parametrize("make", [pl.DataFrame, pa.table, lambda data: pa.table(data).to_pandas(types_mapper=arrow)])
def test_a_column_of_nulls_is_missing(make: Any) -> None:
    table = read_columns(make({"a": [1.0, 2.0], "b": [None, None]}), Schema()).table(
        [Column("a", "number", (0.0, 2.0)), Column("b", "category", None, ("x",))]
    )
    assert table.values[1].tolist() == [1, 1]


@pytest.mark.parametrize("names", [["a", "b"], [1, 2]])
def test_predict_wants_the_columns_of_the_fit(names: list[Any]) -> None:
    columns = [Column(name, "number", (0.0, 1.0)) for name in names]
    frame = pd.DataFrame([[0.0, 1.0]], columns=names)
    assert [cells.tolist() for cells in read_as(frame, columns).values] == [[0.0], [1.0]]
    with pytest.raises(ParameterError, match="have the columns of the fit, in their order"):
        read_as(frame[names[::-1]], columns)


def test_an_undeclared_label_is_refused_without_being_quoted() -> None:
    with pytest.raises(ParameterError, match="hold declared classes only") as caught:
        read_labels(np.array(["secret", "yes"]), ["no", "yes"])
    assert "secret" not in str(caught.value)
