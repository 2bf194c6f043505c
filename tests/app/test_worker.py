"""The process that answers slow questions: the same answers, plain errors, and a new start after an end."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from ledgerwood.app.plan_request import PlanRequest
from ledgerwood.app.web import answers
from ledgerwood.app.web.worker import Worker, WorkerStopped
from ledgerwood.errors import LedgerwoodError

FACTS = PlanRequest(recipe="xgb", trees=4, depth=2)


def test_its_answers_are_those_of_this_process() -> None:
    wish = answers.Wish(FACTS, 100, 0.5)
    with Worker() as worker:
        assert worker.ask("exact", FACTS.to_mapping()) == answers.exact(FACTS)
        assert worker.ask("rest", FACTS.to_mapping()) == answers.rest(FACTS)
        with pytest.raises(LedgerwoodError, match="epsilon must lie between"):  # and not the end
            worker.ask("exact", {**FACTS.to_mapping(), "epsilon": -1.0})
        assert worker.ask("afford", wish.to_mapping()) == answers.afford(wish)


@pytest.mark.parametrize(
    "facts", [PlanRequest(), PlanRequest(recipe="linear"), FACTS, PlanRequest(recipe="sarus", share=0.3, delta=1e-7)]
)
def test_metadata_and_wishes_are_read_back_as_they_were(facts: PlanRequest) -> None:
    assert PlanRequest.from_mapping(facts.to_mapping()) == facts
    wish = answers.Wish(facts, 7, 0.25)
    assert answers.Wish.from_mapping(wish.to_mapping()) == wish


def test_it_takes_no_module_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "numpy.py").write_text("import pathlib\npathlib.Path('ran').touch()\n")
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])  # as an installed command has it
    monkeypatch.chdir(tmp_path)
    with Worker() as worker:
        assert worker.ask("exact", FACTS.to_mapping())["facts"]["trees"] == 4
    assert not (tmp_path / "ran").exists()


def test_a_worker_that_was_ended_says_so_and_starts_again() -> None:
    plans = [PlanRequest(recipe="xgb", trees=trees).to_mapping() for trees in range(2000, 1000, -1)]
    with Worker() as worker:
        assert worker._process is not None
        before = worker._process.pid
        waiting = threading.Timer(0.5, os.kill, (before, signal.SIGKILL))
        waiting.start()
        with pytest.raises(WorkerStopped):  # it ends long before it has planned so many trees so often
            list(map(worker.ask, itertools.repeat("rest"), plans))
        waiting.join()
        assert worker.ask("exact", FACTS.to_mapping())["facts"]["trees"] == 4
        assert worker._process.pid != before
    assert worker._process is None
