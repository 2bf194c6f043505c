"""What each choice of the defaults is worth: one changed at a time, on selection splits.

    python -m benchmarks.linear.ablation --data DIR [--table]

AUROC on a9a, Bank and Credit default (8 bins), R^2 on the three regressions. Seeded, resumable; rows go to
``benchmarks/results/linear/ablation.csv``. ``--table`` prints the differences to the defaults.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd

from benchmarks.linear.cases import CLASSIFICATION, DELTA, REGRESSION, RESULTS, Case, Runs, scores
from ledgerwood.accounting import Gaussian, calibrate
from ledgerwood.learners import Schema
from ledgerwood.learners.linear import BoostedAdaSSPClassifier, BoostedAdaSSPRegressor, plan
from ledgerwood.learners.linear.ridge import noise_norm
from ledgerwood.learners.linear.sensitivity import RowBound, packed, unpacked

SPLITS = (100, 101, 102, 103)
EPSILONS = (0.1, 1.0)
HERE = "ledgerwood.learners.linear.boosting"
Change = Callable[[], AbstractContextManager[Any]]


def plain_triangle() -> AbstractContextManager[Any]:
    """X'X released as Rho et al. do: every entry of the triangle with weight 1."""
    stack = ExitStack()
    own = RowBound.gram
    stack.enter_context(patch.object(RowBound, "gram", lambda self, plain=False: own(self, plain=True)))
    stack.enter_context(patch(f"{HERE}.packed", lambda gram, plain: packed(gram, plain=True)))
    stack.enter_context(patch(f"{HERE}.unpacked", lambda vector, columns, plain: unpacked(vector, columns, plain=True)))
    stack.enter_context(patch(f"{HERE}.DIAGONAL", 1))
    return stack


def inverted(lifted: Callable[[np.ndarray, float], np.ndarray]) -> AbstractContextManager[Any]:
    """Another treatment of the noisy eigenvalues; ``lifted`` gets them and the size of the noise, s sqrt(p)."""

    def inverse(gram: np.ndarray, noise: float, ridge: float) -> np.ndarray:
        values, vectors = np.linalg.eigh(gram)
        return np.asarray((vectors / lifted(values, ridge * noise * math.sqrt(len(values)))) @ vectors.T)

    return patch(f"{HERE}.noise_aware_inverse", inverse)


def papers_ridge() -> AbstractContextManager[Any]:
    """AdaSSP's ridge with the smallest eigenvalue read off the noisy matrix, and no projection."""

    def inverse(gram: np.ndarray, noise: float, ridge: float) -> np.ndarray:
        values, vectors = np.linalg.eigh(gram)
        size = noise_norm(len(values), noise)
        return np.asarray((vectors / (values + max(0.0, size - max(0.0, values[0] - size)))) @ vectors.T)

    return patch(f"{HERE}.noise_aware_inverse", inverse)


def apart(epsilon: float) -> float:
    """The joint epsilon of two parts that are calibrated apart, each to half of epsilon and delta."""
    mu = 1 / calibrate(lambda sigma: Gaussian(sigma=sigma), epsilon=epsilon / 2, delta=DELTA / 2)
    return Gaussian(mu=math.sqrt(2) * mu).epsilon(DELTA)


KEPT = {"gradient_clip": 0.5, "step_size": "curvature"}
"""What ``accounting="paper"`` would change besides."""

COMMON: dict[str, tuple[dict[str, Any], Change]] = {
    "default": ({}, nullcontext),
    "calibrated apart, 1 : 1": ({"shares": (1.0, 1.0, 0.0)}, nullcontext),
    "plain triangle": ({}, plain_triangle),
    "no projection": ({}, lambda: inverted(lambda values, size: values + size)),
    "mirrored instead of projected": ({}, lambda: inverted(lambda values, size: np.abs(values) + size)),
    "paper's ridge, eigenvalue read off": ({}, papers_ridge),
    "paper's ridge, eigenvalue released": ({"accounting": "paper", "shares": (0.5, 1.0, 0.5), **KEPT}, nullcontext),
    "ridge 1/4": ({"ridge": 0.25}, nullcontext),
    "ridge 1/2": ({"ridge": 0.5}, nullcontext),
    "ridge 2": ({"ridge": 2.0}, nullcontext),
    "a : b = 1 : 1": ({"shares": (1.0, 1.0, 0.0)}, nullcontext),
    "a : b = 1/4 : 1": ({"shares": (0.25, 1.0, 0.0)}, nullcontext),
    "1 round": ({"n_rounds": 1}, nullcontext),
    "half the rounds": ({"n_rounds": 0.5}, nullcontext),
    "twice the rounds": ({"n_rounds": 2.0}, nullcontext),
    "clip decays by 0.9": ({"clip_decay": 0.9}, nullcontext),
}
CLASSES: dict[str, tuple[dict[str, Any], Change]] = {
    "step 1": ({"step_size": 1.0}, nullcontext),
    "step 2": ({"step_size": 2.0}, nullcontext),
    "clip 1": ({"gradient_clip": 1.0}, nullcontext),
    "squared loss": ({"loss": "squared"}, nullcontext),
    "squared loss, not clipped": ({"loss": "squared", "gradient_clip": 16.0}, nullcontext),
    "hinge loss": ({"loss": "hinge"}, nullcontext),
}
NUMBERS: dict[str, tuple[dict[str, Any], Change]] = {
    "clip 1": ({"gradient_clip": 1.0}, nullcontext),
    "clip 1/4": ({"gradient_clip": 0.25}, nullcontext),
    "not clipped": ({"gradient_clip": 16.0}, nullcontext),
}


def measure(case: Case, variant: str, options: dict[str, Any], change: Change, epsilon: float, seed: int) -> float:
    train, test = case.split(seed)
    numbers = case.target_bounds is not None
    schema = Schema(
        bounds=case.bounds, categories=case.categories, target_bounds=case.target_bounds,
        classes=None if numbers else [0, 1], rows=len(train),
    )  # fmt: skip
    kind = BoostedAdaSSPRegressor if numbers else BoostedAdaSSPClassifier
    own: dict[str, Any] = {"schema": schema, "row_norm": case.row_norm, "random_state": seed, "delta": DELTA}
    if case.bounds and not numbers:
        own["bins"] = 8
    X, y = case.X.iloc[train], case.y[train]
    options = dict(options)
    if options.get("step_size") == "curvature":
        options["step_size"] = 1.0 if numbers else 4.0
    if isinstance(options.get("n_rounds"), float):
        usual = kind(epsilon=epsilon, **own).plan(X, y)[plan.GRADIENTS].times
        options["n_rounds"] = max(1, round(options["n_rounds"] * usual))
    spent = apart(epsilon) if "apart" in variant else epsilon
    with change():
        model = kind(epsilon=spent, **(own | options)).fit(X, y)
    if numbers:
        return float(model.score(case.X.iloc[test], case.y[test]))
    return scores(case.y[test], model.decision_function(case.X.iloc[test]))["auroc"]


def run(data: Path, runs: Runs) -> None:
    for name in (*REGRESSION, *CLASSIFICATION):
        case = Case(data, name)
        variants = COMMON | (CLASSES if name in CLASSIFICATION else NUMBERS)
        for seed in SPLITS:
            for variant, (options, change) in variants.items():
                for epsilon in EPSILONS:
                    key = {"dataset": name, "variant": variant, "epsilon": epsilon, "seed": seed}
                    if not runs.has(**key):
                        runs.add(**key, score=round(measure(case, variant, options, change, epsilon, seed), 5))


def table(path: Path) -> None:
    """Print the mean difference to the defaults in thousandths, with its standard error over splits."""
    found = pd.read_csv(path).pivot_table(index=["dataset", "epsilon", "seed"], columns="variant", values="score")
    names = list(COMMON | CLASSES | NUMBERS)
    print("| | " + " | ".join(f"{n}, ε = {e:g}" for n in (*CLASSIFICATION, *REGRESSION) for e in EPSILONS) + " |")
    for variant in names:
        cells = []
        for dataset in (*CLASSIFICATION, *REGRESSION):
            for epsilon in EPSILONS:
                part = found.loc[dataset, epsilon]
                if variant == "default":
                    cells.append(f"{part[variant].mean():.4f}")
                    continue
                gap = 1000 * (part[variant] - part["default"]).dropna()
                cells.append(f"{gap.mean():+.1f} ± {gap.std() / math.sqrt(len(gap)):.1f}" if len(gap) else "")
        print(f"| {variant} | " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    path = given.out / "ablation.csv"
    if given.data is not None:
        run(given.data, Runs(path, ("dataset", "variant", "epsilon", "seed"), ("score",)))
    if given.table:
        table(path)


if __name__ == "__main__":
    main()
