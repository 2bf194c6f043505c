"""Plans: from public facts to noise, on the safe side, and the ledger that follows them."""

from __future__ import annotations

import itertools
import json
import math
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_cases import Silent
from scipy.special import ndtr

from ledgerwood.accounting import (
    ZCDP,
    ApproxDP,
    BoundedRange,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    InParallel,
    InSequence,
    Laplace,
    Ledger,
    Plan,
    PoissonSubsampled,
    PureDP,
    Release,
)
from ledgerwood.errors import (
    BudgetExceeded,
    CalibrationError,
    FormatError,
    LedgerClosed,
    NeighboursMismatch,
    OffPlan,
    ParameterError,
)

DELTA = 1e-5


@cache
def boosting(trees: int = 10, depth: int = 3, epsilon: float = 1.0, neighbours: str = "add_remove") -> Plan:
    return Plan(
        [
            Release("split", cost=BoundedRange, times=trees * depth, share=0.7),
            Release("leaf", cost=Gaussian, times=trees, share=0.3),
        ],
        neighbours=neighbours,
    ).calibrate(epsilon=epsilon, delta=DELTA)


def rho_spent(plan: Plan, label: str) -> float:
    return sum(run.times * run.cost.rho() for run in plan.runs() if run.label == label)


# ---- calibration


def test_the_price_of_a_calibrated_plan_meets_the_target_and_hardly_less() -> None:
    plan = boosting()
    assert plan.cost.epsilon(DELTA) <= 1.0
    assert plan.cost.epsilon(DELTA) > 1.0 - 1e-4


def test_shares_divide_the_concentrated_spend() -> None:
    plan = boosting()
    split, leaf = rho_spent(plan, "split"), rho_spent(plan, "leaf")
    assert split / (split + leaf) == pytest.approx(0.7, rel=1e-12)


@pytest.mark.parametrize(("trees", "depth", "noise"), [(50, 4, 44.87), (10, 3, 20.11)])
def test_the_boosting_plans_of_the_theory_notes(trees: int, depth: int, noise: float) -> None:
    """Eight per cent less noise than Rényi accounting with Theorem 1 (theory.md, section 2)."""
    items = boosting(trees, depth).items
    best = Plan(items).calibrate(epsilon=1.0, delta=1 / 32561)
    renyi = Plan(items).calibrate(epsilon=1.0, delta=1 / 32561, method="rdp")
    assert best["leaf"].scale == pytest.approx(noise, rel=1e-3)
    assert 1.074 <= renyi["leaf"].scale / best["leaf"].scale <= 1.093


def test_calibration_is_deterministic_and_recalibration_agrees_with_it() -> None:
    fresh = boosting(epsilon=1.1)
    bare = Plan([release.with_scale(None) for release in fresh.releases()])
    assert bare.calibrate(epsilon=1.1, delta=DELTA) == fresh
    again = boosting(epsilon=1.0).calibrate(epsilon=1.1, delta=DELTA)
    assert again["leaf"].scale == pytest.approx(fresh["leaf"].scale, rel=1e-6)
    assert again.cost.epsilon(DELTA) <= 1.1


@pytest.mark.parametrize(
    ("kind", "fixed"),
    [
        (Gaussian, {"sensitivity": 2.0}),
        (Laplace, {}),
        (PureDP, {}),
        (BoundedRange, {}),
        (ZCDP, {}),
        (DiscreteLaplace, {"sensitivity": 3}),
        (DiscreteGaussian, {"sensitivity": 5}),
        (ApproxDP, {"delta": 1e-9}),
    ],
)
def test_every_kind_with_a_noise_parameter_can_be_planned(kind: type, fixed: dict) -> None:
    plan = Plan([Release("r", kind, times=5, share=1.0, **fixed)]).calibrate(epsilon=1.0, delta=DELTA, method="rdp")
    assert 0.9 < plan.cost.epsilon(DELTA, method="rdp") <= 1.0
    rebuilt = kind(**{kind.noise_parameter: plan["r"].scale}, **fixed)
    assert rebuilt == plan["r"].priced()
    assert Plan.from_json(plan.to_json()) == plan


def test_a_function_of_the_scale_is_calibrated_in_either_direction() -> None:
    reference = Plan([Release("r", Gaussian, times=9, share=1.0)]).calibrate(epsilon=1.0, delta=DELTA)
    for function in (lambda s: Gaussian(sigma=s), lambda m: Gaussian(mu=m)):
        plan = Plan([Release("r", function, times=9, share=1.0)]).calibrate(epsilon=1.0, delta=DELTA)
        assert plan["r"].priced().mu() == pytest.approx(reference["r"].priced().mu(), rel=1e-6)
        with pytest.raises(ParameterError, match="calibrated before"):
            Plan([Release("r", function, times=9, share=1.0)]).to_json()
        written = Plan.from_json(plan.to_json())
        assert written.cost == plan.cost and written["r"].scale == plan["r"].scale


def test_subsampled_releases_are_calibrated_through_a_function() -> None:
    plan = Plan(
        [Release("step", lambda s: PoissonSubsampled(Gaussian(sigma=s), rate=0.01), times=5, share=1.0)]
    ).calibrate(epsilon=1.0, delta=DELTA, method="rdp")
    assert plan.cost.epsilon(DELTA, method="rdp") <= 1.0


@pytest.mark.parametrize("function", [lambda s: Gaussian(sigma=3.0), lambda s: PureDP(1.0) + Gaussian(sigma=s)])
def test_a_function_that_cannot_reach_the_target_is_an_error(function: object) -> None:
    with pytest.raises(CalibrationError):
        Plan([Release("r", function, times=50, share=1.0)]).calibrate(epsilon=1.0, delta=DELTA)


def test_fixed_releases_keep_their_noise_and_leave_less_to_the_others() -> None:
    alone = Plan([Release("r", Gaussian, times=10, share=1.0)]).calibrate(epsilon=1.0, delta=DELTA)
    beside = Plan(
        [Release("given", Gaussian, scale=10.0), Release("cost", PureDP(0.1)), Release("r", Gaussian, 10, share=1.0)]
    ).calibrate(epsilon=1.0, delta=DELTA, method="rdp")
    assert beside["given"].scale == 10.0 and beside["cost"].scale == 0.1
    assert beside["r"].scale > alone["r"].scale
    assert beside.cost.epsilon(DELTA, method="rdp") <= 1.0


def test_fixed_releases_that_cost_too_much_are_an_error() -> None:
    with pytest.raises(CalibrationError):
        Plan([Release("r", Gaussian, scale=1.0)]).calibrate(epsilon=1.0, delta=DELTA)
    with pytest.raises(CalibrationError):
        Plan([Release("r", Gaussian, scale=1.0), Release("s", Gaussian, share=1.0)]).calibrate(epsilon=1.0, delta=DELTA)


def test_a_reserve_is_part_of_the_price() -> None:
    plan = Plan([Release("r", Gaussian, times=3, share=0.8)], reserve=0.2).calibrate(epsilon=1.0, delta=DELTA)
    total = 3 / plan["r"].scale ** 2 + plan.reserve_mu**2
    assert plan.reserve_mu**2 / total == pytest.approx(0.2)
    assert Gaussian(mu=math.sqrt(total)).epsilon(DELTA) == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
def test_groups_are_priced_by_the_rules_of_the_algebra(neighbours: str) -> None:
    plan = Plan(
        [
            InSequence("tree", [Release("split", BoundedRange, 2, 0.5), Release("leaf", Gaussian, 1, 0.2)], times=3),
            InParallel("regions", [Release("count", Gaussian), Release("pick", BoundedRange, 2)], times=2, share=0.3),
        ],
        neighbours=neighbours,
    ).calibrate(epsilon=1.0, delta=DELTA, method="rdp")
    group = 4 if neighbours == "replace_one" else 1  # two records of one part
    rho = {label: plan[label].priced(neighbours).rho() for label in ("split", "leaf", "count", "pick")}
    spend = {
        "split": 6 * rho["split"] / 0.5,
        "leaf": 3 * rho["leaf"] / 0.2,
        "count": 2 * group * rho["count"] / 0.3,
        "pick": 2 * group * 2 * rho["pick"] / 0.3,
    }
    assert list(spend.values()) == pytest.approx([spend["split"]] * 4)
    assert [run.label for run in plan.runs()] == ["split", "leaf"] * 3 + ["regions"]
    assert plan.cost.epsilon(DELTA, method="rdp") <= 1.0
    assert Plan.from_json(plan.to_json()) == plan


def test_a_large_plan_is_calibrated_by_renyi_accounting_unless_told_otherwise() -> None:
    large = Plan([Release("r", BoundedRange, times=5001, share=1.0)]).calibrate(epsilon=1.0, delta=DELTA)
    assert large.cost.epsilon(DELTA, method="rdp") == pytest.approx(1.0, rel=1e-5)


@pytest.mark.parametrize("filter", ["rdp", "gdp", "zcdp"])
@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
def test_a_plan_made_for_what_a_ledger_has_left_is_accepted_to_the_last_release(filter: str, neighbours: str) -> None:
    ledger = Ledger(1.0, DELTA, filter=filter, neighbours=neighbours)
    ledger.release(Silent(Gaussian(sigma=30.0, neighbours=neighbours)), None, label="before")
    items = [
        Release("a", Gaussian, times=7, share=0.5),
        InParallel("b", [Release("c", Gaussian, times=2)], times=3, share=0.5),
    ]
    plan = Plan(items, neighbours=neighbours).calibrate(budget=ledger.remaining())
    for _ in range(7):
        ledger.release(Silent(plan["a"].priced(neighbours)), None, label="a")
    for _ in range(3):
        with ledger.parallel("b") as parts:
            for part, _ in itertools.product(range(4), range(2)):
                parts[part].release(Silent(plan["c"].priced()), None, label="c")
    assert ledger.remaining().fraction < 1e-9
    with pytest.raises(BudgetExceeded):
        ledger.release(Silent(plan["a"].priced(neighbours)), None, label="a")


@pytest.mark.parametrize(
    "attempt",
    [
        lambda: Plan([]),
        lambda: Plan(["split"]),
        lambda: Plan([Release("a", Gaussian, share=1.0), Release("a", Gaussian, share=1.0)]),
        lambda: Plan([Release("a", Gaussian)]),
        lambda: Plan([Release("a", Gaussian, share=1.0)], neighbours="twins"),
        lambda: Plan([Release("a", PureDP(0.1, neighbours="replace_one"))]),
        lambda: Plan([Release("a", Gaussian, share=1.0)], reserve=-1.0),
        lambda: Release("", Gaussian, share=1.0),
        lambda: Release("reserve", Gaussian, share=1.0),
        lambda: Release("a", Gaussian, times=0, share=1.0),
        lambda: Release("a", Gaussian, times=2.5, share=1.0),
        lambda: Release("a", Gaussian, share=0.0),
        lambda: Release("a", Gaussian, scale=-1.0),
        lambda: Release("a", Gaussian, share=1.0, sigma=3.0),
        lambda: Release("a", Gaussian, share=1.0, neighbours="replace_one"),
        lambda: Release("a", PureDP(0.1), share=1.0),
        lambda: Release("a", int, share=1.0),
        lambda: Release("a", 3.0, share=1.0),
        lambda: InSequence("g", []),
        lambda: InParallel("g", [Release("a", Gaussian)]),
        lambda: InParallel("g", [Release("a", Gaussian, share=1.0)], share=1.0),
        lambda: Plan([Release("a", Gaussian, share=1.0)]).calibrate(epsilon=1.0),
        lambda: Plan([Release("a", Gaussian, share=1.0)]).calibrate(epsilon=-1.0, delta=DELTA),
        lambda: Plan([Release("a", Gaussian, share=1.0)]).account(),
        lambda: Plan([Release("a", Gaussian, share=1.0)]).cost,
        lambda: boosting()["root"],
        lambda: boosting().what_if(epsilon=[1.0], times={"root": [1]}),
        lambda: Ledger(plan=Plan([Release("a", Gaussian, share=1.0)])),
        lambda: Ledger(1.0, DELTA, plan=boosting()),
    ],
)
def test_bad_public_metadata_is_refused(attempt: object) -> None:
    with pytest.raises(ParameterError):
        attempt()  # type: ignore[operator]


# ---- reading


def test_the_table_and_the_explanation_add_up() -> None:
    plan = boosting()
    table = plan.table()
    assert table.column("label") == ["split", "leaf"]
    assert table.column("times") == [30, 10]
    assert sum(table.column("spend")) == pytest.approx(1.0)
    assert table.column("scale") == [plan["split"].scale, plan["leaf"].scale]
    explained = plan.explain()
    whole = {row["method"]: row["epsilon"] for row in explained if row["part"] == "whole plan"}
    assert whole["optimal"] <= 1.0 < whole["rdp"]
    for row in explained:
        if row["part"] in ("split", "leaf"):
            assert 0 < row["epsilon"] < 1.0 and 0 < row["epsilon_of_the_rest"] < 1.0
    assert "split" in str(explained) and "whole plan" in str(explained)


def test_the_statement_says_what_is_promised() -> None:
    text = boosting().statement()
    for phrase in ("30 x split", "10 x leaf", "epsilon=1,", "delta=1e-05", "one record added or removed", "assumed"):
        assert phrase in text


def test_what_if_is_tidy_and_more_epsilon_is_less_noise() -> None:
    table = boosting().what_if(epsilon=[0.5, 1.0, 2.0], times={"leaf": [5, 20]})
    assert len(table) == 3 * 2 * 2
    assert set(table[0]) == {"epsilon", "delta", "varied", "times", "label", "scale"}
    leaves = [row["scale"] for row in table if row["label"] == "leaf" and row["times"] == 5]
    assert leaves[0] > leaves[1] > leaves[2]


# ---- JSON

RELEASES = st.builds(
    lambda kind, times, share: (kind, times, share),
    st.sampled_from([Gaussian, BoundedRange, PureDP, Laplace]),
    st.integers(1, 50),
    st.floats(0.01, 10),
)


@settings(max_examples=30, deadline=None)
@given(st.lists(RELEASES, min_size=1, max_size=4), st.sampled_from(["add_remove", "replace_one"]), st.booleans())
def test_json_gives_back_an_equal_plan(releases: list, neighbours: str, calibrated: bool) -> None:
    plan = Plan(
        [Release(f"r{i}", kind, times, share) for i, (kind, times, share) in enumerate(releases)],
        neighbours=neighbours,
        reserve=0.5,
    )
    if calibrated:
        plan = plan.calibrate(epsilon=1.0, delta=DELTA, method="rdp")
    again = Plan.from_json(plan.to_json())
    assert again == plan and again.to_json() == plan.to_json() and hash(again) == hash(plan)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(delta=5),
        lambda d: d.update(delta=float("nan")),
        lambda d: d.update(epsilon="1"),
        lambda d: d.update(epsilon=-3),
        lambda d: d.update(reserve_mu=-3.0),
        lambda d: d.update(reserve=None, reserve_mu=3.0),
        lambda d: d["items"][0]["fixed"].update(label="x"),
        lambda d: d["items"][0]["fixed"].update(surprise=1),
    ],
)
def test_a_plan_read_from_json_obeys_the_rules_of_its_parameters(change: object) -> None:
    data = json.loads(Plan([Release("r", Gaussian, share=1.0)], reserve=1.0).calibrate(1.0, 1e-6).to_json())
    change(data)  # type: ignore[operator]
    with pytest.raises((ParameterError, FormatError)):
        Plan.from_json(json.dumps(data))


def test_an_argument_the_cost_class_does_not_have_is_refused_at_once() -> None:
    with pytest.raises(ParameterError, match=r"senstivity must be an argument of Gaussian"):
        Release("r", Gaussian, share=1.0, senstivity=2.0)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda d: d.update(version=2), "version 2"),
        (lambda d: d.update(version="1"), "version"),
        (lambda d: d.update(surprise=1), "unknown field 'surprise'"),
        (lambda d: d.pop("reserve"), "missing field 'reserve'"),
        (lambda d: d.update(format="other"), "format"),
        (lambda d: d["items"][0].update(surprise=1), "unknown field 'surprise'"),
        (lambda d: d["items"][0].pop("times"), "missing field 'times'"),
        (lambda d: d["items"][0].update(cost="Magic"), "unknown cost kind 'Magic'"),
        (lambda d: d.update(items={}), "list"),
    ],
)
def test_unknown_fields_and_future_versions_are_clear_errors(change: object, text: str) -> None:
    data = json.loads(boosting().to_json())
    change(data)  # type: ignore[operator]
    with pytest.raises(FormatError, match=text):
        Plan.from_json(json.dumps(data))


@pytest.mark.parametrize("text", ["", "[]", "{", '"plan"'])
def test_what_is_no_plan_is_a_format_error(text: str) -> None:
    with pytest.raises(FormatError):
        Plan.from_json(text)


# ---- the ledger that follows a plan


def follow(ledger: Ledger, plan: Plan, labels: str) -> None:
    names = {"s": "split", "l": "leaf"}
    for letter in labels:
        ledger.release(Silent(plan[names[letter]].priced(plan.neighbours)), None, label=names[letter])


def test_the_plan_is_spent_exactly_and_nothing_more() -> None:
    plan = boosting(2, 2)
    ledger = Ledger(plan=plan)
    follow(ledger, plan, "sslssl")
    for label in ("split", "leaf"):
        with pytest.raises(OffPlan, match="are used; nothing was released"):
            ledger.release(Silent(plan[label].priced()), None, label=label)
    assert ledger.spent().epsilon == plan.cost.epsilon(DELTA) <= 1.0
    assert ledger.remaining().epsilon == 0.0
    assert ledger.spent().fraction == pytest.approx(1.0)
    assert ledger.odometer() > 0
    assert "epsilon=1," in ledger.statement() and ledger.plan == plan


def test_a_plan_that_costs_more_than_it_states_gets_no_ledger() -> None:
    data = json.loads(boosting(2, 2).to_json())
    data["epsilon"] = 0.9
    with pytest.raises(ParameterError, match=r"cost at most the epsilon=0\.9 that it states"):
        Ledger(plan=Plan.from_json(json.dumps(data)))


def test_other_labels_and_other_costs_are_off_plan() -> None:
    plan = boosting(2, 2)
    ledger = Ledger(plan=plan)
    with pytest.raises(OffPlan, match="not in the plan"):
        ledger.release(Silent(plan["leaf"].priced()), None, label="root")
    with pytest.raises(OffPlan, match="is planned at the cost"):
        ledger.release(Silent(Gaussian(sigma=plan["leaf"].scale * 1.01)), None, label="leaf")
    with pytest.raises(OffPlan, match="reserve is too small"):
        ledger.release(Silent(plan["leaf"].priced()), None, label="reserve")
    with pytest.raises(NeighboursMismatch):
        ledger.release(Silent(Gaussian(sigma=9.0, neighbours="replace_one")), None, label="leaf")
    with pytest.raises(ParameterError, match="plan"):
        ledger.split(by=[0.5])
    assert ledger.journal() == ()


def ordered_plan() -> Plan:
    items = [
        Release("first", BoundedRange, times=2, scale=0.3),
        Release("noise", Gaussian, times=2, scale=5.0),
        Release("second", BoundedRange, times=1, scale=0.6),
        Release("same", BoundedRange, times=1, scale=0.6),
    ]
    return Plan(items).calibrate(epsilon=4.0, delta=DELTA)


@pytest.mark.parametrize(
    ("labels", "off"),
    [
        (["first", "noise", "first", "second", "noise", "same"], None),
        (["noise", "noise", "second", "same"], None),  # what is left out is lost, not an error
        (["same", "second"], None),  # equal costs have no order
        (["first", "second", "first"], "turn of 'first' has passed"),
        (["second", "first"], "turn of 'first' has passed"),
        (["noise", "noise", "noise"], "are used"),
    ],
)
def test_selections_keep_their_order_and_the_rest_is_free(labels: list[str], off: str | None) -> None:
    plan = ordered_plan()
    ledger = Ledger(plan=plan)
    *accepted, last = labels
    for label in accepted:
        ledger.release(Silent(plan[label].priced()), None, label=label)
    if off is None:
        ledger.release(Silent(plan[last].priced()), None, label=last)
    else:
        with pytest.raises(OffPlan, match=off):
            ledger.release(Silent(plan[last].priced()), None, label=last)


def test_a_parallel_block_uses_one_run_of_the_plan() -> None:
    plan = boosting(2, 2)
    ledger = Ledger(plan=plan)
    with ledger.parallel("split") as parts:
        for i in range(5):
            parts[i].release(Silent(plan["split"].priced()), None, label="split")
        with pytest.raises(OffPlan, match="1 times in each part"):
            parts[0].release(Silent(plan["split"].priced()), None, label="split")
        with pytest.raises(OffPlan, match="not planned in the block"):
            parts[9].release(Silent(plan["leaf"].priced()), None, label="leaf")
        with pytest.raises(OffPlan, match="wait until the open parallel block ends"):
            ledger.release(Silent(plan["split"].priced()), None, label="split")
        ledger.release(Silent(plan["leaf"].priced()), None, label="leaf")
    with pytest.raises(LedgerClosed):
        parts[7].release(Silent(plan["split"].priced()), None, label="split")
    follow(ledger, plan, "sssl")
    with pytest.raises(OffPlan, match="are used"), ledger.parallel("split"):
        pass


def test_a_block_of_a_plain_release_is_refused_for_replace_one_neighbours() -> None:
    plan = Plan([Release("r", Gaussian, times=2, share=1.0)], neighbours="replace_one")
    ledger = Ledger(plan=plan.calibrate(epsilon=1.0, delta=DELTA))
    with pytest.raises(OffPlan, match="InParallel"), ledger.parallel("r"):
        pass


@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
def test_a_parallel_group_gives_each_part_one_kind(neighbours: str) -> None:
    group = InParallel("g", [Release("a", Gaussian, times=2), Release("b", PureDP)], times=1, share=1.0)
    plan = Plan([group], neighbours=neighbours).calibrate(epsilon=1.0, delta=DELTA, method="rdp")
    ledger = Ledger(plan=plan)
    a, b = (Silent(plan[label].priced()) for label in "ab")
    with pytest.raises(OffPlan, match="parallel group"):
        ledger.release(Silent(plan.runs()[0].cost), None, label="g")
    with ledger.parallel("g") as parts:
        parts[0].release(a, None, label="a")
        parts[0].release(a, None, label="a")
        parts[1].release(b, None, label="b")
        for part, mechanism, label in [(0, a, "a"), (1, b, "b"), (0, b, "b")]:
            with pytest.raises(OffPlan):
                parts[part].release(mechanism, None, label=label)
    with pytest.raises(OffPlan, match="are used"), ledger.parallel("g"):
        pass


def test_a_parallel_group_under_replace_one_takes_add_remove_costs_only() -> None:
    with pytest.raises(ParameterError, match="when one record is added or removed"):
        Plan([InParallel("g", [Release("a", PureDP(0.1, neighbours="replace_one"))])], neighbours="replace_one")
    plan = Plan([InParallel("g", [Release("a", PureDP(0.1))])], neighbours="replace_one").calibrate(0.2, 0.0)
    with Ledger(plan=plan).parallel("g") as parts:
        with pytest.raises(ParameterError, match="when one record is added or removed"):
            parts[0].release(Silent(PureDP(0.1, neighbours="replace_one")), None, label="a")
        parts[0].release(Silent(PureDP(0.1)), None, label="a")


def test_a_plan_whose_groups_were_priced_too_low_is_refused() -> None:
    plan = Plan([InParallel("g", [Release("a", Gaussian)], share=1.0)], neighbours="replace_one")
    data = json.loads(plan.calibrate(epsilon=1.0, delta=DELTA).to_json())
    Plan.from_json(json.dumps(data))
    data["items"][0]["parallel"]["releases"][0]["scale"] /= math.sqrt(2)  # two parts, not two records of one
    with pytest.raises(FormatError, match=r"costs more than the epsilon=1\.0 it states.*Calibrate it again"):
        Plan.from_json(json.dumps(data))


def test_the_reserve_takes_gaussian_releases_of_any_size_until_it_is_empty() -> None:
    plan = Plan([Release("r", Gaussian, share=0.5)], reserve=0.5).calibrate(epsilon=1.0, delta=DELTA)
    ledger = Ledger(plan=plan)
    mu = plan.reserve_mu
    for part in (0.5, 0.3, 0.1999):
        ledger.release(Silent(Gaussian(mu=mu * math.sqrt(part))), None, label="reserve")
    with pytest.raises(OffPlan, match="reserve is too small"):
        ledger.release(Silent(Gaussian(mu=mu * 0.05)), None, label="reserve")
    with pytest.raises(OffPlan, match="Gaussian DP only"):
        ledger.release(Silent(PureDP(1e-9)), None, label="reserve")
    ledger.release(Silent(plan["r"].priced()), None, label="r")


def test_a_plan_survives_a_crash_where_it_was(tmp_path: Path) -> None:
    plan = ordered_plan()
    ledger = Ledger.open(tmp_path / "b.jsonl", plan=plan)
    for label in ("first", "noise", "second"):
        ledger.release(Silent(plan[label].priced()), None, label=label)
    ledger.close()
    ledger = Ledger.open(tmp_path / "b.jsonl", plan=plan)
    assert ledger.plan == plan
    with pytest.raises(OffPlan, match="turn of 'first' has passed"):
        ledger.release(Silent(plan["first"].priced()), None, label="first")
    ledger.release(Silent(plan["same"].priced()), None, label="same")
    ledger.close()
    with pytest.raises(ParameterError, match="agree"):
        Ledger.open(tmp_path / "b.jsonl", plan=boosting())


# ---- the price of a plan against every adaptive way to follow it


def selections(epsilon: float) -> list[tuple[float, float]]:
    """Bounded-range pairs (p, q) for several positions of the loss interval."""
    pairs = []
    for t in np.linspace(0.1, 0.9, 5) * epsilon:
        p = (1 - math.exp(t - epsilon)) / (1 - math.exp(-epsilon))
        pairs.append((float(p), float(p * math.exp(-t))))
    return pairs


PAIRS: dict[str, list[tuple[float, float]]] = {
    "first": selections(0.3),
    "second": selections(0.6),
    "noise": [(float(ndtr(c + 0.2)), float(ndtr(c))) for c in (-0.8, 0.0, 0.7)],
}


def best_response(plan: Plan, epsilon: float) -> float:
    """The largest delta at epsilon over all ways to follow the plan that a real ledger accepts."""

    @cache
    def accepts(history: tuple[str, ...]) -> bool:
        ledger = Ledger(plan=plan)
        try:
            for label in history:
                ledger.release(Silent(plan[label].priced()), None, label=label)
        except OffPlan:
            return False
        return True

    @cache
    def value(history: tuple[str, ...], loss: float) -> float:
        best = max(0.0, -math.expm1(epsilon - loss))
        for label in PAIRS:
            after = (*history, label)
            if accepts(after):
                for p, q in PAIRS[label]:
                    hit, miss = loss + math.log(p / q), loss + math.log((1 - p) / (1 - q))
                    best = max(best, p * value(after, round(hit, 9)) + (1 - p) * value(after, round(miss, 9)))
        return best

    return value((), 0.0)


@pytest.mark.parametrize("epsilon", [0.0, 0.4])
def test_no_adaptive_way_to_follow_a_plan_costs_more_than_its_price(epsilon: float) -> None:
    items = [
        Release("first", BoundedRange, times=1, scale=0.3),
        Release("noise", Gaussian, times=1, scale=5.0),
        Release("second", BoundedRange, times=1, scale=0.6),
    ]
    plan = Plan(items).calibrate(epsilon=4.0, delta=DELTA)
    reached, price = best_response(plan, epsilon), plan.cost.delta(epsilon)
    assert reached <= price * (1 + 1e-7)
    assert reached > price / 2
