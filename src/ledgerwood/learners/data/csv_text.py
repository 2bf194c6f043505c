r"""CSV files as columns of text, in blocks of whole records. No record raises; only the header does, which is public.

Cells are texts here, not checked to be UTF-8, and nothing is guessed from them. An empty cell is missing. A record with
too few fields has missing cells; of one with too many the surplus is left out. The grammar is in :mod:`._kernels`. One
thing no reader can mend: an unbalanced quote takes the records after it into its cell, so whoever writes the file
vouches for its quoting.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ledgerwood.errors import FormatError
from ledgerwood.learners.data.cells import numbers_of_text
from ledgerwood.learners.data.threads import TUNING

if TYPE_CHECKING:
    import pyarrow

__all__ = ["Block", "Fields", "blocks", "header", "plain_columns"]

_QUOTE = 34
_BOM = b"\xef\xbb\xbf"
_NO_LIMIT = 2**62
_POWERS = np.array([float(10**i) for i in range(23)])


@dataclass(frozen=True)
class Block:
    """Whole records of a file: where they begin, their bytes, and how many they are."""

    start: int
    data: NDArray[np.uint8]
    records: int


def header(path: str | os.PathLike[str]) -> tuple[list[str], int]:
    """Return the names of the columns, and where the records begin."""
    from ledgerwood.learners.data._kernels import record_ends

    found, end, data, begin = 0, 0, b"", 0
    with open(path, "rb") as file:
        while not found:
            more = file.read(max(len(data), 1 << 16))
            data += more
            begin = len(_BOM) if data.startswith(_BOM) else 0
            found, end = record_ends(np.frombuffer(data, dtype=np.uint8)[begin:], not more, 1)
            if not more:
                break
    name = Path(path).name
    try:
        text = data[begin : begin + end].decode("utf-8")
    except UnicodeDecodeError:
        raise FormatError(f"{name} must name its columns in UTF-8 in its first line") from None
    names = next((row for row in csv.reader(io.StringIO(text, newline="")) if row), [])
    if not names or "" in names or len(set(names)) < len(names):
        raise FormatError(
            f"{name} must name its columns in its first line, each differently, separated by commas, got {names[:20]}"
        )
    return names, begin + end


def blocks(
    path: str | os.PathLike[str], start: int, stop: int | None = None, *, size: int = TUNING.csv_block
) -> Iterator[Block]:
    """Yield the records of a file from one place to another, ``size`` bytes or one record at a time."""
    with open(path, "rb") as file:
        end = os.fstat(file.fileno()).st_size if stop is None else stop
        most = size
        while start < end:
            file.seek(start)
            text = file.read(min(most, end - start))
            data = np.frombuffer(text, dtype=np.uint8)
            records, used = _complete(text, data, final=start + len(text) >= end or len(text) < most)
            if records:
                yield Block(start, data[:used], records)
            if not text:  # the file has become shorter
                break
            start, most = start + used, size if used else 2 * most  # a record longer than what was read: read more


def _complete(text: bytes, data: NDArray[np.uint8], *, final: bool) -> tuple[int, int]:
    """Return how many records are complete, and where the last of them ends."""
    from ledgerwood.learners.data._kernels import count_lines, record_ends

    if b'"' in text or b"\r" in text or (final and text[-1:] != b"\n"):
        return record_ends(data, final, _NO_LIMIT)
    return count_lines(data), text.rfind(b"\n") + 1


def plain_columns(
    block: Block, names: Sequence[str], wanted: Sequence[str], numbers: Container[str]
) -> pyarrow.Table | None:
    """Return columns as Arrow's own reader gives them, in a quarter of the time; None where it is not sure to do.

    It raises on what it does not take for a number, and on records with more or fewer fields; it frames quotes by rules
    of its own, and leaves out a byte order mark where a block begins, which depends on the records before. Such blocks
    are left to :class:`Fields`, which gives the same columns for all others too.
    """
    import pyarrow
    from pyarrow import csv as arrow_csv

    if np.any(block.data == _QUOTE) or block.data[: len(_BOM)].tobytes() == _BOM:
        return None
    types = {name: pyarrow.float64() if name in numbers else pyarrow.large_string() for name in wanted}
    try:
        table = arrow_csv.read_csv(
            pyarrow.py_buffer(block.data),
            arrow_csv.ReadOptions(use_threads=False, column_names=list(names)),
            arrow_csv.ParseOptions(quote_char=False),
            arrow_csv.ConvertOptions(
                check_utf8=False, column_types=types, include_columns=list(wanted), null_values=[""],
                strings_can_be_null=True,
            ),
        )  # fmt: skip
    except pyarrow.ArrowInvalid:
        return None
    return table if len(table) == block.records else None


class Fields:
    """Where the fields of a block lie; columns are made of them by their numbers."""

    def __init__(self, block: Block, width: int) -> None:
        from ledgerwood.learners.data._kernels import field_places

        self._data = block.data
        self._starts, self._stops = (np.zeros((width, block.records), dtype=np.int64) for _ in range(2))
        field_places(block.data, self._starts, self._stops)

    def texts(self, column: int) -> pyarrow.Array:
        """Return a column as texts; an empty field is null."""
        return self._texts(self._starts[column], self._stops[column])

    def numbers(self, column: int) -> NDArray[np.float64]:
        """Return what :func:`~ledgerwood.learners.data.cells.number` gives for each field of a column."""
        import pyarrow

        from ledgerwood.learners.data._kernels import plain_numbers

        starts, stops = self._starts[column], self._stops[column]
        found = np.empty(len(starts))
        left = np.flatnonzero(plain_numbers(self._data, starts, stops, _POWERS, found))
        if len(left):
            found[left] = numbers_of_text(pyarrow.chunked_array([self._texts(starts[left], stops[left])]))
        return found

    def _texts(self, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> pyarrow.Array:
        import pyarrow

        from ledgerwood.learners.data._kernels import copy_fields

        offsets, out = np.empty(len(starts) + 1, dtype=np.int64), np.empty(int(np.sum(stops - starts)), dtype=np.uint8)
        copy_fields(self._data, starts, stops, offsets, out)
        valid = np.packbits(np.diff(offsets) > 0, bitorder="little")
        buffers = [pyarrow.py_buffer(part) for part in (valid, offsets, out)]
        return pyarrow.Array.from_buffers(pyarrow.large_string(), len(starts), buffers)
