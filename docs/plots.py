"""The plots of the documentation: ``python docs/plots.py`` writes docs/images/*.svg."""

from __future__ import annotations

from pathlib import Path

import matplotlib

from ledgerwood.accounting import BoundedRange
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


if __name__ == "__main__":
    images = Path(__file__).parent / "images"
    images.mkdir(exist_ok=True)
    epsilon_versus_compositions(images / "epsilon-versus-compositions.svg")
