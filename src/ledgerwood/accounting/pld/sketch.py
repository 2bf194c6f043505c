"""A coarse picture of composed losses, from which the grid and the tilt are chosen. No bound depends on it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ledgerwood.accounting.pairs import Array, LossPair

__all__ = ["Sketch", "sketch"]

LARGEST_TILT = 1e12


@dataclass(frozen=True)
class Sketch:
    """For each pair: a few hundred merged atoms (loss, log mass), the right ends of their cells, and the count."""

    atoms: tuple[tuple[Array, Array, Array, int], ...]

    def _moments(self, tilts: Array) -> tuple[Array, Array, Array]:
        """Log moment, tilted mean and tilted variance of the sum at each tilt."""
        log_moment, mean, variance = np.zeros(tilts.shape), np.zeros(tilts.shape), np.zeros(tilts.shape)
        for loss, log_p, _, count in self.atoms:
            exponent = log_p + np.multiply.outer(tilts, loss)
            top = exponent.max(axis=1, keepdims=True)
            weight = np.exp(exponent - top)
            total = weight.sum(axis=1, keepdims=True)
            weight /= total
            m = weight @ loss
            log_moment += count * (top + np.log(total))[:, 0]
            mean += count * m
            variance += count * np.maximum(weight @ loss**2 - m * m, 0.0)
        return log_moment, mean, variance

    def _tilts(self) -> Array:
        _, mean, variance = self._moments(np.zeros(1))
        unit = 1 / math.sqrt(float(variance[0]) + float(mean[0]) ** 2 + 1e-300)
        return np.minimum(unit * np.geomspace(1e-3, 1e5, 400), LARGEST_TILT)

    def tilt_for_delta(self, log_delta: float) -> float:
        """The order of the best Chernoff bound of epsilon at delta."""
        tilts = self._tilts()
        log_moment, _, _ = self._moments(tilts)
        bound = (log_moment - log_delta) / tilts
        return float(tilts[np.argmin(bound)])

    def tilt_for_epsilon(self, epsilon: float) -> float:
        """The order of the best Chernoff bound of delta at epsilon; 0 at and below the mean."""
        tilts = self._tilts()
        log_moment, _, _ = self._moments(tilts)
        bound = log_moment - tilts * epsilon
        at = int(np.argmin(bound))
        return float(tilts[at]) if bound[at] < 0 else 0.0

    def log_chernoff(self, epsilon: float) -> float:
        """Log of the Chernoff bound of delta at epsilon."""
        tilt = self.tilt_for_epsilon(epsilon)
        return min(0.0, float(self._moments(np.array([tilt]))[0][0]) - tilt * epsilon)

    def spread(self, tilt: float) -> float:
        """Standard deviation of the tilted sum."""
        return math.sqrt(float(self._moments(np.array([tilt]))[2][0]))

    def reach(self, index: int, log_below: float, log_above: float) -> tuple[float, float]:
        """Losses of one pair outside which it has (about) the given log masses."""
        _, log_p, right, _ = self.atoms[index]
        below = np.logaddexp.accumulate(log_p) <= log_below
        above = np.logaddexp.accumulate(log_p[::-1])[::-1] > log_above
        low = right[np.flatnonzero(below)[-1]] if below.any() else -math.inf
        high = right[np.flatnonzero(above)[-1]] if above.any() else math.inf
        return float(low), float(high)


def sketch(pairs: Sequence[tuple[LossPair, int]]) -> Sketch:
    """Merge each pair on cells 5.9 % wide."""
    half = np.geomspace(1e-14, 1e5, 19 * 40 + 1)
    edges = np.concatenate((-half[::-1], [0.0], half))
    ends = np.append(edges, np.inf)
    atoms = []
    for pair, count in pairs:
        log_p, log_q = pair.log_cells(edges)
        some = (log_p > -np.inf) & (log_q > -np.inf)
        atoms.append((log_p[some] - log_q[some], log_p[some], ends[some], count))
    return Sketch(tuple(atoms))
