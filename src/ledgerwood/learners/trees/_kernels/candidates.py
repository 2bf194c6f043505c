r"""Compiled loops over candidates: numbers into bin codes, columns into rows, and exact integer scores of a level.

The score of a side with sums :math:`s_k` and denominator :math:`d > 0` is :math:`\lfloor \sum_k s_k^2 / d \rfloor`.
A quotient in floating point is near it; the remainder that it leaves, computed modulo :math:`2^{64}`, is small and
therefore exact, and corrects the quotient. So the answer is the floor itself on any machine, without numbers of more
than 64 bits: for up to :math:`2^{38}` records the quotient is below :math:`2^{62}`, its error below :math:`2^{13}`, and
the remainder below :math:`2^{13} d < 2^{63}`.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

BLOCK = 1024


@njit(cache=True, nogil=True)
def bin_numbers(
    numbers: NDArray[np.float32], bin_edges: NDArray[np.float32], missing: int, codes: NDArray[np.uint8]
) -> None:
    """Write how many bin edges are at most each number; nan is ``missing``.

    ``bin_edges`` is filled up with nan, which is never at most a number, to one less than a power of two: every number
    takes the same steps of a binary search, and a block of numbers takes each step together.
    """
    place = np.empty(BLOCK, dtype=np.int32)
    for start in range(0, numbers.size, BLOCK):
        size = min(BLOCK, numbers.size - start)
        x = numbers[start : start + size]
        at = place[:size]
        for i in range(size):
            at[i] = 0
        step = (bin_edges.size + 1) >> 1
        while step > 0:
            for i in range(size):
                at[i] += np.int32(step) if bin_edges[np.uint32(at[i] + step - 1)] <= x[i] else np.int32(0)
            step >>= 1
        out = codes[start : start + size]
        for i in range(size):
            out[i] = np.uint8(at[i]) if x[i] == x[i] else np.uint8(missing)


@njit(cache=True, nogil=True)
def columns_to_rows(bin_codes: NDArray[np.uint8], lo: int, hi: int, rows: NDArray[np.uint8]) -> None:
    """Copy columns lo .. hi of bin codes into rows, in blocks that stay in cache."""
    for start in range(lo, hi, 256):
        end = min(start + 256, hi)
        for q in range(bin_codes.shape[0]):
            for i in range(start, end):
                rows[i, q] = bin_codes[q, i]


_I64 = NDArray[np.int64]


@njit(nogil=True)
def _floor_of(square: np.int64, near: float, d: np.int64) -> np.int64:
    """Return floor(S / d), given S modulo 2**64 and S in floating point; 0 if d is 0."""
    if d <= 0:
        return np.int64(0)
    quotient = np.int64(near / np.float64(d))
    rest = square - quotient * d
    if rest < 0 or rest >= d:
        quotient += rest // d
    return quotient


@njit(cache=True, nogil=True)
def score_nodes(
    histogram: _I64, begin: _I64, end: _I64, last: _I64, missing: _I64, penalty: int, first: int, stop: int, out: _I64
) -> None:
    """Write the scores of nodes first .. stop: ``out[node, candidate]``.

    The left of a candidate holds the codes begin .. end of one feature, and its code ``last`` if ``missing`` is 1; the
    three are places in a flat array of ``width + 1`` running sums for each feature. Sums of gradients count four times
    and records sixteen, so that the penalty is in sixteenths.
    """
    outputs, _, features, width, _ = histogram.shape
    running = np.zeros((outputs + 1, features * (width + 1)), dtype=np.int64)
    whole = np.zeros(outputs + 1, dtype=np.int64)
    for node in range(first, stop):
        for k in range(outputs + 1):
            # The number of records is the second channel of any output.
            source = histogram[min(k, outputs - 1), node, :, :, 0 if k < outputs else 1]
            scale = 4 if k < outputs else 16
            for q in range(features):
                at = q * (width + 1)
                total = np.int64(0)
                for c in range(width):
                    total += scale * source[q, c]
                    running[k, at + c + 1] = total
                whole[k] = total
        for j in range(begin.size):
            b, e, m, w = begin[j], end[j], last[j], missing[j]
            left, left_near, right, right_near = np.int64(0), 0.0, np.int64(0), 0.0
            for k in range(outputs):
                one = running[k]
                s = one[e] - one[b] + w * (one[m + 1] - one[m])
                left += s * s
                left_near += np.float64(s) * np.float64(s)
                s = whole[k] - s
                right += s * s
                right_near += np.float64(s) * np.float64(s)
            one = running[outputs]
            d = one[e] - one[b] + w * (one[m + 1] - one[m])
            out[node, j] = _floor_of(left, left_near, d + penalty) + _floor_of(
                right, right_near, whole[outputs] - d + penalty
            )
