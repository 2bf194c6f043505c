"""Private scores and private search: what they cost, what they say, and that they are about right."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_score
from tests.kit.toy_learners import ToyClassifier, ToyRegressor

from ledgerwood.accounting import Ledger, RandomizedResponse, Selected
from ledgerwood.errors import BudgetExceeded, ParameterError, UntrackedFits
from ledgerwood.learners import PrivateBoostingClassifier, PrivateSearch, Schema, private_score

RNG = np.random.default_rng(11)
X = RNG.uniform(0, 1, size=(4000, 2))
Y = (X[:, 0] + 0.3 * RNG.normal(size=4000) > 0.5).astype(int)
SCHEMA = Schema(bounds={0: (0, 1), 1: (0, 1)}, classes=[0, 1], rows="public")


@pytest.fixture(scope="module")
def model() -> ToyClassifier:
    return ToyClassifier(schema=SCHEMA, epsilon=4.0).fit(X, Y)


@pytest.mark.parametrize("metric", ["accuracy", "auc"])
def test_scores_lie_within_their_error_bars(model: ToyClassifier, metric: str) -> None:
    truth = model.score(X, Y) if metric == "accuracy" else roc_auc_score(Y, model.predict_proba(X)[:, 1])
    found = [private_score(model, X, Y, metric=metric, epsilon=0.5) for _ in range(40)]
    off = np.array([score.value - truth for score in found]) / np.array([score.error for score in found])
    assert np.abs(off).max() < 6 and np.abs(off).mean() < 2
    assert found[0].error < 0.05
    assert "about the test rows" in str(found[0]) and "epsilon=0.5 " in str(found[0])


def test_a_score_is_charged(model: ToyClassifier) -> None:
    ledger = Ledger(epsilon=0.3, delta=0.0)
    private_score(model, X, Y, epsilon=0.2, ledger=ledger)
    assert [entry.label for entry in ledger.journal()] == ["score: accuracy"]
    with pytest.raises(BudgetExceeded):
        private_score(model, X, Y, epsilon=0.2, ledger=ledger)


def used_ledger(kind: str) -> Ledger:
    """A ledger whose journal holds entries that are no releases."""
    ledger = Ledger(epsilon=50.0, delta=1e-5)
    if kind in ("split", "merge"):
        children = ledger.split([0.1, 0.2])
        if kind == "merge":
            ledger.merge(children[0])
    elif kind == "parallel":
        with ledger.parallel("nothing"):
            pass
    return ledger


@pytest.mark.parametrize("kind", ["empty", "split", "merge", "parallel"])
@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("metric", ["accuracy", "auc"])
def test_a_score_tells_of_its_own_releases_alone(
    model: ToyClassifier, kind: str, seed: int | None, metric: str
) -> None:
    ledger = used_ledger(kind)
    for _ in range(2):
        score = private_score(model, X, Y, metric=metric, epsilon=0.2, ledger=ledger, random_state=seed)
        assert list(score.receipt.counts()) == (["accuracy"] if metric == "accuracy" else ["bins", "auc"])
        assert score.receipt.private is (seed is None) and ("NOT PRIVATE" in str(score)) is (seed is not None)
    assert sum(entry.kind == "release" for entry in ledger.journal()) == 2 * len(score.receipt)


@pytest.mark.parametrize("kind", ["split", "merge", "parallel"])
@pytest.mark.parametrize("seed", [None, 3])
def test_a_fit_and_a_search_tell_of_their_own_releases_alone(kind: str, seed: int | None) -> None:
    ledger = used_ledger(kind)
    fitted = ToyClassifier(schema=SCHEMA, delta=1e-6, random_state=seed).fit(X, Y, ledger=ledger)
    search = PrivateSearch(
        ToyClassifier(schema=SCHEMA), [{"rounds": 1}], epsilon=1.0, delta=1e-6, runs=2, random_state=seed
    ).fit(X, Y, ledger=ledger)
    assert fitted.receipt_.counts() == {"means": 2}
    assert search.privacy_statement().receipt.counts() == {"search": 1}
    for statement in (fitted.privacy_statement(), search.privacy_statement()):
        assert statement.private is (seed is None) and ("NOT PRIVATE" in str(statement)) is (seed is not None)


def test_a_score_prices_units_and_replacements() -> None:
    frame = pd.DataFrame({"p": np.repeat(np.arange(1000), 4), "a": X[:, 0]})
    schema = Schema(bounds={"a": (0, 1)}, classes=[0, 1], unit="p", max_rows_per_unit=3, rows="public")
    grouped = private_score(ToyClassifier(schema=schema).fit(frame, Y), frame, Y, epsilon=0.5)
    assert grouped.epsilon == pytest.approx(0.5) and "'p' (at most 3 rows)" in str(grouped)
    assert grouped.receipt.lines[0].cost["epsilon"] == pytest.approx(0.5)  # for three rows, not for one
    replaced = Schema(bounds={0: (0, 1), 1: (0, 1)}, classes=[0, 1], neighbours="replace_one")
    score = private_score(ToyClassifier(schema=replaced).fit(X, Y), X, Y, epsilon=0.5)
    assert score.epsilon == pytest.approx(0.5) and "replaced by another" in str(score)


def test_a_regressor_is_scored_by_its_error() -> None:
    target = 10 * X[:, 0]
    model = ToyRegressor(schema=Schema(bounds={0: (0, 1), 1: (0, 1)}, target_bounds=(0, 10), rows="public")).fit(
        X, target
    )
    score = private_score(model, X, target, epsilon=1.0)
    assert abs(score.value - np.abs(model.predict(X) - target).mean()) < 6 * score.error
    with pytest.raises(ParameterError, match="'mae' for a regressor"):
        private_score(model, X, target, metric="auc")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_no_record_makes_numpy_warn_of_its_score(loss: str) -> None:
    """Leaves of almost no weight: scores beyond what exp can take."""
    model = PrivateBoostingClassifier(
        recipe="tr", loss=loss, n_trees=100, max_depth=6, leaf_clip=64.0, learning_rate=1.0, l2=1e-3, ridge=0.0,
        epsilon=0.01, delta=1e-5, schema=SCHEMA, random_state=0,
    ).fit(X[:300], Y[:300])  # fmt: skip
    assert model.decision_function(X).min() < -720
    assert 0 <= private_score(model, X, Y, metric="auc", epsilon=0.5).value <= 1


# ---- search


@pytest.mark.parametrize("epsilon", [0.3, 1.0])
@pytest.mark.parametrize("gamma", [0.5, 0.2])
def test_the_price_of_a_search_bounds_its_exact_divergence(epsilon: float, gamma: float) -> None:
    """The run: randomised response on the score 0 or 1. Best of a geometric number, enumerated exactly."""
    keep = math.exp(epsilon) / (1 + math.exp(epsilon))

    def best_is_low(low: float) -> float:  # E[low^K]
        return gamma * low / (1 - (1 - gamma) * low)

    p, q = best_is_low(keep), best_is_low(1 - keep)
    bound = Selected(RandomizedResponse(epsilon), mean=1 / gamma)
    for order in (1.5, 2.0, 8.0, 64.0):
        for a, b in ((p, q), (q, p)):
            exact = math.log(a**order * b ** (1 - order) + (1 - a) ** order * (1 - b) ** (1 - order)) / (order - 1)
            assert exact <= float(bound.rdp(order))


@pytest.fixture(scope="module")
def search() -> PrivateSearch:
    return PrivateSearch(ToyClassifier(schema=SCHEMA), {"rounds": [1, 3]}, epsilon=2.0, delta=1e-5, runs=3).fit(X, Y)


def test_the_statement_is_about_the_search_not_about_one_run(search: PrivateSearch) -> None:
    for statement in (search.privacy_statement(), search.best_estimator_.privacy_statement()):
        assert (statement.epsilon, statement.delta, statement.planned) == (2.0, 1e-5, 1)
        assert statement.search is not None and statement.receipt.counts() == {"search": 1}
    assert 1.5 < search.best_estimator_.epsilon < 2.0  # a run gets less than the search, and more than by Rényi DP
    assert search.best_estimator_.receipt_.counts() == {"search": 1}


def test_a_search_finds_a_model_that_predicts(search: PrivateSearch) -> None:
    assert np.mean(search.predict(X) == Y) > 0.7
    assert search.best_params_["rounds"] in (1, 3)
    assert not [name for name in vars(search) if "results" in name or "count" in name]


def test_a_search_is_one_release_of_a_ledger() -> None:
    ledger = Ledger(epsilon=3.0, delta=1e-5)
    PrivateSearch(ToyClassifier(schema=SCHEMA), [{"rounds": 1}], epsilon=1.0, delta=1e-5, runs=2).fit(
        X, Y, ledger=ledger
    )
    assert len(ledger.journal()) == 1 and 0.9 < ledger.spent().epsilon < 2.5  # its one Rényi order


def test_a_search_needs_rows_for_both_parts_and_leaves_nothing_when_it_fails(search: PrivateSearch) -> None:
    again = clone(search).fit(X, Y)
    with pytest.raises(ParameterError, match="at least 100 rows for a search"):
        again.fit(X[:50], Y[:50])
    assert not [name for name in vars(again) if name.endswith("_")]


def test_a_search_is_a_classifier_and_counts_as_one_fit() -> None:
    made = PrivateSearch(ToyClassifier(schema=SCHEMA), [{"rounds": 1}], epsilon=1.0, delta=1e-5, runs=2)
    assert is_classifier(made)
    with pytest.warns(UntrackedFits, match="2 fits of PrivateSearch and others"):
        cross_val_score(made, X, Y, cv=2, scoring="accuracy")


def test_units_stay_on_one_side_of_the_split() -> None:
    from ledgerwood.learners.search import _part

    units = RNG.integers(50, size=2000)
    train = _part(np.column_stack([units, X[:2000]]), Schema(unit=0, rows="public"), b"k" * 32, 2000)
    sides = {unit: set(train[units == unit].tolist()) for unit in range(50)}
    assert all(len(side) == 1 for side in sides.values()) and 0.5 < train.mean() < 0.95


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"candidates": {"epsilon": [1.0]}}, "without epsilon"),
        ({"candidates": []}, "one or more settings"),
        ({"runs": 1}, "at least 2"),
        ({"estimator": ToyClassifier()}, "be declared for a search"),
        ({"estimator": object()}, "be a private estimator"),
        ({"epsilon": 1e-9}, "be larger for a search"),
    ],
)
@pytest.mark.filterwarnings("ignore::ledgerwood.errors.OrderAtEdge")  # an epsilon of 1e-9 is tried
def test_wrong_searches_are_refused_before_anything_is_spent(wrong: dict, text: str) -> None:
    arguments = {"estimator": ToyClassifier(schema=SCHEMA), "candidates": {"rounds": [1]}, **wrong}
    ledger = Ledger(epsilon=9.0, delta=1e-5)
    with pytest.raises(ParameterError, match=text):
        PrivateSearch(**arguments).fit(X, Y, ledger=ledger)
    assert not ledger.journal()
