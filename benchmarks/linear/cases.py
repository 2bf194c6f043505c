"""Datasets, splits and scores that every script of this folder shares; also read by the peers' own environment.

Imports nothing of Ledgerwood, so that ``peers.py`` can use it where only the peers are installed.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

RESULTS = Path(__file__).parents[1] / "results" / "linear"
CLASSIFICATION = ("a9a", "bank", "credit2")
REGRESSION = ("abalone", "california", "powerplant")
EPSILONS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
DELTA = 1e-6
REPORTED = (0, 1, 2)
"""Splits that are reported. Defaults were chosen on splits 100 and above."""


class Case:
    """A dataset with its public facts."""

    def __init__(self, folder: Path, name: str) -> None:
        facts = {d["name"]: d for d in json.loads((folder / "datasets.json").read_text())["datasets"]}[name]
        frame = pd.read_parquet(folder / facts["file"])
        self.name = name
        self.y = frame["target"].to_numpy()
        self.X = frame.drop(columns="target")
        self.bounds = {column: (b["min"], b["max"]) for column, b in facts["bounds"].items()}
        self.categories = dict(facts.get("categorical", {}))
        self.row_norm: float | None = None
        target = facts.get("target_bounds")
        self.target_bounds = None if target is None else (target["min"], target["max"])
        if name == "a9a":  # 123 indicators of 14 attributes: at most 14 are set
            self.bounds, self.categories = {}, {column: [1] for column in self.X}
            self.row_norm = math.sqrt(14)

    def split(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Return rows to train on (70 %) and to test on."""
        order = np.random.default_rng(seed).permutation(len(self.y))
        cut = int(0.7 * len(order))
        return order[:cut], order[cut:]


def scores(y: np.ndarray, decision: np.ndarray, threshold: float = 0.0) -> dict[str, float]:
    """F1 of the positive class at the threshold, and the area under the ROC curve."""
    from sklearn.metrics import f1_score, roc_auc_score

    return {
        "f1": round(float(f1_score(y, decision > threshold)), 5),
        "auroc": round(float(roc_auc_score(y, decision)), 5),
    }


class Runs:
    """A CSV that grows a row at a time and says what it has: an interrupted benchmark goes on where it stopped."""

    def __init__(self, path: Path, keys: tuple[str, ...], values: tuple[str, ...]) -> None:
        self.path, self.keys, self.values = path, keys, values
        path.parent.mkdir(parents=True, exist_ok=True)
        self._done = {tuple(row[key] for key in keys) for row in self}

    def __iter__(self) -> Iterator[dict[str, str]]:
        if self.path.exists():
            with self.path.open(newline="") as file:
                yield from csv.DictReader(file)

    def has(self, **key: Any) -> bool:
        return tuple(str(key[name]) for name in self.keys) in self._done

    def add(self, **row: Any) -> None:
        fresh = not self.path.exists()
        with self.path.open("a", newline="") as file:
            writer = csv.DictWriter(file, [*self.keys, *self.values], lineterminator="\n")
            if fresh:
                writer.writeheader()
            writer.writerow(row)
        self._done.add(tuple(str(row[name]) for name in self.keys))


RUN_KEYS = ("dataset", "method", "rounds", "epsilon", "seed")
RUN_VALUES = ("f1", "auroc", "cpu")
