r"""Bounded-range privacy profiles: the exact single step, and a certified profile on a grid.

The smallest profile that holds for every :math:`\varepsilon`-bounded-range mechanism is

.. math:: \delta^*(\gamma) = \frac{(1 - e^{(\gamma - \varepsilon)/2})^2}{1 - e^{-\varepsilon}},
          \qquad -\varepsilon \le \gamma \le \varepsilon,

:math:`1 - e^\gamma` to the left and 0 to the right (``docs/theory/bounded-range-profile.md``).
:class:`RangeProfile` holds the profile of a composition computed by
:mod:`ledgerwood.accounting.accountant.bounded_range.recursion`:
an upper end (chords of upper values, linear in :math:`e^\gamma`) and a lower end (lines below the profile).
Every number it returns is rounded outwards. Elementary functions are taken to be right to 8 ulp,
Mills' ratio (of x ≥ −2) and ``ndtr`` (of x ≥ 0) to 32 ulp.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ledgerwood.accounting.curves.numerics import mills, ndtr
from ledgerwood.errors import ParameterError

Array = NDArray[np.float64]

_ULP = 2.0**-52
_UP, _DOWN = 1.0 + 32 * _ULP, 1.0 - 32 * _ULP
_SMALLEST = 1e-305  # added where a positive upper end could underflow


@dataclass(frozen=True, eq=False)
class RangeProfile:
    """A privacy profile V with V(-g) = 1 - exp(-g) + exp(-g) V(g), bracketed on the nodes g = 0, h, 2h, ...

    Attributes
    ----------
    h
        Step of the grid.
    reach
        The sum of all epsilons, rounded up: V = 0 from here on.
    values
        Upper values at the nodes.
    lower_values
        Lower values at the nodes.
    intercepts, slopes
        ``V(g) >= intercepts[i] - slopes[i] exp(g - i h)`` for every i and every real g.
    masses, mass_at_infinity
        The chords of ``values`` are the profile of a discrete pair: the loss is ``i h`` with probability
        ``masses[i]``, ``-i h`` with probability ``masses[i] exp(-i h)``, and infinite with the rest (all
        rounded up). Convolving this pair with others gives the upper end of their composition.
    """

    h: float
    reach: float
    values: Array
    lower_values: Array
    intercepts: Array
    slopes: Array
    masses: Array
    mass_at_infinity: float

    @classmethod
    def from_state(cls, *, h: float, reach: float, state: Array) -> Self:
        """Finish the four rows (upper, lower, intercept, slope) computed by the recursion."""
        upper = np.minimum.accumulate(np.minimum(state[0], 1.0))  # V decreases and is at most 1
        after = np.append(upper[1:], upper[-1])
        before = np.concatenate([upper[:1], upper[:-1]])
        steep, flat = (before - upper) / -math.expm1(-h), (upper - after) / math.expm1(h)
        steep[0], flat[0] = 1.0 - upper[0], 2.0 * flat[0]
        masses = np.maximum(steep - flat + 8 * _ULP * (np.abs(steep) + np.abs(flat)), 0.0)
        upper, lower, intercepts, slopes, masses = (
            np.array(row) for row in (upper, state[1], state[2], state[3], masses)
        )
        for row in (upper, lower, intercepts, slopes, masses):
            row.setflags(write=False)
        return cls(h, reach, upper, lower, intercepts, slopes, masses, float(upper[-1]))

    def with_lower(self, state: Array) -> Self:
        """Return this profile with the lower rows (1, 2, 3) of a state on the same grid."""
        lower, intercepts, slopes = (np.array(row) for row in state[1:])
        for row in (lower, intercepts, slopes):
            row.setflags(write=False)
        return replace(self, lower_values=lower, intercepts=intercepts, slopes=slopes)

    @property
    def gamma_max(self) -> float:
        """Last node of the grid."""
        return self.h * (len(self.values) - 1)

    def upper(self, gamma: ArrayLike) -> Array:
        """Upper end of V at any real gamma."""
        g = np.asarray(gamma, dtype=np.float64)
        distance = np.abs(g)
        last = len(self.values) - 1
        # The place in the cell, moved left by more than the rounding of i h: V decreases.
        index = np.minimum(np.floor(distance / self.h), last).astype(np.int64)
        place = distance - index * self.h - 4 * _ULP * distance
        index = np.where(place < 0, index - 1, index)
        place = np.clip(np.where(place < 0, place + self.h, place), 0.0, self.h)
        index = np.maximum(index, 0)
        right = np.expm1(place) / math.expm1(self.h)
        left = np.exp(place) * np.expm1(self.h - place) / math.expm1(self.h)
        value = left * self.values[index] + right * self.values[np.minimum(index + 1, last)]
        value = np.where(index == last, self.values[last] * self._tail(distance), value)
        value = np.where(distance >= self.reach, 0.0, value)
        mirrored = np.where(g < 0, -np.expm1(-distance) + np.exp(-distance) * value, value)
        return np.asarray(np.minimum(mirrored * _UP, 1.0))

    def _tail(self, distance: Array) -> Array:
        """The chord from 1 at the last node to 0 at the reach, rounded up, for distances between them."""
        margin = 4 * _ULP * self.reach
        length, left = self.reach - self.gamma_max - margin, np.maximum(self.reach - distance, 0.0) + margin
        if length <= 0.0:
            return np.ones_like(distance)
        return np.minimum(np.expm1(-left) / math.expm1(-length), 1.0)

    def lower(self, gamma: ArrayLike) -> Array:
        """Lower end of V at any real gamma: the best of the neighbouring lines and of the next node."""
        g = np.asarray(gamma, dtype=np.float64)
        distance = np.abs(g)
        last = len(self.values) - 1
        index = np.minimum(np.floor(distance / self.h), last).astype(np.int64)
        following = np.minimum(index + 1, last)
        value = np.where(index < last, self.lower_values[following], 0.0)
        for node in (index, following):
            place = np.minimum(distance - node * self.h + 4 * _ULP * (distance + self.h), 700.0)
            down = self.intercepts[node] * (1 - 4 * _ULP) - self.slopes[node] * np.exp(place) * _UP
            value = np.maximum(value, down)
        mirrored = np.where(g < 0, -np.expm1(-distance) + np.exp(-distance) * value, value)
        return np.asarray(np.maximum(mirrored * _DOWN, 0.0))

    def gaussian_upper(self, mu: float, gamma: ArrayLike) -> Array:
        r"""Upper end of :math:`E[V(\gamma - L)]`, :math:`L \sim N(\mu^2/2, \mu^2)`: a Gaussian step besides.

        The chords are a mixture of puts :math:`(1 - e^{\gamma - c})_+`, and the expectation of a put is
        the Gaussian profile at :math:`\gamma - c`: a sum of positive terms.
        """
        _check_mu(mu)
        nodes = self.h * np.arange(len(self.masses))
        strikes = np.concatenate([nodes, -nodes[1:]])
        weights = np.concatenate([self.masses, self.masses[1:] * np.exp(-nodes[1:] * (1 - 4 * _ULP)) * _UP])

        def at(g: float) -> float:
            margin = 4 * _ULP * (abs(g) + nodes[-1])
            puts = _gaussian_profile(mu, g - strikes - margin, upper=True)
            total = self.mass_at_infinity + float(weights @ puts)
            return min(total * (1 + _ULP * (32 + len(weights))) + _SMALLEST, 1.0)

        return _each(at, gamma)

    def gaussian_lower(self, mu: float, gamma: ArrayLike) -> Array:
        r"""Lower end of :math:`E[V(\gamma - L)]`, :math:`L \sim N(\mu^2/2, \mu^2)`.

        Line i is followed until line i + 1 overtakes it. By parts this is a sum over the crossings: each is a
        put (with the Gaussian profile as expectation), and a correction for the rounding of its place.
        """
        _check_mu(mu)
        intercepts, slopes, nodes = self._lines()
        change = intercepts[:-1] - intercepts[1:]
        fall = slopes[:-1] - slopes[1:] * math.exp(-self.h)
        with np.errstate(divide="ignore", invalid="ignore"):
            offset = np.nan_to_num(np.log(change / fall), nan=self.h / 2)
        # Any crossing between the two nodes keeps the bound valid; the clip only guards against rounding.
        offset = np.clip(offset, 0.0, self.h)
        stretch = np.exp(offset)
        correction = change - stretch * fall
        correction -= 32 * _ULP * (intercepts[:-1] + stretch * (slopes[:-1] + slopes[1:]))
        crossings = nodes[:-1] + offset

        def at(g: float) -> float:
            margin = 4 * _ULP * (abs(g) + nodes[-1])
            low = _gaussian_profile(mu, g - crossings + margin, upper=False)
            high = _gaussian_profile(mu, g - crossings - margin, upper=True)
            few, many = _gaussian_tail(mu, g - crossings, margin)
            puts = np.where(change > 0, change * low * _DOWN, change * high * _UP)
            tails = np.where(correction > 0, correction * few, correction * many)
            gains = puts + tails
            size = float(np.sum(np.abs(puts)) + np.sum(np.abs(tails)))
            total = float(np.sum(gains)) - _ULP * (8 + len(gains)) * size - _SMALLEST
            return max(total, 0.0)

        return _each(at, gamma)

    def _lines(self) -> tuple[Array, Array, Array]:
        """Lines at the nodes -n-1, ..., n+1, (1, 1) and (0, 0) being the ends; slopes scaled by exp(node)."""
        count = len(self.values)
        nodes = self.h * np.arange(count + 1)
        shrink = np.exp(-nodes * (1 - 4 * _ULP))
        left_intercepts = np.maximum(1.0 - self.slopes * shrink[:-1] * _UP, 0.0) * _DOWN
        left_slopes = (1.0 - self.intercepts) * shrink[:-1] * _UP
        intercepts = np.concatenate([[1.0], left_intercepts[:0:-1], self.intercepts, [0.0]])
        slopes = np.concatenate([[shrink[-1] * _UP], left_slopes[:0:-1], self.slopes, [0.0]])
        return intercepts, slopes, np.concatenate([-nodes[:0:-1], nodes])

    def pmf_upper(self, losses: ArrayLike, probabilities: ArrayLike, infinite_mass: float, gamma: ArrayLike) -> Array:
        """Upper end of E[V(gamma - L)] for a discrete loss L, plus the probability of an infinite loss."""
        loss, mass = _pmf(losses, probabilities, infinite_mass)

        def at(g: float) -> float:
            value = self.upper(g - loss - 4 * _ULP * (abs(g) + np.abs(loss)))
            return min((float(mass @ value) + infinite_mass) * (1 + _ULP * (8 + len(mass))), 1.0)

        return _each(at, gamma)

    def pmf_lower(self, losses: ArrayLike, probabilities: ArrayLike, infinite_mass: float, gamma: ArrayLike) -> Array:
        """Lower end of E[V(gamma - L)] for a discrete loss L, plus the probability of an infinite loss."""
        loss, mass = _pmf(losses, probabilities, infinite_mass)

        def at(g: float) -> float:
            value = self.lower(g - loss + 4 * _ULP * (abs(g) + np.abs(loss)))
            return (float(mass @ value) + infinite_mass) * (1 - _ULP * (8 + len(mass)))

        return _each(at, gamma)


def _each(function: Callable[[float], float], gamma: ArrayLike) -> Array:
    g = np.asarray(gamma, dtype=np.float64)
    return np.array([function(float(x)) for x in g.ravel()]).reshape(g.shape)


def _gaussian_profile(mu: float, gamma: Array, *, upper: bool) -> Array:
    r"""Bound :math:`\Phi(-a) - e^\gamma \Phi(-b)`, where :math:`a = \gamma/\mu - \mu/2`, :math:`b = a + \mu`.

    Since :math:`e^\gamma \varphi(b) = \varphi(a)` it is :math:`\varphi(a) (m(a) - m(b))` with Mills' ratio m.
    The difference cancels for small mu; :math:`-m'(x) = 1 - x m(x)` is convex and decreasing, so that the
    difference also lies between mu times -m' at the midpoint and mu times the mean of -m' at the ends.
    """
    distance = np.abs(gamma)
    sign = 1.0 if upper else -1.0
    b0 = distance / mu + mu / 2
    a = distance / mu - mu / 2 - sign * 4 * _ULP * b0
    b = np.maximum(a + mu, 0.0)
    density, error = _density(a)
    near, far = mills(np.maximum(a, -2.0)), mills(b)
    up, down = (_UP, _DOWN) if upper else (_DOWN, _UP)
    difference = near * up - far * down
    if upper:
        mean = ((1.0 - a * near) + (1.0 - b * far) + 64 * _ULP * (np.abs(a) * near + b * far)) / 2
        mean = np.where(a > -2.0, mean, np.inf)
        small = density * np.minimum(difference, mu * mean * _UP)
        value = np.where(a > -1.0, small, ndtr(-a) * up - density * far * (1 - error)) * (1 + error)
    else:
        middle = (a + b) / 2
        ratio = mills(np.maximum(middle, -2.0))
        midpoint = 1.0 - middle * ratio - 32 * _ULP * np.abs(middle) * ratio
        midpoint = np.where(middle > -2.0, midpoint, 0.0)
        small = density * np.maximum(difference, mu * midpoint * _DOWN)
        value = np.where(a > -1.0, small, ndtr(-a) * up - density * far * (1 + error)) * (1 - error)
    value = np.maximum(value, 0.0)
    mirrored = np.where(gamma < 0, -np.expm1(-distance) + np.exp(-distance) * value, value)
    return np.asarray(mirrored * up)


def _gaussian_tail(mu: float, gamma: Array, margin: float) -> tuple[Array, Array]:
    r"""Bracket :math:`e^\gamma \Phi(-\gamma/\mu - \mu/2)`, gamma being known to ``margin``."""
    b = gamma / mu + mu / 2
    slip = 4 * _ULP * (np.abs(gamma) / mu + mu / 2) + margin / mu
    density, error = _density(b - mu)
    # On the right through Mills' ratio; on the left the product itself is harmless.
    error = error + slip * (np.abs(b - mu) + 2.0)
    value = np.where(
        b > -1.0,
        density * mills(np.maximum(b, -2.0)),
        np.exp(np.minimum(gamma, 0.0)) * ndtr(-b),
    )
    return value * np.maximum(1 - 2 * error, 0.0), value * (1 + 2 * error) + _SMALLEST


def _density(a: Array) -> tuple[Array, Array]:
    """Normal density and a bound on its relative error."""
    return np.exp(-0.5 * a * a) / math.sqrt(2 * math.pi), _ULP * (32 + a * a)


def _pmf(losses: ArrayLike, probabilities: ArrayLike, infinite_mass: float) -> tuple[Array, Array]:
    loss, mass = np.asarray(losses, dtype=np.float64), np.asarray(probabilities, dtype=np.float64)
    if loss.ndim != 1 or loss.shape != mass.shape:
        raise ParameterError("probabilities", "match the losses, one for each", mass.shape)
    if not (np.all(np.isfinite(loss)) and np.all(mass >= 0) and np.all(np.isfinite(mass))):
        raise ParameterError("probabilities", "be non-negative, with finite losses", mass)
    if not 0.0 <= infinite_mass <= 1.0:
        raise ParameterError("infinite_mass", "lie in [0, 1]", infinite_mass)
    return loss, mass


def _check_mu(mu: float) -> None:
    if not 0.0 < mu < math.inf:
        raise ParameterError("mu", "be positive and finite", mu)
