"""From what a cell holds to what learners see. Total: no cell raises or warns, and none changes how another is read.

The rules, for every way in (arrays, data frames, files, parties):

* **number**: a number as float64, true and false as 1 and 0. Text counts if it is a decimal number (``1``, ``01``,
  ``1.0``, ``+1e0``), ``inf``, ``true`` or ``false`` in any case, with ASCII white space around it. All else is missing.
* **category**: a cell matches a declared category if both are the same text or the same number. Text is compared with
  text to the letter, so ``01`` is not ``1``; text and numbers are compared as numbers. All else is unknown.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.learners.facts import Column
from ledgerwood.learners.schema import Atom

if TYPE_CHECKING:
    import pyarrow

__all__ = [
    "Values",
    "atom",
    "atoms",
    "atoms_of_text",
    "category_codes",
    "number",
    "numbers",
    "numbers_of_text",
    "texts_of",
    "write_numbers",
]

Values = NDArray[Any]

_DECIMAL = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
_NUMBER = re.compile(rf"{_DECIMAL}|[+-]?(?i:inf|infinity)")
_WORDS = {"true": 1.0, "false": 0.0}
_SPACE = " \t\n\r\v\f"
_EXACT = 2.0**53


def number(value: Any) -> float:
    """Return the number that a cell holds; nan if it holds none.

    >>> number(" 01 "), number("TRUE"), number(10**400), number("1_000"), number([3])
    (1.0, 1.0, inf, nan, nan)
    """
    try:
        if isinstance(value, bytes):
            value = value.decode("latin-1")
        if isinstance(value, str):
            text = str.strip(value, _SPACE)
            return float(text) if _NUMBER.fullmatch(text) else _WORDS.get(text.lower(), math.nan)
        if isinstance(value, np.floating):
            with np.errstate(over="ignore"):
                return float(value)
        if isinstance(value, int | float | np.integer | np.bool_ | Decimal | Fraction):
            return float(value)
    except OverflowError:  # beyond all floats: like any other value out of bounds
        return math.inf if value > 0 else -math.inf
    except Exception:  # whatever an object does when it is looked at, it is no number
        return math.nan
    return math.nan


def atom(value: Any) -> str | int | float | None:
    """Return a cell as a text or a finite number, the form in which categories are told apart; None if it is neither.

    Equal numbers have one form, and text that is not valid Unicode is none: it could not be printed.

    >>> atom(True), atom(1.0), atom(b"red"), atom("\\ud800"), atom(float("nan")), atom({})
    (1, 1, 'red', None, None, None)
    """
    try:
        if isinstance(value, bytes):
            return value.decode("utf-8")
        if isinstance(value, str):
            str.encode(value, "utf-8")
            return str.__str__(value)
    except Exception:
        return None
    found = number(value)
    if not math.isfinite(found):
        return None
    return int(found) if abs(found) < _EXACT and found == int(found) else found


def numbers(values: Values | Sequence[Any]) -> Values:
    """Return cells as numbers: an array of a numeric type as it is, anything else as float64, cell by cell.

    >>> numbers(["1.5", 2, None, "x"]).tolist()
    [1.5, 2.0, nan, nan]
    """
    if isinstance(values, np.ndarray):
        if values.dtype.kind in "biuf":
            with np.errstate(over="ignore"):
                return values if values.dtype.itemsize <= 8 else values.astype(np.float64)
        values = values.tolist()
    if set(map(type, values)) <= {float, bool}:  # no other value can come of these, and they need no look each
        return np.array(values, dtype=np.float64)
    return np.fromiter(map(number, values), dtype=np.float64, count=len(values))


def atoms(values: Values | Sequence[Any]) -> Values:
    """Return cells as texts, finite numbers and None, in an array of objects."""
    plain = values.tolist() if isinstance(values, np.ndarray) else values
    found = np.empty(len(plain), dtype=object)
    found[:] = list(map(atom, plain))
    return found


def atoms_of_text(column: pyarrow.ChunkedArray) -> Values:
    """Return what :func:`atoms` gives for an Arrow column of text; each distinct text is looked at once.

    >>> import pyarrow
    >>> atoms_of_text(pyarrow.chunked_array([["b", None, "b"]])).tolist()
    ['b', None, 'b']
    """
    import pyarrow

    coded = column.dictionary_encode().combine_chunks()
    if isinstance(coded, pyarrow.ChunkedArray):
        coded = coded.chunk(0)
    known = np.append(atoms(texts_of(pyarrow.chunked_array([coded.dictionary]))), None)
    return known[coded.indices.fill_null(len(known) - 1).to_numpy()]


def numbers_of_text(column: pyarrow.ChunkedArray) -> NDArray[np.float64]:
    """Return what :func:`number` gives for each cell of an Arrow column of text or bytes; null is missing.

    >>> import pyarrow
    >>> numbers_of_text(pyarrow.chunked_array([["1", None, " 2 ", "x"]])).tolist()
    [1.0, nan, 2.0, nan]
    """
    import pyarrow
    from pyarrow import compute

    try:
        return _doubles(compute.cast(column, pyarrow.float64()))
    except pyarrow.ArrowInvalid:  # some cell is not plain: those that are go the same way as before
        plain = compute.match_substring_regex(column, rf"^{_DECIMAL}$")
        found = _doubles(compute.cast(compute.if_else(plain, column, None), pyarrow.float64()))
    odd = compute.indices_nonzero(compute.invert(plain))
    found[odd.to_numpy()] = numbers(texts_of(column.take(odd)).tolist())
    return found


def _doubles(column: pyarrow.ChunkedArray) -> NDArray[np.float64]:
    found: NDArray[np.float64] = column.to_numpy()
    return found if found.flags.writeable else found.copy()


def texts_of(column: pyarrow.ChunkedArray) -> Values:
    """Return the cells of an Arrow column of text: ``str``, ``bytes`` where they are not UTF-8, None where null."""
    import pyarrow

    if pyarrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    try:
        column.validate(full=True)
        cells = column.to_pylist()
    except (pyarrow.ArrowInvalid, UnicodeDecodeError):
        cells = list(map(_decoded, column.cast(pyarrow.large_binary()).to_pylist()))
    found = np.empty(len(cells), dtype=object)
    found[:] = cells
    return found


def _decoded(cell: bytes | None) -> str | bytes | None:
    try:
        return None if cell is None else cell.decode("utf-8")
    except UnicodeDecodeError:
        return cell


def write_numbers(values: Values, column: Column, out: NDArray[np.float32]) -> None:
    """Write numbers clipped to their bounds, in float32."""
    assert column.bounds is not None
    low, high = column.bounds
    with np.errstate(invalid="ignore", over="ignore"):
        if values.dtype != np.float32:
            clipped = np.clip(values.astype(np.float64) if values.dtype.kind in "biu" else values, low, high)
            values = clipped.astype(np.float32)
        # Rounding to float32 may step over a bound that is no float32: float32 numbers are clipped to rounded bounds.
        np.maximum(values, np.float32(low), out=out)
        np.minimum(out, np.float32(high), out=out)


def category_codes(values: Values, categories: Sequence[Atom]) -> NDArray[np.int32]:
    """Return the place of every cell among the categories; their number for what is missing or unknown.

    ``values`` are of a numeric type, or what :func:`atoms` returns.

    >>> category_codes(atoms(["1", 1, "one", None]), [0, 1]).tolist()
    [1, 1, 2, 2]
    >>> category_codes(atoms(["1", 1, "01"]), ["0", "1"]).tolist()
    [1, 1, 2]
    """
    places = _Places(categories)
    if values.dtype.kind not in "biuf":
        return np.fromiter(map(places.__getitem__, values.tolist()), dtype=np.int32, count=len(values))
    floats = values.astype(np.float64)
    known = np.array(sorted(places.numbers))
    codes = np.array([places.numbers[value] for value in known] or [len(categories)])
    at = np.minimum(np.searchsorted(known, floats), max(len(known) - 1, 0))
    found = known[at] == floats if len(known) else np.zeros(len(floats), dtype=bool)
    return np.where(found, codes[at], len(categories)).astype(np.int32)


class _Places(dict[Any, int]):
    """Codes by cell, each distinct cell worked out once; ``numbers`` has the codes of numbers."""

    def __init__(self, categories: Sequence[Atom]) -> None:
        super().__init__()
        self._reserved = len(categories)
        self._texts = {value: i for i, value in enumerate(categories) if isinstance(value, str)}
        self._own = {number(value): i for i, value in enumerate(categories) if not isinstance(value, str)}
        read = {number(text): i for text, i in reversed(self._texts.items())}
        self.numbers = {value: i for value, i in {**read, **self._own}.items() if value == value}

    def __missing__(self, cell: str | float | None) -> int:
        if isinstance(cell, str):
            code = self._texts.get(cell)
            self[cell] = self._own.get(number(cell), self._reserved) if code is None else code
        else:
            self[cell] = self._reserved if cell is None else self.numbers.get(float(cell), self._reserved)
        return self[cell]
