"""Numba kernels over sparse integer rows: gradients times rows, in int64 arithmetic alone.

No float enters a sum, so every answer is the same whatever the order, the number of threads or the processor; a
record's gradient depends on that record and the weights only. Bounds that keep int64 from wrapping around are proved in
:mod:`ledgerwood.learners.linear.rows`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

Array = np.ndarray[Any, Any]

SQUARED, LOGISTIC, HINGE = 0, 1, 2


@njit(cache=True, nogil=True, inline="always")
def _score(begin: Any, end: Any, columns: Array, cells: Array, unit: int, intercept: int, weights: Array) -> Any:
    # Places are unsigned: numba then leaves out its test for negative ones, which costs as much as the sum.
    total = np.int64(0)
    if unit:
        for e in range(begin, end):
            total += weights[columns[e]]
        return total * unit + weights[0] * intercept
    for e in range(begin, end):
        total += weights[columns[e]] * cells[e]
    return total + weights[0] * intercept


@njit(cache=True, nogil=True, inline="always")
def _gradient(kind: int, positive: bool, label: int, score: int, table: Array, shift: int, half: int, one: int) -> Any:
    """Negative derivative of the loss in the score, in steps of 1 / ``one``."""
    if kind == SQUARED:
        return label - score
    if kind == LOGISTIC:
        place = ((score + (1 << (shift - 1))) >> shift) + half
        place = min(max(place, 0), 2 * half)
        return (one if positive else 0) - table[place]
    sign = one if positive else -one
    return sign if one - (score if positive else -score) > 0 else 0


@njit(cache=True, nogil=True)
def pull(
    starts: Array, columns: Array, cells: Array, unit: int, intercept: int, labels: Array,
    weights: Array, kind: int, table: Array, score_shift: int, table_shift: int, one: int, clip: int, out: Array,
) -> None:  # fmt: skip
    """Add gradient times row over all rows to ``out``: each record's vector of gradients has norm at most ``clip``.

    ``unit`` is the value of all cells if they are equal (indicators), else 0. ``out`` begins with zeros.
    Labels are class numbers: output k tells class k from the rest.
    """
    outputs = weights.shape[0]
    g = np.zeros(outputs, dtype=np.int64)
    half = table.size // 2
    rounding = np.int64(1) << (score_shift - 1)
    for i in range(starts.size - 1):
        begin, end = starts[i], starts[i + 1]
        square = np.int64(0)
        for k in range(outputs):
            score = (_score(begin, end, columns, cells, unit, intercept, weights[k]) + rounding) >> score_shift
            positive = labels[i] == k
            value = _gradient(kind, positive, one if positive else -one, score, table, table_shift, half, one)
            value = min(max(value, -clip), clip)
            g[k] = value
            square += value * value
        if square > clip * clip:
            norm = np.int64(math.sqrt(float(square)))
            while norm * norm < square:
                norm += 1
            for k in range(outputs):
                g[k] = g[k] * clip // norm if g[k] >= 0 else -(-g[k] * clip // norm)
        for k in range(outputs):
            own, value = out[k], g[k]
            own[0] += value
            if unit:
                for e in range(begin, end):
                    own[columns[e]] += value
            else:
                for e in range(begin, end):
                    own[columns[e]] += value * cells[e]
    for k in range(outputs):
        out[k, 0] *= intercept
        if unit:
            for j in range(1, out.shape[1]):
                out[k, j] *= unit


@njit(cache=True, nogil=True, inline="always")
def _clipped(
    kind: int, coded: bool, label: int, score: int, table: Array, shift: int, half: int, one: int, clip: int
) -> Any:
    """Gradient of a single output: ``coded`` labels are 0 and 1, others numbers in steps of 1 / ``one``."""
    positive = coded and label == 1
    target = (one if positive else -one) if coded else label
    return min(max(_gradient(kind, positive, target, score, table, shift, half, one), -clip), clip)


@njit(cache=True, nogil=True)
def pull_one(
    starts: Array, columns: Array, cells: Array, unit: int, intercept: int, labels: Array, coded: bool,
    weights: Array, kind: int, table: Array, score_shift: int, table_shift: int, one: int, clip: int, out: Array,
) -> None:  # fmt: skip
    """What :func:`pull` does, for a single output (the second of two classes, or a number): half the time."""
    half = table.size // 2
    base = weights[0] * intercept + (np.int64(1) << (score_shift - 1))
    constant = np.int64(0)
    begin = starts[0]
    if unit:  # outside the loop over rows, where it would cost a third of the time
        for i in range(labels.size):
            end = starts[i + 1]
            total = np.int64(0)
            for e in range(begin, end):
                total += weights[columns[e]]
            score = (total * unit + base) >> score_shift
            value = _clipped(kind, coded, labels[i], score, table, table_shift, half, one, clip)
            constant += value
            for e in range(begin, end):
                out[columns[e]] += value
            begin = end
        for j in range(1, out.size):
            out[j] *= unit
    else:
        for i in range(labels.size):
            end = starts[i + 1]
            total = np.int64(0)
            for e in range(begin, end):
                total += weights[columns[e]] * cells[e]
            value = _clipped(kind, coded, labels[i], (total + base) >> score_shift, table, table_shift, half, one, clip)
            constant += value
            for e in range(begin, end):
                out[columns[e]] += value * cells[e]
            begin = end
    out[0] = constant * intercept


@njit(cache=True, nogil=True)
def densify(starts: Array, columns: Array, cells: Array, intercept: int, begin: int, end: int, out: Array) -> None:
    """Write rows ``begin`` .. ``end`` into the float64 matrix ``out``."""
    for i in range(begin, end):
        row = out[i - begin]
        row[:] = 0.0
        row[0] = intercept
        for e in range(starts[i], starts[i + 1]):
            row[columns[e]] += cells[e]


@njit(cache=True, nogil=True)
def shorten(starts: Array, cells: Array, room: int, bound: int) -> None:
    """Scale every row whose squared norm is above ``room`` to a norm of at most ``bound``, in integers, towards zero.

    |cell| bound // ceil(norm) <= |cell| bound / norm, so no rounding can lift the norm above the bound.
    """
    for i in range(starts.size - 1):
        square = np.int64(0)
        for e in range(starts[i], starts[i + 1]):
            square += np.int64(cells[e]) * np.int64(cells[e])
        if square <= room:
            continue
        norm = np.int64(math.sqrt(float(square)))
        while norm * norm < square:
            norm += 1
        for e in range(starts[i], starts[i + 1]):
            cell = np.int64(cells[e])
            cells[e] = cell * bound // norm if cell >= 0 else -(-cell * bound // norm)
