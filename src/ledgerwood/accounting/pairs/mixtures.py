r"""Pairs of batch samplers: mixtures of Gaussians, positive and negative losses from two pairs, a public coin.

A record that is in a random part of the data turns one Gaussian into a mixture. Which mixtures are the worst follows
from Kahane's convexity inequality: ``docs/theory/batch-samplers.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ledgerwood.accounting.pairs.base import Array, LossPair, intervals, log1mexp, log_normal_interval
from ledgerwood.errors import ParameterError

__all__ = ["MixturePair", "PublicChoicePair", "TwoSidedPair"]

Mixture = tuple[tuple[float, float], ...]
"""Weights and means of normal laws of variance 1."""

_REACH = 40.0
"""Beyond this distance from all means a mixture weighs less than e^-800."""


def _columns(mixture: Mixture) -> tuple[Array, Array]:
    return np.array([w for w, _ in mixture]), np.array([m for _, m in mixture])


@dataclass(frozen=True)
class MixturePair(LossPair):
    r"""Two mixtures of normal laws of variance 1, whose loss rises with x wherever it is positive or ``rising``.

    .. math:: P = \sum_j p_j N(a_j, 1), \qquad Q = \sum_j q_j N(b_j, 1)

    With ``rising=False`` only questions about positive losses make sense; :class:`TwoSidedPair` asks no others.
    ``flipped`` is the pair (Q, P).
    """

    above: Mixture
    below: Mixture
    rising: bool = True
    flipped: bool = False

    def __post_init__(self) -> None:
        for mixture in (self.above, self.below):
            if not mixture or any(not w > 0 for w, _ in mixture) or abs(math.fsum(w for w, _ in mixture) - 1) > 1e-12:
                raise ParameterError("weights", "be positive and add up to 1", mixture)

    def _symmetric(self) -> bool:
        mirrored = tuple(sorted((w, -m) for w, m in self.below))
        return self.rising and mirrored == tuple(sorted(self.above))

    def _reversed(self) -> LossPair:
        return MixturePair(self.above, self.below, self.rising, not self.flipped)

    def _support(self) -> tuple[float, float]:
        low, high = (self._limit(sign) for sign in (-1.0, 1.0))
        return (-high, -low) if self.flipped else (low, high)

    def _limit(self, sign: float) -> float:
        """The loss far to one side: finite where P and Q have the same outermost mean."""
        p, q = (max((sign * m, w) for w, m in mixture) for mixture in (self.above, self.below))
        return math.log(p[1] / q[1]) if p[0] == q[0] else math.copysign(math.inf, p[0] - q[0])

    def _anchor(self) -> float:
        low, high = self._support()
        return low if math.isfinite(low) else high if math.isfinite(high) else 0.0

    def loss(self, x: Array) -> Array:
        """The loss log dP/dQ at x, accurate also where it is small."""
        return np.asarray(_log_ratio(self.above, x) - _log_ratio(self.below, x))

    def _slope(self, x: Array) -> Array:
        return _mean_of(self.above, x) - _mean_of(self.below, x)

    def _points(self, losses: Array) -> Array:
        """The x at which the loss has these values, which rise; -inf and inf beyond its ends."""
        means = [m for mixture in (self.above, self.below) for _, m in mixture]
        centre, widest = (max(means) + min(means)) / 2, max(means) - min(means)
        least, greatest = self._limit(-1.0), self._limit(1.0)
        if not self.rising:
            least = 0.0
        inside = (losses > least) & (losses < greatest)
        out = np.where(losses >= greatest, np.inf, -np.inf)
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
            low = _zero(self)
        while self.rising and self.loss(np.array([low]))[0] > goal[0] and low > centre - 1e6:
            low -= reach
            reach *= 2
        nodes = np.linspace(low, high, 4097)
        values = np.maximum.accumulate(self.loss(nodes))
        x = np.interp(goal, values, nodes)
        place = np.clip(np.searchsorted(values, goal), 1, len(nodes) - 1)
        left, right = nodes[place - 1], nodes[place]
        for turn in range(60):
            value = self.loss(x)
            error = value - goal
            left, right = np.where(error < 0, x, left), np.where(error >= 0, x, right)
            if not np.any((np.abs(error) > 2.0**-49 * np.maximum(1.0, np.abs(goal))) & (right - left > 0)) or turn == 59:
                break
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                step = x - error / self._slope(x)
            good = (step > left) & (step < right) & (turn % 6 < 5)
            x = np.where(good, step, (left + right) / 2)
        out[inside] = np.maximum.accumulate(x)
        return out

    def _log_cells(self, edges: Array) -> tuple[Array, Array]:
        e = -edges[::-1] if self.flipped else edges
        x = self._points(e)
        with np.errstate(invalid="ignore"):
            width = np.diff(x)
        finite = np.isfinite(x)
        width = np.where(finite[1:] & finite[:-1], width, np.where(x[1:] > x[:-1], np.inf, 0.0))
        width = np.concatenate(([np.inf], width, [np.inf]))
        width[0] = np.inf if x[0] > -np.inf else 0.0
        width[-1] = np.inf if x[-1] < np.inf else 0.0
        log_p, log_q = (_log_masses(mixture, x, width) for mixture in (self.above, self.below))
        return (log_q[::-1], log_p[::-1]) if self.flipped else (log_p, log_q)

    def _log_delta(self, epsilon: Array) -> Array:
        r"""The integral of :math:`p\,(1 - e^{\varepsilon - L})` over x with a larger loss; nothing cancels."""
        out = np.empty(epsilon.shape)
        for index, e in np.ndenumerate(epsilon):
            out[index] = self._one_log_delta(float(e))
        return out

    def _one_log_delta(self, epsilon: float) -> float:
        mixture = self.below if self.flipped else self.above
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


@lru_cache(maxsize=1)
def _legendre() -> tuple[Array, Array]:
    nodes, weights = np.polynomial.legendre.leggauss(24)
    return nodes, weights


@lru_cache(maxsize=64)
def _zero(pair: MixturePair) -> float:
    """The largest x at which the loss vanishes; above it the loss rises."""
    means = [m for mixture in (pair.above, pair.below) for _, m in mixture]
    low, high = min(means) - 1.0, max(means) + _REACH
    for _ in range(200):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (low, middle) if pair.loss(np.array([middle]))[0] > 0 else (middle, high)
    return low


def _exponents(mixture: Mixture, x: Array) -> Array:
    """Logs of the likelihood ratios of the parts against N(0, 1)."""
    _, means = _columns(mixture)
    return np.multiply.outer(means, x) - (means * means / 2)[:, None]


def _log_ratio(mixture: Mixture, x: Array) -> Array:
    """Log of the mixture's density over that of N(0, 1)."""
    weights, _ = _columns(mixture)
    logs = _exponents(mixture, x)
    small = np.log1p(np.maximum(weights @ np.expm1(np.minimum(logs, 1.0)), -1.0 + 2.0**-53))
    top = logs + np.log(weights)[:, None]
    peak = np.max(top, axis=0)
    large = peak + np.log(np.sum(np.exp(top - peak), axis=0))
    return np.where(np.max(np.abs(logs), axis=0) < 1.0, small, large)


def _mean_of(mixture: Mixture, x: Array) -> Array:
    """The mean of the part that x came from, given x: the derivative of the log ratio."""
    weights, means = _columns(mixture)
    logs = _exponents(mixture, x) + np.log(weights)[:, None]
    share = np.exp(logs - np.max(logs, axis=0))
    return np.asarray((means @ share) / np.sum(share, axis=0))


def _log_density(mixture: Mixture, x: Array) -> Array:
    weights, means = _columns(mixture)
    parts = np.log(weights)[:, None] - (x - means[:, None]) ** 2 / 2
    return np.asarray(np.logaddexp.reduce(parts, axis=0) - 0.5 * math.log(2 * math.pi))


def _log_masses(mixture: Mixture, x: Array, width: Array) -> Array:
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
    two agree at 0, and the whole is convex there if ``high`` has no more Q-mass at positive losses than ``low``; that is
    the caller's to prove.
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

    def _log_cells(self, edges: Array) -> tuple[Array, Array]:
        up, down = edges[edges > 0], edges[edges < 0]
        high = [v[1:] for v in self.high.log_cells(np.append(0.0, up))]
        low = [v[:-1] for v in self.low.log_cells(np.append(down, 0.0))]
        # The rest, a hair more than exact: it has the same mass under P and Q, and more of it raises every profile.
        rest = max(0.0, 1.0 - math.fsum(np.exp(high[0])) - math.fsum(np.exp(low[0]))) + 2.0**-48
        found = []
        for above, below in zip(high, low, strict=True):
            cells = np.full(len(edges) + 1, -np.inf)
            cells[: len(below)] = below
            cells[len(cells) - len(above) :] = np.logaddexp(cells[len(cells) - len(above) :], above)
            at = int(np.searchsorted(edges, 0.0, side="left"))
            cells[at] = np.logaddexp(cells[at], math.log(rest))
            found.append(cells)
        return found[0], found[1]

    def _log_delta(self, epsilon: Array) -> Array:
        positive = self.high.log_delta(np.maximum(epsilon, 0.0))
        negative = self.low.reversed().log_delta(np.maximum(-epsilon, 0.0))
        with np.errstate(divide="ignore"):
            mirrored = np.logaddexp(log1mexp(np.minimum(epsilon, 0.0)), epsilon + negative)
        return np.where(epsilon >= 0, positive, mirrored)


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

    def _log_cells(self, edges: Array) -> tuple[Array, Array]:
        parts = [(math.log(w), pair.log_cells(edges)) for w, pair in self.choices]
        log_p = np.logaddexp.reduce([w + cells[0] for w, cells in parts], axis=0)
        log_q = np.logaddexp.reduce([w + cells[1] for w, cells in parts], axis=0)
        return np.asarray(log_p), np.asarray(log_q)

    def _log_delta(self, epsilon: Array) -> Array:
        return np.asarray(np.logaddexp.reduce([math.log(w) + pair.log_delta(epsilon) for w, pair in self.choices], axis=0))
