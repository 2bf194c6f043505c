"""What every mechanism is, and the checks that all of them share.

A mechanism is a frozen value: it knows its ``cost``, states the ``sensitivity`` that the cost assumes, checks a value
and releases it (:class:`~ledgerwood.accounting.ledger.ledger.Mechanism`, declared below the ledger because the ledger
charges for it). The caller promises that neighbouring data give values no further apart than the stated sensitivity;
the mechanism promises that the distribution of its output is *exactly* the stated one.

Public parameters are checked when the mechanism is made. Values are checked before any random bit is drawn: a wrong
shape, a wrong dtype, a nan, an infinity or an overflow of the grid is an error of the caller, who broke the contract.
A mechanism that declares ``bounds`` clamps values, and a nan becomes the lower bound, so no number can make its release
fail: only a type can, which the caller's code decides (:func:`typed_array`). ``mechanism.check(value)`` runs these
checks alone, so that a ledger can refuse a bad value before it spends.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral, Real
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ledgerwood import _checks
from ledgerwood._rounding import float_up, sqrt_up
from ledgerwood.accounting.costs.base import Mechanism
from ledgerwood.errors import ParameterError, ReleaseRefused

__all__ = [
    "LARGEST_INTEGER",
    "Mechanism",
    "PaidRun",
    "Sensitivity",
    "check_bounds",
    "clamped_integers",
    "coerce_floats",
    "finite_floats",
    "integers",
    "real_array",
    "typed_array",
]


LARGEST_INTEGER = 2**61
"""Largest absolute integer (or multiple of the grid) that a release accepts; outputs saturate at twice it."""


class PaidRun:
    """What interactive runs share: a run was paid for once, so there is only one.

    It cannot be copied or pickled, and refuses to answer in a forked child. Threads may share it: they are answered one
    after the other.
    """

    def __init__(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()

    def __reduce__(self) -> NoReturn:
        name = type(self).__name__
        raise TypeError(f"a {name} cannot be copied: every copy would answer again for the same price")

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the run while one question is answered."""
        if os.getpid() != self._process:  # before the lock, which a fork may have copied in the locked state
            raise ReleaseRefused(f"this {type(self).__name__} belongs to another process: start a run of your own")
        with self._lock:
            yield


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """How far neighbouring data can move a vector, in as many norms as are known.

    The missing norms follow from the known ones, with d the dimension: L2 <= L1, L2 <= sqrt(d) Linf,
    L2 <= sqrt(L1 Linf) (Hoelder), L1 <= sqrt(d) L2, L1 <= d Linf, Linf <= L2 <= L1; all are rounded up.

    >>> Sensitivity(linf=1.0, dimension=4).in_l2, Sensitivity(l1=2.0, linf=1.0, dimension=9).in_l2
    (2.0, 1.4142135623730951)
    """

    l1: float | None = None
    l2: float | None = None
    linf: float | None = None
    dimension: int = 1

    def __post_init__(self) -> None:
        _checks.integer("dimension", self.dimension, 1)
        known = [name for name in ("l1", "l2", "linf") if getattr(self, name) is not None]
        coerce_floats(self, *known, upwards=True)
        if not known:
            raise ParameterError("l1", "be given, or l2 or linf", None, "state at least one norm")

    def check_size(self, size: int) -> None:
        """A value must have as many coordinates as its sensitivity says."""
        if size != self.dimension:
            raise ParameterError("value", f"have {self.dimension} coordinates, as its sensitivity says", f"<{size}>")

    @property
    def in_l1(self) -> float:
        """Bound on the L1 norm."""
        d, squares = self.dimension, []
        if self.l1 is not None:
            squares.append(Fraction(self.l1) ** 2)
        if self.l2 is not None:
            squares.append(d * Fraction(self.l2) ** 2)
        if self.linf is not None:
            squares.append((d * Fraction(self.linf)) ** 2)
        return sqrt_up(min(squares))

    @property
    def in_l2(self) -> float:
        """Bound on the L2 norm."""
        squares = []
        if self.l1 is not None:
            squares.append(Fraction(self.l1) ** 2)
        if self.l2 is not None:
            squares.append(Fraction(self.l2) ** 2)
        if self.linf is not None:
            squares.append(self.dimension * Fraction(self.linf) ** 2)
            if self.l1 is not None:
                squares.append(Fraction(self.l1) * Fraction(self.linf))
        return sqrt_up(min(squares))

    @property
    def in_linf(self) -> float:
        """Bound on the largest coordinate."""
        return min(float(bound) for bound in (self.l1, self.l2, self.linf) if bound is not None)


def coerce_floats(mechanism: object, *names: str, upwards: bool = False) -> None:
    """Check positive fields of a new frozen value, and keep them as floats: priced and sampled as one number.

    A numpy scalar or a fraction would go through exact arithmetic as something else than its price says; a
    sensitivity that is not a float is rounded ``upwards``.

    >>> Sensitivity(l1=Fraction(1, 3)).in_l1 >= Fraction(1, 3)
    True
    """
    for name in names:
        value = getattr(mechanism, name)
        number = _checks.positive(name, value)
        if upwards:
            number = _checks.positive(name, float_up(value))
        object.__setattr__(mechanism, name, number)


def check_bounds(bounds: tuple[float, float], grid: float = 1.0) -> None:
    """Bounds must be finite, in order, and within 2**61 steps of the grid."""
    try:
        lower, upper = (Fraction(bound) for bound in bounds)
        fits = lower <= upper and max(-lower, upper) <= LARGEST_INTEGER * Fraction(grid)
    except (TypeError, ValueError, OverflowError):  # no pair of finite numbers
        fits = False
    if not fits:
        raise ParameterError("bounds", "be finite, in order, and within 2**61 steps of the grid", bounds)


def integers(name: str, value: ArrayLike, *, limit: int = LARGEST_INTEGER) -> NDArray[np.int64]:
    """``value`` as an int64 array (a scalar has no dimension) if it holds integers of at most ``limit``.

    The message never quotes a datum.
    """
    array = real_array(name, value)
    if array.dtype.kind == "f":
        hint = "Round first, or use a mechanism with a grid"
        raise ParameterError(name, "hold integers", f"<{array.dtype}>", hint)
    if array.size and (int(array.max()) > limit or int(array.min()) < -limit):
        raise ParameterError(name, f"hold integers of at most {limit} in absolute value", "<data>")
    return array.astype(np.int64)


def clamped_integers(name: str, value: ArrayLike, lower: int, upper: int) -> NDArray[np.int64]:
    """Integers forced into lower .. upper, whatever their size."""
    array = real_array(name, value)
    if array.dtype.kind == "u":  # of either byte order: would wrap into negative numbers
        array = np.minimum(array.astype(np.uint64), np.uint64(2**63 - 1))
    return integers(name, array if array.dtype.kind == "f" else np.clip(array.astype(np.int64), lower, upper))


def finite_floats(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """``value`` as a float64 array if it holds finite numbers that float64 keeps exactly."""
    array = real_array(name, value)
    if array.dtype.kind in "iu" and array.size and max(int(array.max()), -int(array.min())) > 2**53:
        raise ParameterError(name, "hold integers of at most 2**53, which floats keep exactly", "<data>")
    floats = array.astype(np.float64)
    if not np.isfinite(floats).all():
        hint = "Declare bounds to have values clamped"
        raise ParameterError(name, "hold finite numbers (no nan, no infinity)", "<data>", hint)
    return floats


def real_array(name: str, value: ArrayLike) -> NDArray[Any]:
    """``value`` as an array of integers or floats of at most 64 bits; booleans and strings are refused by type."""
    array = typed_array(name, value)
    if array.dtype.kind not in "iuf" or array.dtype.itemsize > 8:
        raise ParameterError(name, "hold real numbers of at most 64 bits", f"<{array.dtype}>")
    return array


def typed_array(name: str, value: ArrayLike) -> NDArray[Any]:
    """``value`` as an array whose dtype follows from the types of its elements, never from how large they are.

    Left to itself numpy makes objects of 2**64 and floats of [2**63, -1]: a datum would choose between a release and an
    error. Here Python's integers stay integers, saturated at 64 bits; beside a float (or a fraction) all are floats,
    infinite where too large. Typed arrays, and objects that are not real numbers, are left as they are.

    >>> typed_array("value", [2**63, -1]).tolist() == [2**63 - 1, -1], typed_array("value", [10**400, 0.5]).tolist()
    (True, [inf, 0.5])
    """
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "fO" or (array.dtype.kind == "f" and hasattr(value, "__array__")):
            return array
        objects = np.asarray(value, dtype=object)
    except (ValueError, OverflowError) as error:
        raise ParameterError(name, "be a number or a regular array of numbers", "<data>") from error
    elements = objects.ravel().tolist()
    types = set(map(type, elements))
    if bool in types or not all(issubclass(kind, Real) for kind in types):
        return array
    if types and all(issubclass(kind, Integral) for kind in types):
        whole = [min(max(int(element), -(2**63)), 2**63 - 1) for element in elements]
        return np.array(whole, dtype=np.int64).reshape(objects.shape)
    return np.array([_float_or_infinity(element) for element in elements], dtype=np.float64).reshape(objects.shape)


def _float_or_infinity(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf
