"""Partitions streamed through one machine: what has a row for each record lives in files, one part is looked at a time.

The arrays of each part are mapped from unlinked files in a private folder; after a question their pages are given back,
so memory holds about one part whatever the number of parts. The files hold cells of the private table: they are as
sensitive as the table, mode 0600, and gone with the process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ledgerwood.learners.engines.files import Files
from ledgerwood.learners.engines.reading import part_digest, unit_identities
from ledgerwood.learners.engines.sums import Ints, Records
from ledgerwood.learners.schema import Key
from ledgerwood.learners.units import Identities

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

    def identities(self, parts: Sequence[Any], unit: Key, key: bytes) -> Iterator[Identities]:
        """Yield whom the rows of each part are about."""
        return (unit_identities(part, unit, key) for part in parts)


class OutOfCoreSums:
    """Exact sums over parts, one after the other."""

    def __init__(self, records: Sequence[Records], n_threads: int | None, folder: str | None) -> None:
        self._parts: list[tuple[Any, Files]] = []
        for one in records:
            files = Files(folder)
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
