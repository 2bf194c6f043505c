"""At extreme parameters a price is still an upper bound, and what cannot be priced is refused in words."""

from __future__ import annotations

import contextlib
import math
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ledgerwood.accounting import (
    RDP,
    ZCDP,
    ApproxDP,
    BoundedRange,
    Cost,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    Ledger,
    PoissonSubsampled,
    PureDP,
    RandomizedResponse,
    Skellam,
    SparseVector,
)
from ledgerwood.accounting.curves import gaussian
from ledgerwood.errors import BudgetExceeded, MethodUnavailable, ParameterError

SIZE = st.floats(1e-150, 1e150)


@settings(max_examples=300)
@given(scale=SIZE, sensitivity=SIZE, steps=st.integers(1, 10**6))
@example(scale=3.0, sensitivity=1.0, steps=1)
def test_a_quotient_is_never_below_the_exact_one(scale: float, sensitivity: float, steps: int) -> None:
    for cost, moved in (
        (Laplace(scale=scale, sensitivity=sensitivity), sensitivity),
        (DiscreteLaplace(scale=scale, sensitivity=steps), steps),
    ):
        exact = Fraction(moved) / Fraction(scale)
        assert exact <= Fraction(cost.pure_epsilon()) <= exact * (1 + Fraction(1, 2**52))


@settings(max_examples=300)
@given(epsilon=st.floats(5e-324, 1e300), rate=st.floats(5e-324, 1.0))
@example(epsilon=701.0, rate=1e-308)
@example(epsilon=1e-10, rate=1e-320)
@example(epsilon=700.0, rate=0.5)
def test_amplification_by_sampling_is_never_below_the_exact_value(epsilon: float, rate: float) -> None:
    found = PoissonSubsampled(PureDP(epsilon), rate=rate).pure_epsilon()
    with mp.workdps(700 if epsilon < 1000 else 60):
        if epsilon < 1000:
            exact = mp.log1p(mp.mpf(rate) * mp.expm1(mp.mpf(epsilon)))
        else:  # 1 - q is lost beside q e^ε; this is below the truth
            exact = mp.mpf(epsilon) + mp.log(mp.mpf(rate))
        assert exact <= mp.mpf(found) <= exact * (1 + mp.mpf(10) ** -11) + mp.mpf("1e-322")


def test_sampling_never_makes_a_sum_cheaper_than_its_other_part() -> None:
    step = PoissonSubsampled(PureDP(701.0), rate=1e-308)
    for method in (None, "pure"):
        assert step.epsilon(0.0, method) > 0
        assert (10 * step + PureDP(100.0)).epsilon(0.0, method) >= 100.0


@given(rate=st.floats(5e-324, 1.0), mass=st.floats(5e-324, 0.5))
def test_the_mass_of_a_sampled_release_is_rounded_up(rate: float, mass: float) -> None:
    found = PoissonSubsampled(ApproxDP(1.0, mass), rate=rate).infinite_mass()
    assert Fraction(rate) * Fraction(mass) <= Fraction(found) <= Fraction(mass)


@pytest.mark.parametrize("mu", [5.0, 1e3, 1.1e3, 1e5, 1e8, 1e12])
@pytest.mark.parametrize("delta", [0.3, 1e-6, 1e-200])
def test_the_gaussian_profile_is_sound_for_large_losses(mu: float, delta: float) -> None:
    epsilon = Gaussian(mu=mu).epsilon(delta)
    with mp.workdps(80):
        m, e = mp.mpf(mu), mp.mpf(epsilon)
        exact = mp.ncdf(m / 2 - e / m) - mp.exp(e + mp.log(mp.ncdf(-m / 2 - e / m))) if mu < 100 else None
        # e^ε Φ(−b) = φ(a) m(b), and Mills' ratio is below 1/b
        a, b = e / m - m / 2, e / m + m / 2
        least = exact if exact is not None else mp.ncdf(-a) - mp.npdf(a) / b
        assert least <= mp.mpf(delta) * (1 + mp.mpf(10) ** -12)
        assert math.exp(gaussian.log_delta(mu, epsilon)) * (1 + 1e-10) >= least


# -- Rényi curves -----------------------------------------------------------------------------------------------------


def test_a_zero_in_a_table_says_that_nothing_is_revealed() -> None:
    for table in ({2: 0.0}, {2: 0.0, 4: 0.0}, {1.0: 0.0, 2: 1e-6}):
        cost = RDP(table)
        assert cost.is_free()
        assert cost.epsilon(1e-6) == cost.epsilon(0.0) == cost.delta(0.0) == 0.0
        assert (cost + PureDP(0.5)).epsilon(0.0) == 0.5


def test_order_infinity_in_a_table_is_pure_dp() -> None:
    cost = RDP({2: 0.1, math.inf: 1.0})
    assert cost.pure_epsilon() == cost.epsilon(0.0) == 1.0
    orders = np.array([1.0, 1.5, 2.0, 3.0, 10.0, 1e6, math.inf])
    assert np.all(cost.rdp(orders) <= np.minimum(PureDP(1.0).rdp(orders), np.where(orders <= 2, 0.1, math.inf)))
    assert np.all(np.diff(cost.rdp(orders)) >= 0)
    assert RDP({math.inf: 1.0}).epsilon(1e-6) == pytest.approx(PureDP(1.0).epsilon(1e-6, "rdp"), rel=1e-9)
    assert cost.group(2).rdp(math.inf) == 2.0


@given(table=st.dictionaries(st.floats(1.01, 1e6), st.floats(1e-9, 10.0), min_size=1, max_size=4), pure=st.floats(0, 5))
def test_a_pure_point_never_makes_a_table_dearer(table: dict[float, float], pure: float) -> None:
    orders = np.geomspace(1.0, 1e7, 30)
    both = RDP({**table, math.inf: pure}).rdp(orders)
    assert np.all((both >= 0) & (both <= RDP(table).rdp(orders)) & (both <= PureDP(pure).rdp(orders)))


@pytest.mark.parametrize("curve", ["abc", 5, [1, 2], [(2.0,)], [(2.0, 0.1), (2.0, 0.3)], {2.0: -0.1}, {2.0: math.nan}])
def test_what_is_no_table_is_refused(curve: Any) -> None:
    with pytest.raises(ParameterError, match=r"^(curve|alpha)"):
        RDP(curve)


@pytest.mark.parametrize("wrong", [-5.0, math.nan])
def test_a_function_that_is_no_curve_is_refused_before_it_is_priced(wrong: float) -> None:
    def curve(alpha: Any) -> Any:
        return np.where(np.asarray(alpha) > 3, wrong, 0.1)

    cost = RDP(curve)
    for ask in (
        lambda: cost.epsilon(1e-6),
        lambda: cost.delta(0.1),
        lambda: cost.rdp(4.0),
        lambda: (cost + PureDP(1.0)).epsilon(1e-6),
        lambda: PoissonSubsampled(cost, rate=0.1).epsilon(1e-6),
    ):
        with pytest.raises(ParameterError, match=r"curve must be at least 0 at every order.*got curve=(-5.0|nan)"):
            ask()
    assert RDP(lambda a: np.where(a > 3, math.inf, 0.1)).epsilon(1e-6) < math.inf


# -- no raw exception -------------------------------------------------------------------------------------------------

EXTREMES = (1e-320, 1e-308, 1e-200, 1e-30, 1.0, 1e5, 1e30, 1e200, 1e308)
KINDS: dict[str, Any] = {
    "pure": PureDP,
    "range": BoundedRange,
    "two ranges": lambda x: BoundedRange(x) + BoundedRange(1.0),
    "zcdp": ZCDP,
    "response": lambda x: RandomizedResponse(x, k=3),
    "svt": SparseVector,
    "gaussian svt": lambda x: SparseVector(sigma_threshold=1.0, sigma_query=x, max_queries=3),
    "gaussian": lambda x: Gaussian(sigma=x),
    "gaussian and pure": lambda x: Gaussian(sigma=x) + PureDP(1.0),
    "laplace": lambda x: Laplace(scale=x),
    "sampled gaussian": lambda x: PoissonSubsampled(Gaussian(sigma=x), rate=0.5),
    "sampled pure": lambda x: PoissonSubsampled(PureDP(x), rate=1e-200),
    "discrete laplace": lambda x: DiscreteLaplace(scale=x),
    "skellam": lambda x: Skellam(variance=min(x, 1e5)),
    "table": lambda x: RDP({2.0: x}),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::ledgerwood.errors.OrderAtEdge")
@pytest.mark.parametrize("kind", KINDS)
def test_every_cost_answers_at_the_ends_of_the_floats_or_says_why_not(kind: str) -> None:
    class Release:
        def __init__(self, cost: Cost) -> None:
            self.cost = cost

        def release(self, value: int, rng: Any = None) -> int:
            return value

    for x in EXTREMES:
        try:
            cost = KINDS[kind](x)
        except ParameterError:
            continue
        for ask in (
            lambda c: c.epsilon(1e-6),
            lambda c: c.epsilon(0.0),
            lambda c: c.delta(0.5),
            lambda c: c.delta(0.0),
        ):
            with contextlib.suppress(MethodUnavailable):
                assert ask(cost) >= 0
        curve = cost.rdp([1.0, 2.0, 1e6, math.inf])
        assert curve[0] >= 0
        assert np.all(curve[1:] >= curve[:-1])
        with contextlib.suppress(BudgetExceeded, MethodUnavailable):
            Ledger(1.0, 1e-6).release(Release(cost), 0, label="x")


def test_huge_counts_are_refused() -> None:
    for ask in (
        lambda: 10**400 * PureDP(1.0),
        lambda: 10**400 * Gaussian(sigma=1.0),
        lambda: 10**15 * (10**15 * PureDP(1.0)),
        lambda: PureDP(1.0).group(10**400),
        lambda: RandomizedResponse(1.0, k=10**400),
    ):
        with pytest.raises(ParameterError, match=r"at most 10\*\*18"):
            ask()


def test_the_odometer_refuses_what_is_no_delta() -> None:
    with pytest.raises(ParameterError, match="delta"):
        Ledger(1.0, 1e-6).odometer("1")  # type: ignore[arg-type]
