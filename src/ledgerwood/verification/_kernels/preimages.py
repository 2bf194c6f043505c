"""Preimage search on the grid of a 53-bit uniform, with the C library's logarithm.

numpy's vectorised ``log`` differs from the C library's in the last bit once in 300 values; numpy's generator calls the
C library, and so does this loop.
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
    centred = u - 0.5
    sign = 1.0 if centred > 0.0 else (-1.0 if centred < 0.0 else 0.0)
    inside = 1.0 - 2.0 * abs(centred)
    if inside <= 0.0:
        return -math.inf * sign
    if formula == 1:
        return location - scale * sign * math.log(inside)
    return location - scale * sign * math.log1p(-2.0 * abs(centred))


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
def first_explanation(
    values: NDArray[np.float64], locations: NDArray[np.float64], scales: NDArray[np.float64], formula: int, reach: int
) -> tuple[int, int]:
    """The first location and scale that give every value a preimage; (-1, -1) if none does."""
    for a in range(locations.size):
        for b in range(scales.size):
            fits = True
            for i in range(values.size):
                if not has_preimage(values[i : i + 1], locations[a], scales[b], formula, reach)[0]:
                    fits = False
                    break
            if fits:
                return a, b
    return -1, -1
