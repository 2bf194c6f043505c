"""Rényi curves against mpmath at the exact binary inputs."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerwood.accounting import BoundedRange, DiscreteLaplace, Laplace, PureDP, RandomizedResponse
from ledgerwood.accounting.curves import renyi

GRID_EPSILON = [1e-14, 1e-12, 1e-8, 1e-4, 0.01, 0.1, 1.0, 10.0, 50.0, 500.0, 1000.0]
GRID_EXCESS = [0.0, 1e-14, 1e-10, 1e-6, 1e-3, 0.5, 1.0, 9.0, 999.0, 1e5, 1e9]


def eta(x: mp.mpf) -> mp.mpf:
    return mp.log(mp.sinh(x / 2) / (x / 2)) if x else mp.mpf(0)


def theorem_1(epsilon: float, alpha: float) -> mp.mpf:
    """The paper's supremum over t, not our closed form, at 60+ digits beyond the cancellation."""
    with mp.workdps(140):
        e, a = mp.mpf(epsilon), mp.mpf(alpha)
        if a == 1:
            # E[L] under RR(e, t), maximised over t
            def divergence(t: mp.mpf) -> mp.mpf:
                p = (1 - mp.exp(t - e)) / (1 - mp.exp(-e))
                return p * t + (1 - p) * (t - e)

            t = mp.log((mp.exp(e) - 1) / e)
            return divergence(t)
        first, second = 1 - mp.exp(-a * e), 1 - mp.exp(-(a - 1) * e)
        t = mp.log((a - 1) * first / (a * second) * mp.exp(e))
        p = (1 - mp.exp(t - e)) / (1 - mp.exp(-e))
        return mp.log(p * mp.exp((a - 1) * t) + (1 - p) * mp.exp((a - 1) * (t - e))) / (a - 1)


def relative(value: float, exact: mp.mpf) -> float:
    return float(abs(mp.mpf(value) / exact - 1))


@pytest.mark.parametrize("epsilon", GRID_EPSILON)
def test_theorem_1_is_right_to_1e_12_on_the_demanded_grid(epsilon: float) -> None:
    alphas = 1.0 + np.array(GRID_EXCESS)
    values = BoundedRange(epsilon).rdp(alphas)
    for alpha, value in zip(alphas, values):
        assert relative(value, theorem_1(epsilon, float(alpha))) <= 1e-12


@given(st.floats(-14, 3), st.floats(-14, 9))
@settings(max_examples=150, deadline=None)
def test_theorem_1_is_right_to_1e_12_at_random_points(log_epsilon: float, log_excess: float) -> None:
    epsilon, alpha = 10.0**log_epsilon, 1.0 + 10.0**log_excess
    assert relative(BoundedRange(epsilon).rdp(alpha), theorem_1(epsilon, alpha)) <= 1e-12


def test_the_stationary_point_is_the_supremum_of_the_papers_formula() -> None:
    with mp.workdps(60):
        for e, a in [(0.3, 2.5), (2.0, 1.2), (5.0, 30.0)]:
            best = max(
                mp.log(
                    (1 - mp.exp(t - e)) / (1 - mp.exp(-mp.mpf(e))) * mp.exp((a - 1) * t)
                    + (1 - (1 - mp.exp(t - e)) / (1 - mp.exp(-mp.mpf(e)))) * mp.exp((a - 1) * (t - e))
                )
                / (a - 1)
                for t in mp.linspace(0, e, 4001)
            )
            exact = theorem_1(e, a)
            assert best <= exact <= best * (1 + mp.mpf(10) ** -5)


def test_theorem_1_is_never_nan_infinite_or_negative_and_free_at_zero() -> None:
    for epsilon in [0.0, 5e-324, 1e-300, 1e-14, 1.0, 1e3, 1e6, 1e300]:
        values = BoundedRange(epsilon).rdp([1.0, 1 + 2**-52, 1.5, 2.0, 1e9, 1e300, math.inf])
        assert np.all(np.isfinite(values)) and np.all(values >= 0) and np.all(values <= epsilon)
    assert np.all(BoundedRange(0.0).rdp([1.0, 2.0, math.inf]) == 0)
    assert BoundedRange(0.7).rdp(math.inf) == pytest.approx(0.7, rel=1e-12)


@given(st.floats(1e-9, 200.0), st.floats(1.0, 1e6))
@settings(max_examples=200, deadline=None)
def test_theorem_1_lies_below_concentrated_and_pure_prices(epsilon: float, alpha: float) -> None:
    value = BoundedRange(epsilon).rdp(alpha)
    assert value <= min(alpha * epsilon**2 / 8, epsilon) * (1 + 1e-12)
    assert value <= PureDP(epsilon).rdp(alpha) * (1 + 1e-12)


def exact_atoms(losses: list[mp.mpf], p: list[mp.mpf], alpha: float) -> mp.mpf:
    a = mp.mpf(alpha)
    if a == 1:
        return mp.fsum(w * loss for w, loss in zip(p, losses))
    return mp.log(mp.fsum(w * mp.exp((a - 1) * loss) for w, loss in zip(p, losses))) / (a - 1)


@given(st.floats(-10, 2.5), st.one_of(st.just(-math.inf), st.floats(-10, 7)))
@settings(max_examples=150, deadline=None)
def test_pure_and_laplace_curves_are_right_to_1e_12(log_epsilon: float, log_excess: float) -> None:
    epsilon, alpha = 10.0**log_epsilon, 1.0 + (10.0**log_excess if log_excess > -math.inf else 0.0)
    with mp.workdps(80):
        e, a = mp.mpf(epsilon), mp.mpf(alpha)
        p = 1 / (1 + mp.exp(-e))
        assert relative(PureDP(epsilon).rdp(alpha), exact_atoms([e, -e], [p, 1 - p], alpha)) < 1e-12
        if a == 1:
            laplace = e + mp.exp(-e) - 1
        else:
            laplace = mp.log((a * mp.exp((a - 1) * e) + (a - 1) * mp.exp(-a * e)) / (2 * a - 1)) / (a - 1)
        cost = Laplace(scale=1.0, sensitivity=epsilon)
        assert relative(cost.rdp(alpha), laplace) < 1e-12


@given(st.floats(-6, 1.5), st.integers(2, 20), st.floats(1.0, 1e4))
@settings(max_examples=100, deadline=None)
def test_randomised_response_curve_is_right(log_epsilon: float, k: int, alpha: float) -> None:
    epsilon = 10.0**log_epsilon
    with mp.workdps(60):
        e = mp.mpf(epsilon)
        top = 1 / (1 + (k - 1) * mp.exp(-e))
        exact = exact_atoms([e, -e, mp.mpf(0)], [top, top * mp.exp(-e), (k - 2) * top * mp.exp(-e)], alpha)
        assert relative(RandomizedResponse(epsilon, k).rdp(alpha), exact) < 1e-11


@given(st.floats(0.5, 10.0), st.integers(1, 12), st.floats(1.0, 200.0))
@settings(max_examples=30, deadline=None)
def test_discrete_laplace_curve_is_right(scale: float, shift: int, alpha: float) -> None:
    with mp.workdps(50):
        b = mp.mpf(scale)
        reach = int(60 * scale) + shift
        a = mp.exp(-1 / b)
        norm = (1 - a) / (1 + a)
        p = [norm * a ** abs(k) for k in range(-reach, reach + 1)]
        losses = [(abs(k - shift) - abs(k)) / b for k in range(-reach, reach + 1)]
        exact = exact_atoms([mp.mpf(x) for x in losses], p, alpha)
        assert relative(DiscreteLaplace(scale=scale, sensitivity=shift).rdp(alpha), exact) < 1e-9


def test_from_losses_counts_what_the_second_distribution_has_elsewhere() -> None:
    losses, p = np.array([0.5, 0.1]), np.array([0.5, 0.5])
    lost = 1 - float(np.sum(p * np.exp(-losses)))
    for alpha in [1.0, 1.2, 3.0, 40.0]:
        exact = float(exact_atoms([mp.mpf(0.5), mp.mpf(0.1)], [mp.mpf(0.5)] * 2, alpha))
        assert renyi.from_losses(losses, np.log(p), np.array(alpha), lost) == pytest.approx(exact, rel=1e-12)
