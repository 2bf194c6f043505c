r"""The finite ordered domain of a local mechanism, its partitions, and the mapping of real features onto it.

Bounds, partitions and the value that stands for "missing" are public metadata, declared before any data is seen:
a bad one raises. Private values never raise: they are rounded, clamped and, where missing, replaced as
declared.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ledgerwood import _checks
from ledgerwood.errors import ParameterError
from ledgerwood.mechanisms.base import coerce_floats, typed_array

Codes = NDArray[np.int64]
_MOST_PARTS = 2**20
_LARGEST = 2**53  # every integer up to here is a double, so clamping and rounding floats is exact


def within(name: str, value: Any, *, at_least: int, at_most: int = _LARGEST) -> int:
    """Check a public integer and its range, as ``int``."""
    return _checks.integer(name, value, at_least, at_most)


def privacy_parameter(name: str, value: Any) -> float:
    """Check a public epsilon: beyond [1e-12, 1e6] it is a mistake, and doubles lose their meaning."""
    number = _checks.positive(name, value)
    if not 1e-12 <= number <= 1e6:
        raise ParameterError(name, "lie in [1e-12, 1e6]", value)
    return number


def coerce_epsilons(mechanism: object, *names: str) -> None:
    """Check the epsilons of a new frozen value, and keep them as floats."""
    for name in names:
        privacy_parameter(name, getattr(mechanism, name))
    coerce_floats(mechanism, *names)


def numeric(name: str, values: ArrayLike) -> NDArray[Any]:
    """Take an array of numbers; the type is part of the schema, so a wrong one is refused."""
    array = typed_array(name, values)
    if array.dtype.kind not in "biuf":
        raise ParameterError(
            name,
            "be an array of numbers",
            array.dtype,
            "Encode categories as integers and missing values as nan first.",
        )
    return array


@dataclass(frozen=True)
class Domain:
    r"""The integers ``lower, ..., upper``: OpBoost's :math:`\mathbb{D}_\perp`, both input and output of the maps.

    Parameters
    ----------
    lower, upper
        The ends, both included; public.
    missing
        The value that nan stands for; ``lower`` unless given. It is declared, so a missing value is
        randomized like any other, and no release reveals who had one.

    >>> ages = Domain(1, 100)
    >>> ages.size, ages.encode([0.2, 17.4, float("nan"), float("inf")]).tolist()
    (100, [0, 16, 0, 99])
    """

    lower: int
    upper: int
    missing: int | None = None

    def __post_init__(self) -> None:
        within("lower", self.lower, at_least=-_LARGEST)
        within("upper", self.upper, at_least=self.lower + 1)
        if self.upper - self.lower >= 2**52:
            raise ParameterError("upper", "be less than lower + 2**52", self.upper)
        if self.missing is not None:
            within("missing", self.missing, at_least=self.lower, at_most=self.upper)

    @property
    def size(self) -> int:
        """How many values there are."""
        return self.upper - self.lower + 1

    @property
    def values(self) -> Codes:
        """All the values in order."""
        return np.arange(self.lower, self.upper + 1)

    def encode(self, values: ArrayLike) -> Codes:
        """Offsets from ``lower``: nan becomes ``missing``, then clamp, then round (ties to even)."""
        array = numeric("values", values)
        if array.dtype.kind == "f":
            missing = self.lower if self.missing is None else self.missing
            with np.errstate(all="ignore"):  # no value may warn: a warning can be made an error
                filled = np.where(np.isnan(array), missing, array.astype(np.float64, copy=False))
                rounded = np.rint(np.clip(filled, self.lower, self.upper)).astype(np.int64)
            return np.asarray(rounded - self.lower)
        if array.dtype.kind == "u":  # of either byte order: would wrap into negative numbers as int64
            array = np.minimum(array.astype(np.uint64), np.uint64(2**62))
        return np.clip(array.astype(np.int64), self.lower, self.upper) - self.lower

    def decode(self, offsets: Codes) -> Codes:
        """The values at given offsets."""
        return offsets + self.lower


@dataclass(frozen=True)
class Partition:
    """A domain cut into consecutive parts of given widths, even or uneven.

    >>> Partition.even(10, 4).widths
    (4, 4, 2)
    >>> scores = Partition((60, 20, 21))  # unqualified, qualified, excellent
    >>> scores.count, scores.starts.tolist()
    (3, [0, 60, 80])
    """

    widths: tuple[int, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.widths, tuple) or not self.widths:
            raise ParameterError("widths", "be a tuple of at least one integer", self.widths)
        for width in self.widths:
            within("widths", width, at_least=1)

    @classmethod
    def even(cls, size: int, theta: int) -> Partition:
        """Parts of width ``theta``; the last one takes what is left."""
        size = within("size", size, at_least=2)
        theta = within("theta", theta, at_least=-(-size // _MOST_PARTS), at_most=size)
        full, rest = divmod(size, theta)
        return cls((theta,) * full + ((rest,) if rest else ()))

    @property
    def size(self) -> int:
        """The size of the domain that is cut."""
        return sum(self.widths)

    @property
    def count(self) -> int:
        """How many parts there are, OpBoost's k."""
        return len(self.widths)

    @cached_property
    def starts(self) -> Codes:
        """The first offset of each part."""
        return np.concatenate([[0], np.cumsum(self.widths)[:-1]]).astype(np.int64)

    def index(self, offsets: Codes) -> Codes:
        """The part in which each offset lies."""
        return np.searchsorted(self.starts, offsets, side="right") - 1

    @cached_property
    def shortest_crossings(self) -> Codes:
        """For h = 0, 1, ..., count - 1 the fewest steps that cross h boundaries.

        Crossing h >= 1 of them takes one step and the h - 1 parts between the first and the last: the least
        sum of h - 1 consecutive inner widths.
        """
        inner = np.asarray(self.widths[1:-1], dtype=np.int64)
        if np.unique(inner).size <= 1:
            between = np.arange(max(0, self.count - 1)) * (inner[0] if inner.size else 0)
        else:
            ends = np.concatenate([[0], np.cumsum(inner)])
            between = np.array([(ends[h:] - ends[: ends.size - h]).min() for h in range(ends.size)])
        return np.concatenate([[0], 1 + between]).astype(np.int64)

    def most_crossed(self, distance: int) -> int:
        """The most boundaries between two values at most ``distance`` apart."""
        return int(np.searchsorted(self.shortest_crossings, distance, side="right")) - 1


@dataclass(frozen=True)
class DomainMapping:
    r"""Real features onto a unified integer domain (OpBoost, §4.1).

    .. math:: x_\perp = \left[ L + \frac{x - lower}{upper - lower} (R - L) \right]

    with :math:`[\cdot]` the nearest integer (the paper prints :math:`x_\perp` on both sides; the right one is
    the raw :math:`x`). ``lower`` and ``upper`` are public bounds of the feature; values beyond them are
    clamped, nan becomes the domain's ``missing``.

    >>> salaries = DomainMapping(0.0, 100_000.0, Domain(1, 100))
    >>> salaries.forward([2000, 2020, 51_000, 1e9]).tolist()
    [3, 3, 51, 100]
    >>> salaries.backward([1, 100]).tolist()
    [0.0, 100000.0]
    """

    lower: float
    upper: float
    domain: Domain

    def __post_init__(self) -> None:
        if not (np.isfinite(self.lower) and np.isfinite(self.upper) and self.lower < self.upper):
            raise ParameterError("upper", f"be finite and larger than lower={self.lower!r}", self.upper)
        if not np.isfinite(self.upper - self.lower):
            raise ParameterError("upper", "be at a finite distance from lower", self.upper)

    def forward(self, values: ArrayLike) -> Codes:
        """Map raw values into the domain."""
        with np.errstate(all="ignore"):
            raw = np.clip(numeric("values", values).astype(np.float64), self.lower, self.upper)  # keeps nan
            share = (raw - self.lower) / (self.upper - self.lower)
        return self.domain.decode(self.domain.encode(self.domain.lower + share * (self.domain.size - 1)))

    def backward(self, values: ArrayLike) -> NDArray[np.float64]:
        """The raw value at the middle of those that map to each domain value."""
        offsets = self.domain.encode(values).astype(np.float64)
        return self.lower + offsets * ((self.upper - self.lower) / (self.domain.size - 1))
