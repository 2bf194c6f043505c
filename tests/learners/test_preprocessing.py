"""A model behind steps that learned from all rows says NOT PRIVATE; one behind steps that did not keeps its claim."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.feature_selection import RFE, RFECV, SelectFromModel, SelectKBest, SequentialFeatureSelector
from sklearn.frozen import FrozenEstimator
from sklearn.impute import IterativeImputer, MissingIndicator, SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, RANSACRegressor
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    ShuffleSplit,
    StratifiedKFold,
    TunedThresholdClassifierCV,
    cross_validate,
)
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)
from sklearn.semi_supervised import SelfTrainingClassifier

from ledgerwood.learners import AdaSSPRegressor, BoostedAdaSSPClassifier, PrivateSearch, Schema
from ledgerwood.learners.training.sklearn_guard import learning_steps
from ledgerwood.learners.training.statement import ROWS_ASSUMED
from ledgerwood.learners.vertical import OrderPreservingTransformer

pytestmark = pytest.mark.filterwarnings("ignore::ledgerwood.errors.UntrackedFits")
RNG = np.random.default_rng(5)
X = RNG.uniform(size=(200, 3))
Y = (X[:, 0] > 0.5).astype(int)
CONSTANT = {"strategy": "constant", "fill_value": 0.0}


class Unknown(TransformerMixin, BaseEstimator):
    def fit(self, X: Any, y: Any = None) -> Unknown:
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X: Any) -> Any:
        return X


class Untagged:
    def fit(self, X: Any, y: Any = None) -> Untagged:
        return self

    def transform(self, X: Any) -> Any:
        return X


class Scaler(OrdinalEncoder):
    """A subclass of a known class: nothing is known about it."""


def private(columns: int = 3) -> BoostedAdaSSPClassifier:
    """A learner of a table with this many columns; or with any number of them, whose bounds it learns."""
    schema = Schema(bounds=dict.fromkeys(range(columns), (0, 1)), classes=[0, 1])
    return BoostedAdaSSPClassifier(epsilon=1.0, delta=1e-6, n_rounds=1, schema=schema)


def regressor(columns: int = 3) -> AdaSSPRegressor:
    schema = Schema(bounds=dict.fromkeys(range(columns), (0, 1)), target_bounds=(0, 1))
    return AdaSSPRegressor(delta=1e-6, schema=schema)


LEARNING = [
    StandardScaler(),
    MinMaxScaler(),
    KBinsDiscretizer(),
    PCA(),
    TargetEncoder(categories=[[0, 1]]),
    SelectKBest(),
    SelectFromModel(LogisticRegression()),
    RFE(LogisticRegression()),
    RFECV(LogisticRegression()),
    SequentialFeatureSelector(LogisticRegression()),
    SimpleImputer(),
    SimpleImputer(**CONSTANT),  # drops a column that has no value
    SimpleImputer(**CONSTANT, keep_empty_features=True, add_indicator=True),
    MissingIndicator(),
    OneHotEncoder(),
    OneHotEncoder(categories=[[0, 1]], min_frequency=2),
    OneHotEncoder(categories=[[0, 1]], max_categories=2),
    OrdinalEncoder(),
    CountVectorizer(),
    TfidfVectorizer(vocabulary=["a"]),
    SplineTransformer(),
    Unknown(),
    Untagged(),
    Scaler(categories=[[0, 1]]),
]
NOT_LEARNING = [
    None,
    "passthrough",
    FunctionTransformer(np.log1p),
    Normalizer(),
    Binarizer(),
    HashingVectorizer(),
    PolynomialFeatures(include_bias=False),
    OneHotEncoder(categories=[[0, 1]], handle_unknown="ignore"),
    OrdinalEncoder(categories=[[0, 1]]),
    SimpleImputer(**CONSTANT, keep_empty_features=True),
    MissingIndicator(features="all"),
    CountVectorizer(vocabulary=["a"]),
    SplineTransformer(knots=np.array([[0.0], [0.5], [1.0]])),
    FrozenEstimator(StandardScaler()),
    FrozenEstimator(make_pipeline(StandardScaler())),
    OrderPreservingTransformer(domain={0: (0, 1)}),
]


@pytest.mark.parametrize("step", LEARNING, ids=lambda step: type(step).__name__)
def test_steps_that_learn_from_rows_are_known(step: Any) -> None:
    name = type(step).__name__
    assert list(learning_steps(step)) == [name]
    inside = ColumnTransformer([("a", make_pipeline("passthrough", step), [0])], remainder="drop")
    assert list(learning_steps(FeatureUnion([("b", inside), ("c", "drop")]))) == [name]
    assert list(learning_steps(ColumnTransformer([("a", "drop", [0])], remainder=step))) == [name]


@pytest.mark.parametrize("step", NOT_LEARNING, ids=lambda step: type(step).__name__)
def test_steps_that_depend_on_their_parameters_are_the_callers_promise(step: Any) -> None:
    assert not list(learning_steps(step))
    assert not list(learning_steps(make_pipeline(FeatureUnion([("a", make_pipeline(step))]))))


def test_every_statement_says_what_it_assumes_of_the_rows() -> None:
    statement = private().fit(X, Y).privacy_statement()
    assert statement.private and statement.assumptions == (ROWS_ASSUMED,)
    assert statement.to_dict()["assumptions"] == [ROWS_ASSUMED]
    randomized = OrderPreservingTransformer(domain={0: (0, 1)}).fit(X[:, :1]).privacy_statement()
    assert randomized.to_dict()["assumptions"] == [ROWS_ASSUMED]


def test_a_model_behind_a_scaler_is_not_private_and_says_why() -> None:
    """One record rescales all others: what moves is many times what the noise is made for."""
    statement = make_pipeline(StandardScaler(), private()).fit(X, Y)[-1].privacy_statement()
    assert not statement.private and statement.to_dict()["private"] is False
    assert statement.leaks == ("what StandardScaler learned from all rows",)


def test_a_model_behind_steps_that_learn_nothing_keeps_its_claim() -> None:
    pipe = make_pipeline(FrozenEstimator(MinMaxScaler().fit(X)), FunctionTransformer(np.sqrt, validate=True), private())
    assert pipe.fit(X, Y)[-1].privacy_statement().private


def test_only_steps_in_front_count() -> None:
    pipe = Pipeline([
        ("first", MinMaxScaler()),
        ("select", SelectFromModel(private(), importance_getter="coef_", threshold=-np.inf)),
        ("after", StandardScaler()),
        ("last", private()),
    ])  # fmt: skip
    pipe.fit(X, Y)
    assert pipe["select"].estimator_.privacy_statement().leaks == ("what MinMaxScaler learned from all rows",)
    assert [leak.split()[1] for leak in pipe["last"].privacy_statement().leaks] == [
        "MinMaxScaler", "SelectFromModel", "StandardScaler",
    ]  # fmt: skip
    alone = Pipeline([("select", SelectFromModel(private(), importance_getter="coef_")), ("after", StandardScaler())])
    assert alone.fit(X, Y)["select"].estimator_.privacy_statement().private


def test_a_private_search_and_a_grid_search_look_through_a_pipeline_too() -> None:
    search = PrivateSearch(private(), {"ridge": [1.0]}, epsilon=4.0, delta=1e-6, runs=2)
    statement = make_pipeline(StandardScaler(), search).fit(X, Y)[-1].privacy_statement()
    assert statement.leaks == ("what StandardScaler learned from all rows",)
    grid = GridSearchCV(make_pipeline(PCA(), private()), {"boostedadasspclassifier__ridge": [1.0]}, cv=2)
    leaks = grid.fit(X, Y).best_estimator_[-1].privacy_statement().leaks
    assert leaks == ("settings chosen by GridSearchCV on exact scores", "what PCA learned from all rows")


def test_a_randomized_table_behind_a_scaler_is_not_private() -> None:
    transformer = OrderPreservingTransformer(domain={0: (0, 1)})
    assert transformer.fit(X[:, :1]).privacy_statement().private
    pipe = make_pipeline(MinMaxScaler(), transformer)
    pipe.fit_transform(X[:, :1])
    statement = transformer.privacy_statement()
    assert not statement.private and statement.leaks and statement.to_dict()["private"] is False


COMPOSITES = [
    (lambda: RFE(private(0), importance_getter="coef_").fit(X, Y).estimator_, "columns chosen by RFE"),
    (lambda: RFECV(private(0), importance_getter="coef_", cv=2).fit(X, Y).estimator_, "columns chosen by RFECV"),
    (
        lambda: (
            IterativeImputer(regressor(2), max_iter=1, tol=1e9)
            .fit(np.where(np.arange(600).reshape(200, 3) % 7, X, np.nan))
            .imputation_sequence_[0]
            .estimator
        ),
        "cells that IterativeImputer filled in from other rows",
    ),
    (lambda: RANSACRegressor(regressor(), min_samples=50).fit(X, X[:, 0]).estimator_, "rows chosen by RANSACRegressor"),
    (
        lambda: SelfTrainingClassifier(private()).fit(X, np.where(np.arange(len(Y)) % 3, Y, -1)).estimator_,
        "labels made by SelfTrainingClassifier from earlier fits",
    ),
    (
        lambda: StackingClassifier([("a", LogisticRegression())], private(1), cv=2).fit(X, Y).final_estimator_,
        "predictions that StackingClassifier made of fits on the same rows",
    ),
    (
        lambda: ClassifierChain(private(0), cv=2).fit(X, np.c_[Y, 1 - Y]).estimators_[1],
        "predictions that ClassifierChain made of fits on the same rows",
    ),
    (
        lambda: TransformedTargetRegressor(regressor(), transformer=MinMaxScaler()).fit(X, X[:, 0]).regressor_,
        "what MinMaxScaler learned from all rows",
    ),
    (lambda: StackingClassifier([("a", private())], LogisticRegression(), cv=2).fit(X, Y).estimators_[0], None),
    (lambda: VotingClassifier([("a", private())]).fit(X, Y).estimators_[0], None),
    (lambda: MultiOutputClassifier(private()).fit(X, np.c_[Y, 1 - Y]).estimators_[1], None),
    (lambda: ClassifierChain(private(0)).fit(X, np.c_[Y, 1 - Y]).estimators_[1], None),
    (
        lambda: (
            TransformedTargetRegressor(regressor(), func=np.sqrt, inverse_func=np.square).fit(X, X[:, 0]).regressor_
        ),
        None,
    ),
]


@pytest.mark.parametrize(("made", "leak"), COMPOSITES)
def test_what_other_composites_give_to_a_fit(made: Any, leak: str | None) -> None:
    assert made().privacy_statement().leaks == (() if leak is None else (leak,))


def test_a_bagged_model_is_seeded_and_says_so() -> None:
    """A row that is drawn twice counts twice, so this must never be stated as private."""
    model = BaggingClassifier(private(), n_estimators=1).fit(X, Y).estimators_[0]
    assert not model.privacy_statement().private


def test_a_selector_in_front_of_a_regressor_counts() -> None:
    pipe = make_pipeline(SelectFromModel(LinearRegression(), threshold=-np.inf), regressor()).fit(X, X[:, 0])
    assert pipe[-1].privacy_statement().leaks == ("what SelectFromModel learned from all rows",)


FOLD = "which rows are in a fold of all rows"


@pytest.mark.parametrize("cv", [KFold(2), KFold(2, shuffle=True), StratifiedKFold(2), ShuffleSplit(2)])
def test_a_model_of_a_fold_is_not_private(cv: Any) -> None:
    """A record more shifts the folds: many rows leave the fit or enter it, while the noise is made for one."""
    found = cross_validate(private(), X, Y, cv=cv, return_estimator=True, scoring="accuracy")
    assert [model.privacy_statement().leaks for model in found["estimator"]] == [(FOLD,)] * 2


def test_other_models_of_folds_are_not_private() -> None:
    calibrated = CalibratedClassifierCV(private(), cv=2).fit(X, Y).calibrated_classifiers_
    assert [each.estimator.privacy_statement().leaks for each in calibrated] == [(FOLD,)] * 2
    on_all = CalibratedClassifierCV(private(), cv=2, ensemble=False).fit(X, Y).calibrated_classifiers_
    assert [each.estimator.privacy_statement().leaks for each in on_all] == [()]
    tuned = TunedThresholdClassifierCV(private(), cv=0.5, refit=False, thresholds=3).fit(X, Y)
    assert tuned.estimator_.privacy_statement().leaks == (FOLD,)


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_a_fit_in_a_worker_says_that_its_callers_were_not_seen(backend: str) -> None:
    """A scaler in front of a composite is on the stack of the process that called the worker, not on the worker's."""
    several = VotingClassifier([("a", private()), ("b", private())], n_jobs=2)
    pipe = make_pipeline(StandardScaler(), several)
    with parallel_config(backend=backend):
        statements = [model.privacy_statement() for model in pipe.fit(X, Y)[-1].estimators_]
    for statement in statements:
        assert statement.cautions and statement.to_dict()["cautions"] == list(statement.cautions)
        assert "cannot be seen" in str(statement).replace("\n", " ")
    for model in pipe.set_params(votingclassifier__n_jobs=1).fit(X, Y)[-1].estimators_:
        statement = model.privacy_statement()
        assert statement.leaks == ("what StandardScaler learned from all rows",) and not statement.cautions


def test_a_search_and_a_randomized_table_in_a_worker_say_so_too() -> None:
    search = PrivateSearch(private(), {"ridge": [1.0]}, epsilon=4.0, delta=1e-6, runs=2)
    with parallel_config(backend="threading"):
        voting = VotingClassifier([("a", search), ("b", search)], n_jobs=2).fit(X, Y)
        table = ColumnTransformer(
            [(str(i), OrderPreservingTransformer(domain={0: (0, 1)}), [i]) for i in range(2)], n_jobs=2
        ).fit(X)
    assert "cannot be seen" in " ".join(voting.estimators_[0].privacy_statement().cautions)
    statement = table.named_transformers_["0"].privacy_statement()
    assert "cannot be seen" in str(statement) and statement.to_dict()["cautions"]
