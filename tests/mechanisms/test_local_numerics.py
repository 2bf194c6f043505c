"""Certified fixed-point numbers and Lemma 4.10, against mpmath."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerwood.mechanisms.local import BoundedLaplace, ClampedLaplace, bounded_laplace_tau
from ledgerwood.mechanisms.local.distributions import Ball, powers


@pytest.fixture(autouse=True, scope="module")
def _digits():
    with mpmath.workdps(120):
        yield


rationals = st.fractions(min_value=0, max_value=2000, max_denominator=10**12)


def contains(ball: Ball, value: mpmath.mpf) -> bool:
    return ball.lower <= value * 2**ball.precision <= ball.upper


@settings(max_examples=200, deadline=None)
@given(rationals, st.integers(8, 250))
def test_the_exponential_is_enclosed_within_two_units(exponent: Fraction, precision: int) -> None:
    ball = Ball.exp_minus(exponent, precision)
    assert contains(ball, mpmath.exp(-mpmath.mpf(exponent.numerator) / exponent.denominator))
    assert 0 <= ball.upper - ball.lower <= 2


@settings(max_examples=150, deadline=None)
@given(
    st.fractions(0, 3, max_denominator=99),
    st.fractions(Fraction(1, 9), 3, max_denominator=99),
    st.integers(8, 90),
)
def test_arithmetic_keeps_the_enclosure(a: Fraction, b: Fraction, precision: int) -> None:
    x, y = Ball.of(a, precision), Ball.of(b, precision)
    results = {a + b: x + y, a * b: x * y, a / b: x / y}
    if a >= b:
        results[a - b] = x - y
    for exact, ball in results.items():
        assert ball.lower <= exact * 2**precision <= ball.upper
        assert ball.upper - ball.lower <= 2 + 30 * 81  # at worst the quotient's slope


def test_powers_are_enclosed() -> None:
    for d, ball in enumerate(powers(Ball.exp_minus(Fraction(1, 7), 80), 50)):
        assert contains(ball, mpmath.exp(-mpmath.mpf(d) / 7)) and ball.upper - ball.lower <= 2 * d + 2


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([BoundedLaplace, ClampedLaplace]), st.integers(1, 40), st.floats(1e-6, 30.0), st.data())
def test_cumulative_probabilities_are_enclosed_tightly(kind, width: int, rate: float, data: st.DataObject) -> None:
    row = data.draw(st.integers(0, width - 1))
    q = mpmath.exp(-mpmath.mpf(rate))
    lower, upper = kind(width, rate).cumulative(row, 128)
    assert len(lower) == len(upper) == width - 1
    weights = [q ** abs(row - o) for o in range(width)]
    total = mpmath.fsum(weights)
    for o in range(width - 1):
        if kind is BoundedLaplace:
            exact = mpmath.fsum(weights[: o + 1]) / total
        else:
            exact = q ** (row - o) / (1 + q) if o < row else 1 - q ** (o - row + 1) / (1 + q)
        assert lower[o] <= exact * 2**128 <= upper[o]
        assert upper[o] - lower[o] < 2**20  # of the 2**64 units that a threshold may be off


@settings(max_examples=60, deadline=None)
@given(st.floats(1e-6, 30.0), st.integers(0, 12), st.booleans())
def test_digits_of_a_geometric_number_are_independent_with_these_odds(rate: float, j: int, last: bool) -> None:
    odds = mpmath.exp(-mpmath.mpf(rate) * 2**j)
    if last:
        distribution = ClampedLaplace(2**j + 1 if j else 2, rate)
        index = distribution.magnitude_bits() - 1
        tail = mpmath.exp(-mpmath.mpf(rate) * 2**index)
        assert contains(distribution.magnitude_bit(index, 100), tail) and 2**index >= distribution.width - 1
    else:
        assert contains(BoundedLaplace(2**14, rate).magnitude_bit(j, 100), odds / (1 + odds))


def test_lemma_4_10_needs_one_plus_q_and_not_two() -> None:
    assert bounded_laplace_tau(-1, 1, math.log(2)) == pytest.approx(1.5, rel=1e-15)
    printed = 2 / (1 - 0.5**2 - 0.5**2 + 0.5)
    assert printed == 2.0
    p = (2 - 1) / (2 + 1)  # the discrete Laplace probability of zero at q = 1/2
    assert 1.5 * p * (1 + 0.5 + 0.5) == pytest.approx(1) and printed * p * (1 + 0.5 + 0.5) > 1.3


@settings(max_examples=200, deadline=None)
@given(st.integers(-60, 60), st.integers(0, 60), st.floats(1e-3, 8.0))
def test_tau_makes_the_probabilities_sum_to_one(lower: int, length: int, rate: float) -> None:
    q = mpmath.exp(-mpmath.mpf(rate))
    inside = mpmath.fsum((1 - q) / (1 + q) * q ** abs(z) for z in range(lower, lower + length + 1))
    assert bounded_laplace_tau(lower, lower + length, rate) == pytest.approx(float(1 / inside), rel=1e-11)
