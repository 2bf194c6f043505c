r"""From a table to integer rows, by public metadata alone.

* A number with bounds lo .. hi becomes :math:`2 (v - lo) / (hi - lo) - 1`, in -1 .. 1: the bounds are the only
  standardisation that costs nothing. With ``bins`` it becomes the indicator of its bin instead.
* A category becomes its indicator.
* A missing value and an unknown category contribute nothing: zero in all their columns.

So every column of the table adds at most 1 to the squared norm of a row, and the intercept 1: the public bound is
:math:`R^2 = 1 + m`, whatever the number of categories. Where it is known that rows are shorter (123 indicators of which
14 are set) ``row_norm`` says so, and longer rows are scaled down to it.

**Bin edges** come from the bounds. Half of them are equally spaced; the others halve the first of those intervals
again and again, because amounts and counts pile up near their lower bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.errors import ParameterError
from ledgerwood.learners.data.columns import Column, Ints
from ledgerwood.learners.data.table import Table
from ledgerwood.learners.linear.integer_rows import MAX_COLUMNS, IntegerRows
from ledgerwood.learners.linear.loss import ENTRY_ONE
from ledgerwood.learners.training.codec import require, stored

__all__ = ["MAX_BINS", "RowEncoder", "bin_edges"]

MAX_BINS = 128


def bin_edges(low: float, high: float, bins: int) -> NDArray[np.float32]:
    """Return the ``bins - 1`` inner edges of a column.

    >>> bin_edges(0.0, 16.0, 8).tolist()
    [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 12.0]
    """
    even = (bins + 1) // 2
    step = (high - low) / even
    spaced = [low + step * i for i in range(1, even)]
    halved = [low + step * 2.0**-i for i in range(bins - even, 0, -1)]
    return np.unique(np.array([*halved, *spaced], dtype=np.float32))


def _check_encoder(encoder: RowEncoder, fitted: Mapping[str, Any]) -> None:
    """Raise :class:`FormatError` unless encoder and weights fit each other and the model's columns."""
    weights = fitted.get("weights_")
    require(encoder.columns == fitted["columns_"], "the encoder has other columns")
    require(isinstance(weights, np.ndarray) and weights.dtype == np.float64 and weights.ndim == 2, "no weights")
    assert isinstance(weights, np.ndarray)
    classes = len(fitted.get("classes_", ()))
    outputs = classes if classes > 2 else 1
    require(weights.shape == (outputs, encoder.width) and np.isfinite(weights).all(), "weights of another width")


@stored("Encoder", check=_check_encoder)
@dataclass(frozen=True)
class RowEncoder:
    """The public map from a table's columns to the columns of a linear model.

    Parameters
    ----------
    columns
        The table's columns, bounds and categories known.
    bins
        Bins for every numeric column; None keeps numbers as they are.
    intercept
        Whether column 0 is a constant 1.
    row_norm
        A public bound on the norm of a row without its intercept; longer rows are scaled down. None: the square root
        of the number of columns, which nothing exceeds.

    >>> from ledgerwood.learners.data.columns import Column
    >>> e = RowEncoder((Column("age", "number", bounds=(0.0, 100.0)), Column("sex", "category", categories=("f", "m"))))
    >>> e.names
    ('(intercept)', 'age', 'sex=f', 'sex=m')
    """

    columns: tuple[Column, ...]
    bins: int | None = None
    intercept: bool = True
    row_norm: float | None = None

    def __post_init__(self) -> None:
        if self.bins is not None and not 2 <= self.bins <= MAX_BINS:
            raise ParameterError("bins", f"lie in 2 .. {MAX_BINS}, or be None", self.bins)
        if self.row_norm is not None and not 0 < self.row_norm < math.inf:
            raise ParameterError("row_norm", "be a positive number, or None", self.row_norm)
        if self.width > MAX_COLUMNS:
            raise ParameterError("X", f"have at most {MAX_COLUMNS} columns once encoded", self.width)

    @property
    def square_bound(self) -> int:
        """The largest squared norm of an encoded row, in squared steps of an entry: exact, an integer."""
        square = len(self.columns) * ENTRY_ONE**2
        if self.row_norm is not None:
            square = min(square, math.floor((self.row_norm * ENTRY_ONE) ** 2))
        return square + self._intercept_entry**2

    @property
    def _intercept_entry(self) -> int:
        return ENTRY_ONE if self.intercept else 0

    @property
    def width(self) -> int:
        """Number of encoded columns, the intercept's place included."""
        return 1 + sum(self._widths())

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        return ("(intercept)", *(str(part["name"]) for part in self.parts()))

    def parts(self) -> list[dict[str, Any]]:
        """Return what each encoded column after the intercept is: plain values, fit for JSON."""
        found: list[dict[str, Any]] = []
        for column in self.columns:
            name = column.name
            if column.kind == "category":
                for value in column.categories or ():
                    found.append({"name": f"{name}={value}", "column": name, "category": value})
            elif self.bins is None:
                assert column.bounds is not None
                found.append({"name": str(name), "column": name, "bounds": list(column.bounds)})
            else:
                ends = [-math.inf, *self._bin_edges(column).tolist(), math.inf]
                for low, high in pairwise(ends):
                    limits = [None if math.isinf(end) else end for end in (low, high)]
                    text = f"{name} in {'(' if limits[0] is None else '['}{low:.6g}, {high:.6g})"
                    found.append({"name": text, "column": name, "from": limits[0], "below": limits[1]})
        return found

    def encode(self, table: Table, labels: Ints | None = None, *, coded: bool = False) -> IntegerRows:
        """Return the table's rows as integers. Every value has an encoding; none can make it fail."""
        from ledgerwood.learners.linear import _kernels

        count, offset, listed = len(table), 1, []
        sizes = np.zeros(count, dtype=np.int64)
        one = np.broadcast_to(np.int16(ENTRY_ONE), count)
        for column, width, values in zip(self.columns, self._widths(), table.values, strict=True):
            codes, own = self._codes(column, values), one
            if self._is_plain(column):
                own = np.rint(_unit(values, column) * ENTRY_ONE).astype(np.int16)
            _kernels.count(codes, width, own, sizes)
            listed.append((codes, width, own, offset))
            offset += width
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.uint64)
        indices, entries = np.empty(int(starts[-1]), dtype=np.uint16), np.empty(int(starts[-1]), dtype=np.int16)
        ends = starts[:-1].copy()
        for column_entries in listed:
            _kernels.append(*column_entries, ends, indices, entries)
        rows = IntegerRows(starts, indices, entries, self.width, self._intercept_entry, labels, coded)
        return rows if self.row_norm is None else rows.shortened(self.square_bound)

    def scores(self, table: Table, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the scores, one column for each row of ``weights``; nothing is rounded or shortened."""
        out = np.tile(weights[:, 0] * bool(self.intercept), (len(table), 1))
        offset = 1
        for column, width, values in zip(self.columns, self._widths(), table.values, strict=True):
            own = weights[:, offset : offset + width].T
            if self._is_plain(column):
                out += _unit(values, column)[:, None] * own
            else:
                out += np.vstack([own, np.zeros((1, len(weights)))])[self._codes(column, values)]
            offset += width
        return out

    def design(self, table: Table) -> NDArray[np.float64]:
        """Return the matrix that exported coefficients refer to: numbers in their own units, indicators as 0 and 1.

        A missing number stands at the middle of its bounds.
        """
        blocks = []
        for column, width, values in zip(self.columns, self._widths(), table.values, strict=True):
            if self._is_plain(column):
                assert column.bounds is not None
                middle = (column.bounds[0] + column.bounds[1]) / 2
                blocks.append(np.where(np.isnan(values), middle, values.astype(np.float64))[:, None])
            else:
                blocks.append(np.eye(width + 1)[self._codes(column, values)][:, :width])
        return np.hstack(blocks)

    def in_units(self, weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return (coefficients, intercepts) for :meth:`design`: those of numbers per unit of the number."""
        coefficients, intercepts = weights[:, 1:].copy(), weights[:, 0] * bool(self.intercept)
        offset = 0
        for column, width in zip(self.columns, self._widths(), strict=True):
            if self._is_plain(column):
                assert column.bounds is not None
                low, high = column.bounds
                intercepts = intercepts - coefficients[:, offset] * (high + low) / (high - low)
                coefficients[:, offset] *= 2 / (high - low)
            offset += width
        return coefficients, intercepts

    def _is_plain(self, column: Column) -> bool:
        return column.kind == "number" and self.bins is None

    def _codes(self, column: Column, values: NDArray[Any]) -> NDArray[np.int64]:
        """Return the place of each value among its encoded columns; their number for missing and unknown."""
        if column.kind == "category":
            return np.asarray(values, dtype=np.int64)
        missing = np.isnan(values)
        if self.bins is None:
            return np.asarray(missing, dtype=np.int64)
        edges = self._bin_edges(column)
        return np.where(missing, len(edges) + 1, np.searchsorted(edges, values, side="right"))

    def _bin_edges(self, column: Column) -> NDArray[np.float32]:
        assert column.bounds is not None and self.bins is not None
        return bin_edges(*column.bounds, self.bins)

    def _widths(self) -> Sequence[int]:
        return [
            len(column.categories or ()) if column.kind == "category"
            else 1 if self.bins is None
            else len(self._bin_edges(column)) + 1
            for column in self.columns
        ]  # fmt: skip


def _unit(values: NDArray[Any], column: Column) -> NDArray[np.float64]:
    """Numbers as -1 .. 1 between their bounds; missing is 0."""
    assert column.bounds is not None
    low, high = column.bounds
    return np.clip(np.nan_to_num((values.astype(np.float64) - low) / (high - low) * 2 - 1), -1.0, 1.0)
