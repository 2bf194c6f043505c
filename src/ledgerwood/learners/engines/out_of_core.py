"""Partitions streamed through one machine: what has a row for each record lives in files, one part is read at a time.

The arrays of each part are mapped from unlinked files in a private folder, and their pages are given back after every
query, so memory holds about one part whatever the number of parts. The files hold values of the private table: they
are as sensitive as the table, mode 0600, and gone with the process.

A privacy unit may have rows in any part, so all identities have to be compared. They are distributed over files by
their first bits, then each file is looked at alone: memory holds one part and one file, whatever the number of rows.
What is found (a byte for each row, and a number of 8 bytes for each record if rows are sampled) lives in files as well.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.learners.data.columns import Ints, Key
from ledgerwood.learners.data.privacy_unit import Identities, kept, record_numbers
from ledgerwood.learners.data.threads import TUNING
from ledgerwood.learners.engines.interface import GroupedRows, Records, part_digest, unit_identities

__all__ = ["OutOfCoreEngine", "OutOfCoreSums", "SpillFiles", "grouped"]


class SpillFiles:
    """Makes arrays that live in unlinked files of a folder; None for the system's temporary one."""

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

    def evict(self) -> None:
        """Give the pages back; their content stays in the files."""
        for mapped in self._maps:
            mapped.madvise(mmap.MADV_DONTNEED)


_ROW = np.dtype([("unit", np.uint64, 2), ("row", np.uint64)])


def grouped(
    units: Iterable[Identities],
    sizes: Sequence[int],
    max_rows: int,
    key: bytes,
    *,
    bucket_rows: int = TUNING.bucket_rows,
) -> tuple[GroupedRows, ...]:
    """Return the rows that count of each part: at most ``max_rows`` of each privacy unit, numbered if that is one.

    Parameters
    ----------
    units
        The identities of the rows of each part, in the order of the parts; taken once.
    sizes
        How many rows each part has.
    max_rows, key
        As in :func:`ledgerwood.learners.data.privacy_unit.keep_rows`.
    bucket_rows
        Rows of a file; those of a privacy unit are in one.
    """
    total = sum(sizes)
    bits = min(max(total // bucket_rows, 1), TUNING.most_buckets).bit_length() - 1
    files = SpillFiles(None)
    keep, numbers = files.empty(total, bool), files.empty(total if max_rows == 1 else 0, np.uint64)
    with ExitStack() as open_files:
        buckets = [open_files.enter_context(tempfile.TemporaryFile()) for _ in range(1 << bits)]
        first = 0
        for found in units:
            _distribute(found, first, bits, buckets)
            first += len(found)
        before = 0
        for bucket in buckets:
            bucket.seek(0)
            rows = np.frombuffer(bucket.read(), dtype=_ROW)
            stay = kept(rows["unit"], max_rows, key)
            keep[rows["row"]] = stay
            if max_rows == 1:
                numbers[rows["row"][stay]] = record_numbers(rows["unit"][stay]) + np.uint64(before)
                before += int(stay.sum())
    files.evict()
    found_rows = []
    for a, b in pairwise(accumulate(sizes, initial=0)):
        whole = bool(keep[a:b].all())
        found_rows.append(GroupedRows(None if whole else keep[a:b], numbers[a:b] if max_rows == 1 else None))
    return tuple(found_rows)


def _distribute(units: Identities, first: int, bits: int, buckets: Sequence[IO[bytes]]) -> None:
    """Append each row to the file of the first bits of its unit's identity."""
    place = units[:, 0] >> np.uint64(64 - bits) if bits else np.zeros(len(units), dtype=np.uint64)
    order = np.argsort(place, kind="stable")
    rows = np.empty(len(units), dtype=_ROW)
    rows["unit"], rows["row"] = units[order], order + first
    ends = np.searchsorted(place[order], np.arange(len(buckets) + 1))
    for file, (a, b) in zip(buckets, pairwise(ends), strict=True):
        file.write(rows[a:b].tobytes())


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

    def check(self) -> None:
        """There is nothing that could be missing."""

    def sums(self, records: Sequence[Records]) -> OutOfCoreSums:
        """Return the object that sums over some parts."""
        return OutOfCoreSums(records, self.n_threads, self.folder)

    def digests(self, parts: Sequence[Any], key: bytes) -> list[str]:
        """Return a keyed digest of each part."""
        return [part_digest(part, key) for part in parts]

    def identities(self, parts: Sequence[Any], unit: Key, key: bytes) -> Iterator[Identities]:
        """Yield the identities of the rows of each part."""
        return (unit_identities(part, unit, key) for part in parts)


class OutOfCoreSums:
    """Exact sums over parts, one after the other."""

    def __init__(self, records: Sequence[Records], n_threads: int | None, folder: str | None) -> None:
        self._parts: list[tuple[Any, SpillFiles]] = []
        for one in records:
            files = SpillFiles(folder)
            part = one.open(n_threads, files.empty)
            if self._parts and hasattr(part, "threads"):  # one pool for all: each thread keeps memory of its own
                part.threads = self._parts[0][0].threads
            self._parts.append((part, files))
            files.evict()

    def broadcast(self, name: str, argument: Any) -> None:
        """Send every part something public."""
        for part, files in self._parts:
            getattr(part, name)(argument)
            files.evict()

    def query(self, name: str, *arguments: Any) -> Ints:
        """Return the sum of the parts' answers."""
        total: Ints | None = None
        for part, files in self._parts:
            answer: Ints = getattr(part, name)(*arguments)
            total = answer if total is None else total + answer
            files.evict()
        assert total is not None
        return total
