"""Costs at the edge of their parameters: free releases, mass at infinite loss, tails beyond the smallest float."""

import math

import numpy as np
import pytest

from ledgerwood.accounting import (
    RDP,
    ZCDP,
    ApproxDP,
    BoundedRange,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    PermuteAndFlip,
    PoissonSubsampled,
    PrivacyLoss,
    PureDP,
    RandomizedResponse,
    Skellam,
    SparseVector,
    parallel,
    zero,
)
from ledgerwood.errors import ParameterError

FREE = [
    PureDP(0),
    ApproxDP(0, 0),
    BoundedRange(0),
    PermuteAndFlip(0),
    RandomizedResponse(0, k=4),
    SparseVector(0.0),
    Gaussian(mu=0),
    Gaussian(sigma=2.0, sensitivity=0),
    Laplace(scale=1.0, sensitivity=0),
    ZCDP(0),
    DiscreteLaplace(scale=2.0, sensitivity=0),
    DiscreteGaussian(sigma=2.0, sensitivity=0),
    DiscreteGaussian(sigma=5.0, sensitivity=0, dimension=3),
    Skellam(variance=4.0, l1_sensitivity=0),
    PrivacyLoss([0.0], [1.0]),
    PoissonSubsampled(Gaussian(sigma=1.0), rate=0.0),
    PoissonSubsampled(PureDP(0), rate=0.5),
    parallel(PureDP(0), BoundedRange(0)),
    zero(),
]


@pytest.mark.parametrize("cost", FREE, ids=repr)
def test_a_free_release_costs_nothing_by_any_question(cost):
    for delta in (0.0, 1e-5, 0.3):
        assert cost.epsilon(delta) == 0.0
    assert cost.delta(0.0) == 0.0
    assert cost.delta(1.0) == 0.0
    assert cost.rdp(2.0) == 0.0
    assert cost.account(1e-5).epsilon == 0.0
    assert (3 * cost).epsilon(1e-5) == 0.0
    assert (cost + PureDP(0.5)).epsilon(0.0) == 0.5


@pytest.mark.parametrize("cost", FREE, ids=repr)
def test_a_free_part_changes_no_parallel_price(cost):
    other = Gaussian(sigma=2.0)
    assert parallel(cost, other).epsilon(1e-5) == other.epsilon(1e-5)
    assert parallel(cost, 3 * BoundedRange(0.2)).epsilon(1e-5) == (3 * BoundedRange(0.2)).epsilon(1e-5)


@pytest.mark.parametrize("cost", [Gaussian(sigma=2.0), Laplace(scale=2.0), BoundedRange(0.5), 3 * Gaussian(sigma=3.0)])
def test_subsampling_everything_is_the_release_itself(cost):
    whole = PoissonSubsampled(cost, rate=1.0)
    assert whole.epsilon(1e-5) == pytest.approx(cost.epsilon(1e-5), rel=1e-6)
    assert (2 * whole).epsilon(1e-5) == pytest.approx((2 * cost).epsilon(1e-5), rel=1e-3)
    assert whole.delta(0.1) >= cost.delta(0.1) * (1 - 1e-9)


def test_the_mass_of_approximate_dp_is_its_delta_to_the_last_bit():
    for mass in np.random.default_rng(0).uniform(-12, -0.5, 300):
        m = float(10.0**mass)
        cost = ApproxDP(1.0, m)
        assert cost.delta(1.0) == cost.delta(2.0) == m
        assert cost.epsilon(m) == 1.0
        assert cost.epsilon(math.nextafter(m, 0.0)) == math.inf
        assert cost.delta(0.999) > m


def test_delta_is_positive_wherever_no_pure_epsilon_covers_it():
    for cost in (
        DiscreteGaussian(sigma=1.0),
        Skellam(variance=20.0),
        Gaussian(sigma=1.0),
        3 * DiscreteGaussian(sigma=1.0),
    ):
        for epsilon in (10.0, 100.0, 500.0, 1e4):
            assert cost.delta(epsilon) > 0


def test_a_loss_below_zero_next_to_infinite_mass_gives_no_negative_epsilon():
    cost = PrivacyLoss([math.inf, -0.05], [0.1, 0.9])
    assert cost.pure_epsilon() == 0.0
    assert cost.epsilon(0.2) == cost.epsilon(0.1) == 0.0
    assert cost.epsilon(0.05) == math.inf
    assert (2 * cost).epsilon(0.5) == 0.0
    assert (cost + PureDP(0.5)).pure_epsilon() == 0.5


def test_extreme_orders_and_rates_raise_no_warning():
    assert Skellam(variance=2.0).rdp([1.0, math.inf])[1] == math.inf
    assert PoissonSubsampled(Gaussian(sigma=1.0), rate=1e-300).epsilon(1e-5) == 0.0
    assert RDP(lambda alpha: 0.0 * alpha).epsilon(1e-5) == 0.0


def test_integer_noise_has_no_sensitivity_between_zero_and_one():
    with pytest.raises(ParameterError, match="l1_sensitivity"):
        Skellam(variance=4.0, l1_sensitivity=0.5)


@pytest.mark.parametrize("delta", [0.3, 1e-3, 1e-12, 1e-300])
def test_selections_too_small_to_matter_at_delta_are_priced(delta):
    tiny = 100 * BoundedRange(1e-9)
    assert tiny.epsilon(delta) <= tiny.pure_epsilon()
    assert tiny.delta(tiny.epsilon(delta)) <= delta
    mixed = tiny + Laplace(scale=1.0)
    assert Laplace(scale=1.0).epsilon(delta) * (1 - 1e-9) <= mixed.epsilon(delta) <= mixed.pure_epsilon()


@pytest.mark.parametrize("rate", [1e-9, 1e-6, 1e-3])
def test_the_curve_of_a_rarely_sampled_gaussian_keeps_its_digits(rate):
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(50):
        q = mpmath.mpf(rate)
        for alpha in (1.3, 2.0, 7.0):
            a = mpmath.mpf(alpha)

            def moment(z, power):
                return mpmath.npdf(z) * mpmath.expm1(power * mpmath.log1p(q * mpmath.expm1(2 * z - 2)))

            edges = list(range(-16, 48))
            exact = max(
                mpmath.log1p(mpmath.quad(lambda z, k=power: moment(z, k), edges)) / (a - 1) for power in (a, 1 - a)
            )
            found = PoissonSubsampled(Gaussian(sigma=0.5), rate=rate).rdp(alpha)
            assert float(found / exact - 1) == pytest.approx(0.0, abs=1e-12)
