"""Order, range queries and beta: Li et al.'s Figures 4, 5, 6 and 12, and their Table 4.

Figure 5: weighted Kendall of Adult's ages on 1..100. Figure 6: range queries on 1..1024 (their Salaries are not here:
Adult's fnlwgt stands in as the real column), Figure 12: 10 000 uniform values. Figure 4: the probability that no value
crosses a split, exactly, and by Theorem 5.1 as printed. Table 4: CPU seconds for 100 000 values on 1..100.

    python -m benchmarks.opboost.order --data DIR [--repeats 10]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.opboost.accuracy import EPSILONS
from benchmarks.opboost.split_survival import printed_beta, split_survives
from benchmarks.opboost.tables import Table
from ledgerwood.learners.vertical import OrderPreservingTransformer
from ledgerwood.mechanisms.local import (
    AdjMap,
    Domain,
    GeneralizedRandomizedResponse,
    GlobalMap,
    LaplaceMap,
    LocalMap,
    Partition,
    PiecewiseMechanism,
    RangeQueries,
    weighted_kendall,
)

Named = tuple[str, int, float, Any]


def maps(size: int, epsilon: float, thetas: tuple[int, ...]) -> Iterator[Named]:
    """(method, theta, alpha, mechanism)."""
    domain = Domain(1, size)
    yield "global_map", 0, 0.0, GlobalMap(domain, epsilon, "laplace")
    yield "laplace_map", 0, 0.0, LaplaceMap(domain, epsilon, "laplace")
    yield "piecewise", 0, 0.0, PiecewiseMechanism(domain, epsilon)
    yield "grr", 0, 0.0, GeneralizedRandomizedResponse(domain, epsilon)
    for theta in thetas:
        yield "local_map", theta, 0.0, LocalMap(domain, Partition.even(size, theta), epsilon, "laplace")
        for alpha in (0.4, 2.0, 10.0):
            made = AdjMap.from_epsilon(domain, theta, epsilon=epsilon, alpha=alpha, sampling="laplace")
            yield "adj_map", theta, alpha, made


def kendall(ages: Any, repeats: int) -> None:
    table = Table("kendall", ["method", "theta", "alpha", "epsilon", "repeat"], ["tau"])
    for repeat in range(repeats):
        for epsilon in EPSILONS:
            for method, theta, alpha, mechanism in maps(100, epsilon, (4, 10)):
                key = (method, theta, alpha, epsilon, repeat)
                if key not in table:
                    table.add(key, {"tau": weighted_kendall(ages, mechanism.release(ages))})


def ranges(data: dict[str, Any], repeats: int) -> None:
    table = Table("ranges", ["data", "method", "theta", "alpha", "epsilon", "repeat"], ["mse"])
    rng = np.random.default_rng(0)
    ends = np.sort(rng.integers(1, 1025, size=(2, 10_000)), axis=0)
    for repeat in range(repeats):
        for name, values in data.items():
            truth = shares(values, ends)
            for epsilon in EPSILONS:
                for method, theta, alpha, mechanism in maps(1024, epsilon, (5, 10)):
                    key = (name, method, theta, alpha, epsilon, repeat)
                    if key in table:
                        continue
                    released = mechanism.release(values)
                    if method == "piecewise":
                        released = np.clip(np.rint(mechanism.unbiased(released)), 1, 1024).astype(np.int64)
                    table.add(key, {"mse": float(np.mean((shares(released, ends) - truth) ** 2))})
                    best = (name, f"{method}+most_likely", theta, alpha, epsilon, repeat)
                    if method == "global_map" and repeat < 3 and best not in table:
                        estimate = RangeQueries.most_likely(mechanism, released, iterations=200).answer(*ends)
                        table.add(best, {"mse": float(np.mean((estimate - truth) ** 2))})


def shares(values: Any, ends: Any) -> Any:
    """The share of the values in each range."""
    total = np.concatenate([[0], np.cumsum(np.bincount(values, minlength=1025)[1:1025])]) / len(values)
    return total[ends[1]] - total[ends[0] - 1]


def betas() -> None:
    table = Table("beta", ["data", "quantile", "method", "theta", "alpha", "epsilon"], ["exact", "printed"])
    uniform = np.arange(1, 101)
    normal = np.clip(np.rint(np.random.default_rng(0).normal(50, 15, 100)), 1, 100).astype(np.int64)
    for epsilon in (*EPSILONS, 10.24, 20.48):
        for method, theta, alpha, mechanism in maps(100, epsilon, (4,)):
            for name, values in (("uniform", uniform), ("normal", np.sort(normal))):
                for quantile in (25, 50):
                    key = (name, quantile, method, theta, alpha, epsilon)
                    if key not in table:
                        sides = mechanism, values[values < values[quantile]], values[values >= values[quantile]]
                        table.add(key, {"exact": split_survives(*sides), "printed": printed_beta(*sides)})


def speed() -> None:
    """Least CPU seconds of seven runs, from a column of raw numbers to randomized ones."""
    table = Table("speed", ["method", "theta", "alpha", "epsilon", "sampler"], ["cpu_seconds"])
    column = np.random.default_rng(0).uniform(1, 100, size=(100_000, 1))
    for epsilon in (0.08, 1.28):
        for sampler in ("exponential", "bounded_discrete_laplace"):
            for method, theta, alpha, _ in maps(100, epsilon, (4, 10)):
                key = (method, theta, alpha, epsilon, sampler)
                if key in table or (sampler != "exponential" and method in ("piecewise", "grr")):
                    continue
                transformer = OrderPreservingTransformer(
                    method, epsilon=epsilon, theta=theta or 2, alpha=alpha or 2.0, levels=100, sampler=sampler,
                    domain={0: (1, 100)},
                ).fit(column)  # fmt: skip
                transformer.transform(column)
                runs = []
                for _ in range(7):
                    started = time.process_time()
                    transformer.transform(column)
                    runs.append(time.process_time() - started)
                table.add(key, {"cpu_seconds": min(runs)})


def run(folder: Path, repeats: int) -> None:
    adult = pd.read_parquet(folder / "adult.parquet").iloc[:32561]
    speed()
    betas()
    kendall(adult["age"].to_numpy().astype(np.int64), repeats)
    weight = np.clip(np.rint(1 + adult["fnlwgt"].to_numpy() / 1_500_000 * 1023), 1, 1024).astype(np.int64)
    ranges({"fnlwgt": weight, "uniform": np.random.default_rng(1).integers(1, 1025, 10_000)}, repeats)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=10)
    arguments = parser.parse_args()
    run(arguments.data, arguments.repeats)
