"""Rows as patterns: many rows agree on many columns, and a sum needs each pattern only once.

Columns are put into groups. Within a group a row is one of at most ``MOST`` patterns of cells; patterns grow from each
other by one cell, so they are a tree. A score is then one look-up for each group, and a sum over records one addition
for each group: 3 instead of 14 for the 123 indicators of a9a. Columns that would make too many patterns (a number with
thousands of values) keep their cells as they are. All of it is exact: the same integers are added, in another order.

Which columns share a group depends on the records, as does the time it takes; the sums do not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Patterns", "grouped", "grown", "ungrouped"]

MOST = 2048
"""Patterns of one group: two tables of them stay in a processor's nearest memory."""
_GROUPS = 31
"""So that all patterns have places of 16 bits."""


@dataclass(frozen=True, slots=True, eq=False)
class Patterns:
    """Rows as patterns and loose cells.

    Parameters
    ----------
    codes
        For each row, its pattern in every group.
    parents, columns, cells
        A pattern is its parent and one more cell; a root is its own parent and adds nothing.
    loose_starts, loose_columns, loose_cells
        The cells that are in no group, row by row.
    """

    codes: NDArray[np.uint16]
    parents: NDArray[np.uint16]
    columns: NDArray[np.uint16]
    cells: NDArray[np.int16]
    loose_starts: NDArray[np.uint64]
    loose_columns: NDArray[np.uint16]
    loose_cells: NDArray[np.int16]

    @property
    def work(self) -> int:
        """Look-ups in one pass."""
        return int(self.codes.size + self.loose_cells.size)


def ungrouped(starts: NDArray[np.uint64], columns: NDArray[np.uint16], cells: NDArray[np.int16]) -> Patterns:
    """Return rows with all their cells loose."""
    none = np.empty(0, dtype=np.uint16)
    codes = np.empty((starts.size - 1, 0), dtype=np.uint16)
    return Patterns(codes, none, none, np.empty(0, dtype=np.int16), starts, columns, cells)


def grouped(starts: NDArray[np.uint64], columns: NDArray[np.uint16], cells: NDArray[np.int16], width: int) -> Patterns:
    """Return rows with their columns in groups, or with all cells loose where groups would not save work."""
    plain, found = ungrouped(starts, columns, cells), grown(starts, columns, cells, width)
    return found if found.work < plain.work else plain


def grown(starts: NDArray[np.uint64], columns: NDArray[np.uint16], cells: NDArray[np.int16], width: int) -> Patterns:
    """Return rows with their columns in groups, as far as patterns stay few."""
    from ledgerwood.learners.linear import _kernels

    begins = np.concatenate([[0], np.cumsum(np.bincount(columns, minlength=width))]).astype(np.uint64)
    rows, listed = np.empty(cells.size, dtype=np.uint32), np.empty_like(cells)
    _kernels.by_column(starts, columns, cells, begins, rows, listed)
    codes = np.zeros((_GROUPS, starts.size - 1), dtype=np.uint16)
    parents, names = np.zeros((2, _GROUPS * MOST), dtype=np.uint16)
    added = np.zeros(_GROUPS * MOST, dtype=np.int16)
    groups, patterns, loose = _kernels.group(begins, rows, listed, codes, parents, names, added, MOST)
    kept = loose[columns]
    ends = np.concatenate([[0], np.cumsum(kept)])[starts.astype(np.int64)].astype(np.uint64)
    return Patterns(
        np.ascontiguousarray(codes[:groups].T), parents[:patterns].copy(), names[:patterns].copy(),
        added[:patterns].copy(), ends, columns[kept], cells[kept],
    )  # fmt: skip
