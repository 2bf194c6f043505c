"""Numba kernels: the programs of :mod:`.exact` on a block of words, giving up where a comparison is undecided.

``direct`` and ``refined`` return (draws done, words used by them, status). They never write half a draw: ``used``
counts the words of finished draws, so that the unfinished one can be read again from its first word.

Rounding in ``refined``: x is computed with at most eight roundings, so it is off by less than 2**-49 x; x <= 1/8; the
alternating series is cut after x**10 / 10! and off by less than (1/8)**11 / 11! < 2**-58; its evaluation has 20
roundings of numbers at most 1. Together less than 2**-48 < MARGIN. A word's conversion to float is off by less
than 2**-53.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

Array = np.ndarray[Any, Any]

FINISHED, EXHAUSTED, UNDECIDED = 0, 1, 2
MARGIN = 2.0**-46


@njit(cache=True, nogil=True, inline="always")
def _search(table: Array, guide: Array, shift: Any, v: Any) -> Any:
    """First j with table[j] >= v; guide[b] .. guide[b + 1] bounds it for the leading bits b of v."""
    b = v >> shift
    lo, hi = guide[b], guide[b + np.uint64(1)]
    while lo < hi:
        mid = (lo + hi) >> 1
        if table[mid] < v:
            lo = mid + 1
        else:
            hi = mid
    return lo


@njit(cache=True, nogil=True)
def direct(
    out: Array, done: int, words: Array, table: Array, guide: Array, shift: Any, offset: int, signed: bool
) -> tuple[int, int, int]:
    """Inversion in the table: one word a draw."""
    used = 0
    one = np.uint64(1)
    while done < out.size:
        if used >= words.size:
            return done, used, EXHAUSTED
        word = words[used]
        v = word >> one if signed else word
        j = _search(table, guide, shift, v)
        if table[j] == v:
            return done, used, UNDECIDED
        k = offset + j
        out[done] = -k if signed and (word & one) == one else k
        used += 1
        done += 1
    return done, used, FINISHED


@njit(cache=True, nogil=True, inline="always")
def _exp_minus(x: float) -> float:
    """1 - x + x^2/2 - ... + x^10/10!, for 0 <= x <= 1/8."""
    total = 1.0
    for n in range(10, 0, -1):
        total = 1.0 - x / n * total
    return total


@njit(cache=True, nogil=True)
def refined(
    negative: Array,
    coarse: Array,
    fine: Array,
    done: int,
    words: Array,
    table: Array,
    guide: Array,
    shift: Any,
    product: float,
    square: float,
    linear: float,
    fine_bits: Any,
    lazy: bool,
    fine_unit: float,
    unit: float,
) -> tuple[int, int, int]:
    """Sign and coarse index, then fine part and acceptance: two words a draw, and as many for each rejection.

    The fine part is the lowest ``fine_bits`` bits of the second word, in steps of ``fine_unit``; ``lazy`` says whether
    more of its digits exist. The bits above it are the acceptance test, in steps of ``unit``.
    """
    used = 0
    position = 0
    one = np.uint64(1)
    zero = np.uint64(0)
    mask = (one << fine_bits) - one
    while done < coarse.size:
        if position + 2 > words.size:
            return done, used, EXHAUSTED
        v = words[position] >> one
        minus = (words[position] & one) == one
        j = _search(table, guide, shift, v)
        if table[j] == v:
            return done, used, UNDECIDED
        f = words[position + 1] & mask
        a = np.float64(words[position + 1] >> fine_bits) * unit
        if not lazy and minus and j == 0 and f == zero:
            position += 2
            continue
        slope = product * j + linear
        u = np.float64(f) * fine_unit
        x = (slope + square * u) * u
        slack = (slope + 2.0 * square) * fine_unit if lazy else 0.0
        if x + slack > 0.125:
            return done, used, UNDECIDED
        e = _exp_minus(x)
        if a + unit <= e - slack - MARGIN:
            negative[done] = minus
            coarse[done] = j
            fine[done] = f
            position += 2
            used = position
            done += 1
        elif a >= e + MARGIN:
            position += 2
        else:
            return done, used, UNDECIDED
    return done, used, FINISHED


@njit(cache=True, nogil=True)
def rounded_sums(
    out: Array,
    doubtful: Array,
    fraction: Array,
    scale: float,
    step: float,
    reals: tuple[Array, Array, Array],
    unit: float,
    slack: float,
) -> None:
    """Round fraction + scale X, X = s (i + u) step, halves up; doubtful where a float error might matter."""
    negative, coarse, fine = reals
    for j in range(out.size):
        x = scale * ((coarse[j] + fine[j] * unit) * step)
        t = fraction[j] + (-x if negative[j] else x) + 0.5
        floor = np.floor(t)
        out[j] = np.int64(floor)
        doubtful[j] = min(t - floor, floor + 1.0 - t) <= slack * (scale + x + 2.0)
