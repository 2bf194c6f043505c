"""Codes of cells: numbers and categories into bytes, and columns into rows."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

BLOCK = 1024


@njit(cache=True, nogil=True)
def bin_numbers(
    numbers: NDArray[np.float32], edges: NDArray[np.float32], missing: int, codes: NDArray[np.uint8]
) -> None:
    """Write how many edges are at most each number; nan is ``missing``.

    ``edges`` is filled up with nan, which is never at most a number, to one less than a power of two: every number
    takes the same steps of a binary search, and a block of numbers takes each step together.
    """
    place = np.empty(BLOCK, dtype=np.int32)
    for start in range(0, numbers.size, BLOCK):
        size = min(BLOCK, numbers.size - start)
        x = numbers[start : start + size]
        at = place[:size]
        for i in range(size):
            at[i] = 0
        step = (edges.size + 1) >> 1
        while step > 0:
            for i in range(size):
                at[i] += np.int32(step) if edges[np.uint32(at[i] + step - 1)] <= x[i] else np.int32(0)
            step >>= 1
        out = codes[start : start + size]
        for i in range(size):
            out[i] = np.uint8(at[i]) if x[i] == x[i] else np.uint8(missing)


@njit(cache=True, nogil=True)
def columns_to_rows(cells: NDArray[np.uint8], lo: int, hi: int, rows: NDArray[np.uint8]) -> None:
    """Copy columns lo .. hi of cells into rows, in blocks that stay in cache."""
    for start in range(lo, hi, 256):
        end = min(start + 256, hi)
        for q in range(cells.shape[0]):
            for i in range(start, end):
                rows[i, q] = cells[q, i]
