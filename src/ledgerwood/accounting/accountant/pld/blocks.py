r"""Many steps of one pair as a few losses on a coarse grid: the bulk composed on ever coarser grids, the tails apart.

Nearly all of the loss of a rarely sampled step lies within one cell of a grid that suits the whole run, and connecting
the dots there would multiply its variance. So the bulk b of a step, its losses between two cuts, is composed on a fine
grid, moved to a coarser one, composed further, and so on (Ghazi, Kamath, Kumar & Manurangsi 2022, arXiv:2207.04381).
The tails :math:`\kappa`, met at most K times in the run, go to the coarse grid at once, and so do K steps of the bulk:

.. math:: (b + \kappa)^n = b^{n-K} \sum_{j \le K} \binom nj b^{K-j} \kappa^j + \dots

Proof and rounding: ``docs/theory/many-steps.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ledgerwood.accounting.accountant.pld.discretization import (
    EDGE_ERROR,
    GridLoss,
    apart,
    coarser_above,
    coarser_below,
    only_inside,
)
from ledgerwood.accounting.accountant.pld.tilted_fft import GridPart, TiltedSum, tilted_moments, tilted_sum
from ledgerwood.accounting.curves.dominating_pairs.base import LossPair

__all__ = ["BlockSplit", "fine_step", "in_blocks", "most_blocks"]

BLOCK_LENGTH, LONGEST_BULK = 2**12, 2**20
"""Points of a transform on the way, at least and at most."""
WINDOW, COARSER = 19.0, 3.0
"""Standard deviations in a window, and how much coarser the next grid is at least."""
TO_RESOLUTION, MOST_TO_RESOLVE = 32, 2**14
"""Points per size of a step's loss on the first grid, at least, but no more points than this for its sake: from below
the lowest of its cells is rounded down in every step."""
POLYNOMIAL = 32
"""How many times as much a run that may meet the tails is rounded as a power is."""
LOST = 1e-9
"""Tilted mass of all blocks together that windows may leave out, and the share of delta."""


@dataclass(frozen=True)
class BlockSplit:
    """How to compose ``count`` steps of a pair on a grid of a given step.

    The cuts are the indices of grid points; ``variance`` is how much the moves between grids may add to the variance of
    the whole run, and ``log_delta`` about what is asked for. A distribution that is composed more than ``narrow`` times
    is found in extended precision.
    """

    pair: LossPair
    count: int
    step: float
    first: int
    last: int
    cuts: tuple[int, int]
    tilt: float
    top: float
    variance: float
    log_delta: float
    narrow: float


# Of the variance that may be added, a quarter is for the finest grid, a sixteenth for each move on the way (there are
# seldom more than four), and half for what comes to the grid of the run: the blocks, and the steps next to the tails.


def fine_step(variance: float, count: int) -> float:
    """The step of the first grid: n steps on a grid of step h add n h²/6 to the variance."""
    return math.sqrt(6 * variance / 4 / count)


def most_blocks(variance: float, step: float) -> int:
    """How many distributions may move to the grid of the run."""
    return math.floor(min(6 * variance / 2 / step**2, 1e9))


def in_blocks(split: BlockSplit, *, upper: bool) -> list[GridPart]:
    """Distributions on the grid of the run whose composition bounds that of all steps."""
    pair, step, tilt = split.pair if upper else split.pair.below(), split.step, split.tilt
    points = np.asarray(np.arange(split.first, split.last + 1) * step)
    inside = slice(split.cuts[0] - split.first, split.cuts[1] - split.first)
    bulk, tails = apart(pair, points, split.first, inside, upper=upper)
    most, exceeded = _tail_events(split, tails)
    low, high = float(points[inside.start]), float(points[inside.stop])
    steps = split.count - most
    parts = _bulk(split, steps, low, high, upper) if steps else []
    if most == 0:
        return parts
    lost = split.log_delta + math.log(LOST)
    wide = POLYNOMIAL * most > split.narrow
    run = tilted_sum(
        [(bulk, most), (tails, 1)],
        step,
        tilt,
        LONGEST_BULK,
        highest=split.top,
        log_lost=lost,
        rare=split.count,
        wide=wide,
    )
    if isinstance(run, int):
        raise ArithmeticError("the tails of a step reach too far for its grid")
    origin = bulk.origin * most
    infinite = exceeded + split.count * tails.infinite_mass if upper else 0.0
    return [(_coarser(run, origin, origin, step, infinite, upper), 1), *parts]


def _tail_events(split: BlockSplit, tails: GridLoss) -> tuple[int, float]:
    """A number of tail events that is rarely exceeded in a run, tilted or not, and the mass of the runs that do."""
    loss = (tails.first + np.arange(len(tails.log_mass))) * split.step
    answers = []
    for tilt, log_rare in ((0.0, split.log_delta + math.log(LOST)), (split.tilt, math.log(LOST))):
        exponent = tails.log_mass + tilt * loss
        top = float(np.max(exponent))
        if top == -math.inf:
            return 0, 0.0
        mean = split.count * float(np.sum(np.exp(exponent - top))) * math.exp(min(top, 100.0))
        most = mean
        # Chernoff's bound for the binomial, by the Poisson distribution of the same mean
        while mean > 0 and most * math.log(most / mean) - (most - mean) < -log_rare:
            most += max(1.0, 0.02 * most)
        answers.append(math.ceil(most))
    return min(max(answers), split.count), math.exp(split.log_delta) * LOST


def _bulk(split: BlockSplit, count: int, low: float, high: float, upper: bool) -> list[GridPart]:
    """The composed bulk as a number of equal blocks on the grid of the run, and one block for the rest."""
    pair, tilt = split.pair if upper else split.pair.below(), split.tilt
    least, greatest = pair.support()
    low, high = max(low, least - 1e-9 * pair.resolution), min(high, greatest + 1e-9 * pair.resolution)
    points = 0.0 if upper else min((high - low) / pair.resolution * TO_RESOLUTION, MOST_TO_RESOLVE)
    points = min(max(math.ceil(max(points, (high - low) / fine_step(split.variance, count))), 16), LONGEST_BULK // 2)
    grid_loss = only_inside(pair, np.linspace(low, high, points + 1), upper=upper)
    step = (high - low) / points
    anchor = pair.anchor
    rest: GridLoss | None = None
    size = 1
    blocks = max(1, most_blocks(split.variance, split.step) // 4)
    # Long enough for each grid to be a few times coarser than the one before.
    way = 6 * split.variance / 16 / count
    deviation = math.sqrt(tilted_moments([(grid_loss, 1)], step, tilt)[1])
    length = 1 << math.ceil(math.log2(max(1.5 * points, COARSER * WINDOW * deviation / math.sqrt(way), BLOCK_LENGTH)))
    length = min(length, LONGEST_BULK)
    while True:
        total = count // size
        needed = max(1, math.ceil(total / blocks))
        _, variance = tilted_moments([(grid_loss, 1)], step, tilt)
        room = max(length - 2 * len(grid_loss.log_mass), length // 2) * step / WINDOW
        times = max(1, min(needed, int(room**2 / max(variance, step**2 * 1e-6))))
        while True:
            tail = LOST * size * times / count
            lost = split.log_delta + math.log(tail)
            wide = count > split.narrow * size
            composed = tilted_sum([(grid_loss, times)], step, tilt, length, tail=tail, log_lost=lost, wide=wide)
            if isinstance(composed, TiltedSum):
                break
            if times > 16:
                times //= 3
            else:
                length *= 2
                if length > 2 * LONGEST_BULK:
                    raise ArithmeticError("the bulk of a step reaches too far for its grid")
        done = times >= needed
        coarse = split.step if done else max(math.sqrt(way * size * times), 1.5 * step)
        if coarse > split.step:
            coarse = split.step
        left = total % times
        block = _coarser(
            composed, grid_loss.origin * times, size * times * anchor, coarse, grid_loss.infinite_mass * times, upper
        )
        if left or rest is not None:
            pieces: list[GridPart] = ([(grid_loss, left)] if left else []) + ([(rest, 1)] if rest is not None else [])
            steps = count - size * times * (count // (size * times))
            partial = tilted_sum(pieces, step, tilt, 4 * length, tail=tail, log_lost=lost, wide=wide)
            assert isinstance(partial, TiltedSum)
            origin = grid_loss.origin * left + (rest.origin if rest is not None else 0.0)
            infinite = grid_loss.infinite_mass * left + (rest.infinite_mass if rest is not None else 0.0)
            rest = _coarser(partial, origin, steps * anchor, coarse, infinite, upper)
        grid_loss, step, size = block, coarse, size * times
        if coarse == split.step:
            found: list[GridPart] = [(grid_loss, count // size)]
            return found + ([(rest, 1)] if rest is not None else [])


def _coarser(composed: TiltedSum, origin: float, anchor: float, step: float, infinite: float, upper: bool) -> GridLoss:
    """A composed distribution on a coarser grid that has a point where all steps have the loss of the anchor."""
    # Masses far below the error are noise: left out, or they would widen the windows to come, and counted as error.
    noise = composed.norm_error + composed.part_norm
    keep = composed.mass > 0.1 * noise / math.sqrt(len(composed.mass))
    left_out = np.abs(composed.mass[~keep])
    index = composed.first + np.flatnonzero(keep)
    losses = np.asarray(index * composed.step + origin)
    tilt = composed.tilt
    sign = 1 if upper else -1
    log_mass = np.log(composed.mass[keep]) + composed.log_scale + sign * (composed.relative_error + 2.0**-45)
    offset = anchor - step * round(anchor / step)
    first, tilted = (coarser_above if upper else coarser_below)(losses, log_mass, tilt, offset, step)
    # The masses were tilted by the loss less the origin; the new ones are, by the loss less the offset.
    turn = tilt * (origin - offset)
    at = tilt * step * (first + np.arange(len(tilted)))
    outside = 0.0 if upper else composed.outside
    error = noise + math.sqrt(float(np.sum(left_out * left_out))) + outside
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
