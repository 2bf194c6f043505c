r"""Gaussian and Laplace noise for real-valued queries, released on a declared grid.

The release is the multiple of the grid nearest to value + N, where N is the *continuous* noise. It is a function
of value + N, so by post-processing it costs exactly what continuous noise costs, for every real value, on the grid
or not; and because it is sampled exactly there is no floating-point noise to attack (Mironov 2012).

**Theorem (exactness).** Let value / grid = n + f with n an integer and f in [-1/2, 1/2], both exact (the grid is a
power of two). The sampler holds the noise as a real X whose digits are drawn on demand
(:class:`~ledgerwood.mechanisms.sampling.draws.LazyReals`) and returns n + floor(f + scale X + 1/2), the scale in grid
units. It answers in floats only if f + scale X is further from a rounding boundary than the error bound of the float;
otherwise it compares rationals and draws digits of X until the floor is certain. So the returned integer *is* the
rounding of value / grid + scale X, where X has exactly the standard normal or Laplace distribution. ∎

Halves are rounded up; they have probability zero.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ledgerwood import _checks
from ledgerwood._rounding import with_quotient
from ledgerwood.accounting import Gaussian, Laplace, calibrate
from ledgerwood.errors import ParameterError
from ledgerwood.mechanisms.base import (
    LARGEST_INTEGER,
    Sensitivity,
    check_bounds,
    clamped_integers,
    coerce_floats,
    finite_floats,
    integers,
    real_array,
)
from ledgerwood.mechanisms.randomness import RandomSource, Rng, source_of
from ledgerwood.mechanisms.sampling import draws

__all__ = ["GaussianMechanism", "LaplaceMechanism"]

Bounds = tuple[float, float] | None
_LARGEST_STEP = 2.0**52
"""Whole grids up to this one split an integer exactly: what is left of it fits a float."""


class _RoundedNoise(ABC):
    """What mechanisms that round value + continuous noise to a grid share."""

    __slots__ = ()
    sensitivity: float | Sensitivity
    grid: float
    bounds: Bounds
    neighbours: str

    @abstractmethod
    def _noise(self, size: int, source: RandomSource) -> tuple[float, draws.LazyReals]:
        """Return the scale and that many standard draws."""

    def check(self, value: ArrayLike) -> None:
        """Raise an error if the value breaks the contract; nothing is drawn. A ledger asks before it spends."""
        self._place(value)

    def release(self, value: ArrayLike, rng: Rng = None) -> Released:
        """Return round(value + noise) on the grid; floats, or integers for integers on a grid of 1, 2, 4, ..."""
        placed = self._place(value)
        scale, noise = self._noise(placed.steps.size, source_of(rng))
        k = placed.steps + _rounded_sum(placed, scale, self.grid, noise).reshape(placed.steps.shape)
        if placed.floats is None:
            step = int(self.grid)
            most = 2 * LARGEST_INTEGER // step
            k = np.minimum(np.maximum(k, -most), most) * step  # np.clip takes longer than the noise of a few numbers
            return k if k.ndim else int(k)
        released = k.astype(np.float64) * self.grid
        return released if k.ndim else float(released)

    def _coerce(self, name: str) -> None:
        """Check the parameters, of which ``name`` is the scale, and keep numbers as floats."""
        coerce_floats(self, name, "grid")
        if not isinstance(self.sensitivity, Sensitivity):
            coerce_floats(self, "sensitivity", upwards=True)
        if math.frexp(self.grid)[0] != 0.5 or not 2.0**-900 <= self.grid <= 2.0**900:
            nearest = 2.0 ** max(-900, min(900, round(math.log2(self.grid))))
            rule = "be a power of two (division is then exact)"
            raise ParameterError("grid", rule, self.grid, f"Try grid={nearest!r}")
        scale = getattr(self, name)
        if scale > draws.LARGEST_SCALE * self.grid:  # exact: a product of powers of two
            raise ParameterError(name, "be at most 2**50 steps of the grid", scale, "Take a coarser grid")
        if self.bounds is not None:
            check_bounds(self.bounds, self.grid)

    def _place(self, value: ArrayLike) -> _Placed:
        """Check and clamp the value, and split value / grid into steps + fraction, exactly."""
        grid, bounds = self.grid, self.bounds
        array = real_array("value", value)
        if isinstance(self.sensitivity, Sensitivity):
            self.sensitivity.check_size(array.size)
        if array.dtype.kind in "iu" and 1.0 <= grid <= _LARGEST_STEP:
            if bounds is None:
                whole = integers("value", array)
            else:
                low, high = (min(max(end, -LARGEST_INTEGER), LARGEST_INTEGER) for end in bounds)
                whole = clamped_integers("value", array, math.ceil(low), math.floor(high))
            step = int(grid)
            if step == 1:
                return _Placed(whole, np.zeros(whole.shape), None)
            steps = (whole + step // 2) // step
            return _Placed(steps, (whole - steps * step) / step, None)
        if bounds is None:
            floats = finite_floats("value", array)
        else:
            if array.dtype.kind in "iu" and max(-bounds[0], bounds[1]) > 2**53:
                # rounded to floats, neighbouring integers would move apart; refused by type and bounds, not by value
                raise ParameterError("bounds", "lie within 2**53, for integers on a grid below 1", bounds)
            floats = array.astype(np.float64)
            floats = np.clip(np.where(np.isnan(floats), bounds[0], floats), *bounds)
        with np.errstate(over="ignore", under="ignore"):
            z = floats / grid
        if floats.size and not np.abs(z).max() <= LARGEST_INTEGER:
            raise ParameterError("value", "be within 2**61 steps of the grid", "<data>", "Take a coarser grid")
        n = np.rint(z)
        return _Placed(n.astype(np.int64), z - n, floats)


@dataclass(frozen=True, slots=True)
class GaussianMechanism(_RoundedNoise):
    """Rounded continuous normal noise: round to the grid of value + N(0, sigma^2) in every coordinate, exactly.

    The cost is exactly that of the Gaussian mechanism, mu = (L2 sensitivity) / sigma, by post-processing.
    (Noise on the integers with weights exp(-k^2 / 2 sigma^2) is another distribution with another cost:
    :class:`~ledgerwood.mechanisms.DiscreteGaussianMechanism`.)

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise, in the units of the value.
    sensitivity : float or Sensitivity
        How far neighbours can move the value before any rounding: a number is the L2 norm, for any shape; a
        :class:`Sensitivity` also fixes the number of coordinates.
    grid : float
        Power of two; the release is a multiple of it. Integers on a grid of 1, 2, 4, ... stay integers. A grid of
        about sigma / 2**20 is fine enough to lose nothing and coarse enough to be quick.
    bounds : (float, float), optional
        Values are clamped to them, nan to the lower one. Without bounds a value that is not finite is refused.
    neighbours : str
        The relation that the sensitivity is stated for.

    Examples
    --------
    >>> m = GaussianMechanism(sigma=2.0, sensitivity=1.0, grid=2**-10)
    >>> m.cost == Gaussian(sigma=2.0, sensitivity=1.0)
    True
    >>> released = m.release([0.1, 0.7])
    >>> bool(np.all(released * 2**10 == np.rint(released * 2**10)))
    True
    >>> type(GaussianMechanism(sigma=2.0).release(10)).__name__
    'int'
    """

    sigma: float
    sensitivity: float | Sensitivity = 1.0
    grid: float = 1.0
    bounds: Bounds = None
    neighbours: str = "add_remove"

    def __post_init__(self) -> None:
        self._coerce("sigma")
        _ = self.cost

    @property
    def cost(self) -> Gaussian:
        """Gaussian DP with mu = (L2 sensitivity) / sigma, exactly."""
        return Gaussian(sigma=self.sigma, sensitivity=_in_l2(self.sensitivity), neighbours=self.neighbours)

    @classmethod
    def calibrated(
        cls, *, epsilon: float, delta: float, sensitivity: float | Sensitivity = 1.0, **options: Any
    ) -> Self:
        """The least sigma for (epsilon, delta)-DP, from the exact profile (the analytic Gaussian mechanism).

        >>> round(GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6).sigma, 4)
        4.2247
        """
        size = _in_l2(sensitivity)
        sigma = calibrate(lambda s: Gaussian(sigma=s, sensitivity=size), epsilon=epsilon, delta=delta, guess=size)
        return cls(sigma=sigma, sensitivity=sensitivity, **options)

    @classmethod
    def for_cost(cls, cost: Gaussian, sensitivity: float, *, grid: float | None = None, **options: Any) -> Self:
        """The mechanism that costs exactly ``cost``, for a value of this L2 sensitivity.

        A ledger that follows a plan accepts the planned cost to the last bit only, and a quotient is rounded: the
        sensitivity is overstated by the few units in the last place that make the two floats equal. The grid is by
        default the coarsest whole one that is some 2**20 times finer than the noise: rounding adds nothing to it.

        >>> planned = Gaussian(sigma=7.3)
        >>> GaussianMechanism.for_cost(planned, sensitivity=1234.5).cost == planned
        True
        """
        sigma, size = with_quotient(sensitivity, cost.ratio)
        grid = 2.0 ** max(0, math.frexp(sigma)[1] - 21) if grid is None else grid
        return cls(sigma=sigma, sensitivity=size, grid=grid, neighbours=str(cost.neighbours), **options)

    def _noise(self, size: int, source: RandomSource) -> tuple[float, draws.LazyReals]:
        return self.sigma, draws.normal(size, source)


@dataclass(frozen=True, slots=True)
class LaplaceMechanism(_RoundedNoise):
    """Rounded continuous Laplace noise: round to the grid of value + Lap(scale) in every coordinate, exactly.

    The cost is that of the continuous Laplace mechanism in one dimension with the L1 sensitivity. One dimension is
    the worst case: with f the density, 1 - delta(gamma) = integral of min(f(x), e^gamma f(x - v)) dx is, by
    Prekopa's theorem, a log-concave function of the shift v, so over the L1 ball it is least at a vertex, where one
    coordinate moves.

    Parameters are those of :class:`GaussianMechanism`, with ``scale`` for ``sigma`` and L1 for L2.

    Examples
    --------
    >>> m = LaplaceMechanism(scale=10.0, sensitivity=1.0)
    >>> m.cost.pure_epsilon()
    0.1
    """

    scale: float
    sensitivity: float | Sensitivity = 1.0
    grid: float = 1.0
    bounds: Bounds = None
    neighbours: str = "add_remove"

    def __post_init__(self) -> None:
        self._coerce("scale")
        _ = self.cost

    @property
    def cost(self) -> Laplace:
        """The Laplace cost of the L1 sensitivity."""
        return Laplace(scale=self.scale, sensitivity=_in_l1(self.sensitivity), neighbours=self.neighbours)

    @classmethod
    def calibrated(
        cls, *, epsilon: float, delta: float = 0.0, sensitivity: float | Sensitivity = 1.0, **options: Any
    ) -> Self:
        """The least scale for (epsilon, delta)-DP: sensitivity / epsilon at delta = 0, less otherwise.

        >>> LaplaceMechanism.calibrated(epsilon=0.5).cost.epsilon(delta=0.0) <= 0.5
        True
        """
        size = _in_l1(sensitivity)
        scale = calibrate(lambda s: Laplace(scale=s, sensitivity=size), epsilon=epsilon, delta=delta, guess=size)
        return cls(scale=scale, sensitivity=sensitivity, **options)

    def _noise(self, size: int, source: RandomSource) -> tuple[float, draws.LazyReals]:
        return self.scale, draws.exponential(size, source)


def _in_l1(sensitivity: float | Sensitivity) -> float:
    return sensitivity.in_l1 if isinstance(sensitivity, Sensitivity) else _checks.positive("sensitivity", sensitivity)


def _in_l2(sensitivity: float | Sensitivity) -> float:
    return sensitivity.in_l2 if isinstance(sensitivity, Sensitivity) else _checks.positive("sensitivity", sensitivity)


Released = NDArray[np.float64] | NDArray[np.int64] | float | int


@dataclass(frozen=True, slots=True)
class _Placed:
    """value / grid = steps + fraction; ``floats`` is the value, None for integers on a whole grid (fraction exact)."""

    steps: NDArray[np.int64]
    fraction: NDArray[np.float64]
    floats: NDArray[np.float64] | None


def _rounded_sum(placed: _Placed, scale: float, grid: float, noise: draws.LazyReals) -> NDArray[np.int64]:
    """Return floor(fraction + scale X / grid + 1/2), exactly: in rationals from the value itself where floats doubt.

    The float fraction is exact, except for values that underflow on the grid (then by less than 2**-1000).
    """
    out, doubtful = noise.rounded_sums(placed.fraction.ravel(), scale / grid)
    for j in doubtful:
        f, factor = Fraction(1, 2), Fraction(scale) / Fraction(grid)
        if placed.floats is None:
            f += Fraction(placed.fraction.flat[j].item())
        else:
            f += Fraction(placed.floats.flat[j].item()) / Fraction(grid) - int(placed.steps.flat[j])
        while True:
            lo, hi = (math.floor(f + factor * end) for end in noise.enclosure(int(j)))
            if lo == hi:
                break
            noise.refine(int(j))
        out[j] = lo
    return out
