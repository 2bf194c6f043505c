"""Summaries of all runs, and the figures of the documentation.

python -m benchmarks.opboost.figures
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from benchmarks.opboost.tables import results, summarise

IMAGES = Path(__file__).parents[2] / "docs" / "benchmarks" / "opboost"
NAMES = ("accuracy", "gap", "kendall", "ranges", "beta", "speed", "training")
STYLES = {
    ("local_map", 0.0): ("C2", "-", "Local-map"),
    ("laplace_map", 0.0): ("C4", "-", "Laplace-map (ours)"),
    ("global_map", 0.0): ("C0", "-", "Global-map"),
    ("adj_map", 0.4): ("C1", ":", "Adj-map, alpha 0.4"),
    ("adj_map", 2.0): ("C1", "--", "Adj-map, alpha 2"),
    ("adj_map", 10.0): ("C1", "-", "Adj-map, alpha 10"),
    ("piecewise", 0.0): ("C3", "-", "Piecewise"),
    ("grr", 0.0): ("C5", "-", "GRR"),
    ("global_map+most_likely", 0.0): ("C0", "--", "Global-map, most likely shares"),
}


def curves(axes: Any, frame: Any, theta: int, value: str = "mean") -> None:
    """One curve for each method against epsilon; maps without parts are in every panel."""
    for (method, alpha), (colour, line, label) in STYLES.items():
        own = frame[(frame.method == method) & (frame.alpha == alpha) & (frame.theta.isin((0, theta)))]
        if len(own):
            own = own.sort_values("epsilon")
            axes.plot(own.epsilon, own[value], color=colour, linestyle=line, marker=".", label=label)
    axes.set(xscale="log", xlabel="epsilon")
    axes.set_xticks([0.08, 0.32, 1.28, 5.12], ["0.08", "0.32", "1.28", "5.12"], minor=False)
    axes.minorticks_off()


def accuracy() -> Figure:
    frame = results("accuracy")
    figure = Figure(figsize=(10, 6.4), layout="constrained")
    panels = figure.subplots(2, 3)
    titles = {
        "adult": "Adult: accuracy",
        "pendigits": "Pen-digits: accuracy",
        "powerplant": "Powerplant: squared error",
    }
    for row, theta in zip(panels, (2, 4), strict=True):
        for axes, (name, title) in zip(row, titles.items(), strict=True):
            own = frame[frame.dataset == name]
            curves(axes, own[own.epsilon > 0], theta)
            for plain, style in (("raw", "-"), ("levels", "--")):
                level = float(own[own.method == plain]["mean"].iloc[0])
                axes.axhline(level, color="grey", linestyle=style, linewidth=0.8)
            axes.set_title(f"{title}, theta {theta}", fontsize="medium")
            if name == "powerplant":
                axes.set_yscale("log")
    panels[0, 1].legend(fontsize="x-small")
    return figure


def kendall() -> Figure:
    frame = results("kendall")
    figure = Figure(figsize=(8, 3.4), layout="constrained")
    for axes, theta in zip(figure.subplots(1, 2, sharey=True), (4, 10), strict=True):
        curves(axes, frame, theta)
        axes.set_title(f"Adult ages on 1..100, theta {theta}", fontsize="medium")
        axes.set_ylabel("weighted Kendall")
        axes.legend(fontsize="x-small")
    return figure


def ranges() -> Figure:
    frame = results("ranges")
    figure = Figure(figsize=(8, 6.4), layout="constrained")
    for row, name in zip(figure.subplots(2, 2, sharey="row"), ("fnlwgt", "uniform"), strict=True):
        for axes, theta in zip(row, (5, 10), strict=True):
            curves(axes, frame[frame.data == name], theta)
            axes.set(yscale="log", ylabel="mean squared error", title=f"{name} on 1..1024, theta {theta}")
    axes.legend(fontsize="x-small")
    return figure


def beta() -> Figure:
    frame = results("beta")
    figure = Figure(figsize=(10, 3.2), layout="constrained")
    cases = [("uniform", 25), ("uniform", 50), ("normal", 25), ("normal", 50)]
    for axes, (name, quantile) in zip(figure.subplots(1, 4, sharey=True), cases, strict=True):
        own = frame[(frame.data == name) & (frame["quantile"] == quantile)]
        curves(axes, own[own.exact > 1e-30], 4, "exact")
        axes.set(yscale="log", ylim=(1e-24, 2))
        axes.set_title(f"{name}, split at {quantile} %", fontsize="medium")
    axes.legend(fontsize="xx-small")
    return figure


def main() -> None:
    matplotlib.rcParams.update({"svg.hashsalt": "ledgerwood", "svg.fonttype": "none"})
    IMAGES.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        summarise(name)
    for make in (accuracy, kendall, ranges, beta):
        make().savefig(IMAGES / f"{make.__name__}.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
