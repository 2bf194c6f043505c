"""Compiled inner loops of the local mechanisms: integers only, no rounding anywhere."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def invert(table: Any, rows: Any, words: Any, outputs: Any, undecided: Any) -> int:
    """Find for each word how many boundaries of its row lie below it; list the words too close to one.

    ``table[r, i]`` is a lower bound of boundary ``i`` in units of the last bit, exact to less than two units.
    Returns the number of undecided words, whose positions are written to ``undecided``.
    """
    waiting = 0
    for i in range(rows.size):
        row, word = rows[i], words[i]
        low, high = 0, table.shape[1]
        while low < high:
            middle = (low + high) >> 1
            if table[row, middle] < word:
                low = middle + 1
            else:
                high = middle
        outputs[i] = low
        above = low < table.shape[1] and table[row, low] == word
        below = low > 0 and word - table[row, low - 1] == np.uint64(1)
        if above or below:
            undecided[waiting] = i
            waiting += 1
    return waiting


@njit(cache=True, nogil=True)
def laplace_attempts(
    thresholds: Any, clamp: bool, width: int, rows: Any, words: Any, outputs: Any, undecided: Any
) -> int:
    """One attempt at discrete Laplace noise for each row: a sign, and a magnitude from independent bits.

    ``outputs`` receives the output, or -1 where the attempt is rejected. Attempts in which a word is too
    close to its threshold are listed in ``undecided`` and left for exact arithmetic.
    """
    waiting = 0
    for i in range(rows.size):
        row = rows[i]
        count = thresholds.size
        if not clamp:
            reach = max(row, width - 1 - row)
            count = 0
            while reach >> count:
                count += 1
        magnitude, near = 0, False
        for j in range(count):  # without branches: the outcomes are random, a branch would be mispredicted
            word, threshold = np.uint64(words[i, j + 1]), np.uint64(thresholds[j])
            magnitude |= int(word < threshold) << j
            near |= bool(word - threshold <= np.uint64(1))  # wraps to a large number when below
        if near:
            undecided[waiting] = i
            waiting += 1
        else:
            outputs[i] = finish(row, magnitude, words[i, 0] & 1 == 1, width, clamp)
    return waiting


@njit(cache=True, nogil=True)
def finish(row: int, magnitude: int, negative: bool, width: int, clamp: bool) -> int:
    """The output of an attempt with known magnitude and sign; -1 where it is rejected."""
    if negative and magnitude == 0:
        return -1  # zero must not count twice
    output = row - magnitude if negative else row + magnitude
    if clamp:
        return min(max(output, 0), width - 1)
    return output if 0 <= output < width else -1


@njit(cache=True, nogil=True)
def keep_undecided(outputs: Any, waiting: Any, result: Any) -> int:
    """Store accepted outputs at the places that waited for them; keep the other places, and count them."""
    left = 0
    for i in range(outputs.size):
        if outputs[i] >= 0:
            result[waiting[i]] = outputs[i]
        else:
            waiting[left] = waiting[i]
            left += 1
    return left


@njit(cache=True, nogil=True)
def largest_gaps(log_probabilities: Any, gaps: Any) -> None:
    """``gaps[d] = max over x, o of |log p(o | x + d) - log p(o | x)|``; equal infinities differ by 0."""
    inputs, outputs = log_probabilities.shape
    for x in range(inputs):
        for y in range(x + 1, inputs):
            largest = 0.0
            for o in range(outputs):
                a, b = log_probabilities[x, o], log_probabilities[y, o]
                if a != b:
                    largest = max(largest, abs(a - b))
            gaps[y - x] = max(gaps[y - x], largest)
