"""Partitions streamed through one machine: what has a row for each record lives in files, one part is looked at a time.

The arrays of each part are mapped from unlinked files in a private folder; after a question their pages are given back,
so memory holds about one part whatever the number of parts. The files hold cells of the private table: they are as
sensitive as the table, mode 0600, and gone with the process.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.learners.engines.reading import part_digest, unit_column
from ledgerwood.learners.engines.sums import Ints, Records
from ledgerwood.learners.schema import Key

__all__ = ["OutOfCoreEngine", "OutOfCoreSums"]


@dataclass(frozen=True)
class OutOfCoreEngine:
    """Trains on this machine, part by part.

    Parameters
    ----------
    n_threads
        Threads within a part.
    folder
        Where the files are made; the system's temporary folder by default.
    """

    n_threads: int | None = None
    folder: str | None = None

    def sums(self, records: Sequence[Records]) -> OutOfCoreSums:
        """Return who answers for some parts."""
        return OutOfCoreSums(records, self.n_threads, self.folder)

    def digests(self, parts: Sequence[Any], key: bytes) -> list[str]:
        """Return a keyed digest of each part."""
        return [part_digest(part, key) for part in parts]

    def units(self, parts: Sequence[Any], unit: Key) -> list[NDArray[Any]]:
        """Return the column of each part that names the unit of privacy."""
        return [unit_column(part, unit) for part in parts]


class OutOfCoreSums:
    """Exact sums over parts, one after the other."""

    def __init__(self, records: Sequence[Records], n_threads: int | None, folder: str | None) -> None:
        self._parts: list[tuple[Any, _Files]] = []
        for one in records:
            files = _Files(folder)
            part = one.open(n_threads, files.empty)
            if self._parts and hasattr(part, "threads"):  # one pool for all: each thread keeps memory of its own
                part.threads = self._parts[0][0].threads
            self._parts.append((part, files))
            files.rest()

    def tell(self, name: str, argument: Any) -> None:
        """Tell every part something public."""
        for part, files in self._parts:
            getattr(part, name)(argument)
            files.rest()

    def ask(self, name: str, *arguments: Any) -> Ints:
        """Return the sum of the parts' answers."""
        total: Ints | None = None
        for part, files in self._parts:
            answer: Ints = getattr(part, name)(*arguments)
            total = answer if total is None else total + answer
            files.rest()
        assert total is not None
        return total


class _Files:
    """Makes arrays that live in unlinked files."""

    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        self._maps: list[mmap.mmap] = []

    def empty(self, shape: Any, dtype: Any) -> NDArray[Any]:
        """Return an array of zeros in a file of its own."""
        count = int(np.prod(shape))
        size = count * np.dtype(dtype).itemsize
        if size == 0:
            return np.empty(shape, dtype)
        with tempfile.TemporaryFile(dir=self._folder) as file:  # the mapping keeps the storage
            file.truncate(size)
            mapped = mmap.mmap(file.fileno(), size)
        self._maps.append(mapped)
        return np.frombuffer(mapped, dtype, count).reshape(shape)

    def rest(self) -> None:
        """Give the pages back; their content stays in the files."""
        for mapped in self._maps:
            mapped.madvise(mmap.MADV_DONTNEED)
