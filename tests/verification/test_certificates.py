"""The certificate: coverage by exact enumeration, power against two intervals, limits."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri
from scipy.stats import binom, poisson

from ledgerwood.errors import ParameterError
from ledgerwood.verification.auditor.certificate import bound
from ledgerwood.verification.auditor.certificate.bound import certified_bound, lower_bound
from ledgerwood.verification.auditor.certificate.counts import Binomial, Guesses, PoissonCount, sizes
from ledgerwood.verification.auditor.certificate.hypotheses import GaussianHypothesis, RatioHypothesis

GRID = np.concatenate([[1e-6, 1e-3, 0.01, 0.03], np.linspace(0.06, 0.94, 15), [0.97, 0.99, 0.999]])


def worst_error(n, null, truth, confidence):
    """The largest probability, over a grid of (p1, p2), that the bound exceeds the true parameter."""
    bounds = np.array(
        [[lower_bound(a, b, n, null=null, confidence=confidence) for b in range(n + 1)] for a in range(n + 1)]
    )
    x = np.arange(n + 1)
    worst = 0.0
    for p1 in GRID:
        row = binom.pmf(x, n, p1)
        for p2 in GRID:
            wrong = bounds > truth(p1, p2)
            worst = max(worst, float(row @ wrong @ binom.pmf(x, n, p2)))
    return worst


def ratio_truth(delta):
    return lambda p1, p2: math.log((p1 - delta) / p2) if p1 > delta else -math.inf


@pytest.mark.parametrize(("n", "delta", "confidence"), [(9, 0.0, 0.95), (9, 0.1, 0.9)])
def test_ratio_bound_errs_at_most_alpha_at_every_nuisance_by_enumeration(n, delta, confidence):
    error = worst_error(n, RatioHypothesis(delta), ratio_truth(delta), confidence)
    assert error <= 1 - confidence
    assert error > 0.1 * (1 - confidence)  # not valid by being useless


def test_gaussian_bound_errs_at_most_alpha_at_every_nuisance_by_enumeration():
    error = worst_error(8, GaussianHypothesis(), lambda p1, p2: float(ndtri(p1) - ndtri(p2)), 0.9)
    assert 0.005 < error <= 0.1


@pytest.mark.slow
@pytest.mark.parametrize(("n", "delta", "confidence"), [(30, 0.0, 0.99), (30, 0.02, 0.95), (45, 0.0, 0.9)])
def test_ratio_bound_errs_at_most_alpha_for_larger_samples_too(n, delta, confidence):
    assert worst_error(n, RatioHypothesis(delta), ratio_truth(delta), confidence) <= 1 - confidence


@pytest.mark.slow
@pytest.mark.parametrize(("p1", "p2", "n"), [(0.5, 0.4524, 20_000), (0.02, 0.01, 50_000), (0.3, 2e-4, 30_000)])
def test_coverage_by_simulation_is_the_stated_one(p1, p2, n):
    rng = np.random.default_rng(7)
    truth, runs = math.log(p1 / p2), 1000
    counts = zip(rng.binomial(n, p1, runs), rng.binomial(n, p2, runs))
    wrong = sum(lower_bound(int(a), int(b), n, confidence=0.95) > truth for a, b in counts)
    assert wrong <= binom.ppf(1 - 1e-6, runs, 0.05)
    assert wrong >= binom.ppf(1e-6, runs, 0.02)  # close to the level: the test is nearly exact for large counts


@given(st.integers(20, 1000), st.data())
@settings(max_examples=8, deadline=None)
def test_more_hits_on_the_first_input_never_lower_the_bound_much(n, data):
    x1 = data.draw(st.integers(0, n - 1))
    x2 = data.draw(st.integers(0, n))
    less, more = lower_bound(x1, x2, n), lower_bound(x1 + 1, x2, n)
    assert more >= less - 0.02 or more == less  # cells differ by rounding; the trend must be upwards


@pytest.mark.parametrize(
    ("x1", "x2", "n"),
    [(500, 100, 10_000), (550_000, 497_000, 1_100_000), (55_000, 0, 1_100_000), (550_000, 25, 1_100_000), (40, 3, 60)],
)
def test_the_joint_test_certifies_more_than_two_intervals(x1, x2, n):
    """Earlier auditors take two Clopper-Pearson intervals and a union bound."""
    low1, high2 = Binomial(n).interval(x1, 0.01)[0], Binomial(n).interval(x2, 0.01)[1]
    assert lower_bound(x1, x2, n) > math.log(low1 / high2)
    assert lower_bound(x1, x2, n) < math.log(x1 / max(x2, 0.5))


def test_large_counts_reach_the_one_sided_normal_limit():
    x1, x2, n = 550_000, 497_000, 1_100_000
    error = math.sqrt((1 - x1 / n) / x1 + (1 - x2 / n) / x2)
    ideal = math.log(x1 / x2) - 2.3263 * error
    assert ideal - 0.05 * 2.3263 * error < lower_bound(x1, x2, n) < ideal + 0.01 * error


@pytest.mark.parametrize("n", [10_000, 1_000_000])
def test_an_event_of_five_per_cent_against_never_certifies_ln_n_minus_4_8(n):
    assert lower_bound(n // 20, 0, n) >= math.log(n) - 4.8


def test_nothing_seen_bounds_nothing():
    assert lower_bound(0, 10, 100) == -math.inf
    assert lower_bound(0, 0, 100) <= 0.0
    assert lower_bound(1, 100, 100) < 0.0


def test_delta_lowers_the_bound():
    bounds = [lower_bound(300, 60, 5000, null=RatioHypothesis(delta)) for delta in (0.0, 0.005, 0.02)]
    assert bounds[0] > bounds[1] > bounds[2]


def test_gaussian_bound_is_close_to_mu_on_large_samples():
    n = 1_000_000
    p1, p2 = 0.575, 0.5
    x1, x2 = round(n * p1), round(n * p2)
    truth = float(ndtri(p1) - ndtri(p2))
    assert truth - 0.006 < lower_bound(x1, x2, n, null=GaussianHypothesis()) < truth


def test_clopper_pearson_covers():
    n = 40
    x = np.arange(n + 1)
    intervals = np.array([Binomial(n).interval(int(k), 0.1) for k in x])
    for p in GRID:
        assert float(binom.pmf(x, n, p) @ ((intervals[:, 0] > p) | (intervals[:, 1] < p))) <= 0.1


def test_garwoods_interval_covers():
    n, x = 40, np.arange(120)
    intervals = np.array([PoissonCount(n).interval(int(k), 0.1) for k in x])
    for p in GRID:
        assert float(poisson.pmf(x, n * p) @ ((intervals[:, 0] > p) | (intervals[:, 1] < p))) <= 0.1


@pytest.mark.parametrize(
    ("distribution", "exact"), [(Binomial(12), lambda p: binom(12, p)), (PoissonCount(12), lambda p: poisson(12 * p))]
)
def test_the_tails_of_a_count_are_those_of_its_distribution(distribution, exact):
    p, counts = np.array([1e-6, 0.2, 0.9]), np.array([0.0, 1.0, 5.0, 12.0, 13.0, 20.0])
    tails = distribution.at_least(counts, p)
    assert tails == pytest.approx(np.array([exact(q).sf(counts - 1) for q in p]), rel=1e-9, abs=1e-15)
    inner = counts[1:4]
    assert distribution.below(inner, p) == pytest.approx(np.array([exact(q).cdf(inner - 1) for q in p]), rel=1e-9)


@pytest.mark.parametrize("bad", [(5, 1, 4), (-1, 0, 10), (0, 11, 10)])
def test_impossible_counts_are_refused(bad):
    with pytest.raises(ParameterError, match="between 0 and n"):
        lower_bound(*bad)


def test_a_useless_confidence_is_refused():
    with pytest.raises(ParameterError, match="confidence"):
        lower_bound(1, 0, 10, confidence=1.0)


# --- p-values -------------------------------------------------------------------------------------------------------


def block_p_values(n, null, parameter, alpha):
    """P_b at one parameter for all counts of a block."""
    z = float(ndtri(1 - alpha))
    x = range(n + 1)
    return np.array([[bound._Counted.of(a, b, Binomial(n), null, alpha, z).worst(parameter)[1] for b in x] for a in x])


@pytest.mark.parametrize(
    ("null", "parameter"),
    [(RatioHypothesis(), 0.0), (RatioHypothesis(), 0.7), (RatioHypothesis(0.05), 0.3), (GaussianHypothesis(), 0.5)],
)
def test_an_early_look_and_a_last_one_err_together_at_most_alpha(null, parameter):
    """Counts after 4 outputs, then after 9, with a quarter and three quarters of the error."""
    early, n, alpha, share = 4, 9, 0.1, 0.25
    levels = ((early, share * alpha), (n, (1 - share) * alpha))
    wrong = [block_p_values(size, null, parameter, level) <= level for size, level in levels]
    worst = 0.0
    for p2 in GRID:
        p1 = min(float(null.largest(parameter, np.array([p2]))[0]), 1.0)
        first = np.outer(*(binom.pmf(np.arange(early + 1), early, p) for p in (p1, p2)))
        rest = np.outer(*(binom.pmf(np.arange(n - early + 1), n - early, p) for p in (p1, p2)))
        chance = 0.0
        for i, j in np.ndindex(*first.shape):
            later = wrong[1][i : i + n - early + 1, j : j + n - early + 1]
            chance += first[i, j] * (1.0 if wrong[0][i, j] else float((rest * later).sum()))
        worst = max(worst, chance)
    assert worst <= alpha


def test_each_block_alone_is_a_p_value():
    for parameter in (0.0, 0.7):
        p = block_p_values(10, RatioHypothesis(), parameter, 0.1)
        x = np.arange(11)
        for p2 in GRID:
            p1 = min(math.exp(parameter) * p2, 1.0)
            distribution = np.outer(binom.pmf(x, 10, p1), binom.pmf(x, 10, p2))
            for u in (0.01, 0.05, 0.1, 0.3, 0.6):
                assert float(distribution[p <= u].sum()) <= u


# --- guesses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "delta", "spread"),
    [(e, 0.0, spread) for e in (0.0, 0.4, 1.5) for spread in ((0.3, 0.3), (0.1, 0.6), (0.08, 0.05))]
    + [(0.4, 0.05, (0.3, 0.3)), (0.0, 0.02, (0.08, 0.05)), (1.5, 0.1, (0.1, 0.5))],
)
def test_guesses_err_at_most_alpha_by_enumeration(epsilon, delta, spread):
    """Both guesses lie on the edge of the null; the right and the wrong ones are enumerated, input by input."""
    n, alpha = 5, 0.1
    high, low = spread  # probability of the first guess on the first input, of the second guess on the second
    wrongly = [max(p - delta, 0.0) * math.exp(-epsilon) for p in spread]  # on the other input
    x = np.arange(40)
    right = np.convolve(poisson.pmf(x, n * high), poisson.pmf(x, n * low))[:40]
    wrong = np.convolve(poisson.pmf(x, n * wrongly[0]), poisson.pmf(x, n * wrongly[1]))[:40]
    error = sum(
        right[r] * wrong[w]
        for r in range(40)
        for w in range(40)
        if right[r] * wrong[w] > 1e-6
        and certified_bound(Guesses(r, w, n), null=RatioHypothesis(delta), confidence=1 - alpha) > epsilon
    )
    assert error + 0.002 <= alpha  # what was left out is less
    assert error > 0.1 * alpha or delta > 0 or epsilon > 1 or sum(spread) < 0.5  # not valid by being useless


def test_outputs_of_either_input_vary_as_a_poisson_number_does():
    drawn = np.array([sizes(50, np.random.default_rng(seed)) for seed in range(2000)])
    assert np.all(np.abs(drawn.mean(axis=0) - 50) < 5 * math.sqrt(50 / 2000))
    assert np.all(np.abs(drawn.var(axis=0) / 50 - 1) < 5 * math.sqrt(2 / 2000))
    assert abs(np.corrcoef(drawn.T)[0, 1]) < 5 / math.sqrt(2000)


def test_guesses_follow_the_binomial_and_need_a_ratio():
    guesses = Guesses(40, 20, 100)
    assert guesses.tail(0.3) == pytest.approx(float(binom.sf(39, 60, 1 / (1 + math.exp(-0.3)))), rel=1e-8)
    assert Guesses(0, 20, 100).tail(0.3) == 1.0
    assert certified_bound(Guesses(0, 9, 100)) == -math.inf
    with pytest.raises(ParameterError, match="null"):
        certified_bound(Guesses(9, 1, 100), null=GaussianHypothesis())
    with pytest.raises(ParameterError, match="guesses"):
        Guesses(-1, 3, 100)


def test_guesses_at_a_tiny_delta_bound_almost_as_much_as_at_none():
    pure, tiny, more = (
        certified_bound(Guesses(1000, 200, 10_000), null=RatioHypothesis(delta)) for delta in (0.0, 1e-9, 1e-3)
    )
    assert pure > tiny > pure - 0.003
    assert tiny > more > tiny - 0.05


def test_rare_events_of_both_directions_certify_more_than_either():
    n = 1_000_000
    one = lower_bound(n // 2, 23, n)
    assert certified_bound(Guesses(n, 46, n)) > one + 0.08
