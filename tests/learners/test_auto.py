"""The automatic choice: pure, from public metadata, explained, and spent as planned."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerwood.accounting.curves import gaussian
from ledgerwood.errors import ParameterError
from ledgerwood.learners import PrivateBoostingClassifier, PrivateBoostingRegressor, Schema, plan_boosting
from ledgerwood.learners.trees.recipes import choose_trees, signal_to_noise

SCHEMA = Schema(bounds=dict.fromkeys(range(3), (0.0, 1.0)), classes=[0, 1], rows="public")


def table(n: int = 400, m: int = 3, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, m))
    return X, (X[:, 0] > 0.5).astype(int)


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 10**7),
    m=st.integers(1, 500),
    epsilon=st.floats(0.01, 10),
    classes=st.sampled_from([None, 1, 2, 3, 10]),
    neighbours=st.sampled_from(["add_remove", "replace_one"]),
)
def test_any_public_metadata_has_a_choice_whose_every_setting_has_a_reason(n, m, epsilon, classes, neighbours) -> None:
    choice = choose_trees(n_rows=n, n_features=m, epsilon=epsilon, delta=1e-6, n_classes=classes, neighbours=neighbours)
    for reason in choice.reasons:
        assert getattr(choice.settings, reason.name) == reason.value and reason.why
        assert reason.name in str(choice)
    again = choose_trees(n_rows=n, n_features=m, epsilon=epsilon, delta=1e-6, n_classes=classes, neighbours=neighbours)
    assert again == choice


@pytest.mark.parametrize(("epsilon", "delta"), [(0.01, 1e-9), (0.1, 1e-5), (1.0, 1e-6), (10.0, 1e-3), (1e-3, 0.3)])
def test_the_signal_to_noise_ratio_is_rows_times_the_gaussian_parameter(epsilon: float, delta: float) -> None:
    mu = signal_to_noise(1000, epsilon, delta) / 1000
    assert gaussian.delta(mu, epsilon) == pytest.approx(delta, rel=1e-6)
    assert signal_to_noise(1000, epsilon, delta, 4) == pytest.approx(250 * mu)


def test_trees_grow_with_the_signal_and_never_without_bound() -> None:
    trees = [
        choose_trees(n_rows=n, n_features=14, epsilon=0.5, delta=1e-6).settings.n_trees
        for n in (10, 1000, 10**4, 3 * 10**4, 10**5, 10**7)
    ]
    assert trees == sorted(trees) and trees[0] >= 40 and trees[-1] <= 1000


def test_turns_of_a_feature_grow_with_the_cube_root_of_its_signal() -> None:
    for n, m, times in ((10**5, 20, 1), (13_000, 8, 2), (10**4, 3, 3)):
        choice = choose_trees(n_rows=n, n_features=m, epsilon=0.5, delta=1e-6)
        turns = 3 * (signal_to_noise(n, 0.5, 1e-6) / m) ** (1 / 3)
        assert choice.settings.n_trees == round(times * turns * m) and f"{turns:.1f} turns" in str(choice)


def test_the_plan_shown_is_the_plan_spent_and_the_choice_is_explained() -> None:
    X, y = table()
    model = PrivateBoostingClassifier(epsilon=2.0, delta=1e-5, schema=SCHEMA)
    shown, before = model.plan(X, y), model.explain_choice(X, y)
    model.fit(X, y)
    assert model.plan_ == shown and model.explain_choice() == before
    assert model.settings_ == before.settings
    spent = model.privacy_statement().to_dict()["releases"]
    assert len(spent) == before.settings.n_trees
    assert "n_trees" in str(before) and "rows = 400" in str(before)
    page = plan_boosting("auto", n_features=3, epsilon=2.0, delta=1e-5, n_rows=400)
    assert page == shown


def test_the_choice_does_not_look_at_the_data() -> None:
    X, y = table()
    model = PrivateBoostingClassifier(epsilon=1.0, delta=1e-5, schema=SCHEMA)
    other = np.zeros_like(X), np.zeros_like(y)
    assert model.plan(X, y) == model.plan(*other) and model.explain_choice(X, y) == model.explain_choice(*other)


def test_declared_rows_rule_the_choice_and_a_unit_of_many_rows_weakens_it() -> None:
    X, y = table()
    declared = Schema(bounds=SCHEMA.bounds, classes=[0, 1], rows=10**6)
    model = PrivateBoostingClassifier(epsilon=1.0, delta=1e-6, schema=declared)
    assert dict(model.explain_choice(X, y).metadata)["rows"] == 10**6
    one, four = (
        dict(choose_trees(n_rows=9000, n_features=5, epsilon=1.0, delta=1e-6, max_rows_per_unit=k).metadata)[
            "signal-to-noise ratio n mu"
        ]
        for k in (1, 4)
    )
    assert one == pytest.approx(4 * four)


def test_settings_given_by_hand_replace_the_chosen_ones() -> None:
    X, y = table()
    model = PrivateBoostingClassifier(epsilon=5.0, delta=1e-5, schema=SCHEMA, n_trees=9, interactions=0.0).fit(X, y)
    assert len(model.forest_.trees) == 9 and {tree.structure.depth for tree in model.forest_.trees} == {3}


def test_auto_learns_three_classes_numbers_and_undeclared_columns() -> None:
    X, _ = table(3000)
    schema = Schema(bounds=SCHEMA.bounds, classes=[0, 1, 2], rows="public")
    y = (3 * X[:, 0]).astype(int)
    assert PrivateBoostingClassifier(epsilon=20.0, schema=schema, random_state=0).fit(X, y).score(X, y) > 0.8
    target = Schema(bounds=SCHEMA.bounds, target_bounds=(0, 2), rows="public")
    z = X[:, 0] + X[:, 1]
    assert PrivateBoostingRegressor(epsilon=20.0, schema=target, random_state=0).fit(X, z).score(X, z) > 0.8
    bare = PrivateBoostingClassifier(epsilon=20.0, random_state=0).fit(X, (z > 1).astype(int))
    assert bare.score(X, z > 1) > 0.8


def test_auto_finds_a_pure_interaction_of_few_features() -> None:
    X, _ = table(4000, 3, seed=1)
    y = ((X[:, 0] > 0.5) ^ (X[:, 1] > 0.5)).astype(int)
    model = PrivateBoostingClassifier(epsilon=3.0, delta=1e-5, schema=SCHEMA, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.85


def test_what_has_no_choice_says_so() -> None:
    X, y = table()
    with pytest.raises(ParameterError):
        PrivateBoostingClassifier(recipe="tr", schema=SCHEMA).explain_choice(X, y)
    with pytest.raises(ParameterError):
        choose_trees(n_rows=0, n_features=3, epsilon=1.0, delta=1e-5)
    with pytest.raises(ParameterError):
        choose_trees(n_rows=10, n_features=3, epsilon=1.0, delta=0.0)
