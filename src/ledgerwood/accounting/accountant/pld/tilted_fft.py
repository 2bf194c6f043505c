r"""Sums of independent losses on a grid by FFT, exponentially tilted, with a bound on every rounding error.

With :math:`\tilde p_j \propto p_j e^{\lambda l_j}` and M the normaliser, the hockey stick of the k-fold sum
is

.. math:: \delta(\varepsilon) = M^k e^{-\lambda\varepsilon} \sum_{l > \varepsilon} \tilde c(l)\,
e^{-\lambda(l-\varepsilon)} (1 - e^{-(l-\varepsilon)}),
          \qquad \tilde c = \tilde p^{*k},

so an absolute error of :math:`\tilde c` becomes an error relative to the Chernoff bound
:math:`M^k e^{-\lambda\varepsilon}`, however small delta is.

The bounds used (derived in ``docs/theory/privacy-loss-distributions.md``): for a transform of length
:math:`N = 2^m`, with unit roundoff u,
:math:`|\Delta F_j| \le \gamma \|p\|_1` and :math:`\|\Delta F\|_2 \le \gamma \|F\|_2`, :math:`\gamma = 8 m u`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ledgerwood.accounting.accountant.pld.discretization import GridLoss
from ledgerwood.accounting.curves.dominating_pairs.base import Array

__all__ = ["Bracket", "GridPart", "TiltedSum", "log_moment", "tilted_moments", "tilted_sum"]

UNIT_ROUNDOFF = 2.0**-53
TAIL = 1e-14
"""Tilted probability left outside the window on each side."""
LIGHT = -46.0
"""Tilted masses below e^LIGHT count for nothing in the bound of the masses' rounding but their own sum."""

FAR = 45.0
"""Terms of a hockey stick are left out where the tilt makes them smaller than e^-FAR."""
WORTH_MORE = 1e-7
"""A bound of a part's error as large as this, relative to the answer, is worth a second bound."""

GridPart = tuple[GridLoss, int]
"""A distribution on the grid, and how many times."""


def _log_sum_exp(values: Array) -> float:
    top = float(np.max(values))
    return top + math.log(float(np.sum(np.exp(values - top)))) if top > -math.inf else -math.inf


def _indices(grid_loss: GridLoss) -> Array:
    return np.arange(grid_loss.first, grid_loss.first + len(grid_loss.log_mass), dtype=float)


def log_moment(parts: Sequence[GridPart], step: float, order: float) -> float:
    """Log of the total moment E[e^{order * loss}] of the sum."""
    return sum(
        count * _log_sum_exp(grid_loss.log_mass + (order * step) * _indices(grid_loss)) for grid_loss, count in parts
    )


def tilted_moments(parts: Sequence[GridPart], step: float, tilt: float) -> tuple[float, float]:
    """Mean and variance of the tilted sum."""
    mean, variance = 0.0, 0.0
    for grid_loss, count in parts:
        loss = _indices(grid_loss) * step
        exponent = grid_loss.log_mass + tilt * loss
        p = np.exp(exponent - np.max(exponent))
        p /= np.sum(p)
        m = float(np.sum(p * loss))
        mean += count * m
        variance += count * float(np.sum(p * (loss - m) ** 2))
    return mean, variance


class Bracket(NamedTuple):
    """Logs of a lower and an upper bound of delta; about how fast its log falls, and what the transform adds to it."""

    low: float
    high: float
    slope: float
    transform: float


@dataclass(frozen=True)
class TiltedSum:
    """The tilted distribution of a sum on the window ``first, first + 1, ...`` of the grid, and what bounds its
    errors.
    """

    step: float
    tilt: float
    first: int
    mass: Array
    log_scale: float
    """Log of the normaliser M^k."""
    relative_error: float
    """Every true mass lies within this factor of an exact convolution's."""
    norm_error: float
    """Two-norm of the error of ``mass`` made here."""
    part_errors: tuple[tuple[float, float, float], ...]
    """Of each part that has an error: the two-norm of what it does to ``mass``; or else the untilted mass of the error,
    relative to the part's, and how far above the part's mean it may be moved.
    """
    part_norm: float
    """Two-norm of what the errors of all parts do to ``mass``."""
    part_tilted: float
    """One-norm of the same."""
    outside: float
    """Bound of the tilted mass beyond either end of the window (its aliases are in the window)."""
    log_upper_tail: float
    """Log of a bound of the untilted mass above the window."""
    wide: bool = False
    """Whether extended precision was asked for."""

    def _weighted(self, epsilon: float) -> tuple[float, float, float]:
        """The hockey stick over M^k e^{-tilt epsilon}, the mass that was left out of it, and its slope."""
        start = max(0, math.floor(epsilon / self.step) + 1 - self.first)
        end = len(self.mass)
        if self.tilt > 0:  # beyond this the weight is below e^-FAR, and all the mass there below 2
            end = min(end, start + math.ceil(FAR / (self.tilt * self.step)))
        gap = np.arange(self.first + start, self.first + end) * self.step - epsilon
        gap = np.maximum(gap, 0.0)
        turned = np.exp(-self.tilt * gap) * self.mass[start:end]
        total = float(np.sum(turned * -np.expm1(-gap)))
        return total, 2 * math.exp(-FAR) if end < len(self.mass) else 2.0**-1060, float(np.sum(turned)) - total

    @cached_property
    def _chunks(self) -> tuple[int, Array]:
        """A number of points over which the weights hardly change, and sums of the sizes of so many masses."""
        size = max(1, min(64, int(0.05 / max(self.tilt * self.step, 1e-300))))
        return size, np.add.reduceat(np.abs(self.mass), np.arange(0, len(self.mass), size))

    def _at_most(self, epsilon: float) -> tuple[float, float]:
        """Upper bounds of the sum of the sizes of all terms of the hockey stick, and of the two-norm of its weights."""
        size, sums = self._chunks
        left = (self.first + size * np.arange(len(sums))) * self.step - epsilon
        # In a chunk the weight is at most that of its first point, e^{-tilt gap}, times that of its last, 1 - e^{-gap}.
        weight = np.exp(-self.tilt * np.maximum(left, 0.0)) * -np.expm1(-np.maximum(left + size * self.step, 0.0))
        top = float(np.max(weight))  # taken out, or the squares underflow long before the weights
        norm = top * math.sqrt(size * float(np.sum((weight / top) ** 2))) if top > 0 else 0.0
        return float(np.sum(weight * sums)) * (1 + 2.0**-30) + 2.0**-1060, norm * (1 + 2.0**-30)

    def hockey_stick(self, epsilon: float) -> Bracket:
        """Logs of a lower and an upper bound of the sum's hockey stick (without its infinite mass)."""
        value, slack, slope = self._weighted(epsilon)
        sizes, norm = self._at_most(epsilon)
        transform = self.norm_error * norm
        slack += transform + sizes * 2.0**-46
        # What lies below the window sits, aliased, at losses of too small a weight: for an epsilon below the window it
        # must be added at its greatest weight, and for the lower end it may have to be taken away.
        stray = self.outside * _greatest_weight(self.tilt)
        below_window = epsilon < self.first * self.step
        for part_norm, part_mass, move in self.part_errors:
            of_part = part_norm * norm
            if of_part > WORTH_MORE * value and self.tilt * move < 600:
                moved, further = self._at_most(epsilon - move)
                reach = math.exp(self.tilt * move) * (moved + self.norm_error * further)
                of_part = min(of_part, part_mass * (reach + stray))
            slack += of_part
        log_front = self.log_scale - self.tilt * epsilon
        rounding = self.relative_error + 2.0**-49 * (abs(self.log_scale) + abs(self.tilt * epsilon) + 16)
        upper, lower = value + slack + (stray if below_window else 0.0), value - slack - stray
        log_upper = log_front + math.log(upper) + rounding if upper > 0 else -math.inf
        log_lower = log_front + math.log(lower) - rounding if lower > 0 else -math.inf
        return Bracket(
            log_lower,
            float(np.logaddexp(log_upper, self.log_upper_tail)),
            slope / value if value > 0 else math.inf,
            transform / value if value > 0 else math.inf,
        )


def _greatest_weight(tilt: float) -> float:
    """Supremum over t > 0 of e^{-tilt t}(1 - e^{-t}), attained at e^{-t} = tilt / (1 + tilt)."""
    return (tilt / (1 + tilt)) ** tilt / (1 + tilt) if tilt > 0 else 1.0


class _Tilted:
    """The parts tilted and normalised; their coarse picture finds the order of a Chernoff bound, the parts prove it.

    With ``rare`` n, the two parts are a step's bulk B, k times, and its tails K; the result is the sum over j up to k
    of the binomial coefficients of n over j times B^{k-j} K^j.
    """

    def __init__(self, parts: Sequence[GridPart], step: float, tilt: float, rare: int | None) -> None:
        self.step, self.parts, self.tilt = step, parts, tilt
        self.part_tilted = 0.0
        self.part_errors: list[tuple[float, float, float]] = []
        self.log_p: list[Array] = []
        self.p: list[Array] = []
        self._picture: list[tuple[Array, Array]] = []
        norms, variances, roundings = [], [], []
        for grid_loss, count in parts:
            loss = _indices(grid_loss) * step
            exponent = grid_loss.log_mass + tilt * loss
            norm = _log_sum_exp(exponent)
            log_p = exponent - norm
            p = np.exp(log_p)
            heavy = log_p > LIGHT
            size = np.abs(grid_loss.log_mass[heavy]) + np.abs(tilt * loss[heavy])
            norms.append(norm)
            roundings.append(2.0**-51 * (float(np.max(size)) + abs(norm) + 8) * (1 + 1e-9))
            self.log_p.append(log_p)
            self.p.append(p)
            if grid_loss.log_error > -math.inf:
                self._errors_of(grid_loss, count, loss, norm)
            starts = np.arange(0, len(p), max(1, len(p) // 256))
            mass = np.add.reduceat(p, starts)
            mean = np.add.reduceat(p * loss, starts) / np.maximum(mass, 2.0**-1000)
            variances.append(float(mass @ mean**2) - (float(mass @ mean) ** 2 if rare is None else 0.0))
            keep = mass > 0
            self._picture.append((np.log(mass[keep]), mean[keep]))
        if rare is None:
            self.counts = np.array([[float(count) for _, count in parts]])
            log_weights = np.zeros(1)
        else:
            most = parts[0][1]
            j = np.arange(most + 1.0)
            self.counts = np.stack((most - j, j), axis=1)
            log_weights = np.concatenate(([0.0], np.cumsum(np.log((rare - j[:-1]) / (j[:-1] + 1)))))
        log_weights = log_weights + self.counts @ np.array(norms)
        self.log_scale = _log_sum_exp(log_weights)
        self.log_weights = log_weights - self.log_scale
        weights = np.exp(self.log_weights)
        mean_counts = weights @ self.counts
        self.relative = float(np.max(self.counts @ np.array(roundings))) + (0.0 if rare is None else 2.0**-44)
        self.variance = float(mean_counts @ np.array(variances))
        first = np.array([float(grid_loss.first) for grid_loss, _ in parts])
        last = np.array([float(grid_loss.first + len(grid_loss.log_mass) - 1) for grid_loss, _ in parts])
        self.lowest = step * float(np.min(self.counts @ first))
        self.highest = step * float(np.max(self.counts @ last))
        scale = math.sqrt(-2 * math.log(TAIL) / max(self.variance, (1e-3 * step) ** 2))
        self._orders = scale * np.geomspace(1e-4, 1e2, 49)

    def _errors_of(self, grid_loss: GridLoss, count: int, loss: Array, norm: float) -> None:
        turn = (self.tilt - grid_loss.error_tilt) * loss
        turned = float(max(turn[0], turn[-1])) - norm
        mass_error = math.exp(min(grid_loss.log_error_mass + turned, 300.0))
        further = count * math.exp(min(count * mass_error, 300.0))
        norm_error = 1.01 * further * math.exp(min(grid_loss.log_error + turned, 300.0))
        self.part_tilted += further * mass_error
        # The untilted error; by Jensen a part is at least its mass at log(p/q).
        total, q_total = _log_sum_exp(grid_loss.log_mass), _log_sum_exp(grid_loss.log_mass - loss)
        ratio = math.exp(min(grid_loss.log_error_mass - grid_loss.error_tilt * float(loss[0]) - total, 300.0))
        mass = 1.01 * count * ratio * math.exp(min(count * ratio, 300.0))
        self.part_errors.append((norm_error, mass, (float(loss[-1]) - (total - q_total)) * (1 + 1e-9)))

    def _mixed(self, moments: Array) -> Array:
        """Log moments of the distribution at some orders from those of the parts."""
        exponent = self.log_weights[:, None] + self.counts @ moments
        top = exponent.max(axis=0)
        return np.asarray(top + np.log(np.exp(exponent - top).sum(axis=0)))

    def _rough(self, orders: Array) -> Array:
        moments = np.empty((len(self._picture), len(orders)))
        for i, (log_p, loss) in enumerate(self._picture):
            exponent = log_p + np.multiply.outer(orders, loss)
            top = exponent.max(axis=1, keepdims=True)
            moments[i] = top[:, 0] + np.log(np.exp(exponent - top).sum(axis=1))
        return self._mixed(moments)

    def _log_moment(self, order: float) -> float:
        moments = [
            _log_sum_exp(log_p + (order * self.step) * _indices(grid_loss))
            for log_p, (grid_loss, _) in zip(self.log_p, self.parts, strict=True)
        ]
        return float(self._mixed(np.array(moments)[:, None])[0])

    def end(self, sign: int, log_tail: float) -> tuple[float, float]:
        """A loss beyond which the sum has at most so much tilted mass, and that mass: Chernoff, or the support."""
        extreme = self.highest if sign > 0 else self.lowest
        ends = (self._rough(sign * self._orders) - log_tail) / self._orders
        order = float(self._orders[int(np.argmin(ends))])
        end = sign * (self._log_moment(sign * order) - log_tail) / order
        if (
            sign * end > 1.1 * float(np.min(ends)) + self.step
        ):  # the picture has no tail on this side: look at all of it
            exact = [(self._log_moment(sign * o) - log_tail) / o for o in self._orders[::2].tolist()]
            end = sign * min(sign * end, *exact)
        if sign * end >= sign * extreme:
            return extreme, 0.0
        return end, math.exp(log_tail)

    def end_above(self, log_mass: float) -> float:
        """A loss above which the sum has at most so much mass, untilted."""
        orders = np.concatenate((self._orders, -self._orders[self._orders < 0.99 * self.tilt]))
        ends = (self._rough(orders) + self.log_scale - log_mass) / (orders + self.tilt)
        return min(float(np.min(ends)) * (1 + 1e-3) + 1e-3 * abs(float(np.min(ends))), self.highest)

    def log_tail(self, end: float) -> tuple[float, float]:
        """Logs of bounds of the untilted and of the tilted mass above a loss."""
        if end >= self.highest - 1e-6 * self.step:
            return -math.inf, -math.inf
        orders = np.concatenate((self._orders, -self._orders[self._orders < self.tilt], [0.0]))
        logs = self._rough(orders) - orders * end
        above = float(orders[int(np.argmin(logs))])
        order = float(max(above, 0.0))
        untilted = self.log_scale + self._log_moment(above) - (above + self.tilt) * end + self.relative
        return untilted + 2.0**-40, min(0.0, self._log_moment(order) - order * end + 2.0**-40)


def tilted_sum(
    parts: Sequence[GridPart],
    step: float,
    tilt: float,
    limit: int,
    *,
    tail: float = TAIL,
    highest: float = math.inf,
    log_lost: float | None = None,
    rare: int | None = None,
    wide: bool = False,
) -> TiltedSum | int:
    """Compose by FFT; the length needed instead, when it exceeds ``limit``.

    With ``rare`` n and two parts, a step's bulk B with count k and its tails K: the sum over j up to k of the binomial
    coefficients of n over j times B^{k-j} K^j, the runs of k steps of which n might be in the tails and j are. ``wide``
    asks for extended precision, for distributions that will be composed many more times.

    The window leaves ``tail`` of the tilted mass on each side, and ends at ``highest`` at the latest; about
    ``exp(log_lost)`` of the mass may lie above it, if given.
    """
    tilted = _Tilted(parts, step, tilt, rare)
    low, tail_low = tilted.end(-1, math.log(tail))
    high, _ = tilted.end(+1, math.log(tail))
    if log_lost is not None:
        high = max(high, tilted.end_above(log_lost))
    start = math.floor(low / step + 1e-6)
    length = max(math.ceil(min(high, highest) / step - 1e-6) - start + 1, 2)
    size = 1 << max(4, (length - 1).bit_length())
    if size > limit:
        return size
    log_untilted, log_above = tilted.log_tail((start + size - 1) * step)  # the rest of the transform is used too
    bits = size.bit_length() - 1
    # Extended precision where the platform has it: the type that the transform returns says its unit roundoff.
    kind = np.longdouble if wide else np.float64
    factors = [
        np.fft.rfft(_ring(p, grid_loss.first, size).astype(kind))
        for p, (grid_loss, _) in zip(tilted.p, parts, strict=True)
    ]
    unit = float(np.finfo(factors[0].real.dtype).eps) / 2
    gamma = 8 * bits * unit
    if rare is None:
        product, forward = _product(factors, [count for _, count in parts], gamma, unit)
    else:
        product = _polynomial(factors[0], factors[1], tilted.log_weights)
        forward = 2 * len(tilted.log_weights) * (gamma + 8 * unit)  # each term is at most its weight
    mass = np.fft.irfft(product, size).astype(float)
    inverse = (gamma + UNIT_ROUNDOFF * 2.0**-10) * float(np.sqrt(np.sum(mass * mass))) / (1 - gamma)
    return TiltedSum(
        step,
        tilt,
        start,
        np.roll(mass, -(start % size)),
        tilted.log_scale,
        tilted.relative,
        1.01 * (forward + inverse),
        tuple(tilted.part_errors),
        sum(norm for norm, _, _ in tilted.part_errors),
        1.01 * tilted.part_tilted,
        2 * (tail_low + math.exp(log_above)),
        log_untilted,
        wide,
    )


def _product(factors: list[np.ndarray], counts: list[int], gamma: float, unit: float) -> tuple[np.ndarray, float]:
    """The product of powers, and a bound of the two-norm that its error has after the inverse transform."""
    product = np.ones_like(factors[0])
    log_reach = np.zeros(len(product))
    share = np.zeros(len(product))
    for factor, count in zip(factors, counts, strict=True):
        reach = np.abs(factor).astype(float) + (gamma + 2.0**-50)
        log_reach += count * np.log(reach)
        share += count * (gamma + 8 * unit) / reach
        product *= _power(factor, count)
    error = np.exp(log_reach) * share + sum(counts) * 2.0**-1000
    return product, math.sqrt(float(np.sum(error * error)) / (len(product) - 1))


def _polynomial(bulk: np.ndarray, tails: np.ndarray, log_weights: Array) -> np.ndarray:
    """The sum of e^{w_j} bulk^{k-j} tails^j."""
    total = np.zeros_like(bulk)
    power = np.ones_like(bulk)
    for weight in np.exp(log_weights[::-1]).tolist():  # Horner in the tails, the powers of the bulk on the way
        total *= tails
        total += weight * power
        power *= bulk
    return total


def _ring(p: Array, first: int, size: int) -> Array:
    """Masses at indices modulo the size of the transform."""
    if len(p) <= size:
        start = first % size
        ring = np.zeros(size)
        head = min(len(p), size - start)
        ring[start : start + head] = p[:head]
        ring[: len(p) - head] += p[head:]
        return ring
    return np.asarray(np.bincount(np.arange(first, first + len(p)) % size, weights=p, minlength=size), dtype=float)


def _power(base: np.ndarray, exponent: int) -> np.ndarray:
    """Integer power by squaring: a relative error of at most sqrt(5) u per factor of the product."""
    result = np.ones_like(base)
    while exponent:
        if exponent & 1:
            result = result * base
        exponent >>= 1
        if exponent:
            base = base * base
    return result
