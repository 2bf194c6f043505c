"""A holder of rows: it answers questions about them, each charged to its own ledger before its noise is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.accounting import Ledger
from ledgerwood.errors import ParameterError
from ledgerwood.learners.facts import check_rows
from ledgerwood.learners.federated.lockstep import Question, Step, step
from ledgerwood.learners.federated.noise import PassedOn, SkellamShare
from ledgerwood.learners.federated.task import FederatedTask
from ledgerwood.learners.labels import labels_of, usable_labels
from ledgerwood.learners.linear.rows import MAX_ROWS
from ledgerwood.learners.tables import read_columns
from ledgerwood.mechanisms.randomness import Rng

__all__ = ["Party"]

Ints = NDArray[np.int64]


class Party:
    """One holder of rows.

    Parameters
    ----------
    task
        The public facts that all agreed on.
    X, y
        This party's rows. Values never raise: they are clipped or binned by the schema, and a record whose label is no
        declared class, or no finite number, counts as absent.
    ledger
        Pays for every attempt of every round, failed ones too; by default one that follows ``task.plan``.

    Examples
    --------
    >>> from ledgerwood.learners import Schema
    >>> schema = Schema(bounds={0: (0, 1)}, classes=[0, 1])
    >>> task = FederatedTask(schema, (0,), {1: "aa" * 32, 2: "bb" * 32}, threshold=2, rows=100, recipe="tr_cyc")
    >>> party = Party(task, [[0.2], [0.7]], [0, 1])
    >>> round(party.ledger.remaining().epsilon, 3)
    1.0
    """

    def __init__(self, task: FederatedTask, X: Any, y: Any, *, ledger: Ledger | None = None) -> None:
        self.task = task
        self.ledger = Ledger(plan=task.plan) if ledger is None else ledger
        columns = read_columns(X, task.schema)
        if tuple(c.name for c in columns.columns) != task.columns:
            rule = f"have the columns of the task, {list(task.columns)}, in this order"
            raise ParameterError("X", rule, [c.name for c in columns.columns])
        values, usable = usable_labels(y, task.schema.classes)
        if len(usable) != columns.rows:
            raise ParameterError("y", f"have a label for each of the {columns.rows} rows of X", len(usable))
        self._count = columns.rows
        check_rows(self._count, MAX_ROWS)
        table = columns.take(np.flatnonzero(usable)).table()
        labels = labels_of(values[usable], task.schema.classes, task.schema.target_bounds)
        self._rows = task.job.rows(table, labels)

    def step(self, answers: Sequence[Ints]) -> Step:
        """Return the next round's questions with this party's exact sums. They must not leave the party as they are."""
        return step(self.task, self._rows, answers)

    def noisy(self, questions: Sequence[Question], rng: Rng = None) -> Ints:
        """Return the round's vector with this party's noise, each question charged before its noise is drawn."""
        parts = [
            self.ledger.release(self._mechanism(question), question.value.ravel(), label=question.label, rng=rng)
            for question in questions
        ]
        return np.concatenate(parts)

    def _mechanism(self, question: Question) -> SkellamShare | PassedOn:
        task = self.task
        cost = task.plan[question.label].priced(task.plan.neighbours)
        if task.noise == "central":
            return PassedOn(cost)
        variance = task.variance(question.label, question.grid)
        if task.noise == "local":  # every record adds the whole noise by itself; their number is public here
            return SkellamShare(cost, variance * max(self._count, 1), 1)
        return SkellamShare(cost, variance, task.honest)
