"""Coins of probability exp(-x) and choices with weights exp(-x), for exact rational x.

The x are ``coefficient * (top - score)``: floats and integers are rationals, and so is their product.
Floating point decides only what its error bounds leave no doubt about; the rest goes to :mod:`.exact`.

Comparing lazily known reals: who comes first, when every contestant is only enclosed?

A contest is decided in floats if one contestant's enclosure lies beyond all others; otherwise the few that overlap are
refined, digit by digit, in exact rationals. The contestants are continuous and independent: ties have probability 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ledgerwood.mechanisms.randomness import RandomSource
from ledgerwood.mechanisms.sampling import exact
from ledgerwood.mechanisms.sampling.arithmetic import Weights, accumulate_weights, exp_minus
from ledgerwood.mechanisms.sampling.draws import TUNING, LazyReals

__all__ = [
    "Exponents",
    "behind_the_best",
    "choose",
    "choose_each",
    "coins",
    "first_to_arrive",
    "largest",
    "order_of_arrival",
]


Scores = NDArray[np.int64] | NDArray[np.float64]


_UNIT_ROUNDOFF = 2.0**-53


@dataclass(frozen=True, slots=True)
class Exponents:
    """x_i = coefficient * (top - score_i), with ``top`` no less than any score; 0 <= x_i."""

    coefficient: Fraction
    scores: Scores
    top: int | float

    @classmethod
    def below_the_best(cls, coefficient: Fraction, scores: Scores) -> Exponents:
        """Measured from the largest score."""
        return cls(coefficient, scores, scores.max().item())

    def floats(self) -> NDArray[np.float64]:
        """Floats with at most four roundings; an overflow to infinity stands for a weight below 1e-300."""
        return _times_behind(self.coefficient, self.top, self.scores)

    def capped(self) -> NDArray[np.float64]:
        """The same floats, with 2**1000 for all that lies beyond: no infinity minus infinity in a comparison."""
        return np.minimum(self.floats(), 2.0**1000)

    def exact(self, i: int) -> Fraction:
        """The i-th exponent."""
        return self.coefficient * (Fraction(self.top) - Fraction(self.scores[i].item()))


def _times_behind(coefficient: Fraction, top: int | float | Scores, scores: Scores) -> NDArray[np.float64]:
    """Return coefficient * (top - scores), as :meth:`Exponents.floats` states; ``top`` may differ between rows."""
    c = float(coefficient)
    with np.errstate(over="ignore"):  # differences of integers of at most 2**61 are exact
        behind = np.asarray(top - scores, dtype=np.float64)
        if np.isinf(behind.max()):  # scores further apart than the largest float: halve the large ones first
            halves = top / 2 - scores / 2
            return np.where(np.isinf(behind), 2 * (c * halves), c * behind)
        behind *= c  # in place: fresh megabytes cost more than the arithmetic
        return behind


def behind_the_best(coefficient: Fraction, scores: Scores) -> NDArray[np.float64]:
    """Return coefficient * (largest of the row - score) for a matrix of scores, in floats."""
    return _times_behind(coefficient, scores.max(axis=1, keepdims=True), scores)


def _weights(exponents: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return exp(-x), in the place of x."""
    np.negative(exponents, out=exponents)
    return np.exp(exponents, out=exponents)


def coins(exponents: Exponents, source: RandomSource) -> NDArray[np.bool_]:
    """Independent coins: the i-th shows True with probability exactly exp(-x_i).

    The float p = exp(-x) is off by at most (4 x e^{-x} + 4) 2**-53 (four roundings in x, and numpy's exp within
    4 ulp), the word by 2**-53: far less than the margin of 2**-48.
    """
    p = np.exp(-exponents.floats())
    words = source.words(len(p))
    unit, margin = 2.0**-source.word_bits, 2.0**-48
    a = words * unit
    heads = a + unit <= p - margin
    for i in np.flatnonzero(~heads & (a < p + margin)):
        x = exponents.exact(int(i))
        uniform = exact.Uniform(int(words[i]), source.word_bits, exact.Reader(source))
        heads[i] = exact.bernoulli(uniform, lambda x=x: (x, x))  # type: ignore[misc]
    return heads


def choose(exponents: Exponents, source: RandomSource, counts: NDArray[np.int64] | None = None) -> int:
    """Index i with probability exactly proportional to counts_i exp(-x_i) (counts: positive, 1 if left out).

    Inversion over the running sums of the weights; a comparison closer than their error is left to integers.
    """
    m = len(exponents.scores)
    weights = _weights(exponents.floats())
    if counts is not None:
        weights *= counts
    blocks = np.cumsum(np.add.reduceat(weights, np.arange(0, m, TUNING.choice_block)))
    total = float(blocks[-1])
    margin = total * _relative_error(TUNING.choice_block, len(blocks))
    uniform = exact.Uniform.fresh(exact.Reader(source))
    left, right = uniform.prefix * 2.0**-uniform.bits * total, (uniform.prefix + 1) * 2.0**-uniform.bits * total
    b = min(int(np.searchsorted(blocks, left)), len(blocks) - 1)
    inner = (blocks[b - 1] if b else 0.0) + np.cumsum(weights[b * TUNING.choice_block : (b + 1) * TUNING.choice_block])
    k = int(np.searchsorted(inner, left))
    if k < len(inner):
        i = b * TUNING.choice_block + k
        lower = inner[k - 1] if k else (blocks[b - 1] if b else -np.inf)
        upper = inner[k] if i < m - 1 else np.inf
        if lower + margin <= left and right <= upper - margin:
            return i
    return _choose_exactly(exponents, uniform, counts)


def choose_each(coefficient: Fraction, scores: Scores, source: RandomSource) -> NDArray[np.int64]:
    """One independent choice in each row of scores: column j of row i with weight exactly exp(coefficient s_ij)."""
    words = source.words(len(scores))
    chosen = np.empty(len(scores), dtype=np.int64)
    rows = max(1, TUNING.choices_at_once // scores.shape[1])
    for first in range(0, len(scores), rows):
        some = slice(first, first + rows)
        weights = _weights(behind_the_best(coefficient, scores[some]))
        chosen[some] = _locate_in_floats(weights, words[some], source.word_bits)
    for i in np.flatnonzero(chosen < 0):
        uniform = exact.Uniform(int(words[i]), source.word_bits, exact.Reader(source))
        chosen[i] = _choose_exactly(Exponents.below_the_best(coefficient, scores[i]), uniform, None)
    return chosen


def _locate_in_floats(weights: NDArray[np.float64], words: NDArray[np.uint64], word_bits: int) -> NDArray[np.int64]:
    """Where the uniform that begins with each word falls among the running sums of its row of weights.

    The search of :func:`choose` for all rows at once; -1 where floats leave it in doubt.
    """
    parts, m = weights.shape
    block = min(m, 128)
    starts = np.arange(0, m, block)
    sums = np.cumsum(np.add.reduceat(weights, starts, axis=1), axis=1)
    total = sums[:, -1:]
    margin = total.ravel() * _relative_error(block, len(starts))
    unit = 2.0**-word_bits
    u = words[:, None] * unit
    left, right = u * total, ((u + unit) * total).ravel()
    row = np.arange(parts)
    b = np.minimum((sums < left).sum(axis=1), len(starts) - 1)
    before = np.where(b > 0, sums[row, b - 1], 0.0)
    cell = b[:, None] * block + np.arange(block)
    inside = weights[row[:, None], np.minimum(cell, m - 1)]
    inner = before[:, None] + np.cumsum(np.where(cell < m, inside, 0.0), axis=1)
    k = (inner < left).sum(axis=1)
    i = b * block + k
    lower = np.where(k > 0, inner[row, k - 1], np.where(b > 0, before, -np.inf))
    upper = np.where(i < m - 1, inner[row, np.minimum(k, block - 1)], np.inf)
    sure = (k < block) & (i < m) & (lower + margin <= left.ravel()) & (right <= upper - margin)
    return np.where(sure, i, -1)


def _relative_error(block: int, blocks: int) -> float:
    """Bound on the error of a running sum of weights, relative to the whole.

    A float weight is off by 2**-53 (4 x + 8), relative, with x < 745 or else a weight below 1e-300; a sum of n positive
    numbers by n 2**-53 relative to the whole. Sums are made in blocks, so n is at most about ``block + blocks``.
    """
    return _UNIT_ROUNDOFF * (4 * 745 + 16 + 2 * (block + blocks))


def _choose_exactly(exponents: Exponents, uniform: exact.Uniform, counts: NDArray[np.int64] | None) -> int:
    x = [exponents.exact(i) for i in range(len(exponents.scores))]
    n = [1] * len(x) if counts is None else [int(count) for count in counts]

    def boundaries(precision: int) -> tuple[list[int], list[int]]:
        work = precision + len(x).bit_length() + 8
        known = {value: exp_minus(value, work) for value in set(x)}
        lo = [count * known[value][0] for value, count in zip(x, n, strict=True)]
        hi = [count * known[value][1] for value, count in zip(x, n, strict=True)]
        table = accumulate_weights(Weights(0, lo, hi, 0, 0), precision)
        return table.lo[1:-1], table.hi[1:-1]

    return exact.locate(uniform, boundaries)


Floats = NDArray[np.float64]


def largest(
    floats: Floats,
    slack: Floats,
    enclose: Callable[[int, int], tuple[Fraction, Fraction]],
    refine: Callable[[int], None],
    among: NDArray[np.int64],
) -> int:
    """Index of the largest of the reals ``among`` some, given floats within ``slack`` of them.

    ``enclose(i, precision)`` encloses the i-th real; ``refine(i)`` draws more digits of it.
    """
    high, low = floats[among] + slack[among], floats[among] - slack[among]
    rivals: list[int] = among[high >= np.max(low)].tolist()
    precision = 128
    while len(rivals) > 1:
        ends = {i: enclose(i, precision) for i in rivals}
        leader = max(rivals, key=lambda i: ends[i][0])
        rivals = [i for i in rivals if i == leader or ends[i][1] > ends[leader][0]]
        if len(rivals) > 1:
            for i in rivals:
                refine(i)
            precision *= 2
    return rivals[0]


def order_of_arrival(scores: Scores, coefficient: float, times: LazyReals, places: int) -> list[int]:
    """The first ``places`` candidates by arrival time E_i exp(-c s_i), with E_i the sizes of ``times``.

    Arrival times are exponential with rates exp(c s_i): the first to arrive is i with probability proportional to
    exp(c s_i), and the next ones are chosen likewise among those that remain. In logarithms:
    log E_i + x_i with x_i = c (best - s_i), best the largest score that remains, where E_i is known within a step, and
    the rest within a few roundings, covered by 2**-47 (1 + x_i + |log E_i|). Measured from the best, a doubtful x_i is
    small (its rival's is 0), however large the scores: exp(-x_i) is enclosed with few digits.
    """
    size = np.abs(times.approximate())
    step = times.slack()
    log_size = np.log(np.maximum(size, step))
    log_slack = 2.0**-47 * (1 + np.abs(log_size))
    log_slack += np.where(size > 4 * step, 2 * step / np.maximum(size, step), np.inf)
    c = Fraction(coefficient)
    places_taken: list[int] = []

    def enclose(exponents: Exponents, i: int, precision: int) -> tuple[Fraction, Fraction]:
        lo, hi = sorted(abs(end) for end in times.enclosure(i))
        x = exponents.exact(i)
        down, up = exp_minus(x, precision)
        while down == 0:
            precision *= 2
            down, up = exp_minus(x, precision)
        return -hi * (1 << precision) / down, -lo * (1 << precision) / up

    running = np.arange(len(scores))
    for _ in range(places):
        exponents = Exponents(c, scores, scores[running].max().item())
        x = np.zeros(len(scores))
        x[running] = Exponents(c, scores[running], exponents.top).capped()
        floats, slack = -x - log_size, log_slack + 2.0**-47 * x  # the largest of these arrives first
        winner = largest(floats, slack, partial(enclose, exponents), times.refine, running)
        places_taken.append(winner)
        running = running[running != winner]
    return places_taken


def first_to_arrive(scores: Scores, coefficient: float, times: LazyReals) -> int:
    """The candidate that arrives first."""
    return order_of_arrival(scores, coefficient, times, 1)[0]
