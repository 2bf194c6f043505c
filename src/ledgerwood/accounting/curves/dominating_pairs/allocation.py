r"""Random allocation: the record is in one of t bins, at random; the likelihood ratio is a mean of t.

If :math:`(P_0, Q_0)` dominates one bin's release, with likelihood ratio :math:`Y = dP_0/dQ_0`, the whole is dominated
by the pair whose ratio is :math:`Z = (Y_1 + \dots + Y_t)/t` under :math:`Q_0^t`. One pair dominates another exactly if
its ratio is larger in convex order, and convex order survives sums. So Y is put on a geometric grid, each cell's mass
split to its two ends (from above) or gathered and moved down (from below), and the same is done after each addition.

All masses are sums of products of non-negative numbers: nothing cancels, and every error is relative. Proofs and the
bounds on rounding: ``docs/theory/random-allocation.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np

from ledgerwood.accounting.curves.dominating_pairs.base import Array, LossPair, log1mexp
from ledgerwood.accounting.curves.dominating_pairs.discrete import _log_sum_by
from ledgerwood.accounting.curves.numerics import least, log_factorial
from ledgerwood.errors import ParameterError

__all__ = ["AllocationPair", "renyi_of_allocation", "within_reach"]

POINTS, OUTLINE_POINTS = 32, 4
"""Grid points per standard deviation of the sum's logarithm, for answers and for the coarse outline of all tails."""
LONGEST = 64
"""Grid points of one distribution, per point of a standard deviation; a wider one gets a coarser grid."""
DEEPEST_TAIL = 1e-120
"""Mass that the outline leaves outside its grid."""
TAILS = (1e-14, 1e-21, 1e-28, 1e-42, 1e-56, 1e-80)
"""Masses that the finer distributions leave outside their grids: each is computed when a question needs it."""
MOST_ORDER = 128
"""Largest Rényi order at which the gain from sampling is computed."""
OTHER_TAIL = 1e-14
"""Mass left outside at the end where losses are negative."""
COMPOSED_TAIL = 1e-28
"""The same for the one distribution that is composed: answers at δ far below it are left to other methods."""
WIDEST = 300.0
"""Largest logarithm of a ratio on the grid: beyond it masses would underflow."""
TINY = 2.0**-1000
"""Covers everything lost to underflow in one addition."""


@dataclass(frozen=True)
class _RatioDistribution:
    """The distribution under Q of a sum of ``size`` ratios: Q-masses at ``exp(step * (first + i))`` and at 0.

    ``infinite`` is the mean (the P-mass, times ``size``) at infinity. Every mass is right up to the factor
    ``exp(error)``, and every place up to ``exp(shift)``.
    """

    step: float
    first: int
    mass: Array
    zero: float
    infinite: float
    size: int
    error: float
    shift: float

    def values(self) -> Array:
        """The places of the masses."""
        return np.asarray(np.exp(self.step * (self.first + np.arange(len(self.mass)))))


def _split(step: float, first: int, left: Array, right: Array) -> tuple[int, Array]:
    """From above: the mass of a cell at its two ends, ``left`` and ``right``."""
    mass = np.append(left, 0.0)
    mass[1:] += right
    return first, mass


def _gathered(step: float, first: int, left: Array, right: Array) -> tuple[int, Array]:
    r"""From below, in increasing convex order: mass and means are gathered at the left ends of cells.

    A cell of mass ``left + right`` has its mean where the two would balance. The part :math:`\alpha_i` of cell i goes
    to its left end and the rest to the left end of the next cell. The mean of what meets at an end is at or above it
    if :math:`\alpha_i s_i \ge (1 - \alpha_{i-1}) d_{i-1}`, with the surplus s of a cell over its left end and its
    deficit d to the next; then it is lowered to it. Equality keeps the mean. It is a recursion that is run from both
    ends, as far as its errors die out; a share that would leave [0, 1] stops there, at the expense of the mean.
    """
    cells = np.flatnonzero(left + right > 0)
    low, high, total = left[cells], right[cells], (left + right)[cells]
    place = np.exp(step * (cells - cells[-1]))
    surplus = high * place * (math.expm1(step) * (1 - 2.0**-40))
    deficit = low[:-1] * np.diff(place) + high[:-1] * np.maximum(place[1:] - place[:-1] * math.exp(step), 0.0)
    with np.errstate(divide="ignore", over="ignore"):
        quotient = np.where(deficit > 0, surplus[1:] / np.where(deficit > 0, deficit, 1.0), 0.0)
        growth = np.cumsum(np.clip(np.log(quotient), -50.0, 50.0))
    meet = int(np.argmax(np.append(0.0, growth)))
    below, above = [1.0], [1.0]
    for value in quotient[:meet].tolist():
        rest = 1.0 - below[-1]
        if rest > value:
            below[-1], rest = 1.0 - value, value
        below.append(rest / value if rest else 0.0)
    for value in quotient[meet:][::-1].tolist():
        above.append(max(0.0, 1.0 - above[-1] * value))
    kept = np.array([*below[:-1], max(below[-1], above[-1]), *above[-2::-1]])
    mass = np.zeros(len(left))
    mass[cells] += total * kept
    mass[cells[1:]] += (total * (1 - kept))[:-1]
    return first, mass


Tails = tuple[float, float]
"""Masses left outside a grid: under Q below it, under P above it."""


def _trimmed(ratio: _RatioDistribution, tails: Tails, upper: bool) -> _RatioDistribution:
    """Without the ends that weigh less than the tails.

    From above the upper end is split between the last point and infinity, the lower one between 0 and the first
    point; from below both are dropped.
    """
    mass, values = ratio.mass, ratio.values()
    above = np.cumsum((mass * values)[::-1])[::-1] / ratio.size
    last = max(int(np.searchsorted(-above, -tails[1])) - 1, 0)
    first = min(int(np.searchsorted(np.cumsum(mass), tails[0])), last)
    kept = mass[first : last + 1].copy()
    zero, infinite = ratio.zero, ratio.infinite
    if upper:
        kept[-1] += float(np.sum(mass[last + 1 :]))
        infinite += float(np.sum(mass[last + 1 :] * (values[last + 1 :] - values[last])))
        share = values[:first] / values[first]
        kept[0] += float(np.sum(mass[:first] * share))
        zero += float(np.sum(mass[:first] * (1 - share)))
    return replace(ratio, first=ratio.first + first, mass=kept, zero=zero, infinite=infinite)


def _place(i: int, j: int, wide: float, finer: int) -> float:
    """Where the sum of the points i and j of a grid lies, in units of one that is finer."""
    return max(i, j) * finer + math.log1p(math.exp(-abs(i - j) * wide)) / wide * finer


def _added(a: _RatioDistribution, b: _RatioDistribution, finer: int, upper: bool) -> _RatioDistribution:
    """The sum of independent ratios, on a grid ``finer`` times as fine as the finer of the two.

    The sum of the points i and i + d lies at i + u(d), in units of the step, whatever i is: so one slice of products
    goes, in two fixed shares, to two slices of the result. For large d the shares are known in closed form.
    """
    a, b = (a, b) if a.step >= b.step else (b, a)  # all steps are the unit over a power of two
    stride, wide = round(a.step / b.step), b.step
    step = wide / finer
    a_first, a_last = a.first * stride, (a.first + len(a.mass) - 1) * stride
    b_first, b_last = b.first, b.first + len(b.mass) - 1
    low = math.floor(_place(a_first, b_first, wide, finer)) - 1
    size = math.ceil(_place(a_last, b_last, wide, finer)) + 2 - low
    whole, right = np.zeros(size), np.zeros(size)  # of each cell: its mass, and what goes to its right end
    far = math.ceil(math.log(2 / math.expm1(step)) / wide)
    same = a is b
    d = np.arange(0 if same else max(b_first - a_last, 1 - far), min(b_last - a_first, far - 1) + 1)
    place = np.maximum(d, 0) * finer + np.log1p(np.exp(-np.abs(d) * wide)) / step
    cell = np.floor(place).astype(np.int64)
    share = np.minimum(np.expm1((place - cell) * step) / math.expm1(step), 1.0)
    for gap, to, up in zip(d.tolist(), cell.tolist(), share.tolist(), strict=True):
        start = a_first + gap - b_first  # where a's first point meets b
        i = max(0, -(start // stride))
        n = min(len(a.mass) - 1, (len(b.mass) - 1 - start) // stride) - i + 1
        if n <= 0:
            continue
        other = start + stride * i
        product = a.mass[i : i + n] * b.mass[other : other + stride * (n - 1) + 1 : stride]
        if same and gap:
            product *= 2.0
        target = (a_first + stride * i) * finer + to - low
        where = slice(target, target + stride * finer * (n - 1) + 1, stride * finer)
        whole[where] += product
        product *= up
        right[where] += product
    for small, s_first, s_stride, large, l_first, l_stride in (
        (a.mass, a_first, stride, b.mass, b_first, 1),
        (b.mass, b_first, 1, a.mass, a_first, stride),
    ):
        at = l_first + l_stride * np.arange(len(large))
        count = np.clip((at - far - s_first) // s_stride + 1, 0, len(small))
        value = np.exp(wide * s_stride * np.arange(len(small)))
        mean = np.append(0.0, np.cumsum(small * value))[count]
        some = count > 0  # the others are too close to any of the smaller, and were met above
        places = at[some] * finer - low
        whole[places] += (large * np.append(0.0, np.cumsum(small))[count])[some]
        right[places] += (large * mean * np.exp(-wide * (at - s_first)) / math.expm1(step))[some]
    right = np.minimum(right, whole)
    first, mass = (_split if upper else _gathered)(step, low, whole - right, right)
    zero, infinite = a.zero * b.zero, a.infinite + b.infinite
    if upper:
        for none, masses, start, each in ((a.zero, b.mass, b_first, finer), (b.zero, a.mass, a_first, stride * finer)):
            spots = start * finer - low + each * np.arange(len(masses))
            share = np.exp(step * np.minimum(spots, 0))  # below the grid: split between 0 and the first point
            np.add.at(mass, np.maximum(spots, 0), none * masses * share)
            zero += float(np.sum(none * masses * (1 - share)))
        zero, infinite = zero + TINY, infinite + TINY * math.exp(step * (low + size))
    rounding = (len(d) + 4 * (len(a.mass) + len(b.mass)) + 2 * size + 64) * 2.0**-53  # of sums, relative
    shift = max(a.shift, b.shift) + 2 * rounding * math.expm1(step) + 2.0**-47
    return _RatioDistribution(step, first, mass, zero, infinite, a.size + b.size, a.error + b.error + rounding, shift)


def _reach(base: LossPair, tails: Tails) -> tuple[float, float]:
    """Losses of the base pair outside which lie about these masses."""
    half = np.geomspace(1e-9, WIDEST, 2000)
    edges = np.concatenate((-half[::-1], half))
    log_p, log_q = base.log_cells(edges)
    above = np.logaddexp.accumulate(log_p[::-1])[::-1][1:] <= math.log(tails[1])
    below = np.logaddexp.accumulate(log_q)[:-1] <= math.log(tails[0])
    high = edges[np.argmax(above)] if above.any() else WIDEST
    low = edges[len(edges) - 1 - np.argmax(below[::-1])] if below.any() else -WIDEST
    least, greatest = base.support()
    return max(float(low), least, -WIDEST), min(float(high), greatest, WIDEST)


def _one(base: LossPair, step: float, tails: Tails, upper: bool) -> _RatioDistribution:
    """The distribution of one ratio."""
    low, high = _reach(base, tails)
    first = math.floor(low / step - 1e-6)
    edges = step * np.arange(first, max(math.ceil(high / step + 1e-6), first + 1) + 1)
    log_p, log_q = base.log_cells(edges)
    p, q = log_p[1:-1], log_q[1:-1]
    some = q > -np.inf
    error = base.rounding * (16 + np.where(some, np.abs(q) + np.abs(p), 0.0))
    rise = np.where(some, np.where(some, p, 0.0) - np.where(some, q, 0.0) - edges[:-1], 0.0)
    share = np.clip(np.expm1(np.minimum(rise, 1.0)) / math.expm1(step), 0.0, 1.0)
    mass = np.exp(q)
    worst = float(np.max(error))
    start, found = (_split if upper else _gathered)(step, first, mass * (1 - share), mass * share)
    ratio = _RatioDistribution(step, start, found, 0.0, 0.0, 1, worst, 4 * worst + 2.0**-44)
    if upper:  # what lies outside the grid: split with 0, and with infinity
        below, above = math.exp(log_p[0] - edges[0]), math.exp(log_q[-1])
        ratio.mass[0] += below
        ratio.mass[-1] += above
        zero = max(math.exp(log_q[0]) - below, 0.0) + TINY
        infinite = max(math.exp(log_p[-1]) - above * math.exp(edges[-1]), 0.0) + TINY * math.exp(edges[-1])
        ratio = replace(ratio, zero=zero * (1 + 2.0**-20), infinite=infinite * (1 + 2.0**-20))
    return _trimmed(ratio, tails, upper)


def within_reach(base: LossPair) -> bool:
    """Whether the ratio of a pair fits on a grid; if not, allocating it gains nothing here."""
    low, high = _reach(base, (1e-6, 1e-6))
    return -WIDEST < low < high < WIDEST


@lru_cache(maxsize=32)
def _deviation(base: LossPair) -> float:
    """Standard deviation of one ratio, in the middle of its distribution; for the choice of the grid only."""
    tails = 1e-12, 1e-12
    low, high = _reach(base, tails)
    ratio = _one(base, max((high - low) / 1000, 1e-12), tails, True)
    spread = ratio.mass * np.expm1(ratio.step * (ratio.first + np.arange(len(ratio.mass)))) ** 2
    return math.sqrt(max(float(np.sum(spread)), 1e-24))


@lru_cache(maxsize=16)
def _sum(base: LossPair, bins: int, points: int, tails: Tails, upper: bool) -> _RatioDistribution:
    """The distribution of the sum of ``bins`` ratios, by doubling and adding."""
    low, high = _reach(base, tails)
    unit = max(min(_deviation(base), 1.0) / points, (high - low) / (LONGEST * points))
    unit *= 1.0 if upper else bins**-0.125
    unit = math.log(2) / max(1, round(math.log(2) / unit))  # so that twice a point is a point

    def finer(a: _RatioDistribution, b: _RatioDistribution) -> int:
        """How much finer than b's the grid of the sum should be: a power of two."""
        wanted = min(_deviation(base) / math.sqrt(a.size + b.size), 1.0) / points
        wanted *= 1.0 if upper else ((a.size + b.size) / bins) ** 0.125  # from below the mean suffers, early most
        top = b.step * (b.first + len(b.mass)) - math.log(b.size)
        bottom = b.step * b.first - math.log(b.size)
        wanted = max(wanted, (top - bottom) / (LONGEST * points))
        return 1 << max(0, math.ceil(math.log2(b.step / wanted) - 1e-9))

    power, result, rest = _one(base, unit, tails, upper), None, bins
    while True:
        if rest & 1:
            more = power if result is None else _added(result, power, finer(result, power), upper)
            result = _trimmed(more, tails, upper)
        rest >>= 1
        if not rest:
            assert result is not None
            return result
        power = _trimmed(_added(power, power, finer(power, power), upper), tails, upper)


@dataclass(frozen=True)
class AllocationPair(LossPair):
    r"""One of ``bins`` releases contains the record, at random: :math:`\frac1t\sum_i Q_0^{i-1} P_0 Q_0^{t-i}` against
    :math:`Q_0^t` (``"remove"``), or the reverse (``"add"``).

    A bound from above, or from below (``upper=False``, for ``"remove"`` only), within about 1e-4 of the truth. A
    distribution as deep as the question needs is computed when it is asked; what it leaves outside has infinite loss.
    """

    base: LossPair
    bins: int
    direction: Literal["remove", "add"] = "remove"
    upper: bool = True

    def __post_init__(self) -> None:
        if self.bins < 2:
            raise ParameterError("bins", "be at least 2: one bin is the base pair itself", self.bins)
        if self.direction not in ("remove", "add") or not (self.upper or self.direction == "remove"):
            raise ParameterError("direction", "be 'remove', or 'add' from above", self.direction)

    def _symmetric(self) -> bool:
        return False

    def _rounding(self) -> float:
        return 2.0**-46

    def _support(self) -> tuple[float, float]:
        low, high = self.base.support()
        return (low, high) if self.direction == "remove" else (-high, -low)

    def _anchor(self) -> float:
        return 0.0

    def _reversed(self) -> AllocationPair:
        return AllocationPair(self.base, self.bins, "add" if self.direction == "remove" else "remove", self.upper)

    def _atoms(self, points: int, tail: float) -> tuple[Array, Array, float, float]:
        """Losses in rising order, their log P-masses, and the masses of P and Q at infinite and at no loss."""
        # The other end never has a large loss: P-mass is lost there at infinity, or Q-mass at 0, without harm.
        tails = (OTHER_TAIL, tail) if self.direction == "remove" else (tail, OTHER_TAIL)
        ratio = _sum(self.base, self.bins, points, tails, self.upper)
        some = ratio.mass > 0
        place = np.asarray(ratio.step * (ratio.first + np.arange(len(ratio.mass))), dtype=float)[some]
        place = np.asarray(place - math.log(self.bins))
        shift = ratio.shift + 2.0**-44
        log_q = np.log(ratio.mass[some])
        infinite, lost = ratio.infinite / ratio.size, ratio.zero
        if self.direction == "remove":
            loss, log_p = place, log_q + place
        else:
            loss, log_p, infinite, lost = -place[::-1], log_q[::-1], lost, infinite
        sign = 1.0 if self.upper else -1.0
        factor = math.exp(sign * ratio.error)
        log_p = np.asarray(log_p + sign * (ratio.error + shift))
        return np.asarray(loss + sign * shift), log_p, infinite * factor, lost * factor

    def _infinite_mass(self) -> float:
        return self._atoms(POINTS, COMPOSED_TAIL)[2]

    def rough_epsilon(self, log_delta: float) -> float:
        """An ε a little above that of ``log_delta``, by the outline alone."""
        outline = self._outline()
        if outline[2] > 0 and math.log(outline[2]) >= log_delta - 1e-3:
            return 1e290  # no ε will do
        return least(lambda e: _log_profile(outline, e) <= log_delta - 1e-3, guess=1.0, tolerance=1e-3)

    def _outline(self) -> tuple[Array, Array, float, float]:
        return self._atoms(OUTLINE_POINTS, DEEPEST_TAIL)

    def _log_cells(self, edges: Array) -> tuple[Array, Array]:
        # always the same distribution: cells must fit together
        loss, log_p, infinite, lost = self._atoms(POINTS, COMPOSED_TAIL)
        cell = np.searchsorted(edges, loss, side="left")
        log_cell_p = _log_sum_by(cell, log_p, len(edges) + 1)
        log_cell_q = _log_sum_by(cell, log_p - loss, len(edges) + 1)
        with np.errstate(divide="ignore"):
            log_cell_p[-1] = np.logaddexp(log_cell_p[-1], np.log(infinite))
            log_cell_q[0] = np.logaddexp(log_cell_q[0], np.log(lost))
        return log_cell_p, log_cell_q

    def _log_delta(self, epsilon: Array) -> Array:
        out = np.empty(epsilon.shape)
        for index, e in np.ndenumerate(epsilon):
            rough = _log_profile(self._outline(), float(e))
            fine = _log_profile(self._atoms(POINTS, _level(1e-5 * math.exp(max(rough, -600.0)))), float(e))
            out[index] = min(rough, fine) if self.upper else max(rough, fine)
        return out


@lru_cache(maxsize=64)
def renyi_of_allocation(base: LossPair, bins: int, curve: Callable[[Array], Array], orders: tuple[float, ...]) -> Array:
    r"""Upper bounds of the Rényi divergences of both directions, the larger at each order; ``curve`` is one bin's.

    Removing: :math:`E_Q[Z^n] = n!\,t^{-n}\,[x^n]\big(\sum_j E_Q[Y^j] x^j/j!\big)^t` at whole orders, and
    :math:`(\alpha-1)D_\alpha` is convex between them. Adding: :math:`E_Q[Z^{-s}]`, convex in s, from the masses.
    """
    alpha = np.array(orders)
    return np.maximum(_removing(bins, curve, alpha), _adding(base, bins, curve, alpha))


def _removing(bins: int, curve: Callable[[Array], Array], alpha: Array) -> Array:
    unsampled = curve(alpha)
    most = int(min(MOST_ORDER, math.ceil(float(np.max(alpha, initial=2.0, where=np.isfinite(alpha))))))
    whole = np.arange(most + 1, dtype=float)
    log_moments = np.append([0.0, 0.0], (whole[2:] - 1) * curve(whole[2:]))
    series = log_moments - log_factorial(whole)
    result, power, rest = None, series, bins
    while True:
        if rest & 1:
            result = power if result is None else _product(result, power)
        rest >>= 1
        if not rest:
            break
        power = _product(power, power)
    assert result is not None
    logs = np.maximum(result + log_factorial(whole) - whole * math.log(bins), 0.0)
    logs += 2.0**-45 * (1 + whole * (math.log(bins) + np.log1p(whole)) + log_moments)  # rounding of all the logs
    logs[:2] = 0.0
    inside = np.clip(alpha, 1.0, most)
    bound = np.interp(inside, whole, logs) / np.maximum(inside - 1, 1e-9)
    bound = np.where(alpha < 2, logs[2], bound)  # linear from 0 at order 1
    return np.where(alpha <= most, np.minimum(bound, unsampled), unsampled)


def _product(a: Array, b: Array) -> Array:
    """Logs of the coefficients of the product of two power series."""
    return np.array([np.logaddexp.reduce(a[: n + 1] + b[n::-1]) for n in range(len(a))])


def _adding(base: LossPair, bins: int, curve: Callable[[Array], Array], alpha: Array) -> Array:
    ratio = _sum(base, bins, POINTS, (DEEPEST_TAIL, OTHER_TAIL), True)
    some = ratio.mass > 0
    place = np.asarray(ratio.step * (ratio.first + np.arange(len(ratio.mass))), dtype=float)[some]
    place = np.asarray(place - (math.log(bins) + ratio.shift + 2.0**-44))
    log_mass = np.log(ratio.mass[some]) + ratio.error
    lowest = float(place[0]) - math.log(2)  # below it Z lies with probability 2 * zero at most
    zero = ratio.zero * math.exp(ratio.error)
    found = np.array(curve(alpha), copy=True)
    for i, order in enumerate(alpha.tolist()):
        s = order - 1
        if not 0 < s < 1000:
            continue
        gain = _log_gain_below(place, s)
        unlikely = (2 * s * float(curve(np.array([1 + 2 * s / bins]))[0]) + math.log(2 * zero)) / 2
        tangent = math.log(zero) + math.log1p(s) - s * lowest
        steep = math.log(s * ratio.infinite / ratio.size) + ratio.error  # the slope at infinity is s
        excess = float(np.logaddexp.reduce([*(log_mass + gain).tolist(), unlikely, tangent, steep]))
        found[i] = min(found[i], float(np.logaddexp(0.0, excess + 1e-9)) / s)
    if (alpha == 1.0).any():
        found[alpha == 1.0] = _adding(base, bins, curve, np.array([1.0625]))[0]
    return found


def _log_gain_below(place: Array, s: float) -> Array:
    """Log of z^-s - 1 + s(z - 1) at z = e^place, which is convex and at least 0."""
    with np.errstate(divide="ignore", over="ignore"):
        plain = np.expm1(np.minimum(-s * place, 700.0)) + s * np.expm1(np.minimum(place, 700.0))
        near = s * (s + 1) / 2 * place**2 * (1 + (1 - s) * place / 3 + (s * s - s + 1) * place**2 / 12)
        return np.log(np.maximum(np.where(np.abs(place) * (s + 2) < 1e-3, near, plain), 0.0))


def _level(mass: float) -> float:
    """A tail of less than the mass, one of a few, so that near questions share a distribution."""
    return next((tail for tail in TAILS if tail <= mass), DEEPEST_TAIL)


def _log_profile(atoms: tuple[Array, Array, float, float], epsilon: float) -> float:
    loss, log_p, infinite, _ = atoms
    above = loss > epsilon
    terms = log_p[above] + log1mexp(epsilon - loss[above])
    return float(np.logaddexp.reduce(terms, initial=math.log(infinite) if infinite > 0 else -math.inf))
