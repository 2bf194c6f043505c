"""Where splits may lie: grids of public bounds, and their refinement by released histograms.

Everything here is public or post-processing: the functions see bounds, and noisy sums that a mechanism has released.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ledgerwood.errors import ParameterError
from ledgerwood.learners.data.columns import Column
from ledgerwood.learners.data.labels import Labels
from ledgerwood.learners.trees.aggregator import MAX_BIN_CODES, SCORE_BITS, BinEdges
from ledgerwood.learners.trees.settings import TreeSettings

__all__ = [
    "FeatureDomain",
    "even_bin_edges",
    "fine_bin_edges",
    "log_bin_edges",
    "merged_bin_edges",
    "mixed_bin_edges",
    "quantile_bin_edges",
]


FINE_BINS = 253


@dataclass(frozen=True, slots=True)
class FeatureDomain:
    """What each feature may be: bounds of a number, or how many categories (then the bounds are not read)."""

    bounds: tuple[tuple[float, float], ...]
    categories: tuple[int, ...]

    def __post_init__(self) -> None:
        for feature, (count, (low, high)) in enumerate(zip(self.categories, self.bounds, strict=True)):
            if count > MAX_BIN_CODES - 1:
                raise ParameterError("categories", f"be at most {MAX_BIN_CODES - 1} for a feature", count)
            if not count and not (math.isfinite(low) and math.isfinite(high) and low <= high):
                raise ParameterError("bounds", f"be finite and in order (feature {feature})", (low, high))

    @property
    def n_features(self) -> int:
        """How many features there are."""
        return len(self.categories)

    def bin_edges(self, thresholds: Sequence[NDArray[np.float64]]) -> BinEdges:
        """Return bin edges from thresholds in float64: rounded to float32, inside the bounds, strictly increasing."""
        return BinEdges(
            tuple(
                _deduplicated(own, *bounds) if not count else np.empty(0, dtype=np.float32)
                for own, bounds, count in zip(thresholds, self.bounds, self.categories, strict=True)
            ),
            self.categories,
        )


def even_bin_edges(domain: FeatureDomain, n_bins: int) -> BinEdges:
    """Return bins of equal width.

    >>> even_bin_edges(FeatureDomain(((0.0, 4.0),), (0,)), 4).thresholds[0].tolist()
    [1.0, 2.0, 3.0]
    """
    return domain.bin_edges([np.linspace(low, high, n_bins + 1)[1:-1] for low, high in domain.bounds])


def log_bin_edges(domain: FeatureDomain, n_bins: int) -> BinEdges:
    """Return bins of equal width in log(1 + x - lower).

    >>> log_bin_edges(FeatureDomain(((0.0, 7.0),), (0,)), 3).thresholds[0].tolist()
    [1.0, 3.0]
    """
    return domain.bin_edges([
        low + np.expm1(np.linspace(0.0, math.log1p(high - low), n_bins + 1)[1:-1]) for low, high in domain.bounds
    ])  # fmt: skip


def mixed_bin_edges(domain: FeatureDomain, n_bins: int) -> BinEdges:
    """Return an even grid of about a third of the bins and one that is dense near zero with the rest.

    Amounts, counts and durations crowd near zero, far below their public upper bound: the dense grid steps by fourth
    powers away from zero, or from the end of the range nearest to it. A range far from zero (all of it within a factor
    of ten: a latitude, a pressure) has no such end and gets the even grid only.

    >>> [round(edge, 3) for edge in mixed_bin_edges(FeatureDomain(((0.0, 100.0),), (0,)), 6).thresholds[0].tolist()]
    [0.16, 2.56, 12.96, 40.96, 50.0]
    >>> mixed_bin_edges(FeatureDomain(((90.0, 100.0),), (0,)), 5).thresholds[0].tolist()
    [92.0, 94.0, 96.0, 98.0]
    """
    return domain.bin_edges([_mixed(low, high, n_bins) for low, high in domain.bounds])


def _mixed(low: float, high: float, n_bins: int) -> NDArray[np.float64]:
    far = max(abs(low), abs(high))
    near = min(max(low, 0.0), high)  # the point of the range nearest to zero
    if not 10 * abs(near) <= far:
        return np.linspace(low, high, n_bins + 1)[1:-1]
    even = np.linspace(low, high, max(n_bins // 3, 1) + 1)[1:-1]
    left = n_bins - 1 - len(even)
    below = round(left * math.sqrt(near - low) / (math.sqrt(near - low) + math.sqrt(high - near))) if low < high else 0
    dense = [near + (high - near) * _fourth_powers(left - below), near - (near - low) * _fourth_powers(below)]
    return np.concatenate([even, *dense])


def _fourth_powers(count: int) -> NDArray[np.float64]:
    return np.asarray((np.arange(1, count + 1) / (count + 1)) ** 4)


def fine_bin_edges(domain: FeatureDomain) -> BinEdges:
    """Return the finest even grid: where counts are taken to find quantiles."""
    return even_bin_edges(domain, FINE_BINS)


def quantile_bin_edges(domain: FeatureDomain, fine: BinEdges, weights: NDArray[np.float64], n_bins: int) -> BinEdges:
    """Return bin edges of about equal weight, from released weights ``[feature, bin code]`` of the fine bins."""
    thresholds = []
    for feature, own in enumerate(fine.thresholds):
        if not len(own):
            thresholds.append(np.empty(0))
            continue
        through = np.cumsum(np.maximum(weights[feature, : len(own) + 1], 0.0))
        if through[-1] <= 0:
            thresholds.append(np.linspace(*domain.bounds[feature], n_bins + 1)[1:-1])
            continue
        wanted = through[-1] * np.arange(1, n_bins) / n_bins
        places = np.unique(np.minimum(np.searchsorted(through, wanted), len(own) - 1))
        thresholds.append(own[places].astype(np.float64))
    return domain.bin_edges(thresholds)


def merged_bin_edges(domain: FeatureDomain, bin_edges: BinEdges, weights: NDArray[np.float64], n_bins: int) -> BinEdges:
    """Return bin edges refined by released weights of the present bins (Maddock et al. 2022).

    Neighbouring bins are merged while together they hold less than an even share; then the heaviest bins are halved at
    their midpoint until there are ``n_bins`` again.
    """
    return domain.bin_edges([
        _merged(own.astype(np.float64), weights[feature], domain.bounds[feature], n_bins)
        if not domain.categories[feature]
        else np.empty(0)
        for feature, own in enumerate(bin_edges.thresholds)
    ])  # fmt: skip


def _merged(
    thresholds: NDArray[np.float64], weights: NDArray[np.float64], bounds: tuple[float, float], n_bins: int
) -> NDArray[np.float64]:
    ends = [bounds[0], *thresholds.tolist(), bounds[1]]
    held = np.maximum(weights[: len(thresholds) + 1], 0.0).tolist()
    even = sum(held) / n_bins
    bins: list[tuple[float, float, float]] = []  # (weight, lower, upper)
    for weight, lower, upper in zip(held, ends, ends[1:]):
        if bins and bins[-1][0] + weight < even:
            bins[-1] = (bins[-1][0] + weight, bins[-1][1], upper)
        else:
            bins.append((weight, lower, upper))
    while len(bins) < n_bins:
        heaviest = max(range(len(bins)), key=lambda i: (bins[i][0], bins[i][2] - bins[i][1]))
        weight, lower, upper = bins[heaviest]
        middle = float(np.float32((lower + upper) / 2))
        if not lower < middle < upper:
            bins[heaviest] = (-1.0, lower, upper)  # cannot be halved in float32
            if all(weight < 0 for weight, _, _ in bins):
                break
            continue
        bins[heaviest : heaviest + 1] = [(weight / 2, lower, middle), (weight / 2, middle, upper)]
    return np.array([lower for _, lower, _ in bins[1:]])


def _deduplicated(thresholds: NDArray[np.float64], low: float, high: float) -> NDArray[np.float32]:
    found = np.unique(np.asarray(thresholds, dtype=np.float32))
    return found[(found > np.float32(low)) & (found <= np.float32(high))][: MAX_BIN_CODES - 2]


def domain_of(columns: Sequence[Column]) -> FeatureDomain:
    """Return what columns may hold."""
    numbers = [column.bounds or (0.0, 0.0) for column in columns]
    counts = [len(column.categories or ()) if column.kind == "category" else 0 for column in columns]
    return FeatureDomain(tuple((float(low), float(high)) for low, high in numbers), tuple(counts))


def integer_labels(labels: Labels, settings: TreeSettings) -> NDArray[np.int32]:
    """Return labels as the task reads them: class codes, or numbers scaled to [-1, 1] in steps of 2**-16."""
    one = 1 << SCORE_BITS
    if labels.bounds is not None:
        low, high = labels.bounds
        half = (high - low) / 2
        scaled = (labels.values - (low + high) / 2) / half if half > 0 else np.zeros(len(labels.values))
        return np.rint(np.clip(scaled, -1.0, 1.0) * one).astype(np.int32)
    if settings.loss == "squared":
        return np.where(labels.values == 1, one, -one).astype(np.int32)
    return labels.values.astype(np.int32)
