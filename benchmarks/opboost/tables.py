"""Results as CSV files that a run appends to: a row that is there is not computed again.

Every run goes to ``cache`` (not kept in the repository); `summarise` writes means and deviations to ``results``.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
CACHE = Path(__file__).parent / "cache"


class Table:
    """A CSV file whose first ``keys`` columns name a row."""

    def __init__(self, name: str, keys: list[str], numbers: list[str]) -> None:
        self.path, self.keys, self.numbers = CACHE / f"{name}.csv", keys, numbers
        self.rows: dict[tuple[str, ...], dict[str, str]] = {}
        if self.path.exists():
            with self.path.open(newline="") as file:
                for row in csv.DictReader(file):
                    self.rows[tuple(row[key] for key in keys)] = row

    def __contains__(self, key: tuple[Any, ...]) -> bool:
        return tuple(map(str, key)) in self.rows

    def add(self, key: tuple[Any, ...], numbers: Mapping[str, float]) -> None:
        row = dict(zip(self.keys, map(str, key), strict=True)) | {n: f"{numbers[n]:.6g}" for n in self.numbers}
        new = not self.path.exists()
        self.path.parent.mkdir(exist_ok=True)
        with self.path.open("a", newline="") as file:
            writer = csv.DictWriter(file, self.keys + self.numbers, lineterminator="\n")
            if new:
                writer.writeheader()
            writer.writerow(row)
        self.rows[tuple(map(str, key))] = row


def summarise(name: str) -> None:
    """Replace the repeats of each setting by their mean and standard deviation."""
    import pandas as pd

    path = CACHE / f"{name}.csv"
    if not path.exists():
        return
    frame = pd.read_csv(path)
    if "repeat" in frame.columns:
        number = frame.columns[-1]
        keys = [column for column in frame.columns if column not in ("repeat", number)]
        grouped = frame.groupby(keys, sort=False)[number]
        frame = grouped.agg(mean="mean", deviation="std", repeats="count").reset_index()
    RESULTS.mkdir(exist_ok=True)
    frame.to_csv(RESULTS / f"{name}.csv", index=False, float_format="%.6g", lineterminator="\n")


def results(name: str) -> Any:
    """A summary, as a frame."""
    import pandas as pd

    return pd.read_csv(RESULTS / f"{name}.csv")
