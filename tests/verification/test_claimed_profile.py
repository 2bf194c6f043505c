"""Which hypotheses a claim makes: one point, a profile that ends at its pure epsilon, or mu."""

import math
from itertools import pairwise

import numpy as np
import pytest

from ledgerwood.accounting import RDP, ZCDP, ApproxDP, BoundedRange, Gaussian, Laplace, PureDP, RandomizedResponse
from ledgerwood.errors import ParameterError
from ledgerwood.verification.auditor.certificate.hypotheses import read_claim


@pytest.mark.parametrize(
    ("claim", "epsilon", "delta"),
    [(PureDP(0.3), 0.3, 0.0), (ApproxDP(1.0, 1e-5), 1.0, 1e-5), (RandomizedResponse(0.5), 0.5, 0.0)],
)
def test_point_claims_are_tested_at_their_own_point(claim, epsilon, delta):
    (point,) = read_claim(claim).points
    assert (point.claimed, point.delta) == pytest.approx((epsilon, delta))


def test_profile_claims_are_tested_at_many_points_and_gaussian_ones_on_mu():
    profile = read_claim(Gaussian(mu=0.5))
    assert profile.is_profile and profile.mu is not None and profile.mu.claimed == 0.5
    assert read_claim(2 * Gaussian(mu=0.5)).mu.claimed == pytest.approx(math.sqrt(0.5))
    assert read_claim(ZCDP(0.1)).mu is None
    worst = profile.worst(700.0, 300.0, 1000)
    assert worst in profile.points
    assert math.exp(worst.claimed) * 0.3 + worst.delta < 0.7  # the counts contradict that point


@pytest.mark.parametrize(
    ("claim", "epsilon", "delta"),
    [
        (100 * PureDP(0.1), 10.0, 0.0),
        (PureDP(0.3) + PureDP(0.4), 0.7, 0.0),
        (50 * ApproxDP(0.1, 1e-6), 5.0, 5e-5),
        (BoundedRange(0.5), 0.5, 0.0),
        (Laplace(scale=2.0), 0.5, 0.0),
    ],
)
def test_a_claim_that_says_more_than_its_pure_epsilon_is_a_profile_that_ends_there(claim, epsilon, delta):
    profile = read_claim(claim)
    assert profile.is_profile and profile.mu is None
    assert (profile.points[-1].claimed, profile.points[-1].delta) == pytest.approx((epsilon, delta), rel=1e-4)
    assert all(a.claimed < b.claimed and a.delta >= b.delta for a, b in pairwise(profile.points))


@pytest.mark.parametrize("claim", [10_000 * PureDP(0.5), PureDP(400) + PureDP(390), ZCDP(1e4), Gaussian(mu=60)])
def test_a_claim_of_almost_nothing_is_contradicted_by_nothing(claim):
    violations = read_claim(claim).estimated_bound(np.array([500.0, 1000.0]), np.array([400.0, 0.0]), 1000, 2.0)
    assert np.isfinite(violations).all() and (violations < 0).all()


def test_reading_a_short_renyi_curve_warns_of_nothing():
    assert read_claim(RDP({2: 0.1, 4: 0.2})).is_profile  # warnings are errors here


def test_what_is_not_a_cost_is_refused():
    with pytest.raises(ParameterError, match="claim"):
        read_claim("epsilon = 1")
