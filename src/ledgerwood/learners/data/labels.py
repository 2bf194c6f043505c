"""Labels as the learners see them: codes of classes, or numbers clipped to bounds.

Each label is read by itself, by the rule of :mod:`ledgerwood.learners.data.cells`. Where labels are arrays given to
``fit``, one that cannot be used raises, as scikit-learn demands; elsewhere its record counts as absent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ledgerwood.errors import ParameterError
from ledgerwood.learners.data.cells import category_codes
from ledgerwood.learners.data.columns import Scalar, Values
from ledgerwood.learners.data.frames import array_or_list, raw_vector


@dataclass(frozen=True)
class Labels:
    """Targets: class codes (int64, in the order of ``classes``), or float64 numbers clipped to bounds.

    >>> read_labels(["no", "yes", "no"], ["no", "yes"])
    Labels(values=array([0, 1, 0]), classes=('no', 'yes'), bounds=None)
    """

    values: Values
    classes: tuple[Scalar, ...] | None = None
    bounds: tuple[float, float] | None = None


def as_vector(y: Any) -> Any:
    """Return y as an array, missing labels as None; arrays and lists stay as they are, other sequences are lists."""
    y = array_or_list(y)
    if y is None or (isinstance(y, np.ndarray | list | tuple) and not np.ma.isMaskedArray(y)):
        return y
    return raw_vector(y).ids()


def trainable(y: Any) -> Any:
    """Return y as an array to learn from, or raise; the error never shows a label."""
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
    """Return a regression target with its objects or texts as floats; an error never shows a value.

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


def read_labels(y: Values, classes: Sequence[Scalar] | None) -> Labels:
    """Read class labels as codes. A label that is not declared raises: the one value that may.

    >>> read_labels(np.array(["no", "yes", "no"]), None).values.tolist()
    [0, 1, 0]
    """
    if classes is None:
        found, codes = np.unique(y, return_inverse=True)
        return Labels(codes.astype(np.int64), tuple(cast("list[Scalar]", found.tolist())))
    codes = label_codes(y, classes)
    if (codes < 0).any():
        raise ParameterError(
            "y", f"hold declared classes only ({', '.join(map(repr, classes))})", "<data>",
            "Declare every label value: Schema(classes=[...])",
        )  # fmt: skip
    return Labels(codes, tuple(classes))


def label_codes(y: Any, classes: Sequence[Scalar]) -> NDArray[np.int64]:
    """Return each label's place among the classes, -1 for any other. Never raises on a value.

    >>> label_codes(["1", " 01 ", 1.0, True, 0, "x", None, [1]], [0, 1]).tolist()
    [1, 1, 1, 1, 0, -1, -1, -1]
    """
    codes = category_codes(raw_vector(y).values(), classes).astype(np.int64)
    return np.where(codes < len(classes), codes, -1)


def label_numbers(y: Any) -> NDArray[np.float64]:
    """Return each label as a float64, nan for what is not a number or not finite in float64. Never raises on a value.

    >>> label_numbers(["1", 2.5, "1_0", "inf", 10**400, None]).tolist()
    [1.0, 2.5, nan, nan, nan, nan]
    """
    found = raw_vector(y).numbers().astype(np.float64)
    return np.where(np.isfinite(found), found, np.nan)


def usable_labels(y: Any, classes: Sequence[Scalar] | None) -> tuple[Values, NDArray[np.bool_]]:
    """Return class codes, or numbers where there are no classes, and which records have one; 0 for the others.

    This is how files, Dask and parties read labels: a record without a label that can be used counts as absent.

    >>> codes, usable = usable_labels(["yes", None, "maybe", "no"], ["no", "yes"])
    >>> codes.tolist(), usable.tolist()
    ([1, 0, 0, 0], [True, False, False, True])
    """
    if classes is not None:
        codes = label_codes(y, classes)
        return np.maximum(codes, 0), codes >= 0
    numbers = label_numbers(y)
    return np.nan_to_num(numbers), ~np.isnan(numbers)


def labels_of(values: Values, classes: Sequence[Scalar] | None, bounds: tuple[float, float] | None) -> Labels:
    """Return usable labels as what learners see."""
    if classes is not None:
        return Labels(values, tuple(classes))
    assert bounds is not None
    return Labels(np.clip(values, *bounds), bounds=bounds)


def read_target(y: Values, bounds: tuple[float, float]) -> Labels:
    """Read a regression target, clipped to its bounds. One that is not finite raises, as the statement says."""
    return Labels(np.clip(read_numbers(y), *bounds), bounds=bounds)
