"""A trained forest: released trees, the bin edges that they refer to, and how scores become predictions.

New records are scored a range of rows at a time, by all trees while the range is in cache. What was read from a file is
checked first, because compiled kernels trust it.
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
from ledgerwood.learners.data.threads import TUNING, RowThreads
from ledgerwood.learners.training.codec import require, stored
from ledgerwood.learners.trees.aggregator import MAX_BIN_CODES, SCORE_BITS, BinEdges, Tree
from ledgerwood.learners.trees.local_aggregator import bin_columns, plain_column, route_arrays
from ledgerwood.learners.trees.loss import LossName
from ledgerwood.learners.trees.passes import Routes, column_trees, routes
from ledgerwood.learners.trees.settings import MAX_DEPTH

__all__ = ["Forest", "Predictor", "forest_of", "forest_scores"]


class Predictor:
    """Released trees, laid out for fast prediction: trees of one feature become one table for each feature.

    Parameters
    ----------
    phases
        Bin edges, and the trees that refer to them. There is at least one.
    n_outputs
        How many scores a record has.

    Examples
    --------
    >>> from ledgerwood.learners.trees.aggregator import Structure
    >>> bin_edges = BinEdges((np.array([1.0], dtype=np.float32),), (0,))
    >>> left = np.zeros((1, 256), dtype=np.uint8)
    >>> left[0, 0] = 1
    >>> tree = Tree(Structure(1, np.array([0], dtype=np.int32), left), np.array([[-7, 9]], dtype=np.int32))
    >>> Predictor([(bin_edges, [tree])], 1).scores([np.array([0.5, 1.0, np.nan], dtype=np.float32)]).tolist()
    [[-7, 9, 9]]
    """

    def __init__(self, phases: Sequence[tuple[BinEdges, Sequence[Tree]]], n_outputs: int) -> None:
        self._n_outputs = n_outputs
        self._phases = [_Phase(bin_edges, trees, n_outputs) for bin_edges, trees in phases if trees]

    def scores(self, columns: Sequence[NDArray[Any]], n_threads: int | None = None) -> NDArray[np.int32]:
        """Return ``int32[outputs, rows]``, in steps of 2**-16: the same bits for any number of threads."""
        from ledgerwood.learners.trees._kernels.passes import add_columns, add_pass

        n_rows = len(columns[0])
        out = np.zeros((self._n_outputs, n_rows), dtype=np.int32)
        columns = [plain_column(column) for column in columns]

        def score(_: None, lo: int, hi: int) -> None:
            here = np.zeros((self._n_outputs, hi - lo), dtype=np.int32)
            bin_codes = np.empty((len(columns), hi - lo), dtype=np.uint8)
            for phase in self._phases:
                bin_columns(columns, phase.bin_edges, lo, hi, bin_codes)
                if phase.features.size:
                    add_columns(bin_codes, here, 0, hi - lo, phase.features, phase.tables)
                for batch, weights in phase.groups:
                    add_pass(bin_codes, here, 0, hi - lo, *route_arrays(batch), weights)
            out[:, lo:hi] = here

        RowThreads(n_threads).run(n_rows, lambda: None, score, TUNING.scored_rows)
        return out


class _Phase:
    """The trees that refer to the same bin edges."""

    def __init__(self, bin_edges: BinEdges, trees: Sequence[Tree], n_outputs: int) -> None:
        self.bin_edges = bin_edges
        tables: dict[int, NDArray[np.int32]] = {}
        routed = []
        for tree in trees:
            columns = column_trees([tree.structure], bin_edges.counts, bin_edges.width)
            if columns is None:
                routed.append(tree)
                continue
            feature = int(columns.feature[0])
            table = tables.setdefault(feature, np.zeros((n_outputs, bin_edges.width), dtype=np.int32))
            table += tree.weights[:, columns.leaf[0]]
        self.features = np.array(list(tables), dtype=np.int32)
        self.tables = np.array(list(tables.values()), dtype=np.int32)
        self.groups: list[tuple[Routes, NDArray[np.int32]]] = []
        for depth in sorted({tree.structure.depth for tree in routed}):
            group = [tree for tree in routed if tree.structure.depth == depth]
            weights = np.array([tree.weights for tree in group], dtype=np.int32)
            self.groups.append((routes([tree.structure for tree in group], bin_edges.counts), weights))


def _check_forest(forest: Forest, fitted: Mapping[str, Any]) -> None:
    """Raise :class:`FormatError` unless the forest fits its model; compiled kernels trust it."""
    columns, classes = fitted["columns_"], len(fitted.get("classes_", ()))
    outputs = classes if classes > 2 else 1
    require(forest.n_outputs == outputs, "the trees have another number of outputs")
    require(len(forest.phase) == len(forest.trees), "trees and their bin edges do not match")
    require(all(0 <= phase < len(forest.bin_edges) for phase in forest.phase), "a tree has no bin edges")
    for bin_edges in forest.bin_edges:
        _check_bin_edges(bin_edges, columns)
    for tree, phase in zip(forest.trees, forest.phase, strict=True):
        _check_tree(tree, forest.bin_edges[phase], outputs)


@stored("Forest", check=_check_forest, keys={"bin_edges": "edges"})
@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """Trees in the order in which they were added.

    Parameters
    ----------
    bin_edges
        The bin edges that trees refer to, in the order of their use.
    trees
        The trees.
    phase
        For each tree, which of ``bin_edges`` it refers to.
    n_outputs, loss, averages
        What the scores are: ``averages`` if they are means of labels (a forest) and not log-odds.
    """

    bin_edges: tuple[BinEdges, ...]
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


def forest_scores(forest: Forest, columns: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
    """Return raw scores ``[rows, outputs]``."""
    trees = [
        [tree for tree, own in zip(forest.trees, forest.phase) if own == phase]
        for phase in range(len(forest.bin_edges))
    ]
    scores = Predictor(list(zip(forest.bin_edges, trees)), forest.n_outputs).scores(columns)
    return scores.T / float(1 << SCORE_BITS)


def forest_of(model: Any) -> Forest:
    """Return the trees of a fitted model that consists of trees alone."""
    if getattr(model, "makes_trees", False):
        check_is_fitted(model, "receipt_")
    forest = getattr(model, "forest_", None)
    if not isinstance(forest, Forest) or hasattr(model, "encoder_"):
        raise ParameterError(
            "model", "be a fitted model of trees alone", type(model).__name__,
            "The auto estimator may choose a linear model, or trees that start from one; PrivateBoostingClassifier and "
            "PrivateBoostingRegressor are always trees",
        )  # fmt: skip
    return forest


def _check_bin_edges(bin_edges: BinEdges, columns: tuple[Column, ...]) -> None:
    require(len(bin_edges.thresholds) == len(bin_edges.categories) == len(columns), "bin edges of other columns")
    for thresholds, count, column in zip(bin_edges.thresholds, bin_edges.categories, columns, strict=True):
        require(thresholds.dtype == np.float32 and thresholds.ndim == 1, "bin edges are not float32")
        require(np.isfinite(thresholds).all() and (np.diff(thresholds) > 0).all(), "bin edges are not in order")
        expected = len(column.categories or ()) if column.kind == "category" else 0
        require(count == expected and (count == 0 or len(thresholds) == 0), "bin edges of other categories")
    require(all(bin_edges.n_codes(feature) <= MAX_BIN_CODES for feature in range(len(columns))), "too many bins")


def _check_tree(tree: Tree, bin_edges: BinEdges, outputs: int) -> None:
    structure = tree.structure
    require(1 <= structure.depth <= MAX_DEPTH, "a tree is too deep")
    inner, leaves = (1 << structure.depth) - 1, 1 << structure.depth
    require(structure.feature.dtype == np.int32 and structure.feature.shape == (inner,), "splits have a wrong form")
    require(((structure.feature >= 0) & (structure.feature < bin_edges.n_features)).all(), "a split has no feature")
    require(structure.left.dtype == np.uint8 and structure.left.shape == (inner, 256), "splits have a wrong form")
    require((structure.left <= 1).all(), "splits have a wrong form")
    require(tree.weights.dtype == np.int32 and tree.weights.shape == (outputs, leaves), "weights have a wrong form")
    for extra in (tree.cover, tree.noise):
        if extra is not None:
            require(extra.dtype == np.float32 and extra.shape == (outputs, leaves), "leaves have a wrong form")
            require(np.isfinite(extra).all(), "leaves have a wrong form")
