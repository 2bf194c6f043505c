"""The parts of a search: whatever units fall on a side, a run trains and scores, and no more than its price shows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.kit.toy_learners import ToyClassifier, ToyRegressor

from ledgerwood.learners import (
    AdaSSPRegressor,
    BoostedAdaSSPClassifier,
    PrivateBoostingClassifier,
    PrivateBoostingRegressor,
    PrivateClassifier,
    PrivateEstimator,
    PrivateRegressor,
    PrivateSearch,
    Schema,
    search,
)
from ledgerwood.learners.evaluation import score_of_rows
from ledgerwood.mechanisms import DiscreteLaplaceMechanism, GaussianMechanism

pytestmark = pytest.mark.filterwarnings("error")
Rows = dict[str, list[tuple[float, Any]]]
"""The rows of each unit: a feature and a label."""


def table_of(units: Rows) -> tuple[Any, list[Any]]:
    rows = [(ord(unit), x, label) for unit, own in units.items() for x, label in own]
    return np.array([row[:2] for row in rows]), [row[2] for row in rows]


Trace = list[tuple[str, Any, float]]


def trace(monkeypatch: pytest.MonkeyPatch, estimator: Any, metric: Any, units: Rows, trains: dict[str, bool]) -> Trace:
    """What a search hands to its mechanisms when the coins are given; answers depend on shapes alone."""
    found: Trace = []

    def recorder(kind: str) -> Any:
        def release(self: Any, value: Any, rng: Any = None) -> Any:
            size = float(getattr(self.sensitivity, "l1", self.sensitivity))
            found.append((kind, np.asarray(value, dtype=np.float64), size))
            return np.random.default_rng(np.size(value)).integers(1, 99, size=np.shape(value))

        return release

    X, y = table_of(units)
    with monkeypatch.context() as patch:
        patch.setattr(GaussianMechanism, "release", recorder("training"))
        patch.setattr(DiscreteLaplaceMechanism, "release", recorder("scoring"))
        patch.setattr(search, "_part", lambda *_: np.array([trains[chr(int(unit))] for unit in X[:, 0]], dtype=bool))
        PrivateSearch(
            estimator, [{}], epsilon=2.0, delta=1e-6, runs=2, metric=metric, random_state=4
        ).fit(X, y)  # fmt: skip
    return found


def neighbours_of(relation: str) -> Iterator[tuple[Rows, Rows, str, str]]:
    """Two tables, the unit that one has, and the unit that the other has in its place (none is '')."""
    base: Rows = {"a": [(0.1, 0), (0.2, 0), (0.3, 1)], "b": [(0.9, 1)]}
    new = [(0.4, 0), (0.6, 1), (0.7, 0), (0.8, 1)]
    if relation == "add_remove":
        yield base, {**base, "c": new}, "", "c"
        yield {"a": base["a"]}, {"a": base["a"], "c": new[:1]}, "", "c"
    else:
        yield {**base, "d": [(0.5, 0), (0.6, 0)]}, {**base, "c": new}, "d", "c"
        yield {"d": [(0.5, 0)]}, {"c": new}, "d", "c"


@pytest.mark.parametrize(
    ("relation", "k", "metric"),
    [
        ("add_remove", 1, "mae"),
        ("add_remove", 3, "accuracy"),
        ("add_remove", 3, "auc"),
        ("replace_one", 1, "auc"),
        ("replace_one", 1, "mae"),
    ],
)
def test_with_the_same_coins_neighbours_differ_in_one_part_within_its_sensitivity(
    monkeypatch: pytest.MonkeyPatch, relation: str, k: int, metric: str
) -> None:
    """Every way the coins may fall. Under replace-one the unit that comes has the coin of the one that goes."""
    metadata: dict[str, Any] = {"target_bounds": (0, 1)} if metric == "mae" else {"classes": [0, 1]}
    schema = Schema(bounds={1: (0, 1)}, unit=0, max_rows_per_unit=k, rows=120, neighbours=relation, **metadata)
    estimator = (ToyRegressor if metric == "mae" else ToyClassifier)(schema=schema)
    for one, other, gone, come in neighbours_of(relation):
        for coins in product([False, True], repeat=len(other)):
            trains = dict(zip(other, coins, strict=True))
            if gone:
                trains[gone] = trains[come]
            a = trace(monkeypatch, estimator, metric, one, trains)
            b = trace(monkeypatch, estimator, metric, other, trains)
            assert [(kind, value.shape, size) for kind, value, size in a] == [
                (kind, value.shape, size) for kind, value, size in b
            ]
            changed = "training" if trains[come] else "scoring"
            for (kind, value, size), (_, same, _) in zip(a, b, strict=True):
                move = np.linalg.norm((value - same).ravel(), 2 if kind == "training" else 1)
                allowed = k * size if kind == "training" else size  # a score's sensitivity is that of the unit
                assert move <= (allowed if kind == changed else 0)


@pytest.mark.parametrize("classes", [[0, 1], [0, 1, 2], None])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_a_search_never_tells_how_many_units_there_are(relation: str, classes: list[int] | None) -> None:
    """With the system's coins one unit often falls on one side, and with it all rows."""
    metadata: dict[str, Any] = {"target_bounds": (0, 1)} if classes is None else {"classes": classes}
    schema = Schema(bounds={1: (0, 1)}, unit=0, rows=120, neighbours=relation, **metadata)
    estimator = (ToyRegressor if classes is None else ToyClassifier)(schema=schema)
    for units in ({"a": [(0.5, 0)] * 119}, {"a": [(0.5, 0)] * 119, "b": [(0.2, 1)]}):
        for _ in range(4):
            found = PrivateSearch(estimator, [{}], epsilon=1.0, delta=1e-6, runs=3).fit(*table_of(units))
            assert found.best_estimator_.receipt_.counts() == {"search": 1}


def test_the_public_number_of_rows_decides_whether_there_is_a_search_not_their_count() -> None:
    X, y = table_of({"a": [(0.5, 0)]})
    estimator = ToyClassifier(schema=Schema(bounds={0: (0, 200), 1: (0, 1)}, classes=[0, 1], rows=120))
    assert PrivateSearch(estimator, [{}], epsilon=1.0, delta=1e-6, runs=2).fit(X, y).predict(X).shape == (1,)


LEARNERS = [
    *(PrivateBoostingClassifier(recipe=recipe, n_trees=2) for recipe in ("xgb_ada", "tr", "dp_rf", "feverless", "pr")),
    PrivateBoostingClassifier(recipe="tr_ih_ebm_batched", n_trees=8),
    PrivateBoostingClassifier(recipe="sarus", n_trees=2),
    PrivateBoostingClassifier(),
    PrivateBoostingRegressor(),
    BoostedAdaSSPClassifier(),
    AdaSSPRegressor(),
    PrivateClassifier(),
    PrivateRegressor(),
]


@pytest.mark.parametrize(
    "learner", LEARNERS, ids=lambda learner: f"{type(learner).__name__}-{getattr(learner, 'recipe', '')}"
)
def test_every_learner_trains_on_any_rows_and_on_none(learner: PrivateEstimator) -> None:
    X = np.random.default_rng(0).uniform(size=(200, 5))
    regression = learner._task == "regression"
    y = X[:, 0] if regression else np.arange(200) % 2
    metadata: dict[str, Any] = {"target_bounds": (0, 1)} if regression else {"classes": [0, 1]}
    if isinstance(learner, AdaSSPRegressor):  # bounds are learned, of the target too
        metadata = {}
    else:
        metadata["bounds"] = dict.fromkeys(range(5), (0, 1))
    learner.set_params(epsilon=3.0, delta=1e-5, schema=Schema(rows=200, **metadata))
    released = set()
    for rows in (np.zeros(200, bool), np.arange(200) == 3, np.arange(200) % 2 == 1):
        learner._forget()
        learner._fit(X, y, rows=rows)
        released.add(tuple(learner.receipt_.counts().items()))
        for part in (rows, ~rows):
            assert score_of_rows(learner, X, y, part, epsilon=0.5).value >= 0
    assert len(released) == 1
