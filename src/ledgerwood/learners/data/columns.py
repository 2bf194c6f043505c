"""MOVED: needs a docstring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Key: TypeAlias = str | int

Scalar: TypeAlias = str | int | float | bool

Kind: TypeAlias = Literal["number", "category"]

MOST_CATEGORIES = 254
"""A cell is one byte: 254 categories, and a code for what is missing or unknown."""

Task = Literal["classification", "regression"]


@dataclass(frozen=True)
class Column:
    """One feature: its name (or number), its kind, and its bounds or categories if they are known.

    >>> Column("age", "number", bounds=(17, 90)).is_known
    True
    """

    name: Key
    kind: Kind
    bounds: tuple[float, float] | None = None
    categories: tuple[Scalar, ...] | None = None

    @property
    def is_known(self) -> bool:
        """Whether its bounds or categories are known."""
        return (self.bounds if self.kind == "number" else self.categories) is not None
