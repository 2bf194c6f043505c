"""What a release session charges: the cost for a whole privacy unit, whatever the plan names."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from ledgerwood.accounting import Cost, Gaussian, Ledger, Plan, Release
from ledgerwood.errors import BudgetExceeded, OffPlan
from ledgerwood.learners import (
    BoostedAdaSSPClassifier,
    Column,
    PrivateBoostingClassifier,
    PrivateClassifier,
    PublicMetadata,
    RowCount,
    Schema,
)
from ledgerwood.learners.training.session import ReleaseSession
from ledgerwood.mechanisms import GaussianMechanism


@pytest.mark.parametrize("rows", [1, 3])
def test_the_reserve_of_a_plan_is_charged_for_a_whole_privacy_unit(rows: int) -> None:
    plan = Plan([Release("leaf", Gaussian, share=1.0, group=rows)], reserve=1.0).calibrate(epsilon=1.0, delta=1e-6)
    columns = (Column("x", "number", bounds=(0.0, 1.0)),)
    metadata = PublicMetadata(
        columns, "classification", RowCount(100), 1.0, 1e-6, classes=(0, 1), max_rows_per_unit=rows
    )
    ledger, other = Ledger(plan=plan), Ledger(epsilon=10.0, delta=1e-5)
    session = ReleaseSession(ledger, charge=other, plan=plan, metadata=metadata)
    session.release(GaussianMechanism(sensitivity=1.0, sigma=100.0), 0.0, "reserve")
    charged = [entry.cost for each in (ledger, other) for entry in each.journal()]
    assert [cost.mu() for cost in charged if cost is not None] == pytest.approx([rows / 100.0] * 2)


class Spy:
    """Counts draws, and what the ledgers had on record when each was made."""

    def __init__(self, cost: Cost, *ledgers: Ledger) -> None:
        self.cost, self._ledgers, self.recorded = cost, ledgers, []

    sensitivity = None

    def check(self, value: Any) -> None: ...

    def release(self, value: Any, rng: Any = None) -> Any:
        self.recorded.append([len(ledger.journal()) for ledger in self._ledgers])
        return value


def test_nothing_is_drawn_before_both_ledgers_have_recorded_it() -> None:
    plan = Plan([Release("leaf", Gaussian, times=3, share=1.0)]).calibrate(epsilon=1.0, delta=1e-6)
    cost = plan["leaf"].priced()
    ledger, other = Ledger(plan=plan), Ledger(cost.epsilon(1e-6) * 1.5, 1e-6, filter="gdp")  # pays for two of three
    spy = Spy(cost, ledger, other)
    session = ReleaseSession(ledger, charge=other, plan=plan)
    session.release(spy, 0, "leaf")
    with pytest.raises(OffPlan):
        session.release(spy, 0, "split")
    session.release(spy, 0, "leaf")
    with pytest.raises(BudgetExceeded):
        session.release(spy, 0, "leaf")
    assert spy.recorded == [[1, 1], [2, 2]]
    assert (len(ledger.journal()), len(other.journal())) == (3, 2)  # recorded by one, then refused by the other


TEMPLATES = [Gaussian, lambda scale: Gaussian(sigma=scale), lambda scale: Gaussian(sigma=scale) + Gaussian(sigma=scale)]


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("how", [{}, {"group": 3}, {"rate": 0.25}])
def test_a_release_is_charged_for_its_group_and_its_rate_however_its_cost_is_stated(template: Any, how: Any) -> None:
    """A fit follows the frozen plan, as its ledger does: a cost given as a function keeps group and rate there."""
    planned = Plan([Release("leaf", template, times=2, share=1.0, **how)]).calibrate(epsilon=1.0, delta=1e-6)
    plan = planned.frozen()
    assert plan.runs() == planned.runs() and plan.same_charges(Plan.from_json(plan.to_json()))
    ledger, other = Ledger(plan=plan), Ledger(epsilon=10.0, delta=1e-5)
    spy = Spy(plan["leaf"].record_cost(), ledger, other)
    session = ReleaseSession(ledger, charge=other, plan=plan)
    for _ in range(2):
        session.release(spy, 0, "leaf")
    assert [entry.cost for each in (ledger, other) for entry in each.journal()] == [planned["leaf"].priced()] * 4


ROWS = np.random.default_rng(0).uniform(size=(80, 2))
FRAME = pd.DataFrame({"x": ROWS[:, 0], "z": ROWS[:, 1], "t": ["a", "b"] * 40, "who": np.arange(80) // 2})
TREES = {"n_trees": 2, "max_depth": 2}
FITS = {
    "trees": (PrivateBoostingClassifier(recipe="tr_cyc", **TREES), 0, True),
    "trees of persons, all learned": (PrivateBoostingClassifier(recipe="tr_cyc", **TREES), 2, False),
    "selections of persons": (PrivateBoostingClassifier(recipe="xgb", **TREES), 2, True),
    "sampled": (PrivateBoostingClassifier(recipe="tr", rows=0.5, **TREES), 1, True),
    "linear of persons": (BoostedAdaSSPClassifier(n_rounds=3), 2, True),
    "auto of persons": (PrivateClassifier(), 2, True),
}


@pytest.mark.parametrize(("learner", "unit", "declared"), FITS.values(), ids=FITS)
def test_a_fit_charges_its_ledger_for_every_run_of_its_plan(learner: Any, unit: int, declared: bool) -> None:
    known = {"bounds": {"x": (0, 1), "z": (0, 1)}, "categories": {"t": ["a", "b"]}} if declared else {}
    person = {"unit": "who", "max_rows_per_unit": unit} if unit else {}
    model = clone(learner).set_params(schema=Schema(classes=[0, 1], rows=80, **known, **person), delta=1e-6)
    ledger = Ledger(epsilon=50.0, delta=1e-4, reserved_delta=5e-5)
    model.fit(FRAME if unit else FRAME[["x", "z", "t"]], (ROWS[:, 0] > 0.5).astype(int), ledger=ledger)
    charged = Counter((entry.label.partition(": ")[2], entry.cost) for entry in ledger.journal())
    planned: Counter[Any] = Counter()
    for run in model.plan_.runs():
        planned[run.label, run.cost] += run.times
    assert charged == planned and len(model.receipt_) == sum(planned.values())
