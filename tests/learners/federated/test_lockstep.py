"""The same loop on every side: with noise off the federated model is the local one, with it all noise is there."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from ledgerwood.accounting import Ledger
from ledgerwood.errors import FormatError, OffPlan, ParameterError, ReleaseRefused
from ledgerwood.learners import Schema
from ledgerwood.learners.data.labels import read_labels
from ledgerwood.learners.data.table import read_table
from ledgerwood.learners.federated.distributed_noise import SkellamShare
from ledgerwood.learners.federated.lockstep import Step, server_step, split_answers
from ledgerwood.learners.federated.party import Party
from ledgerwood.learners.federated.protocol import Round
from ledgerwood.learners.federated.secure_aggregation import ClientRound, ServerRound
from ledgerwood.learners.federated.task import FederatedTask
from ledgerwood.learners.federated.tree_job import TreeJob
from ledgerwood.learners.trees.binning import integer_labels
from ledgerwood.learners.trees.boosting import boost
from ledgerwood.learners.trees.forest import Forest
from ledgerwood.learners.trees.local_aggregator import LocalAggregator
from ledgerwood.learners.trees.plan import plan_boosting

Ints = NDArray[np.int64]
SCHEMA = Schema(bounds={0: (0, 1), 1: (0, 1)}, categories={2: [0, 1, 2]}, classes=[0, 1])
KEYS = {node: Ed25519PrivateKey.generate() for node in (1, 2, 3)}
IDENTITIES = {node: key.public_key().public_bytes_raw().hex() for node, key in KEYS.items()}


def task_of(
    recipe: str, *, schema: Schema = SCHEMA, threshold: int = 2, resolution: int = 8, **options: Any
) -> FederatedTask:
    sizes = {"n_trees": 4, "max_depth": 2, "n_bins": 8, **options}
    return FederatedTask(
        schema, (0, 1, 2), IDENTITIES, threshold=threshold, rows=1000, recipe=recipe, options=sizes,
        epsilon=2.0, delta=1e-5, resolution=resolution,
    )  # fmt: skip


def rows(n: int = 300, seed: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.uniform(size=(n, 2)), rng.integers(0, 3, n)])
    return X, (X[:, 0] + 0.3 * X[:, 2] > 0.7).astype(int)


class Exact:
    """A session without noise."""

    def release(self, mechanism: Any, value: Any, label: str) -> Any:
        return np.asarray(value, dtype=np.int64)


def same(a: Forest, b: Forest) -> bool:
    return len(a.trees) == len(b.trees) and all(
        np.array_equal(s.weights, t.weights)
        and np.array_equal(s.structure.feature, t.structure.feature)
        and np.array_equal(s.structure.left, t.structure.left)
        for s, t in zip(a.trees, b.trees)
    )


SUMS = ["tr", "tr_cyc", "tr_ada", "tr_ada_cyc", "dp_ebm", "dp_ebm_newton", "dp_rf", "feverless", "pr", "tr_ih_ebm"]


@pytest.mark.parametrize("recipe", [*SUMS, "tr_ih_ebm_batched"])
def test_with_noise_off_the_model_is_the_local_one(recipe: str) -> None:
    task = task_of(recipe, resolution=40)
    X, y = rows()
    parts = np.array_split(np.arange(len(X)), [50, 120])
    parties = [Party(task, X[part], y[part]) for part in parts]
    answers: list[Ints] = []
    while not (now := server_step(task, answers)).done:
        steps = [party.step(answers) for party in parties]
        for step in steps:
            assert [(q.label, q.value.shape) for q in step.queries] == [(q.label, q.value.shape) for q in now.queries]
        answers += [sum(values) for values in zip(*([q.value.ravel() for q in s.queries] for s in steps))]  # type: ignore[misc]
    table, labels = read_table(X, SCHEMA), read_labels(y, SCHEMA.classes)
    job = task.job
    assert isinstance(job, TreeJob)
    aggregator = LocalAggregator(table.values, integer_labels(labels, job.settings))
    rng = np.random.default_rng(int(task.seed, 16))
    plan = job.plan(task.ratios)
    local = boost(job.settings, job.domain, aggregator, Exact(), plan, rng=rng, balanced=False)
    assert same(now.model, local)
    assert len(now.model.trees) == job.settings.loops(3).trees


def train(task: FederatedTask, parties: dict[int, Party], *, silent: dict[int, int] | None = None) -> tuple[Step, int]:
    """Run the whole protocol in memory; ``silent[node]`` is the round from which a node sends no vector."""
    answers: list[Ints] = []
    number = 0
    while not (now := server_step(task, answers)).done:
        keys = {node: bytes.fromhex(key) for node, key in task.identities.items()}
        facts = Round(number.to_bytes(32, "big"), keys, now.length, task.bits, task.threshold, task.colluding)
        server = ServerRound(facts)
        clients = {node: ClientRound(facts, node, KEYS[node]) for node in parties}
        ads = server.keys([client.advertise() for client in clients.values()])
        envelopes = server.envelopes({node: client.share(ads) for node, client in clients.items()})
        masked = {}
        for node, client in clients.items():
            if (silent or {}).get(node, number + 1) > number:
                vector = parties[node].noisy(parties[node].step(answers).queries)
                masked[node] = client.mask(vector, envelopes[node])
        survivors = server.survivors(masked)
        signed = server.confirmed({node: clients[node].confirm(survivors) for node in survivors})
        total = server.total([clients[node].unmask(signed) for node in survivors])
        answers += split_answers(now.queries, total)
        number += 1
    return now, number


def test_a_batched_training_takes_one_round_per_batch_and_learns() -> None:
    task = task_of("tr", n_trees=20, batch=5)
    X, y = rows(6000)
    task = FederatedTask(**{**vars_of(task), "rows": 10_000, "epsilon": 8.0})
    parts = np.array_split(np.arange(len(X)), 3)
    parties = {node: Party(task, X[part], y[part]) for node, part in zip(KEYS, parts)}
    done, rounds = train(task, parties)
    assert rounds == 4
    table = read_table(X, SCHEMA)
    p = done.model.probabilities(table.values)[:, 1]
    assert ((p > 0.5) == y).mean() > 0.75
    for party in parties.values():
        assert party.ledger.spent().fraction == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(
    ("recipe", "options", "rounds"),
    [
        ("tr", {"batch": 25}, 4),
        ("tr_cyc", {"batch": 25}, 4),
        ("tr_ada", {"batch": 25, "sketch_rounds": 5}, 4 + 5),
        ("tr_ada_cyc", {"batch": 25, "sketch_rounds": 3}, 4 + 3),
        ("tr_ih_ebm_batched", {}, 4 + 5),
        ("dp_rf", {}, 1),
    ],
)
def test_a_hundred_trees_take_a_handful_of_rounds(recipe: str, options: dict[str, Any], rounds: int) -> None:
    """Maddock et al., 5.2: T = 100 and B = 25 make four rounds, and s more for s refinements of the candidates."""
    task = task_of(recipe, n_trees=100, **options)
    answers: list[Ints] = []
    counted = 0
    while not (now := server_step(task, answers)).done:
        answers += [np.zeros(query.value.size, dtype=np.int64) for query in now.queries]
        counted += 1
    assert counted == rounds


def vars_of(task: FederatedTask) -> dict[str, Any]:
    from dataclasses import fields

    return {f.name: getattr(task, f.name) for f in fields(task)}


def test_a_party_that_falls_silent_leaves_the_sum_of_the_others() -> None:
    task = task_of("tr_cyc", batch=2)
    X, y = rows()
    parts = np.array_split(np.arange(len(X)), 3)
    parties = {node: Party(task, X[part], y[part]) for node, part in zip(KEYS, parts)}
    done, _ = train(task, parties, silent={2: 1})
    assert len(done.model.trees) == 4


def test_the_total_carries_the_planned_noise_when_the_fewest_parties_answer() -> None:
    task = task_of("tr")
    X, y = rows(3)
    query = Party(task, X, y).step([]).queries[0]
    value, variance = query.value.ravel(), task.variance("leaf", query.grid)
    draws = []
    for _ in range(400):
        cost = task.plan["leaf"].priced(task.plan.neighbours)
        share = SkellamShare(cost, variance, task.honest)
        draws.append(sum(share.release(value) for _ in range(task.threshold)) - task.threshold * value)
    found = np.var(np.concatenate(draws))
    n = 400 * value.size
    assert abs(found / variance - 1) < 6 * math.sqrt(2 / n)  # a false alarm has probability 2e-9


@pytest.mark.parametrize("recipe", ["tr", "tr_cyc", "feverless", "pr", "dp_rf", "tr_ih_ebm"])
@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
@pytest.mark.parametrize("classes", [2, 3])
def test_no_record_moves_a_rounded_question_beyond_its_stated_sensitivity(
    recipe: str, neighbours: str, classes: int
) -> None:
    schema = Schema(
        bounds={0: (0, 1), 1: (0, 1)}, categories={2: [0, 1, 2]}, classes=list(range(classes)), neighbours=neighbours
    )
    task = task_of(recipe, schema=schema)
    least = {planned.label: planned.least for planned in task.job.outline()}
    rng = np.random.default_rng(5)
    X, _ = rows(40, seed=1)
    y = rng.integers(0, classes, len(X))
    answers: list[Ints] = []
    for _ in range(3):
        base = Party(task, X, y).step(answers).queries
        if not base:
            break
        for _ in range(6):
            row = int(rng.integers(len(X)))
            Z, w = X.copy(), y.copy()
            if neighbours == "add_remove":
                Z, w = np.delete(Z, row, axis=0), np.delete(w, row)
            else:
                Z[row], w[row] = [rng.uniform(), rng.uniform(), rng.integers(0, 3)], (w[row] + 1) % classes
            other = Party(task, Z, w).step(answers).queries
            for a, b in zip(base, other, strict=True):
                assert a.grid == b.grid and a.grid.sensitivity >= least[a.label]  # what the plan is priced at
                moved = (a.value - b.value).ravel()
                assert math.sqrt(float(moved @ moved)) <= a.grid.l2
                assert np.count_nonzero(moved) <= a.grid.touched
        # answers that push the scores far, as an attacker would like them
        answers += [
            np.asarray(rng.choice([-(2**31), -(2**20), 0, 2**20, 2**31 - 1], q.value.size), dtype=np.int64)
            for q in base
        ]


def test_every_attempt_is_charged_and_the_ledger_ends_it() -> None:
    task = task_of("tr", n_trees=2, batch=2)
    X, y = rows(20)
    party = Party(task, X, y)
    queries = party.step([]).queries
    party.noisy(queries)
    with pytest.raises(ReleaseRefused):
        party.noisy(queries)  # a second attempt is a second release
    spare = FederatedTask(**{**vars_of(task), "spare_rounds": 1})
    party = Party(spare, X, y)
    party.noisy(party.step([]).queries)
    party.noisy(party.step([]).queries)
    with pytest.raises((OffPlan, ReleaseRefused)):
        party.noisy(party.step([]).queries)


@pytest.mark.parametrize("noise", ["shares", "central", "local"])
def test_a_party_charges_what_the_plan_says_before_it_draws_or_answers(
    noise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = replace(SCHEMA, neighbours="replace_one")
    task = FederatedTask(**{**vars_of(task_of("tr", schema=schema, n_trees=4, batch=4)), "noise": noise})
    X, y = rows(20)
    own = Ledger(epsilon=50.0, delta=1e-5, neighbours="replace_one")
    drawn, release = [], SkellamShare.release

    def draw(self: SkellamShare, value: Any, rng: Any = None) -> Any:
        drawn.append((len(own.journal()), self.cost, self.variance / self.parties))
        return release(self, value, rng)

    monkeypatch.setattr(SkellamShare, "release", draw)
    party = Party(task, X, y, ledger=own)
    queries = party.step([]).queries
    party.noisy(queries)
    prices = [task.plan[query.label].priced("replace_one") for query in queries]
    assert [entry.cost for entry in own.journal()] == prices and len(prices) == 4
    if noise == "central":  # the server draws, and the entries say so
        assert not drawn and {entry.kind for entry in own.journal()} == {"charge"}
        return
    whole = [task.variance(query.label, query.grid) for query in queries]
    shares = [v * len(X) if noise == "local" else v / task.honest for v in whole]
    assert drawn == [(i + 1, price, share) for i, (price, share) in enumerate(zip(prices, shares, strict=True))]


def test_a_ledger_of_ones_own_pays() -> None:
    task = task_of("tr", n_trees=2, batch=2)
    X, y = rows(20)
    ledger = Ledger(epsilon=4.0, delta=1e-5)
    party = Party(task, X, y, ledger=ledger)
    party.noisy(party.step([]).queries)
    assert 0 < ledger.spent().epsilon <= 4.0


@pytest.mark.parametrize(
    ("recipe", "reason"),
    [("xgb", "exact scores"), ("xgb_ada", "exact scores"), ("sarus", "ask for sums alone")],
)
def test_recipes_that_are_not_sums_are_refused_with_the_reason(recipe: str, reason: str) -> None:
    with pytest.raises(ParameterError, match=reason):
        task_of(recipe)


def test_public_metadata_is_checked_before_anything_is_spent() -> None:
    with pytest.raises(ParameterError, match="bounds or categories of every column"):
        FederatedTask(SCHEMA, (0, 1, 2, 3), IDENTITIES, threshold=2, rows=10)
    with pytest.raises(ParameterError, match="no unit"):
        task_of("tr", schema=Schema(bounds={0: (0, 1), 1: (0, 1)}, categories={2: [0]}, classes=[0, 1], unit="u"))
    X, y = rows(10)
    with pytest.raises(ParameterError, match="columns of the task"):
        Party(task_of("tr"), np.column_stack([X, X[:, 0]]), y)


def test_a_task_survives_json_and_bad_json_is_refused() -> None:
    task = task_of("tr_ih_ebm_batched", shares=(1.0, 0.0, 2.0))
    again = FederatedTask.from_json(task.to_json())
    assert again.to_json() == task.to_json()
    assert again.plan == task.plan
    for text in ("", "{}", '{"version": 9}', "[1]"):
        with pytest.raises(FormatError):
            FederatedTask.from_json(text)


def test_wider_sums_take_forty_bits() -> None:
    task = task_of("tr")
    assert task.bits == 32
    assert FederatedTask(**{**vars_of(task), "rows": 10**8}).bits == 40
    with pytest.raises(ParameterError, match="40 bits"):
        _ = FederatedTask(**{**vars_of(task), "rows": 10**12}).bits


def test_the_price_of_distributed_noise_is_the_documented_one() -> None:
    task = FederatedTask(
        Schema(bounds={0: (0, 1), 1: (0, 1)}, classes=[0, 1]), (0, 1), IDENTITIES, threshold=2, rows=50_000,
        recipe="tr_cyc", options={"n_trees": 20, "batch": 10}, epsilon=1.0, delta=1e-6,
    )  # fmt: skip
    exact = plan_boosting("tr_cyc", n_features=2, n_trees=20, epsilon=1.0, delta=1e-6)
    more = (task.plan["leaf"].scale or 0.0) / (exact["leaf"].scale or 1.0)
    assert more == pytest.approx(1.073, abs=0.002)
