"""What a release session charges: the cost for a whole privacy unit, whatever the plan names."""

from __future__ import annotations

import pytest

from ledgerwood.accounting import Gaussian, Ledger, Plan, Release
from ledgerwood.learners import Column, PublicMetadata, RowCount
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
