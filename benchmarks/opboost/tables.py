"""Results as CSV files that a run appends to: a row that is there is not computed again."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


class Table:
    """A CSV file whose first ``keys`` columns name a row."""

    def __init__(self, name: str, keys: list[str], numbers: list[str]) -> None:
        self.path, self.keys, self.numbers = RESULTS / f"{name}.csv", keys, numbers
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

    def select(self, **wanted: Any) -> Iterator[dict[str, str]]:
        for row in self.rows.values():
            if all(row[name] == str(value) for name, value in wanted.items()):
                yield row
