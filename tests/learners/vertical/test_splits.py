"""Any tree learner: its splits name ordinals, and with their values it predicts as on the ordinals."""

from __future__ import annotations

from typing import Any

import lightgbm
import numpy as np
import pytest
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor
from threadpoolctl import threadpool_limits

from ledgerwood.errors import ParameterError
from ledgerwood.learners.vertical import OrderPreservingTransformer, VerticalModel, split_ordinals, with_values
from ledgerwood.learners.vertical.model import PartyColumns, representatives

MODELS = {
    "xgboost": lambda: xgboost.XGBClassifier(n_estimators=8, max_depth=3, n_jobs=1),
    "xgboost-exact": lambda: xgboost.XGBRegressor(n_estimators=8, max_depth=3, tree_method="exact", n_jobs=1),
    "xgboost-dart": lambda: xgboost.XGBClassifier(n_estimators=8, max_depth=3, booster="dart", n_jobs=1),
    "lightgbm": lambda: lightgbm.LGBMClassifier(n_estimators=8, verbose=-1, n_jobs=1),
    "lightgbm-regression": lambda: lightgbm.LGBMRegressor(n_estimators=8, verbose=-1, n_jobs=1),
    "gradient-boosting": lambda: GradientBoostingClassifier(n_estimators=8),
    "gradient-boosting-regression": lambda: GradientBoostingRegressor(n_estimators=8),
    "histogram": lambda: HistGradientBoostingClassifier(max_iter=8),
    "forest": lambda: RandomForestClassifier(n_estimators=4, max_depth=4),
    "tree": lambda: DecisionTreeRegressor(max_depth=4),
}
SIZES = (10, 300, 2)
# values close to one another, and far from zero: single precision would not tell them apart
VALUES = [np.cumsum(np.random.default_rng(i).uniform(0.1, 3.0, size)) + 1e8 for i, size in enumerate(SIZES)]


def table(classes: int, rows: int = 800) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(classes)
    own = rng.normal(size=(rows, 1)).astype(np.float32)
    ordinals = np.column_stack([rng.integers(0, size, rows) for size in SIZES]).astype(np.float32)
    score = own[:, 0] + ordinals[:, 0] / 5 + ordinals[:, 1] / 100 + ordinals[:, 2]
    y = np.digitize(score, np.quantile(score, np.arange(1, classes) / classes))
    return own, ordinals, y


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("classes", [2, 4])
def test_predictions_from_values_are_those_from_ordinals(name: str, classes: int) -> None:
    own, ordinals, y = table(classes)
    joint = np.concatenate([own, ordinals], axis=1)
    with threadpool_limits(1):  # scikit-learn's histograms would spin on every core
        learner = MODELS[name]().fit(joint, y)
    splits = split_ordinals(learner, {1 + i: size for i, size in enumerate(SIZES)})
    assert splits and all(0 < j < SIZES[i - 1] for i, j in splits)
    known = tuple({j: VALUES[i][j] for f, j in splits if f == i + 1} for i in range(3))
    transformer = OrderPreservingTransformer(domain={"u": (0, 1), "v": (0, 1), "w": (0, 1)}).declare(["u", "v", "w"])
    model = VerticalModel(learner, (0,), (PartyColumns("b", ("u", "v", "w"), transformer, known),))
    released = np.column_stack([VALUES[i][ordinals[:, i].astype(int)] for i in range(3)])
    expected = learner.predict(joint.astype(np.float32))
    assert np.array_equal(model.predict_released(own, {"b": released}), expected)
    assert len(np.unique(expected)) > 1


def test_a_model_in_the_columns_own_units_agrees_bit_for_bit() -> None:
    own, ordinals, y = table(4)
    learner = xgboost.XGBClassifier(n_estimators=10, max_depth=4, n_jobs=1)
    learner.fit(np.concatenate([own, ordinals], axis=1), y)
    tables = [np.linspace(-3.0, 7.0, size) for size in SIZES]
    splits = split_ordinals(learner, {1 + i: size for i, size in enumerate(SIZES)})
    final = with_values(learner, {1 + i: {j: tables[i][j] for f, j in splits if f == i + 1} for i in range(3)})
    values = np.column_stack([own, *[tables[i][ordinals[:, i].astype(int)] for i in range(3)]]).astype(np.float32)
    joint = learner.get_booster().predict(xgboost.DMatrix(np.concatenate([own, ordinals], axis=1)))
    assert np.array_equal(final.predict(xgboost.DMatrix(values)), joint)


def test_values_that_single_precision_confuses_are_refused() -> None:
    own, ordinals, y = table(2)
    learner = xgboost.XGBClassifier(n_estimators=2, n_jobs=1).fit(np.concatenate([own, ordinals], axis=1), y)
    with pytest.raises(ParameterError, match="single precision"):
        with_values(learner, {2: {1: 1e8, 2: 1e8 + 1}})


def test_a_learner_without_trees_is_refused() -> None:
    with pytest.raises(ParameterError, match="tree model"):
        split_ordinals(LinearRegression().fit([[0.0], [1.0]], [0, 1]), {0: 2})
    own, ordinals, y = table(2)
    linear = xgboost.XGBClassifier(n_estimators=2, booster="gblinear", updater="coord_descent", n_jobs=1)
    with pytest.raises(ParameterError, match="tree model"):
        split_ordinals(linear.fit(np.concatenate([own, ordinals], axis=1), y), {1: 10})


@settings(deadline=None)
@given(
    st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=30, unique=True),
    st.sets(st.integers(1, 29)),
)
def test_representatives_fall_on_the_same_side_of_every_split(values: list[float], wanted: set[int]) -> None:
    ordered = sorted(values)
    splits = {j: ordered[j] for j in wanted if j < len(ordered)}
    found = representatives(splits, ordered)
    for ordinal, representative in enumerate(found):
        assert all((ordinal < j) == (representative < j) for j in splits)
    assert np.isnan(representatives(splits, [np.nan]))[0]
