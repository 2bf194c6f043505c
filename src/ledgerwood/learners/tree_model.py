"""What a model of trees can do besides predict: explain itself, and travel."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ledgerwood.errors import ParameterError
from ledgerwood.learners.schema import Schema
from ledgerwood.learners.trees.forest import Forest


def forest_of(model: Any) -> Forest:
    """Return the trees of a fitted model that consists of trees alone."""
    if isinstance(model, TreeModelMixin):
        check_is_fitted(model, "receipt_")
    forest = getattr(model, "forest_", None)
    if not isinstance(forest, Forest) or hasattr(model, "encoder_"):
        raise ParameterError(
            "model", "be a fitted model of trees alone", type(model).__name__,
            "The front door may choose a linear model, or trees that start from one; PrivateBoostingClassifier and "
            "PrivateBoostingRegressor are always trees",
        )  # fmt: skip
    return forest


class TreeModelMixin:
    """Parameters that all estimators with a ``forest_`` share, and what they can do with it.

    Everything is made of released numbers and public facts.
    """

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float | None = None,
        schema: Schema | str | None = None,
        n_threads: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
        allow_leak: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.n_threads = n_threads
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks
        self.allow_leak = allow_leak

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """The part of each feature in the variance of the score (:mod:`ledgerwood.learners.explain`)."""
        if "forest_" not in vars(self) or "encoder_" in vars(self):  # AttributeError: hasattr must say no
            raise AttributeError(f"this {type(self).__name__} is not fitted yet, or is not made of trees alone")
        from ledgerwood.learners.explain import importances

        return importances(self)

    def rules(self, *, trees: int = 3, digits: int = 3) -> str:
        """Return the first trees as text."""
        from ledgerwood.learners.explain import rules

        return rules(self, trees=trees, digits=digits)

    def plot_tree(self, tree: int = 0, *, output: int = 0) -> Any:
        """Draw one tree; returns a matplotlib figure."""
        from ledgerwood.learners.explain import plot_tree

        return plot_tree(self, tree, output=output)

    def plot_shapes(self, *, features: int = 6, output: int = 0, interactions: str = "refuse") -> Any:
        """Draw the shapes of single-feature trees with noise bands; returns a matplotlib figure."""
        from ledgerwood.learners.explain import plot_shapes

        return plot_shapes(self, features=features, output=output, interactions=interactions)

    def to_xgboost(self, path: str | os.PathLike[str]) -> None:
        """Write the model as XGBoost JSON; feed ``xgboost.Booster(model_file=path)`` with :meth:`encode`'s matrix."""
        from ledgerwood.learners.interchange import to_xgboost

        to_xgboost(self, path)

    def encode(self, X: Any) -> NDArray[np.float32]:
        """Return X as the exported model reads it: clipped numbers, codes of categories, nan for missing."""
        from ledgerwood.learners.interchange import encoded

        return encoded(self, X)
