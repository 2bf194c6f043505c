"""The figures of the pages on local mechanisms: distributions, exact profiles, order kept.

Run as ``python -m benchmarks.local_figures``; writes SVG files into ``docs/mechanisms/local``.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np

from ledgerwood.mechanisms.local import (
    AdjMap,
    Domain,
    GeneralizedRandomizedResponse,
    GlobalMap,
    LaplaceMap,
    LocalMap,
    Partition,
    PiecewiseMechanism,
    UnaryEncoding,
    order_preservation,
)
from ledgerwood.mechanisms.local.base import OrderedMechanism

matplotlib.use("Agg")
matplotlib.rcParams.update({"svg.hashsalt": "ledgerwood", "svg.fonttype": "none", "font.size": 9})
PAGES = Path(__file__).parent.parent / "docs" / "mechanisms" / "local"


def distribution_and_profile(name: str, mechanism: OrderedMechanism, values: tuple[int, ...]) -> None:
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 2.8), layout="constrained")
    for value in values:
        left.step(mechanism.outputs, mechanism.probabilities(value), where="mid", label=f"value {value}", lw=1)
    left.set(xlabel="output", ylabel="probability", ylim=(0, None))
    left.legend(frameon=False)
    distances = np.arange(1, mechanism.domain.size)
    profile = mechanism.profile
    for label, bound in (("exact", profile.epsilon), ("claimed", mechanism.claim.epsilon)):
        right.plot(distances, [bound(int(t)) for t in distances], label=label, lw=1)
    right.set(xlabel="distance t", ylabel="epsilon(t)", ylim=(0, None))
    right.legend(frameon=False)
    save(figure, name)


def save(figure: matplotlib.figure.Figure, name: str) -> None:
    figure.savefig(PAGES / f"{name}.svg", metadata={"Date": None})


def unary_figure(domain: Domain, epsilon: float, value: int) -> None:
    """Probability that each bit is set, and the exact loss between the values at each distance."""
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 2.8), layout="constrained")
    distances = np.arange(1, domain.size)
    for kind in ("symmetric", "optimised"):
        mechanism = UnaryEncoding(domain, epsilon, kind)
        own, other = mechanism.bit_probabilities
        left.step(domain.values, np.where(domain.values == value, own, other), where="mid", label=kind, lw=1)
        table = mechanism.log_probabilities(domain.values)
        losses = [np.abs(table[t:] - table[:-t]).max() for t in distances]
        right.plot(distances, losses, label=kind, lw=1, ls="-" if kind == "symmetric" else "--")
    left.set(xlabel=f"bit (the value is {value})", ylabel="probability that it is set", ylim=(0, 1))
    right.set(xlabel="distance t", ylabel="epsilon(t)", ylim=(0, None))
    left.legend(frameon=False)
    right.legend(frameon=False)
    save(figure, "unary-encoding")


def order_figure(domain: Domain) -> None:
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
    curves: dict[str, OrderedMechanism] = {
        "Local-map": LocalMap(domain, Partition.even(100, 10), 0.1),
        "Laplace-map": LaplaceMap(domain, 0.1),
        "Global-map": GlobalMap(domain, 0.1),
        "Adj-map, alpha 1": AdjMap.from_epsilon(domain, 10, epsilon=0.1, alpha=1.0),
        "Adj-map, alpha 0.2": AdjMap.from_epsilon(domain, 10, epsilon=0.1, alpha=0.2),
        "GRR": GeneralizedRandomizedResponse(domain, 0.1),
    }
    for label, mechanism in curves.items():
        axes.plot(np.arange(1, 100), order_preservation(mechanism)[1:], label=label, lw=1)
    axes.set(xlabel="distance t", ylabel="gamma(t), worst pair")
    axes.legend(frameon=False, fontsize=8)
    save(figure, "order")


def main() -> None:
    PAGES.mkdir(parents=True, exist_ok=True)
    domain = Domain(1, 100)
    distribution_and_profile("global-map", GlobalMap(domain, 0.1), (1, 30, 50))
    distribution_and_profile("laplace-map", LaplaceMap(domain, 0.1), (1, 30, 50))
    distribution_and_profile("adj-map", AdjMap.from_epsilon(domain, 10, epsilon=0.1, alpha=1.0), (1, 30, 35))
    whole = LocalMap(Domain(1, 10), Partition((10,)), 0.1)
    distribution_and_profile("local-map", whole, (1, 5))
    distribution_and_profile("randomised-response", GeneralizedRandomizedResponse(Domain(1, 10), 1.0), (3, 7))
    distribution_and_profile("piecewise", PiecewiseMechanism(domain, 1.0), (1, 30, 100))
    unary_figure(Domain(0, 9), 1.0, 3)
    order_figure(domain)


if __name__ == "__main__":
    main()
