"""A short private tree learner, written for enumeration: every probability in it is rational.

The tree is symmetric: one threshold per level, the same in all nodes. A row is (bin, label) with label -1 or +1. A
level's threshold is chosen with probability ∝ base^score, where the score is the sum over the children of |sum of
labels|: one row more moves every score by -1 or +1, so a level costs at most 2 log(base). A leaf releases clamp(sum of
labels + two-sided geometric noise): rows fall into one leaf, so all leaves together cost log(1/ratio).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

from ledgerwood.accounting import PureDP
from ledgerwood.verification.exact.enumeration import Choices, DiscreteDistribution

Row: TypeAlias = tuple[int, int]
Rows: TypeAlias = tuple[Row, ...]


@lru_cache(maxsize=65536)
def clamped_discrete_laplace(value: int, ratio: Fraction, low: int, high: int) -> DiscreteDistribution[int]:
    """The exact distribution of clamp(value + two-sided geometric noise, low, high); the ends carry the tails."""
    r = Fraction(ratio)

    def at_most(z: int) -> Fraction:  # P(value + noise <= z)
        k = z - value
        return r ** (-k) / (1 + r) if k < 0 else 1 - r ** (k + 1) / (1 + r)

    cumulative = [at_most(z) for z in range(low, high)] + [Fraction(1)]
    masses = [cumulative[0], *(b - a for a, b in itertools.pairwise(cumulative))]
    return DiscreteDistribution(tuple(range(low, high + 1)), tuple(masses))


@dataclass(frozen=True, slots=True)
class ReferenceTree:
    """The learner: call it with rows and a source of choices; it returns (thresholds, leaf values).

    Parameters
    ----------
    bins, depth : int
        Bins 0 .. bins-1; depth levels.
    base : Fraction
        Base of the selection's weights, > 1.
    ratio : Fraction
        Decay of the leaf noise, in (0, 1).
    low, high : int
        Leaf values are clamped to this range.
    skip_empty : bool
        A planted flaw: an empty leaf is released as 0 without noise.
    """

    bins: int = 4
    depth: int = 2
    base: Fraction = Fraction(3, 2)
    ratio: Fraction = Fraction(1, 2)
    low: int = 0
    high: int = 1
    skip_empty: bool = False

    @property
    def claim(self) -> PureDP:
        """Its price on paper: composition over levels, parallel composition over leaves."""
        return PureDP(self.depth * 2 * math.log(self.base) - math.log(self.ratio))

    def __call__(self, rows: Rows, source: Choices) -> tuple[tuple[int, ...], tuple[int, ...]]:
        nodes: tuple[Rows, ...] = (rows,)
        thresholds = []
        for _ in range(self.depth):
            options, scores = _candidates(nodes, self.bins)
            chosen = source.select(tuple(self.base**score for score in scores))
            thresholds.append(chosen + 1)
            nodes = options[chosen]
        return tuple(thresholds), tuple(self._leaf(node, source) for node in nodes)

    def _leaf(self, rows: Rows, source: Choices) -> int:
        if self.skip_empty and not rows:
            return 0
        return source.draw(clamped_discrete_laplace(_sum(rows), self.ratio, self.low, self.high))


def add_remove_pairs(domain: Sequence[Row], most_rows: int) -> Iterator[tuple[Rows, Rows]]:
    """Every pair of multisets over ``domain`` that differ by one row, with at most ``most_rows`` rows.

    >>> len(list(add_remove_pairs([(0, 1), (1, 1)], most_rows=2)))
    6
    """
    for size in range(most_rows):
        for rows in itertools.combinations_with_replacement(domain, size):
            for row in domain:
                yield rows, tuple(sorted((*rows, row), key=domain.index))


@lru_cache(maxsize=1 << 16)
def _candidates(nodes: tuple[Rows, ...], bins: int) -> tuple[tuple[tuple[Rows, ...], ...], tuple[int, ...]]:
    """The children of every threshold, and their scores; remembered because an enumeration asks many times."""
    options = tuple(
        tuple(tuple(row for row in node if (row[0] < t) == left) for node in nodes for left in (True, False))
        for t in range(1, bins)
    )
    return options, tuple(sum(abs(_sum(child)) for child in option) for option in options)


def _sum(rows: Rows) -> int:
    return sum(label for _, label in rows)
