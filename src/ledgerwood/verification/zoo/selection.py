"""Selection with known probabilities (exponential mechanism, permute-and-flip) and local mechanisms."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.accounting import PureDP
from ledgerwood.verification.exact import textbook
from ledgerwood.verification.exact.distributions import Pair
from ledgerwood.verification.zoo.entry import Distribution, Entry

Array = NDArray[Any]
HALF = Fraction(1, 2)

_SCORES_MOVE = "each score moves by at most 1"
_ONE_UP = ((1,) + 15 * (0,), (0,) + 15 * (1,))
_FIVE = ((1, 0, 0, 0, 0), (0, 1, 1, 1, 1))


def gumbel_sampler(rate: Fraction) -> Callable[[Sequence[float], int, np.random.Generator], Array]:
    """Exponential mechanism with weights exp(rate * score), by the Gumbel-max trick."""

    def sample(data: Sequence[float], n: int, rng: np.random.Generator) -> Array:
        return np.asarray(np.argmax(float(rate) * np.asarray(data) + rng.gumbel(size=(n, len(data))), axis=1))

    return sample


def exponential_exact(rate: Fraction) -> Callable[[Sequence[int], Sequence[int]], Pair]:
    """The exact pair of :func:`gumbel_sampler`."""
    return lambda first, second: textbook.exponential_mechanism_pair(first, second, rate)


def exponential_distribution(rate: Fraction) -> Callable[[Sequence[int]], Distribution]:
    """The exact distribution of :func:`gumbel_sampler`."""
    return lambda scores: {
        cell.outcome: cell.p for cell in textbook.exponential_mechanism_pair(scores, scores, rate).cells
    }


def permute_and_flip_sampler(rate: Fraction) -> Callable[[Sequence[float], int, np.random.Generator], Array]:
    """Candidates in random order, each accepted with probability exp(rate * (score - best))."""

    def sample(data: Sequence[float], n: int, rng: np.random.Generator) -> Array:
        scores = np.asarray(data, dtype=float)
        accepted = rng.random((n, len(data))) < np.exp(float(rate) * (scores - scores.max()))
        place = np.where(accepted, rng.random((n, len(data))), np.inf)  # the best candidate is always accepted
        return np.asarray(np.argmin(place, axis=1))

    return sample


def permute_and_flip_distribution(rate: Fraction) -> Callable[[Sequence[int]], Distribution]:
    """The exact distribution of :func:`permute_and_flip_sampler`."""
    return lambda scores: textbook.permute_and_flip_distribution(scores, rate)


def _one_hot(data: int) -> list[int]:
    return [int(i == data) for i in range(8)]


def _randomized_response(data: int, n: int, rng: np.random.Generator) -> Array:
    keep = rng.random(n) < math.e / (math.e + 7)
    other = rng.integers(7, size=n)
    return np.where(keep, data, other + (other >= data))


def _bloom_bits(value: int) -> Array:
    """Four affine hash functions into 20 bits; the values 0 and 1 share one bit, so they differ in six."""
    bits = np.zeros(20, dtype=bool)
    for slope, start in ((1, 0), (4, 5), (9, 10), (5, 15)):
        bits[(slope * value + start) % 20] = True
    return bits


def _rappor(data: Sequence[int], n: int, rng: np.random.Generator) -> Array:
    permanent = np.where(rng.random((n, 20)) < 0.75, rng.random((n, 20)) < 0.5, _bloom_bits(data[0]))
    return (rng.random((n, 20)) < np.where(permanent, 0.55, 0.45)).astype(np.int8)


def _rappor_exact(first: Sequence[int], second: Sequence[int]) -> Pair:
    """Bits are independent and those on which the Bloom filters agree cancel: enumerate the others."""
    f, p, q = Fraction(3, 4), Fraction(45, 100), Fraction(55, 100)
    one = {True: f / 2 * (p + q) + (1 - f) * q, False: f / 2 * (p + q) + (1 - f) * p}  # P(report 1 | filter bit)
    a, b = _bloom_bits(first[0]), _bloom_bits(second[0])
    differing = np.flatnonzero(a != b)

    def distribution(bits: Array) -> Distribution:
        found: dict[Hashable, Fraction] = {}
        for reports in itertools.product((0, 1), repeat=len(differing)):
            mass = Fraction(1)
            for position, report in zip(differing, reports):
                chance = one[bool(bits[position])]
                mass *= chance if report else 1 - chance
            found[reports] = mass
        return found

    return Pair.from_distributions(distribution(a), distribution(b))


_correct = partial(Entry, family="local", claim=PureDP(1.0), relation="any two values", correct=True)
_broken = partial(Entry, family="boosting", claim=PureDP(1.0), relation=_SCORES_MOVE, correct=False)

ENTRIES = (
    _correct(
        name="rappor",
        summary="RAPPOR steps 1-3: 4 hashes, 20 bits, f=0.75, p=0.45, q=0.55",
        claim=PureDP(0.4001),
        pair=((1,), (0,)),
        sampler=_rappor,
        exact=_rappor_exact,
        reason="Proof: a report bit is 1 with probability 0.5125 or 0.4875 by its filter bit, independently; two "
        "filters of four bits differ in at most 8 places, so epsilon <= 8 log(0.5125/0.4875) = 0.40009.",
        known_epsilon=0.3001,
    ),
    _correct(
        name="randomised_response_k",
        summary="8-ary randomized response",
        pair=(0, 1),
        sampler=_randomized_response,
        exact=lambda first, second: textbook.exponential_mechanism_pair(_one_hot(first), _one_hot(second), 1),
        reason="Proof: probabilities e/(e+7) and 1/(e+7), the normaliser is the same for every input: losses -1, 0, 1 "
        "exactly.",
        known_epsilon=1.0,
        distribution=lambda data: exponential_distribution(Fraction(1))(_one_hot(data)),
    ),
    _correct(
        name="exponential_gumbel",
        family="selection",
        summary="exponential mechanism exp(eps u/(2 Delta)), 16 candidates",
        relation=_SCORES_MOVE,
        pair=_ONE_UP,
        sampler=gumbel_sampler(HALF),
        exact=exponential_exact(HALF),
        reason="Proof: the loss (s_i - s'_i)/2 + log Z'/Z has each term in [-1/2, 1/2].",
        known_epsilon=0.93536,
        distribution=exponential_distribution(HALF),
    ),
    _correct(
        name="permute_and_flip",
        family="selection",
        summary="permute-and-flip (McKenna and Sheldon), 5 candidates",
        relation=_SCORES_MOVE,
        pair=_FIVE,
        sampler=permute_and_flip_sampler(HALF),
        reason="Proof: it has the distribution of noisy max with Exp(2/eps) noise (Ding et al. 2021), see "
        "report_noisy_max_2. Checked exactly against that distribution, and at every pair tested.",
        known_epsilon=0.99052,
        distribution=permute_and_flip_distribution(HALF),
    ),
    _broken(
        name="boost_em_sensitivity_half",
        summary="split selection by the exponential mechanism with Delta off by 2",
        pair=_ONE_UP,
        sampler=gumbel_sampler(Fraction(1)),
        exact=exponential_exact(Fraction(1)),
        reason="The sensitivity is half of the true one.",
        known_epsilon=1.85768,
        distribution=exponential_distribution(Fraction(1)),
    ),
    _broken(
        name="boost_em_sensitivity_5pct",
        summary="split selection by the exponential mechanism, 5 % too selective",
        pair=((-3,) + 8 * (0,), (-2,) + 8 * (-1,)),
        sampler=gumbel_sampler(Fraction(105, 200)),
        exact=exponential_exact(Fraction(105, 200)),
        reason="The sensitivity is five per cent too small.",
        known_epsilon=1.00421,
        distribution=exponential_distribution(Fraction(105, 200)),
    ),
    _broken(
        name="boost_permute_flip_wrong_factor",
        summary="permute-and-flip with exp(eps (q - q*)/Delta)",
        pair=_FIVE,
        sampler=permute_and_flip_sampler(Fraction(1)),
        reason="The factor 1/2 is missing.",
        known_epsilon=1.89361,
        distribution=permute_and_flip_distribution(Fraction(1)),
    ),
)
