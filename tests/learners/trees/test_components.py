"""Components alone against slow, plain versions; and the noise-free limit against a reference Newton boosting."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from reference import LedgerSession, OpenSession, ReferenceAggregator
from test_recipes import DOMAIN, labels_for, problem, small
from tests.kit.tree_definitions import encode, exact_scores, leaf_numbers, left_sums, plain_scores

from ledgerwood.accounting import Ledger
from ledgerwood.learners.trees.aggregator import BinEdges
from ledgerwood.learners.trees.binning import (
    FeatureDomain,
    even_bin_edges,
    log_bin_edges,
    merged_bin_edges,
    quantile_bin_edges,
)
from ledgerwood.learners.trees.boosting import boost
from ledgerwood.learners.trees.candidates import candidates_of, level_scores, random_sides
from ledgerwood.learners.trees.local_aggregator import LocalAggregator
from ledgerwood.learners.trees.plan import plan_boosting
from ledgerwood.learners.trees.recipes import RECIPES, recipe_settings

# ---- candidates


def test_even_and_log_edges_lie_inside_the_bounds_and_increase() -> None:
    domain = FeatureDomain(((0.0, 8.0), (-5.0, 1e6), (0.0, 1e-45), (0.0, 0.0)), (0, 0, 0, 7))
    for make in (even_bin_edges, log_bin_edges):
        bin_edges = make(domain, 16)
        for cuts, (low, high) in zip(bin_edges.thresholds, domain.bounds):
            assert (np.diff(cuts) > 0).all() and (cuts > low).all() and (cuts <= high).all()
        assert len(bin_edges.thresholds[0]) == len(bin_edges.thresholds[1]) == 15 and bin_edges.n_codes(3) == 8
    assert np.allclose(even_bin_edges(domain, 16).thresholds[0], np.arange(0.5, 8, 0.5))
    assert np.median(log_bin_edges(domain, 16).thresholds[1]) < 2000


def test_quantile_edges_hold_equal_weight() -> None:
    domain = FeatureDomain(((0.0, 1.0),), (0,))
    fine = even_bin_edges(domain, 200)
    weights = np.exp(-10 * np.linspace(0, 1, 201))[None]
    cuts = quantile_bin_edges(domain, fine, weights, 4).thresholds[0]
    share = [weights[0, : np.searchsorted(fine.thresholds[0], cut) + 1].sum() / weights[0, :200].sum() for cut in cuts]
    assert np.allclose(share, [0.25, 0.5, 0.75], atol=0.06)
    nothing = quantile_bin_edges(domain, fine, -np.ones((1, 201)), 4)
    assert np.allclose(nothing.thresholds[0], [0.25, 0.5, 0.75])


def test_refinement_moves_edges_to_the_weight_and_keeps_their_number() -> None:
    domain = FeatureDomain(((0.0, 100.0), (0.0, 0.0)), (0, 3))
    bin_edges = even_bin_edges(domain, 8)
    for _ in range(6):
        ends = np.concatenate(([0.0], bin_edges.thresholds[0], [100.0]))
        weights = np.zeros((2, len(ends)))
        weights[0, : len(ends) - 1] = np.clip(np.minimum(ends[1:], 1.0) - ends[:-1], 0, None)  # all weight in [0, 1]
        bin_edges = merged_bin_edges(domain, bin_edges, weights, 8)
        assert len(bin_edges.thresholds[0]) <= 7 and (np.diff(bin_edges.thresholds[0]) > 0).all()
    assert (bin_edges.thresholds[0] <= 1.6).sum() >= 5
    assert (
        len(merged_bin_edges(domain, bin_edges, np.zeros((2, 9)), 8).thresholds[0]) == 7
    )  # no weight at all: still a grid
    tiny = FeatureDomain(((1.0, math.nextafter(1.0, 2.0)),), (0,))
    assert len(merged_bin_edges(tiny, even_bin_edges(tiny, 8), np.ones((1, 2)), 8).thresholds[0]) == 0


# ---- candidates of a node and their scores


@pytest.mark.parametrize("missing", ["random", "private"])
def test_candidate_sums_are_the_sums_of_their_tables(missing: str) -> None:
    rng = np.random.default_rng(0)
    bin_edges = BinEdges(
        (np.arange(3, dtype=np.float32), np.empty(0, dtype=np.float32), np.empty(0, dtype=np.float32)), (0, 4, 0)
    )
    features = np.array([0, 1, 2], dtype=np.int32)
    options = candidates_of(bin_edges, features, missing, rng)
    sums = np.zeros((2, 3, 3, bin_edges.width, 2), dtype=np.int64)
    for _ in range(60):  # records
        node, g = rng.integers(3), rng.integers(-4096, 4097, size=2)
        for feature in range(3):
            sums[:, node, feature, rng.integers(bin_edges.n_codes(feature))] += np.stack([g, [1, 1]], axis=1)
    left = left_sums(options, sums)
    for c in range(len(options)):
        table = options.left_tables(np.array([c]))[0, : bin_edges.width].astype(np.int64)
        wanted = np.einsum("onbc,b->onc", sums[:, :, options.place[c]], table)
        assert np.array_equal(left[:, :, c], wanted)
    scores = level_scores(sums, *options.arrays(), 0.1)
    penalty = Fraction(2, 16)
    for node, c in np.ndindex(scores.shape):
        found = 0
        inside = sums[:, node, options.place[c]]
        table = options.left_tables(np.array([c]))[0, : bin_edges.width].astype(np.int64)
        for side in (table, 1 - table):
            s, n = (inside[:, :, 0] * side).sum(axis=1), int((inside[0, :, 1] * side).sum())
            found += math.floor(sum(int(x) ** 2 for x in s) / (n + penalty))
        assert scores[node, c] == found


def test_scores_of_the_kernel_are_the_plain_ones() -> None:
    rng = np.random.default_rng(1)
    bin_edges = even_bin_edges(FeatureDomain(((0.0, 1.0), (0.0, 1.0)), (0, 0)), 8)
    options = candidates_of(bin_edges, np.array([0, 1], dtype=np.int32), "private", rng)
    one = np.zeros((1, 4, 2, bin_edges.width, 2), dtype=np.int64)
    one[..., 1] = rng.integers(0, 9, size=one.shape[:-1])
    one[:, :, 1, :, 1] = one[:, :, 0, ::-1, 1]
    one[..., 0] = 4096 * one[..., 1] - 3
    whole = one[:, :, 0].sum(axis=2)
    one[:, :, 1, 0, 0] += whole[:, :, 0] - one[:, :, 1, :, 0].sum(axis=2)
    wanted = exact_scores(left_sums(options, one), whole, 1.0)
    assert np.array_equal(level_scores(one, *options.arrays(), 1.0), wanted)


def test_random_sides_never_look_beyond_the_codes() -> None:
    rng = np.random.default_rng(2)
    bin_edges = BinEdges((np.arange(5, dtype=np.float32), np.empty(0, dtype=np.float32)), (0, 4))
    feature = rng.integers(0, 2, size=4000).astype(np.int32)
    tables = random_sides(bin_edges, feature, rng)
    assert not tables[feature == 0, 7:].any() and not tables[feature == 1, 5:].any()
    numbers = tables[feature == 0, :6]
    cuts = numbers.sum(axis=1)
    assert (np.diff(numbers.astype(int), axis=1) <= 0).all() and set(cuts) == {1, 2, 3, 4, 5}  # thresholds
    assert np.abs(tables[feature == 0, 6].mean() - 0.5) < 0.05  # missing cells take a random side
    assert np.abs(tables[feature == 1, :5].mean(axis=0) - 0.5).max() < 0.06  # any set of categories


# ---- whole trainings


@pytest.mark.parametrize("name", list(RECIPES))
def test_the_fast_engine_and_the_reference_give_the_same_bits(name: str) -> None:
    options = {"rows": 1.0} if name == "sarus" else {}
    settings = small(name, **options)
    columns, y = problem()
    plan = plan_boosting(settings, n_features=3, epsilon=3.0, delta=1e-5)
    found = []
    for engine in (ReferenceAggregator, LocalAggregator):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            records = engine(columns, labels_for(settings, y).astype(np.int32))
            session = LedgerSession(Ledger(plan=plan), 5)
            found.append(boost(settings, DOMAIN, records, session, plan, rng=np.random.default_rng(1)))
    first, second = (forest.scores(columns) for forest in found)
    assert np.array_equal(first, second)
    assert np.array_equal(first, plain_scores(found[0], columns))


def newton(columns, y, *, trees: int, depth: int, bins: int, rate: float, l2: float):
    """Greedy Newton boosting in floats, from the textbook: the best split by S^2 / (n + l2), leaves -G / (H + l2)."""
    codes = [np.clip((column * bins).astype(int), 0, bins - 1) for column in columns]
    scores = np.zeros(len(y))
    for _ in range(trees):
        p = 1 / (1 + np.exp(-scores))
        g, h = p - y, p * (1 - p)
        node = np.zeros(len(y), dtype=int)
        for _level in range(depth):
            moved = np.zeros(len(y), dtype=int)
            for one in np.unique(node):
                here = node == one

                def gain(f: int, t: int, here=here, g=g) -> float:
                    sides = [here & (codes[f] < t), here & (codes[f] >= t)]
                    return float(sum(g[side].sum() ** 2 / (side.sum() + l2) for side in sides))

                best = max((gain(f, t), f, t) for f in range(len(columns)) for t in range(1, bins))
                moved[here] = 2 * one + (codes[best[1]][here] >= best[2])
            node = moved
        for leaf in np.unique(node):
            here = node == leaf
            scores[here] += rate * np.clip(-g[here].sum() / (h[here].sum() + l2), -2, 2)
    return scores


def test_without_noise_the_greedy_recipe_is_newton_boosting() -> None:
    rng = np.random.default_rng(4)
    columns = [rng.uniform(size=400).astype(np.float32) for _ in range(2)]
    y = (columns[0] + 0.5 * columns[1] + 0.2 * rng.normal(size=400) > 0.8).astype(np.int64)
    settings = recipe_settings("xgb", n_trees=5, max_depth=2, n_bins=8, ridge=0.0)
    plan = plan_boosting(settings, n_features=2, epsilon=1.0, delta=1e-5)
    domain = FeatureDomain(((0.0, 1.0), (0.0, 1.0)), (0, 0))
    forest = boost(settings, domain, LocalAggregator(columns, y.astype(np.int32)), OpenSession(), plan)
    wanted = newton(columns, y, trees=5, depth=2, bins=8, rate=0.3, l2=1.0)
    assert np.abs(forest.scores(columns)[:, 0] - wanted).max() < 0.01


def test_without_noise_a_regression_reaches_the_means_of_its_leaves() -> None:
    rng = np.random.default_rng(5)
    column = [rng.uniform(size=500).astype(np.float32)]
    y = np.where(column[0] < 0.25, -0.5, np.where(column[0] < 0.5, 0.1, 0.8))
    settings = recipe_settings("xgb", loss="squared", n_trees=60, max_depth=2, n_bins=4, ridge=0.0, l2=0.0)
    plan = plan_boosting(settings, n_features=1, epsilon=1.0, delta=1e-5)
    records = LocalAggregator(column, np.rint(y * 65536).astype(np.int32))
    forest = boost(settings, FeatureDomain(((0.0, 1.0),), (0,)), records, OpenSession(), plan)
    assert np.abs(forest.scores(column)[:, 0] - y).max() < 0.01


def test_a_forest_without_noise_is_the_mean_of_class_shares() -> None:
    columns, y = problem(300)
    settings = recipe_settings("dp_rf", n_trees=7, max_depth=2, ridge=0.0, l2=0.0)
    plan = plan_boosting(settings, n_features=3, epsilon=1.0, delta=1e-5)
    forest = boost(settings, DOMAIN, LocalAggregator(columns, y.astype(np.int32)), OpenSession(), plan)
    total = np.zeros(300)
    for tree in forest.trees:
        leaf = leaf_numbers(encode(columns, forest.bin_edges[0]), tree.structure)
        total += np.array([y[leaf == one].mean() for one in leaf])
    assert np.abs(forest.probabilities(columns)[:, 1] - total / 7).max() < 1e-3


def test_symmetric_trees_have_one_split_per_level() -> None:
    columns, y = problem()
    for split in ("random", "exponential", "histogram", "partial"):
        settings = small("tr", split=split, structure="symmetric", max_depth=3)
        plan = plan_boosting(settings, n_features=3, epsilon=5.0, delta=1e-5)
        forest = boost(settings, DOMAIN, LocalAggregator(columns, y.astype(np.int32)), OpenSession(), plan)
        for tree in forest.trees:
            for level in range(3):
                here = slice(2**level - 1, 2 ** (level + 1) - 1)
                assert len(np.unique(tree.structure.feature[here])) == 1
                assert (tree.structure.left[here] == tree.structure.left[here.start]).all()


def test_cyclic_groups_take_the_features_in_turn() -> None:
    columns, y = problem()
    settings = small("tr", features="cyclic", features_per_tree=2, n_trees=3)
    plan = plan_boosting(settings, n_features=3, epsilon=5.0, delta=1e-5)
    forest = boost(settings, DOMAIN, LocalAggregator(columns, y.astype(np.int32)), OpenSession(), plan)
    for tree, allowed in zip(forest.trees, ({0, 1}, {2, 0}, {1, 2})):
        assert set(tree.structure.feature.tolist()) <= allowed
