"""Our own normal tails and factorials against mpmath and scipy, in units of the last place."""

from __future__ import annotations

import subprocess
import sys

import mpmath as mp
import numpy as np
import pytest
from scipy import special

from ledgerwood.accounting.curves import numerics
from ledgerwood.accounting.curves.numerics import erfcx, log_factorial, log_ndtr, mills, ndtr

ULP = 2.0**-52
RNG = np.random.default_rng(11)
POSITIVE = np.concatenate([[0.0, 1e-300], RNG.uniform(0, 7, 500), 10 ** RNG.uniform(-8, 8, 300)])


def exact_erfcx(x: float) -> mp.mpf:
    x = mp.mpf(x)
    if x < 50:
        return mp.exp(x * x) * mp.erfc(x)
    return mp.fsum((-1) ** k * mp.fac2(2 * k - 1) / (2 * x * x) ** k for k in range(12)) / (x * mp.sqrt(mp.pi))


def exact_ndtr(x: float) -> mp.mpf:
    return mp.erfc(-mp.mpf(x) / mp.sqrt(2)) / 2


def ulps(found: np.ndarray, exact: list[mp.mpf]) -> np.ndarray:
    return np.array([float(abs(mp.mpf(float(a)) - e) / abs(e)) / ULP for a, e in zip(found, exact, strict=True)])


def test_the_coefficients_are_those_of_the_chebyshev_series() -> None:
    degree, nodes, centre = len(numerics._POWERS) - 1, 64, mp.mpf(15) / 4
    with mp.workdps(50):
        angles = [mp.pi * (2 * j + 1) / (2 * nodes) for j in range(nodes)]
        points = [centre * (1 + mp.cos(a)) / (1 - mp.cos(a)) for a in angles]
        values = [(1 + 2 * x) * exact_erfcx(x) for x in points]
        chebyshev = [
            mp.fsum(v * mp.cos(k * a) for v, a in zip(values, angles, strict=True)) * (1 if k == 0 else 2) / nodes
            for k in range(degree + 1)
        ]
        powers = [mp.mpf(0)] * (degree + 1)
        before, current = [mp.mpf(1)], [mp.mpf(0), mp.mpf(1)]
        for c in chebyshev:
            for i, v in enumerate(before):
                powers[i] += c * v
            after = [mp.mpf(0), *(2 * v for v in current)]
            for i, v in enumerate(before):
                after[i] -= v
            before, current = current, after
        assert [float(p) for p in powers] == list(numerics._POWERS)


def test_erfcx_is_right_to_the_stated_ulps() -> None:
    with mp.workdps(40):
        assert ulps(erfcx(POSITIVE), [exact_erfcx(x) for x in POSITIVE]).max() <= 8
        near, far = -RNG.uniform(0, 1, 200), -RNG.uniform(1, 26, 200)
        assert ulps(erfcx(near), [exact_erfcx(x) for x in near]).max() <= 8
        assert np.all(ulps(erfcx(far), [exact_erfcx(x) for x in far]) <= 4 + 2 * far**2)
        x = np.concatenate([POSITIVE, -RNG.uniform(0, 2, 200)])
        exact = [mp.sqrt(mp.pi / 2) * exact_erfcx(mp.mpf(float(v)) / mp.sqrt(2)) for v in x]
        assert ulps(mills(x), exact).max() <= 16  # profiles of selections allow for 32


def test_the_normal_distribution_is_right_in_both_tails() -> None:
    x = np.concatenate([[0.0, -1.0, 1.0, -37.0, 8.0], RNG.uniform(-37, 9, 400)])
    with mp.workdps(60):
        assert np.all(ulps(ndtr(x), [exact_ndtr(v) for v in x]) <= 8 + x * x)
        right = np.abs(x)
        assert ulps(ndtr(right), [exact_ndtr(v) for v in right]).max() <= 4
        wide = np.concatenate([x, RNG.uniform(9, 37, 100), -(10 ** RNG.uniform(1, 4, 100))])
        exact = [mp.log1p(-exact_ndtr(-v)) if v > 0 else mp.log(exact_ndtr(v)) for v in wide]
        assert np.all(ulps(log_ndtr(wide), exact) <= 8 + np.where(wide > 1, wide, 0.0) ** 2)


def test_logarithms_of_factorials_are_right_to_the_stated_ulps() -> None:
    n = np.concatenate([np.arange(2, 200), RNG.integers(200, 10**9, 200)])
    with mp.workdps(40):
        assert ulps(log_factorial(n), [mp.loggamma(int(v) + 1) for v in n]).max() <= 8
    assert log_factorial([0, 1]).tolist() == [0.0, 0.0]


def test_the_ends_are_plain_numbers_without_a_warning() -> None:
    ends = np.array([-np.inf, -1e200, 1e200, np.inf])
    assert erfcx(ends).tolist() == [np.inf, np.inf, pytest.approx(0.0, abs=1e-199), 0.0]
    assert ndtr(ends).tolist() == [0.0, 0.0, 1.0, 1.0]
    assert log_ndtr(ends).tolist() == [-np.inf, -np.inf, 0.0, 0.0]
    assert np.isnan(erfcx(np.nan)) and np.isnan(ndtr(np.nan)) and np.isnan(log_ndtr(np.nan))


def test_they_agree_with_scipy_and_keep_the_shape() -> None:
    x = np.linspace(-30, 30, 240).reshape(4, 60)
    for ours, theirs in ((ndtr, special.ndtr), (log_ndtr, special.log_ndtr), (erfcx, special.erfcx)):
        chosen = x if ours is not erfcx else x[2:]
        assert ours(chosen).shape == chosen.shape
        np.testing.assert_allclose(ours(chosen), theirs(chosen), rtol=1e-12)
    n = np.arange(12.0).reshape(3, 4)
    np.testing.assert_allclose(log_factorial(n), special.gammaln(n + 1), rtol=1e-13)


@pytest.mark.parametrize("recipe", ["auto", "linear", "xgb", "dp_ebm", "sarus"])
def test_a_plan_is_priced_by_every_method_without_loading_scipy(recipe: str) -> None:
    """Its import is a fifth of a second, of the one second that a plan may take."""
    code = (
        "import sys; from ledgerwood.app.plan_request import PlanRequest\n"
        f"PlanRequest(recipe={recipe!r}, rows=5000, epsilon=1.0).plan().account(lower_end=False)\n"
        "assert 'scipy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
