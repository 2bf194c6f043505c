"""The samplers' own code, fed with every short bit string; then goodness of fit with full-size words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import partial

import mpmath
import numpy as np
import pytest
from scipy import stats
from tests.kit.goodness_of_fit import enumerate_bits

from ledgerwood.mechanisms.local import (
    AdjMap,
    BoundedLaplace,
    ClampedLaplace,
    Domain,
    GeneralizedRandomizedResponse,
    GlobalMap,
    LaplaceMap,
    LocalMap,
    Partition,
    PiecewiseMechanism,
    UnaryEncoding,
    samplers,
)
from ledgerwood.mechanisms.local.distributions import Ball
from ledgerwood.mechanisms.randomness import SeededSource
from ledgerwood.mechanisms.sampling.draws import uniform_below


@pytest.fixture(autouse=True, scope="module")
def _digits():
    with mpmath.workdps(50):
        yield


def agrees(decided: Mapping[int, Fraction], undecided: Fraction, distribution: list[mpmath.mpf]) -> bool:
    """Whether each true probability lies between the mass decided for it and that plus all that is left."""
    masses = [decided.get(o, Fraction(0)) for o in range(len(distribution))]
    total = [mpmath.mpf(mass.numerator) / mass.denominator for mass in masses]
    rest = mpmath.mpf(undecided.numerator) / undecided.denominator
    return all(
        low <= p + mpmath.mpf(10) ** -45 and p <= low + rest + mpmath.mpf(10) ** -45
        for low, p in zip(total, distribution)
    )


def bounded_distribution(width: int, rate: float, row: int) -> list[mpmath.mpf]:
    weights = [mpmath.exp(-mpmath.mpf(rate) * abs(row - o)) for o in range(width)]
    return [w / mpmath.fsum(weights) for w in weights]


def clamped_distribution(width: int, rate: float, row: int) -> list[mpmath.mpf]:
    q = mpmath.exp(-mpmath.mpf(rate))
    noise = {z: (1 - q) / (1 + q) * q ** abs(z) for z in range(-width, width + 1)}
    distribution = [noise[o - row] for o in range(width)]
    distribution[0] = q**row / (1 + q)
    distribution[-1] = q ** (width - 1 - row) / (1 + q)
    return distribution


DISTRIBUTIONS = [(BoundedLaplace, bounded_distribution), (ClampedLaplace, clamped_distribution)]


@pytest.mark.parametrize(("distribution_type", "oracle"), DISTRIBUTIONS)
@pytest.mark.parametrize(("width", "rate"), [(2, 0.7), (3, 0.05), (4, 1.3), (5, 0.25)])
@pytest.mark.parametrize("word_bits", [2, 3])
def test_inversion_has_exactly_the_stated_distribution_on_all_bit_strings(
    distribution_type, oracle, width, rate, word_bits
):
    distribution = distribution_type(width, rate)
    for row in range(width):
        rows = np.array([row])
        decided, undecided = enumerate_bits(
            lambda source, rows=rows: int(samplers.by_inversion(distribution, rows, source)[0]),
            word_bits,
            depth=word_bits * (9 // word_bits + 2),
        )
        assert undecided < Fraction(1, 8)
        assert agrees(decided, undecided, oracle(width, rate, row))


def attempt_distribution(distribution: BoundedLaplace | ClampedLaplace, row: int) -> list[mpmath.mpf]:
    """The outputs of one attempt, then its rejection: a fair sign, a geometric number modulo 2**J."""
    q = mpmath.exp(-mpmath.mpf(distribution.rate))
    reach = max(row, distribution.width - 1 - row)
    if isinstance(distribution, ClampedLaplace):
        magnitudes = [(g, (1 - q) * q**g) for g in range(distribution.width)] + [
            (distribution.width, q**distribution.width)
        ]
    else:
        count = 2 ** reach.bit_length()
        magnitudes = [(g, q**g * (1 - q) / (1 - q**count)) for g in range(count)]
    result = [mpmath.mpf(0)] * (distribution.width + 1)
    for g, chance in magnitudes:
        for sign in (1, -1):
            o = row + sign * g
            if isinstance(distribution, ClampedLaplace):
                o = min(max(o, 0), distribution.width - 1)
            rejected = (sign < 0 and g == 0) or not 0 <= o < distribution.width
            result[distribution.width if rejected else o] += chance / 2
    return result


@pytest.mark.parametrize("distribution_type", [BoundedLaplace, ClampedLaplace])
@pytest.mark.parametrize(("width", "rate"), [(2, 0.7), (3, 0.05), (4, 1.3), (5, 0.4)])
def test_an_attempt_has_exactly_its_distribution_on_all_bit_strings(distribution_type, width, rate):
    distribution = distribution_type(width, rate)
    for row in range(width):
        rows = np.array([row])
        run = lambda source, rows=rows: int(samplers.laplace_attempts(distribution, rows, source)[0]) % (width + 1)  # noqa: E731
        digits = distribution.magnitude_bits()
        decided, undecided = enumerate_bits(run, word_bits=2, depth=2 * (digits + 3))
        assert undecided < Fraction(1, 4)
        assert agrees(decided, undecided, attempt_distribution(distribution, row))


@pytest.mark.parametrize(("distribution_type", "oracle"), DISTRIBUTIONS)
@pytest.mark.parametrize(("width", "rate"), [(2, 0.7), (3, 0.05), (9, 0.31)])
def test_accepted_attempts_have_the_stated_distribution(distribution_type, oracle, width, rate):
    distribution = distribution_type(width, rate)
    for row in range(width):
        *outputs, rejected = attempt_distribution(distribution, row)
        stated = oracle(width, rate, row)
        assert all(abs(o / (1 - rejected) - p) < mpmath.mpf(10) ** -45 for o, p in zip(outputs, stated))
        assert rejected < mpmath.mpf(3) / 4


def test_the_enumeration_sees_a_threshold_that_is_one_unit_off(monkeypatch):
    exact = samplers._floor
    monkeypatch.setattr(samplers, "_floor", lambda low, high, bits: max(0, exact(low, high, bits) - 2))
    distribution = BoundedLaplace(3, 0.3125)  # parameters of its own: tables are cached
    decided, undecided = enumerate_bits(
        lambda source: int(samplers.by_inversion(distribution, np.array([1]), source)[0]), word_bits=4, depth=12
    )
    assert not agrees(decided, undecided, bounded_distribution(3, 0.3125, 1))


def test_the_enumeration_sees_a_zero_that_counts_twice(monkeypatch):
    from ledgerwood.mechanisms.local import _kernels

    def undecided_all(thresholds, clamp, width, rows, words, outputs, undecided):
        undecided[: rows.size] = np.arange(rows.size)  # every attempt by exact arithmetic
        return rows.size

    monkeypatch.setattr(_kernels, "laplace_attempts", undecided_all)
    distribution, rows = BoundedLaplace(3, 0.8125), np.array([0])
    run = lambda source: int(samplers.laplace_attempts(distribution, rows, source)[0]) % 4  # noqa: E731
    assert agrees(*enumerate_bits(run, word_bits=2, depth=10), attempt_distribution(distribution, 0))
    monkeypatch.setattr(_kernels, "finish", lambda row, magnitude, negative, width, clamp: row + magnitude)
    assert not agrees(*enumerate_bits(run, word_bits=2, depth=10), attempt_distribution(distribution, 0))


def test_randomised_response_has_exactly_its_distribution_on_all_bit_strings():
    mechanism = GeneralizedRandomizedResponse(Domain(0, 2), 0.75)
    e = mpmath.exp(mpmath.mpf("0.75"))
    for value in range(3):
        run = lambda source, value=value: int(mechanism.release(value, source))  # noqa: E731
        distribution = [(e if o == value else 1) / (e + 2) for o in range(3)]
        decided, undecided = enumerate_bits(run, word_bits=2, depth=14)
        assert undecided < Fraction(1, 50)
        assert agrees(decided, undecided, distribution)


def test_the_piecewise_mechanism_has_exactly_its_distribution_on_all_bit_strings():
    mechanism = PiecewiseMechanism(Domain(0, 3), 1.0)
    w, m = mechanism.window, mechanism.outputs.size
    assert (w, m) == (2, 5)
    e = mpmath.exp(1)
    for value in range(4):
        run = lambda source, value=value: int(mechanism.release(value, source))  # noqa: E731
        distribution = [(e if value <= o < value + w else 1) / (w * e + m - w) for o in range(m)]
        decided, undecided = enumerate_bits(run, word_bits=2, depth=14)
        assert undecided < Fraction(1, 50)
        assert agrees(decided, undecided, distribution)


@pytest.mark.parametrize("kind", ["symmetric", "optimised"])
def test_unary_encoding_has_exactly_its_distribution_on_all_bit_strings(kind):
    mechanism = UnaryEncoding(Domain(0, 1), 1.25, kind)
    root, e = mpmath.exp(mpmath.mpf("0.625")), mpmath.exp(mpmath.mpf("1.25"))
    p, q = (root / (1 + root), 1 / (1 + root)) if kind == "symmetric" else (mpmath.mpf(1) / 2, 1 / (1 + e))
    for value in range(2):
        set_ = [p if i == value else q for i in range(2)]
        distribution = [(set_[0] if o & 1 else 1 - set_[0]) * (set_[1] if o & 2 else 1 - set_[1]) for o in range(4)]
        run = lambda source, value=value: int(mechanism.release(value, source) @ [1, 2])  # noqa: E731
        decided, undecided = enumerate_bits(run, word_bits=2, depth=12)
        assert undecided < Fraction(1, 8)
        assert agrees(decided, undecided, distribution)


def test_uniform_integers_are_uniform_on_all_bit_strings():
    for bound in range(1, 8):
        run = lambda source, bound=bound: int(uniform_below(np.array([bound]), source)[0])  # noqa: E731
        decided, undecided = enumerate_bits(run, word_bits=3, depth=9)
        assert len(set(decided.values())) == 1 and sorted(decided) == list(range(bound))
        assert undecided == Fraction(8 % bound, 8) ** 3


PARTITION = Partition((3, 7, 1, 5))
MECHANISMS = [
    make(sampling_name)
    for sampling_name in ("exponential", "laplace")
    for make in (
        lambda s: GlobalMap(Domain(-3, 12), 0.3, s),
        lambda s: LaplaceMap(Domain(-3, 12), 0.3, s),
        lambda s: AdjMap(Domain(-3, 12), PARTITION, 0.9, 0.2, s),
        lambda s: AdjMap.from_epsilon(Domain(-3, 12), 5, epsilon=0.5, alpha=0.5, sampling=s),
        lambda s: AdjMap(Domain(-3, 12), Partition((16,)), 0.9, 0.2, s),
        lambda s: LocalMap(Domain(-3, 12), PARTITION, 0.4, s),
    )
] + [GeneralizedRandomizedResponse(Domain(-3, 12), 1.5), PiecewiseMechanism(Domain(-3, 12), 1.5)]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: f"{type(m).__name__}-{getattr(m, 'sampling', '')}")
def test_frequencies_fit_the_stated_probabilities(mechanism):
    """Pearson's statistic per input; false-alarm rate 1e-6 for a test, Bonferroni over the inputs."""
    rng = SeededSource(np.random.default_rng(20260115))
    draws, values = 40_000, mechanism.domain.values
    released = mechanism.release(np.repeat(values, draws), rng).reshape(values.size, draws)
    for value, outputs in zip(values, released):
        expected = mechanism.probabilities(value) * draws
        counts = np.array([(outputs == o).sum() for o in mechanism.outputs])
        assert counts.sum() == draws and counts[expected == 0].sum() == 0
        common = expected >= 5
        observed = np.append(counts[common], counts[~common].sum())
        wanted = np.append(expected[common], expected[~common].sum())
        keep = wanted > 0
        if keep.sum() == 1:
            continue  # a part of one value: the output is certain
        statistic = float(((observed - wanted)[keep] ** 2 / wanted[keep]).sum())
        assert stats.chi2.sf(statistic, int(keep.sum()) - 1) > 1e-6 / values.size


@pytest.mark.parametrize("kind", ["symmetric", "optimised"])
def test_unary_bits_have_their_probabilities_and_are_independent(kind):
    """Counts of bits and of pairs of bits within 5.5 standard deviations (false alarms below 1e-6)."""
    mechanism, n = UnaryEncoding(Domain(0, 4), 2.0, kind), 200_000
    bits = mechanism.release(np.full(n, 2), SeededSource(np.random.default_rng(5)))
    p, q = mechanism.bit_probabilities
    chance = np.where(np.arange(5) == 2, p, q)
    both = np.outer(chance, chance) + np.diag(chance - chance**2)
    seen = bits.astype(float).T @ bits / n
    assert (np.abs(seen - both) < 5.5 * np.sqrt(both * (1 - both) / n)).all()


def test_the_same_seed_gives_the_same_release_and_the_system_source_does_not():
    mechanism, values = GlobalMap(Domain(1, 100), 0.1), np.arange(1, 101)
    first, second = (mechanism.release(values, SeededSource(np.random.default_rng(3))) for _ in range(2))
    assert (first == second).all()
    assert (mechanism.release(values) != mechanism.release(values)).any()


@pytest.mark.parametrize("name", ["exponential", "laplace"])
@pytest.mark.parametrize("epsilon", [1e-12, 1e6])
def test_extreme_parameters_still_sample(name: str, epsilon: float):
    domain, rng = Domain(0, 9), SeededSource(np.random.default_rng(6))
    for mechanism in (GlobalMap(domain, epsilon, name), LaplaceMap(domain, epsilon, name)):
        released = mechanism.release(np.full(500, 4), rng)
        if epsilon > 1:
            assert (released == 4).all()
        else:  # uniform where noise is redrawn, a fair coin between the ends where it is clamped
            assert set(released) == (set(range(10)) if isinstance(mechanism, GlobalMap) else {0, 9})


def test_a_large_domain_needs_no_table():
    mechanism = GlobalMap(Domain(0, 2**40), 2.0**-20, "laplace")
    noise = mechanism.release(np.full(100_000, 2**39), SeededSource(np.random.default_rng(11))) - 2**39
    # standard deviation of discrete Laplace noise of rate c is sqrt(2 q) / (1 - q), about sqrt(2) / c
    assert np.std(noise) == pytest.approx(math.sqrt(2) * 2**21, rel=0.02)
    assert abs(np.mean(noise)) < 5.5 * math.sqrt(2) * 2**21 / math.sqrt(noise.size)


def test_attempts_succeed_often_for_every_rate():
    """More than a quarter of the attempts are accepted, also where plain resampling would hardly ever be."""

    class Counting:
        private, word_bits, prefetch = False, 64, True

        def __init__(self) -> None:
            self.inner, self.used = SeededSource(np.random.default_rng(1)), 0

        def words(self, count: int) -> np.ndarray:
            self.used += count
            return self.inner.words(count)

    for rate in (1e-9, 1e-2, 1.0, 50.0):
        distribution, source = BoundedLaplace(100, rate), Counting()
        samplers.by_laplace_bits(distribution, np.arange(100).repeat(200), source)
        attempts = source.used * 4 / (distribution.magnitude_bits() + 1)
        assert attempts < 4 * 20_000


def two_stages(mechanism: AdjMap, x: int) -> list[mpmath.mpf]:
    """Adj-map's distribution from Li et al.'s Algorithm 2, on offsets."""
    parts = mechanism.partition
    own = int(parts.index(np.array(x)))
    distribution = []
    for part, (start, width) in enumerate(zip(parts.starts.tolist(), parts.widths)):
        chosen = bounded_distribution(parts.count, mechanism.epsilon_prt / 2, own)[part]
        weights = [mpmath.exp(-mpmath.mpf(mechanism.epsilon_ner) / 2 * abs(x - start - o)) for o in range(width)]
        distribution += [chosen * w / mpmath.fsum(weights) for w in weights]
    return distribution


def test_adj_map_and_local_map_have_exactly_their_distribution_on_all_bit_strings():
    domain, partition = Domain(0, 3), Partition((3, 1))
    for x in range(4):
        adj, local = AdjMap(domain, partition, 1.5, 0.5), LocalMap(domain, partition, 0.5)
        run = lambda source, x=x, m=adj: int(m.release(x, source))  # noqa: E731
        decided, undecided = enumerate_bits(run, word_bits=3, depth=15)
        assert undecided < Fraction(1, 50) and agrees(decided, undecided, two_stages(adj, x))
        run = lambda source, x=x, m=local: int(m.release(x, source))  # noqa: E731
        decided, undecided = enumerate_bits(run, word_bits=3, depth=15)
        inside = [*bounded_distribution(3, 0.25, x), mpmath.mpf(0)] if x < 3 else [mpmath.mpf(0)] * 3 + [mpmath.mpf(1)]
        assert undecided < Fraction(1, 50) and agrees(decided, undecided, inside)


def test_a_probability_known_too_coarsely_is_refused():
    with pytest.raises(ArithmeticError):
        samplers._floor(0, 2**66, 8)


def coarse(precision: int) -> int:
    """A quarter of a unit of the last bit compared, where a threshold of short words is asked for.

    Exact comparisons ask for multiples of 32 bits, and more of them each time; there it is a small error.
    """
    return 2**62 if precision % 32 else 2 ** (precision - 24)


def coarsely(value: Fraction, precision: int) -> Ball:
    exact = Ball.of(value, precision)
    return Ball(max(0, exact.lower - coarse(precision)), exact.upper + coarse(precision), precision)


class CoarseDistribution(BoundedLaplace):
    """The same distribution, known only to a quarter of a unit: the lower bound may fall below the next integer."""

    def cumulative(self, row: int, precision: int) -> tuple[list[int], list[int]]:
        lower, upper = super().cumulative(row, precision)
        error = coarse(precision)
        return [max(0, value - error) for value in lower], [value + error for value in upper]

    def magnitude_bit(self, index: int, precision: int) -> Ball:
        ball = super().magnitude_bit(index, precision)
        return Ball(max(0, ball.lower - coarse(precision)), ball.upper + coarse(precision), precision)


@pytest.mark.parametrize("value", [Fraction(26, 100), Fraction(24, 100), Fraction(1, 2), Fraction(51, 100)])
def test_events_stay_exact_when_their_probability_is_known_coarsely(value: Fraction):
    run = lambda source: int(samplers.bernoulli(lambda p: coarsely(value, p), 1, source)[0])  # noqa: E731
    decided, undecided = enumerate_bits(run, word_bits=2, depth=12)
    p = mpmath.mpf(value.numerator) / value.denominator
    assert undecided < Fraction(1, 500) and agrees(decided, undecided, [1 - p, p])


def test_samplers_stay_exact_when_probabilities_are_known_coarsely():
    # rates at which a cumulative probability, or that of a digit, lies just above 1/2 or 1/4
    for rate, width in ((0.01, 2), (0.97, 2), (1.09, 2), (0.02, 3)):
        distribution = CoarseDistribution(width, rate)
        for row in range(width):
            rows = np.array([row])
            invert = partial(samplers.by_inversion, distribution, rows)
            run = lambda source, draw=invert: int(draw(source)[0])  # noqa: E731
            decided, undecided = enumerate_bits(run, word_bits=2, depth=12)
            assert undecided < Fraction(1, 300) and agrees(decided, undecided, bounded_distribution(width, rate, row))
            attempt, last = partial(samplers.laplace_attempts, distribution, rows), width + 1
            run = lambda source, draw=attempt, last=last: int(draw(source)[0]) % last  # noqa: E731
            decided, undecided = enumerate_bits(run, word_bits=2, depth=2 * (distribution.magnitude_bits() + 4))
            assert undecided < Fraction(1, 30) and agrees(decided, undecided, attempt_distribution(distribution, row))
