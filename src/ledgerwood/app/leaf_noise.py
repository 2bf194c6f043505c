"""How wrong noise makes a leaf, and how many trees a limit on that leaves room for."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from ledgerwood.app.plan_request import MOST_TREES
from ledgerwood.errors import CalibrationError

if TYPE_CHECKING:
    from ledgerwood.accounting import Plan, Release
    from ledgerwood.app.plan_request import PlanRequest
    from ledgerwood.learners.trees.settings import TreeSettings

_ANY_SCORE = 8 << 16  # log-odds of 8 in the trees' steps: early trees, with smaller scores, have a little less noise


@dataclass(frozen=True, slots=True)
class LeafNoise:
    r"""How noise moves the weight of a leaf.

    The weight is :math:`-G/(H+\lambda)`. Noise of standard deviation ``noise`` on :math:`G` moves it by
    :math:`\text{noise}/(H+\lambda)`; :math:`H` is ``hessian`` per row, 1/4 for the logistic loss at an even chance.
    For averages and squared errors :math:`H` is the number of rows. Learners shrink weights that noise dominates, which
    trades a part of this error for a smaller weight.

    >>> LeafNoise(noise=45.0, hessian=0.25, penalty=1.0).error(500.0)
    0.35714285714285715
    """

    noise: float
    hessian: float
    penalty: float
    unit: str = "log-odds"

    @classmethod
    def of(cls, request: PlanRequest, plan: Plan) -> Self | None:
        """Return that of a plan's leaves; None if the model has none."""
        settings = request.settings
        if settings is None:
            return None
        size, hessian = _one_record(settings)
        return cls(_deviation(leaf_release(plan)) * size, settings.rows * hessian, settings.l2, _unit(settings))

    def error(self, rows: float) -> float:
        """Return the typical error of the weight of a leaf with this many rows."""
        return self.noise / (rows * self.hessian + self.penalty)


def _one_record(settings: TreeSettings) -> tuple[float, float]:
    """Return the size of what a record can add to the sums of a leaf, and the hessian it adds at an even chance."""
    from ledgerwood.learners.trees.aggregator import ONE, TABLE_HALF
    from ledgerwood.learners.trees.leaves import layout_of

    loss = settings.make_loss()
    layout = layout_of(settings, loss, _ANY_SCORE, laplace=settings.leaf in ("laplace", "noisy_average"))
    hessian = 1.0
    if settings.leaf == "newton" and settings.loss == "softmax":
        hessian = (1 - 1 / settings.n_classes) / settings.n_classes
    elif settings.leaf == "newton" and settings.loss == "logistic":
        hessian = float(loss.task.pairs[0, TABLE_HALF, 1] / (loss.kappa * ONE))
    return layout.noise(layout.sensitivity), hessian


def _unit(settings: TreeSettings) -> str:
    if settings.leaf == "average" or (settings.loss == "squared" and settings.n_classes == 2):
        return "half of the target's range"
    return "log-odds"


def leaf_release(plan: Plan) -> Release:
    """Return the release the leaf weights come from: their own, or the histograms of the splits."""
    labels = [release.label for release in plan.releases()]
    return plan["leaf" if "leaf" in labels else labels[-1]]


def _deviation(release: Release) -> float:
    """Return the standard deviation of its noise, in units of one record's largest contribution."""
    from ledgerwood.accounting import Laplace

    kind = getattr(release.cost, "kind", release.cost)
    scale = release.scale or math.nan
    return math.sqrt(2) * scale if kind is Laplace else scale


def saving(plan: Plan, other: Plan) -> float:
    """Return which part of another plan's noise this one saves, at the leaves."""
    mine, its = leaf_release(plan).scale, leaf_release(other).scale
    return max(0.0, 1 - mine / its) if mine and its else 0.0


def trees_for_error(request: PlanRequest, rows: float, error: float) -> int:
    """Return how many trees keep the leaf error within a limit at the epsilon of the request (0 if not even one).

    Noise grows with the number of trees. Priced by Rényi accounting, which is quick and asks for a little more noise
    than the plan will need, so the answer is on the safe side.
    """

    def fits(trees: int) -> bool:
        asked = replace(request, trees=trees)
        try:
            plan = asked.plan(method="rdp")
        except CalibrationError:
            return False
        leaf = LeafNoise.of(asked, plan)
        return leaf is not None and leaf.error(rows) <= error

    if request.recipe == "linear" or not fits(1):
        return 0
    low, high = 1, 2
    while high <= MOST_TREES and fits(high):
        low, high = high, 2 * high
    # Between the two ends, by bisection: all that fit come before all that do not.
    return bisect_left(range(min(high, MOST_TREES + 1)), True, lo=low, key=lambda trees: not fits(trees)) - 1
