"""A Dask cluster gives the bits of memory, also when its workers or its scheduler die."""

from __future__ import annotations

import copy
import logging
import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from test_engines import BOUNDS, CATEGORIES, FEATURES, RECIPES, frame, model, pieces, same
from tests.kit.parts import LazyPart

from ledgerwood.accounting import Ledger
from ledgerwood.errors import EngineLost, ParameterError
from ledgerwood.learners import BoostedAdaSSPClassifier, Schema
from ledgerwood.learners.data.partitions import DelayedPart, FramePart
from ledgerwood.learners.engines import DaskEngine, Partitions
from ledgerwood.learners.engines.interface import GroupedRows
from ledgerwood.learners.trees.aggregator import Sample
from ledgerwood.learners.trees.partitioned import TreeRecords

pytestmark = pytest.mark.filterwarnings("ignore")


@contextmanager
def local_cluster(n_workers: int, **options: Any) -> Iterator[Any]:
    from distributed import Client, LocalCluster

    common: dict[str, Any] = {
        "threads_per_worker": 1,
        "dashboard_address": None,
        "memory_limit": 0,
        "host": "127.0.0.1",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with LocalCluster(n_workers=n_workers, **{**common, **options}) as started, Client(started) as client:
            yield client


@pytest.fixture(scope="module")
def threads() -> Iterator[Any]:
    """Two workers in this process."""
    with local_cluster(2, processes=False, protocol="tcp") as client:
        yield client


def linear(**options: Any) -> BoostedAdaSSPClassifier:
    schema = Schema(bounds=BOUNDS, categories=CATEGORIES, classes=[0, 1])
    return BoostedAdaSSPClassifier(epsilon=2.0, delta=1e-5, schema=schema, random_state=3, **options)


def check_bits(client: Any, recipe: str, cuts: list[int]) -> None:
    data = frame()
    local = model(recipe).fit(data[FEATURES], data["y"])
    parts = Partitions.of_frames(pieces(data, cuts), target="y")
    assert same(model(recipe, engine=DaskEngine(client)).fit(parts).forest_, local.forest_)


# ---- one process


@pytest.mark.parametrize("recipe", ["xgb", "tr_ih_ebm"])
def test_workers_give_the_bits_of_memory(threads: Any, recipe: str) -> None:
    check_bits(threads, recipe, [100, 101, 250])


def test_linear_models_units_frames_and_predictions_on_workers(threads: Any) -> None:
    from dask import dataframe

    data = frame()
    parts, engine = Partitions.of_frames(pieces(data, [100, 101, 250]), target="y"), DaskEngine(threads)
    alone = linear().fit(data[FEATURES], data["y"])
    found = linear(engine=engine).fit(parts)
    assert np.array_equal(found.weights_, alone.weights_)
    assert np.array_equal(found.predict_proba(parts), alone.predict_proba(data[FEATURES]))
    owned = data.assign(who=np.arange(400) % 90)
    schema = Schema(bounds=BOUNDS, categories=CATEGORIES, classes=[0, 1], unit="who", max_rows_per_unit=2)
    here = model("tr", schema=schema).fit(owned[[*FEATURES, "who"]], owned["y"])
    there = model("tr", schema=schema, engine=engine).fit(Partitions.of_frames(pieces(owned, [70]), target="y"))
    assert same(here.forest_, there.forest_)
    local = model("xgb").fit(data[FEATURES], data["y"])
    table = dataframe.from_pandas(data, npartitions=3)
    for given in (table, table.persist()):
        assert same(model("xgb", engine=engine).fit(given, "y").forest_, local.forest_)


def test_a_worker_that_lost_its_memory_rebuilds_it(threads: Any) -> None:
    from ledgerwood.learners.engines import dask

    data = frame()
    local = model("xgb").fit(data[FEATURES], data["y"])
    parts = Partitions.of_frames(pieces(data, [100, 200, 300]), target="y")

    def forget(progress: Any) -> None:
        if progress.done % 2:
            for key in list(dask._CACHE)[:: progress.done]:
                del dask._CACHE[key]

    found = model("xgb", engine=DaskEngine(threads), callbacks=[forget]).fit(parts)
    assert same(found.forest_, local.forest_)


def test_a_part_travels_once(threads: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    data, sent = frame(), []
    submit = type(threads).submit

    def counting(self: Any, function: Any, *arguments: Any, **options: Any) -> Any:
        if function.__name__ == "answer":
            sent.append(sum(records is not None for records in arguments[1].values()))
        return submit(self, function, *arguments, **options)

    monkeypatch.setattr(type(threads), "submit", counting)
    parts = Partitions.of_frames(pieces(data, [100, 200, 300]), target="y")
    model("xgb", engine=DaskEngine(threads)).fit(parts)
    assert sum(sent) >= 4 and sent.count(0) > len(sent) // 2  # a task may be stolen, so that a part travels again


def test_traffic_can_be_encrypted_and_strangers_are_refused() -> None:
    from distributed import Client
    from distributed.security import Security

    with local_cluster(1, processes=False, protocol="tls", security=Security.temporary()) as client:
        assert client.scheduler.address.startswith("tls://")
        check_bits(client, "tr", [100])
        with pytest.raises((OSError, TypeError)):
            Client(client.scheduler.address, timeout=3, set_as_default=False)
        with pytest.raises((OSError, TypeError)):
            Client(client.scheduler.address, timeout=3, set_as_default=False, security=Security.temporary())


def test_an_engine_survives_clone_and_pickling_drops_its_client() -> None:
    client = object()
    engine = DaskEngine(client)
    assert clone(model("tr", engine=engine)).engine is engine
    assert copy.deepcopy(engine) is engine
    assert pickle.loads(pickle.dumps(engine)).client is None


@pytest.mark.parametrize(("recipe", "options", "questions"), [("tr", {}, 3), ("tr", {"batch": 3}, 1)])
def test_totally_random_trees_need_one_round_trip_for_a_tree_or_a_batch(
    threads: Any, monkeypatch: pytest.MonkeyPatch, recipe: str, options: dict[str, Any], questions: int
) -> None:
    from ledgerwood.learners.engines import dask

    asked, query = [], dask.DaskSums.query
    monkeypatch.setattr(
        dask.DaskSums, "query", lambda self, name, *rest: asked.append(name) or query(self, name, *rest)
    )
    parts = Partitions.of_frames(pieces(frame(), [100]), target="y")
    model(recipe, engine=DaskEngine(threads), max_depth=4, **options).fit(parts)
    assert asked == ["open", *["leaf_sums"] * questions]  # whatever the depth


def test_no_task_draws_a_random_word(threads: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every source fails inside a task; outside of tasks the same ones make the noise."""
    from ledgerwood.learners.engines import dask
    from ledgerwood.mechanisms import keyed_randomness, randomness

    inside, tasks, drawn = threading.local(), [], []

    def answer(*arguments: Any) -> Any:
        tasks.append(inside)
        inside.task = True
        try:
            return asked(*arguments)
        finally:
            inside.task = False

    def guarded(real: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            assert not getattr(inside, "task", False), "a task draws"
            drawn.append(real)
            return real(*arguments, **options)

        return call

    asked = dask.answer
    answer.__module__, answer.__qualname__ = asked.__module__, asked.__qualname__
    monkeypatch.setattr(dask, "answer", answer)
    for source in (randomness.SystemSource, randomness.SeededSource, keyed_randomness.KeyedSource):
        monkeypatch.setattr(source, "words", guarded(source.words))
    monkeypatch.setattr(np.random, "default_rng", guarded(np.random.default_rng))
    parts = Partitions.of_frames(pieces(frame(), [100]), target="y")
    for recipe in ("xgb", "tr_ih_ebm"):
        model(recipe, engine=DaskEngine(threads), random_state=None, rows=0.5).fit(parts)
    assert len(tasks) > 8 and drawn


SECRET = 0.7318264951
"""A cell that no log may show."""


def test_nothing_of_the_data_is_logged(threads: Any, caplog: pytest.LogCaptureFixture) -> None:
    data = frame().assign(a=SECRET)
    whole, bad = pieces(data, [100]), [data.iloc[:100], data.iloc[100:].drop(columns="b")]
    first = Partitions.of_frames(whole, target="y")
    with caplog.at_level(logging.DEBUG):
        model("xgb", engine=DaskEngine(threads)).fit(first)
        failing = Partitions(tuple(FramePart(one) for one in bad), "y", data.iloc[:2])
        with pytest.raises(ParameterError, match="same columns"):
            model("xgb", engine=DaskEngine(threads)).fit(failing)
    state = caplog.text + repr(threads.get_worker_logs()) + repr(threads.get_scheduler_logs())
    assert "Compute Failed" in state  # the failure is there, its data are not
    assert str(SECRET)[:8] not in state
    assert not [record for record in caplog.records if record.name.startswith("ledgerwood")]


def test_a_part_does_not_show_its_rows() -> None:
    """Clusters log and display the arguments of tasks."""
    data = frame().assign(a=SECRET)
    records = TreeRecords(
        FramePart(data), 0, (), "y", None, rows=GroupedRows(np.ones(3, bool), np.arange(3, dtype=np.uint64))
    )  # type: ignore[arg-type]
    for shown in (records, LazyPart(lambda: data, 400), DelayedPart(data, 400), Partitions.of_frames([data], "y")):
        assert str(SECRET)[:8] not in repr(shown) and "array" not in repr(shown)


def test_a_sample_does_not_show_its_key() -> None:
    """Whoever knows which rows were drawn gets no privacy from the drawing."""
    assert "1234567" not in repr(("sample", Sample(5, (1234567, 12345678), 0)))


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


def test_workers_without_the_package_or_of_another_version_are_refused() -> None:
    class Old(Gone):
        def run(self, function: Any) -> dict[str, Any]:
            return {"worker": "0.0.1"}

    class Bare(Gone):
        def run(self, function: Any) -> dict[str, Any]:
            raise ModuleNotFoundError("No module named 'ledgerwood'")

    class Handed(Gone):  # as a scheduler hands it on
        def run(self, function: Any) -> dict[str, Any]:
            raise Exception("ModuleNotFoundError(\"No module named 'ledgerwood'\")")

    parts = Partitions.of_frames([frame(50)], target="y")
    installed = "have ledgerwood installed"
    for client, text in ((Old(), "have ledgerwood [0-9]"), (Bare(), installed), (Handed(), installed)):
        ledger = Ledger(10.0, 1e-4)
        with pytest.raises(ParameterError, match=text):
            model("tr", engine=DaskEngine(client)).fit(parts, ledger=ledger)
        assert not ledger.journal()


# ---- processes


@pytest.fixture(scope="module", params=[1, 2, 4])
def processes(request: pytest.FixtureRequest) -> Iterator[Any]:
    with local_cluster(request.param, processes=True) as client:
        yield client


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
def test_processes_give_the_bits_of_memory_for_every_recipe(processes: Any, recipe: str) -> None:
    for cuts in ([], [1, 2, 399], [100, 200, 300, 350]):
        check_bits(processes, recipe, cuts)


@pytest.mark.slow
def test_a_real_worker_without_the_package_is_refused_before_anything_is_spent() -> None:
    """Its interpreter cannot import ledgerwood."""
    bare = "import sys; sys.modules['ledgerwood'] = None; from distributed.cli.dask_worker import main; main()"
    ledger = Ledger(10.0, 1e-4)
    with (
        separate_scheduler(worker=["-c", bare]) as (_, client),
        pytest.raises(ParameterError, match="have ledgerwood installed"),
    ):
        model("tr", engine=DaskEngine(client)).fit(Partitions.of_frames([frame(50)], target="y"), ledger=ledger)
    assert not ledger.journal()


@pytest.mark.slow
def test_worker_processes_log_nothing_of_the_data() -> None:
    data = frame().assign(a=SECRET)
    with local_cluster(2, processes=True) as client:
        model("xgb", engine=DaskEngine(client)).fit(Partitions.of_frames(pieces(data, [100]), target="y"))
        failing = Partitions((FramePart(data.drop(columns="b")),), "y", data.iloc[:2])
        with pytest.raises(ParameterError, match="same columns"):
            model("xgb", engine=DaskEngine(client)).fit(failing)
        state = repr(client.get_worker_logs()) + repr(client.get_scheduler_logs())
    assert "Compute Failed" in state and str(SECRET)[:8] not in state


def _process_number() -> int:
    return os.getpid()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_worker_killed_at_a_random_point_changes_no_bit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = frame()
    options: dict[str, Any] = {"n_trees": 6, "max_depth": 3}
    local = model("xgb", **options).fit(data[FEATURES], data["y"])
    parts = Partitions.of_frames(pieces(data, [100, 200, 300]), target="y")
    when, killed = set(rng.choice(np.arange(1, 24), 2, replace=False).tolist()), []
    with local_cluster(2, processes=True) as client:

        def kill(progress: Any) -> None:
            if progress.done in when:
                victim = sorted(client.run(_process_number).values())[0]
                os.kill(victim, signal.SIGKILL)
                killed.append(victim)

        found = model("xgb", engine=DaskEngine(client), callbacks=[kill], **options).fit(parts)
    assert len(killed) == 2
    assert same(found.forest_, local.forest_)


@contextmanager
def separate_scheduler(
    worker: Sequence[str] = ("-m", "distributed.cli.dask_worker"),
) -> Iterator[tuple[subprocess.Popen[bytes], Any]]:
    """A scheduler and two workers, each a process of its own."""
    from distributed import Client

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    plain = ["--no-dashboard"]
    started = [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "distributed.cli.dask_scheduler",
                "--host",
                "127.0.0.1",
                "--port",
                str(port),
                *plain,
            ],
            stderr=subprocess.DEVNULL,
        )
    ]
    for _ in range(2):
        command = [sys.executable, *worker, address, "--nthreads", "1", "--no-nanny", *plain]
        started.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
    try:
        client = Client(address, timeout=200)
        client.wait_for_workers(2, timeout=200)
        yield started[0], client
        client.close(timeout=5)
    finally:
        for process in started:
            process.kill()
            process.wait()


@pytest.mark.slow
def test_after_the_scheduler_died_the_same_call_resumes_on_a_new_client(tmp_path: Path) -> None:
    data, run = frame(), tmp_path / "run"
    parts = Partitions.of_frames(pieces(data, [100, 200]), target="y")
    options: dict[str, Any] = {"n_trees": 6, "random_state": None}
    with Ledger.open(tmp_path / "budget.jsonl", 20.0, 1e-4) as ledger:
        with separate_scheduler() as (scheduler, client):

            def kill(progress: Any) -> None:
                if progress.done == 7:
                    scheduler.kill()

            lost = model("xgb", engine=DaskEngine(client), callbacks=[kill], **options)
            with pytest.raises(EngineLost, match="Fit again with a new client"):
                lost.fit(parts, ledger=ledger, checkpoint=run)
        spent = len(ledger.journal())
        assert 7 <= spent < 18
        with separate_scheduler() as (_, client):
            model("xgb", engine=DaskEngine(client), **options).fit(parts, ledger=ledger, checkpoint=run)
        assert len(ledger.journal()) == 18


@pytest.mark.slow
def test_a_driver_killed_again_and_again_resumes_on_the_cluster_and_spends_once(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    disturbed, undisturbed = tmp_path / "disturbed", tmp_path / "undisturbed"
    disturbed.mkdir()
    Ledger.open(disturbed / "budget.jsonl", 20.0, 1e-4).close()

    def drive(address: str, folder: Path, tasks: int) -> int:
        command = [sys.executable, "-W", "ignore", str(Path(__file__).parent / "dask_driver.py")]
        return subprocess.run([*command, address, str(folder), str(tasks)], timeout=550, check=False).returncode

    with separate_scheduler() as (_, client):
        address = client.scheduler.address
        assert drive(address, disturbed, 8) == -signal.SIGKILL
        shutil.copytree(disturbed, undisturbed)  # one key, two runs
        deaths = 1
        while (code := drive(address, disturbed, int(rng.integers(3, 24)))) != 0:
            assert code == -signal.SIGKILL
            deaths += 1
            assert deaths < 100
        assert drive(address, undisturbed, 0) == 0
    assert deaths >= 3
    left = []
    for folder in (disturbed, undisturbed):
        with Ledger.open(folder / "budget.jsonl") as ledger:
            left.append((len(ledger.journal()), ledger.spent().amount, (folder / "run" / "model.json").read_text()))
    assert left[0] == left[1] and left[0][0] == 18
