r"""A loss on a uniform grid: from above (connect-the-dots) and from below (fusion).

Composition with a pair is the operator :math:`(CV)(\gamma) = E_P[V(\gamma - L)]` on profiles V, which are decreasing
and convex in :math:`x = e^\gamma`; seen through :math:`y = e^{-L}`, the integrand is decreasing and convex in y. Hence,
for every V:

* moving P-mass to a larger loss raises CV, to a smaller loss lowers it;
* replacing mass by two atoms with the same mean of y raises it (Jensen), replacing mass by its mean of y lowers it.

Both discretizations use only these two inequalities, and both operators are monotone, so the order survives any
composition. The loss is that of a pair, or one that lies on a finer grid already. Proofs, and the allowance for
rounding: ``docs/theory/privacy-loss-distributions.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ledgerwood.accounting.curves.dominating_pairs.base import Array, Cells, LossPair

__all__ = [
    "GridLoss",
    "UniformGrid",
    "apart",
    "coarser_above",
    "coarser_below",
    "from_above",
    "from_below",
    "only_inside",
]

EDGE_ERROR = 2.0**-47
"""How far rounding may move an edge of a cell, per unit of max(resolution, |edge|)."""

FURTHEST = 64
"""Cells that a mass is fused with at most; beyond, its surplus over its point is given up."""

ATOM_MARGIN = 2.0**-44
"""How far the cells end after (from above) or before (from below) a grid point, per unit of max(resolution, |loss|)."""


@dataclass(frozen=True)
class GridLoss:
    """Log masses at the losses ``origin + (first + i) * step``, and the mass at infinite loss.

    The origin includes the move to the safe side that covers the rounding of losses. Masses that come out of a
    transform are right up to an error whose two-norm, after a tilt by ``error_tilt``, is ``exp(log_error)``, and whose
    one-norm ``exp(log_error_mass)``.
    """

    first: int
    log_mass: Array
    infinite_mass: float
    origin: float
    log_error: float = -math.inf
    log_error_mass: float = -math.inf
    error_tilt: float = 0.0


@dataclass(frozen=True)
class UniformGrid:
    """The points ``offset + i * step`` for i from ``first`` to ``last``."""

    offset: float
    step: float
    first: int
    last: int

    def points(self) -> Array:
        """All of them."""
        return np.asarray(self.offset + np.arange(self.first, self.last + 1) * self.step)


def _far(pair: LossPair, edges: Array) -> float:
    return max(pair.resolution, abs(float(edges[0])), abs(float(edges[-1])))


def from_above(pair: LossPair, grid: UniformGrid) -> GridLoss:
    r"""The tightest grid distribution that dominates the pair: each cell's mass goes to the cell's two ends.

    Below the grid all goes to its first point; above it, :math:`q e^{a}` stays at the last point and the rest, the
    pair's delta there, becomes infinite loss. The points are moved up by a hair, so that an atom on the last point is
    not above the grid.
    """
    edges = grid.points()
    far = _far(pair, edges)
    late = min(ATOM_MARGIN * far, grid.step / 4)
    edges = edges + late
    cells = pair.cells(edges)
    mass, infinite = _to_ends(cells, edges, grid.step)
    return GridLoss(grid.first, mass, infinite, grid.offset + late + EDGE_ERROR * far)


def _to_ends(cells: Cells, edges: Array, step: float) -> tuple[Array, float]:
    r"""A cell (a, b] with P-mass p and Q-mass q puts :math:`r = (p - q e^{a})/(1 - e^{-(b-a)})` at b and p - r at a."""
    log_p = cells.log_p + cells.mass_error
    with np.errstate(divide="ignore"):
        over = np.maximum(cells.mean[1:-1] + 2 * cells.mean_error[1:-1] - edges[:-1], 0.0)
        up = np.clip(np.expm1(-over) / math.expm1(-step), 0.0, 1.0)
        right = log_p[1:-1] + np.log(up)
        left = log_p[1:-1] + np.log1p(-up)
        beyond = max(float(cells.mean[-1] + 2 * cells.mean_error[-1] - edges[-1]), 0.0)
        left = np.append(left, log_p[-1] - beyond)
    right = np.concatenate((log_p[:1], right))
    return np.logaddexp(left, right), math.exp(float(log_p[-1])) * -math.expm1(-beyond) + 2.0**-1060


def from_below(pair: LossPair, grid: UniformGrid) -> GridLoss:
    r"""A grid distribution dominated by the pair, off by the square of the step where the loss has a smooth density.

    Cells end a hair before the points, so that an atom on a point opens the cell to its right and stays where it is.
    Mass below the grid is dropped; mass above it is lowered to the last point, infinite loss stays.
    """
    edges = grid.points()
    far = _far(pair, edges)
    early = min(ATOM_MARGIN * far, grid.step / 4)
    cells = pair.cells(edges - early)
    infinite = pair.infinite_mass
    top = math.exp(float(cells.log_p[-1])) * (1 - 2.0**-45) - infinite * (1 + 2.0**-45)
    over = cells.mean[1:-1] - 2 * cells.mean_error[1:-1] - early - edges[:-1]
    mass = _fused(cells.log_p[1:-1] - cells.mass_error[1:-1], over, grid.step)
    mass[-1] = np.logaddexp(mass[-1], math.log(top) if top > 0 else -math.inf)
    return GridLoss(grid.first, mass, infinite * (1 - 2.0**-40), grid.offset - early - EDGE_ERROR * far)


def _fused(log_p: Array, over: Array, step: float) -> Array:
    r"""Log masses at the ends of cells of log mass ``log_p`` whose means lie ``over`` above their left ends.

    Each cell is merged to its mean. Then, from the top, what is left of cell i is fused with as much of the cells below
    it (empty ones left out) as brings the mean down to point i: with its surplus :math:`s_i = p_i - q_i e^{e_i}` over
    its left end, and the deficits :math:`d_k = q_k e^{e_i} - p_k` of the cells k below, it takes those cells as long as
    :math:`s_i` is not made up, and of the last one only a part. Nothing of the mean of y is lost but at the lowest
    cells, and where a mass has next to nothing below it.
    """
    cells = np.flatnonzero(log_p > -np.inf)  # the cells that hold something
    p, over = log_p[cells], np.maximum(over[cells], 0.0)
    mass = np.full(len(log_p) + 1, -np.inf)
    if not len(cells):
        return mass
    alpha, taker = _shares(cells, p, over, step)
    with np.errstate(divide="ignore"):
        mass[cells] = p + np.log(alpha)
        given = p + np.log1p(-alpha)
    above = taker == np.arange(1, len(cells) + 1)
    mass[cells[1:]] = np.logaddexp(mass[cells[1:]], np.where(above, given, -np.inf)[:-1])
    np.logaddexp.at(mass, cells[taker[~above]], given[~above])
    return mass


def _shares(cells: npt.NDArray[np.intp], p: Array, over: Array, step: float) -> tuple[Array, npt.NDArray[np.intp]]:
    """The part of each cell that stays at its left end, and which cell (by its place) takes the rest to its own."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        gap = np.diff(cells) * step - over[:-1]  # from the mean up to the left end of the next cell
        log_deficit = p[:-1] + np.log(np.expm1(np.clip(gap, 0.0, 700.0)))
        quotient = -np.expm1(-over[1:]) * np.exp(np.minimum(p[1:] - log_deficit, 700.0)) * (1 - 2.0**-38)
    quotient = np.nan_to_num(quotient, nan=0.0, posinf=1e300)
    shares, takers = [1.0] * len(cells), list(range(1, len(cells) + 1))
    quotients, i, rest = quotient.tolist(), len(cells) - 1, 1.0
    while i > 0:
        taken = rest * quotients[i - 1]
        if taken <= 1:
            i -= 1
            shares[i] = rest = 1.0 - taken
            continue
        # Taking too little is allowed, too much is not: by this much more than the logs may be off, 64 times.
        k, log_need = i - 1, float(log_deficit[i - 1]) + math.log(taken - 1) - 2.0**-36
        shares[k], rest = 0.0, 1.0
        while log_need > -math.inf and k > 0 and cells[i] - cells[k - 1] <= FURTHEST:
            k -= 1
            distance = float(cells[i] - cells[k]) * step - float(over[k])
            log_there = float(p[k]) + math.log(math.expm1(min(max(distance, 1e-300), 700.0)))
            takers[k] = i
            if log_there >= log_need:
                shares[k] = rest = 1.0 - math.exp(log_need - log_there)
                break
            log_need += math.log1p(-math.exp(log_there - log_need))
            shares[k] = 0.0
        else:
            k -= 1  # what is left of the surplus is lost
        i = k
    return np.array(shares), np.array(takers, dtype=np.intp)


def only_inside(pair: LossPair, edges: Array, *, upper: bool) -> GridLoss:
    """The part of the loss between the first and the last of some evenly spaced edges, on these edges."""
    cells = pair.cells(edges)
    step = float(edges[-1] - edges[0]) / (len(edges) - 1)
    cells = Cells(*(x[1:-1] for x in cells))
    far = EDGE_ERROR * _far(pair, edges)
    if upper:
        empty = Cells(
            *(np.concatenate(([fill], x, [fill])) for x, fill in zip(cells, (-np.inf, -np.inf, 0.0, 0.0, 0.0)))
        )
        mass, _ = _to_ends(empty, edges, step)
        return GridLoss(0, mass, 0.0, float(edges[0]) + 2 * far)
    over = cells.mean - 2 * cells.mean_error - edges[:-1]
    return GridLoss(0, _fused(cells.log_p - cells.mass_error, over, step), 0.0, float(edges[0]) - 2 * far)


def apart(pair: LossPair, points: Array, first: int, inside: slice, *, upper: bool) -> tuple[GridLoss, GridLoss]:
    """The part of the loss in the cells ``inside`` and the rest, both on the points; the first has index ``first``.

    Cell 0 is the one between the first two points.
    """
    far = EDGE_ERROR * _far(pair, points)
    cells = pair.cells(points)
    step = float(points[-1] - points[0]) / (len(points) - 1)
    within = np.zeros(len(cells.log_p), dtype=bool)
    within[1:-1][inside] = True
    found = []
    for kept in (within, ~within):
        log_p = np.where(kept, cells.log_p, -np.inf)
        infinite = 0.0
        if upper:
            mass, infinite = _to_ends(Cells(log_p, *cells[1:]), points, step)
        else:
            over = cells.mean[1:-1] - 2 * cells.mean_error[1:-1] - points[:-1]
            mass = _fused(log_p[1:-1] - cells.mass_error[1:-1], over, step)
            mass[-1] = np.logaddexp(mass[-1], log_p[-1] - cells.mass_error[-1])
        found.append(GridLoss(first, mass, infinite, 2 * far if upper else -2 * far))
    return found[0], found[1]


def coarser_above(losses: Array, log_mass: Array, tilt: float, offset: float, step: float) -> tuple[int, Array]:
    """First index and log masses, on the grid ``offset + i * step``, of a distribution that dominates the atoms.

    Both masses are tilted: without it they could underflow.
    """
    first, cell, over = _places(losses, offset, step)
    up = np.clip(np.expm1(-over) / math.expm1(-step), 0.0, 1.0)
    top = float(np.max(log_mass))
    mass = np.exp(log_mass - top)
    size = int(cell[-1]) + 2
    left = np.bincount(cell, weights=mass * (1 - up) * np.exp(-tilt * over), minlength=size)
    right = np.bincount(cell + 1, weights=mass * up * np.exp(tilt * (step - over)), minlength=size)
    return first, np.log(left + right + 2.0**-1000) + top


def coarser_below(losses: Array, log_mass: Array, tilt: float, offset: float, step: float) -> tuple[int, Array]:
    """First index and log masses, on the grid ``offset + i * step``, of one that the atoms dominate; tilted."""
    first, cell, over = _places(losses, offset, step)
    top = float(np.max(log_mass))
    mass = np.exp(log_mass - top - tilt * over)
    size = int(cell[-1]) + 1
    total = np.bincount(cell, weights=mass, minlength=size)
    less = np.bincount(cell, weights=mass * np.expm1(-over), minlength=size)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = -np.log1p(np.where(total > 0, less / total, 0.0))
        untilted = np.log(total) - tilt * step * np.arange(size)
    fused = _fused(untilted, mean * (1 - 2.0**-40), step)
    return first, fused + tilt * step * np.arange(size + 1) + top


def _places(losses: Array, offset: float, step: float) -> tuple[int, npt.NDArray[np.intp], Array]:
    at = np.floor((losses - offset) / step)
    over = np.clip(losses - (offset + at * step), 0.0, step)
    return int(at[0]), (at - at[0]).astype(np.intp), np.asarray(over)
