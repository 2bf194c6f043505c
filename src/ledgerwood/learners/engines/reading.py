"""Reading one part of a table: on this machine or on a worker, now or again after a crash, always the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ledgerwood.errors import ParameterError
from ledgerwood.learners.checkpoint import digest_of
from ledgerwood.learners.data.frames import raw_columns, raw_vector
from ledgerwood.learners.engines.grouping import Rows
from ledgerwood.learners.engines.partitions import CsvPart, ParquetPart
from ledgerwood.learners.facts import Column
from ledgerwood.learners.labels import labels_of, usable_labels
from ledgerwood.learners.schema import Atom, Key
from ledgerwood.learners.tables import Labels, Table, read_as
from ledgerwood.learners.units import Identities, identities

__all__ = ["part_digest", "read_part", "unit_identities"]


def read_part(
    part: Any,
    columns: Sequence[Column],
    target: str,
    classes: tuple[Atom, ...] | None,
    bounds: tuple[float, float] | None,
    rows: Rows,
) -> tuple[Table, Labels]:
    """Load a part and return the cells and labels of the rows that count and have a label that can be used."""
    loaded = part.load()
    table = read_as(_features(loaded, [column.name for column in columns]), columns, any_type=True)
    if len(table) != part.rows:
        raise ParameterError("part", f"have {part.rows} rows whenever it is loaded", len(table))
    values, keep = usable_labels(loaded[1] if isinstance(loaded, tuple) else loaded[target], classes)
    if rows.keep is not None:
        keep &= rows.keep
    numbers = None if rows.numbers is None else rows.numbers[keep]
    cells = table.cells if keep.all() else tuple(cells[keep] for cells in table.cells)
    kept = Table(table.columns, cells, int(keep.sum()), numbers)
    return kept, labels_of(values[keep], classes, bounds)


def unit_identities(part: Any, unit: Key, key: bytes) -> Identities:
    """Return whom the rows of a part are about, by the column that names the unit of privacy."""
    loaded = part.load([unit]) if isinstance(part, ParquetPart | CsvPart) else part.load()
    return identities(raw_columns(_features(loaded, [unit]), any_type=True)[0].ids(), key)


def part_digest(part: Any, key: bytes) -> str:
    """Return a keyed digest of all cells of a part."""
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
