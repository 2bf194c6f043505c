"""A recipe as a black box for the auditor: train on a handful of rows, show every number that the model holds.

>>> import numpy as np
>>> training = RecipeTraining("tr", epsilon=1.0, delta=1e-3)
>>> training(training.pair[0], np.random.default_rng(1)).shape
(6,)
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.errors import LedgerwoodWarning
from ledgerwood.verification.report import Subject

Rows = list[list[float]]

#: Seven equal records, and one that is unlike them in every way: no other record moves the sums by more.
_COMMON, _ODD = [0.1, 0.1, 0.0], [0.9, 0.9, 1.0]


@dataclass(frozen=True)
class RecipeTraining:
    """Trainings of a recipe on two columns with values in [0, 1] and a label, from seeds that the auditor gives."""

    recipe: str
    epsilon: float = 1.0
    delta: float = 1e-3
    trees: int = 1
    depth: int = 1

    @property
    def pair(self) -> tuple[Rows, Rows]:
        """Two neighbouring tables: with and without the odd record."""
        return [*[_COMMON] * 7, _ODD], [_COMMON] * 7

    @cached_property
    def model(self) -> Any:
        """The estimator that is trained over and over."""
        from ledgerwood.learners import PrivateBoostingClassifier, Schema

        schema = Schema(bounds={0: (0, 1), 1: (0, 1)}, classes=[0, 1], rows=8)
        return PrivateBoostingClassifier(
            recipe=self.recipe,
            n_trees=self.trees,
            max_depth=self.depth,
            epsilon=self.epsilon,
            delta=self.delta,
            schema=schema,
            n_threads=1,
        )

    @property
    def subject(self) -> Subject:
        """What such an audit is about."""
        return Subject.of(self.model)

    def claim(self) -> Any:
        """What the plan of such a training costs."""
        X, y = _table(self.pair[0])
        return self.model.plan(X, y).cost

    def __call__(self, data: Rows, rng: np.random.Generator) -> NDArray[np.float64]:
        """Train once; return the splits, the leaf weights and the released masses."""
        X, y = _table(data)
        self.model.set_params(random_state=int(rng.integers(2**31 - 1)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LedgerwoodWarning)  # seeded and untracked on purpose: the rows are made up
            forest = self.model.fit(X, y).forest_
        numbers = []
        for tree in forest.trees:
            numbers += [tree.structure.feature, tree.structure.left.sum(axis=1), tree.weights]
            numbers += [tree.mass] if tree.mass is not None else []
        return np.concatenate([np.asarray(part, dtype=np.float64).ravel() for part in numbers])


def _table(rows: Rows) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    table = np.array(rows)
    return table[:, :2], table[:, 2].astype(np.int64)
