"""One-dimensional searches whose answer is on the safe side."""

from __future__ import annotations

import math
from collections.abc import Callable


def least(accept: Callable[[float], bool], *, guess: float, tolerance: float = 1e-13) -> float:
    """The least x ≥ 0 that a monotone ``accept`` admits (False below, True above), rounded upwards.

    Returns a value that was itself tested and accepted, within ``tolerance`` (relative) of one that was not.

    >>> least(lambda x: x * x >= 2, guess=1.0)
    1.414213562373...
    """
    if accept(0.0):
        return 0.0
    low, high = 0.0, max(guess, 1e-300)
    while not accept(high):
        low, high = high, 2 * high
        if high > 1e300:
            return float("inf")
    while low == 0.0 and high > 1e-300 and accept(high / 16):
        high /= 16
    if low == 0.0:
        low = high / 16
    while high - low > tolerance * high:
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (low, middle) if accept(middle) else (middle, high)
    return high


def boundary(gap: Callable[[float], float], *, good: float, bad: float, tolerance: float) -> float:
    """The accepted end of a bracket shrunk around the zero of a continuous ``gap`` (accepted: gap ≤ 0).

    For expensive functions: the Illinois variant of regula falsi, safeguarded by bisection. ``good`` is accepted,
    ``bad`` is not, on either side; the answer was itself tested, within ``tolerance`` of a rejected point.

    >>> round(boundary(lambda x: 2 - x * x, good=2.0, bad=1.0, tolerance=1e-9), 8)
    1.41421356
    """
    at_good, at_bad, side, slow = gap(good), gap(bad), 0, 0
    while abs(good - bad) > tolerance:
        width = abs(good - bad)
        if slow < 3 and math.isfinite(at_good) and math.isfinite(at_bad):
            share = at_bad / (at_bad - at_good)
        else:
            share, slow = 0.5, 0
        # Aim at the accepted side of the estimate by a quarter of the tolerance, so that both ends close in.
        margin = 0.49 * tolerance / width
        middle = bad + min(max(share + 0.25 * tolerance / width, margin), 1 - margin) * (good - bad)
        if middle in (good, bad):
            break
        value = gap(middle)
        if value <= 0:
            good, at_good = middle, value
            at_bad, side = (at_bad / 2 if side == 1 else at_bad), 1
        else:
            bad, at_bad = middle, value
            at_good, side = (at_good / 2 if side == -1 else at_good), -1
        slow = slow + 1 if abs(good - bad) > width / 2 else 0
    return good
