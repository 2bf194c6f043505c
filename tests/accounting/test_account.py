"""Accountants: distributions, anchors, extremes."""

from __future__ import annotations

import math
import warnings

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from ledgerwood.accounting import (
    RDP,
    ZCDP,
    ApproxDP,
    BoundedRange,
    Cost,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    NoisyMax,
    PoissonSubsampled,
    PureDP,
    RandomizedResponse,
    SparseVector,
    parallel,
    sequence,
)
from ledgerwood.accounting.accountant.methods import METHODS
from ledgerwood.errors import MethodUnavailable, OrderAtEdge

sizes = st.floats(0.01, 1.5)
atoms = st.one_of(
    sizes.map(PureDP),
    sizes.map(BoundedRange),
    sizes.map(lambda m: Gaussian(mu=m)),
    sizes.map(ZCDP),
    sizes.map(lambda e: Laplace(scale=1 / e)),
    sizes.map(lambda e: RandomizedResponse(e, k=4)),
)
counted = st.tuples(atoms, st.integers(1, 6))
deltas = st.floats(-9, -1).map(lambda x: 10.0**x)


def total(parts: list[tuple[Cost, int]]) -> Cost:
    return sum((n * c for c, n in parts), start=0 * parts[0][0])


@given(st.lists(counted, min_size=1, max_size=3), deltas)
@settings(max_examples=12, deadline=None)
def test_epsilon_and_delta_invert_on_the_safe_side(parts: list[tuple[Cost, int]], delta: float) -> None:
    cost = total(parts)
    assert cost.delta(cost.epsilon(delta)) <= delta
    for method in ("pure", "advanced", "kov", "zcdp", "rdp", "gdp"):
        try:
            value = cost.epsilon(delta, method)
        except MethodUnavailable:
            continue
        assert cost.delta(value, method) <= delta


@given(st.lists(counted, min_size=1, max_size=3), deltas)
@settings(max_examples=8, deadline=None)
def test_every_method_is_at_least_the_certified_lower_end(parts: list[tuple[Cost, int]], delta: float) -> None:
    account = total(parts).account(delta)
    assert account.lower <= account.epsilon
    for value in account.table.values():
        assert isinstance(value, str) or value >= account.lower
    least = min(v for v in account.table.values() if not isinstance(v, str))
    assert account.epsilon == least
    assert account.table[account.method] == least


@pytest.mark.parametrize(
    "cost",
    [
        PureDP(1.0) + BoundedRange(1.0),
        BoundedRange(1.4465) + 3 * Gaussian(mu=0.5985),
        BoundedRange(0.906) + Laplace(scale=3.496) + 2 * PureDP(0.4036),
        sequence([PureDP(0.5), BoundedRange(0.7), PureDP(0.2)]),
        2 * BoundedRange(0.3) + PureDP(0.2),
    ],
    ids=repr,
)
@pytest.mark.parametrize("delta", [0.1, 1e-5])
def test_the_default_is_the_least_of_all_methods(cost: Cost, delta: float) -> None:
    account = cost.account(delta)
    least = min(value for value in account.table.values() if not isinstance(value, str))
    assert cost.epsilon(delta) == account.epsilon == least
    assert cost.delta(account.epsilon) <= delta


@given(counted, deltas)
@settings(max_examples=15, deadline=None)
def test_price_is_monotone_in_count_size_and_delta(part: tuple[Cost, int], delta: float) -> None:
    cost, n = part
    price = (n * cost).epsilon(delta)
    assert ((n + 1) * cost).epsilon(delta) >= price * (1 - 1e-7)
    assert (n * cost).epsilon(delta / 2) >= price * (1 - 1e-7)
    assert (n * cost).epsilon(delta) <= (n * cost).pure_epsilon() * (1 + 1e-12)
    assert (n * cost + PureDP(0.1)).epsilon(delta) >= price * (1 - 1e-7)


@given(sizes, st.floats(1.001, 2.0), deltas)
@settings(max_examples=8, deadline=None)
def test_price_is_monotone_in_the_size_of_a_step(size: float, factor: float, delta: float) -> None:
    for kind in (PureDP, BoundedRange, lambda e: Gaussian(mu=e), lambda e: Laplace(scale=1 / e)):
        assert (5 * kind(size * factor)).epsilon(delta) >= (5 * kind(size)).epsilon(delta) * (1 - 1e-7)


def test_anchor_numbers_of_the_issue() -> None:
    assert (1000 * Gaussian(sigma=50.0)).epsilon(1e-5) == pytest.approx(2.594383, abs=1e-6)
    assert (1000 * Gaussian(sigma=50.0)).epsilon(1e-5, "pld") == pytest.approx(2.594383, rel=1e-5)
    assert (100 * Laplace(scale=10.0)).epsilon(1e-5) <= 4.2210
    steps = 10_000 * PoissonSubsampled(Gaussian(sigma=1.0), rate=0.01)
    assert steps.epsilon(1e-5, "pld") <= 6.188
    assert steps.epsilon(1e-5, "rdp") <= 6.714
    for k, most, gap in [(20, 0.819, 1e-3), (200, 2.946, 1e-3), (2000, 11.50, 2e-3)]:
        account = (k * BoundedRange(0.1)).account(1e-5)
        assert account.epsilon <= most
        assert account.epsilon - account.lower <= gap * account.epsilon
        assert account.method == "optimal"


def test_methods_reproduce_the_table_of_the_theory_notes() -> None:
    rows = [(0.1, 20, 2.0, 0.897, 0.872, 0.8180, 0.8185), (0.1, 200, 20, 3.189, 3.178, 2.9430, 2.9440)]
    for size, k, pure, zcdp, rdp, low, high in rows:
        cost = k * BoundedRange(size)
        assert cost.epsilon(1e-5, "pure") == pytest.approx(pure)
        assert cost.epsilon(1e-5, "zcdp") == pytest.approx(zcdp, abs=6e-4)
        assert cost.epsilon(1e-5, "rdp") == pytest.approx(rdp, abs=6e-4)
        assert low <= cost.epsilon(1e-5) <= high
    assert 8.525 <= (50 * BoundedRange(0.5)).epsilon(1e-5) <= 8.533


@pytest.mark.parametrize("log10_delta", [-1, -3, -10, -18, -50, -150, -300])
def test_tiny_deltas_are_right_for_gaussian_and_pure_steps(log10_delta: int) -> None:
    delta = 10.0**log10_delta
    with mp.workdps(400):

        def phi(x: mp.mpf) -> mp.mpf:
            return mp.erfc(-x / mp.sqrt(2)) / 2

        mu = mp.mpf(0.75)
        value = mp.mpf((9 * Gaussian(mu=0.25)).epsilon(delta))
        exact = phi(mu / 2 - value / mu) - mp.exp(value) * phi(-mu / 2 - value / mu)
        assert exact <= delta and exact >= delta * (1 - 1e-6)
        value = mp.mpf((40 * PureDP(0.5)).epsilon(delta))
        p = 1 / (1 + mp.exp(-mp.mpf(0.5)))
        exact = mp.fsum(
            mp.binomial(40, i) * p ** (40 - i) * (1 - p) ** i * max(0, 1 - mp.exp(value - (40 - 2 * i) * mp.mpf(0.5)))
            for i in range(41)
        )
        assert exact <= delta * (1 + mp.mpf(10) ** -11)


@pytest.mark.parametrize("delta", [0.1, 1e-5, 1e-18, 1e-100, 1e-300])
@pytest.mark.parametrize(
    "cost",
    [
        200 * BoundedRange(0.05),
        200 * BoundedRange(0.05) + 10 * Gaussian(mu=0.1),
        20 * BoundedRange(0.05) + 5 * Laplace(scale=20.0),
        30 * Laplace(scale=10.0) + 5 * PureDP(0.2),
        50 * DiscreteGaussian(sigma=10.0) + PureDP(0.1),
        100 * PoissonSubsampled(Gaussian(sigma=1.0), rate=0.05),
    ],
    ids=lambda c: repr(c)[:40],
)
def test_any_delta_gives_a_finite_price_between_its_bounds(cost: Cost, delta: float) -> None:
    value = cost.epsilon(delta)
    assert (0 if delta == 0.1 else 1e-3) <= value < math.inf
    assert value <= min(cost.epsilon(delta, "rdp"), cost.pure_epsilon()) * (1 + 1e-9)
    assert cost.delta(value) <= delta
    assert cost.delta(value) > 0 or value >= cost.pure_epsilon()


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 1.0, 30.0, 500.0])
def test_any_epsilon_gives_a_delta_in_the_unit_interval(epsilon: float) -> None:
    for cost in (
        Gaussian(sigma=1.0),
        20 * BoundedRange(0.1) + Gaussian(sigma=1.0),
        20 * Laplace(scale=1.0),
        PureDP(40.0),
        Gaussian(mu=30.0),
    ):
        value = cost.delta(epsilon)
        assert 0 <= value <= 1
        if cost.pure_epsilon() > epsilon:
            assert value > 0


def test_delta_never_rounds_a_positive_value_to_zero() -> None:
    assert Gaussian(sigma=100.0).delta(epsilon=500.0) > 0
    assert PureDP(1.0).delta(epsilon=1.0) == 0
    assert (2 * PureDP(1.0)).delta(epsilon=1.9999999) > 0


def test_delta_zero_is_pure_or_infinite() -> None:
    assert (3 * PureDP(0.5) + BoundedRange(0.25)).epsilon(delta=0) == 1.75
    assert Gaussian(sigma=1.0).epsilon(delta=0) == math.inf
    assert (PureDP(1.0) + ZCDP(1.0)).epsilon(delta=0) == math.inf
    assert ApproxDP(1.0, 1e-6).epsilon(delta=0) == math.inf
    assert (2 * ApproxDP(1.0, 1e-6)).epsilon(delta=1e-6) == math.inf
    assert (2 * ApproxDP(1.0, 1e-6)).epsilon(delta=2.1e-6) <= 2.0


def test_a_discrete_gaussian_is_not_priced_as_a_gaussian() -> None:
    # theory.md §4: at σ = Δ = 1 the total variation is 0.3989 against 0.3829.
    assert DiscreteGaussian(sigma=1.0).delta(0.0) == pytest.approx(0.39894, abs=1e-4)
    assert Gaussian(sigma=1.0).delta(0.0) == pytest.approx(0.38292, abs=1e-5)
    discrete, continuous = DiscreteGaussian(sigma=1.0), Gaussian(sigma=1.0)
    assert max(discrete.delta(e) / continuous.delta(e) for e in np.linspace(0, 6, 121)) > 1.5
    with pytest.raises(MethodUnavailable):
        DiscreteGaussian(sigma=1.0).epsilon(1e-5, "gdp")


def test_a_plan_is_priced_in_its_own_order_and_never_above_the_sum() -> None:
    small, large = BoundedRange(0.1), BoundedRange(0.2)
    up = sequence([(small, 20), (large, 20)]).epsilon(1e-5)
    down = sequence([(large, 20), (small, 20)]).epsilon(1e-5)
    mixed = (20 * small + 20 * large).epsilon(1e-5)
    assert up == pytest.approx(1.9907, abs=2e-3) and down == pytest.approx(1.9767, abs=2e-3)
    assert down < up <= mixed * (1 + 1e-6)


def test_a_short_rdp_table_warns_that_larger_orders_may_help() -> None:
    table = RDP({2.0: 0.001, 4.0: 0.002})
    with pytest.warns(OrderAtEdge, match="alpha=4"):
        table.epsilon(1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RDP(lambda alpha: 0.0005 * alpha).epsilon(1e-6)


def test_account_shows_every_method_and_says_why_not() -> None:
    account = (200 * BoundedRange(0.0339) + 50 * Gaussian(sigma=45.0)).account(1 / 32561)
    assert set(account.table) == set(METHODS)
    assert account.to_dict()["epsilon"] == account.epsilon <= 1.0
    assert account.method == "optimal" and account.order is not None
    text = repr(account)
    assert "optimal" in text and "certified" in text and "no finite pure epsilon" in text


def test_sparse_vector_gaussian_curve_covers_the_exact_divergence_of_short_runs() -> None:
    """The exact distribution of a run of three queries, by quadrature over the threshold's noise."""
    s1, s2, k = 3.0, 4.0, 3
    z, step = np.linspace(-36.0, 36.0, 4001, retstep=True)
    weight = np.exp(-(z**2) / (2 * s1**2)) / (s1 * math.sqrt(2 * math.pi)) * step

    def distribution(heights: list[float]) -> np.ndarray:
        below = [ndtr((z - h) / s2) for h in heights]
        runs = [np.prod(below[:t], axis=0) * (1 - below[t] if t < k else 1.0) for t in range(k + 1)]
        return np.array([np.sum(weight * run) for run in runs])

    cost = SparseVector(sigma_threshold=s1, sigma_query=s2, max_queries=k)
    for base in np.linspace(-6, 6, 13):
        for moves in ([1, 1, -1], [-1, -1, 1], [1, -1, 1], [1, 1, 1], [-1, -1, -1]):
            p, q = distribution([base + m for m in moves]), distribution([base] * k)
            for alpha in (1.5, 2.0, 8.0):
                exact = math.log(np.sum(p**alpha * q ** (1 - alpha))) / (alpha - 1)
                assert exact <= cost.rdp(alpha)


def test_subsampled_curves_lie_between_zero_and_their_base() -> None:
    for base in (
        Gaussian(sigma=1.5),
        Laplace(scale=2.0),
        PureDP(0.7),
        BoundedRange(0.7),
        ZCDP(0.2),
        DiscreteLaplace(scale=2.0),
    ):
        for rate in (0.0, 0.01, 0.3, 1.0):
            cost = PoissonSubsampled(base, rate=rate)
            for alpha in (1.0, 1.3, 2.0, 5.5, 64.0):
                assert 0 <= cost.rdp(alpha) <= base.rdp(alpha) * (1 + 1e-12)
    exact = math.log1p(0.1 * math.expm1(0.7))
    assert PoissonSubsampled(PureDP(0.7), rate=0.1).epsilon(0.0) == pytest.approx(exact)


def test_subsampled_gaussian_curve_matches_the_binomial_sum_at_integer_orders() -> None:
    q, sigma = 0.05, 1.3
    for alpha in (2, 3, 8, 30):
        with mp.workdps(40):
            exact = mp.log(
                mp.fsum(
                    mp.binomial(alpha, j)
                    * mp.mpf(1 - q) ** (alpha - j)
                    * mp.mpf(q) ** j
                    * mp.exp(j * (j - 1) / (2 * mp.mpf(sigma) ** 2))
                    for j in range(alpha + 1)
                )
            ) / (alpha - 1)
        value = PoissonSubsampled(Gaussian(sigma=sigma), rate=q).rdp(float(alpha))
        assert value == pytest.approx(float(exact), rel=1e-9)


def test_the_curve_only_amplification_bound_covers_the_exact_one() -> None:
    exact = PoissonSubsampled(Gaussian(sigma=2.0), rate=0.02)
    bound = PoissonSubsampled(RDP(lambda alpha: alpha / 8), rate=0.02)
    for alpha in (1.5, 2.0, 3.0, 10.0, 40.0):
        assert bound.rdp(alpha) >= exact.rdp(alpha) * (1 - 1e-12)


def test_the_worst_of_several_compositions_is_priced_by_the_worst_of_their_optimal_prices() -> None:
    parts = 20 * BoundedRange(0.1), PureDP(0.05) + Gaussian(sigma=20.0)
    account = parallel(*parts).account(1e-5)
    assert account.epsilon == pytest.approx(max(part.epsilon(1e-5) for part in parts), rel=1e-9)
    assert account.lower == pytest.approx(max(part.account(1e-5).lower for part in parts), rel=1e-9)


def test_a_price_that_is_only_a_bound_claims_no_lower_end() -> None:
    for cost in (NoisyMax(0.5), SparseVector(0.5), DiscreteGaussian(sigma=5.0, sensitivity=1.5, dimension=2)):
        assert cost.account(1e-5).lower == 0 == (3 * cost).account(1e-5).lower
    for cost in (PureDP(0.5), Gaussian(mu=0.5), Laplace(scale=2.0), DiscreteGaussian(sigma=5.0)):
        account = cost.account(1e-5)
        assert account.epsilon * (1 - 1e-4) < account.lower <= account.epsilon


def test_selections_beside_sampled_gaussians_are_not_priced_by_renyi_alone() -> None:
    cost = 200 * BoundedRange(0.05) + 1000 * PoissonSubsampled(Gaussian(sigma=1.0), rate=0.01)
    account = cost.account(1e-5)
    assert 2.30 < account.lower <= account.epsilon <= 2.327  # the Rényi price is 2.577
    assert account.method == "optimal"
