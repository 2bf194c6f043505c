"""Every party and the server run the same training loop; only sums cross.

The loop (:func:`ledgerwood.learners.trees.boost.boost`) is a function of public facts, public randomness and the
answers so far. So each side runs it from the start with the answers that it has, until it needs more: the questions
that wait then are the next round. A party's aggregator holds its rows, the server's holds none. No state is kept
between rounds but the answers, which are released numbers; a party that lost its process goes on from them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.errors import ParameterError
from ledgerwood.learners.federated.task import FederatedTask
from ledgerwood.learners.trees.boost import boost
from ledgerwood.learners.trees.forest import Forest
from ledgerwood.learners.trees.noise import GaussianSums
from ledgerwood.learners.trees.seam import Aggregator, Channel, Edges, PartialTree, Sample, Structure, Task, Tree

__all__ = ["Question", "Step", "step"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """One release: its label and this side's exact sums (zeros on the server), in coarse units."""

    label: str
    value: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """Where the loop stands: the questions of the next round, or the model if there are none."""

    questions: tuple[Question, ...]
    forest: Forest

    @property
    def done(self) -> bool:
        """Whether the training is complete."""
        return not self.questions

    @property
    def length(self) -> int:
        """Entries of the round's vector."""
        return sum(q.value.size for q in self.questions)


class _Waiting(Exception):
    """The loop needs answers that have not come yet."""


@dataclass
class _AnswerDoor:
    """Gives the answers so far, then collects questions: their answers stay unknown until the round is opened."""

    answers: Sequence[Ints]
    coarsen: int
    asked: int = 0
    waiting: list[Question] = field(default_factory=list)

    def release(self, mechanism: Any, value: Any, label: str) -> Any:
        if not isinstance(mechanism, GaussianSums):
            raise ParameterError("mechanism", "be Gaussian sums in a federated training", type(mechanism).__name__)
        exact = np.asarray(value, dtype=np.int64)
        self.asked += 1
        if self.asked <= len(self.answers):
            return self.answers[self.asked - 1].reshape(exact.shape) << self.coarsen
        self.waiting.append(Question(label, exact >> self.coarsen))
        return np.zeros(exact.shape, dtype=np.int64)

    def settled(self) -> None:
        """Stop where the loop would act on an answer that is not there."""
        if self.waiting:
            raise _Waiting


@dataclass
class _Gate:
    """The aggregator, closed to questions that depend on answers not yet known."""

    inner: Aggregator
    door: _AnswerDoor

    @property
    def n_features(self) -> int:
        return self.inner.n_features

    def start(self, task: Task) -> None:
        self.inner.start(task)

    def bin(self, edges: Edges) -> None:
        self.door.settled()
        self.inner.bin(edges)

    def sample(self, sample: Sample | None) -> None:
        raise ParameterError("rows", "be 1 in a federated training", sample)

    def histogram(self, tree: PartialTree, features: NDArray[np.int32], channel: Channel) -> Ints:
        if tree.depth:  # its splits came from answers
            self.door.settled()
        return self.inner.histogram(tree, features, channel)

    def leaf_sums(self, trees: Sequence[Structure], channel: Channel) -> Ints:
        self.door.settled()
        return self.inner.leaf_sums(trees, channel)

    def add(self, trees: Sequence[Tree]) -> None:
        self.door.settled()
        self.inner.add(trees)


def step(task: FederatedTask, aggregator: Aggregator, answers: Sequence[Ints]) -> Step:
    """Run the loop with the answers so far; return the next round's questions, or the model.

    Parameters
    ----------
    task
        The public facts.
    aggregator
        This side's rows (none on the server).
    answers
        The opened totals of all earlier questions, in order and in coarse units.
    """
    door = _AnswerDoor(answers, task.coarsen)
    kept: list[Forest] = []
    keep: Callable[[Forest], None] = kept.append
    rng = np.random.default_rng(int(task.seed, 16))
    try:
        gate = _Gate(aggregator, door)
        forest = boost(task.settings, task.domain, gate, door, task.loop_plan, rng=rng, keep=keep, balanced=False)
    except _Waiting:
        settings = task.settings
        empty = Forest((), (), (), settings.make_loss().n_outputs, settings.loss, settings.leaf == "average")
        return Step(tuple(door.waiting), kept[-1] if kept else empty)
    return Step((), forest)
