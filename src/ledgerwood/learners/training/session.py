"""The release session: the only way out of the data inside a learner, and how far a fit is.

A learner never sees a ledger. It hands exact sums and scores to :meth:`ReleaseSession.release` and gets back what the
mechanism made of them, after the plan's ledger (and the user's, if one was given) has recorded the charge. After each
release callbacks and the progress bar are given a :class:`Progress`, made of public metadata only.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ledgerwood.accounting import Cost, Ledger, PaidPlan, Plan
from ledgerwood.accounting.costs.base import check_value
from ledgerwood.accounting.ledger.ledger import bound_source
from ledgerwood.learners.training.checkpoint import Checkpoint
from ledgerwood.learners.training.public_metadata import PublicMetadata
from ledgerwood.mechanisms.randomness import RandomSource, SystemSource, source_of


@dataclass(frozen=True)
class Progress:
    """What a callback is given after each release: public metadata only.

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
    plan
        The plan whose groups and sampling rates say what is charged; the ledger's by default.
    callbacks
        Called with :class:`Progress` after each release; one that returns True stops the training.
    metadata
        The public metadata that the plan was made from.
    checkpoint
        Where results are kept, and where they are recalled from in a run that is resumed; its key makes the noise.

    Examples
    --------
    >>> from ledgerwood.accounting import Gaussian, Plan, Release
    >>> from ledgerwood.mechanisms import GaussianMechanism
    >>> plan = Plan([Release("rows", Gaussian, share=1.0)]).calibrate(epsilon=1.0, delta=1e-6)
    >>> session = ReleaseSession(Ledger(plan=plan))
    >>> noisy = session.release(GaussianMechanism(plan["rows"].scale), 1000, "rows")
    >>> session.private, session.done
    (True, 1)
    """

    def __init__(
        self,
        ledger: Ledger,
        rng: RandomSource | None = None,
        *,
        charge: Ledger | PaidPlan | None = None,
        plan: Plan | None = None,
        callbacks: Sequence[Callback] = (),
        name: str = "model",
        metadata: PublicMetadata | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self._ledger, self._charge, self._name = ledger, charge, name
        self.rng = rng
        self.metadata = metadata
        self._checkpoint, self._choices = checkpoint, 0
        self._callbacks = tuple(callbacks)
        plan = ledger.plan if plan is None else plan
        self._releases = {} if plan is None else {release.label: release for release in plan.releases()}
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
    def max_rows_per_unit(self) -> int:
        """How many rows a privacy unit has at most: what the plan is priced for."""
        return 1 if self.metadata is None else self.metadata.max_rows_per_unit

    @property
    def recalling(self) -> bool:
        """Whether this round's releases are all on record: the training may offer any sums of the right shape."""
        return self._checkpoint is not None and self._checkpoint.recalling

    def release(self, mechanism: Any, value: Any, label: str) -> Any:
        """Release an exact value by a mechanism, under a label of the plan.

        The mechanism states the cost for one record. What is charged, to the plan's ledger and then to the user's, is
        the cost for the plan's group and sampling rate; then the result is recalled from the checkpoint, or drawn.
        """
        check_value(mechanism, value)
        saved, number = self._checkpoint, self.done
        source = bound_source(mechanism, value, self.rng if saved is None else saved.source(number))
        cost = self._cost(mechanism.cost, label)
        self._ledger.charge_release(cost, label, source)
        if self._charge is not None:
            self._charge.charge_release(cost, f"{self._name}: {label}", source)
        if saved is None:
            result = mechanism.release(value, source)
        else:
            found = saved.recall(number)
            result = found[0] if found else saved.store(number, mechanism.release(value, source), source.seal)
        self.done += 1
        self._report(label)
        return result

    def sample_key(self) -> tuple[int, int]:
        """Return the secret key of a fresh sample of rows, for the next release; a run that is resumed repeats it."""
        saved = self._checkpoint
        source = source_of(self.rng) if saved is None else saved.choices(f"sample {self.done}")
        first, second = source.words(2)
        return int(first), int(second)

    def _cost(self, cost: Cost, label: str) -> Cost:
        """The cost of one record's release, for the group and the sampling rate that the plan states.

        What the plan does not name (its reserve) is charged for a whole privacy unit too.
        """
        release = self._releases.get(label)
        return cost.group(self.max_rows_per_unit) if release is None else release.for_unit(cost)

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

    def _report(self, label: str) -> None:
        if not self._callbacks:
            return
        seconds = time.monotonic() - self._began
        speed = 0.0 if self.metadata is None or seconds <= 0 else self.metadata.rows * self.done / seconds
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
