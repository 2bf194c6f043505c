"""Trees over an engine, and the aggregator that replays a resumed training.

Rounds that are wholly on record need no answer of the data: the release session returns the stored results, whatever
the sums are. Until the last such round the records are not even opened; zeros of the right shape stand for their sums,
and what is broadcast to them is kept in a log. At the first query whose answer counts, they are opened and the whole
log is replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.learners.data.columns import Column, Ints, Scalar
from ledgerwood.learners.data.table import Table
from ledgerwood.learners.engines.interface import Empty, GroupedRows, Log, Sums, apply, read_part
from ledgerwood.learners.training.session import ReleaseSession
from ledgerwood.learners.trees.aggregator import (
    Aggregator,
    BinEdges,
    Channel,
    PartialTree,
    Sample,
    Structure,
    Task,
    Tree,
)
from ledgerwood.learners.trees.binning import integer_labels
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
        table, labels = read_part(self.part, self.columns, self.target, self.classes, self.bounds, self.rows)
        return table, integer_labels(labels, self.settings)

    def open(self, n_threads: int | None = None, empty: Empty | None = None) -> LocalAggregator:
        """Load the part into memory, or its bin codes into files."""
        if empty is not None:
            return _SpilledPart(self, n_threads, empty)
        table, labels = self.read()
        return LocalAggregator(
            table.values, labels, n_threads=n_threads, first_record=self.first_record, numbers=table.numbers
        )


class _SpilledPart(LocalAggregator):
    """A part whose arrays live in files, and whose columns are read again when they are binned again."""

    def __init__(self, records: TreeRecords, n_threads: int | None, empty: Empty) -> None:
        self._source = records
        table, labels = records.read()
        kept = empty(labels.shape, dtype=np.int32)
        kept[:] = labels
        super().__init__(
            table.values,
            kept,
            n_threads=n_threads,
            empty=empty,
            first_record=records.first_record,
            numbers=table.numbers,
        )
        self._forget_columns()

    def _forget_columns(self) -> None:
        self._columns = [np.empty(0, dtype=column.dtype) for column in self._columns]

    def bin(self, bin_edges: BinEdges) -> None:
        self.use_columns(self._source.read()[0].values)
        super().bin(bin_edges)
        self._forget_columns()


class TreeParts:
    """The aggregator of trees over an engine."""

    def __init__(self, sums: Sums, n_features: int) -> None:
        self._sums, self.n_features = sums, n_features

    def start(self, task: Task) -> None:
        self._sums.broadcast("start", task)

    def bin(self, bin_edges: BinEdges) -> None:
        self._sums.broadcast("bin", bin_edges)

    def sample(self, sample: Sample | None) -> None:
        self._sums.broadcast("sample", sample)

    def add(self, trees: Sequence[Tree]) -> None:
        self._sums.broadcast("add", list(trees))

    def histogram(self, tree: PartialTree, features: NDArray[np.int32], channel: Channel) -> Ints:
        return self._sums.query("histogram", tree, features, channel)

    def leaf_sums(self, trees: Sequence[Structure], channel: Channel) -> Ints:
        return self._sums.query("leaf_sums", list(trees), channel)


class ReplayingAggregator:
    """Answers zeros while the session recalls stored results; opens the aggregator for the first answer after that.

    Parameters
    ----------
    make
        Makes the inner aggregator; called when it is needed.
    n_features
        How many features there are.
    session
        The session of a resumed training.
    """

    def __init__(self, make: Callable[[], Aggregator], n_features: int, session: ReleaseSession) -> None:
        self._make, self.n_features, self._session = make, n_features, session
        self._inner: Aggregator | None = None
        self._log = Log()

    @property
    def threads(self) -> Any:
        """The pool of the inner aggregator, once it is open and if it has one."""
        return getattr(self._inner, "threads", None)

    def start(self, task: Task) -> None:
        self._outputs = task.n_outputs
        self._broadcast("start", task)

    def bin(self, bin_edges: BinEdges) -> None:
        self._width = bin_edges.width
        self._broadcast("bin", bin_edges)

    def sample(self, sample: Sample | None) -> None:
        self._broadcast("sample", sample)

    def add(self, trees: Sequence[Tree]) -> None:
        self._broadcast("add", trees)

    def histogram(self, tree: PartialTree, features: NDArray[np.int32], channel: Channel) -> Ints:
        if self._session.recalling:
            return np.zeros((self._outputs, 1 << tree.depth, len(features), self._width, 2), dtype=np.int64)
        return self._opened().histogram(tree, features, channel)

    def leaf_sums(self, trees: Sequence[Structure], channel: Channel) -> Ints:
        if self._session.recalling:
            return np.zeros((len(trees), self._outputs, 1 << trees[0].depth, 2), dtype=np.int64)
        return self._opened().leaf_sums(trees, channel)

    def _broadcast(self, name: str, argument: Any) -> None:
        if self._inner is None:
            self._log.broadcast(name, argument)
        else:
            apply(self._inner, [(name, argument)])

    def _opened(self) -> Aggregator:
        if self._inner is None:
            self._inner = self._make()
            apply(self._inner, self._log.ops)
            self._log.ops.clear()
        return self._inner
