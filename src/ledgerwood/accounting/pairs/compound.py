"""Pairs made of pairs: Poisson subsampling, the worst of several."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ledgerwood.accounting.pairs.base import Array, LossPair, log1mexp, log_difference
from ledgerwood.errors import ParameterError

__all__ = ["MaxPair", "SubsampledPair"]


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
        edge = math.log1p(-self.rate)  # much of the law may pile up there, where the base loss is very negative
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

    def _log_delta(self, epsilon: Array) -> Array:
        r"""With :math:`x = e^\varepsilon`: :math:`q\,\delta_0((x-1+q)/q)`, or
        :math:`(1-x(1-q))\,\delta_0^{rev}(xq/(1-x(1-q)))` for additions.
        """
        eps = epsilon
        q = self.rate
        if self.direction == "remove":
            inside = np.expm1(eps) > -q
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
