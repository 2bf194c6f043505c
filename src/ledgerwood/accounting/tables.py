"""Tidy tables: rows of named values that print well and plot well, without a dependency."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


class Table(tuple[dict[str, Any], ...]):
    """A tuple of rows, each a dict with the same keys. ``pandas.DataFrame(table)`` works.

    >>> print(Table([{"label": "leaf", "scale": 44.73}, {"label": "split", "scale": None}]))
    label  scale
    leaf   44.73
    split
    """

    def __new__(cls, rows: Iterable[Mapping[str, Any]]) -> Table:
        return super().__new__(cls, (dict(row) for row in rows))

    def column(self, name: str) -> list[Any]:
        """Return one column."""
        return [row[name] for row in self]

    def __str__(self) -> str:
        if not self:
            return "(empty)"
        names = list(self[0])
        cells = [names] + [[_shown(row[name]) for name in names] for row in self]
        widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
        return "\n".join("  ".join(text.ljust(w) for text, w in zip(line, widths)).rstrip() for line in cells)


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
