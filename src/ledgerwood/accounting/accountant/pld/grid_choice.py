"""Choosing the grid for one question: its step, its ends, and which pairs are composed in blocks before.

No bound depends on the choice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ledgerwood.accounting.accountant.pld.blocks import BlockSplit, fine_step, most_blocks
from ledgerwood.accounting.accountant.pld.discretization import UniformGrid
from ledgerwood.accounting.accountant.pld.sketch import Sketch
from ledgerwood.accounting.curves.dominating_pairs.base import Array, LossPair

__all__ = ["LARGEST_LENGTH", "TOLERANCE", "GridPlan", "GridTarget", "plan"]

SMALLEST_LENGTH, USUAL_LENGTH, LARGEST_LENGTH = 2**12, 2**16, 2**20
"""Points over the window, at least (for a rough answer, and else) and at most."""
LONGEST_PAIR, LONGEST_BOUNDED_PAIR = 2**19, 2**16
"""Points of one pair: of a loss without bound, and of a bounded one, whose end may call for a needle-thin grid."""
TOLERANCE = 7e-7
"""How much the grid may add to epsilon, relatively, unless that takes too many points."""
MANY_PAIRS = 4
"""More distinct pairs than this may add more: each moves to the common grid by itself."""
FEWEST_STEPS = 64
"""Fewer steps are never composed in blocks."""
LOG_ALIASED = math.log(1e-9)
"""Log of the share of delta that may lie above the window, after the tilt."""
STEP_ROUNDING = 2e-14
"""About what double precision adds to the masses of blocks per composition (measured)."""
FEWEST_BLOCKS = 24
"""How many distributions must be able to move to the grid of the run for composing in blocks."""
TAIL_EVENTS = 0.5
"""How often a run may meet the tails of its steps: each calls for some steps of the bulk on the grid of the run."""


@dataclass(frozen=True)
class GridTarget:
    """About where the answer lies, and the tilt for it."""

    epsilon: float
    log_delta: float
    tilt: float

    @staticmethod
    def of_delta(outline: Sketch, log_delta: float) -> GridTarget:
        """The target of a question about delta."""
        return GridTarget(outline.epsilon_for(log_delta), log_delta, outline.tilt_for_delta(log_delta))

    @staticmethod
    def of_epsilon(outline: Sketch, epsilon: float) -> GridTarget:
        """The target of a question about epsilon."""
        return GridTarget(epsilon, outline.log_chernoff(epsilon), outline.tilt_for_epsilon(epsilon))

    def at(self, outline: Sketch, epsilon: float) -> GridTarget:
        """The same delta at a better epsilon."""
        better = min(epsilon, 1.2 * self.epsilon)
        return GridTarget(better, self.log_delta, outline.tilt_for_epsilon(better))

    def near(self, other: GridTarget) -> bool:
        """Whether a plan for the other serves as well."""
        return self.epsilon >= 0.7 * other.epsilon and self.log_delta >= other.log_delta - 3

    def with_delta(self, log_delta: float) -> GridTarget:
        """The same epsilon at a better delta."""
        return replace(self, log_delta=min(self.log_delta, log_delta))


@dataclass(frozen=True)
class GridPlan:
    """A common step, the end of the window, about where the answer lies, and each pair's place: a grid, or blocks.

    The tolerance is how much the grid may add to epsilon, relatively.
    """

    step: float
    top: float
    epsilon: float
    tilt: float
    largest_tilt: float
    tolerance: float
    places: tuple[tuple[LossPair, int, UniformGrid | BlockSplit], ...]


def plan(
    pairs: tuple[tuple[LossPair, int], ...],
    outline: Sketch,
    target: GridTarget,
    most_points: int,
    largest_tilt: float,
    tolerance: float,
    *,
    whole: bool = False,
    digits: float = 0.0,
) -> GridPlan:
    """The cheapest grid on which connecting the dots adds at most the tolerance to epsilon, if the points suffice.

    ``whole`` asks for the distribution below the answer too, where a tilted sum has no mass; ``digits`` for so many
    more of blocks.
    """
    log_delta = max(target.log_delta, -735.0)
    top = 1.1 * max(outline.upper_end(log_delta - 21), target.epsilon)
    # What lies above the window must not weigh much after the tilt either: a heavy tail calls for a smaller one.
    tilt = min(target.tilt, largest_tilt)
    while True:
        low = outline.lower_end(tilt, math.log(1e-14))
        aliased = LOG_ALIASED + min(log_delta - outline.log_bound(tilt, target.epsilon), 0.0)
        above = outline.tilted_end(tilt, aliased)
        if above <= top + 1.5 * max(top - low, 0.0) or tilt <= 1e-2 * target.tilt:
            break
        tilt *= 0.85
    top = max(top, min(above, top + 1.5 * max(top - low, 0.0)))
    total = sum(count for _, count in pairs)
    reaches = []
    for index, (pair, _) in enumerate(pairs):
        above = log_delta - math.log(total) - 20
        low, high = outline.reach(index, 0.0 if whole else tilt, math.log(1e-16 / total), above)
        least, greatest = pair.support()
        reaches.append((max(low, least), min(high, greatest)))
    highest = sum(count * high for (_, count), (_, high) in zip(pairs, reaches, strict=True))
    lowest = sum(count * low for (_, count), (low, _) in zip(pairs, reaches, strict=True))
    top = min(top, highest)
    bottom = max(outline.lower_end(0.0 if whole else tilt, math.log(1e-14)), lowest)
    window = max(top - bottom, 0.0) or 1e-9
    # Connecting the dots multiplies E[e^{tilt L}] by about 1 + tilt (tilt + 1) v / 2 if it adds v to the variance.
    variance = tolerance * 2 * max(target.epsilon, outline.spread(tilt) / 100) / (target.tilt + 1)
    variance *= max(1.0, len(pairs) / MANY_PAIRS)
    outlines = [outline.tilted(index, tilt) for index in range(len(pairs))]
    chosen = _cheapest(pairs, outlines, reaches, window, variance, most_points, tolerance >= 1e-3)
    step = _align(pairs, chosen.step)
    share = variance / max(1, sum(chosen.blocks))
    # The errors are relative to Chernoff's bound; log delta falls by about ten while epsilon doubles.
    weight = min(outline.log_bound(tilt, target.epsilon) - log_delta + digits * math.log(10), 300.0)
    narrow = 10 * tolerance * math.exp(-max(weight, 0.0)) / STEP_ROUNDING
    places = []
    for (pair, count), outlined, reach, block in zip(pairs, outlines, reaches, chosen.blocks, strict=True):
        place: UniformGrid | BlockSplit = _grid(pair, step, *reach)
        if block:
            cuts = _cuts(outlined, reach, count)
            first = min(math.floor(reach[0] / step) - 2, -1)
            last = max(math.ceil(reach[1] / step) + 2, 1)
            low, high = max(math.floor(cuts[0] / step) - 1, first), min(math.ceil(cuts[1] / step) + 1, last)
            place = BlockSplit(
                pair, count, step, first, last, (low, high), tilt, top + 1e-3 * window, share, log_delta, narrow
            )
        places.append((pair, count, place))
    return GridPlan(step, top + 1e-3 * window, target.epsilon, tilt, largest_tilt, tolerance, tuple(places))


@dataclass(frozen=True)
class _GridChoice:
    step: float
    blocks: list[bool]


def _cheapest(
    pairs: tuple[tuple[LossPair, int], ...],
    outlines: list[tuple[Array, Array]],
    reaches: list[tuple[float, float]],
    window: float,
    variance: float,
    most_points: int,
    rough: bool,
) -> _GridChoice:
    """The step, and which pairs go in blocks, by a rough count of points of all transforms."""
    can = [
        count >= FEWEST_STEPS and (pair.lattice is None or not pair.lattice[1]) and pair.infinite_mass == 0
        for pair, count in pairs
    ]
    best: tuple[float, _GridChoice] | None = None
    length = SMALLEST_LENGTH if rough else USUAL_LENGTH
    while True:
        length = min(length, most_points)
        step = window / length
        added = [
            0.0 if pair.lattice is not None and pair.lattice[1] else count * _added(outlined, step)
            for (pair, count), outlined in zip(pairs, outlines, strict=True)
        ]
        last = length == most_points
        if sum(added) <= variance or (last and best is None):
            direct = _GridChoice(_wide_enough(pairs, reaches, step), [False] * len(pairs))
            points = sum((high - low) / direct.step for low, high in reaches)
            found = 3 * (length + points)
            best = min(best, (found, direct), key=lambda one: one[0]) if best is not None else (found, direct)
            break
        blocks = [able and more > variance / (2 * len(pairs)) for able, more in zip(can, added, strict=True)]
        share = variance / (2 * max(1, sum(blocks)))
        rest = sum(more for block, more in zip(blocks, added, strict=True) if not block)
        if any(blocks) and rest <= variance / 2 and most_blocks(share, step) >= FEWEST_BLOCKS:
            found = 3.0 * length
            for (_, count), outlined, reach, block in zip(pairs, outlines, reaches, blocks, strict=True):
                low, high = _cuts(outlined, reach, count) if block else reach
                found += 3 * (reach[1] - reach[0]) / step
                if block:
                    found += 6 * (high - low) / fine_step(share, count)
            if best is None or found < best[0]:
                best = found, _GridChoice(step, blocks)
        if last:
            break
        length *= 2
    assert best is not None
    return best[1]


def _wide_enough(pairs: tuple[tuple[LossPair, int], ...], reaches: list[tuple[float, float]], step: float) -> float:
    """The step, or a wider one if a pair would need too many points."""
    for (pair, _), (low, high) in zip(pairs, reaches, strict=True):
        most = LONGEST_BOUNDED_PAIR if math.isfinite(pair.support()[1]) else LONGEST_PAIR
        step = max(step, (high - low) / most)
    return max(step, 1e-300)


def _added(outlined: tuple[Array, Array], step: float) -> float:
    """What the grid adds to the variance of one step: step²/6 where the loss is smooth, less within one cell of 0."""
    loss, mass = outlined
    return float(mass @ np.minimum(step**2 / 6, step * np.abs(loss)))


def _cuts(outlined: tuple[Array, Array], reach: tuple[float, float], count: int) -> tuple[float, float]:
    """Losses between which a step's bulk lies, so that a run meets its tails a few times."""
    loss, mass = outlined
    order = np.argsort(np.abs(loss), kind="stable")
    size, mass = np.abs(loss)[order], mass[order]
    rare = np.append(np.cumsum(mass[:0:-1])[::-1], 0.0)
    cut = float(size[int(np.argmax(rare <= TAIL_EVENTS / count))]) * 1.1
    return max(-cut, reach[0]), min(cut, reach[1])


def _grid(pair: LossPair, step: float, low: float, high: float) -> UniformGrid:
    """Points from below ``low`` to above ``high``, one of them the pair's anchor."""
    if not max(abs(low), abs(high)) < 2.0**60 * step:
        raise ArithmeticError("the losses lie too far out for the step of the grid")
    offset = pair.anchor - step * round(pair.anchor / step)
    first = math.floor((low - offset) / step + 1e-6)
    return UniformGrid(offset, step, first, max(math.ceil((high - offset) / step - 1e-6), first + 1))


def _align(pairs: tuple[tuple[LossPair, int], ...], step: float) -> float:
    """A step near the given one whose multiples hit the atoms: all of them if one lattice holds all, else
    the coarsest's.
    """
    lattices = [pair.lattice for pair, _ in pairs]
    known = [lattice for lattice in lattices if lattice is not None]
    if not known:
        return step
    finest = min(size for size, _ in known)
    multiples = all(abs(size / finest - round(size / finest)) < 1e-12 for size, _ in known)
    if len(known) == len(lattices) and multiples and all(only for _, only in known):
        return finest if finest >= step else finest * math.ceil(step / finest)
    anchor = finest if multiples else max(size for size, _ in known)
    return anchor / math.ceil(anchor / step) if anchor > step else step
