"""Integer noise on integer values: discrete Laplace, discrete Gaussian, Skellam, bounded discrete Laplace.

Each has a distribution and a cost of its own; none of them is priced as its continuous cousin. The samplers are exact
(:mod:`ledgerwood.mechanisms.sampling`). Values are integers of at most 2**61 and scales at most 2**50, so sums with
noise do not overflow. Bounded discrete Laplace noise is conditioned on the output staying within declared bounds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ledgerwood import _checks
from ledgerwood._rounding import ratio_up
from ledgerwood.accounting import BoundedRange, DiscreteGaussian, DiscreteLaplace, PureDP, Skellam, calibrate
from ledgerwood.errors import ParameterError
from ledgerwood.mechanisms.base import (
    Sensitivity,
    check_bounds,
    clamped_integers,
    coerce_floats,
    integers,
    real_array,
)
from ledgerwood.mechanisms.randomness import RandomSource, Rng, source_of
from ledgerwood.mechanisms.sampling import choice, draws

__all__ = [
    "BoundedDiscreteLaplaceMechanism",
    "DiscreteGaussianMechanism",
    "DiscreteLaplaceMechanism",
    "SkellamMechanism",
    "log_normaliser",
]


Released = NDArray[np.int64] | int

_LARGEST_VARIANCE = 2**36


class _IntegerNoise(ABC):
    """What mechanisms that add integer noise share: their values, checked and clamped."""

    __slots__ = ()
    sensitivity: int | Sensitivity
    bounds: tuple[int, int] | None
    neighbours: str

    @abstractmethod
    def _noise(self, size: int, source: RandomSource) -> NDArray[np.int64]: ...

    def check(self, value: ArrayLike) -> None:
        """Raise an error if the value breaks the contract; nothing is drawn. A ledger asks before it spends."""
        self._place(value)

    def release(self, value: ArrayLike, rng: Rng = None) -> Released:
        """Return value + noise, as integers."""
        placed = self._place(value)
        return _sum(placed, self._noise(placed.size, source_of(rng)))

    def _check_sensitivity(self) -> None:
        if not isinstance(self.sensitivity, Sensitivity):
            _checks.integer("sensitivity", self.sensitivity, 1, None)
        if self.bounds is not None:
            check_bounds(self.bounds)
            for bound in self.bounds:
                _checks.integer("bounds", bound, -(2**61), None)

    def _place(self, value: ArrayLike) -> NDArray[np.int64]:
        """Check the value and clamp it if bounds are declared."""
        array = real_array("value", value)
        size = self.sensitivity.dimension if isinstance(self.sensitivity, Sensitivity) else 1
        if array.size != size:
            hint = "Give a vector's sensitivity as Sensitivity(l1=..., l2=..., linf=..., dimension=...)"
            raise ParameterError("value", f"have {size} coordinates, as its sensitivity says", f"<{array.size}>", hint)
        return integers("value", array) if self.bounds is None else clamped_integers("value", array, *self.bounds)


@dataclass(frozen=True, slots=True)
class DiscreteLaplaceMechanism(_IntegerNoise):
    """Adds integers with probability proportional to ``exp(-|k| / scale)``, independently in every coordinate.

    Parameters
    ----------
    scale : float
        Scale of the noise; its standard deviation is about sqrt(2) scale.
    sensitivity : int or Sensitivity
        How far neighbours can move the value: an integer for one number; for a vector a :class:`Sensitivity`, of
        which the L1 bound counts.
    bounds : (int, int), optional
        Values are clamped to them; without bounds they are taken as they are.
    neighbours : str
        The relation that the sensitivity is stated for.

    Examples
    --------
    >>> m = DiscreteLaplaceMechanism(scale=10.0)
    >>> m.cost
    DiscreteLaplace(scale=10.0, sensitivity=1)
    >>> m.release(42) - 42 == 10**6
    False
    >>> DiscreteLaplaceMechanism(scale=10.0, sensitivity=Sensitivity(l1=3, dimension=2)).cost
    PureDP(epsilon=0.3...)
    """

    scale: float
    sensitivity: int | Sensitivity = 1
    bounds: tuple[int, int] | None = None
    neighbours: str = "add_remove"

    def __post_init__(self) -> None:
        coerce_floats(self, "scale")
        _check_scale("scale", self.scale)
        self._check_sensitivity()
        _ = self.cost

    @property
    def cost(self) -> DiscreteLaplace | PureDP:
        """The exact cost of one integer; pure DP for vectors that can move by more than one unit.

        A vector of integers with L1 sensitivity 1 moves in one coordinate, by one. For larger moves of vectors the
        scalar distribution is not known to be the worst case, so they are priced by L1 sensitivity / scale alone.
        """
        return _laplace_cost(self.scale, self.sensitivity, self.neighbours)

    @classmethod
    def calibrated(
        cls, *, epsilon: float, delta: float = 0.0, sensitivity: int | Sensitivity = 1, **options: Any
    ) -> Self:
        """The least scale for (epsilon, delta)-DP.

        >>> DiscreteLaplaceMechanism.calibrated(epsilon=0.5).cost.epsilon(delta=0.0) <= 0.5
        True
        """
        scale = calibrate(lambda s: _laplace_cost(s, sensitivity), epsilon=epsilon, delta=delta)
        return cls(scale=scale, sensitivity=sensitivity, **options)

    def _noise(self, size: int, source: RandomSource) -> NDArray[np.int64]:
        return draws.discrete_laplace(Fraction(self.scale), size, source)


@dataclass(frozen=True, slots=True)
class DiscreteGaussianMechanism(_IntegerNoise):
    """Adds integers with probability proportional to exp(-k^2 / (2 sigma^2)), independently in every coordinate.

    Its profile is its own: at sigma = 1 its delta is 1.5 times the Gaussian's at epsilon = 3.25 and 2.8 times at 7.35,
    so its cost is never ``Gaussian``. Under Renyi and zCDP accounting it costs at most as much as the Gaussian.

    Parameters
    ----------
    sigma : float
        The parameter of the distribution; the standard deviation is very nearly sigma (a little less for sigma < 1).
    sensitivity, bounds, neighbours
        Those of :class:`DiscreteLaplaceMechanism`; of a vector's sensitivity the L2 bound counts.

    Examples
    --------
    >>> m = DiscreteGaussianMechanism(sigma=10.0, sensitivity=Sensitivity(linf=1, dimension=4))
    >>> m.cost
    DiscreteGaussian(sigma=10.0, sensitivity=2.0, dimension=4)
    >>> m.release(np.zeros(4, dtype=int)).shape
    (4,)
    """

    sigma: float
    sensitivity: int | Sensitivity = 1
    bounds: tuple[int, int] | None = None
    neighbours: str = "add_remove"

    def __post_init__(self) -> None:
        coerce_floats(self, "sigma")
        _check_scale("sigma", self.sigma)
        self._check_sensitivity()
        _ = self.cost

    @property
    def cost(self) -> DiscreteGaussian:
        """The exact cost of one integer, a bound for vectors (:class:`~ledgerwood.accounting.DiscreteGaussian`)."""
        return _gaussian_cost(self.sigma, self.sensitivity, self.neighbours)

    @classmethod
    def calibrated(cls, *, epsilon: float, delta: float, sensitivity: int | Sensitivity = 1, **options: Any) -> Self:
        """The least sigma for (epsilon, delta)-DP.

        >>> DiscreteGaussianMechanism.calibrated(epsilon=1.0, delta=1e-6).cost.epsilon(delta=1e-6) <= 1.0
        True
        """
        sigma = calibrate(lambda s: _gaussian_cost(s, sensitivity), epsilon=epsilon, delta=delta, guess=4.0)
        return cls(sigma=sigma, sensitivity=sensitivity, **options)

    def _noise(self, size: int, source: RandomSource) -> NDArray[np.int64]:
        return draws.discrete_gaussian(Fraction(self.sigma) ** 2, size, source)


@dataclass(frozen=True, slots=True)
class SkellamMechanism(_IntegerNoise):
    """Adds the difference of two Poisson variables of mean variance / 2, independently in every coordinate.

    The distribution is closed under addition, so that many parties can add a share each (:meth:`share`) and the sum,
    made by secure aggregation modulo a power of two, carries exactly Skellam noise of the whole variance.

    Parameters
    ----------
    variance : float
        Variance of the (whole) noise, at most 2**36.
    sensitivity, bounds, neighbours
        Those of :class:`DiscreteLaplaceMechanism`; of a vector's sensitivity the L1 and the L2 bound both count.

    Examples
    --------
    >>> m = SkellamMechanism(variance=400.0)
    >>> m.cost
    Skellam(variance=400.0, l1_sensitivity=1.0, l2_sensitivity=1.0)
    >>> sum(m.share(count, parties=3) for count in (10, 20, 30)) > -1000
    True
    """

    variance: float
    sensitivity: int | Sensitivity = 1
    bounds: tuple[int, int] | None = None
    neighbours: str = "add_remove"

    def __post_init__(self) -> None:
        coerce_floats(self, "variance")
        if self.variance > _LARGEST_VARIANCE:
            raise ParameterError("variance", "be at most 2**36", self.variance, "Take a coarser grid")
        self._check_sensitivity()
        _ = self.cost

    @property
    def cost(self) -> Skellam:
        """The cost of the sum of all shares, or of one release with the whole noise."""
        return _skellam_cost(self.variance, self.sensitivity, self.neighbours)

    @classmethod
    def calibrated(cls, *, epsilon: float, delta: float, sensitivity: int | Sensitivity = 1, **options: Any) -> Self:
        """The least variance for (epsilon, delta)-DP.

        >>> SkellamMechanism.calibrated(epsilon=1.0, delta=1e-6).cost.epsilon(delta=1e-6) <= 1.0
        True
        """
        variance = calibrate(lambda v: _skellam_cost(v, sensitivity), epsilon=epsilon, delta=delta, guess=16.0)
        return cls(variance=variance, sensitivity=sensitivity, **options)

    def _noise(self, size: int, source: RandomSource) -> NDArray[np.int64]:
        return draws.skellam(Fraction(self.variance), size, source)

    def share(self, value: ArrayLike, *, parties: int, rng: Rng = None) -> Released:
        """One party's value + its share of the noise, of variance / parties, to be summed by secure aggregation.

        ``parties`` is the number of *honest* parties that surely take part: what others add does not protect. A
        share by itself is not covered by ``cost``, which is stated for the sum.
        """
        variance = Fraction(self.variance) / _checks.integer("parties", parties, 1)
        placed = self._place(value)
        return _sum(placed, draws.skellam(variance, placed.size, source_of(rng)))


def _check_scale(name: str, scale: float) -> None:
    if scale > draws.LARGEST_SCALE:
        raise ParameterError(name, "be at most 2**50", scale, "Take a coarser grid")


def _single_move(sensitivity: int | Sensitivity) -> int | None:
    """How far the one coordinate moves that can move, or None if several can.

    The coordinates are integers: an L1 bound below 2 or an L2 bound below sqrt(2) allows one unit in one coordinate.
    """
    if not isinstance(sensitivity, Sensitivity):
        return int(sensitivity)
    if sensitivity.in_l1 < 2 or sensitivity.in_l2 < 1.4142135:
        return 1
    return int(sensitivity.in_linf) if sensitivity.dimension == 1 else None


def _laplace_cost(
    scale: float, sensitivity: int | Sensitivity, neighbours: str = "add_remove"
) -> DiscreteLaplace | PureDP:
    step = _single_move(sensitivity)
    if step is not None:
        return DiscreteLaplace(scale=scale, sensitivity=step, neighbours=neighbours)
    assert isinstance(sensitivity, Sensitivity)
    return PureDP(ratio_up(sensitivity.in_l1, scale), neighbours=neighbours)


def _gaussian_cost(sigma: float, sensitivity: int | Sensitivity, neighbours: str = "add_remove") -> DiscreteGaussian:
    step = _single_move(sensitivity)
    if step is not None:
        return DiscreteGaussian(sigma=sigma, sensitivity=step, neighbours=neighbours)
    assert isinstance(sensitivity, Sensitivity)
    return DiscreteGaussian(
        sigma=sigma, sensitivity=sensitivity.in_l2, dimension=sensitivity.dimension, neighbours=neighbours
    )


def _skellam_cost(variance: float, sensitivity: int | Sensitivity, neighbours: str = "add_remove") -> Skellam:
    step = _single_move(sensitivity)
    if step is not None:
        return Skellam(variance=variance, l1_sensitivity=step, l2_sensitivity=step, neighbours=neighbours)
    assert isinstance(sensitivity, Sensitivity)
    l1, l2 = sensitivity.in_l1, sensitivity.in_l2
    return Skellam(variance=variance, l1_sensitivity=l1, l2_sensitivity=l2, neighbours=neighbours)


def _sum(placed: NDArray[np.int64], noise: NDArray[np.int64]) -> Released:
    total = placed + noise.reshape(placed.shape)
    return total if total.ndim else int(total)


def log_normaliser(scale: float, below: NDArray[np.int64], above: NDArray[np.int64]) -> NDArray[np.float64]:
    r"""Logarithm of sum exp(-|z| / scale) over z = -below, ..., above (both at least 0).

    With q = exp(-1 / scale): (1 + q - q^{below+1} - q^{above+1}) / (1 - q). This is Lemma 4.10 of
    OpBoost (Li et al. 2022, arXiv:2210.01318), corrected: there the factor tau that normalizes the truncated
    distribution has numerator 2; it must be 1 + q, since the whole discrete Laplace distribution has normalizer
    (1 + q) / (1 - q).
    Written as 1 + [q (1 - q^below) + q (1 - q^above)] / (1 - q) nothing cancels.
    """
    tails = np.expm1(-below / scale) + np.expm1(-above / scale)
    return np.asarray(np.log1p(np.exp(-1 / scale) * tails / np.expm1(-1 / scale)))


@dataclass(frozen=True, slots=True)
class BoundedDiscreteLaplaceMechanism:
    """Releases z in lower .. upper with probability proportional to ``exp(-|z - value| / scale)``.

    The discrete Laplace mechanism, repeated until its output lies within the bounds. As the normaliser depends on the
    value, the loss has two parts; together they are that of an exponential mechanism with score ``-|z - value|``, whose
    differences lie in [-sensitivity, sensitivity]: bounded range with epsilon = 2 sensitivity / scale (twice that of
    the unbounded mechanism; near an edge of a wide range the pure epsilon comes as close to it as one likes).

    Parameters
    ----------
    scale : float
        Scale of the noise before conditioning.
    lower, upper : int
        Bounds of the output; values outside are clamped to them first.
    sensitivity : int
        How far neighbours can move the value.
    neighbours : str
        The relation that the sensitivity is stated for.

    Examples
    --------
    >>> m = BoundedDiscreteLaplaceMechanism(scale=2.0, lower=0, upper=4)
    >>> m.probabilities(0).round(4)
    array([0.4287, 0.26  , 0.1577, 0.0956, 0.058 ])
    >>> m.cost
    BoundedRange(epsilon=1.0)
    """

    scale: float
    lower: int
    upper: int
    sensitivity: int = 1
    neighbours: str = "add_remove"

    def __post_init__(self) -> None:
        coerce_floats(self, "scale")
        _check_scale("scale", self.scale)
        for name in ("lower", "upper"):
            object.__setattr__(self, name, _checks.integer(name, getattr(self, name), -(2**60), None))
        check_bounds((2 * self.lower, 2 * self.upper))
        object.__setattr__(self, "sensitivity", _checks.integer("sensitivity", self.sensitivity, 1, None))
        _ = self.cost

    @property
    def cost(self) -> BoundedRange:
        """Bounded range, 2 sensitivity / scale."""
        step = min(self.sensitivity, self.upper - self.lower)
        return BoundedRange(ratio_up(2 * step, self.scale), neighbours=self.neighbours)

    def log_probabilities(self, value: int) -> NDArray[np.float64]:
        """Logarithms of the probabilities of lower, ..., upper."""
        v = int(self._clamped(value))
        z = np.arange(self.lower, self.upper + 1)
        below, above = np.array(v - self.lower), np.array(self.upper - v)
        return -np.abs(z - v) / self.scale - log_normaliser(self.scale, below, above)

    def probabilities(self, value: int) -> NDArray[np.float64]:
        """Probabilities of lower, ..., upper."""
        return np.exp(self.log_probabilities(value))

    def check(self, value: ArrayLike) -> None:
        """Raise an error if the value breaks the contract; nothing is drawn. A ledger asks before it spends."""
        self._clamped(value)

    def release(self, value: ArrayLike, rng: Rng = None) -> NDArray[np.int64] | int:
        """Return one output for every entry of the value (each entry is a release of its own)."""
        v = self._clamped(value)
        source = source_of(rng)
        out = v.ravel().copy()
        open_ = np.arange(out.size)
        # Narrow bounds: propose uniformly and accept with probability exp(-|z - v| / scale). Wide ones: propose
        # discrete Laplace noise and accept what stays inside. Either way at least about a third is accepted.
        wide = self.upper - self.lower + 1 > 2 * self.scale
        while open_.size:
            start = v.ravel()[open_]
            if wide:
                z = start + draws.discrete_laplace(Fraction(self.scale), open_.size, source)
                kept = (self.lower <= z) & (z <= self.upper)
            else:
                z = self.lower + draws.uniform_below(np.full(open_.size, self.upper - self.lower + 1), source)
                kept = choice.coins(choice.Exponents(1 / Fraction(self.scale), -np.abs(z - start), 0), source)
            out[open_[kept]] = z[kept]
            open_ = open_[~kept]
        return out.reshape(v.shape) if v.ndim else int(out[0])

    def _clamped(self, value: ArrayLike) -> NDArray[np.int64]:
        return clamped_integers("value", value, self.lower, self.upper)
