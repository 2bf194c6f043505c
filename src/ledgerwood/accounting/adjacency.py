"""Neighbouring relations: which two datasets a guarantee compares."""

from __future__ import annotations

from collections.abc import Sequence
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

LEARNABLE = (Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE)
"""The relations that learners are trained under: "zero_out" is a relation of batch samplers."""


def as_neighbours(value: str, allowed: Sequence[Neighbours] = tuple(Neighbours)) -> Neighbours:
    """Read a relation, with a clear error for anything else.

    >>> as_neighbours("zero_out", LEARNABLE)
    Traceback (most recent call last):
    ...
    ledgerwood.errors.ParameterError: neighbours must be 'add_remove' or 'replace_one', got neighbours='zero_out'
    """
    if value not in allowed:
        *others, last = (f"'{relation}'" for relation in allowed)
        raise ParameterError("neighbours", f"be {', '.join(others)} or {last}", value)
    return Neighbours(value)
