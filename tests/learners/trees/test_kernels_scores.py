"""Scores of candidates are exact integers; predictions are the sums of the trees' weights."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from slow_aggregator import SlowAggregator
from test_kernels import columns_and_edges, random_task, random_tree, random_weights

from ledgerwood.learners.data.threads import RowThreads
from ledgerwood.learners.trees._kernels.passes import BLOCK
from ledgerwood.learners.trees.aggregator import ONE, Tree
from ledgerwood.learners.trees.candidates import level_scores
from ledgerwood.learners.trees.forest import Predictor


def random_histogram(rng: np.random.Generator, outputs: int, nodes: int, features: int, width: int, most: int):
    """A histogram as records give: all features have the same totals, and no gradient sum exceeds its count."""
    histogram = np.zeros((outputs, nodes, features, width, 2), dtype=np.int64)
    for node in range(nodes):
        records = int(rng.integers(0, most + 1))
        means = rng.choice([-ONE, 0, ONE, int(rng.integers(-ONE, ONE + 1))], outputs)
        for feature in range(features):
            ends = np.sort(rng.integers(0, records + 1, width - 1))
            counts = np.diff(np.concatenate(([0], ends, [records]))).astype(np.int64)
            histogram[:, node, feature, :, 1] = counts
            for k in range(outputs):
                sums = means[k] * counts
                here, there = rng.choice(width, 2, replace=False)
                moved = int(rng.integers(0, (ONE - abs(int(means[k]))) * int(min(counts[here], counts[there])) + 1))
                sums[here] += moved
                sums[there] -= moved
                histogram[k, node, feature, :, 0] = sums
    return histogram


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    outputs=st.integers(1, 4),
    nodes=st.sampled_from([1, 2, 5]),
    width=st.sampled_from([2, 3, 17]),
    most=st.sampled_from([0, 1, 1000, 2**31, 2**36]),
    sixteenths=st.integers(0, 40),
)
def test_scores_are_the_floors_of_the_exact_quotients(
    seed: int, outputs: int, nodes: int, width: int, most: int, sixteenths: int
) -> None:
    rng = np.random.default_rng(seed)
    features = int(rng.integers(1, 4))
    histogram = random_histogram(rng, outputs, nodes, features, width, most)
    last = width - 1
    splits = [
        (place, code, single, missing_left, last)
        for place in range(features)
        for single in (False, True)
        for code in range(0 if single else 1, width)
        for missing_left in (False, True)
        if not (single and code == last and not missing_left)
    ]
    place, code, single, missing_left, lasts = (np.array(column) for column in zip(*splits))
    found = level_scores(histogram, place, code, single, missing_left, lasts, sixteenths / 16)
    for node in range(nodes):
        for j, (feature, cut, alone, to_left, _) in enumerate(splits):
            left = [c for c in range(last) if (c == cut if alone else c < cut)] + [last] * to_left
            sides = left, [c for c in range(width) if c not in left]
            score = 0
            for side in sides:
                cells = [[tuple(map(int, histogram[k, node, feature, c])) for c in side] for k in range(outputs)]
                square = sum(sum(g for g, _ in one) ** 2 for one in cells)
                records = sum(n for _, n in cells[0])
                penalised = 16 * records + sixteenths
                score += 16 * square // penalised if penalised else 0
            assert found[node, j] == score


def test_nodes_shared_out_among_threads_score_the_same() -> None:
    rng = np.random.default_rng(3)
    histogram = random_histogram(rng, 1, 32, 9, 255, 1000)
    place, code = (grid.ravel() for grid in np.meshgrid(np.arange(9), np.arange(1, 254), indexing="ij"))
    sides = rng.integers(0, 2, place.size).astype(np.bool_)
    splits = place, code, np.zeros(place.size, dtype=np.bool_), sides, np.full(place.size, 254)
    alone = level_scores(histogram, *splits, 1.0)
    np.testing.assert_array_equal(alone, level_scores(histogram, *splits, 1.0, RowThreads(3)))


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    n=st.sampled_from([0, 1, 50]),
    features=st.integers(1, 4),
    widest=st.sampled_from([2, 9, 255]),
    kind=st.sampled_from(["table", "softmax"]),
    form=st.sampled_from(["thresholds", "subsets", "symmetric", "column", "any"]),
    threads=st.integers(1, 2),
)
def test_predictions_are_sums_of_weights_by_the_edges_of_each_phase(
    seed: int, n: int, features: int, widest: int, kind: str, form: str, threads: int
) -> None:
    rng = np.random.default_rng(seed)
    forms = ("subsets", "column") if form == "any" else (form,)
    columns, bin_edges = columns_and_edges(rng, n, features, widest, 0.2)
    task = random_task(rng, kind)
    slow = SlowAggregator(columns, np.zeros(n, dtype=np.int32))
    slow.start(task)
    phases = []
    for _ in range(2):
        slow.bin(bin_edges)
        depths = rng.integers(0, 5, rng.integers(0, 4)).tolist()
        trees = [
            Tree(random_tree(rng, bin_edges, d, forms[d % len(forms)]), random_weights(rng, task, d)) for d in depths
        ]
        slow.add(trees)
        phases.append((bin_edges, trees))
        bin_edges = type(bin_edges)(tuple(cuts[::2] for cuts in bin_edges.thresholds), bin_edges.categories)
    found = Predictor(phases, task.n_outputs).scores(columns, threads)
    assert found.T.tolist() == slow.scores
    assert found.shape == (task.n_outputs, n)


def test_predictions_have_the_same_bits_for_any_threads() -> None:
    rng = np.random.default_rng(8)
    columns, bin_edges = columns_and_edges(rng, (1 << 15) + BLOCK + 1, 5, 40, 0.1)
    task = random_task(rng, "softmax")
    trees = [
        Tree(random_tree(rng, bin_edges, 6, form), random_weights(rng, task, 6)) for form in ("subsets", "symmetric")
    ]
    predictor = Predictor([(bin_edges, trees)], task.n_outputs)
    once = predictor.scores(columns, 1)
    np.testing.assert_array_equal(once, predictor.scores(columns, 3))
    some = slice(5, 5 + BLOCK)
    np.testing.assert_array_equal(once[:, some], predictor.scores([c[some] for c in columns], 2))
