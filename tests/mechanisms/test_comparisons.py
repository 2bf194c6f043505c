"""Decisions about lazily known reals are certified by the digits drawn: no other digits could have changed them."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath as mp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerwood.mechanisms import NoisyMaxMechanism, ReplaySource, SparseVectorMechanism, noisy_max
from ledgerwood.mechanisms.noise import _Placed, _rounded_sum
from ledgerwood.mechanisms.sampling import choice, draws

WORDS = np.random.default_rng(11).integers(0, 2**64, size=60, dtype=np.uint64).tolist()
# Few different leading words, so that equal or neighbouring reals are common.
fines = st.one_of(st.sampled_from([0, 1, 2**31 - 1, 2**31, 2**32 - 1]), st.integers(0, 2**32 - 1))
pieces = st.tuples(st.booleans(), st.integers(0, 3), fines)


def reals(parts: list[tuple[bool, int, int]], extra: list[int]) -> draws.LazyReals:
    negative, coarse, fine = zip(*parts, strict=True)
    source = ReplaySource(extra + WORDS)
    return draws.LazyReals(np.array(negative), np.array(coarse), np.array(fine, dtype=np.uint64), 32, source)


extras = st.lists(st.sampled_from([0, 2**64 - 1]), max_size=6)


@settings(max_examples=400, deadline=None)
@given(pieces, extras, st.sampled_from([1.0, 0.5, 512.0, 2.0**40]), st.floats(-8, 8), st.integers(-3, 3))
def test_rounding_is_certified(part, extra, scale: float, value: float, exponent: int) -> None:
    noise = reals([part], extra)
    grid = 2.0**exponent
    z = np.array([value / grid])
    n = np.rint(z)
    placed = _Placed(n.astype(np.int64), z - n, np.array([value]))
    k = int(n[0]) + int(_rounded_sum(placed, scale * grid, grid, noise)[0])
    for end in noise.enclosure(0):
        exact = Fraction(value) / Fraction(grid) + Fraction(scale) * end
        assert k - Fraction(1, 2) <= exact <= k + Fraction(1, 2)


def arrival(scores: list[float], c: float, times: draws.LazyReals, i: int) -> tuple[mp.mpf, mp.mpf]:
    lo, hi = sorted(abs(end) for end in times.enclosure(i))
    slow = mp.exp(-mp.mpf(c) * mp.mpf(scores[i]))
    return mp.mpf(lo.numerator) / lo.denominator * slow, mp.mpf(hi.numerator) / hi.denominator * slow


@settings(max_examples=300, deadline=None)
@given(st.lists(pieces, min_size=2, max_size=5), extras, st.data())
def test_races_are_certified(parts, extra, data) -> None:
    times = reals(parts, extra)
    level = st.sampled_from([0.0, 1.0, 1.0 + 2.0**-52, -3.0])
    scores = data.draw(st.lists(level, min_size=len(parts), max_size=len(parts)))
    order = choice.order_of_arrival(np.array(scores), 0.7, times, len(parts))
    assert sorted(order) == list(range(len(parts)))
    with mp.workprec(2000):
        for first, second in itertools.pairwise(order):
            assert arrival(scores, 0.7, times, first)[1] <= arrival(scores, 0.7, times, second)[0] * (
                1 + mp.mpf(2) ** -1900
            )


@settings(max_examples=300, deadline=None)
@given(st.lists(pieces, min_size=2, max_size=5), extras, st.data())
def test_the_largest_noisy_score_is_certified(parts, extra, data) -> None:
    noise = reals(parts, extra)
    level = st.sampled_from([0.0, 1 / 256, 2 / 256, 2 / 256 + 2.0**-52])
    scores = data.draw(st.lists(level, min_size=len(parts), max_size=len(parts)))
    m = NoisyMaxMechanism(epsilon=1.0, range_sensitivity=1.0)
    original = noisy_max.draws.exponential
    noisy_max.draws.exponential = lambda count, source: noise
    try:
        winner = m.release(scores, noise.source)
    finally:
        noisy_max.draws.exponential = original
    lowest = Fraction(scores[winner]) + noise.enclosure(winner)[0]
    assert all(Fraction(scores[i]) + noise.enclosure(i)[1] <= lowest for i in range(len(parts)) if i != winner)


@settings(max_examples=300, deadline=None)
@given(pieces, pieces, extras, st.floats(-2, 2))
def test_sparse_vector_answers_are_certified(threshold_part, query_part, extra, q: float) -> None:
    m = SparseVectorMechanism(epsilon=3.0, threshold=0.25)
    run = m.start(ReplaySource(WORDS * 4))
    run._noise = rho = reals([threshold_part], extra)
    nu = reals([query_part], extra[::-1])
    answer = run._compare(q, nu)
    s, t = m.scales
    lowest = Fraction(q) - Fraction(1, 4) + t * nu.enclosure(0)[0] - s * rho.enclosure(0)[1]
    highest = Fraction(q) - Fraction(1, 4) + t * nu.enclosure(0)[1] - s * rho.enclosure(0)[0]
    assert lowest >= 0 if answer else highest <= 0
    assert math.isclose(float(3 / (1 + Fraction(2 ** (2 / 3)))), float(1 / s))
