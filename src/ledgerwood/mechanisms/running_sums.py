"""Running sums of a stream of integers with correlated noise: a matrix mechanism whose noise is exact.

The release is g·C·x + z in integers, with z discrete Gaussian; running sums follow from it by post-processing. With C
the identity every step has noise of its own and the error of a running sum grows like √t. The default C is the square
root of the matrix of running sums, whose error grows like log t. C is lower triangular, so sums may be released one by
one, and a value may depend on earlier sums. Theory: docs/theory/matrix-mechanisms.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ledgerwood import _checks
from ledgerwood._rounding import sqrt_up
from ledgerwood.accounting import DiscreteGaussian
from ledgerwood.accounting.costs.correlated_noise import GRID, squared_sensitivity
from ledgerwood.errors import ParameterError, ReleaseRefused
from ledgerwood.mechanisms.base import PaidRun, Sensitivity, check_bounds, clamped_integers, coerce_floats
from ledgerwood.mechanisms.integer_noise import DiscreteGaussianMechanism
from ledgerwood.mechanisms.randomness import RandomSource, Rng, source_of
from ledgerwood.mechanisms.sampling import draws

__all__ = ["RunningSumMechanism", "RunningSumRun", "square_root_column"]

MOST_STEPS = 2**12
"""Most steps: every sum is made of all noisy values before it."""
LARGEST_SUM = 2**60
"""Largest entry of g·C·x: with its noise it stays within 64 bits."""


def square_root_column(steps: int) -> tuple[float, ...]:
    """The first column of the square root of the matrix of running sums, on the grid: binomial(2i, i) / 4^i.

    >>> square_root_column(4)
    (1.0, 0.5, 0.375, 0.3125)
    """
    column = [1.0]
    for i in range(1, steps):
        column.append(column[-1] * (2 * i - 1) / (2 * i))
    return tuple(round(value * GRID) / GRID for value in column)


class RunningSumRun(PaidRun):
    """One stream: takes a value a step and returns the noisy sum so far, for all the steps that were paid for.

    >>> run = RunningSumMechanism(sigma=4.0, steps=2, bounds=(0, 1000)).start()
    >>> bool(abs(run.add(100) - 100) < 400), run.finished
    (True, False)
    """

    def __init__(self, mechanism: RunningSumMechanism, source: RandomSource) -> None:
        super().__init__()
        self._mechanism, self._source = mechanism, source
        self._column = mechanism.integer_column
        self._values: list[int] = []
        self._estimates: list[float] = []

    @property
    def finished(self) -> bool:
        """Has the run given all the sums that were paid for?"""
        return len(self._values) == self._mechanism.steps

    def add(self, value: int) -> float:
        """Take the value of the next step and return the running sum up to it."""
        placed = clamped_integers("value", value, *self._mechanism.bounds)
        if placed.ndim:
            raise ParameterError("value", "be one integer", f"<shape {placed.shape}>")
        with self.turn():
            if self.finished:
                raise ReleaseRefused("this run of running sums is finished: it gave all the sums that were paid for")
            self._values.append(int(placed))
            mixed = sum(c * x for c, x in zip(self._column, reversed(self._values)))
            noisy = mixed + int(self._mechanism.noise(1, self._source)[0])
            self._estimates.append(self._mechanism.solved(noisy, self._estimates))
            return float(sum(self._estimates))


@dataclass(frozen=True, slots=True)
class RunningSumMechanism:
    """Releases the running sums of ``steps`` integers, each clamped to ``bounds``, with correlated integer noise.

    A record moves the values of at most ``participations`` steps, any two at least ``min_separation`` apart, each by
    at most ``sensitivity``. All sums are one release, charged once: together by ``release``, or one by one by
    ``start()``. They are not rounded, may be negative and need not rise.

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise on C·x, at least 1/1000; :meth:`errors` gives that of the sums.
    steps : int
        The number of values, at most 4096.
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
    >>> f"{m.cost.epsilon(delta=1e-6):.2f}"
    '1.60'
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
        _checks.integer("steps", self.steps, 1, MOST_STEPS)
        if self.sigma < 1e-3:
            raise ParameterError("sigma", "be at least 1/1000", self.sigma)
        for name in ("sensitivity", "participations", "min_separation"):
            _checks.integer(name, getattr(self, name), 1)
        check_bounds(self.bounds)
        object.__setattr__(self, "bounds", tuple(_checks.integer("bounds", b, None, None) for b in self.bounds))
        if self.column is not None:
            column = tuple(round(_checks.real("column", v, "hold numbers") * GRID) / GRID for v in self.column)
            if not column or column[0] <= 0 or max(map(abs, column)) > 16:
                raise ParameterError("column", "begin with a positive number and hold none above 16", self.column)
            object.__setattr__(self, "column", column)
        if max(map(abs, self.bounds)) * sum(map(abs, self.integer_column)) > LARGEST_SUM:
            raise ParameterError("bounds", "be smaller for so many steps: the sums must fit 64 bits", self.bounds)
        _ = self.cost

    @property
    def matrix(self) -> tuple[float, ...]:
        """The first column of C, on the grid."""
        return square_root_column(self.steps) if self.column is None else self.column[: self.steps]

    @property
    def integer_column(self) -> tuple[int, ...]:
        """The first column of g·C."""
        return tuple(round(value * GRID) for value in self.matrix)

    @property
    def cost(self) -> DiscreteGaussian:
        """The cost of all sums together: discrete Gaussian noise on g·C·x."""
        norm = squared_sensitivity(self.matrix, self.steps, self.participations, self.min_separation)
        size = sqrt_up(Fraction(norm.square * self.sensitivity**2))
        return DiscreteGaussianMechanism(
            sigma=self.sigma * GRID,  # exact: a power of two
            sensitivity=Sensitivity(l2=size, dimension=self.steps),
            neighbours=self.neighbours,
        ).cost

    def noise(self, size: int, source: RandomSource) -> NDArray[np.int64]:
        """Noise of that many steps, in units of the grid."""
        return draws.discrete_gaussian(Fraction(self.sigma * GRID) ** 2, size, source)

    def check(self, value: ArrayLike) -> None:
        """Raise an error if the value breaks the contract; nothing is drawn. A ledger asks before it spends."""
        self._placed(value)

    def _placed(self, value: ArrayLike) -> NDArray[np.int64]:
        placed = clamped_integers("value", value, *self.bounds)
        if placed.shape != (self.steps,):
            raise ParameterError("value", f"be a vector of {self.steps} integers", f"<shape {placed.shape}>")
        return placed

    def start(self, rng: Rng = None) -> RunningSumRun:
        """Begin a run that is given one value after the other; its whole price is due now."""
        return RunningSumRun(self, source_of(rng))

    def release(self, value: ArrayLike, rng: Rng = None) -> NDArray[np.float64]:
        """Return the noisy running sums of all values."""
        placed = self._placed(value)
        mixed = np.convolve(placed, np.array(self.integer_column, dtype=np.int64))[: self.steps]  # exact: below 2**60
        noisy = mixed + self.noise(self.steps, source_of(rng))
        return self._sums(noisy.tolist())

    def solved(self, noisy: int, before: list[float]) -> float:
        """The estimate of a step's value from its noisy entry of g·C·x and the estimates before it: post-processing."""
        rest = sum(c * x for c, x in zip(self.matrix[1:], reversed(before)))
        return (noisy / GRID - rest) / self.matrix[0]

    def _sums(self, noisy: list[int]) -> NDArray[np.float64]:
        """The running sums of the estimates of all steps."""
        column, found = np.zeros(self.steps), np.empty(self.steps)
        column[: len(self.matrix)] = self.matrix
        for t, entry in enumerate(noisy):
            found[t] = (entry / GRID - (column[t:0:-1] @ found[:t] if t else 0.0)) / column[0]
        return np.cumsum(found)

    def errors(self) -> NDArray[np.float64]:
        """The standard deviation of the error of each running sum.

        >>> wide = RunningSumMechanism(sigma=1.0, steps=365, bounds=(0, 10), column=(1.0,))
        >>> [round(float(x), 2) for x in wide.errors()[[0, -1]]]
        [1.0, 19.1]
        """
        response = self._sums([GRID] + [0] * (self.steps - 1))
        return np.asarray(self.sigma * np.sqrt(np.cumsum(response**2)))
