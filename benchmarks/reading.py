"""Reading a CSV file, beside pandas in the same run: ``python -m benchmarks.reading [--rows 1000000]``.

Three files of 28 columns: numbers of six decimals, numbers as ``repr`` writes them (17 digits), and half texts. pandas
guesses types from all values, which a private reader must not do; it is here for its speed.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ledgerwood.learners import Schema
from ledgerwood.learners.data.files import open_files, read_training

COLUMNS = 28


def table(kind: str, rows: int) -> tuple[pd.DataFrame, Schema]:
    rng = np.random.default_rng(0)
    names = [f"x{i}" for i in range(COLUMNS)]
    frame = pd.DataFrame(rng.normal(size=(rows, COLUMNS)), columns=names)
    if kind != "17 digits":
        frame = frame.round(6)
    words = ["red", "green", "blue", "a longer value"]
    texts = names[::2] if kind == "half texts" else []
    for name in texts:
        frame[name] = np.array(words)[rng.integers(len(words), size=rows)]
    frame["y"] = rng.integers(2, size=rows)
    bounds = {name: (-5.0, 5.0) for name in names if name not in texts}
    return frame, Schema(bounds=bounds, categories=dict.fromkeys(texts, words), classes=[0, 1])


def best(runs: Sequence[Callable[[], Any]], times: int) -> list[tuple[float, float]]:
    """The least CPU and wall seconds of each, in turn: a machine that is busy for a while is busy for all of them."""
    found: list[list[tuple[float, float]]] = [[] for _ in runs]
    for _ in range(times):
        for run, seconds in zip(runs, found, strict=True):
            cpu, wall = time.process_time(), time.perf_counter()
            run()
            seconds.append((time.process_time() - cpu, time.perf_counter() - wall))
    return [(min(cpu for cpu, _ in seconds), min(wall for _, wall in seconds)) for seconds in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=3)
    asked = parser.parse_args()
    print("| file | MB | ours CPU s | pandas CPU s | ratio | ours wall s | pandas wall s | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        for kind in ("six decimals", "17 digits", "half texts"):
            frame, schema = table(kind, asked.rows)
            frame.head(1000).to_csv(path, index=False)
            read_training(open_files(path), "y", schema)  # compiles
            frame.to_csv(path, index=False)
            ours = partial(lambda schema: read_training(open_files(path), "y", schema), schema)
            (cpu, wall), (their_cpu, their_wall) = best((ours, lambda: pd.read_csv(path)), asked.times)
            print(
                f"| {kind} | {path.stat().st_size / 1e6:.0f} | {cpu:.2f} | {their_cpu:.2f} | {cpu / their_cpu:.2f} "
                f"| {wall:.2f} | {their_wall:.2f} | {wall / their_wall:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
