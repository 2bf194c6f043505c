"""Scores of all candidates of a level, in exact integers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .threads import RowThreads

__all__ = ["PENALTY_STEPS", "level_scores"]

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
    from ._kernels.scores import score_nodes

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
