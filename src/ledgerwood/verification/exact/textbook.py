"""Output distributions of the textbook mechanisms, in closed form, as pairs for the exact verifier.

Inputs are rationals (floats are taken at their exact binary value), so each loss that is rational on paper is exact
here.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from typing import TypeAlias

from ledgerwood.errors import ParameterError
from ledgerwood.verification.exact.distributions import Cell, Pair
from ledgerwood.verification.exact.exponential_sums import (
    PiecewiseExponential,
    exponential_cdf,
    exponential_density,
    laplace_cdf,
    laplace_density,
    product,
    shifted,
)
from ledgerwood.verification.exact.intervals import (
    INFINITY,
    ONE,
    ZERO,
    Interval,
    Number,
    exponential,
    hull,
    interval,
    logarithm,
    normal_cdf,
    total,
)

Rational: TypeAlias = "int | float | Fraction"
Distribution: TypeAlias = Mapping[Hashable, Interval]


def exponential_mechanism_pair(first: Sequence[Rational], second: Sequence[Rational], rate: Rational) -> Pair:
    """Exponential mechanism Pr[i] ∝ exp(rate * score_i) on two score vectors.

    The loss is rate * (first_i - second_i) + log Z'/Z. When the two vectors hold the same scores up to a shift (as in
    randomized response), log Z'/Z is rational and the loss exact.

    >>> exponential_mechanism_pair([1, 0, 0], [0, 1, 0], rate=1).max_divergence()
    Bounds(lower=1.0, upper=1.0)
    """
    a, b = ([Fraction(rate) * Fraction(score) for score in scores] for scores in (first, second))
    if len(a) != len(b) or not a:
        raise ParameterError("second", "score the same candidates as first", second)
    weights = [[exponential(x) for x in vector] for vector in (a, b)]
    z, z_other = (total(vector) for vector in weights)
    shift = max(b) - max(a)
    same = Counter(x + shift for x in a) == Counter(b)
    normaliser = interval(shift) if same else logarithm(z_other) - logarithm(z)
    cells = (
        Cell(i, weights[0][i] / z, weights[1][i] / z_other, interval(a[i] - b[i]) + normaliser) for i in range(len(a))
    )
    return Pair(tuple(cells))


def permute_and_flip_distribution(scores: Sequence[Rational], rate: Rational) -> Distribution:
    r"""Permute-and-flip: candidates in random order, each accepted with probability exp(rate * (score - best)).

    .. math:: \Pr[r] = c_r \int_0^1 \prod_{j \ne r} (1 - t\,c_j)\,dt, \qquad c_j = e^{\text{rate}\,(s_j - s_{\max})}

    (a candidate's position is uniform; the ones before it must all have failed).
    """
    s = [Fraction(score) for score in scores]
    coins = [exponential(Fraction(rate) * (x - max(s))) for x in s]
    distribution: dict[Hashable, Interval] = {}
    for r in range(len(s)):
        polynomial = [ONE]
        for coin in (c for j, c in enumerate(coins) if j != r):
            longer = [*polynomial, ZERO]
            polynomial = [x - (polynomial[k - 1] * coin if k else ZERO) for k, x in enumerate(longer)]
        distribution[r] = coins[r] * total(x / (k + 1) for k, x in enumerate(polynomial))
    return distribution


def noisy_max_distribution(scores: Sequence[Rational], scale: Rational, noise: str = "laplace") -> Distribution:
    """Index of the largest noisy score; ``noise`` is "laplace" or "exponential"."""
    density, cdf = {
        "laplace": (laplace_density, laplace_cdf),
        "exponential": (exponential_density, exponential_cdf),
    }[noise]
    s, b = [Fraction(score) for score in scores], Fraction(scale)
    return {
        i: (density(x, scale=b) * product(cdf(y, scale=b) for j, y in enumerate(s) if j != i)).integral()
        for i, x in enumerate(s)
    }


def above_threshold_distribution(
    queries: Sequence[Rational], threshold: Rational, *, threshold_scale: Rational, query_scale: Rational
) -> Distribution:
    """Sparse vector, stopping at the first noisy query >= noisy threshold; outcomes are strings like "0001"."""
    density = laplace_density(Fraction(0), scale=Fraction(threshold_scale))
    below = [_below(query, threshold, query_scale) for query in queries]
    distribution: dict[Hashable, Interval] = {}
    for i, here in enumerate(below):
        distribution["0" * i + "1"] = (density * product(below[:i]) * here.complement()).integral()
    distribution["0" * len(below)] = (density * product(below)).integral()
    return distribution


def above_threshold_value_distribution(
    queries: Sequence[Rational],
    threshold: Rational,
    *,
    threshold_scale: Rational,
    query_scale: Rational,
    edges: Sequence[Rational],
) -> Distribution:
    """Sparse vector that releases its first noisy value above the threshold; outcomes (bits, cell of the value)."""
    density = laplace_density(Fraction(0), scale=Fraction(threshold_scale))
    below = [_below(query, threshold, query_scale) for query in queries]
    t, b = Fraction(threshold), Fraction(query_scale)
    distribution: dict[Hashable, Interval] = {"0" * len(below): (density * product(below)).integral()}
    cells = list(itertools.pairwise([None, *(Fraction(edge) for edge in edges), None]))
    for i, query in enumerate(queries):
        weight = density * product(below[:i])
        at_query = laplace_cdf(Fraction(query), scale=b)
        for low, high in cells:
            # The value v is released if v >= t + r, r the threshold noise: for r < low - t any v of the cell counts.
            top = ONE if high is None else _value_at(at_query, high)
            whole = top - (ZERO if low is None else _value_at(at_query, low))
            start = None if low is None else low - t
            end = None if high is None else high - t
            mass = ZERO if start is None else whole * weight.integral(None, start)
            mass = mass + top * weight.integral(start, end) - (weight * below[i]).integral(start, end)
            distribution[("0" * i + "1", _cell_name(low, high))] = mass
    return distribution


def laplace_pair(first: Rational, second: Rational, scale: Rational, *, cells: int = 1) -> Pair:
    """First + Laplace(scale) against second + Laplace(scale); the stretch between them is cut into ``cells``.

    >>> laplace_pair(0, 1, 10).max_divergence().upper
    0.1
    """
    gap = abs(Fraction(second) - Fraction(first)) / Fraction(scale)
    if gap == 0:
        return Pair((Cell("anything", Fraction(1), Fraction(1)),))
    half = interval(Fraction(1, 2))
    found = [Cell("beyond first", Fraction(1, 2), half * exponential(-gap), interval(gap))]
    for i in range(cells):
        u, v = gap * i / cells, gap * (i + 1) / cells
        p = half * (exponential(-u) - exponential(-v))
        q = half * (exponential(v - gap) - exponential(u - gap))
        found.append(Cell(("between", i), p, q, hull(gap - 2 * v, gap - 2 * u)))
    found.append(Cell("beyond second", half * exponential(-gap), Fraction(1, 2), interval(-gap)))
    return Pair(tuple(found))


def laplace_vector_pair(first: Sequence[Rational], second: Sequence[Rational], scale: Rational) -> Pair:
    """Independent Laplace noise on every coordinate; coordinates that agree cancel.

    >>> laplace_vector_pair([1, 1, 1], [0, 1, 2], scale=2).max_divergence().upper
    1.0
    """
    gaps = Counter(abs(Fraction(a) - Fraction(b)) for a, b in zip(first, second, strict=True) if a != b)
    if not gaps:
        return laplace_pair(0, 0, scale)
    return independent(*(repeated(laplace_pair(0, gap, scale), times) for gap, times in gaps.items()))


def discrete_laplace_pair(first: int, second: int, rate: Rational) -> Pair:
    """First + two-sided geometric noise, P(k) ∝ exp(-rate |k|), against second + the same: a finite partition.

    Beyond the two centers the loss is constant, so the whole of either tail is one outcome.
    """
    gap, c = abs(second - first), Fraction(rate)
    if gap == 0:
        return Pair((Cell("anything", Fraction(1), Fraction(1)),))
    r = exponential(-c)
    far, near = exponential(-c * gap) / (ONE + r), ONE / (ONE + r)
    cells = [Cell("beyond first", near, far, interval(c * gap))]
    for j in range(1, gap):
        p, q = ((ONE - r) / (ONE + r) * exponential(-c * k) for k in (j, gap - j))
        cells.append(Cell(("between", j), p, q, interval(c * (gap - 2 * j))))
    return Pair((*cells, Cell("beyond second", far, near, interval(-c * gap))))


def largest_noisy_value_pair(first: Sequence[Rational], second: Sequence[Rational], scale: Rational) -> Pair:
    """The largest of several values with Laplace noise, released as a number.

    Its density is a sum of products of densities and distribution functions, one factor per value, and each factor
    moves by at most exp(gap/scale): the loss is at most the sum of the gaps over scale. Left of every center each
    factor is ½ exp((x - center)/scale) up to a constant, so there the loss is the signed sum, exactly.
    """
    a, b = [Fraction(x) for x in first], [Fraction(x) for x in second]
    s, edge = Fraction(scale), min([*a, *b])
    bound = sum((abs(x - y) for x, y in zip(a, b)), Fraction(0)) / s
    p, q = (exponential(sum(edge - x for x in v) / s) / 2 ** len(v) for v in (a, b))
    left = Cell(f"below {float(edge):g}", p, q, interval(sum(y - x for x, y in zip(a, b)) / s))
    return Pair((left, Cell(f"above {float(edge):g}", ONE - p, ONE - q, hull(-bound, bound))))


def subsampled_laplace_pair(rate: Rational, scale: Rational) -> Pair:
    """Poisson-subsampled Laplace: (1-rate) Lap(0) + rate Lap(1) against Lap(0), noise of the given scale."""
    q, base = Fraction(rate), laplace_pair(1, 0, scale)
    cells = []
    for cell in base.cells:
        # loss of the mixture: log(1 - q + q e^l), increasing in the loss l of the plain pair
        plain = cell.losses()
        losses = [logarithm((1 - q) + q * exponential(end)) for end in (plain.lower_end(), plain.upper_end())]
        p = (1 - q) * interval(cell.q) + q * interval(cell.p)
        cells.append(Cell(cell.outcome, p, cell.q, hull(*losses)))
    return Pair(tuple(cells))


def gaussian_pair(shift_over_sigma: Number, *, knots: Sequence[Rational]) -> Pair:
    """N(mu, 1) against N(0, 1), cut where the privacy loss crosses a knot or minus a knot.

    delta is exact at every knot, in both directions: the loss exceeds e under P iff Z > e/mu - mu/2, Z standard
    normal, and under Q iff Z > e/mu + mu/2 (arXiv:1805.06530, Lemma 3).
    """
    mu = interval(shift_over_sigma)
    edges = sorted({sign * Fraction(knot) for knot in knots for sign in (-1, 1)})
    p_above = [ONE, *(normal_cdf(mu / 2 - e / mu) for e in edges), ZERO]
    q_above = [ONE, *(normal_cdf(-mu / 2 - e / mu) for e in edges), ZERO]
    ends = [-INFINITY, *(interval(e) for e in edges), INFINITY]
    cells = (
        Cell(_cell_name(*pair), p_above[i] - p_above[i + 1], q_above[i] - q_above[i + 1], hull(ends[i], ends[i + 1]))
        for i, pair in enumerate(itertools.pairwise([None, *edges, None]))
    )
    return Pair(tuple(cells))


def discrete_gaussian_pair(shift: int, sigma: Rational, *, reach: int | None = None) -> Pair:
    """N_Z(0, sigma^2) against N_Z(shift, sigma^2); the outcomes beyond ``reach`` go into the tails.

    The tail is geometric: weight(k+1)/weight(k) <= exp(-(2k+1)/(2 sigma^2)) for k >= 0.
    """
    s = Fraction(sigma)
    width = reach if reach is not None else math.ceil(20 * s) + abs(shift)
    weight = {k: exponential(Fraction(-k * k) / (2 * s * s)) for k in range(-width, width + 1)}
    ratio = exponential(-Fraction(2 * width + 1) / (2 * s * s))
    rest = 2 * weight[width] * ratio / (ONE - ratio)
    inside = total(weight.values())
    normaliser = hull(inside, inside + rest)
    low, high = -width + max(shift, 0), width + min(shift, 0)
    cells = tuple(
        Cell(
            k,
            weight[k] / normaliser,
            weight[k - shift] / normaliser,
            interval(Fraction((k - shift) ** 2 - k * k) / (2 * s * s)),
        )
        for k in range(low, high + 1)
    )
    tails = [(rest + total(w for k, w in weight.items() if not low <= k + d <= high)) / normaliser for d in (0, shift)]
    return Pair(cells, (hull(ZERO, tails[0]), hull(ZERO, tails[1])))


def independent(*pairs: Pair) -> Pair:
    """All of several independent releases."""
    cells = []
    for combination in itertools.product(*(pair.cells for pair in pairs)):
        p, q, loss = ONE, ONE, ZERO
        for cell in combination:
            p, q, loss = p * cell.p, q * cell.q, loss + cell.losses()
        cells.append(Cell(tuple(cell.outcome for cell in combination), p, q, loss))
    return Pair(tuple(cells))


def repeated(pair: Pair, times: int) -> Pair:
    """The same release made independently ``times`` times; outcomes are counts of the cells."""
    cells = []
    for counts in _compositions(times, len(pair.cells)):
        p = q = interval(math.factorial(times) // math.prod(math.factorial(c) for c in counts))
        loss = ZERO
        for cell, count in zip(pair.cells, counts):
            p, q = p * interval(cell.p).power(count), q * interval(cell.q).power(count)
            loss = loss + count * cell.losses() if count else loss
        cells.append(Cell(tuple(zip((c.outcome for c in pair.cells), counts)), p, q, loss))
    return Pair(tuple(cells))


def _below(query: Rational, threshold: Rational, scale: Rational) -> PiecewiseExponential:
    """The function r -> P(query + noise < threshold + r)."""
    return shifted(laplace_cdf(Fraction(query), scale=Fraction(scale)), Fraction(threshold))


def _value_at(function: PiecewiseExponential, point: Fraction) -> Interval:
    piece = function.pieces[sum(b <= point for b in function.breaks)]
    return total(c * exponential(r * point) for r, c in piece)


def _cell_name(low: Fraction | None, high: Fraction | None) -> str:
    return f"[{'-inf' if low is None else f'{float(low):g}'}, {'inf' if high is None else f'{float(high):g}'})"


def _compositions(total_count: int, parts: int) -> list[tuple[int, ...]]:
    bars = itertools.combinations(range(total_count + parts - 1), parts - 1)
    return [tuple(b - a - 1 for a, b in itertools.pairwise((-1, *bar, total_count + parts - 1))) for bar in bars]
