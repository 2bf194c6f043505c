"""Neighbouring relations: which two datasets a guarantee compares."""

from __future__ import annotations

from enum import StrEnum

from ledgerwood.errors import ParameterError


class Neighbours(StrEnum):
    """The relation that a cost is stated for. Costs under different relations cannot be added.

    >>> Neighbours("replace_one").sentence
    'one record replaced by another'
    """

    ADD_REMOVE = "add_remove"
    REPLACE_ONE = "replace_one"
    ZERO_OUT = "zero_out"

    @property
    def sentence(self) -> str:
        """The relation in words, for statements."""
        return _SENTENCES[self]


_SENTENCES = {
    Neighbours.ADD_REMOVE: "one record added or removed",
    Neighbours.REPLACE_ONE: "one record replaced by another",
    Neighbours.ZERO_OUT: "one record made void, its place kept",
}


def as_neighbours(value: str) -> Neighbours:
    """Read a relation, with a clear error for anything else."""
    try:
        return Neighbours(value)
    except ValueError:
        raise ParameterError("neighbours", "be 'add_remove', 'replace_one' or 'zero_out'", value) from None
