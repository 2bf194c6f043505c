"""Charging is a step of its own: for noise drawn elsewhere, for two ledgers, for groups and samples."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ledger_cases import Silent

from ledgerwood.accounting import (
    BoundedRange,
    Gaussian,
    InParallel,
    Ledger,
    Plan,
    PoissonSubsampled,
    PureDP,
    Release,
    SparseVector,
)
from ledgerwood.accounting.costs import serialization
from ledgerwood.errors import BudgetExceeded, LedgerwoodError, OffPlan, ParameterError
from ledgerwood.learners.training.session import ReleaseSession
from ledgerwood.learners.training.statement import Receipt
from ledgerwood.mechanisms import GaussianMechanism

ELSEWHERE = "drawn elsewhere"


def test_a_charge_takes_what_a_release_takes_and_is_refused_alike() -> None:
    drawn, charged = Ledger(1.0, 0.0), Ledger(1.0, 0.0)
    for _ in range(10):
        drawn.release(Silent(PureDP(0.1)), None, label="tenth")
        charged.charge(PureDP(0.1), "tenth")
    assert drawn.spent() == charged.spent() and drawn.odometer() == charged.odometer()
    for ledger, again in (
        (drawn, lambda: drawn.release(Silent(PureDP(0.1)), None, label="r")),
        (charged, lambda: charged.charge(PureDP(0.1), "r")),
    ):
        with pytest.raises(BudgetExceeded):
            again()
        assert len(ledger.journal()) == 10


@pytest.mark.parametrize(
    "wrong", [(None, "r"), (0.1, "r"), (PureDP(0.1), ""), (PureDP(0.1, neighbours="replace_one"), "r")]
)
def test_what_is_no_cost_or_no_label_is_refused(wrong: tuple[object, str]) -> None:
    ledger = Ledger(1.0, 0.0)
    with pytest.raises(LedgerwoodError):
        ledger.charge(*wrong)  # type: ignore[arg-type]
    assert not ledger.journal() and ledger.spent().amount == 0


def test_a_charge_is_marked_in_journal_receipt_and_statement_and_survives_the_file(tmp_path: Path) -> None:
    path = tmp_path / "budget.jsonl"
    with Ledger.open(path, 1.0, 1e-6) as ledger:
        ledger.release(Silent(Gaussian(sigma=30.0)), None, label="own")
        assert ELSEWHERE not in ledger.statement()
        ledger.charge(Gaussian(sigma=30.0), "warehouse")
        spent = ledger.spent()
    kinds = [json.loads(line)["kind"] for line in path.read_text().splitlines()]
    assert kinds == ["open", "release", "charge"]
    with Ledger.open(path) as again:
        assert again.spent() == spent
        assert [(entry.kind, entry.label) for entry in again.journal()] == [("release", "own"), ("charge", "warehouse")]
        assert "2 releases" in again.statement() and ELSEWHERE in again.statement()
        receipt = Receipt.of(again)
    assert [line.drawn_elsewhere for line in receipt] == [False, True]
    assert [line.get("drawn_elsewhere") for line in receipt.to_dict()] == [None, True]


def test_a_merged_sub_ledgers_charges_stay_marked() -> None:
    ledger = Ledger(1.0, 1e-6)
    for child in ledger.split([0.5, 0.5]):
        child.charge(Gaussian(sigma=50.0), "query")
        ledger.merge(child)
    assert "noise of 2 of the charges" in ledger.statement()


def test_parts_are_charged_as_they_release() -> None:
    drawn, charged = Ledger(1.0, 0.0), Ledger(1.0, 0.0)
    with drawn.parallel("b") as parts, charged.parallel("b") as others:
        for i in (0, 1, 1):
            parts[i].release(Silent(PureDP(0.1)), None, label="r")
            others[i].charge(PureDP(0.1), "r")
    assert drawn.spent() == charged.spent() and charged.spent().epsilon == pytest.approx(0.2)


def test_a_plan_is_charged_by_its_labels_and_costs() -> None:
    plan = Plan([Release("leaf", Gaussian, times=2, share=1.0)]).calibrate(1.0, 1e-6)
    ledger = Ledger(plan=plan)
    with pytest.raises(OffPlan):
        ledger.charge(Gaussian(sigma=1.0), "leaf")
    for _ in range(2):
        ledger.charge(plan["leaf"].priced(), "leaf")
    with pytest.raises(OffPlan):
        ledger.charge(plan["leaf"].priced(), "leaf")
    assert ledger.remaining().amount == 0


# ---- groups and samples


def test_a_release_is_charged_for_its_group_and_its_sample() -> None:
    one = Gaussian(sigma=5.0)
    assert Release("r", Gaussian, scale=5.0, group=3).priced() == one.group(3)
    assert Release("r", one, group=3).priced() == one.group(3)
    assert Release("r", lambda s: Gaussian(sigma=s), scale=5.0, group=3).priced() == one.group(3)
    assert Release("r", Gaussian, scale=5.0, rate=0.1).priced() == PoissonSubsampled(one, rate=0.1)
    for release in (Release("r", Gaussian, scale=5.0, group=3), Release("r", Gaussian, scale=5.0, rate=0.1)):
        assert release.record_cost() == one
        assert release.for_unit(one) == release.priced()


@pytest.mark.parametrize(
    "wrong", [{"group": 0}, {"group": True}, {"group": 1.5}, {"rate": 0}, {"rate": 1.5}, {"rate": 0.5, "group": 2}]
)
def test_groups_and_rates_that_mean_nothing_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ParameterError):
        Release("r", Gaussian, scale=5.0, **wrong)  # type: ignore[arg-type]


def test_a_group_may_not_lie_in_several_parts() -> None:
    with pytest.raises(ParameterError, match="several parts"):
        InParallel("parts", [Release("r", Gaussian, scale=5.0, group=2)])


@pytest.mark.parametrize("unit", [{"group": 4}, {"rate": 0.05}, {}])
def test_group_and_rate_are_calibrated_and_written_only_where_they_are_used(unit: dict[str, float]) -> None:
    releases = [Release("split", BoundedRange, 10, 0.6, **unit), Release("leaf", Gaussian, 5, 0.4, **unit)]  # type: ignore[arg-type]
    plan = Plan(releases).calibrate(1.0, 1e-5, method="rdp")
    assert plan.cost.epsilon(1e-5, "rdp") <= 1.0 < plan.cost.epsilon(1e-5, "rdp") * 1.001
    written = plan.to_dict()
    assert all({name for name in ("group", "rate") if name in item} == set(unit) for item in written["items"])
    assert Plan.from_json(plan.to_json()) == plan
    session = ReleaseSession(Ledger(plan=plan))
    assert isinstance(session.release(GaussianMechanism(plan["leaf"].scale), 7, "leaf"), int)
    with pytest.raises(OffPlan):
        session.release(GaussianMechanism(plan["leaf"].scale * 1.5), 7, "leaf")


def test_a_plan_written_before_groups_were_kept_is_charged_the_same() -> None:
    plan = Plan([Release("leaf", Gaussian, 5, 1.0, group=3)]).calibrate(1.0, 1e-5)
    old = plan.to_dict()
    for item, release in zip(old["items"], plan.releases(), strict=True):
        del item["group"]
        item.update(cost=serialization.to_dict(release.priced()), share=None, fixed={})
    before = Plan.from_dict(old)
    assert before.runs() == plan.runs() and before.same_charges(plan) and before != plan
    assert before["leaf"].scale == plan["leaf"].scale


def test_a_ledger_in_memory_follows_costs_and_never_calls_a_function_again() -> None:
    calls = []

    def template(scale: float) -> Gaussian:
        calls.append(scale)
        return Gaussian(sigma=scale)

    plan = Plan([Release("r", template, share=1.0)]).calibrate(1.0, 1e-6)
    ledger = Ledger(plan=plan)
    before = len(calls)
    assert ledger.plan is not None and ledger.plan == Plan.from_json(plan.to_json())
    assert ledger.plan["r"].priced() == Gaussian(sigma=plan["r"].scale)
    ledger.release(Silent(Gaussian(sigma=plan["r"].scale)), None, label="r")
    assert len(calls) <= before + 1  # to_json above froze the plan once


# ---- noise parameters that a cost states in another way


def test_a_sparse_vector_of_two_noises_can_be_planned() -> None:
    cost = SparseVector(sigma_threshold=20.0, sigma_query=40.0, max_queries=10)
    release = Release("sparse", cost)
    assert release.scale is None and release.is_known and release.priced() == cost
    plan = Plan([release, Release("leaf", Gaussian, share=1.0)]).calibrate(2.0, 1e-6)
    assert Plan.from_json(plan.to_json()) == plan
    assert plan.table()[0]["scale"] is None
