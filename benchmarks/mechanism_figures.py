"""Figures of docs/mechanisms: the distribution of each mechanism beside its privacy profile.

python -m benchmarks.mechanism_figures
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

from ledgerwood.mechanisms import (
    BoundedDiscreteLaplaceMechanism,
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    ExponentialMechanism,
    GaussianMechanism,
    GaussianSparseVectorMechanism,
    LaplaceMechanism,
    NoisyMaxMechanism,
    ParallelExponentialMechanism,
    PermuteAndFlipMechanism,
    PoissonSubsampledMechanism,
    QuantileMechanism,
    SkellamMechanism,
    SparseVectorMechanism,
    TopKMechanism,
)

FOLDER = Path(__file__).parent.parent / "docs" / "mechanisms" / "img"
UTILITY = Path(__file__).parent / "results" / "selection_utility.json"
BLUE, ORANGE = "#2563eb", "#d97706"


def figure(name: str, draw: Callable[[Any], None], costs: dict[str, Any], reach: float) -> None:
    """Left the distribution, right the profile of each cost."""
    plot, (left, right) = plt.subplots(1, 2, figsize=(8.4, 2.9))
    draw(left)
    epsilons = np.linspace(0.0, reach, 40)
    for (label, cost), colour in zip(costs.items(), (BLUE, ORANGE, "#64748b"), strict=False):
        deltas = np.array([cost.delta(float(e)) for e in epsilons])
        right.semilogy(epsilons, np.where(deltas > 1e-12, deltas, np.nan), color=colour, label=label)
    right.set(xlabel="ε", ylabel="δ(ε)", ylim=(1e-9, 1), title="profile")
    right.legend(fontsize=7)
    right.grid(alpha=0.3)
    save(plot, name)


def save(plot: Any, name: str) -> None:
    plot.tight_layout()
    FOLDER.mkdir(parents=True, exist_ok=True)
    plot.savefig(FOLDER / f"{name}.png", dpi=80, metadata={"Software": None})
    plt.close(plot)


def bars(k: np.ndarray, laws: dict[str, np.ndarray], title: str) -> Callable[[Any], None]:
    def draw(axes: Any) -> None:
        width = 0.8 / len(laws)
        for j, ((label, p), colour) in enumerate(zip(laws.items(), (BLUE, ORANGE), strict=False)):
            axes.bar(k + (j - (len(laws) - 1) / 2) * width, p, width=width, color=colour, label=label)
        axes.set(title=title)
        axes.legend(fontsize=7)

    return draw


def additive() -> None:
    k = np.arange(-10, 11)
    cell = lambda law: law.cdf(k + 0.5) - law.cdf(k - 0.5)  # noqa: E731
    figure(
        "gaussian",
        bars(k, {"σ = 2": cell(stats.norm(0, 2)), "σ = 4": cell(stats.norm(0, 4))}, "round(N(0, σ²)), grid 1"),
        {"σ = 2": GaussianMechanism(sigma=2.0).cost, "σ = 4": GaussianMechanism(sigma=4.0).cost},
        3.0,
    )
    figure(
        "laplace",
        bars(k, {"scale 1": cell(stats.laplace(0, 1)), "scale 3": cell(stats.laplace(0, 3))}, "round(Lap), grid 1"),
        {"scale 1": LaplaceMechanism(scale=1.0).cost, "scale 3": LaplaceMechanism(scale=3.0).cost},
        1.2,
    )
    law = lambda s: np.exp(-np.abs(k) / s) * np.tanh(0.5 / s)  # noqa: E731
    figure(
        "discrete-laplace",
        bars(k, {"scale 1": law(1.0), "scale 3": law(3.0)}, "discrete Laplace"),
        {"scale 1": DiscreteLaplaceMechanism(scale=1.0).cost, "scale 3": DiscreteLaplaceMechanism(scale=3.0).cost},
        1.2,
    )
    weights = lambda s: np.exp(-(k**2) / (2 * s * s)) / np.exp(-(np.arange(-99, 100) ** 2) / (2 * s * s)).sum()  # noqa: E731
    figure(
        "discrete-gaussian",
        bars(k, {"σ = 1": weights(1.0), "σ = 3": weights(3.0)}, "discrete Gaussian"),
        {
            "discrete, σ = 1": DiscreteGaussianMechanism(sigma=1.0).cost,
            "continuous, σ = 1 (not a valid price)": GaussianMechanism(sigma=1.0).cost,
        },
        5.0,
    )
    skellam = lambda v: stats.skellam.pmf(k, v / 2, v / 2)  # noqa: E731
    figure(
        "skellam",
        bars(k, {"variance 4": skellam(4.0), "variance 16": skellam(16.0)}, "Skellam"),
        {"variance 4": SkellamMechanism(variance=4.0).cost, "variance 16": SkellamMechanism(variance=16.0).cost},
        3.0,
    )
    m = BoundedDiscreteLaplaceMechanism(scale=3.0, lower=0, upper=10)
    figure(
        "bounded-discrete-laplace",
        bars(np.arange(11), {"value 2": m.probabilities(2), "value 9": m.probabilities(9)}, "scale 3, bounds 0 .. 10"),
        {"bounded, scale 3": m.cost, "unbounded, scale 3": DiscreteLaplaceMechanism(scale=3.0).cost},
        1.0,
    )


def selection() -> None:
    scores = np.array([0.0, 1.0, 2.0, 4.0, 5.0])
    options = {"epsilon": 1.0, "range_sensitivity": 1.0}
    em, pf, nm = (kind(**options) for kind in (ExponentialMechanism, PermuteAndFlipMechanism, NoisyMaxMechanism))
    both = bars(
        scores,
        {"exponential": em.probabilities(scores), "permute-and-flip": pf.probabilities(scores)},
        "by score, c = 1",
    )
    costs = {"exponential, ε = 1": em.cost, "permute-and-flip, ε = 1": pf.cost}
    figure("exponential", both, {**costs, "10 × exponential": 10 * em.cost}, 8.0)
    figure("permute-and-flip", both, {**costs, "10 × permute-and-flip": 10 * pf.cost}, 8.0)
    laws = {"Laplace noise": nm.probabilities(scores), "permute-and-flip": pf.probabilities(scores)}
    figure("noisy-max", bars(scores, laws, "by score, c = 1"), {"Laplace noise, ε = 1": nm.cost}, 1.2)
    two = TopKMechanism(em, k=2)
    first = em.probabilities(scores)
    among = np.array(
        [
            sum(
                np.exp(two.log_probability(scores, [j, i])) + np.exp(two.log_probability(scores, [i, j]))
                for j in range(5)
                if j != i
            )
            for i in range(5)
        ]
    )
    figure(
        "top-k",
        bars(scores, {"first": first, "in the first 2": among}, "by score"),
        {"k = 2": two.cost, "k = 1": em.cost},
        2.5,
    )
    level = np.array([scores, scores[::-1]])
    one, two_parts = (ParallelExponentialMechanism(1.0, 1.0, r) for r in ("add_remove", "replace_one"))
    laws = {"add/remove, c = 1": one.probabilities(level)[0], "replace-one, c = ½": two_parts.probabilities(level)[0]}
    costs = {"one level, any number of parts": one.cost, "10 levels": 10 * one.cost}
    figure("parallel-exponential", bars(scores, laws, "one part, by score"), costs, 8.0)
    q = QuantileMechanism(epsilon=1.0, quantile=0.5, lower=0.0, upper=40.0, step=1.0)
    records = np.random.default_rng(1).normal(20, 5, 60)
    law = {"median of 60 records": np.exp(q.log_probabilities(records))}
    figure("quantiles", bars(np.arange(41), law, "threshold"), {"ε = 1": q.cost}, 1.2)


def others() -> None:
    s = SparseVectorMechanism(epsilon=1.0, threshold=0.0)
    g = GaussianSparseVectorMechanism(4.0, 8.0, max_queries=100, threshold=0.0)
    x = np.linspace(-30, 30, 121)
    t = np.linspace(-150, 150, 6001)
    one, two = (float(scale) for scale in s.scales)
    density = stats.laplace.pdf(t, scale=one)

    def draw(axes: Any) -> None:
        axes.plot(
            x,
            [np.trapezoid(density * stats.laplace.sf(t - v, scale=two), t) for v in x],
            color=BLUE,
            label="Laplace, ε = 1",
        )
        axes.plot(x, stats.norm.cdf(x, scale=np.hypot(4.0, 8.0)), color=ORANGE, label="Gaussian, σ = 4 and 8")
        axes.set(title="P(answer is yes)", xlabel="query value − threshold")
        axes.legend(fontsize=7)

    figure("sparse-vector", draw, {"Laplace, ε = 1": s.cost, "Gaussian, 100 queries": g.cost}, 3.0)
    base = DiscreteLaplaceMechanism(scale=1.0)
    sampled = PoissonSubsampledMechanism(base, rate=0.1, query=len)

    def rates(axes: Any) -> None:
        rate = np.linspace(0.01, 1, 50)
        axes.plot(rate, np.log1p(rate * np.expm1(1.0)), color=BLUE)
        axes.set(title="pure ε of a 1-DP release on a sample", xlabel="rate")

    figure("subsampling", rates, {"all records": base.cost, "rate 0.1": sampled.cost}, 1.2)


def utility() -> None:
    rows = json.loads(UTILITY.read_text())["rows"]
    names = list(dict.fromkeys(row["scores"] for row in rows))
    plot, axes = plt.subplots(1, len(names), figsize=(10.5, 3.2))
    for ax, name in zip(axes, names, strict=True):
        mine = [row for row in rows if row["scores"] == name]
        k = [row["rounds"] for row in mine]
        for accounting, style in (("pure", "--"), ("optimal", "-")):
            for kind, colour in (("exponential", BLUE), ("permute-and-flip", ORANGE)):
                loss = [row[accounting][kind] for row in mine]
                ax.loglog(k, loss, style, color=colour, label=f"{kind}, {accounting}", marker="o", markersize=3)
        ax.set(title=name, xlabel="selections sharing ε = 1, δ = 1e-6", ylim=(max(1e-6, ax.get_ylim()[0]), None))
        ax.grid(alpha=0.3)
    axes[0].set_ylabel("expected loss of score / R")
    axes[0].legend(fontsize=7, handlelength=3.5)
    save(plot, "selection-utility")


def main() -> None:
    additive()
    selection()
    others()
    utility()


if __name__ == "__main__":
    main()
