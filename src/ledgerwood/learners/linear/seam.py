"""The seam between linear learners and their data: what may be asked, and who can answer.

A linear learner asks for two sums over records, ``gram`` once and ``pull`` once a round. Whoever holds the records can
answer: :class:`~ledgerwood.learners.linear.rows.Rows` in memory, a worker with one part of a table, a party of a
federation. Answers are exact integers, so those of several parts are simply added, and only mechanisms may see them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ledgerwood.learners.engines.grouping import Rows as PartRows
from ledgerwood.learners.engines.reading import read_part
from ledgerwood.learners.linear.encoding import Encoder
from ledgerwood.learners.linear.rows import GRADIENT_ONE, Ints, Rows
from ledgerwood.learners.tables import Labels, Table

if TYPE_CHECKING:
    from ledgerwood.learners.engines.sums import Empty
    from ledgerwood.learners.linear.losses import Loss
    from ledgerwood.learners.schema import Atom

__all__ = ["LinearRecords", "LinearSums", "SumOfParts", "encoded_rows"]


class LinearSums(Protocol):
    """What a linear learner may ask of its data. Answers are exact sums over records."""

    @property
    def columns(self) -> int:
        """Number of columns, the intercept included."""

    def gram(self) -> Ints:
        """Return the sum of row times row, a symmetric matrix."""

    def pull(self, loss: Loss, weights: Ints, clip: int) -> Ints:
        """Return the sum of gradient times row for every output; ``clip`` bounds a record's gradients.

        ``weights`` are those released so far, in steps of ``2**-WEIGHT_BITS``; no state is kept between two calls.
        """


@dataclass(frozen=True, slots=True)
class SumOfParts:
    """The same questions to several parts of the data: integer sums are added, so the answer has the same bits."""

    parts: Sequence[LinearSums]

    @property
    def columns(self) -> int:
        """Number of columns, the intercept included."""
        return self.parts[0].columns

    def gram(self) -> Ints:
        """Add the parts' answers."""
        return _added([part.gram() for part in self.parts])

    def pull(self, loss: Loss, weights: Ints, clip: int) -> Ints:
        """Add the parts' answers."""
        return _added([part.pull(loss, weights, clip) for part in self.parts])


def _added(answers: Sequence[Ints]) -> Ints:
    return np.asarray(sum(answers[1:], start=answers[0]))


def encoded_rows(encoder: Encoder, table: Table, labels: Labels) -> Rows:
    """Return records as integer rows with their labels: class numbers, or numbers from -1 to 1 between their bounds."""
    if labels.bounds is None:
        return encoder.encode(table, labels.values.astype(np.int64), coded=True)
    low, high = labels.bounds
    unit = np.clip((labels.values - low) / (high - low) * 2 - 1, -1.0, 1.0)
    return encoder.encode(table, np.rint(unit * GRADIENT_ONE).astype(np.int64), coded=False)


@dataclass(frozen=True)
class LinearRecords:
    """One part of a table and how to read it: everything a worker needs to answer for it.

    Parameters
    ----------
    part
        Has ``load()``, which returns a frame with the columns and the target
        (:class:`~ledgerwood.learners.engines.partitions.Part`).
    encoder
        The public map from columns to rows.
    target
        The name of the label's column.
    classes, bounds
        The label values, or the target's bounds.
    rows
        Which of its rows count.

    Examples
    --------
    >>> import pandas as pd
    >>> from ledgerwood.learners.engines.partitions import FramePart
    >>> from ledgerwood.learners.facts import Column
    >>> frame = pd.DataFrame({"age": [25.0, 100.0], "y": [0, 1]})
    >>> encoder = Encoder((Column("age", "number", bounds=(0.0, 100.0)),))
    >>> rows = LinearRecords(FramePart(frame), encoder, "y", classes=(0, 1)).open()
    >>> rows.gram().tolist() == [[2 * 2**24, 2**23], [2**23, 2**24 + 2**22]]
    True
    """

    part: Any
    encoder: Encoder
    target: str
    classes: tuple[Atom, ...] | None = None
    bounds: tuple[float, float] | None = None
    rows: PartRows = field(default_factory=PartRows)

    def open(self, n_threads: int | None = None, empty: Empty | None = None) -> Rows:
        """Load the part and return its rows, in memory or in files; their threads are the process's own."""
        table, labels = read_part(self.part, self.encoder.columns, self.target, self.classes, self.bounds, self.rows)
        rows = encoded_rows(self.encoder, table, labels)
        return rows if empty is None else _spilled(rows, empty)


def _spilled(rows: Rows, empty: Empty) -> Rows:
    moved: dict[str, Any] = {}
    for name in ("starts", "indices", "cells", "labels"):
        array = getattr(rows, name)
        moved[name] = empty(array.shape, dtype=array.dtype)
        moved[name][:] = array
    return replace(rows, **moved)
