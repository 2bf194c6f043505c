"""The tables of the benchmark and their public facts: files of a folder, and the DP-XGB paper's simulated problems."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ledgerwood.learners import Schema

SIMULATED = ("simulated1", "simulated2")


@dataclass(frozen=True)
class Problem:
    """A table, its target, its schema."""

    X: pd.DataFrame
    y: np.ndarray
    schema: Schema
    task: str

    def split(self, seed: int, rows: int | None = None) -> tuple[pd.DataFrame, np.ndarray, pd.DataFrame, np.ndarray]:
        """70 % for training, 30 % for testing; at most ``rows`` of the training part."""
        order = np.random.default_rng(seed).permutation(len(self.y))
        cut = int(0.7 * len(order))
        train, test = order[:cut][:rows], order[cut:]
        return self.X.iloc[train], self.y[train], self.X.iloc[test], self.y[test]


@lru_cache(maxsize=16)
def load(name: str, folder: str, seed: int = 0) -> Problem:
    """Return a problem; a simulated one is drawn anew for every seed, as in the DP-XGB paper."""
    if name in SIMULATED:
        return _simulated(name, seed)
    meta = {d["name"]: d for d in json.loads((Path(folder) / "datasets.json").read_text())["datasets"]}
    of = {"california_binary": "california", "covtype_binary": "covtype_100k"}.get(name, name)
    info = meta[of]
    frame = pd.read_parquet(Path(folder) / info["file"])
    if name == "credit1":
        frame = frame.dropna(subset=["MonthlyIncome"])
    y = frame.pop("target").to_numpy()
    facts: dict[str, Any] = {
        "bounds": {column: (b["min"], b["max"]) for column, b in info["bounds"].items()},
        "categories": info["categorical"],
    }
    task = info["task"]
    if name == "california_binary":
        y, task = (y > np.median(y)).astype(int), "binary"
    if name == "covtype_binary":
        y, task = (y == 2).astype(int), "binary"
    if task == "regression":
        bounds = info["target_bounds"]
        return Problem(frame, y.astype(float), Schema(**facts, target_bounds=(bounds["min"], bounds["max"])), task)
    return Problem(frame, y.astype(int), Schema(**facts, classes=np.unique(y).astype(int).tolist()), task)


def _simulated(name: str, seed: int) -> Problem:
    """DP-XGB, appendix C.2.1: 10 000 rows, three features, labels by interactions (problem 2: and main effects)."""
    rng = np.random.default_rng(seed)
    a, b, c = rng.normal(1, 5, 10_000), rng.normal(-5, 8**0.5, 10_000), rng.normal(-2, 7**0.5, 10_000)
    score = a * b + a * c + b * c + a * b * c + (a + b + c if name == "simulated2" else 0)
    # Five standard deviations around the published means: what a user of the problem knows.
    bounds = {"x1": (-24.0, 26.0), "x2": (-19.2, 9.2), "x3": (-15.3, 11.3)}
    frame = pd.DataFrame({"x1": a, "x2": b, "x3": c})
    return Problem(frame, (score > 0).astype(int), Schema(bounds=bounds, classes=[0, 1]), "binary")
