"""The estimators: scikit-learn's conventions, encodings from public metadata, export, statements, units."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from linear_designs import ExactSession, rows_of
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.kit.linear_parts import SumOfParts

from ledgerwood.accounting import Ledger
from ledgerwood.errors import FormatError, ParameterError
from ledgerwood.learners import Column, PublicMetadata, RowCount, Schema
from ledgerwood.learners.data.labels import read_labels
from ledgerwood.learners.data.partitions import FramePart
from ledgerwood.learners.data.table import read_table
from ledgerwood.learners.linear import AdaSSPRegressor, BoostedAdaSSPClassifier, BoostedAdaSSPRegressor, to_sklearn
from ledgerwood.learners.linear.aggregator import LinearRecords, encoded_rows
from ledgerwood.learners.linear.boosting import boost
from ledgerwood.learners.linear.encoding import RowEncoder, bin_edges
from ledgerwood.learners.linear.loss import ENTRY_ONE, loss_named
from ledgerwood.learners.linear.plan import LinearSettings, automatic_rounds, plan_linear
from ledgerwood.learners.linear.sensitivity import RowBound

SCHEMA = Schema(
    bounds={"age": (0, 100), "hours": (0, 80)}, categories={"job": ["a", "b", "c"]}, classes=["no", "yes"], rows=2000
)


def people(rows: int = 2000, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({
        "age": rng.uniform(18, 90, rows), "hours": rng.uniform(0, 80, rows), "job": rng.choice(["a", "b", "c"], rows),
    })  # fmt: skip
    score = (X["age"] - 50) / 20 + (X["hours"] - 40) / 30 + 2.0 * (X["job"] == "a") - 0.7
    return X, np.where(score + 0.3 * rng.normal(size=rows) > 0, "yes", "no")


@parametrize_with_checks([
    AdaSSPRegressor(), BoostedAdaSSPRegressor(n_rounds=2), BoostedAdaSSPClassifier(n_rounds=2),
    BoostedAdaSSPClassifier(n_rounds=2, loss="hinge", bins=3),
])  # fmt: skip
def test_scikit_learn_conventions(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("options", [{}, {"bins": 8}, {"loss": "squared"}, {"loss": "hinge"}, {"accounting": "paper"}])
def test_a_classifier_learns(options: dict[str, Any]) -> None:
    X, y = people()
    model = BoostedAdaSSPClassifier(epsilon=8.0, delta=1e-6, schema=SCHEMA, random_state=1, **options).fit(X, y)
    assert model.score(X, y) > 0.8
    shown = model.predict_proba(X)
    assert np.allclose(shown.sum(axis=1), 1)
    assert np.array_equal(model.decision_function(X) > 0, model.predict(X) == "yes")
    assert "epsilon" in str(model.privacy_statement())


def test_more_classes_are_learned_one_against_the_rest() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (6000, 2))
    y = np.digitize(X[:, 0], [-0.5, 0.5]) + 10
    schema = Schema(bounds={0: (-1, 1), 1: (-1, 1)}, classes=[10, 11, 12])
    model = BoostedAdaSSPClassifier(epsilon=8.0, delta=1e-6, schema=schema, random_state=0, bins=8).fit(X, y)
    assert model.decision_function(X).shape == (6000, 3)
    assert model.score(X, y) > 0.85


@pytest.mark.parametrize("kind", [AdaSSPRegressor, BoostedAdaSSPRegressor])
@pytest.mark.parametrize("accounting", ["tight", "paper"])
def test_a_regression_learns(kind: Any, accounting: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (3000, 2))
    y = 3 * X[:, 0] - X[:, 1] + rng.normal(size=3000)
    schema = Schema(bounds={0: (0, 10), 1: (0, 10)}, target_bounds=(-15, 35))
    model = kind(epsilon=10.0, delta=1e-6, schema=schema, random_state=1, accounting=accounting).fit(X, y)
    assert model.score(X, y) > 0.8
    assert model.predict(X * 100).max() <= 35


def test_undeclared_metadata_is_learned_privately() -> None:
    X, y = people()
    model = BoostedAdaSSPClassifier(epsilon=8.0, delta=1e-5, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.6
    labels = {entry["label"] for entry in model.privacy_statement().to_dict()["releases"]}
    assert {"cross products", "gradients"} < labels


def test_a_ledger_pays_and_a_seed_says_so() -> None:
    X, y = people(300)
    ledger = Ledger(epsilon=2.0, delta=1e-5)
    model = BoostedAdaSSPClassifier(epsilon=1.0, delta=1e-6, schema=SCHEMA, random_state=0, n_rounds=3)
    model.fit(X, y, ledger=ledger)
    assert len(ledger.journal()) == 4
    assert "not private" in str(model.privacy_statement()).lower()
    again = clone(model).fit(X, y)
    assert np.array_equal(again.weights_, model.weights_)
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))


def test_a_unit_of_several_rows_gets_more_noise() -> None:
    X, y = people(300)
    X = X.assign(person=np.arange(300) // 3)
    schema = Schema(
        bounds=SCHEMA.bounds, categories=SCHEMA.categories, classes=SCHEMA.classes, unit="person", max_rows_per_unit=3
    )
    alone = BoostedAdaSSPClassifier(epsilon=1.0, delta=1e-6, schema=SCHEMA, n_rounds=2, random_state=0)
    units = BoostedAdaSSPClassifier(epsilon=1.0, delta=1e-6, schema=schema, n_rounds=2, random_state=0)
    scale = alone.fit(X.drop(columns="person"), y).plan_["gradients"].scale
    assert units.fit(X, y).plan_["gradients"].scale > 2.9 * scale


@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
def test_an_interrupted_fit_leaves_the_rounds_so_far(neighbours: str) -> None:
    X, y = people(200)
    schema = Schema(bounds=SCHEMA.bounds, categories=SCHEMA.categories, classes=SCHEMA.classes, neighbours=neighbours)
    model = BoostedAdaSSPClassifier(
        delta=1e-6, schema=schema, n_rounds=9, random_state=0, callbacks=[lambda event: event.done == 5]
    ).fit(X, y)
    assert model.predict(X).shape == (200,)
    assert len(model.receipt_) == 5


# ---- encoding


def test_edges_come_from_the_bounds() -> None:
    assert bin_edges(0, 16, 8).tolist() == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 12.0]
    assert bin_edges(-1, 1, 2).tolist() == [0.0]
    assert len(bin_edges(0, 1e-38, 128)) >= 1


wild = st.floats(allow_nan=True, allow_infinity=True, width=32)


@given(st.lists(st.tuples(wild, st.sampled_from(["a", "b", "zebra", ""])), max_size=8), st.sampled_from([None, 2, 5]))
@settings(deadline=None, max_examples=60)
def test_every_value_has_an_encoding_within_the_bound(rows: list[tuple[float, str]], bins: int | None) -> None:
    schema = Schema(bounds={"x": (-3, 7)}, categories={"c": ["a", "b"]})
    frame = pd.DataFrame({"x": [0.0, *[x for x, _ in rows]], "c": ["a", *[c for _, c in rows]]})
    table = read_table(frame, schema)
    for norm in (None, 0.5):
        encoder = RowEncoder(table.columns, bins, row_norm=norm)
        dense = encoder.encode(table).dense()
        assert dense.shape == (len(frame), encoder.width) == (len(frame), len(encoder.names))
        assert (np.square(dense).sum(axis=1) <= encoder.square_bound).all()
        assert encoder.square_bound <= (3 if norm is None else 1.25) * ENTRY_ONE**2


def test_missing_and_unknown_contribute_nothing() -> None:
    columns = (Column("x", "number", bounds=(0.0, 1.0)), Column("c", "category", categories=("a", "b")))
    frame = pd.DataFrame({"x": [np.nan, 1.0], "c": ["?", "b"]})
    table = read_table(frame, Schema(bounds={"x": (0, 1)}, categories={"c": ["a", "b"]}))
    for bins in (None, 4):
        encoder = RowEncoder(columns, bins)
        assert np.count_nonzero(encoder.encode(table).dense()[0, 1:]) == 0
        weights = np.arange(1.0, encoder.width + 1)[None]
        assert encoder.scores(table, weights)[0, 0] == 1.0


def test_scores_of_floats_agree_with_integer_rows() -> None:
    X, _ = people(50)
    table = read_table(X, SCHEMA)
    for bins in (None, 8):
        encoder = RowEncoder(table.columns, bins)
        weights = np.random.default_rng(0).normal(size=(2, encoder.width))
        integer = encoder.encode(table).dense() @ weights.T / ENTRY_ONE
        assert np.allclose(integer, encoder.scores(table, weights), atol=2e-3)
        slopes, constants = encoder.in_units(weights)
        assert np.allclose(encoder.design(table) @ slopes.T + constants, encoder.scores(table, weights))


# ---- export


@pytest.mark.parametrize("bins", [None, 6])
def test_scikit_learn_models_are_rebuilt(bins: int | None) -> None:
    X, y = people(500)
    model = BoostedAdaSSPClassifier(epsilon=5.0, delta=1e-6, schema=SCHEMA, random_state=0, bins=bins).fit(X, y)
    rebuilt = to_sklearn(model.to_json())
    assert np.allclose(rebuilt.predict_proba(model.design(X)), model.predict_proba(X))
    assert np.array_equal(rebuilt.predict(model.design(X)), model.predict(X))
    assert model.coef_.shape == (1, len(json.loads(model.to_json())["columns"]))

    target = np.where(y == "yes", 2.0, -1.0)
    schema = Schema(bounds=SCHEMA.bounds, categories=SCHEMA.categories, target_bounds=(-2, 4))
    regression = AdaSSPRegressor(epsilon=5.0, delta=1e-6, schema=schema, random_state=0, bins=bins).fit(X, target)
    rebuilt = to_sklearn(regression.to_json())
    assert np.allclose(np.clip(rebuilt.predict(regression.design(X)), -2, 4), regression.predict(X))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "ledgerwood.linear", "version": 9}', '{"format": "x"}'])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(FormatError):
        to_sklearn(text)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"loss": "absolute"}, "loss"), ({"n_rounds": 0}, "n_rounds"), ({"n_rounds": 2.5}, "n_rounds"),
        ({"step_size": -1}, "step_size"), ({"gradient_clip": 0}, "gradient_clip"), ({"clip_decay": 1.5}, "clip_decay"),
        ({"ridge": 0}, "ridge"), ({"shares": (1, 1)}, "shares"), ({"shares": (1, 1, 1)}, "shares"),
        ({"shares": "equal"}, "shares"), ({"bins": 1}, "bins"), ({"accounting": "exact"}, "accounting"),
        ({"row_norm": -1.0}, "row_norm"), ({"row_norm": 1e-6}, "row_norm"),
    ],
)  # fmt: skip
def test_parameters_are_checked_before_anything_is_spent(options: dict[str, Any], name: str) -> None:
    X, y = people(50)
    ledger = Ledger(epsilon=2.0, delta=1e-5)
    with pytest.raises(ParameterError) as error:
        BoostedAdaSSPClassifier(delta=1e-6, schema=SCHEMA, random_state=0, **options).fit(X, y, ledger=ledger)
    assert error.value.name == name
    assert not ledger.journal()


# ---- defaults


def test_rounds_grow_with_what_public_metadata_says_of_the_signal() -> None:
    def rounds(rows: int, epsilon: float, features: int, task: Any = "classification") -> int:
        columns = tuple(Column(i, "number", bounds=(0.0, 1.0)) for i in range(features))
        return automatic_rounds(PublicMetadata(columns, task, RowCount(rows), epsilon, 1e-6))

    by_epsilon = [rounds(30_000, epsilon, 14) for epsilon in (0.01, 0.1, 1.0, 10.0)]
    assert by_epsilon == [5, 10, 20, 40]
    assert rounds(30_000, 1.0, 140) < rounds(30_000, 1.0, 14) < rounds(3_000_000, 1.0, 14)
    assert rounds(10**9, 10.0, 1, "regression") == 10


def test_the_plan_depends_on_public_metadata_alone() -> None:
    X, y = people(400)
    model = BoostedAdaSSPClassifier(delta=1e-6, schema=SCHEMA)
    planned = model.plan(X, y)
    other = X.assign(age=1.0, hours=2.0, job="zebra")
    assert model.plan(other, np.where(np.arange(400) < 1, "yes", "no")) == planned
    assert planned["gradients"].times == 20


def test_a_shrinking_clip_lowers_the_sensitivity_of_later_rounds() -> None:
    wanted = LinearSettings(loss_named("squared"), rounds=4, clip=1.0, clip_decay=0.5)
    plan = plan_linear(wanted).calibrate(epsilon=1.0, delta=1e-6)
    session = ExactSession()
    boost(rows_of([[ENTRY_ONE]] * 3, [1, 1, 0], intercept=ENTRY_ONE), RowBound(2 * ENTRY_ONE**2), wanted, plan, session)
    sizes = [mechanism.sensitivity for label, mechanism, _ in session.seen if label == "gradients"]
    assert np.allclose(np.array(sizes[1:]) / sizes[:-1], 0.5, rtol=1e-4)


# ---- parts


def test_parts_read_by_workers_give_the_bits_of_the_whole_table() -> None:
    X, y = people(300)
    encoder = RowEncoder(read_table(X, SCHEMA).columns, bins=5)
    frame = X.assign(answer=y)
    parts = [
        pickle.loads(pickle.dumps(LinearRecords(FramePart(piece), encoder, "answer", classes=("no", "yes")))).open()
        for piece in (frame[:100], frame[100:101], frame[101:])
    ]
    whole = encoded_rows(encoder, read_table(X, SCHEMA), read_labels(y, ("no", "yes")))
    weights = np.random.default_rng(0).integers(-(2**20), 2**20, (1, encoder.width))
    together = SumOfParts(parts)
    assert together.columns == whole.columns
    assert np.array_equal(together.gram(), whole.gram())
    loss = loss_named("logistic")
    assert np.array_equal(together.gradient_sum(loss, weights, 2**15), whole.gradient_sum(loss, weights, 2**15))


def test_a_regression_takes_no_other_loss() -> None:
    with pytest.raises(ParameterError, match="squared"):
        BoostedAdaSSPRegressor(loss="hinge", delta=1e-6, schema=Schema(rows=3)).plan(np.zeros((3, 1)), np.zeros(3))
