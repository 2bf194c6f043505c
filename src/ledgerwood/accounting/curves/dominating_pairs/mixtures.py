r"""Pairs of batch samplers: mixtures of Gaussians, positive and negative losses from two pairs, a public coin.

A record that is in a random part of the data turns one Gaussian into a mixture. Which mixtures are the worst follows
from Kahane's convexity inequality: ``docs/theory/batch-samplers.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ledgerwood.accounting.curves.dominating_pairs.base import (
    Array,
    Cells,
    LossPair,
    added,
    intervals,
    log1mexp,
    log_normal_interval,
)
from ledgerwood.errors import ParameterError

__all__ = ["MixturePair", "PublicChoicePair", "TwoSidedPair", "renyi_above"]

Mixture = tuple[tuple[float, float], ...]
"""Weights and means of normal distributions of variance 1."""

_REACH = 40.0
"""Beyond this distance from all means a mixture weighs less than e^-800."""


def _columns(mixture: Mixture) -> tuple[Array, Array]:
    return np.array([w for w, _ in mixture]), np.array([m for _, m in mixture])


@dataclass(frozen=True)
class MixturePair(LossPair):
    r"""Two mixtures of normals of variance 1, whose loss rises with x wherever it is positive or ``rising``.

    .. math:: P = \sum_j p_j N(a_j, 1), \qquad Q = \sum_j q_j N(b_j, 1)

    With ``rising=False`` only questions about positive losses make sense; :class:`TwoSidedPair` asks no others.
    ``flipped`` is the pair (Q, P).
    """

    of_p: Mixture
    of_q: Mixture
    rising: bool = True
    flipped: bool = False

    def __post_init__(self) -> None:
        for mixture in (self.of_p, self.of_q):
            if not mixture or any(not w > 0 for w, _ in mixture) or abs(math.fsum(w for w, _ in mixture) - 1) > 1e-12:
                raise ParameterError("weights", "be positive and add up to 1", mixture)

    def _symmetric(self) -> bool:
        mirrored = tuple(sorted((w, -m) for w, m in self.of_q))
        return self.rising and mirrored == tuple(sorted(self.of_p))

    def _reversed(self) -> LossPair:
        return MixturePair(self.of_p, self.of_q, self.rising, not self.flipped)

    def _support(self) -> tuple[float, float]:
        low, high = (self._limit(sign) for sign in (-1.0, 1.0))
        return (-high, -low) if self.flipped else (low, high)

    def _limit(self, sign: float) -> float:
        """The loss far to one side: finite where P and Q have the same outermost mean."""
        p, q = (max((sign * m, w) for w, m in mixture) for mixture in (self.of_p, self.of_q))
        return math.log(p[1] / q[1]) if p[0] == q[0] else math.copysign(math.inf, p[0] - q[0])

    def _anchor(self) -> float:
        low, high = self._support()
        return low if math.isfinite(low) else high if math.isfinite(high) else 0.0

    def loss(self, x: Array) -> Array:
        """The loss log dP/dQ at x, accurate also where it is small."""
        return self._loss_and_slope(x)[0]

    def _loss_and_slope(self, x: Array) -> tuple[Array, Array]:
        (above, rise), (below, fall) = (_against_normal(mixture, x) for mixture in (self.of_p, self.of_q))
        loss = above - below
        if len(self.of_q) > 1:  # the parts that both have cancel before anything is rounded
            weights, means = _differences(self)
            with np.errstate(over="ignore"):
                gain = weights @ np.exp(np.multiply.outer(means, x) - (means * means / 2)[:, None] - below)
            loss = np.where(np.abs(gain) < 0.5, np.log1p(np.clip(gain, -0.5, 0.5)), loss)
        return loss, rise - fall

    def _resolution(self) -> float:
        return _size_of_loss(self)

    def _points(self, losses: Array) -> Array:
        """The x at which the loss has these values, which rise; -inf and inf beyond its ends."""
        means = [m for mixture in (self.of_p, self.of_q) for _, m in mixture]
        centre, widest = (max(means) + min(means)) / 2, max(means) - min(means)
        greatest = self._limit(1.0)
        least, lowest = (self._limit(-1.0), -math.inf) if self.rising else (0.0, _zero(self))
        inside = (losses > least) & (losses < greatest)
        out = np.where(losses >= greatest, np.inf, lowest)
        if not inside.any():
            return out
        goal = losses[inside]
        reach = _REACH + 2 * widest
        low, high = centre - reach, centre + reach
        while self.loss(np.array([high]))[0] < goal[-1] and high < 1e6 + centre:
            high += reach
            reach *= 2
        reach = _REACH + 2 * widest
        if not self.rising:
            low = lowest
        while self.rising and self.loss(np.array([low]))[0] > goal[0] and low > centre - 1e6:
            low -= reach
            reach *= 2
        nodes = np.linspace(low, high, 4097)
        values, slopes = self._loss_and_slope(nodes)
        values = np.maximum.accumulate(values)
        place = np.clip(np.searchsorted(values, goal), 1, len(nodes) - 1)
        left, right = nodes[place - 1], nodes[place]
        x = _hermite(goal, values, nodes, slopes, place)
        at = np.arange(len(x))  # those that are still searched for
        for turn in range(60):
            aim = goal[at]
            y = np.where((x[at] > left) & (x[at] < right), x[at], (left + right) / 2)
            value, slope = self._loss_and_slope(y)
            error = value - aim
            left, right = np.where(error < 0, y, left), np.where(error >= 0, y, right)
            x[at] = y
            far = (np.abs(error) > 2.0**-49 * np.maximum(self.resolution, np.abs(aim))) & (right > left)
            if not far.any():
                break
            at, left, right, y, error, slope = at[far], left[far], right[far], y[far], error[far], slope[far]
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                x[at] = y - error / slope if turn % 6 < 5 else (left + right) / 2
        out[inside] = np.maximum.accumulate(x)
        return out

    def _log_cells(self, edges: Array) -> tuple[Array, Array]:
        cells = self._cells(edges)
        return cells.log_p, cells.log_q

    def _cells(self, edges: Array) -> Cells:
        """The mean of p/q - 1 is that of the parts that differ: nothing cancels, however rare they are."""
        if not len(edges):
            return super()._cells(edges)
        x = self._points(-edges[::-1] if self.flipped else edges)
        with np.errstate(invalid="ignore"):
            width = np.diff(x)
        finite = np.isfinite(x)
        width = np.where(finite[1:] & finite[:-1], width, np.where(x[1:] > x[:-1], np.inf, 0.0))
        width = np.concatenate(([np.inf], width, [np.inf]))
        width[0] = np.inf if x[0] > -np.inf else 0.0
        width[-1] = np.inf if x[-1] < np.inf else 0.0
        log_p, log_q = (_log_masses(mixture, x, width) for mixture in (self.of_p, self.of_q))
        weights, means = _differences(self)
        more, less = (
            _log_masses(
                tuple((abs(w), m) for w, m in zip(weights.tolist(), means.tolist(), strict=True) if sign * w > 0),
                x,
                width,
            )
            for sign in (1, -1)
        )
        with np.errstate(invalid="ignore", over="ignore"):
            mean = np.nan_to_num(log_p - log_q, nan=0.0, posinf=np.inf, neginf=-np.inf)
            up, down = (np.nan_to_num(np.exp(np.minimum(part - log_q, 50.0))) for part in (more, less))
        mass = self.rounding * (
            16 + np.abs(np.nan_to_num(log_p, neginf=0.0)) + np.abs(np.nan_to_num(log_q, neginf=0.0))
        )
        small = up + down < 0.5
        mean = np.where(small, np.log1p(np.clip(up - down, -0.5, 0.5)), mean)
        error = np.where(small, 3 * (up + down), 2.0) * mass
        if self.flipped:
            return Cells(*(part[::-1] for part in (log_q, log_p, -mean, mass, error)))
        return Cells(log_p, log_q, mean, mass, error)

    def _log_delta(self, epsilon: Array) -> Array:
        r"""The integral of :math:`p\,(1 - e^{\varepsilon - L})` over x with a larger loss; nothing cancels."""
        out = np.empty(epsilon.shape)
        for index, e in np.ndenumerate(epsilon):
            out[index] = self._one_log_delta(float(e))
        return out

    def _one_log_delta(self, epsilon: float) -> float:
        mixture = self.of_q if self.flipped else self.of_p
        start = float(self._points(np.array([-epsilon if self.flipped else epsilon]))[0])
        means = [m for _, m in mixture]
        if self.flipped:
            low, high = min(*means, min(start, max(means))) - _REACH, start
        else:
            low, high = start, max(*means, max(start, min(means))) + _REACH
        low, high = max(low, min(means) - _REACH), min(high, max(means) + _REACH)
        if not low < high:
            return -math.inf
        pieces = math.ceil((high - low) * 2)
        nodes, weights = _legendre()
        ends = np.linspace(low, high, pieces + 1)
        half = np.diff(ends)[:, None] / 2
        x = ((ends[1:] + ends[:-1])[:, None] / 2 + half * nodes).ravel()
        loss = self.loss(x)
        gain = -np.expm1(np.minimum(epsilon + loss if self.flipped else epsilon - loss, 0.0))
        with np.errstate(divide="ignore"):
            terms = np.log(gain * (half * weights).ravel()) + _log_density(mixture, x)
        return float(np.logaddexp.reduce(terms))


def _hermite(goal: Array, values: Array, nodes: Array, slopes: Array, place: npt.NDArray[np.intp]) -> Array:
    """The inverse of a rising function between nodes, by cubics with its values and slopes."""
    width = values[place] - values[place - 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        t = (goal - values[place - 1]) / width
        first, second = width / slopes[place - 1], width / slopes[place]
        gap = nodes[place] - nodes[place - 1]
        x = nodes[place - 1] + t * (first + t * (3 * gap - 2 * first - second + t * (first + second - 2 * gap)))
    return np.asarray(np.where(np.isfinite(x), x, (nodes[place] + nodes[place - 1]) / 2))


@lru_cache(maxsize=1)
def _legendre() -> tuple[Array, Array]:
    nodes, weights = np.polynomial.legendre.leggauss(24)
    return nodes, weights


@lru_cache(maxsize=64)
def _zero(pair: MixturePair) -> float:
    """The largest x at which the loss vanishes; above it the loss rises."""
    means = [m for mixture in (pair.of_p, pair.of_q) for _, m in mixture]
    low, high = min(means) - 1.0, max(means) + _REACH
    for _ in range(200):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (low, middle) if pair.loss(np.array([middle]))[0] > 0 else (middle, high)
    return low


@lru_cache(maxsize=64)
def _differences(pair: MixturePair) -> tuple[Array, Array]:
    """The parts in which P and Q differ: by how much, and their means."""
    weights: dict[float, list[float]] = {}
    for sign, mixture in ((1.0, pair.of_p), (-1.0, pair.of_q)):
        for w, m in mixture:
            weights.setdefault(m, []).append(sign * w)
    found = [(w, m) for m, ws in weights.items() if (w := math.fsum(ws))]
    return _columns(tuple(found))


@lru_cache(maxsize=64)
def _size_of_loss(pair: MixturePair) -> float:
    """What the terms add up to where the loss is small because they cancel: its errors are relative to that."""
    means = [m for mixture in (pair.of_p, pair.of_q) for _, m in mixture]
    x = np.linspace(min(means) - _REACH, max(means) + _REACH, 4097)
    weights, at = _differences(pair)
    below = _against_normal(pair.of_q, x)[0]
    with np.errstate(over="ignore", invalid="ignore"):
        ratios = np.exp(np.multiply.outer(at, x) - (at * at / 2)[:, None] - below)
        terms, gain = np.abs(weights) @ ratios, np.abs(weights @ ratios)
    cancels = (terms > 8 * gain) & (gain < 0.5)
    return min(1.0, 8 * float(np.max(terms, where=cancels, initial=0.0)) + 1e-300)


def _against_normal(mixture: Mixture, x: Array) -> tuple[Array, Array]:
    """Log of the mixture's density over that of N(0, 1), and its derivative: the mean of the part that x came from."""
    weights, means = _columns(mixture)
    if len(weights) == 1:
        return means[0] * x - means[0] ** 2 / 2, np.full(np.shape(x), means[0])
    logs = np.multiply.outer(means, x) - (means * means / 2)[:, None]
    if 0.0 in means and weights[means == 0.0][0] > 0.1 and float(np.max(logs, initial=0.0)) < 600.0:
        # Nothing cancels, also where the ratio is close to one.
        gain = np.expm1(logs)
        total = weights @ gain
        return np.log1p(total), ((weights * means) @ (1.0 + gain)) / (1.0 + total)
    logs += np.log(weights)[:, None]
    peak = np.max(logs, axis=0)
    share = np.exp(logs - peak)
    total = np.sum(share, axis=0)
    return peak + np.log(total), (means @ share) / total


def _log_density(mixture: Mixture, x: Array) -> Array:
    weights, means = _columns(mixture)
    parts = np.log(weights)[:, None] - (x - means[:, None]) ** 2 / 2
    return np.asarray(np.logaddexp.reduce(parts, axis=0) - 0.5 * math.log(2 * math.pi))


def _log_masses(mixture: Mixture, x: Array, width: Array) -> Array:
    if not mixture:
        return np.full(len(x) + 1, -np.inf)
    left, right = intervals(x)
    parts = [
        math.log(w) + log_normal_interval(np.maximum(left - m, -1e300), np.minimum(right - m, 1e300), width)
        for w, m in mixture
    ]
    return np.asarray(np.logaddexp.reduce(parts, axis=0))


@dataclass(frozen=True)
class TwoSidedPair(LossPair):
    r"""Positive losses as those of one pair, negative ones as those of another, and what is left at loss 0.

    For two bounds of one profile: ``high`` for :math:`\varepsilon \ge 0` and ``low`` for :math:`\varepsilon < 0`. The
    two agree at 0, and the whole is convex there if ``high`` has no more Q-mass at positive losses than ``low``; that
    is the caller's to prove.
    """

    high: LossPair
    low: LossPair

    def _symmetric(self) -> bool:
        return self.high.reversed() == self.low

    def _reversed(self) -> LossPair:
        return self if self._symmetric() else TwoSidedPair(self.low.reversed(), self.high.reversed())

    def _infinite_mass(self) -> float:
        return self.high.infinite_mass

    def _rounding(self) -> float:
        return max(self.high.rounding, self.low.rounding)

    def _anchor(self) -> float:
        return 0.0

    def _lattice(self) -> tuple[float, bool] | None:
        return None

    def _support(self) -> tuple[float, float]:
        return min(self.low.support()[0], 0.0), max(self.high.support()[1], 0.0)

    def _resolution(self) -> float:
        return max(self.high.resolution, self.low.resolution)

    def _log_cells(self, edges: Array) -> tuple[Array, Array]:
        cells = self._cells(edges)
        return cells.log_p, cells.log_q

    def _cells(self, edges: Array) -> Cells:
        count = len(edges) + 1
        high = self.high.cells(np.append(0.0, edges[edges > 0]))
        low = self.low.cells(np.append(edges[edges < 0], 0.0))
        above, below = (_placed(part, count, first) for part, first in ((high, False), (low, True)))
        # The rest, a hair more than exact: it has the same mass under P and Q, and more of it raises every profile.
        lost = min(
            math.fsum(np.exp(above.log_p)) + math.fsum(np.exp(below.log_p)),
            math.fsum(np.exp(above.log_q)) + math.fsum(np.exp(below.log_q)),
        )
        rest = np.full(count, -np.inf)
        rest[int(np.searchsorted(edges, 0.0, side="left"))] = math.log(max(0.0, 1.0 - lost) + 2.0**-48)
        zero = np.zeros(count)
        return added([(0.0, above), (0.0, below), (0.0, Cells(rest, rest, zero, zero, zero))])

    def _log_delta(self, epsilon: Array) -> Array:
        positive = self.high.log_delta(np.maximum(epsilon, 0.0))
        negative = self.low.reversed().log_delta(np.maximum(-epsilon, 0.0))
        with np.errstate(divide="ignore"):
            mirrored = np.logaddexp(log1mexp(np.minimum(epsilon, 0.0)), epsilon + negative)
        return np.where(epsilon >= 0, positive, mirrored)


def _placed(cells: Cells, count: int, first: bool) -> Cells:
    """The cells of negative losses as the first of so many, or those of positive ones as the last."""
    found = []
    for part, fill in zip(cells, (-np.inf, -np.inf, 0.0, 0.0, 0.0), strict=True):
        whole = np.full(count, fill)
        if first:
            whole[: len(part) - 1] = part[:-1]
        else:
            whole[count - len(part) + 1 :] = part[1:]
        found.append(whole)
    return Cells(*found)


@dataclass(frozen=True)
class PublicChoicePair(LossPair):
    """One of several pairs, chosen by a coin that does not depend on the record and is seen: (weight, pair)."""

    choices: tuple[tuple[float, LossPair], ...]

    def __post_init__(self) -> None:
        if not self.choices or any(not 0 < w <= 1 for w, _ in self.choices):
            raise ParameterError("choices", "have weights in (0, 1]", [w for w, _ in self.choices])

    def _symmetric(self) -> bool:
        return all(pair.symmetric for _, pair in self.choices)

    def _reversed(self) -> LossPair:
        return PublicChoicePair(tuple((w, pair.reversed()) for w, pair in self.choices))

    def _infinite_mass(self) -> float:
        return math.fsum(w * pair.infinite_mass for w, pair in self.choices)

    def _rounding(self) -> float:
        return max(pair.rounding for _, pair in self.choices)

    def _anchor(self) -> float:
        return max(self.choices, key=lambda choice: choice[0])[1].anchor

    def _support(self) -> tuple[float, float]:
        return (
            min(pair.support()[0] for _, pair in self.choices),
            max(pair.support()[1] for _, pair in self.choices),
        )

    def _resolution(self) -> float:
        return max(pair.resolution for _, pair in self.choices)

    def _log_cells(self, edges: Array) -> tuple[Array, Array]:
        cells = self._cells(edges)
        return cells.log_p, cells.log_q

    def _cells(self, edges: Array) -> Cells:
        return added([(math.log(w), pair.cells(edges)) for w, pair in self.choices])

    def _log_delta(self, epsilon: Array) -> Array:
        return np.asarray(
            np.logaddexp.reduce([math.log(w) + pair.log_delta(epsilon) for w, pair in self.choices], axis=0)
        )


# ---- Rényi curves of pairs, bounded from above through the masses of cells

LARGEST_LOSS = 600.0
_CELLS = 3000
"""Cells on each side of 0: 0.75 % wide, which adds less than 1e-5 of itself to a small divergence."""


def renyi_above(pair: LossPair, alpha: Array, curve: Callable[[Array], Array]) -> Array:
    r"""An upper bound of the Rényi divergence :math:`D_\alpha(P \| Q)` of a pair without infinite loss, at each order.

    With :math:`Y = dP/dQ`, :math:`E_Q[Y^\alpha] - 1 = E_Q[Y^\alpha - 1 - \alpha(Y - 1)]`, a mean of a convex
    function that is never negative. A cell's mass is moved to its two ends (keeping P- and Q-mass); the part beyond the
    last edge z is at most :math:`z^{-s} E_Q[Y^{\alpha+s}]`, for which ``curve`` bounds the divergence without any gain
    from sampling. ``curve`` also caps the answer.
    """
    half = np.geomspace(1e-7, LARGEST_LOSS, _CELLS)
    edges = np.concatenate((-half[::-1], [0.0], half))
    log_p, log_q = pair.log_cells(edges)
    some = (log_q > -np.inf)[1:-1]
    rise = np.where(some, np.where(some, log_p[1:-1], 0.0) - np.where(some, log_q[1:-1], 0.0) - edges[:-1], 0.0)
    width = np.diff(edges)
    share = np.expm1(np.clip(rise, 0.0, width)) / np.expm1(width)
    with np.errstate(divide="ignore"):
        mass = np.append(log_q[1:-1] + np.log1p(-share), -np.inf)
        mass[1:] = np.logaddexp(mass[1:], log_q[1:-1] + np.log(share))
        # Below the first edge: split between it and 0, where the function is largest.
        first = np.logaddexp(mass[0], log_p[0] - edges[0])
        mass[0] = first
        zero = max(math.exp(log_q[0]) - math.exp(log_p[0] - edges[0]), 0.0)
    orders = np.asarray(alpha, dtype=np.float64)
    found = np.array(curve(orders), copy=True).ravel()
    error = pair.rounding * (32 + float(np.max(np.where(mass > -np.inf, np.abs(mass), 0.0)))) + 1e-9
    for i, order in enumerate(orders.ravel().tolist()):
        if not 1.0 < order < math.inf:
            continue
        gain = _log_gain(edges, order)
        excess = float(np.logaddexp.reduce(mass + gain))
        extra = order * np.array([0.1, 0.3, 1.0, 3.0, 10.0])
        tail = float(np.min((order + extra - 1) * curve(order + extra) - extra * edges[-1]))
        excess = float(np.logaddexp.reduce([excess, tail, math.log(zero * (order - 1)) if zero > 0 else -math.inf]))
        moment = float(np.logaddexp(0.0, excess + error))
        found[i] = min(found[i], moment / (order - 1) * (1 + 2.0**-49))
    lowest = orders.ravel() == 1.0
    if lowest.any():  # the divergence grows with the order
        found[lowest] = np.minimum(found[lowest], renyi_above(pair, np.array([1.0625]), curve)[0])
    return found.reshape(orders.shape)


def _log_gain(loss: Array, order: float) -> Array:
    r"""Log of :math:`y^\alpha - 1 - \alpha(y - 1)` at :math:`y = e^{loss}`; near 0 by its series, right to 1e-9."""
    with np.errstate(over="ignore", divide="ignore"):
        plain = np.log(
            np.maximum(np.expm1(np.minimum(order * loss, 700.0)) - order * np.expm1(np.minimum(loss, 700.0)), 0.0)
        )
        small = np.log(
            order
            * (order - 1)
            / 2
            * loss**2
            * (1 + (order + 1) * loss / 3 + (order * order + order + 1) * loss**2 / 12)
        )
    near = np.abs(loss) * (order + 1) < 1e-3
    return np.where(near, small, np.where(order * loss > 700.0, order * loss, plain))
