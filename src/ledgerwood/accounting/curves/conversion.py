r"""From a Rényi curve to (ε, δ), over all orders.

One event S with p = P(S), q = Q(S) and p − e^ε q > δ would have, at every order α > 1 (data processing),

.. math:: e^{(\alpha-1)D_\alpha}\ge p^\alpha q^{1-\alpha}+(1-p)^\alpha(1-q)^{1-\alpha}
          > p^\alpha(p-\delta)^{1-\alpha}e^{(\alpha-1)\varepsilon}+(1-p)^\alpha .

Dropping the last term and taking the best p = αδ gives Canonne, Kamath & Steinke 2020 (arXiv:2004.00010), Prop. 12,

.. math:: \delta=\frac{e^{(\alpha-1)(D_\alpha-\varepsilon)}}{\alpha}\Bigl(1-\frac1\alpha\Bigr)^{\alpha-1};

keeping it is never worse and helps where δ is large (in the spirit of Asoodeh et al. 2021, arXiv:2008.06529). At α = 1
Bretagnolle & Huber's TV ≤ √(1 − e^{−D₁}) decides when ε = 0 is enough. Orders are optimised continuously: a coarse
geometric grid of α − 1, then finer grids around its best point.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import numpy as np

from ledgerwood._checks import Array
from ledgerwood.errors import OrderAtEdge

Curve = Callable[[Array], Array]

#: Relative slack that covers the rounding of a float64 Rényi curve and of the conversion.
_SLACK = 1e-12


def _geometric(low: float | Array, high: float | Array, points: int) -> Array:
    """Evenly spaced logarithms from low to high, both ends exact: ``np.geomspace`` for ends that are positive."""
    found = low * np.exp(np.log(high / low) * np.linspace(0.0, 1.0, points))
    found[..., :1], found[..., -1:] = low, high
    return found


def _best(curve: Curve, objective: Callable[[Array, Array], Array], largest: float) -> tuple[float, float]:
    """Minimise ``objective(alpha, curve(alpha))`` over 1 < alpha <= largest; returns (value, alpha)."""
    top = min(largest, 1e13)
    grid = 1.0 + _geometric(min(1e-5, (top - 1) / 2), top - 1.0, 121)
    grid[-1] = top
    value, alpha = math.inf, math.nan
    for points in (25, 25, 25, 0):
        with np.errstate(invalid="ignore", over="ignore"):
            values = objective(grid, curve(grid))
        values = np.where(np.isnan(values), math.inf, values)
        i = int(np.argmin(values))
        if values[i] <= value:
            value, alpha = float(values[i]), float(grid[i])
        if points == 0 or value == math.inf:
            break
        low, high = grid[max(i - 1, 0)] - 1.0, grid[min(i + 1, grid.size - 1)] - 1.0
        grid = 1.0 + _geometric(low, high, points)
    if alpha >= top and largest < 1e13:
        warnings.warn(
            f"the best Rényi order is the largest that the curve offers (alpha={alpha:g}); a curve with larger "
            f"orders may give a smaller epsilon",
            OrderAtEdge,
            stacklevel=2,
        )
    return value, alpha


#: The second term of the event's divergence is kept where δ is above this; below, it gains less than 0.01 %.
_KEEP_BOTH_ABOVE = 1e-4


def _keep_both(
    curve: Curve, alpha: float, value: float, largest: float, bound: Callable[[Array, Array], Array]
) -> tuple[float, float]:
    """Improve on the conversion at the best order and its neighbours by keeping both terms."""
    for ratio, points in ((2.0, 13), (1.12, 9), (1.03, 9)):
        orders = 1.0 + (alpha - 1.0) * _geometric(1 / ratio, ratio, points)
        orders = orders[orders <= largest]
        moments = (orders - 1.0) * curve(orders)
        orders, moments = orders[moments < 500], moments[moments < 500]
        if orders.size == 0:
            continue
        found = bound(orders, moments)
        i = int(np.argmin(found))
        if found[i] < value:
            value, alpha = float(found[i]), float(orders[i])
    return value, alpha


def _largest_over_events(objective: Callable[[Array], Array], delta: float, orders: int) -> Array:
    """The supremum, at each order, of a smooth function of the event's probability p in (delta, 1], rounded upwards.

    ``objective`` takes a row of probabilities for each order.
    """
    offsets = np.tile(_geometric(max(delta * 1e-4, 1e-12), 1.0 - delta, 200), (orders, 1))
    best, row = np.full(orders, -math.inf), np.arange(orders)
    for _ in range(6):  # each round narrows the grid 20-fold: in the end its curvature is far below the slack
        with np.errstate(invalid="ignore", divide="ignore"):
            values = objective(np.minimum(delta + offsets, 1.0))
        values = np.where(np.isnan(values), -math.inf, values)
        i = np.argmax(values, axis=1)
        best = np.maximum(best, values[row, i])
        ends = offsets[row, np.maximum(i - 1, 0)], offsets[row, np.minimum(i + 1, offsets.shape[1] - 1)]
        offsets = _geometric(ends[0][:, None], ends[1][:, None], 41)
    return np.asarray(best + 1e-9 * np.abs(best))


def _epsilon_of_event(orders: Array, log_moments: Array, delta: float) -> Array:
    """Sup over p of [log(R − (1−p)^α) − α log p]/(α−1) + log(p − δ), with R = e^{(α−1)D}, at each order."""
    alpha, moment = orders[:, None], np.exp(log_moments)[:, None]

    def objective(p: Array) -> Array:
        return np.asarray((np.log(moment - (1 - p) ** alpha) - alpha * np.log(p)) / (alpha - 1) + np.log(p - delta))

    return _largest_over_events(objective, delta, orders.size)


def _log_delta_of_event(orders: Array, log_moments: Array, epsilon: float) -> Array:
    """Log of sup over p of p − e^ε·[p^α/(R − (1−p)^α)]^{1/(α−1)}, at each order."""
    alpha, moment = orders[:, None], np.exp(log_moments)[:, None]

    def objective(p: Array) -> Array:
        log_q = (alpha * np.log(p) - np.log(moment - (1 - p) ** alpha)) / (alpha - 1)
        return np.asarray(p - np.exp(epsilon + log_q))

    value = _largest_over_events(objective, 0.0, orders.size)
    return np.log(value, where=value > 0, out=np.full(orders.size, -math.inf))


def epsilon_from_rdp(curve: Curve, delta: float, largest: float = math.inf) -> tuple[float, float]:
    """The least ε over all orders at ``delta``, and the order that gives it.

    >>> value, order = epsilon_from_rdp(lambda a: a * 0.005, 1e-5)
    >>> f"{value:.4f} {order:.1f}"
    '0.3753 40.5'
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
    if delta > _KEEP_BOTH_ABOVE:
        value, alpha = _keep_both(curve, alpha, value, largest, lambda a, log_r: _epsilon_of_event(a, log_r, delta))
    rounding = _SLACK * (abs(value) + (abs(math.log(delta)) + math.log(alpha)) / (alpha - 1))
    return max(0.0, value + rounding), alpha


def log_delta_from_rdp(curve: Curve, epsilon: float, largest: float = math.inf) -> tuple[float, float]:
    """The least log δ over all orders at ``epsilon``, and the order that gives it."""

    def objective(a: Array, d: Array) -> Array:
        return (a - 1) * (d - epsilon + np.log1p(-1 / a)) - np.log(a)

    value, alpha = _best(curve, objective, largest)
    if math.log(_KEEP_BOTH_ABOVE) < value < math.inf:
        value, alpha = _keep_both(curve, alpha, value, largest, lambda a, log_r: _log_delta_of_event(a, log_r, epsilon))
    if value < math.inf:
        size = (alpha - 1) * (float(curve(np.array([alpha]))[0]) + epsilon) + 1
        value += _SLACK * size
    divergence = float(curve(np.array([1.0]))[0])
    if 0 < divergence < math.inf:
        total_variation = 0.5 * math.log(-math.expm1(-divergence)) + _SLACK
        if total_variation < value:
            value, alpha = total_variation, 1.0
    return min(value, 0.0), alpha
