r"""Candidates of a node as arrays, their exact scores, and the splits they stand for.

The score of a split into children with gradient sums :math:`S` and counts :math:`n` is
:math:`\sum \lfloor \|S\|^2 / (n + \lambda) \rfloor` in units of :math:`2^{-24}`, in exact integer arithmetic. Adding a
record with :math:`\|g\| \le g^*` moves it by a value in :math:`[-3 g^{*2}, g^{*2}]`, and because :math:`g^{*2}` is a
whole number of units the floors add nothing: the range sensitivity is :math:`4 g^{*2}`
(``docs/theory/tree-sensitivities.md``).

Scores of all candidates of a level, in exact integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ledgerwood.learners.data.threads import RowThreads
from ledgerwood.learners.trees.aggregator import Edges, Structure

__all__ = [
    "PENALTY_STEPS",
    "Candidates",
    "candidates_of",
    "exact_scores",
    "level_scores",
    "open_tree",
    "random_candidates",
    "with_level",
]


_I64: TypeAlias = NDArray[np.int64]

_Bool: TypeAlias = NDArray[np.bool_]

_EVERY_CODE = np.arange(256, dtype=np.uint8)

_LAMBDA_STEPS = 16
"""The penalty in a score is a multiple of 1/16."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Splits that a node may take, the same for every node.

    Parameters
    ----------
    place
        ``int64[c]``: which of the asked features.
    code
        ``int64[c]``: a number goes left if its code is below it; for categories, the one category that goes left.
    single
        ``bool[c]``: whether ``code`` is a single category.
    missing_left
        ``bool[c]``: whether missing cells go left.
    last
        ``int64[c]``: the code of missing cells.
    """

    place: NDArray[np.int64]
    code: NDArray[np.int64]
    single: NDArray[np.bool_]
    missing_left: NDArray[np.bool_]
    last: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.place)

    def arrays(self) -> tuple[_I64, _I64, _Bool, _Bool, _I64]:
        """Return place, code, single, missing_left, last."""
        return self.place, self.code, self.single, self.missing_left, self.last

    def left_tables(self, chosen: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return which of 256 codes go left, in a row for each of the chosen."""
        code, last = self.code[chosen, None], self.last[chosen, None]
        left = np.where(self.single[chosen, None], code == _EVERY_CODE, code > _EVERY_CODE) & (last > _EVERY_CODE)
        left[np.arange(len(chosen)), self.last[chosen]] = self.missing_left[chosen]
        return left.view(np.uint8)

    def left_sums(self, histogram: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sums on the left, ``[..., c, 2]``, of histograms ``[..., features, width, 2]``."""
        through = np.cumsum(histogram, axis=-2, dtype=histogram.dtype)
        below = through[..., self.place, np.maximum(self.code - 1, 0), :]
        left = np.where(self.single[:, None], histogram[..., self.place, self.code, :], below)
        # A single category that is the missing code counts once.
        extra = self.missing_left & ~(self.single & (self.code == self.last))
        return np.asarray(left + np.where(extra[:, None], histogram[..., self.place, self.last, :], 0))


def candidates_of(edges: Edges, features: NDArray[np.int32], missing: str, rng: np.random.Generator) -> Candidates:
    """Return all candidates of some features: every threshold, every single category; missing cells on both or a side.

    The list depends on public facts and ``rng`` alone. A feature that offers nothing (constant) offers the split
    that sends missing cells to the left, so that the list is never empty.
    """
    place, code, single, last = _thresholds(edges, np.asarray(features, dtype=np.int32).tobytes())
    if missing == "private":
        side = np.arange(2 * len(place)) >= len(place)
        place, code, single, last = np.tile(place, 2), np.tile(code, 2), np.tile(single, 2), np.tile(last, 2)
    else:
        side = rng.random(len(place)) < 0.5
    return Candidates(place, code, single, side | (single & (code == last)), last)


@lru_cache(maxsize=64)
def _thresholds(edges: Edges, features: bytes) -> tuple[_I64, _I64, _Bool, _I64]:
    """Return place, code, single and last of all candidates: the same at every level, for edges that never change."""
    asked = np.frombuffer(features, dtype=np.int32)
    last_of = edges.counts[asked] - 1
    is_set = edges.is_set[asked]
    is_number = ~is_set & (last_of > 1)  # codes 1 .. last - 1 are its thresholds
    first = np.where(is_number, 1, np.where(is_set, 0, last_of))
    offered = np.where(is_number, last_of - 1, last_of + 1 - first)
    place = np.repeat(np.arange(len(asked)), offered)
    code = np.arange(len(place)) + np.repeat(first - np.cumsum(offered) + offered, offered)
    return place, code, ~is_number[place], last_of[place]


def exact_scores(left: NDArray[np.int64], whole: NDArray[np.int64], l2: float) -> NDArray[np.int64]:
    """Return scores ``[nodes, c]`` of sums ``[outputs, nodes, c, 2]`` on the left and ``[outputs, nodes, 2]`` in all.

    >>> left = np.array([[[[4096, 1], [0, 0]]]])
    >>> exact_scores(left, np.array([[[4096, 2]]]), 0.0).tolist() == [[4096**2, 4096**2 // 2]]
    True
    """
    penalty = round(l2 * _LAMBDA_STEPS)
    right = whole[:, :, None, :] - left
    return _floors(left, penalty) + _floors(right, penalty)


def _floors(sums: NDArray[np.int64], penalty: int) -> NDArray[np.int64]:
    """Floor of |S|^2 / (n + lambda) without overflow: S = a d + r gives S^2 / d = a (S + r) + r^2 / d."""
    d = _LAMBDA_STEPS * sums[0, ..., 1] + penalty
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


def random_candidates(
    edges: Edges, features: NDArray[np.int32], nodes: int, rng: np.random.Generator
) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Return for each node a random feature and a random split of it: a threshold, or a set of categories."""
    if len(features) == 1:
        feature = np.full(nodes, features[0], dtype=np.int32)
    else:
        feature = features[rng.integers(0, len(features), size=nodes)].astype(np.int32)
    return feature, random_sides(edges, feature, rng)


def random_sides(edges: Edges, feature: NDArray[np.int32], rng: np.random.Generator) -> NDArray[np.uint8]:
    """Return for each of the features a random table of the codes that go left."""
    codes = edges.counts[feature]
    is_set = edges.is_set[feature]
    cut, side = rng.random((2, len(feature)))  # rng.integers with an array of ends takes ten times longer
    left: _Bool = (1 + cut * np.maximum(codes - 2, 1)).astype(np.uint8)[:, None] > _EVERY_CODE
    if is_set.any():
        coins = rng.integers(0, 2, size=(int(is_set.sum()), 256)).astype(np.bool_)
        left[is_set] = coins
    left &= (codes - 1).astype(np.uint8)[:, None] > _EVERY_CODE
    left[np.arange(len(feature)), codes - 1] = side < 0.5
    return left.view(np.uint8)


def open_tree(depth: int) -> Structure:
    """Return a tree of which no level is decided, with room for ``depth``."""
    nodes = (1 << depth) - 1
    return Structure(0, np.zeros(nodes, dtype=np.int32), np.zeros((nodes, 256), dtype=np.uint8))


def with_level(tree: Structure, feature: NDArray[np.int32], left: NDArray[np.uint8]) -> Structure:
    """Return the tree with its next level decided."""
    first = (1 << tree.depth) - 1
    here = slice(first, 2 * first + 1)
    features, tables = tree.feature.copy(), tree.left.copy()
    features[here], tables[here] = feature, left
    return Structure(tree.depth + 1, features, tables)


PENALTY_STEPS = 16
"""The penalty in a score is a multiple of 1/16."""

_NODES_AT_A_TIME = 4

_WORTH_SHARING = 1 << 16


def level_scores(
    histogram: NDArray[np.int64],
    place: NDArray[np.int64],
    code: NDArray[np.int64],
    single: NDArray[np.bool_],
    missing_left: NDArray[np.bool_],
    last: NDArray[np.int64],
    l2: float,
    threads: RowThreads | None = None,
) -> NDArray[np.int64]:
    r"""Return ``int64[nodes, candidates]``: the sum over both sides of floor(\|S\|^2 / (n + l2)), in steps of 2**-24.

    Parameters
    ----------
    histogram
        ``int64[outputs, nodes, features, width, 2]``: gradient sums in steps of 2**-12, and counts.
    place, code, single, missing_left, last
        For each candidate: which of the features; the code below which cells go left, or which goes left alone if
        ``single``; whether missing cells go left; the code of missing cells.
    l2
        Penalty, rounded to sixteenths. A side without records and penalty scores 0.
    threads
        Nodes are shared out among them.

    Examples
    --------
    >>> histogram = np.array([[4096, 1], [0, 1], [0, 0]]).reshape(1, 1, 1, 3, 2)
    >>> one = np.array([0]), np.array([1]), np.array([False]), np.array([False]), np.array([2])
    >>> level_scores(histogram, *one, l2=0.0).item() == 4096**2
    True
    """
    from ledgerwood.learners.trees._kernels.candidates import score_nodes

    nodes, width = histogram.shape[1], histogram.shape[3]
    base = place * (width + 1)
    begin = base + np.where(single, code, 0)
    end = base + code + single
    missing = (missing_left & ~(single & (code == last))).astype(np.int64)
    out = np.empty((nodes, len(base)), dtype=np.int64)
    arrays = np.ascontiguousarray(histogram), begin, end, base + last, missing, round(l2 * PENALTY_STEPS)
    if threads is None or out.size < _WORTH_SHARING:
        score_nodes(*arrays, 0, nodes, out)
    else:
        threads.run(nodes, lambda: None, lambda _, lo, hi: score_nodes(*arrays, lo, hi, out), _NODES_AT_A_TIME)
    return out
