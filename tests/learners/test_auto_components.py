"""The components that ``auto`` brought: random grids, mixed edges, shrinkage by the known noise, interactions."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.tree_definitions import leaf_numbers

from ledgerwood.accounting import Ledger
from ledgerwood.errors import ParameterError
from ledgerwood.learners.trees.aggregator import BinEdges
from ledgerwood.learners.trees.binning import FeatureDomain, mixed_bin_edges
from ledgerwood.learners.trees.boosting import boost
from ledgerwood.learners.trees.grower import grid_tree
from ledgerwood.learners.trees.leaves import weights_of
from ledgerwood.learners.trees.plan import outline, plan_boosting
from ledgerwood.learners.trees.settings import TreeSettings

sys.path.insert(0, str(Path(__file__).parent / "trees"))
from reference import LedgerSession, ReferenceAggregator

EMPTY = np.empty(0, dtype=np.float32)


@settings(max_examples=60, deadline=None)
@given(
    cuts=st.integers(0, 40),
    categories=st.integers(1, 30),
    depth=st.integers(1, 6),
    both=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_a_grid_cuts_numbers_into_intervals_and_categories_into_even_groups(cuts, categories, depth, both, seed):
    bin_edges = BinEdges((np.arange(1, cuts + 1, dtype=np.float32), EMPTY), (0, categories))
    features = np.array([0, 1] if both else [0], dtype=np.int32)
    tree = grid_tree(bin_edges, features, depth, np.random.default_rng(seed))
    assert tree.depth == depth and set(tree.feature.tolist()) <= set(features.tolist())
    numbers = np.arange(cuts + 1)
    cells = np.stack([numbers, np.zeros_like(numbers)]).astype(np.uint8)
    leaves = leaf_numbers(cells, tree)
    assert (np.diff(leaves) >= 0).all()  # leaves follow the order of the numbers
    if both:
        codes = np.arange(categories + 1)
        groups = leaf_numbers(np.stack([np.zeros_like(codes), codes]).astype(np.uint8), tree)
        sizes = np.bincount(groups)
        sizes = sizes[sizes > 0]
        assert sizes.max() - sizes.min() <= 1
        assert len(sizes) == min(categories + 1, 2 ** (depth // 2))


def test_a_grid_of_two_features_is_the_product_of_its_sides() -> None:
    bin_edges = BinEdges((np.arange(1, 20, dtype=np.float32),) * 2, (0, 0))
    tree = grid_tree(bin_edges, np.array([1, 0], dtype=np.int32), 4, np.random.default_rng(3))
    a, b = np.meshgrid(np.arange(20), np.arange(20), indexing="ij")
    leaves = leaf_numbers(np.stack([a.ravel(), b.ravel()]).astype(np.uint8), tree).reshape(20, 20)
    side_a, side_b = leaves[:, 0] % 4, leaves[0] // 4
    assert np.array_equal(leaves, 4 * side_b[None, :] + side_a[:, None])


def test_mixed_edges_are_dense_near_zero_only_where_a_range_reaches_towards_it() -> None:
    amounts, two_sided, far, flat = mixed_bin_edges(
        FeatureDomain(((0, 1e5), (-4e5, 2e6), (30, 40), (2, 2)), (0,) * 4), 90
    ).thresholds
    assert np.median(amounts) < 2e4 < np.max(amounts)
    assert (two_sided < 0).sum() > 10 and np.median(np.abs(two_sided)) < 3e5
    assert np.allclose(np.diff(far), np.diff(far)[0], rtol=1e-3)
    assert len(flat) == 0
    mirrored = mixed_bin_edges(FeatureDomain(((-1e5, 0),), (0,)), 90).thresholds[0]
    assert np.median(mirrored) > -2e4


def test_shrinkage_removes_what_noise_explains_and_leaves_signal() -> None:
    plain, shrunk = TreeSettings(), TreeSettings(shrink=1.0)
    rng = np.random.default_rng(0)
    noise, h = rng.normal(0, 10, (1, 512)), np.full((1, 512), 1000.0)
    energy = [np.square(weights_of(s, noise, h, 10.0)).sum() for s in (plain, shrunk)]
    assert energy[1] < 0.02 * energy[0]
    strong = weights_of(shrunk, 8 * noise, h, 10.0) / weights_of(plain, 8 * noise, h, 10.0)
    assert np.allclose(strong, strong[0, 0]) and 0.97 < strong[0, 0] < 1
    assert (weights_of(shrunk, 0 * noise, h, 10.0) == 0).all()


@pytest.mark.parametrize("share", [0.0, 0.1, 0.25, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("trees", [1, 7, 100, 300])
def test_interactions_are_the_stated_share_of_the_last_trees(share: float, trees: int) -> None:
    s = TreeSettings(interactions=share)
    steps = [s.interactions_before(t + 1, trees) - s.interactions_before(t, trees) for t in range(trees)]
    assert set(steps) <= {0, 1}
    assert abs(sum(steps) - share * trees) <= 1
    if share <= 0.25:
        assert sum(steps[: trees // 2]) == 0


@pytest.mark.parametrize("order", [2, 3])
def test_no_group_of_features_is_drawn_twice_before_all_were(order: int) -> None:
    s = TreeSettings(structure="grid", n_trees=20, interactions=1.0, interaction_order=order, interaction_depth=order)
    columns = [np.linspace(0, 1, 4, dtype=np.float32)] * 5
    plan = plan_boosting(s, n_features=5, epsilon=1.0, delta=1e-6)
    data = ReferenceAggregator(columns, np.array([0, 1, 0, 1]))
    session = LedgerSession(Ledger(plan=plan), 1)
    forest = boost(s, FeatureDomain(((0.0, 1.0),) * 5, (0,) * 5), data, session, plan, rng=np.random.default_rng(1))
    groups = [frozenset(tree.structure.feature.tolist()) for tree in forest.trees]
    assert all(len(group) == order for group in groups)
    assert len(set(groups[:10])) == len(set(groups[10:])) == 10  # of five features there are ten pairs, and ten triples


def test_grids_and_interactions_release_exactly_one_sum_per_tree() -> None:
    s = TreeSettings(
        candidates="mixed", structure="grid", features="cyclic", max_depth=2, n_trees=12, shrink=0.5, interactions=0.5,
        interaction_order=2, interaction_depth=3, gradient_clip=0.5, n_bins=16,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    n = 150
    columns = [rng.normal(size=n).astype(np.float32), rng.uniform(size=n).astype(np.float32),
               rng.integers(0, 5, size=n).astype(np.int32)]  # fmt: skip
    columns[0][:5] = np.nan
    y = (columns[1] + 0.2 * (columns[2] == 1) > 0.5).astype(np.int64)
    domain = FeatureDomain(((-3.0, 3.0), (0.0, 1.0), (0.0, 0.0)), (0, 0, 4))
    plan = plan_boosting(s, n_features=3, epsilon=100.0, delta=1e-5)
    ledger = Ledger(plan=plan)
    forest = boost(s, domain, ReferenceAggregator(columns, y), LedgerSession(ledger, 1), plan, rng=rng)
    assert [(release.label, release.times) for release in outline(s, 3).releases()] == [("leaf", 12)]
    assert [entry.label for entry in ledger.journal() if entry.kind == "release"] == ["leaf"] * 12
    depths = [tree.structure.depth for tree in forest.trees]
    assert depths.count(3) == 6 and depths.count(2) == 6
    p = forest.probabilities(columns)[:, 1]
    assert p[y == 1].mean() > p[y == 0].mean()


def test_grids_and_interactions_are_refused_where_they_mean_nothing() -> None:
    for options in (
        {"structure": "grid", "split": "exponential"},
        {"interactions": 0.5, "split": "exponential"},
        {"interactions": 0.5, "batch": 4},
        {"interactions": 1.5},
        {"shrink": -1.0},
        {"interaction_depth": 0},
    ):
        with pytest.raises(ParameterError):
            TreeSettings(**options)


@pytest.mark.parametrize("per_tree", [1, 2])
def test_shuffled_turns_give_every_feature_its_tree_before_the_next_turn(per_tree: int) -> None:
    s = TreeSettings(
        features="shuffled", features_per_tree=per_tree, structure="grid", n_trees=12, max_depth=2, n_bins=8
    )
    rng = np.random.default_rng(0)
    columns = [rng.uniform(size=30).astype(np.float32) for _ in range(4)]
    domain = FeatureDomain(((0.0, 1.0),) * 4, (0,) * 4)
    plan = plan_boosting(s, n_features=4, epsilon=10.0, delta=1e-5)
    records = ReferenceAggregator(columns, (columns[0] > 0.5).astype(np.int64))
    forest = boost(s, domain, records, LedgerSession(Ledger(plan=plan), 1), plan, rng=rng)
    used = [sorted(set(tree.structure.feature.tolist())) for tree in forest.trees]
    turn = 4 // per_tree
    turns = [used[i : i + turn] for i in range(0, 12, turn)]
    assert all(sorted(feature for one in each for feature in one) == [0, 1, 2, 3] for each in turns)
    assert len({str(each) for each in turns}) > 1  # not always in one order
