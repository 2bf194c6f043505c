"""Rényi curves of dominating pairs, bounded from above through the masses of cells."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ledgerwood.accounting.curves.dominating_pairs.base import Array, LossPair

__all__ = ["renyi_above"]

LARGEST_LOSS = 600.0
_CELLS = 3000
"""Cells on each side of 0: 0.75 % wide, which adds less than 1e-5 of itself to a small divergence."""


def renyi_above(pair: LossPair, alpha: Array, curve: Callable[[Array], Array]) -> Array:
    r"""An upper bound of the Rényi divergence :math:`D_\alpha(P \| Q)` of a pair without infinite loss, at each order.

    With :math:`Y = dP/dQ`, :math:`E_Q[Y^\alpha] - 1 = E_Q[Y^\alpha - 1 - \alpha(Y - 1)]`, a mean of a convex
    function that is never negative. A cell's mass is moved to its two ends (keeping P- and Q-mass); the part beyond the
    last edge z is at most :math:`z^{-s} E_Q[Y^{\alpha+s}]`, for which ``curve`` bounds the divergence without any gain
    from sampling. ``curve`` also caps the answer.
    """
    half = np.geomspace(1e-7, LARGEST_LOSS, _CELLS)
    edges = np.concatenate((-half[::-1], [0.0], half))
    log_p, log_q = pair.log_cells(edges)
    some = (log_q > -np.inf)[1:-1]
    rise = np.where(some, np.where(some, log_p[1:-1], 0.0) - np.where(some, log_q[1:-1], 0.0) - edges[:-1], 0.0)
    width = np.diff(edges)
    share = np.expm1(np.clip(rise, 0.0, width)) / np.expm1(width)
    with np.errstate(divide="ignore"):
        mass = np.append(log_q[1:-1] + np.log1p(-share), -np.inf)
        mass[1:] = np.logaddexp(mass[1:], log_q[1:-1] + np.log(share))
        # Below the first edge: split between it and 0, where the function is largest.
        first = np.logaddexp(mass[0], log_p[0] - edges[0])
        mass[0] = first
        zero = max(math.exp(log_q[0]) - math.exp(log_p[0] - edges[0]), 0.0)
    orders = np.asarray(alpha, dtype=np.float64)
    found = np.array(curve(orders), copy=True).ravel()
    error = pair.rounding * (32 + float(np.max(np.where(mass > -np.inf, np.abs(mass), 0.0)))) + 1e-9
    for i, order in enumerate(orders.ravel().tolist()):
        if not 1.0 < order < math.inf:
            continue
        gain = _log_gain(edges, order)
        excess = float(np.logaddexp.reduce(mass + gain))
        extra = order * np.array([0.1, 0.3, 1.0, 3.0, 10.0])
        tail = float(np.min((order + extra - 1) * curve(order + extra) - extra * edges[-1]))
        excess = float(np.logaddexp.reduce([excess, tail, math.log(zero * (order - 1)) if zero > 0 else -math.inf]))
        moment = float(np.logaddexp(0.0, excess + error))
        found[i] = min(found[i], moment / (order - 1) * (1 + 2.0**-49))
    lowest = orders.ravel() == 1.0
    if lowest.any():  # the divergence grows with the order
        found[lowest] = np.minimum(found[lowest], renyi_above(pair, np.array([1.0625]), curve)[0])
    return found.reshape(orders.shape)


def _log_gain(loss: Array, order: float) -> Array:
    r"""Log of :math:`y^\alpha - 1 - \alpha(y - 1)` at :math:`y = e^{loss}`; near 0 by its series, right to 1e-9."""
    with np.errstate(over="ignore", divide="ignore"):
        plain = np.log(
            np.maximum(np.expm1(np.minimum(order * loss, 700.0)) - order * np.expm1(np.minimum(loss, 700.0)), 0.0)
        )
        small = np.log(
            order
            * (order - 1)
            / 2
            * loss**2
            * (1 + (order + 1) * loss / 3 + (order * order + order + 1) * loss**2 / 12)
        )
    near = np.abs(loss) * (order + 1) < 1e-3
    return np.where(near, small, np.where(order * loss > 700.0, order * loss, plain))
