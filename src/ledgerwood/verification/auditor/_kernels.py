"""Compiled loops of the auditor; imported at first use.

Preimage search on the grid of a 53-bit uniform, with the C library's logarithm.

numpy's vectorized ``log`` differs from the C library's in the last bit once in 300 values; numpy's generator calls the
C library, and so does this loop.

One pass over rows: hashes and clipped linear scores.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True, nogil=True)
def _sample(u: float, location: float, scale: float, formula: int) -> float:
    if formula == 0:  # numpy's generator: 2 - u - u rounds once, so the two tails lie on different grids
        if u >= 0.5:
            return location - scale * math.log(2.0 - u - u)
        return location + scale * math.log(u + u)
    centered = u - 0.5
    sign = 1.0 if centered > 0.0 else (-1.0 if centered < 0.0 else 0.0)
    inside = 1.0 - 2.0 * abs(centered)
    if inside <= 0.0:
        return -math.inf * sign
    if formula == 1:
        return location - scale * sign * math.log(inside)
    return location - scale * sign * math.log1p(-2.0 * abs(centered))


@njit(cache=True, nogil=True)
def has_preimage(
    values: NDArray[np.float64], location: float, scale: float, formula: int, reach: int
) -> NDArray[np.bool_]:
    """Whether some grid point within ``reach`` of the real preimage gives exactly this float."""
    found = np.zeros(values.size, dtype=np.bool_)
    for i in range(values.size):
        y = values[i]
        tail = 0.5 * math.exp(-abs(y - location) / scale)
        guess = math.floor((1.0 - tail if y >= location else tail) * 9007199254740992.0 + 0.5)
        for shift in range(-reach, reach + 1):
            point = guess + shift
            if 1.0 <= point < 9007199254740992.0 and _sample(point / 9007199254740992.0, location, scale, formula) == y:
                found[i] = True
                break
    return found


@njit(cache=True, nogil=True)
def hash_rows(bits: NDArray[np.uint64], numbers: NDArray[np.float64]) -> NDArray[np.uint64]:
    """A 64-bit hash of each row's bits; every nan counts as one value."""
    keys = np.empty(bits.shape[0], dtype=np.uint64)
    for i in range(bits.shape[0]):
        key = np.uint64(0x9E3779B97F4A7C15)
        for j in range(bits.shape[1]):
            word = np.uint64(0x7FF8000000000000) if math.isnan(numbers[i, j]) else bits[i, j]
            key = (key ^ word) * np.uint64(0xBF58476D1CE4E5B9)
            key ^= key >> np.uint64(29)
        keys[i] = key
    return keys


@njit(cache=True, nogil=True)
def linear_scores(
    numbers: NDArray[np.float64],
    columns: NDArray[np.int64],
    centers: NDArray[np.float64],
    rates: NDArray[np.float64],
    cuts: NDArray[np.float64],
    weights: NDArray[np.float64],
) -> NDArray[np.float64]:
    """The sum over fields and steps of weight * clipped value + weight * (1/2 if above its cut, else -1/2).

    ``rates`` are the reciprocals of the scales.
    """
    d, k = columns.size, centers.size
    scores = np.empty(numbers.shape[0], dtype=np.float64)
    for i in range(numbers.shape[0]):
        total, previous = 0.0, 0.0
        for j in range(d):
            value = numbers[i, columns[j]]
            if math.isnan(value):
                value = 0.0
            value = min(max(value, -1e150), 1e150)
            total += weights[j] * min(max((value - centers[j]) * rates[j], -3.0), 3.0)
            total += weights[k + j] * (0.5 if value > cuts[j] else -0.5)
            if j > 0:
                step, s = value - previous, d + j - 1
                total += weights[s] * min(max((step - centers[s]) * rates[s], -3.0), 3.0)
                total += weights[k + s] * (0.5 if step > cuts[s] else -0.5)
            previous = value
        scores[i] = total
    return scores
