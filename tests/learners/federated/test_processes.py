"""Real processes on loopback that are killed, stopped, misconfigured: an exact model of the others, or an error."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from federated_processes import Loopback, Parties, server

from ledgerwood.accounting import Ledger
from ledgerwood.errors import AggregationFailed
from ledgerwood.learners import Schema
from ledgerwood.learners.federated.coordinator import Coordinator, Federation
from ledgerwood.learners.federated.flower import identities, node_from, write_parties
from ledgerwood.learners.federated.party import KINDS
from ledgerwood.learners.federated.task import FederatedTask

ROUNDS, TREES = 2, 4


def federation(folder: Path, *, spare: int = 0) -> tuple[FederatedTask, dict[int, Path]]:
    keys, roster = identities(3)
    task = FederatedTask(
        Schema(bounds={"a": (0, 1), "b": (0, 1)}, classes=[0, 1]), ("a", "b"), roster, threshold=2, rows=5000,
        recipe="tr_cyc", options={"n_trees": TREES, "max_depth": 2, "batch": TREES // ROUNDS}, epsilon=8.0, delta=1e-5,
        spare_rounds=spare,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    parties = write_parties(folder, task, keys, dict.fromkeys(keys, "rows.csv"), "y")
    for number in keys:
        X = rng.uniform(size=(800, 2))
        frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": (X[:, 0] > 0.5).astype(int)})
        frame.to_csv(folder / f"party-{number}" / "rows.csv", index=False)
    (folder / "task.json").write_text(task.to_json(), encoding="utf-8")
    return task, parties


def charged(folder: Path, number: int) -> int:
    """How many releases the party's own journal holds."""
    path = folder / f"party-{number}" / "ledger.jsonl"
    return len(Ledger.open(path).journal()) if path.exists() else 0


def learned(done: Federation) -> bool:
    X = pd.DataFrame(np.random.default_rng(1).uniform(size=(500, 2)), columns=["a", "b"])
    return bool(((done.probabilities(X)[:, 1] > 0.5) == (X["a"] > 0.5)).mean() > 0.75)


class OnceAt:
    """Does something the first time that ``node`` is about to be asked, or has been asked, for ``kind``."""

    def __init__(self, kind: str, node: int, act: Callable[[], Any]) -> None:
        self.kind, self.node, self.act, self.done = kind, node, act, False

    def __call__(self, kind: str, node: int) -> None:
        if (kind, node) == (self.kind, self.node) and not self.done:
            self.done = True
            self.act()


def test_three_processes_train_and_every_ledger_is_charged_once(tmp_path: Path) -> None:
    task, files = federation(tmp_path)
    with Parties(files) as net:
        done = Coordinator(task, Loopback(net.ports)).train(files)
    assert (done.rounds, done.failed, done.survivors) == (ROUNDS, 0, ((1, 2, 3),) * ROUNDS)
    assert learned(done)
    assert [charged(tmp_path, n) for n in files] == [TREES] * 3


@pytest.mark.parametrize(
    ("kind", "when"), [*((kind, "before") for kind in KINDS), ("share", "after"), ("mask", "after")]
)
def test_a_party_killed_at_any_stage_leaves_the_model_of_the_others(tmp_path: Path, kind: str, when: str) -> None:
    task, files = federation(tmp_path)
    with Parties(files) as net:
        kill = OnceAt(kind, 3, lambda: net.kill(3))
        done = Coordinator(task, Loopback(net.ports, **{when: kill})).train(files)
    assert kill.done
    assert done.failed == 0 and done.rounds == ROUNDS
    assert done.survivors[1] == (1, 2)  # the dead stay dead
    late = kind in ("confirm", "unmask")  # its vector had come and is in the sum of the first round
    assert 3 in done.survivors[0] if late else when == "after" or 3 not in done.survivors[0]
    assert learned(done)
    assert [charged(tmp_path, n) for n in (1, 2)] == [TREES] * 2
    assert charged(tmp_path, 3) <= TREES // ROUNDS


@pytest.mark.parametrize("kind", ["share", "unmask"])
def test_two_parties_killed_end_the_training_with_an_error_and_never_a_model(tmp_path: Path, kind: str) -> None:
    task, files = federation(tmp_path, spare=1)
    with Parties(files) as net:
        kill = OnceAt(kind, 2, lambda: (net.kill(2), net.kill(3)))
        coordinator = Coordinator(task, Loopback(net.ports, before=kill))
        with pytest.raises(AggregationFailed, match="no sum was opened"):
            coordinator.train(files)
    assert len(coordinator.failures) == 2  # the spare attempt was made too


def test_a_failed_round_is_charged_again_to_every_ledger(tmp_path: Path) -> None:
    task, files = federation(tmp_path, spare=1)

    with Parties(files) as net:
        exchange = Loopback(net.ports)
        lost = {"left": 2}

        def unlucky(kind: str, messages: Any) -> Any:
            replies = exchange(kind, messages)
            if kind == "unmask" and lost["left"]:  # two of three answers are lost on the way, once
                lost["left"] = 0
                return {node: reply for node, reply in replies.items() if node == 1}
            return replies

        done = Coordinator(task, unlucky).train(files)
    assert (done.rounds, done.failed) == (ROUNDS, 1)
    assert [charged(tmp_path, n) for n in files] == [TREES + TREES // ROUNDS] * 3
    assert "1 failed" in done.statement()


def test_a_slow_party_is_left_out_and_its_late_answer_is_not_read(tmp_path: Path) -> None:
    task, files = federation(tmp_path)
    with Parties(files) as net:
        stop = OnceAt("mask", 2, lambda: net.signal(2, signal.SIGSTOP))
        go_on = OnceAt("confirm", 1, lambda: net.signal(2, signal.SIGCONT))

        def before(kind: str, node: int) -> None:
            stop(kind, node)
            go_on(kind, node)

        def patience(kind: str, node: int) -> float:  # short for the stopped one, so that no other can be too slow
            return 1.0 if stop.done and not go_on.done and (kind, node) == ("mask", 2) else 120.0

        done = Coordinator(task, Loopback(net.ports, patience, before)).train(files)
    assert done.survivors == ((1, 3), (1, 2, 3))
    assert learned(done)
    assert charged(tmp_path, 2) == TREES  # it charged the round in which it came too late


@pytest.mark.parametrize("wrong", ["a column is missing", "another task", "no file"])
def test_a_party_with_a_wrong_schema_refuses_by_name_and_the_others_go_on(tmp_path: Path, wrong: str) -> None:
    task, files = federation(tmp_path)
    rows = tmp_path / "party-3" / "rows.csv"
    frame = pd.read_csv(rows)
    if wrong == "a column is missing":
        frame.drop(columns="b").to_csv(rows, index=False)
    elif wrong == "another task":
        (tmp_path / "party-3" / "task.json").write_text(task.to_json().replace('"epsilon": 8.0', '"epsilon": 9.0'))
    else:
        rows.unlink()
    with Parties(files) as net:
        done = Coordinator(task, Loopback(net.ports)).train(files)
        assert done.survivors == ((1, 2),) * ROUNDS
        assert len(done.refusals) == 1 and done.refusals[0].startswith("party 3: ")
        assert "answered by 2, 2 parties" in done.statement()
    assert charged(tmp_path, 3) == 0


def test_two_parties_with_a_wrong_schema_end_in_an_error_that_names_them(tmp_path: Path) -> None:
    task, files = federation(tmp_path)
    for number in (2, 3):
        rows = tmp_path / f"party-{number}" / "rows.csv"
        pd.read_csv(rows).drop(columns="b").to_csv(rows, index=False)
    with Parties(files) as net, pytest.raises(AggregationFailed, match=r"1 nodes sent their vectors.*party 2.*party 3"):
        Coordinator(task, Loopback(net.ports)).train(files)


def test_values_out_of_range_are_clipped_at_home_and_cannot_carry_a_sum_away(tmp_path: Path) -> None:
    task, files = federation(tmp_path)
    rows = tmp_path / "party-3" / "rows.csv"
    frame = pd.read_csv(rows)
    frame["a"] = np.where(np.arange(len(frame)) % 2, 1e30, np.nan)
    frame["b"] = -np.inf
    frame.to_csv(rows, index=False)
    with Parties(files) as net:
        done = Coordinator(task, Loopback(net.ports)).train(files)
    assert done.survivors == ((1, 2, 3),) * ROUNDS and not done.refusals
    for query in node_from(files[3]).party().step([]).queries:
        assert np.abs(query.value).max() <= len(frame) * query.grid.l2


def test_a_killed_server_leaves_no_model_and_its_successor_pays_again_or_is_refused(tmp_path: Path) -> None:
    _, files = federation(tmp_path)
    output = tmp_path / "model.json"
    with Parties(files) as net:
        first = server(tmp_path / "task.json", net.ports, output)
        end = time.monotonic() + 120
        while not output.with_suffix(".rounds").exists() and time.monotonic() < end and first.is_alive():
            time.sleep(0.01)
        first.kill()
        first.join()
        assert not output.exists() or json.loads(output.read_text())["rounds"] == ROUNDS
        spent = [charged(tmp_path, n) for n in files]
        assert all(TREES // ROUNDS <= n <= TREES for n in spent)
        second = server(tmp_path / "task.json", net.ports, tmp_path / "again.json")
        second.join(120)
    assert second.exitcode == 1 and not (tmp_path / "again.json").exists()
    error = (tmp_path / "again.error").read_text()
    assert "no sum was opened" in error and "party 1" in error and "leaf" in error
    assert [charged(tmp_path, n) for n in files] == [TREES] * 3  # never beyond the plan


def test_a_killed_server_with_spare_rounds_is_followed_by_one_that_finishes(tmp_path: Path) -> None:
    _, files = federation(tmp_path, spare=ROUNDS)
    output = tmp_path / "model.json"
    with Parties(files) as net:
        first = server(tmp_path / "task.json", net.ports, tmp_path / "lost.json")
        end = time.monotonic() + 120
        while not (tmp_path / "lost.rounds").exists() and time.monotonic() < end and first.is_alive():
            time.sleep(0.01)
        first.kill()
        first.join()
        spent = [charged(tmp_path, n) for n in files]
        second = server(tmp_path / "task.json", net.ports, output)
        second.join(120)
    assert second.exitcode == 0
    assert learned(Federation.load(output))
    assert [charged(tmp_path, n) for n in files] == [n + TREES for n in spent]
