"""The conformance kit catches each planted mistake, and passes learners that make none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.kit.toy_learners import ToyClassifier, ToyRegressor

from ledgerwood.accounting import Gaussian, Plan, Release
from ledgerwood.verification import check_learner


class Curious(ToyClassifier):
    """Plans by a look at the data."""

    def plan(self, X: Any, y: Any = None) -> Plan:
        self.rounds = 1 + int(np.asarray(X)[:, 0].mean() > 0.5)
        return super().plan(X, y)


class Hoarder(ToyClassifier):
    """Keeps its rows."""

    def _train(self, table: Any, labels: Any, plan: Any, session: Any) -> Any:
        return {**super()._train(table, labels, plan, session), "seen_": np.stack(table.values)}


class Gossip(ToyClassifier):
    """Keeps one exact number."""

    def _train(self, table: Any, labels: Any, plan: Any, session: Any) -> Any:
        fitted = dict(super()._train(table, labels, plan, session))
        return {**fitted, "top_": float(np.nanmax(np.r_[table.values[0], 0.0]))}


class Fragile(ToyClassifier):
    """Raises on a missing value."""

    def _train(self, table: Any, labels: Any, plan: Any, session: Any) -> Any:
        if np.isnan(table.values[0]).any():
            raise ValueError("a value is missing")
        return super()._train(table, labels, plan, session)


class Optimist(ToyClassifier):
    """Plans a hundredth of its sensitivity and adds that little noise."""

    def _plan(self, metadata: Any) -> Plan:
        return Plan([Release("means", Gaussian, times=1, share=1.0)], neighbours=metadata.neighbours)

    def _train(self, table: Any, labels: Any, plan: Any, session: Any) -> Any:
        from ledgerwood.mechanisms import GaussianMechanism

        sums = np.array([int(table.values[0].sum() * 256), len(table)])
        found = session.release(GaussianMechanism(plan["means"].scale, 1.0), sums, "means")
        return {"means_": np.zeros((2, 2)), "sum_": np.asarray(found)}


@pytest.mark.parametrize(
    ("learner", "check"),
    [
        (Curious(), "the plan depends on public metadata only"),
        (Hoarder(), "the model keeps no rows"),
        (Gossip(), "an audit finds no more than was stated"),
        (Fragile(), "values never raise"),
        (Optimist(), "an audit finds no more than was stated"),
    ],
    ids=lambda part: type(part).__name__ if not isinstance(part, str) else "",
)
def test_a_planted_mistake_is_caught(learner: Any, check: str) -> None:
    report = check_learner(learner, samples=400)
    assert not report.passed
    assert check in [finding.check for finding in report.findings if not finding.passed], str(report)


@pytest.mark.parametrize("learner", [ToyClassifier(rounds=1), ToyRegressor()], ids=lambda part: type(part).__name__)
def test_a_learner_without_mistakes_passes(learner: Any) -> None:
    report = check_learner(learner, samples=100)
    assert report.passed, str(report)
    assert str(report).startswith(f"{type(learner).__name__}: passed")
