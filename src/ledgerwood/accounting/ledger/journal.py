"""An append-only journal on disk: one JSON object per line, chained by hashes, anchored by a side file.

The file ``budget.jsonl`` holds one record per line::

    {"hash":"<64 hex digits>","n":3,"kind":"release",...}

``hash`` is SHA-256 of the previous line's hash followed by the bytes of the line after its own hash, so that
an edit, a gap or a swap anywhere breaks every later line. Removing whole lines from the *end* leaves a
valid chain; that is what the anchor ``budget.jsonl.anchor`` is for: the number of records and the last hash,
replaced atomically after every record. Neither holds a secret: whoever can write both files can rewrite history,
and only an anchor kept elsewhere shows it (see ``docs/explanation/ledger.md``).

Order of events for one record: lock, read what other processes appended, let the caller decide, write the line,
fsync, replace the anchor, unlock. A line without its newline was never fsynced to completion, so nothing was
released on its strength: it is cut off and the cut is itself recorded.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ledgerwood import _files
from ledgerwood.errors import FormatError, JournalError, JournalTampered

Record = dict[str, Any]

GENESIS = "0" * 64
_PREFIX = b'{"hash":"'
_HEAD = len(_PREFIX) + 64 + len(b'",')


@dataclass(frozen=True, slots=True)
class Anchor:
    """The number of records of a journal and the hash of the last one.

    Keep it somewhere the journal's writer cannot reach: it proves later that no record was removed or changed.

    >>> Anchor.parse("2:" + "ab" * 32).count
    2
    """

    count: int
    hash: str

    def __str__(self) -> str:
        return f"{self.count}:{self.hash}"

    @classmethod
    def parse(cls, text: str) -> Anchor:
        """Read the form that ``str(anchor)`` prints."""
        count, _, digest = text.strip().partition(":")
        if not (count.isascii() and count.isdigit() and len(digest) == 64 and set(digest) <= set("0123456789abcdef")):
            raise FormatError(f"an anchor reads 'count:hash' with 64 hexadecimal digits, got {text.strip()!r}")
        return cls(int(count), digest)


def seal(previous: str, body: Record) -> tuple[bytes, str]:
    """Return the line for ``body`` after a line with hash ``previous``, and its hash."""
    rest = json.dumps(body, separators=(",", ":"), allow_nan=False).encode()[1:]
    digest = hashlib.sha256(previous.encode() + rest).hexdigest()
    return _PREFIX + digest.encode() + b'",' + rest + b"\n", digest


def unseal(previous: str, line: bytes) -> tuple[Record, str]:
    """Return the body of a line and its hash, or raise :class:`JournalTampered`."""
    rest = line[_HEAD:]
    digest = hashlib.sha256(previous.encode() + rest).hexdigest()
    if line[:_HEAD] != _PREFIX + digest.encode() + b'",':
        raise JournalTampered("the hash chain is broken: a record was changed, removed or inserted")
    body: Record = _files.parse_json(b"{" + rest)
    return body, digest


class Journal:
    """One open journal file. Every method but :meth:`locked` must run inside ``with journal.locked():``.

    Parameters
    ----------
    path
        The file. It is created when missing; its directory must exist.
    anchor
        An anchor kept by the user. The journal must pass through it.
    """

    def __init__(self, path: str | os.PathLike[str], anchor: Anchor | None = None) -> None:
        self._locks = _files.file_locks("a ledger with a journal")
        self.path = Path(path)
        self.anchor_path = self.path.with_name(self.path.name + ".anchor")
        self.count, self._hash, self._offset = 0, GENESIS, 0
        self._kept = anchor
        self._expected: list[Anchor] = []
        self.broken = False
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            _sync_directory(self.path.parent)
        except OSError as error:
            raise JournalError(f"cannot open the journal {self.path.name!r}: {error.strerror}") from error

    @property
    def anchor(self) -> Anchor:
        """How far this process has read."""
        return Anchor(self.count, self._hash)

    @contextlib.contextmanager
    def locked(self, *, writing: bool = True) -> Iterator[None]:
        """Hold the exclusive lock that serializes all processes on this journal."""
        if self.broken:
            raise JournalError(
                f"the journal {self.path.name!r} failed to take a record earlier; nothing was released. "
                "Free the disk if it is full, then open the ledger again"
            )
        self._locks.flock(self._file, self._locks.LOCK_EX)
        try:
            self._check_identity()
            yield
        finally:
            with contextlib.suppress(OSError):  # a file closed meanwhile has no lock left to drop
                self._locks.flock(self._file, self._locks.LOCK_UN)

    def replay(self) -> list[Record]:
        """Read the whole journal and check it against its anchors. For a file just opened."""
        self._check_form()
        stored = self._stored_anchor(os.fstat(self._file).st_size)
        self._expected = [a for a in (stored, self._kept) if a is not None and a.count]
        records, torn = self._read_on()
        for anchor in self._expected:  # before a torn line is cut: what an anchor names was never torn
            raise JournalTampered(
                f"the journal {self.path.name!r} has {self.count} records, its anchor names {anchor.count}: "
                "records were removed from its end"
            )
        if self.count and stored != self.anchor:
            try:
                self._write_anchor()
            except OSError as error:
                raise JournalError(f"the anchor {self.anchor_path.name!r}: {error.strerror}") from error
        return records + self._cut(torn)

    def catch_up(self) -> list[Record]:
        """Read the records appended since the last reading, by this or another process."""
        records, torn = self._read_on()
        return records + self._cut(torn)

    def _read_on(self) -> tuple[list[Record], int]:
        """Return the whole records after the last reading, and the length of a torn line after them."""
        size = os.fstat(self._file).st_size
        if size < self._offset:
            raise JournalTampered(f"the journal {self.path.name!r} became shorter while it was open")
        if size == self._offset:
            return [], 0
        records = []
        whole, newline, torn = _read(self._file, self._offset, size - self._offset).rpartition(b"\n")
        for line in whole.split(b"\n") if newline else ():
            try:
                body, digest = unseal(self._hash, line)
            except (JournalTampered, ValueError) as error:
                raise JournalTampered(f"record {self.count} of {self.path.name!r}: {error}") from None
            self._advance(len(line) + 1, digest)
            records.append(body)
        return records, len(torn)

    def append(self, body: Record) -> Record:
        """Write one record and return it (with its number) once it is safely on disk."""
        record = {"n": self.count, **body}
        line, digest = seal(self._hash, record)
        try:
            _write(self._file, line)
            _sync(self._file)
            self._advance(len(line), digest)
            self._write_anchor()
        except OSError as error:
            self.broken = True
            raise JournalError(
                f"the journal {self.path.name!r} could not take the record: {error.strerror}; nothing was released"
            ) from error
        return record

    def child(self, name: str) -> Journal:
        """Open the journal of a sub-ledger, beside this one."""
        return Journal(self.path.with_name(f"{self.path.stem}.{name}{self.path.suffix}"))

    def __str__(self) -> str:
        return str(self.path)

    def close(self) -> None:
        """Close the file. Harmless when repeated."""
        self.broken = True
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _advance(self, length: int, digest: str) -> None:
        self._offset += length
        self.count += 1
        self._hash = digest
        for anchor in [a for a in self._expected if a.count == self.count]:
            if anchor.hash != digest:
                raise JournalTampered(
                    f"record {self.count - 1} of {self.path.name!r} is not the one its anchor names: "
                    "the history was rewritten"
                )
            self._expected.remove(anchor)

    def _check_identity(self) -> None:
        """Refuse when the path no longer names the file that is open: another file would grant a new budget."""
        try:
            named, held = os.stat(self.path), os.fstat(self._file)
        except OSError as error:
            raise JournalTampered(f"the journal {self.path.name!r} is gone; nothing was released") from error
        if (named.st_dev, named.st_ino) != (held.st_dev, held.st_ino):
            raise JournalTampered(f"the journal {self.path.name!r} was replaced by another file")

    def _check_form(self) -> None:
        """Refuse a file that does not begin as a journal does, before anything of it is cut as a torn line."""
        start = _read(self._file, 0, len(_PREFIX))
        if start != _PREFIX[: len(start)]:
            raise JournalTampered(f"{self.path.name!r} does not begin as a journal does; it was left as it is")

    def _stored_anchor(self, size: int) -> Anchor | None:
        try:
            text = self.anchor_path.read_text()
        except FileNotFoundError:
            first = _read(self._file, 0, size).partition(b"\n")
            if first[2] and self._kept is None:  # more than the opening record: the anchor existed once
                raise JournalTampered(
                    f"the anchor {self.anchor_path.name!r} is missing. Give the one you kept: open(..., anchor=...)"
                ) from None
            return None
        except OSError as error:
            raise JournalError(f"the anchor {self.anchor_path.name!r}: {error.strerror}") from error
        try:
            return Anchor.parse(text)
        except FormatError as error:
            raise JournalTampered(f"{self.anchor_path.name!r}: {error}") from None

    def _write_anchor(self) -> None:
        draft = self.anchor_path.with_name(self.anchor_path.name + ".new")
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            _write(handle, f"{self.anchor}\n".encode())
            _sync(handle)
        finally:
            os.close(handle)
        os.replace(draft, self.anchor_path)

    def _cut(self, torn: int) -> list[Record]:
        """Cut a torn line of that many bytes and record the cut; a torn opening record leaves an empty journal."""
        if not torn:
            return []
        try:
            os.ftruncate(self._file, self._offset)
            _sync(self._file)
        except OSError as error:
            self.broken = True
            raise JournalError(f"a torn line of {torn} bytes could not be cut: {error.strerror}") from error
        return [self.append({"kind": "torn", "bytes": torn})] if self.count else []


def _read(handle: int, offset: int, length: int) -> bytes:
    chunks = []
    while length and (chunk := os.pread(handle, min(length, 1 << 24), offset)):
        chunks.append(chunk)
        offset, length = offset + len(chunk), length - len(chunk)
    return b"".join(chunks)


def _write(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def _sync(handle: int) -> None:
    import fcntl

    full = getattr(fcntl, "F_FULLFSYNC", None)  # macOS: fsync alone stops at the drive's cache
    if full is None:
        os.fsync(handle)
    else:
        fcntl.fcntl(handle, full)


def _sync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
