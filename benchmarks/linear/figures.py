"""Figures and tables of ``docs/benchmarks/linear.md`` from the CSV files of this folder's other scripts.

python -m benchmarks.linear.figures
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd

from benchmarks.linear.cases import CLASSIFICATION, REGRESSION, RESULTS

IMAGES = Path(__file__).parents[2] / "docs" / "images"
LINES = {
    "ours": ("C3", "o-"), "ours, 8 bins": ("C1", "o-"), "paper squared": ("C2", ".--"), "paper logistic": ("C0", ".--"),
    "paper hinge": ("C4", ".--"), "interpret DP-EBM": ("k", "s:"), "our DP-EBM recipe": ("C5", "s:"),
    "diffprivlib LR": ("C7", "s:"),
}  # fmt: skip


def mean(frame: pd.DataFrame, *by: str) -> pd.DataFrame:
    return frame.groupby(list(by), sort=True)[["f1", "auroc"]].mean().reset_index()


def runs() -> pd.DataFrame:
    found = pd.read_csv(RESULTS / "runs.csv")
    found["rounds"] = found["rounds"].astype(str)
    return found


def shown(frame: pd.DataFrame, rounds: str) -> pd.DataFrame:
    """The paper's form at one number of rounds, and everything else."""
    return frame[~frame["method"].str.startswith("paper") | (frame["rounds"] == rounds)]


def curves(frame: pd.DataFrame) -> None:
    figure, axes = plt.subplots(2, len(CLASSIFICATION), figsize=(11, 6), sharex=True)
    averaged = mean(shown(frame, "10"), "dataset", "method", "epsilon")
    for column, name in enumerate(CLASSIFICATION):
        for row, metric in enumerate(("f1", "auroc")):
            axis: Any = axes[row, column]
            for method, (colour, style) in LINES.items():
                part = averaged[(averaged["dataset"] == name) & (averaged["method"] == method)]
                if len(part):
                    axis.plot(part["epsilon"], part[metric], style, color=colour, label=method, markersize=4)
            axis.set_xscale("log")
            axis.grid(alpha=0.3)
            axis.set_title(f"{name}: {metric.upper()}", fontsize=10)
    axes[1, 1].set_xlabel("epsilon (delta = 1e-6; diffprivlib: 0); the paper's form with 10 rounds")
    axes[0, 0].legend(fontsize=7)
    save(figure, "linear-curves")


def bells(frame: pd.DataFrame) -> None:
    """Rho et al., Figure 4: what boosting adds to one round of squared loss (a difference: one round may have 0)."""
    figure, axes = plt.subplots(1, len(CLASSIFICATION), figsize=(11, 3))
    averaged = mean(frame[frame["method"] == "paper squared"], "dataset", "rounds", "epsilon")
    for axis, name in zip(axes, CLASSIFICATION, strict=True):
        part = averaged[averaged["dataset"] == name].pivot(index="epsilon", columns="rounds", values="f1")
        for rounds in ("10", "100", "1000"):
            if rounds in part:
                axis.plot(part.index, part[rounds] - part["1"], ".-", label=f"T = {rounds}")
        axis.axhline(0.0, color="k", linewidth=0.5)
        axis.set_xscale("log")
        axis.set_title(f"{name}: F1 beyond that of T = 1", fontsize=9)
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize=7)
    save(figure, "linear-bell")


def regressions() -> None:
    found = pd.read_csv(RESULTS / "regression.csv")
    found = found[found["bins"].isna()].groupby(["dataset", "method", "epsilon"])["r2"].mean().reset_index()
    figure, axes = plt.subplots(1, len(REGRESSION), figsize=(11, 3))
    for axis, name in zip(axes, REGRESSION, strict=True):
        part = found[found["dataset"] == name]
        for method, own in part[part["epsilon"] < 100].groupby("method"):
            axis.plot(own["epsilon"], own["r2"], ".-", label=method)
        axis.axhline(part[part["method"].str.startswith("ridge")]["r2"].mean(), color="k", linestyle=":")
        axis.set_xscale("log")
        axis.set_ylim(-0.5, 1.0)
        axis.set_title(f"{name}: R²", fontsize=9)
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize=7)
    save(figure, "linear-regression")


def save(figure: Any, name: str) -> None:
    figure.tight_layout()
    figure.savefig(IMAGES / f"{name}.svg", metadata={"Date": None})
    plt.close(figure)


def tables(frame: pd.DataFrame) -> None:
    averaged = mean(shown(frame, "10"), "dataset", "method", "epsilon")
    for metric in ("f1", "auroc"):
        for name in CLASSIFICATION:
            part = averaged[averaged["dataset"] == name]
            print(f"\n{name} {metric}")
            print(part.pivot(index="method", columns="epsilon", values=metric).round(3).to_string())
    paper = frame[frame["method"].str.startswith("paper")]
    for metric in ("f1", "auroc"):
        print(f"\npaper's form, {metric}")
        print(
            paper.pivot_table(index=["dataset", "method", "rounds"], columns="epsilon", values=metric)
            .round(3)
            .to_string()
        )


def main() -> None:
    plt.rcParams.update({"svg.hashsalt": "ledgerwood", "svg.fonttype": "none"})
    frame = runs()
    curves(frame)
    bells(frame)
    regressions()
    tables(frame)


if __name__ == "__main__":
    main()
