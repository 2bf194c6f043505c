"""The records of one process in memory: bin codes packed once, kernels on a pool of threads over ranges of rows.

Answers are exact integer sums, so the number of threads and the size of the ranges never change a bit. The time of a
query does depend on the data (of two siblings the one with fewer records is summed): like the samplers' run time,
that is outside the guarantee.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ledgerwood.errors import ParameterError
from ledgerwood.learners.data.threads import TUNING, RowThreads
from ledgerwood.learners.trees.aggregator import (
    MAX_BIN_CODES,
    TABLE_SIZE,
    BinEdges,
    Channel,
    PartialTree,
    Sample,
    Structure,
    Task,
    Tree,
    exp_table,
)
from ledgerwood.learners.trees.passes import ColumnTrees, Due, LeafSums, Level, LevelSums, Routes, column_trees, routes

__all__ = ["LocalAggregator", "bin_columns", "plain_column", "route_arrays"]

Column: TypeAlias = NDArray[Any]

_KINDS = {"table": 0, "squared": 1, "softmax": 2}
_CHANNELS: dict[Channel, tuple[int, int]] = {"count": (15, 1), "hessian": (0, 0x7FFF)}
_NO_TREES = Routes(
    0,
    np.empty(0, dtype=np.uint8),
    np.empty((0, 0), dtype=np.int32),
    np.empty((0, 0, 3), dtype=np.uint8),
    np.empty((1, 1, 256), dtype=np.uint8),
)


def bin_columns(columns: Sequence[Column], bin_edges: BinEdges, lo: int, hi: int, bin_codes: NDArray[np.uint8]) -> None:
    """Write the bin codes of rows lo .. hi: numbers by their bin edges, categories as they are."""
    from ledgerwood.learners.trees._kernels.candidates import bin_numbers

    for feature, column in enumerate(columns):
        part, missing = column[lo:hi], bin_edges.n_codes(feature) - 1
        if bin_edges.categories[feature]:
            bin_codes[feature, : hi - lo] = np.where((part >= 0) & (part < missing), part, missing)
        else:
            thresholds = bin_edges.thresholds[feature]
            padded = np.full((1 << len(thresholds).bit_length()) - 1, np.nan, dtype=np.float32)
            padded[: len(thresholds)] = thresholds
            bin_numbers(part, padded, missing, bin_codes[feature, : hi - lo])


def plain_column(column: Column) -> Column:
    """Return the column as the kernels take it: numbers in float32, contiguous; writable, or each kind is compiled."""
    return np.require(column, np.float32 if column.dtype.kind == "f" else None, ["C", "W"])


def route_arrays(
    batch: Routes,
) -> tuple[int, NDArray[np.uint8], NDArray[np.int32], NDArray[np.uint8], NDArray[np.uint8]]:
    """Return a batch of trees as the kernels' arguments."""
    return batch.depth, batch.symmetric, batch.feature, batch.split, batch.left


class LocalAggregator:
    """Exact sums over records in memory.

    Parameters
    ----------
    columns
        One array for each feature: float32 numbers (nan is missing), or integer codes of categories (any other integer
        is missing).
    labels
        int32: 0 and 1, classes 0 .. K - 1, or numbers in steps of 2**-16, as the task's kind asks.
    n_threads
        All processors by default.
    first_record
        The number of the first record, where this is a part of a larger table: samples are drawn by record number.
    numbers
        The number of each record instead, where it does not follow their order.
    range_rows
        Rows that a thread takes at a time.
    empty
        Makes the arrays that have a row for each record: in memory, or in files.
    start_scores
        ``int32[n_outputs, rows]``: the scores of a model released before, which the trees go on from; 0 by default.

    Attributes
    ----------
    threads
        The pool, for other work of the same training.

    Examples
    --------
    >>> columns = [np.array([0.5, 1.5, 2.5, np.nan], dtype=np.float32)]
    >>> records = LocalAggregator(columns, np.array([0, 65536, 0, 65536]))
    >>> records.start(Task("squared"))
    >>> records.bin(BinEdges((np.array([1, 2], dtype=np.float32),), (0,)))
    >>> root = Structure(0, np.empty(0, dtype=np.int32), np.empty((0, 256), dtype=np.uint8))
    >>> records.histogram(root, np.array([0], dtype=np.int32), "count")[0, 0, 0].tolist()
    [[0, 1], [-4096, 1], [0, 1], [-4096, 1]]
    """

    def __init__(
        self,
        columns: Sequence[Column],
        labels: NDArray[np.integer],
        *,
        n_threads: int | None = None,
        first_record: int = 0,
        numbers: NDArray[np.uint64] | None = None,
        range_rows: int | None = None,
        empty: Callable[..., NDArray[Any]] = np.empty,
        start_scores: NDArray[np.int32] | None = None,
    ) -> None:
        self._empty = empty
        self._start_scores = start_scores
        self._labels = np.ascontiguousarray(labels, np.int32)
        self._n = self._labels.size
        self.use_columns(columns)
        self._first_record = first_record if numbers is None else 0
        # The key of a sample and its round; then the records' numbers, if they have their own.
        self._key = empty(3 + (0 if numbers is None else len(numbers)), dtype=np.uint64)
        self._key[3:] = np.empty(0, dtype=np.uint64) if numbers is None else numbers
        self.threads = RowThreads(n_threads, range_rows)
        self._bin_codes = empty((self.n_features, self._n), dtype=np.uint8)
        self._pair_room = np.empty((0, 0), dtype=np.int32)  # made once, when first needed
        self._row_room = np.empty((0, self.n_features), dtype=np.uint8)
        self._bin_edges: BinEdges | None = None
        self._due = Due.nothing(1)

    def use_columns(self, columns: Sequence[Column]) -> None:
        """Take the columns that :meth:`bin` reads."""
        self._columns = [plain_column(column) for column in columns]
        if any(c.shape != (self._n,) for c in self._columns):
            raise ParameterError("columns", f"have {self._n} rows each", [c.shape for c in self._columns])

    @property
    def n_features(self) -> int:
        """How many features there are."""
        return len(self._columns)

    def start(self, task: Task) -> None:
        if task.n_outputs < 1 or (task.kind != "softmax" and task.n_outputs != 1):
            raise ParameterError("n_outputs", "be 1, or the number of classes of softmax", task.n_outputs)
        self._outputs = task.n_outputs
        self._scores = self._empty((task.n_outputs, self._n), dtype=np.int32)
        self._scores[:] = 0 if self._start_scores is None else self._start_scores
        self._targets = self._labels
        if task.kind == "table":  # the label becomes the place where its half of the table begins
            self._targets = self._empty(self._labels.shape, dtype=np.int32)
            np.multiply(self._labels != 0, np.int32(TABLE_SIZE), out=self._targets)
        clip = task.norm if task.kind == "softmax" else task.clip
        self._rule = np.array(
            [_KINDS[task.kind], clip, task.constant_hessian, 1 << 32, self._first_record], dtype=np.int64
        )
        self._key[:3] = 0
        pairs = task.pairs.astype(np.int64)
        packed = (pairs[..., 0] << 16) | 0x8000 | pairs[..., 1]
        self._loss = packed.astype(np.int32).ravel(), exp_table().copy(), task.hessian.astype(np.int32)
        self._ids = np.empty((0, self._n), dtype=np.uint8)
        self._routed: tuple[Structure, ...] = ()  # whose leaf numbers are at hand
        self._columns_routed: ColumnTrees | None = None  # if by their bin codes, how
        self._due = Due.nothing(task.n_outputs)
        self._pairs: NDArray[np.int32] | None = None
        self._level: Level | None = None

    def bin(self, bin_edges: BinEdges) -> None:
        if bin_edges.n_features != self.n_features:
            raise ParameterError("bin_edges", f"be of {self.n_features} features", bin_edges.n_features)
        if bin_edges.width > MAX_BIN_CODES:
            raise ParameterError("bin_edges", f"give at most {MAX_BIN_CODES} bin codes", bin_edges.width)
        if self._due.numbers is self._bin_codes:
            self._flush()  # it is due by the present bin codes
        self._bin_edges, self._n_codes = bin_edges, bin_edges.counts

        def code(_: None, lo: int, hi: int) -> None:
            bin_columns(self._columns, bin_edges, lo, hi, self._bin_codes[:, lo:hi])

        self.threads.run(self._n, lambda: None, code)
        self._rows: NDArray[np.uint8] | None = None
        self._routed = ()
        self._level = None

    def sample(self, sample: Sample | None) -> None:
        self._rule[3] = 1 << 32 if sample is None else sample.numerator
        if sample is not None:
            self._key[:3] = np.array([*sample.key, sample.round], dtype=np.uint64)
        self._pairs = self._level = None

    def leaf_sums(self, trees: Sequence[Structure], channel: Channel) -> NDArray[np.int64]:
        assert self._bin_edges is not None, "bin comes before leaf_sums"
        columns = column_trees(trees, self._n_codes, self._bin_edges.width)
        if columns is not None:
            sums = self._column_pass(columns, channel)
            self._routed, self._columns_routed = tuple(trees), columns
            return sums
        keep = len(trees) if len(trees) <= TUNING.kept_trees else 0
        if self._ids.shape[0] < keep:
            old, self._ids = self._ids, self._empty((keep, self._n), dtype=np.uint8)
            self._ids[: old.shape[0]] = old
            self._due = self._due.renumbered(old, self._ids)
        sums = self._leaf_pass(
            routes(trees, self._n_codes), channel, keep, np.empty((self._outputs, 0), dtype=np.int32)
        )
        self._routed, self._columns_routed = tuple(trees[:keep]), None
        return sums

    def _scored(self, lo: int, hi: int) -> tuple[Any, ...]:
        """Return the first arguments of a pass that flushes what is due to the scores."""
        return (
            self._bin_codes,
            self._scores,
            self._targets,
            lo,
            hi,
            self._rule,
            *self._loss,
            self._key,
            *self._due.arrays(),
        )

    def _leaf_pass(self, batch: Routes, channel: Channel, keep: int, kept: NDArray[np.int32]) -> NDArray[np.int64]:
        """Flush what is due to the scores and sum the leaves of a batch; keep leaf numbers and pairs."""
        from ledgerwood.learners.trees._kernels.passes import leaf_pass

        def sum_leaves(sums: LeafSums, lo: int, hi: int) -> None:
            sums_here = *_CHANNELS[channel], sums.room(hi - lo), self._ids, keep, kept
            arguments: Any = (*self._scored(lo, hi), *route_arrays(batch), *sums_here)
            leaf_pass(*arguments)

        leaves = 1 << batch.depth
        place = np.tile(np.arange(leaves, dtype=np.uint8), (len(batch.feature), 1))
        return self._summed(place, leaves, sum_leaves)

    def _column_pass(self, columns: ColumnTrees, channel: Channel) -> NDArray[np.int64]:
        """Flush what is due to the scores and sum the leaves of trees of one feature each."""
        from ledgerwood.learners.trees._kernels.passes import column_pass

        def sum_bins(sums: LeafSums, lo: int, hi: int) -> None:
            arguments: Any = (*self._scored(lo, hi), columns.feature, *_CHANNELS[channel], sums.room(hi - lo))
            column_pass(*arguments)

        light = self._n * (1 + len(columns.feature)) <= TUNING.light_pass
        return self._summed(columns.leaf, 1 << columns.depth, sum_bins, max(self._n, 1) if light else None)

    def _summed(
        self,
        place: NDArray[np.uint8],
        leaves: int,
        do: Callable[[LeafSums, int, int], None],
        range_rows: int | None = None,
    ) -> NDArray[np.int64]:
        parts = self.threads.run(self._n, lambda: LeafSums(place, self._outputs, leaves), do, range_rows)
        self._due = Due.nothing(self._outputs)
        for part in parts:
            part.unpack()
        return sum((part.total for part in parts[1:]), start=parts[0].total)

    def _flush(self) -> None:
        """Add what is due to the scores."""
        self._leaf_pass(_NO_TREES, "count", 0, np.empty((self._outputs, 0), dtype=np.int32))

    def add(self, trees: Sequence[Tree]) -> None:
        from ledgerwood.learners.trees._kernels.passes import add_pass

        self._pairs = self._level = None
        same = len(trees) == len(self._routed)
        if same and all(tree.structure is routed for tree, routed in zip(trees, self._routed)):
            # Their leaf numbers are at hand: the next pass over the rows adds the weights on its way.
            weights = np.array([tree.weights for tree in trees], dtype=np.int32)
            columns = self._columns_routed
            if columns is not None:
                weights = np.stack([one[:, leaf] for one, leaf in zip(weights, columns.leaf)])
                self._due = self._due.plus(Due(self._bin_codes, columns.feature, weights))
            else:
                which = np.arange(len(trees), dtype=np.int32)
                self._due = self._due.plus(Due(self._ids, which, weights))
            return
        for depth in {tree.structure.depth for tree in trees}:
            group = [tree for tree in trees if tree.structure.depth == depth]
            batch = routes([tree.structure for tree in group], self._n_codes)
            weights = np.array([tree.weights for tree in group], dtype=np.int32)

            def add_range(
                _: None, lo: int, hi: int, batch: Routes = batch, weights: NDArray[np.int32] = weights
            ) -> None:
                add_pass(self._bin_codes, self._scores, lo, hi, *route_arrays(batch), weights)

            self.threads.run(self._n, lambda: None, add_range)

    def histogram(self, tree: PartialTree, features: NDArray[np.int32], channel: Channel) -> NDArray[np.int64]:
        from ledgerwood.learners.trees._kernels.passes import level_pass, subtract

        assert self._bin_edges is not None, "bin comes before histogram"
        features = np.ascontiguousarray(features, dtype=np.int32)
        pairs, rows = self._gradients(), self._rows_of(features)
        batch = routes([tree], self._n_codes)
        opened, width = 1 << tree.depth, self._bin_edges.width
        parent = self._level if self._level and self._level.is_parent_of(tree, features, channel) else None
        nodes = parent.smaller_children(tree) if parent else np.arange(opened)
        slots = np.full(opened, -1, dtype=np.int32)
        slots[nodes] = np.arange(nodes.size)
        out = np.zeros((self._outputs, opened, features.size, width, 2), dtype=np.int64)
        lock = Lock()

        def sum_level(sums: LevelSums, lo: int, hi: int) -> None:
            where = self._bin_codes, rows, features, pairs, lo, hi
            level_pass(*where, *route_arrays(batch), slots, width, *_CHANNELS[channel], sums.room(hi - lo))

        for part in self.threads.run(self._n, lambda: LevelSums(nodes, out, lock), sum_level):
            part.unpack()
        if parent:
            flat = self._outputs, -1, features.size * width, 2
            subtract(parent.sums.reshape(flat), nodes, out.reshape(flat))
        self._level = Level(tree, features, channel, out)
        return out

    def _gradients(self) -> NDArray[np.int32]:
        """Return the pairs of all records at the present scores."""
        if self._pairs is None:
            if self._pair_room.shape != self._scores.shape:
                self._pair_room = self._empty(self._scores.shape, dtype=np.int32)
            self._leaf_pass(_NO_TREES, "count", 0, self._pair_room)
            self._pairs = self._pair_room
        return self._pairs

    def _rows_of(self, features: NDArray[np.int32]) -> NDArray[np.uint8]:
        """Return the bin codes row by row if all features are asked for; no rows if the columns are to be read."""
        from ledgerwood.learners.trees._kernels.candidates import columns_to_rows

        if not np.array_equal(features, np.arange(self.n_features)):
            return np.empty((0, self.n_features), dtype=np.uint8)
        if self._rows is None:
            if self._row_room.shape[0] != self._n:
                self._row_room = self._empty((self._n, self.n_features), dtype=np.uint8)
            rows = self._rows = self._row_room
            self.threads.run(self._n, lambda: None, lambda _, lo, hi: columns_to_rows(self._bin_codes, lo, hi, rows))
        return self._rows
