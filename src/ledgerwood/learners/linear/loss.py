r"""Losses of a linear score, as integer gradients.

With y the label and s the score, the negative derivatives (Rho et al. 2022, Table 1) are

=========  =======================  ==============  =====================
loss       gradient                 largest         labels
=========  =======================  ==============  =====================
squared    y - s, clipped           the clip        -1 and 1, or a number
logistic   y - 1 / (1 + exp(-s))    see below       0 and 1
hinge      y if y s < 1, else 0     1               -1 and 1
=========  =======================  ==============  =====================

**Per-round bound.** A row has norm at most R and the weights w are released, so :math:`|s| \le R \lVert w \rVert` is
public. The logistic gradient is at most :math:`\sigma(R \lVert w \rVert)`, one half in the first round; a residual is
at most :math:`1 + R \lVert w \rVert`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ledgerwood.errors import ParameterError
from ledgerwood.learners.data.columns import Floats, Ints

__all__ = ["ENTRY_ONE", "GRADIENT_ONE", "LOSSES", "WEIGHT_BITS", "LinearLoss", "fixed_point", "loss_named"]


ENTRY_ONE = 2**12
"""The entry of a category that is present, and of a number at its upper bound."""

GRADIENT_ONE = 2**16

WEIGHT_BITS = 20

_LARGEST_WEIGHT = 2**30


def fixed_point(weights: NDArray[np.float64]) -> Ints:
    """Released weights in steps of ``2**-WEIGHT_BITS``, forced into the range that scores can hold.

    >>> fixed_point(np.array([[0.5, 1e9]])).tolist()
    [[524288, 1073741824]]
    """
    steps = np.nan_to_num(weights * 2.0**WEIGHT_BITS, nan=0.0)
    return np.rint(np.minimum(np.maximum(steps, -_LARGEST_WEIGHT), _LARGEST_WEIGHT)).astype(np.int64)


_TABLE_STEP_BITS = 10

_TABLE_REACH = 16

_SCORE_SHIFT = WEIGHT_BITS + ENTRY_ONE.bit_length() - 1 - (GRADIENT_ONE.bit_length() - 1)


@lru_cache(maxsize=1)
def _sigmoid_table() -> NDArray[np.int32]:
    half = _TABLE_REACH << _TABLE_STEP_BITS
    scores = np.arange(-half, half + 1) / 2.0**_TABLE_STEP_BITS
    return np.rint(GRADIENT_ONE / (1 + np.exp(-scores))).astype(np.int32)


@dataclass(frozen=True, slots=True)
class LinearLoss:
    """One loss: its kernel's code, and the bound on its hessian that makes a full step safe.

    ``hessian_bound`` bounds the second derivative, so that X'X times it majorises the Hessian (1/4 for the logistic
    loss: Böhning and Lindsay 1988); a step of 1 / hessian_bound then never overshoots without noise. Rho et al. 2022
    steps by 1.
    """

    name: str
    code: int
    hessian_bound: float
    table: NDArray[np.int32] = field(repr=False, compare=False)
    score_shift: int = _SCORE_SHIFT
    table_shift: int = (GRADIENT_ONE.bit_length() - 1) - _TABLE_STEP_BITS

    def gradient_bound(self, norm: float, weight_norm: float, outputs: int) -> int:
        """Return the public bound on the norm of a record's gradients before any clip, in steps.

        Rows have norm ``norm`` at most; ``weight_norm`` is the largest norm of an output's weights.
        """
        reach = min(norm * weight_norm, 2.0**30)
        each = 1.0
        if self.name == "squared":
            each = 1 + reach  # of residuals that are not rounded: see residuals.py
        elif self.name == "logistic":
            # One step of the table and one of the gradient cover every rounding between score and gradient.
            each = 1 / (1 + math.exp(-min(reach + 2.0**-_TABLE_STEP_BITS, 700.0))) + 2 / GRADIENT_ONE
        return math.ceil(math.sqrt(outputs) * each * GRADIENT_ONE)

    def probabilities(self, scores: Floats) -> Floats:
        """Return class probabilities ``[rows, classes]`` of scores ``[rows, outputs]``.

        A squared or hinge score aims at -1 and 1: read as a probability it is ordered, not calibrated.
        """
        if self.name == "logistic":
            each = 1 / (1 + np.exp(-np.clip(scores, -700, 700)))
        else:
            each = np.clip((scores + 1) / 2, 0.0, 1.0)
        if each.shape[1] == 1:
            return np.hstack([1 - each, each])
        total = each.sum(axis=1, keepdims=True)
        return np.where(total > 0, each / np.where(total > 0, total, 1.0), 1 / each.shape[1])


LOSSES = ("squared", "logistic", "hinge")


def loss_named(name: str) -> LinearLoss:
    """Return the loss of that name.

    >>> loss_named("logistic").hessian_bound
    0.25
    """
    table = _sigmoid_table()
    match name:
        case "squared":
            return LinearLoss(name, 0, 1.0, table)
        case "logistic":
            return LinearLoss(name, 1, 0.25, table)
        case "hinge":
            return LinearLoss(name, 2, 1.0, table)
    raise ParameterError("loss", f"be one of {', '.join(LOSSES)}", name)
