"""The experiments as a list of jobs: Tables 5 and 6 of Maddock et al., who adds the noise, and how many share it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from sklearn.metrics import roc_auc_score

from benchmarks.auto.problems import load
from benchmarks.federated.training import trained
from ledgerwood.learners.federated.task import FederatedTask

TABLES = ("bank", "credit1", "credit2", "adult")
_P2 = {"max_depth": 4, "learning_rate": 0.3, "n_bins": 32, "l2": 2.0}
TABLE_5 = {
    "IH (s=5)": {"recipe": "tr_ada", "sketch_rounds": 5},
    "Quantiles": {"recipe": "tr", "candidates": "quantiles"},
    "Log": {"recipe": "tr", "candidates": "log"},
    "Uniform": {"recipe": "tr"},
}
TABLE_6 = {
    "Batch (B=10)": {"recipe": "tr", "batch": 10},
    "Batch (B=20)": {"recipe": "tr", "batch": 20},
    "Batch (B=200)": {"recipe": "tr", "batch": 200},
    "DP-RF (B=200)": {"recipe": "dp_rf"},
    "Newton (B=1)": {"recipe": "tr"},
}
NOISES = ("central", "shares", "local")
PARTIES = (3, 10, 30, 100)


@dataclass(frozen=True)
class Job:
    """One training on one split."""

    experiment: str
    table: str
    method: str
    split: int
    epsilon: float
    options: tuple[tuple[str, Any], ...]
    noise: str = "shares"
    parties: int = 3
    threshold: int = 3

    @property
    def key(self) -> str:
        """What tells it from the others."""
        return f"{self.experiment}|{self.table}|{self.method}|{self.split}"

    def run(self, folder: str) -> dict[str, Any]:
        """Train, and return the AUC on the held-out part."""
        problem = load(self.table, folder)
        X, y, X_test, y_test = problem.split(self.split)
        options = dict(self.options)
        recipe = options.pop("recipe")
        local = self.noise == "local"
        schema = replace(problem.schema, neighbours="replace_one") if local else problem.schema
        task = FederatedTask(
            schema, tuple(X.columns), {i: f"{i:064x}" for i in range(self.parties)}, self.threshold, rows=200_000,
            recipe=recipe, options=options, epsilon=self.epsilon, delta=1 / len(y), noise=self.noise,
            resolution=3 if local or self.parties > 9 * self.threshold else 8, seed=secrets.token_hex(32),
        )  # fmt: skip
        began = time.process_time()
        model = trained(task, X, y)
        spent = time.process_time() - began
        auc = roc_auc_score(y_test, task.job.probabilities(model, X_test)[:, 1])
        return {"key": self.key, "auc": round(float(auc), 5), "cpu": round(spent, 2)}


BATCHED = (("batch", 25), ("n_trees", 100), ("recipe", "tr_cyc"))


def _options(**options: Any) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(options.items()))


def all_jobs(splits: int) -> Iterator[Job]:
    """Yield every job, split by split, so that what is there at any time covers all tables."""
    for split in range(splits):
        for table in TABLES:
            for form in ("paper", "tight"):
                extra = {"accounting": "paper"} if form == "paper" else {}
                for method, how in TABLE_5.items():
                    options = _options(**{**_P2, "n_trees": 100, **extra, **how})
                    yield Job("table5", table, f"{method} {form}", split, 1.0, options)
                for method, how in TABLE_6.items():
                    options = _options(**{**_P2, "n_trees": 200, **extra, **how})
                    yield Job("table6", table, f"{method} {form}", split, 0.1, options)
        for table in ("adult", "credit1"):
            for epsilon in (0.1, 1.0):
                for noise in NOISES[: 2 if split else 3]:  # local noise is slow and learns nothing: one split will do
                    yield Job("noise", table, f"{noise} {epsilon:g}", split, epsilon, BATCHED, noise)
            for n in PARTIES:
                for name, fewest in (("all", n), ("two thirds", -(-2 * n // 3)), ("each alone", 1)):
                    yield Job("parties", table, f"{name} {n}", split, 0.1, BATCHED, "shares", n, fewest)
