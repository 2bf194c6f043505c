r"""Optimal adaptive composition of bounded-range steps, with both ends certified.

The best :math:`\delta` at :math:`\gamma` that any adaptive choice of bounded-range mechanisms of sizes
:math:`\varepsilon_1, \dots, \varepsilon_k` (executed in this order) can reach is
:math:`V = B_{\varepsilon_1} B_{\varepsilon_2} \cdots B_{\varepsilon_k} V_0`, where
:math:`V_0(\gamma) = \max(0, 1 - e^\gamma)` and

.. math:: (B_\varepsilon V)(\gamma) = \sup_{0 \le t \le \varepsilon}
          q_t V(\gamma - t) + (1 - q_t) V(\gamma - t + \varepsilon), \qquad
          q_t = \frac{1 - e^{t - \varepsilon}}{1 - e^{-\varepsilon}}.

(Dong, Durfee and Rogers, arXiv:1909.13830, for the mathematics.) The last executed step is applied to
:math:`V_0` first. If the order is unknown, :math:`W_m = \max_i B_{\varepsilon_i} W_{m - e_i}` on the lattice
of the multiset of sizes dominates every order, adaptive ones included; where that lattice is too large, every size is
replaced by a random one of two near it and the sizes left are counted by one number, a clock. Proofs, and why
floating point cannot make the upper end too small or the lower end too large:
``docs/theory/optimal-composition.md``.
"""

from __future__ import annotations

import bisect
import itertools
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.accounting.accountant.bounded_range.profile import RangeProfile
from ledgerwood.errors import LedgerwoodError, ParameterError

__all__ = ["RangeProfile", "TooLarge", "bounded_range_profile", "estimated_work", "load_kernels", "prepare"]

Array = NDArray[np.float64]

_ULP = 2.0**-52
# Cell evaluations (about 1e9 per second) that the automatic grid may take, by the cells it buys with them.
_AFFORDABLE = {1024: 1e8, 512: 1e8, 256: 1e8, 128: 1e8, 64: 6e8, 32: 6e8, 16: 2e9, 8: 2e9, 4: 8e9}
_LATTICE = 9e8  # cell evaluations of the lattice of an unknown order; beyond it a clock takes its place
_WORK_LIMIT = 8e9  # beyond this the error says to use another method
_MEMORY_LIMIT = 4e7  # numbers held by the lattice of an unknown order
_COPIES, _CALL = 4, 1e4  # besides its cells, a step costs this many cells more, and this many evaluations
_TICKS = (256, 512, 1024, 2048, 4096)  # how long a clock may run
_OVERCHARGE = 0.01  # the first clock is taken that overcharges the sum of squares by no more than this
_LEAST = 1e-300  # added to probabilities of the ticks, which could underflow
_HEADROOM = 0.12  # the grid goes beyond gamma_max, so that its constant tail does not disturb gamma_max


#: Cell evaluations by numpy (2e8 per second) in one process before compiled kernels, which take half a second to load
#: and seconds to compile, are worth it.
_BY_NUMPY = 1.6e8


class TooLarge(LedgerwoodError):
    """The recursion would take too long; a Rényi bound is the method to use instead."""


@dataclass(frozen=True)
class _Plan:
    """What will be computed, on the nodes 0, h, ..., last h, and what it takes.

    ``groups`` are (size, count) pairs, in executed order for a schedule, ascending for a lattice or a clock.
    """

    groups: tuple[tuple[float, int], ...]
    h: float
    last: int
    work: float
    memory: float
    clock: _Clock | None = None


@dataclass(frozen=True)
class _Clock:
    """Sizes for which a step takes ``weights`` ticks, and the probability of every number of ticks in all.

    Every step of a true size stands for a step of one of two of these sizes, drawn at random.
    """

    sizes: tuple[float, ...]
    weights: tuple[int, ...]
    ticks: Array


def bounded_range_profile(
    steps: Sequence[tuple[float, int]],
    *,
    ordered: bool,
    gamma_max: float,
    cells: int | None = None,
    lower: bool = True,
    upper: RangeProfile | None = None,
) -> RangeProfile:
    """Price bounded-range steps by the optimal adaptive recursion.

    Parameters
    ----------
    steps
        Pairs (epsilon, count), in executed order if ``ordered``.
    ordered
        Whether the schedule is fixed in advance. If not, the multiset is priced for its worst order, orders
        chosen adaptively included: exactly where the lattice of orders is small, by a clock otherwise, a bound. The
        lower end is then that of the ascending order, which is rarely not the worst.
    gamma_max
        Beyond it the profile is only bounded by its value there.
    cells
        Grid cells per epsilon of the size that weighs most, rounded up to a power of two (so that the
        step of the grid is exact); by default as many as take a fraction of a second.

    lower
        Whether to compute the lower end too; without it the lower end is 0, at half the price.
    upper
        The profile of the same question without its lower end, if it is known: only that end is then computed.

    Raises
    ------
    TooLarge
        If no grid of at least four cells fits the work limit.

    Examples
    --------
    >>> profile = bounded_range_profile([(0.5, 1), (1.0, 1)], ordered=True, gamma_max=1.5)
    >>> print(f"{profile.upper(0.0):.5f}")
    0.25981
    >>> profile = bounded_range_profile([(1.0, 1), (0.5, 1)], ordered=True, gamma_max=1.5)
    >>> print(f"{profile.upper(0.0):.5f}")
    0.24492
    """
    plan = _plan(steps, ordered, gamma_max, cells)
    if plan.work > _WORK_LIMIT or plan.memory > _MEMORY_LIMIT:
        raise TooLarge(
            f"the optimal recursion would take {plan.work:.2g} cell evaluations, over {_WORK_LIMIT:.2g}: "
            f"use method='rdp', a smaller gamma_max, or fewer cells"
        )
    if upper is not None:
        return upper.with_lower(_Machine(plan, plan.groups, lower=True).schedule())
    if ordered:
        state = _Machine(plan, plan.groups, upper=True, lower=lower).schedule()
    else:
        if plan.clock is None:
            state = _Machine(plan, plan.groups, upper=True).lattice()
        else:
            state = _Machine(plan, tuple((size, 0) for size in plan.clock.sizes), upper=True).clock(plan.clock)
        if lower:
            state[1:] = _Machine(plan, plan.groups, lower=True).schedule()[1:]
    reach = _sum_up(plan.groups, [count for _, count in plan.groups])
    return RangeProfile.from_state(h=plan.h, reach=reach, state=state)


def estimated_work(
    steps: Sequence[tuple[float, int]], *, ordered: bool, gamma_max: float, cells: int | None = None
) -> float:
    """Number of cell evaluations that :func:`bounded_range_profile` would make, about 1e9 per second.

    >>> estimated_work([(0.1, 20)], ordered=True, gamma_max=2.0, cells=32)
    674340.0
    """
    return _plan(steps, ordered, gamma_max, cells).work


def _plan(steps: Sequence[tuple[float, int]], ordered: bool, gamma_max: float, cells: int | None) -> _Plan:
    """Check the input; choose the merging of sizes and the grid."""
    for epsilon, count in steps:
        if not 0.0 <= epsilon < math.inf:
            raise ParameterError("epsilon", "be non-negative and finite", epsilon)
        if type(count) is bool or int(count) != count or count < 0:
            raise ParameterError("count", "be a non-negative integer", count)
    if not 0.0 < gamma_max < math.inf:
        raise ParameterError("gamma_max", "be positive and finite", gamma_max)
    if cells is not None and cells < 1:
        raise ParameterError("cells", "be a positive integer", cells)
    groups = [(float(e), int(n)) for e, n in steps if e > 0 and n > 0]
    if not groups:
        return _Plan((), float(gamma_max), 1, 0.0, 0.0)
    if not ordered:
        groups = _same_sizes(groups)
    if cells is not None:
        return _layout(groups, ordered, gamma_max, 1 << (cells - 1).bit_length())
    for number, limit in _AFFORDABLE.items():
        plan = _layout(groups, ordered, gamma_max, number)
        if plan.work <= limit and plan.memory <= _MEMORY_LIMIT:
            break
    return plan


def _layout(groups: list[tuple[float, int]], ordered: bool, gamma_max: float, cells: int) -> _Plan:
    """Lay the grid: ``cells`` (a power of two, so that h is exact) per step of the weightiest size.

    In a schedule a group is applied as often as it counts; in a lattice once per state, in a clock once per tick.
    """
    heaviest = max(groups, key=lambda group: group[1] * group[0] * group[0])[0]
    h = heaviest / cells
    reach = sum(size * count for size, count in groups)
    last = math.ceil(min(gamma_max * (1 + _HEADROOM), reach) / h) + 1

    def work(size: float) -> float:
        return (size // h + 1 + _COPIES) * last + _CALL

    once = sum(count * work(size) for size, count in groups)
    if ordered:
        return _Plan(tuple(groups), h, last, once, 8.0 * last)
    states = math.prod(count + 1 for _, count in groups)
    whole = sum(count * (states // (count + 1)) * work(size) for size, count in groups)
    held = 2.0 * states / (max(count for _, count in groups) + 1)
    if len(groups) > 1 and (whole > _LATTICE or 4.0 * held * last > _MEMORY_LIMIT):
        clock = _clock(tuple(groups), h)
        whole = once + len(clock.ticks) * sum(map(work, clock.sizes))
        return _Plan(tuple(groups), h, last, whole, 4.0 * max(clock.weights) * last, clock)
    return _Plan(tuple(groups), h, last, whole, 4.0 * held * last)


@lru_cache(maxsize=16)
def _clock(groups: tuple[tuple[float, int], ...], h: float) -> _Clock:
    """The shortest clock that overcharges little.

    Weights are in proportion to what a step on the grid does (:func:`_square_on_grid`): otherwise whoever chooses the
    order would choose small steps, which the chords of a coarse grid favor.
    """
    squares = math.fsum(count * _square_on_grid(size, h) for size, count in groups)
    for most in _TICKS:
        unit = squares / most
        ladder = [0, *_ladder(_square_on_grid(0.0, h) / unit, _square_on_grid(max(groups)[0], h) / unit)]
        sizes = [0.0, *(_size_on_grid(weight * unit, h) for weight in ladder[1:])]
        between = [(min(max(bisect.bisect_left(sizes, size), 1), len(sizes) - 1), size, n) for size, n in groups]
        mean = math.fsum(n * _mean_weight(ladder[i - 1 : i + 1], sizes[i - 1 : i + 1], size) for i, size, n in between)
        over = mean / most - 1
        if over <= _OVERCHARGE or most == _TICKS[-1]:
            break
    if over > 25 * _OVERCHARGE or sum(n * ladder[i] for i, _, n in between) > 4 * most:
        raise TooLarge("the sizes of the selections lie too far apart for one recursion over all of them")
    ticks = np.ones(1)
    slack = 1.0
    used = set()
    for i, size, n in between:
        low, high = sizes[i - 1], sizes[i]
        share = _share_of_the_larger(low, high, size)
        many = _binomial(n, share)
        spread = np.zeros(n * (ladder[i] - ladder[i - 1]) + 1)
        spread[:: ladder[i] - ladder[i - 1]] = many
        ticks = np.convolve(np.concatenate((np.zeros(n * ladder[i - 1]), spread)), ticks)
        slack *= 1 + _ULP * 64 * (n + len(ticks))
        used |= {i - 1, i}
    kept = sorted(used - {0})
    return _Clock(tuple(sizes[i] for i in kept), tuple(ladder[i] for i in kept), ticks * slack + _LEAST)


def _square_on_grid(size: float, h: float) -> float:
    """The square of a size with what chords add: h²/2 for the cells of t, 2 r (h - r) for a size of m h + r."""
    r = size - size // h * h
    return size * size + h * h / 2 + 2 * r * (h - r)


def _size_on_grid(square: float, h: float) -> float:
    """The size with this square on the grid; any size is valid, so rounding does not matter."""
    whole = math.floor(math.sqrt(square / (h * h) - 0.5)) * h
    middle = whole + h
    return whole + middle - math.sqrt(max(middle * middle - (square - whole * whole - h * h / 2), 0.0))


def _ladder(low: float, high: float) -> Iterator[int]:
    """Weights above ``low`` to the first that is more than ``high``: all to 16, then eight in every octave."""
    weight = 1
    while weight <= high:
        if weight > low:
            yield weight
        weight += 1 << max(0, weight.bit_length() - 4)
    yield weight


def _share_of_the_larger(low: float, high: float, size: float) -> float:
    """How often the larger of two sizes stands for one between them, rounded up."""
    return min(math.expm1(low - size) / math.expm1(low - high) * (1 + 32 * _ULP), 1.0)


def _mean_weight(weights: Sequence[int], sizes: Sequence[float], size: float) -> float:
    share = _share_of_the_larger(sizes[0], sizes[1], size)
    return weights[0] + share * (weights[1] - weights[0])


def _binomial(n: int, share: float) -> Array:
    """The probabilities of 0, ..., n, by repeated squaring: sums of positive products, which lose no accuracy."""
    found, power = np.ones(1), np.array([1.0 - share, share])
    while n:
        if n & 1:
            found = np.convolve(found, power)
        n >>= 1
        if n:
            power = np.convolve(power, power)
    return found


def _same_sizes(groups: list[tuple[float, int]]) -> list[tuple[float, int]]:
    """Ascending sizes, each with its total count."""
    counts: dict[float, int] = {}
    for size, count in groups:
        counts[size] = counts.get(size, 0) + count
    return sorted(counts.items())


def _sum_up(groups: Sequence[tuple[float, int]], counts: Sequence[int]) -> float:
    """Sum of the sizes, each ``counts`` times, rounded up: the profile is 0 from here on."""
    return math.fsum(size * n for (size, _), n in zip(groups, counts, strict=True)) * (1 + 4 * _ULP)


class _Step:
    """Constants of one step of size ``epsilon`` on a grid of step ``h``, for both kernels.

    With epsilon = cells h + r, 0 <= r < h, the strategies t = 0, h, ..., cells h have weights q, p = 1 - q;
    ``bend`` is the coefficient of w (1 - w) in a cell (see the theory page). Every constant is right to
    (16 + epsilon) ulp, which ``slack`` covers together with the arithmetic of the kernels.
    """

    def __init__(self, epsilon: float, h: float) -> None:
        exact, step = Fraction(epsilon), Fraction(h)
        cells = int(exact // step)
        r = float(exact - cells * step)
        rest = float(step - (exact - cells * step))
        t = h * np.arange(cells + 1)
        left_over = r + h * np.arange(cells, -1, -1)
        scale = -math.expm1(-epsilon)
        self.cells = cells
        q = -np.expm1(-left_over) / scale
        p = np.exp(-left_over) * -np.expm1(-t) / scale
        bend = np.maximum(np.exp(-left_over) * (math.expm1(h) ** 2 / scale), 1e-290)
        inverse_bend = 0.25 / bend
        bend_r = max(math.exp(-r) * math.expm1(r) ** 2 / scale, 1e-290) if r > 0 else 0.0
        shape = np.array(
            [
                cells,
                math.exp(r) * math.expm1(rest) / math.expm1(h) if r > 0 else 1.0,
                math.expm1(r) / math.expm1(h),
                1 / math.expm1(h),
                math.exp(-r) * math.expm1(-rest) / math.expm1(-h),
                math.expm1(-r) / math.expm1(-h),
                1 / math.expm1(r) if r > 0 else 0.0,
                bend_r,
                0.25 / bend_r if r > 0 else 0.0,
                max(1e-306 / float(np.max(bend)), 1e-306),
            ]
        )
        shift = cells if r <= rest else cells + 1
        stretch = math.exp(r) if r <= rest else math.exp(-rest)
        slack = 1.0 + (32 + 4 * epsilon) * _ULP
        self.upper = q, p, bend, inverse_bend, shape, slack
        self.lower = q, p, shift, stretch, slack


_done_by_numpy = 0.0


def load_kernels() -> Any:
    """Return the compiled kernels; from now on all is computed by them."""
    from ledgerwood.accounting.accountant.bounded_range import _kernels

    return _kernels


def _compiler_is_loaded() -> bool:
    """Whether numba is: its import takes most of the time that numpy's kernels save."""
    return "numba" in sys.modules


def prepare(work: float) -> None:
    """Load the compiled kernels now if a price of so much work will need them: coarser ones before it profit too."""
    if work > _BY_NUMPY / 3:
        load_kernels()


def _kernels(work: float) -> Any:
    """Return the compiled kernels, or numpy's as long as these are done sooner: the numbers are the same bits."""
    global _done_by_numpy
    if not _compiler_is_loaded():
        _done_by_numpy += work
        if work <= _BY_NUMPY / 3 and _done_by_numpy <= _BY_NUMPY:  # a calibration asks for two or three such prices
            from ledgerwood.accounting.accountant.bounded_range import vectorized

            return vectorized
    return load_kernels()


class _Machine:
    """Applies steps to states; a state is a row each of upper values, lower values, intercepts and slopes."""

    def __init__(
        self, plan: _Plan, groups: tuple[tuple[float, int], ...], *, upper: bool = False, lower: bool = False
    ) -> None:
        self._kernels = _kernels(plan.work)
        self._plan, self._groups = plan, groups
        self._upper, self._lower = upper, lower
        self._steps = [_Step(size, plan.h) for size, _ in groups]
        self._pad = max([step.cells for step in self._steps], default=0) + 2
        nodes = plan.h * np.arange(self._pad + 1)
        self._one_minus, self._exponential = -np.expm1(-nodes), np.exp(-nodes * (1 - 4 * _ULP))
        width = plan.last + 1 + 2 * self._pad
        self._work, self._scratch = np.zeros((4, width)), np.zeros((4, width))
        self._chosen = np.zeros(width, dtype=np.int64)

    def _zero(self) -> Array:
        """V_0 at gamma >= 0."""
        return np.zeros((4, self._plan.last + 1))

    def _index(self, counts: Sequence[int]) -> int:
        """First node at or beyond the sum of the sizes, where V is 0."""
        return math.ceil(_sum_up(self._groups, counts) / self._plan.h)

    def _apply(self, source: Array, source_counts: Sequence[int], which: int, goal: Array) -> None:
        """Merge step ``which`` on top of ``source`` into ``goal``."""
        counts = list(source_counts)
        reach = self._index(counts)
        counts[which] += 1
        limit = min(self._index(counts), self._plan.last)
        if self._upper:
            self._raise_upper(source[0], reach, limit, which, goal[0])
        if self._lower:
            self._raise_lower(source, limit, which, goal)

    def _raise_upper(self, source: Array, reach: int, limit: int, which: int, goal: Array) -> None:
        kernels, step, pad, padded = self._kernels, self._steps[which], self._pad, self._work[0]
        kernels.load_upper(source, reach, self._one_minus, self._exponential, pad, padded)
        kernels.raise_upper(padded, pad, limit, *step.upper, self._scratch, goal)

    def _raise_lower(self, source: Array, limit: int, which: int, goal: Array) -> None:
        kernels, step, pad, work = self._kernels, self._steps[which], self._pad, self._work
        kernels.load_lower(source, self._one_minus, self._exponential, pad, work)
        kernels.raise_lower(work, pad, limit, *step.lower, self._scratch, self._chosen, goal)

    def schedule(self) -> Array:
        """B_1 B_2 ... B_k V_0: the last executed step is applied first."""
        state, goal = self._zero(), self._zero()
        values, room = np.zeros(self._plan.last + 1), np.zeros(self._plan.last + 1)
        padding = self._one_minus, self._exponential, self._pad, self._work[0]
        counts = [0] * len(self._groups)
        for which in reversed(range(len(counts))):
            reaches = [self._index(counts)]
            for _ in range(self._groups[which][1]):
                counts[which] += 1
                reaches.append(self._index(counts))
            if self._upper:
                step = self._steps[which].upper
                self._kernels.repeat_upper(values, room, np.array(reaches), *padding, *step, self._scratch)
                if len(reaches) % 2 == 0:  # an odd number of steps ends in the other array
                    values, room = room, values
            for reach in reaches[1:] if self._lower else ():
                goal[:] = 0.0
                self._raise_lower(state, min(reach, self._plan.last), which, goal)
                state, goal = goal, state
        state[0] = values
        return state

    def lattice(self) -> Array:
        """W_m = max_i B_i W_(m - e_i) for m up to the counts; two planes of the largest count are held."""
        counts = [count for _, count in self._groups]
        if not counts:
            return self._zero()
        outer = counts.index(max(counts))
        inner = [range(n + 1) for i, n in enumerate(counts) if i != outer]
        previous: dict[tuple[int, ...], Array] = {}
        for a in range(counts[outer] + 1):
            plane: dict[tuple[int, ...], Array] = {}
            for rest in itertools.product(*inner):
                m = (*rest[:outer], a, *rest[outer:])
                goal = self._zero()
                for i in range(len(counts)):
                    if m[i] > 0:
                        source = (*m[:i], m[i] - 1, *m[i + 1 :])
                        state = previous[source] if i == outer else plane[source]
                        self._apply(state, source, i, goal)
                plane[m] = goal
            previous = plane
        return previous[tuple(counts)]

    def clock(self, clock: _Clock) -> Array:
        """The mean over the ticks of U_j = max_i B_i U_(j - w_i), which bounds every order of execution."""
        plan, most = self._plan, max(clock.weights)
        rows = np.zeros((most + 1, plan.last + 1))  # the last states, in a ring
        reaches = np.zeros(len(clock.ticks))
        total = np.zeros(plan.last + 1)
        for j, probability in enumerate(clock.ticks.tolist()):
            goal = rows[j % (most + 1)]
            goal[:] = 0.0
            for which, weight in enumerate(clock.weights):
                if weight > j:
                    break
                before = float(reaches[j - weight])
                reach = (before + clock.sizes[which]) * (1 + 4 * _ULP)
                reaches[j] = max(reaches[j], reach)
                self._raise_upper(
                    rows[(j - weight) % (most + 1)],
                    math.ceil(before / plan.h),
                    min(math.ceil(reach / plan.h), plan.last),
                    which,
                    goal,
                )
            total += probability * goal
        state = self._zero()
        state[0] = total * (1 + _ULP * (8 + len(clock.ticks)))
        return state
