"""A year of daily counts with private running sums: ``python examples/daily_count.py``.

A service publishes every evening how many people have signed up so far. Each person signs up once. The example releases
the counts day by day with correlated noise, charges a ledger once for all of them, and compares the error with that of
fresh noise every day and of noise from a binary tree, all at the same price.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ledgerwood.accounting import Cost, Ledger, MatrixMechanism, calibrate
from ledgerwood.mechanisms import RunningSumMechanism

DAYS, EPSILON, DELTA = 365, 1.0, 1e-6
MOST_PER_DAY = 10_000


def tree_error(sigma: float, day: int) -> float:
    """The standard deviation of a running sum that is made of the whole nodes of a tree."""
    return float(sigma * day.bit_count() ** 0.5)


def main() -> None:
    """Run the example."""

    def correlated(sigma: float) -> RunningSumMechanism:
        return RunningSumMechanism(sigma=sigma, steps=DAYS, bounds=(0, MOST_PER_DAY))

    def fresh(sigma: float) -> RunningSumMechanism:
        return RunningSumMechanism(sigma=sigma, steps=DAYS, bounds=(0, MOST_PER_DAY), column=(1.0,))

    def noise(cost: Callable[[float], Cost]) -> float:
        # A ledger without a plan adds up Renyi costs, because what comes next is not known.
        return calibrate(cost, epsilon=EPSILON, delta=DELTA, method="rdp")

    mechanism = correlated(noise(lambda s: correlated(s).cost))
    daily = fresh(noise(lambda s: fresh(s).cost))
    tree = noise(lambda s: MatrixMechanism("tree", steps=DAYS, sigma=s))

    ledger = Ledger(epsilon=EPSILON, delta=DELTA)
    ledger.charge(mechanism.cost, "sign-ups so far, every day of the year")  # before the first noise is drawn
    run = mechanism.start()
    signups = np.random.default_rng(1).poisson(200, size=DAYS)  # made up
    published = [run.add(int(count)) for count in signups]

    print(ledger.statement())
    print(f"{'day':>4} {'true':>7} {'published':>10}   standard error: correlated, fresh daily, tree")
    for day in (1, 7, 30, 90, 180, 365):
        errors = mechanism.errors()[day - 1], daily.errors()[day - 1], tree_error(tree, day)
        shown = "  ".join(f"{error:6.1f}" for error in errors)
        print(f"{day:4d} {signups[:day].sum():7d} {published[day - 1]:10.0f}   {shown}")
    print("The second column is NOT PRIVATE: it is here to compare with.")


if __name__ == "__main__":
    main()
