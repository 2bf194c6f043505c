r"""One pair on a uniform grid of losses: from above (connect-the-dots) and from below (fusion).

Composition with a pair is the operator :math:`(CV)(\gamma) = E_P[V(\gamma - L)]` on profiles V, which are
decreasing and convex in
:math:`x = e^\gamma`; seen through :math:`y = e^{-L}`, the integrand is decreasing and convex in y. Hence,
for every V:

* moving P-mass to a larger loss raises CV, to a smaller loss lowers it;
* replacing mass by two atoms with the same mean of y raises it (Jensen), replacing mass by its mean of y
lowers it.

Both discretisations use only these two facts, and both operators are monotone, so the order survives any
composition.
Proofs and the allowance for rounding: ``docs/theory/privacy-loss-distributions.md``.

A coarse picture of composed losses, from which the grid and the tilt are chosen. No bound depends on
it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from ledgerwood.accounting.curves.dominating_pairs.base import Array, LossPair
from ledgerwood.errors import MethodUnavailable

__all__ = ["GridLoss", "Sketch", "UniformGrid", "from_above", "from_below", "sketch"]


EDGE_ERROR = 2.0**-47
"""How far rounding may move an edge of a cell, per unit of max(1, |edge|)."""

ATOM_MARGIN = 2.0**-44
"""How far the cells end after (from above) or before (from below) a grid point, per unit of max(1,
|loss|)."""


@dataclass(frozen=True)
class GridLoss:
    """Log masses at the losses ``origin + (first + i) * step``, and the mass at infinite loss.

    The origin includes the move to the safe side that covers the rounding of losses.
    """

    first: int
    log_mass: Array
    infinite_mass: float
    origin: float


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


def _cells(pair: LossPair, edges: Array) -> tuple[Array, Array, Array]:
    """Log P-masses, log(Q-mass / P-mass) and the error of the latter, cell by cell."""
    log_p, log_q = pair.log_cells(edges)
    some = log_p > -np.inf
    ratio = np.where(some, np.where(some, log_q, 0.0) - np.where(some, log_p, 0.0), 0.0)
    error = pair.rounding * (16 + np.where(some, np.abs(log_p), 0.0) + np.where(np.isfinite(log_q), np.abs(log_q), 0.0))
    return log_p, ratio, error


def from_above(pair: LossPair, grid: UniformGrid) -> GridLoss:
    r"""The tightest grid law that dominates the pair: each cell's mass goes to the cell's two ends.

    A cell (a, b] with P-mass p and Q-mass q puts :math:`r = (p - q e^{a})/(1 - e^{-(b-a)})` at b and p - r
    at a: P- and
    Q-mass are kept. Below the grid all goes to its first point; above it, :math:`q e^{a}` stays at the last
    point and the
    rest, the pair's delta there, becomes infinite loss. The points are moved up by a hair, so that an atom
    on the last
    point is not above the grid.
    """
    edges = grid.points()
    far = max(1.0, abs(edges[0]), abs(edges[-1]))
    late = min(ATOM_MARGIN * far, grid.step / 4)
    edges = edges + late
    log_p, ratio, error = _cells(pair, edges)
    with np.errstate(divide="ignore"):
        inner = np.minimum(ratio[1:-1] - 2 * error[1:-1] + edges[:-1], 0.0)
        up = np.clip(np.expm1(inner) / math.expm1(-grid.step), 0.0, 1.0)
        to_right = log_p[1:-1] + np.log(up)
        to_left = log_p[1:-1] + np.log1p(-up)
        kept = min(float(ratio[-1] - 2 * error[-1] + edges[-1]), 0.0)
        left = np.append(to_left, log_p[-1] + kept)
    right = np.concatenate((log_p[:1], to_right))
    infinite = math.exp(float(log_p[-1])) * -math.expm1(kept)
    inflate = float(np.max(np.where(log_p > -np.inf, error, 0.0)))
    return GridLoss(
        grid.first,
        np.logaddexp(left, right) + inflate,
        infinite * math.exp(inflate) + 2.0**-1060,
        grid.offset + late + EDGE_ERROR * far,
    )


def from_below(pair: LossPair, grid: UniformGrid) -> GridLoss:
    r"""A grid law dominated by the pair, off by the square of the step where the loss has a smooth density.

    Each cell is merged to its mean; then the part :math:`\alpha_i` of cell i (right of point i) is fused
    with the part
    :math:`1 - \alpha_{i-1}` of the cell before it (empty cells left out) so that their common mean is point
    i or above it. Run from the top:
    :math:`1 - \alpha_{i-1} = \min(1, \alpha_i s_i / d_{i-1})`, with :math:`s_i = p_i - q_i e^{e_i}` the
    surplus of cell i over its left end and
    :math:`d_i = q_i e^{e_{i+1}} - p_i` its deficit to the left end of the next. Cells end a hair before the
    points, so that an atom on a point
    opens the cell to its right and stays where it is. Mass below the grid is dropped; mass above it is
    lowered to the
    last point, infinite loss stays.
    """
    edges = grid.points()
    far = max(1.0, abs(edges[0]), abs(edges[-1]))
    early = min(ATOM_MARGIN * far, grid.step / 4)
    log_p, ratio, error = _cells(pair, edges - early)
    cells = np.flatnonzero(log_p[1:-1] > -np.inf)  # the cells that hold something; a share rises to the next of them
    p, d, left = log_p[1:-1][cells], ratio[1:-1][cells], edges[cells]
    with np.errstate(divide="ignore", invalid="ignore"):
        surplus = p + np.log(-np.expm1(np.minimum(d + left, 0.0)))
        deficit = p[:-1] + np.log(np.expm1(np.clip(d[:-1] + left[1:], 0.0, 700.0)))
        quotient = np.nan_to_num(np.exp(np.minimum(surplus[1:] - deficit, 50.0)), nan=0.0)
    rest = 1.0
    shares = [rest]
    for value in quotient[::-1].tolist():
        rest = max(0.0, 1.0 - rest * value)
        shares.append(rest)
    alpha = np.array(shares[: len(cells)])[::-1]
    infinite = pair.infinite_mass
    top = math.exp(float(log_p[-1])) * (1 - 2.0**-45) - infinite * (1 + 2.0**-45)
    mass = np.full(len(edges), -np.inf)
    mass[-1] = math.log(top) if top > 0 else -math.inf
    with np.errstate(divide="ignore"):
        mass[cells] = np.logaddexp(mass[cells], p + np.log(alpha))
        mass[cells[1:]] = np.logaddexp(mass[cells[1:]], p[:-1] + np.log1p(-alpha[:-1]))
    worst = float(np.max(np.where(log_p > -np.inf, error, 0.0)))
    return GridLoss(
        grid.first,
        mass - worst,
        infinite * math.exp(-worst),
        grid.offset - (4 * worst + early + EDGE_ERROR * far),
    )


@dataclass(frozen=True)
class Sketch:
    """For each pair: a few hundred merged atoms (loss, log mass), the right ends of their cells, and the
    count.
    """

    atoms: tuple[tuple[Array, Array, Array, int], ...]

    @cached_property
    def largest_tilt(self) -> float:
        """Ten thousand over the size of the loss: beyond it a tilt only shows the largest loss, and costs
        digits.
        """
        _, mean, variance = self._moments(np.zeros(1))
        return 1e4 / math.sqrt(float(variance[0]) + float(mean[0]) ** 2 + 1e-24)

    def _moments(self, tilts: Array) -> tuple[Array, Array, Array]:
        """Log moment, tilted mean and tilted variance of the sum at each tilt."""
        log_moment, mean, variance = np.zeros(tilts.shape), np.zeros(tilts.shape), np.zeros(tilts.shape)
        for loss, log_p, _, count in self.atoms:
            exponent = log_p + np.multiply.outer(tilts, loss)
            top = exponent.max(axis=1, keepdims=True)
            weight = np.exp(exponent - top)
            total = weight.sum(axis=1, keepdims=True)
            weight /= total
            m = weight @ loss
            log_moment += count * (top + np.log(total))[:, 0]
            mean += count * m
            variance += count * np.maximum(weight @ loss**2 - m * m, 0.0)
        return log_moment, mean, variance

    @cached_property
    def _bounds(self) -> tuple[Array, Array]:
        """Tilts, and the log moment at each times the hockey stick's gain: what every Chernoff bound is made of."""
        tilts = self.largest_tilt * np.geomspace(1e-7, 1, 400)
        return tilts, self._moments(tilts)[0] + _log_greatest_weight(tilts)

    def tilt_for_delta(self, log_delta: float) -> float:
        """The order of the best Chernoff bound of epsilon at delta."""
        return self._best_for(log_delta)[0]

    def _best_for(self, log_delta: float) -> tuple[float, float]:
        tilts, gains = self._bounds
        bound = (gains - log_delta) / tilts
        at = int(np.argmin(bound))
        return float(tilts[at]), float(bound[at])

    def tilt_for_epsilon(self, epsilon: float) -> float:
        """The order of the best Chernoff bound of delta at epsilon; 0 at and below the mean."""
        return self._best_at(epsilon)[0]

    def _best_at(self, epsilon: float) -> tuple[float, float]:
        tilts, gains = self._bounds
        bound = gains - tilts * epsilon
        at = int(np.argmin(bound))
        return (float(tilts[at]), float(bound[at])) if bound[at] < 0 else (0.0, 0.0)

    def epsilon_for(self, log_delta: float) -> float:
        """The best Chernoff bound of epsilon at delta."""
        return max(0.0, self._best_for(log_delta)[1])

    def log_chernoff(self, epsilon: float) -> float:
        """Log of the Chernoff bound of delta at epsilon."""
        return self._best_at(epsilon)[1]

    def spread(self, tilt: float) -> float:
        """Standard deviation of the tilted sum."""
        return math.sqrt(float(self._moments(np.array([tilt]))[2][0]))

    def reach(self, index: int, log_below: float, log_above: float) -> tuple[float, float]:
        """Losses of one pair outside which it has (about) the given log masses."""
        loss, log_p, right, _ = self.atoms[index]
        below = np.logaddexp.accumulate(log_p) <= log_below
        above = np.logaddexp.accumulate(log_p[::-1])[::-1] > log_above
        low = right[np.flatnonzero(below)[-1]] if below.any() else loss[0] - 0.07 * abs(loss[0]) - 1e-14
        last = int(np.flatnonzero(above)[-1]) if above.any() else len(loss) - 1
        return float(low), float(right[last] if right[last] < math.inf else loss[last])


def _log_greatest_weight(tilts: Array) -> Array:
    """Log of the largest e^{-tilt t}(1 - e^{-t}): the hockey stick's gain over a plain Chernoff bound."""
    return np.asarray(-tilts * np.log1p(1 / tilts) - np.log1p(tilts))


@lru_cache(maxsize=4)  # one price composes the same pairs for several targets
def sketch(pairs: tuple[tuple[LossPair, int], ...]) -> Sketch:
    """Merge each pair on cells 5.9 % wide."""
    half = np.geomspace(1e-14, 1e5, 19 * 40 + 1)
    edges = np.concatenate((-half[::-1], [0.0], half))
    ends = np.append(edges, np.inf)
    atoms = []
    for pair, count in pairs:
        log_p, log_q = pair.log_cells(edges)
        some = (log_p > -np.inf) & (log_q > -np.inf)
        if not np.any(some):
            raise MethodUnavailable("pld", "its losses lie beyond 1e5, where the grid ends")
        atoms.append((log_p[some] - log_q[some], log_p[some], ends[some], count))
    return Sketch(tuple(atoms))
