"""The definitions of the aggregator interface, record by record in plain Python: slow and obviously correct."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from tests.kit.tree_definitions import siphash

from ledgerwood.learners.trees.aggregator import (
    ONE,
    TABLE_HALF,
    TABLE_SHIFT,
    BinEdges,
    Channel,
    Sample,
    Structure,
    Task,
    Tree,
    exp_table,
)


def short(x: int, norm: int, square: int) -> int:
    return (1 if x > 0 else -1) * math.isqrt(x * x * norm * norm // square)


class SlowAggregator:
    def __init__(self, columns: Sequence[NDArray[np.generic]], labels: NDArray[np.integer], first_record: int = 0):
        self.columns, self.labels, self.first = list(columns), [int(v) for v in labels], first_record
        self.n_features, self.n = len(columns), len(labels)

    def start(self, task: Task) -> None:
        self.task, self.drawn = task, None
        self.scores = [[0] * task.n_outputs for _ in range(self.n)]

    def bin(self, bin_edges: BinEdges) -> None:
        self.bin_edges = bin_edges
        self.cells = [[self.code(f, self.columns[f][i]) for f in range(self.n_features)] for i in range(self.n)]

    def code(self, feature: int, value: np.generic) -> int:
        missing = self.bin_edges.n_codes(feature) - 1
        if self.bin_edges.categories[feature]:
            return int(value) if 0 <= int(value) < missing else missing
        if np.isnan(value):
            return missing
        return sum(bool(edge <= value) for edge in self.bin_edges.thresholds[feature])

    def sample(self, sample: Sample | None) -> None:
        self.drawn = sample

    def is_in(self, i: int) -> bool:
        s = self.drawn
        return s is None or siphash(s.key, s.round, self.first + i) % 2**32 < s.numerator

    def pair(self, i: int) -> list[tuple[int, int]]:
        task, scores, label = self.task, self.scores[i], self.labels[i]
        if task.kind == "table":
            place = min(max(((scores[0] + 128) >> TABLE_SHIFT) + TABLE_HALF, 0), 2 * TABLE_HALF)
            g, h = task.pairs[label, place]
            return [(int(g), int(h))]
        if task.kind == "squared":
            return [(min(max((scores[0] - label + 8) >> 4, -task.clip), task.clip), task.constant_hessian)]
        e = [int(exp_table()[min((max(scores) - s + 128) >> 8, 4096)]) for s in scores]
        p = [ONE * one // sum(e) for one in e]
        pairs = [(p[k] - ONE * (label == k), int(task.hessian[p[k]])) for k in range(task.n_outputs)]
        square = sum(g * g + h * h for g, h in pairs)
        if task.norm and square > task.norm**2:
            return [(short(g, task.norm, square), short(h, task.norm, square)) for g, h in pairs]
        return pairs

    def leaf(self, tree: Structure, i: int) -> int:
        node = 0
        for _ in range(tree.depth):
            node = 2 * node + (1 if tree.left[node, self.cells[i][tree.feature[node]]] else 2)
        return node - (2**tree.depth - 1)

    def histogram(self, tree: Structure, features: NDArray[np.int32], channel: Channel) -> NDArray[np.int64]:
        shape = self.task.n_outputs, 2**tree.depth, len(features), self.bin_edges.width, 2
        out = np.zeros(shape, dtype=np.int64)
        for i in filter(self.is_in, range(self.n)):
            for k, (g, h) in enumerate(self.pair(i)):
                for q, feature in enumerate(features):
                    cell = self.cells[i][feature]
                    out[k, self.leaf(tree, i), q, cell] += (g, h if channel == "hessian" else 1)
        return out

    def leaf_sums(self, trees: Sequence[Structure], channel: Channel) -> NDArray[np.int64]:
        out = np.zeros((len(trees), self.task.n_outputs, 2 ** trees[0].depth, 2), dtype=np.int64)
        for i in filter(self.is_in, range(self.n)):
            for k, (g, h) in enumerate(self.pair(i)):
                for t, tree in enumerate(trees):
                    out[t, k, self.leaf(tree, i)] += (g, h if channel == "hessian" else 1)
        return out

    def add(self, trees: Sequence[Tree]) -> None:
        for tree in trees:
            for i in range(self.n):
                for k in range(self.task.n_outputs):
                    self.scores[i][k] += int(tree.weights[k, self.leaf(tree.structure, i)])
