"""A linear model first, then trees on what it leaves: one plan, one ledger.

Both parts are Gaussian releases. The linear one takes ``share`` of the squared parameter mu^2; its weights are
released before the first tree, so the scores that trees start from are a function of each record and of released
numbers. They are forced into a public range, which bounds the gradients that trees see.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.accounting import Plan
from ledgerwood.learners.data.labels import Labels
from ledgerwood.learners.data.table import Table
from ledgerwood.learners.linear.encoding import RowEncoder
from ledgerwood.learners.training.session import ReleaseSession
from ledgerwood.learners.trees.aggregator import SCORE_BITS

__all__ = ["LARGEST_START", "LinearStart", "start_scores"]

LARGEST_START = {"regression": 1, "classification": 4}
"""Start scores are forced into this many halves of the target's range, or log-odds."""


def start_scores(encoder: RowEncoder, table: Table, weights: NDArray[np.float64], task: str) -> NDArray[np.int32]:
    """Return the linear scores ``[outputs, rows]`` in steps of 2**-16, forced into the public range.

    Every operation is one of a record's own numbers, column after column, so a score does not depend on where the
    record stands.
    """
    most = float(LARGEST_START[task])
    scores = np.clip(encoder.scores(table, weights).T, -most, most)
    return np.rint(scores * (1 << SCORE_BITS)).astype(np.int32)


@dataclass(frozen=True)
class LinearStart:
    """A learner made of two: it trains like an estimator of this library, by the plan of the auto estimators.

    Parameters
    ----------
    linear, trees
        A boosted linear model and boosted trees, for the same task.
    share
        The part of mu^2 that the linear model takes.
    """

    linear: Any
    trees: Any
    share: float

    @property
    def parts(self) -> tuple[Any, Any]:
        """The two learners."""
        return self.linear, self.trees

    def _train(self, table: Table, labels: Labels, plan: Plan, session: ReleaseSession) -> Mapping[str, Any]:
        assert session.metadata is not None
        first = self.linear._train(table, labels, plan, session)
        session.always.update(first)  # an interrupted training keeps the linear part too
        scores = start_scores(first["encoder_"], table, first["weights_"], session.metadata.task)
        bound = LARGEST_START[session.metadata.task] << SCORE_BITS
        return {**first, **self.trees._train(table, labels, plan, session, scores, bound)}

    def _scores(self, table: Table) -> NDArray[np.float64]:
        """Return raw scores; a training that was stopped before the first tree leaves the linear ones."""
        first = start_scores(self.linear.encoder_, table, self.linear.weights_, self.linear._task)[0]
        scores = first / float(1 << SCORE_BITS)
        forest = getattr(self.trees, "forest_", None)
        return np.asarray(scores if forest is None else scores + forest.scores(table.values)[:, 0])

    def _values(self, table: Table) -> NDArray[np.float64]:
        low, high = self.linear.target_bounds_
        return np.asarray(np.clip((low + high) / 2 + self._scores(table) * ((high - low) / 2), low, high))

    def _probabilities(self, table: Table) -> NDArray[np.float64]:
        p = 1 / (1 + np.exp(np.clip(-self._scores(table), -700, 700)))  # no record's score makes numpy warn
        return np.stack([1 - p, p], axis=1)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return raw scores: above 0 means the second class."""
        return self._scores(self.linear._table(X))
