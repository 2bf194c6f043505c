"""Sums that sleep while a resumed training recalls what it released before.

Rounds that are wholly on record need no answer of the data: the door gives the stored results, whatever the sums are.
So until the last such round the records are not even looked at; zeros of the right shape stand for their sums, and what
they are told is kept in a log. At the first question that counts, they are opened and told the whole log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.learners.engines.sums import Ints, Log, apply
from ledgerwood.learners.trees.seam import Aggregator, Channel, Edges, PartialTree, Sample, Structure, Task, Tree

if TYPE_CHECKING:
    from ledgerwood.learners.linear.losses import Loss
    from ledgerwood.learners.linear.seam import LinearSums

__all__ = ["RestingAggregator", "RestingLinear"]


class RestingAggregator:
    """Answers zeros while ``resting()``; wakes the inner aggregator for the first answer after it.

    Parameters
    ----------
    make
        Makes the inner aggregator; called when it is needed.
    n_features
        How many features there are.
    resting
        Whether the door still answers from the store.
    """

    def __init__(self, make: Callable[[], Aggregator], n_features: int, resting: Callable[[], bool]) -> None:
        self._make, self.n_features, self._resting = make, n_features, resting
        self._inner: Aggregator | None = None
        self._log = Log()

    @property
    def threads(self) -> Any:
        """The pool of the inner aggregator, once it is awake and if it has one."""
        return getattr(self._inner, "threads", None)

    def start(self, task: Task) -> None:
        self._outputs = task.n_outputs
        if not self._resting():  # what is wrong with the records must show before anything is spent
            self._inner = self._make()
        self._tell("start", task)

    def bin(self, edges: Edges) -> None:
        self._width = edges.width
        self._tell("bin", edges)

    def sample(self, sample: Sample | None) -> None:
        self._tell("sample", sample)

    def add(self, trees: Sequence[Tree]) -> None:
        self._tell("add", trees)

    def histogram(self, tree: PartialTree, features: NDArray[np.int32], channel: Channel) -> Ints:
        if self._resting():
            return np.zeros((self._outputs, 1 << tree.depth, len(features), self._width, 2), dtype=np.int64)
        return self._awake().histogram(tree, features, channel)

    def leaf_sums(self, trees: Sequence[Structure], channel: Channel) -> Ints:
        if self._resting():
            return np.zeros((len(trees), self._outputs, 1 << trees[0].depth, 2), dtype=np.int64)
        return self._awake().leaf_sums(trees, channel)

    def _tell(self, name: str, argument: Any) -> None:
        if self._inner is None:
            self._log.tell(name, argument)
        else:
            apply(self._inner, [(name, argument)])

    def _awake(self) -> Aggregator:
        if self._inner is None:
            self._inner = self._make()
            apply(self._inner, self._log.ops)
            self._log.ops.clear()
        return self._inner


class RestingLinear:
    """The same for linear models, which are told nothing: answers zeros while ``resting()``.

    But X'X, and the pull of weights 0, may serve later rounds that need no pass: they are never zeros. A zero in their
    place would be released under the noise that the true sum had, or has elsewhere.
    """

    def __init__(self, make: Callable[[], LinearSums], columns: int, resting: Callable[[], bool]) -> None:
        self._make, self.columns, self._resting = make, columns, resting
        self._inner = None if resting() else make()

    def gram(self) -> Ints:
        return self._awake().gram()

    def pull(self, loss: Loss, weights: Ints, clip: int) -> Ints:
        if self._resting() and weights.any():
            return np.zeros(weights.shape, dtype=np.int64)
        return self._awake().pull(loss, weights, clip)

    def _awake(self) -> LinearSums:
        if self._inner is None:
            self._inner = self._make()
        return self._inner
