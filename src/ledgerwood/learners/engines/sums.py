"""Exact sums over parts, wherever these are: what trees and linear models ask of an engine.

The state of a part is a function of its rows and of the log of what it was told (start, bin, sample, add), all of it
public facts or released numbers. So whoever lost that state, or never had it, loads the rows and is told the log;
answers are exact integers, the same bits whoever gives them. An engine therefore offers two things, ``tell`` and
``ask``, and the seams of the learners are thin views of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ledgerwood.learners.engines.grouping import Rows
from ledgerwood.learners.engines.reading import read_part
from ledgerwood.learners.facts import Column
from ledgerwood.learners.schema import Atom
from ledgerwood.learners.tables import Table
from ledgerwood.learners.trees.local import LocalAggregator
from ledgerwood.learners.trees.seam import Channel, Edges, PartialTree, Sample, Structure, Task, Tree
from ledgerwood.learners.trees.settings import Settings

if TYPE_CHECKING:
    from ledgerwood.learners.linear.losses import Loss

__all__ = ["LinearParts", "Log", "Op", "Question", "Records", "Sums", "TreeParts", "TreeRecords", "apply"]

Ints: TypeAlias = NDArray[np.int64]
Op: TypeAlias = tuple[str, Any]
Question: TypeAlias = tuple[str, tuple[Any, ...]]
Empty: TypeAlias = Callable[..., NDArray[Any]]


class Records(Protocol):
    """One part and how to read it: everything a worker needs."""

    def open(self, n_threads: int | None = None, empty: Empty | None = None) -> Any:
        """Load the part; ``empty`` makes the arrays with a row for each record, if they shall live in files."""


class Sums(Protocol):
    """An engine's answer to a set of parts."""

    def tell(self, name: str, argument: Any) -> None:
        """Tell every part something public."""

    def ask(self, name: str, *arguments: Any) -> Ints:
        """Return the sum of the parts' answers."""


@dataclass
class Log:
    """What parts were told so far, in order."""

    ops: list[Op] = field(default_factory=list)

    def tell(self, name: str, argument: Any) -> None:
        """Add an entry; ``start`` begins a new log."""
        if name == "start":
            self.ops.clear()
        self.ops.append((name, argument))


def apply(told: Any, ops: Sequence[Op]) -> None:
    """Tell the entries of a log."""
    for name, argument in ops:
        getattr(told, name)(argument)


@dataclass(frozen=True)
class TreeRecords:
    """A part that answers trees."""

    part: Any
    first_record: int
    columns: tuple[Column, ...]
    target: str
    settings: Settings
    classes: tuple[Atom, ...] | None = None
    bounds: tuple[float, float] | None = None
    rows: Rows = field(default_factory=Rows)

    def read(self) -> tuple[Table, NDArray[np.int32]]:
        """Load the part and return its rows and integer labels."""
        from ledgerwood.learners.boosting import integer_labels

        table, labels = read_part(self.part, self.columns, self.target, self.classes, self.bounds, self.rows)
        return table, integer_labels(labels, self.settings)

    def open(self, n_threads: int | None = None, empty: Empty | None = None) -> LocalAggregator:
        """Load the part into memory, or code it into files."""
        if empty is not None:
            return _SpilledPart(self, n_threads, empty)
        table, labels = self.read()
        return LocalAggregator(
            table.cells, labels, n_threads=n_threads, first_record=self.first_record, numbers=table.numbers
        )


class _SpilledPart(LocalAggregator):
    """A part whose arrays live in files, and whose columns are read again when they are coded again."""

    def __init__(self, records: TreeRecords, n_threads: int | None, empty: Empty) -> None:
        self._source = records
        table, labels = records.read()
        kept = empty(labels.shape, dtype=np.int32)
        kept[:] = labels
        super().__init__(
            table.cells,
            kept,
            n_threads=n_threads,
            empty=empty,
            first_record=records.first_record,
            numbers=table.numbers,
        )
        self._forget_columns()

    def _forget_columns(self) -> None:
        self._columns = [np.empty(0, dtype=column.dtype) for column in self._columns]

    def bin(self, edges: Edges) -> None:
        self.use_columns(self._source.read()[0].cells)
        super().bin(edges)
        self._forget_columns()


class TreeParts:
    """The seam of the trees over an engine."""

    def __init__(self, sums: Sums, n_features: int) -> None:
        self._sums, self.n_features = sums, n_features

    def start(self, task: Task) -> None:
        self._sums.tell("start", task)

    def bin(self, edges: Edges) -> None:
        self._sums.tell("bin", edges)

    def sample(self, sample: Sample | None) -> None:
        self._sums.tell("sample", sample)

    def add(self, trees: Sequence[Tree]) -> None:
        self._sums.tell("add", list(trees))

    def histogram(self, tree: PartialTree, features: NDArray[np.int32], channel: Channel) -> Ints:
        return self._sums.ask("histogram", tree, features, channel)

    def leaf_sums(self, trees: Sequence[Structure], channel: Channel) -> Ints:
        return self._sums.ask("leaf_sums", list(trees), channel)


class LinearParts:
    """The seam of the linear models over an engine."""

    def __init__(self, sums: Sums, columns: int) -> None:
        self._sums, self.columns = sums, columns

    def gram(self) -> Ints:
        return self._sums.ask("gram")

    def pull(self, loss: Loss, weights: Ints, clip: int) -> Ints:
        return self._sums.ask("pull", loss, weights, clip)
