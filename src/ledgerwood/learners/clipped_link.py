r"""From the score of a clipped logistic loss to a probability.

With clipped gradients the loss that is minimised is no longer the logistic one, and the sigmoid of its score is not the
probability of the class. But the score where the expected clipped gradient is zero still tells that probability: with
:math:`u = \sigma(F)` and :math:`s(u)` the factor that shortens a record's pair :math:`(u, \kappa u (1 - u))`,

.. math:: (1 - q)\, u\, s(u) = q\, (1 - u)\, s(1 - u)

gives :math:`q`. It is increasing in F and agrees with the sigmoid at 1/2, so it changes no ranking and no decision; it
is post-processing and costs nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["probability"]


def probability(sigmoid: NDArray[np.float64], clip: float, kappa: float) -> NDArray[np.float64]:
    """Return the probability that belongs to the sigmoid of a score.

    Parameters
    ----------
    sigmoid
        The sigmoid of the score.
    clip
        What the norm of a record's pair was shortened to.
    kappa
        The factor of the curvature in the pair; 0 if the gradient alone was clipped.

    Examples
    --------
    >>> probability(np.array([0.1, 0.5, 0.9]), clip=0.5, kappa=0.0).round(3).tolist()
    [0.167, 0.5, 0.833]
    >>> probability(np.array([0.1]), clip=10.0, kappa=3.33).tolist()
    [0.1]
    """
    zero, one = _size(sigmoid, clip, kappa), _size(1 - sigmoid, clip, kappa)
    return np.asarray(zero / (zero + one))


def _size(u: NDArray[np.float64], clip: float, kappa: float) -> NDArray[np.float64]:
    """Size of the clipped gradient of a record that is wrong by ``u``."""
    u = np.clip(u, 1e-12, 1.0)
    return u * np.minimum(1.0, clip / np.hypot(u, kappa * u * (1 - u)))
