"""Random grids: trees that cut each of their features at random places, whatever lies between.

A random tree draws the threshold of a node from the whole range of a feature, so many of its leaves are empty. A grid
draws all cuts of a feature at once and searches among them: ``2**l`` intervals of one feature, or cells of a product of
several. It looks at public edges and a random generator only.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ledgerwood.learners.trees.seam import Edges, Structure

__all__ = ["grid_tree"]


def grid_tree(edges: Edges, features: NDArray[np.int32], depth: int, rng: np.random.Generator) -> Structure:
    """Return a tree whose leaves are the cells of a random grid.

    The levels are shared out among the features, the first ones getting one more if they do not come out even. Numbers
    are cut at random edges (with repetition); categories are dealt at random into groups of nearly equal size, one each
    if there are enough groups. Missing cells of a number go to a random interval.

    Examples
    --------
    >>> edges = Edges((np.arange(1, 8, dtype=np.float32), np.empty(0, dtype=np.float32)), (0, 3))
    >>> tree = grid_tree(edges, np.array([0, 1], dtype=np.int32), 4, np.random.default_rng(0))
    >>> tree.feature.tolist()
    [0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]
    """
    nodes = (1 << depth) - 1
    feature = np.zeros(nodes, dtype=np.int32)
    left = np.zeros((nodes, 256), dtype=np.uint8)
    level = 0
    for place, name in enumerate(features.tolist()):
        levels = depth // len(features) + (place < depth % len(features))
        deal = _groups if edges.categories[name] else _intervals
        above = 1 << level  # every open node repeats the search of this feature
        for step, tables in enumerate(deal(edges.codes(name), levels, rng)):
            first = (1 << level + step) - 1
            here = slice(first, 2 * first + 1)
            feature[here] = name
            left[here] = np.tile(tables, (above, 1))
        level += levels
    return Structure(depth, feature, left)


def _intervals(codes: int, levels: int, rng: np.random.Generator) -> list[NDArray[np.uint8]]:
    """Tables ``[2**step, 256]`` of a binary search among random cuts, by level."""
    cuts = np.sort(rng.integers(1, max(codes - 1, 2), size=(1 << levels) - 1))
    found = []
    for step in range(levels):
        width = 1 << levels - step
        cut = cuts[width // 2 - 1 :: width]
        left = np.arange(256) < cut[:, None]
        left[:, codes - 1 :] = False
        left[:, codes - 1] = rng.integers(0, 2)
        found.append(left.astype(np.uint8))
    return found


def _groups(codes: int, levels: int, rng: np.random.Generator) -> list[NDArray[np.uint8]]:
    """Tables that read the binary digits of a category's random group, by level; the unknown one is a category too."""
    group = np.zeros(256, dtype=np.int64)
    group[rng.permutation(codes)] = np.arange(codes) % (1 << levels)
    found = []
    for step in range(levels):
        left = (group >> (levels - 1 - step) & 1) == 0
        left[codes:] = False
        found.append(np.repeat(left[None].astype(np.uint8), 1 << step, axis=0))
    return found
