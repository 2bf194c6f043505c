"""Defaults from public metadata: rounds, the split of the budget, the clip (``docs/benchmarks/linear.md``)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ledgerwood.accounting import Gaussian, Plan, Release
from ledgerwood.learners.data.columns import Task
from ledgerwood.learners.linear.loss import LinearLoss
from ledgerwood.learners.training.public_metadata import PublicMetadata

__all__ = [
    "CROSS_PRODUCTS",
    "EIGENVALUE",
    "GRADIENTS",
    "LinearSettings",
    "automatic_clip",
    "automatic_loss",
    "automatic_rounds",
    "automatic_shares",
    "plan_linear",
]


_STEPS = ((60.0, 5), (300.0, 10), (3000.0, 20), (math.inf, 40))


def automatic_rounds(metadata: PublicMetadata) -> int:
    """Return T from n rows, m columns and epsilon.

    A column of unit norm has a signal of about n beside noise of about (m + 1) / epsilon; where there is little of it
    every round costs more than it brings. Regression converges sooner: its hessian is that of X'X itself.
    """
    snr = metadata.rows * metadata.epsilon / (1 + metadata.n_features)
    rounds = next(count for limit, count in _STEPS if snr < limit)
    return rounds if metadata.task == "classification" else min(rounds, 10)


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


CROSS_PRODUCTS, EIGENVALUE, GRADIENTS = "cross products", "smallest eigenvalue", "gradients"


@dataclass(frozen=True, slots=True)
class LinearSettings:
    """Public choices of one fit.

    Parameters
    ----------
    loss
        A :class:`~ledgerwood.learners.linear.loss.LinearLoss`.
    rounds
        T, how often gradients are released.
    shares
        a : b : c, the ratio of the Gaussian DP parameters of cross products, all gradients, and eigenvalue. A c of 0
        leaves the eigenvalue out.
    step_size
        Factor on every step.
    clip, clip_decay
        A record's vector of gradients is scaled to norm at most ``clip * clip_decay**t`` in round t.
    ridge
        The ridge in units of the noise's size; not used in the paper's form.
    paper
        Rho et al.'s form: AdaSSP's ridge, the plain triangle, the same sensitivity in every round.
    """

    loss: LinearLoss
    rounds: int = 1
    shares: tuple[float, float, float] = (1.0, 1.0, 0.0)
    step_size: float = 1.0
    clip: float = 1.0
    clip_decay: float = 1.0
    ridge: float = 1.0
    paper: bool = False


def plan_linear(settings: LinearSettings, neighbours: str = "add_remove") -> Plan:
    """Return the plan of a fit, to be calibrated: scales are noise per unit of sensitivity.

    >>> from ledgerwood.learners.linear.loss import loss_named
    >>> plan = plan_linear(LinearSettings(loss_named("logistic"), rounds=10)).calibrate(epsilon=1.0, delta=1e-6)
    >>> round(plan["gradients"].scale / plan["cross products"].scale, 3)
    3.162
    """
    a, b, c = settings.shares
    items = [Release(CROSS_PRODUCTS, Gaussian, share=a * a)]
    if c > 0:
        items.append(Release(EIGENVALUE, Gaussian, share=c * c))
    items.append(Release(GRADIENTS, Gaussian, times=settings.rounds, share=b * b))
    return Plan(items, neighbours=neighbours)
