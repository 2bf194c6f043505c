"""Private boosted trees as scikit-learn estimators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ledgerwood.accounting import Plan
from ledgerwood.errors import ParameterError
from ledgerwood.learners.auto import Choice, choice_for
from ledgerwood.learners.base import PrivateClassifierBase, PrivateRegressorBase
from ledgerwood.learners.discovery import Unknown
from ledgerwood.learners.door import Door
from ledgerwood.learners.engines.estimator import PartedEstimator
from ledgerwood.learners.engines.parted import PartedTable
from ledgerwood.learners.engines.predicting import by_parts
from ledgerwood.learners.engines.resting import RestingAggregator
from ledgerwood.learners.facts import PublicFacts
from ledgerwood.learners.planning import plan_of_trees, tree_settings
from ledgerwood.learners.schema import Schema
from ledgerwood.learners.tables import Labels, Table
from ledgerwood.learners.tree_model import TreeModelMixin
from ledgerwood.learners.trees.boost import boost
from ledgerwood.learners.trees.candidates import Domain
from ledgerwood.learners.trees.forest import Forest
from ledgerwood.learners.trees.plan import accounting_method
from ledgerwood.learners.trees.seam import SCORE_BITS, Aggregator
from ledgerwood.learners.trees.settings import Settings

__all__ = ["PrivateBoostingClassifier", "PrivateBoostingRegressor"]

_COMPONENTS = (
    "n_trees", "max_depth", "candidates", "n_bins", "split", "structure", "leaf", "features", "features_per_tree",
    "batch", "rows", "loss", "missing", "learning_rate", "leaf_clip", "l2", "ridge", "gradient_clip",
    "min_child_weight", "sketch_rounds", "sketch_features", "shares", "accounting", "shrink", "interactions",
    "interaction_order", "interaction_depth",
)  # fmt: skip


class _PrivateBoosting(TreeModelMixin, PartedEstimator):
    """What classifier and regressor share: settings from parameters, plan from settings, training on an aggregator."""

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
        super().__init__(
            epsilon=epsilon, delta=delta, schema=schema, n_threads=n_threads, random_state=random_state,
            verbose=verbose, callbacks=callbacks, allow_leak=allow_leak,
        )  # fmt: skip
        self.recipe = recipe
        self.n_trees = n_trees
        self.max_depth = max_depth
        self.candidates = candidates
        self.n_bins = n_bins
        self.split = split
        self.structure = structure
        self.leaf = leaf
        self.features = features
        self.features_per_tree = features_per_tree
        self.batch = batch
        self.rows = rows
        self.loss = loss
        self.missing = missing
        self.learning_rate = learning_rate
        self.leaf_clip = leaf_clip
        self.l2 = l2
        self.ridge = ridge
        self.gradient_clip = gradient_clip
        self.min_child_weight = min_child_weight
        self.sketch_rounds = sketch_rounds
        self.sketch_features = sketch_features
        self.shares = shares
        self.accounting = accounting
        self.shrink = shrink
        self.interactions = interactions
        self.interaction_order = interaction_order
        self.interaction_depth = interaction_depth
        self.engine = engine

    # ---- plan

    def _settings_for(self, facts: PublicFacts) -> Settings:
        """Return the settings of a training: the recipe's, those given, and what the task implies."""
        given = {name: getattr(self, name) for name in _COMPONENTS if getattr(self, name) is not None}
        if isinstance(given.get("shares"), list):
            given["shares"] = tuple(given["shares"])
        return tree_settings(self.recipe, facts, **given)

    def explain_choice(self, X: Any = None, y: Any = None) -> Choice:
        """Return what ``recipe="auto"`` chose and why: of the fitted model, or for the public facts of ``X`` and ``y``.

        It prints as a text. Nothing is spent: the rule sees how many rows and features there are, the task, the
        budget. Settings given by hand replace the chosen ones.
        """
        if self.recipe != "auto":
            raise ParameterError("recipe", "be auto to have a choice explained", self.recipe)
        if X is None:
            check_is_fitted(self, "choice_")
            found: Choice = self.choice_
            return found
        return choice_for(self.public_facts(X, y))

    def _accounting(self, facts: PublicFacts) -> str | None:
        method = accounting_method(self._settings_for(facts))
        if method == "pure" and Unknown.of(facts):
            rule = "be 'tight' where bounds or categories are learned: the paper adds pure epsilons, they have none"
            raise ParameterError("accounting", rule, "paper", "Declare them in the schema")
        return method

    def _plan(self, facts: PublicFacts) -> Plan:
        return plan_of_trees(self._settings_for(facts), facts)

    # ---- train

    def _aggregator(
        self, table: Table, labels: Labels, settings: Settings, start_scores: NDArray[np.int32] | None
    ) -> Aggregator:
        if isinstance(table, PartedTable):
            from ledgerwood.learners.engines.sums import TreeParts, TreeRecords

            about = settings, labels.classes, labels.bounds
            records = [
                TreeRecords(p, first, table.columns, table.target, *about, rows) for p, first, rows in table.parts()
            ]
            return TreeParts(self._engine.sums(records), len(table.columns))
        from ledgerwood.learners.trees.local import LocalAggregator

        return LocalAggregator(
            table.cells, integer_labels(labels, settings), n_threads=self.n_threads, numbers=table.numbers,
            start_scores=start_scores,
        )  # fmt: skip

    def _train(
        self,
        table: Table,
        labels: Labels,
        plan: Plan,
        door: Door,
        start_scores: NDArray[np.int32] | None = None,
        start_bound: int = 0,
    ) -> Mapping[str, Any]:
        assert door.facts is not None
        settings = self._settings_for(door.facts)
        fixed: dict[str, Any] = {"settings_": settings}
        if self.recipe == "auto":
            fixed["choice_"] = choice_for(door.facts)
        if labels.bounds is not None:
            fixed["target_bounds_"] = labels.bounds

        def keep(forest: Forest) -> None:
            door.keep({**fixed, "forest_": forest})

        aggregator = RestingAggregator(
            lambda: self._aggregator(table, labels, settings, start_scores), len(table.columns), lambda: door.recalling
        )
        forest = boost(
            settings,
            domain_of(table),
            aggregator,
            door,
            plan,
            rng=door.generator(),
            keep=keep,
            rows_per_unit=door.rows_per_unit,
            start_bound=start_bound,
        )
        return {**fixed, "forest_": forest}


class PrivateBoostingClassifier(_PrivateBoosting, PrivateClassifierBase):
    """Differentially private boosted trees for two or more classes.

    Parameters
    ----------
    recipe
        A named method (:func:`ledgerwood.learners.recipes`), or ``auto``: settings chosen from public facts, see
        :meth:`explain_choice`.
    n_trees, max_depth, candidates, n_bins, split, structure, leaf, features, features_per_tree, batch, rows, loss, \
missing, learning_rate, leaf_clip, l2, ridge, gradient_clip, min_child_weight, sketch_rounds, sketch_features, shares, \
accounting, shrink, interactions, interaction_order, interaction_depth
        Components and hyper-parameters (:class:`ledgerwood.learners.trees.settings.Settings`); None takes the recipe's.
    epsilon, delta
        The budget; ``delta=None`` is 1e-6, or a tenth of 1/n if that is less.
    schema
        Public facts: bounds, categories, classes, the neighbouring relation, the unit of privacy. What is not declared
        is learned privately out of the budget.
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
        return self.forest_.probabilities(table.cells)

    @by_parts
    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return raw scores: one for two classes, else one for each class."""
        table = self._table(X)  # says so if the model is not fitted
        raw = self.forest_.scores(table.cells)
        return raw[:, 0] if raw.shape[1] == 1 else raw


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
        raw = self.forest_.scores(table.cells)[:, 0]
        return np.asarray(np.clip((low + high) / 2 + raw * ((high - low) / 2), low, high))


def domain_of(table: Table) -> Domain:
    """Return what the columns of a table may hold."""
    numbers = [column.bounds or (0.0, 0.0) for column in table.columns]
    counts = [len(column.categories or ()) if column.kind == "category" else 0 for column in table.columns]
    return Domain(tuple((float(low), float(high)) for low, high in numbers), tuple(counts))


def integer_labels(labels: Labels, settings: Settings) -> NDArray[np.int32]:
    """Return labels as the task reads them: class codes, or numbers scaled to [-1, 1] in steps of 2**-16."""
    one = 1 << SCORE_BITS
    if labels.bounds is not None:
        low, high = labels.bounds
        half = (high - low) / 2
        scaled = (labels.values - (low + high) / 2) / half if half > 0 else np.zeros(len(labels.values))
        return np.rint(np.clip(scaled, -1.0, 1.0) * one).astype(np.int32)
    if settings.loss == "squared":
        return np.where(labels.values == 1, one, -one).astype(np.int32)
    return labels.values.astype(np.int32)
