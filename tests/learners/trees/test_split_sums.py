"""Noisy sums read as splits: against quadrature, least squares, XGBoost's gain and repeated noise."""

from __future__ import annotations

from dataclasses import replace

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerwood.learners import PrivateBoostingClassifier, PrivateBoostingRegressor, Schema
from ledgerwood.learners.trees.split_sums import (
    NodeTotals,
    SideSums,
    SumsNoise,
    clipped_gain,
    posterior_of,
    reconciled,
    weight_variance,
)

numbers = st.floats(-50, 50)
positive = st.floats(0.1, 20)


def side(gradient: object, hessian: object, parts: object = 1.0) -> SideSums:
    return SideSums(*(np.asarray(x, dtype=np.float64) for x in (gradient, hessian, parts)))


@given(hessian=st.floats(-300, 300), sigma=positive, parts=st.integers(1, 40))
def test_the_hessian_is_the_mean_of_a_positive_number_seen_through_noise(
    hessian: float, sigma: float, parts: int
) -> None:
    _, found = posterior_of(side([1.0], [hessian], [float(parts)]), SumsNoise(1.0, sigma), 1.0)
    with mpmath.workdps(50):
        spread = mpmath.mpf(sigma) * mpmath.sqrt(parts)
        at = mpmath.mpf(hessian) / spread
        expected = hessian + spread * mpmath.npdf(at) / mpmath.ncdf(at)
    if hessian > -20 * sigma:
        assert found.item() == pytest.approx(float(expected), rel=1e-9)
    assert found.item() > 0 or hessian < -30 * sigma


@given(hessian=st.floats(1, 1000), gradient=numbers, sigma=positive, spread=st.floats(0.1, 20))
def test_the_gradient_is_the_posterior_mean_under_the_prior_of_weights(
    hessian: float, gradient: float, sigma: float, spread: float
) -> None:
    variance = (spread / hessian) ** 2  # of the weights; that of the sums is spread squared
    found, _ = posterior_of(side([gradient], [hessian]), SumsNoise(sigma, 1e-9), variance)
    exact = np.linspace(-abs(gradient) - 3, abs(gradient) + 3, 400_001)
    exponent = -((exact / spread) ** 2 + ((gradient - exact) / sigma) ** 2) / 2
    density = np.exp(exponent - exponent.max())
    if min(sigma, spread) < 0.4:  # the grid holds all of the posterior
        assert found.item() == pytest.approx((exact * density).sum() / density.sum(), rel=1e-6, abs=1e-6)
    assert abs(found.item()) <= abs(gradient)


def test_without_noise_nothing_is_changed() -> None:
    sides = side([3.0, -4.0], [5.0, 7.0])
    gradient, hessian = posterior_of(sides, SumsNoise(1e-12, 1e-12), weight_variance((sides,), SumsNoise(1e-12, 1e-12)))
    assert gradient == pytest.approx([3.0, -4.0])
    assert hessian == pytest.approx([5.0, 7.0])


@given(sums=st.tuples(numbers, numbers, numbers), parts=st.tuples(positive, positive, positive))
def test_sides_and_their_sum_are_reconciled_by_least_squares(
    sums: tuple[float, float, float], parts: tuple[float, float, float]
) -> None:
    left, right = reconciled(*(side([[[x]]], [[[-x]]], [[[v]]]) for x, v in zip(sums, parts)))
    design = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    precision = np.diag(1 / np.array(parts))
    covariance = np.linalg.inv(design.T @ precision @ design)
    expected = covariance @ design.T @ precision @ np.array(sums)
    assert (left.gradient.item(), right.gradient.item()) == pytest.approx(tuple(expected), abs=1e-8)
    assert (left.hessian.item(), right.hessian.item()) == pytest.approx(tuple(-expected), abs=1e-8)
    assert (left.parts.item(), right.parts.item()) == pytest.approx(tuple(np.diag(covariance)))


def test_the_whole_of_a_node_leaves_out_the_feature_in_question() -> None:
    totals = side([[[10.0, 13.0, 4.0]]], [[[1.0, 2.0, 3.0]]], [1.0, 2.0, 4.0])
    parent = side([[20.0]], [[5.0]], [[0.5]])
    place = np.array([0, 1, 1, 2])
    for above in (None, parent):
        found = NodeTotals(totals, above).without(place)
        for i, feature in enumerate(place):
            keep = np.arange(3) != feature
            weight = 1 / np.asarray(totals.parts)[keep]
            values, hessians = totals.gradient[0, 0][keep], totals.hessian[0, 0][keep]
            if above is not None:
                weight, values, hessians = np.append(weight, 2.0), np.append(values, 20.0), np.append(hessians, 5.0)
            assert found.parts[0, 0, i] == pytest.approx(1 / weight.sum())
            assert found.gradient[0, 0, i] == pytest.approx(values @ weight / weight.sum())
            assert found.hessian[0, 0, i] == pytest.approx(hessians @ weight / weight.sum())


def test_a_single_feature_without_a_parent_says_nothing_of_the_whole() -> None:
    whole = NodeTotals(side([[[7.0]]], [[[7.0]]], [3.0]), None).without(np.array([0, 0]))
    assert np.isinf(whole.parts).all()
    one = side([[[1.0, 2.0]]], [[[3.0, 4.0]]], [1.0, 2.0])
    left, right = reconciled(one, one, whole)
    assert (left.gradient == one.gradient).all() and (right.hessian == one.hessian).all()
    assert (left.parts == one.parts).all()


def test_the_variance_of_weights_is_found_below_the_noise() -> None:
    rng = np.random.default_rng(7)
    hessian = rng.uniform(0, 40, size=(1, 1, 100_000))
    gradient = -hessian * rng.normal(0, 0.3, size=hessian.shape)
    noise, parts = SumsNoise(25.0, 9.0), np.array(2.0)
    noisy = SideSums(
        gradient + rng.normal(0, 25 * 2**0.5, size=hessian.shape),
        hessian + rng.normal(0, 9 * 2**0.5, size=hessian.shape),
        np.broadcast_to(parts, hessian.shape),
    )
    assert weight_variance((noisy,), noise) == pytest.approx(0.09, rel=0.1)
    nothing = replace(noisy, gradient=0.9 * (noisy.gradient - gradient))
    assert weight_variance((nothing,), noise) == 0.0


@given(gradient=numbers, hessian=st.floats(-5, 50), l2=st.floats(0.1, 3), clip=st.floats(0.1, 4))
def test_the_clipped_gain_is_twice_what_the_best_allowed_weight_saves(
    gradient: float, hessian: float, l2: float, clip: float
) -> None:
    weights = np.linspace(-clip, clip, 40_001)
    saved = -(gradient * weights + 0.5 * (max(hessian, 0.0) + l2) * weights**2).min()
    found = clipped_gain(np.array([gradient]), np.array([hessian]), l2, clip).item()
    assert found == pytest.approx(2 * saved, rel=1e-6, abs=1e-6)


def test_an_empty_side_is_not_preferred_to_a_real_one() -> None:
    """A thousand empty sides beside one of ten standard deviations: the released gain takes an empty one."""
    rng = np.random.default_rng(3)
    noise = SumsNoise(30.0, 9.0)
    gradient, hessian = np.zeros((1, 200, 1001)), np.zeros((1, 200, 1001))
    gradient[..., 0], hessian[..., 0] = 300.0, 900.0
    noisy = SideSums(
        gradient + rng.normal(0, noise.gradient, size=gradient.shape),
        hessian + rng.normal(0, noise.hessian, size=gradient.shape),
        np.ones(1001),
    )
    released = np.square(noisy.gradient) / (np.maximum(noisy.hessian, 0) + 1)
    assert (released.argmax(axis=-1) == 0).mean() < 0.05
    expected, curvature = posterior_of(noisy, noise, weight_variance((noisy,), noise))
    assert ((expected**2 / (curvature + 1)).argmax(axis=-1) == 0).mean() > 0.95


def _table(rows: int = 12_000) -> tuple[np.ndarray, np.ndarray, dict[str, object]]:
    rng = np.random.default_rng(11)
    X = rng.uniform(-1, 1, size=(rows, 8))
    signal = 1.5 * X[:, 0] - X[:, 1] + X[:, 2] * X[:, 3]
    return X, signal + rng.normal(0, 0.3, size=rows), {"bounds": dict.fromkeys(range(8), (-1.0, 1.0)), "rows": rows}


@pytest.mark.parametrize("recipe", ["feverless", "pr"])
def test_splits_of_noisy_sums_learn_at_a_small_budget(recipe: str) -> None:
    from sklearn.metrics import r2_score, roc_auc_score

    X, target, facts = _table()
    y = (target > 0).astype(int)
    common = {"recipe": recipe, "epsilon": 1.0, "delta": 1e-6, "random_state": 0, "n_threads": 1}
    classifier = PrivateBoostingClassifier(schema=Schema(**facts, classes=[0, 1]), **common).fit(X, y)
    assert roc_auc_score(y, classifier.predict_proba(X)[:, 1]) > 0.8
    regressor = PrivateBoostingRegressor(schema=Schema(**facts, target_bounds=(-5.0, 5.0)), **common).fit(X, target)
    assert r2_score(target, regressor.predict(X)) > 0.2


@pytest.mark.parametrize("split", ["histogram", "partial"])
def test_leaves_of_a_forest_average_the_labels(split: str) -> None:
    X, target, facts = _table()
    y = (target > 0).astype(int)
    model = PrivateBoostingClassifier(
        recipe="dp_rf", split=split, n_trees=4, epsilon=8.0, delta=1e-6, schema=Schema(**facts, classes=[0, 1]),
        random_state=0, n_threads=1,
    ).fit(X, y)  # fmt: skip
    shares = model.predict_proba(X)[:, 1]
    assert shares.min() >= 0 and shares.max() <= 1
    assert np.mean((shares > 0.5) == y) > 0.75
    assert {release.label for release in model.plan_.releases()} == {"split"}
