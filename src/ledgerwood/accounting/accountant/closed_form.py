"""Accounting methods in closed form: pure, advanced, KOV, zCDP, Rényi, Gaussian.

A method turns a cost into two functions, ε(δ) and log δ(ε). Each is an upper bound; a method that cannot price a
cost raises :class:`~ledgerwood.errors.MethodUnavailable` and says why. A cost with a δ of its own
(``infinite_mass`` m, from approximate-DP releases) is m + (1−m)·δ' with δ' the rest's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ledgerwood.accounting.costs.base import Cost
from ledgerwood.accounting.curves import gaussian as gaussian
from ledgerwood.accounting.curves.conversion import epsilon_from_rdp, log_delta_from_rdp
from ledgerwood.accounting.curves.numerics import least, log_factorial
from ledgerwood.errors import MethodUnavailable


@dataclass(frozen=True, slots=True)
class Price:
    """What one method says: ε (or log δ), and the Rényi order if it used one."""

    value: float
    order: float | None = None


@dataclass(frozen=True, slots=True)
class Method:
    """A named accounting method."""

    name: str
    summary: str
    epsilon: Callable[[Cost, float], Price]
    log_delta: Callable[[Cost, float], Price]


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf


def outside_mass(cost: Cost, delta: float) -> float:
    """What is left of δ for the part of the cost outside its infinite mass; negative if nothing is."""
    mass = cost.infinite_mass()
    return delta if mass == 0 else (delta - mass) / (1 - mass) * (1 - 4e-16)


def with_mass(cost: Cost, log_delta: float) -> float:
    """Log of m + (1−m)·δ', rounded upwards."""
    mass = cost.infinite_mass()
    if mass == 0:
        return log_delta
    return min(0.0, math.log(mass + (1 - mass) * math.exp(log_delta)) + 4e-16)


def _by_rest(solve: Callable[[Cost, float], Price]) -> Callable[[Cost, float], Price]:
    """Solve for ε after the infinite mass has taken its part of δ."""

    def epsilon(cost: Cost, delta: float) -> Price:
        rest = outside_mass(cost, delta)
        if rest < 0:
            return Price(math.inf)
        if rest == 0 or cost.pure_epsilon() == 0:
            return Price(cost.pure_epsilon())
        return solve(cost, rest)

    return epsilon


# -- pure -----------------------------------------------------------------------------------------------------------


def _pure_epsilon(cost: Cost, delta: float) -> Price:
    total = cost.pure_epsilon()
    if total == math.inf:
        raise MethodUnavailable("pure", "it has no finite pure epsilon; use 'rdp' or 'optimal'")
    return Price(total)


def _pure_log_delta(cost: Cost, epsilon: float) -> Price:
    total = _pure_epsilon(cost, 0.0).value
    return Price(with_mass(cost, -math.inf if epsilon >= total else 0.0))


# -- advanced composition -----------------------------------------------------------------------------------------


def _pure_terms(cost: Cost, method: str) -> list[tuple[float, int]]:
    terms = [(part.pure_epsilon(), n) for part, n in cost.priced_terms()]
    if any(e == math.inf for e, _ in terms):
        raise MethodUnavailable(method, "a release has no finite pure epsilon; use 'rdp', 'pld' or 'optimal'")
    return [(e, n) for e, n in terms if e > 0]


def _advanced_epsilon(cost: Cost, delta: float) -> Price:
    r"""Dwork, Rothblum & Vadhan in the sharpened form of Bun & Steinke 2016 / Kairouz et al. 2015, Theorem 3.4(a).

    .. math:: \varepsilon=\sum_i\varepsilon_i\tanh(\varepsilon_i/2)+\sqrt{2\log(1/\delta)\sum_i\varepsilon_i^2}
    """
    terms = _pure_terms(cost, "advanced")
    drift = math.fsum(n * e * math.tanh(e / 2) for e, n in terms)
    spread = math.fsum(n * e * e for e, n in terms)
    value = drift + math.sqrt(-2 * math.log(delta) * spread)
    return Price(min(value * (1 + 1e-14), cost.pure_epsilon()))


def _advanced_log_delta(cost: Cost, epsilon: float) -> Price:
    terms = _pure_terms(cost, "advanced")
    if epsilon >= cost.pure_epsilon():
        return Price(with_mass(cost, -math.inf))
    drift = math.fsum(n * e * math.tanh(e / 2) for e, n in terms)
    spread = math.fsum(n * e * e for e, n in terms)
    excess = max(epsilon - drift, 0.0)
    return Price(with_mass(cost, -(excess**2) / (2 * spread) * (1 - 1e-14)))


# -- Kairouz, Oh & Viswanath --------------------------------------------------------------------------------------


def equal_steps(cost: Cost, method: str = "kov") -> tuple[float, int]:
    """(ε, k) of k equal pure steps, or an error."""
    terms = _pure_terms(cost, method)
    sizes = {e for e, _ in terms}
    if len(sizes) > 1:
        raise MethodUnavailable(method, "its steps have different epsilons; use 'pld', which composes them exactly")
    return (sizes.pop() if sizes else 0.0), sum(n for _, n in terms)


#: Minus the log of the mass of outcomes left out, far below any δ; and the most outcomes listed.
_KOV_LOG_TAIL, _KOV_MOST = 760.0, 4 * 10**6


@lru_cache(maxsize=8)
def _kov_terms(size: float, k: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Losses and log masses of the outcomes with loss (k-2i)ε ≥ 0 near the mean, and a bound of the mass left out.

    The mass further than x from the mean is at most 2·exp(-2x²/k) (Hoeffding) and, for rare outcomes,
    exp(-x²/(2·(mean + x/3))) on each side (Bernstein).
    """
    mean = k / (1 + math.exp(size)) if size < 700 else 0.0
    far = min(math.sqrt(k * _KOV_LOG_TAIL / 2), math.sqrt(2 * mean * _KOV_LOG_TAIL) + 2 * _KOV_LOG_TAIL / 3)
    low, high = max(0, math.floor(mean - far)), min(k // 2, math.ceil(mean + far))
    if high - low > _KOV_MOST:
        raise MethodUnavailable("kov", f"this many steps have {high - low} outcomes that count; use 'pld' or 'rdp'")
    i = np.arange(low, high + 1, dtype=np.float64)
    logs = log_factorial(k) - log_factorial(i) - log_factorial(k - i) - i * size - k * math.log1p(math.exp(-size))
    return (k - 2 * i) * size, logs, -math.inf if low == 0 and high == k // 2 else math.log(2) - _KOV_LOG_TAIL


def _kov_log_delta_rest(size: float, k: int, epsilon: float) -> float:
    r"""Kairouz, Oh & Viswanath 2015, Theorem 3.3 (exact for k-fold randomised response):

    .. math:: \delta(\varepsilon)=\sum_{i:\,(k-2i)\varepsilon_0>\varepsilon}\binom ki
              \frac{e^{(k-i)\varepsilon_0}}{(1+e^{\varepsilon_0})^k}\bigl(1-e^{\varepsilon-(k-2i)\varepsilon_0}\bigr)
    """
    losses, logs, outside = _kov_terms(size, k)
    keep = losses > epsilon
    if not np.any(keep):
        return outside if epsilon < k * size else -math.inf
    terms = logs[keep] + np.log(-np.expm1(epsilon - losses[keep]))
    peak = float(np.max(terms))
    # log-gamma is good to a few ulp of k log k
    rounding = 1e-15 * (k * (math.log(k + 1) + size) + 10)
    inside = peak + math.log(float(np.sum(np.exp(terms - peak)))) + rounding
    return min(0.0, float(np.logaddexp(inside, outside)))


def _kov_epsilon(cost: Cost, delta: float) -> Price:
    size, k = equal_steps(cost)
    total = k * size
    if total == 0:
        return Price(0.0)
    target = math.log(delta)
    guess = min(total, _advanced_epsilon(cost, delta).value)
    value = least(lambda e: e >= total or _kov_log_delta_rest(size, k, e) <= target, guess=guess)
    return Price(min(value, cost.pure_epsilon()))


def _kov_log_delta(cost: Cost, epsilon: float) -> Price:
    size, k = equal_steps(cost)
    value = -math.inf if epsilon >= cost.pure_epsilon() else _kov_log_delta_rest(size, k, epsilon)
    return Price(with_mass(cost, value))


# -- concentrated and Rényi ---------------------------------------------------------------------------------------


def _rho(cost: Cost) -> float:
    rho = cost.rho()
    if rho is None:
        raise MethodUnavailable("zcdp", "a release has no zCDP bound; use 'rdp'")
    return rho


def _zcdp_epsilon(cost: Cost, delta: float) -> Price:
    rho = _rho(cost)
    value, order = epsilon_from_rdp(lambda a: a * rho, delta)
    return Price(value, order=order)


def _zcdp_log_delta(cost: Cost, epsilon: float) -> Price:
    rho = _rho(cost)
    if rho == 0:
        return Price(with_mass(cost, -math.inf))
    value, order = log_delta_from_rdp(lambda a: a * rho, epsilon)
    return Price(with_mass(cost, value), order=order)


def _has_curve(cost: Cost) -> None:
    if not float(cost.renyi(np.array([min(1.5, cost.largest_order())]))[0]) < math.inf:
        raise MethodUnavailable("rdp", "a release has no finite Rényi curve; use 'pld'")


def _rdp_epsilon(cost: Cost, delta: float) -> Price:
    _has_curve(cost)
    value, order = epsilon_from_rdp(cost.renyi, delta, cost.largest_order())
    pure = cost.pure_epsilon()
    return Price(pure, order=math.inf) if pure <= value else Price(value, order=order)


def _rdp_log_delta(cost: Cost, epsilon: float) -> Price:
    if epsilon >= cost.pure_epsilon():
        return Price(with_mass(cost, -math.inf), order=math.inf)
    _has_curve(cost)
    value, order = log_delta_from_rdp(cost.renyi, epsilon, cost.largest_order())
    return Price(with_mass(cost, value), order=order)


# -- Gaussian -----------------------------------------------------------------------------------------------------


def _mu(cost: Cost) -> float:
    mu = cost.mu()
    if mu is None:
        raise MethodUnavailable("gdp", "not every release is Gaussian; use 'optimal'")
    return mu


def _gdp_epsilon(cost: Cost, delta: float) -> Price:
    return Price(gaussian.epsilon(_mu(cost), delta))


def _gdp_log_delta(cost: Cost, epsilon: float) -> Price:
    mu = _mu(cost)
    return Price(_log(gaussian.delta(mu, epsilon)) if mu else -math.inf)


CLOSED_FORMS = (
    Method("pure", "sum of the pure epsilons", _by_rest(_pure_epsilon), _pure_log_delta),
    Method("advanced", "advanced composition of pure DP", _by_rest(_advanced_epsilon), _advanced_log_delta),
    Method("kov", "optimal composition of equal pure or approximate DP", _by_rest(_kov_epsilon), _kov_log_delta),
    Method("zcdp", "zero-concentrated DP", _by_rest(_zcdp_epsilon), _zcdp_log_delta),
    Method("rdp", "Rényi DP over all orders (Theorem 1 for selections)", _by_rest(_rdp_epsilon), _rdp_log_delta),
    Method("gdp", "Gaussian DP, exact", _gdp_epsilon, _gdp_log_delta),
)
