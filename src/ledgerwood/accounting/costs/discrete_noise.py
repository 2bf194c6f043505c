"""The costs of discrete noise and randomised response: profiles of their own, never a Gaussian's."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from ledgerwood import _checks
from ledgerwood._checks import Array
from ledgerwood.accounting.adjacency import Neighbours
from ledgerwood.accounting.costs.base import Atom, Cost, EpsilonCost, set_fields
from ledgerwood.accounting.costs.guarantees import PureDP
from ledgerwood.accounting.costs.noise import LaplaceNoise, laplace_atoms
from ledgerwood.accounting.curves import renyi
from ledgerwood.errors import ParameterError

if TYPE_CHECKING:
    from ledgerwood.accounting.curves.dominating_pairs.base import LossPair


#: From this σ (in grid units) on, one discrete Gaussian is priced between two Gaussians, 8e-8 of σ² apart.
_FINE = 5000.0
#: From this variance on Skellam noise is Gaussian DP.
_GAUSSIAN_SKELLAM = 40.0
#: A larger shift of Skellam noise is bounded from below in blocks.
_LONGEST_SHIFT = 64
#: More losses than this are not listed: a discrete Laplace release is priced between two continuous ones.
_MOST_LOSSES = 10**6


@dataclass(frozen=True, slots=True, init=False, repr=False)
class RandomizedResponse(EpsilonCost):
    """k-ary randomised response: the true value with e^ε times the probability of each other one.

    >>> RandomizedResponse(1.0, k=4).delta(epsilon=0.0) < PureDP(1.0).delta(epsilon=0.0)
    True
    """

    k: int

    def __init__(self, epsilon: float, k: int = 2, *, neighbours: str = "add_remove") -> None:
        set_fields(self, neighbours, size=_checks.non_negative("epsilon", epsilon), k=_checks.integer("k", k, 2))

    def parameters(self) -> dict[str, Any]:
        return {"epsilon": self.size, "k": self.k}

    def at_most(self, other: Cost) -> bool:
        if isinstance(other, PureDP):
            return self.size <= other.size
        return isinstance(other, RandomizedResponse) and self.k == other.k and self.size <= other.size

    def renyi(self, alpha: Array) -> Array:
        return renyi.from_losses(*self.loss_atoms(0.0), alpha)

    def pairs(self) -> tuple[LossPair, ...] | None:
        from ledgerwood.accounting.curves.dominating_pairs.discrete import RandomizedResponsePair

        return (RandomizedResponsePair(self.size, self.k),)

    def loss_atoms(self, largest_order: float) -> tuple[Array, Array]:
        e, k = self.size, self.k
        top = -math.log1p((k - 1) * math.exp(-e))  # log of the probability of the true value
        if k == 2:
            return np.array([e, -e]), np.array([top, top - e])
        return np.array([e, -e, 0.0]), np.array([top, top - e, top - e + math.log(k - 2)])

    def _group(self, k: int) -> Cost:
        return PureDP(k * self.size, neighbours=self.neighbours)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class DiscreteLaplace(LaplaceNoise):
    """Discrete Laplace noise, Pr[k] ∝ exp(−|k|/scale), on one integer that moves by at most ``sensitivity``.

    For vectors: exact when the L1 sensitivity is 1 (one coordinate moves by one); otherwise price a vector as
    ``PureDP(l1_sensitivity / scale)``.

    >>> DiscreteLaplace(scale=10.0).pure_epsilon()
    0.1
    """

    sensitivity: int

    def __init__(self, *, scale: float, sensitivity: int = 1, neighbours: str = "add_remove") -> None:
        steps = _checks.integer("sensitivity", sensitivity)
        LaplaceNoise.__init__(self, scale=scale, sensitivity=steps, neighbours=neighbours)
        set_fields(self, neighbours, sensitivity=steps)  # an integer, not the float of the ratio

    def at_most(self, other: Cost) -> bool:
        if isinstance(other, PureDP):
            return self.size <= other.size
        return (
            isinstance(other, DiscreteLaplace) and self.scale == other.scale and self.sensitivity <= other.sensitivity
        )

    def renyi(self, alpha: Array) -> Array:
        if self.sensitivity == 0:
            return np.zeros_like(alpha)
        if self.sensitivity > 10_000:
            return np.minimum(renyi.laplace(self._laplace_size, alpha), self.size)
        return renyi.from_losses(*self.loss_atoms(0.0), alpha)

    @property
    def _laplace_size(self) -> float:
        """The ε of continuous noise that costs no less: docs/theory/privacy-loss-distributions.md."""
        half = 0.5 / self.scale
        cosh = half - math.log(2) + math.log1p(math.exp(-2 * half)) if half > 1e-3 else half * half / 2
        return (self.size + 2 * cosh) * (1 + 1e-15)

    def pairs(self) -> tuple[LossPair, ...] | None:
        from ledgerwood.accounting.curves.dominating_pairs.continuous import NearLaplacePair
        from ledgerwood.accounting.curves.dominating_pairs.discrete import DiscreteLaplacePair

        if self.sensitivity > _MOST_LOSSES:
            return (NearLaplacePair(self._laplace_size, self.sensitivity / self.scale * (1 - 1e-15)),)
        return (DiscreteLaplacePair(self.scale, self.sensitivity),)

    def loss_atoms(self, largest_order: float) -> tuple[Array, Array]:
        if self.sensitivity > _MOST_LOSSES:
            return laplace_atoms(self._laplace_size, largest_order)
        # Output k under P (centre 0) against Q (centre s): loss (|k-s| - |k|)/b. Tails k <= 0 and k >= s are atoms.
        b, s = self.scale, self.sensitivity
        k = np.arange(1, s)
        losses = np.concatenate([[s / b], (s - 2 * k) / b, [-s / b]])
        log_total = math.log1p(math.exp(-1 / b))  # Σ_{k<=0} e^{k/b} = 1/(1-a), normaliser (1-a)/(1+a)
        log_step = math.log(-math.expm1(-1 / b))
        logs = np.concatenate([[0.0], log_step - k / b, [-s / b]]) - log_total
        return losses, logs


@dataclass(frozen=True, slots=True, init=False, repr=False)
class DiscreteGaussian(Atom):
    """Discrete Gaussian noise, Pr[k] ∝ exp(−k²/2σ²) per coordinate, σ and ``sensitivity`` in grid units.

    Its Rényi curve is at most the Gaussian's (Canonne, Kamath & Steinke 2020, Prop. 5), its profile is not: at σ = 1
    its δ exceeds the Gaussian's, the more the larger ε (2.2 times at ε = 7.25). One coordinate (``dimension=1``) has
    its own exact profile. For more coordinates ``sensitivity`` is the L2 norm, and for σ ≥ 3 the profile is bounded
    by a Gaussian with σ² replaced by σ² − 4 (docs/theory/discrete-gaussian.md), up to factors 1 ± 1e-33 that the
    outward rounding covers.

    >>> from ledgerwood.accounting import Gaussian
    >>> DiscreteGaussian(sigma=1.0).delta(epsilon=1.0) > 1.1 * Gaussian(sigma=1.0).delta(epsilon=1.0)
    True
    """

    noise_parameter: ClassVar[str | None] = "sigma"
    noise_direction: ClassVar[int] = 1

    sigma: float
    sensitivity: float
    dimension: int
    neighbours: Neighbours

    def __init__(
        self, *, sigma: float, sensitivity: float = 1, dimension: int = 1, neighbours: str = "add_remove"
    ) -> None:
        size = _checks.non_negative("sensitivity", sensitivity)
        coordinates = _checks.integer("dimension", dimension, 1)
        if coordinates == 1 and not size.is_integer():
            raise ParameterError("sensitivity", "be an integer (grid units) for one coordinate", sensitivity)
        set_fields(self, neighbours, sigma=_checks.positive("sigma", sigma), sensitivity=size, dimension=coordinates)

    def parameters(self) -> dict[str, Any]:
        return {"sigma": self.sigma, "sensitivity": self.sensitivity, "dimension": self.dimension}

    @classmethod
    def from_rho(cls, rho: float, **fixed: Any) -> Self:
        return cls(sigma=fixed.get("sensitivity", 1) / math.sqrt(2 * rho), **fixed)

    def at_most(self, other: Cost) -> bool:
        return (
            isinstance(other, DiscreteGaussian)
            and (self.sigma, self.dimension) == (other.sigma, other.dimension)
            and self.sensitivity <= other.sensitivity
        )

    def is_tight(self) -> bool:
        return self.dimension == 1

    def pure_epsilon(self) -> float:
        return math.inf if self.sensitivity else 0.0

    def rho(self) -> float | None:
        return _checks.half_square(self.sensitivity / self.sigma)

    def renyi(self, alpha: Array) -> Array:
        ratio = self.sensitivity / self.sigma
        return alpha * _checks.half_square(ratio) if ratio else np.zeros_like(alpha)

    def pairs(self) -> tuple[LossPair, ...] | None:
        from ledgerwood.accounting.curves.dominating_pairs.continuous import GaussianPair, NearGaussianPair
        from ledgerwood.accounting.curves.dominating_pairs.discrete import DiscreteGaussianPair

        if self.dimension == 1 and self.sigma >= _FINE:
            # Between the Gaussians of variance sigma² - 4 and sigma² + 4: docs/theory/discrete-gaussian.md.
            bound = self.sensitivity / (math.sqrt(self.sigma - 2) * math.sqrt(self.sigma + 2))
            lower = self.sensitivity / math.hypot(self.sigma, 2.0)
            return (NearGaussianPair(bound * (1 + 1e-15), lower * (1 - 1e-15)),)
        if self.dimension == 1:
            return (DiscreteGaussianPair(self.sigma, int(self.sensitivity)),)
        if self.sigma >= 3:
            bound = self.sensitivity / (math.sqrt(self.sigma - 2) * math.sqrt(self.sigma + 2))
            return (GaussianPair(bound * (1 + 1e-15)),)
        return None

    def lower_pairs(self) -> tuple[LossPair, ...] | None:
        """For more coordinates: of the release that moves one of them, by whole units."""
        if self.dimension == 1 or self.sensitivity < 1:
            return self.pairs() if self.dimension == 1 else None
        return DiscreteGaussian(sigma=self.sigma, sensitivity=math.floor(self.sensitivity)).pairs()

    def _group(self, k: int) -> Cost:
        return DiscreteGaussian(
            sigma=self.sigma,
            sensitivity=k * self.sensitivity,
            dimension=self.dimension if self.dimension == 1 else k * self.dimension,
            neighbours=self.neighbours,
        )


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Skellam(Atom):
    r"""Skellam noise (the difference of two Poissons) of a given variance per coordinate, integer data.

    Rényi curve at integer orders (Agarwal, Kairouz & Liu 2021, Theorem 3.5, arXiv:2110.04995):

    .. math:: D_\alpha\le\frac{\alpha\Delta_2^2}{2v}
              +\min\Bigl(\frac{(2\alpha-1)\Delta_2^2+6\Delta_1}{4v^2},\frac{3\Delta_1}{2v}\Bigr)

    between integers (α−1)·D_α is interpolated linearly. From a variance of 40 on the noise is μ-Gaussian DP, with
    :math:`\mu^2 = (1 + O(1/v))\,\Delta_2^2/v` (docs/theory/skellam.md). When l1_sensitivity is 1, one coordinate
    moves by one and the exact one-dimensional profile is used.

    >>> from ledgerwood.accounting import Gaussian
    >>> Skellam(variance=400.0).rdp(2) > Gaussian(sigma=20.0).rdp(2)
    True
    """

    noise_parameter: ClassVar[str | None] = "variance"
    noise_direction: ClassVar[int] = 1

    variance: float
    l1_sensitivity: float
    l2_sensitivity: float
    neighbours: Neighbours

    def __init__(
        self,
        *,
        variance: float,
        l1_sensitivity: float = 1,
        l2_sensitivity: float | None = None,
        neighbours: str = "add_remove",
    ) -> None:
        l1 = _checks.non_negative("l1_sensitivity", l1_sensitivity)
        l2 = l1 if l2_sensitivity is None else _checks.non_negative("l2_sensitivity", l2_sensitivity)
        if l2 > l1 * (1 + 1e-12):
            raise ParameterError("l2_sensitivity", f"be at most l1_sensitivity={l1:g}", l2_sensitivity)
        if l1 > l2 * l2 * (1 + 1e-12):  # integer vectors: |v|_1 <= |v|_2²
            l1 = l2 * l2
        if 0 < l1 < 1 - 1e-12:
            rule = "be 0 or at least 1, as the square of l2_sensitivity (integer data moves by whole units)"
            raise ParameterError("l1_sensitivity", rule, l1)
        set_fields(
            self,
            neighbours,
            variance=_checks.positive("variance", variance),
            l1_sensitivity=l1,
            l2_sensitivity=l2,
        )

    def parameters(self) -> dict[str, Any]:
        return {
            "variance": self.variance,
            "l1_sensitivity": self.l1_sensitivity,
            "l2_sensitivity": self.l2_sensitivity,
        }

    @classmethod
    def from_rho(cls, rho: float, **fixed: Any) -> Self:
        l2 = fixed.get("l2_sensitivity") or fixed.get("l1_sensitivity", 1)
        return cls(variance=l2**2 / (2 * rho), **fixed)

    def at_most(self, other: Cost) -> bool:
        return (
            isinstance(other, Skellam)
            and self.variance == other.variance
            and self.l1_sensitivity <= other.l1_sensitivity
            and self.l2_sensitivity <= other.l2_sensitivity
        )

    def pure_epsilon(self) -> float:
        return math.inf if self.l1_sensitivity else 0.0

    def _at_integer(self, alpha: Array) -> Array:
        v, d1, d2 = self.variance, self.l1_sensitivity, self.l2_sensitivity * self.l2_sensitivity
        extra = np.minimum(((2 * alpha - 1) * d2 + 6 * d1) / (4 * v * v), 3 * d1 / (2 * v))
        return alpha * d2 / (2 * v) + extra

    def renyi(self, alpha: Array) -> Array:
        if self.l1_sensitivity == 0:
            return np.zeros_like(alpha)
        low = np.maximum(np.floor(alpha), 2.0)
        high = np.maximum(np.ceil(alpha), 2.0)
        with np.errstate(invalid="ignore", over="ignore"):
            share = np.where(high > low, alpha - low, 0.0)
            mixed = (1 - share) * (low - 1) * self._at_integer(low) + share * (high - 1) * self._at_integer(high)
            value = mixed / np.maximum(alpha - 1, 1.0)
        gaussian = alpha * _checks.half_square(self._gaussian) if self._gaussian else math.inf
        return np.minimum(np.where(np.isinf(alpha) | np.isnan(value), math.inf, value), gaussian)

    @property
    def _gaussian(self) -> float | None:
        """The μ of Gaussian DP, if the variance is large enough."""
        from ledgerwood.accounting.curves.dominating_pairs.discrete import skellam_step

        return self.l2_sensitivity * skellam_step(self.variance) if self.variance >= _GAUSSIAN_SKELLAM else None

    def rho(self) -> float | None:
        return None if self._gaussian is None else _checks.half_square(self._gaussian)

    def is_tight(self) -> bool:
        return self.l1_sensitivity < 2 and 1e-290 < self.variance <= _FINE**2

    def pairs(self) -> tuple[LossPair, ...] | None:
        from ledgerwood.accounting.curves.dominating_pairs.continuous import GaussianPair
        from ledgerwood.accounting.curves.dominating_pairs.discrete import SkellamPair

        if self.is_tight():  # beyond it the probabilities vanish, or are too many
            return (SkellamPair(self.variance, 1),)
        return None if self._gaussian is None else (GaussianPair(self._gaussian),)

    def lower_pairs(self) -> tuple[LossPair, ...] | None:
        """Of the release that moves one coordinate."""
        from ledgerwood.accounting.curves.dominating_pairs.discrete import CoarseSkellamPair, SkellamPair

        shift = math.floor(min(self.l1_sensitivity, self.l2_sensitivity) * (1 + 1e-15))
        if self.is_tight() or not shift:
            return self.pairs()
        if shift <= _LONGEST_SHIFT and 1e-290 < self.variance <= _FINE**2:
            return (SkellamPair(self.variance, shift),)
        return (CoarseSkellamPair(self.variance, float(shift)),) if self._gaussian else None

    def _group(self, k: int) -> Cost:
        return Skellam(
            variance=self.variance,
            l1_sensitivity=k * self.l1_sensitivity,
            l2_sensitivity=k * self.l2_sensitivity,
            neighbours=self.neighbours,
        )
