"""Tables in files: a CSV, Parquet or Arrow file, or a folder of files of one of these formats.

Parquet and Arrow files have types, and each cell has that of its column. A CSV file has none: its cells are texts
(:mod:`.csv_text`), and the schema has to say what each column holds; nothing is guessed from the values.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ledgerwood.errors import FormatError, ParameterError, did_you_mean
from ledgerwood.learners.data.csv_text import Block, Fields, blocks, header, plain_columns
from ledgerwood.learners.data.schema import Schema
from ledgerwood.learners.data.threads import available_threads

if TYPE_CHECKING:
    import pyarrow

__all__ = ["FORMATS", "TableFiles", "open_files", "read_training", "text_table"]

FORMATS = {
    ".csv": "csv", ".parquet": "parquet", ".pq": "parquet", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow",
}  # fmt: skip
"""The format of a file, by the end of its name."""

Progress = Callable[[int, int], None]
"""Called with how many bytes were read and how many there are."""


@dataclass(frozen=True)
class TableFiles:
    """Files with the same columns, of one format."""

    paths: tuple[str, ...]
    format: str
    types: tuple[tuple[str, str], ...]

    @property
    def names(self) -> list[str]:
        """The columns' names, in their order."""
        return [name for name, _ in self.types]

    @property
    def has_types(self) -> bool:
        """Whether the format says what each column holds."""
        return self.format != "csv"

    def read(
        self,
        columns: Sequence[str] | None = None,
        *,
        numbers: frozenset[str] = frozenset(),
        progress: Progress | None = None,
    ) -> pyarrow.Table:
        """Return columns of all files as one Arrow table; those of a CSV file are texts, or float64 for ``numbers``."""
        import pyarrow

        wanted = self.names if columns is None else list(columns)
        if self.format == "csv":
            return pyarrow.concat_tables(list(self._csv_blocks(wanted, numbers, progress)))
        return self._dataset.to_table(columns=wanted)

    @cached_property
    def _dataset(self) -> Any:
        from pyarrow import dataset

        return dataset.dataset(list(self.paths), format=self.format)

    def _csv_blocks(
        self, wanted: Sequence[str], numbers: frozenset[str], progress: Progress | None
    ) -> Iterator[pyarrow.Table]:
        sizes = list(map(os.path.getsize, self.paths))
        threads = available_threads()
        waiting: deque[tuple[Future[pyarrow.Table], int]] = deque()

        def finished() -> pyarrow.Table:
            table, place = waiting.popleft()
            if progress is not None:
                progress(place, sum(sizes))
            return table.result()

        yield text_table(Block(0, np.empty(0, dtype=np.uint8), 0), self.names, wanted, numbers)
        with ThreadPoolExecutor(threads) as pool:
            for path, before in zip(self.paths, accumulate(sizes, initial=0), strict=False):
                for block in blocks(path, header(path)[1]):
                    made = pool.submit(text_table, block, self.names, wanted, numbers)
                    waiting.append((made, before + block.start + len(block.data)))
                    if len(waiting) > 2 * threads:
                        yield finished()
            while waiting:
                yield finished()


def text_table(
    block: Block, names: Sequence[str], wanted: Sequence[str], numbers: frozenset[str] = frozenset()
) -> pyarrow.Table:
    """Return columns of a block of CSV text as an Arrow table: texts as they are, or float64 for ``numbers``."""
    import pyarrow

    plain = plain_columns(block, names, wanted, numbers)
    if plain is not None:
        return plain
    fields, places = Fields(block, len(names)), {name: i for i, name in enumerate(names)}
    return pyarrow.table({
        name: pyarrow.array(fields.numbers(places[name])) if name in numbers else fields.texts(places[name])
        for name in wanted
    })  # fmt: skip


def open_files(path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> TableFiles:
    """Look at the names and types of the columns of a file, of the files of a folder, or of some files; read no row."""
    paths = _found(path)
    formats = {FORMATS[Path(one).suffix.lower()] for one in paths}
    if len(formats) > 1:
        raise FormatError(f"{path} holds files of several formats: {', '.join(sorted(formats))}")
    kind = formats.pop()
    described = [(one, _types(one, kind)) for one in paths]
    first = described[0][1]
    for one, other in described:
        if other != first:
            different = sorted(set(first) ^ set(other))[:6] or "the same ones in another order"
            raise FormatError(f"{one} has other columns or types than {described[0][0]}: {different}")
    names = [name for name, _ in first]
    if len(set(names)) < len(names):
        raise FormatError(f"{paths[0]} must name each column differently, got {names[:20]}")
    return TableFiles(tuple(paths), kind, first)


def _found(path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    endings = ", ".join(FORMATS)
    if not isinstance(path, str | os.PathLike):
        paths = [os.fspath(one) for one in path]
    elif os.path.isdir(path):
        hidden = (".", "_")
        paths = sorted(
            str(one)
            for one in Path(path).rglob("*")
            if one.suffix.lower() in FORMATS
            and one.is_file()
            and not any(part.startswith(hidden) for part in one.relative_to(path).parts)
        )
    else:
        paths = [os.fspath(path)]
    if not paths:
        raise FormatError(f"{path} holds no files that end in {endings}")
    for one in paths:
        if not os.path.isfile(one):
            raise FormatError(f"there is no file {one!r}")
        if Path(one).suffix.lower() not in FORMATS:
            raise FormatError(f"{one} must end in {endings}")
    return paths


def _types(path: str, kind: str) -> tuple[tuple[str, str], ...]:
    if kind == "csv":
        return tuple((name, "text") for name in header(path)[0])
    import pyarrow
    from pyarrow import dataset

    try:
        schema = dataset.dataset(path, format=kind).schema
    except (OSError, pyarrow.ArrowException):
        raise FormatError(f"{path} could not be read as {kind}") from None
    return tuple((field.name, str(field.type)) for field in schema)


def read_training(
    files: TableFiles,
    target: str,
    schema: Schema,
    *,
    columns: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> tuple[pyarrow.Table, pyarrow.ChunkedArray]:
    """Return features and labels; ``columns`` are the features, by default all columns but the target."""
    for name in (target, *(columns or ())):
        if name not in files.names:
            raise ParameterError("column", "be a column of the table", name, did_you_mean(name, files.names))
    features = [name for name in files.names if name != target] if columns is None else list(columns)
    if not features:
        raise FormatError(f"{files.paths[0]} has no column besides the target")
    _check_declared(files, features, schema)
    assert schema.bounds is not None and schema.kinds is not None
    numbers = {*schema.bounds, *(name for name, kind in schema.kinds.items() if kind == "number")}
    if schema.classes is None:
        numbers.add(target)
    table = files.read([*features, target], numbers=frozenset(map(str, numbers)), progress=progress)
    if not len(table):
        raise FormatError(f"{files.paths[0]} has no rows")
    return table.select(features), table[target]


def _check_declared(files: TableFiles, features: Sequence[str], schema: Schema) -> None:
    """A CSV file does not distinguish numbers from categories, and the values must not decide."""
    assert schema.bounds is not None and schema.categories is not None and schema.kinds is not None
    known = {*schema.bounds, *schema.categories, *schema.kinds, schema.unit}
    open_ = [name for name in features if name not in known]
    if open_ and not files.has_types:
        raise ParameterError(
            "schema", "say what every column of a CSV file holds", f"nothing about {open_[:20]}",
            f'Declare its bounds or its categories if they are public, or only kinds = {{ {open_[0]} = "number" }} (or '
            '"category") to have them learned privately. "ledgerwood schema draft FILE" writes a first version; it '
            "looks at the data. Parquet files have types and need none of this",
        )  # fmt: skip
