"""What the accountant asks of an ordered pair (P, Q), and logarithms without cancellation.

Pairs made of pairs: Poisson subsampling, the worst of several.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ledgerwood.accounting.curves.numerics import log_ndtr, ndtr
from ledgerwood.errors import ParameterError

__all__ = [
    "Array",
    "Cells",
    "LossPair",
    "MaxPair",
    "SubsampledPair",
    "added",
    "intervals",
    "log1mexp",
    "log_difference",
    "log_normal_interval",
]


Array = npt.NDArray[np.float64]


class Cells(NamedTuple):
    """Cells of the loss axis: log masses of P and Q, mean losses log(p/q), and bounds of the errors of both.

    A mean is -inf where only Q has mass, inf where only P has, and 0 where neither has.
    """

    log_p: Array
    log_q: Array
    mean: Array
    mass_error: Array
    mean_error: Array


class LossPair(ABC):
    """An ordered pair (P, Q), described by the distribution of its loss L = log dP/dQ. Immutable and hashable.

    The defaults are those of a symmetric pair without infinite loss and without a lattice.
    """

    slow: ClassVar[bool] = False
    """Whether a value of the profile takes a tenth of a second: curves then ask for few."""

    @property
    def symmetric(self) -> bool:
        """Whether (Q, P) has the same profile."""
        return self._symmetric()

    @property
    def infinite_mass(self) -> float:
        """P-mass where Q vanishes."""
        return self._infinite_mass()

    @property
    def anchor(self) -> float:
        """A loss that deserves a grid point: an edge or an atom of the distribution."""
        return self._anchor()

    @property
    def lattice(self) -> tuple[float, bool] | None:
        """A spacing that, counted from the anchor, meets all atoms and edges; whether the loss has no other
        values.
        """
        return self._lattice()

    @property
    def rounding(self) -> float:
        """The masses are right to ``rounding * (16 + |log p| + |log q|)`` in the logs; the accountant allows
        for it.
        """
        return self._rounding()

    @property
    def resolution(self) -> float:
        """Rounding moves an edge of a cell by at most ``2**-47 * max(resolution, |edge|)``."""
        return self._resolution()

    def support(self) -> tuple[float, float]:
        """Least and greatest finite loss (may be infinite)."""
        return self._support()

    def log_cells(self, edges: npt.ArrayLike) -> tuple[Array, Array]:
        """Log P- and log Q-mass of the loss in (-inf, e_0], (e_0, e_1], ..., (e_n, inf); n + 2 cells.

        Edges rise. An atom within ``2**-47 * max(resolution, |edge|)`` of an edge may be counted on either side of it.
        """
        array = np.asarray(edges, dtype=float)
        return self._log_cells(array) if len(array) else (np.zeros(1), np.zeros(1))

    def cells(self, edges: npt.ArrayLike) -> Cells:
        """The same n + 2 cells with their mean losses log(p/q).

        Of a rarely sampled release the mean is much smaller than the masses are exact, so the difference of their logs
        would not do.
        """
        return self._cells(np.asarray(edges, dtype=float))

    def log_delta(self, epsilon: npt.ArrayLike) -> Array:
        """Logarithm of the profile, in closed form (one release, no grid)."""
        return self._log_delta(np.asarray(epsilon, dtype=float))

    def rough_epsilon(self, log_delta: float) -> float:
        """About where the profile falls to this δ: a search begins there."""
        return 1.0

    def reversed(self) -> LossPair:
        """The pair (Q, P)."""
        return self._reversed()

    def below(self) -> LossPair:
        """A pair dominated by what this one stands for, for lower ends: itself if it is exact."""
        return self._below()

    @property
    def closed_form(self) -> bool:
        """Whether :meth:`log_delta` can be asked."""
        return self._closed_form()

    def _symmetric(self) -> bool:
        return True

    def _infinite_mass(self) -> float:
        return 0.0

    def _anchor(self) -> float:
        low, high = self._support()
        return high if high < math.inf else low if low > -math.inf else 0.0

    def _lattice(self) -> tuple[float, bool] | None:
        return None

    def _rounding(self) -> float:
        return 2.0**-48

    def _reversed(self) -> LossPair:
        return self

    def _resolution(self) -> float:
        return 1.0

    def _below(self) -> LossPair:
        return self

    def _closed_form(self) -> bool:
        return True

    def _cells(self, edges: Array) -> Cells:
        log_p, log_q = self.log_cells(edges)
        with np.errstate(invalid="ignore"):
            mean = np.nan_to_num(log_p - log_q, nan=0.0, posinf=np.inf, neginf=-np.inf)
        error = self.rounding * (16 + _size(log_p) + _size(log_q))
        return Cells(log_p, log_q, mean, error, error)

    @abstractmethod
    def _support(self) -> tuple[float, float]: ...

    @abstractmethod
    def _log_cells(self, edges: Array) -> tuple[Array, Array]: ...

    @abstractmethod
    def _log_delta(self, epsilon: Array) -> Array: ...


def log1mexp(x: Array) -> Array:
    """Log(1 - e^x) for x <= 0."""
    with np.errstate(divide="ignore"):
        return np.where(x > -math.log(2), np.log(-np.expm1(np.minimum(x, 0.0))), np.log1p(-np.exp(x)))


def log_difference(a: Array, b: Array) -> Array:
    """Log(e^a - e^b), and -inf where b >= a."""
    a, b = np.broadcast_arrays(np.asarray(a, dtype=float), np.asarray(b, dtype=float))
    keep = (b < a) & (a > -np.inf)
    out = np.full(a.shape, -np.inf)
    out[keep] = a[keep] + log1mexp(b[keep] - a[keep])
    return out


def log_normal_interval(a: Array, b: Array, width: Array) -> Array:
    r"""Log(:math:`\Phi(b) - \Phi(a)`), right in relative terms for every width and both tails.

    ``width`` is b - a, given apart because the rounding of a and b may spoil their difference. Narrow
    intervals,
    :math:`w(1 + |m|) \le 1` for width w and centre m, are integrated by an eight-point Gauss rule about the
    centre
    (relative error below 1e-20), the thinnest by a Taylor series, which is quicker; wide ones are differences
    of tails that are not close to each other.
    """
    flip = a + b < 0
    a, b = np.where(flip, -b, a), np.where(flip, -a, b)
    out = np.full(np.shape(a), -np.inf)
    some = width > 0
    with np.errstate(invalid="ignore"):
        centre = (a + b) / 2
        narrow = some & (width * (1 + centre) <= 1)
        thin = some & (width * (1 + centre) <= 0.1)
    narrow &= ~thin
    nodes, weights = np.polynomial.legendre.leggauss(8)
    w, m = width[narrow] / 2, centre[narrow]
    total = np.zeros(w.shape)
    for x, c in zip(nodes, weights, strict=True):
        total += c * np.exp(-w * x * (m + w * x / 2))
    out[narrow] = np.log(w * total) - m * m / 2 - 0.5 * math.log(2 * math.pi)
    w, m = width[thin], centre[thin] ** 2
    u = w * w / 4
    # The mean of e^{-mt - t^2/2} on [-w/2, w/2] is the sum of He_{2k}(m) (w/2)^{2k} / (2k+1)!, whose next term is
    # below (0.05)^10 / 11!.
    series = ((((m - 28) * m + 210) * m - 420) * m + 105) * u / 72 + ((m - 15) * m + 45) * m - 15
    series = u * ((m - 1) / 6 + u * (((m - 6) * m + 3) / 120 + u * series / 5040))
    out[thin] = np.log(w) + np.log1p(series) - m / 2 - 0.5 * math.log(2 * math.pi)
    broad = some & ~narrow & ~thin
    inside = broad & (a <= 0)
    out[inside] = np.log1p(-(ndtr(-b[inside]) + ndtr(a[inside])))
    outside = broad & (a > 0)
    out[outside] = log_difference(log_ndtr(-a[outside]), log_ndtr(-b[outside]))
    return out


def added(parts: Sequence[tuple[float, Cells]]) -> Cells:
    """The cells of a sum of measures, (log weight, cells) each; the mean of p/q - 1 is that of the parts.

    Their masses may be wrong by their mass errors, which shifts the shares in a mean: by as much as the means differ.
    """
    log_p = np.logaddexp.reduce([weight + part.log_p for weight, part in parts], axis=0)
    log_q = np.logaddexp.reduce([weight + part.log_q for weight, part in parts], axis=0)
    with np.errstate(invalid="ignore", over="ignore"):
        plain = np.nan_to_num(log_p - log_q, nan=0.0, posinf=np.inf, neginf=-np.inf)
        of_q = [np.nan_to_num(np.exp(weight + part.log_q - log_q)) for weight, part in parts]
        of_p = [np.nan_to_num(np.exp(weight + part.log_p - log_p)) for weight, part in parts]
        gain = [np.expm1(np.clip(part.mean, -50.0, 50.0)) for _, part in parts]
        small = np.log1p(np.maximum(np.sum([q * g for q, g in zip(of_q, gain, strict=True)], axis=0), -0.9))
    near = np.all([np.abs(part.mean) < 1.0 for _, part in parts], axis=0)
    mean = np.where(near, small, plain)
    mass = np.max([part.mass_error for _, part in parts], axis=0) + 2.0**-50 * (4 + _size(log_p) + _size(log_q))
    error = np.sum([p * part.mean_error for p, (_, part) in zip(of_p, parts, strict=True)], axis=0)
    apart = [np.abs(p - q) for p, q in zip(of_p, of_q, strict=True)]
    error = error + np.sum([share * (mass + 2.0**-50) for share in apart], axis=0) + 2.0**-50 * np.abs(small)
    return Cells(log_p, log_q, mean, mass, np.where(near, error, 2 * mass))


def _size(logs: Array) -> Array:
    return np.where(logs > -np.inf, np.abs(logs), 0.0)


def intervals(edges: Array) -> tuple[Array, Array]:
    """The left and right ends of the n + 2 cells."""
    return np.concatenate(([-np.inf], edges)), np.concatenate((edges, [np.inf]))


@dataclass(frozen=True)
class SubsampledPair(LossPair):
    r"""Poisson subsampling of ``base`` at ``rate`` q, under add/remove neighbours.

    ``base`` = (P0, Q0) dominates the mechanism for removals (P0 with the record, Q0 without it). Then (ZDW
    Theorem 11)
    ``"remove"`` is :math:`((1-q)Q_0 + qP_0,\; Q_0)` and ``"add"`` is its reverse
    :math:`(Q_0,\; (1-q)Q_0 + qP_0)`.
    The loss is the monotone map :math:`\pm\log(1 - q + q e^{l_0})` of the base loss, so cells are the base's
    cells.

    Exact when the base pair is attained by a mechanism that ignores the other records.
    """

    base: LossPair
    rate: float
    direction: Literal["remove", "add"] = "remove"

    def __post_init__(self) -> None:
        if not 0 < self.rate < 1:
            raise ParameterError("rate", "lie in (0, 1)", self.rate, "Rate 1 is the base pair itself.")
        if self.direction not in ("remove", "add"):
            raise ParameterError("direction", "be 'remove' or 'add'", self.direction)

    def _symmetric(self) -> bool:
        return False

    def _infinite_mass(self) -> float:
        return self.rate * self.base.infinite_mass if self.direction == "remove" else 0.0

    def _anchor(self) -> float:
        edge = math.log1p(-self.rate)  # much of the mass may pile up there, where the base loss is very negative
        return edge if self.direction == "remove" else -edge

    def _rounding(self) -> float:
        return self.base.rounding

    def _loss(self, base_loss: float) -> float:
        q = self.rate
        if base_loss > 1:
            return base_loss + math.log(q + (1 - q) * math.exp(-base_loss))
        return math.log1p(q * math.expm1(base_loss))

    def _support(self) -> tuple[float, float]:
        low, high = (self._loss(v) for v in self.base.support())
        return (low, high) if self.direction == "remove" else (-high, -low)

    def _base_edges(self, edges: Array) -> Array:
        """Base losses with log(1 - q + q e^l0) = edge, for edges above log(1 - q)."""
        q = self.rate
        small = np.log1p(np.expm1(np.minimum(edges, 30.0)) / q)
        large = edges - math.log(q) + np.log1p(-(1 - q) * np.exp(-np.maximum(edges, 1.0)))
        return np.where(edges > 1, large, small)

    def _log_cells(self, edges: Array) -> tuple[Array, Array]:
        e = edges
        if self.direction == "add":
            log_p, log_q = SubsampledPair(self.base, self.rate, "remove").log_cells(-e[::-1])
            return log_q[::-1], log_p[::-1]
        below = int(np.searchsorted(np.expm1(np.minimum(e, 1.0)), -self.rate, side="right"))
        log_p0, log_q0 = self.base.log_cells(np.maximum.accumulate(self._base_edges(e[below:])))
        log_p = np.logaddexp(math.log(self.rate) + log_p0, math.log1p(-self.rate) + log_q0)
        empty = np.full(below, -np.inf)
        return np.concatenate((empty, log_p)), np.concatenate((empty, log_q0))

    def _resolution(self) -> float:
        return self.rate * self.base.resolution

    def _below(self) -> LossPair:
        lower = self.base.below()
        return self if lower is self.base else SubsampledPair(lower, self.rate, self.direction)

    def _closed_form(self) -> bool:
        return self.base.closed_form

    def _cells(self, edges: Array) -> Cells:
        """The mean of p/q - 1 is the rate times the base's: nothing cancels, however small the rate."""
        if self.direction == "add":
            log_p, log_q, mean, mass, error = (x[::-1] for x in self._reversed()._cells(-edges[::-1]))
            return Cells(log_q, log_p, -mean, mass, error)
        rate = self.rate
        below = int(np.searchsorted(np.expm1(np.minimum(edges, 1.0)), -rate, side="right"))
        base = self.base.cells(np.maximum.accumulate(self._base_edges(edges[below:])))
        with np.errstate(divide="ignore"):
            small = np.log1p(rate * np.expm1(np.minimum(base.mean, 1.0)))
            large = base.mean + np.log(rate + (1 - rate) * np.exp(-np.maximum(base.mean, 1.0)))
        mean = np.where(base.mean > 1, large, small)
        inner = np.where(np.isinf(base.mean), 0.0, base.mean)  # no error where only P or only Q has mass
        slope = np.exp(np.minimum(math.log(rate) + inner - np.where(np.isinf(mean), 0.0, mean), 0.0))  # dL/dL0
        log_p = np.logaddexp(math.log(rate) + base.log_p, math.log1p(-rate) + base.log_q)
        cells = Cells(log_p, base.log_q, mean, base.mass_error, slope * base.mean_error + 2.0**-50 * np.abs(small))
        empty = Cells(*(np.full(below, fill) for fill in (-np.inf, -np.inf, 0.0, 0.0, 0.0)))
        return Cells(*(np.concatenate(both) for both in zip(empty, cells, strict=True)))

    def _log_delta(self, epsilon: Array) -> Array:
        r"""With :math:`x = e^\varepsilon`: :math:`q\,\delta_0((x-1+q)/q)`, or
        :math:`(1-x(1-q))\,\delta_0^{rev}(xq/(1-x(1-q)))` for additions.
        """
        eps = epsilon
        q = self.rate
        if self.direction == "remove":
            inside = np.expm1(np.minimum(eps, 1.0)) > -q
            values = math.log(q) + self.base.log_delta(self._base_edges(np.where(inside, eps, 0.0)))
            return np.where(inside, values, log1mexp(np.minimum(eps, 0.0)))
        log_share = eps + math.log1p(-q)
        inside = log_share < 0
        log_rest = log1mexp(np.where(inside, log_share, -1.0))
        at = np.where(inside, eps + math.log(q) - log_rest, 0.0)
        return np.where(inside, log_rest + self.base.reversed().log_delta(at), -np.inf)

    def _reversed(self) -> SubsampledPair:
        return SubsampledPair(self.base, self.rate, "add" if self.direction == "remove" else "remove")


@dataclass(frozen=True)
class MaxPair(LossPair):
    r"""The pair whose profile is the pointwise maximum of several: parallel composition under add/remove.

    A maximum of profiles (convex in :math:`x = e^\varepsilon`, between :math:`(1-x)_+` and 1) is a profile.
    At an edge its one-sided
    derivatives are those of the pair that attains the maximum there, and the mass of a cell is the
    difference of
    the tails at its two ends, so the cells follow from the pairs' own.
    """

    pairs: tuple[LossPair, ...]

    def __init__(self, pairs: Sequence[LossPair]) -> None:
        if not pairs:
            raise ParameterError("pairs", "hold at least one pair", pairs)
        object.__setattr__(self, "pairs", tuple(pairs))

    def _symmetric(self) -> bool:
        return all(pair.symmetric for pair in self.pairs)

    def _infinite_mass(self) -> float:
        return max(pair.infinite_mass for pair in self.pairs)

    def _below(self) -> LossPair:
        return MaxPair([pair.below() for pair in self.pairs])

    def _closed_form(self) -> bool:
        return all(pair.closed_form for pair in self.pairs)

    def _rounding(self) -> float:
        return 2.0**-40  # where the maximum changes hands, a mass is the difference of two tails

    def _support(self) -> tuple[float, float]:
        return min(pair.support()[0] for pair in self.pairs), max(pair.support()[1] for pair in self.pairs)

    def _log_cells(self, edges: Array) -> tuple[Array, Array]:
        e = edges
        cells = [pair.log_cells(e) for pair in self.pairs]
        above_p = np.array([np.logaddexp.accumulate(p[::-1])[::-1] for p, _ in cells])  # mass of cells i, i+1, ...
        above_q = np.array([np.logaddexp.accumulate(q[::-1])[::-1] for _, q in cells])
        profile = np.array([pair.log_delta(e) for pair in self.pairs])
        best = np.argmax(profile, axis=0)  # at edge i, which has the tail of cells i+1, i+2, ...
        left, right = np.append(best[0], best), np.append(best, best[-1])
        columns = np.arange(len(left))
        own = np.array([p for p, _ in cells])[left, columns], np.array([q for _, q in cells])[left, columns]
        p = log_difference(above_p[left, columns], np.append(above_p[right[:-1], columns[1:]], -np.inf))
        q = log_difference(above_q[left, columns], np.append(above_q[right[:-1], columns[1:]], -np.inf))
        return np.where(left == right, own[0], p), np.where(left == right, own[1], q)

    def _log_delta(self, epsilon: Array) -> Array:
        return np.asarray(np.max([pair.log_delta(epsilon) for pair in self.pairs], axis=0))

    def _reversed(self) -> MaxPair:
        return MaxPair([pair.reversed() for pair in self.pairs])
