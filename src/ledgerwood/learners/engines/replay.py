"""Soft state: what a part of the records has seen can always be rebuilt from the released model.

The state of a :class:`~ledgerwood.learners.trees.local.LocalAggregator` is a function of its rows and of the log of
what it was told: start, bin, sample, add. All of these are public facts or released numbers. So a process that lost
its state, or never had it, loads the rows and replays the log; answers are exact integers, the same bits whoever
gives them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ledgerwood.learners.checkpoint import digest_of
from ledgerwood.learners.facts import Column
from ledgerwood.learners.frames import raw_columns
from ledgerwood.learners.schema import Atom
from ledgerwood.learners.tables import Labels, read_as, read_labels, read_target
from ledgerwood.learners.trees.local import LocalAggregator
from ledgerwood.learners.trees.seam import Aggregator
from ledgerwood.learners.trees.settings import Settings

__all__ = ["Log", "Op", "Question", "Records", "apply", "part_digest"]

Op: TypeAlias = tuple[str, Any]
Question: TypeAlias = tuple[str, tuple[Any, ...]]


@dataclass(frozen=True)
class Records:
    """One part and how to read it: everything a worker needs to open it."""

    part: Any
    first_record: int
    columns: tuple[Column, ...]
    target: str
    settings: Settings
    classes: tuple[Atom, ...] | None = None
    bounds: tuple[float, float] | None = None

    def read(self) -> tuple[tuple[NDArray[Any], ...], NDArray[np.int32]]:
        """Load the part and return its cells and integer labels."""
        from ledgerwood.learners.boosting import integer_labels

        frame = self.part.load()
        names = [column.name for column in self.columns]
        features = frame.select(names) if hasattr(frame, "select") else frame[names]
        table = read_as(features, self.columns)
        labels: Labels
        y = np.asarray(frame[self.target])
        labels = read_target(y, self.bounds) if self.bounds is not None else read_labels(y, self.classes)
        return table.cells, integer_labels(labels, self.settings)

    def open(self, n_threads: int | None) -> LocalAggregator:
        """Load the part into memory."""
        cells, labels = self.read()
        return LocalAggregator(cells, labels, n_threads=n_threads, first_record=self.first_record)


def part_digest(part: Any, key: bytes) -> str:
    """Return a keyed digest of all cells of a part."""
    return digest_of(raw_columns(part.load())[1], key)


@dataclass
class Log:
    """What an aggregator was told so far, in order."""

    ops: list[Op] = field(default_factory=list)

    def tell(self, name: str, argument: Any) -> None:
        """Add an entry; ``start`` begins a new log."""
        if name == "start":
            self.ops.clear()
        self.ops.append((name, argument))


def apply(aggregator: Aggregator, ops: Sequence[Op]) -> None:
    """Tell an aggregator the entries of a log."""
    for name, argument in ops:
        getattr(aggregator, name)(argument)
