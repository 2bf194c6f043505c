"""Real processes on loopback: SuperLink, SuperNodes, a run. Minutes each: `make slow`."""

from __future__ import annotations

import subprocess
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from examples.federated import Loopback

from ledgerwood.accounting import Ledger
from ledgerwood.errors import AggregationFailed, ParameterError
from ledgerwood.learners import Schema
from ledgerwood.learners.federated.coordinator import Federation
from ledgerwood.learners.federated.flower import identities, node_from, write_parties
from ledgerwood.learners.federated.task import FederatedTask


def federation(folder: Path, **options: int) -> tuple[FederatedTask, dict[int, Path]]:
    keys, roster = identities(3)
    task = FederatedTask(
        Schema(bounds={"a": (0, 1), "b": (0, 1)}, classes=[0, 1]), ("a", "b"), roster, threshold=2, rows=5000,
        recipe="tr_cyc", options={"n_trees": 4, "max_depth": 2, "batch": 4, **options}, epsilon=8.0, delta=1e-5,
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
    return len(Ledger.open(folder / f"party-{number}" / "ledger.jsonl").journal())


def test_a_partys_folder_makes_a_node_and_an_incomplete_one_says_what_is_missing(tmp_path: Path) -> None:
    _, parties = federation(tmp_path)
    node = node_from(parties[2])
    assert node.number == 2
    assert len(node.party().step([]).queries) == 4
    assert (tmp_path / "party-2" / "identity.key").stat().st_mode & 0o077 == 0
    parties[2].write_text("number = 2\n")
    with pytest.raises(ParameterError, match="data, identity, ledger, target, task"):
        node_from(parties[2])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_three_parties_train_over_flower_and_every_ledger_is_charged_once(tmp_path: Path) -> None:
    _, parties = federation(tmp_path)
    with Loopback(tmp_path / "run", parties) as net:
        net.train(tmp_path / "task.json", tmp_path / "model.json", timeout=800)
    done = Federation.load(tmp_path / "model.json")
    assert (done.rounds, done.failed, done.survivors) == (1, 0, ((1, 2, 3),))
    X = pd.DataFrame(np.random.default_rng(1).uniform(size=(500, 2)), columns=["a", "b"])
    assert ((done.probabilities(X)[:, 1] > 0.5) == (X["a"] > 0.5)).mean() > 0.8
    for number in parties:
        assert charged(tmp_path, number) == 4


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_killed_party_does_not_stop_the_others_and_too_few_end_in_an_error(tmp_path: Path) -> None:
    _, parties = federation(tmp_path, batch=2)
    with Loopback(tmp_path / "run", parties) as net:
        log = tmp_path / "run" / "supernode-3.log"

        def kill_when_it_has_shared() -> None:
            for _ in range(3000):
                if log.exists() and "query.share" in log.read_text(errors="replace"):
                    net.kill("supernode-3")
                    return
                time.sleep(0.2)

        killer = threading.Thread(target=kill_when_it_has_shared)
        killer.start()
        net.train(tmp_path / "task.json", tmp_path / "model.json", timeout=1500)
        killer.join()
    done = Federation.load(tmp_path / "model.json")
    assert done.survivors[-1] == (1, 2)
    assert len(done.model.trees) == 4
    (tmp_path / "model.json").unlink()
    with Loopback(tmp_path / "run2", {1: parties[1]}) as net, pytest.raises((AggregationFailed, TimeoutError)):
        net.train(tmp_path / "task.json", tmp_path / "model.json", timeout=400)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_killed_superlink_ends_in_an_error_and_what_was_sent_stays_charged(tmp_path: Path) -> None:
    _, parties = federation(tmp_path, batch=2)
    with Loopback(tmp_path / "run", parties) as net:
        log = tmp_path / "run" / "supernode-1.log"

        def kill_when_vectors_were_sent() -> None:
            for _ in range(3000):
                if log.exists() and "Sending: query.mask" in log.read_text(errors="replace"):
                    net.kill("superlink")
                    return
                time.sleep(0.2)

        killer = threading.Thread(target=kill_when_vectors_were_sent)
        killer.start()
        with pytest.raises((AggregationFailed, subprocess.TimeoutExpired)):
            net.train(tmp_path / "task.json", tmp_path / "model.json", timeout=300)
        killer.join()
    assert not (tmp_path / "model.json").exists()
    assert charged(tmp_path, 1) == 2
    with Loopback(tmp_path / "again", parties) as net, pytest.raises(AggregationFailed):  # budget for one round is left
        net.train(tmp_path / "task.json", tmp_path / "model.json", timeout=900)
    assert not (tmp_path / "model.json").exists()
    assert charged(tmp_path, 1) <= 4
