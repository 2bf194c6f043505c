r"""Optimal adaptive composition of bounded-range steps, with both ends certified.

The best :math:`\delta` at :math:`\gamma` that any adaptive choice of bounded-range mechanisms of sizes
:math:`\varepsilon_1, \dots, \varepsilon_k` (executed in this order) can reach is
:math:`V = B_{\varepsilon_1} B_{\varepsilon_2} \cdots B_{\varepsilon_k} V_0`, where
:math:`V_0(\gamma) = \max(0, 1 - e^\gamma)` and

.. math:: (B_\varepsilon V)(\gamma) = \sup_{0 \le t \le \varepsilon}
          q_t V(\gamma - t) + (1 - q_t) V(\gamma - t + \varepsilon), \qquad
          q_t = \frac{1 - e^{t - \varepsilon}}{1 - e^{-\varepsilon}}.

(Dong, Durfee and Rogers, arXiv:1909.13830, for the mathematics.) The last executed step is applied to
:math:`V_0` first. If the order is unknown, the lattice :math:`W_m = \max_i B_{\varepsilon_i} W_{m - e_i}` over the
multiset of sizes dominates every order, adaptive ones included. Proofs, and why floating point cannot make
the upper end too small or the lower end too large: ``docs/theory/optimal-composition.md``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral

import numpy as np
from numpy.typing import NDArray

from ledgerwood.accounting.range_profile import RangeProfile
from ledgerwood.errors import LedgerwoodError, ParameterError

__all__ = ["RangeProfile", "TooLarge", "bounded_range_profile", "estimated_work"]

Array = NDArray[np.float64]

_ULP = 2.0**-52
_AUTOMATIC_WORK = 4e8  # cell evaluations that the automatic grid may take
_WORK_LIMIT = 8e9  # beyond this the caller is told to use another method
_MEMORY_LIMIT = 4e7  # numbers held by the lattice of an unknown order
_MERGING_CELLS = 16  # sizes are merged until a grid this fine is affordable
_FEWEST_CELLS, _MOST_CELLS = 4, 1024
_HEADROOM = 0.05  # the grid goes beyond gamma_max, so that its constant tail does not disturb gamma_max


class TooLarge(LedgerwoodError):
    """The recursion would take too long; a Rényi bound is the method to use instead."""


@dataclass(frozen=True)
class _Group:
    """``count`` steps, priced at ``above`` for the upper end and at ``below`` for the lower end."""

    above: float
    below: float
    count: int


@dataclass(frozen=True)
class _Plan:
    """What will be computed: groups (in executed order if ordered), nodes 0, h, ..., last h, and its work."""

    groups: tuple[_Group, ...]
    h: float
    last: int
    work: float
    memory: float


def bounded_range_profile(
    steps: Sequence[tuple[float, int]], *, ordered: bool, gamma_max: float, cells: int | None = None
) -> RangeProfile:
    """Price bounded-range steps by the optimal adaptive recursion.

    Parameters
    ----------
    steps
        Pairs (epsilon, count), in executed order if ``ordered``.
    ordered
        Whether the schedule is fixed in advance. If not, the multiset is priced for its worst order, orders chosen
        adaptively included; sizes that are nearly equal are merged (upwards for the upper end, downwards for the
        lower end) when the lattice of orders would be too large.
    gamma_max
        Beyond it the profile is only bounded by its value there.
    cells
        Grid cells per epsilon of the size that weighs most, rounded up to a power of two (so that the
        step of the grid is exact); by default as many as take a fraction of a second.

    Raises
    ------
    TooLarge
        If no grid of at least four cells fits the work limit.

    Examples
    --------
    >>> profile = bounded_range_profile([(0.5, 1), (1.0, 1)], ordered=True, gamma_max=1.5)
    >>> print(f"{profile.upper(0.0):.5f}")
    0.25982
    >>> profile = bounded_range_profile([(1.0, 1), (0.5, 1)], ordered=True, gamma_max=1.5)
    >>> print(f"{profile.upper(0.0):.5f}")
    0.24492
    """
    plan = _plan(steps, ordered, gamma_max, cells)
    if plan.work > _WORK_LIMIT or plan.memory > _MEMORY_LIMIT:
        raise TooLarge(
            f"the optimal recursion would take {plan.work:.2g} cell evaluations, more than {_WORK_LIMIT:.2g}: "
            f"use method='rdp', a smaller gamma_max, or fewer cells"
        )
    machine = _Machine(plan)
    state = machine.schedule() if ordered else machine.lattice()
    reach = _sum_up(plan.groups, [group.count for group in plan.groups])
    return RangeProfile.from_state(h=plan.h, reach=reach, state=state)


def estimated_work(
    steps: Sequence[tuple[float, int]], *, ordered: bool, gamma_max: float, cells: int | None = None
) -> float:
    """Number of cell evaluations that :func:`bounded_range_profile` would make (about 1e9 per second and core).

    >>> estimated_work([(0.1, 20)], ordered=True, gamma_max=2.0, cells=32)
    409600.0
    """
    return _plan(steps, ordered, gamma_max, cells).work


def _plan(steps: Sequence[tuple[float, int]], ordered: bool, gamma_max: float, cells: int | None) -> _Plan:
    """Check the input; choose the merging of sizes and the grid."""
    for epsilon, count in steps:
        if not 0.0 <= epsilon < math.inf:
            raise ParameterError("epsilon", "be non-negative and finite", epsilon)
        if isinstance(count, bool) or not isinstance(count, Integral) or count < 0:
            raise ParameterError("count", "be a non-negative integer", count)
    if not 0.0 < gamma_max < math.inf:
        raise ParameterError("gamma_max", "be positive and finite", gamma_max)
    if cells is not None and cells < 1:
        raise ParameterError("cells", "be a positive integer", cells)
    groups = [_Group(float(e), float(e), int(n)) for e, n in steps if e > 0 and n > 0]
    if not groups:
        return _Plan((), float(gamma_max), 1, 0.0, 0.0)
    if not ordered:
        groups = _same_sizes(groups)
        trial = _MERGING_CELLS if cells is None else cells
        limit = 4 * _AUTOMATIC_WORK if cells is None else _WORK_LIMIT
        while len(groups) > 1:
            plan = _layout(groups, ordered, gamma_max, trial)
            if plan.work <= limit and plan.memory <= _MEMORY_LIMIT:
                break
            groups = _merge_nearest(groups)
    if cells is not None:
        return _layout(groups, ordered, gamma_max, 1 << (cells - 1).bit_length())
    cells = _MOST_CELLS
    while cells > _FEWEST_CELLS:
        plan = _layout(groups, ordered, gamma_max, cells)
        if plan.work <= _AUTOMATIC_WORK and plan.memory <= _MEMORY_LIMIT:
            return plan
        cells //= 2
    return _layout(groups, ordered, gamma_max, cells)


def _layout(groups: list[_Group], ordered: bool, gamma_max: float, cells: int) -> _Plan:
    """Lay the grid: ``cells`` (a power of two, so that h is exact) per step of the weightiest size."""
    heaviest = max(groups, key=lambda group: group.count * group.above**2)
    h = heaviest.above / cells
    reach = sum(group.count * group.above for group in groups)
    last = math.ceil(min(gamma_max * (1 + _HEADROOM), reach) / h) + 1
    states = [1 if ordered else math.prod(g.count + 1 for g in groups if g is not group) for group in groups]
    evaluations = sum(
        group.count * multiple * (group.above // h + 1) for group, multiple in zip(groups, states, strict=True)
    )
    held = 2 if ordered else 2 * min(states)
    return _Plan(tuple(groups), h, last, float(evaluations * last), 4.0 * held * last)


def _same_sizes(groups: list[_Group]) -> list[_Group]:
    counts: dict[float, int] = {}
    for group in groups:
        counts[group.above] = counts.get(group.above, 0) + group.count
    return [_Group(size, size, counts[size]) for size in sorted(counts)]


def _merge_nearest(groups: list[_Group]) -> list[_Group]:
    """Merge the neighbours in size whose merging adds least to the sum of squares; B grows with epsilon."""
    extra = [low.count * (high.above**2 - low.above**2) for low, high in itertools.pairwise(groups)]
    i = extra.index(min(extra))
    low, high = groups[i], groups[i + 1]
    return [*groups[:i], _Group(high.above, low.below, low.count + high.count), *groups[i + 2 :]]


def _sum_up(groups: Sequence[_Group], counts: Sequence[int]) -> float:
    """Sum of the upper sizes, rounded up: the profile is 0 from here on."""
    return math.fsum(g.above * n for g, n in zip(groups, counts, strict=True)) * (1 + 4 * _ULP)


class _Step:
    """Constants of one step of size ``epsilon`` on a grid of step ``h``, for both kernels.

    With epsilon = cells h + r, 0 <= r < h, the strategies t = 0, h, ..., cells h have weights q and p = 1 - q;
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
        self.q = -np.expm1(-left_over) / scale
        self.p = np.exp(-left_over) * -np.expm1(-t) / scale
        self.bend = np.maximum(np.exp(-left_over) * (math.expm1(h) ** 2 / scale), 1e-290)
        self.inverse_bend = 0.25 / self.bend
        bend_r = max(math.exp(-r) * math.expm1(r) ** 2 / scale, 1e-290) if r > 0 else 0.0
        self.shape = np.array(
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
            ]
        )
        self.shift = cells if r <= rest else cells + 1
        self.scale = math.exp(r) if r <= rest else math.exp(-rest)
        self.slack = 1.0 + (32 + 4 * epsilon) * _ULP


class _Machine:
    """Applies steps to states; a state is a row each of upper values, lower values, intercepts and slopes."""

    def __init__(self, plan: _Plan) -> None:
        from ledgerwood.accounting._kernels import recursion

        self._kernels = recursion
        self._plan = plan
        self._above = [_Step(group.above, plan.h) for group in plan.groups]
        self._below = [
            step if group.below == group.above else _Step(group.below, plan.h)
            for step, group in zip(self._above, plan.groups, strict=True)
        ]
        self._pad = max([step.cells for step in self._above], default=0) + 2
        nodes = plan.h * np.arange(self._pad + 1)
        self._one_minus, self._exponential = -np.expm1(-nodes), np.exp(-nodes)
        width = plan.last + 1 + 2 * self._pad
        self._work, self._scratch = np.zeros((4, width)), np.zeros((4, width))
        self._chosen = np.zeros(width, dtype=np.int64)

    def _zero(self) -> Array:
        """V_0 at gamma >= 0."""
        return np.zeros((4, self._plan.last + 1))

    def _index(self, counts: Sequence[int]) -> int:
        """First node at or beyond the sum of the sizes, where V is 0."""
        return math.ceil(_sum_up(self._plan.groups, counts) / self._plan.h)

    def _apply(self, source: Array, source_counts: Sequence[int], which: int, goal: Array) -> None:
        """Merge step ``which`` on top of ``source`` into ``goal``."""
        kernels, pad = self._kernels, self._pad
        counts = list(source_counts)
        kernels.load(source, self._index(counts), self._one_minus, self._exponential, pad, self._work)
        counts[which] += 1
        limit = min(self._index(counts), self._plan.last)
        up, down = self._above[which], self._below[which]
        kernels.raise_upper(
            self._work, pad, limit, up.q, up.p, up.bend, up.inverse_bend, up.shape, up.slack, self._scratch, goal[0]
        )
        kernels.raise_lower(
            self._work,
            pad,
            limit,
            down.q,
            down.p,
            down.shift,
            down.scale,
            down.slack,
            self._scratch,
            self._chosen,
            goal,
        )

    def schedule(self) -> Array:
        """B_1 B_2 ... B_k V_0: the last executed step is applied first."""
        state, goal = self._zero(), self._zero()
        counts = [0] * len(self._plan.groups)
        for which in reversed(range(len(counts))):
            for _ in range(self._plan.groups[which].count):
                goal[:] = 0.0
                self._apply(state, counts, which, goal)
                counts[which] += 1
                state, goal = goal, state
        return state

    def lattice(self) -> Array:
        """W_m = max_i B_i W_(m - e_i) for m up to the counts; two planes of the largest count are held."""
        counts = [group.count for group in self._plan.groups]
        outer = counts.index(max(counts, default=0)) if counts else 0
        inner = [range(n + 1) for i, n in enumerate(counts) if i != outer]
        previous: dict[tuple[int, ...], Array] = {}
        for a in range(counts[outer] + 1 if counts else 1):
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
        return previous[tuple(counts)] if counts else self._zero()
