"""Numba kernels over integer rows: gradients times rows, in int64 arithmetic alone.

No float enters a sum, so every answer is the same whatever the order, the number of threads or the processor; a
record's gradient depends on that record and the weights only. Bounds that keep int64 from wrapping around are proved in
:mod:`ledgerwood.learners.linear.integer_rows`.

Rows come as patterns and loose entries (:mod:`ledgerwood.learners.linear.integer_rows`). Places are unsigned: numba
then leaves out its test for negative ones, which costs as much as the sum.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

Array = np.ndarray[Any, Any]

SQUARED, LOGISTIC = 0, 1  # any other loss is the hinge


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
def pattern_scores(parents: Array, columns: Array, entries: Array, weights: Array, out: Array) -> None:
    """Write every pattern's part of the score, for every output; a pattern adds one entry to its parent's."""
    for k in range(weights.shape[0]):
        own, mine = weights[k], out[k]
        for p in range(parents.size):
            mine[p] = mine[parents[p]] + own[columns[p]] * entries[p]


@njit(cache=True, nogil=True)
def pattern_sums(parents: Array, columns: Array, entries: Array, sums: Array, out: Array) -> None:
    """Add sums of gradients by pattern to sums by column: a pattern's sum is its parent's too."""
    for k in range(out.shape[0]):
        own, mine = out[k], sums[k]
        for back in range(parents.size):
            p = parents.size - 1 - back
            own[columns[p]] += mine[p] * entries[p]
            if parents[p] != p:
                mine[parents[p]] += mine[p]


@njit(cache=True, nogil=True)
def gradient_sum(
    codes: Array, starts: Array, columns: Array, entries: Array, intercept: int, labels: Array, scores: Array,
    weights: Array, kind: int, table: Array, score_shift: int, table_shift: int, one: int, clip: int,
    sums: Array, out: Array,
) -> None:  # fmt: skip
    """Add gradients over all rows to ``sums`` (by pattern) and ``out`` (by column, for loose entries and intercept).

    Each record's vector of gradients has norm at most ``clip``. ``scores`` are those of the patterns. Labels are class
    numbers: output k tells class k from the rest. ``sums`` and ``out`` begin with zeros.
    """
    outputs = weights.shape[0]
    g = np.zeros(outputs, dtype=np.int64)
    half = table.size // 2
    rounding = np.int64(1) << (score_shift - 1)
    for i in range(labels.size):
        square = np.int64(0)
        for k in range(outputs):
            total = weights[k, 0] * intercept + rounding
            for j in range(codes.shape[1]):
                total += scores[k, codes[i, j]]
            for e in range(starts[i], starts[i + 1]):
                total += weights[k, columns[e]] * entries[e]
            positive = labels[i] == k
            target = one if positive else -one
            value = _gradient(kind, positive, target, total >> score_shift, table, table_shift, half, one)
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
            out[k, 0] += g[k] * intercept
            for j in range(codes.shape[1]):
                sums[k, codes[i, j]] += g[k]
            for e in range(starts[i], starts[i + 1]):
                out[k, columns[e]] += g[k] * entries[e]


@njit(cache=True, nogil=True)
def gradient_sum_one(
    codes: Array, starts: Array, columns: Array, entries: Array, intercept: int, labels: Array, coded: bool,
    scores: Array, weights: Array, kind: int, table: Array, score_shift: int, table_shift: int, one: int, clip: int,
    sums: Array, out: Array,
) -> None:  # fmt: skip
    """What :func:`gradient_sum` does, for a single output (the second of two classes, or a number): half the time.

    ``coded`` labels are 0 and 1, others numbers in steps of 1 / ``one``.
    """
    half = table.size // 2
    base = weights[0] * intercept + (np.int64(1) << (score_shift - 1))
    constant = np.int64(0)
    groups, loose = codes.shape[1], columns.size > 0
    for i in range(labels.size):
        total = base
        for j in range(groups):
            total += scores[codes[i, j]]
        if loose:
            for e in range(starts[i], starts[i + 1]):
                total += weights[columns[e]] * entries[e]
        label = labels[i]
        positive = coded and label == 1
        target = (one if positive else -one) if coded else label
        value = _gradient(kind, positive, target, total >> score_shift, table, table_shift, half, one)
        value = min(max(value, -clip), clip)
        constant += value
        for j in range(groups):
            sums[codes[i, j]] += value
        if loose:
            for e in range(starts[i], starts[i + 1]):
                out[columns[e]] += value * entries[e]
    out[0] += constant * intercept


@njit(cache=True, nogil=True)
def group(
    starts: Array, rows: Array, entries: Array, codes: Array, parents: Array, columns: Array, own: Array, most: int
) -> Any:
    """Grow patterns column by column; return how many groups and patterns there are, and which columns are loose.

    ``starts``, ``rows``, ``entries`` list the entries by column. ``codes[g]`` are the rows' patterns in group g.
    ``own`` is the entry that a pattern adds, ``columns`` its column. A column joins the last group if that keeps it
    below ``most`` patterns, else it begins a group; where that is not possible its entries stay loose.
    """
    width = starts.size - 1
    loose = np.zeros(width, dtype=np.bool_)
    number = np.full(2**16, -1, dtype=np.int32)  # of an entry's value among those of its column
    child = np.full(16 * most, -1, dtype=np.int32)  # of a pattern and a value
    groups, root, patterns = 0, 0, 0
    for c in range(width):
        begin, end = starts[c], starts[c + 1]
        if begin == end:
            continue
        kinds = 0
        for e in range(begin, end):
            place = np.int64(entries[e]) + 2**15
            if number[place] < 0:
                number[place] = kinds
                kinds += 1
        joined = False
        for fresh in range(2):
            if fresh:  # a group of its own
                if groups == codes.shape[0] or patterns + 1 + kinds > parents.size or kinds >= most:
                    break
                parents[patterns], columns[patterns], own[patterns] = patterns, 0, 0
                codes[groups, :] = patterns
                root = patterns
                groups += 1
                patterns += 1
            elif groups == 0 or (patterns - root) * kinds > child.size:
                continue
            code, size = codes[groups - 1], patterns
            room = min(root + most, parents.size)
            joined = True
            for e in range(begin, end):
                key = (np.int64(code[rows[e]]) - root) * kinds + number[np.int64(entries[e]) + 2**15]
                if child[key] < 0:
                    if patterns == room:
                        joined = False
                        break
                    child[key] = patterns
                    parents[patterns], columns[patterns], own[patterns] = code[rows[e]], c, entries[e]
                    patterns += 1
            if joined:
                for e in range(begin, end):
                    key = (np.int64(code[rows[e]]) - root) * kinds + number[np.int64(entries[e]) + 2**15]
                    code[rows[e]] = child[key]
            else:
                patterns = size
            child[: (size - root) * kinds] = -1
            if joined:
                break
        loose[c] = not joined
        for e in range(begin, end):
            number[np.int64(entries[e]) + 2**15] = -1
    return groups, patterns, loose


@njit(cache=True, nogil=True)
def by_column(starts: Array, columns: Array, entries: Array, begins: Array, rows: Array, out: Array) -> None:
    """List the entries by column: ``begins`` holds where each column begins, and where the last one ends."""
    place = begins.copy()
    for i in range(starts.size - 1):
        for e in range(starts[i], starts[i + 1]):
            c = columns[e]
            rows[place[c]] = i
            out[place[c]] = entries[e]
            place[c] += np.uint64(1)


@njit(cache=True, nogil=True)
def cross(starts: Array, columns: Array, entries: Array, intercept: int, out: Array) -> None:
    """Add row times row over all rows to ``out``: its lower triangle, columns of a row being in order."""
    for i in range(starts.size - 1):
        out[0, 0] += intercept * intercept
        for e in range(starts[i], starts[i + 1]):
            entry, own = np.int64(entries[e]), out[columns[e]]
            own[0] += entry * intercept
            for f in range(starts[i], e + np.uint64(1)):
                own[columns[f]] += entry * entries[f]


@njit(cache=True, nogil=True)
def count(codes: Array, width: int, own: Array, sizes: Array) -> None:
    """Add 1 to the size of every row that a column adds an entry to: its code is known, and its value is not zero."""
    for i in range(codes.size):
        if codes[i] < width and own[i] != 0:
            sizes[i] += 1


@njit(cache=True, nogil=True)
def append(codes: Array, width: int, own: Array, offset: int, ends: Array, columns: Array, entries: Array) -> None:
    """Add a column's entries to the rows that :func:`count` counted; ``ends`` says where each row ends so far."""
    for i in range(codes.size):
        if codes[i] < width and own[i] != 0:
            columns[ends[i]] = offset + codes[i]
            entries[ends[i]] = own[i]
            ends[i] += np.uint64(1)


@njit(cache=True, nogil=True)
def densify(starts: Array, columns: Array, entries: Array, intercept: int, begin: int, end: int, out: Array) -> None:
    """Write rows ``begin`` .. ``end`` into the float64 matrix ``out``."""
    for i in range(begin, end):
        row = out[i - begin]
        row[:] = 0.0
        row[0] = intercept
        for e in range(starts[i], starts[i + 1]):
            row[columns[e]] += entries[e]


@njit(cache=True, nogil=True)
def shorten(starts: Array, entries: Array, room: int, bound: int) -> None:
    """Scale every row whose squared norm is above ``room`` to a norm of at most ``bound``, in integers, towards zero.

    |entry| bound // ceil(norm) <= |entry| bound / norm, so no rounding can lift the norm above the bound.
    """
    for i in range(starts.size - 1):
        square = np.int64(0)
        for e in range(starts[i], starts[i + 1]):
            square += np.int64(entries[e]) * np.int64(entries[e])
        if square <= room:
            continue
        norm = np.int64(math.sqrt(float(square)))
        while norm * norm < square:
            norm += 1
        for e in range(starts[i], starts[i + 1]):
            entry = np.int64(entries[e])
            entries[e] = entry * bound // norm if entry >= 0 else -(-entry * bound // norm)
