from __future__ import annotations

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerwood.mechanisms.sampling.arithmetic import (
    Geometric,
    HalfGaussian,
    Poisson,
    SampledDistribution,
    cumulative,
    exp_minus,
    thresholds,
)

positive_fractions = st.fractions(min_value=0, max_value=500, max_denominator=10**12)


def real(x: Fraction) -> mp.mpf:
    return mp.mpf(x.numerator) / x.denominator


@given(positive_fractions, st.integers(8, 400))
def test_exp_is_enclosed_within_two_units(x: Fraction, precision: int) -> None:
    lo, hi = exp_minus(x, precision)
    with mp.workprec(precision + 900):
        exact = mp.exp(-real(x)) * mp.mpf(2) ** precision
        assert lo <= exact <= hi
    assert hi - lo <= 2


def test_exp_is_enclosed_thousands_of_times() -> None:
    """Errors below the last unit show only once in some thousand numbers."""
    rng = np.random.default_rng(2)
    with mp.workprec(120):
        for a in rng.integers(1, 2**20, size=20_000).tolist():
            lo, hi = exp_minus(Fraction(a, 1 << 17), 24)
            assert lo <= mp.exp(-mp.mpf(a) / (1 << 17)) * (1 << 24) <= hi, a


def weights_of(distribution: SampledDistribution) -> list[mp.mpf]:
    """Weights of 0, 1, 2, ... by mpmath, until they are negligible at 200 bits."""
    match distribution:
        case HalfGaussian(variance, folded):
            weight = lambda k: mp.exp(-(mp.mpf(k) ** 2) / (2 * real(variance))) * (2 if folded and k else 1)  # noqa: E731
        case Geometric(rate, folded):
            weight = lambda k: mp.exp(-real(rate) * k) * (2 if folded and k else 1)  # noqa: E731
        case Poisson(mean):
            weight = lambda k: mp.exp(-real(mean) + k * mp.log(real(mean)) - mp.loggamma(k + 1))  # noqa: E731
        case _:
            raise AssertionError
    start = int(distribution.mean) if isinstance(distribution, Poisson) else 0
    out = []
    k = 0
    while k <= start or out[-1] > mp.mpf(2) ** -250:
        out.append(weight(k))
        k += 1
    return out


DISTRIBUTIONS = [
    HalfGaussian(Fraction(1), True),
    HalfGaussian(Fraction(7, 3), False),
    HalfGaussian(Fraction(900), True),
    HalfGaussian(Fraction(1, 50), True),
    Geometric(Fraction(1), True),
    Geometric(Fraction(1, 37), False),
    Geometric(Fraction(9), True),
    Poisson(Fraction(1, 3)),
    Poisson(Fraction(50)),
    Poisson(Fraction(12345, 10)),
]


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=str)
@pytest.mark.parametrize("precision", [40, 160])
def test_distribution_functions_are_enclosed(distribution: SampledDistribution, precision: int) -> None:
    with mp.workprec(400):
        weights = weights_of(distribution)
        total = mp.fsum(weights)
        table = cumulative(distribution, precision)
        running = mp.fsum(weights[: table.first])
        for j, (lo, hi) in enumerate(zip(table.lo, table.hi, strict=True)):
            if j > 0:
                running += weights[table.first + j - 1]
            exact = running / total * mp.mpf(2) ** precision
            assert lo <= exact <= hi
            assert hi - lo <= 8
        assert table.lo[-1] >= 2**precision - 4


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=str)
@pytest.mark.parametrize("bits", [5, 63])
def test_thresholds_are_the_leading_bits_and_cover_every_word(distribution: SampledDistribution, bits: int) -> None:
    with mp.workprec(400):
        weights = weights_of(distribution)
        total = mp.fsum(weights)
        offset, table = thresholds(distribution, bits)
        for j, entry in enumerate(table.tolist()):
            k = offset + j
            exact = mp.fsum(weights[: k + 1]) / total * mp.mpf(2) ** bits
            assert entry == min(int(mp.floor(exact)), 2**bits - 1)
        assert table[-1] == 2**bits - 1
        assert offset == 0 or table[0] == 0


@settings(max_examples=30, deadline=None)
@given(st.fractions(Fraction(1, 20), Fraction(400), max_denominator=1000))
def test_enclosures_hold_for_any_variance(variance: Fraction) -> None:
    with mp.workprec(400):
        distribution = HalfGaussian(variance, True)
        weights = weights_of(distribution)
        total = mp.fsum(weights)
        table = cumulative(distribution, 96)
        for j in (1, len(table.lo) // 2, len(table.lo) - 1):
            exact = mp.fsum(weights[:j]) / total * mp.mpf(2) ** 96
            assert table.lo[j] <= exact <= table.hi[j]
