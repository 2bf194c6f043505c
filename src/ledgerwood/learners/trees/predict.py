"""Scores of new records: codes and routes of a range of rows at a time, all trees while they are in cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .local import code_columns, plain_column, route_arrays
from .routes import Routes, column_trees, routes
from .seam import Edges, Tree
from .threads import RowThreads

__all__ = ["Predictor"]

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
    >>> from ledgerwood.learners.trees.seam import Structure
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
        from ._kernels.passes import add_columns, add_pass

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
