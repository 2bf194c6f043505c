"""A table in parts, as the base of the estimators sees it: columns and row count now, values later and elsewhere."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np

from ledgerwood.errors import ParameterError
from ledgerwood.learners.data.cells import number
from ledgerwood.learners.engines.grouping import Rows, grouped
from ledgerwood.learners.engines.partitions import Partitions
from ledgerwood.learners.facts import Column
from ledgerwood.learners.schema import Schema
from ledgerwood.learners.tables import Columns, Table, read_columns

__all__ = ["PartedColumns", "PartedTable", "engine_of", "read_parted"]


@dataclass(frozen=True)
class PartedTable(Table):
    """Columns known by now; the cells stay in their parts."""

    source: Partitions | None = None
    about: tuple[Rows, ...] = ()

    def parts(self) -> Iterator[tuple[Any, int, Rows]]:
        """Yield each part, how many records come before it, and what is known of its rows."""
        assert self.source is not None
        parts = self.source.parts
        about = self.about or (Rows(),) * len(parts)
        sizes = [rows.count(part.rows) for part, rows in zip(parts, about, strict=True)]
        yield from zip(parts, accumulate(sizes, initial=0), about, strict=False)

    @property
    def target(self) -> str:
        """The name of the target's column."""
        return "" if self.source is None or self.source.target is None else self.source.target


@dataclass(frozen=True)
class PartedColumns(Columns):
    """Names and types of a table in parts."""

    source: Partitions | None = None
    about: tuple[Rows, ...] = ()
    drops_unlabelled: ClassVar[bool] = True

    def digest(self, engine: Any, key: bytes) -> str:
        """Return a keyed digest of all parts, taken where the engine has them."""
        assert self.source is not None
        digests = engine.digests(self.source.parts, key)
        return hashlib.blake2b("".join(digests).encode(), key=key, digest_size=32).hexdigest()

    def within_units(self, engine: Any, schema: Schema, key: bytes) -> PartedColumns:
        """Return the table with at most the schema's number of rows for each unit, wherever these lie."""
        assert self.source is not None and schema.unit is not None
        parts = self.source.parts
        units = engine.identities(parts, schema.unit, key)
        return replace(self, about=grouped(units, [part.rows for part in parts], schema.max_rows_per_unit, key))

    def table(self, columns: Sequence[Column] | None = None, *, n_threads: int | None = None) -> Table:
        """Return the table without its values."""
        return PartedTable(tuple(columns or self.columns), (), self.rows, source=self.source, about=self.about)


def engine_of(engine: Any, n_threads: int | None = None) -> Any:
    """Return the engine that a parameter names."""
    if engine is None or (isinstance(engine, str) and engine == "out_of_core"):
        from ledgerwood.learners.engines.out_of_core import OutOfCoreEngine

        return OutOfCoreEngine(n_threads)
    if not hasattr(engine, "sums"):
        raise ParameterError("engine", 'be "out_of_core" or DaskEngine(client)', engine)
    return engine


def _refuse_rounded(sample: Any, schema: Schema, target: str | None) -> None:
    """Refuse columns of integers that one missing value would round in its partition, where that could matter.

    Large ids would merge, and with them the units of others; so would large categories and classes.
    """
    assert schema.categories is not None
    matched: dict[Any, Sequence[Any]] = {**schema.categories, target: schema.classes or ()}
    exact = [name for name, values in matched.items() if any(abs(number(value)) >= 2.0**53 for value in values)]
    for name in [*exact, *([] if schema.unit is None else [schema.unit])]:
        if isinstance(sample, np.ndarray):  # labels are an array of their own, of a type that is not on record
            dtype = np.dtype(np.int64) if name is None else sample.dtype
        else:
            dtype = sample[name].dtype
        if isinstance(dtype, np.dtype) and dtype.kind in "iu" and dtype.itemsize == 8:
            raise ParameterError(
                f"column {name!r}", "have a type that can hold missing values in a Dask frame or array", str(dtype),
                "A partition's integers become floats if one is missing, and large ones merge. Read it with "
                'dtype_backend="pyarrow", or as text or objects; or give the folder of Parquet files itself',
            )  # fmt: skip


def read_parted(source: Partitions, schema: Schema, *, classification: bool) -> PartedColumns:
    """Read names and types of a table in parts; refuse what would need a look at all values before training."""
    sample = source.sample
    if not isinstance(sample, np.ndarray):
        names = list(sample.column_names if hasattr(sample, "column_names") else sample.columns)
        if source.target not in names:
            raise ParameterError("y", f"be a column of the table ({', '.join(map(str, names[:20]))})", source.target)
        features = [name for name in names if name != source.target]
        sample = sample.select(features) if hasattr(sample, "select") else sample[features]
    found = read_columns(sample, schema)
    if source.types_vary:
        _refuse_rounded(source.sample, schema, source.target)
    unknown = [column.name for column in found.columns if not column.is_known]
    if unknown:
        raise ParameterError("schema", "declare bounds or categories of every column of a table in parts", unknown)
    if (schema.classes if classification else schema.target_bounds) is None:
        wanted = "classes" if classification else "target_bounds"
        raise ParameterError("schema", f"declare {wanted} for a table in parts", None)
    return PartedColumns(found.columns, (), None, source.rows, source=source)
