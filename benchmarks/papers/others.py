"""Learners of the papers that are no recipes of ours: xgboost without privacy, on a private sketch, on local noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.auto.problems import Problem
from benchmarks.papers.jobs import LOCAL, SKETCHED, Job
from ledgerwood.accounting import Gaussian, calibrate

__all__ = ["other"]


def other(job: Job, problem: Problem, rows: int) -> Any:
    """Return the learner that a job names."""
    options = dict(job.options)
    seed = 1000 * job.split + job.run
    if job.recipe == LOCAL:
        return LocalBoosting(problem, job.epsilon, 1 / rows, options["n_trees"], options["max_depth"], seed)
    model = Trees(problem, options.get("n_trees", 100), 6)
    return Sketched(model, problem, job.epsilon, options["bins"], seed) if job.recipe == SKETCHED else model


def coded(problem: Problem, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with declared categories as xgboost wants them."""
    declared = problem.schema.categories or {}
    return frame.assign(**{c: pd.Categorical(frame[c].astype(str), map(str, v)) for c, v in declared.items()})


class Trees:
    """Boosted trees of xgboost, with its own defaults."""

    def __init__(self, problem: Problem, n_trees: int, max_depth: int) -> None:
        import xgboost

        kind = xgboost.XGBRegressor if problem.task == "regression" else xgboost.XGBClassifier
        self.problem = problem
        self.model = kind(
            n_estimators=n_trees, max_depth=max_depth, learning_rate=0.3, enable_categorical=True, n_jobs=1
        )

    def fit(self, X: pd.DataFrame, y: np.ndarray) -> Trees:
        self.model.fit(coded(self.problem, X), y)
        return self

    def predict(self, X: pd.DataFrame) -> Any:
        return self.model.predict(coded(self.problem, X))

    def predict_proba(self, X: pd.DataFrame) -> Any:
        return self.model.predict_proba(coded(self.problem, X))


class Sketched:
    """The same on the candidates of Grislain & Gonzalez: 50 quantiles of even bins, Laplace noise on their counts."""

    def __init__(self, model: Trees, problem: Problem, epsilon: float, bins: int, seed: int) -> None:
        self.model, self.bounds, self.epsilon, self.bins = model, problem.schema.bounds or {}, epsilon, bins
        self.rng = np.random.default_rng(seed)
        self.cuts: dict[str, np.ndarray] = {}

    def fit(self, X: pd.DataFrame, y: np.ndarray) -> Sketched:
        for column, (low, high) in self.bounds.items():
            edges = np.linspace(low, high, self.bins + 1)
            counts, _ = np.histogram(np.clip(X[column].to_numpy(float), low, high), edges)
            noisy = np.maximum(counts + self.rng.laplace(0, len(self.bounds) / self.epsilon, self.bins), 0)
            share = np.cumsum(noisy) / max(noisy.sum(), 1.0)
            self.cuts[column] = np.unique(
                edges[1:][np.searchsorted(share, np.arange(1, 50) / 50).clip(0, self.bins - 1)]
            )
        self.model.fit(self._cut(X), y)
        return self

    def _cut(self, X: pd.DataFrame) -> pd.DataFrame:
        return X.assign(**{c: np.searchsorted(cuts, X[c].to_numpy(float)) for c, cuts in self.cuts.items()})

    def predict(self, X: pd.DataFrame) -> Any:
        return self.model.predict(self._cut(X))

    def predict_proba(self, X: pd.DataFrame) -> Any:
        return self.model.predict_proba(self._cut(X))


class LocalBoosting:
    """Maddock et al., 5.3.2: every record sends (g, h) under Gaussian noise of its own, once per tree; xgboost goes on.

    The sensitivity is that of the paper's other methods, sqrt(17/16): half of what two records of one person may differ
    by, which is to the baseline's advantage.
    """

    def __init__(self, problem: Problem, epsilon: float, delta: float, n_trees: int, max_depth: int, seed: int) -> None:
        self.problem, self.n_trees, self.max_depth = problem, n_trees, max_depth
        mu = calibrate(lambda mu: Gaussian(mu=mu), epsilon=epsilon, delta=delta)
        self.sigma = math.sqrt(17 / 16 * n_trees) / mu
        self.rng = np.random.default_rng(seed)

    def fit(self, X: pd.DataFrame, y: np.ndarray) -> LocalBoosting:
        import xgboost

        def pairs(margins: np.ndarray, data: Any) -> tuple[np.ndarray, np.ndarray]:
            p = 1 / (1 + np.exp(-np.clip(margins, -30, 30)))
            noise = self.rng.normal(0, self.sigma, (2, len(y)))
            return p - y + noise[0], p * (1 - p) + noise[1]

        data = xgboost.DMatrix(coded(self.problem, X), y, enable_categorical=True)
        settings = {
            "max_depth": self.max_depth,
            "max_bin": 32,
            "eta": 0.3,
            "lambda": 1.0,
            "base_score": 0.5,
            "nthread": 1,
        }
        self.model = xgboost.train(settings, data, self.n_trees, obj=pairs)
        return self

    def _margins(self, X: pd.DataFrame) -> Any:
        import xgboost

        return self.model.predict(xgboost.DMatrix(coded(self.problem, X), enable_categorical=True), output_margin=True)

    def predict(self, X: pd.DataFrame) -> Any:
        return (self._margins(X) > 0).astype(int)

    def predict_proba(self, X: pd.DataFrame) -> Any:
        margins = self._margins(X).astype(float)
        p = 0.5 + 0.5 * margins / (
            1 + np.abs(margins)
        )  # in the order of the margins; a sigmoid would round large ones to 1
        return np.stack([1 - p, p], axis=1)
