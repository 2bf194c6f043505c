r"""Tails of the normal distribution, and logarithms of factorials, for numpy arrays.

``scipy.special`` has them too, but its import takes longer than most plans: a fifth of a second.

.. math:: \mathrm{erfcx}(x) = e^{x^2}\,\mathrm{erfc}(x), \qquad
          \Phi(x) = \tfrac12\,e^{-x^2/2}\,\mathrm{erfcx}(-x/\sqrt2)

For :math:`x \ge 0` the smooth function :math:`(1 + 2x)\,\mathrm{erfcx}(x)` is expanded in Chebyshev polynomials of
:math:`t = (x - k)/(x + k)`, k = 3.75: Shepherd & Laframboise, Mathematics of Computation 36 (1981). The coefficients
are computed here and not taken from there; the tests compute them again in mpmath.

One-dimensional searches whose answer is on the safe side.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from ledgerwood._checks import Array

_CENTRE = 3.75
#: The series to the 25th degree, whose remainder is below 1e-17, by powers of t; as their sizes sum to less than two,
#: little is lost in adding them.
_POWERS = (
    1.2375126308378275, -0.14024059858554702, 0.0035854154854644293, 0.08227673849015102,
    -0.10880393014174886, 0.09230432116019834, -0.05869339858963677, 0.0283622774215156,
    -0.009746579558029276, 0.0017556258324217529, 0.0002937136655913448, -0.00029015397928986765,
    5.164909889268241e-05, 2.2383912036550678e-05, -1.1444146237700524e-05, -9.72849582211122e-07,
    1.751637648849062e-06, -5.826281078800777e-08, -2.5866850716155884e-07, 2.4289762925488707e-08,
    3.8675334242222354e-08, -4.389284159986328e-09, -5.1739902140113095e-09, 5.457157304704688e-10,
    4.2514714447963895e-10, -3.75315827795962e-11,
)  # fmt: skip


def erfcx(x: ArrayLike) -> Array:
    """e^(x²)·erfc(x): right to 8 ulp for x ≥ −1, to 4 + 2x² ulp below, infinite below −26.6.

    >>> print(f"{erfcx(0.0):.3f} {erfcx(10.0):.6f}")
    1.000 0.056141
    """
    x = np.asarray(x, dtype=np.float64)
    size = np.abs(x)
    t = 1.0 - 2 * _CENTRE / (size + _CENTRE)
    total: Array = np.full_like(t, _POWERS[-1])
    for power in _POWERS[-2::-1]:
        total *= t
        total += power
    total /= 1.0 + 2.0 * size
    if (x >= 0).all():
        return total
    with np.errstate(over="ignore"):
        return np.asarray(np.where(x < 0, 2.0 * np.exp(np.where(x < 0, x, 0.0) ** 2) - total, total))


def mills(x: ArrayLike) -> Array:
    """Mills' ratio Φ(−x)/φ(x), as right as :func:`erfcx` at x/√2.

    >>> print(f"{mills(0.0):.6f}")  # the square root of π/2
    1.253314
    """
    return math.sqrt(math.pi / 2) * erfcx(np.asarray(x, dtype=np.float64) / math.sqrt(2))


def ndtr(x: ArrayLike) -> Array:
    """Φ(x): right to 8 + x² ulp.

    >>> print(f"{ndtr(-1.0):.6f} {ndtr(1.0):.6f}")
    0.158655 0.841345
    """
    x = np.asarray(x, dtype=np.float64)
    with np.errstate(over="ignore"):
        tail = np.exp(-0.5 * x * x) * erfcx(np.abs(x) / math.sqrt(2)) / 2
    return np.asarray(np.where(x > 0, 1.0 - tail, tail))


def log_ndtr(x: ArrayLike) -> Array:
    """Log Φ(x): right to 8 ulp for x ≤ 1, also where Φ(x) underflows, and to 8 + x² ulp up to 37, where it is −6e-300.

    >>> print(f"{log_ndtr(-1.0):.6f} {log_ndtr(-100.0):.3f}")
    -1.841022 -5005.524
    """
    x = np.asarray(x, dtype=np.float64)
    below = np.minimum(x, -1.0)
    with np.errstate(divide="ignore", over="ignore"):
        far = np.log(erfcx(-below / math.sqrt(2)) / 2) - 0.5 * below * below
    return np.where(x < -1.0, far, np.log1p(-ndtr(-np.maximum(x, -1.0))))


def log_factorial(n: ArrayLike) -> Array:
    """Log n! for whole n ≥ 0: right to 8 ulp.

    >>> print(f"{log_factorial(5):.6f}")  # log 120
    4.787492
    """
    values = np.asarray(n, dtype=np.float64)
    return np.array([math.lgamma(v) for v in (values + 1.0).ravel().tolist()]).reshape(values.shape)


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
