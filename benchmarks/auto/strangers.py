"""Tables that the rule was not made on: scikit-learn's embedded data, and generated ones with odd shapes.

They are there to find cliffs, not to rank: nothing about them is typical, and each is odd in a way that a rule made on
census and credit tables could have overlooked. Generated tables are drawn anew for every seed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from benchmarks.auto.problems import Problem
from ledgerwood.learners import Schema

__all__ = ["STRANGERS", "stranger"]


def _numbers(X: np.ndarray, y: np.ndarray, task: str, spread: float = 1.0) -> Problem:
    """All columns are numbers; bounds are the range of the column, ``spread`` times as wide."""
    frame = pd.DataFrame({f"x{i}": column for i, column in enumerate(np.asarray(X, dtype=float).T)})
    return _table(frame, y, task, spread=spread)


def _table(frame: pd.DataFrame, y: np.ndarray, task: str, spread: float = 1.0) -> Problem:
    bounds, categories = {}, {}
    for name, column in frame.items():
        if column.dtype == object:
            categories[name] = sorted(column.unique())
            continue
        low, high = float(column.min()), float(column.max())
        high += low == high  # a constant column is declared as something that could vary
        wide = (spread - 1) * (high - low) / 2
        bounds[name] = (low - wide, high + wide)
    if task == "regression":
        y = np.asarray(y, dtype=float)
        low, high = float(y.min()), float(y.max())
        wide = (spread - 1) * (high - low) / 2
        schema = Schema(bounds=bounds, categories=categories, target_bounds=(low - wide, high + wide))
        return Problem(frame, y, schema, task)
    y = np.asarray(y, dtype=int)
    return Problem(frame, y, Schema(bounds=bounds, categories=categories, classes=np.unique(y).tolist()), task)


def _embedded(name: str, task: str) -> Callable[[int], Problem]:
    def make(seed: int) -> Problem:
        from sklearn import datasets

        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        return _numbers(X, y, task)

    return make


def _made(task: str = "binary", spread: float = 1.0, **options: object) -> Callable[[int], Problem]:
    def make(seed: int) -> Problem:
        from sklearn.datasets import make_classification

        return _numbers(*make_classification(random_state=seed, **options), task, spread)

    return make


def _friedman(number: int, rows: int, spread: float = 1.0) -> Callable[[int], Problem]:
    def make(seed: int) -> Problem:
        from sklearn import datasets

        found = getattr(datasets, f"make_friedman{number}")(
            rows, random_state=seed, noise={1: 1.0, 2: 50.0, 3: 0.1}[number]
        )
        return _numbers(*found, "regression", spread)

    return make


def _categories(seed: int) -> Problem:
    """Twelve columns of 2 to 40 categories; three of them add up, two interact."""
    rng = np.random.default_rng(seed)
    sizes = [2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 40]
    codes = np.stack([rng.integers(0, size, 20_000) for size in sizes], axis=1)
    effects = [rng.normal(size=size) for size in sizes]
    score = effects[3][codes[:, 3]] + effects[7][codes[:, 7]] + effects[11][codes[:, 11]]
    score += rng.normal(size=(sizes[1], sizes[5]))[codes[:, 1], codes[:, 5]]
    y = rng.uniform(size=len(codes)) < 1 / (1 + np.exp(-score))
    frame = pd.DataFrame({f"c{i}": [f"v{v}" for v in column] for i, column in enumerate(codes.T)}, dtype=object)
    return _table(frame, y, "binary")


def _mixed(task: str) -> Callable[[int], Problem]:
    """Friedman 1 with four columns of categories, one of which matters, and two constant columns."""

    def make(seed: int) -> Problem:
        from sklearn.datasets import make_friedman1

        rng = np.random.default_rng(seed)
        X, z = make_friedman1(12_000, noise=1.0, random_state=seed)
        frame = pd.DataFrame({f"x{i}": column for i, column in enumerate(X.T)})
        code = rng.integers(0, 6, len(z))
        z = z + np.array([-4, -2, 0, 1, 2, 5])[code]
        frame["c0"] = pd.Series([f"v{v}" for v in code], dtype=object)
        for i in range(1, 4):
            frame[f"c{i}"] = pd.Series([f"v{v}" for v in rng.integers(0, 10, len(z))], dtype=object)
        frame["same"], frame["word"] = 7.0, pd.Series(["w"] * len(z), dtype=object)
        return _table(frame, z if task == "regression" else z > np.quantile(z, 0.8), task)

    return make


def _heavy(task: str) -> Callable[[int], Problem]:
    """Amounts: log-normal columns and target, bounds far above most of them."""

    def make(seed: int) -> Problem:
        rng = np.random.default_rng(seed)
        X = np.exp(rng.normal(0, 1.5, size=(15_000, 8)))
        z = np.exp(0.5 * np.log(X[:, 0]) + 0.3 * np.log(X[:, 1]) + 0.5 * rng.normal(size=len(X)))
        return _numbers(X, z if task == "regression" else z > np.quantile(z, 0.9), task)

    return make


def _exclusive(seed: int) -> Problem:
    """Ten numbers, two of which decide by their signs together: no single feature tells anything."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(30_000, 10))
    return _numbers(X, (X[:, 0] * X[:, 1] > 0) ^ (rng.uniform(size=len(X)) < 0.05), "binary")


def _noise(seed: int) -> Problem:
    """Nothing to learn."""
    rng = np.random.default_rng(seed)
    return _numbers(rng.uniform(size=(4000, 12)), rng.integers(0, 2, 4000), "binary")


STRANGERS: dict[str, Callable[[int], Problem]] = {
    "breast_cancer": _embedded("breast_cancer", "binary"),
    "wine": _embedded("wine", "multiclass"),
    "digits": _embedded("digits", "multiclass"),
    "diabetes": _embedded("diabetes", "regression"),
    "100 rows": _made(n_samples=150, n_features=6, n_informative=3),
    "one feature": _made(n_samples=6000, n_features=1, n_informative=1, n_redundant=0, n_clusters_per_class=1),
    "200 000 rows": _made(n_samples=200_000, n_features=12, n_informative=8, n_clusters_per_class=4),
    "300 features": _made(n_samples=8000, n_features=300, n_informative=20),
    "1 % positive": _made(n_samples=60_000, n_features=20, n_informative=8, weights=[0.99], flip_y=0.001),
    "wide bounds": _made(n_samples=20_000, n_features=12, n_informative=6, spread=10.0),
    "12 classes": _made(
        "multiclass", n_samples=20_000, n_features=24, n_informative=12, n_classes=12, n_clusters_per_class=1
    ),
    "categories": _categories,
    "mixed columns": _mixed("binary"),
    "amounts": _heavy("binary"),
    "signs of two": _exclusive,
    "nothing to learn": _noise,
    "friedman1": _friedman(1, 20_000),
    "friedman1, 500 rows": _friedman(1, 700),
    "friedman2": _friedman(2, 10_000),
    "friedman3": _friedman(3, 10_000),
    "friedman1, wide bounds": _friedman(1, 10_000, 5.0),
    "mixed columns, number": _mixed("regression"),
    "amounts, number": _heavy("regression"),
}  # fmt: skip


def stranger(name: str, seed: int) -> Problem:
    """Return a table by name."""
    return STRANGERS[name](seed)
