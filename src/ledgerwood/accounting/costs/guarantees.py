"""Costs stated as guarantees: pure, approximate, concentrated and Rényi DP, and a privacy-loss distribution.

Parameters are validated on construction; every cost is frozen and hashable. Fields are called ``size`` where the
constructor says ``epsilon``, because ``cost.epsilon(delta=…)`` is the price.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from ledgerwood import _checks
from ledgerwood._checks import Array
from ledgerwood.accounting.adjacency import Neighbours
from ledgerwood.accounting.costs.base import Atom, Cost, EpsilonCost, set_fields
from ledgerwood.accounting.curves import renyi
from ledgerwood.errors import ParameterError

if TYPE_CHECKING:
    from ledgerwood.accounting.curves.dominating_pairs.base import LossPair


@dataclass(frozen=True, slots=True, init=False, repr=False)
class PureDP(EpsilonCost):
    """Pure ε-DP; its dominating pair is binary randomised response.

    >>> (3 * PureDP(0.25)).epsilon(delta=0)
    0.75
    """

    def at_most(self, other: Cost) -> bool:
        return isinstance(other, PureDP) and self.size <= other.size

    def renyi(self, alpha: Array) -> Array:
        return renyi.randomized_response(self.size, alpha)

    def pairs(self) -> tuple[LossPair, ...] | None:
        from ledgerwood.accounting.curves.dominating_pairs.discrete import PureDPPair

        return (PureDPPair(self.size),)

    def loss_atoms(self, largest_order: float) -> tuple[Array, Array]:
        losses = np.array([self.size, -self.size])
        return losses, -np.log1p(np.exp(-losses))


@dataclass(frozen=True, slots=True, init=False, repr=False)
class ApproxDP(EpsilonCost):
    """(ε, δ)-DP; its dominating pair is randomised response that fails openly with probability δ.

    >>> (2 * ApproxDP(0.5, 1e-6)).epsilon(delta=1e-6)
    inf
    >>> 0.99 < (2 * ApproxDP(0.5, 1e-6)).epsilon(delta=3e-6) < 1.0
    True
    """

    mass: float

    def __init__(self, epsilon: float, delta: float, *, neighbours: str = "add_remove") -> None:
        set_fields(self, neighbours, size=_checks.non_negative("epsilon", epsilon), mass=_checks.delta_value(delta))

    def parameters(self) -> dict[str, Any]:
        return {"epsilon": self.size, "delta": self.mass}

    def at_most(self, other: Cost) -> bool:
        if isinstance(other, PureDP):
            return self.mass == 0 and self.size <= other.size
        return isinstance(other, ApproxDP) and self.size <= other.size and self.mass <= other.mass

    def infinite_mass(self) -> float:
        return self.mass

    def renyi(self, alpha: Array) -> Array:
        return renyi.randomized_response(self.size, alpha)

    def pairs(self) -> tuple[LossPair, ...] | None:
        from ledgerwood.accounting.curves.dominating_pairs.discrete import ApproxDPPair

        return (ApproxDPPair(self.size, self.mass),)

    def _group(self, k: int) -> Cost:
        # Vadhan 2017, Lemma 2.2: (kε, δ·(e^{kε}-1)/(e^ε-1)).
        with np.errstate(over="ignore"):
            factor = float(np.expm1(k * self.size) / np.expm1(self.size)) if self.size > 0 else float(k)
        mass = min(self.mass * factor * (1 + 1e-14), math.nextafter(1.0, 0.0)) if self.mass else 0.0
        return ApproxDP(k * self.size, mass, neighbours=self.neighbours)


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
        set_fields(self, neighbours, size=_checks.non_negative("rho", rho))

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

    def lower_pairs(self) -> tuple[LossPair, ...] | None:
        """Of Gaussian noise, which is one such release."""
        from ledgerwood.accounting.curves.dominating_pairs.continuous import GaussianPair

        return (GaussianPair(math.sqrt(2 * self.size) * (1 - 1e-15)),) if self.size > 1e-300 else None

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
        table = sorted((float(_checks.orders(a)), _checks.non_negative("curve value", v)) for a, v in rows)
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
        if any(v == 0 for _, v in self.curve):  # no divergence at one order: the two distributions are the same
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


@dataclass(frozen=True, slots=True, init=False, repr=False)
class PrivacyLoss(Atom):
    """A dominating pair given by its privacy-loss pmf under P: loss values (``inf`` allowed) and probabilities.

    The pair must dominate the mechanism for the ordered neighbours (P, Q). Give ``reverse=(losses, probabilities)``
    for the other direction; without it the pmf is taken to cover both.

    >>> coin = PrivacyLoss([1.0, -1.0], [0.6, 0.4])
    Traceback (most recent call last):
    ...
    ledgerwood.errors.ParameterError: probabilities must satisfy sum p·exp(-loss) <= 1 (the mass of Q), ...
    """

    losses: tuple[float, ...]
    probabilities: tuple[float, ...]
    reverse: tuple[tuple[float, ...], tuple[float, ...]] | None
    neighbours: Neighbours

    def __init__(
        self,
        losses: Iterable[float],
        probabilities: Iterable[float],
        *,
        reverse: tuple[Iterable[float], Iterable[float]] | None = None,
        neighbours: str = "add_remove",
    ) -> None:
        forward = _checked(losses, probabilities)
        backward = None if reverse is None else _checked(*reverse)
        set_fields(self, neighbours, losses=forward[0], probabilities=forward[1], reverse=backward)

    def parameters(self) -> dict[str, Any]:
        found: dict[str, Any] = {"losses": list(self.losses), "probabilities": list(self.probabilities)}
        if self.reverse is not None:
            found["reverse"] = [list(self.reverse[0]), list(self.reverse[1])]
        return found

    def _directions(self) -> list[tuple[Array, Array]]:
        both = [(self.losses, self.probabilities)] + ([self.reverse] if self.reverse is not None else [])
        return [(np.array(losses), np.array(p)) for losses, p in both]

    def pure_epsilon(self) -> float:
        finite = (v for losses, _ in self._directions() for v in losses.tolist() if v < math.inf)
        return max(0.0, max(finite, default=0.0))

    def infinite_mass(self) -> float:
        return max(float(np.sum(p[np.isinf(losses)])) for losses, p in self._directions())

    def renyi(self, alpha: Array) -> Array:
        curves = []
        for losses, p in self._directions():
            keep = np.isfinite(losses) & (p > 0)
            # Outside the infinite mass: the distribution given a finite loss. Its moments bound δ at every order
            # above 1; at order 1 the conditional second distribution may have mass above 1, so nothing is said.
            total = float(np.sum(p[keep])) or 1.0
            lost = max(0.0, 1.0 - math.fsum(p[keep] * np.exp(-losses[keep])))
            curve = renyi.from_losses(losses[keep], np.log(p[keep] / total), alpha, lost)
            curves.append(curve if np.all(keep | (p == 0)) else np.where(alpha == 1.0, math.inf, curve))
        return np.asarray(np.max(np.stack(curves), axis=0))

    def pairs(self) -> tuple[LossPair, ...] | None:
        from ledgerwood.accounting.curves.dominating_pairs.discrete import PmfPair

        return tuple(PmfPair(tuple(losses.tolist()), tuple(p.tolist())) for losses, p in self._directions())

    def loss_atoms(self, largest_order: float) -> tuple[Array, Array] | None:
        if self.infinite_mass() > 0 or self.reverse is not None:
            return None
        losses, p = np.array(self.losses), np.array(self.probabilities)
        return losses[p > 0], np.log(p[p > 0])

    def _group(self, k: int) -> Cost:
        cost = ApproxDP(self.pure_epsilon(), self.infinite_mass(), neighbours=self.neighbours)
        return cost.group(k) if cost.infinite_mass() else PureDP(k * cost.size, neighbours=self.neighbours)


def _checked(losses: Iterable[float], probabilities: Iterable[float]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    values = tuple(_checks.real("losses", v, "be numbers (inf allowed)") for v in losses)
    weights = tuple(_checks.probability("probabilities", p) for p in probabilities)
    if len(values) != len(weights) or not values:
        raise ParameterError("probabilities", f"match the {len(values)} losses one to one", len(weights))
    if any(v == -math.inf and p > 0 for v, p in zip(values, weights)):
        raise ParameterError("losses", "be above -inf (an outcome P never takes has no loss under P)", -math.inf)
    if abs(math.fsum(weights) - 1) > 1e-9:
        raise ParameterError("probabilities", "add up to 1", math.fsum(weights))
    mass = math.fsum(p * math.exp(min(-v, 700.0)) for v, p in zip(values, weights) if p > 0)
    if mass > 1 + 1e-9:
        hint = "Are the losses under P = log dP/dQ?"
        raise ParameterError("probabilities", "satisfy sum p·exp(-loss) <= 1 (the mass of Q)", mass, hint)
    return values, weights
