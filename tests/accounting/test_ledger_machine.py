"""Random lives of a ledger against a model that only knows whole numbers.

The model adds exact integers (units of 1e-30), keeps every part of every block, and takes by brute force the worst
part, or the worst two touches of parts. The ledger lives through releases, blocks, splits, merges, refusals, seeded
draws, and crashes that leave torn lines; after every step both must agree on what is spent, and the odometer must not
read less than what was spent.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from ledger_cases import Silent

from ledgerwood.accounting import Ledger, PureDP
from ledgerwood.accounting.accountant.filters import UNIT
from ledgerwood.accounting.ledger.ledger import LedgerParts
from ledgerwood.errors import BudgetExceeded

EPSILONS = st.sampled_from([0.001, 0.01, 0.05, 0.1, 0.25, 0.3, 1.5])
PARTS = st.sampled_from([0, 1, 2, "x"])


def units(value: float) -> int:
    return int(Decimal(str(value)) * UNIT)


@dataclass
class Model:
    """An exact account of one ledger."""

    limit: int
    pairs: bool
    direct: int = 0
    blocks: dict[int, dict[object, int]] = field(default_factory=dict)
    held: dict[int, int] = field(default_factory=dict)

    def worst(self, parts: dict[object, int]) -> int:
        totals = list(parts.values())
        if not self.pairs:
            return max(totals, default=0)
        return max((a + b for a, b in itertools.combinations_with_replacement(totals, 2)), default=0)

    def spent(self) -> int:
        return self.direct + sum(map(self.worst, self.blocks.values())) + sum(self.held.values())

    def accepts(self, epsilon: float, block: int | None = None, part: object = None) -> bool:
        before = self.spent()
        if block is None:
            return before + units(epsilon) <= self.limit
        parts = self.blocks[block]
        after = {**parts, part: parts.get(part, 0) + units(epsilon)}
        return before - self.worst(parts) + self.worst(after) <= self.limit


class LedgerLife(RuleBasedStateMachine):
    durable = False

    @initialize(epsilon=st.sampled_from([0.5, 2.0, 5.0]), neighbours=st.sampled_from(["add_remove", "replace_one"]))
    def open(self, epsilon: float, neighbours: str) -> None:
        self.neighbours = neighbours
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "budget.jsonl"
        if self.durable:
            self.ledger = Ledger.open(self.path, epsilon, 0.0, neighbours=neighbours)
        else:
            self.ledger = Ledger(epsilon, 0.0, neighbours=neighbours)
        self.model = Model(units(epsilon), neighbours == "replace_one")
        self.managers: dict[int, AbstractContextManager[LedgerParts]] = {}
        self.parts: dict[int, LedgerParts] = {}
        self.children: dict[int, tuple[Ledger, Model]] = {}
        self.serial = 0

    def cost(self, epsilon: float) -> Silent:
        return Silent(PureDP(epsilon, neighbours=self.neighbours))

    def part_cost(self, epsilon: float) -> Silent:
        return Silent(PureDP(epsilon))

    def attempt(self, expected: bool, action: Callable[[], object]) -> bool:
        try:
            action()
        except BudgetExceeded:
            assert not expected
            return False
        assert expected
        return True

    @rule(epsilon=EPSILONS, seeded=st.booleans())
    def release(self, epsilon: float, seeded: bool) -> None:
        if self.attempt(
            self.model.accepts(epsilon),
            lambda: self.ledger.release(self.cost(epsilon), None, label="r", rng=object() if seeded else None),
        ):
            self.model.direct += units(epsilon)

    @precondition(lambda self: len(self.managers) < 2)
    @rule()
    def begin_block(self) -> None:
        self.serial += 1
        manager = self.ledger.parallel("block")
        self.parts[self.serial] = manager.__enter__()
        self.managers[self.serial] = manager
        self.model.blocks[self.serial] = {}

    @precondition(lambda self: self.managers)
    @rule(draws=st.lists(st.tuples(EPSILONS, PARTS), min_size=1, max_size=6), which=st.integers(0, 1))
    def release_in_parts(self, draws: list[tuple[float, int | str]], which: int) -> None:
        block = sorted(self.managers)[which % len(self.managers)]
        for epsilon, part in draws:
            parts, place = self.model.blocks[block], self.parts[block][part]
            if self.attempt(
                self.model.accepts(epsilon, block, part),
                lambda epsilon=epsilon, place=place: place.release(self.part_cost(epsilon), None, label="r"),
            ):
                parts[part] = parts.get(part, 0) + units(epsilon)

    @precondition(lambda self: self.managers)
    @rule(which=st.integers(0, 1))
    def end_block(self, which: int) -> None:
        block = sorted(self.managers)[which % len(self.managers)]
        self.managers.pop(block).__exit__(None, None, None)
        self.model.direct += self.model.worst(self.model.blocks.pop(block))

    @precondition(lambda self: len(self.children) < 4)
    @rule(by=st.sampled_from([[0.5], [0.6, 0.4], [0.1, 0.2], [1 / 3, 1 / 3, 1 / 3]]))
    def split(self, by: list[float]) -> None:
        left = self.model.limit - self.model.spent()
        shares = [int(left * Fraction(str(f))) for f in by]
        if not all(shares):
            return
        for share, child in zip(shares, self.ledger.split(by=by), strict=True):
            self.serial += 1
            self.children[self.serial] = (child, Model(share, self.model.pairs))
            self.model.held[self.serial] = share

    @precondition(lambda self: self.children)
    @rule(epsilon=EPSILONS, which=st.integers(0, 3))
    def release_in_child(self, epsilon: float, which: int) -> None:
        child, model = self.children[sorted(self.children)[which % len(self.children)]]
        if self.attempt(model.accepts(epsilon), lambda: child.release(self.cost(epsilon), None, label="r")):
            model.direct += units(epsilon)

    @precondition(lambda self: self.children)
    @rule(which=st.integers(0, 3))
    def merge(self, which: int) -> None:
        key = sorted(self.children)[which % len(self.children)]
        child, model = self.children.pop(key)
        self.ledger.merge(child.path if self.durable else child)
        del self.model.held[key]
        self.model.direct += model.spent()

    @precondition(lambda self: self.durable)
    @rule(torn=st.integers(0, 60))
    def crash_and_reopen(self, torn: int) -> None:
        """The process dies: open blocks never end, half a line may be left."""
        self.ledger.close()
        for manager in self.managers.values():
            manager.__exit__(None, None, None)
        self.managers.clear()
        for block in list(self.model.blocks):
            self.model.direct += self.model.worst(self.model.blocks.pop(block))
        if torn:
            with self.path.open("ab") as file:
                file.write(b'{"hash":"0123456789abcdef0123456789abcdef0123456789abcdef0123456789'[:torn])
        self.ledger = Ledger.open(self.path)

    @invariant()
    def both_agree(self) -> None:
        if hasattr(self, "ledger"):
            assert self.ledger._state.used == self.model.spent() <= self.model.limit
            assert self.ledger.odometer() >= self.model.spent() / UNIT
            for child, model in self.children.values():
                assert child._state.used == model.spent() <= model.limit

    def teardown(self) -> None:
        if hasattr(self, "ledger"):
            self.ledger.close()
            for child, _ in self.children.values():
                child.close()
            self.folder.cleanup()


class DurableLedgerLife(LedgerLife):
    durable = True


TestLedgerInMemory = LedgerLife.TestCase
TestLedgerInMemory.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestLedgerOnDisk = DurableLedgerLife.TestCase
TestLedgerOnDisk.settings = settings(max_examples=15, stateful_step_count=25, deadline=None)
