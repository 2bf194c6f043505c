"""Reading one part of a table: on this machine or on a worker, now or again after a crash, always the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.errors import ParameterError
from ledgerwood.learners.checkpoint import digest_of
from ledgerwood.learners.engines.partitions import ParquetPart
from ledgerwood.learners.facts import Column
from ledgerwood.learners.frames import raw_columns
from ledgerwood.learners.schema import Atom, Key
from ledgerwood.learners.tables import Labels, Table, read_as, read_labels, read_target
from ledgerwood.learners.units import Identities, identities

__all__ = ["part_digest", "read_part", "unit_identities"]


def read_part(
    part: Any,
    columns: Sequence[Column],
    target: str,
    classes: tuple[Atom, ...] | None,
    bounds: tuple[float, float] | None,
    keep: NDArray[np.bool_] | None = None,
) -> tuple[Table, Labels]:
    """Load a part and return its cells and labels; of the rows only those to ``keep``, if some are left out."""
    loaded = part.load()
    names = [column.name for column in columns]
    features, y = _features(loaded, names), np.asarray(loaded[1] if isinstance(loaded, tuple) else loaded[target])
    table = read_as(features, columns)
    if len(table) != part.rows:
        raise ParameterError("part", f"have {part.rows} rows whenever it is loaded", len(table))
    if keep is not None:
        table, y = Table(table.columns, tuple(cells[keep] for cells in table.cells), int(keep.sum())), y[keep]
    return table, read_labels(y, classes) if bounds is None else read_target(y, bounds)


def unit_identities(part: Any, unit: Key, key: bytes) -> Identities:
    """Return whom the rows of a part are about, by the column that names the unit of privacy."""
    loaded = part.load([unit]) if isinstance(part, ParquetPart) else part.load()
    if isinstance(loaded, tuple):
        return identities(np.asarray(loaded[0][:, int(unit)]), key)
    return identities(raw_columns(_features(loaded, [unit]), unit)[1][0], key)


def part_digest(part: Any, key: bytes) -> str:
    """Return a keyed digest of all cells of a part."""
    loaded = part.load()
    if isinstance(loaded, tuple):
        return digest_of([np.asarray(array) for array in loaded], key)
    return digest_of(raw_columns(loaded)[1], key)


def _features(loaded: Any, names: Sequence[Key]) -> Any:
    """Return columns of a loaded part: of a frame by their names, of a pair of arrays by their numbers."""
    if isinstance(loaded, tuple):
        return loaded[0][:, list(names)]
    present = loaded.column_names if hasattr(loaded, "column_names") else list(loaded.columns)
    missing = [name for name in names if name not in present]
    if missing:
        raise ParameterError("part", "have the same columns as the others", f"<without {missing[:6]}>")
    return loaded.select(names) if hasattr(loaded, "select") else loaded[list(names)]
