"""Party B's release on disk: charged, drawn, written whole, and only then shown to anyone.

The order is what makes a crash harmless:

1. The ledger records the charge.
2. The outputs are drawn, and written with their manifest to the folder; both are synced.
3. The ledger records that they are written, with the digest of the manifest (an entry that costs nothing).
4. Only now may a byte be sent.

A crash after 1 leaves a charge and no file; nothing was sent, so the outputs are drawn anew *under that charge*. A
crash after 2 leaves the files; step 3 is made up for. Once 3 is recorded, the files are the release: if they are gone
or changed, or the name or the parameters of the party are others, a new draw would be a second release, and is refused
whatever budget is left. Files without a charge in the ledger are refused too: their ledger is lost.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood._files import put_in_place, read_json, sync, write_json
from ledgerwood.accounting import Ledger, zero
from ledgerwood.errors import ReleaseRefused
from ledgerwood.learners.vertical.columns import Column
from ledgerwood.learners.vertical.messages import VERSION, WireColumn
from ledgerwood.learners.vertical.release import WITHHELD, TableRelease

_WRITTEN = ": written "


@dataclass(frozen=True)
class Stored:
    """A release on disk: the wire columns, their numbers, and the values that the numbers stand for."""

    folder: Path
    rows: int
    columns: tuple[WireColumn, ...]
    values: tuple[tuple[float, ...], ...]
    digest: str
    ids: str

    @property
    def row_bytes(self) -> int:
        """Bytes of one record."""
        return sum(column.bytes for column in self.columns)

    def mapped(self) -> list[NDArray[Any]]:
        """The columns, straight from the file."""
        return map_columns(self.folder / "columns.bin", self.columns, self.rows)


def map_columns(path: Path, columns: Sequence[WireColumn], rows: int) -> list[NDArray[Any]]:
    """The columns of a file, one after the other, without reading them."""
    if not rows:
        return [np.empty(0, dtype=column.dtype) for column in columns]
    mapped: list[NDArray[Any]] = []
    start = 0
    for column in columns:
        mapped.append(np.memmap(path, dtype=column.dtype, mode="r", offset=start, shape=(rows,)))
        start += rows * column.bytes
    return mapped


def file_digest(path: Path) -> str:
    """SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _Note:
    """Costs nothing and releases nothing: a line in the journal."""

    cost = zero("replace_one")
    sensitivity = None

    def check(self, value: object) -> None:
        """Nothing to check."""

    def release(self, value: object, rng: Any = None) -> None:
        """Nothing."""


def keep_release(
    folder: Path,
    ledger: Ledger,
    release: TableRelease,
    encode: Callable[[], list[NDArray[np.int64]]],
    label: str,
    ids: str,
) -> Stored:
    """The release under this label: the one on disk, or a new one, charged once.

    ``encode`` reads the private table; it is not called when the release exists. ``ids`` is the digest of its ids.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    charged, sealed = _history(ledger)
    if not sealed.keys() <= {label}:
        raise ReleaseRefused(
            f"this ledger has released {min(sealed)!r}, under another name or with other parameters than {label!r}; "
            "nothing was released. Use the old ones, or a new folder and a new budget"
        )
    exists = (folder / "manifest.json").exists()
    if sealed and not exists:
        raise ReleaseRefused(
            f"the columns released as {label!r} are gone from {folder.name!r}; drawing them again would be a second "
            "release. Restore the folder from a backup"
        )
    if exists and label not in charged:
        raise ReleaseRefused(
            f"{folder.name!r} holds a release that this ledger has not been charged for as {label!r}; nothing was "
            "sent. Restore its ledger, or its name and parameters"
        )
    if not exists:
        codes = encode()
        # charged before a crash: nothing of that draw was ever sent
        outputs = release.release(codes) if label in charged else ledger.release(release, codes, label=label)
        _write(folder, outputs, release.columns, label, ids)
    seal = file_digest(folder / "manifest.json")
    if sealed.get(label, seal) != seal:
        raise ReleaseRefused(f"the manifest in {folder.name!r} is not the one released; nothing was sent")
    stored = _stored(folder, read_json(folder / "manifest.json"))
    columns = folder / "columns.bin"
    if not columns.exists() or file_digest(columns) != stored.digest:
        raise ReleaseRefused(f"the columns in {folder.name!r} are not the ones released; nothing was sent")
    if not sealed:
        ledger.release(_Note(), None, label=f"{label}{_WRITTEN}{seal}")
    return stored


def _history(ledger: Ledger) -> tuple[set[str], dict[str, str]]:
    """The labels that were charged, and of those written the digest of their manifest."""
    charged: set[str] = set()
    sealed: dict[str, str] = {}
    for entry in ledger.journal():
        label, note, seal = entry.label.partition(_WRITTEN)
        if note:
            sealed[label] = seal
        elif entry.kind == "release":
            charged.add(label)
    return charged, sealed


def existing_release(folder: Path) -> tuple[int, str] | None:
    """The number of rows and the digest of the ids of the release on disk, if there is one."""
    manifest = read_json(folder / "manifest.json")
    return None if manifest is None else (manifest["rows"], manifest["ids"])


def ordinals(outputs: NDArray[np.int32], values: NDArray[np.float64]) -> tuple[NDArray[Any], tuple[float, ...]]:
    """Replace the outputs of a column by their ranks among those present (Li et al. 2022, §3.2); list the values.

    >>> numbers, table = ordinals(np.array([7, 3, 7, -1], dtype=np.int32), np.arange(10.0) / 2)
    >>> numbers.tolist(), table
    ([1, 0, 1, 255], (1.5, 3.5))
    """
    present = np.bincount(outputs + 1, minlength=values.size + 1)[1:] > 0  # a withheld cell is -1
    rank = np.cumsum(present) - 1
    dtype = np.uint8 if present.sum() < 255 else np.uint16
    numbers = np.where(outputs == WITHHELD, np.iinfo(dtype).max, rank[outputs]).astype(dtype)
    return numbers, tuple(values[present].tolist())


def _write(folder: Path, outputs: NDArray[np.int32], columns: Sequence[Column], label: str, ids: str) -> None:
    wire, tables, digest = [], [], hashlib.sha256()
    draft = folder / "columns.bin.new"
    with open(draft, "wb") as file:
        for (name, column), row in zip(_output_columns(columns), outputs, strict=True):
            numbers, table = ordinals(row, column.values)
            wire.append(WireColumn(name, numbers.dtype.name, len(table)).to_json())
            tables.append(table)
            file.write(numbers.tobytes())
            digest.update(numbers.tobytes())
        sync(file)
    put_in_place(draft, folder / "columns.bin")
    write_json(
        folder / "manifest.json",
        {
            "version": VERSION,
            "label": label,
            "rows": int(outputs.shape[1]),
            "columns": wire,
            "values": tables,
            "digest": digest.hexdigest(),
            "ids": ids,
        },
    )


def _output_columns(columns: Sequence[Column]) -> Iterator[tuple[str, Column]]:
    for column in columns:
        for name in column.names:
            yield name, column


def _stored(folder: Path, manifest: Any) -> Stored:
    columns = tuple(WireColumn.from_json(column) for column in manifest["columns"])
    values = tuple(tuple(table) for table in manifest["values"])
    return Stored(folder, manifest["rows"], columns, values, manifest["digest"], manifest["ids"])
