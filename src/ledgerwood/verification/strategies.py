"""Hypothesis strategies for differential privacy: neighbouring inputs that tend to break things.

A strategy for pairs yields ``(first, second)``. All of them shrink to small, readable examples, and all are biased to
where mechanisms fail: ties, empty leaves, values exactly on a threshold or one float beside it, nan, -0.0, huge
labels.

>>> from hypothesis import find
>>> first, second = find(score_pairs(k=2, range=2), lambda pair: pair[0] != pair[1])
>>> [str(score) for score in first], [str(score) for score in second]
(['0', '0'], ['-1', '1'])
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ledgerwood.accounting.adjacency import as_neighbours
from ledgerwood.errors import MissingDependency, ParameterError

try:
    from hypothesis import strategies as st
    from hypothesis.strategies import SearchStrategy
except ModuleNotFoundError as missing:  # pragma: no cover - depends on the installation
    raise MissingDependency("hypothesis", "the module of strategies", "verification") from missing

__all__ = [
    "Leaf",
    "Parameters",
    "Split",
    "gradient_histograms",
    "mechanism_parameters",
    "neighbouring_datasets",
    "score_pairs",
    "trees",
]

Floats: TypeAlias = NDArray[np.float64]
_HOSTILE = (math.nan, -0.0, 0.0, 5e-324, -5e-324, 1e308, -1e308, math.inf, -math.inf)


def neighbouring_datasets(
    relation: Literal["add_remove", "replace_one"], schema: Mapping[str, Any], *, hostile: bool = True
) -> SearchStrategy[tuple[Floats, Floats]]:
    """Two tables that differ by one row, as float arrays of shape (rows, columns).

    Parameters
    ----------
    relation : "add_remove" or "replace_one"
        The second table lacks one row of the first, or has another row in its place (or the other way round).
    schema : mapping
        Public metadata, as for :func:`ledgerwood.verification.audit`: ``columns`` (a (low, high) for each), ``rows``
        (the most to make, 8 if absent), ``edges`` (bin edges and clip bounds of each column) and ``thresholds``
        (numbers of rows at which the mechanism behaves differently, such as a least leaf size).
    hostile : bool
        Also yield what the schema forbids but private data may hold: nan, infinities, subnormal and huge values.

    Examples
    --------
    >>> from hypothesis import find
    >>> schema = {"columns": [(0, 1)], "rows": 3, "edges": [[0.5]]}
    >>> more, less = find(neighbouring_datasets("add_remove", schema), lambda pair: len(pair[0]) == 2)
    >>> more.tolist(), less.tolist()
    ([[0.0], [0.0]], [[0.0]])
    """
    replace = as_neighbours(relation) == "replace_one"
    if relation not in ("add_remove", "replace_one"):
        raise ParameterError("relation", "be 'add_remove' or 'replace_one'", relation)
    if "columns" not in schema:
        raise ParameterError("schema", "declare columns, a (low, high) for each", sorted(map(str, schema)))
    columns = [(float(low), float(high)) for low, high in schema["columns"]]
    if not columns or any(not low <= high for low, high in columns):
        raise ParameterError("schema", "have columns as (low, high) with low <= high", schema["columns"])
    edges = schema.get("edges", [[] for _ in columns])
    if len(edges) != len(columns):
        raise ParameterError("schema", "have one list of edges per column", edges)
    cells = [_cell(low, high, list(marks), hostile) for (low, high), marks in zip(columns, edges)]
    row = st.tuples(*cells)
    most = int(schema.get("rows", 8))
    free = st.lists(row, min_size=1, max_size=max(1, most))
    tables = [free, _tied(row, most)]
    tables += [_at_threshold(row, int(count)) for count in schema.get("thresholds", ())]

    def pair_up(drawn: tuple[list[Any], Any, int, bool]) -> tuple[Floats, Floats]:
        table, other, place, swap = drawn
        i = place % len(table)
        rest = [*table[:i], *([other] if replace else []), *table[i + 1 :]]
        both = [np.array(rows, dtype=np.float64).reshape(len(rows), len(columns)) for rows in (table, rest)]
        return (both[1], both[0]) if swap else (both[0], both[1])

    return st.tuples(st.one_of(tables), row, st.integers(0, 63), st.booleans()).map(pair_up)


def score_pairs(
    k: int | tuple[int, int], range: Fraction | float = 2, monotone: bool = False
) -> SearchStrategy[tuple[list[Fraction], list[Fraction]]]:
    """Score vectors of neighbouring inputs, in exact rationals.

    Parameters
    ----------
    k : int or (int, int)
        Number of candidates, or its least and largest value.
    range : Fraction or float
        Range sensitivity: the largest minus the least change of a score is at most this. For the textbook sensitivity
        Delta pass 2 * Delta.
    monotone : bool
        All scores move the same way, by at most ``range``; else each moves by at most ``range/2`` either way.
    """
    least, most = (k, k) if isinstance(k, int) else k
    if not 1 <= least <= most:
        raise ParameterError("k", "be positive, or (least, most) in order", k)
    width = Fraction(range)
    if width <= 0:
        raise ParameterError("range", "be positive", range)
    low, high = (Fraction(0), width) if monotone else (-width / 2, width / 2)
    near = st.integers(-4, 4).map(lambda n: n * width / 2)
    far = st.integers(-100, 100).map(lambda n: n * width / 2)
    between = st.integers(0, 12).map(lambda n: low + n * (high - low) / 12)
    move = st.sampled_from([Fraction(0), low, high]) | between

    def vectors(size: int) -> SearchStrategy[tuple[list[Fraction], list[Fraction]]]:
        lone = st.tuples(near | far, near | far).map(lambda two: [two[0], *[two[1]] * (size - 1)])
        scores = lone | st.lists(near | far, min_size=size, max_size=size)
        opposed = st.sampled_from([[low, *[high] * (size - 1)], [high, *[low] * (size - 1)]])
        moves = opposed | st.lists(move, min_size=size, max_size=size)
        sign = st.sampled_from([1, -1] if monotone else [1])
        return st.tuples(scores, moves, sign).map(lambda t: (t[0], [s + t[2] * d for s, d in zip(t[0], t[1])]))

    return st.integers(least, most).flatmap(vectors)


def gradient_histograms(clip: float, *, bins: int = 4, rows: int = 12) -> SearchStrategy[tuple[Floats, Floats]]:
    """Histograms (sum of gradients, number of rows) per bin, with and without one row of gradient at most ``clip``.

    Gradients are multiples of clip/8, so sums are exact. Biased to empty bins and to bins full of ±clip.
    """
    if not 0 < clip < math.inf:
        raise ParameterError("clip", "be positive and finite", clip)
    gradient = (st.sampled_from([8, -8]) | st.integers(-8, 8)).map(lambda n: n * clip / 8)
    row = st.tuples(st.integers(0, bins - 1), gradient)
    packed = st.tuples(row, st.integers(1, rows)).map(lambda t: [t[0]] * t[1])
    blocks = st.lists(packed | row.map(lambda r: [r]), max_size=4).map(_joined)

    def histograms(drawn: tuple[list[tuple[int, float]], tuple[int, float]]) -> tuple[Floats, Floats]:
        data, extra = drawn
        without = np.zeros((bins, 2))
        for bin_, g in data:
            without[bin_] += (g, 1)
        with_it = without.copy()
        with_it[extra[0]] += (extra[1], 1)
        return with_it, without

    return st.tuples(blocks, row).map(histograms)


class Parameters(NamedTuple):
    """Public parameters of a mechanism."""

    epsilon: float
    delta: float
    sensitivity: float
    candidates: int


def mechanism_parameters() -> SearchStrategy[Parameters]:
    """Parameters over the whole range that a mechanism must accept, round numbers first."""
    epsilon = st.sampled_from([1.0, 0.1, 10.0, 1e-6, 1e-12, 50.0]) | st.floats(1e-12, 100.0)
    delta = st.sampled_from([0.0, 1e-5, 1e-12, 0.5, 1e-300]) | st.floats(0.0, 0.5)
    sensitivity = st.sampled_from([1.0, 0.5, 2.0, 1e-3, 1e6]) | st.floats(1e-6, 1e6)
    return st.builds(Parameters, epsilon, delta, sensitivity, st.integers(1, 64))


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf with its released value."""

    value: float


@dataclass(frozen=True, slots=True)
class Split:
    """An inner node: rows with ``row[feature] < threshold`` go left, all others (nan too) go right."""

    feature: int
    threshold: float
    left: Leaf | Split
    right: Leaf | Split


def trees(
    *, features: int = 2, depth: int = 3, thresholds: Sequence[float] = (0.0, 0.25, 0.5, 1.0)
) -> SearchStrategy[Leaf | Split]:
    """Small decision trees: single leaves, repeated thresholds (empty leaves), signed zeros and extreme leaf values."""
    if depth < 0 or features < 1 or not thresholds:
        raise ParameterError("depth", "be non-negative, with features and thresholds to split on", depth)
    value = st.sampled_from([0.0, 1.0, -1.0, -0.0, 1e-300, 1e30]) | st.floats(-10, 10)
    tree: SearchStrategy[Leaf | Split] = st.builds(Leaf, value)
    for _ in [None] * depth:
        split = st.builds(Split, st.integers(0, features - 1), st.sampled_from(list(thresholds)), tree, tree)
        tree = st.builds(Leaf, value) | split
    return tree


def _cell(low: float, high: float, edges: list[float], hostile: bool) -> SearchStrategy[float]:
    marks = [value for value in dict.fromkeys([low, high, *edges]) if math.isfinite(value)]
    beside = [math.nextafter(value, to) for value in marks for to in (-math.inf, math.inf)]
    inside = [value for value in [*marks, *beside] if hostile or low <= value <= high]
    finite = st.floats(max(low, -1e300), min(high, 1e300))
    special = st.sampled_from(inside)
    return special | finite | st.sampled_from(_HOSTILE) if hostile else special | finite


def _joined(blocks: list[list[Any]]) -> list[Any]:
    return list(itertools.chain.from_iterable(blocks))


def _tied(row: SearchStrategy[Any], most: int) -> SearchStrategy[list[Any]]:
    """Few distinct rows, repeated."""
    block = st.tuples(row, st.integers(1, max(1, most // 2))).map(lambda t: [t[0]] * t[1])
    return st.lists(block, min_size=1, max_size=2).map(_joined)


def _at_threshold(row: SearchStrategy[Any], count: int) -> SearchStrategy[list[Any]]:
    """A group of exactly ``count`` equal rows (one more, one less), beside another group."""
    size = st.sampled_from([max(1, count), count + 1, max(1, count - 1)])
    return st.tuples(row, size, row, size).map(lambda t: [t[0]] * t[1] + [t[2]] * t[3])
