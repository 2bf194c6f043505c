"""The sums of a linear learner over several parts of the data, added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ledgerwood.learners.linear.aggregator import LinearSums
from ledgerwood.learners.linear.loss import LinearLoss

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SumOfParts:
    """The same queries to several parts of the data: integer sums are added, so the answer has the same bits."""

    parts: Sequence[LinearSums]

    @property
    def columns(self) -> int:
        """Number of columns, the intercept included."""
        return self.parts[0].columns

    def gram(self) -> Ints:
        """Add the parts' answers."""
        return np.asarray(sum(part.gram() for part in self.parts))

    def gradient_sum(self, loss: LinearLoss, weights: Ints, clip: int) -> Ints:
        """Add the parts' answers."""
        return np.asarray(sum(part.gradient_sum(loss, weights, clip) for part in self.parts))
