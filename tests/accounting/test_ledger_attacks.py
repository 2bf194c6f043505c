"""Ways to make a ledger forget, that once worked."""

from __future__ import annotations

import copy
import math
import os
import pickle
import threading
from pathlib import Path

import numpy as np
import pytest
from ledger_cases import Silent

from ledgerwood.accounting import RDP, ApproxDP, Gaussian, Ledger, Plan, PureDP, Release
from ledgerwood.accounting.ledger import journal as journal_module
from ledgerwood.accounting.ledger.individual import IndividualBudget, IndividualFilter
from ledgerwood.errors import JournalError, LedgerClosed, ParameterError

fcntl = pytest.importorskip("fcntl")


def test_an_interrupt_while_catching_up_with_another_process_shuts_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records that were read and not entered would never be read again: the ledger would forget them."""
    first, second = Ledger.open(tmp_path / "b.jsonl", 1.0, 0.0), Ledger.open(tmp_path / "b.jsonl")
    for _ in range(5):
        first.release(Silent(PureDP(0.2)), None, label="r")
    post = second._state.commit

    def interrupted(posting: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(second._state, "commit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        second.spent()
    monkeypatch.setattr(second._state, "commit", post)
    with pytest.raises(JournalError, match="open the ledger again"):
        second.release(Silent(PureDP(0.2)), None, label="r")
    for ledger in (first, second):
        ledger.close()


def test_reading_inside_a_release_of_the_same_thread_keeps_the_file_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal handler that reads the balance during a release must not drop the lock under it."""
    path = tmp_path / "b.jsonl"
    ledger = Ledger.open(path, 1.0, 0.0)
    admit, seen = ledger._state.check, []

    def interrupted(posting: object) -> None:
        admit(posting)
        seen.append(ledger.spent().amount)
        rival = os.open(path, os.O_RDWR)
        with pytest.raises(BlockingIOError):
            fcntl.flock(rival, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(rival)

    monkeypatch.setattr(ledger._state, "check", interrupted)
    ledger.release(Silent(PureDP(0.4)), None, label="r")
    ledger.release(Silent(PureDP(0.4)), None, label="r")
    ledger.close()
    assert seen == [0.0, 0.4]


def test_writing_inside_the_reading_of_the_same_thread_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Ledger.open(tmp_path / "b.jsonl", 1.0, 0.0), Ledger.open(tmp_path / "b.jsonl")
    first.release(Silent(PureDP(0.9)), None, label="r")
    post = second._state.commit

    def interrupted(posting: object) -> None:
        with pytest.raises(LedgerClosed, match="interrupted"):
            second.release(Silent(PureDP(0.9)), None, label="handler")
        with pytest.raises(LedgerClosed, match="interrupted"):
            second.split([0.5])
        post(posting)

    monkeypatch.setattr(second._state, "commit", interrupted)
    assert second.spent().amount == 0.9
    for ledger in (first, second):
        ledger.close()


def test_an_interrupted_merge_does_not_return_the_budget_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(1.0, 0.0)
    (child,) = ledger.split([0.5])
    unreserve = ledger._state.running_total.unreserve

    def interrupted(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ledger._state.running_total, "unreserve", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ledger.merge(child)
    monkeypatch.setattr(ledger._state.running_total, "unreserve", unreserve)
    with pytest.raises((LedgerClosed, ParameterError)):
        ledger.merge(child)
    with pytest.raises(LedgerClosed):
        ledger.release(Silent(PureDP(1.0)), None, label="r")


def test_an_interrupted_end_of_a_block_stays_on_the_odometer(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(1.0, 0.0)
    tally = ledger._state.running_total

    def interrupted(curve: object) -> None:
        raise KeyboardInterrupt

    block = ledger.parallel("parts")
    block.__enter__()[0].release(Silent(PureDP(0.5)), None, label="r")
    monkeypatch.setattr(tally, "add", interrupted)
    with pytest.raises(KeyboardInterrupt):
        block.__exit__(None, None, None)
    assert ledger.odometer() >= 0.5


@pytest.mark.parametrize("kind", ["rdp", "pure", "plan"])
def test_approximate_delta_is_part_of_the_odometers_delta(kind: str) -> None:
    """With probability 4e-6 the loss is infinite; no finite reading may claim to fail more rarely than that."""
    cost = ApproxDP(0.1, 4e-6)
    if kind == "plan":
        ledger = Ledger(plan=Plan([Release("r", cost=cost)]).calibrate(1.0, 1e-5))
    else:
        ledger = Ledger(1.0, 1e-5, filter=kind, reserved_delta=5e-6 if kind == "rdp" else 0.0)
    assert ledger.odometer(delta=1e-7) == 0.0
    ledger.release(Silent(cost), None, label="r")
    assert ledger.odometer() == pytest.approx(0.1)
    assert ledger.odometer(delta=1e-5) == pytest.approx(0.1)
    for delta in (0.0, 1e-7, 3.9e-6):
        assert ledger.odometer(delta=delta) == math.inf


def test_the_odometers_own_delta_is_fixed_before_the_first_release() -> None:
    """What is kept for outright spending is set aside from the start, spent or not: one bound holds for all times."""
    kept, plain = Ledger(1.0, 2e-6, reserved_delta=1e-6), Ledger(1.0, 1e-6)
    for ledger in (kept, plain):
        ledger.release(Silent(Gaussian(sigma=30.0)), None, label="r")
    assert kept.odometer(delta=2e-6) == kept.odometer() == plain.odometer(delta=1e-6)


def test_a_cost_function_that_changes_its_mind_gets_no_ledger() -> None:
    sigma = [50.0]
    plan = Plan([Release("r", cost=lambda scale: Gaussian(sigma=sigma[0]), scale=5.0)], epsilon=1.0, delta=1e-6)
    assert plan.is_within_target()
    sigma[0] = 0.5
    with pytest.raises(ParameterError, match="cost at most"):
        Ledger(plan=plan)


@pytest.mark.parametrize("cost", [[], {}, None, "cheap"])
def test_what_is_no_cost_is_refused_with_a_reason(cost: object) -> None:
    ledger = Ledger(1.0, 1e-6)
    with pytest.raises(ParameterError, match=r"mechanism\.cost"):
        ledger.release(Silent(cost), None, label="r")  # type: ignore[arg-type]
    assert len(ledger.journal()) == 0


def test_other_neighbours_than_the_journals_are_noticed_on_opening(tmp_path: Path) -> None:
    Ledger.open(tmp_path / "b.jsonl", 1.0, 1e-6).close()
    with pytest.raises(ParameterError, match="neighbours"):
        Ledger.open(tmp_path / "b.jsonl", neighbours="replace_one")


def test_a_short_write_of_the_anchor_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A nearly full disk takes some bytes without an error; a cut anchor would shut everybody out."""
    path = tmp_path / "b.jsonl"
    ledger = Ledger.open(path, 1.0, 0.0)
    write = os.write

    def short(handle: int, data: bytes) -> int:
        return write(handle, bytes(data)[:5] if len(data) < 80 else data)

    monkeypatch.setattr(journal_module.os, "write", short)
    ledger.release(Silent(PureDP(0.1)), None, label="r")
    monkeypatch.undo()
    ledger.close()
    assert Ledger.open(path).spent().amount == 0.1


def test_the_whole_reserve_can_be_spent_at_once_and_nothing_after_it() -> None:
    plan = Plan([Release("r", cost=Gaussian, share=1.0)], reserve=1.0).calibrate(1.0, 1e-6)
    ledger = Ledger(plan=plan)
    (sigma,) = [row["scale"] for row in plan.table() if row["label"] == "reserve"]
    ledger.release(Silent(Gaussian(sigma=sigma)), None, label="reserve")
    with pytest.raises(Exception, match="too small"):
        ledger.release(Silent(Gaussian(sigma=1e4)), None, label="reserve")


def test_an_individual_filter_cannot_be_copied() -> None:
    records = IndividualFilter(3, IndividualBudget(order=2.0, limit=1.0))
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="copied"):
            attempt(records)


def test_threads_spend_an_individual_budget_once() -> None:
    records = IndividualFilter(2000, IndividualBudget(order=2.0, limit=1.0))
    admitted: list[np.ndarray] = []

    def spend() -> None:
        for _ in range(100):
            admitted.append(records.admit(np.full(2000, 0.01)))

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(admitted[i][0] for i in range(len(admitted))) <= 100


def test_a_release_through_a_part_checks_its_value_before_it_spends() -> None:
    class Picky:
        cost = PureDP(0.5)

        def check(self, value: object) -> None:
            raise ParameterError("value", "have 3 coordinates", "<2>")

        def release(self, value: object, rng: object = None) -> int:
            raise AssertionError("drawn")

    ledger = Ledger(1.0, 0.0)
    with ledger.parallel("parts") as parts, pytest.raises(ParameterError):
        parts[0].release(Picky(), [1, 2], label="r")
    assert ledger.spent().amount == 0.0


def test_a_cost_that_reads_the_ledger_while_it_is_priced_finds_it_as_it_was() -> None:
    ledger = Ledger(1.0, 1e-6)

    def curve(order: float) -> float:
        assert ledger.spent().amount == 0.0
        return 0.001 * order

    ledger.release(Silent(RDP(curve)), None, label="r")
    assert ledger.spent().amount > 0


def test_a_part_whose_number_cannot_be_written_down_does_not_shut_the_ledger(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "b.jsonl", 1.0, 0.0) as ledger:
        with ledger.parallel("parts") as parts, pytest.raises(ParameterError, match="64 bits"):
            parts[10**5000].release(Silent(PureDP(0.1)), None, label="r")
        assert ledger.spent().amount == 0.0
