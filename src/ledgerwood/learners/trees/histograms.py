"""What a thread sums in a pass over its rows, and what one pass leaves for the next."""

from __future__ import annotations

from threading import Lock

import numpy as np
from numpy.typing import NDArray

from ledgerwood.learners.trees.aggregator import Channel, PartialTree

__all__ = ["Due", "LeafSums", "Level", "LevelSums"]

_PACKED_ROWS = (1 << 19) - 1  # their packed sum cannot overflow: a coordinate is at most 2**12


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
