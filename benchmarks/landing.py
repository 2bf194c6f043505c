"""The picture of the first page: an untuned private model against the best-known private learners, and the accountant.

    python -m benchmarks.landing --data DIR        # fits the auto estimator on split 0, then draws
    python -m benchmarks.landing                   # draws from committed results

Peers' numbers are those of ``benchmarks/linear/peers.py``, on the same split of the same table at delta = 1e-6
(diffprivlib: 0).
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.linear.cases import DELTA, EPSILONS, RESULTS, RUN_KEYS, RUN_VALUES, Case, Runs, scores
from ledgerwood.accounting import BoundedRange, PureDP

TABLE = "bank"
OWN = RESULTS.parent / "landing.csv"
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "landing.svg"
SEED = 0
SHOWN = {"diffprivlib LR": "diffprivlib, logistic regression", "interpret DP-EBM": "interpret, DP-EBM"}


def measure(folder: Path) -> None:
    """Fit the auto estimator at every epsilon, and XGBoost without privacy."""
    import xgboost

    from ledgerwood.learners import PrivateClassifier, Schema

    case = Case(folder, TABLE)
    train, test = case.split(SEED)
    X, y = case.X.iloc[train], case.y[train]
    OWN.unlink(missing_ok=True)  # of an earlier rule, maybe
    runs = Runs(OWN, RUN_KEYS, RUN_VALUES)
    schema = Schema(bounds=case.bounds, categories=case.categories, classes=[0, 1])

    def add(method: str, epsilon: float, fit: Any) -> None:
        key = {"dataset": TABLE, "method": method, "rounds": "default", "epsilon": epsilon, "seed": SEED}
        began = time.process_time()
        decision = fit()
        runs.add(**key, **scores(case.y[test], decision), cpu=round(time.process_time() - began, 2))

    for epsilon in EPSILONS:
        model = PrivateClassifier(epsilon=epsilon, delta=DELTA, schema=schema, random_state=SEED)
        add("front door", epsilon, lambda model=model: model.fit(X, y).decision_function(case.X.iloc[test]))

    def plain() -> Any:
        frame = case.X.assign(**{c: pd.Categorical(case.X[c], v) for c, v in case.categories.items()})
        found = xgboost.XGBClassifier(
            n_estimators=300, max_depth=4, learning_rate=0.1, enable_categorical=True, n_jobs=1
        )  # fmt: skip
        return found.fit(frame.iloc[train], y).predict_proba(frame.iloc[test])[:, 1] - 0.5

    add("XGBoost, not private", 0.0, plain)


def draw() -> None:
    """Draw both panels."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 3.8), layout="constrained")
    FigureCanvasSVG(figure)
    left, right = figure.subplots(1, 2)
    own, peers = pd.read_csv(OWN), pd.read_csv(RESULTS / "runs.csv")
    best = own[own["method"].str.startswith("XGBoost")]["auroc"].mean()
    left.axhline(best, color="0.5", linestyle=":", label="XGBoost, not private")
    curve = own[own["method"] == "front door"].sort_values("epsilon")
    left.plot(curve["epsilon"], curve["auroc"], "o-", color="#1b7f5c", linewidth=2.4, label="Ledgerwood, not tuned")
    for (method, name), colour in zip(SHOWN.items(), ("#8c564b", "#1f77b4"), strict=True):
        part = peers[(peers["dataset"] == TABLE) & (peers["method"] == method) & (peers["seed"] == SEED)]
        part = part.sort_values("epsilon")
        left.plot(part["epsilon"], part["auroc"], "s--", color=colour, markersize=4, label=name)
    left.set(xscale="log", xlabel="ε", ylabel="test AUC", title="Private classification of bank clients")
    left.legend(fontsize=8, loc="lower right")
    counts = [5, 10, 20, 50, 100, 200, 500, 1000]
    optimal = [(k * BoundedRange(0.05)).epsilon(1e-6, "optimal") for k in counts]
    for cost, method, name, colour in (
        (PureDP(0.05), "kov", "as pure DP, best possible", "#8c564b"),
        (BoundedRange(0.05), "zcdp", "zCDP, ε²/8", "#ff7f0e"),
        (BoundedRange(0.05), "rdp", "Rényi DP, Theorem 1", "#1f77b4"),
    ):
        ratios = [(k * cost).epsilon(1e-6, method) / best for k, best in zip(counts, optimal)]
        right.plot(counts, ratios, "s--", markersize=4, color=colour, label=name)
    right.plot(counts, [1.0] * len(counts), "o-", linewidth=2.4, color="#1b7f5c", label="Ledgerwood, optimal")
    right.set(xscale="log", xlabel="private selections of ε = 0.05", ylabel="ε at δ = 1e-6, optimal = 1",
              title="What other accountants charge for selections")  # fmt: skip
    right.legend(fontsize=8)
    for axis in (left, right):
        axis.grid(alpha=0.25)
    PICTURE.parent.mkdir(exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": "ledgerwood", "svg.fonttype": "none"}):
        figure.savefig(PICTURE, metadata={"Date": None})


def main() -> None:
    """Measure if there is data, then draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    given = parser.parse_args()
    if given.data is not None:
        measure(given.data)
    draw()


if __name__ == "__main__":
    main()
