"""The composed loss of a sum, δ and ε read off it from both sides.

Several releases on one Poisson sample: their composed loss becomes the base of the sampled pair.

If (P', Q') dominates the composition (P, Q) at every γ, then ((1-q)Q' + qP', Q') dominates ((1-q)Q + qP, Q), and so do
the reverses, for both profiles are those of the base at another γ (Zhu, Dong & Wang 2022, Theorem 11). From below the
two directions need a distribution each: what is dominated in one is not in the other, once mass was dropped or moved.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from ledgerwood.accounting.accountant.pld.blocks import BlockSplit, in_blocks
from ledgerwood.accounting.accountant.pld.discretization import from_above, from_below
from ledgerwood.accounting.accountant.pld.grid_choice import LARGEST_LENGTH, TOLERANCE, GridPlan, GridTarget, plan
from ledgerwood.accounting.accountant.pld.sketch import Sketch, sketch
from ledgerwood.accounting.accountant.pld.tilted_fft import (
    TAIL,
    Bracket,
    GridPart,
    TiltedSum,
    log_moment,
    tilted_sum,
)
from ledgerwood.accounting.curves.dominating_pairs.base import Array, LossPair, MaxPair, SubsampledPair
from ledgerwood.accounting.curves.dominating_pairs.composite import BoundedLossPair, ProductPair
from ledgerwood.accounting.curves.dominating_pairs.discrete import PmfPair
from ledgerwood.errors import MethodUnavailable, ParameterError

__all__ = ["ComposedLoss", "LossPmf", "compose", "with_cells"]

HARD_LIMIT = 2**22
"""Points that a transform never exceeds."""
ROUGH = 1e-2
"""The tolerance of a first answer."""
SHARP = 1e-7
"""A tilt is kept when its rounding bounds of log delta are this close, or as close as the tolerance of epsilon asks."""


@dataclass(frozen=True)
class LossPmf:
    """A composed loss as a pmf on a uniform grid of losses, with the mass at infinite loss."""

    losses: Array
    probabilities: Array
    infinite_mass: float
    q_slack: float = 0.0
    """By how much the masses may be too large from above, weighted as Q's."""


class _Law:
    """The parts from above or from below, and what follows from all of them.

    ``origin`` is the composed loss of index 0, moved to the safe side; ``infinite`` the mass at infinite loss;
    ``highest`` the largest finite loss.
    """

    def __init__(self, parts: list[GridPart], step: float, upper: bool) -> None:
        self.parts = parts
        self.origin = math.fsum(grid_loss.origin * count for grid_loss, count in parts)
        last = sum((grid_loss.first + len(grid_loss.log_mass) - 1) * count for grid_loss, count in parts)
        self.highest = self.origin + step * last
        log_finite = 0.0
        for grid_loss, count in parts:
            if grid_loss.infinite_mass:
                share = grid_loss.infinite_mass
                log_finite += count * math.log1p(-share) if share < 1 else -math.inf
        self.infinite = -math.expm1(log_finite) * (1 + 2.0**-40 if upper else 1 - 2.0**-40)


@dataclass(frozen=True)
class ComposedLoss:
    """The composed loss of one direction, bracketed from above and below; made by :func:`compose`.

    The tilt follows each question; the grid was chosen for the target given to :func:`compose`.
    """

    plan: GridPlan
    outline: Sketch = field(repr=False)
    target: GridTarget = field(repr=False)
    _roots: dict[float, tuple[float, float]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _sums: dict[tuple[bool, float], TiltedSum] = field(default_factory=dict, init=False, repr=False, compare=False)
    _laws: dict[bool, _Law] = field(default_factory=dict, init=False, repr=False, compare=False)

    def _composed(self, upper: bool) -> _Law:
        if upper not in self._laws:
            parts: list[GridPart] = []
            for pair, count, place in self.plan.places:
                if isinstance(place, BlockSplit):
                    parts += in_blocks(place, upper=upper)
                else:
                    parts.append((from_above(pair, place) if upper else from_below(pair.below(), place), count))
            self._laws[upper] = _Law(parts, self.step, upper)
        return self._laws[upper]

    def _parts(self, upper: bool) -> list[GridPart]:
        return self._composed(upper).parts

    @property
    def _blocks(self) -> list[BlockSplit]:
        return [place for _, _, place in self.plan.places if isinstance(place, BlockSplit)]

    @property
    def tilt(self) -> float:
        """The tilt that suits the target."""
        return self.plan.tilt

    @property
    def step(self) -> float:
        """The common step of the grids."""
        return self.plan.step

    def _origin(self, upper: bool) -> float:
        return self._composed(upper).origin

    def _infinite(self, upper: bool) -> float:
        return self._composed(upper).infinite

    def _highest(self, upper: bool) -> float:
        return self._composed(upper).highest

    def _sum(self, upper: bool, tilt: float, wide: bool) -> TiltedSum:
        kept = self._sums.get((upper, tilt))
        if kept is None or kept.wide < wide:
            top = self.plan.top - self._origin(upper)
            lost = self.target.log_delta - 20
            result = tilted_sum(self._parts(upper), self.step, tilt, HARD_LIMIT, highest=top, log_lost=lost, wide=wide)
            if isinstance(result, int):
                reason = f"the composed loss needs a transform of {result} points (limit {HARD_LIMIT})"
                raise MethodUnavailable("pld", reason)
            if len(self._sums) > 6:
                self._sums.clear()
            self._sums[upper, tilt] = kept = result
        return kept

    def _tilts(self, epsilon: float) -> list[float]:
        """Tilts to try at epsilon: that of the best Chernoff bound, and others around it."""
        # The errors of blocks are known under the plan's tilt; a larger one multiplies them where losses are large.
        most = self.plan.tilt if self._blocks else 1.2 * self.plan.tilt
        best = min(self.outline.tilt_for_epsilon(epsilon), self.plan.largest_tilt, most)
        return [best, 0.5 * best, 1.5 * best, 0.1 * best] if best else [0.0]

    def _is_sharp(self, epsilon: float, bounds: Bracket) -> bool:
        """Whether rounding moves epsilon by less than the grid does."""
        return bounds.high - bounds.low <= max(SHARP, self.plan.tolerance * epsilon * min(bounds.slope, 1e6))

    def blurred(self, epsilon: float) -> bool:
        """Whether the rounding of blocks in double precision moves epsilon by more than the grid does."""
        if not self._sums or all(split.narrow < 1 for split in self._blocks):
            return False
        tilt = next(reversed(self._sums))[1]
        return not self._is_sharp(epsilon, self._bounds(epsilon, True, tilt))

    def _sharp_tilt(self, epsilon: float, upper: bool) -> float:
        """The first tilt that is sharp at epsilon, or the best of those tried."""
        found = []
        for tilt in self._tilts(epsilon):
            for wide in (False, True):
                try:
                    bounds = self._bounds(epsilon, upper, tilt, wide)
                except MethodUnavailable:
                    break
                if self._is_sharp(epsilon, bounds):
                    return tilt
                found.append((bounds.high if upper else -bounds.low, tilt))
                if bounds.transform < 0.1 * (bounds.high - bounds.low):
                    break  # more digits would not help: what counts are the errors of blocks, or what left the window
        if not found:
            raise MethodUnavailable("pld", f"the composed loss needs a transform of over {HARD_LIMIT} points")
        return min(found)[1]

    def _bounds(self, epsilon: float, upper: bool, tilt: float, wide: bool = False) -> Bracket:
        """Logs of bounds of delta of the grid distribution at epsilon, infinite loss included."""
        infinite = self._infinite(upper)
        log_infinite = math.log(infinite) if infinite > 0 else -math.inf
        highest = self._highest(upper)
        if epsilon >= highest + 2.0**-45 * max(1.0, abs(highest)):
            return Bracket(log_infinite, log_infinite, 0.0, 0.0)
        low, high, slope, transform = self._sum(upper, tilt, wide).hockey_stick(epsilon - self._origin(upper))
        # No loss exceeds the highest point, whatever the tilt can show: delta <= mass * (1 - e^{epsilon -
        # highest}).
        cap = math.log(-math.expm1(min(epsilon - highest, -(2.0**-45))))
        if high > cap:
            high = min(high, cap + max(0.0, log_moment(self._parts(upper), self.step, 0.0)) + 2.0**-40)
        return Bracket(
            float(np.logaddexp(low, log_infinite)), float(np.logaddexp(high, log_infinite)), slope, transform
        )

    def _log_delta(self, epsilon: float, upper: bool) -> float:
        return self._bounds(epsilon, upper, self._sharp_tilt(epsilon, upper))[upper]

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

    def deltas_lower(self, epsilons: Array) -> Array:
        """Lower bounds of delta at several epsilons, all under one tilt."""
        tilt = self._sharp_tilt(float(np.sort(epsilons)[len(epsilons) // 4]), False)
        logs = np.array([self._bounds(e, False, tilt)[0] for e in epsilons.tolist()])
        return np.asarray(
            np.maximum(np.exp(logs) * (1 - 2.0**-50), -np.expm1(np.minimum(epsilons, 0.0)) * (1 - 2.0**-40))
        )

    def epsilon_upper(self, delta: float) -> float:
        """An epsilon of at least 0 whose upper bound of delta is at most ``delta``; ``inf`` where there is
        none.
        """
        return self._upper_root(delta)[0]

    def sharp_at(self, delta: float) -> bool:
        """Whether the bounds of rounding at epsilon's upper end are close."""
        epsilon, tilt = self._upper_root(delta)
        if not 0 < epsilon < math.inf:
            return True
        bounds = self._bounds(epsilon, True, tilt)
        return bounds.high - bounds.low <= 1e-3

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
        while good > 0 and self._bounds(good, False, tilt).low <= goal:
            good, fail, move = good - move, good, 4 * move
        for _ in range(12):
            middle = (max(good, 0.0) + fail) / 2
            if good > 0 and self._bounds(middle, False, tilt).low > goal:
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
        best = (math.inf, 0.0)
        if self._infinite(True) < math.exp(goal):
            guess = self.plan.epsilon
            tilt = self._sharp_tilt(guess, True)
            for _ in range(3):
                guess = self._root(goal, tilt, guess)
                best = min(best, (guess, tilt))
                sharp = self._is_sharp(guess, self._bounds(guess, True, tilt))
                better = tilt if sharp else self._sharp_tilt(guess, True)
                if better == tilt:
                    break
                tilt = better
        self._roots[delta] = best
        return best

    def _root(self, goal: float, tilt: float, guess: float) -> float:
        """Where log delta crosses ``goal``: Newton's steps inside a shrinking bracket, then a move to the safe side."""
        top = self._highest(True)
        top += 2.0**-44 * max(1.0, abs(top))

        def excess(epsilon: float) -> tuple[float, float]:
            bounds = self._bounds(epsilon, True, tilt)
            return max(bounds.high, goal - 1e3) - goal, bounds.slope

        low, high, x = 0.0, top, min(max(guess, 0.0), top)
        for turn in range(100):
            value, slope = excess(x)
            low, high = (x, high) if value > 0 else (low, x)
            proposal = x + value / slope if 0 < slope < math.inf else low
            # Next to the largest loss the steps are small far from the root.
            if (abs(proposal - x) <= 1e-12 * high and abs(value) <= 1e-6) or high - low <= 1e-12 * high:
                break
            if not low < proposal < high or turn % 8 == 7:
                if low == 0 and excess(0.0)[0] <= 0:
                    return 0.0
                proposal = (low + high) / 2
            x = proposal
        move = 1e-11 * max(x, 1e-6 * self.step)
        while x < top and excess(x)[0] > 0:
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
        slack = np.full(len(losses), np.inf)
        for s in sums:
            where = slice(s.first - first, s.first - first + len(s.mass))
            factor = np.exp(np.minimum(s.log_scale - s.tilt * losses[where], 700.0))
            error = s.norm_error + s.part_norm
            if upper:
                bound = (np.maximum(s.mass, 0.0) + error) * factor * (1 + 2 * s.relative_error + 2.0**-40)
                width = 2 * error * factor + bound * (4 * s.relative_error + 2.0**-38)
                slack[where] = np.where(bound < mass[where], width, slack[where])
                mass[where] = np.minimum(mass[where], bound)
            else:
                bound = (s.mass - error - s.outside) * factor * (1 - 2 * s.relative_error - 2.0**-40)
                mass[where] = np.maximum(mass[where], bound)
        infinite, q_slack = self._infinite(upper), 0.0
        if upper:
            mass[0] += 2 * TAIL
            slack[0] += 2 * TAIL
            q_slack = float(np.sum(slack * np.exp(-np.maximum(losses + self._origin(upper), -700.0))))
            # Beyond the end of a shorter sum lies all that lies beyond the end of the longest.
            infinite += math.exp(min(0.0, *(s.log_upper_tail for s in sums)))
        return LossPmf(np.asarray(losses + self._origin(upper)), mass, infinite, q_slack)


def compose(
    pairs: Sequence[tuple[LossPair, int]],
    *,
    delta: float | None = None,
    epsilon: float | None = None,
    most_points: int = LARGEST_LENGTH,
    largest_tilt: float = math.inf,
    tolerance: float = TOLERANCE,
    rough: ComposedLoss | None = None,
    whole: bool = False,
) -> ComposedLoss:
    """Compose independent pairs, each a number of times, on a grid chosen for one target.

    Parameters
    ----------
    pairs
        The pairs with their counts, all in the direction (P, Q) asked about.
    delta, epsilon
        The target, exactly one of them. Answers far from it stay bounds, but are less sharp.
    most_points
        UniformGrid points over the bulk of the composed loss: fewer are quicker and less sharp, still bounds.
    tolerance
        How much the grid may add to epsilon, relatively, unless that takes too many points.
    rough
        An answer to the same question with a larger tolerance, to start from.
    whole
        Whether the distribution will be asked for below the answer too, by :meth:`ComposedLoss.pmf`.
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
        target = GridTarget.of_delta(outline, math.log(delta) if delta > 0 else -735.0)
    else:
        assert epsilon is not None
        target = GridTarget.of_epsilon(outline, epsilon)
    # Coarse answers tell where the true one lies: far below Chernoff's bound where one large loss decides.
    if rough is not None:
        target = rough.target
    digits = 0.0
    for goal in (ROUGH, ROUGH, tolerance, tolerance) if rough is None else (tolerance, tolerance):
        grids = plan(kept, outline, target, most_points, largest_tilt, goal, whole=whole, digits=digits)
        composed = ComposedLoss(grids, outline, target)
        last = target
        with suppress(MethodUnavailable, ArithmeticError):
            if delta is not None:
                target = target.at(outline, composed.epsilon_upper(math.exp(max(target.log_delta, -735.0))))
            else:
                target = target.with_delta(composed.log_delta_upper(target.epsilon))
        if goal == tolerance and not digits and composed.blurred(target.epsilon):
            digits = 4.0
        elif goal == tolerance and target.near(last):
            break
    object.__setattr__(composed, "target", target)  # keeps what was computed for it
    return composed


# ---- several releases on one Poisson sample

BASE_TOLERANCE = 1e-7
"""How much the grid of the base may add to its epsilon."""


def with_cells(pair: LossPair, count: int, log_delta: float) -> LossPair:
    """The pair with composed bases in place of products, sharp for this many releases at such a delta."""
    if isinstance(pair, MaxPair):
        return MaxPair([with_cells(option, count, log_delta) for option in pair.pairs])
    if not isinstance(pair, SubsampledPair) or not isinstance(pair.base, ProductPair):
        return pair
    decade = round((log_delta - math.log(count) - math.log(pair.rate) - 14) / math.log(10))
    base = _composed(pair.base, max(min(decade, -6), -290), pair.direction == "add")
    return SubsampledPair(base, pair.rate, pair.direction)


@lru_cache(maxsize=16)
def _composed(product: ProductPair, decade: int, add: bool) -> BoundedLossPair:
    delta = 10.0**decade
    parts = tuple((with_cells(pair, n, math.log(delta)), n) for pair, n in product.parts)
    composed = compose(parts, delta=delta, tolerance=BASE_TOLERANCE, whole=True)
    below = composed
    if add:
        backward = tuple((with_cells(pair.reversed(), n, math.log(delta)), n) for pair, n in product.parts)
        below = compose(backward, delta=delta, tolerance=BASE_TOLERANCE, whole=True)
    lower = below.pmf(upper=False)
    keep = lower.probabilities > 0
    loss, log_p = lower.losses[keep], np.log(lower.probabilities[keep])
    if add:  # the distribution of log dQ/dP under Q, turned round; what Q has and P has not is at infinite loss there
        lowest = BoundedLossPair(-loss[::-1], (log_p - loss)[::-1], 0.0, lower.infinite_mass)
    else:  # moved to smaller losses, the masses of Q may exceed 1: the sampled pair has Q in both places
        q_mass = math.fsum(np.exp(log_p - loss).tolist()) * (1 + 2.0**-40)
        lowest = BoundedLossPair(loss, log_p - math.log(max(q_mass, 1.0)), lower.infinite_mass, 0.0)
    return _from_above(composed.pmf(upper=True), lowest)


def _from_above(pmf: LossPmf, lower: LossPair) -> BoundedLossPair:
    keep = pmf.probabilities > 0
    loss, p = pmf.losses[keep], pmf.probabilities[keep]
    q_mass = math.fsum((p * np.exp(-np.maximum(loss, -700.0))).tolist())
    lost = max(0.0, 1.0 - q_mass) + pmf.q_slack
    return BoundedLossPair(loss, np.log(p), pmf.infinite_mass, lost, lower)
