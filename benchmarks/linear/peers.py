"""interpret's DP-EBM and diffprivlib's LogisticRegression on the same splits, in an environment of their own.

    python -m venv peers && peers/bin/pip install interpret-core diffprivlib "scikit-learn<1.8" pandas pyarrow
    peers/bin/python -m benchmarks.linear.peers --data DIR

Both get the public bounds. diffprivlib is pure DP: its delta is 0. Rows join ``benchmarks/results/linear/runs.csv``.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.linear.cases import (
    CLASSIFICATION,
    DELTA,
    EPSILONS,
    REPORTED,
    RESULTS,
    RUN_KEYS,
    RUN_VALUES,
    Case,
    Runs,
    scores,
)  # fmt: skip


def dp_ebm(case: Case, train: np.ndarray, epsilon: float, seed: int, rounds: int) -> Any:
    from interpret.privacy import DPExplainableBoostingClassifier

    X = case.X.iloc[train]
    numeric = [column for column in X if column in case.bounds or case.name == "a9a"]
    model = DPExplainableBoostingClassifier(
        epsilon=epsilon, delta=DELTA, max_rounds=rounds, random_state=seed, n_jobs=1,
        feature_types=["continuous" if column in numeric else "nominal" for column in X],
        privacy_bounds={column: case.bounds.get(column, (0, 1)) for column in numeric},
    )  # fmt: skip
    return model.fit(X, case.y[train])


def encoded(case: Case) -> tuple[np.ndarray, float]:
    """Numbers in -1 .. 1 and indicators, with the public norm: what our own encoding does."""
    blocks = []
    for column in case.X:
        if column in case.categories:
            values = case.X[column].to_numpy(dtype=object)
            blocks.append(np.array([[v == c for c in case.categories[column]] for v in values], dtype=float))
        else:
            low, high = case.bounds[column]
            blocks.append(((case.X[column].clip(low, high) - low) / (high - low) * 2 - 1).to_numpy()[:, None])
    return np.hstack(blocks), case.row_norm or float(np.sqrt(case.X.shape[1]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--seeds", type=int, default=2)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    runs = Runs(given.out / "runs.csv", RUN_KEYS, RUN_VALUES)
    for seed in REPORTED[: given.seeds]:
        for name in reversed(CLASSIFICATION):
            case = Case(given.data, name)
            train, test = case.split(seed)
            for epsilon in EPSILONS:
                for method, rounds in (("diffprivlib LR", 0), ("interpret DP-EBM", 300)):
                    key = {"dataset": name, "method": method, "rounds": rounds, "epsilon": epsilon, "seed": seed}
                    if runs.has(**key):
                        continue
                    began = time.process_time()
                    if rounds:
                        model = dp_ebm(case, train, epsilon, seed, rounds)
                        decision = model.predict_proba(case.X.iloc[test])[:, 1] - 0.5
                    else:
                        from diffprivlib.models import LogisticRegression

                        design, norm = encoded(case)
                        model = LogisticRegression(epsilon=epsilon, data_norm=norm, random_state=seed, max_iter=200)
                        decision = model.fit(design[train], case.y[train]).decision_function(design[test])
                    spent = round(time.process_time() - began, 2)
                    decision = np.nan_to_num(np.asarray(pd.Series(decision)))
                    runs.add(**key, **scores(case.y[test], decision), cpu=spent)


if __name__ == "__main__":
    main()
