"""The flow of a private fit, on toy learners: metadata, plan, ledger, session, receipt, statement."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.estimator_checks import estimator_checks_generator
from tests.kit.toy_learners import ToyClassifier, ToyRegressor

from ledgerwood.accounting import Ledger
from ledgerwood.errors import BudgetExceeded, FitStopped, ParameterError, UntrackedFits
from ledgerwood.learners import Progress, Schema

GENERATOR = np.random.default_rng(7)
X = GENERATOR.uniform(0, 1, size=(600, 2))
Y = (X[:, 0] > 0.5).astype(int)
SCHEMA = Schema(bounds={0: (0, 1), 1: (0, 1)}, classes=[0, 1], rows="public")


@pytest.mark.parametrize(
    ("estimator", "check"),
    [pair for toy in (ToyClassifier(), ToyRegressor()) for pair in estimator_checks_generator(toy)],
    ids=lambda part: getattr(getattr(part, "func", part), "__name__", type(part).__name__),
)
def test_scikit_learn_has_no_complaint(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


def test_a_fit_learns_and_says_what_it_cost() -> None:
    model = ToyClassifier(schema=SCHEMA, epsilon=2.0).fit(X, Y)
    assert model.score(X, Y) > 0.8
    statement = model.privacy_statement()
    assert (statement.epsilon, statement.delta) == (2.0, 1e-6)
    assert model.receipt_.counts() == {"means": 2} == {r.label: r.times for r in model.plan_.releases()}
    assert (statement.unit, statement.neighbours, statement.planned) == ("one record", "add_remove", 2)
    record = statement.to_dict()
    assert len(record["releases"]) == 2 and record["private"] is True and record["text"] == str(statement)


def test_without_a_schema_bounds_are_learned_and_paid_for() -> None:
    wide = 100 * GENERATOR.uniform(0.55, 1, size=(20_000, 1))
    model = ToyClassifier().fit(wide, (wide[:, 0] > 75).astype(int))
    low, high = model.columns_[0].bounds
    assert (low, high) == (32.0, 128.0)
    statement = model.privacy_statement()
    [count, learned], public = statement.learned, {item.name: item for item in statement.public}
    assert count.name == "number of rows" and "rows" not in public
    assert learned.name == "bounds" and "10 % of the concentrated budget" in learned.source
    assert public["label values"].value == "0, 1" and "ASSUMED PUBLIC" in public["label values"].source
    assert model.receipt_.counts() == {"row count": 1, "bounds": 1, "means": 2}


def test_without_a_schema_categories_are_learned_with_delta() -> None:
    words = np.array(["red", "green", "rare"])[np.r_[np.zeros(2000, int), np.ones(2000, int), [2]]]
    model = ToyClassifier().fit(pd.DataFrame({"colour": words}), np.r_[np.zeros(2000, int), np.ones(2001, int)])
    assert set(model.columns_[0].categories) == {"red", "green"}
    [_, learned] = model.privacy_statement().learned
    assert learned.name == "categories" and learned.source.endswith("delta 1e-07")
    assert model.plan_.cost.epsilon(model.plan_.delta) <= 1.0


def test_a_schema_from_the_data_is_refused_or_a_leak() -> None:
    with pytest.raises(ParameterError, match="read from the data are a leak"):
        ToyClassifier(schema="data").fit(X, Y)
    statement = ToyClassifier(schema="data", allow_leak=True).fit(X, Y).privacy_statement()
    assert not statement.private and statement.leaks == ("bounds", "categories")


def test_a_random_state_is_reproducible_and_not_private() -> None:
    first, second = (ToyClassifier(schema=SCHEMA, random_state=3).fit(X, Y) for _ in range(2))
    np.testing.assert_array_equal(first.means_, second.means_)
    assert "NOT PRIVATE" in str(first.privacy_statement()) and not first.privacy_statement().private
    fresh = [ToyClassifier(schema=SCHEMA).fit(X, Y).means_ for _ in range(2)]
    assert (fresh[0] != fresh[1]).any()


def test_a_budget_that_is_none_is_refused() -> None:
    with pytest.raises(ParameterError, match="epsilon must be positive and finite, got epsilon=0"):
        ToyClassifier(epsilon=0).fit(X, Y)


# ---- ledgers


def test_a_ledger_given_to_fit_pays_for_every_fit() -> None:
    ledger = Ledger(epsilon=3.0, delta=1e-3, filter="gdp")
    for _ in range(2):
        model = ToyClassifier(schema=SCHEMA, delta=1e-3).fit(X, Y, ledger=ledger)
    assert [entry.label for entry in ledger.journal()] == ["ToyClassifier: means"] * 4
    assert 1.4 < ledger.spent().epsilon < 1.6
    assert "also charged to the ledger given to fit" in str(model.privacy_statement()).replace("\n", " ")


def test_a_ledger_that_cannot_pay_for_the_whole_plan_is_not_begun() -> None:
    ledger = Ledger(epsilon=0.5, delta=1e-3)
    with pytest.raises(BudgetExceeded, match="the fit was not begun"):
        ToyClassifier(schema=SCHEMA, delta=1e-3).fit(X, Y, ledger=ledger)
    assert not ledger.journal()


def test_a_ledger_of_the_same_plan_is_followed_and_of_another_refused() -> None:
    model = ToyClassifier(schema=SCHEMA)
    ledger = Ledger(plan=model.plan(X, Y))
    model.fit(X, Y, ledger=ledger)
    assert len(ledger.journal()) == 2
    for used in (ledger, Ledger(plan=ToyClassifier(schema=SCHEMA, epsilon=3.0).plan(X, Y))):
        with pytest.raises(ParameterError, match="follow this fit's plan"):
            ToyClassifier(schema=SCHEMA).fit(X, Y, ledger=used)


def test_a_ledger_of_other_neighbours_is_refused() -> None:
    with pytest.raises(ParameterError, match="be stated for the schema's neighbours"):
        ToyClassifier(schema=SCHEMA).fit(X, Y, ledger=Ledger(1.0, 1e-5, neighbours="replace_one"))


def test_searches_charge_their_ledger_or_warn_of_the_total() -> None:
    ledger = Ledger(epsilon=20.0, delta=1e-3, filter="gdp")
    search = GridSearchCV(ToyClassifier(schema=SCHEMA), {"rounds": [1, 2]}, cv=2)
    search.fit(X, Y, ledger=ledger)
    assert len(ledger.journal()) == 2 * (1 + 2) + search.best_params_["rounds"]
    with pytest.warns(UntrackedFits, match="together cost up to epsilon="):
        cross_val_score(ToyClassifier(schema=SCHEMA), X, Y, cv=4)
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        pickle.dumps(ledger)


def test_a_plan_leaves_a_fitted_model_alone() -> None:
    model = ToyClassifier(schema=SCHEMA).fit(X, Y)
    before = dict(vars(model))
    model.set_params(schema=Schema(rows=9)).plan(np.column_stack([X, X]), np.array(["a", "b", "c"])[Y + 1])
    assert {k: v for k, v in vars(model).items() if k != "schema"} == {k: v for k, v in before.items() if k != "schema"}


def test_weights_are_refused_with_the_reason() -> None:
    with pytest.raises(TypeError, match="does not take 'sample_weight': weights would multiply"):
        ToyClassifier(schema=SCHEMA).fit(X, Y, sample_weight=np.ones(len(X)))


# ---- units


def test_a_unit_is_priced_for_all_its_rows_and_named() -> None:
    frame = pd.DataFrame({"person": np.repeat(np.arange(200), 3), "a": X[:, 0], "b": X[:, 1]})
    facts: dict[str, Any] = {"bounds": {"a": (0, 1), "b": (0, 1)}, "classes": [0, 1], "unit": "person"}
    rows = ToyClassifier(schema=Schema(**facts, rows="public", max_rows_per_unit=2)).fit(frame, Y)
    single = ToyClassifier(schema=Schema(**{**facts, "unit": None}, rows=600)).fit(frame.drop(columns="person"), Y)
    assert rows.plan_["means"].scale == pytest.approx(2 * single.plan_["means"].scale, rel=1e-3)
    assert "all rows with one value of 'person', of which at most 2 are used" in str(rows.privacy_statement()).replace(
        "\n", " "
    )
    assert list(rows.feature_names_in_) == ["a", "b"]
    np.testing.assert_array_equal(rows.predict(frame), rows.predict(frame[["a", "b"]]))


def test_every_learner_uses_at_most_k_rows_of_a_unit() -> None:
    seen = []

    class Watched(ToyClassifier):
        def _train(self, table: Any, labels: Any, plan: Any, session: Any) -> Any:
            seen.append(len(table))
            return super()._train(table, labels, plan, session)

    X3 = np.column_stack([np.repeat(np.arange(100), 6), X])
    schema = Schema(bounds={1: (0, 1), 2: (0, 1)}, classes=[0, 1], unit=0, max_rows_per_unit=2, rows="public")
    model = Watched(schema=schema).fit(X3, Y)
    assert seen == [200] and model.n_features_in_ == 2
    np.testing.assert_array_equal(model.predict(X3), model.predict(X))


# ---- interruption


def test_an_interrupted_fit_leaves_a_smaller_model_with_a_true_statement() -> None:
    def press(event: Progress) -> None:
        if event.done == 2:
            raise KeyboardInterrupt

    model = ToyClassifier(schema=SCHEMA, rounds=5, callbacks=[press])
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert model.predict(X).shape == (600,)
    assert "Training stopped after 2 of 5 releases; the price is that of the whole plan" in str(
        model.privacy_statement()
    ).replace("\n", " ")


def test_an_interruption_before_there_is_a_model_leaves_none() -> None:
    def press(event: Progress) -> None:
        raise KeyboardInterrupt

    model = ToyClassifier(schema=SCHEMA).fit(X, Y)
    model.callbacks = [press]
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_an_error_leaves_no_model_from_before() -> None:
    model = ToyClassifier(schema=SCHEMA).fit(X, Y)
    with pytest.raises(ParameterError):
        model.fit(X, np.where(Y == 1, 7, Y))
    assert not [name for name in vars(model) if name.endswith("_")]


def test_a_callback_may_stop_early() -> None:
    model = ToyClassifier(schema=SCHEMA, rounds=5, callbacks=[lambda event: event.done == 3]).fit(X, Y)
    assert len(model.receipt_) == 3 and model.privacy_statement().stopped_early
    with pytest.raises(FitStopped, match="after 1 of 2 releases"):
        ToyClassifier(schema=SCHEMA, callbacks=[lambda event: True]).fit(X, Y)


def test_progress_is_shown_and_told(capsys: pytest.CaptureFixture[str]) -> None:
    events: list[Progress] = []
    ToyClassifier(schema=SCHEMA, verbose=1, callbacks=[events.append]).fit(X, Y)
    assert [(event.label, event.done, event.total) for event in events] == [("means", 1, 2), ("means", 2, 2)]


def test_fitted_models_pickle_and_clone() -> None:
    model = ToyClassifier(schema=SCHEMA).fit(X, Y)
    back = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(back.predict_proba(X), model.predict_proba(X))
    assert back.privacy_statement() == model.privacy_statement()
    assert not hasattr(clone(model), "receipt_")


def test_wrong_columns_at_predict_are_named() -> None:
    frame = pd.DataFrame(X, columns=["a", "b"])
    schema = Schema(bounds={"a": (0, 1), "b": (0, 1)}, classes=[0, 1], rows="public")
    model = ToyClassifier(schema=schema).fit(frame, Y)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[["b", "a"]])
    with pytest.raises(ValueError, match="expecting 2 features"):
        ToyClassifier(schema=SCHEMA).fit(X, Y).predict(X[:, :1])
