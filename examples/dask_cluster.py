"""``make demo-dask``: train on a local cluster of processes, lose a worker on the way, get the same model."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROWS, PARTS = 200_000, 8


def _process_number() -> int:
    return os.getpid()


def write_parts(folder: Path) -> None:
    """Write made-up rows as Parquet files."""
    import pyarrow as pa
    from pyarrow import parquet

    for number in range(PARTS):
        rng = np.random.default_rng(number)
        X = rng.uniform(size=(ROWS // PARTS, 6))
        y = (X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(0, 0.2, len(X)) > 0.75).astype(np.int64)
        columns = {**{f"x{i}": X[:, i] for i in range(6)}, "y": y}
        parquet.write_table(pa.table(columns), folder / f"part-{number}.parquet")


def main() -> None:
    """Run the demonstration."""
    from distributed import Client, LocalCluster

    from ledgerwood.learners import PrivateBoostingClassifier, Schema
    from ledgerwood.learners.engines import DaskEngine

    schema = Schema(bounds={f"x{i}": (0, 1) for i in range(6)}, classes=[0, 1])
    options: dict[str, Any] = {"recipe": "xgb", "n_trees": 10, "max_depth": 4, "epsilon": 1.0, "delta": 1e-6}
    options |= {"schema": schema, "random_state": 0}  # a seed: two trainings shall be comparable
    processes = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "host": "127.0.0.1"}
    cluster = LocalCluster(**processes)  # type: ignore[no-untyped-call]
    with tempfile.TemporaryDirectory() as folder, cluster, Client(cluster) as client:  # type: ignore[no-untyped-call]
        write_parts(Path(folder))
        print(f"{ROWS} rows in {PARTS} Parquet files, {len(client.scheduler_info()['workers'])} worker processes")

        def kill(progress: Any) -> None:
            if progress.done == progress.total // 2:
                victim = min(client.run(_process_number).values())
                print(f"release {progress.done} of {progress.total}: SIGKILL to worker process {victim}")
                os.kill(victim, signal.SIGKILL)

        began = time.monotonic()
        model = PrivateBoostingClassifier(engine=DaskEngine(client), callbacks=[kill], **options).fit(folder, "y")
        print(f"trained on the cluster in {time.monotonic() - began:.1f} s")
        alone = PrivateBoostingClassifier(engine="out_of_core", **options).fit(folder, "y")
        same = all(np.array_equal(a.weights, b.weights) for a, b in zip(model.forest_.trees, alone.forest_.trees))
        print(f"the same model, bit for bit, as out of core in one process: {same}")
        print(model.privacy_statement())
        if not same:
            raise SystemExit(1)


if __name__ == "__main__":
    main()
