r"""The Gaussian privacy profile, exact and in logs.

.. math:: \delta(\varepsilon)=\Phi(\mu/2-\varepsilon/\mu)-e^{\varepsilon}\,\Phi(-\mu/2-\varepsilon/\mu)

Source: Balle & Wang 2018 (arXiv:1805.06530), Theorem 8; composition μ² = Σ μᵢ² is Dong, Roth & Su 2019
(arXiv:1905.02383), Corollary 3.3. With a = ε/μ − μ/2, b = ε/μ + μ/2, the density φ and Mills' ratio
m(x) = Φ(−x)/φ(x) it is δ = φ(a)·[m(a) − m(b)] = φ(a)·∫ₐᵇ (1 − x·m(x)) dx: no two nearly equal numbers are
subtracted, and nothing underflows before δ itself does.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from ledgerwood._checks import Array
from ledgerwood.accounting.curves.numerics import least, log_ndtr, mills, ndtr

#: Relative error bound of exp(log_delta) for δ ≥ 1e-300, used to round δ upwards.
RELATIVE_ERROR = 1e-11
#: Above this μ the rounding of a exceeds that bound: a is lowered by its rounding, and δ ≤ Φ(−a) is the answer.
_LARGE_MU = 1e3


@lru_cache(maxsize=1)
def _legendre() -> tuple[Array, Array]:
    nodes, weights = np.polynomial.legendre.leggauss(32)
    return (nodes + 1) / 2, weights / 2


def _mills_slope(x: Array) -> Array:
    """1 − x·m(x) = −m'(x) > 0; its asymptotic series where the difference would cancel."""
    y = 1.0 / np.maximum(x, 50.0) ** 2
    far = y * (1 - y * (3 - y * (15 - y * (105 - y * (945 - y * 10395)))))
    near = np.minimum(x, 50.0)
    return np.where(x > 50.0, far, 1.0 - near * mills(near))


def log_delta(mu: float, epsilon: float) -> float:
    """Log δ(ε) of the μ-Gaussian mechanism, for any real ε.

    >>> round(math.exp(log_delta(1.0, 1.0)), 6)
    0.126937
    """
    if mu == 0.0:
        return math.log(-math.expm1(epsilon)) if epsilon < 0 else -math.inf
    z = epsilon / mu
    a, b = z - mu / 2, z + mu / 2
    if mu > _LARGE_MU:
        return float(log_ndtr(np.array(2.0**-50 * max(abs(z), mu / 2) - a)))
    if (a >= 0 and mu <= 4) or (a < 0 and mu <= 1 and a > -4):
        nodes, weights = _legendre()
        bracket = mu * float(np.sum(weights * _mills_slope(a + mu * nodes)))
    elif a >= 0:
        bracket = float(mills(a)) - float(mills(b))
    else:
        value = float(ndtr(-a))
        if b > -30:
            value -= math.exp(-a * a / 2) / math.sqrt(2 * math.pi) * float(mills(b))
        else:
            value -= math.exp(epsilon) * float(ndtr(-b))
        return math.log(min(max(value, 5e-324), 1.0))
    log_bracket = math.log(bracket) if bracket > 0 else 0.0  # it is at most 1, and vanishes only where a² overflows
    return min(0.0, -a * a / 2 - math.log(2 * math.pi) / 2 + log_bracket)


def delta(mu: float, epsilon: float) -> float:
    """δ(ε), rounded upwards; never 0 for μ > 0."""
    if mu == 0.0:
        return max(0.0, -math.expm1(epsilon))
    value = math.exp(log_delta(mu, epsilon)) * (1 + RELATIVE_ERROR)
    return min(1.0, max(value, 5e-324))


def epsilon(mu: float, delta_target: float) -> float:
    """The least ε with δ(ε) ≤ ``delta_target``, on the safe side.

    >>> f"{epsilon(1000**0.5 / 50, 1e-5):.6f}"
    '2.594383'
    """
    if mu == 0.0:
        return 0.0
    if delta_target == 0.0:
        return math.inf
    target = math.log(delta_target) - 2 * RELATIVE_ERROR
    guess = mu * mu / 2 + mu * math.sqrt(2 * max(-target, 0.0))
    if guess > 1e300:
        return math.inf
    return least(lambda e: log_delta(mu, e) <= target, guess=guess)
