"""A table in parts, as the base of the estimators sees it: columns and row count now, values later and elsewhere."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ledgerwood.errors import ParameterError
from ledgerwood.learners.engines.partitions import Partitions
from ledgerwood.learners.facts import Column
from ledgerwood.learners.schema import Schema
from ledgerwood.learners.tables import Columns, Labels, Table, read_columns
from ledgerwood.learners.trees.seam import Aggregator
from ledgerwood.learners.trees.settings import Settings

__all__ = ["PartedColumns", "PartedTable", "read_parted"]


@dataclass(frozen=True)
class PartedTable(Table):
    """Columns known by now; the cells stay in their parts."""

    source: Partitions | None = None

    def aggregator(self, engine: Any, labels: Labels, settings: Settings, n_threads: int | None) -> Aggregator:
        """Return the aggregator of an engine over the parts."""
        from ledgerwood.learners.engines.replay import Records

        assert self.source is not None
        parts, first = [], 0
        for part in self.source.parts:
            parts.append(
                Records(part, first, self.columns, self.source.target, settings, labels.classes, labels.bounds)
            )
            first += part.rows
        found: Aggregator = engine_of(engine, n_threads).aggregator(parts)
        return found


@dataclass(frozen=True)
class PartedColumns(Columns):
    """Names and types of a table in parts."""

    source: Partitions | None = None

    def digest(self, engine: Any, key: bytes) -> str:
        """Return a keyed digest of all parts, taken where the engine has them."""
        assert self.source is not None
        digests = engine_of(engine, None).digests(self.source.parts, key)
        return hashlib.blake2b("".join(digests).encode(), key=key, digest_size=32).hexdigest()

    def table(self, columns: Sequence[Column] | None = None) -> Table:
        """Return the table without its values."""
        return PartedTable(tuple(columns or self.columns), (), self.rows, self.source)


def engine_of(engine: Any, n_threads: int | None) -> Any:
    """Return the engine that a parameter names."""
    if engine in (None, "out_of_core"):
        from ledgerwood.learners.engines.out_of_core import OutOfCoreEngine

        return OutOfCoreEngine(n_threads)
    if not hasattr(engine, "aggregator"):
        raise ParameterError("engine", 'be "out_of_core" or DaskEngine(client)', engine)
    return engine


def read_parted(source: Partitions, schema: Schema, *, classification: bool) -> PartedColumns:
    """Read names and types of a table in parts; refuse what would need a look at all values before training."""
    names = list(source.sample.column_names if hasattr(source.sample, "column_names") else source.sample.columns)
    if source.target not in names:
        raise ParameterError("y", f"be a column of the table ({', '.join(map(str, names[:20]))})", source.target)
    features = [name for name in names if name != source.target]
    sample = source.sample.select(features) if hasattr(source.sample, "select") else source.sample[features]
    found = read_columns(sample, schema)
    unknown = [column.name for column in found.columns if not column.is_known]
    if unknown:
        raise ParameterError("schema", "declare bounds or categories of every column of a table in parts", unknown)
    if (schema.classes if classification else schema.target_bounds) is None:
        wanted = "classes" if classification else "target_bounds"
        raise ParameterError("schema", f"declare {wanted} for a table in parts", None)
    if schema.unit is not None:
        raise ParameterError(
            "schema", "have no unit for a table in parts: a person's rows may lie in several", schema.unit
        )
    return PartedColumns(found.columns, (), None, source.rows, source)
