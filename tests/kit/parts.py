"""Rows that a function makes: a part of a table that no file holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class LazyPart:
    """Rows that a function makes, the same ones every time: generated data."""

    make: Callable[[], Any] = field(repr=False)
    rows: int

    def load(self) -> Any:
        """Make the rows."""
        return self.make()
