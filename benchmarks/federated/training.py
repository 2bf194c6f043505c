"""A federated training in one process: the same loop, grid and noise, without masks and messages.

The opened total of a round is the sum of the parties' sums and of their noise (tests/learners/federated); here one
object draws that noise for all of them, so an experiment of 200 rounds takes seconds instead of an hour of messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.accounting import Gaussian
from ledgerwood.learners.data.labels import read_labels
from ledgerwood.learners.data.table import read_columns
from ledgerwood.learners.federated.distributed_noise import SkellamShare
from ledgerwood.learners.federated.task import FederatedTask
from ledgerwood.learners.trees.planned_noise import GaussianSums


@dataclass
class _Total:
    """Answers at once with what the server would open when all parties answer."""

    task: FederatedTask
    records: int

    def release(self, mechanism: Any, value: Any, label: str) -> NDArray[np.int64]:
        grid = self.task.grid(label, float(mechanism.sensitivity))
        cost = self.task.plan[label].priced(self.task.plan.neighbours)
        exact = grid.coarse(np.asarray(value, dtype=np.int64))
        if self.task.noise == "central":
            assert isinstance(cost, Gaussian)
            return grid.fine(GaussianSums(cost, grid.l2).release(exact))
        shares = self.records if self.task.noise == "local" else len(self.task.identities) / self.task.honest
        return grid.fine(SkellamShare(cost, self.task.variance(label, grid) * shares, 1).release(exact))

    def require_answers(self) -> None:
        """Every answer is known."""


def trained(task: FederatedTask, X: Any, y: Any) -> Any:
    """Return the model of a training in which every party answers every round."""
    labels = read_labels(np.asarray(y), task.schema.classes)
    rows = task.job.rows(read_columns(X, task.schema).table(), labels)
    return task.job.train(rows, _Total(task, len(labels.values)), task.ratios, lambda model: None)
