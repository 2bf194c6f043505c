"""Scores of new records: the records are held by an aggregator, trees are added, scores are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.learners.trees.forest import plain_scores

if TYPE_CHECKING:
    from ledgerwood.learners.trees.forest import Forest

__all__ = ["forest_scores"]


def forest_scores(forest: Forest, columns: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
    """Return raw scores ``[rows, outputs]``."""
    return plain_scores(forest, columns)
