r"""Tails of the normal distribution, and logarithms of factorials, for numpy arrays.

``scipy.special`` has them too, but its import takes longer than most plans: a fifth of a second.

.. math:: \mathrm{erfcx}(x) = e^{x^2}\,\mathrm{erfc}(x), \qquad
          \Phi(x) = \tfrac12\,e^{-x^2/2}\,\mathrm{erfcx}(-x/\sqrt2)

For :math:`x \ge 0` the smooth function :math:`(1 + 2x)\,\mathrm{erfcx}(x)` is expanded in Chebyshev polynomials of
:math:`t = (x - k)/(x + k)`, k = 3.75: Shepherd & Laframboise, Mathematics of Computation 36 (1981). The coefficients
are computed here and not taken from there; the tests compute them again in mpmath.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from ledgerwood.accounting.checks import Array

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
