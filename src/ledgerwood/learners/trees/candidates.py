r"""Split candidates of a node as arrays, and their exact scores; ``grower`` chooses among them.

The score of a split into children with gradient sums :math:`S` and counts :math:`n` is
:math:`\sum \lfloor \|S\|^2 / (n + \lambda) \rfloor` in units of :math:`2^{-24}`, in exact integer arithmetic. Adding a
record with :math:`\|g\| \le g^*` moves it by a value in :math:`[-3 g^{*2}, g^{*2}]`, and because :math:`g^{*2}` is a
whole number of units the floors add nothing: the range sensitivity is :math:`4 g^{*2}`
(``docs/theory/tree-sensitivities.md``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ledgerwood.learners.data.threads import TUNING, RowThreads
from ledgerwood.learners.trees.aggregator import BinEdges, Structure

__all__ = [
    "PENALTY_STEPS",
    "Candidates",
    "candidates_of",
    "level_scores",
    "open_tree",
    "random_candidates",
    "with_level",
]


_I64: TypeAlias = NDArray[np.int64]

_Bool: TypeAlias = NDArray[np.bool_]

_EVERY_BIN_CODE = np.arange(256, dtype=np.uint8)

PENALTY_STEPS = 16
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
        ``bool[c]``: whether missing values go left.
    last
        ``int64[c]``: the code of missing values.
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
        left = np.where(self.single[chosen, None], code == _EVERY_BIN_CODE, code > _EVERY_BIN_CODE) & (
            last > _EVERY_BIN_CODE
        )
        left[np.arange(len(chosen)), self.last[chosen]] = self.missing_left[chosen]
        return left.view(np.uint8)


def candidates_of(
    bin_edges: BinEdges, features: NDArray[np.int32], missing: str, rng: np.random.Generator
) -> Candidates:
    """Return all candidates of some features: every threshold, every single category, both sides of missing or one.

    The list depends on public metadata and ``rng`` alone. A feature that offers nothing (constant) offers the split
    that sends missing values to the left, so that the list is never empty.
    """
    place, code, single, last = _thresholds(bin_edges, np.asarray(features, dtype=np.int32).tobytes())
    if missing == "private":
        side = np.arange(2 * len(place)) >= len(place)
        place, code, single, last = np.tile(place, 2), np.tile(code, 2), np.tile(single, 2), np.tile(last, 2)
    else:
        side = rng.random(len(place)) < 0.5
    return Candidates(place, code, single, side | (single & (code == last)), last)


@lru_cache(maxsize=64)
def _thresholds(bin_edges: BinEdges, features: bytes) -> tuple[_I64, _I64, _Bool, _I64]:
    """Return place, code, single and last of all candidates: the same at every level of a tree."""
    asked = np.frombuffer(features, dtype=np.int32)
    last_of = bin_edges.counts[asked] - 1
    is_set = bin_edges.is_set[asked]
    is_number = ~is_set & (last_of > 1)  # codes 1 .. last - 1 are its thresholds
    first = np.where(is_number, 1, np.where(is_set, 0, last_of))
    offered = np.where(is_number, last_of - 1, last_of + 1 - first)
    place = np.repeat(np.arange(len(asked)), offered)
    code = np.arange(len(place)) + np.repeat(first - np.cumsum(offered) + offered, offered)
    return place, code, ~is_number[place], last_of[place]


def random_candidates(
    bin_edges: BinEdges, features: NDArray[np.int32], nodes: int, rng: np.random.Generator
) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Return for each node a random feature and a random split of it: a threshold, or a set of categories."""
    if len(features) == 1:
        feature = np.full(nodes, features[0], dtype=np.int32)
    else:
        feature = features[rng.integers(0, len(features), size=nodes)].astype(np.int32)
    return feature, random_sides(bin_edges, feature, rng)


def random_sides(bin_edges: BinEdges, feature: NDArray[np.int32], rng: np.random.Generator) -> NDArray[np.uint8]:
    """Return for each of the features a random table of the codes that go left."""
    n_codes = bin_edges.counts[feature]
    is_set = bin_edges.is_set[feature]
    place, side = rng.random((2, len(feature)))  # rng.integers with an array of ends takes ten times longer
    left: _Bool = (1 + place * np.maximum(n_codes - 2, 1)).astype(np.uint8)[:, None] > _EVERY_BIN_CODE
    if is_set.any():
        coins = rng.integers(0, 2, size=(int(is_set.sum()), 256)).astype(np.bool_)
        left[is_set] = coins
    left &= (n_codes - 1).astype(np.uint8)[:, None] > _EVERY_BIN_CODE
    left[np.arange(len(feature)), n_codes - 1] = side < 0.5
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
        For each candidate: which of the features; the bin code below which values go left, or which goes left alone if
        ``single``; whether missing values go left; the code of missing values.
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
    if threads is None or out.size < TUNING.shared_scores:
        score_nodes(*arrays, 0, nodes, out)
    else:
        threads.run(nodes, lambda: None, lambda _, lo, hi: score_nodes(*arrays, lo, hi, out), TUNING.shared_nodes)
    return out
