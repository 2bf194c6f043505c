"""A table in parts that need not fit in memory: Parquet or CSV files, a Dask frame or array, or frames.

Column names, types and row counts are read beforehand (public, as for a table in memory); values are read part by part,
and again whenever a worker has to. A file that changes in between is an error: two answers would be about two tables.
A part never shows its rows when it is printed: clusters log and display the arguments of their tasks. A fitted model
predicts a table in parts by predicting every part where it is (:func:`by_parts`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Protocol

import numpy as np

from ledgerwood.errors import ParameterError
from ledgerwood.learners.data.csv_text import blocks, header
from ledgerwood.learners.data.files import open_files, text_table

__all__ = [
    "CsvPart",
    "DelayedPart",
    "FramePart",
    "ParquetPart",
    "Partitions",
    "TablePart",
    "as_partitions",
    "as_table",
    "by_parts",
    "is_parted",
]


class TablePart(Protocol):
    """Some rows, loadable anywhere."""

    @property
    def rows(self) -> int:
        """How many rows it has."""

    def load(self) -> Any:
        """Return the rows: a table with named columns, the target among them, or a pair of arrays."""


@dataclass(frozen=True)
class FramePart:
    """Rows in memory."""

    frame: Any = field(repr=False)

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return len(self.frame)

    def load(self) -> Any:
        """Return the frame."""
        return self.frame


@dataclass(frozen=True)
class DelayedPart:
    """Rows that a Dask graph makes: a partition of a data frame, or blocks of arrays."""

    piece: Any = field(repr=False)
    rows: int

    def load(self) -> Any:
        """Compute the rows: on a worker through the worker's own client, which frees its thread meanwhile."""
        try:
            from distributed import get_worker, worker_client

            get_worker()
        except (ImportError, ValueError):
            return self.piece.compute()
        with worker_client() as client:
            return client.compute(self.piece).result()


@dataclass(frozen=True)
class ParquetPart:
    """Some row groups of a Parquet file, as it was when the table was opened."""

    path: str
    groups: tuple[int, ...]
    rows: int
    size: int
    modified: int

    def load(self, columns: list[Any] | None = None) -> Any:
        """Read the rows, all columns or some; refuse a file that has changed."""
        from pyarrow import parquet

        _refuse_changed(self.path, self.size, self.modified)
        return parquet.ParquetFile(self.path).read_row_groups(list(self.groups), columns)

    def head(self) -> Any:
        """Return a row or two, for the types of the columns."""
        import pyarrow
        from pyarrow import parquet

        opened = parquet.ParquetFile(self.path)
        return pyarrow.Table.from_batches([next(opened.iter_batches(2, row_groups=list(self.groups)))])


@dataclass(frozen=True)
class CsvPart:
    """Some records of a CSV file, as it was when the table was opened; all cells are texts."""

    path: str
    names: tuple[str, ...] = field(repr=False)
    start: int
    stop: int
    rows: int
    size: int
    modified: int

    def load(self, columns: list[Any] | None = None) -> Any:
        """Read the rows, all columns or some; refuse a file that has changed."""
        import pyarrow

        _refuse_changed(self.path, self.size, self.modified)
        wanted = self.names if columns is None else columns
        read = blocks(self.path, self.start, self.stop)
        return pyarrow.concat_tables([text_table(block, self.names, wanted) for block in read])

    def head(self) -> Any:
        """Return a row or two, for the types of the columns."""
        return text_table(next(blocks(self.path, self.start, self.stop)), self.names, self.names).slice(0, 2)


def _refuse_changed(path: str, size: int, modified: int) -> None:
    now = os.stat(path)
    if (now.st_size, now.st_mtime_ns) != (size, modified):
        raise ParameterError("file", "not change during a training", path, "Write a new folder and start again")


@dataclass(frozen=True)
class Partitions:
    """Parts of one table, and which column is the target.

    ``sample`` has the names and types of the columns; ``types_vary`` says that parts may have others.

    Examples
    --------
    >>> import pandas as pd
    >>> frames = [pd.DataFrame({"a": [0.1, 0.9], "y": [0, 1]}), pd.DataFrame({"a": [0.2], "y": [0]})]
    >>> table = Partitions.of_frames(frames, target="y")
    >>> table.rows, len(table.parts)
    (3, 2)
    """

    parts: tuple[TablePart, ...]
    target: str | None
    sample: Any = field(repr=False)
    types_vary: bool = False

    def __post_init__(self) -> None:
        if not self.parts:
            raise ParameterError("X", "have at least one part with rows", 0)

    @property
    def rows(self) -> int:
        """How many rows there are in all."""
        return sum(part.rows for part in self.parts)

    @classmethod
    def of_frames(cls, frames: Sequence[Any], target: str | None = None) -> Partitions:
        """Take frames as they are; empty ones are left out, but their types must agree with the others' too."""
        kept = [frame for frame in frames if len(frame)]
        if not kept:
            raise ParameterError("X", "have at least one row", 0)
        _same_columns([(f"part {i}", _types(frame)) for i, frame in enumerate(frames)])
        return cls(tuple(FramePart(frame) for frame in kept), target, _head(kept[0]))

    @classmethod
    def of_files(
        cls,
        path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        target: str | None = None,
        *,
        part_rows: int = 1 << 20,
    ) -> Partitions:
        """Open a Parquet or CSV file, a folder of them, or several, in parts of about ``part_rows`` rows.

        Empty parts are left out. Records of CSV files are counted here, which reads the files once.
        """
        files = open_files(path)
        if files.format == "arrow":
            raise ParameterError("X", "be Parquet or CSV files", files.paths[0], "Write the table as Parquet")
        split = _parquet_parts if files.format == "parquet" else _csv_parts
        parts = [part for file in files.paths for part in split(file, part_rows)]
        if not parts:
            raise ParameterError("X", "have at least one row", [str(file) for file in files.paths[:3]])
        return cls(tuple(parts), target, parts[0].head())

    @classmethod
    def of_dask(cls, frame: Any, target: str | None = None) -> Partitions:
        """Take a Dask data frame, partition by partition; each is computed where and when it is needed.

        The types of its columns are those that Dask has on record. A partition may come with others: pandas makes
        floats of integers where one is missing.
        """
        delayed = frame.to_delayed()
        counts = frame.map_partitions(_rows_of, list(frame.columns), meta=("rows", "int64")).compute().tolist()
        parts = tuple(DelayedPart(piece, int(n)) for piece, n in zip(delayed, counts, strict=True) if n)
        if not parts:
            raise ParameterError("X", "have at least one row", 0)
        return cls(parts, target, frame._meta_nonempty, types_vary=True)

    @classmethod
    def of_arrays(cls, X: Any, y: Any) -> Partitions:
        """Take a Dask array of features and one of labels, by blocks of rows; columns have numbers for names."""
        from dask.delayed import delayed

        # Shapes hold the number of rows, which is private: no error shows them.
        if X.ndim != 2 or y.ndim != 1:
            found = f"{X.ndim} and {y.ndim} dimensions"
            raise ParameterError("X, y", "be a matrix and a vector with one row for each record", found)
        if not all(isinstance(n, int) for n in X.shape):
            known = "blocks of unknown length"
            raise ParameterError("X", "have blocks of known length", known, "Call X.compute_chunk_sizes() first")
        if X.shape[0] != y.shape[0]:
            raise ParameterError("X, y", "have the same number of rows", "different numbers")
        X = X.rechunk({1: -1})
        y = y.rechunk((X.chunks[0],))
        pairs = zip(X.to_delayed().ravel(), y.to_delayed().ravel(), X.chunks[0], strict=True)
        parts = tuple(DelayedPart(delayed(_pair)(a, b), int(n)) for a, b, n in pairs if n)
        return cls(parts, None, np.zeros((1, X.shape[1]), dtype=X.dtype), types_vary=True)


def _rows_of(piece: Any, names: list[Any]) -> Any:
    """Return how many rows a partition has; refuse one without the columns that Dask has on record."""
    missing = [name for name in names if name not in piece.columns]
    if missing:
        raise ParameterError("part", "have the same columns as the others", f"<without {missing[:6]}>")
    return len(piece)


def _parquet_parts(file: str, part_rows: int) -> Iterator[ParquetPart]:
    from pyarrow import parquet

    opened, now = parquet.ParquetFile(file), os.stat(file)
    groups: list[int] = []
    rows = 0
    for group in range(opened.num_row_groups):
        groups.append(group)
        rows += opened.metadata.row_group(group).num_rows
        if rows >= part_rows or group == opened.num_row_groups - 1:
            if rows:
                yield ParquetPart(file, tuple(groups), rows, now.st_size, now.st_mtime_ns)
            groups, rows = [], 0


def _csv_parts(file: str, part_rows: int) -> Iterator[CsvPart]:
    names, start = header(file)
    now = os.stat(file)
    rows, stop = 0, start
    for block in blocks(file, start):
        rows, stop = rows + block.records, block.start + len(block.data)
        if rows >= part_rows:
            yield CsvPart(file, tuple(names), start, stop, rows, now.st_size, now.st_mtime_ns)
            rows, start = 0, stop
    if rows:
        yield CsvPart(file, tuple(names), start, stop, rows, now.st_size, now.st_mtime_ns)


def _pair(features: Any, labels: Any) -> tuple[Any, Any]:
    return np.asanyarray(features), np.asanyarray(labels)  # masks stay


def is_parted(X: Any) -> bool:
    """Whether X is a table in parts: a path, an Arrow dataset, a Dask collection, or :class:`Partitions`."""
    module = type(X).__module__.split(".")[0]
    return (
        isinstance(X, Partitions | str | os.PathLike)
        or (module == "pyarrow" and hasattr(X, "get_fragments"))
        or (module in ("dask", "dask_expr") and hasattr(X, "to_delayed"))
    )


def as_partitions(X: Any, y: Any) -> Partitions | None:
    """Return X as partitions if it is a table in parts and y names its target column; None for tables in memory."""
    if not is_parted(X):
        return None
    if isinstance(X, Partitions):
        return X
    if hasattr(X, "to_delayed") and not hasattr(X, "columns"):
        if not hasattr(y, "to_delayed"):
            raise ParameterError("y", "be a Dask array when X is one", type(y).__name__)
        return Partitions.of_arrays(X, y)
    if not isinstance(y, str):
        raise ParameterError("y", "be the name of the target column when X is a table in parts", type(y).__name__)
    return as_table(X, y)


def as_table(X: Any, target: str | None = None) -> Partitions:
    """Return a path, an Arrow dataset, a Dask frame or partitions as partitions."""
    if isinstance(X, Partitions):
        return X
    if isinstance(X, str | os.PathLike):
        return Partitions.of_files(X, target)
    if hasattr(X, "get_fragments"):
        return Partitions.of_files([fragment.path for fragment in X.get_fragments()], target)
    return Partitions.of_dask(X, target)


def _types(frame: Any) -> dict[str, str]:
    if hasattr(frame, "schema") and hasattr(frame.schema, "names") and not hasattr(frame, "dtypes"):
        return {field.name: str(field.type) for field in frame.schema}
    return {str(name): str(kind) for name, kind in zip(frame.columns, list(frame.dtypes), strict=True)}


def _head(frame: Any) -> Any:
    return frame.slice(0, 2) if hasattr(frame, "slice") else frame.iloc[:2]


def _same_columns(types: Sequence[tuple[str, dict[str, str]]]) -> None:
    first = types[0][1]
    for name, other in types[1:]:
        if other != first:
            different = sorted(set(first.items()) ^ set(other.items()))[:6]
            raise ParameterError("X", f"have the same columns and types in every part ({name} differs)", different)


def by_parts(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method of a fitted model take tables in parts too.

    A Dask collection gives a Dask array that is computed when it is asked for; other tables in parts give an array, on
    the workers of the model's engine if it has some.
    """

    @wraps(method)
    def over(self: Any, X: Any) -> Any:
        if not is_parted(X):
            return method(self, X)
        if hasattr(X, "to_delayed"):
            return _lazily(self, method.__name__, X)
        parts = as_table(X).parts
        engine: Any = getattr(self, "engine", None)
        if hasattr(engine, "each"):
            return np.concatenate(engine.each(_of_part, parts, self, method.__name__))
        return np.concatenate([_of_part(part, self, method.__name__) for part in parts])

    return over


def _of_part(part: Any, model: Any, name: str) -> Any:
    return _of_rows(part.load(), model, name)


def _of_rows(rows: Any, model: Any, name: str) -> Any:
    """Predict loaded rows; columns that the model does not know (the target, say) are left out."""
    wanted = getattr(model, "feature_names_in_", None)
    if isinstance(rows, tuple):
        rows = rows[0]
    elif wanted is not None:
        rows = rows.select(list(wanted)) if hasattr(rows, "select") else rows[list(wanted)]
    return getattr(model, name)(rows)


def _lazily(model: Any, name: str, X: Any) -> Any:
    from dask import array
    from dask.delayed import delayed

    classes = getattr(model, "classes_", np.empty(0))
    wide = name == "predict_proba" or (name == "decision_function" and len(classes) > 2)
    dtype = classes.dtype if name == "predict" and len(classes) else np.dtype(np.float64)
    if not hasattr(X, "columns"):
        X = X.rechunk({1: -1})
        sizes = X.chunks[0]
    else:
        sizes = (np.nan,) * X.npartitions
    blocks = []
    for piece, rows in zip(np.ravel(X.to_delayed()), sizes, strict=True):
        shape = (rows, len(classes)) if wide else (rows,)
        found = delayed(_of_rows)(piece, model, name)
        blocks.append(array.from_delayed(found, shape=shape, dtype=dtype))  # type: ignore[no-untyped-call]
    return array.concatenate(blocks)  # type: ignore[no-untyped-call]
