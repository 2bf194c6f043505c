"""Calibration: safe, tight, in either direction, with clear errors."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from ledgerwood.accounting import ApproxDP, BoundedRange, Cost, Gaussian, Laplace, PureDP, calibrate, sequence
from ledgerwood.errors import CalibrationError, ParameterError

FAMILIES: dict[str, tuple[Callable[[float], Cost], int]] = {
    "gaussian": (lambda s: 30 * Gaussian(sigma=s), +1),
    "laplace": (lambda s: 7 * Laplace(scale=s), +1),
    "pure": (lambda e: 7 * PureDP(e), -1),
    "selection": (lambda e: 7 * BoundedRange(e), -1),
    "mixed": (lambda s: 5 * BoundedRange(1 / s) + 3 * Gaussian(sigma=s), +1),
}


@pytest.mark.parametrize("family", FAMILIES)
@given(log_epsilon=st.floats(-2, 1), log_delta=st.floats(-9, -2))
@settings(max_examples=4, deadline=None, phases=[Phase.explicit, Phase.generate])
def test_the_answer_meets_the_target_and_a_little_less_noise_does_not(
    family: str, log_epsilon: float, log_delta: float
) -> None:
    cost, sign = FAMILIES[family]
    epsilon, delta = 10.0**log_epsilon, 10.0**log_delta
    scale = calibrate(cost, epsilon=epsilon, delta=delta)
    assert cost(scale).epsilon(delta) <= epsilon
    assert cost(scale * (1 - sign * 1e-4)).epsilon(delta) > epsilon


def test_the_dp_xgb_plan_reaches_the_numbers_of_the_issue() -> None:
    def plan(rho: float) -> Cost:
        return 200 * BoundedRange.from_rho(0.7 * rho / 200) + 50 * Gaussian.from_rho(0.3 * rho / 50)

    rho = calibrate(plan, epsilon=1.0, delta=1 / 32561)
    assert BoundedRange.from_rho(0.7 * rho / 200).size >= 0.0339
    assert Gaussian.from_rho(0.3 * rho / 50).sigma <= 45.0


def test_pure_targets_are_met_exactly_without_delta() -> None:
    assert calibrate(lambda e: 10 * PureDP(e), epsilon=1.0, delta=0.0) == pytest.approx(0.1, rel=1e-6)


def test_small_targets_stay_cheap() -> None:
    sigma = calibrate(lambda s: 1000 * Gaussian(sigma=s), epsilon=0.01, delta=1e-8)
    assert (1000 * Gaussian(sigma=sigma)).epsilon(1e-8) <= 0.01
    step = calibrate(lambda e: 100 * BoundedRange(e) + 10 * Laplace(scale=1 / e), epsilon=0.01, delta=1e-6)
    assert (100 * BoundedRange(step) + 10 * Laplace(scale=1 / step)).epsilon(1e-6) <= 0.01


def test_calibration_is_deterministic_and_independent_of_the_guess() -> None:
    def cost(s: float) -> Cost:
        return 30 * Gaussian(sigma=s)

    first = calibrate(cost, epsilon=1.0, delta=1e-6)
    assert first == calibrate(cost, epsilon=1.0, delta=1e-6)
    assert calibrate(cost, epsilon=1.0, delta=1e-6, guess=1e6) == pytest.approx(first, rel=1e-6)


@pytest.mark.parametrize(
    ("cost", "epsilon", "delta", "why"),
    [
        (lambda s: Gaussian(sigma=s), 1.0, 0.0, "no scale meets"),
        (lambda s: Gaussian(sigma=s) + PureDP(2.0), 1.0, 1e-9, "no scale meets"),
        (lambda s: Gaussian(sigma=s) + ApproxDP(0.1, 1e-3), 1.0, 1e-6, "no scale meets"),
        (lambda s: PureDP(0.1), 1.0, 1e-6, "nothing to calibrate"),
        (lambda s: PureDP(abs(math.log(s))), 0.5, 1e-6, "not monotone"),
        (lambda s: 3.0, 1.0, 1e-6, "must return a cost"),
    ],
)
def test_unreachable_targets_say_what_to_try(
    cost: Callable[[float], Cost], epsilon: float, delta: float, why: str
) -> None:
    with pytest.raises(CalibrationError, match=why):
        calibrate(cost, epsilon=epsilon, delta=delta)


def test_bad_arguments_are_named() -> None:
    for arguments in ({"epsilon": -1.0, "delta": 1e-6}, {"epsilon": 1.0, "delta": 1.0}):
        with pytest.raises(ParameterError):
            calibrate(lambda s: Gaussian(sigma=s), **arguments)
    with pytest.raises(ParameterError, match="function"):
        calibrate(3.0, epsilon=1.0, delta=1e-6)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "cost",
    [
        lambda s: sequence([(BoundedRange(s), 1800), (Gaussian(mu=s), 300)]),
        lambda s: 900 * BoundedRange(s),
        lambda s: 300 * BoundedRange(s) + 5 * Laplace(scale=1 / s),
        lambda s: sequence([(BoundedRange(s), 300), (BoundedRange(2 * s), 300)]),
    ],
    ids=["selections and leaves", "selections", "beside Laplace noise", "two sizes"],
)
def test_many_selections_are_calibrated_from_coarse_grids_safely_and_tightly(cost) -> None:
    scale = calibrate(cost, epsilon=1.0, delta=1e-5)
    assert cost(scale).epsilon(1e-5) <= 1.0
    assert cost(scale * (1 + 1e-3)).epsilon(1e-5) > 1.0


@pytest.mark.parametrize("epsilon", [0.3, 3.0])
def test_hundreds_of_selections_are_calibrated_to_a_ten_thousandth(epsilon: float) -> None:
    cost = lambda s: sequence([(BoundedRange(s), 300), (Gaussian(mu=s), 60)])  # noqa: E731
    scale = calibrate(cost, epsilon=epsilon, delta=1e-6)
    assert cost(scale).epsilon(1e-6) <= epsilon
    assert cost(scale * (1 + 1e-4)).epsilon(1e-6) > epsilon


def test_a_long_price_is_asked_again_if_the_first_one_is_far_off() -> None:
    cost = lambda s: 181 * BoundedRange(s) + 15 * BoundedRange(3.831 * s) + 5 * Gaussian(mu=s / 3)  # noqa: E731
    scale = calibrate(cost, epsilon=0.646, delta=1.87e-12)
    assert cost(scale).epsilon(1.87e-12) <= 0.646
    assert cost(scale * (1 + 1.1e-3)).epsilon(1.87e-12) > 0.646  # coarse grids are 1 % off here


def test_rounds_of_a_plan_cost_what_their_parts_cost_together() -> None:
    split, leaf = BoundedRange(0.01), Gaussian(sigma=150.0)
    rounds = sequence([(split, 6), (leaf, 1)] * 100)
    together = sequence([(split, 600), (leaf, 100)])
    for method in ("rdp", "zcdp", "optimal"):
        assert rounds.epsilon(1e-5, method) == pytest.approx(together.epsilon(1e-5, method), rel=1e-12)
    assert len(rounds.terms) == 200  # the order is kept
