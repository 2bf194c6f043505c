"""CPU seconds of the same tasks on two source trees, one after the other many times.

    python -m benchmarks.before_after BEFORE/src AFTER/src [--rounds 15] [--only NAME …]

A busy machine moves the CPU time of one run by tens of percents, mostly upwards. So each round starts a fresh process
on the one tree and then on the other, which warms the task up and measures it several times; the least time of all
rounds is compared. Only what both trees offer under the same public names can be a task.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Task = Callable[[], Any]


def _forget() -> None:
    """Empty every cache of the accounting package."""
    for name, module in list(sys.modules.items()):
        if name.startswith("ledgerwood.accounting"):
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


def price() -> Task:
    from ledgerwood.accounting import BoundedRange, Gaussian

    return lambda: (200 * BoundedRange(0.0339) + 50 * Gaussian(sigma=45.0)).epsilon(1 / 32561)


def account() -> Task:
    from ledgerwood.accounting import BoundedRange, Gaussian, Laplace

    return lambda: (30 * BoundedRange(0.1) + 10 * Gaussian(sigma=20.0) + 5 * Laplace(scale=30.0)).account(1e-6)


def sampled() -> Task:
    from ledgerwood.accounting import Gaussian, PoissonSubsampled

    return lambda: (1000 * PoissonSubsampled(Gaussian(sigma=1.0), rate=0.01)).epsilon(1e-5)


def calibration() -> Task:
    from ledgerwood.accounting import BoundedRange, Gaussian, calibrate, sequence

    def cost(scale: float) -> Any:
        return sequence([(BoundedRange(scale), 60), (Gaussian(mu=scale), 20)])

    return lambda: calibrate(cost, epsilon=1.0, delta=1e-5)


def _releases(ledger: Any, times: int) -> None:
    from ledgerwood.mechanisms import LaplaceMechanism

    mechanism = LaplaceMechanism(scale=1e5)
    for _ in range(times):
        ledger.release(mechanism, 1.0, label="r")


def ledger_in_memory() -> Task:
    from ledgerwood.accounting import Ledger

    return lambda: _releases(Ledger(1.0, 1e-6), 500)


def ledger_on_disk() -> Task:
    from ledgerwood.accounting import Ledger

    memory = Path("/dev/shm")  # what the disk's fsync takes of the CPU is no part of the ledger

    def work() -> None:
        folders = tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None)
        with folders as folder, Ledger.open(Path(folder) / "journal", 1.0, 1e-6) as ledger:
            _releases(ledger, 100)

    return work


def _trees(recipe: str) -> Task:
    import numpy as np

    from ledgerwood.learners import PrivateBoostingClassifier, Schema

    rng = np.random.default_rng(0)
    X = rng.uniform(size=(20_000, 10))
    y = (X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(scale=0.2, size=len(X)) > 0.8).astype(int)
    schema = Schema(bounds=dict.fromkeys(range(10), (0.0, 1.0)), classes=[0, 1])

    def work() -> None:
        model = PrivateBoostingClassifier(
            recipe=recipe, epsilon=1.0, delta=1e-6, n_trees=20, max_depth=4, schema=schema, random_state=0
        )
        model.fit(X, y).predict(X)

    return work


def trees() -> Task:
    return _trees("xgb")


def trees_ebm() -> Task:
    return _trees("dp_ebm")


def _audit(scale: float) -> Task:
    from ledgerwood.accounting import PureDP
    from ledgerwood.verification import audit

    class Noisy:
        def __call__(self, data: Any, rng: Any) -> float:
            return float(data[0] + rng.laplace(scale=scale))

        def sample(self, data: Any, n: int, rng: Any) -> Any:
            return data[0] + rng.laplace(scale=scale, size=n)

    return lambda: audit(Noisy(), PureDP(1.0), pair=((0.0,), (1.0,)), samples=100_000, seed=1)


def audit_right() -> Task:
    return _audit(1.0)


def audit_wrong() -> Task:
    return _audit(0.5)


TASKS = {
    f.__name__: f
    for f in (
        price,
        account,
        sampled,
        calibration,
        ledger_in_memory,
        ledger_on_disk,
        trees,
        trees_ebm,
        audit_right,
        audit_wrong,
    )
}


def measure(name: str, runs: int) -> float:
    """CPU seconds of a task in this process, the least of several runs after one that warms it up."""
    work = TASKS[name]()
    work()
    best = math.inf
    for _ in range(runs):
        _forget()
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("trees", nargs="*", type=Path, help="the src folders: before and after")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--runs", type=int, default=3, help="measurements in one process")
    parser.add_argument("--only", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--measure", choices=list(TASKS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options.runs)))
        return
    before, after = options.trees
    print("| task | before, CPU s | after | ratio of the least | median ratio of a round |\n|---|---|---|---|---|")
    for name in options.only:
        times: list[list[float]] = [[], []]
        for _ in range(options.rounds):
            for side, tree in enumerate((before, after)):
                command = [sys.executable, __file__, "--measure", name, "--runs", str(options.runs)]
                done = subprocess.run(
                    command, env={**os.environ, "PYTHONPATH": str(tree)}, capture_output=True, text=True, check=True
                )
                times[side].append(json.loads(done.stdout.splitlines()[-1]))
        old, new = (min(side) for side in times)
        ratios = sorted(b / a for a, b in zip(*times, strict=True))
        print(f"| {name} | {old:.4f} | {new:.4f} | {new / old:.3f} | {ratios[len(ratios) // 2]:.3f} |", flush=True)


if __name__ == "__main__":
    main()
