"""Mechanisms of a planned cost: the plan says what a release may cost, these say how much noise that means.

The size of what one record contributes shrinks with the public bound of the scores, so it changes from round to round
while the planned cost stays. Each of these takes the planned cost and the current sensitivity, in grid units.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ledgerwood._rounding import raised
from ledgerwood.accounting import BoundedRange, Gaussian, Laplace, PermuteAndFlip
from ledgerwood.errors import ParameterError
from ledgerwood.mechanisms import (
    GaussianMechanism,
    LaplaceMechanism,
    ParallelExponentialMechanism,
    PermuteAndFlipMechanism,
)
from ledgerwood.mechanisms.randomness import Rng, source_of

__all__ = ["GaussianSums", "LaplaceSums", "Selections"]


def _check_sums(value: NDArray[np.int64]) -> None:
    # By type alone, before anything is spent. The mechanism looks at the size too; sums of an aggregator are far below.
    if not isinstance(value, np.ndarray) or value.dtype != np.int64:
        raise ParameterError("value", "be an array of 64-bit integers", type(value).__name__)


class _NoisySums(ABC):
    """Noise on integer sums, at the planned cost."""

    __slots__ = ()

    @abstractmethod
    def _mechanism(self) -> GaussianMechanism | LaplaceMechanism: ...

    def check(self, value: NDArray[np.int64]) -> None:
        """Refuse what is not an array of integers."""
        _check_sums(value)

    def release(self, value: NDArray[np.int64], rng: Rng = None) -> NDArray[np.int64]:
        """Return value + noise."""
        return np.asarray(self._mechanism().release(value, rng), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class GaussianSums(_NoisySums):
    """Normal noise on integer sums whose L2 sensitivity is ``sensitivity``, at the planned cost."""

    cost: Gaussian
    sensitivity: float

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise, in grid units."""
        return raised(self.sensitivity / self.cost.ratio)

    def _mechanism(self) -> GaussianMechanism:
        return GaussianMechanism(self.sigma, self.sensitivity, neighbours=str(self.cost.neighbours))


@dataclass(frozen=True, slots=True)
class LaplaceSums(_NoisySums):
    """Laplace noise on integers whose L1 sensitivity is ``sensitivity``, at the planned cost."""

    cost: Laplace
    sensitivity: float

    @property
    def scale(self) -> float:
        """Scale of the noise, in grid units."""
        return raised(self.sensitivity / self.cost.pure_epsilon())

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise, in grid units."""
        return math.sqrt(2) * self.scale

    def _mechanism(self) -> LaplaceMechanism:
        return LaplaceMechanism(scale=self.scale, sensitivity=self.sensitivity, neighbours=str(self.cost.neighbours))


@dataclass(frozen=True, slots=True)
class Selections:
    """One selection for each row of integer scores: rows are disjoint parts of the data.

    ``range_sensitivity`` is R for one record added to or removed from a part. Permute-and-flip follows the same rule as
    the exponential mechanism: under replace-one two parts may change, each with loss at most c R.
    """

    cost: BoundedRange | PermuteAndFlip
    range_sensitivity: float

    @property
    def sensitivity(self) -> float:
        """The range sensitivity."""
        return self.range_sensitivity

    @property
    def epsilon(self) -> float:
        """The planned epsilon."""
        return self.cost.pure_epsilon()

    def _mechanism(self) -> ParallelExponentialMechanism | PermuteAndFlipMechanism:
        neighbours = str(self.cost.neighbours)
        if isinstance(self.cost, BoundedRange):
            return ParallelExponentialMechanism(self.epsilon, self.range_sensitivity, neighbours)
        parts = 2 if neighbours == "replace_one" else 1
        return PermuteAndFlipMechanism(self.epsilon, parts * self.range_sensitivity, neighbours)

    def check(self, value: NDArray[np.int64]) -> None:
        """Refuse what is not a matrix of integer scores."""
        _check_sums(value)
        if value.ndim != 2 or value.size == 0:
            raise ParameterError("value", "have a row for each part and at least one candidate", value.shape)

    def release(self, value: NDArray[np.int64], rng: Rng = None) -> NDArray[np.int64]:
        """Return the chosen place in every row."""
        mechanism = self._mechanism()
        if isinstance(mechanism, ParallelExponentialMechanism):
            return mechanism.release(value, rng)
        source = source_of(rng)
        return np.array([mechanism.release(row, source) for row in value], dtype=np.int64)
