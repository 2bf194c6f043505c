"""Li et al.'s measure for regression (Figure 9): squared difference to the predictions of the model without privacy.

``accuracy`` has the squared error against the target instead, as everybody else measures it.

    python -m benchmarks.opboost.gap --data DIR [--repeats 10]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from benchmarks.opboost.accuracy import EPSILONS, Task, learner, methods
from benchmarks.opboost.tables import Table
from ledgerwood.learners.vertical import OrderPreservingTransformer


def run(folder: Path, repeats: int) -> None:
    table = Table("gap", ["method", "theta", "alpha", "epsilon", "repeat"], ["gap"])
    task = Task.load(folder, "powerplant")
    for repeat in range(repeats):
        order = np.random.default_rng(repeat).permutation(len(task.target))
        train, test = np.split(order, [int(0.8 * order.size)])
        raw = [task.theirs.iloc[rows].to_numpy(dtype=np.float32) for rows in (train, test)]
        plain = learner(task.kind).fit(raw[0], task.target[train]).predict(raw[1])
        clean = OrderPreservingTransformer(domain=task.bounds).fit(task.theirs).snap(task.theirs.iloc[test])
        for epsilon in EPSILONS:
            for method, theta, alpha in methods(epsilon):
                key = (method, theta, alpha, epsilon, repeat)
                if key in table:
                    continue
                transformer = OrderPreservingTransformer(
                    method, epsilon=epsilon, split="each", theta=theta or 2, alpha=alpha or 2.0, domain=task.bounds
                )
                released = transformer.fit_transform(task.theirs.iloc[train])
                predicted = learner(task.kind).fit(released, task.target[train]).predict(clean)
                table.add(key, {"gap": float(np.mean((predicted - plain) ** 2))})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=10)
    arguments = parser.parse_args()
    run(arguments.data, arguments.repeats)
