"""What a party adds to its sums before they are masked: its share of the noise, charged to its own ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.accounting import Cost, Ledger
from ledgerwood.errors import ParameterError
from ledgerwood.learners.boosting import integer_labels
from ledgerwood.learners.federated.lockstep import Question, Step, step
from ledgerwood.learners.federated.task import FederatedTask
from ledgerwood.learners.tables import read_columns, read_labels, read_target
from ledgerwood.learners.trees.local import LocalAggregator
from ledgerwood.mechanisms.randomness import Rng, source_of
from ledgerwood.mechanisms.sampling import draws

__all__ = ["Party", "SkellamShare", "server_step", "split_answers"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SkellamShare:
    """Adds one party's share of Skellam noise; the cost is that of the total, opened with ``parties`` shares or more.

    A share by itself protects little: the masks of secure aggregation keep it from being seen by itself.
    """

    total: Cost
    variance: float
    parties: int

    @property
    def cost(self) -> Cost:
        """What the opened total costs."""
        return self.total

    def release(self, value: Ints, rng: Rng = None) -> Ints:
        """Return the value with this party's noise."""
        noise = draws.skellam(Fraction(self.variance) / self.parties, value.size, source_of(rng))
        return value + noise.reshape(value.shape)


class Party:
    """One holder of rows.

    Parameters
    ----------
    task
        The public facts that all agreed on.
    X, y
        This party's rows. Values never raise: they are clipped or binned by the schema.
    ledger
        Pays for every attempt of every round, failed ones too; by default one that follows ``task.plan``.
    """

    def __init__(self, task: FederatedTask, X: Any, y: Any, *, ledger: Ledger | None = None) -> None:
        self.task = task
        self.ledger = Ledger(plan=task.plan) if ledger is None else ledger
        columns = read_columns(X, task.schema)
        if tuple(c.name for c in columns.columns) != task.columns:
            rule = f"have the columns of the task, {list(task.columns)}, in this order"
            raise ParameterError("X", rule, [c.name for c in columns.columns])
        bounds = task.schema.target_bounds
        labels = (
            read_labels(np.asarray(y), task.schema.classes) if bounds is None else read_target(np.asarray(y), bounds)
        )
        table = columns.table()
        self._aggregator = LocalAggregator(table.cells, integer_labels(labels, task.settings))

    def step(self, answers: Sequence[Ints]) -> Step:
        """Return the next round's questions with this party's exact sums. They must not leave the party as they are."""
        return step(self.task, self._aggregator, answers)

    def noisy(self, questions: Sequence[Question], rng: Rng = None) -> Ints:
        """Return the round's vector with this party's noise, each question charged before its noise is drawn."""
        parts = []
        for question in questions:
            variance = self.task.variance(question.label)
            cost = self.task.plan[question.label].priced(self.task.plan.neighbours)
            mechanism = SkellamShare(cost, variance, self.task.honest)
            parts.append(self.ledger.release(mechanism, question.value.ravel(), label=question.label, rng=rng))
        return np.concatenate(parts)


def server_step(task: FederatedTask, answers: Sequence[Ints]) -> Step:
    """Return where the loop stands on the side that holds no rows."""
    cells = tuple(np.empty(0, dtype=np.int32 if n else np.float32) for n in task.domain.categories)
    return step(task, LocalAggregator(cells, np.empty(0, dtype=np.int32)), answers)


def split_answers(questions: Sequence[Question], total: Ints) -> list[Ints]:
    """Return a round's opened vector as one answer per question."""
    ends = np.cumsum([q.value.size for q in questions])
    return list(np.split(total, ends[:-1]))
