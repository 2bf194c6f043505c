"""Accountants: the price of a cost by a named method, or by the tightest certified one."""

from __future__ import annotations

import contextlib
import math

from ledgerwood.accounting.accountant.certified import CERTIFIED, optimal_lower
from ledgerwood.accounting.accountant.closed_form import CLOSED_FORMS, Method, Price
from ledgerwood.accounting.costs.base import Account, Cost
from ledgerwood.accounting.costs.selection import BoundedRange
from ledgerwood.errors import MethodUnavailable, ParameterError

METHODS: dict[str, Method] = {method.name: method for method in (*CLOSED_FORMS, *CERTIFIED)}

SMALLEST = 5e-324


def _method(name: str) -> Method:
    if name not in METHODS:
        raise ParameterError("method", f"be one of {', '.join(METHODS)}, or None for the tightest", name)
    return METHODS[name]


def _candidates(cost: Cost) -> tuple[str, ...]:
    """The methods that can be the tightest for this cost: zcdp, advanced and kov never beat these.

    A single selection has a dominating pair, so ``pld`` is as sharp as the recursion there, on another grid; two or
    more it prices as if each could be attacked for itself, and is looser.
    """
    if cost.mu() is not None:
        return ("gdp",)
    if sum(n for part, n in cost.priced_terms() if isinstance(part, BoundedRange)) == 1:
        return ("optimal", "pld", "pure", "rdp")
    return ("optimal", "pure", "rdp")


def _priced(cost: Cost, name: str, argument: float, what: str) -> Price:
    method = _method(name)
    try:
        return method.epsilon(cost, argument) if what == "epsilon" else method.log_delta(cost, argument)
    except (ArithmeticError, MemoryError):
        raise MethodUnavailable(name, "its numbers leave the range of floating point, or of memory") from None


def _ranked(cost: Cost, argument: float, what: str) -> list[tuple[str, Price]]:
    """The prices by the methods that can be the tightest, least first."""
    found: list[tuple[str, Price]] = []
    reasons = []
    for name in _candidates(cost):
        try:
            found.append((name, _priced(cost, name, argument, what)))
        except MethodUnavailable as error:
            reasons.append(str(error))
    if not found:
        raise MethodUnavailable("optimal", "; ".join(reasons))
    return sorted(found, key=lambda one: one[1].value)


def delta(cost: Cost, epsilon: float, method: str | None = None) -> float:
    """δ at ε: an upper bound, never 0 where the truth is positive; at a negative ε by that of the reversed pair."""
    if epsilon < 0:  # P(S) - e^-ε Q(S) = 1 - e^-ε + e^-ε (Q(S') - e^ε P(S')) of the complement S'
        rest = delta(cost, -epsilon, method)
        return min(1.0, (-math.expm1(epsilon) + math.exp(epsilon) * rest) * (1 + 2.0**-50))
    price = _ranked(cost, epsilon, "delta")[0][1] if method is None else _priced(cost, method, epsilon, "delta")
    mass = cost.infinite_mass()
    if epsilon >= cost.pure_epsilon():
        return mass
    rounding = 2.0**-52 * (2 + abs(max(price.value, -1e3)))  # of log δ, and of its exponential
    return min(1.0, max(math.exp(price.value) * (1 + rounding), mass, SMALLEST))


def epsilon(cost: Cost, delta_target: float, method: str | None = None) -> float:
    """ε at δ: an upper bound with ``delta(cost, epsilon(cost, d)) <= d``, ``inf`` where no finite ε exists."""
    return _price_epsilon(cost, delta_target, method)[1].value


def _price_epsilon(cost: Cost, delta_target: float, method: str | None) -> tuple[str, Price]:
    if method is not None:
        return method, _agreed(cost, delta_target, method, _priced(cost, method, delta_target, "epsilon"))
    (name, price), *others = _ranked(cost, delta_target, "epsilon")
    price = _agreed(cost, delta_target, name, price)
    for other, raw in others:
        if raw.value < price.value and (found := _agreed(cost, delta_target, other, raw)).value < price.value:
            name, price = other, found
    return name, price


def _agreed(cost: Cost, delta_target: float, name: str, price: Price) -> Price:
    """The price at which the method's own δ is within the target: ε and δ are found by different routes.

    A gap between the two, where it is small, says about how far to go: log δ falls by ten or more while ε doubles.
    """
    value, step = price.value, 1e-12
    while math.isfinite(value) and (reached := delta(cost, value, name)) > delta_target:
        if delta_target > 0:
            step = max(step, min((math.log(reached) - math.log(delta_target)) / 10, 1e-7))
        further, pure = value * (1 + step) + step * 1e-290, cost.pure_epsilon()
        value = pure if value < pure < further else further
        step *= 8
    return Price(value, price.order)


def account(cost: Cost, delta_target: float, lower_end: bool = True) -> Account:
    """Price a cost by every method at δ; without its lower end it takes half as long where that is computed."""
    name, price = _price_epsilon(cost, delta_target, None)
    table: dict[str, float | str] = {}
    lower = 0.0
    if lower_end:
        with contextlib.suppress(MethodUnavailable):
            lower = optimal_lower(cost, delta_target)
    order = price.order
    for other in METHODS:
        try:
            found = price if other == name else _price_epsilon(cost, delta_target, other)[1]
        except MethodUnavailable as error:
            table[other] = error.reason
            continue
        table[other] = found.value
        if other == "rdp" and order is None:
            order = found.order
        if found.value < price.value:  # two grids of one truth: every method is an upper bound, so the least holds
            name, price = other, found
    return Account(price.value, min(lower, price.value), delta_target, name, order, table)
