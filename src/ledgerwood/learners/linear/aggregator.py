"""The interface between linear learners and their data: what may be asked, and who can answer.

A linear learner asks for two sums over records, ``gram`` once and ``gradient_sum`` once a round. Whoever holds the
records can answer: :class:`~.integer_rows.IntegerRows` in memory, a worker with one part of a table, a party of a
federation. Answers are exact integers, so those of several parts are simply added, and only mechanisms may see them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from ledgerwood.learners.data.columns import Ints, Scalar
from ledgerwood.learners.data.labels import Labels
from ledgerwood.learners.data.table import Table
from ledgerwood.learners.engines.interface import Empty, Sums, read_part
from ledgerwood.learners.engines.interface import GroupedRows as PartRows
from ledgerwood.learners.linear.encoding import RowEncoder
from ledgerwood.learners.linear.integer_rows import IntegerRows
from ledgerwood.learners.linear.loss import GRADIENT_ONE, LinearLoss
from ledgerwood.learners.training.session import ReleaseSession

__all__ = ["LinearParts", "LinearRecords", "LinearSums", "ReplayingLinearSums", "encoded_rows"]


class LinearSums(Protocol):
    """What a linear learner may ask of its data. Answers are exact sums over records."""

    @property
    def columns(self) -> int:
        """Number of columns, the intercept included."""

    def gram(self) -> Ints:
        """Return the sum of row times row, a symmetric matrix."""

    def gradient_sum(self, loss: LinearLoss, weights: Ints, clip: int) -> Ints:
        """Return the sum of gradient times row for every output; ``clip`` bounds a record's gradients.

        ``weights`` are those released so far, in steps of ``2**-WEIGHT_BITS``; no state is kept between two calls.
        """


def encoded_rows(encoder: RowEncoder, table: Table, labels: Labels) -> IntegerRows:
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
        (:class:`~ledgerwood.learners.data.partitions.TablePart`).
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
    >>> from ledgerwood.learners.data.partitions import FramePart
    >>> from ledgerwood.learners.data.columns import Column
    >>> frame = pd.DataFrame({"age": [25.0, 100.0], "y": [0, 1]})
    >>> encoder = RowEncoder((Column("age", "number", bounds=(0.0, 100.0)),))
    >>> rows = LinearRecords(FramePart(frame), encoder, "y", classes=(0, 1)).open()
    >>> rows.gram().tolist() == [[2 * 2**24, 2**23], [2**23, 2**24 + 2**22]]
    True
    """

    part: Any
    encoder: RowEncoder
    target: str
    classes: tuple[Scalar, ...] | None = None
    bounds: tuple[float, float] | None = None
    rows: PartRows = field(default_factory=PartRows)

    def open(self, n_threads: int | None = None, empty: Empty | None = None) -> IntegerRows:
        """Load the part and return its rows, in memory or in files; their threads are the process's own."""
        table, labels = read_part(self.part, self.encoder.columns, self.target, self.classes, self.bounds, self.rows)
        rows = encoded_rows(self.encoder, table, labels)
        return rows if empty is None else _spilled(rows, empty)


def _spilled(rows: IntegerRows, empty: Empty) -> IntegerRows:
    moved: dict[str, Any] = {}
    for name in ("starts", "indices", "entries", "labels"):
        array = getattr(rows, name)
        moved[name] = empty(array.shape, dtype=array.dtype)
        moved[name][:] = array
    return replace(rows, **moved)


class LinearParts:
    """The sums of a linear model over an engine."""

    def __init__(self, sums: Sums, columns: int) -> None:
        self._sums, self.columns = sums, columns

    def gram(self) -> Ints:
        return self._sums.query("gram")

    def gradient_sum(self, loss: LinearLoss, weights: Ints, clip: int) -> Ints:
        return self._sums.query("gradient_sum", loss, weights, clip)


class ReplayingLinearSums:
    """The sums of a linear model in a resumed training: zeros while the session recalls stored results.

    But X'X, and the gradient sum of weights 0, may serve later rounds that need no pass: they are never zeros. A zero
    in their place would be released under the noise that the true sum had, or has elsewhere.
    """

    def __init__(self, make: Callable[[], LinearSums], columns: int, session: ReleaseSession) -> None:
        self._make, self.columns, self._session = make, columns, session
        self._inner: LinearSums | None = None

    def gram(self) -> Ints:
        return self._opened().gram()

    def gradient_sum(self, loss: LinearLoss, weights: Ints, clip: int) -> Ints:
        if self._session.recalling and weights.any():
            return np.zeros(weights.shape, dtype=np.int64)
        return self._opened().gradient_sum(loss, weights, clip)

    def _opened(self) -> LinearSums:
        if self._inner is None:
            self._inner = self._make()
        return self._inner
