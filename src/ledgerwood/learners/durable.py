"""Files that survive kill -9: written beside, synced, renamed; and a lock so that one process owns a folder."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ledgerwood.accounting import strict_json
from ledgerwood.errors import FormatError, ParameterError


def write_durably(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Replace the file at once: after a crash it is the old one or the new one, whole."""
    draft = path.with_name(path.name + ".new")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode), "wb") as file:
        file.write(data)
        sync(file)
    put_in_place(draft, path)


def put_in_place(draft: Path, path: Path) -> None:
    """Rename a synced draft, and make the renaming durable."""
    os.replace(draft, path)
    handle = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync(file: Any) -> None:
    """Wait until what was written is on the disk."""
    file.flush()
    os.fsync(file.fileno())


def write_json(path: Path, value: Any, mode: int = 0o666) -> None:
    """Like `write_durably`."""
    write_durably(path, json.dumps(value, separators=(",", ":"), allow_nan=False).encode(), mode)


def read_json(path: Path) -> Any:
    """The file's content, or None if it does not exist."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        return strict_json.read(text)
    except FormatError as error:
        raise FormatError(f"{path.name!r} is {error}") from None


@contextlib.contextmanager
def owned(folder: Path, name: str = "state") -> Iterator[None]:
    """Hold a folder for this process; another that asks for it is refused, by the parameter's name."""
    import fcntl

    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ParameterError(name, "be a folder that no other process is using", folder.name) from None
        yield
    finally:
        os.close(handle)
