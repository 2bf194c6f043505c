"""A coarse picture of composed losses, from which the grid and the tilt are chosen. No bound depends on
it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from ledgerwood.accounting.curves.dominating_pairs.base import Array, LossPair
from ledgerwood.errors import MethodUnavailable

__all__ = ["Sketch", "sketch"]


@dataclass(frozen=True)
class Sketch:
    """For each pair: a few hundred merged atoms (loss, log mass), the right ends of their cells, and the
    count.
    """

    atoms: tuple[tuple[Array, Array, Array, int], ...]

    @cached_property
    def largest_tilt(self) -> float:
        """Ten thousand over the size of the loss: beyond it a tilt only shows the largest loss, and costs
        digits.
        """
        _, mean, variance = self._moments(np.zeros(1))
        return 1e4 / math.sqrt(float(variance[0]) + float(mean[0]) ** 2 + 1e-24)

    def _moments(self, tilts: Array) -> tuple[Array, Array, Array]:
        """Log moment, tilted mean and tilted variance of the sum at each tilt."""
        log_moment, mean, variance = np.zeros(tilts.shape), np.zeros(tilts.shape), np.zeros(tilts.shape)
        for loss, log_p, _, count in self.atoms:
            exponent = log_p + np.multiply.outer(tilts, loss)
            top = exponent.max(axis=1, keepdims=True)
            weight = np.exp(exponent - top)
            total = weight.sum(axis=1, keepdims=True)
            weight /= total
            m = np.sum(weight * loss, axis=1)
            log_moment += count * (top + np.log(total))[:, 0]
            mean += count * m
            variance += count * np.maximum(np.sum(weight * loss**2, axis=1) - m * m, 0.0)
        return log_moment, mean, variance

    @cached_property
    def _bounds(self) -> tuple[Array, Array, Array]:
        """Tilts, the log moment at each, and the log of the hockey stick's gain over a plain Chernoff bound."""
        least = min(1e-7 * self.largest_tilt, 1.0)  # a rare large loss calls for a tilt of its own size
        tilts = np.geomspace(least, self.largest_tilt, round(23 * math.log10(self.largest_tilt / least)))
        return tilts, self._moments(tilts)[0], _log_greatest_weight(tilts)

    def tilt_for_delta(self, log_delta: float) -> float:
        """The order of the best Chernoff bound of epsilon at delta."""
        return self._best_for(log_delta)[0]

    def _best_for(self, log_delta: float) -> tuple[float, float]:
        tilts, moments, gains = self._bounds
        bound = (moments + gains - log_delta) / tilts
        at = int(np.argmin(bound))
        return float(tilts[at]), float(bound[at])

    def tilt_for_epsilon(self, epsilon: float) -> float:
        """The order of the best Chernoff bound of delta at epsilon; 0 at and below the mean."""
        return self._best_at(epsilon)[0]

    def _best_at(self, epsilon: float) -> tuple[float, float]:
        tilts, moments, gains = self._bounds
        bound = moments + gains - tilts * epsilon
        at = int(np.argmin(bound))
        return (float(tilts[at]), float(bound[at])) if bound[at] < 0 else (0.0, 0.0)

    def epsilon_for(self, log_delta: float) -> float:
        """The best Chernoff bound of epsilon at delta."""
        return max(0.0, self._best_for(log_delta)[1])

    def log_chernoff(self, epsilon: float) -> float:
        """Log of the Chernoff bound of delta at epsilon."""
        return self._best_at(epsilon)[1]

    def upper_end(self, log_mass: float) -> float:
        """A loss that the sum exceeds with (about) at most the given probability."""
        tilts, moments, _ = self._bounds
        return float(np.min((moments - log_mass) / tilts))

    def log_bound(self, tilt: float, epsilon: float) -> float:
        """Log of (about) E[e^{tilt (L - epsilon)}], to which rounding errors are relative."""
        return float(self._moments(np.array([tilt]))[0][0]) - tilt * epsilon

    def tilted_end(self, tilt: float, log_mass: float) -> float:
        """A loss that the tilted sum exceeds with (about) at most the given probability."""
        tilts, moments, _ = self._bounds
        more = tilts[tilts > 1.01 * tilt]
        at = float(self._moments(np.array([tilt]))[0][0])
        return float(np.min((moments[tilts > 1.01 * tilt] - at - log_mass) / (more - tilt), initial=math.inf))

    def lower_end(self, tilt: float, log_mass: float) -> float:
        """A loss that the tilted sum falls below with (about) at most the given probability."""
        at, _, variance = self._moments(np.array([tilt]))
        orders = np.geomspace(1e-2, 1e2, 25) / math.sqrt(float(variance[0]) + 1e-300)
        return float(np.max((log_mass - self._moments(tilt - orders)[0] + at[0]) / orders))

    def tilted(self, index: int, tilt: float) -> tuple[Array, Array]:
        """Losses and tilted masses of one pair."""
        loss, log_p, _, _ = self.atoms[index]
        exponent = log_p + tilt * loss
        weight = np.exp(exponent - np.max(exponent))
        return loss, weight / np.sum(weight)

    def spread(self, tilt: float) -> float:
        """Standard deviation of the tilted sum."""
        return math.sqrt(float(self._moments(np.array([tilt]))[2][0]))

    def reach(self, index: int, tilt: float, log_below: float, log_above: float) -> tuple[float, float]:
        """Losses of one pair outside which it has (about) the given log masses, below after a tilt."""
        loss, log_p, right, _ = self.atoms[index]
        norm = float(np.logaddexp.reduce(log_p + tilt * loss))
        below = np.logaddexp.accumulate(log_p) + tilt * np.minimum(right, 1e300) - norm <= log_below
        above = np.logaddexp.accumulate(log_p[::-1])[::-1] > log_above
        low = right[np.flatnonzero(below)[-1]] if below.any() else loss[0] - 0.09 * abs(loss[0]) - 1e-14
        last = int(np.flatnonzero(above)[-1]) if above.any() else len(loss) - 1
        return float(low), max(float(right[last] if right[last] < math.inf else loss[last]), float(low))


def _log_greatest_weight(tilts: Array) -> Array:
    """Log of the largest e^{-tilt t}(1 - e^{-t}): the hockey stick's gain over a plain Chernoff bound."""
    return np.asarray(-tilts * np.log1p(1 / tilts) - np.log1p(tilts))


@lru_cache(maxsize=4)  # one price composes the same pairs for several targets
def sketch(pairs: tuple[tuple[LossPair, int], ...]) -> Sketch:
    """Merge each pair on cells 8 % wide."""
    half = np.geomspace(1e-14, 1e5, 19 * 30 + 1)
    common = np.concatenate((-half[::-1], [0.0], half))
    atoms = []
    for pair, count in pairs:
        low, high = pair.support()
        near = [end * (1 - 2.0**-k) for end in (low, high) if math.isfinite(end) for k in range(3, 24)]
        edges = np.unique(np.concatenate((common, near)))  # finer next to the ends of a bounded loss
        ends = np.append(edges, np.inf)
        log_p, log_q = pair.log_cells(edges)
        some = (log_p > -np.inf) & (log_q > -np.inf)
        if not np.any(some):
            raise MethodUnavailable("pld", "its losses lie beyond 1e5, where the grid ends")
        atoms.append((log_p[some] - log_q[some], log_p[some], ends[some], count))
    return Sketch(tuple(atoms))
