r"""What the schema does not say, learned privately: bounds by a log-scale histogram, categories by set selection.

**Bounds.** Every undeclared column of numbers (and an undeclared regression target) is counted in bins
:math:`\pm[2^e, 2^{e+1})`, :math:`-16 \le e < 40`, and one bin around zero; nan counts nowhere. A record adds at most
one to one bin of each of m columns, so the joint histogram has L2 sensitivity :math:`\sqrt m` (replace-one:
:math:`\sqrt{2m}`); it is released once with Gaussian noise. Bounds are the outer edges of the outermost bins above a
public multiple of the noise; a column with none gets (-4, 4).

**Categories.** For m undeclared columns of text, the values *present* are counted, noised, and kept above a threshold:
:class:`~ledgerwood.mechanisms.ThresholdedCountsMechanism`, where the cost is proved. A unit of k rows is counted under
at most mk values, at most k times under each, and mk times in all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood._rounding import sqrt_up
from ledgerwood.accounting import Cost, Gaussian, Plan, Release
from ledgerwood.errors import ParameterError
from ledgerwood.learners.data.cells import scalars
from ledgerwood.learners.data.columns import MOST_CATEGORIES, Column, Scalar
from ledgerwood.learners.data.table import Columns
from ledgerwood.learners.training.public_metadata import PublicMetadata, complete_plan, total_share
from ledgerwood.learners.training.session import ReleaseSession
from ledgerwood.mechanisms import GaussianMechanism, Sensitivity, ThresholdedCountsMechanism
from ledgerwood.mechanisms.randomness import Rng

__all__ = ["whole_plan"]


SLICE = 0.1
"""The part of the concentrated budget that learning bounds and categories may take, if any are learned."""

DELTA_SLICE = 0.1
"""The part of delta kept for selecting categories."""

LOWEST, HIGHEST = -16, 40

BINS = 2 * (HIGHEST - LOWEST) + 1

FALLBACK = (-4.0, 4.0)

_LARGEST_CATEGORY = 2**63

_DOUBT = 1e-6
"""Chance that any empty bin of any column passes the threshold."""

BOUNDS, CATEGORIES = "bounds", "categories"


@dataclass(frozen=True)
class Unknown:
    """What must be learned: numbers of columns, whether the target's bounds are among them."""

    bounds: tuple[int, ...]
    categories: tuple[int, ...]
    target: bool

    @classmethod
    def of(cls, metadata: PublicMetadata) -> Unknown:
        """Return what the metadata leave open."""
        open_ = [(i, column.kind) for i, column in enumerate(metadata.columns) if not column.is_known]
        return cls(
            tuple(i for i, kind in open_ if kind == "number"),
            tuple(i for i, kind in open_ if kind == "category"),
            metadata.task == "regression" and metadata.target_bounds is None,
        )

    def __bool__(self) -> bool:
        return bool(self.bounds or self.categories or self.target)


def releases(metadata: PublicMetadata, share: float) -> tuple[Release, ...]:
    """Return what is released before training; ``share`` is the sum of the learner's own shares."""
    unknown = Unknown.of(metadata)
    histograms = len(unknown.bounds) + unknown.target
    parts = (histograms > 0) + bool(unknown.categories)
    each = share * SLICE / (1 - SLICE) / parts if parts else 0.0
    found = []
    if histograms:
        size = histogram_sensitivity(histograms, metadata.neighbours)
        found.append(Release(BOUNDS, cost=Gaussian, share=each, sensitivity=size, group=metadata.max_rows_per_unit))
    if unknown.categories:
        if metadata.delta == 0:
            raise ParameterError("delta", "be positive to learn categories", 0, "Declare them: Schema(categories=...)")
        found.append(Release(CATEGORIES, cost=SelectionCost.of(metadata), share=each))
    return tuple(found)


def learn(
    given: Columns, target: NDArray[Any] | None, metadata: PublicMetadata, plan: Any, session: ReleaseSession
) -> tuple[tuple[Column, ...], tuple[float, float] | None]:
    """Learn what is unknown through the session; return all columns, and the target's bounds."""
    unknown = Unknown.of(metadata)
    columns, target_bounds = list(metadata.columns), metadata.target_bounds
    if unknown.bounds or unknown.target:
        series = [given.values[i] for i in unknown.bounds]
        if unknown.target:
            assert target is not None
            series.append(target)
        size = histogram_sensitivity(len(series), metadata.neighbours)
        mechanism = GaussianMechanism(plan[BOUNDS].scale, size, neighbours=metadata.neighbours)
        counts = session.release(mechanism, np.concatenate([log_histogram(values) for values in series]), BOUNDS)
        found = bounds_from(np.asarray(counts).reshape(len(series), BINS), mechanism.sigma)
        for i, bounds in zip(unknown.bounds, found, strict=False):
            columns[i] = replace(columns[i], bounds=bounds)
        if unknown.target:
            target_bounds = found[-1]
    if unknown.categories:
        selection = SetSelection(plan[CATEGORIES].scale, SelectionCost.of(metadata))
        sets = session.release(selection, [value_counts(given.values[i]) for i in unknown.categories], CATEGORIES)
        for i, values in zip(unknown.categories, sets, strict=True):
            columns[i] = replace(columns[i], categories=values)
    return tuple(columns), target_bounds


# ---- bounds


def histogram_sensitivity(histograms: int, neighbours: str) -> float:
    """L2 sensitivity of that many histograms, rounded up."""
    changed = histograms if neighbours == "add_remove" else 2 * histograms
    return sqrt_up(Fraction(changed))


def log_histogram(values: NDArray[Any]) -> NDArray[np.int64]:
    """Count values in signed powers of two; nan nowhere, infinities in the outermost bins.

    >>> bins = log_histogram(np.array([0.0, 3.0, -3.0, np.nan, np.inf]))
    >>> int(bins.sum()), int(bins[BINS // 2]), int(bins[-1])
    (4, 1, 1)
    """
    with np.errstate(over="ignore"):
        floats = values.astype(np.float64)
    floats = np.clip(floats[~np.isnan(floats)], -(2.0**HIGHEST) * 0.75, 2.0**HIGHEST * 0.75)
    exponents = np.frexp(floats)[1] - 1  # exact: 2**e <= |value| < 2**(e + 1)
    steps = np.where(np.abs(floats) < 2.0**LOWEST, 0, exponents - LOWEST + 1)
    index = BINS // 2 + np.where(floats < 0, -steps, steps)
    return np.bincount(index.astype(np.int64), minlength=BINS).astype(np.int64)


def bounds_from(counts: NDArray[Any], sigma: float) -> list[tuple[float, float]]:
    """Read bounds off noisy histograms: post-processing."""
    from scipy.stats import norm

    threshold = sigma * float(norm.isf(_DOUBT / counts.size))
    found = []
    for row in counts:
        kept = np.flatnonzero(row > threshold)
        found.append((_bin_bounds(int(kept[0]))[0], _bin_bounds(int(kept[-1]))[1]) if len(kept) else FALLBACK)
    return found


def _bin_bounds(index: int) -> tuple[float, float]:
    step = index - BINS // 2
    if step == 0:
        return -(2.0**LOWEST), 2.0**LOWEST
    low, high = 2.0 ** (LOWEST + abs(step) - 1), 2.0 ** (LOWEST + abs(step))
    return (low, high) if step > 0 else (-high, -low)


# ---- categories


@dataclass(frozen=True)
class SelectionCost:
    """The cost of selecting the categories of some columns, for the whole unit, as a function of the noise."""

    columns: int
    rows: int
    delta: float
    neighbours: str

    @classmethod
    def of(cls, metadata: PublicMetadata) -> SelectionCost:
        """Return the cost for what the metadata leave open."""
        count = len(Unknown.of(metadata).categories)
        return cls(count, metadata.max_rows_per_unit, DELTA_SLICE * metadata.delta, str(metadata.neighbours))

    def mechanism(self, scale: float) -> ThresholdedCountsMechanism:
        """The mechanism for the counts of all columns together: a unit has a value of each column in each row."""
        return ThresholdedCountsMechanism(
            "gaussian",
            scale,
            delta=self.delta,
            max_keys=self.columns * self.rows,
            max_count=self.rows,
            max_total=self.columns * self.rows,
            neighbours=self.neighbours,
        )

    def __call__(self, scale: float) -> Cost:
        """Return the cost at noise ``scale``."""
        return self.mechanism(scale).cost


@dataclass(frozen=True)
class SetSelection:
    """Releases, for each column, the values whose noisy count passes the threshold, most frequent first."""

    sigma: float
    terms: SelectionCost

    @property
    def _mechanism(self) -> ThresholdedCountsMechanism:
        return self.terms.mechanism(self.sigma)

    @property
    def cost(self) -> Cost:
        """Gaussian noise, and delta for a value that one dataset alone has."""
        return self._mechanism.cost

    @property
    def sensitivity(self) -> Sensitivity:
        """Of the counts of common values, for a whole unit."""
        return self._mechanism.sensitivity

    @property
    def threshold(self) -> int:
        """A rounded count of at least this is kept."""
        return self._mechanism.threshold_at

    def check(self, value: Sequence[Counter[Scalar]]) -> None:
        """Refuse what is not one count of values for each column."""
        if len(value) != self.terms.columns or not all(isinstance(counts, Counter) for counts in value):
            raise ParameterError("value", f"be the counts of {self.terms.columns} columns", type(value).__name__)

    def release(self, value: Sequence[Counter[Scalar]], rng: Rng = None) -> tuple[tuple[Scalar, ...], ...]:
        """Return the kept values of each column."""
        counts = {(column, name): n for column, found in enumerate(value) for name, n in found.items()}
        kept: list[list[Any]] = [[] for _ in value]
        for key in self._mechanism.release(counts, rng):
            assert isinstance(key, tuple)
            kept[key[0]].append(key[1])
        return tuple(tuple(names[:MOST_CATEGORIES]) for names in kept)


def value_counts(values: NDArray[Any]) -> Counter[Scalar]:
    """Count the values that can be categories; anything else (None, nan, lists) is missing.

    Equal values have one form: True, 1 and 1.0 are one key, and a dictionary would name it after whoever came first.

    >>> value_counts(np.array([True, 1, 1.0, "a"], dtype=object))
    Counter({1: 3, 'a': 1})
    """
    return Counter(value for value in scalars(values).tolist() if isinstance(value, str) or _is_small(value))


def _is_small(value: Any) -> bool:
    """Whether a number can stand in a file of ours: integers that JSON readers refuse cannot be categories."""
    return value is not None and abs(value) < _LARGEST_CATEGORY


def whole_plan(plan: Plan, metadata: PublicMetadata, method: str | None = None) -> Plan:
    """Return a learner's plan with what is learned before it, priced for the privacy unit and calibrated."""
    return complete_plan(plan, metadata, releases(metadata, total_share(plan) or 1.0), method)
