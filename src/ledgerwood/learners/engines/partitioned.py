"""Estimators of tables in parts: columns and row count are known at once, values are read later and elsewhere."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ledgerwood.errors import ParameterError
from ledgerwood.learners.data.cells import number
from ledgerwood.learners.data.columns import Column
from ledgerwood.learners.data.partitions import Partitions, as_partitions
from ledgerwood.learners.data.schema import Schema
from ledgerwood.learners.data.table import Columns, Table, read_columns
from ledgerwood.learners.engines.interface import GroupedRows
from ledgerwood.learners.engines.out_of_core import OutOfCoreEngine, grouped
from ledgerwood.learners.training.estimator import PrivateEstimator
from ledgerwood.learners.training.public_metadata import PublicMetadata
from ledgerwood.learners.training.session import ReleaseSession

__all__ = ["PartitionedColumns", "PartitionedEstimator", "PartitionedTable", "engine_of", "read_partitioned"]


@dataclass(frozen=True)
class PartitionedTable(Table):
    """Columns known by now; the values stay in their parts."""

    source: Partitions | None = None
    about: tuple[GroupedRows, ...] = ()

    def parts(self) -> Iterator[tuple[Any, int, GroupedRows]]:
        """Yield each part, how many records come before it, and what is known of its rows."""
        assert self.source is not None
        parts = self.source.parts
        about = self.about or (GroupedRows(),) * len(parts)
        sizes = [rows.count(part.rows) for part, rows in zip(parts, about, strict=True)]
        yield from zip(parts, accumulate(sizes, initial=0), about, strict=False)

    @property
    def target(self) -> str:
        """The name of the target's column."""
        return "" if self.source is None or self.source.target is None else self.source.target


@dataclass(frozen=True)
class PartitionedColumns(Columns):
    """Names and types of a table in parts."""

    source: Partitions | None = None
    about: tuple[GroupedRows, ...] = ()
    drops_unlabelled: ClassVar[bool] = True

    @property
    def counted(self) -> int:
        """How many rows count: exact, and private."""
        assert self.source is not None
        about = self.about or (GroupedRows(),) * len(self.source.parts)
        return sum(rows.count(part.rows) for part, rows in zip(self.source.parts, about, strict=True))

    def digest(self, engine: Any, key: bytes) -> str:
        """Return a keyed digest of all parts, taken where the engine has them."""
        assert self.source is not None
        digests = engine.digests(self.source.parts, key)
        return hashlib.blake2b("".join(digests).encode(), key=key, digest_size=32).hexdigest()

    def within_units(self, engine: Any, schema: Schema, key: bytes) -> PartitionedColumns:
        """Return the table with at most the schema's number of rows for each unit, wherever these lie."""
        assert self.source is not None and schema.unit is not None
        parts = self.source.parts
        units = engine.identities(parts, schema.unit, key)
        return replace(self, about=grouped(units, [part.rows for part in parts], schema.max_rows_per_unit, key))

    def table(self, columns: Sequence[Column] | None = None, *, n_threads: int | None = None) -> Table:
        """Return the table without its values."""
        return PartitionedTable(tuple(columns or self.columns), (), self.rows, source=self.source, about=self.about)


def engine_of(engine: Any, n_threads: int | None = None) -> Any:
    """Return the engine that a parameter names."""
    if engine is None or (isinstance(engine, str) and engine == "out_of_core"):
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


def read_partitioned(source: Partitions, schema: Schema, *, classification: bool) -> PartitionedColumns:
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
    return PartitionedColumns(found.columns, (), None, source.rows, source=source)


class PartitionedEstimator(PrivateEstimator):
    """A private estimator that also trains on tables in parts, with an ``engine``."""

    engine: Any = None
    n_threads: int | None = None

    @property
    def _engine(self) -> Any:
        return engine_of(self.engine, self.n_threads)

    def _read(self, X: Any, y: Any, schema: Schema) -> tuple[Columns, NDArray[Any], PublicMetadata, tuple[str, ...]]:
        source = as_partitions(X, y)
        if source is None:
            if self.engine is not None:
                hint = "Give a Parquet folder, a Dask frame or Partitions.of_frames([...], target=...)"
                raise ParameterError("engine", "be None for a table in memory", self.engine, hint)
            return super()._read(X, y, schema)
        given = read_partitioned(source, schema, classification=self._task == "classification")
        self.n_features_in_ = len(given.columns)
        names = [column.name for column in given.columns]
        if all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.array(names, dtype=object)
        # Labels are read in the parts; here each public value stands once, so that classes or bounds are known.
        target = np.asarray(schema.classes if self._task == "classification" else schema.target_bounds)
        metadata, shown = self._metadata(given, target, schema)
        return given, target, metadata, shown

    def _digest(self, given: Columns, target: NDArray[Any], key: bytes) -> str:
        if isinstance(given, PartitionedColumns):
            return given.digest(self._engine, key)
        return super()._digest(given, target, key)

    def _within_units(
        self, given: Columns, target: NDArray[Any], schema: Schema, session: ReleaseSession
    ) -> tuple[Columns, NDArray[Any]]:
        if isinstance(given, PartitionedColumns) and schema.unit is None:
            self._engine.check()  # the number of rows is released without it
        elif isinstance(given, PartitionedColumns):
            return given.within_units(self._engine, schema, session.generator().bytes(32)), target
        return super()._within_units(given, target, schema, session)
