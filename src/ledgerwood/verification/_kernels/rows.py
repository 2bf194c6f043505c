"""One pass over rows: hashes and clipped linear scores."""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray


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
    centres: NDArray[np.float64],
    rates: NDArray[np.float64],
    cuts: NDArray[np.float64],
    weights: NDArray[np.float64],
) -> NDArray[np.float64]:
    """The sum over fields and steps of weight * clipped value + weight * (1/2 if above its cut, else -1/2).

    ``rates`` are the reciprocals of the scales.
    """
    d, k = columns.size, centres.size
    scores = np.empty(numbers.shape[0], dtype=np.float64)
    for i in range(numbers.shape[0]):
        total, previous = 0.0, 0.0
        for j in range(d):
            value = numbers[i, columns[j]]
            if math.isnan(value):
                value = 0.0
            value = min(max(value, -1e150), 1e150)
            total += weights[j] * min(max((value - centres[j]) * rates[j], -3.0), 3.0)
            total += weights[k + j] * (0.5 if value > cuts[j] else -0.5)
            if j > 0:
                step, s = value - previous, d + j - 1
                total += weights[s] * min(max((step - centres[s]) * rates[s], -3.0), 3.0)
                total += weights[k + s] * (0.5 if step > cuts[s] else -0.5)
            previous = value
        scores[i] = total
    return scores
