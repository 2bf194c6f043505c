r"""Piecewise sums of exponentials, multiplied and integrated in closed form with certified rounding.

Densities and distribution functions of Laplace and exponential noise are, between rational break points, sums
:math:`\sum_r c_r e^{r z}` with rational rates. Products of such functions are again of that form, so the
one-dimensional integrals behind noisy-max and sparse-vector probabilities need no quadrature:

>>> from fractions import Fraction
>>> density = laplace_density(Fraction(0), scale=Fraction(10))
>>> below = laplace_cdf(Fraction(1), scale=Fraction(10))       # P(noise + 1 <= z)
>>> str((density * below).integral().bounds())                 # P(noise + 1 <= other noise)
'0.47504'
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from ledgerwood.verification.exact.intervals import ONE, ZERO, Interval, exponential, interval

Terms = tuple[tuple[Fraction, Interval], ...]


@dataclass(frozen=True, slots=True)
class PiecewiseExponential:
    """A function of one real variable; piece i lives between break i-1 and break i (the outer ones at infinity)."""

    breaks: tuple[Fraction, ...]
    pieces: tuple[Terms, ...]

    def __mul__(self, other: PiecewiseExponential) -> PiecewiseExponential:
        breaks = tuple(sorted({*self.breaks, *other.breaks}))
        edges = [None, *breaks]
        pieces = tuple(_product(self._piece_after(edge), other._piece_after(edge)) for edge in edges)
        return PiecewiseExponential(breaks, pieces)

    def complement(self) -> PiecewiseExponential:
        """One minus the function."""
        pieces = tuple(_collect([(Fraction(0), ONE), *((r, -c) for r, c in piece)]) for piece in self.pieces)
        return PiecewiseExponential(self.breaks, pieces)

    def integral(self, low: Fraction | None = None, high: Fraction | None = None) -> Interval:
        """Enclosure of the integral from ``low`` to ``high`` (None is infinity)."""
        inner = [b for b in self.breaks if (low is None or b > low) and (high is None or b < high)]
        edges: list[Fraction | None] = [low, *inner, high]
        result = ZERO
        for number, (left, right) in enumerate(pairwise(edges)):
            piece = self._piece_after(left if number or low is not None else None)
            for rate, coefficient in piece:
                result = result + coefficient * _integral_of_exponential(rate, left, right)
        return result

    def _piece_after(self, edge: Fraction | None) -> Terms:
        return self.pieces[0 if edge is None else sum(b <= edge for b in self.breaks)]


def product(factors: Iterable[PiecewiseExponential]) -> PiecewiseExponential:
    """The product of some functions, 1 if there are none."""
    result = PiecewiseExponential((), (((Fraction(0), ONE),),))
    for factor in factors:
        result = result * factor
    return result


def laplace_density(center: Fraction, *, scale: Fraction) -> PiecewiseExponential:
    """Density of center + Laplace(scale)."""
    rate, height = 1 / scale, interval(1 / (2 * scale))
    left = ((rate, height * exponential(-center * rate)),)
    right = ((-rate, height * exponential(center * rate)),)
    return PiecewiseExponential((center,), (left, right))


def laplace_cdf(center: Fraction, *, scale: Fraction) -> PiecewiseExponential:
    """P(center + Laplace(scale) <= z)."""
    rate, half = 1 / scale, interval(Fraction(1, 2))
    left = ((rate, half * exponential(-center * rate)),)
    right = ((Fraction(0), ONE), (-rate, -half * exponential(center * rate)))
    return PiecewiseExponential((center,), (left, right))


def exponential_density(start: Fraction, *, scale: Fraction) -> PiecewiseExponential:
    """Density of start + Exponential(scale)."""
    rate = 1 / scale
    return PiecewiseExponential((start,), ((), ((-rate, interval(rate) * exponential(start * rate)),)))


def exponential_cdf(start: Fraction, *, scale: Fraction) -> PiecewiseExponential:
    """P(start + Exponential(scale) <= z)."""
    rate = 1 / scale
    return PiecewiseExponential((start,), ((), ((Fraction(0), ONE), (-rate, -exponential(start * rate)))))


def shifted(function: PiecewiseExponential, by: Fraction) -> PiecewiseExponential:
    """The function z -> function(z + by)."""
    pieces = tuple(tuple((r, c * exponential(r * by)) for r, c in piece) for piece in function.pieces)
    return PiecewiseExponential(tuple(b - by for b in function.breaks), pieces)


def _product(left: Terms, right: Terms) -> Terms:
    return _collect([(r + s, c * d) for r, c in left for s, d in right])


def _collect(terms: Sequence[tuple[Fraction, Interval]]) -> Terms:
    merged: dict[Fraction, Interval] = {}
    for rate, coefficient in terms:
        merged[rate] = merged[rate] + coefficient if rate in merged else coefficient
    return tuple(merged.items())


def _integral_of_exponential(rate: Fraction, left: Fraction | None, right: Fraction | None) -> Interval:
    if rate == 0:
        return interval(right - left) if left is not None and right is not None else interval(math.inf)
    ends = [
        ZERO if edge is None and (rate > 0) == is_left else exponential(math.inf if edge is None else rate * edge)
        for edge, is_left in ((left, True), (right, False))
    ]
    return (ends[1] - ends[0]) / rate
