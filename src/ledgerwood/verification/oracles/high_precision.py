r"""Profiles and Rényi divergences by mpmath, from first principles.

Nothing here shares a formula with :mod:`ledgerwood.accounting` where another one exists: the Rényi curve of
bounded-range mechanisms is the numeric supremum of its defining expression, divergences are sums or integrals of
:math:`p^\alpha q^{1-\alpha}`, discrete distributions are summed term by term, and ε is found by bisection. Slow, and
right to the number of digits asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ledgerwood.accounting.costs.base import Cost
from ledgerwood.accounting.costs.discrete_noise import DiscreteGaussian, RandomizedResponse
from ledgerwood.accounting.costs.guarantees import PureDP
from ledgerwood.accounting.costs.noise import Gaussian, Laplace
from ledgerwood.accounting.costs.selection import BoundedRange
from ledgerwood.accounting.costs.subsampled import PoissonSubsampled
from ledgerwood.errors import MissingDependency

__all__ = [
    "bounded_range_delta",
    "bounded_range_renyi",
    "discrete_gaussian_delta",
    "discrete_gaussian_rdp",
    "exact_epsilon",
    "exact_rdp",
    "gaussian_delta",
    "laplace_delta",
    "laplace_rdp",
    "randomized_response_delta",
    "randomized_response_rdp",
    "subsampled_gaussian_delta",
    "subsampled_gaussian_rdp",
]

Real = Any  # an mpmath number


def _mpmath() -> Any:
    try:
        import mpmath
    except ImportError:
        raise MissingDependency("mpmath", "the high-precision oracle", "verification") from None
    return mpmath


def _maximum(function: Callable[[Real], Real], low: Real, high: Real, digits: int) -> Real:
    """The maximum of a unimodal function by golden section; half the digits in the argument give all in the value."""
    mp = _mpmath().mp
    golden = (mp.sqrt(5) - 1) / 2
    a, b = mp.mpf(low), mp.mpf(high)
    x1, x2 = b - golden * (b - a), a + golden * (b - a)
    f1, f2 = function(x1), function(x2)
    while b - a > mp.mpf(high) * mp.mpf(10) ** (-(digits // 2) - 12):
        if f1 < f2:
            a, x1, f1 = x1, x2, f2
            x2 = a + golden * (b - a)
            f2 = function(x2)
        else:
            b, x2, f2 = x2, x1, f1
            x1 = b - golden * (b - a)
            f1 = function(x1)
    return max(f1, f2)


def bounded_range_renyi(epsilon: float, alpha: float, digits: int = 50) -> Real:
    r"""Theorem 1 of DP-XGB as printed there: a numeric supremum over t.

    .. math:: f(\alpha)=\sup_{t\in[0,\varepsilon]}\frac{1}{\alpha-1}\Bigl[\alpha(t-\varepsilon)
              +\log\bigl((e^{\alpha\varepsilon}-1)p_{\varepsilon,t}+1\bigr)\Bigr],
              \quad p_{\varepsilon,t}=\frac{e^{-t}-e^{-\varepsilon}}{1-e^{-\varepsilon}}

    >>> print(_mpmath().nstr(bounded_range_renyi(0.1, 8.0), 15))
    0.00992182244849838
    """
    mp = _mpmath().mp
    if epsilon == 0:
        return mp.mpf(0)
    # The sum cancels down to (α−1)·f, which is as small as (α−1)·ε²; α·ε may be as large as 1e12.
    lost = 2 * max(0.0, -math.log10(epsilon)) + max(0.0, math.log10(max(alpha * epsilon, 1.0)))
    lost += 0.0 if alpha == 1 else max(0.0, -math.log10(alpha - 1))
    with mp.workdps(digits + int(3 * lost) + 30):
        e, a = mp.mpf(epsilon), mp.mpf(alpha)
        if alpha == 1:
            ratio = e / mp.expm1(e)
            return ratio - 1 - mp.log(ratio)
        huge = mp.expm1(a * e)

        def inner(t: Real) -> Real:
            p = (mp.exp(-t) - mp.exp(-e)) / -mp.expm1(-e)
            return (a * (t - e) + mp.log(huge * p + 1)) / (a - 1)

        spread = max(0.0, math.log10(max(alpha * epsilon, 1.0)))
        return _maximum(inner, 0, e, digits + int(2 * spread))


# -- profiles δ(ε) of one release ------------------------------------------------------------


def gaussian_delta(mu: Real, epsilon: Real) -> Real:
    """Balle & Wang 2018, Theorem 8."""
    mp = _mpmath().mp
    m, e = mp.mpf(mu), mp.mpf(epsilon)
    return mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m)


def laplace_delta(size: Real, epsilon: Real) -> Real:
    """1 − e^{(ε − size)/2} below the pure ε, 0 above."""
    mp = _mpmath().mp
    return -mp.expm1((mp.mpf(epsilon) - size) / 2) if epsilon < size else mp.mpf(0)


def bounded_range_delta(size: Real, epsilon: Real, digits: int = 50) -> Real:
    """The worst generalised randomized response: sup over t of q_t·(1 − e^{ε−t})."""
    mp = _mpmath().mp
    e, g = mp.mpf(size), mp.mpf(epsilon)
    if g >= e:
        return mp.mpf(0)

    def inner(t: Real) -> Real:
        return mp.expm1(t - e) / mp.expm1(-e) * -mp.expm1(g - t)

    return _maximum(inner, g, e, digits)


def randomized_response_delta(size: Real, buckets: int, times: int, epsilon: Real) -> Real:
    """k-ary randomized response, repeated: every count of true and false answers, summed."""
    mp = _mpmath().mp
    e, g = mp.mpf(size), mp.mpf(epsilon)
    other = 1 / (mp.exp(e) + buckets - 1)  # Pr of one wrong answer
    true = mp.exp(e) * other
    total = mp.mpf(0)
    for neutral in range(times + 1 if buckets > 2 else 1):
        # `neutral` answers are wrong under both inputs, `a` right under the first, `b` right under the second.
        ways = mp.binomial(times, neutral) * ((buckets - 2) * other) ** neutral
        rest = times - neutral
        for b in range(rest // 2 + 1):
            loss = (rest - 2 * b) * e
            if loss > g:
                total += ways * mp.binomial(rest, b) * true ** (rest - b) * other**b * -mp.expm1(g - loss)
    return total


def discrete_gaussian_delta(sigma: Real, sensitivity: int, epsilon: Real) -> Real:
    """The sum of (p − e^ε q)₊ over the integers."""
    mp = _mpmath().mp
    p, q = _discrete_gaussian(sigma, sensitivity)
    factor = mp.exp(mp.mpf(epsilon))
    return mp.fsum(gain for a, b in zip(p, q) if (gain := a - factor * b) > 0)


def _discrete_gaussian(sigma: Real, sensitivity: int) -> tuple[list[Real], list[Real]]:
    mp = _mpmath().mp
    s = mp.mpf(sigma)
    # Beyond this the weights are below the working precision of any δ above 1e-320.
    reach = int(mp.ceil(s * mp.sqrt(2 * mp.log(10) * (mp.dps + 330)))) + sensitivity
    weights = [mp.exp(-mp.mpf(k * k) / (2 * s * s)) for k in range(-reach - sensitivity, reach + sensitivity + 1)]
    total = mp.fsum(weights)
    p = [w / total for w in weights]
    return p[sensitivity:], p[: len(p) - sensitivity]


def subsampled_gaussian_delta(mu: Real, rate: Real, epsilon: Real) -> Real:
    """One Poisson-subsampled Gaussian release under add/remove: the worse of the two directions."""
    mp = _mpmath().mp
    m, q, e = mp.mpf(mu), mp.mpf(rate), mp.mpf(epsilon)
    x = (mp.log((mp.expm1(e) + q) / q) + m * m / 2) / m
    remove = (1 - q) * mp.ncdf(-x) + q * mp.ncdf(m - x) - mp.exp(e) * mp.ncdf(-x)
    if mp.exp(-e) <= 1 - q:
        return remove
    y = (mp.log((mp.expm1(-e) + q) / q) + m * m / 2) / m
    add = mp.ncdf(y) - mp.exp(e) * ((1 - q) * mp.ncdf(y) + q * mp.ncdf(y - m))
    return max(remove, add)


# -- Rényi divergences ------------------------------------------------------------


def laplace_rdp(size: Real, alpha: Real) -> Real:
    """The integral of p^α q^{1−α} by quadrature (α > 1)."""
    mp = _mpmath().mp
    e, a = mp.mpf(size), mp.mpf(alpha)

    def integrand(x: Real) -> Real:
        return mp.exp(-a * abs(x) - (1 - a) * abs(x - e)) / 2

    return mp.log(mp.quad(integrand, [-mp.inf, 0, e, mp.inf])) / (a - 1)


def randomized_response_rdp(size: Real, buckets: int, alpha: Real) -> Real:
    """The sum of p^α q^{1−α} over the k answers (α > 1)."""
    mp = _mpmath().mp
    e, a = mp.mpf(size), mp.mpf(alpha)
    other = 1 / (mp.exp(e) + buckets - 1)
    true = mp.exp(e) * other
    total = true**a * other ** (1 - a) + other**a * true ** (1 - a) + (buckets - 2) * other
    return mp.log(total) / (a - 1)


def discrete_gaussian_rdp(sigma: Real, sensitivity: int, alpha: Real) -> Real:
    """The sum of p^α q^{1−α} over the integers (α > 1)."""
    mp = _mpmath().mp
    p, q = _discrete_gaussian(sigma, sensitivity)
    a = mp.mpf(alpha)
    return mp.log(mp.fsum(x**a * y ** (1 - a) for x, y in zip(p, q))) / (a - 1)


def subsampled_gaussian_rdp(mu: Real, rate: Real, alpha: Real) -> Real:
    """The integral of p^α q^{1−α} for the removal direction, which is the larger one (α > 1), by quadrature."""
    mp = _mpmath().mp
    m, q, a = mp.mpf(mu), mp.mpf(rate), mp.mpf(alpha)

    def integrand(x: Real) -> Real:
        return mp.npdf(x) * (1 - q + q * mp.exp(m * x - m * m / 2)) ** a

    # The mass sits around 0 and around αμ, each a few standard deviations wide.
    reach = mp.sqrt(2 * mp.log(10) * mp.dps) + 2
    pieces = 8 + int(a * m / 4)
    points = [-reach + (a * m + 2 * reach) * i / pieces for i in range(pieces + 1)]
    return mp.log(mp.quad(integrand, points)) / (a - 1)


# -- costs ------------------------------------------------------------


def _profile(cost: Cost, digits: int) -> Callable[[Real], Real] | None:
    """The exact profile of a cost, where a formula exists."""
    mu = cost.mu()
    if mu is not None and mu > 0:
        mp = _mpmath().mp
        squares = [(mp.mpf(part.ratio), n) for part, n in cost.priced_terms() if isinstance(part, Gaussian)]
        total = mp.sqrt(mp.fsum(n * m * m for m, n in squares))
        return lambda e: gaussian_delta(total, e)
    terms = cost.priced_terms()
    if len(terms) != 1:
        return None
    part, n = terms[0]
    if type(part) is PureDP:
        return lambda e: randomized_response_delta(part.size, 2, n, e)
    if isinstance(part, RandomizedResponse):
        return lambda e: randomized_response_delta(part.size, part.k, n, e)
    if n != 1:
        return None
    if isinstance(part, Laplace):
        return lambda e: laplace_delta(_mpmath().mp.mpf(part.sensitivity) / part.scale, e)
    if isinstance(part, BoundedRange):
        return lambda e: bounded_range_delta(part.size, e, digits)
    if isinstance(part, DiscreteGaussian) and part.dimension == 1:
        return lambda e: discrete_gaussian_delta(part.sigma, int(part.sensitivity), e)
    if isinstance(part, PoissonSubsampled) and isinstance(part.cost, Gaussian) and not part.replaced:
        base, rate = part.cost, part.rate
        return lambda e: subsampled_gaussian_delta(base.ratio, rate, e)
    return None


def exact_epsilon(cost: Cost, delta: float, digits: int = 25) -> Real | None:
    """ε at δ to ``digits`` digits for costs with an exact formula, ``None`` for the others.

    >>> print(_mpmath().nstr(exact_epsilon(1000 * Gaussian(sigma=50.0), 1e-5), 15))
    2.59438338052...
    """
    profile = _profile(cost, digits)
    if profile is None:
        return None
    mp = _mpmath().mp
    with mp.workdps(2 * digits + max(0, -int(math.log10(delta)))):
        target, low, high = mp.mpf(delta), mp.mpf(0), mp.mpf(1)
        if profile(low) <= target:
            return low
        while profile(high) > target:
            low, high = high, 2 * high
        while high - low > high * mp.mpf(10) ** -digits:
            middle = (low + high) / 2
            low, high = (middle, high) if profile(middle) > target else (low, middle)
        return high


def exact_rdp(cost: Cost, alpha: float, digits: int = 50) -> Real | None:
    """The Rényi divergence at one order above 1 (bounded range: from 1), ``None`` where no formula is at hand.

    >>> from ledgerwood.accounting import Gaussian
    >>> float(exact_rdp(Gaussian(sigma=2.0), 8.0))
    1.0
    """
    mp = _mpmath().mp
    total = mp.mpf(0)
    for part, n in cost.terms:
        with mp.workdps(digits):
            if isinstance(part, BoundedRange):
                value = bounded_range_renyi(part.size, alpha, digits)
            elif alpha == 1:
                return None
            elif isinstance(part, Gaussian):
                value = mp.mpf(part.ratio) ** 2 * mp.mpf(alpha) / 2
            elif isinstance(part, Laplace):
                value = laplace_rdp(mp.mpf(part.sensitivity) / part.scale, alpha)
            elif isinstance(part, RandomizedResponse):
                value = randomized_response_rdp(part.size, part.k, alpha)
            elif type(part) is PureDP:
                value = randomized_response_rdp(part.size, 2, alpha)
            elif isinstance(part, DiscreteGaussian) and part.dimension == 1:
                value = discrete_gaussian_rdp(part.sigma, int(part.sensitivity), alpha)
            elif isinstance(part, PoissonSubsampled) and isinstance(part.cost, Gaussian) and not part.replaced:
                value = subsampled_gaussian_rdp(part.cost.ratio, part.rate, alpha)
            else:
                return None
            total += n * value
    return total
