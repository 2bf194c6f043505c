"""What is public about a column: its name, its kind, its bounds or categories; and the types of arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Values: TypeAlias = NDArray[Any]
Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]

Key: TypeAlias = str | int

Scalar: TypeAlias = str | int | float | bool

Kind: TypeAlias = Literal["number", "category"]

MOST_CATEGORIES = 254
"""A bin code is one byte: 254 categories, and a code for what is missing or unknown."""

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


class DeclaredColumns(Protocol):
    """What is declared about the columns of a table; a :class:`~ledgerwood.learners.Schema` is one."""

    @property
    def bounds(self) -> Mapping[Key, tuple[float, float]] | None:
        """Column to its bounds."""

    @property
    def categories(self) -> Mapping[Key, Any] | None:
        """Column to its possible values."""

    @property
    def kinds(self) -> Mapping[Key, Kind] | None:
        """Column to its kind, where neither bounds nor categories are declared."""

    @property
    def unit(self) -> Key | None:
        """The column that names the privacy unit."""
