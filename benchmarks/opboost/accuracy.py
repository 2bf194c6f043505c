"""Accuracy of XGBoost on randomized columns against epsilon (Li et al.'s Figures 7-9 and Table 6).

T = 80 trees, learning rate 0.1, depth 3, levels 1..10, 80 % of the rows for training, ten repeats, as Li et al.
Party B holds the numeric columns, party A the others; each column gets the whole epsilon, as in Li et al. Test rows
are clean and put on the same levels.

    python -m benchmarks.opboost.accuracy --data DIR [--repeats 10]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.opboost.tables import Table
from ledgerwood.learners.vertical import OrderPreservingTransformer

EPSILONS = (0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12)
TABLE_6 = (0.08, 1.28)
DATASETS = ("powerplant", "pendigits", "adult")


@dataclass(frozen=True)
class Task:
    """One dataset, cut between the parties."""

    name: str
    own: Any  # party A's columns
    theirs: pd.DataFrame  # party B's
    bounds: dict[str, tuple[float, float]]
    target: Any
    kind: str

    @classmethod
    def load(cls, folder: Path, name: str) -> Task:
        facts = {d["name"]: d for d in json.loads((folder / "datasets.json").read_text())["datasets"]}[name]
        frame = pd.read_parquet(folder / facts["file"])
        if name == "adult":
            frame = frame.iloc[: facts["train_rows"]]  # Li et al.: 32.6k rows
        bounds = {column: (float(b["min"]), float(b["max"])) for column, b in facts["bounds"].items()}
        categorical = facts["categorical"]
        own = np.column_stack(
            [pd.Categorical(frame[c], categories=values).codes for c, values in categorical.items()]
            or [np.empty((len(frame), 0))]
        )
        return cls(name, own, frame[list(bounds)], bounds, frame["target"].to_numpy(), facts["task"])


def learner(kind: str) -> Any:
    import xgboost

    settings: dict[str, Any] = {"n_estimators": 80, "learning_rate": 0.1, "max_depth": 3, "n_jobs": 1, "max_bin": 64}
    return xgboost.XGBRegressor(**settings) if kind == "regression" else xgboost.XGBClassifier(**settings)


def score(task: Task, train: Any, test: Any, X_train: Any, X_test: Any) -> float:
    """Accuracy, or the mean squared error."""
    model = learner(task.kind).fit(X_train, task.target[train])
    predicted = model.predict(X_test)
    if task.kind == "regression":
        return float(np.mean((predicted - task.target[test]) ** 2))
    return float(np.mean(predicted == task.target[test]))


def methods(epsilon: float) -> Iterator[tuple[str, int, float]]:
    """(method, theta, alpha); what a method does not know is 0."""
    yield from ((method, 0, 0.0) for method in ("global_map", "laplace_map", "piecewise", "grr"))
    alphas = (0.4, 0.6, 0.8, 2.0, 5.0, 10.0) if epsilon in TABLE_6 else (0.4, 2.0, 10.0)
    for theta in (2, 4):
        yield "local_map", theta, 0.0
        yield from (("adj_map", theta, alpha) for alpha in alphas)


def run(folder: Path, repeats: int) -> None:
    table = Table("accuracy", ["dataset", "method", "theta", "alpha", "epsilon", "repeat"], ["score"])
    tasks = [Task.load(folder, name) for name in DATASETS]
    for repeat in range(repeats):
        for task in tasks:
            started = time.perf_counter()
            one_repeat(table, task, repeat)
            print(f"{task.name} repeat {repeat}: {time.perf_counter() - started:.0f} s", flush=True)


def one_repeat(table: Table, task: Task, repeat: int) -> None:
    order = np.random.default_rng(repeat).permutation(len(task.target))
    train, test = np.split(order, [int(0.8 * order.size)])

    def joined(rows: Any, columns: Any) -> Any:
        return np.column_stack([columns, task.own[rows]]).astype(np.float32)

    raw = [task.theirs.iloc[rows].to_numpy() for rows in (train, test)]
    plain = OrderPreservingTransformer(domain=task.bounds).fit(task.theirs)
    snapped = [plain.snap(task.theirs.iloc[rows]) for rows in (train, test)]
    for name, tables in (("raw", raw), ("levels", snapped)):
        key = (task.name, name, 0, 0.0, 0.0, repeat)
        if key not in table:
            table.add(key, {"score": score(task, train, test, joined(train, tables[0]), joined(test, tables[1]))})
    for epsilon in EPSILONS:
        for method, theta, alpha in methods(epsilon):
            key = (task.name, method, theta, alpha, epsilon, repeat)
            if key in table:
                continue
            transformer = OrderPreservingTransformer(
                method, epsilon=epsilon, split="each", theta=theta or 2, alpha=alpha or 2.0, domain=task.bounds
            )
            released = transformer.fit_transform(task.theirs.iloc[train])
            table.add(key, {"score": score(task, train, test, joined(train, released), joined(test, snapped[1]))})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=10)
    arguments = parser.parse_args()
    run(arguments.data, arguments.repeats)
