"""At most ``max_rows`` rows for each privacy unit, chosen by a rule that looks at that unit alone.

If the rows kept for one person depended on another person's rows (a row number, a shared random stream), removing
that other person would change them and the group would be larger than ``max_rows``. So a row is ranked by a keyed hash
of (unit, how many rows of that unit came before), and the smallest ``max_rows`` of each unit stay, in their order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from decimal import Decimal
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Identities: TypeAlias = NDArray[np.uint64]
"""``uint64[rows, 2]``: who each row is about. Two units of n share one with probability n**2 / 2**129."""
_MISSING = "\0"
"""The name of rows without a unit; a name that begins with it is not the text of any other cell."""
_MOST_DIGITS, _MOST_BITS = 4_000, 14_000
"""Python refuses to write integers of more than 4300 digits in decimal."""


def keep_rows(units: NDArray[Any], max_rows: int, key: bytes) -> NDArray[np.int64]:
    """Return the rows that stay, in order.

    >>> units = np.array(["ann", "bob", "ann", "ann"])
    >>> len(keep_rows(units, 2, key=b"public")), 1 in keep_rows(units, 2, key=b"public")
    (3, True)
    """
    return np.flatnonzero(kept(identities(units, key), max_rows, key))


def identities(units: NDArray[Any], key: bytes) -> Identities:
    """Return a keyed digest of 128 bits of each row's unit: it distinguishes units wherever their rows lie.

    >>> a, b, c = identities(np.array([3, 3.0, None], dtype=object), b"key").tolist()
    >>> a == b, a == c
    (True, False)
    """
    if units.dtype.kind in "biuf":  # each different number is named once
        different, codes = np.unique(units, return_inverse=True)
        return _digests(unit_names(different), key)[codes]
    return _digests(unit_names(units), key)


def kept(units: Identities, max_rows: int, key: bytes) -> NDArray[np.bool_]:
    """Return which rows stay: at most ``max_rows`` of each unit."""
    order = np.lexsort((units[:, 1], units[:, 0]))  # rows of a unit side by side, in their order
    ranked = units[order]
    starts = np.flatnonzero(np.r_[len(units) > 0, np.any(ranked[1:] != ranked[:-1], axis=1)][: len(units)])
    sizes = np.diff(np.r_[starts, len(order)])
    keep = np.ones(len(units), dtype=bool)
    for start, size in zip(starts[sizes > max_rows].tolist(), sizes[sizes > max_rows].tolist(), strict=True):
        rows = order[start : start + size]
        name = units[rows[0]].tobytes()
        digests = [_digest(key, name + rank.to_bytes(8, "little")) for rank in range(size)]
        chosen = sorted(range(size), key=digests.__getitem__)[:max_rows]
        keep[rows] = False
        keep[rows[chosen]] = True
    return keep


def record_numbers(units: Identities) -> NDArray[np.uint64]:
    """Return a number for each record, all different, in the order of their identities: whatever order they are in.

    Records of one identity are numbered in their own order, so that no two of them ever share a number.

    >>> record_numbers(np.array([[7, 1], [3, 0], [7, 0]], dtype=np.uint64)).tolist()
    [2, 0, 1]
    """
    numbers = np.empty(len(units), dtype=np.uint64)
    numbers[np.lexsort((units[:, 1], units[:, 0]))] = np.arange(len(units), dtype=np.uint64)
    return numbers


def unit_names(units: NDArray[Any] | Sequence[Any]) -> list[str]:
    r"""Return the text that identifies each row's unit, a function of its own cell; nothing raises.

    Whole numbers have one text however they are stored: a single missing value makes floats of a column of integers,
    and must not rename everybody else. All kinds of missing are one unit, as is what cannot be read; no text is that
    unit's.

    >>> unit_names(np.array([3, 3.0, "3", None, float("nan")], dtype=object))
    ['3', '3', '3', '\x00', '\x00']
    """
    return [_name(value) for value in (units.tolist() if isinstance(units, np.ndarray) else units)]


def _name(value: Any) -> str:
    try:
        if isinstance(value, bytes):
            value = value.decode("utf-8")
        if isinstance(value, str):
            return _MISSING + value if value.startswith(_MISSING) else str.__str__(value)
        if value is None or type(value).__name__ in ("NAType", "NaTType"):
            return _MISSING
        if isinstance(value, np.floating | np.bool_):  # named as what numpy makes of it in a list
            value = value.item()
        return _whole(value) or str(value)
    except UnicodeDecodeError:
        return f"{_MISSING}bytes {value.hex()}"
    except Exception:  # whatever an object does when it is looked at
        return _MISSING


def _whole(value: Any) -> str | None:
    """Return the text of a whole number, the sign of what is missing for nan, None for all else."""
    if not isinstance(value, Real | Decimal):  # numpy warns where a complex number becomes an integer
        return None
    if isinstance(value, Decimal) and Decimal.is_finite(value) and Decimal.adjusted(value) > _MOST_DIGITS:
        return f"{_MISSING}decimal {Decimal.__str__(value)}"  # its digits may not fit in memory
    try:
        if value != value:
            return _MISSING
        whole = int(value)  # type: ignore[arg-type]
        if value != whole:
            return None
    except (ArithmeticError, ValueError):  # infinities, a decimal's signalling nan
        return None
    return str(whole) if whole.bit_length() < _MOST_BITS else f"{_MISSING}hex {whole:x}"


def _digests(names: Sequence[str], key: bytes) -> Identities:
    known: dict[str, bytes] = {}
    for name in names:
        if name not in known:
            known[name] = _digest(key, name.encode("utf-8", "surrogatepass"))
    return np.frombuffer(b"".join([known[name] for name in names]), dtype="<u8").reshape(-1, 2).astype(np.uint64)


def _digest(key: bytes, name: bytes) -> bytes:
    return hashlib.blake2b(name, key=key[:64], digest_size=16).digest()
