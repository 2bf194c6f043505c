r"""Many steps of one pair as a few laws on a coarse grid: its bulk composed on ever coarser grids, its tails apart.

Nearly all of the loss of a rarely sampled step lies within one cell of a grid that suits the whole run, and connecting the
dots there would multiply its variance. So the bulk b of a step, its losses between two cuts, is composed on a fine grid,
moved to a coarser one, composed further, and so on (Ghazi, Kamath, Kumar & Manurangsi 2022, arXiv:2207.04381); the tails
:math:`\kappa`, met only a few times in the run, go to the coarse grid at once. With P- and Q-mass p, q of the bulk and
:math:`v = \log(p/q)`, Jensen gives :math:`p\,V(\gamma - v) \le (bV)(\gamma)`, and so

.. math:: b^{n-K} E^{K} \sum_{j \le K} \binom nj (E^{-1}\kappa)^j \ \le\ (b + \kappa)^n \ \le\ b^n (1 + E^{-1}\kappa)^n

for the operator E of an atom of mass p at v. Proof and rounding: ``docs/theory/many-steps.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ledgerwood.accounting.accountant.pld.discretization import (
    EDGE_ERROR,
    GridLoss,
    coarser_above,
    coarser_below,
    only_inside,
    only_outside,
)
from ledgerwood.accounting.accountant.pld.tilted_fft import GridPart, TiltedSum, tilted_moments, tilted_sum
from ledgerwood.accounting.curves.dominating_pairs.base import Array, LossPair

__all__ = ["BlockSplit", "fine_step", "in_blocks", "most_blocks"]

BLOCK_LENGTH, LONGEST_BULK = 2**12, 2**20
"""Points of a transform on the way, at least and at most."""
WINDOW, COARSER = 19.0, 3.0
"""Standard deviations in a window, and how much coarser the next grid is at least."""
LOST = 1e-9
"""Tilted mass of all blocks together that windows may leave out, and the share of delta."""
LOG_EXCESS = math.log(1e-12)
"""Log of the tilted mass of runs with more tail events than the lower end counts."""


@dataclass(frozen=True)
class BlockSplit:
    """How to compose ``count`` steps of a pair on a grid of a given step.

    The cuts are the indices of grid points; ``variance`` is how much the moves between grids may add to the variance of
    the whole run, and ``log_delta`` about what is asked for.
    """

    pair: LossPair
    count: int
    step: float
    first: int
    last: int
    cuts: tuple[int, int]
    tilt: float
    variance: float
    log_delta: float


# Of the variance that may be added, a quarter each is for the finest grid, for the moves on the way, for the blocks'
# move to the grid of the run, and for the tails.


def fine_step(variance: float, count: int) -> float:
    """The step of the first grid: n steps on a grid of step h add n h²/6 to the variance."""
    return math.sqrt(6 * variance / 4 / count)


def most_blocks(variance: float, step: float) -> int:
    """How many blocks may move to the grid of the run."""
    return math.floor(min(6 * variance / 4 / step**2, 1e9))


def in_blocks(split: BlockSplit, *, upper: bool) -> tuple[list[GridPart], float]:
    """Laws on the grid whose composition bounds that of all steps, and the tilted mass to take off from below."""
    pair, count = split.pair, split.count
    points = np.arange(split.first, split.last + 1) * split.step
    inside = slice(split.cuts[0] - split.first, split.cuts[1] - split.first)
    log_p, v = _atom(pair, points, inside)
    mass, infinite = only_outside(pair, points, v, inside, upper=upper)
    mass = mass - log_p + (2.0**-40 if upper else -(2.0**-40))
    mass[-split.first] = np.logaddexp(mass[-split.first], 0.0)
    tails = GridLoss(split.first, mass, infinite * math.exp(-log_p) * (1 + 2.0**-40), 0.0)
    parts: list[GridPart] = [(tails, count)]
    steps, excess = count, 0.0
    if not upper:
        given_up, excess = _tail_events(tails, split)
        steps -= given_up
        atom = GridLoss(0, np.array([given_up * log_p]), 0.0, given_up * v * (1 + math.copysign(2.0**-40, -v)))
        parts.append((atom, 1))
    # the very edges that the tails were cut at
    far = 2 * EDGE_ERROR * max(pair.resolution, abs(float(points[0] + v)), abs(float(points[-1] + v)))
    edge = points + (v - far if upper else v + far)
    return parts + _bulk(split, steps, float(edge[inside.start]), float(edge[inside.stop]), upper), excess


def _atom(pair: LossPair, points: Array, inside: slice) -> tuple[float, float]:
    """Log of a mass p and a loss v of an atom that the bulk, cut where the tails moved by v are, dominates."""

    def masses(move: float) -> tuple[float, float]:
        cells = pair.cells([float(points[inside.start]) + move, float(points[inside.stop]) + move])
        p = float(np.exp(cells.log_p[0]) + np.exp(cells.log_p[2]))
        q = float(np.exp(cells.log_q[0]) + np.exp(cells.log_q[2]))
        less = math.log1p(-p) - math.log1p(-q) - 1e-6 * (p + q)
        return math.log1p(-p) - 1e-6 * p, less

    v = masses(0.0)[1]
    for margin in (0.05, 0.5, 5.0, 50.0):  # the cut, and the mass beyond it, hardly depend on so small a move
        log_p, reached = masses(v - margin * abs(v))
        if reached >= v - margin * abs(v):
            return log_p, v - margin * abs(v)
    raise ArithmeticError("the bulk of a step cannot be cut off")


def _tail_events(tails: GridLoss, split: BlockSplit) -> tuple[int, float]:
    """A number of tail events that is rarely exceeded in the tilted run, and how rarely: Chernoff for the binomial."""
    loss = (tails.first + np.arange(len(tails.log_mass))) * split.step
    tilted = tails.log_mass + split.tilt * loss
    at = -tails.first
    others = np.delete(tilted, at)
    top = float(np.max(others))
    mean = split.count * float(np.sum(np.exp(others - top))) * math.exp(min(top, 100.0))
    most = mean
    while mean > 0 and most * math.log(most / mean) - (most - mean) < -LOG_EXCESS:
        most += max(1.0, 0.02 * most)
    return min(math.ceil(most), split.count), math.exp(LOG_EXCESS)


def _bulk(split: BlockSplit, count: int, low: float, high: float, upper: bool) -> list[GridPart]:
    """The composed bulk as a number of equal blocks on the grid of the run, and one block for the rest."""
    if count == 0:
        return []
    pair, tilt = split.pair, split.tilt
    least, greatest = pair.support()
    low, high = max(low, least - 1e-9 * pair.resolution), min(high, greatest + 1e-9 * pair.resolution)
    points = min(max(math.ceil((high - low) / fine_step(split.variance, count)), 16), LONGEST_BULK // 2)
    law = only_inside(pair, np.linspace(low, high, points + 1), upper=upper)
    step = (high - low) / points
    anchor = pair.anchor
    rest: GridLoss | None = None
    size = 1
    blocks = max(1, most_blocks(split.variance, split.step))
    # Long enough for each grid to be a few times coarser than the one before.
    way = 6 * split.variance / 8 / count
    deviation = math.sqrt(tilted_moments([(law, 1)], step, tilt)[1])
    length = 1 << math.ceil(math.log2(max(1.5 * points, COARSER * WINDOW * deviation / math.sqrt(way), BLOCK_LENGTH)))
    length = min(length, LONGEST_BULK)
    while True:
        total = count // size
        needed = max(1, math.ceil(total / blocks))
        _, variance = tilted_moments([(law, 1)], step, tilt)
        room = max(length - 2 * len(law.log_mass), length // 2) * step / WINDOW
        times = max(1, min(needed, int(room**2 / max(variance, step**2 * 1e-6))))
        while True:
            tail = LOST * size * times / count
            lost = split.log_delta + math.log(tail)
            composed = tilted_sum([(law, times)], step, tilt, length, tail=tail, log_lost=lost)
            if isinstance(composed, TiltedSum):
                break
            if times > 16:
                times //= 3
            else:
                length *= 2
        done = times >= needed
        coarse = split.step if done else max(math.sqrt(way * size * times), 1.5 * step)
        if coarse > split.step:
            coarse = split.step
        left = total % times
        block = _coarser(composed, law.origin * times, size * times * anchor, coarse, law.infinite_mass * times, upper)
        if left or rest is not None:
            pieces: list[GridPart] = ([(law, left)] if left else []) + ([(rest, 1)] if rest is not None else [])
            steps = count - size * times * (count // (size * times))
            partial = tilted_sum(pieces, step, tilt, 4 * length, tail=tail, log_lost=lost)
            assert isinstance(partial, TiltedSum)
            origin = law.origin * left + (rest.origin if rest is not None else 0.0)
            infinite = law.infinite_mass * left + (rest.infinite_mass if rest is not None else 0.0)
            rest = _coarser(partial, origin, steps * anchor, coarse, infinite, upper)
        law, step, size = block, coarse, size * times
        if coarse == split.step:
            found: list[GridPart] = [(law, count // size)]
            return found + ([(rest, 1)] if rest is not None else [])


def _coarser(composed: TiltedSum, origin: float, anchor: float, step: float, infinite: float, upper: bool) -> GridLoss:
    """A composed law on a coarser grid that has a point where all steps have the loss of the anchor."""
    # Masses far below the error are noise: left out, or they would widen the windows to come, and counted as error.
    noise = composed.norm_error + composed.part_norm
    keep = composed.mass > 0.1 * noise / math.sqrt(len(composed.mass))
    left_out = np.abs(composed.mass[~keep])
    index = composed.first + np.flatnonzero(keep)
    losses = index * composed.step + origin
    tilt = composed.tilt
    sign = 1 if upper else -1
    log_mass = np.log(composed.mass[keep]) + composed.log_scale + sign * (composed.relative_error + 2.0**-45)
    offset = anchor - step * round(anchor / step)
    first, tilted = (coarser_above if upper else coarser_below)(losses, log_mass, tilt, offset, step)
    # The masses were tilted by the loss less the origin; the new ones are, by the loss less the offset.
    turn = tilt * (origin - offset)
    at = tilt * step * (first + np.arange(len(tilted)))
    outside = 0.0 if upper else composed.outside
    error = noise + float(np.linalg.norm(left_out)) + outside
    error_mass = composed.norm_error * math.sqrt(len(composed.mass)) + composed.part_tilted + float(left_out.sum())
    # Each point takes masses of c fine points with weights that add up to c.
    spread = 0.5 * math.log(step / composed.step + 0.5) + tilt * step
    far = max(abs(float(losses[0])), abs(float(losses[-1])), step)
    if upper:
        infinite += math.exp(min(composed.log_upper_tail, 0.0))
    else:
        infinite = 0.0
    return GridLoss(
        first,
        np.asarray(tilted - at + turn),
        infinite,
        offset + sign * 4 * EDGE_ERROR * far,
        math.log(error) + composed.log_scale + spread + turn,
        math.log(error_mass + outside) + composed.log_scale + tilt * step + turn,
        tilt,
    )
