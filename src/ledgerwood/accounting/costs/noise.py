"""Continuous noise: what a Gaussian or a Laplace release costs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from ledgerwood import _checks
from ledgerwood._checks import Array
from ledgerwood._rounding import ratio_up
from ledgerwood.accounting.adjacency import Neighbours
from ledgerwood.accounting.costs.base import Atom, Cost, set_fields
from ledgerwood.accounting.costs.guarantees import PureDP
from ledgerwood.accounting.curves import renyi
from ledgerwood.errors import ParameterError

if TYPE_CHECKING:
    from ledgerwood.accounting.curves.dominating_pairs.base import LossPair


@lru_cache(maxsize=1)
def _legendre() -> tuple[Array, Array]:
    nodes, weights = np.polynomial.legendre.leggauss(20)
    return nodes, weights


def composite_legendre(pieces: int) -> tuple[Array, Array]:
    """Composite 20-point Gauss–Legendre nodes and weights on [0, 1]."""
    nodes, weights = _legendre()
    starts = np.arange(pieces)[:, None]
    return ((starts + (nodes + 1) / 2) / pieces).ravel(), np.tile(weights / 2 / pieces, pieces)


def laplace_atoms(size: float, largest_order: float) -> tuple[Array, Array]:
    """Atoms of the Laplace pair under P: mass 1/2 at ε, e^{-ε}/2 at -ε, density e^{(l-ε)/2}/4 between."""
    u, w = composite_legendre(1 + math.ceil(largest_order * size / 8))
    inner = size * (2 * u - 1)
    losses = np.concatenate([[size, -size], inner])
    logs = np.concatenate([[-math.log(2), -size - math.log(2)], (inner - size) / 2 + np.log(w * size / 2)])
    return losses, logs


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Gaussian(Atom):
    """Gaussian noise: μ-Gaussian DP with μ = sensitivity/σ, exactly.

    >>> f"{(1000 * Gaussian(sigma=50.0)).epsilon(delta=1e-5):.6f}"
    '2.594383'
    """

    noise_parameter: ClassVar[str | None] = "sigma"
    noise_direction: ClassVar[int] = 1

    ratio: float
    sensitivity: float | None = field(compare=False)  # None if the cost was given by mu
    neighbours: Neighbours

    def __init__(
        self,
        *,
        sigma: float | None = None,
        sensitivity: float | None = None,
        mu: float | None = None,
        neighbours: str = "add_remove",
    ) -> None:
        if (sigma is None) == (mu is None):
            raise ParameterError("sigma", "be given, or else mu (one of the two)", sigma)
        if sigma is not None:
            size = 1.0 if sensitivity is None else _checks.non_negative("sensitivity", sensitivity)
            set_fields(self, neighbours, ratio=size / _checks.positive("sigma", sigma), sensitivity=size)
            _checks.non_negative("sensitivity/sigma", self.ratio)
        elif sensitivity is not None:
            raise ParameterError("sensitivity", "not be given together with mu", sensitivity)
        else:
            set_fields(self, neighbours, ratio=_checks.non_negative("mu", mu), sensitivity=None)

    def parameters(self) -> dict[str, Any]:
        if self.sensitivity is None or self.ratio == 0 or self.sensitivity / self.sigma != self.ratio:
            return {"mu": self.ratio}
        return {"sigma": self.sigma, "sensitivity": self.sensitivity}

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise (per unit of sensitivity if the cost was given by mu)."""
        size = 1.0 if self.sensitivity is None else self.sensitivity
        return size / self.ratio if self.ratio else math.inf

    @classmethod
    def from_rho(cls, rho: float, **fixed: Any) -> Self:
        return cls(sigma=fixed.get("sensitivity", 1.0) / math.sqrt(2 * rho), **fixed)

    def at_most(self, other: Cost) -> bool:
        return isinstance(other, Gaussian) and self.ratio <= other.ratio

    def pure_epsilon(self) -> float:
        return math.inf if self.ratio else 0.0

    def rho(self) -> float | None:
        return _checks.half_square(self.ratio)

    def mu(self) -> float | None:
        return self.ratio

    def renyi(self, alpha: Array) -> Array:
        return alpha * _checks.half_square(self.ratio) if self.ratio else np.zeros_like(alpha)

    def pairs(self) -> tuple[LossPair, ...] | None:
        from ledgerwood.accounting.curves.dominating_pairs.continuous import GaussianPair

        return (GaussianPair(self.ratio),)

    def _group(self, k: int) -> Cost:
        return Gaussian(mu=k * self.ratio, neighbours=self.neighbours)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class LaplaceNoise(Atom):
    """What continuous and discrete Laplace noise of one scale have in common: ε = sensitivity/scale."""

    noise_parameter: ClassVar[str | None] = "scale"
    noise_direction: ClassVar[int] = 1

    scale: float
    sensitivity: float
    neighbours: Neighbours

    def __init__(self, *, scale: float, sensitivity: float = 1.0, neighbours: str = "add_remove") -> None:
        size = _checks.non_negative("sensitivity", sensitivity)
        set_fields(self, neighbours, scale=_checks.positive("scale", scale), sensitivity=size)
        _checks.non_negative("sensitivity/scale", self.size)

    def parameters(self) -> dict[str, Any]:
        return {"scale": self.scale, "sensitivity": self.sensitivity}

    @property
    def size(self) -> float:
        """The ε of pure DP, rounded up."""
        return ratio_up(self.sensitivity, self.scale)

    @classmethod
    def from_rho(cls, rho: float, **fixed: Any) -> Self:
        return cls(scale=fixed.get("sensitivity", 1) / math.sqrt(2 * rho), **fixed)

    def pure_epsilon(self) -> float:
        return self.size

    def rho(self) -> float | None:
        return _checks.half_square(self.size)

    def _group(self, k: int) -> Cost:
        return type(self)(scale=self.scale, sensitivity=k * self.sensitivity, neighbours=self.neighbours)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Laplace(LaplaceNoise):
    """Laplace noise of scale b on a statistic of L1 sensitivity Δ (one dimension dominates: docs/theory).

    >>> round(float(Laplace(scale=10.0).rdp(2.0)), 6)
    0.009644
    """

    def at_most(self, other: Cost) -> bool:
        return isinstance(other, (Laplace, PureDP)) and self.size <= other.size

    def renyi(self, alpha: Array) -> Array:
        return renyi.laplace(self.size, alpha)

    def pairs(self) -> tuple[LossPair, ...] | None:
        from ledgerwood.accounting.curves.dominating_pairs.continuous import LaplacePair

        return (LaplacePair(self.size),)

    def loss_atoms(self, largest_order: float) -> tuple[Array, Array]:
        return laplace_atoms(self.size, largest_order)
