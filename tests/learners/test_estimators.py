"""The estimators as data scientists use them: scikit-learn's checks, frames, pipelines, searches, messages."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import VotingClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder
from sklearn.utils.estimator_checks import estimator_checks_generator

from ledgerwood.accounting import Ledger
from ledgerwood.errors import LedgerwoodError, ParameterError, UntrackedFits
from ledgerwood.learners import (
    AdaSSPRegressor,
    BoostedAdaSSPClassifier,
    PrivateBoostingClassifier,
    PrivateBoostingRegressor,
    PrivateClassifier,
    PrivateRegressor,
    Schema,
    load,
)

CHECKED = [
    PrivateBoostingClassifier(n_trees=4, max_depth=2),
    PrivateBoostingRegressor(n_trees=4, max_depth=2),
    BoostedAdaSSPClassifier(),
    AdaSSPRegressor(),
]
RNG = np.random.default_rng(3)
N = 900
FRAME = pd.DataFrame({"age": RNG.uniform(18, 90, N), "job": RNG.choice(["a", "b", "c"], N)})
Y = ((FRAME["age"] > 50) ^ (FRAME["job"] == "a")).astype(int).to_numpy()
FACTS: dict[str, Any] = {"bounds": {"age": (18, 90)}, "categories": {"job": ["a", "b", "c"]}, "classes": [0, 1]}
SCHEMA = Schema(**FACTS, rows="public")


def small(**parameters: Any) -> PrivateBoostingClassifier:
    return PrivateBoostingClassifier(**{"n_trees": 5, "max_depth": 2, "schema": SCHEMA, "delta": 1e-4, **parameters})


@pytest.mark.parametrize(
    ("estimator", "check"),
    [pair for estimator in CHECKED for pair in estimator_checks_generator(estimator)],
    ids=lambda part: getattr(getattr(part, "func", part), "__name__", type(part).__name__),
)
def test_scikit_learn_has_no_complaint(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


def test_only_the_two_allowed_tags_excuse_anything() -> None:
    for estimator in CHECKED:
        tags = estimator.__sklearn_tags__()
        assert tags.non_deterministic and not tags.no_validation and tags.requires_fit and not tags._skip_test


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "arrow"])
def test_every_kind_of_frame_gives_the_same_model(make: Any) -> None:
    columns = {"age": FRAME["age"].to_numpy(), "job": FRAME["job"].tolist()}
    reference = small(random_state=1).fit(FRAME, Y)
    model = small(random_state=1).fit(make(columns), Y)
    np.testing.assert_array_equal(model.predict_proba(make(columns)), reference.predict_proba(FRAME))
    if make is not pa.table:
        assert list(model.feature_names_in_) == ["age", "job"]


def test_polars_and_arrow_labels_are_read() -> None:
    reference = small(random_state=1).fit(FRAME, Y).predict_proba(FRAME)
    for labels in (pl.Series(Y), pa.chunked_array([Y]), Y.tolist(), pd.Series(Y)):
        np.testing.assert_array_equal(small(random_state=1).fit(FRAME, labels).predict_proba(FRAME), reference)


def test_row_order_and_threads_do_not_change_the_model() -> None:
    reference = small(random_state=1, n_threads=1).fit(FRAME, Y).predict_proba(FRAME)
    order = RNG.permutation(N)
    turned = small(random_state=1, n_threads=2).fit(FRAME.iloc[order], Y[order]).predict_proba(FRAME)
    np.testing.assert_array_equal(turned, reference)


def test_pipelines_and_set_output() -> None:
    schema = Schema(bounds=dict.fromkeys(range(4), (0, 1)), classes=[0, 1], rows="public")
    steps = make_column_transformer((MinMaxScaler(), ["age"]), (OneHotEncoder(sparse_output=False), ["job"]))
    pipe = make_pipeline(steps, small(schema=schema))
    assert pipe.fit(FRAME, Y).predict(FRAME).shape == (N,)
    framed = make_pipeline(clone(steps), small(schema=Schema(classes=[0, 1], rows="public"))).set_output(
        transform="pandas"
    )
    framed.fit(FRAME, Y)
    assert next(iter(framed[-1].feature_names_in_)) == "minmaxscaler__age"


def test_searches_and_ledgers() -> None:
    ledger = Ledger(epsilon=30.0, delta=1e-3)
    search = GridSearchCV(small(), {"max_depth": [1, 2]}, cv=2, scoring="roc_auc").fit(FRAME, Y, ledger=ledger)
    fits = 2 * 2 + 1
    assert len(ledger.journal()) == fits * len(search.best_estimator_.receipt_)
    for _ in range(2):  # each call of scikit-learn is counted by itself
        with pytest.warns(UntrackedFits) as caught:
            cross_val_score(small(), FRAME, Y, cv=4, scoring="roc_auc")
    assert [str(warning.message).partition(" of ")[0] for warning in caught] == [
        "scikit-learn asked for 2 fits",
        "scikit-learn asked for 4 fits",
    ]
    assert "all 4 together cost up to epsilon=4" in str(caught[-1].message)
    with pytest.raises((TypeError, pickle.PicklingError), match=r"cannot be copied|pickle"):
        cross_val_score(small(), FRAME, Y, cv=2, n_jobs=2, params={"ledger": ledger}, error_score="raise")


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_search_of_scikit_learn_says_its_total_and_that_its_choice_is_not_private(jobs: int) -> None:
    """Its candidates are scored on exact rows, so the settings of the best one are data; with two processes, too."""
    search = GridSearchCV(make_pipeline(small()), {"privateboostingclassifier__epsilon": [1.0, 2.0]}, cv=2, n_jobs=jobs)
    with pytest.warns(UntrackedFits) as caught:
        search.fit(FRAME, Y)
    best = search.best_estimator_[-1]
    assert "5 fits of PrivateBoostingClassifier and others" in str(caught[-1].message)
    assert f"epsilon={6 + best.epsilon:g}" in str(caught[-1].message)
    statement = best.privacy_statement()
    assert not statement.private
    assert statement.leaks == ("settings chosen by GridSearchCV on exact scores",)
    assert small().fit(FRAME, Y).privacy_statement().private


def test_ensembles_are_counted_too() -> None:
    with pytest.warns(UntrackedFits, match="2 fits"):
        VotingClassifier([("a", small()), ("b", small())]).fit(FRAME, Y)


def test_models_pickle_small_and_without_data() -> None:
    sizes = [len(pickle.dumps(small().fit(FRAME.iloc[:n], Y[:n]))) for n in (100, N)]
    assert abs(sizes[0] - sizes[1]) < 500
    back = pickle.loads(pickle.dumps(small().fit(FRAME, Y)))
    assert "differentially private" in str(back.privacy_statement())


PERSONS = Schema(**FACTS, rows="public", unit="person", max_rows_per_unit=2)
WHO = FRAME.assign(person=np.arange(N) // 2)
MESSAGES: list[tuple[str, Any, str]] = [
    ("no rows", lambda: small().fit(FRAME.iloc[:0], Y[:0]), "0 sample(s)"),
    ("no labels", lambda: small().fit(FRAME), "requires y to be passed"),
    ("fewer labels", lambda: small().fit(FRAME, Y[:-1]), "one row for each record"),
    ("a column too few", lambda: small().fit(FRAME[["age"]], Y), "name columns that X has"),
    ("columns in another order", lambda: small().fit(FRAME, Y).predict(FRAME[["job", "age"]]), "feature names"),
    ("dates", lambda: small(schema=None).fit(FRAME.assign(age=pd.Timestamp(0)), Y), "a date to a number of days"),
    ("an undeclared label", lambda: small().fit(FRAME, Y + 1), "Declare every label value"),
    ("a missing label", lambda: small().fit(FRAME, np.where(Y == 1, np.nan, 0.0)), "contains NaN"),
    ("a missing flag", lambda: small().fit(FRAME, pd.array([None, *(Y[1:] == 1)], dtype="boolean")), "contains NaN"),
    ("dates as labels", lambda: small().fit(FRAME, np.full(N, "2020", dtype="datetime64[D]")), "a date to a number"),
    ("the name of the labels", lambda: small().fit(FRAME, "job"), "y=X['job']"),
    ("a continuous label", lambda: small(schema=None).fit(FRAME, Y + 0.5 * RNG.random(N)), "Unknown label type"),
    ("epsilon zero", lambda: small(epsilon=0.0).fit(FRAME, Y), "epsilon must be positive and finite"),
    ("delta one", lambda: small(delta=1.0).fit(FRAME, Y), "delta must lie in [0, 1)"),
    ("no trees", lambda: small(n_trees=0).fit(FRAME, Y), "n_trees must be an integer that is at least 1"),
    ("sampled rows of persons", lambda: small(recipe="tr_cyc", rows=0.1, schema=PERSONS).fit(WHO, Y), "Set rows=1"),
    ("pure epsilons of learned bounds", lambda: small(recipe="sarus", accounting="paper", schema=None).fit(FRAME, Y),
     "Declare them in the schema"),
    ("too deep", lambda: small(max_depth=99).fit(FRAME, Y), "max_depth"),
    ("an unknown recipe", lambda: small(recipe="magic").fit(FRAME, Y), "recipe"),
    ("a schema of another kind", lambda: small(schema={"age": (0, 1)}).fit(FRAME, Y), "schema must be a Schema"),
    ("a schema from the data", lambda: small(schema="data").fit(FRAME, Y), "say allow_leak=True"),
    ("weights", lambda: small().fit(FRAME, Y, sample_weight=np.ones(N)), "does not take 'sample_weight'"),
    ("no ledger", lambda: small().fit(FRAME, Y, ledger=1.0), "ledger must be a ledgerwood.accounting.Ledger"),
    ("a poor ledger", lambda: small().fit(FRAME, Y, ledger=Ledger(0.1, 1e-5)), "the fit was not begun"),
    ("not fitted", lambda: small().predict(FRAME), "not fitted yet"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "run", "text"), MESSAGES, ids=[case[0] for case in MESSAGES])
def test_messages_say_what_is_wrong_and_what_to_do(name: str, run: Any, text: str) -> None:
    with pytest.raises((LedgerwoodError, ValueError, TypeError)) as caught:
        run()
    assert text in str(caught.value)


def test_no_message_about_labels_shows_one() -> None:
    for model in (small(schema=None), PrivateBoostingRegressor()):
        with pytest.raises(ValueError, match="Complex data not supported") as caught:
            model.fit(FRAME, Y * 1234567.0 + 0j)
        assert "1234567" not in str(caught.value)


def test_the_papers_accounting_is_kept_where_metadata_is_learned_or_units_have_rows() -> None:
    for schema, frame in ((Schema(classes=[0, 1], rows="public"), FRAME), (PERSONS, WHO)):
        plan = small(recipe="xgb", accounting="paper", schema=schema).plan(frame, Y)
        assert plan.cost.epsilon(1e-4, "rdp") <= 1.0, "calibrated by Theorem 1, as the DP-XGB paper does"
        assert plan.cost.epsilon(1e-4) < 0.95


@pytest.mark.parametrize(("rate", "trees", "epsilon"), [(0.1, 5, 1.0), (0.5, 3, 0.3), (0.01, 40, 1.0)])
def test_sampled_rows_spend_the_budget(rate: float, trees: int, epsilon: float) -> None:
    """The price is nearly a power of the noise, and not always the first: none of the budget is left over."""
    plan = small(recipe="tr_cyc", rows=rate, n_trees=trees, epsilon=epsilon).plan(FRAME, Y)
    assert 0.99 * epsilon <= plan.cost.epsilon(1e-4) <= epsilon


def test_a_unit_may_have_many_rows() -> None:
    schema = Schema(**FACTS, rows="public", unit="person", max_rows_per_unit=100)
    model = small(recipe="xgb", schema=schema).fit(FRAME.assign(person=np.arange(N) // 100), Y)
    assert model.plan_["leaf"].scale == pytest.approx(100 * small(recipe="xgb").plan(FRAME, Y)["leaf"].scale, rel=0.05)


def test_errors_are_the_kinds_that_scikit_learn_expects() -> None:
    assert issubclass(ParameterError, ValueError)


@pytest.mark.parametrize("estimator", CHECKED, ids=lambda part: type(part).__name__)
def test_every_learner_prices_its_unit(estimator: Any) -> None:
    """Ten rows of every person: the plan for persons has more noise, and says so."""
    frame = FRAME.assign(person=np.repeat(np.arange(N // 10), 10))
    regression = not hasattr(estimator, "predict_proba")
    metadata: dict[str, Any] = {"bounds": {"age": (18, 90)}, "categories": {"job": ["a", "b", "c"]}}
    metadata |= {"target_bounds": (0, 1)} if regression else {"classes": [0, 1]}
    rows = clone(estimator).set_params(schema=Schema(**metadata, rows=N), delta=1e-4)
    unit = clone(estimator).set_params(
        schema=Schema(**metadata, rows=N, unit="person", max_rows_per_unit=10), delta=1e-4
    )
    plans = rows.plan(FRAME, Y), unit.fit(frame, Y).plan_
    for release in plans[0].releases():
        ours = plans[1][release.label]
        assert ours.priced().rdp(2.0) <= release.priced().rdp(2.0) * (1 + 1e-3), "the unit's price fills the budget"
        assert ours.scale != release.scale, "its noise is another"
    assert unit.privacy_statement().details["rows_per_unit"] == 10
    with pytest.raises(ParameterError, match="be 1 under neighbours='replace_one'"):
        Schema(**metadata, unit="person", max_rows_per_unit=10, neighbours="replace_one")


@pytest.mark.parametrize("kind", [PrivateClassifier, PrivateRegressor])
@pytest.mark.parametrize("part", [0.0, 0.1, 0.5, 1.0])
def test_an_auto_estimator_interrupted_leaves_a_smaller_model_or_none(kind: Any, part: float, tmp_path: Path) -> None:
    """A linear model that trees start from may be half made: then there is no model, and never a false statement."""
    metadata = {name: fact for name, fact in FACTS.items() if name != "classes"}
    target: dict[str, Any] = {"classes": [0, 1]} if kind is PrivateClassifier else {"target_bounds": (0, 1)}
    model = kind(epsilon=4.0, delta=1e-4, schema=Schema(**metadata, **target, rows="public"))
    total = sum(release.times for release in model.plan(FRAME, Y).releases())
    last = max(1, round(part * total))

    def press(event: Any) -> None:
        if event.done == last:
            raise KeyboardInterrupt

    ledger = Ledger(epsilon=9.0, delta=1e-2)
    with pytest.raises(KeyboardInterrupt):
        model.set_params(callbacks=[press]).fit(FRAME, Y, ledger=ledger)
    assert len(ledger.journal()) == last, "what was released is on the ledger"
    if part < 0.5:
        assert hasattr(model, "receipt_") or not [name for name in vars(model) if name.endswith("_")]
    else:
        assert len(model.receipt_) == last and model.privacy_statement().stopped_early
        model.save(tmp_path / "model.json")
        np.testing.assert_array_equal(load(tmp_path / "model.json").predict(FRAME), model.predict(FRAME))


def test_interrupted_trees_and_lines_leave_a_smaller_model_with_a_true_statement() -> None:
    def press(event: Any) -> None:
        if event.done == 3:
            raise KeyboardInterrupt

    for model in (small(callbacks=[press]), BoostedAdaSSPClassifier(n_rounds=5, schema=SCHEMA, delta=1e-4)):
        model.callbacks = [press]
        with pytest.raises(KeyboardInterrupt):
            model.fit(FRAME, Y)
        if hasattr(model, "receipt_"):
            assert model.predict(FRAME).shape == (N,)
            assert model.privacy_statement().stopped_early and len(model.receipt_) == 3
        else:
            assert not [name for name in vars(model) if name.endswith("_")]
    assert not hasattr(small(), "receipt_")
