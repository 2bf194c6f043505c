"""One training: both bounds hold for learners whose privacy is known, and see broken ones."""

import json
import math

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from ledgerwood.accounting import ApproxDP, Gaussian, PureDP
from ledgerwood.errors import ParameterError
from ledgerwood.verification.training_audit import (
    audit_one_run,
    audit_training,
    gdp_one_run_bound,
    one_run_bound,
    one_run_p_value,
)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.0])
def test_the_bound_holds_for_randomized_response_on_every_canary_by_enumeration(epsilon):
    m = 60
    q = 1 / (1 + math.exp(-epsilon))
    right = np.arange(m + 1)
    bounds = np.array([one_run_bound(m, m, int(v), confidence=0.95) for v in right])
    error = float(binom.pmf(right, m, q) @ (bounds > epsilon))
    assert 0.002 < error <= 0.05


@pytest.mark.parametrize("mu", [0.3, 1.0, 2.0])
def test_the_gaussian_bound_holds_for_independent_gaussian_canaries_by_enumeration(mu):
    m = 40
    q = float(ndtr(mu / 2))  # the best guess of one coin from N(+-mu/2, 1)
    right = np.arange(m + 1)
    bounds = np.array([gdp_one_run_bound(m, m, int(v), confidence=0.95) for v in right])
    assert float(binom.pmf(right, m, q) @ (bounds > mu)) <= 0.05
    assert bounds[-1] > 0.5


def test_delta_raises_the_p_value():
    values = [one_run_p_value(100, 50, 45, 1.0, delta) for delta in (0.0, 1e-5, 1e-3)]
    assert values[0] < values[1] < values[2] <= 1.0


def test_the_p_value_without_delta_is_the_binomial_tail():
    assert one_run_p_value(80, 30, 25, 0.7) == pytest.approx(binom.sf(24, 30, 1 / (1 + math.exp(-0.7))), rel=1e-9)


def orthogonal_sum(sigma, m):
    return lambda included, rng: (
        np.sum(included, axis=0) + rng.normal(0, sigma, m) if included else rng.normal(0, sigma, m)
    )


def inner_products(model, canaries):
    return [float(model @ canary) for canary in canaries]


def test_a_correct_gaussian_sum_passes_and_a_weak_one_is_flagged():
    m = 300
    canaries = list(np.eye(m))
    good = audit_one_run(orthogonal_sum(2.0, m), canaries, inner_products, Gaussian(mu=0.5), seed=1)
    assert not good.flagged and good.mu_lower <= 0.5
    weak = audit_one_run(orthogonal_sum(0.4, m), canaries, inner_products, Gaussian(mu=0.5), seed=1)
    assert weak.flagged
    assert 0.5 < weak.mu_lower <= 2.5
    assert "violation" in str(weak)


def test_guessing_fewer_canaries_is_allowed_and_one_sided_too():
    m = 200
    report = audit_one_run(
        orthogonal_sum(0.3, m), list(np.eye(m)), inner_products, PureDP(1.0), guesses=60, two_sided=False, seed=2
    )
    assert report.guesses == 60
    assert report.flagged


def test_impossible_counts_and_scores_are_refused():
    with pytest.raises(ParameterError):
        one_run_bound(10, 20, 5)
    with pytest.raises(ParameterError, match="score"):
        audit_one_run(lambda included, rng: 0, [1, 2, 3], lambda model, c: [0.0], PureDP(1.0))


@pytest.mark.parametrize(("canaries", "mu"), [(6, 0.5), (30, 1.0), (120, 0.3), (120, 2.0)])
@pytest.mark.parametrize("alpha", [0.1, 0.01])
def test_the_gaussian_bound_errs_at_most_alpha_for_independent_gaussian_releases(canaries, mu, alpha):
    """All canaries guessed from releases of their own: the number of right guesses is binomial, exactly."""
    distribution = binom(canaries, ndtr(mu / 2))
    wrong = [v for v in range(canaries + 1) if gdp_one_run_bound(canaries, canaries, v, confidence=1 - alpha) > mu]
    error = sum(float(distribution.pmf(v)) for v in wrong)
    assert error <= alpha
    if (canaries, mu) == (120, 0.3):
        assert wrong  # not valid by being useless


@pytest.mark.parametrize(
    ("claim", "delta"),
    [
        (PureDP(1.0), 0.0),
        (ApproxDP(1.0, 1e-3), 1e-3),
        (Gaussian(mu=1.0), 1e-5),
        (10 * PureDP(0.1), 1e-5),
        (2 * ApproxDP(0.5, 1e-3), pytest.approx(2e-3, rel=1e-3)),
    ],
)
def test_a_claim_is_read_at_its_own_delta(claim, delta):
    """An approximate claim of a large delta was once read at 1e-5, where it allows everything."""
    m = 100
    report = audit_one_run(orthogonal_sum(0.2, m), list(np.eye(m)), inner_products, claim, seed=1)
    assert report.delta == delta
    assert math.isfinite(report.epsilon_claimed)
    assert json.loads(report.to_json())["right"] == report.right


def test_a_nan_among_the_scores_and_a_bad_confidence_are_named():
    canaries = [1, 2, 3]
    with pytest.raises(ParameterError, match="nan"):
        audit_one_run(lambda included, rng: 0, canaries, lambda model, c: [0.0, math.nan, 1.0], PureDP(1.0))
    with pytest.raises(ParameterError, match="confidence"):
        audit_one_run(lambda included, rng: 0, canaries, lambda model, c: c, PureDP(1.0), confidence=1.5)
    with pytest.raises(ParameterError, match=r"confidence.*0\.2"):
        audit_training(lambda included, rng: 0, canaries, lambda model, c: c, PureDP(1.0), confidence=0.2)
    with pytest.raises(ParameterError, match="added or removed"):
        audit_one_run(lambda included, rng: 0, canaries, lambda model, c: c, PureDP(1.0, neighbours="replace_one"))
    with pytest.raises(ParameterError, match="canaries"):
        audit_one_run(lambda included, rng: 0, [], lambda model, c: c, PureDP(1.0))


@pytest.mark.parametrize("coins", [1e-3, 0.02])
@pytest.mark.parametrize(("m", "epsilon"), [(20, 0.5), (60, 1.0)])
def test_the_bound_at_a_delta_holds_for_canaries_that_are_betrayed_all_at_once(m, epsilon, coins):
    """With probability delta the learner publishes everything, otherwise it answers each canary at random."""
    q = 1 / (1 + math.exp(-epsilon))
    right = np.arange(m + 1)
    distribution = (1 - coins) * binom.pmf(right, m, q)
    distribution[-1] += coins
    bounds = np.array([one_run_bound(m, m, int(v), delta=coins, confidence=0.95) for v in right])
    assert float(distribution @ (bounds > epsilon)) <= 0.05


def test_many_trainings_and_one_are_reported_side_by_side():
    m = 40
    weak = audit_training(
        rounded(orthogonal_sum(0.4, m)), list(np.eye(m)), inner_products, Gaussian(mu=0.5), samples=600, seed=1
    )
    assert weak.flagged and not weak.passed and weak.many.flagged
    assert weak.many.mu_lower > weak.one.mu_lower
    assert weak.many.confidence == weak.one.confidence == pytest.approx(0.995)
    assert "many trainings: violation" in str(weak) and "one training: " in str(weak)
    both = json.loads(weak.to_json())
    assert both["flagged"] and both["many"]["flagged"] and both["one"]["canaries"] == m
    sound = audit_training(
        rounded(orthogonal_sum(2.0, m)), list(np.eye(m)), inner_products, Gaussian(mu=0.5), samples=600, seed=1
    )
    assert sound.passed


def test_a_learner_that_raises_does_not_pass_the_audit_by_many_trainings():
    def train(included, rng):
        if len(included) == 10:
            raise ValueError
        return np.round(rng.normal(0, 5.0, 10), 6)

    report = audit_training(train, list(np.eye(10)), inner_products, Gaussian(mu=0.5), samples=200, seed=2)
    assert report.flagged and any("ValueError" in problem for problem in report.many.problems)


def rounded(train):
    """Released on a grid: bits of floats would betray any of them."""
    return lambda included, rng: np.round(train(included, rng), 6)
