"""Long runs of sampled releases: ends against quadrature and enumeration, and the laws of prices over the box."""

from __future__ import annotations

import math
from itertools import product

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerwood.accounting import (
    Cost,
    DiscreteGaussian,
    Gaussian,
    Laplace,
    PoissonSubsampled,
    PureDP,
    RandomizedResponse,
    Skellam,
    affordable,
    calibrate,
    parallel,
)
from ledgerwood.accounting.accountant.pld import blocks
from ledgerwood.accounting.accountant.pld.composition import ComposedLoss, compose
from ledgerwood.accounting.curves.dominating_pairs.base import LossPair, SubsampledPair
from ledgerwood.accounting.curves.dominating_pairs.continuous import GaussianPair

# --------------------------------------------------------------------------------------------
# oracles


def sampled_loss(x: mp.mpf, mu: float, rate: float) -> mp.mpf:
    return mp.log1p(rate * mp.expm1(mu * x - mp.mpf(mu) ** 2 / 2))


def quadrature_delta(mu: float, rate: float, eps: float) -> mp.mpf:
    """δ of two removals from sampled Gaussians: the second in closed form, the first integrated over its output x."""

    def second(gamma: mp.mpf) -> mp.mpf:
        """q·δ₀(log((e^γ - 1 + q)/q)), and 1 - e^γ where no loss is as small."""
        inner = (mp.expm1(gamma) + rate) / rate
        if inner <= 0:
            return -mp.expm1(gamma)
        g, m = mp.log(inner), mp.mpf(mu)
        return rate * (mp.ncdf(m / 2 - g / m) - inner * mp.ncdf(-m / 2 - g / m))

    def density(x: mp.mpf) -> mp.mpf:
        return (1 - mp.mpf(rate)) * mp.npdf(x) + rate * mp.npdf(x - mu)

    ends = [-12, -4, -1, 0, 1, 2, 3, 4, 5, 6, 8, 14]
    return mp.quad(lambda x: density(x) * second(eps - sampled_loss(x, mu, rate)), ends)


@pytest.mark.parametrize(("mu", "rate", "eps"), [(1.0, 0.1, 0.3), (2.0, 0.01, 0.5), (0.5, 0.3, 0.1), (1.5, 1e-3, 0.02)])
def test_two_sampled_gaussians_enclose_the_integral(mu: float, rate: float, eps: float) -> None:
    with mp.workdps(25):
        exact = quadrature_delta(mu, rate, eps)
        composed = compose([(SubsampledPair(GaussianPair(mu), rate, "remove"), 2)], epsilon=eps)
        assert composed.delta_lower(eps) <= exact <= composed.delta_upper(eps)
        assert composed.delta_upper(eps) <= exact * (1 + mp.mpf("1e-4"))


@pytest.mark.parametrize("rate", [0.3, 0.02])
def test_several_releases_on_one_sample_agree_with_enumeration(rate: float) -> None:
    """Two randomised responses on one sample, three such samples: every path of both directions."""
    first = [math.log(4.0), -math.log(4.0)], [0.8, 0.2]
    second = [math.log(2.0), 0.0, -math.log(2.0)], [0.5, 0.25, 0.25]
    joint = [(l1 + l2, p1 * p2) for (l1, p1), (l2, p2) in product(zip(*first), zip(*second))]
    cost = PoissonSubsampled(RandomizedResponse(math.log(4.0), k=2) + RandomizedResponse(math.log(2.0), k=3), rate=rate)
    for eps in (0.0, 0.05, 0.4, 1.0):
        worst = 0.0
        for sign in (1, -1):
            steps = []
            for loss, p in joint:
                q = p * math.exp(-loss)
                mixed = (1 - rate) * q + rate * p
                steps.append((math.log(mixed / q), mixed) if sign == 1 else (math.log(q / mixed), q))
            total = 0.0
            for path in product(steps, repeat=3):
                loss = math.fsum(x for x, _ in path)
                total += math.prod(p for _, p in path) * max(0.0, -math.expm1(eps - loss))
            worst = max(worst, total)
        found = (3 * cost).delta(eps)
        assert worst * (1 - 1e-9) <= found <= worst * (1 + 2e-4) + 1e-12


def test_samples_of_samples_are_samples() -> None:
    nested = PoissonSubsampled(PoissonSubsampled(Gaussian(sigma=1.0), rate=0.1), rate=0.1)
    once = PoissonSubsampled(Gaussian(sigma=1.0), rate=0.01)
    for cost, other in ((nested, once), (50 * nested, 50 * once)):
        assert cost.epsilon(1e-5) == pytest.approx(other.epsilon(1e-5), rel=1e-7)
        assert cost.epsilon(1e-5, "rdp") == pytest.approx(other.epsilon(1e-5, "rdp"), rel=1e-9)


def test_blocks_and_one_grid_enclose_the_same_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bulk composed in blocks with its tails apart, against every step on one grid."""
    for direction in ("remove", "add"):
        pair: LossPair = SubsampledPair(GaussianPair(1.0), 0.02, direction)
        split = compose([(pair, 3000)], delta=1e-6, tolerance=1e-5)
        assert any(isinstance(place, blocks.BlockSplit) for _, _, place in split.plan.places)
        with monkeypatch.context() as patch:
            patch.setattr("ledgerwood.accounting.accountant.pld.grid_choice.FEWEST_STEPS", 10**9)
            single = compose([(pair, 3000)], delta=1e-6)
        assert not any(isinstance(place, blocks.BlockSplit) for _, _, place in single.plan.places)
        assert split.epsilon_lower(1e-6) <= single.epsilon_upper(1e-6) <= split.epsilon_upper(1e-6) * (1 + 1e-9)
        assert single.epsilon_lower(1e-6) <= split.epsilon_upper(1e-6) <= single.epsilon_upper(1e-6) * (1 + 3e-5)
        for eps in (0.2, 0.7, 1.1):
            assert split.delta_lower(eps) <= single.delta_upper(eps)
            assert single.delta_lower(eps) <= split.delta_upper(eps)


# --------------------------------------------------------------------------------------------
# numbers that were wrong


@pytest.mark.parametrize(
    ("rate", "sigma", "steps", "delta", "limit"),
    [
        (1e-3, 1.0, 10_000, 1e-5, 0.4760),
        (1e-3, 0.8, 100, 1e-6, 0.26034),
        (0.00315973, 0.970739, 20, 1e-5, 0.13958),
        (8.42135e-4, 1.66266, 204, 1e-6, 0.02903),
        (1e-4, 0.8, 10_000, 1e-6, 0.0795),
        (1e-5, 1.0, 10**6, 1e-8, 0.0592),
    ],
)
def test_rarely_sampled_runs_are_tight(rate: float, sigma: float, steps: int, delta: float, limit: float) -> None:
    cost = steps * PoissonSubsampled(Gaussian(sigma=sigma), rate=rate)
    epsilon = cost.epsilon(delta)
    assert epsilon <= limit
    assert cost.delta(epsilon) <= delta
    assert cost.delta(epsilon * (1 - 1e-6)) > delta
    assert limit * 0.98 <= epsilon


def test_legal_costs_that_crashed_have_a_price() -> None:
    sampled = PoissonSubsampled(Gaussian(sigma=5.890665747494959), rate=0.04048010455642691)
    both = parallel(sampled, RandomizedResponse(0.002571840432415142, k=2))
    assert (100 * sampled).epsilon(1e-6) * (1 - 1e-6) <= (100 * both).epsilon(1e-6) <= 0.3
    assert (10**9 * PureDP(1e-6)).account(1e-6).epsilon == pytest.approx(0.1159286, rel=1e-6)
    fine = DiscreteGaussian(sigma=1e4).account(1e-6)
    assert fine.lower <= Gaussian(sigma=1e4).epsilon(1e-6) <= fine.epsilon <= fine.lower * (1 + 1e-6)
    assert DiscreteGaussian(sigma=1e8).epsilon(1e-12) == pytest.approx(Gaussian(sigma=1e8).epsilon(1e-12), rel=1e-9)
    assert Skellam(variance=1e16).epsilon(1e-12) > 0


@pytest.mark.parametrize("inner", [DiscreteGaussian(sigma=10.0), Skellam(variance=100.0)], ids=str)
def test_renyi_curves_of_sampled_discrete_noise_are_amplified(inner: object) -> None:
    sampled = PoissonSubsampled(inner, rate=0.01)
    orders = np.array([2.0, 4.0, 16.0])
    assert (sampled.rdp(orders) < 0.01 * inner.rdp(orders)).all()
    gaussian = PoissonSubsampled(Gaussian(sigma=10.0), rate=0.01).rdp(orders)
    assert (sampled.rdp(orders) >= gaussian * (1 - 1e-6)).all()


# --------------------------------------------------------------------------------------------
# laws over the box

log_uniform = lambda low, high: st.floats(math.log10(low), math.log10(high)).map(lambda x: 10.0**x)  # noqa: E731
rates = log_uniform(1e-9, 1.0)
sigmas = log_uniform(0.3, 100.0)
deltas = log_uniform(1e-30, 1e-1)
usual_deltas = log_uniform(1e-10, 1e-1)
counts = log_uniform(1, 1e8).map(round)


def price(steps: int, rate: float, sigma: float, delta: float) -> float:
    return (steps * PoissonSubsampled(Gaussian(sigma=sigma), rate=rate)).epsilon(delta)


def check_the_two_questions(steps: int, rate: float, sigma: float, delta: float) -> None:
    cost = steps * PoissonSubsampled(Gaussian(sigma=sigma), rate=rate)
    account = cost.account(delta)
    assert 0 <= account.lower <= account.epsilon < math.inf
    assert cost.delta(account.epsilon) <= delta
    assert account.epsilon <= cost.epsilon(delta) * (1 + 1e-9)
    if account.epsilon > 1e-9:
        assert cost.delta(account.epsilon * (1 - 1e-3)) > delta


@settings(max_examples=6, deadline=None)
@given(
    log_uniform(1, 1e5).map(round),
    log_uniform(1e-5, 1.0),
    log_uniform(0.5, 20.0),
    log_uniform(1e-12, 1e-1),
)
def test_the_two_questions_agree_and_the_lower_end_is_lower(
    steps: int, rate: float, sigma: float, delta: float
) -> None:
    check_the_two_questions(steps, rate, sigma, delta)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(counts, rates, sigmas, deltas)
def test_the_two_questions_agree_over_the_whole_box(steps: int, rate: float, sigma: float, delta: float) -> None:
    check_the_two_questions(steps, rate, sigma, delta)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(counts, rates, sigmas, usual_deltas, st.floats(1.001, 3.0))
def test_prices_are_monotone_over_the_box(steps: int, rate: float, sigma: float, delta: float, factor: float) -> None:
    here = price(steps, rate, sigma, delta) * (1 - 2e-6)
    assert here <= price(math.ceil(steps * factor), rate, sigma, delta)
    assert here <= price(steps, min(rate * factor, 1.0), sigma, delta)
    assert here <= price(steps, rate, sigma / factor, delta)
    assert here <= price(steps, rate, sigma, delta / factor)


@settings(max_examples=8, deadline=None)
@given(
    st.integers(1, 3000),
    log_uniform(1e-4, 0.3),
    log_uniform(0.6, 5.0),
    log_uniform(1e-10, 1e-3),
    st.floats(1.002, 2.0),
)
def test_prices_are_monotone_where_most_runs_are(
    steps: int, rate: float, sigma: float, delta: float, factor: float
) -> None:
    here = price(steps, rate, sigma, delta) * (1 - 2e-6)
    assert here <= price(math.ceil(steps * factor), rate, sigma, delta)
    assert here <= price(steps, min(rate * factor, 1.0), sigma, delta)
    assert here <= price(steps, rate, sigma / factor, delta)
    assert here <= price(steps, rate, sigma, delta / factor)


others = st.one_of(
    st.builds(lambda s: Gaussian(sigma=s), log_uniform(0.5, 50.0)),
    st.builds(lambda b: Laplace(scale=b), log_uniform(0.5, 50.0)),
    st.builds(PureDP, log_uniform(1e-3, 1.0)),
    st.builds(lambda q, s: PoissonSubsampled(Gaussian(sigma=s), rate=q), log_uniform(1e-4, 0.5), log_uniform(0.5, 5.0)),
)


@settings(max_examples=8, deadline=None)
@given(st.integers(1, 1000), log_uniform(1e-4, 0.3), log_uniform(0.6, 5.0), others, log_uniform(1e-10, 1e-3))
def test_one_more_release_lowers_neither_end(
    steps: int, rate: float, sigma: float, other: object, delta: float
) -> None:
    cost = steps * PoissonSubsampled(Gaussian(sigma=sigma), rate=rate)
    without, added = cost.account(delta), (cost + other).account(delta)
    assert without.epsilon * (1 - 2e-6) <= added.epsilon
    assert without.lower <= added.epsilon


def test_the_parts_of_a_composition_keep_their_mass() -> None:
    """The laws of bulk, tails and blocks together weigh 1: none is lost, and none counted twice."""
    composed: ComposedLoss = compose([(SubsampledPair(GaussianPair(1 / 0.6), 1e-4, "remove"), 10**5)], delta=1e-6)
    parts = composed._parts(True)
    assert len(parts) > 1
    log_mass = sum(count * float(np.logaddexp.reduce(law.log_mass)) for law, count in parts)
    assert -1e-9 <= log_mass <= 1e-6


# --------------------------------------------------------------------------------------------
# calibration


@pytest.mark.parametrize(
    ("steps", "rate", "epsilon", "delta", "least"),
    [(14062, 256 / 60000, 1.0, 1e-5, 2.0248), (100, 1e-3, 0.5, 1e-6, 0.7163)],
)
def test_the_least_noise_of_a_run(steps: int, rate: float, epsilon: float, delta: float, least: float) -> None:
    def run(sigma: float) -> Cost:
        return steps * PoissonSubsampled(Gaussian(sigma=sigma), rate=rate)

    sigma = calibrate(run, epsilon=epsilon, delta=delta)
    assert least <= sigma <= least * (1 + 1e-3)
    assert run(sigma).epsilon(delta) <= epsilon < run(sigma * (1 - 1e-5)).epsilon(delta)


def test_the_most_steps_of_a_run() -> None:
    def run(steps: int) -> Cost:
        return steps * PoissonSubsampled(Gaussian(sigma=1.0), rate=0.01)

    steps = affordable(run, epsilon=1.0, delta=1e-5)
    assert run(steps).epsilon(1e-5) <= 1.0 < run(steps + 1).epsilon(1e-5)
    assert affordable(run, epsilon=1e-6, delta=1e-9) == 0
    assert affordable(run, epsilon=1e6, delta=1e-5, most=7) == 7
