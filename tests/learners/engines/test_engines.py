"""The same bits wherever the rows live: in memory, in files, in any parts."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import dataset, parquet
from tests.kit.parts import LazyPart

from ledgerwood.accounting import Ledger
from ledgerwood.errors import FormatError, ParameterError
from ledgerwood.learners import (
    AdaSSPRegressor,
    BoostedAdaSSPClassifier,
    BoostedAdaSSPRegressor,
    PrivateBoostingClassifier,
    PrivateBoostingRegressor,
    Schema,
)
from ledgerwood.learners.data.threads import RowThreads
from ledgerwood.learners.engines import Partitions
from ledgerwood.learners.trees.forest import Forest

pytestmark = pytest.mark.filterwarnings("ignore::ledgerwood.errors.LedgerwoodWarning")
BOUNDS = {"a": (0, 1), "b": (0, 1)}
CATEGORIES = {"c": ["x", "y", "z"]}


def frame(n: int = 400, classes: int = 2, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    data = pd.DataFrame({"a": rng.uniform(size=n), "b": rng.uniform(size=n), "c": rng.choice(["x", "y", "z"], n)})
    data.loc[rng.uniform(size=n) < 0.05, "b"] = np.nan
    data["y"] = (data["a"] * classes).astype(int).clip(0, classes - 1)
    return data


def pieces(data: pd.DataFrame, cuts: list[int]) -> list[pd.DataFrame]:
    return [data.iloc[a:b] for a, b in itertools.pairwise([0, *cuts, len(data)])]


def same(a: Forest, b: Forest) -> bool:
    return len(a.trees) == len(b.trees) and all(
        np.array_equal(s.weights, t.weights)
        and np.array_equal(s.structure.feature, t.structure.feature)
        and np.array_equal(s.structure.left, t.structure.left)
        for s, t in zip(a.trees, b.trees)
    )


def model(recipe: str, classes: int = 2, **options: Any) -> PrivateBoostingClassifier:
    schema = Schema(bounds=BOUNDS, categories=CATEGORIES, classes=list(range(classes)))
    sizes = {
        "schema": schema,
        "n_trees": 3,
        "max_depth": 2,
        "n_bins": 8,
        "epsilon": 4.0,
        "delta": 1e-5,
        "random_state": 7,
        **options,
    }
    return PrivateBoostingClassifier(recipe=recipe, **sizes)


RECIPES = [
    "xgb", "xgb_cyc", "xgb_ada", "tr", "tr_cyc", "tr_ada", "tr_ada_cyc", "dp_ebm", "dp_ebm_newton", "dp_rf",
    "feverless", "pr", "tr_ih_ebm", "tr_ih_ebm_batched", "sarus",
]  # fmt: skip


@pytest.mark.parametrize("recipe", RECIPES)
def test_out_of_core_gives_the_bits_of_memory_for_every_recipe_and_partition(recipe: str) -> None:
    data = frame()
    local = model(recipe).fit(data[["a", "b", "c"]], data["y"])
    for cuts in ([150], [1, 2, 399]):
        parts = Partitions.of_frames(pieces(data, cuts), target="y")
        assert same(model(recipe, engine="out_of_core").fit(parts).forest_, local.forest_)


@pytest.mark.parametrize("recipe", RECIPES)
def test_two_threads_give_the_bits_of_one_for_every_recipe(recipe: str) -> None:
    data = frame(20_000)  # as many as are shared out
    assert len(RowThreads(2).run(len(data), list, lambda seen, lo, hi: None)) == 2
    one, two = (model(recipe, n_threads=n).fit(data[["a", "b", "c"]], data["y"]) for n in (1, 2))
    assert same(two.forest_, one.forest_)


FEATURES = ["a", "b", "c"]


@pytest.mark.parametrize("classes", [2, 3])
def test_linear_classifiers_give_the_same_bits(classes: int) -> None:
    data = frame(classes=classes)
    schema = Schema(bounds=BOUNDS, categories=CATEGORIES, classes=list(range(classes)))
    options: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-5, "schema": schema, "random_state": 3}
    local = BoostedAdaSSPClassifier(**options).fit(data[FEATURES], data["y"])
    for cuts in ([150], [1, 2, 399]):
        parts = Partitions.of_frames(pieces(data, cuts), target="y")
        found = BoostedAdaSSPClassifier(engine="out_of_core", **options).fit(parts)
        assert np.array_equal(found.weights_, local.weights_)


@pytest.mark.parametrize("learner", [AdaSSPRegressor, BoostedAdaSSPRegressor])
@pytest.mark.parametrize("accounting", ["tight", "paper"])
def test_linear_regressors_give_the_same_bits(learner: Any, accounting: str) -> None:
    data = frame(classes=3)
    schema = Schema(bounds=BOUNDS, categories=CATEGORIES, target_bounds=(0, 3))
    options: dict[str, Any] = {"delta": 1e-5, "schema": schema, "random_state": 3, "accounting": accounting}
    local = learner(**options).fit(data[FEATURES], data["y"].astype(float))
    found = learner(**options).fit(Partitions.of_frames(pieces(data, [7, 250]), target="y"))
    assert np.array_equal(found.weights_, local.weights_)
    assert np.array_equal(found.predict(Partitions.of_frames(pieces(data, [9]))), local.predict(data[FEATURES]))


@pytest.mark.parametrize("learner", [PrivateBoostingClassifier, BoostedAdaSSPClassifier])
def test_a_persons_rows_may_lie_in_several_parts(learner: Any) -> None:
    data = frame().assign(who=[f"person {i % 90}" for i in range(400)])
    schema = Schema(bounds=BOUNDS, categories=CATEGORIES, classes=[0, 1], unit="who", max_rows_per_unit=2)
    options: dict[str, Any] = {"epsilon": 4.0, "delta": 1e-5, "schema": schema, "random_state": 3}
    local = learner(**options).fit(data[[*FEATURES, "who"]], data["y"])
    found = learner(**options).fit(Partitions.of_frames(pieces(data, [100, 101, 350]), target="y"))
    assert found.save is not None and found.privacy_statement().details["rows_per_unit"] == 2
    for name in ("forest_", "weights_"):
        if hasattr(local, name):
            a, b = getattr(local, name), getattr(found, name)
            assert same(a, b) if name == "forest_" else np.array_equal(a, b)


@pytest.mark.parametrize("recipe", ["xgb", "tr", "tr_ih_ebm", "sarus"])
def test_sampled_rows_are_the_same_ones_in_any_parts(recipe: str) -> None:
    data = frame()
    local = model(recipe, rows=0.5).fit(data[FEATURES], data["y"])
    found = model(recipe, rows=0.5).fit(Partitions.of_frames(pieces(data, [3, 200]), target="y"))
    assert same(found.forest_, local.forest_)


def test_dask_frames_and_arrays_train_and_predict() -> None:
    from dask import array, dataframe

    data = frame()
    local = model("xgb").fit(data[FEATURES], data["y"])
    parted = dataframe.from_pandas(data, npartitions=3)
    found = model("xgb").fit(parted, "y")
    assert same(found.forest_, local.forest_)
    lazy = found.predict_proba(parted)
    assert hasattr(lazy, "dask") and np.array_equal(lazy.compute(), local.predict_proba(data[FEATURES]))
    assert np.array_equal(found.predict(parted).compute(), local.predict(data[FEATURES]))
    X, y = data[["a", "b"]].fillna(0.5).to_numpy(), data["y"].to_numpy()
    schema = Schema(bounds={0: (0, 1), 1: (0, 1)}, classes=[0, 1])
    numbers = model("xgb", schema=schema).fit(X, y)
    blocks = array.from_array(X, chunks=(130, 1))
    by_blocks = model("xgb", schema=schema).fit(blocks, array.from_array(y, chunks=77))
    assert same(by_blocks.forest_, numbers.forest_)
    assert np.array_equal(by_blocks.predict_proba(blocks).compute(), numbers.predict_proba(X))
    assert np.array_equal(by_blocks.decision_function(blocks).compute(), numbers.decision_function(X))
    with pytest.raises(ParameterError, match="be a Dask array when X is one"):
        model("xgb", schema=schema).fit(blocks, y)


def test_predictions_of_parts_are_those_of_the_whole(tmp_path: Path) -> None:
    data = frame(classes=3)
    fitted = model("tr", 3).fit(data[FEATURES], data["y"])
    parquet.write_table(pa.Table.from_pandas(data, preserve_index=False), tmp_path / "a.parquet", row_group_size=90)
    parts = Partitions.of_files(tmp_path, part_rows=100)
    assert len(parts.parts) > 2
    for method in ("predict", "predict_proba", "decision_function"):
        whole = getattr(fitted, method)(data[FEATURES])
        assert np.array_equal(getattr(fitted, method)(parts), whole)
        assert np.array_equal(getattr(fitted, method)(str(tmp_path)), whole)


def test_softmax_and_regression_too() -> None:
    data = frame(classes=3)
    local = model("xgb", 3).fit(data[["a", "b", "c"]], data["y"])
    parts = Partitions.of_frames([data.iloc[:100], data.iloc[100:]], target="y")
    assert same(model("xgb", 3).fit(parts).forest_, local.forest_)
    schema = Schema(bounds=BOUNDS, categories=CATEGORIES, target_bounds=(0, 3))
    options: dict[str, Any] = {"recipe": "tr", "n_trees": 3, "schema": schema, "delta": 1e-5, "random_state": 1}
    numbers = PrivateBoostingRegressor(**options).fit(data[["a", "b", "c"]], data["y"].astype(float))
    assert same(PrivateBoostingRegressor(**options).fit(parts).forest_, numbers.forest_)


def test_a_parquet_folder_and_an_arrow_dataset_are_tables_in_parts(tmp_path: Path) -> None:
    data = frame()
    for i, piece in enumerate(pieces(data, [130, 131])):
        parquet.write_table(
            pa.Table.from_pandas(piece, preserve_index=False), tmp_path / f"{i}.parquet", row_group_size=50
        )
    local = model("tr_cyc").fit(data[["a", "b", "c"]], data["y"])
    by_folder = model("tr_cyc").fit(str(tmp_path), "y")
    assert same(by_folder.forest_, local.forest_)
    assert same(model("tr_cyc").fit(dataset.dataset(tmp_path), "y").forest_, local.forest_)
    small = Partitions.of_files(tmp_path, "y", part_rows=60)
    assert len(small.parts) > 3 and small.rows == len(data)
    assert same(model("tr_cyc").fit(small).forest_, local.forest_)
    assert np.array_equal(by_folder.predict_proba(data[["a", "b", "c"]]), local.predict_proba(data[["a", "b", "c"]]))
    assert by_folder.privacy_statement().epsilon == local.privacy_statement().epsilon


def test_bad_parts_are_refused_before_anything_is_spent(tmp_path: Path) -> None:
    data = frame(50)
    with pytest.raises(ParameterError, match="same columns and types"):
        Partitions.of_frames([data, data.assign(b="text")], target="y")
    with pytest.raises(ParameterError, match="at least one row"):
        Partitions.of_frames([data.iloc[:0]], target="y")
    with pytest.raises(FormatError, match="holds no files that end in"):
        model("tr").fit(str(tmp_path), "y")
    with pytest.raises(ParameterError, match="name of the target column"):
        model("tr").fit(str(tmp_path), data["y"])
    with pytest.raises(ParameterError, match="be a column of the table"):
        model("tr").fit(Partitions.of_frames([data], target="label"))
    with pytest.raises(ParameterError, match="be None for a table in memory"):
        model("tr", engine="out_of_core").fit(data[["a", "b", "c"]], data["y"])
    with pytest.raises(ParameterError, match="out_of_core"):
        model("tr", engine="cloud").fit(Partitions.of_frames([data], target="y"))
    bare = PrivateBoostingClassifier(schema=Schema(bounds=BOUNDS, classes=[0, 1]), delta=1e-5)
    with pytest.raises(ParameterError, match="every column of a table in parts"):
        bare.fit(Partitions.of_frames([data], target="y"))
    path = tmp_path / "one.parquet"
    parquet.write_table(pa.Table.from_pandas(data, preserve_index=False), path)
    opened = Partitions.of_files(path, "y")
    parquet.write_table(pa.Table.from_pandas(data.iloc[:40], preserve_index=False), path)
    with pytest.raises(ParameterError, match="not change during a training"):
        model("tr").fit(opened)


def write(data: pd.DataFrame, path: Path) -> None:
    parquet.write_table(pa.Table.from_pandas(data, preserve_index=False), path)


def test_files_with_other_columns_or_types_are_refused_and_empty_ones_left_out(tmp_path: Path) -> None:
    data = frame(60)
    write(data.iloc[:30], tmp_path / "0.parquet")
    write(data.iloc[30:30], tmp_path / "1.parquet")
    write(data.iloc[30:], tmp_path / "2.parquet")
    opened = Partitions.of_files(tmp_path, "y")
    assert len(opened.parts) == 2 and opened.rows == 60
    for name, other in (("types", data.assign(b=data["b"].astype("float32"))), ("columns", data.drop(columns="b"))):
        path = tmp_path / name
        path.mkdir()
        write(data, path / "0.parquet")
        write(other, path / "1.parquet")
        ledger = Ledger(10.0, 1e-4)
        for given in (str(path), dataset.dataset([str(path / f"{i}.parquet") for i in (0, 1)])):
            with pytest.raises(FormatError, match="other columns or types than"):
                model("tr").fit(given, "y", ledger=ledger)
        assert not ledger.journal()


def test_a_dask_partition_with_other_columns_is_refused_before_anything_is_spent() -> None:
    from dask import dataframe
    from dask.delayed import delayed

    data = frame(60)
    meta = data.iloc[:0]
    for recipe in ("tr", "xgb"):
        pieces = [delayed(data), delayed(data.drop(columns="b"))]
        table = dataframe.from_delayed(pieces, meta=meta, verify_meta=False)
        ledger = Ledger(20.0, 1e-4)
        with pytest.raises(ParameterError):
            model(recipe, rows=0.5).fit(table, "y", ledger=ledger)
        assert not ledger.journal()


def test_a_part_that_is_not_the_same_every_time_is_refused() -> None:
    data, loads = frame(60), []

    def shrinking() -> pd.DataFrame:
        loads.append(1)
        return data if len(loads) == 1 else data.iloc[1:]

    table = Partitions((LazyPart(shrinking, 60),), "y", data.iloc[:2])
    with pytest.raises(ParameterError, match="have the same number of rows whenever it is loaded"):
        model("tr").fit(table)


def test_a_file_that_changes_between_two_passes_is_refused(tmp_path: Path) -> None:
    data = frame()
    write(data, tmp_path / "a.parquet")

    def change(progress: Any) -> None:
        if progress.done == 1:
            write(data.iloc[::-1], tmp_path / "a.parquet")

    with pytest.raises(ParameterError, match="not change during a training"):
        model("tr_ih_ebm", callbacks=[change]).fit(str(tmp_path), "y")


def test_progress_tells_trees_speed_and_spend() -> None:
    data, events = frame(), []
    parts = Partitions.of_frames(pieces(data, [100]), target="y")
    model("xgb", callbacks=[lambda event: events.append(event)]).fit(parts)
    assert [event.trees for event in events] == [0, 0, 0, 0, 1, 1, 1, 2, 2, 2]  # the count comes first
    spent = [event.spent for event in events]
    assert spent == sorted(spent) and spent[0] > 0 and spent[-1] == pytest.approx(1.0)
    assert all(event.rows_per_second > 0 for event in events)
