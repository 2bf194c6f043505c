"""Whole trainings over a transport in memory: dropouts at every stage, failed rounds, hostile messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ledgerwood.errors import AggregationFailed, FormatError, LedgerwoodError
from ledgerwood.learners import Schema
from ledgerwood.learners.federated.coordinator import Coordinator, Federation
from ledgerwood.learners.federated.party import KINDS, REFUSED, VERSION, Node, Party, Payload
from ledgerwood.learners.federated.task import FederatedTask

KEYS = {node: Ed25519PrivateKey.generate() for node in (3, 5, 8)}
TASK = FederatedTask(
    Schema(bounds={0: (0, 1), 1: (0, 1)}, classes=[0, 1]), (0, 1),
    {node: key.public_key().public_bytes_raw().hex() for node, key in KEYS.items()},
    threshold=2, rows=5000, recipe="tr_cyc", epsilon=8.0, delta=1e-5,
    options={"n_trees": 4, "max_depth": 2, "batch": 2},
)  # fmt: skip


class Wire:
    """Nodes in memory; ``lost(kind, call, node)`` says whose reply never comes."""

    def __init__(self, task: FederatedTask = TASK, lost: Callable[[str, int, int], bool] = lambda *_: False) -> None:
        rng = np.random.default_rng(0)
        self.parties = {}
        for node in KEYS:
            X = rng.uniform(size=(500, 2))
            self.parties[node] = Party(task, X, (X[:, 0] > 0.5).astype(int))
        self.nodes = {n: Node(task, n, key, lambda n=n: self.parties[n]) for n, key in KEYS.items()}  # type: ignore[misc]
        self.state: dict[int, bytes] = {}
        self.lost, self.calls = lost, dict.fromkeys(KINDS, 0)
        self.spoil: Callable[[str, int, Payload], Payload] = lambda kind, node, reply: reply

    def __call__(self, kind: str, messages: Mapping[int, Payload]) -> dict[int, Payload]:
        replies = {}
        for node, message in messages.items():
            if self.lost(kind, self.calls[kind], node):
                continue
            try:
                reply, self.state[node] = self.nodes[node].handle(kind, message, self.state.get(node, b""))
            except LedgerwoodError as error:
                replies[node] = {REFUSED: str(error)}
                continue
            replies[node] = self.spoil(kind, node, reply)
        self.calls[kind] += 1
        return replies


def test_a_training_over_a_transport_learns_and_says_what_it_guarantees() -> None:
    wire, seen = Wire(), []
    result = Coordinator(TASK, wire, progress=lambda done, n: seen.append((done, n))).train(KEYS)
    assert seen == [(1, 3), (2, 3)]
    assert (result.rounds, result.failed, result.survivors) == (2, 0, ((3, 5, 8), (3, 5, 8)))
    X = np.random.default_rng(1).uniform(size=(500, 2))
    assert ((result.probabilities(X)[:, 1] > 0.5) == (X[:, 0] > 0.5)).mean() > 0.8
    assert "epsilon=8" in result.statement()


def test_a_record_that_cannot_be_used_makes_no_party_refuse() -> None:
    wire = Wire()
    X, y = [[0.2, "x"], [None, 0.5], [0.7, 0.1]], ["neither", None, 1]
    node = wire.nodes[3]
    wire.nodes[3] = replace(node, party=lambda: Party(TASK, X, y))
    done = Coordinator(TASK, wire).train(KEYS)
    assert done.refusals == () and done.survivors == ((3, 5, 8), (3, 5, 8))


def test_a_federation_is_saved_without_pickle_and_hostile_files_are_refused(tmp_path: Path) -> None:
    result = Coordinator(TASK, Wire()).train(KEYS)
    result.save(tmp_path / "model.json")
    again = Federation.load(tmp_path / "model.json")
    X = np.random.default_rng(1).uniform(size=(50, 2))
    assert np.array_equal(again.probabilities(X), result.probabilities(X))
    assert again.statement() == result.statement()
    for text in ("", "[]", "{}", '{"format": "ledgerwood.federation", "version": 9}'):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(FormatError):
            Federation.load(tmp_path / "bad.json")


@pytest.mark.parametrize("kind", KINDS)
def test_a_node_that_is_lost_at_any_stage_does_not_stop_the_others(kind: str) -> None:
    wire = Wire(lost=lambda k, call, node: node == 5 and KINDS.index(k) >= KINDS.index(kind))
    result = Coordinator(TASK, wire).train(KEYS)
    assert result.rounds == 2 and len(result.model.trees) == 4


@pytest.mark.parametrize("kind", KINDS)
def test_too_few_nodes_at_any_stage_raise_and_never_pass_for_success(kind: str) -> None:
    wire = Wire(lost=lambda k, call, node: node != 5 and k == kind)
    coordinator = Coordinator(TASK, wire)
    with pytest.raises(AggregationFailed, match="no sum was opened"):
        coordinator.train(KEYS)
    assert coordinator.failures


def test_a_failed_round_is_tried_again_and_charged_again() -> None:
    task = replace(TASK, spare_rounds=1)
    wire = Wire(task, lost=lambda k, call, node: k == "unmask" and call == 0 and node != 3)
    result = Coordinator(task, wire).train(KEYS)
    assert (result.rounds, result.failed) == (2, 1)
    assert {len(party.ledger.journal()) for party in wire.parties.values()} == {6}  # two trees, again, two more


@pytest.mark.parametrize("kind", KINDS)
def test_a_reply_that_cannot_be_read_counts_as_silence(kind: str) -> None:
    for junk in ({"junk": b"x"}, {"vector": 10**15, "signature": 10**15, "nodes": [3], "data": [10**15]}):
        wire = Wire()
        wire.spoil = lambda k, node, reply, junk=junk: junk if (k, node) == (kind, 8) else reply  # type: ignore[misc]
        assert Coordinator(TASK, wire).train(KEYS).rounds == 2


def message(**changes: Any) -> Payload:
    common = {"version": VERSION, "task": TASK.to_json(), "session": bytes(32), "length": 16, "asked": bytes(32)}
    return {**common, **changes}


@pytest.mark.parametrize(
    ("kind", "changes", "error"),
    [
        ("advertise", {"version": 1}, FormatError),
        ("advertise", {"session": b"short"}, FormatError),
        ("dance", {}, FormatError),
        ("share", {}, FormatError),
        ("advertise", {"task": "{}"}, AggregationFailed),
        ("advertise", {"task": replace(TASK, epsilon=80.0).to_json()}, AggregationFailed),
    ],
)
def test_hostile_messages_are_refused_by_the_party(kind: str, changes: Payload, error: type[Exception]) -> None:
    with pytest.raises(error):
        Wire().nodes[3].handle(kind, message(**changes))


def test_a_server_that_asks_for_another_length_gets_nothing_and_nothing_is_charged() -> None:
    wire = Wire()
    nodes, state = wire.nodes, {}
    ads: Payload = {}
    for node in KEYS:
        reply, state[node] = nodes[node].handle("advertise", message(length=15))
        ads = {name: ads.get(name, []) + list(values) for name, values in reply.items()}
    shared = {}
    for node in KEYS:
        shared[node], state[node] = nodes[node].handle("share", message(length=15, **ads), state[node])
    inbox = {"nodes": [5], "data": [shared[5]["data"][shared[5]["nodes"].index(3)]]}
    with pytest.raises(AggregationFailed, match="another round"):
        nodes[3].handle("mask", message(length=15, answers=[], **inbox), state[3])
    assert not wire.parties[3].ledger.journal()
