r"""From a Rényi curve to (ε, δ), over all orders.

The conversion is Canonne, Kamath & Steinke 2020 (arXiv:2004.00010), Proposition 12: for every order α > 1,

.. math:: \delta=\frac{e^{(\alpha-1)(D_\alpha-\varepsilon)}}{\alpha}\Bigl(1-\frac1\alpha\Bigr)^{\alpha-1},

together with Bretagnolle & Huber's bound at α = 1, TV ≤ √(1 − e^{−D₁}), which decides when ε = 0 is enough.
Orders are optimised continuously: a coarse geometric grid of α − 1, then two finer grids around its best point.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import numpy as np

from ledgerwood.accounting.checks import Array
from ledgerwood.errors import OrderAtEdge

Curve = Callable[[Array], Array]

#: Relative slack that covers the rounding of a float64 Rényi curve and of the conversion.
_SLACK = 1e-12


def _best(curve: Curve, objective: Callable[[Array, Array], Array], largest: float) -> tuple[float, float]:
    """Minimise ``objective(alpha, curve(alpha))`` over 1 < alpha <= largest; returns (value, alpha)."""
    top = min(largest, 1e13)
    grid = 1.0 + np.geomspace(min(1e-5, (top - 1) / 2), top - 1.0, 121)
    grid[-1] = top
    value, alpha = math.inf, math.nan
    for points in (41, 41, 0):
        with np.errstate(invalid="ignore", over="ignore"):
            values = objective(grid, curve(grid))
        values = np.where(np.isnan(values), math.inf, values)
        i = int(np.argmin(values))
        if values[i] <= value:
            value, alpha = float(values[i]), float(grid[i])
        if points == 0 or value == math.inf:
            break
        low, high = grid[max(i - 1, 0)] - 1.0, grid[min(i + 1, grid.size - 1)] - 1.0
        grid = 1.0 + np.geomspace(low, high, points)
    if alpha >= top and largest < 1e13:
        warnings.warn(
            f"the best Rényi order is the largest that the curve offers (alpha={alpha:g}); a curve with larger "
            f"orders may give a smaller epsilon",
            OrderAtEdge,
            stacklevel=2,
        )
    return value, alpha


def epsilon_from_rdp(curve: Curve, delta: float, largest: float = math.inf) -> tuple[float, float]:
    """The least ε over all orders at ``delta``, and the order that gives it.

    >>> value, order = epsilon_from_rdp(lambda a: a * 0.005, 1e-5)
    >>> f"{value:.4f} {order:.1f}"
    '0.4273 45.7'
    """
    if delta == 0.0:
        return math.inf, math.inf
    divergence = float(curve(np.array([1.0]))[0])
    if divergence < math.inf and delta * delta >= -math.expm1(-divergence) * (1 + _SLACK):
        return 0.0, 1.0

    def objective(a: Array, d: Array) -> Array:
        return d + np.log1p(-1 / a) - (math.log(delta) + np.log(a)) / (a - 1)

    value, alpha = _best(curve, objective, largest)
    if value == math.inf:
        return value, alpha
    rounding = _SLACK * (abs(value) + (abs(math.log(delta)) + math.log(alpha)) / (alpha - 1))
    return max(0.0, value + rounding), alpha


def log_delta_from_rdp(curve: Curve, epsilon: float, largest: float = math.inf) -> tuple[float, float]:
    """The least log δ over all orders at ``epsilon``, and the order that gives it."""

    def objective(a: Array, d: Array) -> Array:
        return (a - 1) * (d - epsilon + np.log1p(-1 / a)) - np.log(a)

    value, alpha = _best(curve, objective, largest)
    if value < math.inf:
        size = (alpha - 1) * (float(curve(np.array([alpha]))[0]) + epsilon) + 1
        value += _SLACK * size
    divergence = float(curve(np.array([1.0]))[0])
    if 0 < divergence < math.inf:
        total_variation = 0.5 * math.log(-math.expm1(-divergence)) + _SLACK
        if total_variation < value:
            value, alpha = total_variation, 1.0
    return min(value, 0.0), alpha
