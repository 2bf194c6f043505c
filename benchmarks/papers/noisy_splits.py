"""Splits from noisy sums beside the best random recipes: ``python -m benchmarks.papers.noisy_splits --data DIR``.

AUC or R² on the test rows of splits 0 to 4, 25 trees of depth 4 where a recipe says nothing else. The way of scoring
was chosen on splits from 101 on, so these numbers are of rows that it has not seen.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
from sklearn.metrics import r2_score, roc_auc_score

from benchmarks.papers.run import problem_of
from benchmarks.papers.tables import averaged, cell, table
from ledgerwood import learners as lw

TABLES = (
    "adult", "bank", "credit1", "credit2", "synthetic_cls", "informative_10", "simulated1",
    "california", "powerplant", "abalone", "synthetic_reg",
)  # fmt: skip
RECIPES = ("feverless", "pr", "tr_cyc", "dp_ebm")


def score(name: str, recipe: str, folder: str, epsilon: float, split: int, **options: Any) -> float:
    problem = problem_of(name, folder, split)
    X, y, X_test, y_test = problem.split(split)
    regression = problem.task == "regression"
    made = lw.PrivateBoostingRegressor if regression else lw.PrivateBoostingClassifier
    model = made(recipe=recipe, epsilon=epsilon, delta=1e-5, schema=problem.schema, random_state=split, **options)
    model.fit(X, y)
    if regression:
        return float(r2_score(y_test, model.predict(X_test)))
    return float(roc_auc_score(y_test, model.predict_proba(X_test)[:, 1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="../shared/data")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--tables", nargs="*", default=TABLES)
    parser.add_argument("--recipes", nargs="*", default=RECIPES)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # seeds are for repetition, and every fit would say so
    rows = []
    for name in asked.tables:
        found = [
            averaged(np.array([score(name, recipe, asked.data, asked.epsilon, s) for s in range(asked.splits)]))
            for recipe in asked.recipes
        ]
        rows.append([name, *(cell(gap, 3) for gap in found)])
        print(rows[-1], flush=True)
    print(table(["table", *asked.recipes], rows))


if __name__ == "__main__":
    main()
