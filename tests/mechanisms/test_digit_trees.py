"""Races, noisy maxima, sparse vectors and top-k: their running code gives the stated distribution, digit by digit.

Each case runs the mechanism's own ``release`` on cells of its reals (:mod:`tests.kit.digit_trees`), once so that floats
decide and once so that rationals do, and leaves a per cent or less undecided. An error of 5 % planted in either
comparison, or in the coefficient, is found.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr
from tests.kit.digit_trees import distribution_by_digits, exponential_mass, normal_mass
from tests.kit.goodness_of_fit import assert_distribution, enumerate_bits
from tests.kit.sampler_distribution import distribution_of_sampler

from ledgerwood.mechanisms import (
    ExponentialMechanism,
    GaussianSparseVectorMechanism,
    NoisyMaxMechanism,
    PermuteAndFlipMechanism,
    ReplaySource,
    SparseVectorMechanism,
    TopKMechanism,
)
from ledgerwood.mechanisms.randomness import OutOfBits
from ledgerwood.mechanisms.sampling import choice, draws

# --- the reals themselves, bit by bit ---------------------------------------------------------------------------


@pytest.mark.parametrize(("draw", "mass"), [("exponential", exponential_mass), ("normal", normal_mass)])
@pytest.mark.parametrize(("word_bits", "left"), [(1, 0.3), (2, 0.36)])
def test_lazy_reals_have_their_distribution_by_every_bit_string(monkeypatch, draw, mass, word_bits, left) -> None:
    """Sign, whole part and first digit, in coarse steps of one half: the cells that the trees below rely on."""
    monkeypatch.setattr(draws, "TUNING", replace(draws.TUNING, lazy_steps=2))

    def cell(source):
        real = getattr(draws, draw)(1, source)
        return bool(real.negative[0]), int(real.coarse[0]), int(real.fine[0]), real.digits

    def probability(output) -> float:
        _, whole, digits, bits = output
        return mass((whole + digits / 2**bits) / 2, (whole + (digits + 1) / 2**bits) / 2) / 2

    found, undecided = enumerate_bits(cell, word_bits, 12)
    assert_distribution(found, undecided, probability, at_most=left)


# --- comparisons of two reals -----------------------------------------------------------------------------------

TWO = [0.0, 1.5]
NOISY = NoisyMaxMechanism(epsilon=1.0, range_sensitivity=1.0)
RACE = ExponentialMechanism(epsilon=1.0, range_sensitivity=1.0)
TOP = TopKMechanism(RACE, k=2)
SPARSE = SparseVectorMechanism(epsilon=3.0, threshold=0.5)
NORMAL = GaussianSparseVectorMechanism(0.75, 0.5, max_queries=3, threshold=0.5)


def sparse_distribution(q: float, scales) -> dict:
    """Two Laplace variables of scales a > b: P(X - Y > z) = (a^2 e^(-z/a) - b^2 e^(-z/b)) / (2 (a^2 - b^2)), z >= 0."""
    b, a = sorted(float(scale) for scale in scales)
    z = abs(q)
    tail = (a * a * math.exp(-z / a) - b * b * math.exp(-z / b)) / (2 * (a * a - b * b))
    yes = tail if q < 0 else 1 - tail
    return {(True,): yes, (False,): 1 - yes}


def answers(mechanism, values):
    return lambda source: tuple(mechanism.release(values, source).tolist())


def by_index(probabilities) -> dict:
    return dict(enumerate(probabilities))


SECOND = {(1, 0): RACE.probabilities(TWO)[1], (0, 1): RACE.probabilities(TWO)[0]}
YES = float(ndtr(-0.5 / math.hypot(0.75, 0.5)))
PAIRS = {
    "noisy max": (lambda s: NOISY.release(TWO, s), by_index(NOISY.probabilities(TWO)), {}),
    "race": (lambda s: RACE.release_stream([TWO], s), by_index(RACE.probabilities(TWO)), {"signed": False}),
    "top-k": (answers(TOP, TWO), SECOND, {"signed": False}),
    "sparse vector": (answers(SPARSE, [-1.5]), sparse_distribution(-2.0, SPARSE.scales), {}),
    "Gaussian sparse vector": (
        answers(NORMAL, [0.0]),
        {(True,): YES, (False,): 1 - YES},
        {"draw": "normal", "reach": 7},
    ),
}


@pytest.mark.parametrize("floats", [False, True], ids=["rationals", "floats"])
@pytest.mark.parametrize("name", PAIRS)
def test_two_reals_are_compared_with_the_stated_distribution(monkeypatch, name: str, floats: bool) -> None:
    release, distribution, options = PAIRS[name]
    found = distribution_by_digits(monkeypatch, release, floats=floats, **options)
    assert found.contradicts(distribution.__getitem__, at_most=0.025) is None
    assert sum(found.mass.values()) + found.undecided == pytest.approx(1.0, abs=1e-12)


def five_percent(monkeypatch, owner, name: str) -> None:
    """Makes what a method or property returns 5 % too large (the second number of a pair of scales)."""
    right = getattr(owner, name)

    def wrong(value):
        match value:
            case (first, second) if name == "scales":
                return first, second * 21 / 20
            case tuple():
                return tuple(end * 21 / 20 for end in value)
        return value * 21 / 20

    if isinstance(right, property):
        monkeypatch.setattr(owner, name, property(lambda self: wrong(right.fget(self))))
    else:
        monkeypatch.setattr(owner, name, lambda *arguments: wrong(right(*arguments)))


PLANTED = [
    ("noisy max", False, NoisyMaxMechanism, "coefficient"),
    ("noisy max", False, draws.LazyReals, "enclosure"),
    ("noisy max", True, choice.Exponents, "capped"),
    ("noisy max", True, draws.LazyReals, "approximate"),
    ("race", False, choice.Exponents, "exact"),
    ("race", True, choice.Exponents, "capped"),
    ("top-k", False, choice.Exponents, "exact"),
    ("top-k", True, choice.Exponents, "capped"),
    ("sparse vector", False, SparseVectorMechanism, "scales"),
    ("sparse vector", False, draws.LazyReals, "enclosure"),
    ("sparse vector", True, draws.LazyReals, "approximate"),
    ("Gaussian sparse vector", False, draws.LazyReals, "enclosure"),
]


@pytest.mark.parametrize(
    ("name", "floats", "owner", "method"), PLANTED, ids=lambda x: x if isinstance(x, str) else getattr(x, "__name__", x)
)
def test_an_error_of_five_percent_in_the_running_code_is_found(monkeypatch, name, floats, owner, method) -> None:
    release, distribution, options = PAIRS[name]
    five_percent(monkeypatch, owner, method)
    found = distribution_by_digits(monkeypatch, release, floats=floats, **options)
    assert found.contradicts(distribution.__getitem__, at_most=0.025) is not None


# --- three reals, one of them given -----------------------------------------------------------------------------

THREE = [0.0, 1.0, 2.0]


def order_given_last(t: float, c: float = 1.0) -> dict:
    """Distribution of the first two of three arrivals, given that the third candidate's exponential is t."""
    a, b = (math.exp(c * score) for score in THREE[:2])
    end = t * math.exp(-c * THREE[2])
    distribution = {}
    for i, j, r, s in ((0, 1, a, b), (1, 0, b, a)):
        distribution[(2, i)] = math.exp(-(a + b) * end) * r / (a + b)
        distribution[(i, 2)] = -math.expm1(-r * end) * math.exp(-s * end)
        distribution[(i, j)] = r / (r + s) * -math.expm1(-(r + s) * end) + math.exp(-s * end) * math.expm1(-r * end)
    return distribution


TIMES = {"early": (False, 0, 3, 2), "late": (False, 4, 1, 1)}  # 0.75 and 4.5


@pytest.mark.parametrize("time", TIMES)
def test_the_first_two_of_three_have_the_stated_distribution(monkeypatch, time: str) -> None:
    _, whole, digits, bits = TIMES[time]
    distribution = order_given_last(whole + digits / 2**bits)
    assert sum(distribution.values()) == pytest.approx(1.0, abs=1e-12)
    found = distribution_by_digits(monkeypatch, answers(TOP, THREE), signed=False, given={2: TIMES[time]}, runs=2500)
    assert found.contradicts(distribution.__getitem__, at_most=0.02) is None
    five_percent(monkeypatch, choice.Exponents, "exact")
    wrong = distribution_by_digits(monkeypatch, answers(TOP, THREE), signed=False, given={2: TIMES[time]}, runs=2500)
    assert wrong.contradicts(distribution.__getitem__, at_most=0.02) is not None


def test_a_second_place_taken_from_the_wrong_race_is_found(monkeypatch) -> None:
    """The runner-up measured by a coefficient that is 5 % off, the winner rightly."""
    right, calls = choice.Exponents.exact, []

    def later(self, i: int):
        if self.top != 2.0:  # the leader is gone: the second place
            calls.append(i)
            return right(self, i) * 21 / 20
        return right(self, i)

    monkeypatch.setattr(choice.Exponents, "exact", later)
    found = distribution_by_digits(
        monkeypatch, answers(TOP, THREE), signed=False, given={2: (False, 0, 1, 8)}, runs=2500
    )
    distribution = order_given_last(1 / 256)
    assert calls
    assert found.contradicts(distribution.__getitem__, at_most=0.02) is not None


def test_a_stream_in_chunks_keeps_its_leader(monkeypatch) -> None:
    """The leader of one chunk races against the next chunk with the digits it already has."""
    distribution = order_given_last(0.75)
    wanted = {i: sum(p for order, p in distribution.items() if order[0] == i) for i in range(3)}
    release = lambda s: RACE.release_stream([THREE[:1], THREE[1:2], THREE[2:]], s)  # noqa: E731
    found = distribution_by_digits(monkeypatch, release, signed=False, given={2: TIMES["early"]}, runs=2500)
    assert found.contradicts(wanted.__getitem__, at_most=0.02) is None


def test_one_threshold_serves_all_queries(monkeypatch) -> None:
    """Given the threshold's noise the answers are independent; without it they are not."""
    level = 0.75 * float(SPARSE.scales[0]) + 0.5
    tails = [math.exp(-abs(level - q) / float(SPARSE.scales[1])) / 2 for q in (0.0, 4.0)]
    first, second = 1 - tails[0], tails[1]  # of a negative answer: the noise stays below the level
    distribution = {(True,): 1 - first, (False, True): first * (1 - second), (False, False): first * second}
    options = {"given": {0: (False, 0, 3, 2)}, "runs": 3000, "reach": 10}
    found = distribution_by_digits(monkeypatch, answers(SPARSE, [0.0, 4.0]), **options)
    assert found.contradicts(distribution.__getitem__, at_most=0.01) is None
    five_percent(monkeypatch, SparseVectorMechanism, "scales")
    wrong = distribution_by_digits(monkeypatch, answers(SPARSE, [0.0, 4.0]), **options)
    assert wrong.contradicts(distribution.__getitem__, at_most=0.01) is not None


# --- peeling, bit by bit ----------------------------------------------------------------------------------------

FLIP = PermuteAndFlipMechanism(epsilon=1.0, range_sensitivity=1.0)
PEEL = TopKMechanism(FLIP, k=2)
PEELED = [0.0, 0.5, 1.5]


def words_that_choose(first: int) -> list[int]:
    """A bit string of the first round that chooses a candidate and stops there."""
    for bits in range(1, 12):
        for word in range(1 << bits):
            source = ReplaySource([word >> k & 1 for k in range(bits)], word_bits=1)
            try:
                if FLIP.release(PEELED, source) == first and source.position == bits:
                    return source.given
            except OutOfBits:
                continue
    raise AssertionError(first)


def peeled(words: list[int], most_bits: int):
    """Distribution of both rounds given the words of the first."""

    class After(ReplaySource):
        def __init__(self, source) -> None:
            super().__init__([], word_bits=1)
            self.rest, self.done = source, 0

        def words(self, count: int) -> np.ndarray:
            own = words[self.done : self.done + count]
            self.done += len(own)
            more = self.rest.words(count - len(own)) if count > len(own) else np.empty(0, dtype=np.uint64)
            return np.concatenate((np.array(own, dtype=np.uint64), more))

    return distribution_of_sampler(
        lambda s: tuple(PEEL.release(PEELED, After(s)).tolist()), word_bits=1, most_bits=most_bits
    )


def second_round(first: int) -> dict:
    left = [i for i in range(3) if i != first]
    p = FLIP.probabilities([PEELED[i] for i in left])
    return {(first, i): float(chance) for i, chance in zip(left, p, strict=True)}


@pytest.mark.parametrize("first", [0, 1, 2])
def test_peeling_has_the_stated_distribution_round_by_round(monkeypatch, first: int) -> None:
    one = distribution_of_sampler(lambda s: FLIP.release(PEELED, s), word_bits=1, most_bits=14)
    assert_distribution(one.probabilities, one.unresolved, lambda i: FLIP.probabilities(PEELED)[i], at_most=0.02)
    found = peeled(words_that_choose(first), most_bits=13)
    assert_distribution(found.probabilities, found.unresolved, second_round(first).__getitem__, at_most=0.004)


@pytest.mark.parametrize("method", ["floats", "exact"])
def test_an_error_of_five_percent_in_peeling_is_found(monkeypatch, method: str) -> None:
    words = words_that_choose(2)
    five_percent(monkeypatch, choice.Exponents, method)
    found = peeled(words, most_bits=13)
    with pytest.raises(AssertionError):
        assert_distribution(found.probabilities, found.unresolved, second_round(2).__getitem__, at_most=0.004)
