r"""Trade-off curves from privacy profiles: how well any test can tell two adjacent datasets apart.

A profile bounds :math:`P(S) \le e^\varepsilon Q(S) + \delta(\varepsilon)` for every event S. So a test with
false-positive rate :math:`\alpha = Q(S)` has a true-positive rate of at most
:math:`\delta(\varepsilon) + e^\varepsilon\alpha`, at every :math:`\varepsilon`; the profile of the reversed pair gives
:math:`1 - e^{-\varepsilon}(1 - \delta'(\varepsilon) - \alpha)`. The least of these is the truth if the profiles are
(docs/theory/trade-off-curves.md). Any set of :math:`\varepsilon` gives a bound, so a table of the profile does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from ledgerwood._checks import Array

_ROUNDING = 2.0**-44
#: So many values of a profile are each asked for.
_FEW = 32
#: Points of a curve at which a Gaussian one is compared with it, lines tried first, and steps of a golden section.
_COMPARED, _THINNED, _SECTIONS = 400, 2000, 70
#: Distances from the best ε, in powers of e, at which a lower end is asked for.
_AROUND, _APART = (0.001, 0.01, 0.02, 0.04, 0.08, 0.2, 0.5, 1.5), 1e-6


@dataclass(frozen=True, eq=False)
class ProfileTable:
    """δ at rising ε, from 0 on: upper bounds in a table, and where they exist functions for both ends.

    ``upper`` is a bound at every ε ≥ 0 that refines the table; ``lower`` is one from below. ``one_pair`` says that the
    lower ends are those of one pair of distributions: only then does a test reach the curve that they make together.
    """

    epsilons: Array
    deltas: Array
    upper: Callable[[float], float] | None = None
    lower: Callable[[Array], Array] | None = None
    one_pair: bool = True

    def at_zero(self) -> float:
        """δ at ε = 0."""
        return float(self.deltas[0])

    def at(self, epsilons: Array) -> Array:
        """Upper bounds of δ at any ε ≥ 0; where many are asked for, all are read off the table."""
        if self.upper is not None and len(epsilons) <= _FEW:
            return np.array([self.upper(e) for e in epsilons.tolist()])
        # Convex in e^ε: the chord of two upper bounds is one. Beyond the table its last bound holds.
        i = np.clip(np.searchsorted(self.epsilons, epsilons, side="right") - 1, 0, max(len(self.epsilons) - 2, 0))
        if len(self.epsilons) == 1:
            return np.full_like(epsilons, self.deltas[0])
        left, right = self.epsilons[i], self.epsilons[i + 1]
        share = np.expm1(np.minimum(epsilons, right) - left) / np.expm1(right - left)
        return np.asarray(((1 - share) * self.deltas[i] + share * self.deltas[i + 1]) * (1 + _ROUNDING))

    def best(self, value: Callable[[Array, Array], Array]) -> tuple[float, float]:
        """The least value of a function of (ε, δ), with its ε; the function is to have one valley."""
        values = value(self.epsilons, self.deltas)
        i = int(np.argmin(values))
        found = (float(values[i]), float(self.epsilons[i]))
        if self.upper is None:
            return found
        ends = float(self.epsilons[max(i - 1, 0)]), float(self.epsilons[min(i + 1, len(values) - 1)])
        upper = self.upper

        def at(epsilon: float) -> float:
            return float(value(np.array([epsilon]), np.array([upper(epsilon)]))[0])

        return min(found, _golden(at, *ends))


def _golden(function: Callable[[float], float], left: float, right: float) -> tuple[float, float]:
    """The least value met by a golden section, and where."""
    ratio = (math.sqrt(5) - 1) / 2
    a, b = right - ratio * (right - left), left + ratio * (right - left)
    at_a, at_b = function(a), function(b)
    best = min((at_a, a), (at_b, b))
    for _ in range(_SECTIONS):
        if not left < a < b < right:
            break
        if at_a <= at_b:
            right, b, at_b = b, a, at_a
            a = right - ratio * (right - left)
            at_a = function(a)
            best = min(best, (at_a, a))
        else:
            left, a, at_a = a, b, at_b
            b = left + ratio * (right - left)
            at_b = function(b)
            best = min(best, (at_b, b))
    return best


@dataclass(frozen=True, eq=False)
class TradeOff:
    """Tests of Q against P: the profile of (P, Q), and that of the reversed pair (Q, P)."""

    forward: ProfileTable
    backward: ProfileTable
    _lines: list[tuple[Array, Array]] = field(default_factory=list, init=False, repr=False)

    def power(self, alpha: float) -> float:
        """An upper bound of the true-positive rate at a false-positive rate."""
        own, _ = self.forward.best(lambda e, d: d + np.exp(np.minimum(e, 700.0)) * alpha)
        turned, _ = self.backward.best(lambda e, d: 1.0 - np.exp(-e) * np.maximum(1.0 - d - alpha, 0.0))
        return min(own * (1 + _ROUNDING), turned + _ROUNDING, 1.0)

    def missed(self, alpha: float) -> float:
        """A lower bound of the false-negative rate: exact in relative terms where it is small."""
        own = 1.0 - self.power(alpha)
        turned, _ = self.backward.best(lambda e, d: -np.exp(-e) * np.maximum(1.0 - d - alpha, 0.0))
        return max(own - _ROUNDING, -turned * (1 - _ROUNDING) - 2 * _ROUNDING * alpha * (turned < 0), 0.0)

    def power_from_below(self, alpha: float) -> float:
        """A lower bound of the true-positive rate of the best test: at least α, which guessing attains."""
        lower = self.forward.lower
        if lower is None or not self.forward.one_pair or not 0 < alpha < 1:
            return alpha
        own, right = self.forward.best(lambda e, d: d + np.exp(np.minimum(e, 700.0)) * alpha)
        turned, left = self.backward.best(lambda e, d: 1.0 - np.exp(-e) * np.maximum(1.0 - d - alpha, 0.0))
        centre = right if own <= turned else -left
        wanted = np.sort([centre + s * d for d in (0.0, *_AROUND) for s in (-1, 1)])
        places = wanted[np.append(True, np.diff(wanted) > _APART)]
        x = np.exp(np.minimum(places, 700.0))
        low = (self.profile_lower(places) + x * alpha) * (1 - 16 * _ROUNDING)
        high = (self.profile(places) + x * alpha) * (1 + 16 * _ROUNDING)
        return max(alpha, _least_of_convex(x, low, high, alpha))

    def profile(self, epsilons: Array) -> Array:
        """Upper bounds of δ at any real ε."""
        return np.asarray(np.minimum(_turned(epsilons, self.forward.at, self.backward.at) * (1 + _ROUNDING), 1.0))

    def profile_lower(self, epsilons: Array) -> Array:
        """Lower bounds of δ at any real ε; that of guessing where none is known."""
        ahead, back = self.forward.lower or np.zeros_like, self.backward.lower or np.zeros_like
        return np.asarray(np.maximum(_turned(epsilons, ahead, back) * (1 - _ROUNDING), 0.0))

    def advantage(self) -> float:
        """An upper bound of the total variation distance, which is the same in both directions."""
        return min(self.forward.at_zero(), self.backward.at_zero())

    def lines(self) -> tuple[Array, Array]:
        """(c, x), x falling: the false-negative rate is at least c - xα at every α, for each line."""
        if not self._lines:
            keep = self.forward.epsilons < 600.0
            x = np.exp(self.forward.epsilons[keep]) * (1 + _ROUNDING)
            c = 1.0 - self.forward.deltas[keep] * (1 + _ROUNDING)
            y = np.exp(-self.backward.epsilons)
            turned = np.maximum(1.0 - self.backward.deltas, 0.0) * y * (1 - _ROUNDING)
            self._lines.append((np.concatenate((c[::-1], turned)), np.concatenate((x[::-1], y * (1 + _ROUNDING)))))
        return self._lines[0]

    def missed_by_lines(self, alpha: Array) -> tuple[Array, npt.NDArray[np.intp]]:
        """Lower bounds of the false-negative rate at rising rates, and which line gives each."""
        c, x = self.lines()
        stride = max(1, len(c) // _THINNED)
        coarse = np.argmax(c[::stride] - np.outer(alpha, x[::stride]), axis=1) * stride
        near = np.clip(coarse[:, None] + np.arange(-stride, stride + 1), 0, len(c) - 1)
        best = near[np.arange(len(alpha)), np.argmax(c[near] - x[near] * alpha[:, None], axis=1)]
        return c[best] - x[best] * alpha - 2.0**-50, best

    def gaussian(self, low: float, high: float) -> tuple[float, float]:
        """A μ so that the Gaussian trade-off is below this one at every α from low to high; and the α that asks for it.

        A Gaussian trade-off is convex: it is below a polygon if it is below its corners. Any choice of lines is valid.
        """
        c, x = self.lines()
        grid = _rates(low, high)
        at_grid, best = self.missed_by_lines(grid)
        a, b = best[:-1], best[1:]
        with np.errstate(divide="ignore", invalid="ignore"):
            corner = (c[a] - c[b]) / (x[a] - x[b])
        corner = np.clip(np.where(np.isfinite(corner), corner, grid[:-1]), grid[:-1], grid[1:])
        at_corner = np.minimum(c[a] - x[a] * corner, c[b] - x[b] * corner) - 2.0**-50
        alpha, beta = np.concatenate((grid, corner)), np.concatenate((at_grid, at_corner))
        if np.any(beta <= 0):
            return math.inf, float(alpha[int(np.argmin(beta))])
        needed = -_quantiles(alpha) - _quantiles(np.minimum(beta, 1 - alpha))
        worst = int(np.argmax(needed))
        return float(needed[worst]) + 2.0**-40, float(alpha[worst])


@dataclass(frozen=True)
class GaussianFit:
    """The least μ whose Gaussian trade-off bounds a cost's over a range of false-positive rates, and only there.

    Attributes
    ----------
    mu
        No test with a false-positive rate in the range does better than one of N(0, 1) against N(μ, 1).
    lower
        No smaller μ than this one has that property (0 if it was not asked for, or is not known).
    excess
        At most this much the Gaussian curve's power exceeds the certified bound of the cost's own, in the range.
    alpha
        The range. Outside it nothing is promised.
    """

    mu: float
    lower: float
    excess: float
    alpha: tuple[float, float]


@dataclass(frozen=True, eq=False)
class RiskCurve:
    """The trade-offs of everything a cost allows: which dataset is the null hypothesis, and which option counts."""

    sides: tuple[TradeOff, ...]
    options: int = 1

    def tpr(self, alpha: float) -> float:
        """An upper bound of the true-positive rate at a false-positive rate."""
        return max(side.power(alpha) for side in self.sides)

    def mean_tpr(self, alpha: float) -> float:
        """An upper bound of the mean true-positive rate of tests whose mean false-positive rate is ``alpha``.

        Different tests may meet different options, so the line at one ε must lie above all of them.
        """
        if self.options == 1:
            return self.tpr(alpha)
        places = [np.concatenate((-side.backward.epsilons[::-1], side.forward.epsilons)) for side in self.sides]
        epsilons = np.unique(np.concatenate(places))
        lines = self.deltas(epsilons) + np.exp(np.minimum(epsilons, 700.0)) * alpha
        return min(float(np.min(lines)) * (1 + _ROUNDING), 1.0)

    def tpr_lower(self, alpha: float) -> float:
        """A true-positive rate that some test reaches."""
        return min(max(side.power_from_below(alpha) for side in self.sides), self.tpr(alpha))

    def tradeoff(self, alpha: float) -> float:
        """A lower bound of the false-negative rate."""
        return min(min(side.missed(alpha) for side in self.sides), 1.0 - alpha)

    def delta(self, epsilon: float) -> float:
        """An upper bound of δ at any real ε."""
        return float(self.deltas(np.array([epsilon]))[0])

    def deltas(self, epsilons: Array) -> Array:
        """Upper bounds of δ at several real ε."""
        return np.asarray(np.max([side.profile(epsilons) for side in self.sides], axis=0))

    def delta_lower(self, epsilon: float) -> float:
        """A lower bound of δ at any real ε."""
        found = max(float(side.profile_lower(np.array([epsilon]))[0]) for side in self.sides)
        return min(found, self.delta(epsilon))

    def advantage(self) -> float:
        """An upper bound of the total variation distance."""
        return max(side.advantage() for side in self.sides)

    def gaussian(self, low: float, high: float, *, ends: bool, known: float | None = None) -> GaussianFit:
        """The least μ over a range of false-positive rates, or one that is known to hold everywhere."""
        mu, alpha = max((side.gaussian(low, high) for side in self.sides), default=(0.0, low))
        mu = mu if known is None else min(mu, known * (1 + _ROUNDING))
        if not math.isfinite(mu):
            return GaussianFit(mu, 0.0, 1.0, (low, high))
        rates = _rates(low, high)
        least = np.min([side.missed_by_lines(rates)[0] for side in self.sides], axis=0)
        power = np.array([NormalDist().cdf(z) for z in (mu + _quantiles(rates)).tolist()])
        excess = float(np.max(power[1:] - np.maximum(1.0 - least, rates)[:-1])) + 2.0**-40  # both rise with the rate
        lower = 0.0
        if ends:
            reached = np.array([alpha, min(self.tpr_lower(alpha), 1 - 2.0**-53)])
            lower = float(np.diff(_quantiles(reached))[0])
        return GaussianFit(max(mu, 0.0), max(min(lower - 2.0**-40, mu), 0.0), min(max(excess, 0.0), 1.0), (low, high))


def _turned(epsilons: Array, ahead: Callable[[Array], Array], back: Callable[[Array], Array]) -> Array:
    r"""δ at any real ε: below 0 it is :math:`1 - e^\varepsilon(1 - \delta')` of the other direction's δ' at -ε."""
    size, found = np.abs(epsilons), np.empty_like(epsilons)
    before = epsilons < 0
    if not before.all():
        found[~before] = ahead(size[~before])
    if before.any():
        found[before] = -np.expm1(-size[before]) + np.exp(-size[before]) * back(size[before])
    return found


def _rates(low: float, high: float) -> Array:
    """False-positive rates from low to high, close to each other near 0 and near 1 too."""
    every = (
        np.geomspace(low, high, _COMPARED),
        np.linspace(low, high, _COMPARED),
        1 - np.geomspace(1 - low, 1 - high, _COMPARED),
    )
    grid = np.unique(np.clip(np.concatenate(every), low, high))
    grid[0], grid[-1] = low, high
    return grid


def _quantiles(shares: Array) -> Array:
    quantile = NormalDist().inv_cdf
    return np.array([quantile(min(max(share, 1e-300), 1 - 2.0**-53)) for share in shares.tolist()])


def _least_of_convex(x: Array, below: Array, above: Array, alpha: float) -> float:
    """A lower bound of the minimum over x ≥ 0 of a convex function between ``below`` and ``above`` at some places.

    Left of a place the line through two places to its right is a bound, and right of it the line through two to its
    left. Outside all places the profile alone is one: it falls, and is at least 1 - x.
    """
    found = [max(below[0] - alpha * x[0], 1.0 - x[0] * (1 - alpha)), alpha * x[-1]]
    for i in range(len(x) - 1):
        left, right = x[i], x[i + 1]
        lines = []  # value at the left end, and at the right one
        if i > 0:
            slope = (below[i] - above[i - 1]) / (x[i] - x[i - 1])
            lines.append((below[i], below[i] + slope * (right - left)))
        if i + 2 < len(x):
            slope = (above[i + 2] - below[i + 1]) / (x[i + 2] - x[i + 1])
            lines.append((below[i + 1] - slope * (right - left), below[i + 1]))
        falling = below[i + 1] - alpha * right + alpha * left  # the profile falls
        lines.append((falling, below[i + 1]))
        found.append(max(_least_of_lines(one, other) for one in lines for other in lines))
    return float(min(found)) * (1 - _ROUNDING)


def _least_of_lines(one: tuple[float, float], other: tuple[float, float]) -> float:
    """The least value on an interval of the greater of two lines, given by their values at its ends."""
    ends = min(max(one[0], other[0]), max(one[1], other[1]))
    start, end = one[0] - other[0], one[1] - other[1]
    if start * end >= 0:
        return ends
    share = start / (start - end)
    return min(ends, one[0] + share * (one[1] - one[0]))
