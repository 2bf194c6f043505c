"""Boosted AdaSSP of many parties: the local loop, bit for bit, and sensitivities that hold."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ledgerwood.errors import ParameterError
from ledgerwood.learners import Schema
from ledgerwood.learners.federated.linear_job import LinearJob
from ledgerwood.learners.federated.lockstep import server_step
from ledgerwood.learners.federated.party import Party
from ledgerwood.learners.federated.task import FederatedTask

Ints = NDArray[np.int64]
ROSTER = {1: "aa" * 32, 2: "bb" * 32, 3: "cc" * 32}
SCHEMA = Schema(bounds={0: (0, 1), 1: (-1, 1)}, categories={2: [0, 1, 2]}, classes=[0, 1])


def task_of(
    schema: Schema = SCHEMA, epsilon: float = 2.0, resolution: int | None = None, **options: Any
) -> FederatedTask:
    options = {"n_rounds": 3, "bins": 4, **options}
    return FederatedTask(
        schema, (0, 1, 2), ROSTER, threshold=2, rows=50_000, recipe="boosted_adassp", options=options, epsilon=epsilon,
        delta=1e-5, resolution=resolution,
    )  # fmt: skip


def rows(n: int, seed: int = 0, classes: int = 2) -> tuple[NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.uniform(size=n), rng.uniform(-1, 1, n), rng.integers(0, 3, n)])
    return X, ((X[:, 0] + 0.3 * X[:, 2] > 0.7) + (X[:, 1] > 0.5) * (classes > 2)).astype(int)


class Exact:
    def release(self, mechanism: Any, value: Any, label: str) -> Any:
        return np.asarray(value, dtype=np.int64)

    def require_answers(self) -> None:
        pass


@pytest.mark.parametrize(
    "options", [{}, {"accounting": "paper"}, {"bins": None, "loss": "squared"}, {"clip_decay": 0.5}, {"loss": "hinge"}]
)
def test_with_noise_off_the_weights_are_the_local_ones_and_t_rounds_take_t_messages(options: dict[str, Any]) -> None:
    task = task_of(resolution=60, **options)
    X, y = rows(300)
    parties = [Party(task, X[part], y[part]) for part in np.array_split(np.arange(300), [50, 120])]
    answers: list[Ints] = []
    asked = 0
    while not (now := server_step(task, answers)).done:
        steps = [party.step(answers) for party in parties]
        assert {step.digest for step in steps} == {now.digest}
        answers += [sum(values) for values in zip(*([q.value.ravel() for q in s.queries] for s in steps))]  # type: ignore[misc]
        asked += 1
    assert asked == 3
    job = task.job
    assert isinstance(job, LinearJob)
    whole = Party(task, X, y)._rows
    local = job.train(whole, Exact(), task.ratios, lambda model: None)
    assert np.array_equal(now.model, local)
    assert np.abs(local).max() > 0


@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
@pytest.mark.parametrize("classes", [2, 3])
def test_no_record_moves_a_question_beyond_its_grid(neighbours: str, classes: int) -> None:
    schema = replace(SCHEMA, classes=list(range(classes)), neighbours=neighbours)
    task = task_of(schema)
    rng = np.random.default_rng(5)
    X, y = rows(40, 1, classes)
    answers: list[Ints] = []
    least = {p.label: p.least for p in task.job.outline()}
    for _ in range(3):
        base = Party(task, X, y).step(answers).queries
        for _ in range(6):
            row = int(rng.integers(len(X)))
            Z, w = X.copy(), y.copy()
            if neighbours == "add_remove":
                Z, w = np.delete(Z, row, axis=0), np.delete(w, row)
            else:
                Z[row], w[row] = [rng.uniform(), rng.uniform(-1, 1), rng.integers(0, 3)], (w[row] + 1) % classes
            for a, b in zip(base, Party(task, Z, w).step(answers).queries, strict=True):
                moved = (a.value - b.value).ravel().astype(float)
                assert a.grid == b.grid and a.grid.sensitivity >= least[a.label]
                assert math.sqrt(float(moved @ moved)) <= a.grid.l2
                assert np.count_nonzero(moved) <= a.grid.touched
        answers += [
            np.asarray(rng.choice([-(2**39), -(2**20), 0, 2**20, 2**39 - 1], q.value.size), dtype=np.int64)
            for q in base
        ]


def test_three_parties_learn_a_linear_model() -> None:
    task = task_of(epsilon=4.0)
    X, y = rows(9000)
    parties = [Party(task, X[part], y[part]) for part in np.array_split(np.arange(9000), 3)]
    answers: list[Ints] = []
    while not (now := server_step(task, answers)).done:
        vectors = [party.noisy(party.step(answers).queries) for party in parties]
        ends = np.cumsum([q.value.size for q in now.queries])[:-1]
        answers += np.split(sum(vectors), ends)  # type: ignore[arg-type]
    p = task.job.probabilities(now.model, X)[:, 1]
    assert ((p > 0.5) == y).mean() > 0.8
    for party in parties:
        assert party.ledger.spent().fraction == pytest.approx(1.0, abs=1e-6)
    assert FederatedTask.from_json(task.to_json()).plan == task.plan


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"n_rounds": 11}, "at most 10"),
        ({"n_trees": 3}, "be among"),
        ({"ridge": 0.0}, "positive"),
        ({"loss": "x"}, "one of"),
        ({"loss": "squared", "gradient_clip": 4.0}, "squared loss"),
    ],
)
def test_options_are_checked_before_anything_is_spent(options: dict[str, Any], rule: str) -> None:
    with pytest.raises(ParameterError, match=rule):
        task_of(**options)
