"""A trained model: released trees, the edges they speak of, and how scores become predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.learners.trees.losses import LossName
from ledgerwood.learners.trees.seam import SCORE_BITS, Edges, Structure, Tree

__all__ = ["Forest", "encode", "leaf_numbers"]


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """Trees in the order in which they were added.

    Parameters
    ----------
    edges
        The edges that trees speak of, in the order of their use.
    trees
        The trees.
    phase
        For each tree, which of ``edges`` it speaks of.
    n_outputs, loss, averages
        What the scores are: ``averages`` if they are means of labels (a forest) and not log-odds.
    """

    edges: tuple[Edges, ...]
    trees: tuple[Tree, ...]
    phase: tuple[int, ...]
    n_outputs: int
    loss: LossName
    averages: bool = False

    def scores(self, columns: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
        """Return raw scores ``[rows, outputs]``."""
        from ledgerwood.learners.trees.scoring import forest_scores

        return forest_scores(self, columns)

    def probabilities(self, columns: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
        """Return class probabilities ``[rows, classes]``."""
        raw = self.scores(columns)
        if self.n_outputs > 1:
            if self.averages:
                shares = np.clip(raw + 1 / self.n_outputs, 1e-9, None)
                return np.asarray(shares / shares.sum(axis=1, keepdims=True))
            odds = np.exp(raw - raw.max(axis=1, keepdims=True))
            return np.asarray(odds / odds.sum(axis=1, keepdims=True))
        if self.loss == "squared":  # labels were -1 and 1
            p = np.clip((raw[:, 0] + 1) / 2, 0.0, 1.0)
        elif self.averages:
            p = np.clip(raw[:, 0] + 0.5, 0.0, 1.0)
        else:
            scale = 2.0 if self.loss == "hinge" else 1.0
            p = 1 / (1 + np.exp(np.clip(-scale * raw[:, 0], -700, 700)))  # no record's score makes numpy warn
        return np.stack([1 - p, p], axis=1)


def encode(columns: Sequence[NDArray[Any]], edges: Edges) -> NDArray[np.uint8]:
    """Return codes ``[features, rows]`` of columns: the definition of the seam, in numpy."""
    rows = len(columns[0])
    cells = np.empty((edges.n_features, rows), dtype=np.uint8)
    for feature, column in enumerate(columns):
        missing = edges.codes(feature) - 1
        if edges.categories[feature]:
            codes = column.astype(np.int64)
            cells[feature] = np.where((codes >= 0) & (codes < missing), codes, missing)
        else:
            numbers = np.asarray(column, dtype=np.float32)
            codes = np.searchsorted(edges.cuts[feature], numbers, side="right")
            cells[feature] = np.where(np.isnan(numbers), missing, codes)
    return cells


def leaf_numbers(cells: NDArray[np.uint8], tree: Structure) -> NDArray[np.int64]:
    """Return the open node (or leaf) of every record, counted from the left."""
    rows = np.arange(cells.shape[1])
    node = np.zeros(cells.shape[1], dtype=np.int64)
    for _ in range(tree.depth):
        left = tree.left[node, cells[tree.feature[node], rows]]
        node = 2 * node + 2 - left
    return node - ((1 << tree.depth) - 1)


def plain_scores(forest: Forest, columns: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
    """Return raw scores by the definition."""
    total = np.zeros((forest.n_outputs, len(columns[0])), dtype=np.int64)
    for phase, edges in enumerate(forest.edges):
        used = [tree for tree, own in zip(forest.trees, forest.phase) if own == phase]
        cells = encode(columns, edges) if used else np.empty((0, 0), dtype=np.uint8)
        for tree in used:
            total += tree.weights[:, leaf_numbers(cells, tree.structure)]
    return total.T / float(1 << SCORE_BITS)
