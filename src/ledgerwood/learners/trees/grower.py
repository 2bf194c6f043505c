"""Growing one tree: the splits of a level are chosen here, at random or by a release.

- ``exponential``, ``permute_and_flip``: one private selection among the candidates of each node (``_greedy``).
- ``histogram``, ``partial``: the best split of noisy sums, which is post-processing (``_noisy``, ``_from_root``).
- ``random``: no look at the data (``_random``). A random tree draws the threshold of a node from the whole range of a
  feature, so many of its leaves are empty. A grid draws all thresholds of a feature at once and searches among them:
  ``2**l`` intervals of one feature, or products of intervals of several.

Candidates and their exact scores are made in ``candidates``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood._rounding import raised
from ledgerwood.learners.trees.aggregator import ONE, BinEdges, Structure
from ledgerwood.learners.trees.candidates import (
    Candidates,
    candidates_of,
    level_scores,
    open_tree,
    random_candidates,
    random_sides,
    with_level,
)
from ledgerwood.learners.trees.leaves import SumsLayout, weights_of
from ledgerwood.learners.trees.planned_noise import GaussianSums, Selections
from ledgerwood.learners.trees.settings import TreeSettings
from ledgerwood.learners.trees.split_sums import (
    NodeTotals,
    SideSums,
    SumsNoise,
    clipped_gain,
    posterior_of,
    reconciled,
    weight_variance,
)
from ledgerwood.learners.trees.training_state import BoostingState

__all__ = ["Grown", "grid_tree", "grow"]


@dataclass(frozen=True, slots=True, eq=False)
class Grown:
    """A structure; its leaf weights if released sums give them; released hessian by bin if there is some."""

    structure: Structure
    weights: NDArray[np.float64] | None = None
    hessian: NDArray[np.float64] | None = None


def grow(training: BoostingState, features: NDArray[np.int32], *, interaction: bool = False) -> Grown:
    """Grow a tree on some features."""
    if interaction:
        return Grown(grid_tree(training.bin_edges[-1], features, training.settings.interaction_depth, training.rng))
    match training.settings.split:
        case "random":
            return Grown(_random(training, features))
        case "exponential" | "permute_and_flip":
            return Grown(_greedy(training, features))
    if len(features) == 1:
        return _from_root(training, features)
    return _noisy(training, features)


def _spread(training: BoostingState, level: int, chosen: Any) -> Any:
    """Return a level's choices for all its nodes: a symmetric tree has made one."""
    symmetric = training.settings.structure == "symmetric"
    return np.repeat(chosen, 1 << level, axis=0) if symmetric else chosen


def _parts(training: BoostingState, level: int) -> int:
    return 1 if training.settings.structure == "symmetric" else 1 << level


def _random(training: BoostingState, features: NDArray[np.int32]) -> Structure:
    if training.settings.structure == "grid":
        return grid_tree(training.bin_edges[-1], features, training.settings.max_depth, training.rng)
    depth, symmetric = training.settings.max_depth, training.settings.structure == "symmetric"
    splits = depth if symmetric else (1 << depth) - 1
    feature, left = random_candidates(training.bin_edges[-1], features, splits, training.rng)
    if symmetric:
        of_node = np.repeat(np.arange(depth), 1 << np.arange(depth))
        feature, left = feature[of_node], left[of_node]
    return Structure(depth, feature, left)


def _greedy(training: BoostingState, features: NDArray[np.int32]) -> Structure:
    """Select every level's splits in one release: its nodes are disjoint parts of the data."""
    settings = training.settings
    if settings.tight:
        size = 4.0 * training.loss.gradient_square(training.bound)
    else:
        size = 6.0 * ONE * ONE * (2 if settings.loss == "softmax" else 1)
    tree = open_tree(settings.max_depth)
    for level in range(settings.max_depth):
        options = candidates_of(training.bin_edges[-1], features, settings.missing, training.rng)

        def query(tree: Structure = tree, options: Candidates = options) -> NDArray[np.int64]:
            sums = training.aggregator.histogram(tree, features, "count")
            scores = level_scores(sums, *options.arrays(), settings.l2, getattr(training.aggregator, "threads", None))
            return scores.sum(axis=0, keepdims=True) if settings.structure == "symmetric" else scores

        chosen = training.release("split", lambda cost: Selections(cost, size), query)
        feature = features[options.place[chosen]]
        left = options.left_tables(chosen)
        tree = with_level(tree, _spread(training, level, feature), _spread(training, level, left))
    return tree


def _noisy(training: BoostingState, features: NDArray[np.int32]) -> Grown:
    """Take the best split of noisy sums at every level (the histogram, or one random split per feature)."""
    settings, outputs = training.settings, training.loss.n_outputs
    layout = training.layout()
    bin_edges = training.bin_edges[-1]
    tree, weights, hessian = open_tree(settings.max_depth), np.empty((outputs, 0)), None
    parent: SideSums | None = None
    for level in range(settings.max_depth):
        nodes = 1 << level
        if settings.split == "partial":
            sides = _partial_sides(training, features, level)
        else:
            options = candidates_of(bin_edges, features, settings.missing, training.rng)
            sides = options.left_tables(np.arange(len(options)))[None]
        place = np.arange(len(features)) if settings.split == "partial" else options.place

        def query(tree: Structure = tree, sides: NDArray[np.uint8] = sides) -> NDArray[np.int64]:
            sums = training.aggregator.histogram(tree, features, layout.channel)
            return layout.pack(_two_sides(sums, sides) if settings.split == "partial" else sums)

        noisy, noise = _release_sums(training, layout, query, len(features))
        g, h = layout.unpack(noisy, outputs)  # [outputs, nodes, features, bins or sides]
        if settings.split == "partial":
            left = SideSums(g[..., 0], h[..., 0], np.ones(len(place)))
            right = SideSums(g[..., 1], h[..., 1], np.ones(len(place)))
            n_parts = np.full(len(features), 2.0)
        else:
            if level == 0:
                hessian = _by_feature(bin_edges.n_features, features, h.sum(axis=0)[0])
            n_parts = np.array([bin_edges.n_codes(f) for f in features.tolist()], dtype=np.float64)
            real = np.arange(g.shape[-1]) < n_parts[:, None]
            g, h = g * real, h * real  # places beyond the last code hold noise only
            table = sides[0, :, : g.shape[-1]].astype(np.float64)
            left_g, left_h = (np.einsum("oncb,cb->onc", x[:, :, place], table) for x in (g, h))
            right_g, right_h = (x[:, :, place].sum(axis=-1) - y for x, y in ((g, left_g), (h, left_h)))
            n_left = table.sum(axis=-1)
            left = SideSums(left_g, left_h, np.maximum(n_left, 1.0))
            right = SideSums(right_g, right_h, np.maximum(n_parts[place] - n_left, 1.0))
        if settings.tight:
            totals = NodeTotals(SideSums(g.sum(axis=-1), h.sum(axis=-1), n_parts), parent)
            left, right = reconciled(left, right, totals.without(place))
        read = _reader(settings, (left, right), noise)
        scores = read.gain(left) + read.gain(right)
        if settings.structure == "symmetric":
            scores = scores.sum(axis=0, keepdims=True)
        best = _spread(training, level, np.argmax(scores, axis=1))
        table_of = np.broadcast_to(sides, (nodes, *sides.shape[1:]))
        tree = with_level(tree, features[place[best]], table_of[np.arange(nodes), best])
        children = _interleaved(left.chosen(best), right.chosen(best))
        parent = children if settings.rows == 1 else None  # another sample has other sums
        if level == settings.max_depth - 1:
            weights = read.weights(children)
    return Grown(tree, weights, hessian)


def _from_root(training: BoostingState, features: NDArray[np.int32]) -> Grown:
    """One noisy histogram of a single feature serves all levels and the leaves: nodes are sets of its bin codes."""
    settings, outputs = training.settings, training.loss.n_outputs
    layout = training.layout()
    bin_edges = training.bin_edges[-1]

    def query() -> NDArray[np.int64]:
        return layout.pack(training.aggregator.histogram(open_tree(0), features, layout.channel))

    noisy, noise = _release_sums(training, layout, query, 1)
    n_codes = bin_edges.n_codes(int(features[0]))
    g, h = (x[:, 0, 0, :n_codes] for x in layout.unpack(noisy, outputs))
    hessian = _by_feature(bin_edges.n_features, features, h.sum(axis=0)[None])

    def summed(inside: NDArray[np.float64]) -> SideSums:
        """Sums of sets of bin codes ``[..., n_codes]``."""
        gradients, hessians = (np.tensordot(x, inside, (1, -1)) for x in (g, h))
        return SideSums(gradients, hessians, np.maximum(inside.sum(axis=-1), 1.0))

    inside = np.ones((1, n_codes))
    tree = open_tree(settings.max_depth)
    for level in range(settings.max_depth):
        if settings.split == "partial":
            tables = _partial_sides(training, features, level)[:, 0]
        else:
            options = candidates_of(bin_edges, features, settings.missing, training.rng)
            every = options.left_tables(np.arange(len(options)))
            sides = every[:, :n_codes].astype(np.float64)
            left, right = (summed(inside[:, None] * part) for part in (sides, 1 - sides))
            read = _reader(settings, (left, right), noise)
            scores = read.gain(left) + read.gain(right)
            if settings.structure == "symmetric":
                scores = scores.sum(axis=0, keepdims=True)
            tables = every[_spread(training, level, np.argmax(scores, axis=1))]
        tree = with_level(tree, np.repeat(features, 1 << level), tables)
        taken = tables[:, :n_codes]
        inside = np.stack((inside * taken, inside * (1 - taken)), axis=1).reshape(-1, n_codes)
    leaves = summed(inside)
    return Grown(tree, _reader(settings, (leaves,), noise).weights(leaves), hessian)


def _release_sums(
    training: BoostingState, layout: SumsLayout, query: Any, width: int
) -> tuple[NDArray[np.int64], SumsNoise]:
    """Release sums of ``width`` features; return them and their noise."""
    size = raised(layout.sensitivity * float(np.sqrt(width)))
    noise: list[SumsNoise] = []

    def mechanism(cost: Any) -> GaussianSums:
        made = GaussianSums(cost, size)
        noise.append(SumsNoise(layout.noise(made.sigma), made.sigma / layout.channel_scale))
        return made

    return training.release("split", mechanism, query), noise[0]


@dataclass(frozen=True, slots=True)
class _SumsReader:
    """How gains and leaf weights are read from noisy sums: by posterior means, or as Maddock et al. 2022 do."""

    settings: TreeSettings
    noise: SumsNoise
    variance: float

    def gain(self, side: SideSums) -> NDArray[np.float64]:
        """Return ``[nodes, sides]``: summed over outputs."""
        l2 = self.settings.l2
        if not self.settings.tight:
            return np.asarray(clipped_gain(side.gradient, side.hessian, l2, self.settings.leaf_clip).sum(axis=0))
        gradient, hessian = posterior_of(side, self.noise, self.variance)
        return np.asarray((gradient * gradient / (hessian + l2)).sum(axis=0))

    def weights(self, side: SideSums) -> NDArray[np.float64]:
        """Return the weights of leaves."""
        gradient, hessian = side.gradient, side.hessian
        if self.settings.tight:
            gradient, hessian = posterior_of(side, self.noise, self.variance)
        return weights_of(self.settings, gradient, hessian, self.noise.gradient * np.sqrt(side.parts))


def _reader(settings: TreeSettings, sides: tuple[SideSums, ...], noise: SumsNoise) -> _SumsReader:
    return _SumsReader(settings, noise, weight_variance(sides, noise) if settings.tight else 0.0)


def _interleaved(left: SideSums, right: SideSums) -> SideSums:
    """Return the children of each node side by side, ``[outputs, 2 * nodes]``."""
    both = ((left.gradient, right.gradient), (left.hessian, right.hessian), (left.parts, right.parts))
    return SideSums(*(np.stack(pair, axis=-1).reshape(len(left.gradient), -1) for pair in both))


def _partial_sides(training: BoostingState, features: NDArray[np.int32], level: int) -> NDArray[np.uint8]:
    """Return a random split ``[nodes, features, 256]`` of each feature for each node."""
    parts = _parts(training, level)
    tables = random_sides(training.bin_edges[-1], np.tile(features, parts), training.rng)
    spread: NDArray[np.uint8] = _spread(training, level, tables.reshape(parts, len(features), 256))
    return spread


def _two_sides(sums: NDArray[np.int64], sides: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return ``[outputs, nodes, features, side, 2]`` of histograms."""
    width = sums.shape[3]
    left = np.einsum("onfbc,nfb->onfc", sums, sides[:, :, :width].astype(np.int64))
    return np.stack((left, sums.sum(axis=3) - left), axis=3)


def _by_feature(n_features: int, features: NDArray[np.int32], values: NDArray[np.float64]) -> NDArray[np.float64]:
    found = np.zeros((n_features, values.shape[-1]))
    found[features] = values
    return found


def grid_tree(bin_edges: BinEdges, features: NDArray[np.int32], depth: int, rng: np.random.Generator) -> Structure:
    """Return a tree whose leaves are the boxes of a random grid.

    The levels are shared out among the features, the first ones getting one more if they do not come out even. Numbers
    are split at random bin edges (with repetition); categories are dealt at random into groups of nearly equal size,
    one each if there are enough groups. Missing values of a number go to a random interval.

    Examples
    --------
    >>> bin_edges = BinEdges((np.arange(1, 8, dtype=np.float32), np.empty(0, dtype=np.float32)), (0, 3))
    >>> tree = grid_tree(bin_edges, np.array([0, 1], dtype=np.int32), 4, np.random.default_rng(0))
    >>> tree.feature.tolist()
    [0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]
    """
    nodes = (1 << depth) - 1
    feature = np.zeros(nodes, dtype=np.int32)
    left = np.zeros((nodes, 256), dtype=np.uint8)
    level = 0
    for place, name in enumerate(features.tolist()):
        levels = depth // len(features) + (place < depth % len(features))
        deal = _groups if bin_edges.categories[name] else _intervals
        above = 1 << level  # every open node repeats the search of this feature
        for step, tables in enumerate(deal(bin_edges.n_codes(name), levels, rng)):
            first = (1 << level + step) - 1
            here = slice(first, 2 * first + 1)
            feature[here] = name
            left[here] = np.tile(tables, (above, 1))
        level += levels
    return Structure(depth, feature, left)


def _intervals(n_codes: int, levels: int, rng: np.random.Generator) -> list[NDArray[np.uint8]]:
    """Tables ``[2**step, 256]`` of a binary search among random thresholds, by level."""
    thresholds = np.sort(rng.integers(1, max(n_codes - 1, 2), size=(1 << levels) - 1))
    found = []
    for step in range(levels):
        width = 1 << levels - step
        threshold = thresholds[width // 2 - 1 :: width]
        left = np.arange(256) < threshold[:, None]
        left[:, n_codes - 1 :] = False
        left[:, n_codes - 1] = rng.integers(0, 2)
        found.append(left.astype(np.uint8))
    return found


def _groups(n_codes: int, levels: int, rng: np.random.Generator) -> list[NDArray[np.uint8]]:
    """Tables that read the binary digits of a category's random group, by level; the unknown one is a category too."""
    group = np.zeros(256, dtype=np.int64)
    group[rng.permutation(n_codes)] = np.arange(n_codes) % (1 << levels)
    found = []
    for step in range(levels):
        left = (group >> (levels - 1 - step) & 1) == 0
        left[n_codes:] = False
        found.append(np.repeat(left[None].astype(np.uint8), 1 << step, axis=0))
    return found
