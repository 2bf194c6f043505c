"""The estimators: every recipe end to end, tasks, totality on values, errors on public metadata."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest

from ledgerwood.errors import NotPrivate, ParameterError
from ledgerwood.learners import PrivateBoostingClassifier, PrivateBoostingRegressor, Schema
from ledgerwood.learners.trees.recipes import RECIPES

N = 600
FAST = {"n_trees": 4, "max_depth": 2, "n_bins": 8, "delta": 1e-5}


def table(seed: int = 0, n: int = N):
    rng = np.random.default_rng(seed)
    X = np.stack([rng.normal(size=n), rng.uniform(size=n), rng.integers(0, 3, size=n)], axis=1)
    X[:9, 0] = np.nan
    y = (np.nan_to_num(X[:, 0]) + (X[:, 2] == 1) + 0.2 * rng.normal(size=n) > 0.3).astype(int)
    return X, y


SCHEMA = Schema(bounds={0: (-3, 3), 1: (0, 1)}, categories={2: [0, 1, 2]}, classes=[0, 1])


@pytest.mark.parametrize("recipe", [name for name in RECIPES if name != "sarus"])
def test_every_recipe_fits_predicts_and_states(recipe: str) -> None:
    X, y = table()
    model = PrivateBoostingClassifier(recipe=recipe, epsilon=20.0, schema=SCHEMA, **FAST).fit(X, y)
    p = model.predict_proba(X)
    assert p.shape == (N, 2) and np.allclose(p.sum(axis=1), 1) and (p >= 0).all()
    assert p[y == 1, 1].mean() > p[y == 0, 1].mean()
    assert str(model.privacy_statement()) and len(model.receipt_) == sum(r.times for r in model.plan_.runs())
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_proba(X), p)


def test_sarus_samples_rows() -> None:
    X, y = table()
    options = {**FAST, "n_trees": 1, "max_depth": 1}
    model = PrivateBoostingClassifier(recipe="sarus", epsilon=8.0, schema=SCHEMA, **options).fit(X, y)
    assert model.predict_proba(X).shape == (N, 2)
    assert "PoissonSubsampled" in str(model.plan_.table())


@pytest.mark.filterwarnings("ignore::ledgerwood.errors.WeakGuarantee")  # little noise, to see what is learned
def test_multiclass_and_regression() -> None:
    X, _ = table(n=1500)
    y = np.where(X[:, 1] < 0.3, "low", np.where(X[:, 1] < 0.7, "mid", "top"))
    schema = Schema(bounds={0: (-3, 3), 1: (0, 1)}, categories={2: [0, 1, 2]}, classes=["low", "mid", "top"])
    for recipe in ("tr_cyc", "xgb", "feverless", "pr", "dp_rf", "dp_ebm", "tr_ada", "sarus"):
        options = {**FAST, "n_trees": 12, **({"rows": 1.0} if recipe == "sarus" else {})}
        model = PrivateBoostingClassifier(recipe=recipe, epsilon=50.0, schema=schema, **options)
        model.fit(X, y)
        assert model.predict_proba(X).shape == (1500, 3)
        assert model.score(X, y) > 0.45, recipe
    target = 10 + 5 * X[:, 1]
    schema = Schema(bounds={0: (-3, 3), 1: (0, 1)}, categories={2: [0, 1, 2]}, target_bounds=(10, 15))
    for recipe in ("tr_cyc", "xgb", "dp_rf", "feverless"):
        model = PrivateBoostingRegressor(recipe=recipe, epsilon=50.0, schema=schema, **{**FAST, "n_trees": 24})
        model.fit(X, target)
        found = model.predict(X)
        assert found.min() >= 10 and found.max() <= 15
        assert np.corrcoef(found, target)[0, 1] > 0.5, recipe


@pytest.mark.parametrize(
    "options",
    [
        {"split": "permute_and_flip"},
        {"structure": "symmetric", "split": "exponential"},
        {"structure": "symmetric"},
        {"structure": "symmetric", "split": "histogram"},
        {"structure": "symmetric", "split": "partial"},
        {"split": "histogram", "features": "cyclic"},
        {"split": "partial", "features": "cyclic"},
        {"split": "histogram", "candidates": "hessian"},
        {"missing": "private", "split": "exponential"},
        {"candidates": "log"},
        {"candidates": "quantiles"},
        {"candidates": "laplace_sketch"},
        {"leaf": "gradient"},
        {"leaf": "laplace"},
        {"leaf": "noisy_average"},
        {"features": "random", "features_per_tree": 2},
        {"batch": 2},
        {"batch": 0.5, "candidates": "hessian"},
        {"batch": 1.0},
        {"batch": 2, "candidates": "laplace_sketch"},
        {"loss": "hinge"},
        {"loss": "squared"},
        {"gradient_clip": 0.7},
        {"accounting": "paper"},
        {"min_child_weight": 5.0},
        {"candidates": "mixed", "structure": "grid", "features": "random", "features_per_tree": 2},
        {"features": "shuffled", "shrink": 1.0},
        {"leaf": "average", "batch": 1.0},
        {"candidates": "hessian", "sketch_features": "tree", "sketch_rounds": 2, "features": "cyclic"},
        {"interactions": 0.5, "interaction_depth": 2},
        {"split": "exponential", "shares": (0.0, 1.0, 1.0), "l2": 0.5, "ridge": 0.0},
    ],
    ids=str,
)
@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
@pytest.mark.filterwarnings("ignore::ledgerwood.errors.WeakGuarantee")  # little noise, to see what is learned
def test_every_component_can_be_chosen_by_keyword(options, neighbours: str) -> None:
    X, y = table()
    schema = Schema(
        bounds={0: (-3, 3), 1: (0, 1)}, categories={2: [0, 1, 2]}, classes=[0, 1], neighbours=neighbours, rows=N
    )
    model = PrivateBoostingClassifier(recipe="tr", epsilon=80.0, schema=schema, **{**FAST, "n_trees": 5, **options})
    p = model.fit(X, y).predict_proba(X)[:, 1]
    assert p[y == 1].mean() > p[y == 0].mean()


def test_fit_is_total_on_values() -> None:
    X, y = table()
    X[:, 0] = np.nan
    X[3, 1], X[4, 1], X[5, 2] = np.inf, -1e30, 77
    for labels in (y, np.zeros_like(y)):
        model = PrivateBoostingClassifier(recipe="xgb", epsilon=1.0, schema=SCHEMA, **FAST).fit(X, labels)
        assert np.isfinite(model.predict_proba(X)).all()
    one = Schema(bounds={0: (-3, 3), 1: (0, 1)}, categories={2: [0, 1, 2]}, classes=[1])
    model = PrivateBoostingClassifier(recipe="tr", epsilon=1.0, schema=one, **FAST).fit(X[:9], np.ones(9))
    assert (model.predict(X) == 1).all()
    constant = Schema(bounds={0: (1, 1 + 2e-7), 1: (0, 1e-40)}, categories={2: [5]}, classes=[0, 1])
    for recipe in ("xgb", "tr_ada", "feverless", "pr"):
        PrivateBoostingClassifier(recipe=recipe, epsilon=1.0, schema=constant, **FAST).fit(X, y).predict(X)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_trees": 0}, "n_trees"),
        ({"max_depth": 20}, "max_depth"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"recipe": "best"}, "recipe"),
        ({"loss": "softmax"}, "loss"),
        ({"n_bins": 1000}, "n_bins"),
    ],
)
def test_public_mistakes_are_named_before_anything_is_spent(options, message: str) -> None:
    X, y = table()
    with pytest.raises(ParameterError, match=message):
        PrivateBoostingClassifier(schema=SCHEMA, **{**FAST, **options}).fit(X, y)


def test_undeclared_metadata_is_paid_for_and_units_are_grouped() -> None:
    X, y = table()
    model = PrivateBoostingClassifier(recipe="tr", epsilon=8.0, **FAST).fit(X, y)
    assert model.plan_["leaf"].scale > 0 and len(model.plan_.runs()) > 1
    X = np.column_stack([X, np.arange(N) // 2])
    schema = Schema(
        bounds={0: (-3, 3), 1: (0, 1)}, categories={2: [0, 1, 2]}, classes=[0, 1], unit=3, max_rows_per_unit=2
    )
    model = PrivateBoostingClassifier(recipe="xgb", epsilon=8.0, schema=schema, **FAST).fit(X, y)
    assert model.privacy_statement().details["rows_per_unit"] == 2


def test_a_sample_of_the_rows_can_be_chosen_by_keyword_and_costs_less_noise() -> None:
    X, y = table()
    schema = Schema(bounds={0: (-3, 3), 1: (0, 1)}, categories={2: [0, 1, 2]}, classes=[0, 1], rows=N)
    whole, part = (
        PrivateBoostingClassifier(recipe="tr", epsilon=1.0, rows=rows, schema=schema, **FAST).fit(X, y)
        for rows in (1.0, 0.25)
    )
    assert part.plan_["leaf"].scale < 0.5 * whole.plan_["leaf"].scale  # in the units of one record's part


@pytest.mark.parametrize("recipe", list(RECIPES))
def test_nothing_but_releases_reaches_the_fitted_object(recipe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fit on a neighbour that is told the same outputs gives the same pickle, byte for byte."""
    from ledgerwood.learners.training.session import ReleaseSession

    X, y = table()
    schema = Schema(bounds={0: (-3, 3), 1: (0, 1)}, categories={2: [0, 1, 2]}, classes=[0, 1], rows=N)
    honest, told = ReleaseSession.release, []

    def record(self, mechanism, value, label):
        told.append(honest(self, mechanism, value, label))
        return told[-1]

    def replay(self, mechanism, value, label):
        honest(self, mechanism, value, label)  # charged and journalled as before
        return next(answers)

    def fit(X, y):
        model = PrivateBoostingClassifier(recipe=recipe, epsilon=2.0, schema=schema, random_state=4, **FAST)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotPrivate)
            return model.fit(X, y)

    monkeypatch.setattr(ReleaseSession, "release", record)
    first = fit(X, y)
    answers = iter(told)
    monkeypatch.setattr(ReleaseSession, "release", replay)
    second = fit(X[:-1], y[:-1])
    assert pickle.dumps(first) == pickle.dumps(second)
    assert first.plan_ == second.plan_


def test_seeded_fits_agree_for_any_number_of_threads_and_say_they_are_not_private() -> None:
    X, y = table()
    found = []
    for threads in (1, 2):
        model = PrivateBoostingClassifier(
            recipe="xgb_ada", epsilon=2.0, schema=SCHEMA, random_state=3, n_threads=threads, **FAST
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotPrivate)
            found.append(model.fit(X, y).predict_proba(X))
        assert "not private" in str(model.privacy_statement()).lower()
    assert np.array_equal(*found)
