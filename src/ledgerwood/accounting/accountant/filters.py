r"""Privacy filters: when may an adaptively chosen release still be allowed?

A filter adds up one number per release, fixed by the release's cost, and allows a release when the sum stays within a
limit that is fixed before the first one. Costs, labels, order and stopping may all depend on earlier outputs. The
theorems and their proofs are in ``docs/theory/filters.md``; each class names the one it rests on.

Amounts are added as whole numbers of :data:`UNIT` (prices rounded up, limits down), so that sums are exact, do not
depend on order, and survive JSON. A float is read as the decimal number it prints as: ten releases of 0.1 fit in 1.0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ledgerwood._rounding import MARGIN
from ledgerwood.accounting.curves import gaussian
from ledgerwood.errors import MethodUnavailable, ParameterError

if TYPE_CHECKING:
    from ledgerwood.accounting.costs.base import Cost


_DIGITS = 30

_HALVINGS = 60

UNIT: int = 10**_DIGITS
"""One is this many units: amounts are integers in steps of 1e-30."""


_CONTEXT = Context(prec=400, Emax=999999, Emin=-999999)


def to_units(value: float, *, up: bool = True) -> int:
    """Return a finite amount as whole units, rounded up (a price) or down (a limit).

    >>> 10 * to_units(0.1) == to_units(1.0)
    True
    """
    if value == 0:
        return 0
    scaled = Decimal(repr(float(value))).scaleb(_DIGITS, _CONTEXT)  # not the caller's context, which may round
    return int(scaled.to_integral_value(ROUND_CEILING if up else ROUND_FLOOR))


def from_units(units: int) -> float:
    """Return the amount in ``units`` as the nearest float, infinite beyond the largest."""
    try:
        return units / UNIT
    except OverflowError:
        return math.inf


def conversion(order: float, delta: float) -> float:
    r"""What to add to a Rényi divergence of order :math:`\alpha` to get epsilon at delta.

    .. math:: \varepsilon = \tau + \log\frac{\alpha-1}{\alpha} - \frac{\log\delta + \log\alpha}{\alpha-1}

    Canonne, Kamath & Steinke 2020 (arXiv:2004.00010), Proposition 12.
    """
    return math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)


@lru_cache(maxsize=256)
def best_order(epsilon: float, delta: float) -> float:
    r"""Return the order whose budget is largest for a Gaussian curve :math:`\tau(\alpha) = \alpha\rho`.

    A function of the public epsilon and delta alone. Every order above 1 is sound; this one admits the most
    Gaussian noise releases.

    >>> round(best_order(1.0, 1e-6), 2)
    21.98
    """

    return _minimizing_order(lambda order: -(epsilon - conversion(order, delta)) / order)


def _minimizing_order(objective: Callable[[float], float]) -> float:
    """Return the order in 1 + [6e-6, 7e10] at which a function is least: a grid, then thirds."""

    def at(log_gap: float) -> float:
        return objective(1 + math.exp(log_gap))

    centre = min((i / 10 for i in range(-120, 251)), key=at)
    low, high = centre - 0.1, centre + 0.1
    for _ in range(60):
        third = (high - low) / 3
        if at(low + third) > at(high - third):
            low += third
        else:
            high -= third
    return 1 + math.exp((low + high) / 2)


@dataclass(frozen=True, slots=True)
class RenyiFilter:
    r"""Rényi divergences of one fixed order add: :math:`\sum_t \tau_t(\alpha) \le B`.

    Feldman & Zrnic 2021 (arXiv:2008.11193); docs/theory/filters.md, Theorem 2. The order is fixed when the
    filter is made. (Accepting when *some* order of a grid would still accept is not covered by that theorem.)

    >>> rule = RenyiFilter(epsilon=1.0, delta=1e-6)
    >>> round(rule.order, 2), round(rule.limit, 4)
    (21.98, 0.5355)
    """

    name: ClassVar[str] = "rdp"
    unit: ClassVar[str] = "Renyi divergence at the filter's order"
    epsilon: float
    delta: float
    reserved_delta: float = 0.0
    order: float = 0.0

    def __post_init__(self) -> None:
        _check(self)
        if self.order == 0.0:
            object.__setattr__(self, "order", best_order(self.epsilon, self.delta - self.reserved_delta))
        if not 1 < self.order < math.inf:
            raise ParameterError("order", "be finite and above 1", self.order)
        if self.limit <= 0:
            raise ParameterError(
                "order", f"leave a positive budget at epsilon={self.epsilon}, delta={self.delta}", self.order,
                "Leave the order out to get the best one",
            )  # fmt: skip

    @property
    def limit(self) -> float:
        """B, the conversion solved for the divergence."""
        constant = conversion(self.order, self.delta - self.reserved_delta)
        return self.epsilon - constant - MARGIN * (self.epsilon + abs(constant))

    def price(self, cost: Cost) -> float:
        """Return the cost's Rényi divergence at the order."""
        return _priced(self, float(cost.renyi(np.array([self.order]))[0]) * (1 + MARGIN))

    def charge(self, cost: Cost) -> tuple[float, float]:
        """Return the price, and the cost's own delta."""
        return self.price(cost), cost.infinite_mass()

    def epsilon_of(self, amount: float) -> float:
        """Return the conversion of ``amount``."""
        return max(0.0, amount + conversion(self.order, self.delta - self.reserved_delta)) if amount > 0 else 0.0

    def curve(self, amount: float, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        """Rényi divergence grows with the order: the amount bounds every smaller order and no larger one."""
        return np.where(orders <= self.order, amount, np.inf if amount > 0 else 0.0)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, for a journal."""
        return {**_common(self), "order": self.order}


@dataclass(frozen=True, slots=True)
class ConcentratedFilter:
    r"""Concentrated costs add: :math:`\sum_t \rho_t \le \rho`.

    The Rényi filter at every order at once; docs/theory/filters.md, Theorem 3. The limit is the largest
    :math:`\rho` whose curve :math:`\alpha\rho` meets epsilon at delta for some order.

    >>> round(ConcentratedFilter(epsilon=1.0, delta=1e-6).limit, 5)
    0.02436
    """

    name: ClassVar[str] = "zcdp"
    unit: ClassVar[str] = "rho of zero-concentrated DP"
    epsilon: float
    delta: float
    reserved_delta: float = 0.0

    def __post_init__(self) -> None:
        _check(self)

    @property
    def limit(self) -> float:
        """Return rho."""
        twin = RenyiFilter(self.epsilon, self.delta, self.reserved_delta)
        return twin.limit / twin.order * (1 - MARGIN)

    def price(self, cost: Cost) -> float:
        """Return the cost's rho."""
        rho = cost.rho()
        return _priced(self, math.inf if rho is None else rho * (1 + MARGIN))

    def charge(self, cost: Cost) -> tuple[float, float]:
        """Return the price, and the cost's own delta."""
        return self.price(cost), cost.infinite_mass()

    def epsilon_of(self, amount: float) -> float:
        """Return the best conversion of the curve of ``amount`` over all orders."""
        if amount <= 0:
            return 0.0
        delta = self.delta - self.reserved_delta
        order = _minimizing_order(lambda a: a * amount + conversion(a, delta))
        return max(0.0, order * amount + conversion(order, delta))

    def curve(self, amount: float, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return order times rho."""
        return orders * amount

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, for a journal."""
        return _common(self)


@dataclass(frozen=True, slots=True)
class GaussianFilter:
    r"""Squares of GDP parameters add: :math:`\sum_t \mu_t^2 \le \mu^2`.

    Fully adaptive Gaussian composition: Smith & Thakurta 2022 (arXiv:2210.17520); Koskela, Tobaben & Honkela 2023
    (arXiv:2209.15596); docs/theory/filters.md, Theorem 4. Tighter than the Rényi filter for Gaussian noise.

    >>> round(GaussianFilter(epsilon=1.0, delta=1e-6).limit, 5)
    0.05603
    """

    name: ClassVar[str] = "gdp"
    unit: ClassVar[str] = "mu squared of Gaussian DP"
    epsilon: float
    delta: float
    reserved_delta: float = 0.0

    def __post_init__(self) -> None:
        _check(self)

    @property
    def limit(self) -> float:
        """Return the square of the largest mu that meets epsilon at delta."""
        return _largest_mu(self.epsilon, self.delta - self.reserved_delta) ** 2 * (1 - MARGIN)

    def price(self, cost: Cost) -> float:
        """Return the square of the cost's mu."""
        mu = cost.mu()
        return _priced(self, math.inf if mu is None else mu * mu * (1 + MARGIN))

    def charge(self, cost: Cost) -> tuple[float, float]:
        """Return the price, and the cost's own delta."""
        return self.price(cost), cost.infinite_mass()

    def epsilon_of(self, amount: float) -> float:
        """Return the Gaussian epsilon of the amount."""
        return gaussian.epsilon(math.sqrt(amount), self.delta - self.reserved_delta) if amount > 0 else 0.0

    def curve(self, amount: float, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the Gaussian curve: order times half of mu squared."""
        return orders * (amount / 2)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, for a journal."""
        return _common(self)


@dataclass(frozen=True, slots=True)
class PureFilter:
    r"""Epsilons add, and the deltas of approximate DP add: :math:`\sum_t \varepsilon_t \le \varepsilon`.

    Rogers, Roth, Ullman & Vadhan 2016 (arXiv:1605.08294); docs/theory/filters.md, Theorem 1. A whole plan is charged
    the epsilon and delta it states. A cost whose pure epsilon is within the budget is charged that (and a delta of its
    own); any other the epsilon it has at ``delta / 2**k``, with the k that takes the smallest part of the budget.

    >>> PureFilter(epsilon=1.0).limit
    1.0
    >>> from ledgerwood.accounting import Gaussian
    >>> epsilon, delta = PureFilter(epsilon=1.0, delta=1e-6).charge(Gaussian(sigma=20.0))
    >>> round(epsilon, 3), round(1e-6 / delta)
    (0.213, 8)
    """

    name: ClassVar[str] = "pure"
    unit: ClassVar[str] = "epsilon"
    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < math.inf:
            raise ParameterError("epsilon", "be positive and finite", self.epsilon)
        if not 0 <= self.delta < 1:
            raise ParameterError("delta", "lie in [0, 1)", self.delta)

    @property
    def reserved_delta(self) -> float:
        """Return delta: nothing else uses it."""
        return self.delta

    @property
    def limit(self) -> float:
        """Return epsilon."""
        return self.epsilon

    def price(self, cost: Cost) -> float:
        """Return the cost's pure epsilon (its own delta is counted beside it)."""
        return _priced(self, cost.pure_epsilon())

    def charge(self, cost: Cost) -> tuple[float, float]:
        """Return the epsilon and the delta that the cost takes: functions of it and of the budget alone."""
        pure = cost.pure_epsilon()
        if pure <= self.epsilon or self.delta == 0:
            return self.price(cost), cost.infinite_mass()

        def part(k: int) -> float:
            return cost.epsilon(math.ldexp(self.delta, -k)) / self.epsilon

        low, high = 0, _HALVINGS  # epsilon grows with k, the part of delta falls: find where they meet
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if part(middle) >= math.ldexp(1.0, -middle) else (middle + 1, high)
        k = min((max(low - 1, 0), low), key=lambda k: max(part(k), math.ldexp(1.0, -k)))
        epsilon, delta = cost.epsilon(math.ldexp(self.delta, -k)), math.ldexp(self.delta, -k)
        return _priced(self, epsilon), delta

    def epsilon_of(self, amount: float) -> float:
        """Return the amount."""
        return amount

    def curve(self, amount: float, orders: NDArray[np.float64]) -> NDArray[np.float64]:
        """A loss of at most epsilon: the divergence is at most min(epsilon, order * epsilon^2 / 2)."""
        return np.minimum(amount, orders * (amount * amount / 2))

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, for a journal."""
        return {"filter": self.name, "epsilon": self.epsilon, "delta": self.delta}


Filter: TypeAlias = RenyiFilter | ConcentratedFilter | GaussianFilter | PureFilter
"""A rule fixed in advance. All have

``limit``
    the whole amount that may be spent, rounded down;
``price(cost)``
    the number that adds up, rounded up (:class:`MethodUnavailable` if the cost has no such price);
``charge(cost)``
    what a release takes: of the limit, and of the reserved delta;
``epsilon_of(amount)``
    epsilon, at ``delta``, of a ledger whose limit is ``amount``;
``curve(amount, orders)``
    the Rényi divergence that an interaction within ``amount`` cannot exceed, at each order.
"""


def make_filter(
    name: str, epsilon: float, delta: float, *, reserved_delta: float = 0.0, order: float | None = None
) -> Filter:
    """Return the filter called ``name``."""
    if order is not None and name != "rdp":
        raise ParameterError("order", "be given with filter='rdp' only", order)
    match name:
        case "rdp":
            return RenyiFilter(epsilon, delta, reserved_delta, 0.0 if order is None else order)
        case "gdp":
            return GaussianFilter(epsilon, delta, reserved_delta)
        case "zcdp":
            return ConcentratedFilter(epsilon, delta, reserved_delta)
        case "pure":
            if reserved_delta not in (0.0, delta):
                raise ParameterError(
                    "reserved_delta", "be left out with filter='pure': all of delta is reserved", reserved_delta
                )
            return PureFilter(epsilon, delta)
    raise ParameterError("filter", "be one of 'rdp', 'gdp', 'zcdp', 'pure'", name)


def choose_filter(epsilon: float, delta: float, cost: Cost | None) -> Filter:
    """Return the filter for a ledger whose first admitted request has this cost (None: a whole plan).

    A whole plan: epsilons and deltas add. Anything else: the one of that rule and the Rényi filter of which it takes
    the smaller part. Both take every kind of cost. The choice depends on public values only and is made once, before
    anything is released, so each theorem holds for the ledger (docs/theory/filters.md, "The default").

    >>> from ledgerwood.accounting import Gaussian, PureDP
    >>> [choose_filter(1.0, 1e-6, cost).name for cost in (None, PureDP(0.1), PureDP(0.01), Gaussian(sigma=50.0))]
    ['pure', 'pure', 'rdp', 'rdp']
    """
    whole: Filter = PureFilter(epsilon, delta)
    if cost is None or delta == 0:
        return whole
    try:
        each: Filter = RenyiFilter(epsilon, delta)
    except ParameterError:  # no order leaves anything at this epsilon and delta
        return whole
    return min((whole, each), key=lambda rule: _part(rule, cost))


def _part(rule: Filter, cost: Cost) -> float:
    """The part of the budget that a cost takes; infinite if it cannot be taken."""
    try:
        amount, delta = rule.charge(cost)
    except MethodUnavailable:
        return math.inf
    if delta > rule.reserved_delta:
        return math.inf
    return max(amount / rule.limit, delta / rule.reserved_delta if delta else 0.0)


def _check(rule: RenyiFilter | ConcentratedFilter | GaussianFilter) -> None:
    if not 0 < rule.epsilon < math.inf:
        raise ParameterError("epsilon", "be positive and finite", rule.epsilon)
    if not 0 < rule.delta < 1:
        raise ParameterError("delta", "lie in (0, 1)", rule.delta, "With delta=0 use filter='pure'")
    if not 0 <= rule.reserved_delta < rule.delta:
        raise ParameterError("reserved_delta", f"lie in [0, delta={rule.delta})", rule.reserved_delta)


def _common(rule: RenyiFilter | ConcentratedFilter | GaussianFilter) -> dict[str, Any]:
    return {"filter": rule.name, "epsilon": rule.epsilon, "delta": rule.delta, "outright": rule.reserved_delta}


def _priced(rule: Filter, amount: float) -> float:
    if not amount < math.inf:
        raise MethodUnavailable(rule.name, "it has no finite price under this ledger's filter; nothing was released")
    return amount


@lru_cache(maxsize=256)
def _largest_mu(epsilon: float, delta: float) -> float:
    low, high = 0.0, 1.0
    while gaussian.epsilon(high, delta) <= epsilon:
        low, high = high, 2 * high
    while high - low > 1e-13 * high:
        mid = (low + high) / 2
        low, high = (mid, high) if gaussian.epsilon(mid, delta) <= epsilon else (low, mid)
    return low


@dataclass(frozen=True, slots=True)
class Balance:
    """An amount of a ledger's budget.

    Attributes
    ----------
    amount
        In the unit of the ledger's filter.
    limit
        The ledger's whole budget in that unit.
    epsilon
        The epsilon, at ``delta``, of a ledger with that amount as its whole budget.
    delta
        The ledger's delta.
    reserved_delta
        The part of delta spent (or left) by costs with a delta of their own (``ApproxDP``).
    filter
        The filter whose unit this is; None for a plan, whose unit is the small-scale concentrated cost.
    is_chosen
        Whether that filter is fixed. By default a ledger chooses at its first admitted request.
    """

    amount: float
    limit: float
    epsilon: float
    delta: float
    reserved_delta: float
    filter: Filter | None
    is_chosen: bool = True

    @property
    def fraction(self) -> float:
        """The amount as a fraction of the limit."""
        return self.amount / self.limit
