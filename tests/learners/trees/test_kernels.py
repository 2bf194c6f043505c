"""The local aggregator answers as its interface defines, with the same bits for any threads and ranges."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from slow_aggregator import SlowAggregator

from ledgerwood.errors import ParameterError
from ledgerwood.learners.trees._kernels.passes import BLOCK
from ledgerwood.learners.trees.aggregator import ONE, TABLE_SIZE, BinEdges, Sample, Structure, Task, Tree
from ledgerwood.learners.trees.local_aggregator import LocalAggregator

ROOT = Structure(0, np.empty(0, dtype=np.int32), np.empty((0, 256), dtype=np.uint8))


def columns_and_edges(
    rng: np.random.Generator, n: int, features: int, widest: int, missing: float
) -> tuple[list[NDArray[np.generic]], BinEdges]:
    columns: list[NDArray[np.generic]] = []
    cuts, categories = [], []
    for feature in range(features):
        codes = int(rng.integers(2, widest + 1)) if feature else widest
        if rng.random() < 0.3:
            columns.append(rng.integers(-1, codes + 1, n))
            cuts.append(np.empty(0, dtype=np.float32))
            categories.append(codes - 1)
        else:
            bin_edges = np.unique(rng.normal(size=codes - 2).astype(np.float32))
            values = rng.normal(size=n).astype(np.float32)
            on_edge = rng.random(n) < 0.2
            if bin_edges.size:
                values[on_edge] = rng.choice(bin_edges, on_edge.sum())
            values[rng.random(n) < 0.02] = np.inf
            values[rng.random(n) < missing] = np.nan
            columns.append(values)
            cuts.append(bin_edges)
            categories.append(0)
    return columns, BinEdges(tuple(cuts), tuple(categories))


def random_tree(rng: np.random.Generator, bin_edges: BinEdges, depth: int, form: str) -> Structure:
    nodes = 2**depth - 1
    feature = rng.integers(0, bin_edges.n_features, nodes).astype(np.int32)
    if form == "column":
        feature[:] = feature[:1]
    left = np.zeros((nodes, 256), dtype=np.uint8)
    for node in range(nodes):
        codes = bin_edges.n_codes(int(feature[node]))
        if form == "subsets":
            left[node] = rng.integers(0, 2, 256)
        else:
            left[node, : rng.integers(0, codes)] = 1
            left[node, codes - 1] = rng.integers(0, 2)
    if form == "symmetric":
        for level in range(depth):
            here = slice(2**level - 1, 2 ** (level + 1) - 1)
            feature[here], left[here] = feature[here.start], left[here.start]
    return Structure(depth, feature, left)


def random_task(rng: np.random.Generator, kind: str) -> Task:
    if kind == "table":
        pairs = rng.integers(-ONE, ONE + 1, (2, TABLE_SIZE, 2)).astype(np.int32)
        return Task("table", pairs=np.stack([pairs[..., 0], abs(pairs[..., 1])], axis=-1))
    if kind == "squared":
        return Task("squared", clip=int(rng.integers(1, ONE + 1)), constant_hessian=int(rng.integers(0, ONE + 1)))
    hessian = rng.integers(0, ONE + 1, ONE + 1).astype(np.int32)
    norm = 0 if rng.random() < 0.5 else int(rng.integers(1, 2 * ONE))
    return Task("softmax", n_outputs=int(rng.integers(3, 6)), hessian=hessian, norm=norm)


def labels_of(rng: np.random.Generator, task: Task, n: int) -> NDArray[np.int32]:
    if task.kind == "squared":
        return rng.integers(-(2**17), 2**17, n).astype(np.int32)
    return rng.integers(0, max(task.n_outputs, 2), n).astype(np.int32)


def random_weights(rng: np.random.Generator, task: Task, depth: int) -> NDArray[np.int32]:
    return rng.integers(-(2**19), 2**19, (task.n_outputs, 2**depth)).astype(np.int32)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    n=st.sampled_from([0, 1, 2, 5, 40, 63, 64, 65]),
    features=st.integers(1, 5),
    widest=st.sampled_from([2, 3, 9, 254, 255]),
    kind=st.sampled_from(["table", "squared", "softmax"]),
    form=st.sampled_from(["thresholds", "subsets", "symmetric", "column", "in turn"]),
    missing=st.sampled_from([0.0, 0.3, 1.0]),
    sampled=st.booleans(),
    threads=st.integers(1, 3),
    range_rows=st.sampled_from([1, 7, 64, None]),
)
def test_every_answer_of_a_training_equals_the_definition(
    seed: int,
    n: int,
    features: int,
    widest: int,
    kind: str,
    form: str,
    missing: float,
    sampled: bool,
    threads: int,
    range_rows: int | None,
) -> None:
    rng = np.random.default_rng(seed)
    columns, bin_edges = columns_and_edges(rng, n, features, widest, missing)
    task = random_task(rng, kind)
    labels = labels_of(rng, task, n)
    first = int(rng.integers(0, 2**40))
    fast = LocalAggregator(columns, labels, n_threads=threads, first_record=first, range_rows=range_rows)
    slow = SlowAggregator(columns, labels, first)
    for one in (fast, slow):
        one.start(task)
        one.bin(bin_edges)
    everything = np.arange(features, dtype=np.int32)
    for round_ in range(3):
        if sampled:
            key = (int(rng.integers(0, 2**63)), int(rng.integers(0, 2**63)))
            sample = Sample(int(rng.integers(0, 2**32 + 1)), key, round_)
            for one in (fast, slow):
                one.sample(sample)
        depth = int(rng.integers(1, 5))
        now = ("column", "subsets")[round_ % 2] if form == "in turn" else form
        tree = random_tree(rng, bin_edges, depth, now)
        asked = everything if rng.random() < 0.5 else rng.permutation(everything)[: rng.integers(1, features + 1)]
        channel = "count" if rng.random() < 0.5 else "hessian"
        for level in range(depth):
            part = Structure(level, tree.feature[: 2**level - 1], tree.left[: 2**level - 1])
            np.testing.assert_array_equal(
                fast.histogram(part, asked, channel), slow.histogram(part, asked, channel), strict=True
            )
        batch = [tree, *(random_tree(rng, bin_edges, depth, now) for _ in range(rng.integers(0, 10)))]
        np.testing.assert_array_equal(fast.leaf_sums(batch, channel), slow.leaf_sums(batch, channel), strict=True)
        trees = [Tree(one, random_weights(rng, task, depth)) for one in batch[: rng.integers(1, len(batch) + 1)]]
        for one in (fast, slow):
            one.add(trees)
        if rng.random() < 0.3:
            for one in (fast, slow):
                one.add(trees)
        if rng.random() < 0.3:
            bin_edges = BinEdges(tuple(cuts[round_::2] for cuts in bin_edges.thresholds), bin_edges.categories)
            for one in (fast, slow):
                one.bin(bin_edges)
    np.testing.assert_array_equal(fast.leaf_sums([ROOT], "count"), slow.leaf_sums([ROOT], "count"), strict=True)


@pytest.mark.parametrize("n", [BLOCK - 1, BLOCK, 3 * BLOCK + 1])
@pytest.mark.parametrize("kind", ["table", "softmax"])
def test_threads_ranges_and_order_of_records_do_not_change_a_bit(n: int, kind: str) -> None:
    rng = np.random.default_rng(n)
    columns, bin_edges = columns_and_edges(rng, n, 6, 255, 0.1)
    task = random_task(rng, kind)
    labels = labels_of(rng, task, n)
    trees = [random_tree(rng, bin_edges, 8, form) for form in ("thresholds", "subsets", "symmetric", "column")]
    weights = [random_weights(rng, task, 8) for _ in trees]
    shuffled = rng.permutation(n)
    answers = []
    for threads, range_rows, order in [
        (1, None, np.arange(n)),
        (2, 1000, np.arange(n)),
        (3, 513, np.arange(n)),
        (2, None, shuffled),
    ]:
        records = LocalAggregator([c[order] for c in columns], labels[order], n_threads=threads, range_rows=range_rows)
        records.start(task)
        records.bin(bin_edges)
        answer = []
        for tree, weight in zip(trees, weights):
            for level in range(3):
                part = Structure(level, tree.feature[: 2**level - 1], tree.left[: 2**level - 1])
                answer.append(records.histogram(part, np.arange(6, dtype=np.int32), "count"))
            answer.append(records.leaf_sums([tree], "hessian"))
            records.add([Tree(tree, weight)])
        answer.append(records.leaf_sums(trees, "hessian"))
        answers.append(answer)
    for answer in answers[1:]:
        for a, b in zip(answers[0], answer):
            np.testing.assert_array_equal(a, b)


def test_packed_sums_of_more_records_than_fit_are_unpacked_in_time() -> None:
    n = 5 << 19  # more than fit even the four tables of leaf sums
    columns = [np.zeros(n, dtype=np.float32)]
    bin_edges = BinEdges((np.array([1], dtype=np.float32),), (0,))
    for label, g in ((2**30, -ONE), (-(2**30), ONE)):
        records = LocalAggregator(columns, np.full(n, label, dtype=np.int32), n_threads=1)
        records.start(Task("squared"))
        records.bin(bin_edges)
        assert records.leaf_sums([ROOT], "hessian").tolist() == [[[[g * n, ONE * n]]]]
        first = records.histogram(ROOT, np.array([0], dtype=np.int32), "hessian")
        assert first[0, 0, 0].tolist() == [[g * n, ONE * n], [0, 0], [0, 0]]


def test_a_gradient_is_the_records_own() -> None:
    """One record among others, at any place, adds what it adds alone."""
    rng = np.random.default_rng(5)
    columns, bin_edges = columns_and_edges(rng, 200, 3, 20, 0.1)
    task = random_task(rng, "table")
    labels = labels_of(rng, task, 200)
    tree = random_tree(rng, bin_edges, 3, "thresholds")
    weights = random_weights(rng, task, 3)

    def answers(keep: NDArray[np.int64]) -> NDArray[np.int64]:
        records = LocalAggregator([c[keep] for c in columns], labels[keep])
        records.start(task)
        records.bin(bin_edges)
        records.leaf_sums([tree], "count")
        records.add([Tree(tree, weights)])
        return records.leaf_sums([tree], "hessian")

    everyone = np.arange(200)
    for one in (0, 63, 199):
        np.testing.assert_array_equal(
            answers(everyone) - answers(np.delete(everyone, one)), answers(everyone[one : one + 1])
        )


def test_public_metadata_is_checked() -> None:
    columns = [np.zeros(3, dtype=np.float32)]
    with pytest.raises(ParameterError, match="columns"):
        LocalAggregator(columns, np.zeros(4))
    with pytest.raises(ParameterError, match="n_threads"):
        LocalAggregator(columns, np.zeros(3), n_threads=0)
    with pytest.raises(ParameterError, match="range_rows"):
        LocalAggregator(columns, np.zeros(3), range_rows=0)
    records = LocalAggregator(columns, np.zeros(3))
    with pytest.raises(ParameterError, match="n_outputs"):
        records.start(Task("table", n_outputs=2))
    records.start(Task("squared"))
    with pytest.raises(ParameterError, match="edges"):
        records.bin(BinEdges((), ()))
    with pytest.raises(ParameterError, match="edges"):
        records.bin(BinEdges((np.arange(254, dtype=np.float32),), (0,)))
    records.bin(BinEdges((np.arange(2, dtype=np.float32),), (0,)))
    too_deep = Structure(9, np.zeros(511, dtype=np.int32), np.zeros((511, 256), dtype=np.uint8))
    with pytest.raises(ParameterError, match="trees"):
        records.leaf_sums([too_deep], "count")
    with pytest.raises(ParameterError, match="feature"):
        records.leaf_sums([Structure(1, np.ones(1, dtype=np.int32), np.zeros((1, 256), dtype=np.uint8))], "count")
