"""A pool of threads over ranges of rows, for kernels that release the interpreter lock."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ledgerwood.errors import ParameterError

__all__ = ["RowThreads", "available_threads"]

_MOST_ROWS = 1 << 16
_LEAST_ROWS = 1 << 12

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
        if range_rows is not None and not 1 <= range_rows <= _MOST_ROWS:
            raise ParameterError("range_rows", f"lie in 1 .. {_MOST_ROWS}", range_rows)
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
            size = rows or min(_MOST_ROWS, max(_LEAST_ROWS, -(-left // (2 * self.n_threads))))
            found.append((lo, min(lo + size, n_rows)))
            lo += size
        return found
