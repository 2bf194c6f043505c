r"""From noisy cross products to the matrix that turns gradients into steps. All of it is post-processing.

The noise E on X'X is symmetric with variance :math:`s^2` on the diagonal and :math:`s^2 / 2` off it, so
:math:`\lVert E \rVert \approx s \sqrt{2p}`: eigenvalues below that are noise.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["noise_aware_inverse", "noise_norm", "paper_inverse", "paper_ridge", "scalar_margin"]

Matrix = NDArray[np.float64]


def noise_aware_inverse(gram: Matrix, noise: float, ridge: float) -> Matrix:
    r"""Return :math:`V (\max(\Lambda, 0) + \text{ridge} \cdot s \sqrt p)^{-1} V'`: the PSD projection, plus a ridge.

    ``noise`` is the standard deviation s on the diagonal. X'X has no negative eigenvalue, so the projection moves the
    noisy matrix towards it; the ridge is of the size of the noise.

    >>> noise_aware_inverse(np.diag([3.0, -1.0]), noise=1.0, ridge=2**-0.5).round(3).tolist()
    [[0.25, 0.0], [0.0, 1.0]]
    """
    values, vectors = np.linalg.eigh(gram)
    lifted = np.maximum(values, 0.0) + ridge * noise * math.sqrt(gram.shape[0])
    return np.asarray((vectors / lifted) @ vectors.T)


def paper_ridge(columns: int, noise: float, smallest: float, margin: float, failure: float = 0.05) -> float:
    """AdaSSP's ridge: what the noise needs (with probability 1 - failure), less what the data surely has already.

    ``smallest`` is a noisy smallest eigenvalue, ``margin`` how far below it the true one may lie.
    """
    present = max(0.0, smallest - margin)
    return max(0.0, noise_norm(columns, noise, failure) - present)


def noise_norm(columns: int, noise: float, failure: float = 0.05) -> float:
    """AdaSSP's bound on the norm of the noise on X'X, which holds with probability 1 - failure."""
    return noise * math.sqrt(columns * math.log(2 * columns**2 / failure))


def scalar_margin(noise: float, failure: float = 0.05) -> float:
    """AdaSSP's margin below a released number."""
    return noise * math.sqrt(math.log(6 / failure))


def paper_inverse(gram: Matrix, ridge: float, noise: float) -> Matrix:
    """Return (X'X + ridge I)^-1 as P4 has it; directions that stay below the noise's last digit are left out."""
    values, vectors = np.linalg.eigh(gram)
    lifted = values + ridge
    with np.errstate(divide="ignore"):
        inverse = np.where(np.abs(lifted) > noise * 2.0**-20, 1 / lifted, 0.0)
    return np.asarray((vectors * inverse) @ vectors.T)
