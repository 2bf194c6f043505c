"""Small mechanisms that the tests of the auditor share."""

import numpy as np

GRID = 2.0**20  # outputs are rounded to a grid, as a safe sampler's are


class Vectorised:
    """A mechanism that draws many outputs in one call."""

    def __init__(self, draw):
        self.draw = draw

    def sample(self, data, n, rng):
        return self.draw(np.asarray(data, dtype=float), n, rng)

    def __call__(self, data, rng):
        return self.sample(data, 1, rng)[0]


def laplace(scale):
    def draw(data, n, rng):
        return np.round((data + rng.laplace(0, scale, (n, data.size))) * GRID) / GRID

    return Vectorised(draw)


def gaussian(sigma):
    def draw(data, n, rng):
        return np.round((data + rng.normal(0, sigma, (n, data.size))) * GRID) / GRID

    return Vectorised(draw)


def geometric(rate):
    return lambda data, rng: data + int(rng.geometric(rate) - rng.geometric(rate))
