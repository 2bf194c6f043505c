"""Curves to draw: the price of more trees, the privacy profile, the trade-off of an attacker, the error of a leaf.

Every number comes from the accountant; here it is only asked at several points.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ledgerwood.accounting.costs.base import Cost, sequence
from ledgerwood.errors import MethodUnavailable

if TYPE_CHECKING:
    from ledgerwood.accounting import Plan

CLOSED_FORMS = ("pure", "advanced", "kov", "zcdp", "rdp", "gdp")
"""Methods that answer within milliseconds."""
NAMES = {
    "pure": "Pure DP: a plain sum",
    "advanced": "Advanced composition",
    "kov": "Optimal composition of pure DP",
    "zcdp": "Concentrated DP (zCDP)",
    "rdp": "Rényi DP (Theorem 1)",
    "gdp": "Gaussian DP, exact",
    "pld": "Privacy-loss distributions",
    "optimal": "Optimal adaptive composition",
}


_STEPWISE = {"trees": ("sketch", "split", "leaf"), "rounds": ("gradients",)}


def first_steps(plan: Plan, steps: int, of: int, name: str = "trees") -> Cost:
    """Return what the first ``steps`` of a plan for ``of`` trees (or rounds) cost, or more of the same beyond its end.

    What happens once per tree (or level) is scaled; what happens once stays.

    >>> from ledgerwood.accounting import Gaussian, Plan, Release
    >>> plan = Plan([Release("bins", Gaussian, scale=9.0), Release("leaf", Gaussian, times=50, scale=45.0)])
    >>> first_steps(plan, 10, of=50)
    Gaussian(sigma=9.0, sensitivity=1.0) then 10 * Gaussian(sigma=45.0, sensitivity=1.0)
    """
    runs = []
    for run in plan.runs():
        per_step, rest = divmod(run.times, of)
        times = run.times if rest and run.times < of else max(1, round(run.times * steps / of))
        times = per_step * steps if per_step and not rest else times
        runs.append((run.cost, times if run.label in _STEPWISE[name] else run.times))
    return sequence(runs, neighbours=plan.neighbours)


def tree_counts(trees: int, points: int = 8) -> list[int]:
    """Return numbers of trees to price, the plan's own among them, half as many again at most.

    >>> tree_counts(50, 4)
    [1, 13, 26, 38, 50, 75]
    """
    inner = {round(1 + (trees - 1) * i / points) for i in range(points + 1)}
    return sorted(inner | {trees, math.ceil(1.5 * trees)})


def composition(plan: Plan, steps: tuple[int, str], counts: Iterable[int], method: str | None) -> list[float | None]:
    """Return epsilon after each number of trees (or rounds) by one method; nothing if it cannot price the plan."""
    delta = plan.delta or 0.0
    found: list[float | None] = []
    for count in counts:
        try:
            found.append(first_steps(plan, count, *steps).epsilon(delta, method))
        except MethodUnavailable:
            return []
    return found


def profile(cost: Cost, epsilons: Iterable[float], method: str | None) -> list[tuple[float, float]]:
    """Return the privacy profile: delta at each epsilon."""
    return [(epsilon, cost.delta(epsilon, method)) for epsilon in epsilons]


def grid(epsilon: float, points: int = 11) -> list[float]:
    """Return epsilons around a target at which a profile is drawn."""
    return [0.0, *(epsilon * 1.6 * i / (points - 1) for i in range(1, points))]


def missed(points: Sequence[tuple[float, float]], false_alarm: float) -> float:
    r"""Return a lower bound on the missed detections of any test with that rate of false alarms.

    Each point (epsilon, delta) of a valid profile says :math:`\beta\ge 1-\delta-e^{\varepsilon}\alpha` and
    :math:`\beta\ge e^{-\varepsilon}(1-\delta-\alpha)` (Dong, Roth & Su 2019, Proposition 2.12, with its inverse).

    >>> missed([(0.0, 0.0)], 0.05)
    0.95
    """
    bounds = [0.0]
    for epsilon, delta in points:
        bounds.append(1 - delta - math.exp(epsilon) * false_alarm)
        bounds.append(math.exp(-epsilon) * (1 - delta - false_alarm))
    return min(max(bounds), 1.0)


FALSE_ALARM = 0.05
"""The rate of false accusations that the sentence speaks of."""


def attack_sentence(recognized: float, neighbours: str, unit_rows: int = 1, false_alarm: float = FALSE_ALARM) -> str:
    """Return in words what the best attacker can tell, given a bound of the true-positive rate at that false alarm.

    >>> print(attack_sentence(0.05, "add_remove")[-81:])
    recognise at most 5.0 in 100 people whose data were. Blind guessing recognises 5.
    """
    records, was = ("record", "was") if unit_rows == 1 else (f"records, {unit_rows} at most,", "were")
    relation = f"{was} in the data" if neighbours == "add_remove" else "was as they suspect or replaced by another"
    caught = math.ceil(1000 * recognized - 1e-9) / 10  # "at most": rounded up
    return (
        f"Suppose someone who knows everything else tries to tell from the published model whether one person's "
        f"{records} {relation}. If they accept to be wrong about {100 * false_alarm:.0f} in 100 people whose data were "
        f"not used, they will recognise at most {caught:.1f} in 100 people whose data were. Blind guessing recognises "
        f"{100 * false_alarm:.0f}."
    )


def risks(cost: Cost) -> dict[str, Any]:
    """Return what an attacker can do against a cost: bounds by the tightest accountant.

    >>> from ledgerwood.accounting import Gaussian
    >>> found = risks(Gaussian(sigma=1.0))
    >>> f"{found['advantage']:.4f} {found['bayes_risk']:.4f} {found['tpr'][1]['tpr']:.4f}"
    '0.3829 0.3085 0.0924'
    """
    rates = (0.001, 0.01, FALSE_ALARM)
    return {
        "advantage": cost.advantage(),
        "bayes_risk": cost.bayes_risk(0.5),
        "tpr": [{"fpr": rate, "tpr": cost.tpr(rate)} for rate in rates],
    }


def tradeoff(points: Sequence[tuple[float, float]], steps: int = 40) -> list[tuple[float, float]]:
    """Return the trade-off curve: (false alarms, missed detections)."""
    rates = sorted({*(i / steps for i in range(steps + 1)), 0.01, 0.05})
    return [(rate, missed(points, rate)) for rate in rates]


def leaf_sizes(rows: int, points: int = 25) -> list[int]:
    """Return sizes of a leaf from ten rows to half of the table, evenly on a logarithmic scale."""
    top = max(rows / 2, 20.0)
    return sorted({round(10 * (top / 10) ** (i / (points - 1))) for i in range(points)})
