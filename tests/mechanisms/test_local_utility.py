"""Weighted Kendall, frequency estimates and range queries."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ledgerwood.errors import ParameterError
from ledgerwood.mechanisms.local import (
    Domain,
    GeneralizedRandomizedResponse,
    GlobalMap,
    PiecewiseMechanism,
    RangeQueries,
    UnaryEncoding,
    weighted_kendall,
)
from ledgerwood.mechanisms.randomness import SeededSource


def kendall_by_definition(r: np.ndarray, s: np.ndarray) -> float:
    """Li et al., Definition 6.1, pair by pair; the weight is the distance of the mean ranks of r."""
    rho = stats.rankdata(r)
    weight = np.abs(rho[:, None] - rho)
    sign_r, sign_s = np.sign(np.subtract.outer(r, r)), np.sign(np.subtract.outer(s, s))
    product = lambda a, b: float(np.triu(a * b * weight, 1).sum())  # noqa: E731
    below = math.sqrt(product(sign_r, sign_r)) * math.sqrt(product(sign_s, sign_s))
    return product(sign_r, sign_s) / below if below > 0 else math.nan


pairs = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=2, max_size=40)


@settings(max_examples=300, deadline=None)
@given(pairs)
def test_weighted_kendall_is_the_definition(values) -> None:
    r, s = np.array(values, dtype=float).T
    assert weighted_kendall(r, s) == pytest.approx(kendall_by_definition(r, s), abs=1e-12, nan_ok=True)


@settings(max_examples=100, deadline=None)
@given(pairs, st.randoms(use_true_random=False))
def test_weighted_kendall_ignores_the_order_of_the_records(values, random) -> None:
    shuffled = list(values)
    random.shuffle(shuffled)
    first, second = (weighted_kendall(*np.array(v, dtype=float).T) for v in (values, shuffled))
    assert first == pytest.approx(second, abs=1e-12, nan_ok=True)


def test_without_ties_weighted_kendall_is_spearman_and_not_scipys_weightedtau() -> None:
    rng = np.random.default_rng(4)
    r = rng.normal(size=500)
    s = r + rng.normal(size=500)
    assert weighted_kendall(r, s) == pytest.approx(stats.spearmanr(r, s).statistic, abs=1e-12)
    assert abs(weighted_kendall(r, s) - stats.weightedtau(r, s).statistic) > 0.01


def test_weighted_kendall_is_one_in_order_and_minus_one_in_reverse() -> None:
    r = np.arange(100_000)
    assert weighted_kendall(r, 3 * r + 1) == pytest.approx(1) and weighted_kendall(r, -r) == pytest.approx(-1)
    assert math.isnan(weighted_kendall([1, 1], [1, 2])) and math.isnan(weighted_kendall([1, 2], [3, 3]))
    with pytest.raises(ParameterError, match="as many values"):
        weighted_kendall([1, 2], [1])


@pytest.mark.parametrize("kind", ["grr", "symmetric", "optimised"])
def test_frequency_estimates_are_unbiased(kind: str) -> None:
    """Exactly: the estimate is linear, so its mean is the estimate at the mean counts."""
    domain, shares = Domain(0, 4), np.array([0.5, 0.2, 0.2, 0.1, 0.0])
    if kind == "grr":
        mechanism = GeneralizedRandomizedResponse(domain, 0.7)
        truth, other = mechanism._two_probabilities()
        mean = shares @ mechanism.probabilities(domain.values)
        assert (mean - other) / (truth - other) == pytest.approx(shares)
        counts = np.rint(mean * 10**6).astype(int)
        estimate = mechanism.estimate(np.repeat(domain.values, counts))
    else:
        mechanism = UnaryEncoding(domain, 0.7, kind)
        p, q = mechanism.bit_probabilities
        n = 200_000
        values = np.repeat(domain.values, (shares * n).astype(int))
        estimate = mechanism.estimate(mechanism.release(values, SeededSource(np.random.default_rng(2))))
        assert np.abs(estimate - shares).max() < 5.5 * math.sqrt(0.25 / n) / (p - q)
        return
    assert estimate == pytest.approx(shares, abs=1e-5)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 64), st.floats(0.05, 8.0), st.data())
def test_the_piecewise_estimate_is_unbiased_exactly(size: int, epsilon: float, data: st.DataObject) -> None:
    mechanism = PiecewiseMechanism(Domain(-5, size - 6), epsilon)
    value = data.draw(st.integers(-5, size - 6))
    mean = mechanism.probabilities(value) @ mechanism.unbiased(mechanism.outputs)
    assert mean == pytest.approx(value, abs=1e-8)


def test_the_piecewise_grid_approaches_the_continuous_mechanism() -> None:
    """The variance on [-1, 1] against Wang et al.'s x^2/(e-1) + (e+3)/(3 (e-1)^2), with e = exp(eps/2)."""
    for epsilon in (0.5, 1.0, 4.0):
        n = 2001
        mechanism = PiecewiseMechanism(Domain(0, n - 1), epsilon)
        unit = mechanism.unbiased(mechanism.outputs) / ((n - 1) / 2) - 1
        for x in (0.0, 0.5, 1.0):
            p = mechanism.probabilities((x + 1) * (n - 1) / 2)
            variance = float(p @ (unit - x) ** 2)
            e = math.exp(epsilon / 2)
            assert variance == pytest.approx(x * x / (e - 1) + (e + 3) / (3 * (e - 1) ** 2), rel=5e-3)


def test_range_queries_from_the_likelihood_beat_the_raw_shares() -> None:
    mechanism, rng = GlobalMap(Domain(1, 64), 0.2), np.random.default_rng(8)
    values = np.clip(rng.normal(40, 5, 20_000).round(), 1, 64)
    released = mechanism.release(values, SeededSource(rng))
    starts = rng.integers(1, 65, 500)
    stops = np.array([rng.integers(a, 65) for a in starts])
    truth = np.array([((values >= a) & (values <= b)).mean() for a, b in zip(starts, stops)])
    error = {
        name: np.mean((make(mechanism, released).answer(starts, stops) - truth) ** 2)
        for name, make in (("raw", RangeQueries.from_released), ("likely", RangeQueries.most_likely))
    }
    assert error["likely"] < error["raw"] / 20


def test_range_queries_of_the_released_values_are_counts() -> None:
    queries = RangeQueries.from_released(GlobalMap(Domain(1, 8), 1.0), [1, 2, 2, 8])
    assert queries.answer([1, 2, 3], [8, 2, 7]).tolist() == [1.0, 0.5, 0.0]
    assert queries.share(2, 8) == 0.75


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 12), st.floats(0.1, 5.0), st.integers(0, 2**32))
def test_em_never_lowers_the_likelihood(size: int, epsilon: float, seed: int) -> None:
    mechanism, rng = GlobalMap(Domain(0, size - 1), epsilon), np.random.default_rng(seed)
    released = rng.integers(0, size, 200)
    p, f = mechanism.probabilities(np.arange(size)), np.bincount(released, minlength=size)
    score = [
        float(f @ np.log(np.array(RangeQueries.most_likely(mechanism, released, iterations=i).shares) @ p))
        for i in (1, 5, 50, 200)
    ]
    assert all(later >= earlier - 1e-9 for earlier, later in pairwise(score))


def test_range_queries_refuse_bad_ranges_and_foreign_outputs() -> None:
    queries = RangeQueries.from_released(GlobalMap(Domain(1, 8), 1.0), [1])
    for start, stop in ((0, 3), (4, 3), (1, 9)):
        with pytest.raises(ParameterError):
            queries.share(start, stop)
        with pytest.raises(ParameterError):
            queries.answer([start], [stop])
    with pytest.raises(ParameterError, match="starts"):
        queries.answer([1.5], [2])
    with pytest.raises(ParameterError, match="most_likely"):
        RangeQueries.from_released(PiecewiseMechanism(Domain(0, 9), 1.0), [1])
    shares = RangeQueries.most_likely(PiecewiseMechanism(Domain(0, 9), 5.0), [3, 3, 4]).shares
    assert len(shares) == 10 and sum(shares) == pytest.approx(1)
