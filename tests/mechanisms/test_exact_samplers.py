"""Each sampler, fed every short bit string, gives the stated distribution; kernels agree with plain integers."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.kit.goodness_of_fit import assert_distribution, enumerate_bits

from ledgerwood.mechanisms import (
    BoundedDiscreteLaplaceMechanism,
    ExponentialMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    PermuteAndFlipMechanism,
    QuantileMechanism,
    ReplaySource,
)
from ledgerwood.mechanisms.sampling import draws, exact
from ledgerwood.mechanisms.sampling.arithmetic import Geometric, HalfGaussian, Poisson, thresholds
from ledgerwood.mechanisms.subsampling import poisson_sample


def laplace_pmf(scale: float):
    q = math.exp(-1 / scale)
    return lambda k: (1 - q) / (1 + q) * q ** abs(k)


def gaussian_pmf(variance: float):
    total = sum(math.exp(-k * k / (2 * variance)) for k in range(-400, 401))
    return lambda k: math.exp(-k * k / (2 * variance)) / total


# word_bits = 1: almost every comparison is undecided, so this runs the plain programme bit by bit.
# word_bits = 6 or 7: the kernel decides what it can, the plain programme the rest.
@pytest.mark.parametrize(("word_bits", "depth", "left"), [(1, 11, 0.02), (6, 12, 0.01), (5, 15, 0.003)])
@pytest.mark.parametrize("scale", [Fraction(1), Fraction(1, 3), Fraction(5, 2)])
def test_discrete_laplace_by_enumeration(scale: Fraction, word_bits: int, depth: int, left: float) -> None:
    mass, undecided = enumerate_bits(lambda s: int(draws.discrete_laplace(scale, 1, s)[0]), word_bits, depth)
    assert_distribution(mass, undecided, laplace_pmf(float(scale)), at_most=left)


@pytest.mark.parametrize(("word_bits", "depth", "left"), [(1, 11, 0.02), (6, 12, 0.01), (5, 15, 0.003)])
@pytest.mark.parametrize("variance", [Fraction(1), Fraction(1, 5), Fraction(4)])
def test_discrete_gaussian_by_enumeration(variance: Fraction, word_bits: int, depth: int, left: float) -> None:
    mass, undecided = enumerate_bits(lambda s: int(draws.discrete_gaussian(variance, 1, s)[0]), word_bits, depth)
    assert_distribution(mass, undecided, gaussian_pmf(float(variance)), at_most=left)


def test_a_scale_wrong_by_one_percent_is_found_by_enumeration() -> None:
    mass, undecided = enumerate_bits(lambda s: int(draws.discrete_laplace(Fraction(101, 100), 1, s)[0]), 5, 15)
    with pytest.raises(AssertionError):
        assert_distribution(mass, undecided, laplace_pmf(1.0), at_most=0.004)


@pytest.mark.parametrize(("word_bits", "depth"), [(1, 14), (3, 12)])
def test_coarse_and_fine_parts_make_the_same_laws(monkeypatch, word_bits: int, depth: int) -> None:
    monkeypatch.setattr(draws, "TUNING", replace(draws.TUNING, direct_laplace=0, direct_gaussian=0))
    monkeypatch.setattr(draws, "_fine_bits", lambda scale, coarse_bits: 1)
    mass, undecided = enumerate_bits(lambda s: int(draws.discrete_laplace(Fraction(2), 1, s)[0]), word_bits, depth)
    assert_distribution(mass, undecided, laplace_pmf(2.0), at_most=0.4)
    mass, undecided = enumerate_bits(lambda s: int(draws.discrete_gaussian(Fraction(9), 1, s)[0]), word_bits, depth)
    assert_distribution(mass, undecided, gaussian_pmf(9.0), at_most=0.4)


@pytest.mark.parametrize("variance", [Fraction(1), Fraction(3)])
def test_skellam_by_enumeration(variance: Fraction) -> None:
    mass, undecided = enumerate_bits(lambda s: int(draws.skellam(variance, 1, s)[0]), 1, 14)
    half = float(variance) / 2
    assert_distribution(mass, undecided, lambda k: float(stats.skellam.pmf(k, half, half)), at_most=0.03)


@pytest.mark.parametrize("value", [0.3125, -0.75])
def test_rounded_noise_by_enumeration(monkeypatch, value: float) -> None:
    monkeypatch.setattr(
        draws, "TUNING", replace(draws.TUNING, lazy_steps=2)
    )  # a coarse part of few bits, to finish within the depth
    gauss = GaussianMechanism(sigma=0.75, sensitivity=1.0, grid=1.0)
    mass, undecided = enumerate_bits(lambda s: gauss.release(value, s), 1, 13)
    cdf = stats.norm(loc=value, scale=0.75).cdf
    assert_distribution(mass, undecided, lambda k: float(cdf(k + 0.5) - cdf(k - 0.5)), at_most=0.4)
    laplace = LaplaceMechanism(scale=0.75, sensitivity=1.0, grid=1.0)
    mass, undecided = enumerate_bits(lambda s: laplace.release(value, s), 1, 13)
    cdf = stats.laplace(loc=value, scale=0.75).cdf
    assert_distribution(mass, undecided, lambda k: float(cdf(k + 0.5) - cdf(k - 0.5)), at_most=0.4)


SCORES = [0.0, 1.0, 2.5]


@pytest.mark.parametrize(("word_bits", "depth"), [(1, 12), (6, 12)])
def test_exponential_mechanism_by_enumeration(word_bits: int, depth: int) -> None:
    m = ExponentialMechanism(epsilon=1.0, range_sensitivity=2.0)
    mass, undecided = enumerate_bits(lambda s: m.release(SCORES, s), word_bits, depth)
    assert_distribution(mass, undecided, lambda i: m.probabilities(SCORES)[i], at_most=0.01)


def test_permute_and_flip_by_enumeration() -> None:
    m = PermuteAndFlipMechanism(epsilon=1.0, range_sensitivity=2.0)
    mass, undecided = enumerate_bits(lambda s: m.release(SCORES, s), 1, 14)
    assert_distribution(mass, undecided, lambda i: m.probabilities(SCORES)[i], at_most=0.02)


def test_quantiles_by_enumeration() -> None:
    m = QuantileMechanism(epsilon=1.0, quantile=0.5, lower=0.0, upper=5.0, step=1.0)
    records = [1.0, 1.2, 4.0]
    mass, undecided = enumerate_bits(lambda s: int(m.release(records, s)), 1, 13)
    assert_distribution(mass, undecided, lambda i: math.exp(m.log_probabilities(records)[i]), at_most=0.05)


@pytest.mark.parametrize("scale", [1.0, 4.0])  # wide bounds: Laplace proposals; narrow ones: uniform proposals
def test_bounded_discrete_laplace_by_enumeration(scale: float) -> None:
    m = BoundedDiscreteLaplaceMechanism(scale=scale, lower=-1, upper=3)
    mass, undecided = enumerate_bits(lambda s: m.release(2, s), 3, 12)
    assert_distribution(mass, undecided, lambda z: m.probabilities(2)[z + 1], at_most=0.4)


@pytest.mark.parametrize("rate", [0.3, 0.5, 1.0, 2.0**-5])
def test_poisson_sampling_by_enumeration(rate: float) -> None:
    mass, undecided = enumerate_bits(lambda s: bool(poisson_sample(1, rate, s)[0]), 2, 12)
    assert_distribution(mass, undecided, lambda kept: rate if kept else 1 - rate, at_most=0.001)


# --- kernels against plain integers, on adversarial words --------------------------------------------------


def words_near(table: np.ndarray, signed: bool) -> st.SearchStrategy[int]:
    """Words whose leading bits are a threshold, one beside it, an end of the range, or anything."""
    shift = 1 if signed else 0
    near = st.builds(
        lambda entry, step, low: min(max(int(entry) + step, 0), 2 ** (64 - shift) - 1) << shift | (low & shift),
        st.sampled_from(table.tolist()),
        st.integers(-1, 1),
        st.integers(0, 1),
    )
    return st.one_of(near, st.integers(0, 2**64 - 1), st.sampled_from([0, 1, 2**64 - 1, 2**64 - 2]))


CASES = {
    "laplace": (Geometric(Fraction(1, 3), True), True, lambda s: draws.discrete_laplace(Fraction(3), 1, s)),
    "gaussian": (HalfGaussian(Fraction(50), True), True, lambda s: draws.discrete_gaussian(Fraction(50), 1, s)),
    "poisson": (Poisson(Fraction(400)), False, lambda s: draws._direct(Poisson(Fraction(400)), False, 1, s)),
}


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=250, deadline=None)
@given(data=st.data())
def test_direct_kernel_equals_plain_integers(name: str, data: st.DataObject) -> None:
    distribution, signed, sampler = CASES[name]
    words = data.draw(st.lists(words_near(thresholds(distribution, 64 - signed)[1], signed), min_size=1, max_size=3))
    words += [0x9E3779B97F4A7C15] * 8
    fast, plain = ReplaySource(words), ReplaySource(words)
    assert int(sampler(fast)[0]) == exact.direct(distribution, signed, exact.Reader(plain))
    assert fast.position == plain.position


@pytest.mark.parametrize("which", ["normal", "exponential", "gaussian", "laplace"])
@settings(max_examples=250, deadline=None)
@given(data=st.data())
def test_refined_kernel_equals_plain_integers(which: str, data: st.DataObject) -> None:
    v, r = Fraction(256**2), Fraction(1, 256)
    zero = Fraction(0)
    shape = {
        "normal": exact.LazyShape(HalfGaussian(v, False), 1 / v, 1 / (2 * v), zero, None),
        "exponential": exact.LazyShape(Geometric(r, False), zero, zero, r, None),
        "gaussian": exact.LazyShape(HalfGaussian(v, False), 1 / v, 1 / (2 * v), zero, 3),
        "laplace": exact.LazyShape(Geometric(r, False), zero, zero, r, 3),
    }[which]
    first = data.draw(words_near(thresholds(shape.distribution, 63)[1], True))
    m = shape.fine_digits(64)
    u = data.draw(st.one_of(st.integers(0, 2**m - 1), st.sampled_from([0, 2**m - 1])))
    i = exact.invert(shape.distribution, exact.Uniform(first >> 1, 63, exact.Reader(ReplaySource([7] * 9))))
    at = Fraction(u, 2**m)
    x = float((shape.product * i + shape.linear) * at + shape.square * at * at)
    edge = min(int(math.exp(-x) * 2 ** (64 - m)), 2 ** (64 - m) - 1)  # the acceptance that is hardest to decide
    near = st.integers(-3, 3).map(lambda d: min(max(edge + d, 0), 2 ** (64 - m) - 1))
    acceptance = data.draw(st.one_of(st.integers(0, 2 ** (64 - m) - 1), near))
    words = [first, acceptance << m | u] + [0x123456789ABCDEF1, 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03] * 6
    fast, plain = ReplaySource(words), ReplaySource(words)
    reals = draws._refined(shape, 1, fast)
    negative, coarse, fine = exact.refined(shape, exact.Reader(plain))
    assert (bool(reals.negative[0]), int(reals.coarse[0])) == (negative, coarse)
    assert int(reals.fine[0]) == fine.prefix >> (fine.bits - m)
    assert fast.position == plain.position


def test_digits_of_u_that_are_not_yet_known_leave_the_acceptance_undecided() -> None:
    """Where exp(-x) lies above a multiple of 2**-32 by less than the unknown digits of u are worth."""
    shape = _normal_shape()
    offset, table = thresholds(shape.distribution, 63)
    i = 1000
    first = (int(table[i - 1 - offset]) + 2**20) << 1
    u = np.arange(1, 2**32, 99_991, dtype=np.uint64)
    x = (2 * i * (u / 2**32) + (u / 2**32) ** 2) / 2**17
    above = (np.exp(-x) * 2**32) % 1  # to about 2**-21
    close = np.flatnonzero((above > 2.0**-12) & (above < 0.9 * 2 * i / 2**17))
    assert len(close) > 100
    for j in close[:50]:
        words = [first, (int(np.exp(-x[j]) * 2**32) - 1) << 32 | int(u[j]), *WORDS[:8]]
        fast, plain = ReplaySource(words), ReplaySource(words)
        reals = draws._refined(shape, 1, fast)
        _, coarse, _ = exact.refined(shape, exact.Reader(plain))
        assert int(reals.coarse[0]) == coarse
        assert fast.position == plain.position > 2


def test_a_draw_cut_by_the_end_of_a_block_is_continued_not_restarted(monkeypatch) -> None:
    """With blocks of one word every draw of two words is cut; the distribution must not notice."""
    whole = draws.normal(50, ReplaySource(WORDS))
    words = np.array(WORDS, dtype=np.uint64)
    big = draws._refined(_normal_shape(), 50, _Block(words))
    assert np.array_equal(whole.coarse, big.coarse)
    assert np.array_equal(whole.fine, big.fine)


def _normal_shape() -> exact.LazyShape:
    v = Fraction(256**2)
    return exact.LazyShape(HalfGaussian(v, False), 1 / v, 1 / (2 * v), Fraction(0), None)


WORDS = np.random.default_rng(3).integers(0, 2**64, size=400, dtype=np.uint64).tolist()


class _Block:
    """Gives words in blocks of seven, so that draws of two words are cut now and then."""

    private, word_bits, prefetch = False, 64, True

    def __init__(self, words: np.ndarray) -> None:
        self.given, self.position = words, 0

    def words(self, count: int) -> np.ndarray:
        taken = self.given[self.position : self.position + 7]
        self.position += 7
        return taken
