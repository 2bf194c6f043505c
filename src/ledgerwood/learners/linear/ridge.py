r"""From noisy cross products to the matrix that turns gradients into steps. All of it is post-processing.

The noise E on X'X is symmetric with variance :math:`s^2` on the diagonal and :math:`s^2 / 2` off it, so
:math:`\lVert E \rVert \approx s \sqrt{2p}`: eigenvalues below that are noise.

**Rounds of the squared loss without a pass over the records.** With residuals g = y - Xw that nobody clips, :math:`X'g
= X'y - X'X w`: both sums are known after the first pass, and a round costs :math:`p^2` products whatever the number of
records.

**When it is allowed.** Rows have norm at most R, labels lie in -1 .. 1 and w is released, so a record's residual is at
most :math:`1 + R \lVert w \rVert` (times the square root of the number of outputs), a public number. If that is at
most the clip, the clip does nothing: the unclipped sum is what was to be released, and its sensitivity is known.
If it is more, residuals must be clipped, and clipping needs the pass.

**Exactness.** In units of ``2**-(12 + 16 + 16)`` the sum is the integer :math:`t = 2^{16} X'y - X'X w`, to which a
record adds :math:`x (2^{16} y - x'w)`. What is released is t divided by :math:`2^{16}` and rounded to the
nearest integer: by a record that moves t by v, each of the numbers moves by at most :math:`|v_j| / 2^{16} + 1`, so the
L2 sensitivity is that of the unrounded sum plus the square root of how many numbers there are, a part in
:math:`10^7` of it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ledgerwood.learners.data.columns import Ints
from ledgerwood.learners.linear.loss import ENTRY_ONE, GRADIENT_ONE, WEIGHT_BITS

__all__ = [
    "noise_aware_inverse",
    "noise_norm",
    "paper_inverse",
    "paper_ridge",
    "scalar_margin",
    "unclipped_gradient_sum",
]


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
    """Return (X'X + ridge I)^-1 as in Rho et al. 2022; directions below the last digit of the noise are left out."""
    values, vectors = np.linalg.eigh(gram)
    lifted = values + ridge
    with np.errstate(divide="ignore"):
        inverse = np.where(np.abs(lifted) > noise * 2.0**-20, 1 / lifted, 0.0)
    return np.asarray((vectors * inverse) @ vectors.T)


_WEIGHT_SIZE = 31
"""Bits of a weight, its sign included."""

_SHIFT = WEIGHT_BITS + (ENTRY_ONE.bit_length() - 1) - (GRADIENT_ONE.bit_length() - 1)


def unclipped_gradient_sum(moments: Ints, gram: Ints, weights: Ints) -> Ints:
    """Return ``moments - round(weights @ gram / 2**16)``, halves rounded up: exact for matrices of any size.

    ``moments`` is X'y, one row for each output.

    >>> gram = np.array([[3 * 2**24, 2**24], [2**24, 2**24]])
    >>> left = unclipped_gradient_sum(np.zeros((1, 2), dtype=np.int64), gram, np.array([[2**20, 0]]))
    >>> (left / 2**28).tolist()
    [[-3.0, -1.0]]
    """
    # Weights in digits short enough that no product of the matrix and a digit wraps around; the digits' products
    # are then added from the lowest on, dropping bits below the last place only once all of them are known.
    size = max(int(gram.max(initial=0)), -int(gram.min(initial=0)))
    bits = min(_SHIFT, 61 - size.bit_length() - len(gram).bit_length())
    if bits < 4:
        exact = weights.astype(object) @ gram.astype(object)
        return np.asarray(moments - ((exact + (1 << (_SHIFT - 1))) >> _SHIFT).astype(np.int64))
    total = np.full(moments.shape, 1 << (_SHIFT - 1), dtype=np.int64)
    left, place, dropped = weights, 0, 0
    while True:
        last = place + bits > _WEIGHT_SIZE
        digit = left if last else left & ((1 << bits) - 1)
        total >>= min(_SHIFT, place) - dropped
        dropped = min(_SHIFT, place)
        total += (digit @ gram) << (place - dropped)
        if last:
            return np.asarray(moments - (total >> (_SHIFT - dropped)))
        left, place = left >> bits, place + bits
