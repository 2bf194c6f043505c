"""Tasks of a cluster may run twice, late, half, or at the same time: an answer is that of a clean replay, or none."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from test_engines import BOUNDS, CATEGORIES, FEATURES, frame

from ledgerwood.learners import PrivateBoostingClassifier, Schema
from ledgerwood.learners.data.columns import Column
from ledgerwood.learners.data.partitions import FramePart
from ledgerwood.learners.engines import dask
from ledgerwood.learners.engines.interface import Op, apply
from ledgerwood.learners.trees.aggregator import Task
from ledgerwood.learners.trees.forest import Forest
from ledgerwood.learners.trees.partitioned import TreeRecords


class Fault(Exception):
    """A worker that has no memory left, say."""


@dataclass
class Diary:
    """A part whose answer tells everything it was told, in order, and that may break while it is told."""

    number: int
    faults: list[int]
    state: list[int] = field(default_factory=list)

    def add(self, tree: int) -> None:
        self.state.append(tree)
        if self.faults:
            self.faults.pop()
            raise Fault

    def sums(self, query: int) -> Any:
        value = query
        for tree in self.state:
            value = (value * 31 + tree) % (2**40)
        return np.array([value + self.number, len(self.state)], dtype=np.int64)


@dataclass(frozen=True)
class DiaryRecords:
    number: int
    faults: list[int] = field(default_factory=list)

    def open(self, n_threads: int | None = None, empty: Any = None) -> Diary:
        return Diary(self.number, self.faults)


@dataclass(frozen=True)
class Submitted:
    """One task, as the driver made it."""

    run: str
    known: int
    ops: tuple[Op, ...]
    parts: tuple[int, ...]
    given: bool
    query: int

    def clean(self, log: list[Op]) -> list[int]:
        total = np.zeros(2, dtype=np.int64)
        for number in self.parts:
            fresh = Diary(number, [])
            apply(fresh, log[: self.known + len(self.ops)])
            total += fresh.sums(self.query)
        return list(total.tolist())


N_PARTS = 3


class TaskMachine(RuleBasedStateMachine):
    """A driver whose log only grows, and a cluster that runs its tasks as it likes."""

    @initialize()
    def begin(self) -> None:
        dask._CACHE.clear()
        self.faults: list[int] = []
        self.logs: dict[str, list[Op]] = {"first": [("add", 0)], "second": [("add", 1)]}
        self.tasks: list[Submitted] = []

    @rule(run=st.sampled_from(["first", "second"]), trees=st.lists(st.integers(0, 9), min_size=1, max_size=3))
    def broadcast(self, run: str, trees: list[int]) -> None:
        self.logs[run] += [("add", tree) for tree in trees]

    @rule(data=st.data(), given=st.booleans(), query=st.integers(0, 99), fails=st.booleans())
    def submit(self, data: st.DataObject, given: bool, query: int, fails: bool) -> None:
        run = data.draw(st.sampled_from(["first", "first", "first", "second"]))
        log = self.logs[run]
        known = 0 if given else data.draw(st.integers(0, len(log)))
        parts = data.draw(st.lists(st.integers(0, N_PARTS - 1), min_size=1, max_size=N_PARTS, unique=True))
        self.tasks.append(Submitted(run, known, tuple(log[known:]), tuple(parts), given, query))
        if fails:
            self.faults.append(0)
        self.check(self.tasks[-1])
        self.faults.clear()

    @rule(data=st.data(), fails=st.booleans())
    def run_again(self, data: st.DataObject, fails: bool) -> None:
        if self.tasks:
            if fails:
                self.faults.append(0)
            self.check(data.draw(st.sampled_from(self.tasks)))
            self.faults.clear()

    @rule(data=st.data())
    def run_together(self, data: st.DataObject) -> None:
        if self.tasks:
            several = data.draw(st.lists(st.sampled_from(self.tasks), min_size=2, max_size=5))
            with ThreadPoolExecutor(len(several)) as pool:
                list(pool.map(self.check, several))

    @rule(part=st.integers(0, N_PARTS - 1))
    def lose(self, part: int) -> None:
        dask._CACHE.pop(("first", part), None)

    @invariant()
    def whole_log_is_answered(self) -> None:
        """Whoever has the parts and the whole log up to now is never refused, so that the driver gets on."""
        if hasattr(self, "logs"):
            log = self.logs["first"]
            whole = Submitted("first", 0, tuple(log), tuple(range(N_PARTS)), True, 7)
            assert self.run(whole) == whole.clean(log)

    def run(self, task: Submitted) -> list[int] | None:
        parts = {number: DiaryRecords(number, self.faults) if task.given else None for number in task.parts}
        found = dask.answer(task.run, parts, task.known, task.ops, ("sums", (task.query,)), 1)
        return None if found is None else list(found.tolist())

    def check(self, task: Submitted) -> None:
        try:
            found = self.run(task)
        except Fault:
            return
        assert found is None or found == task.clean(self.logs[task.run])


TestTasks = TaskMachine.TestCase
TestTasks.settings = settings(max_examples=60, stateful_step_count=20)


class LongTaskMachine(TaskMachine):
    """The same, for long."""


TestTasksForLong = pytest.mark.slow(LongTaskMachine.TestCase)
TestTasksForLong.settings = settings(max_examples=2000, stateful_step_count=60)


def test_two_tasks_at_the_same_time_tell_a_part_once() -> None:
    """The second begins while the first is in the middle of an entry."""
    inside, go_on = threading.Event(), threading.Event()

    class Slow(Diary):
        def add(self, tree: int) -> None:
            inside.set()
            assert go_on.wait(30)
            super().add(tree)

    state = dask.PartState(Slow(0, []))
    ops: list[Op] = [("add", 3)]
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(state.answer, 0, ops, ("sums", (0,)))
        assert inside.wait(30)
        second = pool.submit(state.answer, 0, ops, ("sums", (0,)))
        go_on.set()
        assert first.result().tolist() == second.result().tolist() == [3, 1]  # type: ignore[union-attr]


@pytest.mark.filterwarnings("ignore::ledgerwood.errors.LedgerwoodWarning")
def test_a_late_second_run_adds_no_tree_twice() -> None:
    """The driver gave a worker up, the worker did not: its old task runs after newer ones."""
    data = frame(60)
    schema = Schema(bounds=BOUNDS, categories=CATEGORIES, classes=[0, 1])
    model = PrivateBoostingClassifier(
        recipe="xgb", schema=schema, epsilon=4.0, delta=1e-5, n_trees=3, max_depth=2, n_bins=8, random_state=1
    ).fit(data[FEATURES], data["y"])
    forest: Forest = model.forest_
    columns = tuple(
        Column(name, "category", categories=tuple(CATEGORIES[name]))
        if name in CATEGORIES
        else Column(name, "number", bounds=BOUNDS[name])
        for name in FEATURES
    )
    records = TreeRecords(FramePart(data), 0, columns, "y", model.settings_, classes=(0, 1))
    pairs = np.zeros((2, 4097, 2), dtype=np.int32)
    pairs[0, :, 0] = pairs[1, :, 0] = np.arange(4097)  # the gradient shows the score
    log: list[Op] = [("start", Task("table", pairs=pairs)), ("bin", forest.bin_edges[0])]
    log += [("add", [tree]) for tree in forest.trees]
    query = "leaf_sums", ([forest.trees[0].structure], "count")
    fresh = records.open(1)
    apply(fresh, log)
    dask._CACHE.clear()
    for known, end, given in [(0, 5, True), (0, 3, True), (0, 5, True), (3, 5, False)]:
        found = dask.answer("run", {0: records if given else None}, known, log[known:end], query, 1)
        assert found is None or end < 5 or np.array_equal(found, getattr(fresh, query[0])(*query[1]))
