"""Small mechanisms to try the auditor on: ``ledgerwood audit ledgerwood.app.samples:noisy_count ...``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class NoisyCount:
    """The number of records plus discrete Laplace noise, made for epsilon = 0.5."""

    epsilon = 0.5

    def __call__(self, data: Sequence[object], rng: np.random.Generator) -> int:
        """One output."""
        return int(self.sample(data, 1, rng)[0])

    def sample(self, data: Sequence[object], n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """``n`` outputs: a difference of two geometric numbers is discrete Laplace noise."""
        stop = -np.expm1(-self.epsilon)
        return np.asarray(len(data) + rng.geometric(stop, n) - rng.geometric(stop, n), dtype=np.int64)


noisy_count = NoisyCount()
