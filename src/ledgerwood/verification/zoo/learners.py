"""Small broken boosting learners: each leaks through one decision or one field that carries no noise.

Rows are (x, g) or (x, y). A model is one row of numbers; the exact pair looks at the part of it that is not noisy, a
post-processing of the whole, which suffices to refute any finite epsilon.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.accounting import PureDP
from ledgerwood.verification.zoo.entry import Distribution, Entry, deterministic
from ledgerwood.verification.zoo.noise import on_grid

Array = NDArray[Any]
Rows = Sequence[tuple[Any, Any]]
_ADD_REMOVE = "one row added or removed"


def _sides(rows: Rows, threshold: float) -> tuple[list[Any], list[Any]]:
    """Second fields of the rows left and right of a threshold."""
    return [v for x, v in rows if x < threshold], [v for x, v in rows if x >= threshold]


def _score(gradients: Sequence[Any]) -> Fraction:
    return sum((Fraction(g) for g in gradients), Fraction(0)) ** 2 / (len(gradients) + 1)


def _gain(rows: Rows, threshold: float) -> Fraction:
    """Exact gain of a split, S^2/(n + 1) per node, halved as in XGBoost."""
    left, right = _sides(rows, threshold)
    return (_score(left) + _score(right) - _score([*left, *right])) / 2


def _best_threshold(rows: Rows) -> int:
    return max((1, 2), key=lambda threshold: _gain(rows, threshold))


def _best_per_feature(data: Rows, n: int, rng: np.random.Generator) -> Array:
    """The best threshold of each feature, then an exponential mechanism over features: one feature, one candidate."""
    return np.full(n, _best_threshold(data))


def _heavy_enough(rows: Rows) -> int:
    return 3 if min(len(side) for side in _sides(rows, 0.5)) >= 20 else 1


def _gain_enough(rows: Rows) -> int:
    return 3 if _gain(rows, 0.5) > 1 else 1


def _tree(nodes: Callable[[Rows], int], scale: float) -> Callable[[Rows, int, np.random.Generator], Array]:
    """Trees (number of nodes, left leaf, right leaf) with noisy sums; a tree of one node has 0 on the right."""

    def sample(data: Rows, n: int, rng: np.random.Generator) -> Array:
        split = nodes(data) == 3
        sums = [float(sum(side)) for side in _sides(data, 0.5)] if split else [float(sum(v for _, v in data)), 0.0]
        leaves = np.asarray(sums) + rng.laplace(scale=scale, size=(n, 2)) * [1.0, split]
        return np.column_stack([np.full(n, nodes(data)), on_grid(leaves)])

    return sample


def _exact_covers(rows: Rows) -> tuple[int, int]:
    left, right = _sides(rows, 0.5)
    return len(left), len(right)


def _model_with_covers(data: Rows, n: int, rng: np.random.Generator) -> Array:
    """(sum_hessian left, right, noisy leaf left, right)."""
    leaves = [float(sum(side)) for side in _sides(data, 0.5)] + rng.laplace(scale=10.0, size=(n, 2))
    return np.hstack([np.tile(_exact_covers(data), (n, 1)), on_grid(leaves)])


def _mean_label(labels: Sequence[float]) -> float:
    return math.fsum(labels) / len(labels)


def _initial_score(data: Sequence[float], n: int, rng: np.random.Generator) -> Array:
    """(F0, noisy sum of residuals)."""
    return np.column_stack([np.full(n, _mean_label(data)), on_grid(rng.laplace(size=n))])


def _quantile_edges(data: Sequence[float]) -> tuple[float, ...]:
    return tuple(float(edge) for edge in np.quantile(data, [0.25, 0.5, 0.75], method="higher"))


def _range_edges(data: Sequence[float]) -> tuple[float, ...]:
    return tuple(float(edge) for edge in np.linspace(min(data), max(data), 5)[1:-1])


def _binned(edges: Callable[[Sequence[float]], tuple[float, ...]]) -> Callable[..., Array]:
    """(three bin edges, four noisy counts)."""

    def sample(data: Sequence[float], n: int, rng: np.random.Generator) -> Array:
        counts = np.bincount(np.searchsorted(edges(data), data, side="right"), minlength=4)
        return np.hstack([np.tile(edges(data), (n, 1)), on_grid(counts + rng.laplace(size=(n, 4)))])

    return sample


def _same_noise_twice(data: Sequence[int], n: int, rng: np.random.Generator) -> Array:
    up, down = rng.geometric(-math.expm1(-1.0), size=(2, n))
    return np.asarray(np.asarray(data) + (up - down)[:, None])


@lru_cache(maxsize=1)
def _noise_of_second() -> Array:
    """The Laplace noise of scale 10 that each second of an hour gives, as a seed."""
    return np.array([np.random.default_rng(second).laplace(scale=10.0) for second in range(3600)])


def _clock_seeded(data: Sequence[int], n: int, rng: np.random.Generator) -> Array:
    """A noisy count; the observer knows the hour of the training, not the second."""
    return sum(data) + _noise_of_second()[rng.integers(3600, size=n)]


def _clock_seeded_distribution(data: Sequence[int]) -> Distribution:
    return {float(y): Fraction(c, 3600) for y, c in Counter(sum(data) + _noise_of_second()).items()}


_TWENTY = (*(20 * ((0, 0),)), *(20 * ((1, 1),)))
_TEN = ((0, -1), *(7 * ((0, -1),)), (0, 1), (1, 1))

_broken = partial(Entry, family="boosting", relation=_ADD_REMOVE, known_epsilon=math.inf, correct=False)

ENTRIES = (
    _broken(
        name="boost_perfeature_argmax_then_em",
        summary="best threshold of each feature without noise, then an exponential mechanism over features",
        claim=PureDP(1.0),
        pair=(((0, 1), (0, -1), (1, -1)), ((0, -1), (1, -1))),
        sampler=_best_per_feature,
        exact=deterministic(_best_threshold),
        reason="The argmax inside a feature is free of noise: the threshold is 1 with probability 1 against 0.",
        distribution=lambda rows: {_best_threshold(rows): 1},
    ),
    _broken(
        name="boost_min_child_weight_exact",
        summary="a split needs an exact count of 20 rows in each child (min_child_weight)",
        claim=PureDP(0.1),
        pair=(_TWENTY, _TWENTY[1:]),
        sampler=_tree(_heavy_enough, 10.0),
        exact=deterministic(_heavy_enough),
        reason="The set of candidates moves with one row: 3 nodes against 1.",
    ),
    _broken(
        name="boost_f0_mean",
        summary="initial score = exact mean of the labels",
        claim=PureDP(1.0),
        pair=((0.0, 1.0, 1.0), (1.0, 1.0)),
        sampler=_initial_score,
        exact=deterministic(_mean_label),
        reason="The mean is released without noise.",
    ),
    _broken(
        name="boost_quantile_edges",
        summary="bin edges are exact quantiles of the data, counts are noisy",
        claim=PureDP(1.0, neighbours="replace_one"),
        relation="one row replaced",
        pair=((0.0, 1.0, 2.0, 3.0), (0.0, 1.0, 2.0, 9.0)),
        sampler=_binned(_quantile_edges),
        exact=deterministic(_quantile_edges),
        reason="The edges are data values.",
    ),
    _broken(
        name="boost_feature_range_from_data",
        summary="uniform bins between the least and the largest value of the data, counts are noisy",
        claim=PureDP(1.0),
        pair=((0.0, 1.0, 2.0, 3.0, 9.0), (0.0, 1.0, 2.0, 3.0)),
        sampler=_binned(_range_edges),
        exact=deterministic(_range_edges),
        reason="The range is a pair of order statistics.",
    ),
    _broken(
        name="boost_node_count",
        summary="stops when the exact best gain is at most gamma = 1",
        claim=PureDP(1.0),
        pair=(_TEN, _TEN[1:]),
        sampler=_tree(_gain_enough, 1.0),
        exact=deterministic(_gain_enough),
        reason="The stopping rule reads the data: gain 1.064 gives 3 nodes, gain 1.000 gives 1.",
    ),
    _broken(
        name="boost_noise_reuse",
        summary="two leaf sums with the same discrete Laplace noise (one seed for both)",
        claim=PureDP(2.0),
        pair=((3, 5), (3, 4)),
        sampler=_same_noise_twice,
        exact=deterministic(lambda sums: sums[0] - sums[1]),
        reason="The difference of the two releases carries no noise.",
    ),
    _broken(
        name="boost_clock_seed",
        summary="noise generator seeded with the second of the clock (dp-xgboost 0.2.10)",
        claim=PureDP(0.1),
        pair=((1, 1, 1), (1, 1)),
        sampler=_clock_seeded,
        reason="An hour has 3600 noises: the 3600 possible outputs of one input cannot come from the other.",
        distribution=_clock_seeded_distribution,
    ),
    _broken(
        name="boost_exact_stats_in_model",
        summary="sum_hessian saved exactly beside noisy leaves",
        claim=PureDP(0.1),
        pair=(_TWENTY, _TWENTY[1:]),
        sampler=_model_with_covers,
        exact=deterministic(_exact_covers),
        reason="Fields without noise are released.",
    ),
)
