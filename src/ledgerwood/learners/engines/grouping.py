"""Which rows of a table in parts are kept of each unit, and their numbers, in bounded memory.

A unit's rows may lie in any parts, so somebody has to see all identities. They are distributed over files by their
first bits, then each file is looked at alone: memory holds one part and one file, whatever the number of rows. What is
found (a byte for each row, and a number of 8 bytes for each record if rows are sampled) lives in files as well.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import IO

import numpy as np
from numpy.typing import NDArray

from ledgerwood.learners.engines.files import Files
from ledgerwood.learners.units import Identities, kept, record_numbers

__all__ = ["Rows", "grouped"]

_BUCKET_ROWS = 1 << 21
_MOST_BUCKETS = 256
_ROW = np.dtype([("unit", np.uint64, 2), ("row", np.uint64)])


@dataclass(frozen=True)
class Rows:
    """What is known of the rows of one part.

    Attributes
    ----------
    keep
        ``bool[rows]``: which of them count; None for all.
    numbers
        ``uint64[rows]``: a number for each row that counts, different from those of all other records (0 for one that
        does not); None if samples go by the place in the table.
    """

    keep: NDArray[np.bool_] | None = field(default=None, repr=False)
    numbers: NDArray[np.uint64] | None = field(default=None, repr=False)

    def count(self, rows: int) -> int:
        """Return how many of a part's rows count."""
        return rows if self.keep is None else int(self.keep.sum())


def grouped(units: Iterable[Identities], sizes: Sequence[int], k: int, key: bytes) -> tuple[Rows, ...]:
    """Return the rows that count of each part: at most k of each unit, numbered if that is one row for each unit.

    Parameters
    ----------
    units
        The identities of the rows of each part, in the order of the parts; taken once.
    sizes
        How many rows each part has.
    k, key
        As in :func:`ledgerwood.learners.units.keep_rows`.
    """
    total = sum(sizes)
    bits = min(max(total // _BUCKET_ROWS, 1), _MOST_BUCKETS).bit_length() - 1
    files = Files(None)
    keep, numbers = files.empty(total, bool), files.empty(total if k == 1 else 0, np.uint64)
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
            stay = kept(rows["unit"], k, key)
            keep[rows["row"]] = stay
            if k == 1:
                numbers[rows["row"][stay]] = record_numbers(rows["unit"][stay]) + np.uint64(before)
                before += int(stay.sum())
    files.rest()
    found_rows = []
    for a, b in pairwise(accumulate(sizes, initial=0)):
        whole = bool(keep[a:b].all())
        found_rows.append(Rows(None if whole else keep[a:b], numbers[a:b] if k == 1 else None))
    return tuple(found_rows)


def _distribute(units: Identities, first: int, bits: int, buckets: Sequence[IO[bytes]]) -> None:
    """Append each row to the file of the first bits of its unit's identity."""
    place = units[:, 0] >> np.uint64(64 - bits) if bits else np.zeros(len(units), dtype=np.uint64)
    order = np.argsort(place, kind="stable")
    rows = np.empty(len(units), dtype=_ROW)
    rows["unit"], rows["row"] = units[order], order + first
    cuts = np.searchsorted(place[order], np.arange(len(buckets) + 1))
    for file, (a, b) in zip(buckets, pairwise(cuts), strict=True):
        file.write(rows[a:b].tobytes())
