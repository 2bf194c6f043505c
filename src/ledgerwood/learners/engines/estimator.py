"""What an estimator does with a table in parts, beside what it does with one in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.errors import ParameterError
from ledgerwood.learners.base import PrivateEstimator
from ledgerwood.learners.door import Door
from ledgerwood.learners.engines.parted import PartedColumns, engine_of, read_parted
from ledgerwood.learners.engines.partitions import as_partitions
from ledgerwood.learners.facts import PublicFacts
from ledgerwood.learners.schema import Schema
from ledgerwood.learners.tables import Columns

__all__ = ["PartedEstimator"]


class PartedEstimator(PrivateEstimator):
    """A private estimator that also trains on tables in parts, with an ``engine``."""

    engine: Any = None
    n_threads: int | None = None

    @property
    def _engine(self) -> Any:
        return engine_of(self.engine, self.n_threads)

    def _read(self, X: Any, y: Any, schema: Schema) -> tuple[Columns, NDArray[Any], PublicFacts, tuple[str, ...]]:
        source = as_partitions(X, y)
        if source is None:
            if self.engine is not None:
                hint = "Give a Parquet folder, a Dask frame or Partitions.of_frames([...], target=...)"
                raise ParameterError("engine", "be None for a table in memory", self.engine, hint)
            return super()._read(X, y, schema)
        given = read_parted(source, schema, classification=self._task == "classification")
        self.n_features_in_ = len(given.columns)
        names = [column.name for column in given.columns]
        if all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.array(names, dtype=object)
        # Labels are read in the parts; here each public value stands once, so that classes or bounds are known.
        target = np.asarray(schema.classes if self._task == "classification" else schema.target_bounds)
        facts, shown = self._facts(given, target, schema)
        return given, target, facts, shown

    def _digest(self, given: Columns, target: NDArray[Any], key: bytes) -> str:
        if isinstance(given, PartedColumns):
            return given.digest(self._engine, key)
        return super()._digest(given, target, key)

    def _within_units(
        self, given: Columns, target: NDArray[Any], schema: Schema, door: Door
    ) -> tuple[Columns, NDArray[Any]]:
        if isinstance(given, PartedColumns) and schema.unit is not None:
            return given.within_units(self._engine, schema, door.generator().bytes(32)), target
        return super()._within_units(given, target, schema, door)
