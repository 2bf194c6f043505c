"""Integer noise in very fine grid units, releases sampled very rarely, and lower ends that need a mechanism."""

from __future__ import annotations

import math
import tracemalloc

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerwood.accounting import (
    RDP,
    ZCDP,
    ApproxDP,
    Cost,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    Ledger,
    PoissonSubsampled,
    Skellam,
    TruncatedPoisson,
    WithoutReplacement,
)
from ledgerwood.accounting.accountant.certified import optimal_lower
from ledgerwood.accounting.accountant.filters import make_filter
from ledgerwood.accounting.accountant.pld.composition import compose
from ledgerwood.accounting.costs.sampled_gaussians import replaced_pair
from ledgerwood.accounting.curves.dominating_pairs.base import LossPair, SubsampledPair, added
from ledgerwood.accounting.curves.dominating_pairs.continuous import GaussianPair, LaplacePair
from ledgerwood.accounting.curves.dominating_pairs.discrete import (
    CoarseSkellamPair,
    DiscreteLaplacePair,
    SkellamPair,
    skellam_curvature,
    skellam_step,
)
from ledgerwood.accounting.curves.dominating_pairs.mixtures import MixturePair

G = Gaussian(sigma=1.0)

# -- Skellam noise -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variance", [40.0, 133.7, 900.0])
def test_skellam_outputs_are_no_further_apart_than_the_theorem_says(variance: float) -> None:
    """Curvature and steps of quantiles, of every output up to 12 standard deviations, to forty digits."""
    last = math.ceil(12 * math.sqrt(variance))
    with mpmath.workdps(40):
        bessel = [mpmath.besseli(n, variance) for n in range(last + 200)]
        curvature = [mpmath.log(bessel[n] ** 2 / (bessel[abs(n - 1)] * bessel[n + 1])) for n in range(last)]
        assert 1 / variance < max(curvature) <= skellam_curvature(variance) <= 1.07 / variance
        tails = [
            mpmath.fsum(bessel[n:]) * mpmath.e ** (-mpmath.mpf(variance)) for n in range(1, last, max(1, last // 40))
        ]
        after = [
            t - bessel[n] * mpmath.e ** (-mpmath.mpf(variance))
            for t, n in zip(tails, range(1, last, max(1, last // 40)))
        ]

        def quantile(p: mpmath.mpf) -> mpmath.mpf:
            return mpmath.findroot(lambda t: mpmath.log(mpmath.ncdf(-t) / p), mpmath.sqrt(-2 * mpmath.log(p)) * 0.95)

        steps = [quantile(b) - quantile(a) for a, b in zip(tails, after, strict=True)] + [2 * quantile(tails[0])]
    assert 1.0 < max(steps) * math.sqrt(variance) <= skellam_step(variance) * math.sqrt(variance) * (1 + 1e-12) < 1.04


@pytest.mark.parametrize(("variance", "shift"), [(40.0, 1), (50.0, 9), (400.0, 20), (400.0, 60), (3e4, 64)])
def test_skellam_profiles_lie_between_their_bounds(variance: float, shift: int) -> None:
    exact = SkellamPair(variance, shift)
    above, below = GaussianPair(shift * skellam_step(variance)), CoarseSkellamPair(variance, float(shift))
    for epsilon in (0.0, 0.1, 1.0, 3.0, 10.0):
        low, mid, high = (float(pair.log_delta(epsilon)) for pair in (below, exact, above))
        assert low <= mid + 1e-9 and mid <= high + 1e-9
    assert abs(float(above.log_delta(0.1)) - float(below.log_delta(0.1))) < 60 / variance + 1e-3


def test_blocks_of_skellam_outputs_are_dominated_in_compositions() -> None:
    """At a variance where blocks are wide, against the exact pair, alone and composed."""
    for variance, shift in ((4e6, 64),):
        cost = Skellam(variance=variance, l1_sensitivity=float(shift), l2_sensitivity=float(shift))
        assert isinstance((cost.lower_pairs() or ())[0], SkellamPair)
        exact = compose([(SkellamPair(variance, shift), 50)], delta=1e-6)
        coarse = compose([(CoarseSkellamPair(variance, float(shift)), 50)], delta=1e-6)
        assert coarse.epsilon_lower(1e-6) <= exact.epsilon_upper(1e-6)
        assert coarse.epsilon_lower(1e-6) >= exact.epsilon_lower(1e-6) * 0.99


def test_skellam_noise_in_many_coordinates_never_costs_more_than_its_price() -> None:
    """Enumerated: two coordinates that move by 9 and by 6."""
    variance = 400.0
    x = np.arange(-170, 171)
    pmf = np.array([float(mpmath.besseli(abs(n), variance) * mpmath.exp(-variance)) for n in range(-180, 181)])
    p = np.outer(pmf[x + 180 - 9], pmf[x + 180 - 6])
    q = np.outer(pmf[x + 180], pmf[x + 180])
    cost = Skellam(variance=variance, l1_sensitivity=15, l2_sensitivity=math.sqrt(117))
    for epsilon in (0.0, 0.5, 1.5):
        exact = float(np.sum(np.maximum(p - math.exp(epsilon) * q, 0.0)))
        assert exact <= cost.delta(epsilon) <= exact * 1.1


# -- discrete Laplace --------------------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(scale=st.floats(0.2, 300.0), shift=st.integers(1, 400), share=st.floats(-1.2, 1.2))
def test_discrete_laplace_lies_between_two_continuous_ones(scale: float, shift: int, share: float) -> None:
    epsilon = shift / scale
    if epsilon > 50:
        return
    more = epsilon + 2 * math.log(math.cosh(0.5 / scale))
    low, mid, high = (
        float(pair.log_delta(share * epsilon))
        for pair in (LaplacePair(epsilon), DiscreteLaplacePair(scale, shift), LaplacePair(more))
    )
    assert low <= mid + 1e-9 and mid <= high + 1e-9


# -- always an answer, with both ends, in little memory ----------------------------------------------------------------

FINE: list[Cost] = [
    DiscreteGaussian(sigma=1e4),
    DiscreteGaussian(sigma=1e8, sensitivity=10**8),
    DiscreteGaussian(sigma=3e5, sensitivity=1e5, dimension=7),
    Skellam(variance=1e10),
    Skellam(variance=1e16, l1_sensitivity=1e8),
    Skellam(variance=1e16, l1_sensitivity=1e10, l2_sensitivity=1e8),
    Skellam(variance=1e24, l1_sensitivity=1e12),
    DiscreteLaplace(scale=1e9, sensitivity=10**9),
    100 * ApproxDP(0.01, 1e-10),
]


@pytest.mark.parametrize("cost", FINE, ids=repr)
def test_fine_grids_have_both_ends_close_together(cost: Cost) -> None:
    for whole in (cost, 20 * cost) if len(cost.terms) == 1 else (cost,):
        found = whole.account(1e-6)
        assert 0.99 * found.epsilon <= optimal_lower(whole, 1e-6) <= found.epsilon
        assert whole.delta(found.epsilon) <= 1e-6


@pytest.mark.parametrize("cost", [FINE[4], FINE[7]], ids=repr)
def test_fine_grids_take_little_memory(cost: Cost) -> None:
    tracemalloc.start()
    cost.account(1e-6)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2e8


def test_fine_noise_costs_what_the_continuous_one_costs() -> None:
    gaussian, laplace = G.epsilon(1e-6), (3 * Laplace(scale=1.0)).epsilon(1e-6)
    assert Skellam(variance=1e16, l1_sensitivity=1e8).epsilon(1e-6) == pytest.approx(gaussian, rel=1e-9)
    assert DiscreteGaussian(sigma=1e8, sensitivity=10**8).epsilon(1e-6) == pytest.approx(gaussian, rel=1e-9)
    assert (3 * DiscreteLaplace(scale=1e9, sensitivity=10**9)).epsilon(1e-6) == pytest.approx(laplace, rel=1e-6)


# -- sampled in a ledger -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [
    DiscreteGaussian(sigma=10.0),
    DiscreteGaussian(sigma=10.0, dimension=5),
    Skellam(variance=100.0),
    Skellam(variance=2e4, l1_sensitivity=100, l2_sensitivity=14),
], ids=repr)  # fmt: skip
def test_filters_amplify_sampled_integer_noise_like_gaussian_noise(noise: Cost) -> None:
    rule = make_filter(None, 1.0, 1e-6)
    sampled = rule.price(PoissonSubsampled(noise, rate=0.01))
    assert sampled <= 1.1 * rule.price(PoissonSubsampled(Gaussian(sigma=10.0), rate=0.01))
    assert sampled <= rule.price(noise) / 3000
    ledger = Ledger(1.0, 1e-6)
    for _ in range(3):
        ledger.charge(PoissonSubsampled(noise, rate=0.01), "step")
    assert ledger.spent().amount == pytest.approx(3 * sampled, rel=1e-9)


def test_curves_of_sampled_integer_noise_bound_the_divergence_of_their_atoms() -> None:
    noise, rate = DiscreteGaussian(sigma=2.0, sensitivity=3), 0.2
    x = np.arange(-40.0, 44.0)
    q = np.exp(-(x**2) / 8.0)
    p = np.exp(-((x - 3) ** 2) / 8.0)
    p, q = p / p.sum(), q / q.sum()
    mixed = rate * p + (1 - rate) * q
    for order in (1.5, 2.0, 6.0, 15.0):
        exact = max(
            math.log(np.sum(np.exp(order * np.log(one) + (1 - order) * np.log(other)))) / (order - 1)
            for one, other in ((mixed, q), (q, mixed))
        )
        assert exact * (1 - 1e-12) <= PoissonSubsampled(noise, rate=rate).rdp(order) <= exact * 1.02


# -- lower ends --------------------------------------------------------------------------------------------------------


def test_costs_known_by_a_curve_have_the_lower_end_of_a_mechanism_that_has_it() -> None:
    assert optimal_lower(100 * ZCDP(0.005), 1e-6) == pytest.approx((100 * Gaussian(sigma=10.0)).epsilon(1e-6), rel=2e-6)
    sampled = 50 * PoissonSubsampled(ZCDP(0.5), rate=0.05)
    gaussian = 50 * PoissonSubsampled(G, rate=0.05)
    assert (
        0.99 * gaussian.epsilon(1e-6) <= optimal_lower(sampled, 1e-6) <= gaussian.epsilon(1e-6) <= sampled.epsilon(1e-6)
    )
    vector = DiscreteGaussian(sigma=5.0, sensitivity=3.5, dimension=4)
    moved = DiscreteGaussian(sigma=5.0, sensitivity=3).epsilon(1e-6)
    assert moved * (1 - 1e-6) <= optimal_lower(vector, 1e-6) <= moved <= vector.epsilon(1e-6)


def test_releases_of_which_nothing_is_known_are_left_out_of_the_lower_end() -> None:
    unknown = RDP({2.0: 0.1, 8.0: 0.5})
    assert optimal_lower(unknown, 1e-6) == 0.0
    alone = optimal_lower(5 * G, 1e-6)
    assert alone * (1 - 1e-9) <= optimal_lower(5 * G + unknown, 1e-6) <= (5 * G + unknown).epsilon(1e-6)


# -- releases sampled very rarely --------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [1e-3, 1e-9, 1e-13])
def test_mean_losses_of_cells_keep_their_digits_at_tiny_rates(rate: float) -> None:
    pushed = MixturePair(((1 - rate, -1.0), (rate, 1.0)), ((1 - rate, -1.0), (rate, 0.0)), rising=False)
    for pair in (replaced_pair(1.0, rate), pushed):
        edges = rate * np.array([0.3, 1.1, 4.0, 9.0])
        cells = pair.cells(edges)
        x = pair._points(edges)
        with mpmath.workdps(60):
            for i in range(3):
                ends = mpmath.mpf(x[i]), mpmath.mpf(x[i + 1])
                p, q = (
                    mpmath.fsum(
                        mpmath.mpf(w) * (mpmath.ncdf(ends[1] - m) - mpmath.ncdf(ends[0] - m)) for w, m in mixture
                    )
                    for mixture in (pair.of_p, pair.of_q)
                )
                exact = mpmath.log(p / q)
                assert abs(cells.mean[i + 1] - exact) <= max(cells.mean_error[i + 1], 3e-16) <= 1e-11 * rate + 4e-16
                assert edges[i] * (1 - 1e-9) - 2e-16 <= exact <= edges[i + 1] * (1 + 1e-9) + 2e-16
        back = pair.reversed().cells(-edges[::-1])
        assert np.array_equal(back.mean[::-1], -cells.mean)


def test_cells_of_sums_of_measures_add_up() -> None:
    base: list[tuple[float, LossPair]] = [
        (0.75, GaussianPair(0.3)),
        (0.25, SubsampledPair(GaussianPair(2.0), 0.1, "add")),
    ]
    edges = np.linspace(-3.0, 3.0, 61)
    found = added([(math.log(w), pair.cells(edges)) for w, pair in base])
    p = sum(w * np.exp(pair.log_cells(edges)[0]) for w, pair in base)
    q = sum(w * np.exp(pair.log_cells(edges)[1]) for w, pair in base)
    some = (p > 1e-200) & (q > 1e-200)
    assert np.allclose(np.exp(found.log_p), p, rtol=1e-12) and np.allclose(np.exp(found.log_q), q, rtol=1e-12)
    assert np.allclose(found.mean[some], np.log(p[some] / q[some]), atol=1e-9)


def test_a_record_that_is_hardly_ever_drawn_costs_hardly_anything() -> None:
    """The price once fell to Rényi: 1.73 at δ = 1e-6, and less at 1e-9."""
    cost = 10_000 * TruncatedPoisson(G, rate=0.01, limit=1, population=10**6, neighbours="zero_out")
    assert 0 < cost.epsilon(1e-6, "pld") < 0.01
    fixed = WithoutReplacement(Gaussian(sigma=1.0, neighbours="replace_one"), population=10**9, batch=1)
    assert 0 < (1000 * fixed).epsilon(1e-9) < 1e-4
