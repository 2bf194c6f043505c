"""The plots of the documentation: ``python docs/plots.py`` writes docs/images/*.svg."""

from __future__ import annotations

from pathlib import Path

import matplotlib

from ledgerwood.accounting import BoundedRange, dp_sgd
from ledgerwood.errors import MethodUnavailable

METHODS = {
    "pure": "pure DP (sum of ε)",
    "advanced": "advanced composition",
    "kov": "optimal for pure DP (KOV)",
    "pld": "one dominating pair (pld)",
    "zcdp": "zCDP, ε²/8",
    "rdp": "Rényi DP (Theorem 1)",
    "optimal": "optimal adaptive",
}
SIZE, DELTA = 0.1, 1e-5


def epsilon_versus_compositions(path: Path) -> None:
    """ε of k selections of 0.1 at δ = 1e-5 by every method."""
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "ledgerwood", "svg.fonttype": "none"})
    from matplotlib import pyplot as plt

    counts = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
    figure, axes = plt.subplots(figsize=(7.2, 4.6), layout="constrained")
    for method, label in METHODS.items():
        points = []
        for k in counts:
            try:
                points.append((k, (k * BoundedRange(SIZE)).epsilon(DELTA, method=method)))
            except MethodUnavailable:
                continue
        axes.loglog(*zip(*points), label=label, linewidth=2.4 if method == "optimal" else 1.2)
    axes.set(xlabel="selections", ylabel="ε at δ = 1e-5", title="k adaptive selections of ε = 0.1, by every method")
    axes.set_xlim(1, 1000)
    axes.grid(alpha=0.25, which="both", linewidth=0.5)
    axes.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})


def epsilon_versus_steps(path: Path) -> None:
    """ε of DP-SGD at δ = 1e-5 against steps, by method and by sampler: batches of 1 % and noise multiplier 1."""
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "ledgerwood", "svg.fonttype": "none"})
    from matplotlib import pyplot as plt

    steps = [100, 200, 500, 1000, 2000, 5000, 10_000]
    run = {"noise_multiplier": 1.0, "batch_size": 100, "dataset_size": 10_000}
    lines: list[tuple[str, dict[str, str], str | None]] = [
        ("replaced record, fixed batches", {"sampler": "without_replacement"}, None),
        ("replaced record, Poisson batches", {"neighbours": "replace_one"}, None),
        ("Poisson batches, Rényi DP", {}, "rdp"),
        ("Poisson batches", {}, None),
        ("balls in bins", {"sampler": "balls_in_bins"}, None),
    ]
    figure, axes = plt.subplots(figsize=(7.2, 4.6), layout="constrained")
    for label, sampler, method in lines:
        found = [dp_sgd(steps=n, **run, **sampler).epsilon(DELTA, method=method) for n in steps]
        axes.loglog(steps, found, label=label, linewidth=1.2 if method else 2.0)
    axes.set(xlabel="steps", ylabel="ε at δ = 1e-5", title="DP-SGD: batches of 1 %, noise multiplier 1")
    axes.set_xlim(100, 10_000)
    axes.grid(alpha=0.25, which="both", linewidth=0.5)
    axes.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    images = Path(__file__).parent / "images"
    images.mkdir(exist_ok=True)
    epsilon_versus_compositions(images / "epsilon-versus-compositions.svg")
    epsilon_versus_steps(images / "dp-sgd-steps.svg")
