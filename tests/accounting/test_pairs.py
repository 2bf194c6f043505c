"""Dominating pairs against 50-digit arithmetic: masses of cells, profiles, reversal."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerwood.accounting.curves.dominating_pairs.base import LossPair, MaxPair, SubsampledPair
from ledgerwood.accounting.curves.dominating_pairs.continuous import BoundedRangePair, GaussianPair, LaplacePair
from ledgerwood.accounting.curves.dominating_pairs.discrete import (
    ApproxDPPair,
    DiscreteGaussianPair,
    DiscreteLaplacePair,
    PmfPair,
    PureDPPair,
    RandomizedResponsePair,
    SkellamPair,
)
from ledgerwood.errors import ParameterError

PAIRS: list[LossPair] = [
    GaussianPair(0.02),
    GaussianPair(3.0),
    LaplacePair(0.1),
    LaplacePair(4.0),
    BoundedRangePair(0.5),
    PureDPPair(0.3),
    RandomizedResponsePair(1.0, 5),
    ApproxDPPair(0.5, 1e-3),
    DiscreteLaplacePair(3.0, 4),
    DiscreteGaussianPair(1.0, 1),
    DiscreteGaussianPair(4.0, 3),
    SkellamPair(6.0, 2),
    PmfPair((-0.5, 0.25, 1.0, math.inf), (0.3, 0.3, 0.35, 0.05)),
    SubsampledPair(GaussianPair(1.0), 0.01, "remove"),
    SubsampledPair(GaussianPair(1.0), 0.01, "add"),
    SubsampledPair(LaplacePair(1.0), 0.2, "remove"),
    SubsampledPair(ApproxDPPair(1.0, 0.01), 0.2, "add"),
    MaxPair([LaplacePair(0.5), GaussianPair(0.4)]),
]
IDS = [repr(pair) for pair in PAIRS]


def phi(x: mp.mpf) -> mp.mpf:
    return mp.erfc(-x / mp.sqrt(2)) / 2


def interval(a: mp.mpf, b: mp.mpf) -> mp.mpf:
    """Normal mass of (a, b], from the tail that does not cancel."""
    return phi(b) - phi(a) if a + b < 0 else phi(-a) - phi(-b)


@pytest.fixture(autouse=True)
def _precision():
    with mp.workdps(60):
        yield


def allowed(pair: LossPair, *logs: float) -> float:
    return pair.rounding * (16 + sum(abs(v) for v in logs))


@pytest.mark.parametrize("mu", [1e-6, 0.02, 1.0, 30.0])
@pytest.mark.parametrize("width", [1e-4, 3e-3, 0.2, 2.0])
def test_gaussian_cells_keep_their_relative_accuracy_at_any_width_and_depth(mu: float, width: float) -> None:
    pair = GaussianPair(mu)
    for z in (-37.0, -12.5, -3.0, -0.4, 0.0, 0.7, 5.0, 20.0, 36.5):
        left, right = mu * z, mu * (z + width)
        log_p, log_q = pair.log_cells([left, right])
        m = mp.mpf(mu)
        p = interval(mp.mpf(left) / m - m / 2, mp.mpf(right) / m - m / 2)
        q = interval(mp.mpf(left) / m + m / 2, mp.mpf(right) / m + m / 2)
        # The loss of the whole cell, log p/q, is what the accountant uses.
        if min(p, q) > mp.mpf(10) ** -320:
            assert abs(log_p[1] - mp.log(p)) <= allowed(pair, log_p[1])
            assert abs(log_q[1] - mp.log(q)) <= allowed(pair, log_q[1])


@pytest.mark.parametrize("mu", [1e-5, 0.02, 0.7, 5.0, 30.0])
def test_the_gaussian_profile_is_right_from_one_down_to_1e_minus_300(mu: float) -> None:
    for z in (-30, -3, 0, 1, 2.5, 5, 11.9, 12.1, 20, 36):
        eps = mu * mu / 2 + z * mu
        m, e = mp.mpf(mu), mp.mpf(eps)
        exact = phi(m / 2 - e / m) - mp.exp(e) * phi(-m / 2 - e / m)
        assert float(GaussianPair(mu).log_delta(eps)) == pytest.approx(float(mp.log(exact)), rel=1e-12, abs=1e-11)


@pytest.mark.parametrize("pair", PAIRS, ids=IDS)
def test_cells_are_two_probability_distributions_with_losses_inside_the_cells(pair: LossPair) -> None:
    edges = np.linspace(-6, 6, 97) + 0.0123
    log_p, log_q = pair.log_cells(edges)
    assert len(log_p) == len(log_q) == len(edges) + 1
    assert math.fsum(np.exp(log_p)) == pytest.approx(1, abs=1e-12)
    assert math.fsum(np.exp(log_q)) == pytest.approx(1, abs=1e-12)
    some = log_p[1:-1] > -np.inf
    loss = log_p[1:-1][some] - log_q[1:-1][some]
    assert (loss >= edges[:-1][some] - 1e-11).all()
    assert (loss <= edges[1:][some] + 1e-11).all()


@pytest.mark.parametrize("pair", PAIRS, ids=IDS)
def test_cells_and_profile_tell_the_same_story(pair: LossPair) -> None:
    for eps in (-1.3, -0.2, 0.0, 0.05, 0.21, 0.9, 2.7):
        log_p, log_q = pair.log_cells([eps])
        from_cells = math.exp(log_p[1]) - math.exp(eps + log_q[1])
        assert from_cells == pytest.approx(float(np.exp(pair.log_delta(eps))), rel=1e-9, abs=1e-13)


@pytest.mark.parametrize("pair", PAIRS, ids=IDS)
def test_the_reversed_pair_has_the_reversed_profile(pair: LossPair) -> None:
    """For every pair, delta of (Q, P) at eps is 1 - e^eps + e^eps delta(-eps)."""
    other = pair.reversed()
    for eps in (-0.7, 0.0, 0.03, 0.4, 1.5):
        expected = -math.expm1(eps) + math.exp(eps) * float(np.exp(pair.log_delta(-eps)))
        assert float(np.exp(other.log_delta(eps))) == pytest.approx(expected, rel=1e-9, abs=1e-12)
        if pair.symmetric:
            assert float(np.exp(pair.log_delta(eps))) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert other.support() == pytest.approx(tuple(-v for v in reversed(pair.support())))


def exact_profile(p: dict[int, mp.mpf], q: dict[int, mp.mpf], eps: float) -> mp.mpf:
    x = mp.exp(mp.mpf(eps))
    return mp.fsum(max(mp.mpf(0), p[k] - x * q.get(k, mp.mpf(0))) for k in p)


def test_integer_noise_has_the_profile_of_its_pmf() -> None:
    reach = range(-200, 206)
    distributions = {
        DiscreteLaplacePair(3.0, 4): lambda k: mp.exp(-mp.mpf(abs(k)) / 3) * mp.tanh(mp.mpf(1) / 6),
        DiscreteGaussianPair(4.0, 3): lambda k: mp.exp(-(mp.mpf(k) ** 2) / 32) / DG_SUM,
        SkellamPair(6.0, 2): lambda k: mp.exp(-6) * mp.besseli(abs(k), 6),
    }
    for pair, pmf in distributions.items():
        shift = pair.shift
        p, q = {k: pmf(k - shift) for k in reach}, {k: pmf(k) for k in reach}
        for eps in (-0.5, 0.0, 0.1, 0.5, 1.0, 3.0):
            exact = exact_profile(p, q, eps)
            got = float(pair.log_delta(eps))
            assert (exact < 1e-45 and got == -math.inf) or got == pytest.approx(float(mp.log(exact)), abs=1e-11)


with mp.workdps(60):
    DG_SUM = mp.nsum(lambda k: mp.exp(-(mp.mpf(k) ** 2) / 32), [-mp.inf, mp.inf])


def test_a_discrete_gaussian_is_not_priced_as_a_gaussian() -> None:
    eps = np.linspace(0, 3, 301)
    ratio = np.exp(DiscreteGaussianPair(1.0).log_delta(eps) - GaussianPair(1.0).log_delta(eps))
    assert ratio.max() > 1.3


def test_skellam_tails_are_right_far_below_the_smallest_double() -> None:
    pair = SkellamPair(50.0, 1)
    atoms = pair._atoms()
    log_pmf = [float(mp.log(mp.exp(-50) * mp.besseli(abs(x), 50))) for x in range(0, 200, 20)]
    losses = [float(mp.log(mp.besseli(abs(x - 1), 50) / mp.besseli(abs(x), 50))) for x in range(1, 200, 20)]
    for x, value in zip(range(0, 200, 20), log_pmf, strict=True):
        assert np.abs(atoms.log_p - value).min() <= allowed(pair, value), x
    for value in losses:
        assert np.abs(atoms.loss - value).min() <= 1e-13


@settings(max_examples=60, deadline=None)
@given(
    st.floats(0.05, 3),
    st.floats(1e-4, 0.9),
    st.sampled_from(["remove", "add"]),
    st.floats(-1.5, 3),
)
def test_subsampling_is_the_mixture(mu: float, rate: float, direction: str, eps: float) -> None:
    """The profile of the mixture by direct integration over the half-line on which P exceeds e^eps Q."""
    pair = SubsampledPair(GaussianPair(mu), rate, direction)  # type: ignore[arg-type]
    m, q, x = mp.mpf(mu), mp.mpf(rate), mp.exp(mp.mpf(eps))
    mixture = lambda z: (1 - q) * phi(-z) + q * phi(m - z)  # noqa: E731  mass above z
    if direction == "remove":
        ratio = (x - 1 + q) / q
        if ratio <= 0:
            exact = 1 - x
        else:
            z = mp.log(ratio) / m + m / 2
            exact = mixture(z) - x * phi(-z)
    else:
        ratio = (1 / x - 1 + q) / q
        if ratio <= 0:
            exact = mp.mpf(0)
        else:
            z = mp.log(ratio) / m + m / 2
            exact = phi(z) - x * ((1 - q) * phi(z) + q * phi(z - m))
    got = float(pair.log_delta(eps))
    if exact > mp.mpf(10) ** -300:
        assert got == pytest.approx(float(mp.log(exact)), rel=1e-9, abs=1e-9)
    else:
        assert got < -650


def test_subsampling_a_finite_pair_agrees_with_mixing_its_atoms() -> None:
    base = RandomizedResponsePair(1.2, 3)
    total = math.exp(1.2) + 2
    p0 = [math.exp(1.2) / total, 1 / total, 1 / total]
    q0 = [1 / total, math.exp(1.2) / total, 1 / total]
    mixed = [0.3 * a + 0.7 * b for a, b in zip(p0, q0, strict=True)]
    for eps in (-0.3, 0.0, 0.1, 0.35):
        remove = sum(max(0.0, a - math.exp(eps) * b) for a, b in zip(mixed, q0, strict=True))
        add = sum(max(0.0, b - math.exp(eps) * a) for a, b in zip(mixed, q0, strict=True))
        assert float(np.exp(SubsampledPair(base, 0.3).log_delta(eps))) == pytest.approx(remove, abs=1e-14)
        assert float(np.exp(SubsampledPair(base, 0.3, "add").log_delta(eps))) == pytest.approx(add, abs=1e-14)


def test_the_worst_of_several_pairs_has_the_largest_profile_in_its_cells_too() -> None:
    parts = [LaplacePair(0.5), GaussianPair(0.4), PureDPPair(0.3)]
    pair = MaxPair(parts)
    edges = np.linspace(-1, 1.5, 251)
    log_p, log_q = pair.log_cells(edges)
    for i in range(0, len(edges), 10):
        above = math.fsum(np.exp(log_p[i + 1 :])) - math.exp(edges[i]) * math.fsum(np.exp(log_q[i + 1 :]))
        best = max(float(np.exp(part.log_delta(edges[i]))) for part in parts)
        assert above == pytest.approx(best, abs=1e-13)


def test_a_bounded_range_pair_has_the_known_value_at_zero() -> None:
    assert float(np.exp(BoundedRangePair(0.8).log_delta(0.0))) == pytest.approx(math.tanh(0.2), rel=1e-14)


@pytest.mark.parametrize(
    "make",
    [
        lambda: GaussianPair(0.0),
        lambda: GaussianPair(math.nan),
        lambda: LaplacePair(-1.0),
        lambda: RandomizedResponsePair(1.0, 1),
        lambda: ApproxDPPair(1.0, 1.0),
        lambda: ApproxDPPair(-1.0, 0.1),
        lambda: DiscreteGaussianPair(1.0, 0),
        lambda: SubsampledPair(GaussianPair(1.0), 1.0),
        lambda: SubsampledPair(GaussianPair(1.0), 0.5, "both"),  # type: ignore[arg-type]
        lambda: PmfPair((0.0, 1.0), (0.5, 0.4)),
        lambda: PmfPair((-3.0, 0.0), (0.5, 0.5)),
        lambda: PmfPair((math.nan,), (1.0,)),
        lambda: MaxPair([]),
    ],
)
def test_parameters_that_break_their_rule_are_refused(make) -> None:
    with pytest.raises(ParameterError):
        make()
