"""The aggregator interface in plain Python, one record at a time: slow, and obviously what its text says."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.kit.tree_definitions import siphash

from ledgerwood.learners.training.session import ReleaseSession
from ledgerwood.learners.trees.aggregator import BinEdges, Channel, Sample, Structure, Task, Tree, exp_table
from ledgerwood.mechanisms.randomness import SeededSource


def pair(task: Task, scores: Sequence[int], label: int) -> list[tuple[int, int]]:
    """Return (gradient, curvature) for each output."""
    if task.kind == "table":
        place = min(max(((scores[0] + 128) >> 8) + 2048, 0), 4096)
        return [(int(task.pairs[label, place, 0]), int(task.pairs[label, place, 1]))]
    if task.kind == "squared":
        return [(min(max((scores[0] - label + 8) >> 4, -task.clip), task.clip), task.constant_hessian)]
    exponentials = [int(exp_table()[min((max(scores) - score + 128) >> 8, 4096)]) for score in scores]
    p = [4096 * e // sum(exponentials) for e in exponentials]
    found = [(p[k] - 4096 * (label == k), int(task.hessian[p[k]])) for k in range(len(p))]
    square = sum(g * g + h * h for g, h in found)
    if not task.norm or square <= task.norm**2:
        return found

    def short(x: int) -> int:
        return (1 if x > 0 else -1) * math.isqrt(x * x * task.norm**2 // square)

    return [(short(g), short(h)) for g, h in found]


class ReferenceAggregator:
    def __init__(self, columns: Sequence[NDArray[Any]], labels: NDArray[Any]) -> None:
        self.columns = [list(column.tolist()) for column in columns]
        self.labels = [int(label) for label in labels]

    @property
    def n_features(self) -> int:
        return len(self.columns)

    def start(self, task: Task) -> None:
        self.task = task
        self.scores = [[0] * task.n_outputs for _ in self.labels]
        self.kept: Sample | None = None

    def bin(self, bin_edges: BinEdges) -> None:
        self.bin_edges = bin_edges
        self.cells = [[self.code(f, value) for f, value in enumerate(row)] for row in zip(*self.columns)]

    def code(self, feature: int, value: Any) -> int:
        missing = self.bin_edges.n_codes(feature) - 1
        if self.bin_edges.categories[feature]:
            return value if 0 <= value < missing else missing
        if math.isnan(value):
            return missing
        return bisect.bisect_right(self.bin_edges.thresholds[feature].tolist(), float(np.float32(value)))

    def sample(self, sample: Sample | None) -> None:
        self.kept = sample

    def records(self) -> list[int]:
        everyone = range(len(self.labels))
        if self.kept is None:
            return list(everyone)
        s = self.kept
        return [r for r in everyone if siphash(s.key, s.round, r) % 2**32 < s.numerator]

    def leaf(self, tree: Structure, cells: Sequence[int]) -> int:
        node = 0
        for _ in range(tree.depth):
            node = 2 * node + (1 if tree.left[node, cells[tree.feature[node]]] else 2)
        return node - (2**tree.depth - 1)

    def histogram(self, tree: Structure, features: NDArray[np.int32], channel: Channel) -> NDArray[np.int64]:
        shape = self.task.n_outputs, 2**tree.depth, len(features), self.bin_edges.width, 2
        sums = np.zeros(shape, dtype=np.int64)
        for r in self.records():
            node = self.leaf(tree, self.cells[r])
            for k, (g, h) in enumerate(pair(self.task, self.scores[r], self.labels[r])):
                for at, feature in enumerate(features):
                    sums[k, node, at, self.cells[r][feature]] += g, 1 if channel == "count" else h
        return sums

    def leaf_sums(self, trees: Sequence[Structure], channel: Channel) -> NDArray[np.int64]:
        sums = np.zeros((len(trees), self.task.n_outputs, 2 ** trees[0].depth, 2), dtype=np.int64)
        for t, tree in enumerate(trees):
            for r in self.records():
                leaf = self.leaf(tree, self.cells[r])
                for k, (g, h) in enumerate(pair(self.task, self.scores[r], self.labels[r])):
                    sums[t, k, leaf] += g, 1 if channel == "count" else h
        return sums

    def add(self, trees: Sequence[Tree]) -> None:
        for r, cells in enumerate(self.cells):
            for tree in trees:
                leaf = self.leaf(tree.structure, cells)
                for k in range(self.task.n_outputs):
                    self.scores[r][k] += int(tree.weights[k, leaf])


class OpenSession:
    """A session without noise: what a training would do with an unlimited budget, or with a ledger and given noise."""

    def __init__(self) -> None:
        self.labels: list[str] = []

    def release(self, mechanism: Any, value: Any, label: str) -> Any:
        self.labels.append(label)
        _ = mechanism.cost
        return self.exact(mechanism, value)

    def sample_key(self) -> tuple[int, int]:
        return 1, 2

    def exact(self, mechanism: Any, value: Any) -> Any:
        if hasattr(mechanism, "range_sensitivity"):
            return np.argmax(value, axis=1)
        return np.asarray(value)


class LedgerSession(ReleaseSession):
    """A release session with a ledger, seeded."""

    def __init__(self, ledger: Any, seed: int | None = None) -> None:
        self.ledger = ledger
        super().__init__(ledger, None if seed is None else SeededSource(np.random.default_rng(seed)))
