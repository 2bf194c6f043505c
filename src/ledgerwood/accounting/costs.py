"""The costs of single releases: what each mechanism says in every accounting language.

Parameters are validated on construction; every cost is frozen and hashable. Each class names its noise parameter
(``noise_parameter``, ``noise_direction``) and inverts its small-scale concentrated cost (``from_rho``), so that a
plan can divide a budget among kinds of release. Fields are called ``size`` where the constructor says ``epsilon``,
because ``cost.epsilon(delta=…)`` is the price.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from ledgerwood.accounting import checks, renyi
from ledgerwood.accounting.algebra import Atom, Cost
from ledgerwood.accounting.checks import Array
from ledgerwood.accounting.neighbours import Neighbours, as_neighbours
from ledgerwood.errors import ParameterError

if TYPE_CHECKING:
    from ledgerwood.accounting.pairs import LossPair


def set_fields(cost: Atom, neighbours: str, /, **values: Any) -> None:
    """Set the fields of a frozen cost once, on construction."""
    object.__setattr__(cost, "neighbours", as_neighbours(neighbours))
    for name, value in values.items():
        object.__setattr__(cost, name, value)


@lru_cache(maxsize=1)
def _legendre() -> tuple[Array, Array]:
    nodes, weights = np.polynomial.legendre.leggauss(20)
    return nodes, weights


def _composite_legendre(pieces: int) -> tuple[Array, Array]:
    """Composite 20-point Gauss–Legendre nodes and weights on [0, 1]."""
    nodes, weights = _legendre()
    starts = np.arange(pieces)[:, None]
    return ((starts + (nodes + 1) / 2) / pieces).ravel(), np.tile(weights / 2 / pieces, pieces)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class PureDP(Atom):
    """Pure ε-DP; its dominating pair is binary randomised response.

    >>> (3 * PureDP(0.25)).epsilon(delta=0)
    0.75
    """

    noise_parameter: ClassVar[str | None] = "epsilon"

    size: float
    neighbours: Neighbours

    def __init__(self, epsilon: float, *, neighbours: str = "add_remove") -> None:
        set_fields(self, neighbours, size=checks.non_negative("epsilon", epsilon))

    def parameters(self) -> dict[str, Any]:
        return {"epsilon": self.size}

    @classmethod
    def from_rho(cls, rho: float, **fixed: Any) -> Self:
        return cls(math.sqrt(2 * rho), **fixed)

    def at_most(self, other: Cost) -> bool:
        return isinstance(other, PureDP) and self.size <= other.size

    def pure_epsilon(self) -> float:
        return self.size

    def rho(self) -> float | None:
        return checks.half_square(self.size)

    def renyi(self, alpha: Array) -> Array:
        return renyi.randomized_response(self.size, alpha)

    def pairs(self) -> tuple[LossPair, ...] | None:
        from ledgerwood.accounting.pairs import PureDPPair

        return (PureDPPair(self.size),)

    def loss_atoms(self, largest_order: float) -> tuple[Array, Array]:
        losses = np.array([self.size, -self.size])
        return losses, -np.log1p(np.exp(-losses))

    def _group(self, k: int) -> Cost:
        return PureDP(k * self.size, neighbours=self.neighbours)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class PermuteAndFlip(PureDP):
    """Permute-and-flip selection: exactly pure ε-DP, and *not* ε-bounded-range.

    With two candidates its loss has range ε + log(2 − e^{−ε}) ≈ 2ε, so the bounded-range price would be wrong; the
    other valid price, 2ε-bounded-range, is never smaller than the pure one used here (docs/theory/theorem-1.md).

    >>> PermuteAndFlip(0.1).rdp(2.0) > BoundedRange(0.1).rdp(2.0)
    True
    """

    def is_tight(self) -> bool:
        return False  # two candidates attain the Laplace profile, not that of randomised response


@dataclass(frozen=True, slots=True, init=False, repr=False)
class BoundedRange(Atom):
    """ε-bounded range: the exponential mechanism, whose loss lies in an interval of length ε.

    Rényi curve: Theorem 1 in closed form. One release: the exact profile. Many: the optimal adaptive recursion.

    >>> BoundedRange(0.1).rdp([1.0, 2.0]).round(8)
    array([0.00124983, 0.00249896])
    """

    noise_parameter: ClassVar[str | None] = "epsilon"

    size: float
    neighbours: Neighbours

    def __init__(self, epsilon: float, *, neighbours: str = "add_remove") -> None:
        set_fields(self, neighbours, size=checks.non_negative("epsilon", epsilon))

    def parameters(self) -> dict[str, Any]:
        return {"epsilon": self.size}

    @classmethod
    def from_rho(cls, rho: float, **fixed: Any) -> Self:
        return cls(math.sqrt(8 * rho), **fixed)

    def at_most(self, other: Cost) -> bool:
        return isinstance(other, (BoundedRange, PureDP)) and self.size <= other.size

    def pure_epsilon(self) -> float:
        return self.size

    def rho(self) -> float | None:
        return checks.half_square(self.size) / 4

    def renyi(self, alpha: Array) -> Array:
        return renyi.bounded_range(self.size, alpha)

    def pairs(self) -> tuple[LossPair, ...] | None:
        from ledgerwood.accounting.pairs import BoundedRangePair

        return (BoundedRangePair(self.size),)

    def loss_atoms(self, largest_order: float) -> tuple[Array, Array]:
        # The least profile valid for the class has loss density e^{(l-ε)/2}/(2(1-e^{-ε})) on [-ε, ε] under P.
        u, w = _composite_legendre(1 + math.ceil(largest_order * self.size / 8))
        losses = self.size * (2 * u - 1)
        return losses, (losses - self.size) / 2 + np.log(w * self.size / -math.expm1(-self.size))

    def _group(self, k: int) -> Cost:
        # The same output's loss is a sum of k losses, each in an interval of length ε.
        return BoundedRange(k * self.size, neighbours=self.neighbours)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class ApproxDP(Atom):
    """(ε, δ)-DP; its dominating pair is randomised response that fails openly with probability δ.

    >>> (2 * ApproxDP(0.5, 1e-6)).epsilon(delta=1e-6)
    inf
    >>> 0.99 < (2 * ApproxDP(0.5, 1e-6)).epsilon(delta=3e-6) < 1.0
    True
    """

    noise_parameter: ClassVar[str | None] = "epsilon"

    size: float
    mass: float
    neighbours: Neighbours

    def __init__(self, epsilon: float, delta: float, *, neighbours: str = "add_remove") -> None:
        set_fields(self, neighbours, size=checks.non_negative("epsilon", epsilon), mass=checks.delta_value(delta))

    def parameters(self) -> dict[str, Any]:
        return {"epsilon": self.size, "delta": self.mass}

    @classmethod
    def from_rho(cls, rho: float, **fixed: Any) -> Self:
        return cls(math.sqrt(2 * rho), **fixed)

    def at_most(self, other: Cost) -> bool:
        if isinstance(other, PureDP):
            return self.mass == 0 and self.size <= other.size
        return isinstance(other, ApproxDP) and self.size <= other.size and self.mass <= other.mass

    def pure_epsilon(self) -> float:
        return self.size

    def infinite_mass(self) -> float:
        return self.mass

    def rho(self) -> float | None:
        return checks.half_square(self.size)

    def renyi(self, alpha: Array) -> Array:
        return renyi.randomized_response(self.size, alpha)

    def pairs(self) -> tuple[LossPair, ...] | None:
        from ledgerwood.accounting.pairs import ApproxDPPair

        return (ApproxDPPair(self.size, self.mass),)

    def _group(self, k: int) -> Cost:
        # Vadhan 2017, Lemma 2.2: (kε, δ·(e^{kε}-1)/(e^ε-1)).
        with np.errstate(over="ignore"):
            factor = float(np.expm1(k * self.size) / np.expm1(self.size)) if self.size > 0 else float(k)
        mass = min(self.mass * factor * (1 + 1e-14), math.nextafter(1.0, 0.0)) if self.mass else 0.0
        return ApproxDP(k * self.size, mass, neighbours=self.neighbours)


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
            size = 1.0 if sensitivity is None else checks.non_negative("sensitivity", sensitivity)
            set_fields(self, neighbours, ratio=size / checks.positive("sigma", sigma), sensitivity=size)
            checks.non_negative("sensitivity/sigma", self.ratio)
        elif sensitivity is not None:
            raise ParameterError("sensitivity", "not be given together with mu", sensitivity)
        else:
            set_fields(self, neighbours, ratio=checks.non_negative("mu", mu), sensitivity=None)

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
        return checks.half_square(self.ratio)

    def mu(self) -> float | None:
        return self.ratio

    def renyi(self, alpha: Array) -> Array:
        return alpha * checks.half_square(self.ratio) if self.ratio else np.zeros_like(alpha)

    def pairs(self) -> tuple[LossPair, ...] | None:
        from ledgerwood.accounting.pairs import GaussianPair

        return (GaussianPair(self.ratio),)

    def _group(self, k: int) -> Cost:
        return Gaussian(mu=k * self.ratio, neighbours=self.neighbours)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Laplace(Atom):
    """Laplace noise of scale b on a statistic of L1 sensitivity Δ (one dimension dominates: docs/theory).

    >>> round(float(Laplace(scale=10.0).rdp(2.0)), 6)
    0.009644
    """

    noise_parameter: ClassVar[str | None] = "scale"
    noise_direction: ClassVar[int] = 1

    scale: float
    sensitivity: float
    neighbours: Neighbours

    def __init__(self, *, scale: float, sensitivity: float = 1.0, neighbours: str = "add_remove") -> None:
        set_fields(
            self,
            neighbours,
            scale=checks.positive("scale", scale),
            sensitivity=checks.non_negative("sensitivity", sensitivity),
        )
        checks.non_negative("sensitivity/scale", self.size)

    def parameters(self) -> dict[str, Any]:
        return {"scale": self.scale, "sensitivity": self.sensitivity}

    @property
    def size(self) -> float:
        """The ε of pure DP, rounded up."""
        return checks.ratio_above(self.sensitivity, self.scale)

    @classmethod
    def from_rho(cls, rho: float, **fixed: Any) -> Self:
        return cls(scale=fixed.get("sensitivity", 1.0) / math.sqrt(2 * rho), **fixed)

    def at_most(self, other: Cost) -> bool:
        return isinstance(other, (Laplace, PureDP)) and self.size <= other.size

    def pure_epsilon(self) -> float:
        return self.size

    def rho(self) -> float | None:
        return checks.half_square(self.size)

    def renyi(self, alpha: Array) -> Array:
        return renyi.laplace(self.size, alpha)

    def pairs(self) -> tuple[LossPair, ...] | None:
        from ledgerwood.accounting.pairs import LaplacePair

        return (LaplacePair(self.size),)

    def loss_atoms(self, largest_order: float) -> tuple[Array, Array]:
        # Under P: mass 1/2 at ε, e^{-ε}/2 at -ε, density e^{(l-ε)/2}/4 between.
        e = self.size
        u, w = _composite_legendre(1 + math.ceil(largest_order * e / 8))
        inner = e * (2 * u - 1)
        losses = np.concatenate([[e, -e], inner])
        logs = np.concatenate([[-math.log(2), -e - math.log(2)], (inner - e) / 2 + np.log(w * e / 2)])
        return losses, logs

    def _group(self, k: int) -> Cost:
        return Laplace(scale=self.scale, sensitivity=k * self.sensitivity, neighbours=self.neighbours)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class ZCDP(Atom):
    """ρ-zero-concentrated DP: Rényi divergence at most αρ at every order.

    >>> ZCDP(0.5).rdp(4.0)
    2.0
    """

    noise_parameter: ClassVar[str | None] = "rho"

    size: float
    neighbours: Neighbours

    def __init__(self, rho: float, *, neighbours: str = "add_remove") -> None:
        set_fields(self, neighbours, size=checks.non_negative("rho", rho))

    def parameters(self) -> dict[str, Any]:
        return {"rho": self.size}

    @classmethod
    def from_rho(cls, rho: float, **fixed: Any) -> Self:
        return cls(rho, **fixed)

    def at_most(self, other: Cost) -> bool:
        return isinstance(other, ZCDP) and self.size <= other.size

    def pure_epsilon(self) -> float:
        return math.inf if self.size else 0.0

    def rho(self) -> float | None:
        return self.size

    def renyi(self, alpha: Array) -> Array:
        return alpha * self.size if self.size else np.zeros_like(alpha)

    def _group(self, k: int) -> Cost:
        return ZCDP(float(k) * float(k) * self.size, neighbours=self.neighbours)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class RDP(Atom):
    """A Rényi curve of one's own: a function of the order, or a table {order: value}.

    Between the orders of a table (α−1)·D_α is interpolated linearly (it is convex in α, so that is a bound); below
    the least order the value there is used (D_α grows with α); above the largest order nothing is known. Order
    ``inf`` states pure DP, which bounds every order; a value of 0 at any order states that nothing is revealed.

    A function must give a number that is at least 0 at every order, ``inf`` where it says nothing; any other value
    is an error when it is met.

    >>> RDP(lambda alpha: 0.01 * alpha).rdp(2.0)
    0.02
    >>> RDP({2.0: 0.02, 4.0: 0.04}).rdp([1.5, 3.0, 8.0])
    array([0.02 , 0.035,   inf])
    >>> RDP({2.0: 0.02, math.inf: 0.5}).pure_epsilon()
    0.5
    """

    curve: Callable[[Any], Any] | tuple[tuple[float, float], ...]
    neighbours: Neighbours

    def __init__(
        self,
        curve: Callable[[Any], Any] | Mapping[float, float] | Iterable[tuple[float, float]],
        *,
        neighbours: str = "add_remove",
    ) -> None:
        if callable(curve):
            set_fields(self, neighbours, curve=curve)
            self.renyi(np.array([2.0]))  # a curve that is none is noticed here, not when the budget is asked
            return
        try:
            rows = [(a, v) for a, v in (curve.items() if isinstance(curve, Mapping) else curve)]
        except (TypeError, ValueError):
            rule = "be a function of the order, or a table {order: value}"
            raise ParameterError("curve", rule, curve) from None
        table = sorted((float(checks.orders(a)), checks.non_negative("curve value", v)) for a, v in rows)
        if len({order for order, _ in table}) < len(table):
            raise ParameterError("curve", "name each order once", curve)
        if not table or table[-1][0] == 1.0:
            raise ParameterError("curve", "have at least one order above 1", curve)
        set_fields(self, neighbours, curve=tuple(table))

    def parameters(self) -> dict[str, Any]:
        return {"curve": self.curve}

    def largest_order(self) -> float:
        return self.curve[-1][0] if isinstance(self.curve, tuple) else math.inf

    def pure_epsilon(self) -> float:
        if not isinstance(self.curve, tuple):
            return math.inf
        if any(v == 0 for _, v in self.curve):  # no divergence at one order: the two laws are the same
            return 0.0
        order, value = self.curve[-1]
        return value if order == math.inf else math.inf

    def renyi(self, alpha: Array) -> Array:
        if not isinstance(self.curve, tuple):
            return _evaluated(self.curve, alpha)
        pure = self.pure_epsilon()
        sure = renyi.randomized_response(pure, alpha) if pure < math.inf else np.full(alpha.shape, math.inf)
        finite = [(a, v) for a, v in self.curve if a < math.inf]
        if not finite:
            return sure
        orders, values = np.array(finite).T
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            between = np.interp(alpha, orders, (orders - 1) * values) / (alpha - 1)
        known = np.where(alpha <= orders[0], values[0], between)
        return np.minimum(np.where(alpha > orders[-1], math.inf, known), sure)

    def _group(self, k: int) -> Cost:
        return RDP(group_curve(self.renyi, k), neighbours=self.neighbours)


def _evaluated(curve: Callable[[Any], Any], alpha: Array) -> Array:
    """The values of a function given as a Rényi curve, checked."""
    try:
        values = np.asarray(curve(alpha), dtype=np.float64)
    except (TypeError, ValueError):
        values = np.array([])
    if values.shape != alpha.shape:
        values = np.array([float(curve(float(a))) for a in alpha.ravel()]).reshape(alpha.shape)
    values = np.where(np.isnan(values) & np.isinf(alpha), math.inf, values)  # most formulas have no value there
    wrong = np.flatnonzero(~(values.ravel() >= 0))
    if wrong.size:
        rule = f"be at least 0 at every order, and is not at order {alpha.ravel()[wrong[0]]:.6g}"
        hint = "Return inf at orders where the formula gives no number"
        raise ParameterError("curve", rule, float(values.ravel()[wrong[0]]), hint)
    return values


def group_curve(curve: Callable[[Array], Array], k: int) -> Callable[[Array], Array]:
    r"""Group privacy of a Rényi curve by the weak triangle inequality (Mironov 2017, Prop. 11, p = q = 2).

    .. math:: D_\alpha(P\|R)\le\frac{\alpha-1/2}{\alpha-1}D_{2\alpha}(P\|Q)+D_{2\alpha-1}(Q\|R),
              \qquad D_\alpha\le D_2\ (\alpha<2)
    """
    if k == 1:
        return curve
    first, second = group_curve(curve, k - k // 2), group_curve(curve, k // 2)

    def grouped(alpha: Array) -> Array:
        a = np.maximum(np.asarray(alpha, dtype=np.float64), 2.0)
        with np.errstate(invalid="ignore"):
            factor = np.where(np.isinf(a), 1.0, (a - 0.5) / (a - 1.0))
            return np.asarray(factor * first(2 * a) + second(2 * a - 1))

    return grouped
