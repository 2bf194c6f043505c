"""The same bits wherever the rows live: in memory, in files, in any parts, on a cluster whose workers die."""

from __future__ import annotations

import copy
import itertools
import os
import pickle
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import dataset, parquet
from sklearn.base import clone

from ledgerwood.errors import EngineLost, ParameterError
from ledgerwood.learners import PrivateBoostingClassifier, PrivateBoostingRegressor, Schema
from ledgerwood.learners.engines import DaskEngine, Partitions
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
    sizes = {"n_trees": 3, "max_depth": 2, "n_bins": 8, "epsilon": 4.0, "delta": 1e-5, "random_state": 7, **options}
    return PrivateBoostingClassifier(recipe=recipe, schema=schema, **sizes)


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
    small = Partitions.of_parquet(tmp_path, "y", part_rows=60)
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
    with pytest.raises(ParameterError, match="Parquet file or a folder"):
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
    opened = Partitions.of_parquet(path, "y")
    parquet.write_table(pa.Table.from_pandas(data.iloc[:40], preserve_index=False), path)
    with pytest.raises(ParameterError, match="not change during a training"):
        model("tr").fit(opened)


# ---- a cluster of processes


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    import warnings

    from distributed import Client, LocalCluster

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        started = LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0, host="127.0.0.1"
        )
        client = Client(started)
        yield client
        client.close()
        started.close()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("recipe", ["xgb", "tr_ih_ebm", "sarus"])
def test_a_cluster_gives_the_bits_of_memory(cluster: Any, recipe: str) -> None:
    data = frame()
    local = model(recipe).fit(data[["a", "b", "c"]], data["y"])
    parts = Partitions.of_frames(pieces(data, [100, 101, 250]), target="y")
    assert same(model(recipe, engine=DaskEngine(cluster)).fit(parts).forest_, local.forest_)


def _process_number() -> int:
    return os.getpid()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_killed_worker_changes_no_bit(cluster: Any) -> None:
    data = frame()
    options: dict[str, Any] = {"n_trees": 6, "max_depth": 3}
    local = model("xgb", **options).fit(data[["a", "b", "c"]], data["y"])
    parts = Partitions.of_frames(pieces(data, [100, 200, 300]), target="y")
    killed = []

    def kill(progress: Any) -> None:
        if progress.done in (5, 14):
            victim = sorted(cluster.run(_process_number).values())[0]
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)

    found = model("xgb", engine=DaskEngine(cluster), callbacks=[kill], **options).fit(parts)
    assert len(set(killed)) == 2
    assert same(found.forest_, local.forest_)
    cluster.wait_for_workers(2, timeout=60)


def test_an_engine_survives_clone_and_pickling_drops_its_client() -> None:
    client = object()
    engine = DaskEngine(client)
    assert clone(model("tr", engine=engine)).engine is engine
    assert copy.deepcopy(engine) is engine
    assert pickle.loads(pickle.dumps(engine)).client is None


class Gone:
    """A client whose scheduler is gone."""

    def run(self, function: Any) -> dict[str, Any]:
        return {"worker": function()}

    def scheduler_info(self, **_: Any) -> Any:
        raise OSError("connection lost")


def test_a_lost_scheduler_is_a_clear_error() -> None:
    data = frame(50)
    with pytest.raises(EngineLost, match="Fit again with a new client"):
        model("tr", engine=DaskEngine(Gone())).fit(Partitions.of_frames([data], target="y"))


def test_workers_of_another_version_are_refused() -> None:
    class Old(Gone):
        def run(self, function: Any) -> dict[str, Any]:
            return {"worker": "0.0.1"}

    with pytest.raises(ParameterError, match="have ledgerwood"):
        model("tr", engine=DaskEngine(Old())).fit(Partitions.of_frames([frame(50)], target="y"))
