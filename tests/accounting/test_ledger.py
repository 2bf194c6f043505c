"""The ledger as its users see it."""

from __future__ import annotations

import copy
import itertools
import math
import os
import pickle
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from ledger_cases import Silent

from ledgerwood.accounting import (
    RDP,
    ZCDP,
    ApproxDP,
    BoundedRange,
    Cost,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    Ledger,
    PermuteAndFlip,
    PoissonSubsampled,
    PrivacyLoss,
    PureDP,
    RandomizedResponse,
    Skellam,
    SparseVector,
    parallel,
)
from ledgerwood.accounting.accountant.filters import to_units
from ledgerwood.accounting.ledger import journal as journal_module
from ledgerwood.errors import (
    BudgetExceeded,
    FormatError,
    JournalError,
    LedgerClosed,
    LedgerwoodError,
    MethodUnavailable,
    NeighboursMismatch,
    ParameterError,
)
from ledgerwood.mechanisms import GaussianMechanism, SeededSource, SystemSource


class Loud:
    """A mechanism that remembers what it was asked to draw."""

    def __init__(self, cost: object) -> None:
        self.cost = cost
        self.draws: list[object] = []

    def release(self, value: object, rng: object = None) -> object:
        self.draws.append(value)
        return value


def test_ten_tenths_fit_in_one_and_an_eleventh_does_not() -> None:
    ledger = Ledger(1.0, 0.0)
    for _ in range(10):
        ledger.release(Silent(PureDP(0.1)), None, label="tenth")
    with pytest.raises(BudgetExceeded) as refused:
        ledger.release(Silent(PureDP(0.1)), None, label="eleventh")
    assert (refused.value.label, refused.value.limit, refused.value.delta) == ("eleventh", 1.0, 0.0)
    assert refused.value.needed == 0.1  # in the unit it decides in
    assert refused.value.remaining == 0.0


def test_a_refused_release_draws_nothing_records_nothing_and_quotes_no_data() -> None:
    ledger = Ledger(1.0, 1e-6)
    loud = Loud(Gaussian(sigma=0.5))
    before = ledger.spent()
    with pytest.raises(BudgetExceeded) as refused:
        ledger.release(loud, "secret-4711", label="too much")
    assert loud.draws == []
    assert ledger.journal() == () and ledger.spent() == before
    assert "secret" not in str(refused.value) and "nothing was released" in str(refused.value)


def test_a_smaller_release_is_still_accepted_after_a_refusal() -> None:
    ledger = Ledger(1.0, 0.0)
    with pytest.raises(BudgetExceeded):
        ledger.release(Silent(PureDP(1.5)), None, label="large")
    ledger.release(Silent(PureDP(1.0)), None, label="small")


def test_noise_is_drawn_after_the_record_is_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "budget.jsonl"
    ledger = Ledger.open(path, 1.0, 0.0)

    class Looking:
        cost = PureDP(0.1)

        def release(self, value: object, rng: object = None) -> int:
            return path.read_text().count('"kind":"release"')

    assert ledger.release(Looking(), None, label="look") == 1
    ledger.close()


def test_noise_is_drawn_after_fsync_returned_and_the_anchor_was_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    for name in ("write", "fsync", "replace"):
        real = getattr(os, name)

        def spy(*arguments: object, name: str = name, real: Callable[..., object] = real) -> object:
            result = real(*arguments)
            events.append(name)
            return result

        monkeypatch.setattr(journal_module.os, name, spy)

    class Drawing:
        cost = PureDP(0.1)

        def release(self, value: object, rng: object = None) -> None:
            events.append("draw")

    ledger = Ledger.open(tmp_path / "b.jsonl", 1.0, 0.0)
    events.clear()
    ledger.release(Drawing(), None, label="r")
    ledger.close()
    assert events == ["write", "fsync", "write", "fsync", "replace", "draw"]


def test_a_release_inside_a_release_of_the_same_thread_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal handler that releases while a release is being checked would be checked against a stale sum."""
    ledger = Ledger(1.0, 0.0)
    admit = ledger._state.check

    def interrupted(posting: object) -> None:
        admit(posting)
        monkeypatch.setattr(ledger._state, "check", admit)
        with pytest.raises(LedgerClosed, match="interrupted"):
            ledger.release(Silent(PureDP(0.9)), None, label="handler")

    monkeypatch.setattr(ledger._state, "check", interrupted)
    ledger.release(Silent(PureDP(0.9)), None, label="outer")
    assert ledger.spent().amount == 0.9


def test_an_interrupt_between_record_and_memory_shuts_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, loud = Ledger.open(tmp_path / "b.jsonl", 1.0, 0.0), Loud(PureDP(0.1))

    def interrupt(posting: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ledger._state, "commit", interrupt)
    with pytest.raises(KeyboardInterrupt):
        ledger.release(loud, None, label="r")
    with pytest.raises(JournalError, match="open the ledger again"):
        ledger.release(loud, None, label="r")
    ledger.close()
    assert loud.draws == [] and Ledger.open(tmp_path / "b.jsonl").spent().amount == 0.1


@pytest.mark.parametrize(
    "cost",
    [
        PureDP(0.1),
        PermuteAndFlip(0.2),
        ApproxDP(0.1, 1e-8),
        BoundedRange(0.1),
        BoundedRange(20.0),
        Gaussian(sigma=1.0),
        Gaussian(mu=0.0),
        Laplace(scale=0.1),
        ZCDP(0.1),
        RDP({2.0: 0.1, 50.0: 0.3}),
        DiscreteLaplace(scale=2.0),
        DiscreteGaussian(sigma=10.0, dimension=3),
        Skellam(variance=100.0, l1_sensitivity=1, l2_sensitivity=1),
        RandomizedResponse(1.0, k=4),
        SparseVector(0.5),
        PoissonSubsampled(Gaussian(sigma=1.0), rate=0.01),
        PoissonSubsampled(BoundedRange(0.5), rate=0.01),
        PrivacyLoss([-0.1, 0.2], [0.6, 0.4]),
        3 * BoundedRange(0.1) + Gaussian(sigma=3.0),
        parallel(PureDP(0.1), Gaussian(sigma=9.0)),
    ],
    ids=repr,
)
def test_every_cost_can_be_released_recorded_and_replayed(cost: Cost, tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "b.jsonl", 100.0, 1e-5, reserved_delta=1e-6)
    ledger.release(Silent(cost), None, label="r")
    before, reading = ledger.spent(), ledger.odometer()
    ledger.close()
    again = Ledger.open(tmp_path / "b.jsonl")
    assert again.spent() == before and again.odometer() == reading
    assert again.journal()[0].cost == cost
    assert not math.isnan(reading) and (reading > 0 or cost.rho() == 0)
    assert reading <= cost.pure_epsilon() * (1 + 1e-9)
    again.close()


@pytest.mark.parametrize("filter", ["rdp", "gdp", "zcdp", "pure"])
def test_the_amount_spent_is_the_sum_of_prices_and_the_limit_is_worth_epsilon(filter: str) -> None:
    ledger = Ledger(1.0, 1e-5, filter=filter)
    cost = PureDP(0.01) if filter == "pure" else Gaussian(sigma=100.0)
    for _ in range(7):
        ledger.release(Silent(cost), None, label="r")
    rule = ledger.remaining().filter
    assert ledger.spent().amount == pytest.approx(7 * rule.price(cost), rel=1e-15)
    assert ledger.spent().amount + ledger.remaining().amount == pytest.approx(rule.limit, rel=1e-15)
    assert rule.epsilon_of(rule.limit) <= 1.0
    assert rule.epsilon_of(rule.limit) == pytest.approx(1.0, rel=1e-9)


def spend_all(ledger: Ledger, cost: Cost) -> int:
    for count in itertools.count():
        try:
            ledger.release(Silent(cost), None, label="r")
        except BudgetExceeded:
            return count
    raise AssertionError


@pytest.mark.parametrize("filter", ["rdp", "zcdp", "gdp"])
def test_a_filter_admits_as_many_gaussians_as_its_own_accountant_but_no_more(filter: str) -> None:
    count = spend_all(Ledger(1.0, 1e-5, filter=filter), Gaussian(sigma=20.0))
    method = {"zcdp": "rdp"}.get(filter, filter)  # the filter converts concentrated costs at the best order
    assert (count * Gaussian(sigma=20.0)).epsilon(1e-5, method=method) <= 1.0
    assert ((count + 1) * Gaussian(sigma=20.0)).epsilon(1e-5, method=method) > 1.0


def test_the_order_is_fixed_from_public_metadata_and_any_order_may_be_chosen() -> None:
    first, second = (Ledger(1.0, 1e-5, filter="rdp").remaining().filter for _ in range(2))
    assert first.order == second.order
    ledger = Ledger(1.0, 1e-5, order=40.0)
    ledger.release(Silent(BoundedRange(0.1)), None, label="r")
    assert ledger.spent().amount == pytest.approx(BoundedRange(0.1).rdp(40.0), rel=1e-11)
    with pytest.raises(ParameterError, match="leave a positive budget"):
        Ledger(1.0, 1e-5, order=2.0)
    with pytest.raises(ParameterError, match="above 1"):
        Ledger(1.0, 1e-5, order=1.0)
    with pytest.raises(ParameterError, match="filter='rdp' only"):
        Ledger(1.0, 1e-5, order=4.0, filter="gdp")


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({"epsilon": -1.0, "delta": 1e-5}, "epsilon must be positive"),
        ({"epsilon": math.nan, "delta": 1e-5}, "epsilon must"),
        ({"epsilon": 1.0, "delta": 1.0}, "delta must"),
        ({"epsilon": 1.0}, "delta must be given"),
        ({"delta": 1e-5}, "epsilon must be given"),
        ({"epsilon": 1.0, "delta": 0.0, "filter": "rdp"}, "filter='pure'"),
        ({"epsilon": 1.0, "delta": 1e-5, "filter": "magic"}, "be one of 'rdp'"),
        ({"epsilon": 1.0, "delta": 1e-5, "reserved_delta": 1e-5}, "reserved_delta must"),
        ({"epsilon": 1.0, "delta": 1e-5, "neighbours": "twins"}, "neighbours must"),
    ],
)
def test_bad_public_metadata_is_refused_with_its_name(arguments: dict, rule: str) -> None:
    with pytest.raises(ParameterError, match=rule):
        Ledger(**arguments)


def test_a_mechanism_without_a_cost_is_refused() -> None:
    for cost in (0.1, None, Gaussian):
        with pytest.raises(ParameterError, match=r"mechanism\.cost must be a cost"):
            Ledger(1.0, 1e-5).release(Loud(cost), None, label="r")


def test_the_promise_of_disjoint_parts_is_on_record() -> None:
    ledger = Ledger(1.0, 1e-5)
    with ledger.parallel("leaves"):
        pass
    assert "one part" in ledger.journal()[0].data["promise"]


def test_costs_of_other_neighbours_are_refused() -> None:
    with pytest.raises(NeighboursMismatch):
        Ledger(1.0, 1e-5).release(Silent(PureDP(0.1, neighbours="replace_one")), None, label="r")


def test_a_cost_without_a_price_under_the_filter_is_refused_before_anything_is_drawn() -> None:
    ledger, loud = Ledger(1.0, 0.0, filter="pure"), Loud(Gaussian(sigma=3.0))
    with pytest.raises(MethodUnavailable, match="pure"):
        ledger.release(loud, 1, label="r")
    assert loud.draws == [] and ledger.journal() == ()
    with pytest.raises(MethodUnavailable, match="gdp"):
        Ledger(1.0, 1e-5, filter="gdp").release(Silent(Laplace(scale=30.0)), 1, label="r")


def test_approximate_delta_is_taken_from_the_reserved_delta() -> None:
    with pytest.raises(MethodUnavailable, match="reserved"):
        Ledger(1.0, 1e-5, filter="rdp").release(Silent(ApproxDP(0.1, 1e-7)), None, label="r")
    ledger = Ledger(1.0, 1e-5, reserved_delta=2e-7)
    ledger.release(Silent(ApproxDP(0.01, 1e-7)), None, label="r")
    ledger.release(Silent(ApproxDP(0.01, 1e-7)), None, label="r")
    assert ledger.spent().reserved_delta == 2e-7
    with pytest.raises(BudgetExceeded, match="delta of their own"):
        ledger.release(Silent(ApproxDP(0.01, 1e-9)), None, label="r")
    assert ledger.remaining().filter.limit < Ledger(1.0, 1e-5, filter="rdp").remaining().filter.limit


def test_the_pure_filter_reserves_all_of_delta() -> None:
    ledger = Ledger(1.0, 3e-7, filter="pure")
    for _ in range(3):
        ledger.release(Silent(ApproxDP(0.1, 1e-7)), None, label="r")
    with pytest.raises(BudgetExceeded):
        ledger.release(Silent(ApproxDP(0.1, 1e-7)), None, label="r")


@pytest.mark.parametrize(("neighbours", "worst"), [("add_remove", 0.5), ("replace_one", 2 * 0.5)])
def test_a_parallel_block_costs_its_worst_part_or_two_records_of_it(neighbours: str, worst: float) -> None:
    ledger = Ledger(10.0, 0.0, neighbours=neighbours)
    with ledger.parallel("block") as parts:
        for key, epsilon in [("a", 0.2), ("b", 0.1), ("a", 0.3), ("c", 0.2), ("b", 0.2)]:
            parts[key].release(Silent(PureDP(epsilon)), None, label="r")
    assert ledger.spent().amount == pytest.approx(worst)
    assert ledger.odometer() == pytest.approx(worst)


@pytest.mark.parametrize("filter", ["rdp", "zcdp", "gdp", "pure"])
def test_a_block_under_replace_one_costs_what_the_algebra_says(filter: str) -> None:
    ledger = Ledger(50.0, 0.0 if filter == "pure" else 1e-6, neighbours="replace_one", filter=filter)
    kinds = (PureDP(0.3), PureDP(0.1)) if filter == "pure" else (Gaussian(sigma=10.0), Gaussian(sigma=12.0))
    with ledger.parallel("block") as parts:
        for key, cost in zip("abbc", (kinds[0], kinds[1], kinds[1], kinds[0]), strict=True):
            parts[key].release(Silent(cost), None, label="r")
    whole = parallel(kinds[0], 2 * kinds[1], kinds[0], neighbours="replace_one")
    assert ledger.spent().amount == pytest.approx(ledger.spent().filter.price(whole), rel=1e-9)


def test_a_block_under_replace_one_refuses_replace_one_costs_before_anything_is_spent() -> None:
    ledger = Ledger(1.0, 1e-6, neighbours="replace_one")
    with ledger.parallel("block") as parts:
        with pytest.raises(ParameterError, match=r"cost must state what a part costs.*add/remove costs"):
            parts[0].release(Silent(PureDP(0.0, neighbours="replace_one")), None, label="r")
        parts[0].release(Silent(PureDP(0.01)), None, label="r")
    with pytest.raises(NeighboursMismatch):
        ledger.release(Silent(PureDP(0.01)), None, label="r")
    assert sum(entry.kind == "release" for entry in ledger.journal()) == 1


def test_a_journal_whose_blocks_were_priced_too_low_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "old.jsonl"
    old = Ledger.open(path, 1.0, 1e-6, neighbours="replace_one")
    monkeypatch.setattr("ledgerwood.accounting.ledger.filter_state.checked_part_cost", lambda cost: cost)  # as it was
    with old.parallel("block") as parts:
        parts[0].release(Silent(PureDP(0.1, neighbours="replace_one")), None, label="r")
    old.close()
    monkeypatch.undo()
    with pytest.raises(FormatError, match=r"record 2 of the journal has no price.*leaves one part and enters"):
        Ledger.open(path)


def test_a_block_is_charged_while_it_runs_and_refuses_when_it_would_overspend() -> None:
    ledger = Ledger(1.0, 0.0)
    with ledger.parallel("block") as parts:
        parts[0].release(Silent(PureDP(0.6)), None, label="r")
        parts[1].release(Silent(PureDP(0.6)), None, label="r")
        with pytest.raises(BudgetExceeded):
            parts[1].release(Silent(PureDP(0.6)), None, label="r")
        with pytest.raises(BudgetExceeded):
            ledger.release(Silent(PureDP(0.6)), None, label="outside")
        ledger.release(Silent(PureDP(0.4)), None, label="outside")
    assert ledger.remaining().amount == 0.0


def test_a_part_is_dead_after_its_block() -> None:
    ledger = Ledger(1.0, 0.0)
    with ledger.parallel("block") as parts:
        part = parts[0]
    with pytest.raises(LedgerClosed, match="block has ended"):
        part.release(Silent(PureDP(0.1)), None, label="r")
    with pytest.raises(ParameterError, match="int or a string"):
        parts[True]


def test_a_block_ends_in_the_journal_even_when_its_body_raises(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "b.jsonl", 1.0, 0.0)
    with pytest.raises(ZeroDivisionError), ledger.parallel("block"):
        raise ZeroDivisionError
    assert [entry.kind for entry in ledger.journal()] == ["parallel", "end"]
    with ledger.parallel("block"):
        ledger.close()
    with pytest.raises(LedgerClosed):
        ledger.spent()


def test_a_seeded_release_is_marked_not_private_everywhere(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "b.jsonl", 1.0, 0.0)
    ledger.release(Silent(PureDP(0.1)), None, label="clean")
    assert "not private" not in ledger.statement()
    with ledger.parallel("block") as parts:
        parts[0].release(Silent(PureDP(0.1)), None, label="seeded", rng=np.random.default_rng(0))
    ledger.close()
    ledger = Ledger.open(tmp_path / "b.jsonl")
    assert [e.private for e in ledger.journal() if e.kind == "release"] == [True, False]
    assert '"private":false' in (tmp_path / "b.jsonl").read_text()
    assert "not private" in ledger.statement()
    ledger.close()


def test_an_explicit_source_of_true_randomness_is_private() -> None:
    ledger = Ledger(1.0, 0.0)
    for source in (SystemSource(), SeededSource(np.random.default_rng(0))):
        ledger.release(Silent(PureDP(0.1)), None, label="r", rng=source)
    assert [entry.private for entry in ledger.journal()] == [True, False]


def test_nothing_is_spent_on_a_value_the_mechanism_cannot_release() -> None:
    ledger = Ledger(1.0, 1e-6)
    with pytest.raises(ParameterError):
        ledger.release(GaussianMechanism(sigma=50.0, sensitivity=1.0), [1.0, math.nan], label="r")
    assert ledger.journal() == ()
    assert len(ledger.release(GaussianMechanism(sigma=50.0, sensitivity=1.0), [1.0, 2.0], label="r")) == 2


def test_split_gives_fractions_of_what_is_left_and_merge_returns_what_was_not_spent() -> None:
    ledger = Ledger(1.0, 0.0)
    ledger.release(Silent(PureDP(0.2)), None, label="r")
    first, second = ledger.split(by=[0.75, 0.25])
    assert (first.remaining().amount, second.remaining().amount) == (pytest.approx(0.6), pytest.approx(0.2))
    with pytest.raises(BudgetExceeded):
        ledger.release(Silent(PureDP(0.01)), None, label="parent has nothing left")
    with pytest.raises(BudgetExceeded):
        second.release(Silent(PureDP(0.3)), None, label="r")
    first.release(Silent(PureDP(0.1)), None, label="r")
    ledger.merge(first)
    ledger.merge(second)
    assert ledger.spent().amount == pytest.approx(0.3)
    assert ledger.odometer() == pytest.approx(0.3)
    with pytest.raises(LedgerClosed):
        first.release(Silent(PureDP(0.1)), None, label="after the merge")
    with pytest.raises(ParameterError, match="not merged yet"):
        ledger.merge(first)


def test_thirds_and_tenths_can_be_split_without_a_crumb_too_many() -> None:
    for by in ([1 / 3] * 3, [0.1] * 10, [1 / 7] * 7, [0.7, 0.3], [2 / 3, 1 / 3]):
        ledger = Ledger(1.0, 1e-6)
        children = ledger.split(by=by)
        limit = to_units(ledger.remaining().filter.limit, up=False)
        assert sum(child._state.limit for child in children) <= limit


@pytest.mark.parametrize("by", [[], [0.5, 0.6], [1.0, -0.5], [0.0, 0.5], [math.nan]])
def test_fractions_that_are_none_are_refused(by: list[float]) -> None:
    with pytest.raises(ParameterError, match="by must"):
        Ledger(1.0, 0.0).split(by=by)


def test_child_journals_work_in_other_processes_and_merge_by_path(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "budget.jsonl", 1.0, 1e-6)
    children = ledger.split(by=[0.5, 0.5])
    paths = [child.path for child in children]
    for child in children:
        child.close()
    pid = os.fork() if threading.active_count() == 1 else None
    if pid == 0:
        Ledger.open(paths[0]).release(Silent(Gaussian(sigma=20.0)), None, label="worker")
        os._exit(0)
    if pid is None:
        Ledger.open(paths[0]).release(Silent(Gaussian(sigma=20.0)), None, label="worker")
    else:
        os.waitpid(pid, 0)
    for path in paths:
        ledger.merge(path)
    alone = Ledger(1.0, 1e-6)
    alone.release(Silent(Gaussian(sigma=20.0)), None, label="worker")
    assert ledger.spent() == alone.spent()
    ledger.close()
    assert Ledger.open(tmp_path / "budget.jsonl").spent() == alone.spent()
    with pytest.raises(LedgerClosed):
        Ledger.open(paths[0]).release(Silent(Gaussian(sigma=99.0)), None, label="late worker")


@pytest.mark.parametrize("durable", [False, True])
def test_seeded_noise_of_a_subledger_is_in_the_parents_statement_after_the_merge(tmp_path: Path, durable: bool) -> None:
    path = tmp_path / "b.jsonl"
    ledger = Ledger.open(path, 1.0, 0.0) if durable else Ledger(1.0, 0.0)
    (child,) = ledger.split(by=[0.5])
    child.release(Silent(PureDP(0.1)), None, label="r", rng=np.random.default_rng(0))
    ledger.merge(child)
    assert "not private" in ledger.statement()
    ledger.close()
    if durable:
        assert "not private" in Ledger.open(path).statement()


def test_only_its_own_children_can_be_merged() -> None:
    ledger, stranger = Ledger(1.0, 0.0), Ledger(1.0, 0.0)
    (child,) = stranger.split(by=[0.5])
    for other in (ledger, stranger, child):
        with pytest.raises(ParameterError, match="sub-ledger"):
            ledger.merge(other)
    with pytest.raises(ParameterError, match="existing journal"):
        ledger.merge("nowhere.jsonl")


def test_copies_raise() -> None:
    ledger = Ledger(1.0, 0.0)
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps, lambda x: copy.deepcopy({"a": [x]})):
        with pytest.raises(TypeError, match="cannot be copied"):
            attempt(ledger)


@pytest.mark.parametrize("durable", [False, True])
def test_a_forked_child_has_a_dead_ledger(tmp_path: Path, durable: bool) -> None:
    from ledger_cases import run_driver

    code = """
import os, sys, json
from ledgerwood.accounting import Ledger, PureDP
from ledgerwood.errors import LedgerClosed
class Zero:
    cost = PureDP(0.1)
    def release(self, value, rng=None):
        return 0
path = sys.argv[1]
ledger = Ledger.open(path, 1.0, 0.0) if path else Ledger(1.0, 0.0)
with ledger.parallel('block') as parts:
    pid = os.fork()
    if pid == 0:
        dead = 0
        for attempt in (lambda: ledger.release(Zero(), 0, label='r'), lambda: parts[0].release(Zero(), 0, label='r'),
                        lambda: ledger.split(by=[0.5]), ledger.spent, ledger.odometer, ledger.journal):
            try:
                attempt()
            except LedgerClosed:
                dead += 1
        os._exit(dead)
    dead = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
ledger.release(Zero(), 0, label='r')
print(json.dumps([dead, ledger.spent().amount]))
"""
    assert run_driver(code, tmp_path / "b.jsonl" if durable else "") == [6, 0.1]


def test_threads_spend_the_budget_once() -> None:
    ledger, accepted = Ledger(1.0, 0.0), []

    def spend() -> None:
        while True:
            try:
                ledger.release(Silent(PureDP(0.0005)), None, label="r")
            except BudgetExceeded:
                return
            accepted.append(1)

    threads = [threading.Thread(target=spend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(accepted) == 2000 == len(ledger.journal())


def test_reopening_replays_everything(tmp_path: Path) -> None:
    path = tmp_path / "b.jsonl"
    ledger = Ledger.open(path, 2.0, 1e-6, neighbours="replace_one", filter="zcdp")
    for cost, part in (
        (Gaussian(sigma=20.0, neighbours="replace_one"), Gaussian(sigma=20.0)),
        (BoundedRange(0.1, neighbours="replace_one"), BoundedRange(0.1)),
        (Laplace(scale=40.0, neighbours="replace_one"), Laplace(scale=40.0)),
    ):
        ledger.release(Silent(cost), None, label="r")
        with ledger.parallel("block") as parts:
            parts[0].release(Silent(part), None, label="r")
            parts["x"].release(Silent(part), None, label="r")
    ledger.close()
    again = Ledger.open(path)
    assert len(again.journal()) == 3 + 3 * 4
    exact = 0.0
    for cost in (Gaussian(sigma=20.0), BoundedRange(0.1), Laplace(scale=40.0)):
        exact += 5 * cost.rho()  # one release, and two records of one part: four times the rho
    assert again.spent().amount == pytest.approx(exact, rel=1e-11)
    again.close()


def test_reopening_with_other_terms_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "b.jsonl"
    Ledger.open(path, 1.0, 1e-6).close()
    Ledger.open(path, 1.0, 1e-6).close()
    with pytest.raises(ParameterError, match=r"agree with the arguments.*epsilon"):
        Ledger.open(path, 2.0, 1e-6)
    with pytest.raises(ParameterError, match="epsilon must be given"):
        Ledger.open(tmp_path / "new.jsonl")
    assert not (tmp_path / "new.jsonl").exists()


def test_a_journal_from_the_future_is_refused(tmp_path: Path) -> None:
    from ledgerwood.accounting.ledger.journal import Journal

    for name, record, text in [
        ("a", {"kind": "open", "version": 2}, "version 2"),
        ("b", {"kind": "hello"}, "begins with"),
    ]:
        journal = Journal(tmp_path / name)
        with journal.locked():
            journal.replay()
            journal.append(record)
        journal.close()
        with pytest.raises(FormatError, match=text):
            Ledger.open(tmp_path / name)
    Ledger.open(tmp_path / "c", 1.0, 0.0).close()
    journal = Journal(tmp_path / "c")
    with journal.locked():
        journal.replay()
        journal.append({"kind": "release", "surprise": 1})
    journal.close()
    with pytest.raises(FormatError, match="does not know"):
        Ledger.open(tmp_path / "c")


def test_a_cost_that_cannot_be_written_down_is_refused_before_noise(tmp_path: Path) -> None:
    ledger, loud = Ledger.open(tmp_path / "b.jsonl", 1.0, 1e-6), Loud(RDP(lambda alpha: 1e-4 * alpha))
    with pytest.raises(LedgerwoodError):
        ledger.release(loud, None, label="r")
    assert loud.draws == [] and ledger.spent().amount == 0.0
    ledger.close()


def test_a_failed_fsync_refuses_the_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, loud = Ledger.open(tmp_path / "b.jsonl", 1.0, 0.0), Loud(PureDP(0.1))

    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(journal_module.os, "fsync", fail)
        with pytest.raises(JournalError, match="nothing was released"):
            ledger.release(loud, None, label="r")
    with pytest.raises(JournalError, match="open the ledger again"):
        ledger.release(loud, None, label="r")
    assert loud.draws == []
    ledger.close()
    again = Ledger.open(tmp_path / "b.jsonl")
    assert again.spent().amount == 0.1  # the line may have reached the disk: it counts
    again.close()


def test_a_closed_ledger_refuses(tmp_path: Path) -> None:
    for ledger in (Ledger(1.0, 0.0), Ledger.open(tmp_path / "b.jsonl", 1.0, 0.0)):
        with ledger:
            ledger.release(Silent(PureDP(0.1)), None, label="r")
        with pytest.raises(LedgerClosed):
            ledger.release(Silent(PureDP(0.1)), None, label="r")
        ledger.close()


@pytest.mark.parametrize("label", ["", None, 3])
def test_a_label_is_required(label: object) -> None:
    with pytest.raises(ParameterError, match="label"):
        Ledger(1.0, 0.0).release(Silent(PureDP(0.1)), None, label=label)  # type: ignore[arg-type]


def test_the_odometer_reads_zero_at_first_and_never_falls() -> None:
    ledger, last = Ledger(3.0, 1e-6), 0.0
    assert ledger.odometer() == 0.0
    for cost in [Gaussian(sigma=30.0), PureDP(0.01), BoundedRange(0.1)] * 20:
        ledger.release(Silent(cost), None, label="r")
        assert ledger.odometer() >= last
        last = ledger.odometer()
    assert ledger.odometer(delta=1e-9) > last
    assert ledger.odometer(delta=0.0) == math.inf


def test_a_block_and_a_subledger_are_on_the_odometer_while_they_are_open() -> None:
    ledger = Ledger(3.0, 1e-6)
    with ledger.parallel("block") as parts:
        parts[0].release(Silent(PureDP(0.2)), None, label="r")
        parts[1].release(Silent(PureDP(0.3)), None, label="r")
        assert ledger.odometer() == pytest.approx(0.3)
    (child,) = ledger.split(by=[0.5])
    held = ledger.odometer()
    assert held > 0.3
    child.release(Silent(PureDP(0.1)), None, label="r")
    assert ledger.odometer() == held
    ledger.merge(child)
    assert ledger.odometer() == pytest.approx(0.4)
