r"""Rows as short lists of integers, and the two exact sums that a linear learner asks of them.

A row is an intercept and a list of (column, entry) with the zeros left out: one entry for a number, one for a category
however many categories there are. Entries are in steps of ``1 / ENTRY_ONE``, weights in steps of ``2**-WEIGHT_BITS``,
gradients and labels in steps of ``1 / GRADIENT_ONE``; all of them public constants.

**No sum is rounded, wraps around or is refused**, whatever the values: mechanisms take integers of at most
:math:`2^{61}`. Let :math:`|z| \le 2^{12}` be an entry, :math:`p < 2^{16}` the number of columns and
:math:`n \le 2^{29}` (``MAX_ROWS``, a public limit that is checked before anything is spent) that of rows.

* :meth:`IntegerRows.gram` is at most :math:`2^{29} \cdot 2^{24} = 2^{53}` in every entry; with the weights of
  :func:`~ledgerwood.learners.linear.sensitivity.packed` that is :math:`239 \cdot 2^{53} < 2^{61}`. Short rows are
  added entry by entry in int64. Others are multiplied in blocks of :math:`2^{13}` rows as float64 matrices. Every
  partial sum of products :math:`z_i z_j` of a block is an integer of at most
  :math:`2^{13} \cdot 2^{24} = 2^{37} < 2^{53}`: floats hold it exactly, so any order of summation, fused or not, gives
  the same exact number. Blocks are added in int64.
* A score is a sum of at most :math:`p` products of an entry and a weight, clipped to :math:`2^{30}`: at most
  :math:`2^{16+12+30} = 2^{58}`.
* :meth:`IntegerRows.gradient_sum` adds products of an entry and a gradient of at most :math:`2^{20}`, which is the
  largest clip
  (``MAX_CLIP``): :math:`2^{29} \cdot 2^{32} = 2^{61}`. Residuals without a pass are the same sums where no gradient
  exceeds the clip, rounded to integers.
* The smallest eigenvalue of a gram is at most its smallest diagonal entry, :math:`2^{53}`.

**Patterns.** Many rows agree on many columns, and a sum needs each pattern only once. Columns are put into groups.
Within a group a row is one of at most 2048 patterns of entries; patterns grow from each other by one entry, so they
are a tree. A score is then one look-up for each group, and a sum over records one addition for each group: 3 instead of
14 for the 123 indicators of a9a. Columns that would make too many patterns (a number with thousands of values) keep
their entries as they are. All of it is exact: the same integers are added, in another order. Which columns share a
group depends on the records, as does the time it takes; the sums do not.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.errors import ParameterError
from ledgerwood.learners.data.columns import Ints
from ledgerwood.learners.data.threads import TUNING, LearnerTuning
from ledgerwood.learners.linear.loss import ENTRY_ONE, GRADIENT_ONE, LinearLoss

__all__ = [
    "BLOCK_ROWS",
    "MAX_CLIP",
    "MAX_COLUMNS",
    "MAX_ROWS",
    "IntegerRows",
    "Patterns",
    "grouped",
    "grown",
    "ungrouped",
]


_GROUPS = 31
"""So that all patterns have places of 16 bits."""


@dataclass(frozen=True, slots=True, eq=False)
class Patterns:
    """Rows as patterns and loose entries.

    Parameters
    ----------
    codes
        For each row, its pattern in every group.
    parents, columns, entries
        A pattern is its parent and one more entry; a root is its own parent and adds nothing.
    loose_starts, loose_columns, loose_entries
        The entries that are in no group, row by row.
    """

    codes: NDArray[np.uint16]
    parents: NDArray[np.uint16]
    columns: NDArray[np.uint16]
    entries: NDArray[np.int16]
    loose_starts: NDArray[np.uint64]
    loose_columns: NDArray[np.uint16]
    loose_entries: NDArray[np.int16]

    @property
    def work(self) -> int:
        """Look-ups in one pass."""
        return int(self.codes.size + self.loose_entries.size)


def ungrouped(starts: NDArray[np.uint64], columns: NDArray[np.uint16], entries: NDArray[np.int16]) -> Patterns:
    """Return rows with all their entries loose."""
    none = np.empty(0, dtype=np.uint16)
    codes = np.empty((starts.size - 1, 0), dtype=np.uint16)
    return Patterns(codes, none, none, np.empty(0, dtype=np.int16), starts, columns, entries)


def grouped(
    starts: NDArray[np.uint64], columns: NDArray[np.uint16], entries: NDArray[np.int16], width: int
) -> Patterns:
    """Return rows with their columns in groups, or with all entries loose where groups would not save work."""
    plain, found = ungrouped(starts, columns, entries), grown(starts, columns, entries, width)
    return found if found.work < plain.work else plain


def grown(
    starts: NDArray[np.uint64],
    columns: NDArray[np.uint16],
    entries: NDArray[np.int16],
    width: int,
    most: int = TUNING.group_patterns,
) -> Patterns:
    """Return rows with their columns in groups of at most ``most`` patterns, as far as these stay few."""
    from ledgerwood.learners.linear import _kernels

    begins = np.concatenate([[0], np.cumsum(np.bincount(columns, minlength=width))]).astype(np.uint64)
    rows, listed = np.empty(entries.size, dtype=np.uint32), np.empty_like(entries)
    _kernels.by_column(starts, columns, entries, begins, rows, listed)
    codes = np.zeros((_GROUPS, starts.size - 1), dtype=np.uint16)
    parents, names = np.zeros((2, _GROUPS * most), dtype=np.uint16)
    added = np.zeros(_GROUPS * most, dtype=np.int16)
    groups, patterns, loose = _kernels.group(begins, rows, listed, codes, parents, names, added, most)
    kept = loose[columns]
    ends = np.concatenate([[0], np.cumsum(kept)])[starts.astype(np.int64)].astype(np.uint64)
    return Patterns(
        np.ascontiguousarray(codes[:groups].T), parents[:patterns].copy(), names[:patterns].copy(),
        added[:patterns].copy(), ends, columns[kept], entries[kept],
    )  # fmt: skip


MAX_COLUMNS = 2**16 - 1

MAX_ROWS = 2**29

MAX_CLIP = 16.0

BLOCK_ROWS = 2**13
"""Rows of one product of matrices: its sums stay below 2**53, which floats keep exactly."""


@dataclass(frozen=True, slots=True)
class IntegerRows:
    """Encoded records in memory.

    Parameters
    ----------
    starts, indices, entries
        Row i holds the entries ``starts[i] .. starts[i + 1]``; ``indices`` are their columns, counted from 1.
    width
        Number of columns, the intercept (column 0) included.
    intercept
        The entry of the intercept, 0 for none.
    labels
        Class numbers (``coded``), or numbers in steps of ``1 / GRADIENT_ONE``; None where only scores are asked for.
    """

    starts: NDArray[np.uint64]
    indices: NDArray[np.uint16]
    entries: NDArray[np.int16]
    width: int
    intercept: int
    labels: Ints | None = None
    coded: bool = False
    tuning: LearnerTuning = field(repr=False, default=TUNING)
    _passes: _Passes = field(init=False, repr=False, default_factory=lambda: _Passes())

    @property
    def columns(self) -> int:
        """Number of columns, the intercept included."""
        return self.width

    @property
    def count(self) -> int:
        """Number of records."""
        return int(self.starts.size - 1)

    def shortened(self, square_bound: int) -> IntegerRows:
        """Return rows scaled to a squared norm of at most ``square_bound``, the intercept's entry kept and counted."""
        from ledgerwood.learners.linear import _kernels

        room = square_bound - self.intercept**2
        if room <= 0:
            raise ParameterError("row_norm", "leave room for the intercept", math.sqrt(square_bound) / ENTRY_ONE)
        entries = self.entries.copy()
        _kernels.shorten(self.starts, entries, room, math.isqrt(room))
        return IntegerRows(self.starts, self.indices, entries, self.width, self.intercept, self.labels, self.coded)

    def dense(self, begin: int = 0, end: int | None = None) -> NDArray[np.float64]:
        """Return rows ``begin`` .. ``end`` as a matrix of integers held in floats."""
        from ledgerwood.learners.linear import _kernels

        end = self.count if end is None else end
        out = np.empty((end - begin, self.width))
        _kernels.densify(self.starts, self.indices, self.entries, self.intercept, begin, end, out)
        return out

    def gram(self) -> Ints:
        """Return the exact sum of row times row: entry by entry if rows are short, else float64 products by blocks."""
        total = np.zeros((self.width, self.width), dtype=np.int64)
        if self.entries.size * self.tuning.short_rows < self.count * self.width:
            from ledgerwood.learners.linear import _kernels

            _kernels.cross(self.starts, self.indices, self.entries, self.intercept, total)
            return np.tril(total) + np.tril(total, -1).T
        for begin in range(0, self.count, BLOCK_ROWS):
            block = self.dense(begin, min(begin + BLOCK_ROWS, self.count))
            total += (block.T @ block).astype(np.int64)
        return total

    def gradient_sum(self, loss: LinearLoss, weights: Ints, clip: int) -> Ints:
        """Return the exact sum of gradient times row for every output, in one fused pass."""
        from ledgerwood.learners.linear import _kernels

        assert self.labels is not None
        labels, form = self.labels, self._passes.form(self)
        scores = np.zeros((len(weights), form.parents.size), dtype=np.int64)
        _kernels.pattern_scores(form.parents, form.columns, form.entries, weights, scores)
        rule = (loss.code, loss.table, loss.score_shift, loss.table_shift, GRADIENT_ONE, clip)

        def part(begin: int, end: int) -> Ints:
            out = np.zeros((len(weights), self.width + form.parents.size), dtype=np.int64)
            columns, sums = out[:, : self.width], out[:, self.width :]
            starts = form.loose_starts[begin : end + 1]
            rows = (form.codes[begin:end], starts, form.loose_columns, form.loose_entries, self.intercept)
            given: tuple[Any, ...]
            if len(weights) == 1:
                given = (*rows, labels[begin:end], self.coded, scores[0], weights[0], *rule, sums[0], columns[0])
                _kernels.gradient_sum_one(*given)
            else:
                given = (*rows, labels[begin:end], scores, weights, *rule, sums, columns)
                _kernels.gradient_sum(*given)
            return out

        found = _in_threads(part, self.count, form.work * weights.shape[0])
        total = np.ascontiguousarray(found[:, : self.width])
        _kernels.pattern_sums(form.parents, form.columns, form.entries, found[:, self.width :], total)
        return total


@dataclass(slots=True)
class _Passes:
    """How the rows are held for passes: as they are at first, in groups once many passes were asked for."""

    asked: int = 0
    held: Patterns | None = None

    def form(self, rows: IntegerRows) -> Patterns:
        self.asked += 1
        grouping = self.asked == rows.tuning.grouping_pass
        if self.held is None or grouping:
            make = partial(grouped, width=rows.width) if grouping else ungrouped
            self.held = make(rows.starts, rows.indices, rows.entries)
        return self.held


def _added(answers: list[Ints]) -> Ints:
    total = answers[0].copy()
    for answer in answers[1:]:
        total += answer
    return total


_pool: list[Any] = []


def _in_threads(part: Callable[[int, int], Ints], count: int, work: int) -> Ints:
    """Run ``part`` on blocks of rows, in as many threads as are worth it; the kernels hold no lock."""
    threads = min(os.cpu_count() or 1, 1 + work // TUNING.thread_work)
    if threads == 1:
        return part(0, count)
    if not _pool or _pool[0] != os.getpid():  # a forked child has none of its parent's threads
        _pool[:] = [os.getpid(), ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="ledgerwood-linear")]
    ends = [count * i // threads for i in range(threads + 1)]
    rest = [_pool[1].submit(part, begin, end) for begin, end in pairwise(ends[1:])]
    return _added([part(ends[0], ends[1]), *(future.result() for future in rest)])
