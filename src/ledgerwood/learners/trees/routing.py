"""Splits in the form that the kernels read: a threshold and one exception where that says it all, else a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ledgerwood.errors import ParameterError
from ledgerwood.learners.trees.aggregator import Structure
from ledgerwood.learners.trees.settings import MAX_DEPTH

__all__ = ["ColumnTrees", "Routes", "column_trees", "routes"]


@dataclass(frozen=True, slots=True, eq=False)
class Routes:
    """A batch of trees of one depth, as arrays.

    Parameters
    ----------
    depth
        Levels of splits.
    symmetric
        ``uint8[trees]``: 1 if every level of the tree has one split.
    feature
        ``int32[trees, nodes]``.
    split
        ``uint8[trees, nodes, 3]``: a code goes right if it is at least the first number and not the second; if the
        third is 1, the table ``left`` says the way.
    left
        ``uint8[trees, nodes, 256]``, or ``[1, 1, 256]`` if no node needs it.
    """

    depth: int
    symmetric: NDArray[np.uint8]
    feature: NDArray[np.int32]
    split: NDArray[np.uint8]
    left: NDArray[np.uint8]


def routes(trees: Sequence[Structure], n_codes: NDArray[np.int64]) -> Routes:
    """Return the trees as arrays, where feature f has the codes 0 .. ``n_codes[f] - 1``.

    >>> left = np.zeros((1, 256), dtype=np.uint8)
    >>> left[0, [0, 1, 4]] = 1  # codes 0, 1 and the missing values go left
    >>> routes([Structure(1, np.array([0], dtype=np.int32), left)], np.array([5])).split
    array([[[2, 4, 0]]], dtype=uint8)
    """
    depth = trees[0].depth
    if any(tree.depth != depth for tree in trees) or not 0 <= depth <= MAX_DEPTH:
        raise ParameterError("trees", f"have one depth of at most {MAX_DEPTH}", [tree.depth for tree in trees])
    nodes = (1 << depth) - 1
    feature = np.array([tree.feature[:nodes] for tree in trees], dtype=np.int32).reshape(len(trees), nodes)
    left = np.array([tree.left[:nodes] for tree in trees], dtype=np.uint8).reshape(len(trees), nodes, 256)
    if nodes and (feature.min() < 0 or feature.max() >= n_codes.size):
        raise ParameterError("feature", f"lie in 0 .. {n_codes.size - 1}", [int(feature.min()), int(feature.max())])
    width = int(n_codes.max(initial=0)) + 1  # at most 256: no code is 255, so the last column always goes right
    goes_left = (left[..., :width] != 0) & (np.arange(width) < n_codes[feature][..., None])
    # The codes on the left are 0 .. threshold - 1 and perhaps one more. No code is 255, so skip = 255 means no
    # exception.
    threshold = np.argmin(goes_left, axis=-1)
    more = goes_left.sum(axis=-1) - threshold
    last = width - 1 - np.argmax(goes_left[..., ::-1], axis=-1)
    split = np.empty((len(trees), nodes, 3), dtype=np.uint8)
    split[..., 0] = np.where(more > 1, 1, threshold)
    split[..., 1] = np.where(more == 1, last, 255)
    split[..., 2] = more > 1
    symmetric = np.ones(len(trees), dtype=np.uint8)
    for level in range(1, depth):
        here = slice((1 << level) - 1, (2 << level) - 1)
        same = (feature[:, here] == feature[:, here.start, None]).all(axis=1)
        same &= (goes_left[:, here] == goes_left[:, here.start, None]).all(axis=(1, 2))
        symmetric &= same
    needed = left if split[..., 2].any() else np.zeros((1, 1, 256), dtype=np.uint8)
    return Routes(depth, symmetric, feature, split, np.ascontiguousarray(needed != 0).view(np.uint8))


@dataclass(frozen=True, slots=True, eq=False)
class ColumnTrees:
    """Trees of one feature each: ``uint8[trees, n_codes]`` says in which leaf a code of ``feature[tree]`` ends."""

    depth: int
    feature: NDArray[np.int32]
    leaf: NDArray[np.uint8]


def column_trees(trees: Sequence[Structure], n_codes: NDArray[np.int64], width: int) -> ColumnTrees | None:
    """Return the trees by their columns; None if one of them looks at several features.

    >>> left = np.zeros((1, 256), dtype=np.uint8)
    >>> left[0, [0, 3]] = 1
    >>> column_trees([Structure(1, np.array([7], dtype=np.int32), left)], np.full(8, 4), 5).leaf
    array([[0, 1, 1, 0, 1]], dtype=uint8)
    """
    depth = trees[0].depth
    nodes = (1 << depth) - 1
    if not 1 <= depth <= MAX_DEPTH or any(tree.depth != depth for tree in trees):
        return None
    feature = np.array([tree.feature[0] for tree in trees], dtype=np.int32)
    if any((tree.feature[:nodes] != tree.feature[0]).any() for tree in trees):
        return None
    if feature.min() < 0 or feature.max() >= n_codes.size:
        return None  # an error that routes() reports
    leaf = np.empty((len(trees), width), dtype=np.uint8)
    every = np.arange(width)
    for place, tree in zip(leaf, trees):
        node = np.zeros(width, dtype=np.int64)
        for _ in range(depth):
            node = 2 * node + 2 - (tree.left[node, every] != 0)
        place[:] = node - nodes
    return ColumnTrees(depth, feature, leaf)
