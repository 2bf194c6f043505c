"""From what a cell holds to what learners see. Total: no cell raises or warns, and none changes how another is read.

One rule for every way in (arrays, data frames, files, parties), for features and for labels:

* **Numbers** are bools, integers, floats, numbers of numpy, decimals and fractions. Text counts as one if it is written
  like a decimal number (``1``, ``01``, ``1.0``, ``+1e0``; no underscores), or is ``inf``, ``true`` (1) or ``false``
  (0), in capitals or not, white space around it left out. All else is missing.
* **Categories and classes**: a cell is one of them if both are the same text or the same number. Text is compared with
  text to the letter, so ``01`` is not the category ``"1"``; text is compared with numbers, and numbers with text, as
  numbers, exactly. All else is unknown.

Bytes are the text that they encode in UTF-8; bytes that encode none are missing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from ledgerwood.learners.data.columns import Column, Scalar, Values
from ledgerwood.learners.data.threads import TUNING

if TYPE_CHECKING:
    import pyarrow

__all__ = [
    "category_codes",
    "number",
    "numbers",
    "numbers_of_text",
    "objects",
    "scalar",
    "scalars",
    "scalars_of_text",
    "texts_of",
    "write_numbers",
]

_Exact: TypeAlias = int | float | Fraction

_DECIMAL = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?"
"""One way to match each text: with two, a cell of a million digits and a letter would take hours."""
_WRITTEN = re.compile(_DECIMAL)
_WORDS = {
    "true": 1,
    "false": 0,
    **{sign + word: float(sign + word) for sign in ("", "+", "-") for word in ("inf", "infinity")},
}
_SPACES = " \t\n\r\v\f"
_LONGEST = 4000
"""Python reads and writes integers of up to 4300 digits."""
_EXACT = 2.0**52
"""No integer beyond a category below this is rounded to it in float64."""


def number(value: Any) -> float:
    """Return the number that a cell holds; nan if it holds none.

    >>> number(" 01 "), number("TRUE"), number(10**400), number("1_000"), number([3])
    (1.0, 1.0, inf, nan, nan)
    """
    found = _exact(value)
    try:
        return math.nan if found is None else float(found)
    except OverflowError:  # beyond all floats: like any other value out of bounds
        return math.inf if found > 0 else -math.inf  # type: ignore[operator]


def scalar(value: Any) -> str | int | float | None:
    r"""Return a cell as a text or a finite number, the form in which categories are compared; None if it is neither.

    Equal numbers are one scalar, and text that is not valid Unicode is not one: it could not be printed.

    >>> scalar(True), scalar(1.0), scalar(b"red"), scalar("\ud800"), scalar(float("nan")), scalar({})
    (1, 1, 'red', None, None, None)
    """
    text = _text(value)
    if text is not None:
        return text if text.isascii() or _is_unicode(text) else None
    found = None if issubclass(type(value), str | bytes) else _exact(value)
    if found is None or found != found or found in (math.inf, -math.inf):
        return None
    if found == int(found):
        return int(found)
    rounded = number(found)  # a fraction may lie beyond all floats
    return rounded if math.isfinite(rounded) else None


def _text(value: Any) -> str | None:
    """Return the text in a cell, None if it holds something else. No method of the cell's own is called."""
    kind = type(value)
    if kind is str:
        return cast("str", value)
    if issubclass(kind, str):
        return str.__str__(value)
    if issubclass(kind, bytes):
        try:
            return bytes.decode(value, "utf-8")
        except UnicodeDecodeError:
            return None
    return None


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _exact(value: Any) -> _Exact | None:
    """Return the number in a cell, exactly; None if there is none. No method of the cell's own is called unguarded."""
    kind = type(value)
    if kind is float:
        return cast("float", value)
    if issubclass(kind, int):
        return int.__int__(value)
    if issubclass(kind, float):
        return float.__float__(value)
    if issubclass(kind, str | bytes):
        return _parsed(_text(value) or "")
    try:
        if issubclass(kind, Decimal):
            return _parsed(Decimal.__str__(value))
        if issubclass(kind, np.longdouble):
            return Fraction(*value.as_integer_ratio())
        if issubclass(kind, np.timedelta64):  # an integer to numpy
            return None
        if issubclass(kind, np.bool_ | np.integer | np.floating):
            return cast("_Exact", value.item())
        return cast("Fraction", value) if kind is Fraction else None
    except OverflowError:  # an infinite long double
        return math.inf if value > 0 else -math.inf
    except Exception:  # nan, and whatever a subclass does
        return None


def _parsed(text: str) -> int | float | None:
    """Return the number that a text is written like."""
    bare = text.strip(_SPACES)
    if not _WRITTEN.fullmatch(bare):
        return _WORDS.get(bare.lower())
    if len(bare) > _LONGEST:
        return float(bare)
    try:
        return int(bare)
    except ValueError:  # it has a point or an exponent
        return float(bare)


def numbers(values: Values | Sequence[Any]) -> Values:
    """Return cells as numbers: an array of a numeric type as it is, anything else as float64, cell by cell.

    >>> numbers(["1.5", 2, None, "x"]).tolist()
    [1.5, 2.0, nan, nan]
    """
    if isinstance(values, np.ndarray):
        if values.dtype.kind in "biuf":
            with np.errstate(over="ignore", under="ignore"):  # long doubles
                return values if values.dtype.itemsize <= 8 else values.astype(np.float64)
        values = values.tolist() if values.dtype.kind in "OUST" else [None] * len(values)
    return np.fromiter(map(number, values), dtype=np.float64, count=len(values))


def scalars(values: Values | Sequence[Any]) -> Values:
    """Return cells as texts, finite numbers and None, in an array of objects."""
    if isinstance(values, np.ndarray):
        values = values.tolist() if values.dtype.kind in "biufOUST" else [None] * len(values)
    return objects(list(map(scalar, values)))


def objects(values: Sequence[Any]) -> Values:
    """Return values one by one, lists among them too, as an array of objects."""
    found = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):  # a slice would look into cells that are sequences
        found[i] = value
    return found


def scalars_of_text(column: pyarrow.ChunkedArray) -> Values:
    """Return what :func:`scalars` gives for an Arrow column of text; each distinct text is looked at once.

    >>> import pyarrow
    >>> scalars_of_text(pyarrow.chunked_array([["b", None, "b"]])).tolist()
    ['b', None, 'b']
    """
    import pyarrow

    coded = column.dictionary_encode().combine_chunks()
    if isinstance(coded, pyarrow.ChunkedArray):
        coded = coded.chunk(0)
    known = objects([*scalars(texts_of(pyarrow.chunked_array([coded.dictionary]))), None])
    found: Values = known[coded.indices.fill_null(len(known) - 1).to_numpy()]
    return found


def numbers_of_text(column: pyarrow.ChunkedArray) -> NDArray[np.float64]:
    """Return what :func:`number` gives for each cell of an Arrow column of text or bytes; null is missing.

    >>> import pyarrow
    >>> numbers_of_text(pyarrow.chunked_array([["1", None, " 2 ", "x"]])).tolist()
    [1.0, nan, 2.0, nan]
    """
    import pyarrow
    from pyarrow import compute

    if column.type == pyarrow.string_view():  # which has no kernel for patterns
        column = column.cast(pyarrow.large_string())
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
    return objects(cells)


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
            # half floats too: they would round the bounds, unless a missing value beside them had made doubles of them
            values = np.clip(values.astype(np.float64, copy=False), low, high).astype(np.float32)
        # Rounding to float32 may step over a bound that is not a float32: these are clipped to rounded bounds.
        np.maximum(values, np.float32(low), out=out)
        np.minimum(out, np.float32(high), out=out)


def category_codes(values: Values, categories: Sequence[Scalar]) -> NDArray[np.int32]:
    """Return the place of every cell among the categories; their number for what is missing or unknown.

    ``values`` are of a numeric type, or what :func:`scalars` returns.

    >>> category_codes(scalars(["1", 1, "one", None]), [0, 1]).tolist()
    [1, 1, 2, 2]
    >>> category_codes(scalars(["1", 1, "01"]), ["0", "1"]).tolist()
    [1, 1, 2]
    """
    places = _Places(categories)
    if values.dtype.kind in "biuf" and values.dtype.itemsize <= 8 and all(-_EXACT < v < _EXACT for v in places.numbers):
        return _codes_of_floats(values.astype(np.float64), places.numbers, len(categories))
    plain = values if values.dtype == object else scalars(values)
    return np.fromiter(map(places.__getitem__, plain.tolist()), dtype=np.int32, count=len(values))


def _codes_of_floats(values: Values, places: dict[Any, int], reserved: int) -> NDArray[np.int32]:
    codes = np.full(len(values), reserved, dtype=np.int32)
    if len(places) <= TUNING.few_categories:
        for value, code in places.items():
            np.putmask(codes, values == float(value), code)
        return codes
    known = np.array(sorted(places), dtype=np.float64)
    at = np.minimum(np.searchsorted(known, values), len(known) - 1)
    ranked = np.array([places[value] for value in sorted(places)])
    return np.where(known[at] == values, ranked[at], reserved).astype(np.int32)


class _Places(dict[Any, int]):
    """Codes by cell, each distinct cell worked out once; ``numbers`` has the codes of numbers."""

    def __init__(self, categories: Sequence[Scalar]) -> None:
        super().__init__()
        self._reserved = len(categories)
        self._texts = {value: i for i, value in enumerate(categories) if isinstance(value, str)}
        self._own = {_exact(value): i for i, value in enumerate(categories) if not isinstance(value, str)}
        written = {_exact(text): i for text, i in reversed(self._texts.items())}
        self.numbers = {v: i for v, i in {**written, **self._own}.items() if v is not None and math.isfinite(v)}

    def __missing__(self, cell: str | float | None) -> int:
        if isinstance(cell, str):
            code = self._texts.get(cell)
            self[cell] = self._own.get(_exact(cell), self._reserved) if code is None else code
        else:
            self[cell] = self._reserved if cell is None else self.numbers.get(cell, self._reserved)
        return self[cell]
