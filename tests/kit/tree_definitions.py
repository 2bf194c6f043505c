"""What the kernels of tree learning compute, by its definition and in numpy: bin codes, leaves, scores, samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.learners.trees.aggregator import SCORE_BITS, BinEdges, Structure
from ledgerwood.learners.trees.candidates import PENALTY_STEPS, Candidates
from ledgerwood.learners.trees.forest import Forest


def encode(columns: Sequence[NDArray[Any]], bin_edges: BinEdges) -> NDArray[np.uint8]:
    """Return codes ``[features, rows]`` of columns: the definition, in numpy."""
    rows = len(columns[0])
    bin_codes = np.empty((bin_edges.n_features, rows), dtype=np.uint8)
    for feature, column in enumerate(columns):
        missing = bin_edges.n_codes(feature) - 1
        if bin_edges.categories[feature]:
            codes = column.astype(np.int64)
            bin_codes[feature] = np.where((codes >= 0) & (codes < missing), codes, missing)
        else:
            numbers = np.asarray(column, dtype=np.float32)
            codes = np.searchsorted(bin_edges.thresholds[feature], numbers, side="right")
            bin_codes[feature] = np.where(np.isnan(numbers), missing, codes)
    return bin_codes


def leaf_numbers(bin_codes: NDArray[np.uint8], tree: Structure) -> NDArray[np.int64]:
    """Return the open node (or leaf) of every record, counted from the left."""
    rows = np.arange(bin_codes.shape[1])
    node = np.zeros(bin_codes.shape[1], dtype=np.int64)
    for _ in range(tree.depth):
        left = tree.left[node, bin_codes[tree.feature[node], rows]]
        node = 2 * node + 2 - left
    return node - ((1 << tree.depth) - 1)


def plain_scores(forest: Forest, columns: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
    """Return raw scores by the definition."""
    total = np.zeros((forest.n_outputs, len(columns[0])), dtype=np.int64)
    for phase, bin_edges in enumerate(forest.bin_edges):
        used = [tree for tree, own in zip(forest.trees, forest.phase) if own == phase]
        bin_codes = encode(columns, bin_edges) if used else np.empty((0, 0), dtype=np.uint8)
        for tree in used:
            total += tree.weights[:, leaf_numbers(bin_codes, tree.structure)]
    return total.T / float(1 << SCORE_BITS)


def left_sums(candidates: Candidates, histogram: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sums on the left, ``[..., c, 2]``, of histograms ``[..., features, width, 2]``."""
    through = np.cumsum(histogram, axis=-2, dtype=histogram.dtype)
    below = through[..., candidates.place, np.maximum(candidates.code - 1, 0), :]
    left = np.where(candidates.single[:, None], histogram[..., candidates.place, candidates.code, :], below)
    # A single category that is the missing code counts once.
    extra = candidates.missing_left & ~(candidates.single & (candidates.code == candidates.last))
    return np.asarray(left + np.where(extra[:, None], histogram[..., candidates.place, candidates.last, :], 0))


def exact_scores(left: NDArray[np.int64], whole: NDArray[np.int64], l2: float) -> NDArray[np.int64]:
    """Return scores ``[nodes, c]`` of sums ``[outputs, nodes, c, 2]`` on the left and ``[outputs, nodes, 2]`` in all.

    >>> left = np.array([[[[4096, 1], [0, 0]]]])
    >>> exact_scores(left, np.array([[[4096, 2]]]), 0.0).tolist() == [[4096**2, 4096**2 // 2]]
    True
    """
    penalty = round(l2 * PENALTY_STEPS)
    right = whole[:, :, None, :] - left
    return _floors(left, penalty) + _floors(right, penalty)


def _floors(sums: NDArray[np.int64], penalty: int) -> NDArray[np.int64]:
    """Floor of |S|^2 / (n + lambda) without overflow: S = a d + r gives S^2 / d = a (S + r) + r^2 / d."""
    d = PENALTY_STEPS * sums[0, ..., 1] + penalty
    outputs = len(sums)
    if d.size and int(d.max()) ** 2 * outputs >= 2**63:
        wide = sums.astype(object)
        square = sum(16 * wide[k, ..., 0] ** 2 for k in range(outputs))
        return np.asarray(square // np.maximum(d, 1).astype(object), dtype=np.int64) * (d > 0)
    d_safe = np.maximum(d, 1)
    whole = np.zeros_like(d)
    rest = np.zeros_like(d)
    for k in range(outputs):
        s = 4 * sums[k, ..., 0]
        a = s // d_safe
        r = s - a * d_safe
        whole += a * (s + r)
        rest += r * r
    return np.where(d > 0, whole + rest // d_safe, 0)


_MASK = (1 << 64) - 1


def siphash(key: tuple[int, int], *words: int) -> int:
    """SipHash-2-4 of 64-bit words, in plain integers: the definition that kernels are tested against.

    >>> hex(siphash((0x0706050403020100, 0x0F0E0D0C0B0A0908)))
    '0x726fdb47dd0e0e31'
    """
    v0, v1 = 0x736F6D6570736575 ^ key[0], 0x646F72616E646F6D ^ key[1]
    v2, v3 = 0x6C7967656E657261 ^ key[0], 0x7465646279746573 ^ key[1]

    def rotate(x: int, by: int) -> int:
        return ((x << by) | (x >> (64 - by))) & _MASK

    def rounds(n: int) -> None:
        nonlocal v0, v1, v2, v3
        for _ in range(n):
            v0, v2 = (v0 + v1) & _MASK, (v2 + v3) & _MASK
            v1, v3 = rotate(v1, 13) ^ v0, rotate(v3, 16) ^ v2
            v0 = rotate(v0, 32)
            v2, v0 = (v2 + v1) & _MASK, (v0 + v3) & _MASK
            v1, v3 = rotate(v1, 17) ^ v2, rotate(v3, 21) ^ v0
            v2 = rotate(v2, 32)

    for word in (*words, (8 * len(words) & 0xFF) << 56):
        v3 ^= word
        rounds(2)
        v0 ^= word
    v2 ^= 0xFF
    rounds(4)
    return v0 ^ v1 ^ v2 ^ v3
