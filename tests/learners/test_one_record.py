"""What one record's values must not decide: the plan, how other records are read, the text of an error, the number of
runs of a search.
"""

from __future__ import annotations

import traceback
import warnings
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.kit.toy_learners import ToyClassifier, ToyRegressor

from ledgerwood.errors import ParameterError
from ledgerwood.learners import PrivateSearch, Schema, private_score
from ledgerwood.learners.data.labels import read_target
from ledgerwood.learners.data.privacy_unit import keep_rows, unit_names
from ledgerwood.learners.data.table import read_columns, read_table
from ledgerwood.learners.engines import Partitions
from ledgerwood.learners.training.discovery import value_counts

N = 40
Y = np.arange(N) % 2
SPREAD = np.arange(N) / N


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_a_null_in_a_boolean_column_does_not_change_the_plan(kind: str) -> None:
    def labels(first: Any) -> list[str]:
        flags = [first, *[True, False] * (N // 2)][:N]
        column = pd.Series(flags, dtype="boolean") if kind == "pandas" else pl.Series(flags, dtype=pl.Boolean)
        X = (pd.DataFrame if kind == "pandas" else pl.DataFrame)({"flag": column, "x": SPREAD})
        model = ToyClassifier(schema=Schema(bounds={"x": (0, 1)}, classes=[0, 1], rows=N), delta=1e-5)
        return [release.label for release in model.plan(X, Y).releases()]

    assert labels(None) == labels(True)
    assert "bounds" not in labels(None)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_a_null_unit_does_not_merge_other_units(kind: str) -> None:
    large = [2**60 + i for i in range(N - 1)]  # as floats these would be one or two numbers
    schema = Schema(unit="who", bounds={"x": (0, 1)})

    def kept(last: Any) -> int:
        ids = [*large, last]
        column = pd.Series(ids, dtype="Int64") if kind == "pandas" else pl.Series(ids, dtype=pl.Int64)
        X = (pd.DataFrame if kind == "pandas" else pl.DataFrame)({"who": column, "x": SPREAD})
        units = read_columns(X, schema).units
        assert units is not None
        return len(keep_rows(units, 1, b"key"))

    assert kept(7) == kept(None) == N


@pytest.mark.parametrize("kind", ["arrow", "polars", "masked"])
def test_large_ids_are_not_rounded_whatever_holds_them(kind: str) -> None:
    """Rounded ids merge units: then removing one of them brings rows of another in."""
    large = [2**60 + i for i in range(N)]
    X: Any
    if kind == "masked":
        X = np.ma.masked_array(np.stack([large, range(N)], axis=1), np.arange(2 * N).reshape(N, 2) == 1)
    elif kind == "arrow":
        X = pa.table({"who": pa.array([Decimal(i) for i in large], pa.decimal128(38, 0)), "x": SPREAD})
    else:
        X = pl.DataFrame({"who": pl.Series([Decimal(i) for i in large], dtype=pl.Decimal(38, 0)), "x": SPREAD})
    unit, x = (0, 1) if kind == "masked" else ("who", "x")
    units = read_columns(X, Schema(unit=unit, bounds={x: (0, 1)})).units
    assert units is not None
    assert unit_names(units) == [str(i) for i in large]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.bool_])
def test_an_id_has_one_name_alone_in_a_list_and_in_an_array(dtype: type) -> None:
    """A missing id beside them makes a list of doubles of an array of floats, and must not rename them."""
    cells = np.array([0.1, 1, -0.0]).astype(dtype)
    assert unit_names(list(cells)) == unit_names(cells) == unit_names(cells.tolist())


def test_the_form_of_a_category_is_not_that_of_the_first_record() -> None:
    forms = []
    for first in (True, 1, 1.0, np.float64(1.0)):
        counts = value_counts(np.array([first, *[1] * 5, np.str_("a"), 2.5], dtype=object))
        forms.append([(type(value), value, count) for value, count in counts.items()])
    assert all(form == [(int, 1, 6), (str, "a", 1), (float, 2.5, 1)] for form in forms)


def test_pandas_na_among_objects_is_missing() -> None:
    X = pd.DataFrame({"x": pd.Series([0.5, pd.NA, None], dtype=object)})
    assert np.isnan(read_table(X, Schema(bounds={"x": (0, 1)})).values[0]).tolist() == [False, True, True]


def test_an_error_about_the_target_does_not_show_it() -> None:
    target = np.array([*["1"] * (N - 1), "SECRET"], dtype=object)
    schema = Schema(bounds={0: (0, 1)}, target_bounds=(0, 1))
    with pytest.raises(ParameterError) as caught:
        ToyRegressor(schema=schema).fit(SPREAD[:, None], target)
    assert "SECRET" not in "".join(traceback.format_exception(caught.value, chain=True))
    assert caught.value.__context__ is None


def targets(model: Any) -> str:
    """Return what the statement says about the targets."""
    [said] = [item.value for item in model.privacy_statement().public if item.name == "targets"]
    return str(said)


def test_targets_in_memory_are_finite_or_raise_and_in_parts_count_as_absent_as_the_statement_says() -> None:
    from ledgerwood.learners import PrivateBoostingRegressor

    with pytest.raises(ParameterError, match="finite"):
        read_target(np.array([0.5, np.nan]), (0.0, 1.0))
    frame = pd.DataFrame({"x": SPREAD, "y": [np.nan, *SPREAD[1:]]})
    schema = Schema(bounds={"x": (0, 1)}, target_bounds=(0, 1))
    model = PrivateBoostingRegressor(recipe="tr", n_trees=2, max_depth=2, delta=1e-5, schema=schema)
    model.fit(Partitions.of_frames([frame], target="y"))
    assert targets(model) == "finite numbers or not"
    model.fit(frame[["x"]].iloc[1:], frame["y"].iloc[1:])
    assert targets(model) == "all finite numbers"


def test_a_search_does_not_tell_its_number_of_runs(capsys: pytest.CaptureFixture[str]) -> None:
    told: list[Any] = []
    schema = Schema(bounds={0: (0, 1)}, classes=[0, 1])
    loud = ToyClassifier(schema=schema, verbose=2, callbacks=[told.append])
    search = PrivateSearch(loud, [{}], epsilon=2.0, delta=1e-5, runs=3).fit(np.tile(SPREAD, 5)[:, None], np.tile(Y, 5))
    assert told == []
    assert capsys.readouterr() == ("", "")
    assert search.best_params_ == {}


@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
def test_the_row_count_is_released_wherever_a_neighbour_may_change_it(neighbours: str) -> None:
    X = pd.DataFrame({"who": np.arange(N) // 2, "x": SPREAD})
    schema = Schema(unit="who", neighbours=neighbours, bounds={"x": (0, 1)}, classes=[0, 1])
    counts = [
        ToyClassifier(schema=replace(schema, rows=rows), delta=1e-5).fit(X, Y).receipt_.counts().get("row count", 0)
        for rows in (None, N, "public")
    ]
    assert counts == [1, 0, 0]
    alone = Schema(neighbours="replace_one", bounds={"x": (0, 1)}, classes=[0, 1])
    assert "row count" not in ToyClassifier(schema=alone, delta=1e-5).fit(X[["x"]], Y).receipt_.counts()


@pytest.mark.parametrize("distinct", [15, 16])  # of 30 rows: scikit-learn warns above half
def test_no_warning_counts_the_labels(distinct: int) -> None:
    schema = Schema(bounds={0: (0, 1)}, classes=list(range(20)))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        ToyClassifier(schema=schema, delta=1e-5).fit(SPREAD[:30, None], np.arange(30) % distinct)
    assert [str(warning.message) for warning in told] == []


@pytest.mark.parametrize("value", [None, np.nan, np.inf])
def test_a_missing_target_does_not_stop_a_private_score(value: Any) -> None:
    schema = Schema(bounds={0: (0, 1)}, target_bounds=(0, 1))
    model = ToyRegressor(schema=schema).fit(SPREAD[:, None], SPREAD)
    target = SPREAD.astype(object)
    target[3] = value
    assert 0 <= private_score(model, SPREAD[:, None], target, epsilon=1.0).value <= 1


def test_a_missing_unit_renames_nobody() -> None:
    """Classic pandas makes floats of integers when one is missing: the rows kept of all the others stay the same."""
    whole = np.arange(300) % 40
    with_gap = np.r_[whole.astype(np.float64), np.nan]
    mixed = np.array([*whole[:100].tolist(), *map(float, whole[100:])], dtype=object)
    kept = keep_rows(whole, 3, b"key").tolist()
    assert keep_rows(with_gap, 3, b"key").tolist() == [*kept, 300]
    assert keep_rows(mixed, 3, b"key").tolist() == kept


def test_all_kinds_of_missing_are_one_unit_and_no_text_is() -> None:
    missing = np.array([None, float("nan"), pd.NA, pd.NaT, np.nan], dtype=object)
    assert len(keep_rows(missing, 1, b"key")) == 1
    assert len(keep_rows(np.array(["None", "nan", "<NA>", "NaT", None], dtype=object), 1, b"key")) == 5


def test_units_of_any_kind_are_named_without_an_error() -> None:
    strange = [3, 3.0, "3", True, 1, float("inf"), 2**80, Decimal("sNaN"), (1, 2), [1], {}, np.zeros(2), 1j, b"x"]
    units = np.empty(len(strange), dtype=object)
    units[:] = strange
    assert len(unit_names(units)) == len(strange)
    assert len(set(unit_names(units[:3]))) == 1
