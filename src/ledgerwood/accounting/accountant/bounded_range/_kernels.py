"""Compiled kernels of the accountants; numba is imported with the first kernel used, never before.

One bounded-range step on a uniform grid of gamma: both certified ends.

The formulas, the layout of the arrays and the rounding are derived in ``docs/theory/optimal-composition.md``.
A state is an array of four rows over gamma = 0, h, ..., n h: an upper value, a lower value, and the
intercept and (scaled) slope of a line below the profile. ``load`` pads the rows on both sides so that the
loops read without a branch; ``raise_upper`` and ``raise_lower`` merge one step into a destination by maximum,
which is what the lattice of unknown orders needs; ``repeat_upper`` applies one step many times without coming back
to Python, which on coarse grids takes longer than the step.
"""

from __future__ import annotations

from numba import njit

UPPER, LOWER, INTERCEPT, SLOPE = 0, 1, 2, 3

_BLOCK = 1024  # grid points per block: the rows of one block stay in the first-level cache

_ULP = 2.0**-52

_FLOOR = 1e-302  # positive upper values are raised to it, lower values below it are 0: no subnormal numbers

_UNDERFLOW = 1e-320  # more than all roundings of a step to subnormal numbers together


@njit(cache=True, nogil=True)
def load_upper(values, reach_index, one_minus, exponential, pad, padded):  # type: ignore[no-untyped-def]
    """Pad upper values: V(-g) = 1 - exp(-g) + exp(-g) V(g) on the left, the constant tail on the right.

    ``one_minus`` holds 1 - exp(-i h) to 4 ulp, ``exponential`` holds exp(-i h (1 - 4 ulp)) to 4 ulp.
    """
    size = values.shape[0]
    up = 1.0 + 8.0 * _ULP
    # To the right an upper value may only be continued as a constant, or as 0 beyond the reach.
    tail = values[size - 1] if size - 1 < reach_index else 0.0
    for i in range(size):
        padded[pad + i] = values[i]
    for i in range(pad):
        padded[pad + size + i] = tail
    for i in range(1, pad + 1):
        value = values[i] if i < size else tail
        padded[pad - i] = (one_minus[i] + exponential[i] * value) * up


@njit(cache=True, nogil=True)
def load_lower(state, one_minus, exponential, pad, work):  # type: ignore[no-untyped-def]
    """Pad the lower values and their lines in the same way; to the right they are 0."""
    size = state.shape[1]
    up, down = 1.0 + 8.0 * _ULP, 1.0 - 8.0 * _ULP
    for row in range(1, 4):
        for i in range(size):
            work[row, pad + i] = state[row, i]
        for i in range(pad):
            work[row, pad + size + i] = 0.0
    for i in range(1, pad + 1):
        lower, intercept, slope = 0.0, 0.0, 0.0
        if i < size:
            lower, intercept, slope = state[LOWER, i], state[INTERCEPT, i], state[SLOPE, i]
        work[LOWER, pad - i] = (one_minus[i] + exponential[i] * lower) * down
        # The mirror of the line (a, b) is (1 - b, 1 - a).
        work[INTERCEPT, pad - i] = max(1.0 - slope * exponential[i] * up, 0.0) * down
        work[SLOPE, pad - i] = (1.0 - intercept) * exponential[i] * up


@njit(cache=True, nogil=True)
def _raise_cell(a0, a1, b0, b1, e, f, q, p, bend, inverse_bend, top):  # type: ignore[no-untyped-def]
    """``top = max(top, the maximum of one cell of t)``: ends + (D - |d|)_+^2 / (4 D), D = bend e."""
    q0, p0, q1, p1 = q[0], p[0], q[1], p[1]
    for i in range(top.shape[0]):
        at0 = q0 * a0[i] + p0 * b0[i]
        at1 = q1 * a1[i] + p1 * b1[i]
        ends = at0 if at0 > at1 else at1
        z = bend * e[i] - abs(at0 - at1)
        z = z if z > 0.0 else 0.0
        value = ends + z * (z * f[i] * inverse_bend)
        top[i] = value if value > top[i] else top[i]


@njit(cache=True, nogil=True)
def _raise_strategy(j, q, p, a, b, top, choice):  # type: ignore[no-untyped-def]
    """``top = max(top, q a + p b)``, remembering where strategy j wins."""
    for i in range(top.shape[0]):
        value = q * a[i] + p * b[i]
        better = value > top[i]
        top[i] = value if better else top[i]
        choice[i] = j if better else choice[i]


@njit(cache=True, nogil=True)
def raise_upper(values, pad, limit, q, p, bend, inverse_bend, shape, slack, scratch, target):  # type: ignore[no-untyped-def]
    """``target[i] = max(target[i], sup_t q_t V(g_i - t) + (1 - q_t) V(g_i - t + epsilon))``, rounded up.

    ``shape`` = (cells, chord of V(. + epsilon) to the left and right node, 1/(e^h - 1),
    then for the last, partial cell of width r: chord of V(. - r) to the right and left node, 1/(e^r - 1), its
    bend and inverse bend, the bend being 0 when epsilon is a multiple of h; and a floor for the second
    differences, which keeps their inverses finite).
    """
    cells = int(shape[0])
    left, right, inverse = shape[1], shape[2], shape[3]
    near, far, inverse_r, bend_r, inverse_bend_r = shape[4], shape[5], shape[6], shape[7], shape[8]
    floor = shape[9]
    shifted, second, inverse_second, best = scratch[0], scratch[1], scratch[2], scratch[3]
    start = pad - cells - 1
    count = limit + 1 + cells + 1  # nodes -cells-1 .. limit
    tiny = 4.0 * _ULP
    here = values[start + cells : start + cells + count + 1]
    for i in range(count):
        shifted[start + i] = left * here[i] + right * here[i + 1]
    a = values[start : start + count]
    b = shifted[start : start + count]
    for i in range(1, count):
        above = a[i - 1] + (a[i - 1] - a[i]) * inverse
        below = b[i - 1] + (b[i - 1] - b[i]) * inverse
        difference = (above - below) + tiny * (abs(above) + abs(below))
        difference = difference if difference > floor else floor
        second[start + i] = difference
        inverse_second[start + i] = 1.0 / difference
    for block in range(0, limit + 1, _BLOCK):
        width = min(_BLOCK, limit + 1 - block)
        top = best[:width]
        for i in range(width):
            top[i] = 0.0
        for j in range(cells):
            s = pad + block - j
            _raise_cell(
                values[s : s + width],
                values[s - 1 : s - 1 + width],
                shifted[s : s + width],
                shifted[s - 1 : s - 1 + width],
                second[s : s + width],
                inverse_second[s : s + width],
                q[j : j + 2],
                p[j : j + 2],
                bend[j],
                inverse_bend[j],
                top,
            )
        s = pad + block
        a0 = values[s - cells : s - cells + width]
        b0 = shifted[s - cells : s - cells + width]
        a1, b1 = values[s - cells - 1 : s - cells - 1 + width], values[s : s + width]
        if bend_r > 0.0:
            q0, p0 = q[cells], p[cells]
            for i in range(width):
                behind = near * a0[i] + far * a1[i]
                at0 = q0 * a0[i] + p0 * b0[i]
                at1 = b1[i]
                ends = at0 if at0 > at1 else at1
                above = behind + (behind - a0[i]) * inverse_r
                below = b1[i] + (b1[i] - b0[i]) * inverse_r
                e1 = (above - below) + tiny * (abs(above) + abs(below))
                e1 = e1 if e1 > floor else floor
                z = bend_r * e1 - abs(at0 - at1)
                z = z if z > 0.0 else 0.0
                value = ends + z * (z / e1 * inverse_bend_r)
                top[i] = value if value > top[i] else top[i]
        goal = target[block : block + width]
        for i in range(width):
            value = top[i] * slack
            value = value if value > _FLOOR else _FLOOR
            goal[i] = value if value > goal[i] else goal[i]


@njit(cache=True, nogil=True)
def repeat_upper(  # type: ignore[no-untyped-def]
    values, other, reaches, one_minus, exponential, pad, padded, q, p, bend, inverse_bend, shape, slack, scratch
):
    """Apply one step ``len(reaches) - 1`` times to upper values; ``other`` is room for as many, and holds the
    answer after an odd number of steps.

    ``reaches`` are the first nodes where V is 0: at the start, and after each step.
    """
    last = values.shape[0] - 1
    for k in range(reaches.shape[0] - 1):
        load_upper(values, reaches[k], one_minus, exponential, pad, padded)
        for i in range(last + 1):
            other[i] = 0.0
        limit = min(reaches[k + 1], last)
        raise_upper(padded, pad, limit, q, p, bend, inverse_bend, shape, slack, scratch, other)
        values, other = other, values


@njit(cache=True, nogil=True)
def raise_lower(work, pad, limit, q, p, shift, scale, slack, scratch, chosen, target):  # type: ignore[no-untyped-def]
    """Merge the best grid strategy of one step into the rows LOWER, INTERCEPT, SLOPE of ``target``.

    ``V(. + epsilon)`` is read from the line of the nearest node, ``shift`` nodes to the right, whose slope
    (scaled by its own exp(gamma)) is multiplied by ``scale = exp(epsilon - shift h)``.
    """
    cells = q.shape[0] - 1
    down, up = 1.0 / slack, slack
    lower, intercept, slope = work[LOWER], work[INTERCEPT], work[SLOPE]
    ahead, best = scratch[0], scratch[3]
    start = pad - cells
    count = limit + 1 + cells
    if scale == 1.0:
        for i in range(count):
            ahead[start + i] = lower[start + i + shift]
    else:
        for i in range(count):
            value = intercept[start + i + shift] - slope[start + i + shift] * scale * up
            ahead[start + i] = max(value - 4.0 * _ULP * intercept[start + i + shift], 0.0)
    for block in range(0, limit + 1, _BLOCK):
        width = min(_BLOCK, limit + 1 - block)
        top, choice = best[:width], chosen[:width]
        for i in range(width):
            top[i] = -1.0
            choice[i] = 0
        for j in range(cells + 1):
            s = pad + block - j
            _raise_strategy(j, q[j], p[j], lower[s : s + width], ahead[s : s + width], top, choice)
        for i in range(width):
            value = top[i] * down
            if value > _FLOOR and value > target[LOWER, block + i]:
                j = choice[i]
                s = pad + block + i - j
                target[LOWER, block + i] = value
                target[INTERCEPT, block + i] = (q[j] * intercept[s] + p[j] * intercept[s + shift]) * down
                target[SLOPE, block + i] = (q[j] * slope[s] + p[j] * slope[s + shift] * scale) * up + _UNDERFLOW
