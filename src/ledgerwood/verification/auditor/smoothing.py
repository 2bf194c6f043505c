r"""Smooth the counts of two samples along a score, so that no threshold looks good by luck.

The cells of a score hold :math:`c_{1k}` and :math:`c_{2k}` outputs of either input. Among hundreds of thresholds the
best one in raw counts is often the luckiest, above all in the tails, where a handful of hits decides. A useful score
has log-odds :math:`\theta_k` that change gently along it, so they are fitted by penalized likelihood,

.. math:: \max_\theta \sum_k c_{1k} \log \sigma(\theta_k) + c_{2k} \log \sigma(-\theta_k)
          - \tfrac{\lambda}{2} \sum_k (\theta_{k+1} - \theta_k)^2,

with :math:`\lambda` chosen by a price on the degrees of freedom (P-splines; Eilers and Marx 1996). Where there is
little to see, the log-odds stay level: the worst event of most mechanisms is a tail on which the privacy loss is
constant. Other shapes compete, at the same price: a straight line, the log-odds of Gaussian noise and of every score
that is itself a log-likelihood ratio; and ramps between two level ends, straight (Laplace noise) or bent once (the
largest of several noisy values, subsampling), which say to a hair where the worst event ends. A score of few values has
few thresholds to be lucky with and is left alone. Smoothing decides which event is certified, never whether a
certificate holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ledgerwood.verification.auditor.tuning import TUNING

__all__ = ["smooth"]

Floats = NDArray[np.float64]

_FAR = 1e100  # places beyond it have no slope
_STEEP = 30.0  # log-odds beyond which nothing is to be learned


def smooth(cells1: Floats, cells2: Floats, places: Floats, few: int = TUNING.unsmoothed_cells) -> tuple[Floats, Floats]:
    """The counts of both samples in cells at ``places`` of a score, smoothed; each cell keeps its total.

    This many cells (``few``) or fewer are left alone.

    >>> rng = np.random.default_rng(1)
    >>> first, second = rng.poisson(110, 100), rng.poisson(100, 100)  # the truth: 11 to 10 everywhere
    >>> raw, smoothed = first / second, np.divide(*smooth(first, second, np.arange(100.0)))
    >>> bool(raw.max() > 1.3), bool(smoothed.max() < 1.15)
    (True, True)
    """
    total = cells1 + cells2
    filled = np.flatnonzero(total)
    if filled.size <= few:
        return cells1, cells2
    group = _groups(total[filled])
    c1, c2, along = _merged(group, cells1[filled], cells2[filled], places[filled])
    with np.errstate(invalid="ignore", over="ignore"):
        theta = _fit(c1, c2, along)
    # between the middles of the groups the log-odds run straight
    middles = np.bincount(group, np.arange(filled.size)) / np.bincount(group)
    at = np.interp(np.arange(total.size), filled, np.interp(np.arange(filled.size), middles, theta))
    share = 1.0 / (1.0 + np.exp(-at))
    return total * share, total * (1.0 - share)


def _merged(group: NDArray[np.int64], cells1: Floats, cells2: Floats, places: Floats) -> tuple[Floats, Floats, Floats]:
    """Counts of the groups, and where they lie."""
    c1, c2 = (np.bincount(group, cells).astype(np.float64) for cells in (cells1, cells2))
    with np.errstate(invalid="ignore", over="ignore"):
        return c1, c2, np.bincount(group, (cells1 + cells2) * places) / (c1 + c2)


def _groups(total: Floats) -> NDArray[np.int64]:
    """The group of each cell: few cells stay as they are, many are merged, narrow groups in both tails."""
    if total.size <= TUNING.smoothing_groups:
        return np.arange(total.size)
    level = (np.cumsum(total) - 0.5 * total) / total.sum()
    # equal steps of a sum of the level and its log-odds: even in the middle, geometric in the tails
    scale = np.log(level) - np.log1p(-level) + TUNING.even_groups * level
    step = (scale[-1] - scale[0]) / TUNING.smoothing_groups
    return np.unique(np.floor((scale - scale[0]) / step), return_inverse=True)[1].astype(np.int64)


def _fit(c1: Floats, c2: Floats, places: Floats) -> Floats:
    """Log-odds of the groups: the best of a straight line along the score, ramps, and the penalized fits."""
    straight, theta = _straight(c1, c2, places)
    shapes = [(_line(c1, c2, places), 2.0), (theta, 4.0), *_penalized(c1, c2)]
    prices = [TUNING.freedom_price * freedom - _likelihood(c1, c2, theta) for theta, freedom in shapes]
    if prices[1] < min(prices) + TUNING.freedom_price:  # a ramp, or nearly
        shapes.append((_bent(c1, c2, places, straight)[1], 6.0))
        prices.append(TUNING.freedom_price * 6.0 - _likelihood(c1, c2, shapes[-1][0]))
    return shapes[int(np.argmin(prices))][0]


def _penalized(c1: Floats, c2: Floats) -> Iterator[tuple[Floats, float]]:
    """For every roughness the fit and its degrees of freedom."""
    from scipy.linalg import solveh_banded

    count, total = c1.size, c1 + c2
    penalty = np.full((2, count), -1.0)  # by its upper and its main diagonal
    penalty[1] = np.where((np.arange(count) == 0) | (np.arange(count) == count - 1), 1.0, 2.0)
    theta = np.full(count, math.log((c1.sum() + 0.5) / (c2.sum() + 0.5)))
    for roughness in TUNING.roughness:
        for _ in range(TUNING.newton_steps):
            share = 1.0 / (1.0 + np.exp(-theta))
            weight = total * share * (1.0 - share) + 1e-9
            hessian = roughness * penalty
            hessian[1] += weight
            slope = np.diff(theta)
            penalty_gradient = np.append(-slope, 0.0) + np.insert(slope, 0, 0.0)
            step = solveh_banded(hessian, c1 - total * share - roughness * penalty_gradient, check_finite=False)
            step *= min(1.0, 3.0 / max(float(np.max(np.abs(step))), 1e-300))  # no leap
            theta = np.clip(theta + step, -_STEEP, _STEEP)
            if np.max(np.abs(step)) < 1e-3:
                break
        yield theta, float(np.trace(solveh_banded(hessian, np.diag(weight), check_finite=False)))


def _line(c1: Floats, c2: Floats, places: Floats) -> Floats:
    """The straight line of largest likelihood, level if the places are not all finite or not two."""
    total = c1 + c2
    center = float(np.average(places, weights=total))
    spread = math.sqrt(float(np.average((places - center) ** 2, weights=total)))
    slope = (places - center) / spread if math.isfinite(spread) and spread > 0.0 else np.zeros(places.size)
    design = np.stack([np.ones(places.size), slope])
    weights = np.zeros(2)
    for _ in range(2 * TUNING.newton_steps):
        share = 1.0 / (1.0 + np.exp(-np.clip(weights @ design, -_STEEP, _STEEP)))
        hessian = (design * (total * share * (1.0 - share))) @ design.T + 1e-9 * np.eye(2)
        step = np.linalg.solve(hessian, design @ (c1 - total * share))
        weights += step * min(1.0, 1.0 / max(float(np.max(np.abs(step))), 1e-300))
    return np.clip(weights @ design, -_STEEP, _STEEP)


@dataclass(frozen=True, slots=True)
class _Ramp:
    """Log-odds along a score: straight lines between knots, level beyond the first and the last."""

    knots: tuple[float, ...]
    values: tuple[float, ...]

    def __call__(self, places: Floats) -> Floats:
        return np.interp(places, self.knots, self.values)


def _straight(c1: Floats, c2: Floats, places: Floats) -> tuple[_Ramp, Floats]:
    """The ramp of two knots with the largest likelihood, sought coarsely first, and the likely ones on average."""
    total = c1 + c2
    if places.size < 2 or not np.all(np.abs(places) < _FAR):
        level = math.log((c1.sum() + 0.5) / (c2.sum() + 0.5))
        return _Ramp((0.0,), (level,)), np.full(places.size, level)
    share = (np.cumsum(total) - 0.5 * total) / total.sum()
    few = np.unique(np.searchsorted(share, np.linspace(0.02, 0.98, TUNING.ramp_knots)).clip(0, places.size - 1))
    if few.size < 2:
        few = np.asarray([0, places.size - 1])
    coarse = _Ramps.fit(c1, c2, places, _increasing(few, few))
    near = np.unique(np.concatenate([_near(k, 3, 1, places.size) for k in coarse.knots]))
    fine = _Ramps.fit(c1, c2, places, _increasing(near, near))
    return fine.best(places), coarse.joined(fine).average()


def _bent(c1: Floats, c2: Floats, places: Floats, found: _Ramp) -> tuple[_Ramp, Floats]:
    """The ramp with one knot between the outer two of another, which may move, and the likely ones on average."""
    if len(found.knots) < 2:
        return found, found(places)
    low, high = np.searchsorted(places, (found.knots[0], found.knots[-1]))
    inner = np.unique(np.linspace(low, high, 8).astype(np.int64))[1:-1]
    coarse = _increasing(_near(low, 12, 4, places.size), inner, _near(high, 12, 4, places.size))
    if not coarse.size:
        return found, found(places)
    ramps = _Ramps.fit(c1, c2, places, coarse)
    fine = _increasing(*(_near(k, 2, 1, places.size) for k in ramps.knots))
    ramps = ramps.joined(_Ramps.fit(c1, c2, places, fine))
    return ramps.best(places), ramps.average()


def _near(place: np.int64, reach: int, step: int, size: int) -> NDArray[np.int64]:
    return np.unique(np.clip(np.arange(place - reach, place + reach + 1, step), 0, size - 1))


def _increasing(*choices: NDArray[np.int64]) -> NDArray[np.int64]:
    """Every increasing sequence with one element of each."""
    grid = np.stack(np.meshgrid(*choices, indexing="ij"), axis=-1).reshape(-1, len(choices))
    return grid[np.all(np.diff(grid, axis=1) > 0, axis=1)]


@dataclass(frozen=True, slots=True, eq=False)
class _Ramps:
    """Ramps with the knots of each row of ``options``: their log-odds along the places, and log-likelihoods."""

    options: NDArray[np.int64]
    theta: Floats
    likelihood: Floats

    @classmethod
    def fit(cls, c1: Floats, c2: Floats, places: Floats, options: NDArray[np.int64]) -> _Ramps:
        """By Newton's method, all at once."""
        total = c1 + c2
        ends = places[options]
        # a column of ones, and for each piece how far along it a place is
        pieces = [np.clip(places, ends[:, j, None], ends[:, j + 1, None]) for j in range(options.shape[1] - 1)]
        design = np.stack([np.ones_like(pieces[0]), *pieces], axis=1)
        center = design[:, 1:] @ total / total.sum()
        design[:, 1:] -= center[:, :, None]
        design[:, 1:] /= np.sqrt((design[:, 1:] ** 2) @ total / total.sum())[:, :, None] + 1e-300
        weights = np.zeros(design.shape[:2])
        ridge = 1e-6 * np.eye(design.shape[1])
        for _ in range(4 * TUNING.newton_steps):
            theta = np.clip(np.einsum("kj,kjp->kp", weights, design), -_STEEP, _STEEP)
            share = 1.0 / (1.0 + np.exp(-theta))
            hessian = (design * (total * share * (1.0 - share))[:, None, :]) @ design.transpose(0, 2, 1) + ridge
            step = np.linalg.solve(hessian, (design @ (c1 - total * share)[:, :, None]))[:, :, 0]
            largest = np.abs(step).max(axis=1, keepdims=True)
            weights += step * np.minimum(1.0, 1.0 / np.maximum(largest, 1e-300))  # no leap
            if np.max(largest) < 1e-4:
                break
        theta = np.clip(np.einsum("kj,kjp->kp", weights, design), -_STEEP, _STEEP)
        return cls(options, theta, -(c1 * np.logaddexp(0.0, -theta) + c2 * np.logaddexp(0.0, theta)).sum(axis=1))

    def joined(self, other: _Ramps) -> _Ramps:
        """These and others."""
        parts = zip(
            (self.options, self.theta, self.likelihood), (other.options, other.theta, other.likelihood), strict=True
        )
        return _Ramps(*(np.concatenate(part) for part in parts))

    @property
    def knots(self) -> NDArray[np.int64]:
        """Of the likeliest."""
        likeliest: NDArray[np.int64] = self.options[int(np.argmax(self.likelihood))]
        return likeliest

    def best(self, places: Floats) -> _Ramp:
        """The likeliest."""
        theta = self.theta[int(np.argmax(self.likelihood))]
        return _Ramp(tuple(places[self.knots].tolist()), tuple(theta[self.knots].round(12).tolist()))

    def average(self) -> Floats:
        """Each ramp by its likelihood: where the knots are uncertain, no corner is sharp."""
        weights = np.exp(self.likelihood - self.likelihood.max())
        return np.asarray(weights @ self.theta / weights.sum(), dtype=np.float64)


def _likelihood(c1: Floats, c2: Floats, theta: Floats) -> float:
    return float(np.sum(c1 * -np.logaddexp(0.0, -theta) + c2 * -np.logaddexp(0.0, theta)))
