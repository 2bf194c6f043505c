"""The kernels of :mod:`.recursion` in numpy: the same numbers to the last bit, with nothing to compile or to load.

They take a tenth of a second for hundreds of selections, ten times as long as the compiled ones, which take half a
second to load and seconds to compile. Every element goes through the same operations in the same order.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LOWER, INTERCEPT, SLOPE = 1, 2, 3
_BLOCK = 4096  # grid points per block: its rows stay in the second-level cache
_ULP = 2.0**-52
_FLOOR = 1e-302
_UNDERFLOW = 1e-320


def load_upper(
    values: Array, reach_index: int, one_minus: Array, exponential: Array, pad: int, padded: Array
) -> None:  # fmt: skip
    """Pad upper values: V(-g) = 1 - exp(-g) + exp(-g) V(g) on the left, the constant tail on the right."""
    size = values.shape[0]
    tail = values[size - 1] if size - 1 < reach_index else 0.0
    padded[pad : pad + size] = values
    padded[pad + size : 2 * pad + size] = tail
    mirror = np.full(pad, tail)
    known = min(pad, size - 1)
    mirror[:known] = values[1 : known + 1]
    padded[:pad] = ((one_minus[1 : pad + 1] + exponential[1 : pad + 1] * mirror) * (1.0 + 8.0 * _ULP))[::-1]


def load_lower(state: Array, one_minus: Array, exponential: Array, pad: int, work: Array) -> None:
    """Pad the lower values and their lines in the same way; to the right they are 0."""
    size = state.shape[1]
    up, down = 1.0 + 8.0 * _ULP, 1.0 - 8.0 * _ULP
    work[1:, pad : pad + size] = state[1:]
    work[1:, pad + size : 2 * pad + size] = 0.0
    mirror = np.zeros((4, pad))
    known = min(pad, size - 1)
    mirror[:, :known] = state[:, 1 : known + 1]
    one, e = one_minus[1 : pad + 1], exponential[1 : pad + 1]
    work[LOWER, :pad] = ((one + e * mirror[LOWER]) * down)[::-1]
    work[INTERCEPT, :pad] = (np.maximum(1.0 - mirror[SLOPE] * e * up, 0.0) * down)[::-1]
    work[SLOPE, :pad] = ((1.0 - mirror[INTERCEPT]) * e * up)[::-1]


def _difference(above: Array, below: Array, floor: float) -> Array:
    found = (above - below) + 4.0 * _ULP * (np.abs(above) + np.abs(below))
    return np.maximum(found, floor, out=found)


def raise_upper(
    values: Array, pad: int, limit: int, q: Array, p: Array, bend: Array, inverse_bend: Array, shape: Array,
    slack: float, scratch: Array, target: Array,
) -> None:  # fmt: skip
    """``target[i] = max(target[i], sup_t q_t V(g_i - t) + (1 - q_t) V(g_i - t + epsilon))``, rounded up."""
    cells = int(shape[0])
    left, right, inverse, near, far, inverse_r, bend_r, inverse_bend_r, floor = shape[1:10].tolist()
    start = pad - cells - 1
    count = limit + 1 + cells + 1
    here = values[start + cells : start + cells + count + 1]
    a = values[start : start + count]
    b = left * here[:-1] + right * here[1:]
    second = np.empty(count)
    second[1:] = _difference(a[:-1] + (a[:-1] - a[1:]) * inverse, b[:-1] + (b[:-1] - b[1:]) * inverse, floor)
    second[0] = 1.0
    inverse_second = 1.0 / second
    # A cell rises above its ends only where they differ by less than bend times the second difference. One bound for
    # all cells of a node finds the few places where that can be.
    near_peak = float(bend.max()) * np.maximum.accumulate(second[::-1])[::-1]
    qs, ps, bends, inverse_bends = q.tolist(), p.tolist(), bend.tolist(), inverse_bend.tolist()
    rows = np.empty((4, min(_BLOCK, limit + 1)))
    for block in range(0, limit + 1, _BLOCK):
        width = min(_BLOCK, limit + 1 - block)
        at0, at1, u, top = rows[:, :width]
        s = block + cells + 1
        np.multiply(a[s : s + width], qs[0], out=at0)
        np.multiply(b[s : s + width], ps[0], out=u)
        np.add(at0, u, out=at0)
        top[:] = at0
        bound = near_peak[block + 2 : block + 2 + width]
        for j in range(cells):
            s = block + cells - j
            np.multiply(a[s : s + width], qs[j + 1], out=at1)
            np.multiply(b[s : s + width], ps[j + 1], out=u)
            np.add(at1, u, out=at1)
            np.maximum(top, at1, out=top)
            np.subtract(at0, at1, out=u)
            np.abs(u, out=u)
            close = np.less(u, bound)
            if close.any():
                first, last = int(close.argmax()), width - int(close[::-1].argmax())
                e, f = second[s + 1 + first : s + 1 + last], inverse_second[s + 1 + first : s + 1 + last]
                z = np.maximum(bends[j] * e - u[first:last], 0.0)
                ends = np.maximum(at0[first:last], at1[first:last])
                np.maximum(top[first:last], ends + z * (z * f * inverse_bends[j]), out=top[first:last])
            at0, at1 = at1, at0  # the right end of a cell is the left end of the next one
        s = block + cells + 1
        if bend_r > 0.0:
            s -= cells
            a0, a1, b0 = a[s : s + width], a[s - 1 : s - 1 + width], b[s : s + width]
            b1 = values[pad + block : pad + block + width]
            behind = near * a0 + far * a1
            ends0 = qs[cells] * a0 + ps[cells] * b0
            e1 = _difference(behind + (behind - a0) * inverse_r, b1 + (b1 - b0) * inverse_r, floor)
            z = np.maximum(bend_r * e1 - np.abs(ends0 - b1), 0.0)
            np.maximum(top, np.maximum(ends0, b1) + z * (z / e1 * inverse_bend_r), out=top)
        goal = target[block : block + width]
        np.maximum(goal, np.maximum(top * slack, _FLOOR), out=goal)


def repeat_upper(
    values: Array, other: Array, reaches: NDArray[np.int64], one_minus: Array, exponential: Array, pad: int,
    padded: Array, q: Array, p: Array, bend: Array, inverse_bend: Array, shape: Array, slack: float, scratch: Array,
) -> None:  # fmt: skip
    """Apply one step ``len(reaches) - 1`` times; ``other`` holds the answer after an odd number of steps."""
    last = values.shape[0] - 1
    for reach, after in itertools.pairwise(reaches.tolist()):
        load_upper(values, reach, one_minus, exponential, pad, padded)
        other[:] = 0.0
        raise_upper(padded, pad, min(after, last), q, p, bend, inverse_bend, shape, slack, scratch, other)
        values, other = other, values


def raise_lower(
    work: Array, pad: int, limit: int, q: Array, p: Array, shift: int, scale: float, slack: float,
    scratch: Array, chosen: Any, target: Array,
) -> None:  # fmt: skip
    """Merge the best grid strategy of one step into the rows LOWER, INTERCEPT, SLOPE of ``target``."""
    cells = q.shape[0] - 1
    down, up = 1.0 / slack, slack
    lower, intercept, slope = work[LOWER], work[INTERCEPT], work[SLOPE]
    start = pad - cells
    ahead = slice(start + shift, start + shift + limit + 1 + cells)
    if scale == 1.0:
        then = lower[ahead]
    else:
        value = intercept[ahead] - slope[ahead] * scale * up
        then = np.maximum(value - 4.0 * _ULP * intercept[ahead], 0.0)
    qs, ps = q.tolist(), p.tolist()
    for block in range(0, limit + 1, _BLOCK):
        width = min(_BLOCK, limit + 1 - block)
        top, choice = np.full(width, -1.0), np.zeros(width, dtype=np.int64)
        value, u = np.empty(width), np.empty(width)
        for strategy in range(cells + 1):
            s = block - strategy
            np.multiply(lower[pad + s : pad + s + width], qs[strategy], out=value)
            np.multiply(then[s + cells : s + cells + width], ps[strategy], out=u)
            np.add(value, u, out=value)
            np.copyto(choice, strategy, where=value > top)
            np.maximum(top, value, out=top)
        value = top * down
        goal = target[:, block : block + width]
        better = np.nonzero((value > _FLOOR) & (value > goal[LOWER]))[0]
        j = choice[better]
        at = pad + block + better - j
        goal[LOWER, better] = value[better]
        goal[INTERCEPT, better] = (q[j] * intercept[at] + p[j] * intercept[at + shift]) * down
        goal[SLOPE, better] = (q[j] * slope[at] + p[j] * slope[at + shift] * scale) * up + _UNDERFLOW
