"""At most k rows for each unit of privacy, chosen by a rule that looks at that unit alone.

If the rows kept for one person depended on another person's rows (a row number, a shared random stream), removing
that other person would change them and the group would be larger than k. So a row is ranked by a keyed hash of (unit,
how many rows of that unit came before), and the k smallest of each unit stay, in their order.
"""

from __future__ import annotations

import hashlib
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MISSING = "\0"
"""What rows without a unit go by."""


def keep_rows(units: NDArray[Any], k: int, key: bytes) -> NDArray[np.int64]:
    """Return the rows that stay, in order.

    >>> units = np.array(["ann", "bob", "ann", "ann"])
    >>> len(keep_rows(units, 2, key=b"public")), 1 in keep_rows(units, 2, key=b"public")
    (3, True)
    """
    codes, names = _codes(units)
    order = np.argsort(codes, kind="stable")  # rows of a unit side by side, in their order
    starts = np.flatnonzero(np.r_[True, np.diff(codes[order]) > 0])
    sizes = np.diff(np.r_[starts, len(order)])
    keep = np.ones(len(codes), dtype=bool)
    for start, size in zip(starts[sizes > k].tolist(), sizes[sizes > k].tolist(), strict=True):
        rows = order[start : start + size]
        name = names[int(codes[rows[0]])]
        digests = [_digest(key, name, rank) for rank in range(size)]
        chosen = sorted(range(size), key=digests.__getitem__)[:k]
        keep[rows] = False
        keep[rows[chosen]] = True
    return np.flatnonzero(keep)


def unit_names(units: NDArray[Any]) -> list[str]:
    r"""Return the text that each row's unit goes by; nothing raises.

    Whole numbers go by one text however they are stored: a single missing value makes floats of a column of integers,
    and must not rename everybody else. All kinds of missing are one unit, and no text is that unit's.

    >>> unit_names(np.array([3, 3.0, "3", None, float("nan")], dtype=object))
    ['3', '3', '3', '\x00', '\x00']
    """
    return [_name(value) for value in units.tolist()]


def _name(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return _MISSING
    try:
        if value != value:
            return _MISSING
        if isinstance(value, Number) and value == int(value):  # type: ignore[call-overload]
            return str(int(value))  # type: ignore[call-overload]
    except (ArithmeticError, TypeError, ValueError):  # infinities, arrays, a decimal's signalling nan
        pass
    return str(value)


def _codes(units: NDArray[Any]) -> tuple[NDArray[np.int64], list[str]]:
    """Number the units."""
    if units.dtype.kind in "biuf":  # each different number is named once
        different, codes = np.unique(units, return_inverse=True)
        return codes.astype(np.int64), unit_names(different)
    found: dict[str, int] = {}
    numbered = np.array([found.setdefault(text, len(found)) for text in unit_names(units)], dtype=np.int64)
    return numbered, list(found)


def _digest(key: bytes, unit: str, rank: int) -> bytes:
    return hashlib.blake2b(f"{rank}:{unit}".encode("utf-8", "replace"), key=key[:64], digest_size=16).digest()
