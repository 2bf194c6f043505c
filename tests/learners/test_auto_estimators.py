"""The auto estimators: they choose from public metadata, plan before they fit, and are scikit-learn estimators."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from ledgerwood.accounting import Ledger
from ledgerwood.learners import (
    PrivateBoostingClassifier,
    PrivateBoostingRegressor,
    PrivateClassifier,
    PrivateRegressor,
    Schema,
)
from ledgerwood.learners.auto.estimators import probability

BOUNDS = dict.fromkeys(range(5), (0.0, 1.0))
SCHEMA = Schema(bounds=BOUNDS, classes=[0, 1], rows="public")


def table(n: int = 4000, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 5))
    return X, (X[:, 0] + X[:, 1] > 1).astype(int)


@pytest.mark.parametrize(("epsilon", "model"), [(0.05, "a linear model"), (3.0, "then boosted random grids")])
def test_the_budget_chooses_the_model_and_the_plan_is_known_before_it_is_spent(epsilon: float, model: str) -> None:
    X, y = table()
    learner = PrivateClassifier(epsilon=epsilon, delta=1e-5, schema=SCHEMA, random_state=0)
    shown, choice = learner.plan(X, y), learner.explain_choice(X, y)
    assert learner.plan(0 * X, 0 * y) == shown and learner.explain_choice(0 * X, 0 * y) == choice
    learner.fit(X, y)
    assert model in str(choice) and learner.explain_choice() == choice and learner.plan_ == shown
    assert len(learner.receipt_) == sum(run.times for run in shown.runs())
    assert learner.score(X, y) > 0.7
    p = learner.predict_proba(X)
    assert p.shape == (len(X), 2) and np.allclose(p.sum(axis=1), 1)
    assert ((learner.decision_function(X) > 0) == (p[:, 1] > 0.5)).mean() > 0.999
    assert learner.privacy_statement().learner == "PrivateClassifier"
    if choice.settings is None:
        inside = learner.fitted_learner()
        assert np.array_equal(inside.predict(X), learner.predict(X)) and inside.plan_ == shown
    again = pickle.loads(pickle.dumps(learner))
    assert np.array_equal(again.predict_proba(X), p)


def test_few_features_are_never_left_to_a_linear_model() -> None:
    X, y = table()
    few = PrivateClassifier(
        epsilon=0.05, delta=1e-5, schema=Schema(bounds=dict.fromkeys(range(3), (0, 1)), rows="public")
    )
    assert "grids" in str(few.explain_choice(X[:, :3], y))


def test_several_classes_are_left_to_a_linear_model_where_the_budget_is_too_small_for_trees() -> None:
    X, _ = table()
    y = np.digitize(X[:, 0], [0.33, 0.67])
    schema = Schema(bounds=BOUNDS, classes=[0, 1, 2], rows="public")
    small, large = (PrivateClassifier(epsilon=e, delta=1e-5, schema=schema, random_state=0) for e in (0.05, 1.0))
    assert "a linear model" in str(small.explain_choice(X, y)) and "grids" in str(large.explain_choice(X, y))
    assert dict(small.explain_choice(X, y).linear)["bins"] is None
    shown = small.plan(X, y)
    p = small.fit(X, y).predict_proba(X)
    assert small.plan_ == shown and p.shape == (len(X), 3) and np.allclose(p.sum(axis=1), 1)
    assert small.score(X, y) > 0.4 and small.decision_function(X).shape == (len(X), 3)


@pytest.mark.parametrize(("n", "epsilon"), [(60, 0.1), (60, 4.0), (3000, 0.1), (3000, 4.0)])
@pytest.mark.parametrize("task", ["two classes", "four classes", "number"])
def test_two_tables_with_the_same_public_metadata_get_the_same_plan(task: str, n: int, epsilon: float) -> None:
    schema = Schema(
        rows="public", bounds=dict.fromkeys("abcde", (0.0, 9.0)), categories={"f": ["x", "y", "z"]},
        **{"target_bounds": (0.0, 9.0)} if task == "number" else {"classes": list(range(2 if "two" in task else 4))},
    )  # fmt: skip
    rng = np.random.default_rng(0)
    first = pd.DataFrame(rng.uniform(0, 9, size=(n, 5)), columns=list("abcde")).assign(f="x")
    second = pd.DataFrame(rng.exponential(size=(n, 5)) ** 4, columns=list("abcde")).assign(f=rng.choice(["y", "?"], n))
    second.iloc[::3, :3] = np.nan
    targets = rng.integers(0, 2, n), np.zeros(n, dtype=int)
    made = (
        [PrivateBoostingRegressor, PrivateRegressor]
        if task == "number"
        else [PrivateBoostingClassifier, PrivateClassifier]
    )
    for kind in made:
        learner = kind(epsilon=epsilon, delta=1e-5, schema=schema)
        (plan, choice), other = (
            (learner.plan(X, y), learner.explain_choice(X, y)) for X, y in zip((first, second), targets)
        )
        assert (plan, choice) == other and str(choice) == str(other[1])


def test_three_classes_regression_frames_and_no_schema() -> None:
    X, _ = table()
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": np.where(X[:, 2] > 0.5, "x", "y")})
    three = (3 * X[:, 0]).astype(int)
    model = PrivateClassifier(epsilon=10.0, random_state=0).fit(frame, three)
    assert model.score(frame, three) > 0.7
    target = Schema(bounds=BOUNDS, target_bounds=(0, 2), rows="public")
    z = X[:, 0] + X[:, 1]
    regressor = PrivateRegressor(epsilon=5.0, schema=target, random_state=0).fit(X, z)
    assert regressor.score(X, z) > 0.7 and "regression" in str(regressor.explain_choice())


def test_one_ledger_pays_and_a_unit_of_several_rows_is_priced() -> None:
    X, y = table()
    ledger = Ledger(epsilon=1.5, delta=1e-5)
    PrivateClassifier(epsilon=1.0, delta=1e-5, schema=SCHEMA).fit(X, y, ledger=ledger)
    assert 0 < ledger.remaining().epsilon < 1.5
    frame = pd.DataFrame(X, columns=list("abcde")).assign(person=np.arange(len(X)) // 2)
    schema = Schema(bounds=dict.fromkeys("abcde", (0.0, 1.0)), classes=[0, 1], unit="person", max_rows_per_unit=2)
    model = PrivateClassifier(epsilon=4.0, delta=1e-5, schema=schema, random_state=0).fit(frame, y)
    assert model.privacy_statement().details["rows_per_unit"] == 2 and model.score(frame, y) > 0.7


def test_a_stopped_fit_leaves_a_smaller_model_that_still_explains_itself() -> None:
    X, y = table()
    model = PrivateClassifier(
        epsilon=3.0, delta=1e-5, schema=SCHEMA, random_state=0, callbacks=[lambda progress: progress.done >= 50]
    )  # fmt: skip
    model.fit(X, y)
    assert len(model.receipt_) == 50 and model.explain_choice().settings is not None
    assert model.score(X, y) > 0.6 and clone(model).get_params().keys() == model.get_params().keys()


@parametrize_with_checks([PrivateClassifier(delta=1e-5), PrivateRegressor(delta=1e-5)])
def test_scikit_learn_conformance(estimator, check) -> None:
    check(estimator)


@pytest.mark.parametrize("kappa", [0.0, 3.33])
def test_the_link_finds_the_probability_at_which_the_clipped_gradients_balance(kappa: float) -> None:
    u = np.linspace(0.001, 0.999, 999)
    q = probability(u, 0.5, kappa)
    assert (np.diff(q) > 0).all() and np.allclose(q + q[::-1], 1) and q[499] == pytest.approx(0.5)
    # the same pairs, clipped as vectors: their mean gradient under q is zero
    pairs = [np.stack([g, kappa * u * (1 - u)]) for g in (u, u - 1)]
    zero, one = (pair * np.minimum(1, 0.5 / np.linalg.norm(pair, axis=0)) for pair in pairs)
    assert np.allclose((1 - q) * zero[0] + q * one[0], 0, atol=1e-12)


def test_probabilities_of_a_rare_class_are_near_its_rate() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(20_000, 5))
    rate = 0.02 + 0.2 * X[:, 0]
    y = (rng.uniform(size=len(X)) < rate).astype(int)
    model = PrivateClassifier(epsilon=8.0, delta=1e-5, schema=SCHEMA, random_state=0).fit(X, y)
    p = model.predict_proba(X)[:, 1]
    sigmoid = 1 / (1 + np.exp(-model.decision_function(X)))
    assert abs(p.mean() - y.mean()) < 0.01 < abs(sigmoid.mean() - y.mean())
    assert np.abs(p - rate).mean() < 0.03
