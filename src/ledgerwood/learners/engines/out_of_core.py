"""Partitions streamed through one machine: codes and scores live in files, one part is looked at at a time.

Each part is a local aggregator whose arrays are mapped from unlinked files in a private folder; after a question its
pages are given back, so memory holds about one part whatever the number of parts. The files hold cells of the private
table: they are as sensitive as the table, mode 0600, and gone with the process.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.learners.engines.replay import Records, part_digest
from ledgerwood.learners.trees.local import LocalAggregator
from ledgerwood.learners.trees.seam import Channel, Edges, PartialTree, Sample, Structure, Task, Tree

__all__ = ["OutOfCoreAggregator", "OutOfCoreEngine"]

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class OutOfCoreEngine:
    """Trains on this machine, part by part."""

    n_threads: int | None = None

    def aggregator(self, parts: Sequence[Records]) -> OutOfCoreAggregator:
        """Return the aggregator of some parts."""
        return OutOfCoreAggregator(parts, n_threads=self.n_threads)

    def digests(self, parts: Sequence[Any], key: bytes) -> list[str]:
        """Return a keyed digest of each part."""
        return [part_digest(part, key) for part in parts]


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


class _SpilledPart(LocalAggregator):
    """A part whose arrays live in files, and whose columns are read again when they are coded again."""

    def __init__(self, records: Records, n_threads: int | None, folder: str | None) -> None:
        self._source, self.files = records, _Files(folder)
        cells, labels = records.read()
        super().__init__(cells, labels, n_threads=n_threads, first_record=records.first_record, empty=self.files.empty)
        self._forget_columns()

    def _forget_columns(self) -> None:
        self._columns = [np.empty(0, dtype=column.dtype) for column in self._columns]

    def bin(self, edges: Edges) -> None:
        self.use_columns(self._source.read()[0])
        super().bin(edges)
        self._forget_columns()


class OutOfCoreAggregator:
    """Exact sums over parts, one after the other.

    Parameters
    ----------
    parts
        The records of each part.
    n_threads
        Threads within a part.
    folder
        Where the files are made; the system's temporary folder by default.
    """

    def __init__(self, parts: Sequence[Records], *, n_threads: int | None = None, folder: str | None = None) -> None:
        self._parts = []
        for records in parts:
            part = _SpilledPart(records, n_threads, folder)
            part.files.rest()
            self._parts.append(part)

    @property
    def n_features(self) -> int:
        """How many features there are."""
        return self._parts[0].n_features

    def start(self, task: Task) -> None:
        self._tell("start", task)

    def bin(self, edges: Edges) -> None:
        self._tell("bin", edges)

    def sample(self, sample: Sample | None) -> None:
        self._tell("sample", sample)

    def add(self, trees: Sequence[Tree]) -> None:
        self._tell("add", trees)

    def histogram(self, tree: PartialTree, features: NDArray[np.int32], channel: Channel) -> Ints:
        return self._sum("histogram", tree, features, channel)

    def leaf_sums(self, trees: Sequence[Structure], channel: Channel) -> Ints:
        return self._sum("leaf_sums", trees, channel)

    def _tell(self, name: str, argument: Any) -> None:
        for part in self._parts:
            getattr(part, name)(argument)
            part.files.rest()

    def _sum(self, name: str, *arguments: Any) -> Ints:
        total: Ints | None = None
        for part in self._parts:
            answer: Ints = getattr(part, name)(*arguments)
            total = answer if total is None else total + answer
            part.files.rest()
        assert total is not None
        return total
