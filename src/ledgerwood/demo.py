"""What a DP-XGB training run costs, printed and plotted: ``python -m ledgerwood.demo``.

The plan is that of the DP-XGB paper on Adult: 50 trees of depth 4, so 200 private selections of a split and 50
Gaussian releases of leaf sums, at ε = 1 and δ = 1/32561 (one over the number of records), the concentrated budget ρ
divided 0.7 : 0.3. Only public facts are used; no data is read.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ledgerwood.accounting import BoundedRange, Cost, Gaussian, calibrate
from ledgerwood.errors import MethodUnavailable, MissingDependency

TREES, DEPTH, RECORDS = 50, 4, 32561
EPSILON, DELTA = 1.0, 1 / RECORDS
SELECTION_SHARE, LEAF_SHARE = 0.7, 0.3
CURVES = {
    "zcdp": "zCDP, ε²/8 per selection",
    "rdp": "Rényi DP, Theorem 1",
    "pld": "one dominating pair per selection (pld)",
    "optimal": "optimal adaptive composition",
}


@dataclass(frozen=True, slots=True)
class Noise:
    """What calibration decides: ε of one selection and σ of one leaf release."""

    selection: float
    sigma: float

    @classmethod
    def from_rho(cls, rho: float) -> Noise:
        """Divide a concentrated budget ρ between the selections and the leaf releases."""
        selection = BoundedRange.from_rho(SELECTION_SHARE * rho / (TREES * DEPTH))
        leaf = Gaussian.from_rho(LEAF_SHARE * rho / TREES)
        return cls(selection.size, leaf.sigma)

    def selections(self, trees: int = TREES) -> Cost:
        """All selections of so many trees."""
        return trees * DEPTH * BoundedRange(self.selection)

    def leaves(self, trees: int = TREES) -> Cost:
        """All leaf releases of so many trees."""
        return trees * Gaussian(sigma=self.sigma)

    def plan(self, trees: int = TREES) -> Cost:
        """Everything that so many trees release."""
        return self.selections(trees) + self.leaves(trees)


def calibrated(method: str | None) -> Noise:
    """The least noise that meets the target under one accounting method (``None``: the tightest)."""
    rho = calibrate(
        lambda rho: Noise.from_rho(rho).plan(), epsilon=EPSILON, delta=DELTA, method=method, guess=EPSILON**2 / 40
    )
    return Noise.from_rho(rho)


def curve(noise: Noise, method: str, trees: Sequence[int]) -> list[float]:
    """ε after each number of trees by one method; nan where the method does not apply."""
    found = []
    for n in trees:
        try:
            found.append(noise.plan(n).epsilon(DELTA, method=method))
        except MethodUnavailable:
            found.append(math.nan)
    return found


def plot(noise: Noise, path: Path) -> None:
    """ε against the number of trees by every method that can price the plan, as a PNG file."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingDependency("matplotlib", "the plot", "accounting") from None

    trees = [1, 5, 10, 20, 30, 40, TREES]
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for method, label in CURVES.items():
        width = 2.2 if method == "optimal" else 1.3
        axes.plot(trees, curve(noise, method, trees), label=label, linewidth=width)
    axes.axhline(EPSILON, color="grey", linewidth=0.8, linestyle=":")
    axes.set(xlabel="trees", ylabel=f"ε at δ = 1/{RECORDS}", xlim=(0, TREES), ylim=(0, None))
    axes.set_title(f"The price of a plan: {DEPTH} selections of {noise.selection:.4f} and a leaf release per tree")
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=140)


def _rule(title: str) -> str:
    return f"\n{title}\n{'-' * len(title)}"


def report() -> tuple[str, Noise]:
    """The printed account, and the noise it is about."""
    started = time.process_time()
    noise = calibrated(None)
    seconds = time.process_time() - started
    account = noise.plan().account(DELTA)
    lines = [
        f"A DP-XGB plan: {TREES} trees of depth {DEPTH}, ε = {EPSILON:g}, δ = 1/{RECORDS}, add/remove neighbours",
        "=" * 86,
        f"{TREES * DEPTH} selections of a split (exponential mechanism) and {TREES} Gaussian releases of leaf sums;",
        f"the concentrated budget is divided {SELECTION_SHARE:g} : {LEAF_SHARE:g}.",
        _rule("Calibrated noise: the least that meets the target"),
        f"  {'accountant':<34}{'ε per selection':>16}{'σ per leaf':>14}",
    ]
    theorem_1 = calibrated("rdp")
    for method, found in (("zcdp", calibrated("zcdp")), ("rdp", theorem_1), ("optimal", noise)):
        lines.append(f"  {CURVES[method]:<34}{found.selection:>16.5f}{found.sigma:>14.3f}")
    lines += [
        f"  The optimal accountant needs {100 * (1 - noise.sigma / theorem_1.sigma):.1f} % less noise than Theorem 1;",
        f"  calibration took {seconds:.1f} s of one core.",
        _rule(f"The price of the plan at ε per selection {noise.selection:.5f}, σ = {noise.sigma:.3f}"),
    ]
    for name, value in account.table.items():
        mark = "*" if name == account.method else " "
        shown = f"{value:.6f}" if isinstance(value, float) else f"cannot say: {value}"
        lines.append(f" {mark}{name:<10}{shown}")
    lines += [
        f"  certified: the truth lies in [{account.lower:.6f}, {account.epsilon:.6f}]",
        f"  best Rényi order: {account.order:.2f}",
        _rule("What each part would cost alone"),
    ]
    for label, part in (("selections", noise.selections()), ("leaf releases", noise.leaves())):
        rho = part.rho() or 0.0
        lines.append(f"  {label:<16}ε = {part.epsilon(DELTA):.4f}    ρ = {rho:.6f}")
    lines += [
        "  (parts add in ρ, not in ε: together they cost less than their sum)",
        _rule("What it means"),
        "  Adding or removing any one record changes the probability of every outcome of the training by a factor of",
        f"  at most e^{account.epsilon:.4f}, up to δ = {DELTA:.2e}; established by {CURVES['optimal']}.",
    ]
    return "\n".join(lines), noise


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the demo."""
    parser = argparse.ArgumentParser(prog="python -m ledgerwood.demo", description="The account of a DP-XGB plan.")
    parser.add_argument("--output", type=Path, default=Path("demo-output"), metavar="DIR", help="where the plot goes")
    chosen = parser.parse_args(arguments)
    text, noise = report()
    print(text)
    path = chosen.output / "epsilon-versus-trees.png"
    try:
        plot(noise, path)
    except MissingDependency as error:
        print(f"\nNo plot: {error}")
    else:
        print(f"\nPlot: {path}")


if __name__ == "__main__":
    main()
