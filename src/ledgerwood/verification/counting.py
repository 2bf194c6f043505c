"""Laws of a count: how many of a block's fresh outputs fall into an event of unknown probability.

A certificate asks a law for three things: an interval for the probability, and both tails of the count. With a fixed
number of outputs the count is binomial. If their number is drawn from a Poisson law first, the count is Poisson too,
and the counts of disjoint events are independent of each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Binomial", "CountLaw", "Poisson"]

Floats = NDArray[np.float64]

_ROUNDING = 1e-9  # relative slack for the incomplete beta and gamma functions


class CountLaw(Protocol):
    """The law of a count out of ``n`` outputs (on average)."""

    @property
    def n(self) -> int: ...

    def interval(self, hits: int, error: float) -> tuple[float, float]:
        """Two-sided interval for the probability; each side errs with probability at most ``error / 2``."""
        ...

    def at_least(self, counts: Floats, p: Floats) -> Floats:
        """P(count >= c) for every probability (rows) and every c (columns)."""
        ...

    def below(self, counts: Floats, p: Floats) -> Floats:
        """P(count < c) for every probability (rows) and every c >= 1 (columns)."""
        ...


@dataclass(frozen=True, slots=True)
class Binomial:
    """``n`` outputs. The interval is Clopper's and Pearson's (1934).

    >>> low, high = Binomial(100).interval(0, 0.05)
    >>> low, round(high, 4)
    (0.0, 0.0362)
    """

    n: int

    def interval(self, hits: int, error: float) -> tuple[float, float]:
        from scipy.special import betaincinv

        n = self.n
        low = 0.0 if hits == 0 else float(betaincinv(hits, n - hits + 1, error / 2)) * (1 - _ROUNDING)
        high = 1.0 if hits == n else float(betaincinv(hits + 1, n - hits, 1 - error / 2)) * (1 + _ROUNDING)
        return low, min(high, 1.0)

    def at_least(self, counts: Floats, p: Floats) -> Floats:
        from scipy.special import betainc

        tails = np.zeros((p.size, counts.size))
        tails[:, counts < 1.0] = 1.0
        inner = (counts >= 1.0) & (counts <= self.n)
        tails[:, inner] = betainc(counts[inner], self.n - counts[inner] + 1.0, p[:, None])
        return tails

    def below(self, counts: Floats, p: Floats) -> Floats:
        from scipy.special import betaincc

        return np.asarray(betaincc(counts, self.n - counts + 1.0, p[:, None]), np.float64)


@dataclass(frozen=True, slots=True)
class Poisson:
    """A Poisson number of outputs, ``n`` on average. The interval is Garwood's (1936).

    >>> low, high = Poisson(100).interval(0, 0.05)
    >>> low, round(high, 4)
    (0.0, 0.0369)
    """

    n: int

    def interval(self, hits: int, error: float) -> tuple[float, float]:
        from scipy.special import gammaincinv

        low = 0.0 if hits == 0 else float(gammaincinv(hits, error / 2)) / self.n * (1 - _ROUNDING)
        high = float(gammaincinv(hits + 1, 1 - error / 2)) / self.n * (1 + _ROUNDING)
        return min(low, 1.0), min(high, 1.0)

    def at_least(self, counts: Floats, p: Floats) -> Floats:
        from scipy.special import gammainc

        tails = np.ones((p.size, counts.size))
        inner = counts >= 1.0
        tails[:, inner] = gammainc(counts[inner], self.n * p[:, None])
        return tails

    def below(self, counts: Floats, p: Floats) -> Floats:
        from scipy.special import gammaincc

        return np.asarray(gammaincc(counts, self.n * p[:, None]), np.float64)
