"""The only way out of the data inside a learner.

A learner never sees a ledger. It hands exact sums and scores to :meth:`ReleaseSession.release` and gets back what the
mechanism made of them, after the plan's ledger (and the user's, if one was given) has agreed and recorded it.

Showing how far a fit is: public facts only.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ledgerwood.accounting import Cost, Ledger
from ledgerwood.learners.training.checkpoint import Checkpoint, StoredMechanism
from ledgerwood.learners.training.public_metadata import PublicMetadata
from ledgerwood.mechanisms.randomness import RandomSource, SystemSource


@dataclass(frozen=True)
class Progress:
    """What a callback is told after each release: public facts only.

    Attributes
    ----------
    label
        The release that was made.
    done, total
        How many of the plan's releases are made, of how many.
    seconds
        Since the fit began.
    trees
        How many trees are finished; 0 for other models.
    rows_per_second
        Rows looked at in a second, on average: every release looks at all of them once.
    spent
        The part of the plan's (concentrated) budget that is spent, 0 to 1.
    """

    label: str
    done: int
    total: int
    seconds: float
    trees: int = 0
    rows_per_second: float = 0.0
    spent: float = 0.0


Callback = Callable[[Progress], Any]


class Stopped(BaseException):
    """A callback asked to stop: training ends with what is released so far."""


@dataclass(frozen=True)
class GroupedMechanism:
    """A mechanism priced for a unit with k rows. The noise is the mechanism's own."""

    passes_on: ClassVar[bool] = True
    mechanism: Any
    k: int

    @property
    def cost(self) -> Cost:
        """The price of k changed records."""
        cost: Cost = self.mechanism.cost
        return cost.group(self.k)

    def check(self, value: Any) -> None:
        """Let the mechanism look at the value before anything is spent."""
        check = getattr(self.mechanism, "check", None)
        if check is not None:
            check(value)

    def release(self, value: Any, rng: Any = None) -> Any:
        """Release as the mechanism does."""
        return self.mechanism.release(value, rng)


@dataclass(frozen=True)
class _ChargedMechanism:
    """A mechanism that asks a second ledger before it draws: the plan's ledger keeps the order, the user's pays."""

    passes_on: ClassVar[bool] = True
    mechanism: Any
    ledger: Ledger
    label: str

    @property
    def cost(self) -> Cost:
        cost: Cost = self.mechanism.cost
        return cost

    def check(self, value: Any) -> None:
        GroupedMechanism(self.mechanism, 1).check(value)

    def release(self, value: Any, rng: Any = None) -> Any:
        return self.ledger.release(self.mechanism, value, label=self.label, rng=rng)


class ReleaseSession:
    """The way out of the data for one fit.

    Parameters
    ----------
    ledger
        The ledger of this fit, which follows the plan.
    rng
        None for the operating system's source; a seeded source makes the fit reproducible and not private.
    charge
        A second ledger that pays for every release too: the one a user gave to ``fit``.
    rows_per_unit
        Costs are priced for this many changed records.
    callbacks
        Called with :class:`Progress` after each release; one that returns True stops the training.
    facts
        The public facts that the plan was made from.
    checkpoint
        Where results are kept, and where they are recalled from in a run that is resumed; its key makes the noise.

    Examples
    --------
    >>> from ledgerwood.accounting import Gaussian, Plan, Release
    >>> from ledgerwood.mechanisms import GaussianMechanism
    >>> plan = Plan([Release("rows", Gaussian, share=1.0)]).calibrate(epsilon=1.0, delta=1e-6)
    >>> door = ReleaseSession(Ledger(plan=plan))
    >>> noisy = door.release(GaussianMechanism(plan["rows"].scale), 1000, "rows")
    >>> door.private, door.done
    (True, 1)
    """

    def __init__(
        self,
        ledger: Ledger,
        rng: RandomSource | None = None,
        *,
        charge: Ledger | None = None,
        rows_per_unit: int = 1,
        callbacks: Sequence[Callback] = (),
        name: str = "model",
        facts: PublicMetadata | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self._ledger, self._charge, self._name = ledger, charge, name
        self.rng = rng
        self.rows_per_unit = rows_per_unit
        self.facts = facts
        self._checkpoint, self._choices = checkpoint, 0
        self._callbacks = tuple(callbacks)
        plan = ledger.plan
        self.total = 0 if plan is None else sum(run.times for run in plan.runs())
        self.done = 0
        self.fitted: Mapping[str, Any] | None = None
        self.always: dict[str, Any] = {}  # attributes of every model that is kept
        self._began = time.monotonic()
        self._trees, self._spent = 0, 0.0
        table = () if plan is None or not callbacks else plan.table()
        self._shares = {str(row["label"]): float(row["spend"]) / int(row["times"]) for row in table}

    @property
    def private(self) -> bool:
        """Whether the noise cannot be reproduced."""
        return self.rng is None or self.rng.private

    @property
    def recalling(self) -> bool:
        """Whether this round's releases are all on record: the training may offer any sums of the right shape."""
        return self._checkpoint is not None and self._checkpoint.recalling

    def release(self, mechanism: Any, value: Any, label: str) -> Any:
        """Release an exact value by a mechanism, under a label of the plan.

        The value of a mechanism that samples rows (it has ``ask``) is a question: the sample is drawn and its sums are
        taken first, so that ledgers and noise can be bound to them.
        """
        k = self.rows_per_unit
        source: Any = self.rng
        if hasattr(mechanism, "ask"):
            saved = self._checkpoint
            value = mechanism.ask(value, source if saved is None else saved.choices(f"sample {self.done}"))
        if k > 1 and getattr(mechanism, "rows_per_unit", 1) != k:
            mechanism = GroupedMechanism(mechanism, k)
        if self._checkpoint is not None:
            mechanism = StoredMechanism(mechanism, self._checkpoint, self.done)
            source = self._checkpoint.source(self.done)
        if self._charge is not None:
            mechanism = _ChargedMechanism(mechanism, self._charge, f"{self._name}: {label}")
        result = self._ledger.release(mechanism, value, label=label, rng=source)
        self.done += 1
        self._tell(label)
        return result

    def keep(self, fitted: Mapping[str, Any]) -> None:
        """Keep the attributes of a valid smaller model: it is what an interrupted fit leaves. A round ends here."""
        if self._checkpoint is not None:
            self._checkpoint.begin_round()
        self.fitted = {**fitted, **self.always}
        self._trees = len(getattr(fitted.get("forest_"), "trees", ()))

    def generator(self) -> np.random.Generator:
        """Return a generator for choices that are independent of the data (random splits, feature order)."""
        source = SystemSource() if self.rng is None else self.rng
        if self._checkpoint is not None:
            source = self._checkpoint.choices(f"choices {self._choices}")
            self._choices += 1
        return np.random.default_rng([int(word) for word in source.words(4)])

    def _tell(self, label: str) -> None:
        if not self._callbacks:
            return
        seconds = time.monotonic() - self._began
        speed = 0.0 if self.facts is None or seconds <= 0 else self.facts.rows * self.done / seconds
        self._spent += self._shares.get(label, 0.0)
        event = Progress(label, self.done, self.total, seconds, self._trees, speed, min(1.0, self._spent))
        stop = [callback(event) is True for callback in self._callbacks]
        if any(stop):
            raise Stopped


@contextlib.contextmanager
def with_progress_bar(verbose: Any, callbacks: Sequence[Callback] | None) -> Iterator[tuple[Callback, ...]]:
    """Yield the callbacks of a fit: the user's, and a progress bar (rich, else lines) when ``verbose``."""
    own = tuple(callbacks or ())
    if not verbose:
        yield own
        return
    try:
        from rich.console import Console
        from rich.progress import Progress as Bar
    except ImportError:
        yield (*own, _line)
        return
    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("private fit", total=None)
        yield (
            *own,
            lambda event: bar.update(task, completed=event.done, total=event.total, description=progress_line(event)),
        )


def _line(event: Progress) -> None:
    if event.done == event.total or event.done % max(1, event.total // 10) == 0:
        print(f"{event.done}/{event.total} {progress_line(event)} ({event.seconds:.1f} s)", file=sys.stderr)


def progress_line(event: Progress) -> str:
    """Return a progress as a few words.

    >>> progress_line(Progress("leaf", 12, 50, 2.0, trees=4, rows_per_second=6e6, spent=0.25))
    'leaf, 4 trees, 6.0e+06 rows/s, 25 % of the budget spent'
    """
    trees = f"{event.trees} trees, " if event.trees else ""
    return f"{event.label}, {trees}{event.rows_per_second:.1e} rows/s, {100 * event.spent:.0f} % of the budget spent"
