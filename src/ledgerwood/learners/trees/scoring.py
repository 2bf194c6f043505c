"""Scores of new records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.learners.trees.predict import Predictor
from ledgerwood.learners.trees.seam import SCORE_BITS

if TYPE_CHECKING:
    from ledgerwood.learners.trees.forest import Forest

__all__ = ["forest_scores"]


def forest_scores(forest: Forest, columns: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
    """Return raw scores ``[rows, outputs]``: the same bits as :func:`ledgerwood.learners.trees.forest.plain_scores`."""
    phases = []
    for phase, edges in enumerate(forest.edges):
        phases.append((edges, [tree for tree, own in zip(forest.trees, forest.phase) if own == phase]))
    return Predictor(phases, forest.n_outputs).scores(columns).T / float(1 << SCORE_BITS)
