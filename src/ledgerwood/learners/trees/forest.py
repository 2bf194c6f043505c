"""Scores of new records: codes and routes of a range of rows at a time, all trees while they are in cache.

A trained model: released trees, the edges they speak of, and how scores become predictions.

Scores of new records by a forest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ledgerwood.errors import ParameterError
from ledgerwood.learners.data.columns import Column
from ledgerwood.learners.data.threads import RowThreads
from ledgerwood.learners.training.codec import require, stored
from ledgerwood.learners.trees.aggregator import MAX_CODES, SCORE_BITS, Edges, Structure, Tree
from ledgerwood.learners.trees.local_aggregator import code_columns, plain_column, route_arrays
from ledgerwood.learners.trees.loss import LossName
from ledgerwood.learners.trees.routing import Routes, column_trees, routes
from ledgerwood.learners.trees.settings import MAX_DEPTH

__all__ = ["Forest", "Predictor", "encode", "forest_scores", "leaf_numbers"]


_ROWS = 1 << 14


class Predictor:
    """Released trees, laid out for fast prediction: trees of one feature become one table for each feature.

    Parameters
    ----------
    phases
        Edges, and the trees that speak of them. There is at least one.
    n_outputs
        How many scores a record has.

    Examples
    --------
    >>> from ledgerwood.learners.trees.aggregator import Structure
    >>> edges = Edges((np.array([1.0], dtype=np.float32),), (0,))
    >>> left = np.zeros((1, 256), dtype=np.uint8)
    >>> left[0, 0] = 1
    >>> tree = Tree(Structure(1, np.array([0], dtype=np.int32), left), np.array([[-7, 9]], dtype=np.int32))
    >>> Predictor([(edges, [tree])], 1).scores([np.array([0.5, 1.0, np.nan], dtype=np.float32)]).tolist()
    [[-7, 9, 9]]
    """

    def __init__(self, phases: Sequence[tuple[Edges, Sequence[Tree]]], n_outputs: int) -> None:
        self._n_outputs = n_outputs
        self._phases = [_Phase(edges, trees, n_outputs) for edges, trees in phases if trees]

    def scores(self, columns: Sequence[NDArray[Any]], n_threads: int | None = None) -> NDArray[np.int32]:
        """Return ``int32[outputs, rows]``, in steps of 2**-16: the same bits for any number of threads."""
        from ledgerwood.learners.trees._kernels.passes import add_columns, add_pass

        n_rows = len(columns[0])
        out = np.zeros((self._n_outputs, n_rows), dtype=np.int32)
        columns = [plain_column(column) for column in columns]

        def score(_: None, lo: int, hi: int) -> None:
            here = np.zeros((self._n_outputs, hi - lo), dtype=np.int32)
            cells = np.empty((len(columns), hi - lo), dtype=np.uint8)
            for phase in self._phases:
                code_columns(columns, phase.edges, lo, hi, cells)
                if phase.features.size:
                    add_columns(cells, here, 0, hi - lo, phase.features, phase.tables)
                for batch, weights in phase.groups:
                    add_pass(cells, here, 0, hi - lo, *route_arrays(batch), weights)
            out[:, lo:hi] = here

        RowThreads(n_threads).run(n_rows, lambda: None, score, _ROWS)
        return out


class _Phase:
    """The trees that speak of the same edges."""

    def __init__(self, edges: Edges, trees: Sequence[Tree], n_outputs: int) -> None:
        self.edges = edges
        tables: dict[int, NDArray[np.int32]] = {}
        routed = []
        for tree in trees:
            columns = column_trees([tree.structure], edges.counts, edges.width)
            if columns is None:
                routed.append(tree)
                continue
            feature = int(columns.feature[0])
            table = tables.setdefault(feature, np.zeros((n_outputs, edges.width), dtype=np.int32))
            table += tree.weights[:, columns.leaf[0]]
        self.features = np.array(list(tables), dtype=np.int32)
        self.tables = np.array(list(tables.values()), dtype=np.int32)
        self.groups: list[tuple[Routes, NDArray[np.int32]]] = []
        for depth in sorted({tree.structure.depth for tree in routed}):
            group = [tree for tree in routed if tree.structure.depth == depth]
            weights = np.array([tree.weights for tree in group], dtype=np.int32)
            self.groups.append((routes([tree.structure for tree in group], edges.counts), weights))


def _check_forest(forest: Forest, fitted: Mapping[str, Any]) -> None:
    """Raise :class:`FormatError` unless the forest fits its model; compiled kernels trust it."""
    columns, classes = fitted["columns_"], len(fitted.get("classes_", ()))
    outputs = classes if classes > 2 else 1
    require(forest.n_outputs == outputs, "the trees have another number of outputs")
    require(len(forest.phase) == len(forest.trees), "trees and their edges do not match")
    require(all(0 <= phase < len(forest.edges) for phase in forest.phase), "a tree has no edges")
    for edges in forest.edges:
        _check_edges(edges, columns)
    for tree, phase in zip(forest.trees, forest.phase, strict=True):
        _check_tree(tree, forest.edges[phase], outputs)


@stored("Forest", check=_check_forest)
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


def forest_scores(forest: Forest, columns: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
    """Return raw scores ``[rows, outputs]``."""
    trees = [
        [tree for tree, own in zip(forest.trees, forest.phase) if own == phase] for phase in range(len(forest.edges))
    ]
    scores = Predictor(list(zip(forest.edges, trees)), forest.n_outputs).scores(columns)
    return scores.T / float(1 << SCORE_BITS)


def forest_of(model: Any) -> Forest:
    """Return the trees of a fitted model that consists of trees alone."""
    if getattr(model, "makes_trees", False):
        check_is_fitted(model, "receipt_")
    forest = getattr(model, "forest_", None)
    if not isinstance(forest, Forest) or hasattr(model, "encoder_"):
        raise ParameterError(
            "model", "be a fitted model of trees alone", type(model).__name__,
            "The front door may choose a linear model, or trees that start from one; PrivateBoostingClassifier and "
            "PrivateBoostingRegressor are always trees",
        )  # fmt: skip
    return forest


def _check_edges(edges: Edges, columns: tuple[Column, ...]) -> None:
    require(len(edges.cuts) == len(edges.categories) == len(columns), "edges of other columns")
    for cuts, count, column in zip(edges.cuts, edges.categories, columns, strict=True):
        require(cuts.dtype == np.float32 and cuts.ndim == 1, "edges are not float32")
        require(np.isfinite(cuts).all() and (np.diff(cuts) > 0).all(), "edges are not in order")
        expected = len(column.categories or ()) if column.kind == "category" else 0
        require(count == expected and (count == 0 or len(cuts) == 0), "edges of other categories")
    require(all(edges.codes(feature) <= MAX_CODES for feature in range(len(columns))), "too many bins")


def _check_tree(tree: Tree, edges: Edges, outputs: int) -> None:
    structure = tree.structure
    require(1 <= structure.depth <= MAX_DEPTH, "a tree is too deep")
    inner, leaves = (1 << structure.depth) - 1, 1 << structure.depth
    require(structure.feature.dtype == np.int32 and structure.feature.shape == (inner,), "splits have a wrong form")
    require(((structure.feature >= 0) & (structure.feature < edges.n_features)).all(), "a split has no feature")
    require(structure.left.dtype == np.uint8 and structure.left.shape == (inner, 256), "splits have a wrong form")
    require((structure.left <= 1).all(), "splits have a wrong form")
    require(tree.weights.dtype == np.int32 and tree.weights.shape == (outputs, leaves), "weights have a wrong form")
    for extra in (tree.mass, tree.noise):
        if extra is not None:
            require(extra.dtype == np.float32 and extra.shape == (outputs, leaves), "leaves have a wrong form")
            require(np.isfinite(extra).all(), "leaves have a wrong form")
