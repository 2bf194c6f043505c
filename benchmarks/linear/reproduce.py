"""Rho et al., Figures 2 to 4: F1 and AUROC by epsilon for three losses, four numbers of rounds, and our defaults.

    python -m benchmarks.linear.reproduce --data DIR [--part paper|tight|ebm] [--rounds 1 10] [--seeds 1]

Seeded, hence not private; resumable: rows go to ``benchmarks/results/linear/runs.csv`` one by one. Delta is 1e-6. The
peers' rows are made by ``peers.py`` in an environment of their own.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

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
from ledgerwood.learners import Schema
from ledgerwood.learners.linear import BoostedAdaSSPClassifier

ROUNDS = (1, 10, 100, 1000)


def schema_of(case: Case) -> Schema:
    return Schema(bounds=case.bounds, categories=case.categories, classes=[0, 1])


def methods(case: Case, part: str, counts: list[int]) -> list[tuple[str, int | str, dict[str, Any]]]:
    """Name, rounds and parameters of what is compared."""
    if part == "ebm":
        return [("our DP-EBM recipe", "default", {})]
    if part == "paper":
        return [
            (f"paper {loss}", rounds, {"loss": loss, "accounting": "paper", "n_rounds": rounds})
            for loss in ("squared", "logistic", "hinge")
            for rounds in counts
        ]
    found: list[tuple[str, int | str, dict[str, Any]]] = [("ours", "auto", {})]
    if case.bounds:
        found.append(("ours, 8 bins", "auto", {"bins": 8}))
    return found


def fit(case: Case, train: np.ndarray, options: dict[str, Any], epsilon: float, seed: int) -> Any:
    options = {"row_norm": case.row_norm, "schema": schema_of(case), "random_state": seed, **options}
    model = BoostedAdaSSPClassifier(epsilon=epsilon, delta=DELTA, **options)
    return model.fit(case.X.iloc[train], case.y[train])


def our_ebm(case: Case, train: np.ndarray, epsilon: float, seed: int) -> Any:
    from ledgerwood.learners import PrivateBoostingClassifier

    model = PrivateBoostingClassifier(
        recipe="dp_ebm", epsilon=epsilon, delta=DELTA, schema=schema_of(case), random_state=seed
    )
    return model.fit(case.X.iloc[train], case.y[train])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--part", choices=("paper", "tight", "ebm"), default="tight")
    parser.add_argument("--rounds", type=int, nargs="*", default=list(ROUNDS))
    parser.add_argument("--seeds", type=int, default=len(REPORTED))
    given = parser.parse_args()
    runs = Runs(given.out / "runs.csv", RUN_KEYS, RUN_VALUES)
    for seed in REPORTED[: given.seeds]:
        for name in CLASSIFICATION:
            case = Case(given.data, name)
            train, test = case.split(seed)
            listed = (
                [("our DP-EBM recipe", "default", {})]
                if given.part == "ebm"
                else methods(case, given.part, given.rounds)
            )
            for method, rounds, options in listed:
                for epsilon in EPSILONS:
                    key = {"dataset": name, "method": method, "rounds": rounds, "epsilon": epsilon, "seed": seed}
                    if runs.has(**key):
                        continue
                    began = time.process_time()
                    if given.part == "ebm":
                        model = our_ebm(case, train, epsilon, seed)
                        decision = model.predict_proba(case.X.iloc[test])[:, 1] - 0.5
                    else:
                        model = fit(case, train, options, epsilon, seed)
                        decision = model.decision_function(case.X.iloc[test])
                    spent = round(time.process_time() - began, 2)
                    runs.add(**key, **scores(case.y[test], decision), cpu=spent)


if __name__ == "__main__":
    main()
