"""Labels as the learners see them: codes of classes, or numbers clipped to bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ledgerwood.errors import ParameterError
from ledgerwood.learners.schema import Atom

Values = NDArray[Any]

_FEW = 8
"""So many classes are found by a comparison with each, quicker than by a search."""


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
    """Return y as an array; polars and Arrow through narwhals, masked entries as nan."""
    if np.ma.isMaskedArray(y):
        if not np.ma.getmaskarray(y).any():
            return np.asarray(np.ma.getdata(y))
        data = np.ma.getdata(y)
        numeric = data.dtype.kind in "biuf"
        return np.where(np.ma.getmaskarray(y), np.nan, data.astype(np.float64 if numeric else object))
    if isinstance(y, np.ndarray | list | tuple) or y is None:
        return y
    import narwhals.stable.v2 as nw

    found = nw.from_native(y, series_only=True, pass_through=True)
    return found.to_numpy() if isinstance(found, nw.Series) else y


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
    if array.dtype.kind == "O" and any(value is None or type(value).__name__ == "NAType" for value in array.ravel()):
        raise ValueError("Input y contains NaN: a label is missing. Drop these rows, or give them a label of their own")
    return vector


def as_numbers(y: Any) -> Any:
    """Return a regression target with its objects or texts as floats; the error for what is no number does not show it.

    >>> as_numbers(["1", 2.5]).tolist()
    [1.0, 2.5]
    """
    array = y if y is None else np.asarray(y)
    if array is None or array.dtype.kind not in "OUS":
        return y
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError):
        pass  # raised below, so that the value is not in the error's context either
    raise ParameterError("y", "hold numbers", "<data>", "Convert it before, or use a classifier")


def read_labels(y: Values, classes: Sequence[Atom] | None) -> Labels:
    """Read class labels as codes. A label that is not declared raises: the one value that may.

    >>> read_labels(np.array(["no", "yes", "no"]), None).values.tolist()
    [0, 1, 0]
    """
    if classes is None:
        found, codes = np.unique(y, return_inverse=True)
        return Labels(codes.astype(np.int64), tuple(cast("list[Atom]", found.tolist())))
    codes = _class_codes(np.asarray(y), classes)
    if (codes < 0).any():
        raise ParameterError(
            "y", f"hold declared classes only ({', '.join(map(repr, classes))})", "<data>",
            "Declare every label value: Schema(classes=[...])",
        )  # fmt: skip
    return Labels(codes, tuple(classes))


def _class_codes(y: Values, classes: Sequence[Atom]) -> NDArray[np.int64]:
    """Return each label's place among the classes, -1 for any other."""
    if y.dtype.kind in "biuf" and all(isinstance(value, bool | int | float) for value in classes):
        known = np.array([float(value) for value in classes])
        if np.abs(known).max(initial=0.0) < 2.0**52:  # so no larger integer reads as one of them
            numbers = y.astype(np.float64)
            if len(known) <= _FEW:
                codes = np.full(len(numbers), -1, dtype=np.int64)
                for code, value in reversed(list(enumerate(known))):
                    np.putmask(codes, numbers == value, code)
                return codes
            order = np.argsort(known, kind="stable")
            at = np.minimum(np.searchsorted(known[order], numbers), len(known) - 1)
            return np.where(known[order][at] == numbers, order[at], -1).astype(np.int64)
    code = {value: i for i, value in enumerate(classes)}
    return np.array([code.get(value, -1) for value in y.tolist()], dtype=np.int64)


def read_target(y: Values, bounds: tuple[float, float]) -> Labels:
    """Read a regression target, clipped to its bounds. One that is not finite raises, as the statement says."""
    numbers = np.asarray(as_numbers(y), dtype=np.float64)
    if not np.isfinite(numbers).all():
        raise ParameterError("y", "hold finite numbers only", "<data>")
    return Labels(np.clip(numbers, *bounds), bounds=bounds)
