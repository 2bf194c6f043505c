"""How rows are shared out: a pool of threads over ranges of rows, and the sizes of all blocks in :data:`TUNING`."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from ledgerwood.errors import ParameterError

__all__ = ["TUNING", "LearnerTuning", "RowThreads", "available_threads"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerTuning:
    """How long reading and training take, never a bit of their result. ``TUNING`` holds the defaults.

    Each group names the benchmark whose CPU time chose it, as a group; single values were not measured one by one.
    """

    # Threads over rows (this module): benchmarks/trees.py
    least_rows: int = 1 << 12  # of a range: less is over before another thread has begun
    most_rows: int = 1 << 16  # of a range: more would leave threads waiting for the last one

    # Reading (cells.py, csv_text.py, table.py): benchmarks/reading.py
    csv_block: int = 1 << 19  # bytes: its columns are made in a processor's own cache, in half the time of 16 MiB
    table_block: int = 1 << 13  # rows that are read at a time
    few_categories: int = 8  # up to this many are found by a comparison with each, quicker than by a search

    # Trees (forest.py, local_aggregator.py, candidates.py): benchmarks/trees.py
    scored_rows: int = 1 << 14  # of a range at predict
    light_pass: int = 1 << 18  # rows times columns of a pass that is over before another thread has begun
    kept_trees: int = 8  # leaf numbers of this many trees are kept for `add`; those of a larger batch are found again
    shared_scores: int = 1 << 16  # scores of a level from which threads share its nodes
    shared_nodes: int = 4  # nodes of a range then

    # Linear models (integer_rows.py): benchmarks/linear/speed.py
    short_rows: int = 3  # rows with fewer than one entry in this many are multiplied entry by entry, others as a matrix
    thread_work: int = 1 << 18  # look-ups below which a second thread costs more than it saves
    grouping_pass: int = 8  # before it columns are put into groups: takes some eight passes, and saves most of each
    group_patterns: int = 1 << 11  # of one group: two tables of them stay in a processor's nearest memory

    # Parts on disk (engines/out_of_core.py): limits of memory, not measured
    bucket_rows: int = 1 << 21
    most_buckets: int = 256


TUNING = LearnerTuning()

S = TypeVar("S")


def available_threads() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class RowThreads:
    """Shares rows 0 .. n out in ranges; the calling thread works too.

    Ranges are taken as threads become free, so a busy processor slows only its own share; unless their size is given,
    they become smaller towards the end, so that no thread waits long for the last one.

    >>> parts = RowThreads(2, range_rows=3).run(7, list, lambda seen, lo, hi: seen.append((lo, hi)))
    >>> sorted(part for seen in parts for part in seen)
    [(0, 3), (3, 6), (6, 7)]
    """

    def __init__(self, n_threads: int | None = None, range_rows: int | None = None) -> None:
        self.n_threads = available_threads() if n_threads is None else n_threads
        if self.n_threads < 1:
            raise ParameterError("n_threads", "be at least 1", n_threads)
        if range_rows is not None and not 1 <= range_rows <= TUNING.most_rows:
            raise ParameterError("range_rows", f"lie in 1 .. {TUNING.most_rows}", range_rows)
        self._range_rows = range_rows
        self._pool = ThreadPoolExecutor(self.n_threads - 1) if self.n_threads > 1 else None

    def run(
        self, n_rows: int, new: Callable[[], S], do: Callable[[S, int, int], None], range_rows: int | None = None
    ) -> list[S]:
        """Call ``do(state, lo, hi)`` for ranges that cover the rows, with one state for each thread; return these."""
        ranges = self._ranges(n_rows, range_rows or self._range_rows)
        waiting = iter(ranges)  # next() on it is one atomic step of the interpreter

        def work() -> S:
            state = new()
            for lo, hi in waiting:
                do(state, lo, hi)
            return state

        if self._pool is None or len(ranges) < 2:
            return [work()]
        others = [self._pool.submit(work) for _ in range(self.n_threads - 1)]
        return [work(), *(other.result() for other in others)]

    def _ranges(self, n_rows: int, rows: int | None) -> list[tuple[int, int]]:
        found, lo = [], 0
        while lo < n_rows:
            left = n_rows - lo
            size = rows or min(TUNING.most_rows, max(TUNING.least_rows, -(-left // (2 * self.n_threads))))
            found.append((lo, min(lo + size, n_rows)))
            lo += size
        return found
