"""Private boosted trees as scikit-learn estimators, which can also explain and export themselves."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ledgerwood.accounting import Plan
from ledgerwood.errors import ParameterError
from ledgerwood.learners.data.labels import Labels
from ledgerwood.learners.data.partitions import by_parts
from ledgerwood.learners.data.schema import Schema
from ledgerwood.learners.data.table import Table
from ledgerwood.learners.engines.partitioned import PartitionedEstimator, PartitionedTable
from ledgerwood.learners.training.codec import learner, require
from ledgerwood.learners.training.discovery import Unknown
from ledgerwood.learners.training.estimator import PrivateClassifierBase, PrivateRegressorBase, keep_parameters
from ledgerwood.learners.training.public_metadata import PublicMetadata
from ledgerwood.learners.training.session import ReleaseSession
from ledgerwood.learners.trees import explain, xgboost_json
from ledgerwood.learners.trees.aggregator import Aggregator
from ledgerwood.learners.trees.binning import domain_of, integer_labels
from ledgerwood.learners.trees.boosting import boost
from ledgerwood.learners.trees.forest import Forest
from ledgerwood.learners.trees.local_aggregator import LocalAggregator
from ledgerwood.learners.trees.partitioned import ReplayingAggregator, TreeParts, TreeRecords
from ledgerwood.learners.trees.plan import accounting_method, plan_of_trees, tree_settings
from ledgerwood.learners.trees.recipes import AutoChoice, choice_for
from ledgerwood.learners.trees.settings import TreeSettings

__all__ = ["PrivateBoostingClassifier", "PrivateBoostingRegressor"]


class TreeModelMixin:
    """Parameters that all estimators with a ``forest_`` share, and what they can do with it.

    Everything is made of released numbers and public metadata.
    """

    makes_trees = True

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
        keep_parameters(self, locals())

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """The part of each feature in the variance of the score (:mod:`ledgerwood.learners.trees.explain`)."""
        if "forest_" not in vars(self) or "encoder_" in vars(self):  # AttributeError: hasattr must say no
            raise AttributeError(f"this {type(self).__name__} is not fitted yet, or is not made of trees alone")
        return explain.importances(self)

    def rules(self, *, trees: int = 3, digits: int = 3) -> str:
        """Return the first trees as text."""
        return explain.rules(self, trees=trees, digits=digits)

    def plot_tree(self, tree: int = 0, *, output: int = 0) -> Any:
        """Draw one tree; returns a matplotlib figure."""
        return explain.plot_tree(self, tree, output=output)

    def plot_shapes(self, *, features: int = 6, output: int = 0, interactions: str = "refuse") -> Any:
        """Draw the shapes of single-feature trees with noise bands; returns a matplotlib figure."""
        return explain.plot_shapes(self, features=features, output=output, interactions=interactions)

    def to_xgboost(self, path: str | os.PathLike[str]) -> None:
        """Write the model as XGBoost JSON; feed ``xgboost.Booster(model_file=path)`` with :meth:`encode`'s matrix."""
        xgboost_json.to_xgboost(self, path)

    def encode(self, X: Any) -> NDArray[np.float32]:
        """Return X as the exported model reads it: clipped numbers, codes of categories, nan for missing."""
        return xgboost_json.encoded(self, X)


_COMPONENTS = (
    "n_trees", "max_depth", "candidates", "n_bins", "split", "structure", "leaf", "features", "features_per_tree",
    "batch", "rows", "loss", "missing", "learning_rate", "leaf_clip", "l2", "ridge", "gradient_clip",
    "min_child_weight", "sketch_rounds", "sketch_features", "shares", "accounting", "shrink", "interactions",
    "interaction_order", "interaction_depth",
)  # fmt: skip


class _PrivateBoosting(TreeModelMixin, PartitionedEstimator):
    """What classifier and regressor share: settings from parameters, plan from settings, training on an aggregator."""

    recipe: str

    def __init__(
        self,
        *,
        recipe: str = "auto",
        n_trees: int | None = None,
        max_depth: int | None = None,
        epsilon: float = 1.0,
        delta: float | None = None,
        schema: Schema | str | None = None,
        candidates: str | None = None,
        n_bins: int | None = None,
        split: str | None = None,
        structure: str | None = None,
        leaf: str | None = None,
        features: str | None = None,
        features_per_tree: int | None = None,
        batch: int | float | None = None,
        rows: float | None = None,
        loss: str | None = None,
        missing: str | None = None,
        learning_rate: float | None = None,
        leaf_clip: float | None = None,
        l2: float | None = None,
        ridge: float | None = None,
        gradient_clip: float | None = None,
        min_child_weight: float | None = None,
        sketch_rounds: int | None = None,
        sketch_features: str | None = None,
        shares: tuple[float, float, float] | None = None,
        accounting: str | None = None,
        shrink: float | None = None,
        interactions: float | None = None,
        interaction_order: int | None = None,
        interaction_depth: int | None = None,
        n_threads: int | None = None,
        engine: Any = None,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
        allow_leak: bool = False,
    ) -> None:
        keep_parameters(self, locals())

    def _check_stored(self) -> None:
        super()._check_stored()
        require("settings_" not in vars(self) or isinstance(vars(self).get("forest_"), Forest), "forest_ is missing")

    # ---- plan

    def _settings_for(self, metadata: PublicMetadata) -> TreeSettings:
        """Return the settings of a training: the recipe's, those given, and what the task implies."""
        given = {name: getattr(self, name) for name in _COMPONENTS if getattr(self, name) is not None}
        if isinstance(given.get("shares"), list):
            given["shares"] = tuple(given["shares"])
        return tree_settings(self.recipe, metadata, **given)

    def explain_choice(self, X: Any = None, y: Any = None) -> AutoChoice:
        """Return what ``recipe="auto"`` chose and why, for the fitted model or for the metadata of ``X`` and ``y``.

        It prints as a text. Nothing is spent: the rule sees how many rows and features there are, the task, the
        budget. Settings given by hand replace the chosen ones.
        """
        if self.recipe != "auto":
            raise ParameterError("recipe", "be auto to have a choice explained", self.recipe)
        if X is None:
            check_is_fitted(self, "choice_")
            found: AutoChoice = self.choice_
            return found
        return choice_for(self.public_metadata(X, y))

    def _accounting(self, metadata: PublicMetadata) -> str | None:
        method = accounting_method(self._settings_for(metadata))
        if method == "pure" and Unknown.of(metadata):
            rule = "be 'tight' where bounds or categories are learned: the paper adds pure epsilons, they have none"
            raise ParameterError("accounting", rule, "paper", "Declare them in the schema")
        return method

    def _plan(self, metadata: PublicMetadata) -> Plan:
        return plan_of_trees(self._settings_for(metadata), metadata)

    # ---- train

    def _aggregator(
        self, table: Table, labels: Labels, settings: TreeSettings, start_scores: NDArray[np.int32] | None
    ) -> Aggregator:
        if isinstance(table, PartitionedTable):
            about = settings, labels.classes, labels.bounds
            records = [
                TreeRecords(p, first, table.columns, table.target, *about, rows) for p, first, rows in table.parts()
            ]
            return TreeParts(self._engine.sums(records), len(table.columns))
        return LocalAggregator(
            table.values, integer_labels(labels, settings), n_threads=self.n_threads, numbers=table.numbers,
            start_scores=start_scores,
        )  # fmt: skip

    def _follows_paper(self) -> bool:
        return vars(self).get("accounting") == "paper"

    def _train(
        self,
        table: Table,
        labels: Labels,
        plan: Plan,
        session: ReleaseSession,
        start_scores: NDArray[np.int32] | None = None,
        start_bound: int = 0,
    ) -> Mapping[str, Any]:
        assert session.metadata is not None
        settings = self._settings_for(session.metadata)
        fixed: dict[str, Any] = {"settings_": settings}
        if self.recipe == "auto":
            fixed["choice_"] = choice_for(session.metadata)
        if labels.bounds is not None:
            fixed["target_bounds_"] = labels.bounds

        def keep(forest: Forest) -> None:
            session.keep({**fixed, "forest_": forest})

        def opened() -> Aggregator:
            return self._aggregator(table, labels, settings, start_scores)

        # What is wrong with the records must show before anything is spent, so only a resumed training opens them late.
        recalling = session.recalling
        aggregator = ReplayingAggregator(opened, len(table.columns), session) if recalling else opened()
        forest = boost(
            settings,
            domain_of(table.columns),
            aggregator,
            session,
            plan,
            rng=session.generator(),
            keep=keep,
            max_rows_per_unit=session.max_rows_per_unit,
            start_bound=start_bound,
        )
        return {**fixed, "forest_": forest}


@learner
class PrivateBoostingClassifier(_PrivateBoosting, PrivateClassifierBase):
    """Differentially private boosted trees for two or more classes.

    Parameters
    ----------
    recipe
        A named method (:func:`ledgerwood.learners.recipes`), or ``auto``: settings chosen from public metadata, see
        :meth:`explain_choice`.
    n_trees, max_depth, candidates, n_bins, split, structure, leaf, features, features_per_tree, batch, rows, loss, \
missing, learning_rate, leaf_clip, l2, ridge, gradient_clip, min_child_weight, sketch_rounds, sketch_features, shares, \
accounting, shrink, interactions, interaction_order, interaction_depth
        Components and hyper-parameters (:class:`~.settings.TreeSettings`); None takes the recipe's.
    epsilon, delta
        The budget; ``delta=None`` is 1e-6, or a tenth of 1/n if that is less.
    schema
        Public metadata: bounds, categories, classes, the neighbouring relation, the privacy unit. What is not declared
        is learned privately and charged to the budget.
    n_threads
        Threads for the sums; all processors by default. The result does not depend on it.
    engine
        Where the sums are taken when X is a table in parts (a Parquet file or folder, an Arrow dataset, a Dask frame or
        array, :class:`~ledgerwood.learners.engines.Partitions`): ``"out_of_core"`` (default) on this machine, part by
        part, or :class:`~ledgerwood.learners.engines.DaskEngine`. The result does not depend on it. ``y`` is then the
        name of the target column (a Dask array beside a Dask array), and the schema declares every column.
    random_state
        For tests only: a seeded fit is reproducible and not private.
    verbose, callbacks, allow_leak
        As in every private estimator.

    Attributes
    ----------
    forest_
        The released trees.
    plan_, receipt_, classes_
        The plan that was spent, a frozen copy of the journal, the classes.

    Examples
    --------
    >>> import numpy as np
    >>> from ledgerwood.learners import PrivateBoostingClassifier, Schema
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(2000, 2))
    >>> y = (X[:, 0] > 0.5).astype(int)
    >>> schema = Schema(bounds={0: (0, 1), 1: (0, 1)}, classes=[0, 1])
    >>> model = PrivateBoostingClassifier(n_trees=20, epsilon=2.0, delta=1e-5, schema=schema).fit(X, y)
    >>> bool(model.score(X, y) > 0.8)
    True
    """

    forest_: Forest

    def _probabilities(self, table: Table) -> NDArray[np.float64]:
        return self.forest_.probabilities(table.values)

    @by_parts
    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return raw scores: one for two classes, else one for each class."""
        table = self._table(X)  # says so if the model is not fitted
        raw = self.forest_.scores(table.values)
        return raw[:, 0] if raw.shape[1] == 1 else raw


@learner
class PrivateBoostingRegressor(_PrivateBoosting, PrivateRegressorBase):
    """Differentially private boosted trees for a number with public bounds.

    Parameters are those of :class:`PrivateBoostingClassifier`; the loss is the squared one, with gradients clipped to
    ``gradient_clip`` halves of the target's range. Declare ``Schema(target_bounds=(low, high))``.

    Examples
    --------
    >>> import numpy as np
    >>> from ledgerwood.learners import PrivateBoostingRegressor, Schema
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(4000, 2))
    >>> schema = Schema(bounds={0: (0, 1), 1: (0, 1)}, target_bounds=(0, 1))
    >>> model = PrivateBoostingRegressor(n_trees=40, epsilon=4.0, delta=1e-5, schema=schema).fit(X, X[:, 0])
    >>> bool(np.abs(model.predict(X) - X[:, 0]).mean() < 0.2)
    True
    """

    forest_: Forest

    def _values(self, table: Table) -> NDArray[np.float64]:
        low, high = self.target_bounds_
        raw = self.forest_.scores(table.values)[:, 0]
        return np.asarray(np.clip((low + high) / 2 + raw * ((high - low) / 2), low, high))
