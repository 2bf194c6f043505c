"""Limits and prices of the filters against 50 digits."""

from __future__ import annotations

import math
from decimal import localcontext
from fractions import Fraction

import mpmath as mp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerwood.accounting import BoundedRange, Gaussian, Laplace, PureDP
from ledgerwood.accounting.accountant.filters import UNIT, from_units, make_filter, to_units
from ledgerwood.accounting.ledger.odometer import ORDERS, loss_curve

BUDGETS = [(0.01, 1e-12), (0.1, 1e-6), (1.0, 1e-5), (1.0, 0.1), (8.0, 1e-9), (50.0, 1e-6)]


def renyi_delta(order: float, divergence: float, epsilon: float) -> mp.mpf:
    """The conversion from its one-line proof: c e^{(a-1)(B-eps)} with c the maximum of (1-e^-x) e^{-(a-1)x}."""
    a = mp.mpf(order)
    x = -mp.log(1 - 1 / a)
    return (1 - mp.exp(-x)) * mp.exp((a - 1) * (mp.mpf(divergence) - mp.mpf(epsilon) - x))


def gaussian_delta(mu: mp.mpf, epsilon: float) -> mp.mpf:
    e = mp.mpf(epsilon)
    return mp.ncdf(mu / 2 - e / mu) - mp.exp(e) * mp.ncdf(-mu / 2 - e / mu)


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
@pytest.mark.parametrize("order", [None, 30.0, 3000.0])
def test_the_renyi_limit_meets_the_target_at_fifty_digits(epsilon: float, delta: float, order: float | None) -> None:
    try:
        rule = make_filter("rdp", epsilon, delta, order=order)
    except ValueError:
        assert order is not None  # that order has no budget here
        return
    with mp.workdps(50):
        assert renyi_delta(rule.order, rule.limit, epsilon) <= delta
        assert renyi_delta(rule.order, rule.limit + 1e-9 * (1 + epsilon), epsilon) > delta


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_the_concentrated_limit_meets_the_target_at_fifty_digits(epsilon: float, delta: float) -> None:
    rho = make_filter("zcdp", epsilon, delta).limit
    with mp.workdps(50):
        witness = mp.mpf(make_filter("rdp", epsilon, delta).order)
        assert renyi_delta(witness, witness * mp.mpf(rho), epsilon) <= delta
        grid = [1 + mp.exp(mp.mpf(i) / 20) for i in range(-160, 400)]
        assert min(renyi_delta(a, a * mp.mpf(rho) * mp.mpf("1.001"), epsilon) for a in grid) > delta


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_the_gaussian_limit_meets_the_target_at_fifty_digits(epsilon: float, delta: float) -> None:
    limit = make_filter("gdp", epsilon, delta).limit
    with mp.workdps(60):
        assert gaussian_delta(mp.sqrt(mp.mpf(limit)), epsilon) <= delta
        assert gaussian_delta(mp.sqrt(mp.mpf(limit) * (1 + mp.mpf("1e-8"))), epsilon) > delta


@given(st.floats(1e-12, 1e12))
def test_units_round_up_and_down_around_the_printed_decimal(value: float) -> None:
    assert to_units(value, up=False) <= to_units(value) <= to_units(value, up=False) + 1
    assert from_units(to_units(value)) == pytest.approx(value, rel=1e-15)


@given(st.floats(0, 1e300))
def test_units_are_the_printed_decimal_whatever_the_callers_decimal_context(value: float) -> None:
    exact = Fraction(repr(value)) * UNIT
    with localcontext(prec=2):
        assert (to_units(value, up=False), to_units(value)) == (math.floor(exact), math.ceil(exact))


def test_units_are_exact_for_decimals() -> None:
    assert to_units(0.1) == UNIT // 10
    assert to_units(1e-30) == 1
    assert to_units(1e-31) == 1 and to_units(1e-31, up=False) == 0


@pytest.mark.parametrize("cost", [BoundedRange(0.3), Gaussian(sigma=7.0), Laplace(scale=5.0), PureDP(0.2)])
def test_prices_are_never_below_the_curve(cost: object) -> None:
    rule = make_filter("rdp", 1.0, 1e-6)
    assert rule.price(cost) >= cost.rdp(rule.order)  # type: ignore[attr-defined]
    curve = loss_curve(cost)  # type: ignore[arg-type]
    assert all(curve[:-1] >= cost.rdp(ORDERS))  # type: ignore[attr-defined]
    assert curve[-1] >= cost.pure_epsilon() or math.isinf(curve[-1])  # type: ignore[attr-defined]
