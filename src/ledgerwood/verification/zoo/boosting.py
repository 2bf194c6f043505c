"""What tree boosting releases: leaf sums, histograms, trees; the correct ways and one-line mistakes in sensitivity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.accounting import ApproxDP, PureDP
from ledgerwood.verification.exact import textbook
from ledgerwood.verification.exact.distributions import Pair
from ledgerwood.verification.exact.intervals import square_root
from ledgerwood.verification.zoo.entry import Entry
from ledgerwood.verification.zoo.noise import SIGMA, laplace_exact, laplace_sampler, on_grid

Array = NDArray[Any]
Rows = Sequence[tuple[Any, ...]]
_ADD_REMOVE = "one row added or removed"
_SPLIT_ROWS = ((0, 1.0, 0.25), (3, -1.0, 0.25), (5, 1.0, 0.25))
_TREE_ROWS = ((0.2, 1.0), (0.6, -1.0), (0.9, 1.0))


def _clip(gradient: float) -> Fraction:
    return max(min(Fraction(gradient), Fraction(1)), Fraction(-1))


def _clipped_sum(data: Sequence[float], n: int, rng: np.random.Generator) -> Array:
    return on_grid(np.clip(data, -1, 1).sum() + rng.laplace(size=n))


def _clipped_sum_exact(first: Sequence[float], second: Sequence[float]) -> Pair:
    return textbook.laplace_pair(sum(map(_clip, first)), sum(map(_clip, second)), 1)


def _raw_sum(data: Sequence[float], n: int, rng: np.random.Generator) -> Array:
    return on_grid(float(sum(data)) + rng.laplace(size=n))


def _raw_sum_exact(first: Sequence[float], second: Sequence[float]) -> Pair:
    return textbook.laplace_pair(sum(map(Fraction, first)), sum(map(Fraction, second)), 1)


def _histograms(rows: Rows) -> tuple[Array, Array]:
    """Gradient and Hessian sums of rows (bin, g, h) over 8 bins, |g| <= 1, 0 <= h <= 1/4."""
    g, h = np.zeros(8), np.zeros(8)
    for bin_, gradient, hessian in rows:
        g[bin_] += gradient
        h[bin_] += hessian
    return g, h


def _histogram_then_split(data: Rows, n: int, rng: np.random.Generator) -> Array:
    """Half of epsilon on each histogram; the split of largest noisy gain is post-processing."""
    g, h = _histograms(data)
    noisy_g = np.cumsum(g + rng.laplace(scale=2.0, size=(n, 8)), axis=1)
    noisy_h = np.cumsum(np.maximum(h + rng.laplace(scale=0.5, size=(n, 8)), 0.0), axis=1)
    right_g, right_h = noisy_g[:, -1:] - noisy_g, noisy_h[:, -1:] - noisy_h
    gain = noisy_g**2 / (noisy_h + 1) + right_g**2 / (right_h + 1)
    return np.asarray(np.argmax(gain[:, :-1], axis=1))


def _histogram_exact(first: Rows, second: Rows) -> Pair:
    """The noisy histograms themselves, of which the split is a post-processing."""
    (g1, h1), (g2, h2) = _histograms(first), _histograms(second)
    return textbook.independent(
        textbook.laplace_vector_pair(g1.tolist(), g2.tolist(), 2),
        textbook.laplace_vector_pair(h1.tolist(), h2.tolist(), Fraction(1, 2)),
    )


def _random_tree(data: Rows, n: int, rng: np.random.Generator) -> Array:
    """Depth 3 on one feature in [0, 1): 7 thresholds drawn without data, then 8 leaf sums of clipped g + Lap(1)."""
    thresholds = rng.random((n, 7))
    leaves = rng.laplace(size=(n, 8))
    trees = np.arange(n)
    for x, g in data:
        node = np.zeros(n, dtype=np.intp)
        for _ in range(3):
            node = 2 * node + 1 + (x >= thresholds[trees, node])
        leaves[trees, node - 7] += np.clip(g, -1, 1)
    return np.hstack([thresholds, on_grid(leaves)])


def _random_tree_exact(first: Rows, second: Rows) -> Pair:
    """Given the thresholds (alike on both sides) a row sits in one leaf: the loss is that of its clipped g."""
    moved = [g for _, g in ((Counter(first) - Counter(second)) + (Counter(second) - Counter(first))).elements()]
    (g,) = moved
    return textbook.laplace_pair(0, _clip(g), 1)


def _gaussian_histogram(data: Sequence[int], n: int, rng: np.random.Generator) -> Array:
    return on_grid(np.asarray(data) + rng.normal(scale=float(SIGMA), size=(n, len(data))))


def _gaussian_histogram_exact(first: Sequence[int], second: Sequence[int]) -> Pair:
    """Rotation invariance: the pair is that of one Gaussian moved by the Euclidean distance."""
    distance = square_root(sum((a - b) ** 2 for a, b in zip(first, second)))
    return textbook.gaussian_pair(distance / SIGMA, knots=[1, *(Fraction(146516 + i, 100000) for i in range(4))])


_correct = partial(Entry, family="boosting", claim=PureDP(1.0), relation=_ADD_REMOVE, known_epsilon=1.0, correct=True)
_broken = partial(Entry, family="boosting", relation=_ADD_REMOVE, correct=False)

ENTRIES = (
    _correct(
        name="leaf_sum_clipped",
        summary="leaf: sum of clip(g, -1, 1) + Lap(1/eps)",
        pair=((0.5, -1.0, 1.0), (0.5, -1.0)),
        sampler=_clipped_sum,
        exact=_clipped_sum_exact,
        reason="Proof: one row moves the clipped sum by at most 1, and the Laplace loss is at most shift/scale.",
    ),
    _correct(
        name="noisy_hist_then_best_split",
        summary="noisy gradient and Hessian histograms of 8 bins, then the split of largest noisy gain",
        pair=(_SPLIT_ROWS, _SPLIT_ROWS[1:]),
        sampler=_histogram_then_split,
        exact=_histogram_exact,
        reason="Proof: a row moves one gradient bin by |g| <= 1 (noise scale 2) and one Hessian bin by h <= 1/4 "
        "(noise scale 1/2): loss at most 1/2 + 1/2. The split is a function of the noisy histograms.",
    ),
    _correct(
        name="parallel_two_leaves",
        summary="two disjoint leaves, counts + Lap(1/eps) each",
        pair=((3, 5), (2, 5)),
        sampler=laplace_sampler(1.0),
        exact=laplace_exact(Fraction(1)),
        reason="Proof: a row is in one leaf, so one coordinate moves by 1; the other cancels.",
    ),
    _correct(
        name="random_split_tree",
        summary="depth 3, thresholds drawn without data, leaf sums of clipped g + Lap(1/eps)",
        pair=(_TREE_ROWS, _TREE_ROWS[1:]),
        sampler=_random_tree,
        exact=_random_tree_exact,
        reason="Proof: the thresholds have the same distribution on all inputs; given them, one row moves one leaf "
        "by at most 1.",
    ),
    _broken(
        name="boost_gaussian_sqrt2",
        summary="histogram with Gaussian noise for L2 sensitivity 1, under replace-one",
        claim=ApproxDP(1.0, 1e-5, neighbours="replace_one"),
        relation="one row replaced",
        pair=((1, 0), (0, 1)),
        sampler=_gaussian_histogram,
        exact=_gaussian_histogram_exact,
        reason="A replaced row moves two bins: the L2 sensitivity is sqrt(2).",
        known_epsilon=1.46517,
    ),
    _broken(
        name="boost_leaf_unclipped",
        summary="leaf: sum of g without clipping, noise for g in [-1, 1]",
        claim=PureDP(1.0),
        pair=((0.5, -1.0, 100.0), (0.5, -1.0)),
        sampler=_raw_sum,
        exact=_raw_sum_exact,
        reason="The sensitivity is unbounded: a label of 100 moves the sum by 100.",
        known_epsilon=100.0,
    ),
    _broken(
        name="boost_no_subsampling",
        summary="amplification by rate 0.1 claimed, all rows used",
        claim=PureDP(0.15857),
        pair=((0, 0, 1), (0, 0)),
        sampler=_raw_sum,
        exact=_raw_sum_exact,
        reason="The rate is never applied.",
        known_epsilon=1.0,
    ),
)
