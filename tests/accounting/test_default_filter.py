"""One currency: what a budget of (epsilon, delta) pays for by default, and what its refusals say."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerwood.accounting import (
    ApproxDP,
    BoundedRange,
    Cost,
    Gaussian,
    Laplace,
    Ledger,
    Plan,
    PoissonSubsampled,
    PureDP,
    Release,
    calibrate,
)
from ledgerwood.accounting.accountant.filters import from_units, make_filter, to_units
from ledgerwood.errors import BudgetExceeded, FormatError, MethodUnavailable, OffPlan, ParameterError

DELTA = 1e-6


def training(epsilon: float, delta: float = DELTA) -> Plan:
    return Plan(
        [Release("split", BoundedRange, times=6, share=1.0), Release("leaf", Gaussian, times=3, share=1.0)]
    ).calibrate(epsilon=epsilon, delta=delta)


def test_a_budget_of_one_pays_for_a_training_of_one_and_for_nothing_more() -> None:
    ledger = Ledger(1.0, DELTA)
    paid = ledger.pay(training(1.0), "training")
    assert (ledger.spent().epsilon, ledger.remaining().epsilon) == (1.0, 0.0)
    with pytest.raises(BudgetExceeded, match="takes 1e-09 of the ledger's 1, of which 0 is left"):
        ledger.charge(PureDP(1e-9), "more")
    paid.charge_release(training(1.0)["leaf"].priced(), "training: leaf")  # paid already


def test_after_nine_tenths_two_tenths_are_refused_and_one_tenth_is_not() -> None:
    ledger = Ledger(1.0, 2 * DELTA)
    ledger.pay(training(0.9), "first")
    with pytest.raises(BudgetExceeded) as refused:
        ledger.pay(training(0.2), "second")
    assert (refused.value.needed, refused.value.remaining, refused.value.limit) == (0.2, pytest.approx(0.1), 1.0)
    assert "takes 0.2 of the ledger's 1, of which 0.1 is left" in str(refused.value)
    assert "epsilon=0.1 would fit" in str(refused.value)
    ledger.pay(training(0.1), "third")
    assert ledger.remaining().amount == 0.0


def test_a_paid_plan_takes_its_own_releases_and_no_others(tmp_path: Path) -> None:
    plan = training(0.5)
    with Ledger.open(tmp_path / "a.jsonl", 1.0, 1e-5) as ledger:
        paid = ledger.pay(plan, "one")
        for _ in range(3):
            paid.charge_release(plan["leaf"].priced(), "one: leaf")
        with pytest.raises(OffPlan, match="all 3 runs"):
            paid.charge_release(plan["leaf"].priced(), "one: leaf")
        with pytest.raises(OffPlan, match="not in the plan"):
            paid.charge_release(Gaussian(sigma=100.0), "one: count")
        with pytest.raises(OffPlan, match="is planned at the cost"):
            paid.charge_release(BoundedRange(0.5), "one: split")
        assert ledger.spent().epsilon == 0.5
        other = ledger.pay(plan, "two")
        other.charge_release(plan["leaf"].priced(), "two: leaf")
        before, reading = ledger.spent(), ledger.odometer()
    with Ledger.open(tmp_path / "a.jsonl") as again:
        assert again.spent() == before and again.odometer() == reading
        assert [entry.kind for entry in again.journal()] == ["plan", *["release"] * 3, "plan", "release"]


def test_a_plan_on_record_at_another_price_than_it_states_is_refused() -> None:
    ledger, plan = Ledger(1.0, DELTA), training(1.0)
    ledger.pay(plan, "training")
    entry = ledger.journal()[0]._replace(cost=ApproxDP(0.1, DELTA))
    with pytest.raises(FormatError, match="another price"):
        Ledger(1.0, DELTA)._state.quote(entry)
    with pytest.raises(ParameterError, match="be calibrated"):
        ledger.pay(Plan([Release("leaf", Gaussian, share=1.0)]), "raw")


@pytest.mark.parametrize(
    ("first", "name"),
    [
        (PureDP(0.1), "pure"),
        (PureDP(0.01), "rdp"),
        (Gaussian(sigma=20.0), "rdp"),
        (ApproxDP(0.5, DELTA / 2), "pure"),
        (Laplace(scale=2.0), "pure"),
        (PoissonSubsampled(Gaussian(sigma=5.0), rate=0.01) * 10, "rdp"),
    ],
)
def test_the_first_admitted_request_chooses_once_and_for_all(tmp_path: Path, first: Cost, name: str) -> None:
    with Ledger.open(tmp_path / "a.jsonl", 1.0, DELTA) as ledger:
        assert not ledger.remaining().is_chosen and ledger.remaining().amount == 1.0
        with pytest.raises(BudgetExceeded):
            ledger.charge(PureDP(50.0), "refused, and so chooses nothing")
        assert not ledger.remaining().is_chosen
        ledger.charge(first, "first")
        rule = ledger.remaining().filter
        assert rule is not None and rule.name == name
        with contextlib.suppress(BudgetExceeded):
            ledger.charge(PureDP(0.3) if name == "rdp" else Gaussian(sigma=40.0), "of the other kind")
        assert ledger.remaining().filter == rule
        spent = ledger.spent()
    with Ledger.open(tmp_path / "a.jsonl", 1.0, DELTA) as again:
        assert again.spent() == spent and again.remaining().filter == rule


def test_a_gaussian_release_of_exactly_the_budget_is_admitted() -> None:
    sigma = calibrate(lambda s: Gaussian(sigma=s), epsilon=1.0, delta=DELTA)
    ledger = Ledger(1.0, DELTA)
    ledger.charge(Gaussian(sigma=sigma), "all of it")
    assert 1 - 1e-6 < ledger.spent().epsilon <= 1.0


def test_text_columns_that_are_learned_have_their_delta_by_default() -> None:
    plan = Plan([Release("names", cost=ApproxDP(0.2, 1e-7)), Release("leaf", Gaussian, times=3, share=1.0)])
    ledger = Ledger(1.0, DELTA)
    ledger.pay(plan.calibrate(epsilon=1.0, delta=DELTA), "training")
    assert ledger.remaining().amount == 0.0


def test_a_ledger_that_counts_otherwise_says_so_to_a_whole_plan() -> None:
    ledger = Ledger(1.0, DELTA, filter="rdp")
    with pytest.raises(MethodUnavailable, match="filter='pure'"):
        ledger.pay(training(0.5), "training")
    with pytest.raises(ParameterError, match="Open it with filter='rdp'"):
        Plan([Release("leaf", Gaussian, share=1.0)]).calibrate(budget=Ledger(1.0, DELTA).remaining())


@pytest.mark.parametrize("filter", ["rdp", "gdp", "zcdp", "pure"])
def test_a_refusal_names_the_noise_that_would_fit_and_it_does(filter: str) -> None:
    for cost in (Gaussian(sigma=2.0), 400 * Gaussian(sigma=20.0)):
        ledger = Ledger(1.0, DELTA, filter=filter)
        ledger.charge(Gaussian(sigma=12.0), "before")
        with pytest.raises(BudgetExceeded) as refused:
            ledger.charge(cost, "too much")
        error = refused.value
        assert error.needed > error.remaining and f"counted in: {error.unit}" in str(error)
        shown = re.search(r"takes (\S+) of the ledger's (\S+), of which (\S+) is left", str(error))
        assert shown is not None and float(shown[1]) > float(shown[3])
        found, part = re.search(r"sigma=(\S+) would fit", str(error)), re.search(r"(\d+) of its 400", str(error))
        if found:
            ledger.charge(Gaussian(sigma=float(found[1])), "as advised")
        else:
            assert part is not None
            ledger.charge(int(part[1]) * Gaussian(sigma=20.0), "as advised")


@given(
    st.sampled_from(["rdp", "gdp", "zcdp", "pure"]),
    st.lists(
        st.sampled_from([Gaussian(sigma=30.0), Gaussian(sigma=55.5), 3 * Gaussian(sigma=80.0)]), min_size=1, max_size=9
    ),
)
@settings(max_examples=40, deadline=None)
def test_requests_that_compose_to_the_budget_are_admitted_and_the_next_is_refused(name: str, costs: list[Cost]) -> None:
    """By the filter's own rule: a ledger of exactly the sum of their amounts takes all, in any order, and no more."""
    rule = make_filter(name, 40.0, 1e-3)
    taken = [rule.charge(cost) for cost in costs]
    ledger = Ledger(40.0, 1e-3, filter=name)
    state = ledger._state
    state.limit = sum(to_units(amount) for amount, _ in taken)  # type: ignore[union-attr]
    state.delta_limit = sum(to_units(delta) for _, delta in taken)  # type: ignore[union-attr]
    for i, cost in enumerate(costs):
        ledger.charge(cost, f"{i}")
    assert ledger.remaining().amount == 0.0
    with pytest.raises(BudgetExceeded) as refused:
        ledger.charge(Gaussian(sigma=1e6), "one more")
    assert refused.value.remaining == 0.0 < refused.value.needed
    assert refused.value.limit == from_units(state.limit)  # type: ignore[union-attr]
    assert from_units(to_units(refused.value.needed, up=False)) > 0
