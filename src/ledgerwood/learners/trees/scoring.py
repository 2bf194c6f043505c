"""Scores of new records by a forest."""

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
    """Return raw scores ``[rows, outputs]``."""
    trees = [
        [tree for tree, own in zip(forest.trees, forest.phase) if own == phase] for phase in range(len(forest.edges))
    ]
    scores = Predictor(list(zip(forest.edges, trees)), forest.n_outputs).scores(columns)
    return scores.T / float(1 << SCORE_BITS)
