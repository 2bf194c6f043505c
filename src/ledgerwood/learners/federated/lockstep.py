"""Every party and the server run the same training loop; only sums are sent.

The loop of a job is a function of public metadata, public randomness and the answers so far. So each side runs it from
the start with the answers that it has, until it needs more: the queries that wait then are the next round. A
party's side holds its rows, the server's holds none. No state is kept between rounds but the answers, which are
released numbers; a party that lost its process goes on from them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ledgerwood.accounting import Gaussian
from ledgerwood.errors import ParameterError
from ledgerwood.learners.data.columns import Ints
from ledgerwood.learners.federated.distributed_noise import NoiseGrid
from ledgerwood.learners.federated.task import FederatedTask

__all__ = ["Step", "SumQuery", "server_step", "split_answers", "step"]


@dataclass(frozen=True, slots=True, eq=False)
class SumQuery:
    """One release: its label, its grid, and this side's exact sums (zeros on the server) in coarse steps."""

    label: str
    grid: NoiseGrid
    value: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """Where the loop stands: the queries of the next round and the model so far, or the model if there are none.

    ``history`` is a hash of the task and of the answers that led there.
    """

    queries: tuple[SumQuery, ...]
    model: Any
    history: bytes

    @property
    def done(self) -> bool:
        """Whether the training is complete."""
        return not self.queries

    @property
    def length(self) -> int:
        """Entries of the round's vector."""
        return sum(q.value.size for q in self.queries)

    @property
    def digest(self) -> bytes:
        """A hash of what is asked and of all that led there: sides that would add different things differ in it."""
        asked = [(q.label, q.value.shape, q.grid.sensitivity.hex(), q.grid.shift) for q in self.queries]
        return hashlib.sha256(self.history + repr(asked).encode()).digest()


class _Waiting(Exception):
    """The loop needs answers that have not come yet."""


@dataclass
class _AnswerSession:
    """Gives the answers so far, then collects queries: their answers stay unknown until the round is opened.

    An unknown answer is a placeholder of the right shape, so that the loop can go on to queries that do not depend on
    it and one round of messages holds them all. Before a loop acts on answers it calls :meth:`require_answers`.
    """

    task: FederatedTask
    answers: Sequence[Ints]
    released: int = 0
    unanswered: list[SumQuery] = field(default_factory=list)

    def release(self, mechanism: Any, value: Any, label: str) -> Any:
        """Return the answer if it is known, else note the query and return a placeholder."""
        if not isinstance(mechanism.cost, Gaussian) or not isinstance(mechanism.sensitivity, float):
            raise ParameterError("mechanism", "be Gaussian sums in a federated training", type(mechanism).__name__)
        grid = self.task.grid(label, mechanism.sensitivity)
        exact = np.asarray(value, dtype=np.int64)
        place = self.released
        self.released += 1
        if place < len(self.answers):
            return grid.fine(self.answers[place].reshape(exact.shape))
        self.unanswered.append(SumQuery(label, grid, grid.coarse(exact)))
        return np.zeros_like(exact)

    def sample_key(self) -> tuple[int, int]:
        raise ParameterError("recipe", "use all rows: the server must not know which are sampled", "sampled rows")

    def require_answers(self) -> None:
        """Stop where the loop would act on an answer that is not there."""
        if self.unanswered:
            raise _Waiting


def step(task: FederatedTask, rows: Any, answers: Sequence[Ints]) -> Step:
    """Run the loop with the answers so far; return the next round's queries, or the model.

    Parameters
    ----------
    task
        The public metadata.
    rows
        This side's rows, as ``task.job`` reads them.
    answers
        The opened totals of all earlier queries, in order and in coarse steps.
    """
    session = _AnswerSession(task, answers)
    kept: list[Any] = [task.job.untrained()]
    try:
        model = task.job.train(rows, session, task.ratios, kept.append)
        session.require_answers()  # a loop may end with its last answers unread
    except _Waiting:
        return Step(tuple(session.unanswered), kept[-1], _history(task, answers))
    return Step((), model, _history(task, answers))


def _history(task: FederatedTask, answers: Sequence[Ints]) -> bytes:
    h = hashlib.sha256(task.to_json().encode())
    for answer in answers:
        h.update(b"|%d|" % answer.size + np.ascontiguousarray(answer, dtype="<i8").tobytes())
    return h.digest()


def server_step(task: FederatedTask, answers: Sequence[Ints]) -> Step:
    """Return where the loop stands on the side that holds no rows."""
    return step(task, task.job.nobody(), answers)


def split_answers(queries: Sequence[SumQuery], total: Ints) -> list[Ints]:
    """Return a round's opened vector as one answer per query."""
    ends = np.cumsum([q.value.size for q in queries])
    return list(np.split(total, ends[:-1]))
