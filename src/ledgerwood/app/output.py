"""How an answer reaches the reader: tables on a terminal, aligned text in a pipe, JSON when asked for.

>>> answer = CommandOutput({"epsilon": 1.0}).table(["method", "epsilon"], [["rdp", 1.25], ["optimal", 1.0]])
>>> print(answer.text())
method   epsilon
rdp      1.25
optimal  1
"""

from __future__ import annotations

import json
import math
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ledgerwood._checks import is_bool


@dataclass(frozen=True, slots=True)
class AlignedTable:
    """A table to print."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""


@dataclass(slots=True)
class CommandOutput:
    """What a command found: ``data`` for machines; titles, sentences and tables for people."""

    data: Any
    blocks: list[str | AlignedTable] = field(default_factory=list)

    def say(self, text: str) -> CommandOutput:
        """Add a paragraph."""
        self.blocks.append(text)
        return self

    def table(self, columns: Sequence[str], rows: Iterable[Iterable[Any]], title: str = "") -> CommandOutput:
        """Add a table; numbers are shortened."""
        cells = tuple(tuple(shown(value) for value in row) for row in rows)
        self.blocks.append(AlignedTable(tuple(columns), cells, title))
        return self

    def releases(self, rows: Iterable[Mapping[str, Any]]) -> CommandOutput:
        """Add the table of a plan's releases (:meth:`~ledgerwood.accounting.Plan.table`)."""
        cells = ([r["label"], r["times"], r["noise"], r["scale"], f"{100 * r['spend']:.1f} %"] for r in rows)
        return self.table(["release", "times", "noise", "value", "budget"], cells)

    def json(self) -> str:
        """Return the answer as strict JSON; a number that is not finite becomes a string."""
        return json.dumps(plain(self.data), indent=2, allow_nan=False, ensure_ascii=False)

    def text(self) -> str:
        """Return the answer as text without colour or boxes."""
        return "\n\n".join(_paragraph(b) if isinstance(b, str) else _aligned(b) for b in self.blocks)

    def print(self, *, as_json: bool) -> None:
        """Write to standard output."""
        if as_json:
            print(self.json())
        elif sys.stdout.isatty():
            self._print_rich()
        else:
            print(self.text())

    def _print_rich(self) -> None:
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table

        console = Console(highlight=False, width=min(shutil.get_terminal_size().columns, 120))
        for block in self.blocks:
            if isinstance(block, str):
                console.print(block, markup=False, soft_wrap=False)
                continue
            table = Table(box=SIMPLE_HEAD, pad_edge=False, title=block.title or None, title_justify="left")
            for i, name in enumerate(block.columns):
                numeric = all(_is_number(row[i]) for row in block.rows) and bool(block.rows)
                table.add_column(name, justify="right" if numeric else "left", overflow="fold")
            for row in block.rows:
                table.add_row(*row)
            console.print(table)


def shown(value: Any) -> str:
    """Return a cell's text."""
    if value is None:
        return ""
    if is_bool(value):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def price(value: float) -> str:
    """Return an epsilon or a delta for people: five digits, rounded up."""
    from ledgerwood._rounding import format_up

    return format_up(value, 5) if math.isfinite(value) else "infinite"


def plain(value: Any) -> Any:
    """Return a value made of what JSON knows."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def progress(text: str) -> None:
    """Say on standard error what is going on, if somebody is looking."""
    if sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)


def _paragraph(text: str) -> str:
    return "\n".join(textwrap.fill(line, 110) if len(line) > 110 else line for line in text.splitlines())


def _aligned(grid: AlignedTable) -> str:
    lines = [grid.columns, *grid.rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(grid.columns))]
    text = "\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, widths)).rstrip() for line in lines)
    return f"{grid.title}\n{text}" if grid.title else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text in ("", "infinite")
    return True


def why_not(reason: str) -> str:
    """Return why a method cannot price something, without what to use instead: it stands in the same table.

    >>> why_not("not every release is Gaussian; use 'optimal'")
    'not every release is Gaussian'
    """
    return reason.partition("; use ")[0]
