"""Trees that start from a released linear model: what they see of a record, what is planned, what is kept."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from ledgerwood.errors import ParameterError
from ledgerwood.learners import (
    BoostedAdaSSPRegressor,
    PrivateBoostingRegressor,
    PrivateClassifier,
    PrivateRegressor,
    Schema,
    load,
)
from ledgerwood.learners.auto.linear_start import LARGEST_START, LinearStart, start_scores
from ledgerwood.learners.data.table import read_table
from ledgerwood.learners.trees.aggregator import SCORE_BITS, BinEdges, Structure
from ledgerwood.learners.trees.local_aggregator import LocalAggregator
from ledgerwood.learners.trees.loss import make_loss

SCHEMA = Schema(bounds=dict.fromkeys(range(5), (0.0, 1.0)), target_bounds=(0, 3), rows="public")
ROOT = Structure(0, np.empty(0, dtype=np.int32), np.empty((0, 256), dtype=np.uint8))


def table(n: int = 4000, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 5))
    return X, X[:, 0] + X[:, 1] + (X[:, 2] > 0.5)


def fitted(**options) -> tuple[PrivateRegressor, np.ndarray, np.ndarray]:
    X, y = table()
    return PrivateRegressor(epsilon=4.0, delta=1e-5, schema=SCHEMA, random_state=0, **options).fit(X, y), X, y


def test_one_plan_pays_for_both_parts_and_the_share_is_the_linear_part_of_mu_squared() -> None:
    model, X, y = fitted()
    choice, plan = model.explain_choice(), model.plan_
    assert "then" in choice.model and choice.linear_share == 0.3
    of = {release.label: release.times / release.scale**2 for release in plan.releases()}
    linear = of["cross products"] + of["gradients"]
    assert linear / sum(of.values()) == pytest.approx(choice.linear_share, rel=1e-6)
    assert plan.account().epsilon <= 4.0 and len(model.receipt_) == sum(run.times for run in plan.runs())
    assert model.score(X, y) > 0.9


def test_a_prediction_is_the_linear_score_and_the_trees() -> None:
    model, X, _ = fitted()
    inside = model.fitted_learner()
    assert isinstance(inside, LinearStart)
    linear = np.clip(inside.linear.encoder_.scores(read_table(X, SCHEMA), model.weights_)[:, 0], -1, 1)
    whole = 1.5 + 1.5 * (np.rint(linear * 2**16) / 2**16 + model.forest_.scores(list(X.T.astype(np.float32)))[:, 0])
    assert np.allclose(model.predict(X), np.clip(whole, 0, 3), atol=1e-12)


def test_a_classifier_of_a_few_numbers_starts_from_a_line_too() -> None:
    X, y = table()
    schema = Schema(bounds=SCHEMA.bounds, classes=[0, 1], rows="public")
    model = PrivateClassifier(epsilon=3.0, delta=1e-5, schema=schema, random_state=0).fit(X, (y > 1.5).astype(int))
    assert model.explain_choice().linear_share == 0.15 and model.score(X, (y > 1.5).astype(int)) > 0.8
    raw = start_scores(model.encoder_, read_table(X, schema), model.weights_, "classification")[0] / 2**16
    whole = raw + model.forest_.scores(list(X.T.astype(np.float32)))[:, 0]
    assert np.allclose(model.decision_function(X), whole, atol=1e-12)
    assert ((model.predict_proba(X)[:, 1] > 0.5) == (whole > 0)).all()


def test_a_start_score_does_not_depend_on_where_a_record_stands() -> None:
    model, X, _ = fitted()
    order = np.random.default_rng(1).permutation(len(X))
    one = start_scores(model.encoder_, read_table(X, SCHEMA), model.weights_, "regression")
    other = start_scores(model.encoder_, read_table(X[order], SCHEMA), model.weights_, "regression")
    assert np.array_equal(one[:, order], other)
    for row in (0, 17, 3999):
        alone = start_scores(model.encoder_, read_table(X[row : row + 1], SCHEMA), model.weights_, "regression")
        assert alone[0, 0] == one[0, row]


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_start_scores_stay_in_the_public_range_whatever_the_weights(task: str) -> None:
    model, X, _ = fitted()
    wild = start_scores(model.encoder_, read_table(X, SCHEMA), 1e6 * model.weights_, task)
    assert np.abs(wild).max() == LARGEST_START[task] << SCORE_BITS


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("clip", [0.2, 0.5, None])
def test_no_record_exceeds_its_sensitivity_at_any_start(loss: str, clip: float | None) -> None:
    """One record at a time, over the whole public range of starts: the sums are its pair."""
    made = make_loss(loss, gradient_clip=clip)  # type: ignore[arg-type]
    most = LARGEST_START["regression" if loss == "squared" else "classification"] << SCORE_BITS
    labels = [0, 1] if loss == "logistic" else [-(1 << SCORE_BITS), 0, 1 << SCORE_BITS]
    reached = 0
    for start in np.linspace(-most, most, 41).astype(np.int32):
        for label in labels:
            column = np.zeros(1, dtype=np.float32)
            records = LocalAggregator([column], np.array([label]), n_threads=1, start_scores=np.array([[start]]))
            records.start(made.task)
            records.bin(BinEdges((np.array([0.5], dtype=np.float32),), (0,)))
            pair = records.leaf_sums([ROOT], "hessian")[0, 0, 0]
            reached = max(reached, int((pair * pair).sum()))
    assert 0.9 * made.pair_square(most, "add_remove") <= reached <= made.pair_square(most, "add_remove")


@pytest.mark.parametrize("stop", [3, 40])
def test_a_stopped_fit_leaves_the_linear_part_or_also_the_first_trees(stop: int) -> None:
    model, X, y = fitted(callbacks=[lambda progress: progress.done >= stop])
    assert len(model.receipt_) == stop and hasattr(model, "weights_")
    assert hasattr(model, "forest_") == (stop == 40)
    assert model.score(X, y) > 0.3


def test_it_travels_as_a_file_and_a_pickle_and_is_not_exported_as_trees(tmp_path) -> None:
    model, X, _ = fitted()
    model.save(tmp_path / "model.json")
    for again in (load(tmp_path / "model.json"), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(again.predict(X), model.predict(X)) and again.explain_choice() == model.explain_choice()
    for refused in (lambda: model.to_xgboost(tmp_path / "x.json"), model.rules, model.plot_tree):
        with pytest.raises(ParameterError, match="trees alone"):
            refused()
    assert not hasattr(model, "feature_importances_")


def test_both_parts_together_beat_each_alone() -> None:
    model, X, y = fitted()
    common = {"epsilon": 4.0, "delta": 1e-5, "schema": SCHEMA, "random_state": 0}
    alone = [kind(**common).fit(X, y).score(X, y) for kind in (BoostedAdaSSPRegressor, PrivateBoostingRegressor)]
    assert model.score(X, y) > max(alone)
