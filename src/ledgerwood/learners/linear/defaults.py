"""Defaults from public facts: rounds, the split of the budget, the clip (``docs/benchmarks/linear.md``)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ledgerwood.learners.facts import PublicFacts, Task

__all__ = ["automatic_clip", "automatic_loss", "automatic_rounds", "automatic_shares"]

_STEPS = ((60.0, 5), (300.0, 10), (3000.0, 20), (math.inf, 40))


def automatic_rounds(facts: PublicFacts) -> int:
    """Return T from n rows, m columns and epsilon.

    A column of unit norm has a signal of about n beside noise of about (m + 1) / epsilon; where there is little of it
    every round costs more than it brings. Regression converges sooner: its curvature is that of X'X itself.
    """
    strength = facts.rows * facts.epsilon / (1 + facts.n_features)
    rounds = next(count for limit, count in _STEPS if strength < limit)
    return rounds if facts.task == "classification" else min(rounds, 10)


def automatic_loss(task: Task) -> str:
    """Return the loss: the logistic one for classes, the squared one for a number."""
    return "logistic" if task == "classification" else "squared"


def automatic_shares(rounds: int) -> tuple[float, float, float]:
    """Return a : b : c. Boosting corrects what noise on X'X did; a single round does not."""
    return (1.0, 1.0, 0.0) if rounds == 1 else (0.5, 1.0, 0.0)


def automatic_clip(loss: str, *, coded: bool, rounds: int, outputs: int) -> float:
    """Return the bound on a record's gradients.

    A logistic gradient starts at 1/2 for every record: clipping there halves the sensitivity of all later rounds. For
    several outputs the vectors are clipped to 1, for the same reason. Residuals of a boosted regression are small
    beside the target's range. A single round of regression, and losses whose gradients are 1 from the start, would
    only be biased by a clip.
    """
    if loss == "logistic":
        return 0.5 if outputs == 1 else 1.0
    if coded:
        return min(math.sqrt(outputs), 2.0)
    return 0.5 if rounds > 1 else 1.0
