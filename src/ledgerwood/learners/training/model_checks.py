"""Is a model read from a file one that could have been trained? Compiled code relies on it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ledgerwood.accounting import Plan
from ledgerwood.accounting.costs import serialization
from ledgerwood.learners.data.columns import MOST_CATEGORIES, Column
from ledgerwood.learners.data.schema import is_scalar
from ledgerwood.learners.training.codec import check_values, require
from ledgerwood.learners.training.statement import PrivacyStatement, Receipt, search_plan

MOST_COSTS, MOST_NUMBERS, MOST_RUNS = 64, 10_000, 10**6
"""What a model's plan may have: costs, which take up to seconds each to price, numbers in them, and runs."""

LARGEST_SENSITIVITY, LARGEST_SAMPLED_LOSS = 10_000, 30.0
"""Discrete noise is priced step by step of its sensitivity, a sampled release on a grid that grows with its loss."""


def check_model(model: Any) -> None:
    """Raise :class:`FormatError` if a fitted model breaks its own rules."""
    fitted = {name: value for name, value in vars(model).items() if name.endswith("_")}
    for name, kind in (("plan_", Plan), ("statement_", PrivacyStatement), ("receipt_", Receipt), ("columns_", tuple)):
        require(isinstance(fitted.get(name), kind), f"{name} is missing")
    columns = fitted["columns_"]
    require(bool(columns) and all(isinstance(column, Column) for column in columns), "columns_ holds no columns")
    for column in columns:
        _check_column(column)
    require(fitted.get("n_features_in_") == len(columns), "the number of features is not that of the columns")
    names = fitted.get("feature_names_in_")
    if names is not None:
        require(
            isinstance(names, np.ndarray) and names.shape == (len(columns),), "feature_names_in_ has another length"
        )
        model.feature_names_in_ = names.astype(object)
    if fitted["statement_"].search is not None and "search" not in {run.label for run in fitted["plan_"].runs()}:
        model.plan_ = fitted["plan_"] = _plan_of_search(fitted["statement_"])
    _check_guarantee(fitted["statement_"], fitted["plan_"], fitted["receipt_"])
    if model._task == "classification":
        classes = fitted.get("classes_")
        require(isinstance(classes, np.ndarray) and classes.ndim == 1 and len(classes) > 0, "classes_ is not a vector")
    else:
        bounds = fitted.get("target_bounds_")
        require(isinstance(bounds, tuple) and len(bounds) == 2, "target_bounds_ is not a pair")
        require(
            all(isinstance(end, float) and math.isfinite(end) for end in bounds or ()), "target_bounds_ is not a pair"
        )
        assert isinstance(bounds, tuple)
        require(bounds[0] < bounds[1], "target_bounds_ is not a pair")
    check_values(fitted)


def _check_column(column: Column) -> None:
    if column.kind == "number":
        low, high = column.bounds or (1.0, 0.0)
        require(math.isfinite(low) and math.isfinite(high) and low <= high, "a column has no bounds")
        require(column.categories is None, "a column of numbers has categories")
    else:
        require(column.categories is not None and len(column.categories) <= MOST_CATEGORIES, "too many categories")
        require(all(map(is_scalar, column.categories or ())), "a category is not a string or number")
        require(column.bounds is None, "a column of categories has bounds")


def _check_guarantee(statement: PrivacyStatement, plan: Plan, receipt: Receipt) -> None:
    require(plan.is_calibrated and plan.epsilon is not None and plan.delta is not None, "its plan has no noise")
    require(statement.receipt == receipt, "the statement is about other releases")
    _check_price(plan)
    require(plan.is_within_target(), "its plan costs more than it states")
    assert plan.epsilon is not None and plan.delta is not None
    require(statement.epsilon >= plan.epsilon, "the statement says less than the plan costs")
    require(statement.delta >= plan.delta, "the statement says less than the plan costs")
    planned: dict[str, int] = {}
    for run in plan.runs():
        planned[run.label] = planned.get(run.label, 0) + run.times
    counted = receipt.counts()
    require(all(n <= planned.get(label, 0) for label, n in counted.items()), "more was released than planned")


def _plan_of_search(statement: PrivacyStatement) -> Plan:
    """Return the plan of a whole search; older files hold that of its best run in its place."""
    require(len(statement.receipt) == 1, "a search is one release")
    cost = serialization.from_dict(statement.receipt.lines[0].cost)
    return search_plan(cost, statement.epsilon, statement.delta)


def _check_price(plan: Plan) -> None:
    """Refuse a plan that would take more time or memory to price than any learner's."""
    require(sum(run.times for run in plan.runs()) <= MOST_RUNS, f"its plan has more than {MOST_RUNS} runs")
    waiting: list[Any] = [serialization.to_dict(release.priced(plan.neighbours)) for release in plan.releases()]
    costs = numbers = 0
    while waiting:
        value = waiting.pop()
        numbers += 1
        if isinstance(value, dict):
            costs += 1
            require(_is_priced_quickly(value), "a release of its plan has next to no noise")
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    require(costs <= MOST_COSTS, f"its plan has more than {MOST_COSTS} costs")
    require(numbers <= MOST_NUMBERS, f"its plan has more than {MOST_NUMBERS} numbers")


def _is_priced_quickly(cost: dict[str, Any]) -> bool:
    match cost:
        case {"kind": "DiscreteLaplace" | "DiscreteGaussian", "sensitivity": sensitivity}:
            return bool(sensitivity <= LARGEST_SENSITIVITY)
        case {"kind": "PoissonSubsampled", "cost": inner}:
            sampled = serialization.from_dict(inner)
            loss = sampled.mu() if sampled.mu() is not None else sampled.pure_epsilon()
            return loss is None or loss == math.inf or loss <= LARGEST_SAMPLED_LOSS
        case _:
            return True
