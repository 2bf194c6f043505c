"""At most k rows for each unit of privacy, chosen by a rule that looks at that unit alone.

If the rows kept for one person depended on another person's rows (a row number, a shared random stream), removing
that other person would change them and the group would be larger than k. So a row is ranked by a keyed hash of (unit,
how many rows of that unit came before), and the k smallest of each unit stay, in their order.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray


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


def _codes(units: NDArray[Any]) -> tuple[NDArray[np.int64], list[str]]:
    """Number the units; values of any type, compared by their text so that nothing can raise."""
    if units.dtype.kind in "biu":
        names, codes = np.unique(units, return_inverse=True)
        return codes.astype(np.int64), [str(name) for name in names.tolist()]
    found: dict[str, int] = {}
    texts = [str(value) for value in units.tolist()]
    numbered = np.array([found.setdefault(text, len(found)) for text in texts], dtype=np.int64)
    return numbered, list(found)


def _digest(key: bytes, unit: str, rank: int) -> bytes:
    return hashlib.blake2b(f"{rank}:{unit}".encode("utf-8", "replace"), key=key[:64], digest_size=16).digest()
