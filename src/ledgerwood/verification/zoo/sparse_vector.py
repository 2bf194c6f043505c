"""Sparse vector (Lyu, Su and Li 2017, Algorithms 1-5, c = 1) and compositions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.accounting import PureDP
from ledgerwood.verification.exact import textbook
from ledgerwood.verification.exact.distributions import Pair
from ledgerwood.verification.exact.exponential_sums import laplace_density
from ledgerwood.verification.exact.intervals import Interval
from ledgerwood.verification.zoo.entry import Distribution, Entry
from ledgerwood.verification.zoo.noise import TENTH, laplace_exact, on_grid

Array = NDArray[Any]
_MOVES_BY_ONE = "each query moves by at most 1"
_HALVES = (5 * (0,) + 5 * (1,), 5 * (1,) + 5 * (0,))
_ONES = (10 * (1,), 5 * (2,) + 5 * (0,))
_SVT_PROOF = (
    "Proof (Lyu et al., Theorem 2, c = 1): shift the threshold noise by 1 (cost eps/2): all rejections become easier. "
    "Shift the noise of the accepted query by 2 (cost 2 * eps/4): it is still accepted. Total eps. Exactly integrated "
    "at the pair."
)


def _above(
    data: Sequence[float], n: int, rng: np.random.Generator, threshold: float, scales: tuple[float, float]
) -> Array:
    """Stopping times: how many queries were rejected before the first accepted one (all of them: len(data))."""
    noisy_threshold = threshold + rng.laplace(scale=scales[0], size=(n, 1))
    accepted = np.asarray(data) + rng.laplace(scale=scales[1], size=(n, len(data))) >= noisy_threshold
    return np.where(accepted.any(axis=1), accepted.argmax(axis=1), len(data))


def _svt(
    threshold: Fraction, scales: tuple[Fraction, Fraction]
) -> tuple[Callable[..., Array], Callable[[Any], Distribution]]:
    """Sampler and distribution of a sparse vector that stops at its first acceptance."""

    def sample(data: Sequence[float], n: int, rng: np.random.Generator) -> Array:
        return _above(data, n, rng, float(threshold), (float(scales[0]), float(scales[1])))

    def distribution(data: Sequence[int]) -> Distribution:
        found = textbook.above_threshold_distribution(data, threshold, threshold_scale=scales[0], query_scale=scales[1])
        return {str(bits).count("0"): p for bits, p in found.items()}

    return sample, distribution


_SVT_1, _SVT_1_DISTRIBUTION = _svt(Fraction(1, 2), (2 / TENTH, 4 / TENTH))
_SVT_2, _SVT_2_DISTRIBUTION = _svt(Fraction(1), (2 / TENTH, 4 / TENTH))
_SVT_4, _SVT_4_DISTRIBUTION = _svt(Fraction(1), (4 / TENTH, Fraction(4, 3) / TENTH))


def _svt_3(data: Sequence[float], n: int, rng: np.random.Generator) -> Array:
    """(number of rejections, noisy value of the accepted query); the value is 0 if none was accepted."""
    noisy = np.asarray(data) + rng.laplace(scale=20.0, size=(n, len(data)))
    accepted = noisy >= 1.0 + rng.laplace(scale=20.0, size=(n, 1))
    stop = np.where(accepted.any(axis=1), accepted.argmax(axis=1), len(data))
    value = np.where(stop < len(data), noisy[np.arange(n), np.minimum(stop, len(data) - 1)], 0.0)
    return np.column_stack([stop, on_grid(value)])


def _svt_3_exact(first: Sequence[int], second: Sequence[int]) -> Pair:
    """The output with its value rounded to cells of width 4 (a post-processing)."""
    found = (
        textbook.above_threshold_value_distribution(
            data, 1, threshold_scale=2 / TENTH, query_scale=2 / TENTH, edges=range(-60, 64, 4)
        )
        for data in (first, second)
    )
    return Pair.from_distributions(*found)


def _svt_5(data: Sequence[float], n: int, rng: np.random.Generator) -> Array:
    return (np.asarray(data) >= 1.0 + rng.laplace(scale=20.0, size=(n, 1))).astype(np.int8)


def _svt_5_distribution(data: Sequence[int]) -> Distribution:
    """The bits are a function of the threshold noise alone: integrate it between the points where a bit flips."""
    density = laplace_density(Fraction(0), scale=2 / TENTH)
    edges = sorted({Fraction(q - 1) for q in data})
    found: dict[Hashable, Interval] = {}
    for low, high in zip([None, *edges], [*edges, None]):
        # query q is accepted iff noise <= q - 1
        bits = tuple(int(high is not None and Fraction(q - 1) >= high) for q in data)
        found[bits] = density.integral(low, high)
    return found


def _prefix_sums(data: Sequence[float], n: int, rng: np.random.Generator) -> Array:
    return np.cumsum(on_grid(np.asarray(data) + rng.laplace(scale=10.0, size=(n, len(data)))), axis=1)


def _laplace_parallel(data: Sequence[float], n: int, rng: np.random.Generator) -> Array:
    return on_grid(data[0] + rng.laplace(scale=200.0, size=(n, 20)))


def _laplace_parallel_exact(first: Sequence[float], second: Sequence[float]) -> Pair:
    return textbook.laplace_vector_pair(20 * tuple(first), 20 * tuple(second), 200)


def _subsampled_sum(data: Sequence[float], n: int, rng: np.random.Generator) -> Array:
    kept = rng.random((n, len(data))) < 0.1
    return on_grid(kept @ np.asarray(data, dtype=float) + rng.laplace(size=n))


def _subsampled_exact(first: Sequence[float], second: Sequence[float]) -> Pair:
    """The larger input holds one row more, of value 1; the other rows are 0 and cancel."""
    extra = Counter(first) - Counter(second) or Counter(second) - Counter(first)
    assert extra == Counter({1: 1}) and not any((Counter(first) & Counter(second)).keys() - {0})
    pair = textbook.subsampled_laplace_pair(TENTH, 1)
    return pair if len(first) > len(second) else pair.swapped()


_correct = partial(Entry, claim=PureDP(0.1), relation=_MOVES_BY_ONE, correct=True)
_broken = partial(Entry, family="svt", claim=PureDP(0.1), relation=_MOVES_BY_ONE, correct=False)

ENTRIES = (
    _correct(
        name="svt_1",
        family="svt",
        summary="sparse vector, Algorithm 1: T = 0.5, noise Lap(2/eps) and Lap(4/eps)",
        pair=_ONES,
        sampler=_SVT_1,
        reason=_SVT_PROOF,
        known_epsilon=0.08853,
        distribution=_SVT_1_DISTRIBUTION,
    ),
    _correct(
        name="svt_2",
        family="svt",
        summary="sparse vector, Algorithm 2 with c = 1: T = 1, noise Lap(2/eps) and Lap(4/eps)",
        pair=_HALVES,
        sampler=_SVT_2,
        reason=_SVT_PROOF,
        known_epsilon=0.08748,
        distribution=_SVT_2_DISTRIBUTION,
    ),
    _correct(
        name="laplace_parallel",
        family="composition",
        summary="the same count 20 times with Lap(1/0.005)",
        pair=((0,), (1,)),
        sampler=_laplace_parallel,
        exact=_laplace_parallel_exact,
        reason="Proof: the losses of 20 independent releases add; each is at most 1/200. Exact convolution.",
        known_epsilon=0.1,
    ),
    _correct(
        name="prefix_sum_one_differ",
        family="composition",
        summary="running sums of q + Lap(1/eps), one query moves",
        relation="one query moves by 1",
        pair=(10 * (1,), (0,) + 9 * (1,)),
        sampler=_prefix_sums,
        exact=laplace_exact(1 / TENTH),
        reason="Proof: running sums are a bijection of the noisy queries, whose losses are those of noisy_hist_1.",
        known_epsilon=0.1,
    ),
    _correct(
        name="poisson_subsampled_laplace",
        family="amplification",
        summary="each row kept with probability 0.1, then sum + Lap(1)",
        claim=PureDP(0.15857),
        relation="one row added or removed, rows in [0, 1]",
        pair=((0, 0, 1), (0, 0)),
        sampler=_subsampled_sum,
        exact=_subsampled_exact,
        reason="Proof: given the other kept rows the two distributions are (1-q) L0 + q L1 and L0 with L1 <= e L0, so "
        "the ratio is at most 1 - q + q e = exp(0.158565); mixing over the other rows keeps it.",
        known_epsilon=0.15857,
    ),
    _broken(
        name="svt_3",
        summary="sparse vector, Algorithm 3: releases the noisy value of the accepted query",
        pair=_HALVES,
        sampler=_svt_3,
        exact=_svt_3_exact,
        reason="The released value reuses the noise of the comparison: it bounds the threshold noise, and every "
        "rejected query then costs on its own; no finite epsilon holds for all numbers of queries.",
        known_epsilon=None,
    ),
    _broken(
        name="svt_4",
        summary="sparse vector, Algorithm 4: eps1 = eps/4, query noise Lap(1/(eps - eps1))",
        pair=_ONES,
        sampler=_SVT_4,
        reason="The query noise is too small: the true epsilon is (1 + 6c)/4 times the claim.",
        known_epsilon=0.17247,
        distribution=_SVT_4_DISTRIBUTION,
    ),
    _broken(
        name="svt_5",
        summary="sparse vector, Algorithm 5: no query noise, never stops",
        pair=((0,) + 9 * (2,), 10 * (1,)),
        sampler=_svt_5,
        reason="Queries are compared with one threshold without noise of their own: 0111111111 has probability 0.0488 "
        "against 0.",
        known_epsilon=float("inf"),
        distribution=_svt_5_distribution,
    ),
    _broken(
        name="prefix_sum_all_differ",
        family="composition",
        summary="running sums of q + Lap(1/eps), all queries move",
        pair=(10 * (1,), 10 * (0,)),
        sampler=_prefix_sums,
        exact=laplace_exact(1 / TENTH),
        reason="Claimed for inputs that differ in one query, used where all of them may move.",
        known_epsilon=1.0,
    ),
)
