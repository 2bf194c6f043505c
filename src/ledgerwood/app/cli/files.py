"""Files of the command line: schemas in, tables out, progress, and whether a file can be written."""

from __future__ import annotations

import contextlib
import os
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ledgerwood import _files
from ledgerwood.errors import FormatError, ParameterError

if TYPE_CHECKING:
    from ledgerwood.learners import Schema

_LARGEST_SCHEMA = 64 * 2**20


@contextlib.contextmanager
def reading(path: str) -> Iterator[Callable[[int, int], None] | None]:
    """Yield what shows on a terminal how much of a file is read."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"reading {path}", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def write_table(frame: Any, path: str) -> None:
    """Write a pandas table as CSV or Parquet."""
    if Path(path).suffix.lower() == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path)


def check_output(name: str, path: str | None, *endings: str) -> None:
    """Refuse a file that could not be written, before a budget is spent on what should go there."""
    if path is None:
        return
    if endings and not path.lower().endswith(endings):
        raise ParameterError(name, f"end in {' or '.join(endings)}", path)
    folder = Path(path).parent
    if Path(path).is_dir() or not folder.is_dir():
        raise ParameterError(name, "be a file in an existing folder", path)
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise ParameterError(name, "be a file that may be written", path)


def read_schema(path: str) -> Schema:
    """Read public metadata: what ``Schema.to_json`` wrote, or a TOML or JSON file written by hand.

    By hand it has the names of the arguments of ``Schema``::

        classes = ["<=50K", ">50K"]

        [bounds]
        age = [17, 90]

        [categories]
        sex = ["Female", "Male"]
    """
    from ledgerwood.learners import Schema

    if os.path.getsize(path) > _LARGEST_SCHEMA:
        raise FormatError(f"{path} is larger than {_LARGEST_SCHEMA // 2**20} MiB")
    try:
        text = Path(path).read_text(encoding="utf-8")
        content = tomllib.loads(text) if path.lower().endswith(".toml") else _files.parse_json(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: {error}") from None
    if isinstance(content, dict) and "format" in content:
        return Schema.from_json(text)
    known = [field.name for field in fields(Schema)]
    if not isinstance(content, dict):
        raise FormatError(f"{path} must be a table of public metadata: {', '.join(known)}")
    for name in content:
        if name not in known:
            raise FormatError(f"{path}: unknown field {name!r}; known are {', '.join(known)}")
    given: dict[str, Any] = content
    return Schema(**given)
