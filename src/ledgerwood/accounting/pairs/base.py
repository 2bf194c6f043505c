"""What the accountant asks of an ordered pair (P, Q), and logarithms without cancellation."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

from ledgerwood.accounting.normal import log_ndtr, ndtr
from ledgerwood.errors import ParameterError

__all__ = [
    "Array",
    "LossPair",
    "intervals",
    "log1mexp",
    "log_difference",
    "log_normal_interval",
    "positive",
]

Array = npt.NDArray[np.float64]


class LossPair(ABC):
    """An ordered pair (P, Q), described by the law of its loss L = log dP/dQ. Immutable and hashable.

    The defaults are those of a symmetric pair without infinite loss and without a lattice.
    """

    @property
    def symmetric(self) -> bool:
        """Whether (Q, P) has the same profile."""
        return self._symmetric()

    @property
    def infinite_mass(self) -> float:
        """P-mass where Q vanishes."""
        return self._infinite_mass()

    @property
    def anchor(self) -> float:
        """A loss that deserves a grid point: an edge or an atom of the law."""
        return self._anchor()

    @property
    def lattice(self) -> tuple[float, bool] | None:
        """A spacing that, counted from the anchor, meets all atoms and edges; whether the loss has no other
        values.
        """
        return self._lattice()

    @property
    def rounding(self) -> float:
        """The masses are right to ``rounding * (16 + |log p| + |log q|)`` in the logs; the accountant allows
        for it.
        """
        return self._rounding()

    def support(self) -> tuple[float, float]:
        """Least and greatest finite loss (may be infinite)."""
        return self._support()

    def log_cells(self, edges: npt.ArrayLike) -> tuple[Array, Array]:
        """Log P- and log Q-mass of the loss in (-inf, e_0], (e_0, e_1], ..., (e_n, inf); n + 2 cells.

        Edges rise. An atom within ``2**-47 * max(1, |edge|)`` of an edge may be counted on either side of it.
        """
        array = np.asarray(edges, dtype=float)
        return self._log_cells(array) if len(array) else (np.zeros(1), np.zeros(1))

    def log_delta(self, epsilon: npt.ArrayLike) -> Array:
        """Logarithm of the profile, in closed form (one release, no grid)."""
        return self._log_delta(np.asarray(epsilon, dtype=float))

    def reversed(self) -> LossPair:
        """The pair (Q, P)."""
        return self._reversed()

    def _symmetric(self) -> bool:
        return True

    def _infinite_mass(self) -> float:
        return 0.0

    def _anchor(self) -> float:
        low, high = self._support()
        return high if high < math.inf else low if low > -math.inf else 0.0

    def _lattice(self) -> tuple[float, bool] | None:
        return None

    def _rounding(self) -> float:
        return 2.0**-48

    def _reversed(self) -> LossPair:
        return self

    @abstractmethod
    def _support(self) -> tuple[float, float]: ...

    @abstractmethod
    def _log_cells(self, edges: Array) -> tuple[Array, Array]: ...

    @abstractmethod
    def _log_delta(self, epsilon: Array) -> Array: ...


def log1mexp(x: Array) -> Array:
    """Log(1 - e^x) for x <= 0."""
    with np.errstate(divide="ignore"):
        return np.where(x > -math.log(2), np.log(-np.expm1(np.minimum(x, 0.0))), np.log1p(-np.exp(x)))


def log_difference(a: Array, b: Array) -> Array:
    """Log(e^a - e^b), and -inf where b >= a."""
    a, b = np.broadcast_arrays(np.asarray(a, dtype=float), np.asarray(b, dtype=float))
    keep = (b < a) & (a > -np.inf)
    out = np.full(a.shape, -np.inf)
    out[keep] = a[keep] + log1mexp(b[keep] - a[keep])
    return out


def log_normal_interval(a: Array, b: Array, width: Array) -> Array:
    r"""Log(:math:`\Phi(b) - \Phi(a)`), right in relative terms for every width and both tails.

    ``width`` is b - a, given apart because the rounding of a and b may spoil their difference. Narrow
    intervals,
    :math:`w(1 + |m|) \le 1` for width w and centre m, are integrated by an eight-point Gauss rule about the
    centre
    (relative error below 1e-20); wide ones are differences of tails that are not close to each other.
    """
    flip = a + b < 0
    a, b = np.where(flip, -b, a), np.where(flip, -a, b)
    out = np.full(np.shape(a), -np.inf)
    some = width > 0
    with np.errstate(invalid="ignore"):
        centre = (a + b) / 2
        narrow = some & (width * (1 + centre) <= 1)
    nodes, weights = np.polynomial.legendre.leggauss(8)
    w, m = width[narrow] / 2, centre[narrow]
    total = np.zeros(w.shape)
    for x, c in zip(nodes, weights, strict=True):
        total += c * np.exp(-w * x * (m + w * x / 2))
    out[narrow] = np.log(w * total) - m * m / 2 - 0.5 * math.log(2 * math.pi)
    inside = some & ~narrow & (a <= 0)
    out[inside] = np.log1p(-(ndtr(-b[inside]) + ndtr(a[inside])))
    outside = some & ~narrow & (a > 0)
    out[outside] = log_difference(log_ndtr(-a[outside]), log_ndtr(-b[outside]))
    return out


def intervals(edges: Array) -> tuple[Array, Array]:
    """The left and right ends of the n + 2 cells."""
    return np.concatenate(([-np.inf], edges)), np.concatenate((edges, [np.inf]))


def positive(name: str, value: float) -> None:
    """Raise unless ``value`` is positive and finite."""
    if not 0 < value < math.inf:
        raise ParameterError(name, "be positive and finite", value)
