"""Private regressions against ridge regression without privacy, on abalone, california and powerplant.

    python -m benchmarks.linear.regression --data DIR

Seeded, resumable; rows go to ``benchmarks/results/linear/regression.csv``.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.linear.cases import DELTA, EPSILONS, REGRESSION, REPORTED, RESULTS, Case, Runs
from ledgerwood.learners import Schema
from ledgerwood.learners.data.table import read_table
from ledgerwood.learners.linear import AdaSSPRegressor, BoostedAdaSSPRegressor
from ledgerwood.learners.linear.encoding import RowEncoder

MODELS: dict[str, tuple[Any, dict[str, Any]]] = {
    "AdaSSP": (AdaSSPRegressor, {}),
    "AdaSSP, paper": (AdaSSPRegressor, {"accounting": "paper"}),
    "boosted": (BoostedAdaSSPRegressor, {}),
    "boosted, paper, 10 rounds": (BoostedAdaSSPRegressor, {"accounting": "paper", "n_rounds": 10}),
}


def ridge(case: Case, train: np.ndarray, test: np.ndarray, bins: int | None) -> float:
    """R^2 of scikit-learn's ridge regression on the same design."""
    from sklearn.linear_model import Ridge

    table = read_table(case.X, Schema(bounds=case.bounds, categories=case.categories))
    design = RowEncoder(table.columns, bins).encode(table).dense()[:, 1:] / 4096
    return float(Ridge(alpha=1.0).fit(design[train], case.y[train]).score(design[test], case.y[test]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    runs = Runs(given.out / "regression.csv", ("dataset", "method", "bins", "epsilon", "seed"), ("r2",))
    for name in REGRESSION:
        case = Case(given.data, name)
        schema = Schema(bounds=case.bounds, categories=case.categories, target_bounds=case.target_bounds)
        for seed in REPORTED:
            train, test = case.split(seed)
            for bins in (None, 8):
                key: dict[str, Any] = {"dataset": name, "bins": bins, "seed": seed}
                if not runs.has(**key, method="ridge, not private", epsilon="inf"):
                    value = round(ridge(case, train, test, bins), 5)
                    runs.add(**key, method="ridge, not private", epsilon="inf", r2=value)
                for method, (kind, options) in MODELS.items():
                    for epsilon in EPSILONS:
                        if runs.has(**key, method=method, epsilon=epsilon):
                            continue
                        model = kind(
                            epsilon=epsilon, delta=DELTA, schema=schema, bins=bins, random_state=seed, **options
                        ).fit(case.X.iloc[train], case.y[train])
                        value = round(model.score(case.X.iloc[test], case.y[test]), 5)
                        runs.add(**key, method=method, epsilon=epsilon, r2=value)


if __name__ == "__main__":
    main()
