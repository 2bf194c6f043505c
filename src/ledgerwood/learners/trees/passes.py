"""What the kernels read and write: splits as arrays, what a thread sums in a pass, and what a pass leaves for the next.

A split is a threshold and one exception where that says it all, else a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from ledgerwood.errors import ParameterError
from ledgerwood.learners.trees.aggregator import Channel, PartialTree, Structure
from ledgerwood.learners.trees.settings import MAX_DEPTH

__all__ = ["ColumnTrees", "Due", "LeafSums", "Level", "LevelSums", "Routes", "column_trees", "routes"]

_PACKED_ROWS = (1 << 19) - 1  # their packed sum cannot overflow: a coordinate is at most 2**12


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


class LeafSums:
    """One thread's sums in the leaves of a batch; ``place`` says to which leaf a packed sum belongs."""

    def __init__(self, place: NDArray[np.uint8], outputs: int, leaves: int) -> None:
        trees, codes = place.shape
        self.packed = np.zeros((4, trees, outputs, codes), dtype=np.int64)
        self.total = np.zeros((trees, outputs, leaves, 2), dtype=np.int64)
        self.rows, self._place = 0, place

    def room(self, rows: int) -> NDArray[np.int64]:
        if self.rows + rows > _PACKED_ROWS:
            self.unpack()
        self.rows += rows
        return self.packed

    def unpack(self) -> None:
        from ledgerwood.learners.trees._kernels.passes import fold

        fold(self.packed, self._place, self.total)
        self.rows = 0


class Due:
    """Weights of trees that are not yet in the scores: tree t adds ``weights[t]`` by ``numbers[which[t]]``."""

    def __init__(self, numbers: NDArray[np.uint8], which: NDArray[np.int32], weights: NDArray[np.int32]) -> None:
        self.numbers, self._which, self._weights = numbers, which, weights

    @classmethod
    def nothing(cls, outputs: int) -> Due:
        numbers, which = np.empty((0, 0), dtype=np.uint8), np.empty(0, dtype=np.int32)
        return cls(numbers, which, np.empty((0, outputs, 1), dtype=np.int32))

    def arrays(self) -> tuple[NDArray[np.uint8], NDArray[np.int32], NDArray[np.int32]]:
        return self.numbers, self._which, self._weights

    def plus(self, more: Due) -> Due:
        """Return both; what is due already is due by the same numbers."""
        if not len(self._which):
            return more
        return Due(more.numbers, more._which, self._weights + more._weights)

    def renumbered(self, old: NDArray[np.uint8], new: NDArray[np.uint8]) -> Due:
        """Return the same, where an array of numbers has been replaced by a larger one."""
        return Due(new, self._which, self._weights) if self.numbers is old else self


class LevelSums:
    """One thread's histograms at some nodes, unpacked into an array that the threads share."""

    def __init__(self, nodes: NDArray[np.int64], out: NDArray[np.int64], lock: Lock) -> None:
        outputs, _, features, width, _ = out.shape
        self.packed = np.zeros((outputs, nodes.size, features * width), dtype=np.int64)
        self.flat = self.packed.reshape(-1)
        self.rows = 0
        self._nodes, self._lock = nodes, lock
        self._out = out.reshape(outputs, out.shape[1], features * width, 2)

    def room(self, rows: int) -> NDArray[np.int64]:
        if self.rows + rows > _PACKED_ROWS:
            self.unpack()
        self.rows += rows
        return self.flat

    def unpack(self) -> None:
        from ledgerwood.learners.trees._kernels.passes import unpack

        with self._lock:
            unpack(self.packed, self._nodes, self._out)
        self.rows = 0


class Level:
    """The last histogram of the tree that grows: what its next level can be subtracted from."""

    def __init__(
        self, tree: PartialTree, features: NDArray[np.int32], channel: Channel, sums: NDArray[np.int64]
    ) -> None:
        nodes = (1 << tree.depth) - 1
        self.depth, self.channel = tree.depth, channel
        self.feature, self.left = tree.feature[:nodes].copy(), tree.left[:nodes].copy()
        self.features, self.sums = features.copy(), sums

    def is_parent_of(self, tree: PartialTree, features: NDArray[np.int32], channel: Channel) -> bool:
        nodes = self.feature.size
        return (
            tree.depth == self.depth + 1
            and channel == self.channel
            and np.array_equal(features, self.features)
            and np.array_equal(tree.feature[:nodes], self.feature)
            and np.array_equal(tree.left[:nodes], self.left)
        )

    def smaller_children(self, tree: PartialTree) -> NDArray[np.int64]:
        """Return, for each parent, the number of the child that holds less: the one to sum."""
        place = {int(feature): at for at, feature in enumerate(self.features)}
        chosen = []
        for parent in range(1 << self.depth):
            node = (1 << self.depth) - 1 + parent
            at, right = place.get(int(tree.feature[node])), False
            if at is not None:
                held = self.sums[0, parent, at, :, 1]
                right = 2 * held[tree.left[node, : held.size] != 0].sum() > held.sum()
            chosen.append(2 * parent + int(right))
        return np.array(chosen, dtype=np.int64)
