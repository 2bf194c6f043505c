r"""Which floats can a textbook sampler reach? Outputs that one input cannot produce give it away.

A float64 Laplace sampler computes ``location ± scale * log(u)`` from a uniform ``u`` on a grid of :math:`2^{-53}` or
:math:`2^{-52}`. Most floats are not reachable, and which ones are depends on the location (Mironov, CCS 2012).
Attainability is decided by preimage: invert the formula near the output, run the sampler's own floating-point
operations on the few grid points there, and compare bits.

That needs the formula, the location and the scale. The lowest set bit of an output needs nothing: adding noise to 1.0
cannot produce a float finer than the grid around 1.0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ledgerwood.errors import ParameterError
from ledgerwood.verification.auditor.encoding import Encoded

__all__ = ["FORMULAS", "LowBit", "attainable", "low_bit"]

Floats = NDArray[np.float64]


#: Samplers known by their own floating-point operations on a uniform u on the grid of 2^-53.
FORMULAS = ("numpy laplace", "inverse-cdf laplace", "log1p laplace")


def attainable(
    values: Floats, *, location: float, scale: float, formula: str = "numpy laplace", reach: int = 3
) -> NDArray[np.bool_]:
    """Which values the sampler can produce at this location and scale, by preimage search on its grid.

    ``reach`` grid points to each side of the real preimage are tried: the rounding of ``exp``, ``log``, product and sum
    moves the preimage by at most two. Outputs whose noise is so small that many grid points round to them are
    attainable in any case.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> y = rng.laplace(1.0, 10.0, 10_000)
    >>> attainable(y, location=1.0, scale=10.0).all()
    np.True_
    >>> bool(attainable(y, location=0.0, scale=10.0).mean() < 0.5)
    True
    """
    if formula not in FORMULAS:
        raise ParameterError("formula", f"be one of {FORMULAS}", formula)
    if not (0 < scale < math.inf):
        raise ParameterError("scale", "be positive and finite", scale)
    from ledgerwood.verification.auditor._kernels import has_preimage

    values = np.ascontiguousarray(values, dtype=np.float64)
    found = has_preimage(values, float(location), float(scale), FORMULAS.index(formula), reach)
    # Where one ulp of the output holds more grid points than were tried, the sampler reaches every float.
    dense = scale * 2.0**-53 * (2 * reach + 1) < np.spacing(np.abs(values))
    return np.asarray(found | dense | ~np.isfinite(values))


def low_bit(values: Floats) -> Floats:
    """Exponent of the lowest set bit: the finest grid that holds the value (Mironov 2012; Haney et al. 2022).

    >>> low_bit(np.array([1.0, 0.5, 3.0, 0.1]))
    array([  0.,  -1.,   0., -55.])
    """
    finite = np.where(np.isfinite(values), values, 0.0)
    fraction, exponent = np.frexp(finite)
    whole = np.abs(np.ldexp(fraction, 53)).astype(np.int64)
    lowest = whole & -whole
    trailing = np.where(whole == 0, 0, np.log2(np.maximum(lowest, 1)))
    return np.where(whole == 0, 2000.0, exponent - 53 + trailing)


@dataclass(frozen=True, slots=True)
class LowBit:
    """The finest power of two that divides a field: which grid the float lies on."""

    index: int
    name: str

    def __call__(self, encoded: Encoded) -> Floats:
        return low_bit(encoded.numbers[:, self.index])
