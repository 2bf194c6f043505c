"""Labels as the learners see them: codes of classes, or numbers clipped to bounds.

:func:`label_codes` and :func:`label_numbers` read each cell by itself, by one rule, and never raise on one:

* A number is a bool, an int, a float, a number of numpy or a decimal. It is a class that has exactly its value, as
  Python compares numbers (``True == 1 == 1.0``). It never is a class that is a text.
* A text is the class that is the same text. Otherwise, spaces around it left out, one that is written like a number
  (``1``, ``01``, ``1.0``, ``1e0``; no underscores, no ``nan``, no ``inf``) is read as that number, and ``true`` and
  ``false``, in capitals or not, are the classes True and False.
* Bytes are the text that they encode in UTF-8. A decimal is read as it is written.
* All else is no label: missing, dates, lists, complex numbers, malformed text, objects of any other type.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from ledgerwood.errors import ParameterError
from ledgerwood.learners.label_cells import label_cells
from ledgerwood.learners.schema import Atom

Values = NDArray[Any]

_Number: TypeAlias = int | float | Fraction
_FEW = 8
"""So many classes are found by a comparison with each, quicker than by a search."""
_EXACT = 2.0**52
"""No integer beyond a class below this is rounded to it in float64."""
_SPACES = " \t\n\r\v\f"
_WRITTEN = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


@dataclass(frozen=True)
class Labels:
    """Targets: class codes (int64, in the order of ``classes``), or float64 numbers clipped to bounds.

    >>> read_labels(["no", "yes", "no"], ["no", "yes"])
    Labels(values=array([0, 1, 0]), classes=('no', 'yes'), bounds=None)
    """

    values: Values
    classes: tuple[Atom, ...] | None = None
    bounds: tuple[float, float] | None = None


def as_vector(y: Any) -> Any:
    """Return y as an array, missing labels as None; arrays and lists stay as they are."""
    if y is None or (isinstance(y, np.ndarray | list | tuple) and not np.ma.isMaskedArray(y)):
        return y
    values, missing = label_cells(y)
    if missing is None or not missing.any():
        return values
    found = values.astype(object)
    found[missing] = None
    return found


def trainable(y: Any) -> Any:
    """Return y as an array to learn from, or raise: what is no label here has no value shown in its error."""
    if isinstance(y, str):
        raise ParameterError("y", "be the labels", y, f"A table in memory has them in a column: y=X[{y!r}]")
    if y is None:
        return None
    vector = as_vector(y)
    array = np.asarray(vector)
    if array.dtype.kind == "c":  # scikit-learn's own message shows the values
        raise ValueError("Complex data not supported: y must hold real numbers or labels")
    if array.dtype.kind in "mMV":
        hint = "Convert it before: a date to a number of days"
        raise ParameterError("y", "hold numbers, booleans or text", str(array.dtype), hint)
    if (array.dtype.kind == "f" and np.isnan(array).any()) or (
        array.dtype.kind == "O" and any(value is None or type(value).__name__ == "NAType" for value in array.ravel())
    ):
        raise ValueError("Input y contains NaN: a label is missing. Drop these rows, or give them a label of their own")
    return vector


def as_numbers(y: Any) -> Any:
    """Return a regression target with its objects or texts as floats; the error for what is no number does not show it.

    >>> as_numbers(["1", 2.5]).tolist()
    [1.0, 2.5]
    """
    if y is None or getattr(y, "dtype", np.dtype(object)).kind not in "OUST":
        return y
    return read_numbers(y)


def read_numbers(y: Any) -> NDArray[np.float64]:
    """Read a regression target. One that is not finite raises: the one value that may."""
    numbers = label_numbers(y)
    if np.isnan(numbers).any():
        raise ParameterError("y", "hold finite numbers only", "<data>", "Convert it before, or use a classifier")
    return numbers


def read_labels(y: Values, classes: Sequence[Atom] | None) -> Labels:
    """Read class labels as codes. A label that is not declared raises: the one value that may.

    >>> read_labels(np.array(["no", "yes", "no"]), None).values.tolist()
    [0, 1, 0]
    """
    if classes is None:
        found, codes = np.unique(y, return_inverse=True)
        return Labels(codes.astype(np.int64), tuple(cast("list[Atom]", found.tolist())))
    codes = label_codes(y, classes)
    if (codes < 0).any():
        raise ParameterError(
            "y", f"hold declared classes only ({', '.join(map(repr, classes))})", "<data>",
            "Declare every label value: Schema(classes=[...])",
        )  # fmt: skip
    return Labels(codes, tuple(classes))


def label_codes(y: Any, classes: Sequence[Atom]) -> NDArray[np.int64]:
    """Return each label's place among the classes, -1 for any other. Never raises on a value.

    >>> label_codes(["1", " 01 ", 1.0, True, 0, "x", None, [1]], [0, 1]).tolist()
    [1, 1, 1, 1, 0, -1, -1, -1]
    >>> label_codes(["yes", "Yes", 1], ["no", "yes", "1"]).tolist()
    [1, -1, -1]
    """
    values, missing = label_cells(y)
    codes = _number_codes(values, classes) if values.dtype.kind in "biuf" else None
    if codes is None:
        known = _TextCodes(classes)
        read = known.__getitem__ if values.dtype.kind == "U" else known.of_cell
        codes = np.fromiter(_each(values, read, -1), np.int64, len(values))
    if missing is not None:
        codes[missing] = -1
    return codes


def label_numbers(y: Any) -> NDArray[np.float64]:
    """Return each label as a float64, nan for what is no number or not finite in float64. Never raises on a value.

    >>> label_numbers(["1", 2.5, "1_0", "inf", 10**400, None]).tolist()
    [1.0, 2.5, nan, nan, nan, nan]
    """
    values, missing = label_cells(y)
    if values.dtype.kind in "biuf":
        with np.errstate(over="ignore", under="ignore"):  # long doubles
            numbers = values.astype(np.float64)
    else:
        numbers = np.fromiter(_each(values, _float, np.nan), np.float64, len(values))
    numbers[~np.isfinite(numbers)] = np.nan
    if missing is not None:
        numbers[missing] = np.nan
    return numbers


def _each(values: Values, read: Callable[[Any], Any], none: Any) -> Any:
    """Read cell by cell; a column of another type than numbers, text or objects (dates, say) holds no label."""
    return map(read, values.tolist()) if values.dtype.kind in "OUSTbiuf" else (none for _ in values)


def _number_codes(y: Values, classes: Sequence[Atom]) -> NDArray[np.int64] | None:
    """Return the codes of a column of numbers by float64, or None where that would not be exact."""
    place = [(value, code) for code, value in enumerate(classes) if not isinstance(value, str)]
    if y.dtype.itemsize > 8 or any(abs(value) >= _EXACT for value, _ in place):
        return None
    known = np.array([float(value) for value, _ in place])
    codes = np.full(len(y), -1, dtype=np.int64)
    numbers = y.astype(np.float64)
    if len(known) <= _FEW:
        for value, code in place:
            np.putmask(codes, numbers == value, code)
        return codes
    order = np.argsort(known, kind="stable")
    at = np.minimum(np.searchsorted(known[order], numbers), len(known) - 1)
    return np.where(known[order][at] == numbers, np.array([code for _, code in place])[order[at]], -1)


class _TextCodes(dict[str, int]):
    """The code of each text, looked for once."""

    def __init__(self, classes: Sequence[Atom]) -> None:
        super().__init__((value, code) for code, value in enumerate(classes) if isinstance(value, str))
        self.numbers: dict[Any, int] = {value: i for i, value in enumerate(classes) if not isinstance(value, str)}
        self._flags = {str(value).lower(): code for value, code in self.numbers.items() if isinstance(value, bool)}

    def __missing__(self, text: str) -> int:
        bare = text.strip(_SPACES)
        code = self[text] = self._flags.get(bare.lower(), self.numbers.get(_parsed(bare), -1))
        return code

    def of_cell(self, value: Any) -> int:
        """Return the code of a cell, text or not."""
        text = _text(value)
        return self.numbers.get(_number(value), -1) if text is None else self[text]


def _text(value: Any) -> str | None:
    """Return the text in a cell, None if it holds something else. No method of the cell's own is called."""
    kind = type(value)
    if kind is str:
        return value  # type: ignore[no-any-return]
    if issubclass(kind, str):
        return str.__str__(value)
    if issubclass(kind, bytes):
        try:
            return bytes.decode(value, "utf-8")
        except UnicodeDecodeError:
            return None
    return None


def _number(value: Any) -> _Number | None:
    """Return the number in a cell that holds no text, exactly; None if there is none."""
    kind = type(value)
    if issubclass(kind, int):
        return int.__int__(value)
    if issubclass(kind, float):
        return float.__float__(value)
    try:
        if issubclass(kind, Decimal):
            return _parsed(Decimal.__str__(value))
        if issubclass(kind, np.longdouble):
            return Fraction(*value.as_integer_ratio())
        if issubclass(kind, np.timedelta64):  # an integer to numpy
            return None
        if issubclass(kind, np.bool_ | np.integer | np.floating):
            return cast("_Number", value.item())
        return value if kind is Fraction else None
    except Exception:  # nan, infinities, and whatever a subclass does
        return None


def _parsed(text: str) -> int | float | None:
    """Return the number that a text is written like."""
    if not _WRITTEN.fullmatch(text):
        return None
    try:
        return int(text)
    except ValueError:  # it has a point or an exponent, or more digits than Python reads
        return float(text)


def _float(value: Any) -> float:
    text = _text(value)
    if text is not None:
        bare = text.strip(_SPACES)
        return float(bare) if _WRITTEN.fullmatch(bare) else np.nan
    number = _number(value)
    try:
        return np.nan if number is None else float(number)
    except OverflowError:
        return np.nan


def read_target(y: Values, bounds: tuple[float, float]) -> Labels:
    """Read a regression target, clipped to its bounds. One that is not finite raises, as the statement says."""
    return Labels(np.clip(read_numbers(y), *bounds), bounds=bounds)
