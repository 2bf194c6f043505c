"""Running sums of a stream of integers with correlated noise: a matrix mechanism whose noise is exact.

The release is g·C·x + z in integers, with z discrete Gaussian; running sums follow from it by post-processing. With C
the identity every step has noise of its own and the error of a running sum grows like √t. The default C is the square
root of the matrix of running sums, whose error grows like log t. Theory: docs/theory/matrix-mechanisms.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ledgerwood import _checks
from ledgerwood._rounding import raised
from ledgerwood.accounting import DiscreteGaussian
from ledgerwood.accounting.costs.correlated_noise import GRID, grid_matrix, matrix_sensitivity
from ledgerwood.errors import ParameterError
from ledgerwood.mechanisms.base import Sensitivity, clamped_integers, coerce_floats
from ledgerwood.mechanisms.integer_noise import DiscreteGaussianMechanism
from ledgerwood.mechanisms.randomness import Rng

__all__ = ["RunningSumMechanism", "square_root_column"]

MOST_STEPS = 2**12
"""Most steps: the matrix is written out."""


def square_root_column(steps: int) -> tuple[float, ...]:
    """The first column of the square root of the matrix of running sums, on the grid: binomial(2i, i) / 4^i.

    >>> square_root_column(4)
    (1.0, 0.5, 0.375, 0.3125)
    """
    column = [1.0]
    for i in range(1, steps):
        column.append(column[-1] * (2 * i - 1) / (2 * i))
    return tuple(round(value * GRID) / GRID for value in column)


@dataclass(frozen=True, slots=True)
class RunningSumMechanism:
    """Releases the running sums of ``steps`` integers, each clamped to ``bounds``, with correlated integer noise.

    A record moves the values of at most ``participations`` steps, any two at least ``min_separation`` apart, each by
    at most ``sensitivity``. All sums are one release, charged once. They are not rounded, may be negative and need not
    rise.

    Parameters
    ----------
    sigma : float
        Noise per unit of a step's value before it is spread over the steps, at least 1/1000.
    steps : int
        The number of values.
    bounds : (int, int)
        Values are clamped to them.
    sensitivity : int
        How far one record moves the value of one step.
    participations, min_separation : int
        How many steps a record may take part in, and how far apart.
    column : tuple of float, optional
        The first column of C, which is Toeplitz and lower triangular; by default that of the square root of the matrix
        of running sums. The first entry must be positive.
    neighbours : str
        The relation that the sensitivity is stated for.

    Examples
    --------
    >>> m = RunningSumMechanism(sigma=4.0, steps=30, bounds=(0, 1000))
    >>> m.cost.sensitivity > 65536
    True
    >>> sums = m.release(np.full(30, 100))
    >>> bool(abs(sums[-1] - 3000) < 400)
    True
    """

    sigma: float
    steps: int
    bounds: tuple[int, int]
    sensitivity: int = 1
    participations: int = 1
    min_separation: int = 1
    column: tuple[float, ...] | None = None
    neighbours: str = "add_remove"

    def __post_init__(self) -> None:
        coerce_floats(self, "sigma")
        _checks.integer("steps", self.steps, 1)
        if self.steps > MOST_STEPS or self.sigma < 1e-3:
            raise ParameterError("steps", f"be at most {MOST_STEPS}, and sigma at least 1/1000", self.steps)
        _checks.integer("sensitivity", self.sensitivity, 1)
        _checks.integer("participations", self.participations, 1)
        _checks.integer("min_separation", self.min_separation, 1)
        if max(abs(_checks.integer("bounds", bound, -(2**31))) for bound in self.bounds) > 2**31:
            raise ParameterError("bounds", "be at most 2**31", self.bounds)
        if self.column is not None:
            column = tuple(round(_checks.real("column", v, "hold numbers") * GRID) / GRID for v in self.column)
            if not column or column[0] <= 0 or max(map(abs, column)) > 16:
                raise ParameterError("column", "begin with a positive number and hold none above 16", self.column)
            object.__setattr__(self, "column", column)
        reach = max(map(abs, self.bounds)) * GRID * sum(map(abs, self.matrix[: self.steps]))
        if reach > 2**60:
            raise ParameterError("bounds", "be smaller for so many steps: the sums must fit 64 bits", self.bounds)
        _ = self.cost

    @property
    def matrix(self) -> tuple[float, ...]:
        """The first column of C, on the grid."""
        return square_root_column(self.steps) if self.column is None else self.column

    @property
    def cost(self) -> DiscreteGaussian:
        """The cost of all sums together."""
        return self._noise.cost

    @property
    def _noise(self) -> DiscreteGaussianMechanism:
        size = matrix_sensitivity(self.matrix, self.steps, self.participations, self.min_separation)
        return DiscreteGaussianMechanism(
            sigma=float(self.sigma * GRID),
            sensitivity=Sensitivity(l2=raised(size * self.sensitivity * GRID), dimension=self.steps),
            neighbours=self.neighbours,
        )

    def check(self, value: ArrayLike) -> None:
        """Raise an error if the value breaks the contract; nothing is drawn. A ledger asks before it spends."""
        self._placed(value)

    def _placed(self, value: ArrayLike) -> NDArray[np.int64]:
        placed = clamped_integers("value", value, *self.bounds)
        if placed.shape != (self.steps,):
            raise ParameterError("value", f"be a vector of {self.steps} integers", f"<shape {placed.shape}>")
        return placed

    def release(self, value: ArrayLike, rng: Rng = None) -> NDArray[np.float64]:
        """Return the noisy running sums."""
        mixed = grid_matrix(self.matrix, self.steps) @ self._placed(value)  # exact: below 2**60
        noisy = np.asarray(self._noise.release(mixed, rng))
        return self._sums(noisy)

    def _sums(self, noisy: NDArray[np.int64]) -> NDArray[np.float64]:
        """The running sums of C⁻¹ of the release: post-processing."""
        column, found = np.zeros(self.steps), np.empty(self.steps)
        column[: len(self.matrix)] = self.matrix[: self.steps]
        for t in range(self.steps):
            before = column[t:0:-1] @ found[:t] if t else 0.0
            found[t] = (float(noisy[t]) / GRID - before) / column[0]
        return np.cumsum(found)

    def errors(self) -> NDArray[np.float64]:
        """The standard deviation of the error of each running sum.

        >>> wide = RunningSumMechanism(sigma=1.0, steps=365, bounds=(0, 10), column=(1.0,))
        >>> [round(float(x), 2) for x in wide.errors()[[0, -1]]]
        [1.0, 19.1]
        """
        response = self._sums(np.eye(1, self.steps, dtype=np.int64)[0] * GRID)
        return np.asarray(self.sigma * np.sqrt(np.cumsum(response**2)))
