r"""Private quantiles and ranks: the exponential mechanism over a grid of thresholds, however fine.

Each record is first mapped to the nearest point of the grid ``lower, lower + step, ..., upper`` (records outside go
to the ends, nan to the lower one); a function of the record alone, so nothing about it can change the sensitivity.
The score of a threshold is constant between neighbouring records, so the grid is never listed: a gap is chosen with
weight (number of its points) times exp(c score), then a point in it uniformly. The distribution is that of the
exponential mechanism over all points, exactly.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ledgerwood import _checks
from ledgerwood._rounding import ratio_down
from ledgerwood.accounting import BoundedRange
from ledgerwood.errors import ParameterError
from ledgerwood.mechanisms.base import LARGEST_INTEGER, coerce_floats, real_array
from ledgerwood.mechanisms.randomness import Rng, source_of
from ledgerwood.mechanisms.sampling import choice
from ledgerwood.mechanisms.sampling.exact import Reader

__all__ = ["QuantileMechanism", "RankMechanism"]


@dataclass(frozen=True, slots=True)
class _Gaps:
    """Runs of grid points between the records: first point, number of points, records below and above."""

    first: NDArray[np.int64]
    points: NDArray[np.int64]
    below: NDArray[np.int64]
    above: NDArray[np.int64]


class _ThresholdSelection(ABC):
    """The exponential mechanism over the grid, by integer scores that depend on the records below and above."""

    __slots__ = ()
    epsilon: float
    lower: float
    upper: float
    step: float
    neighbours: str

    @property
    @abstractmethod
    def range_sensitivity(self) -> int:
        """R of the integer scores."""

    @abstractmethod
    def _scored(self, records: ArrayLike) -> tuple[_Gaps, NDArray[np.int64]]: ...

    @property
    def sensitivity(self) -> int:
        """The range sensitivity of the scores that ranks have."""
        return self.range_sensitivity

    @property
    def cost(self) -> BoundedRange:
        """epsilon-bounded-range."""
        return BoundedRange(self.epsilon, neighbours=self.neighbours)

    def log_probabilities(self, records: ArrayLike) -> NDArray[np.float64]:
        """Logarithms of the probabilities of all grid points; for small grids."""
        gaps, scores = self._scored(records)
        x = self._coefficient * np.repeat(scores - scores.max(), gaps.points).astype(np.float64)
        return np.asarray(x - np.log(np.sum(np.exp(x))))

    def probabilities(self, records: ArrayLike) -> NDArray[np.float64]:
        """Probabilities of all grid points; for small grids."""
        return np.exp(self.log_probabilities(records))

    def check(self, records: ArrayLike) -> None:
        """Raise an error if the value breaks the contract; nothing is drawn. A ledger asks before it spends."""
        self._scored(records)

    def release(self, records: ArrayLike, rng: Rng = None) -> float:
        """Return the selected threshold."""
        gaps, scores = self._scored(records)
        source = source_of(rng)
        exponents = choice.Exponents.below_the_best(Fraction(self._coefficient), scores)
        i = choice.choose(exponents, source, gaps.points)
        point = int(gaps.first[i]) + Reader(source).below(int(gaps.points[i]))
        return self.lower + point * self.step + 0.0

    @property
    def _coefficient(self) -> float:
        return ratio_down(self.epsilon, self.range_sensitivity)

    def _points(self) -> int:
        """Number of grid points."""
        if not (math.isfinite(self.lower) and math.isfinite(self.upper) and self.lower < self.upper):
            raise ParameterError("lower", "be below upper, both finite", self.lower)
        count = math.floor((Fraction(self.upper) - Fraction(self.lower)) / Fraction(self.step)) + 1
        if not math.isfinite(self.upper - self.lower):
            raise ParameterError("upper", "be at a finite distance from lower", self.upper)
        if not 2 <= count <= 2**53:
            raise ParameterError("step", "make a grid of 2 to 2**53 points", self.step)
        return count

    def _gaps(self, records: ArrayLike) -> _Gaps:
        array = real_array("records", records).astype(np.float64)
        if array.ndim != 1:
            raise ParameterError("records", "be a vector", f"<shape {array.shape}>")
        count = self._points()
        with np.errstate(over="ignore", invalid="ignore"):
            z = (np.where(np.isnan(array), self.lower, array) - self.lower) / self.step
        place: NDArray[np.int64] = np.rint(np.clip(z, 0, count - 1)).astype(np.int64)
        at, many = np.unique(place, return_counts=True)
        through = np.concatenate(([0], np.cumsum(many)))
        n = int(through[-1])
        # Alternately the open gap before a record's point and that point itself; at the end the gap after the last.
        first = np.zeros(2 * len(at) + 1, dtype=np.int64)
        first[1::2], first[2::2] = at, at + 1
        points = np.diff(np.append(first, count))
        below = np.append(np.repeat(through[:-1], 2), n)
        above = n - np.repeat(through, 2)[: 2 * len(at) + 1]
        above[1::2] = n - through[1:]
        some = points > 0
        return _Gaps(first[some], points[some], below[some], above[some])


@dataclass(frozen=True, slots=True)
class QuantileMechanism(_ThresholdSelection):
    r"""Selects a threshold that about a share ``quantile`` of the records lies below.

    With quantile = a / b, L records below a threshold and G above it: score ``-|(b - a) L - a G|``.
    **Range sensitivity** under add/remove: with A = (b-a) L - a G, increasing in the threshold, a record added at x
    moves A by b - a to its right, by -a to its left, by 0 at x. If some abs(A) left of x falls, then A > 0 there, and
    everything to the right has abs(A) rising by b - a; left of x no abs(A) changes by more than a: range at most a +
    max(a, b-a). The mirror image gives (b-a) + max(a, b-a). So R = 2 max(a, b-a). Replacing a record moves A by at
    most b, and only between its old and new place: R = 2 b.

    Parameters
    ----------
    epsilon : float
        The price, epsilon-bounded-range.
    quantile : float
        In (0, 1); rounded to a fraction with denominator at most 1000.
    lower, upper : float
        Range of the thresholds, declared without looking at the data.
    step : float
        Distance of neighbouring thresholds; up to 2**53 of them.
    neighbours : str
        The neighbouring relation.

    Examples
    --------
    >>> m = QuantileMechanism(epsilon=2.0, quantile=0.5, lower=0.0, upper=100.0, step=0.25)
    >>> 45 < m.release(np.arange(101.0)) < 55
    True
    >>> m.cost
    BoundedRange(epsilon=2.0)
    """

    epsilon: float
    quantile: float
    lower: float
    upper: float
    step: float
    neighbours: str = "add_remove"

    def __post_init__(self) -> None:
        coerce_floats(self, "epsilon", "quantile", "step")
        if not 0 < self.quantile < 1 or not 0 < self._fraction < 1:
            raise ParameterError("quantile", "lie between 0 and 1, at least 0.001 from both", self.quantile)
        _ = self._points(), self.cost

    @property
    def _fraction(self) -> Fraction:
        return Fraction(self.quantile).limit_denominator(1000)

    @property
    def range_sensitivity(self) -> int:
        """R of the integer scores."""
        a, b = self._fraction.numerator, self._fraction.denominator
        return 2 * max(a, b - a) if self.neighbours == "add_remove" else 2 * b

    def _scored(self, records: ArrayLike) -> tuple[_Gaps, NDArray[np.int64]]:
        gaps = self._gaps(records)
        a, b = self._fraction.numerator, self._fraction.denominator
        return gaps, -np.abs((b - a) * gaps.below - a * gaps.above)


@dataclass(frozen=True, slots=True)
class RankMechanism(_ThresholdSelection):
    """Selects a threshold with about ``rank`` records below it (``side="below"``) or above it (``side="above"``).

    Score ``-|number below (or above) - rank|``, an integer. A record added on that side moves the number by one, at
    every threshold beyond it: up where the number was too small, down where it was large enough, so R = 2; replacing a
    record moves it only between the two places, by one: R = 2 as well.

    Parameters are those of :class:`QuantileMechanism`, with a number of records in place of a share.

    Examples
    --------
    >>> m = RankMechanism(epsilon=2.0, rank=10, side="above", lower=0.0, upper=128.0, step=1.0)
    >>> 80 < m.release(np.arange(101.0)) < 100
    True
    """

    epsilon: float
    rank: int
    lower: float
    upper: float
    step: float
    side: str = "below"
    neighbours: str = "add_remove"

    def __post_init__(self) -> None:
        coerce_floats(self, "epsilon", "step")
        if _checks.integer("rank", self.rank, 0, None) > LARGEST_INTEGER:
            raise ParameterError("rank", "be at most 2**61", self.rank)
        if self.side not in ("below", "above"):
            raise ParameterError("side", "be 'below' or 'above'", self.side)
        _ = self._points(), self.cost

    @property
    def range_sensitivity(self) -> int:
        """R of the integer scores."""
        return 2

    def _scored(self, records: ArrayLike) -> tuple[_Gaps, NDArray[np.int64]]:
        gaps = self._gaps(records)
        number = gaps.below if self.side == "below" else gaps.above
        return gaps, -np.abs(number - self.rank)
