r"""Smooth the counts of two samples along a score, so that no cut looks good by luck.

The cells of a score hold :math:`c_{1k}` and :math:`c_{2k}` outputs of either input. Among hundreds of cuts the best one
in raw counts is often the luckiest, above all in the tails, where a handful of hits decides. A score worth cutting has
log-odds :math:`\theta_k` that change gently along it, so they are fitted by penalised likelihood,

.. math:: \max_\theta \sum_k c_{1k} \log \sigma(\theta_k) + c_{2k} \log \sigma(-\theta_k)
          - \tfrac{\lambda}{2} \sum_k (\theta_{k+1} - \theta_k)^2,

with :math:`\lambda` chosen by a price on the degrees of freedom (P-splines; Eilers and Marx 1996). Where there is
little to see, the log-odds stay level: the worst event of most mechanisms is a tail on which the privacy loss is
constant. One other shape competes, at the same price: a straight line, the log-odds of Gaussian noise and of every
score that is itself a log-likelihood ratio. A score of few values has few cuts to be lucky with and is left alone.
Smoothing decides which event is certified, never whether a certificate holds.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["smooth"]

Floats = NDArray[np.float64]

_FEW = 40  # cells that need no smoothing
_GROUPS = 96  # cells are merged into so many before smoothing
_ROUGHNESS = (3e5, 1e4, 300.0, 10.0, 0.3)  # values of lambda, smoothest first
_STEPS = 8  # of Newton's method; each value of lambda starts from the fit before it
_PRICE = 6.0  # of a degree of freedom, in units of log-likelihood (Akaike's is 1): a lucky tail is worth a few
_STEEP = 30.0  # log-odds beyond which nothing is to be learned


def smooth(cells1: Floats, cells2: Floats, places: Floats) -> tuple[Floats, Floats]:
    """The counts of both samples in cells at ``places`` of a score, smoothed; each cell keeps its total.

    >>> rng = np.random.default_rng(1)
    >>> first, second = rng.poisson(110, 100), rng.poisson(100, 100)  # the truth: 11 to 10 everywhere
    >>> raw, smoothed = first / second, np.divide(*smooth(first, second, np.arange(100.0)))
    >>> bool(raw.max() > 1.3), bool(smoothed.max() < 1.15)
    (True, True)
    """
    total = cells1 + cells2
    filled = np.flatnonzero(total)
    if filled.size <= _FEW:
        return cells1, cells2
    group = _groups(total[filled])
    c1, c2 = (np.bincount(group, cells[filled]).astype(np.float64) for cells in (cells1, cells2))
    with np.errstate(invalid="ignore", over="ignore"):
        along = np.bincount(group, (total * places)[filled]) / (c1 + c2)
        theta = _fit(c1, c2, along)
    # between the middles of the groups the log-odds run straight
    middles = np.bincount(group, np.arange(filled.size)) / np.bincount(group)
    at = np.interp(np.arange(total.size), filled, np.interp(np.arange(filled.size), middles, theta))
    share = 1.0 / (1.0 + np.exp(-at))
    return total * share, total * (1.0 - share)


def _groups(total: Floats) -> NDArray[np.int64]:
    """The group of each cell: few cells stay as they are, many are merged, narrow groups in both tails."""
    if total.size <= _GROUPS:
        return np.arange(total.size)
    level = (np.cumsum(total) - 0.5 * total) / total.sum()
    # equal steps of the log-odds of the level: geometric in the tails, even in the middle
    scale = np.log(level) - np.log1p(-level)
    step = (scale[-1] - scale[0]) / _GROUPS
    return np.unique(np.floor((scale - scale[0]) / step), return_inverse=True)[1].astype(np.int64)


def _fit(c1: Floats, c2: Floats, places: Floats) -> Floats:
    """Log-odds of the groups: a straight line along the score, or the best of the level fits."""
    count, total = c1.size, c1 + c2
    steps = np.diff(np.eye(count), axis=0)
    penalty = steps.T @ steps
    fitted = _line(c1, c2, places)
    best = 2.0 * _PRICE - _likelihood(c1, c2, fitted)
    theta = np.full(count, math.log((c1.sum() + 0.5) / (c2.sum() + 0.5)))
    for roughness in _ROUGHNESS:
        for _ in range(_STEPS):
            share = 1.0 / (1.0 + np.exp(-theta))
            weight = total * share * (1.0 - share) + 1e-9
            curvature = np.diag(weight) + roughness * penalty
            step = np.linalg.solve(curvature, c1 - total * share - roughness * (penalty @ theta))
            step *= min(1.0, 3.0 / max(float(np.max(np.abs(step))), 1e-300))  # no leap
            theta = np.clip(theta + step, -_STEEP, _STEEP)
            if np.max(np.abs(step)) < 1e-3:
                break
        freedom = float(np.trace(np.linalg.solve(curvature, np.diag(weight))))
        likelihood = _likelihood(c1, c2, theta)
        if _PRICE * freedom - likelihood < best:
            best, fitted = _PRICE * freedom - likelihood, theta
    return fitted


def _line(c1: Floats, c2: Floats, places: Floats) -> Floats:
    """The straight line of largest likelihood, level if the places are not all finite or not two."""
    total = c1 + c2
    centre = float(np.average(places, weights=total))
    spread = math.sqrt(float(np.average((places - centre) ** 2, weights=total)))
    slope = (places - centre) / spread if math.isfinite(spread) and spread > 0.0 else np.zeros(places.size)
    design = np.stack([np.ones(places.size), slope])
    weights = np.zeros(2)
    for _ in range(2 * _STEPS):
        share = 1.0 / (1.0 + np.exp(-np.clip(weights @ design, -_STEEP, _STEEP)))
        curvature = (design * (total * share * (1.0 - share))) @ design.T + 1e-9 * np.eye(2)
        step = np.linalg.solve(curvature, design @ (c1 - total * share))
        weights += step * min(1.0, 1.0 / max(float(np.max(np.abs(step))), 1e-300))
    return np.clip(weights @ design, -_STEEP, _STEEP)


def _likelihood(c1: Floats, c2: Floats, theta: Floats) -> float:
    return float(np.sum(c1 * -np.logaddexp(0.0, -theta) + c2 * -np.logaddexp(0.0, theta)))
