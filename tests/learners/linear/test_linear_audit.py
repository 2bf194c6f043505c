"""The auditor on coefficients: passes ours, flags half the noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from linear_designs import rows_of

from ledgerwood.learners.linear.boosting import boost
from ledgerwood.learners.linear.loss import ENTRY_ONE, loss_named
from ledgerwood.learners.linear.plan import LinearSettings, plan_linear
from ledgerwood.learners.linear.sensitivity import RowBound
from ledgerwood.mechanisms import SeededSource
from ledgerwood.verification import audit

COMMON = 60


@dataclass
class Trainer:
    """Coefficients of a small model; ``part`` of the planned noise is added."""

    settings: LinearSettings
    part: float = 1.0

    def __post_init__(self) -> None:
        self.plan = plan_linear(self.settings).calibrate(epsilon=3.0, delta=1e-5)

    def __call__(self, extra: int, rng: np.random.Generator) -> np.ndarray:
        part, source = self.part, SeededSource(rng)

        class Session:
            def release(self, mechanism: Any, value: Any, label: str) -> Any:
                return replace(mechanism, sigma=mechanism.sigma * part).release(value, source)

        # The record in question has the longest row and the largest gradient; the others' gradients cancel, so that
        # the noise on X'X, which multiplies them, hides nothing.
        design = np.concatenate([np.tile([[ENTRY_ONE], [-ENTRY_ONE]], (2 * COMMON, 1)), np.full((extra, 1), ENTRY_ONE)])
        labels = np.concatenate([np.tile([0, 0, 1, 1], COMMON), np.full(extra, 1)])
        rows = rows_of(design, labels, intercept=ENTRY_ONE)
        return boost(rows, RowBound(2 * ENTRY_ONE**2), self.settings, self.plan, Session())[0]


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_the_auditor_tells_the_planned_noise_from_half_of_it(loss: str) -> None:
    wanted = LinearSettings(loss_named(loss), rounds=1, shares=(0.3, 1.0, 0.0))
    ours, half = Trainer(wanted), Trainer(wanted, part=0.5)
    good = audit(ours, ours.plan.cost, pair=(1, 0), samples=800, seed=1)
    assert good.passed, good.verdict
    assert audit(half, half.plan.cost, pair=(1, 0), samples=800, seed=1).flagged
