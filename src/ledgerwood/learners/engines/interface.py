"""Exact sums over parts, wherever these are: what trees and linear models ask of an engine.

The state of a part is a function of its rows and of the log of what was broadcast to it (start, bin, sample, add), all
of it public metadata or released numbers. Whoever lost that state, or never had it, loads the rows and replays the log;
answers are exact integers, the same bits whoever gives them. So an engine offers two operations, ``broadcast`` and
``query``, and the aggregators of the learners are thin views of it. A part is read by the same functions on this
machine and on a worker, now and again after a crash.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ledgerwood.errors import ParameterError
from ledgerwood.learners.data.columns import Column, Ints, Key, Scalar
from ledgerwood.learners.data.frames import raw_columns, raw_vector
from ledgerwood.learners.data.labels import Labels, labels_of, usable_labels
from ledgerwood.learners.data.partitions import CsvPart, ParquetPart
from ledgerwood.learners.data.privacy_unit import Identities, identities
from ledgerwood.learners.data.table import Table, read_as
from ledgerwood.learners.training.checkpoint import digest_of

__all__ = [
    "EngineQuery",
    "GroupedRows",
    "Log",
    "Op",
    "Records",
    "Sums",
    "apply",
    "part_digest",
    "read_part",
    "unit_identities",
]


Op: TypeAlias = tuple[str, Any]

EngineQuery: TypeAlias = tuple[str, tuple[Any, ...]]

Empty: TypeAlias = Callable[..., NDArray[Any]]


class Records(Protocol):
    """One part and how to read it: everything a worker needs."""

    def open(self, n_threads: int | None = None, empty: Empty | None = None) -> Any:
        """Load the part; ``empty`` makes the arrays with a row for each record, if they shall live in files."""


class Sums(Protocol):
    """An engine's answer to a set of parts."""

    def broadcast(self, name: str, argument: Any) -> None:
        """Send every part something public."""

    def query(self, name: str, *arguments: Any) -> Ints:
        """Return the sum of the parts' answers."""


@dataclass
class Log:
    """What was broadcast so far, in order."""

    ops: list[Op] = field(default_factory=list)

    def broadcast(self, name: str, argument: Any) -> None:
        """Add an entry; ``start`` begins a new log."""
        if name == "start":
            self.ops.clear()
        self.ops.append((name, argument))


def apply(part: Any, ops: Sequence[Op]) -> None:
    """Replay the entries of a log."""
    for name, argument in ops:
        getattr(part, name)(argument)


def read_part(
    part: Any,
    columns: Sequence[Column],
    target: str,
    classes: tuple[Scalar, ...] | None,
    bounds: tuple[float, float] | None,
    rows: GroupedRows,
) -> tuple[Table, Labels]:
    """Load a part and return the values and labels of the rows that count and have a label that can be used."""
    loaded = part.load()
    table = read_as(_features(loaded, [column.name for column in columns]), columns, any_type=True)
    if len(table) != part.rows:
        raise ParameterError("part", "have the same number of rows whenever it is loaded", "another")
    values, keep = usable_labels(loaded[1] if isinstance(loaded, tuple) else loaded[target], classes)
    if rows.keep is not None:
        keep &= rows.keep
    numbers = None if rows.numbers is None else rows.numbers[keep]
    features = table.values if keep.all() else tuple(column[keep] for column in table.values)
    kept = Table(table.columns, features, int(keep.sum()), numbers)
    return kept, labels_of(values[keep], classes, bounds)


def unit_identities(part: Any, unit: Key, key: bytes) -> Identities:
    """Return the identities of the rows of a part, by the column that names the privacy unit."""
    loaded = part.load([unit]) if isinstance(part, ParquetPart | CsvPart) else part.load()
    return identities(raw_columns(_features(loaded, [unit]), any_type=True)[0].ids(), key)


def part_digest(part: Any, key: bytes) -> str:
    """Return a keyed digest of all values of a part."""
    loaded = part.load()
    table, labels = loaded if isinstance(loaded, tuple) else (loaded, None)
    columns = raw_columns(table, any_type=True) + ([] if labels is None else [raw_vector(labels)])
    return digest_of([column.ids() for column in columns], key)


def _features(loaded: Any, names: Sequence[Key]) -> Any:
    """Return columns of a loaded part: of a frame by their names, of a pair of arrays by their numbers."""
    if isinstance(loaded, tuple):
        return loaded[0][:, list(names)]
    present = loaded.column_names if hasattr(loaded, "column_names") else list(loaded.columns)
    missing = [name for name in names if name not in present]
    if missing:
        raise ParameterError("part", "have the same columns as the others", f"<without {missing[:6]}>")
    return loaded.select(names) if hasattr(loaded, "select") else loaded[list(names)]


@dataclass(frozen=True)
class GroupedRows:
    """What is known of the rows of one part.

    Attributes
    ----------
    keep
        ``bool[rows]``: which of them count; None for all.
    numbers
        ``uint64[rows]``: a number for each row that counts, different from those of all other records (0 for one that
        does not); None if samples are drawn by the place in the table.
    """

    keep: NDArray[np.bool_] | None = field(default=None, repr=False)
    numbers: NDArray[np.uint64] | None = field(default=None, repr=False)

    def count(self, rows: int) -> int:
        """Return how many of a part's rows count."""
        return rows if self.keep is None else int(self.keep.sum())
