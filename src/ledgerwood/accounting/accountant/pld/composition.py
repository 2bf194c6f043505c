"""Choosing the grid and the tilt, and reading answers off the composed loss."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ledgerwood.accounting.accountant.pld.discretization import (
    GridLoss,
    Sketch,
    UniformGrid,
    from_above,
    from_below,
    sketch,
)
from ledgerwood.accounting.accountant.pld.tilted_fft import (
    TAIL,
    GridPart,
    TiltedSum,
    log_moment,
    tilted_moments,
    tilted_sum,
)
from ledgerwood.accounting.curves.dominating_pairs.base import Array, LossPair
from ledgerwood.accounting.curves.dominating_pairs.discrete import PmfPair
from ledgerwood.errors import MethodUnavailable, ParameterError

__all__ = ["ComposedLoss", "LossPmf", "compose"]

SMALLEST_LENGTH, LARGEST_LENGTH, HARD_LIMIT = 2**16, 2**21, 2**22
"""Lengths of the transform: spend the first freely, aim at most at the second, never exceed the third."""
LONGEST_PAIR, LONGEST_BOUNDED_PAIR = 2**19, 2**16
"""Grid points of one pair: of a loss without bound, and of a bounded one, whose end may call for a needle-thin grid."""
TOLERANCE = 5e-7
"""How much the grid may add to epsilon, relatively, unless that takes too many points."""

SHARP = 1e-9
"""A tilt is kept when its rounding bounds of log delta are this close."""


@dataclass(frozen=True)
class LossPmf:
    """A composed loss as a pmf on a uniform grid of losses, with the mass at infinite loss."""

    losses: Array
    probabilities: Array
    infinite_mass: float


@dataclass(frozen=True)
class ComposedLoss:
    """The composed loss of one direction, bracketed from above and below; made by :func:`compose`.

    The tilt follows each question; the grid was chosen for the target given to :func:`compose`.
    """

    pairs: tuple[tuple[LossPair, int], ...]
    grids: tuple[UniformGrid, ...]
    outline: Sketch = field(repr=False)
    tilt: float
    _roots: dict[float, tuple[float, float]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _sums: dict[bool, TiltedSum] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def _laws(self) -> dict[bool, tuple[GridLoss, ...]]:
        return {}

    def _grid(self, upper: bool) -> tuple[GridLoss, ...]:
        if upper not in self._laws:
            rule = from_above if upper else from_below
            each = zip(self.pairs, self.grids, strict=True)
            self._laws[upper] = tuple(rule(pair, grid) for (pair, _), grid in each)
        return self._laws[upper]

    def _parts(self, upper: bool) -> list[GridPart]:
        return [(law.first, law.log_mass, count) for law, (_, count) in zip(self._grid(upper), self.pairs, strict=True)]

    @property
    def step(self) -> float:
        """The common step of the grids."""
        return self.grids[0].step

    def _origin(self, upper: bool) -> float:
        """The composed loss of index 0, moved to the safe side."""
        return math.fsum(law.origin * count for law, (_, count) in zip(self._grid(upper), self.pairs, strict=True))

    def _infinite(self, upper: bool) -> float:
        log_finite = math.fsum(
            count * math.log1p(-law.infinite_mass) if law.infinite_mass < 1 else -math.inf
            for law, (_, count) in zip(self._grid(upper), self.pairs, strict=True)
        )
        return -math.expm1(log_finite) * (1 + 2.0**-40 if upper else 1 - 2.0**-40)

    def _highest(self, upper: bool) -> float:
        return self._origin(upper) + self.step * sum(
            (part[0] + len(part[1]) - 1) * part[2] for part in self._parts(upper)
        )

    def _sum(self, upper: bool, tilt: float) -> TiltedSum:
        kept = self._sums.get(upper)
        if kept is None or kept.tilt != tilt:
            result = tilted_sum(self._parts(upper), self.step, tilt, HARD_LIMIT)
            if isinstance(result, int):
                reason = f"the composed loss needs a transform of {result} points (limit {HARD_LIMIT})"
                raise MethodUnavailable("pld", reason)
            self._sums[upper] = kept = result
        return kept

    def _saddle(self, epsilon: float, start: float) -> float:
        """The tilt under which the mean of the sum is epsilon, to a standard deviation; 0 below the mean."""
        parts, tilt, goal = self._parts(True), start, epsilon - self._origin(True)
        for _ in range(12):
            mean, variance = tilted_moments(parts, self.step, tilt)
            spread = math.sqrt(variance)
            if spread == 0 or abs(mean - goal) <= spread or (tilt == 0 and mean > goal):
                break
            # Newton's step on the cumulants, at most a doubling or a third.
            tilt = min(
                max(tilt + (goal - mean) / variance, tilt / 3),
                2 * tilt + 1 / spread,
                self.outline.largest_tilt,
            )
            tilt = tilt if tilt * spread > 1e-3 else 0.0
        return tilt

    def _log_bounds(self, epsilon: float, upper: bool, tilt: float) -> tuple[float, float]:
        """Logs of bounds of delta of the grid law at epsilon, infinite loss included."""
        infinite = self._infinite(upper)
        log_infinite = math.log(infinite) if infinite > 0 else -math.inf
        highest = self._highest(upper)
        if epsilon >= highest + 2.0**-45 * max(1.0, abs(highest)):
            return log_infinite, log_infinite
        low, high = self._sum(upper, tilt).log_hockey_stick(epsilon - self._origin(upper))
        # No loss exceeds the highest point, whatever the tilt can show: delta <= mass * (1 - e^{epsilon -
        # highest}).
        cap = math.log(-math.expm1(min(epsilon - highest, -(2.0**-45))))
        if high > cap:
            high = min(high, cap + max(0.0, log_moment(self._parts(upper), self.step, 0.0)) + 2.0**-40)
        return float(np.logaddexp(low, log_infinite)), float(np.logaddexp(high, log_infinite))

    def _log_delta(self, epsilon: float, upper: bool) -> float:
        tilt = self.outline.tilt_for_epsilon(epsilon)
        bounds = self._log_bounds(epsilon, upper, tilt)
        if bounds[1] - bounds[0] > SHARP:
            # A sharper tilt may need a larger transform than is allowed: then the bounds at hand stand.
            with suppress(MethodUnavailable):
                bounds = self._log_bounds(epsilon, upper, self._saddle(epsilon, tilt))
        return bounds[upper]

    def log_delta_upper(self, epsilon: float) -> float:
        """Log of an upper bound of delta at epsilon."""
        return min(0.0, self._log_delta(epsilon, True))

    def log_delta_lower(self, epsilon: float) -> float:
        """Log of a lower bound of delta at epsilon (no less than that of 1 - e^epsilon)."""
        value = self._log_delta(epsilon, False)
        return max(value, math.log(-math.expm1(epsilon)) - 2.0**-40 if epsilon < 0 else -math.inf)

    def delta_upper(self, epsilon: float) -> float:
        """An upper bound of delta at epsilon."""
        return min(1.0, math.exp(self.log_delta_upper(epsilon)) * (1 + 2.0**-50) + 2.0**-1074)

    def delta_lower(self, epsilon: float) -> float:
        """A lower bound of delta at epsilon."""
        return math.exp(self.log_delta_lower(epsilon)) * (1 - 2.0**-50)

    def epsilon_upper(self, delta: float) -> float:
        """An epsilon of at least 0 whose upper bound of delta is at most ``delta``; ``inf`` where there is
        none.
        """
        return self._upper_root(delta)[0]

    def epsilon_lower(self, delta: float) -> float:
        """No epsilon below this one is valid: the lower bound of delta exceeds ``delta`` there (0 if none
        does).

        Found by stepping down from the upper end, where the tilt suits both.
        """
        start, tilt = self._upper_root(delta)
        goal = math.log(delta) + 2.0**-45
        if self._infinite(False) >= math.exp(goal):
            return math.inf
        good = fail = min(start, self._highest(False))
        move = 1e-11 * good
        while good > 0 and self._log_bounds(good, False, tilt)[0] <= goal:
            good, fail, move = good - move, good, 4 * move
        for _ in range(12):
            middle = (max(good, 0.0) + fail) / 2
            if good > 0 and self._log_bounds(middle, False, tilt)[0] > goal:
                good = middle
            else:
                fail = middle
        return max(good, 0.0)

    def _upper_root(self, delta: float) -> tuple[float, float]:
        """The least epsilon found whose upper bound of delta is at most ``delta``, and the tilt that showed
        it.
        """
        if not 0 < delta < 1:
            raise ParameterError("delta", "lie in (0, 1)", delta)
        if delta in self._roots:
            return self._roots[delta]
        goal = math.log(delta) - 2.0**-45
        tilt = self.outline.tilt_for_delta(goal)
        best = (math.inf, tilt)
        if self._infinite(True) < math.exp(goal):
            for _ in range(3):
                answer = self._root(goal, tilt)
                best = min(best, (answer, tilt))
                bounds = self._log_bounds(answer, True, tilt)
                better = tilt if bounds[1] - bounds[0] <= SHARP else self._saddle(answer, tilt)
                if better == tilt:
                    break
                tilt = better
        self._roots[delta] = best
        return best

    def _root(self, goal: float, tilt: float) -> float:
        """Where log delta crosses ``goal``: secant steps inside a shrinking bracket, then a move to the safe
        side.
        """
        top = self._highest(True)
        top += 2.0**-44 * max(1.0, abs(top))

        def excess(epsilon: float) -> float:
            return max(self._log_bounds(epsilon, True, tilt)[1], goal - 1e3) - goal

        mean, variance = tilted_moments(self._parts(True), self.step, tilt)
        low, high = 0.0, top
        x = last = min(max(mean + self._origin(True), 0.0), top)
        value = last_value = excess(x)
        move = 0.3 * math.sqrt(variance) + 1e-3 * self.step
        proposal = x + math.copysign(move, value)
        for turn in range(100):
            low, high = (x, high) if value > 0 else (low, x)
            if not low < proposal < high or turn % 8 == 7:
                if low == 0 and excess(0.0) <= 0:
                    return 0.0
                proposal = (low + high) / 2
            if abs(proposal - x) <= 1e-12 * high or high - low <= 1e-12 * high:
                break
            last, last_value, x, value = x, value, proposal, excess(proposal)
            proposal = x - value * (x - last) / (value - last_value) if value != last_value else low
        move = 1e-11 * max(x, 1e-6 * self.step)
        while x < top and excess(x) > 0:
            x, move = min(x + move, top), 4 * move
        return x

    def pmf(self, *, upper: bool = True) -> LossPmf:
        """The composed loss on its grid: from above for upper ends, or (``upper=False``) from below for
        lower ends.

        Each mass is the best of the bounds under several tilts between 0 and the target's, so that the far
        tail is right
        relative to itself; what lies beyond the grid is at its first point or at infinite loss (from below:
        dropped).
        """
        sums = [
            result
            for part in (0.0, 1 / 3, 2 / 3, 1.0)
            if isinstance(result := tilted_sum(self._parts(upper), self.step, part * self.tilt, HARD_LIMIT), TiltedSum)
        ]
        first = min(s.first for s in sums)
        last = max(s.first + len(s.mass) for s in sums)
        losses = np.arange(first, last) * self.step
        mass = np.full(len(losses), np.inf if upper else 0.0)
        for s in sums:
            where = slice(s.first - first, s.first - first + len(s.mass))
            factor = np.exp(np.minimum(s.log_scale - s.tilt * losses[where], 700.0))
            if upper:
                bound = (np.maximum(s.mass, 0.0) + s.norm_error) * factor * (1 + 2 * s.relative_error + 2.0**-40)
                mass[where] = np.minimum(mass[where], bound)
            else:
                bound = (s.mass - s.norm_error - s.outside) * factor * (1 - 2 * s.relative_error - 2.0**-40)
                mass[where] = np.maximum(mass[where], bound)
        infinite = self._infinite(upper)
        if upper:
            mass[0] += 2 * TAIL
            infinite += math.exp(min(s.log_upper_tail for s in sums if s.first + len(s.mass) == last))
        return LossPmf(np.asarray(losses + self._origin(upper)), mass, infinite)


def compose(
    pairs: Sequence[tuple[LossPair, int]],
    *,
    delta: float | None = None,
    epsilon: float | None = None,
    most_points: int = LARGEST_LENGTH,
    largest_tilt: float = math.inf,
) -> ComposedLoss:
    """Compose independent pairs, each a number of times, on a grid chosen for one target.

    Parameters
    ----------
    pairs
        The pairs with their counts, all in the direction (P, Q) asked about.
    delta, epsilon
        The target, exactly one of them. Answers far from it stay bounds, but are less sharp.
    most_points
        Grid points over the bulk of the composed loss: fewer are quicker and less sharp, still bounds.
    largest_tilt
        The largest tilt to be sharp for. Next to other releases the best tilt is that of all of them together.
    """
    if (delta is None) == (epsilon is None):
        raise ParameterError("delta", "be given, or epsilon, but not both", delta)
    kept = tuple((pair, count) for pair, count in pairs if count) or ((PmfPair((0.0,), (1.0,)), 1),)
    if any(count < 0 or count != int(count) for _, count in kept):
        raise ParameterError("count", "be a non-negative integer", [count for _, count in kept])
    outline = sketch(kept)
    if delta is not None:
        log_delta = math.log(delta) if delta > 0 else -735.0
        tilt = outline.tilt_for_delta(log_delta)
        scale = outline.epsilon_for(log_delta)
    else:
        assert epsilon is not None
        tilt = outline.tilt_for_epsilon(epsilon)
        log_delta = outline.log_chernoff(epsilon) - 12
        scale = abs(epsilon)
    tilt = min(tilt, largest_tilt)
    total = sum(count for _, count in kept)
    reaches = []
    for index, (pair, _) in enumerate(kept):
        low, high = outline.reach(index, math.log(1e-16 / total), max(log_delta, -735.0) - math.log(total) - 20)
        least, greatest = pair.support()
        reaches.append((max(low, least), min(high, greatest)))
    width = sum(count * (high - low) for (_, count), (low, high) in zip(kept, reaches, strict=True))
    spread = outline.spread(tilt)
    window = min(18 * spread, width) or 1e-9
    # Connecting the dots multiplies E[e^{tilt L}] by about 1 + tilt (tilt + 1) step^2 / 12: see the theory
    # page.
    step = math.sqrt(12 * TOLERANCE * max(scale, spread / 10) / (total * (tilt + 1))) or window
    length = min(max(window / step, SMALLEST_LENGTH), LARGEST_LENGTH, most_points)
    step = window / 2 ** math.ceil(math.log2(length))
    longest = [LONGEST_BOUNDED_PAIR if math.isfinite(pair.support()[1]) else LONGEST_PAIR for pair, _ in kept]
    step = max(step, *((high - low) / most for (low, high), most in zip(reaches, longest, strict=True)), 1e-300)
    while True:
        aligned = _align(kept, step)
        grids = tuple(_grid(pair, aligned, *reach) for (pair, _), reach in zip(kept, reaches, strict=True))
        composed = ComposedLoss(kept, grids, outline, tilt)
        result = tilted_sum(composed._parts(True), aligned, tilt, HARD_LIMIT)
        if isinstance(result, TiltedSum):
            composed._sums[True] = result
            return composed
        step = max(2 * step, 1.5 * aligned)


def _grid(pair: LossPair, step: float, low: float, high: float) -> UniformGrid:
    """Points from below ``low`` to above ``high``, one of them the pair's anchor."""
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
