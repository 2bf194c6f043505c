"""Small mechanisms that the tests of the auditor share. Their outputs lie on a grid, as those of a safe sampler do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator

GRID = 2.0**20


class Vectorized:
    """A mechanism that draws many outputs in one call, ``draw(data, n, rng)``."""

    def __init__(self, draw: Callable[[Any, int, Generator], Any]) -> None:
        self.draw = draw

    def sample(self, data: Any, n: int, rng: Generator) -> Any:
        """``n`` outputs."""
        return self.draw(np.asarray(data, dtype=float), n, rng)

    def __call__(self, data: Any, rng: Generator) -> Any:
        return self.sample(data, 1, rng)[0]


def laplace(scale: float) -> Vectorized:
    """Laplace noise on every element of the data."""
    return Vectorized(lambda data, n, rng: np.round((data + rng.laplace(0, scale, (n, data.size))) * GRID) / GRID)


def gaussian(sigma: float) -> Vectorized:
    """Gaussian noise on every element of the data."""
    return Vectorized(lambda data, n, rng: np.round((data + rng.normal(0, sigma, (n, data.size))) * GRID) / GRID)


def geometric(rate: float) -> Callable[[int, Generator], int]:
    """Two-sided geometric noise on a count, one output per call."""
    return lambda data, rng: data + int(rng.geometric(rate) - rng.geometric(rate))
