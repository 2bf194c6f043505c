"""From public metadata to the plan of a training: the estimators and the calculator use this, so they cannot differ.

>>> plan = plan_training(n_rows=32561, n_features=14, epsilon=1.0, delta=3e-5)
>>> [(release.label, release.times) for release in plan.releases()]
[('cross products', 1), ('gradients', 10), ('leaf', 367)]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ledgerwood.accounting import Plan, Release
from ledgerwood.errors import ParameterError
from ledgerwood.learners.auto.rule import choice_of_learner
from ledgerwood.learners.data.columns import Column
from ledgerwood.learners.linear.integer_rows import MAX_ROWS
from ledgerwood.learners.linear.loss import loss_named
from ledgerwood.learners.linear.plan import LinearSettings as LinearSettings
from ledgerwood.learners.linear.plan import automatic_loss, automatic_rounds, automatic_shares, plan_linear
from ledgerwood.learners.training.discovery import whole_plan
from ledgerwood.learners.training.public_metadata import PublicMetadata, RowCount, check_rows
from ledgerwood.learners.trees.plan import AUTO, LINEAR, accounting_method, outline, plan_of_trees, tree_settings
from ledgerwood.learners.trees.recipes import AutoChoice
from ledgerwood.learners.trees.settings import TreeSettings

__all__ = ["PlannedTraining", "declared_metadata", "plan_of_choice", "plan_training", "training_of"]


def _shared(plan: Plan, share: float) -> list[Release]:
    """Return the releases with shares that add up to ``share``."""
    releases = list(plan.releases())
    total = sum(release.share or 0.0 for release in releases)
    return [release.with_share(share * (release.share or 0.0) / total) for release in releases]


def plan_of_choice(choice: AutoChoice, metadata: PublicMetadata) -> Plan:
    """Return what the auto estimators release: a linear model's plan, that of trees, or one after the other."""
    if choice.linear is None:
        assert choice.settings is not None
        return plan_of_trees(choice.settings, metadata)
    linear = _plan_of_linear(metadata, dict(choice.linear).get("n_rounds"))
    if choice.settings is None:
        return linear
    trees = outline(choice.settings, metadata.n_features)
    releases = [*_shared(linear, choice.linear_share), *_shared(trees, 1 - choice.linear_share)]
    return Plan(releases, neighbours=trees.neighbours)


def _plan_of_linear(metadata: PublicMetadata, rounds: int | None = None) -> Plan:
    """Return the plan of a boosted linear model; its default number of rounds if none is given."""
    if metadata.count.source != "released":  # a noisy count says nothing about overflow
        check_rows(metadata.rows, MAX_ROWS)
    rounds = automatic_rounds(metadata) if rounds is None else rounds
    loss = loss_named(automatic_loss(metadata.task))
    return plan_linear(LinearSettings(loss, rounds, automatic_shares(rounds)), metadata.neighbours)


# ---- a training that has not happened yet


@dataclass(frozen=True, slots=True)
class PlannedTraining:
    """What a training would be: its public metadata; the rule's choice and the trees' settings, if there are any."""

    metadata: PublicMetadata
    choice: AutoChoice | None
    settings: TreeSettings | None

    def plan(self, method: str | None = None) -> Plan:
        """Return the calibrated plan, by the tightest certified accountant or by one method."""
        if self.choice is not None:
            return whole_plan(plan_of_choice(self.choice, self.metadata), self.metadata, method)
        if self.settings is None:
            return whole_plan(_plan_of_linear(self.metadata), self.metadata, method)
        method = method or accounting_method(self.settings)
        return whole_plan(plan_of_trees(self.settings, self.metadata, method), self.metadata, method)


def training_of(recipe: str, metadata: PublicMetadata, **options: Any) -> PlannedTraining:
    """Return the training that a recipe stands for.

    ``"auto"`` without options is an auto estimator: :class:`~ledgerwood.learners.PrivateClassifier` or
    :class:`~ledgerwood.learners.PrivateRegressor`. ``"linear"`` is the boosted linear model with its defaults.
    Everything else is :class:`~ledgerwood.learners.PrivateBoostingClassifier` or its regressor.
    """
    if recipe == LINEAR:
        for name, value in options.items():
            raise ParameterError(name, "be left out: a linear model has no trees", value)
        return PlannedTraining(metadata, None, None)
    if recipe == AUTO and not options:
        choice = choice_of_learner(metadata)
        return PlannedTraining(metadata, choice, choice.settings)
    return PlannedTraining(metadata, None, tree_settings(recipe, metadata, **options))


def declared_metadata(
    *,
    n_rows: int,
    n_features: int,
    epsilon: float,
    delta: float,
    n_categories: int = 0,
    n_classes: int | None = 2,
    n_learned: int = 0,
    neighbours: str = "add_remove",
    max_rows_per_unit: int = 1,
) -> PublicMetadata:
    """Return the metadata of a table that is known by its size only; parameters as in :func:`plan_training`."""
    regression = n_classes is None
    numbers = n_features - n_categories
    if not 0 <= n_categories <= n_features:
        raise ParameterError("n_categories", f"lie between 0 and the number of features, {n_features}", n_categories)
    if not 0 <= n_learned <= numbers + regression:
        rule = f"lie between 0 and {numbers + regression}, the columns of numbers"
        raise ParameterError("n_learned", rule, n_learned)
    # The target of a regression is learned last: how many columns are, not which, decides the plan.
    columns = [Column(i, "number", None if i < n_learned else (0.0, 1.0)) for i in range(numbers)]
    columns += [Column(numbers + i, "category", categories=(0, 1)) for i in range(n_categories)]
    return PublicMetadata(
        tuple(columns), "regression" if regression else "classification", RowCount(n_rows), float(epsilon),
        float(delta),
        neighbours, None if n_classes is None else tuple(range(n_classes)),
        (-1.0, 1.0) if regression and n_learned <= numbers else None, max_rows_per_unit,
    )  # fmt: skip


def plan_training(
    recipe: str = AUTO,
    *,
    n_rows: int,
    n_features: int,
    epsilon: float,
    delta: float,
    n_categories: int = 0,
    n_classes: int | None = 2,
    n_learned: int = 0,
    neighbours: str = "add_remove",
    max_rows_per_unit: int = 1,
    method: str | None = None,
    **options: Any,
) -> Plan:
    """Return the plan of a training from the size of a table: what the estimator will spend, to the last digit.

    Parameters
    ----------
    recipe
        ``"auto"`` (the auto estimators; boosted trees if options are given), ``"linear"``, or a recipe for trees.
    n_rows, n_features, epsilon, delta
        The public size of the table and the target.
    n_categories
        How many of the features are categories; the others are numbers.
    n_classes
        The number of classes, None for regression.
    n_learned
        How many columns of numbers, the target of a regression among them, have no public bounds: they are learned.
    neighbours, max_rows_per_unit
        The relation, and how many rows a privacy unit may have.
    method
        The accounting method that calibrates; by default the tightest certified one.
    **options
        Settings of the trees, such as ``n_trees=200``.

    Examples
    --------
    >>> plan = plan_training("xgb", n_rows=32561, n_features=14, epsilon=1.0, delta=3e-5, n_trees=20, max_depth=3)
    >>> [(release.label, release.times) for release in plan.releases()]
    [('split', 60), ('leaf', 20)]
    """
    metadata = declared_metadata(
        n_rows=n_rows, n_features=n_features, epsilon=epsilon, delta=delta, n_categories=n_categories,
        n_classes=n_classes, n_learned=n_learned, neighbours=neighbours, max_rows_per_unit=max_rows_per_unit,
    )  # fmt: skip
    return training_of(recipe, metadata, **options).plan(method)
