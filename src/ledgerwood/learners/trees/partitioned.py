"""Sums that sleep while a resumed training recalls what it released before.

Rounds that are wholly on record need no answer of the data: the door gives the stored results, whatever the sums are.
So until the last such round the records are not even looked at; zeros of the right shape stand for their sums, and what
they are told is kept in a log. At the first question that counts, they are opened and told the whole log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.learners.data.columns import Column, Scalar
from ledgerwood.learners.data.table import Table
from ledgerwood.learners.engines.interface import Empty, GroupedRows, Ints, Log, Sums, apply, read_part
from ledgerwood.learners.trees.aggregator import Aggregator, Channel, Edges, PartialTree, Sample, Structure, Task, Tree
from ledgerwood.learners.trees.local_aggregator import LocalAggregator
from ledgerwood.learners.trees.settings import TreeSettings

__all__ = ["ReplayingAggregator", "TreeParts", "TreeRecords"]


@dataclass(frozen=True)
class TreeRecords:
    """A part that answers trees."""

    part: Any
    first_record: int
    columns: tuple[Column, ...]
    target: str
    settings: TreeSettings
    classes: tuple[Scalar, ...] | None = None
    bounds: tuple[float, float] | None = None
    rows: GroupedRows = field(default_factory=GroupedRows)

    def read(self) -> tuple[Table, NDArray[np.int32]]:
        """Load the part and return its rows and integer labels."""
        from ledgerwood.learners.trees.binning import integer_labels

        table, labels = read_part(self.part, self.columns, self.target, self.classes, self.bounds, self.rows)
        return table, integer_labels(labels, self.settings)

    def open(self, n_threads: int | None = None, empty: Empty | None = None) -> LocalAggregator:
        """Load the part into memory, or code it into files."""
        if empty is not None:
            return _SpilledPart(self, n_threads, empty)
        table, labels = self.read()
        return LocalAggregator(
            table.cells, labels, n_threads=n_threads, first_record=self.first_record, numbers=table.numbers
        )


class _SpilledPart(LocalAggregator):
    """A part whose arrays live in files, and whose columns are read again when they are coded again."""

    def __init__(self, records: TreeRecords, n_threads: int | None, empty: Empty) -> None:
        self._source = records
        table, labels = records.read()
        kept = empty(labels.shape, dtype=np.int32)
        kept[:] = labels
        super().__init__(
            table.cells,
            kept,
            n_threads=n_threads,
            empty=empty,
            first_record=records.first_record,
            numbers=table.numbers,
        )
        self._forget_columns()

    def _forget_columns(self) -> None:
        self._columns = [np.empty(0, dtype=column.dtype) for column in self._columns]

    def bin(self, edges: Edges) -> None:
        self.use_columns(self._source.read()[0].cells)
        super().bin(edges)
        self._forget_columns()


class TreeParts:
    """The seam of the trees over an engine."""

    def __init__(self, sums: Sums, n_features: int) -> None:
        self._sums, self.n_features = sums, n_features

    def start(self, task: Task) -> None:
        self._sums.tell("start", task)

    def bin(self, edges: Edges) -> None:
        self._sums.tell("bin", edges)

    def sample(self, sample: Sample | None) -> None:
        self._sums.tell("sample", sample)

    def add(self, trees: Sequence[Tree]) -> None:
        self._sums.tell("add", list(trees))

    def histogram(self, tree: PartialTree, features: NDArray[np.int32], channel: Channel) -> Ints:
        return self._sums.ask("histogram", tree, features, channel)

    def leaf_sums(self, trees: Sequence[Structure], channel: Channel) -> Ints:
        return self._sums.ask("leaf_sums", list(trees), channel)


class ReplayingAggregator:
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
