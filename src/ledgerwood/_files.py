"""Files that other programs may have written, and files that must survive a crash.

JSON is read strictly: what Python's reader accepts beyond the standard is refused. Durable files are written beside
the old one, synced, then renamed; a lock makes sure that one process owns a folder. Locks are POSIX locks (Linux,
macOS): where the system has none, as on Windows, whatever needs one is refused before a file is made.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from ledgerwood.errors import FormatError, ParameterError, UnsupportedSystem

__all__ = ["MOST_LEVELS", "parse_json"]


MOST_LEVELS = 100
"""How deep lists and objects may lie in each other: what walks through them may be recursive."""


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text. Everything that is wrong with a text is a ``FormatError``.

    Refused are, besides what is not JSON: ``NaN`` and ``Infinity``, numbers beyond the range of floats, integers of
    more digits than Python converts (4300), an object that has a name twice, and more than ``MOST_LEVELS`` levels.

    >>> parse_json('{"epsilon": 1.0}')
    {'epsilon': 1.0}
    >>> parse_json('{"epsilon": 1.0, "epsilon": 9.0}')
    Traceback (most recent call last):
    ...
    ledgerwood.errors.FormatError: not JSON: the name 'epsilon' occurs twice in an object
    """
    try:
        value = json.loads(text, parse_float=_number, parse_constant=_no_number, object_pairs_hook=_object)
    except FormatError:
        raise
    except (ValueError, RecursionError) as error:
        raise FormatError(f"not JSON: {error}") from None
    _check_levels(value)
    return value


def _number(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _no_number(text)


def _no_number(text: str) -> NoReturn:
    raise FormatError(f"not JSON: {text[:40]} is not a finite number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise FormatError(f"not JSON: the name {twice[:40]!r} occurs twice in an object")
    return found


def _check_levels(value: Any) -> None:
    level = _nested([value])
    for _ in range(MOST_LEVELS):
        level = _nested(inner for outer in level for inner in (outer.values() if isinstance(outer, dict) else outer))
        if not level:
            return
    raise FormatError(f"not JSON that this library reads: more than {MOST_LEVELS} levels")


def _nested(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if isinstance(value, dict | list)]


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
        return parse_json(text)
    except FormatError as error:
        raise FormatError(f"{path.name!r} is {error}") from None


def file_locks(purpose: str) -> Any:
    """Return the module that locks files, or say what cannot work without locks on this system."""
    try:
        import fcntl
    except ImportError:
        raise UnsupportedSystem(
            f"{purpose} needs POSIX file locks, which this system ({os.name!r}) does not have; nothing was written. "
            "Use Linux or macOS, or Linux under Windows (WSL 2); ledgers in memory work everywhere"
        ) from None
    return fcntl


@contextlib.contextmanager
def owned(folder: Path, name: str = "state") -> Iterator[None]:
    """Hold a folder for this process; another that asks for it is refused, by the parameter's name."""
    fcntl = file_locks(f"the folder given as {name!r}")
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
