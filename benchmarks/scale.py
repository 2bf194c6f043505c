"""Scale: the cost of leaving memory, and the machine: ``python -m benchmarks.scale memory | ratio | cluster | units``.

``memory``   out of core on generated rows (28 columns), each size in a fresh process: seconds per tree, most memory.
``ratio``    the same training in memory and out of core, in one run: CPU and wall time.
``cluster``  a Dask cluster of two processes against the same sums here: milliseconds per round trip over the local
             kernel, and bytes of answers.
``units``    one row of each unit is kept, where a unit's rows lie in any parts: seconds, most memory.

Rows are generated when they are read, so nothing is stored but what the engine spills to the temporary folder.
"""

from __future__ import annotations

import argparse
import json
import pickle
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from ledgerwood.learners import PrivateBoostingClassifier, Schema
from ledgerwood.learners.engines import DaskEngine, Partitions

FEATURES = 28
PART = 1 << 20
NAMES = [f"x{i}" for i in range(FEATURES)]
SCHEMA = Schema(bounds=dict.fromkeys(NAMES, (0, 1)), classes=[0, 1])


def rows(seed: int, count: int) -> pd.DataFrame:
    """Made-up rows, the same for the same seed."""
    rng = np.random.default_rng(seed)
    columns = {name: rng.random(count, dtype=np.float32) for name in NAMES}
    columns["y"] = (columns["x0"] + columns["x1"] * columns["x2"] > 0.75).astype(np.int64)
    return pd.DataFrame(columns)


@dataclass(frozen=True)
class GeneratedPart:
    """A part whose rows are made whenever it is loaded."""

    seed: int
    rows: int

    def load(self) -> pd.DataFrame:
        return rows(self.seed, self.rows)


def table(count: int, part: int = PART) -> Partitions:
    sizes = [min(part, count - start) for start in range(0, count, part)]
    parts = tuple(GeneratedPart(seed, size) for seed, size in enumerate(sizes))
    return Partitions(parts, "y", rows(0, 2))


def model(recipe: str, trees: int, **options: Any) -> PrivateBoostingClassifier:
    sizes: dict[str, Any] = {"max_depth": 6, "epsilon": 1.0, "delta": 1e-9, "schema": SCHEMA, "random_state": 0}
    return PrivateBoostingClassifier(recipe=recipe, n_trees=trees, **sizes, **options)


class Memory(threading.Thread):
    """Looks at this process's memory twice a second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.curve: list[tuple[float, int, int]] = []
        self.began = time.monotonic()

    def run(self) -> None:
        while True:
            self.curve.append((round(time.monotonic() - self.began, 1), *self.look()))
            time.sleep(0.5)

    @staticmethod
    def look() -> tuple[int, int]:
        """Return all resident memory, and the part of it that is no file, in MB."""
        with open("/proc/self/status") as file:
            found = dict(line.split(":", 1) for line in file if line.startswith(("VmRSS", "RssAnon")))
        return tuple(int(found[name].split()[0]) // 1024 for name in ("VmRSS", "RssAnon"))  # type: ignore[return-value]


def one_size(count: int, recipe: str, trees: int) -> dict[str, Any]:
    """Train out of core in this process, and say what it took."""
    memory, marks = Memory(), []
    memory.start()
    began, cpu = time.monotonic(), time.process_time()

    def mark(progress: Any) -> None:
        marks.append((time.monotonic(), time.process_time()))
        print(f"{progress.done}/{progress.total} {time.monotonic() - began:.0f} s {Memory.look()} MB", file=sys.stderr)

    model(recipe, trees, callbacks=[mark]).fit(table(count))
    per_tree = [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(marks)]
    curve = memory.curve
    step = max(1, len(curve) // 24)
    return {
        "rows": count,
        "recipe": recipe,
        "trees": trees,
        "seconds": round(time.monotonic() - began, 1),
        "cpu_seconds": round(time.process_time() - cpu, 1),
        "seconds_until_first_tree": round(marks[0][0] - began, 1),
        "seconds_per_release": round(float(np.median([wall for wall, _ in per_tree])), 2),
        "cpu_seconds_per_release": round(float(np.median([own for _, own in per_tree])), 2),
        "most_resident_mb": max(all_ for _, all_, _ in curve),
        "most_anonymous_mb": max(own for _, _, own in curve),
        "curve": curve[::step],
    }


def memory_sizes(counts: list[int], recipe: str, trees: int) -> None:
    for count in counts:
        command = [sys.executable, "-m", "benchmarks.scale", "one", "--rows", str(count), "--recipe", recipe]
        done = subprocess.run([*command, "--trees", str(trees)], stdout=subprocess.PIPE, check=True, text=True)
        print(done.stdout.strip().splitlines()[-1], flush=True)


def ratio(count: int, recipe: str, trees: int) -> None:
    """In memory and out of core, interleaved; binning and reading are told apart by the first release."""
    whole = pd.concat([part.load() for part in table(count).parts], ignore_index=True)
    parts = Partitions.of_frames([whole.iloc[i : i + PART] for i in range(0, count, PART)], target="y")
    found: dict[str, list[tuple[float, float, float]]] = {"memory": [], "out_of_core": []}
    for _ in range(3):
        for name, given in (("memory", (whole[NAMES], whole["y"])), ("out_of_core", (parts,))):
            marks: list[float] = []
            began, cpu = time.monotonic(), time.process_time()
            fitted = model(recipe, trees, callbacks=[lambda _, marks=marks: marks.append(time.monotonic())])
            fitted.fit(*given)
            found[name].append((time.monotonic() - began, time.process_time() - cpu, float(np.median(np.diff(marks)))))
    best = {name: np.min(np.array(runs), axis=0) for name, runs in found.items()}
    print(
        json.dumps(
            {
                "rows": count,
                "recipe": recipe,
                "trees": trees,
                **{name: [round(float(x), 3) for x in values] for name, values in best.items()},
                "wall_ratio": round(float(best["out_of_core"][0] / best["memory"][0]), 2),
                "cpu_ratio": round(float(best["out_of_core"][1] / best["memory"][1]), 2),
                "release_ratio": round(float(best["out_of_core"][2] / best["memory"][2]), 2),
            }
        )
    )


def cluster(count: int, recipe: str, trees: int, workers: int = 2) -> None:
    """Time every question on a cluster and here, and count the bytes of the answers."""
    from distributed import Client, LocalCluster

    from ledgerwood.learners.engines import dask as engine

    parts = table(count, count // workers)
    times: list[float] = []
    bytes_: list[tuple[int, int]] = []
    query = engine.DaskSums.query

    def timed(self: Any, name: str, *arguments: Any) -> Any:
        began = time.monotonic()
        answer = query(self, name, *arguments)
        times.append(time.monotonic() - began)
        bytes_.append((len(pickle.dumps(answer, protocol=5)), answer.size * 8))
        return answer

    engine.DaskSums.query = timed  # type: ignore[method-assign]
    options: dict[str, Any] = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(memory_limit=0, **options) as started, Client(started) as client:
        kernels = client.run(_time_answers)  # from now on workers time their own sums
        del kernels
        model(recipe, trees, engine=DaskEngine(client)).fit(parts)
        inside = list(client.run(_answer_times).values())
    # The k-th question: all workers sum at once, so the slowest of them is the local kernel's share.
    longest = [max(ts) for ts in zip(*inside, strict=False)]
    over = np.array(times[1:]) - np.array(longest[1 : len(times)])
    body = {
        "rows": count,
        "recipe": recipe,
        "workers": workers,
        "round_trips": len(over),
        "local_ms": round(float(np.median(longest[1:])) * 1000, 1),
        "round_trip_ms": round(float(np.median(times[1:])) * 1000, 1),
        "overhead_ms": round(float(np.median(over)) * 1000, 1),
        "bytes_over_sums": round(max(sent / sums for sent, sums in bytes_[1:] if sums > 4096), 4),
    }
    print(json.dumps(body))


def units(count: int) -> None:
    """Keep one row of each made-up id, of which one in a hundred comes twice."""
    from ledgerwood.learners.engines.out_of_core import grouped

    memory = Memory()
    memory.start()
    before, began, cpu = Memory.look(), time.monotonic(), time.process_time()
    sizes = [min(PART, count - start) for start in range(0, count, PART)]

    def identities() -> Any:
        for seed, size in enumerate(sizes):
            ids = np.arange(seed * PART, seed * PART + size, dtype=np.uint64)
            ids[::100] //= np.uint64(2)
            yield np.stack([ids * np.uint64(0x9E3779B97F4A7C15), ids], axis=1)  # spread over the buckets

    found = grouped(identities(), sizes, 1, b"key")
    body = {
        "rows": count,
        "kept": sum(rows.count(size) for rows, size in zip(found, sizes, strict=True)),
        "seconds": round(time.monotonic() - began, 1),
        "cpu_seconds": round(time.process_time() - cpu, 1),
        "resident_mb_before": before[0],
        "most_resident_mb": max(all_ for _, all_, _ in memory.curve),
        "most_anonymous_mb": max(own for _, _, own in memory.curve),
    }
    print(json.dumps(body))


def _time_answers() -> None:
    """On a worker: time what it sums."""
    from ledgerwood.learners.trees.local_aggregator import LocalAggregator

    for name in ("histogram", "leaf_sums"):
        inner = getattr(LocalAggregator, name)

        def timed(self: Any, *arguments: Any, inner: Any = inner) -> Any:
            began = time.monotonic()
            found = inner(self, *arguments)
            sys.modules["ledgerwood"].__dict__.setdefault("_scale_times", []).append(time.monotonic() - began)
            return found

        setattr(LocalAggregator, name, timed)


def _answer_times() -> list[float]:
    return [0.0, *sys.modules["ledgerwood"].__dict__.get("_scale_times", [])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["memory", "ratio", "cluster", "units", "one"])
    parser.add_argument("--rows", type=int, nargs="+", default=None)
    parser.add_argument("--recipe", default=None)
    parser.add_argument("--trees", type=int, default=None)
    given = parser.parse_args()
    if given.what == "memory":
        memory_sizes(given.rows or [10**6, 10**7, 10**8], given.recipe or "tr", given.trees or 5)
    elif given.what == "one":
        print(json.dumps(one_size(given.rows[0], given.recipe, given.trees)))
    elif given.what == "units":
        for count in given.rows or [10**6, 10**7, 10**8]:
            units(count)
    elif given.what == "ratio":
        ratio((given.rows or [4_000_000])[0], given.recipe or "xgb", given.trees or 4)
    else:
        cluster((given.rows or [4_000_000])[0], given.recipe or "xgb", given.trees or 5)


if __name__ == "__main__":
    main()
