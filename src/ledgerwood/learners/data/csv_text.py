r"""CSV files as columns of text, in blocks of whole records. No record raises; only the header does, which is public.

Cells are texts here, not checked to be UTF-8, and nothing is guessed from them. An empty cell is missing. A record with too few fields has
missing cells; of one with too many the surplus is left out. The grammar is in :mod:`._kernels`. One thing no reader can
mend: an unbalanced quote takes the records after it into its cell, so whoever writes the file vouches for its quoting.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ledgerwood.errors import FormatError

if TYPE_CHECKING:
    import pyarrow

__all__ = ["Block", "blocks", "header", "text_columns"]

_BLOCK_BYTES = 1 << 24
_BOM = b"\xef\xbb\xbf"
_NO_LIMIT = 2**62


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
            f"{name} must name its columns in its first line, each differently and separated by commas, got {names[:20]}"
        )
    return names, begin + end


def blocks(path: str | os.PathLike[str], start: int, stop: int | None = None) -> Iterator[Block]:
    """Yield the records of a file from one place to another, some megabytes at a time."""
    from ledgerwood.learners.data._kernels import record_ends

    rest = b""
    with open(path, "rb") as file:
        end = os.fstat(file.fileno()).st_size if stop is None else stop
        file.seek(start)
        while start + len(rest) < end:
            # A record longer than a block: what is read grows as fast as what is already there.
            rest += file.read(min(max(len(rest), _BLOCK_BYTES), end - start - len(rest)))
            data = np.frombuffer(rest, dtype=np.uint8)
            records, used = record_ends(data, start + len(rest) >= end, _NO_LIMIT)
            if records:
                yield Block(start, data[:used], records)
            start, rest = start + used, rest[used:]


def text_columns(block: Block, width: int, wanted: Sequence[int]) -> list[pyarrow.Array]:
    """Return columns of a block by their numbers, as Arrow arrays of text; ``width`` is how many columns there are."""
    import pyarrow

    from ledgerwood.learners.data._kernels import copy_fields, field_places

    starts, stops = (np.zeros((width, block.records), dtype=np.int64) for _ in range(2))
    field_places(block.data, starts, stops)
    found = []
    for column in wanted:
        size = int(np.sum(stops[column] - starts[column]))
        offsets, out = np.empty(block.records + 1, dtype=np.int64), np.empty(size, dtype=np.uint8)
        copy_fields(block.data, starts[column], stops[column], offsets, out)
        valid = np.packbits(np.diff(offsets) > 0, bitorder="little")
        buffers = [pyarrow.py_buffer(part) for part in (valid, offsets, out)]
        found.append(pyarrow.Array.from_buffers(pyarrow.large_string(), block.records, buffers))
    return found
