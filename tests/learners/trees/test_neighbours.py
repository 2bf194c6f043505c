"""Neighbouring data: every release of every recipe stays within the sensitivity that its mechanism states."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies
from transcripts import both, seeded

from ledgerwood.accounting import Plan
from ledgerwood.learners.trees.binning import FeatureDomain
from ledgerwood.learners.trees.plan import outline
from ledgerwood.learners.trees.planned_noise import GaussianSums, LaplaceSums, Selections
from ledgerwood.learners.trees.recipes import RECIPES, recipe_settings

DOMAIN = FeatureDomain(((0.0, 1.0), (-1.0, 1.0), (0.0, 0.0)), (0, 0, 3))
SMALL = {"n_trees": 3, "max_depth": 2, "n_bins": 4}

RUNS = [(name, {}) for name in RECIPES] + [
    ("xgb", {"structure": "symmetric"}),
    ("xgb", {"split": "permute_and_flip", "missing": "private"}),
    ("xgb", {"loss": "softmax", "n_classes": 3}),
    ("xgb", {"loss": "squared", "leaf": "laplace"}),
    ("tr", {"loss": "squared", "leaf": "laplace", "min_child_weight": 9.0}),
    ("xgb", {"loss": "hinge"}),
    ("xgb", {"accounting": "paper"}),
    ("xgb", {"gradient_clip": 0.5}),
    ("xgb", {"l2": 0.0}),
    ("tr", {"loss": "softmax", "n_classes": 4}),
    ("tr", {"loss": "softmax", "n_classes": 3, "leaf": "gradient", "candidates": "hessian"}),
    ("tr", {"loss": "squared"}),
    ("tr", {"loss": "hinge", "gradient_clip": 0.7}),
    ("tr", {"loss": "squared", "leaf": "gradient", "gradient_clip": 0.5}),
    ("tr", {"leaf": "noisy_average", "candidates": "quantiles"}),
    ("tr", {"leaf": "noisy_average", "loss": "softmax", "n_classes": 3}),
    ("sarus", {"loss": "softmax", "n_classes": 4, "gradient_clip": 0.8}),
    ("tr", {"leaf": "laplace", "l2": 0.0, "candidates": "laplace_sketch"}),
    ("tr", {"batch": 2, "candidates": "log"}),
    ("tr", {"accounting": "paper"}),
    ("tr_cyc", {"interactions": 0.5, "candidates": "mixed"}),
    ("tr", {"structure": "grid", "loss": "softmax", "n_classes": 3}),
    ("feverless", {"loss": "softmax", "n_classes": 3}),
    ("feverless", {"features": "cyclic", "candidates": "hessian"}),
    ("feverless", {"leaf": "gradient", "structure": "symmetric"}),
    ("pr", {"features": "random", "features_per_tree": 2}),
]


def records(rng: np.random.Generator, n: int, choice):
    """Records that lean to extremes: missing, out of bounds, unknown, all one label."""
    number = rng.choice([0.1, 0.4, 0.6, 0.9, np.nan, 5.0], size=(n, 2))
    category = rng.integers(0, 4, size=n)
    lean = rng.integers(0, 3)
    if choice.loss == "squared":
        y = rng.choice([-65536, 65536, 12345], size=n) if lean == 0 else np.full(n, [-65536, 65536][lean - 1])
    else:
        y = rng.integers(0, choice.n_classes, size=n) if lean == 0 else np.full(n, lean - 1)
    return number, category, y


def data(number, category, y):
    columns = [number[:, 0].astype(np.float32), number[:, 1].astype(np.float32), category.astype(np.int32)]
    return columns, y.astype(np.int32)


def check_line(line, other, neighbours: str) -> None:
    assert line.mechanism == other.mechanism and line.label == other.label  # the noise does not know the data
    a, b = np.asarray(line.value), np.asarray(other.value)
    assert a.shape == b.shape
    change = (a - b).astype(object)
    match line.mechanism:
        case GaussianSums(sensitivity=size):
            assert sum(int(x) ** 2 for x in change.ravel()) <= size**2
        case LaplaceSums(sensitivity=size):
            assert sum(abs(int(x)) for x in change.ravel()) <= size
        case Selections(range_sensitivity=size):
            moved = [int(max(row)) - int(min(row)) for row in change]
            assert sum(moved) <= (2 if neighbours == "replace_one" else 1) * size


def plan_with_noise(own, noise: float) -> Plan:
    """Return the training's plan at some noise, with no target."""
    kinds = ("BoundedRange", "PermuteAndFlip")
    found = []
    for release in outline(own, DOMAIN.n_features).releases():
        selects = release.kind.__name__ in kinds
        found.append(release.with_scale(1 / noise if selects else noise))
    return Plan(found, neighbours=own.neighbours)


@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
@pytest.mark.parametrize(("name", "options"), RUNS, ids=str)
@settings(max_examples=8, deadline=None, derandomize=True)
@given(seed=strategies.integers(0, 2**32 - 1))
def test_no_release_moves_by_more_than_its_sensitivity(name, options, neighbours, seed) -> None:
    if name == "sarus":
        options = {"rows": 0.5 if neighbours == "add_remove" else 1.0, **options}
    own = recipe_settings(name, **{**SMALL, **options}, neighbours=neighbours)
    # Noise is set aside half of the time, so that trainings follow the data into corners.
    rng = np.random.default_rng(seed)
    plan = plan_with_noise(own, float(rng.choice([0.01, 10.0])))
    number, category, y = records(rng, int(rng.integers(1, 30)), own)
    if neighbours == "add_remove":
        second = data(number[:-1], category[:-1], y[:-1])
    else:
        new = records(rng, 1, own)
        second = data(*(np.concatenate((old[:-1], one)) for old, one in zip((number, category, y), new)))
    first = data(number, category, y)
    if rng.integers(2):
        first, second = second, first
    lines, others, model, again = both(own, DOMAIN, plan, first, second, seeded(rng))
    for line, other in zip(lines, others, strict=True):
        check_line(line, other, neighbours)
    # With the same outputs the models agree in every bit: nothing else of the data is in them.
    assert len(model.trees) == len(again.trees)
    for one, two in zip(model.trees, again.trees):
        assert np.array_equal(one.weights, two.weights)
        for kept, other in ((one.cover, two.cover), (one.noise, two.noise)):
            assert (kept is None) == (other is None) and np.array_equal(kept, other)
        assert np.array_equal(one.structure.left, two.structure.left)
        assert np.array_equal(one.structure.feature, two.structure.feature)
    for e, f in zip(model.bin_edges, again.bin_edges):
        assert all(np.array_equal(x, y) for x, y in zip(e.thresholds, f.thresholds))
