r"""How far one record can move the sums that a linear learner releases.

Let every encoded row have :math:`\lVert x \rVert \le R` and every record's gradients :math:`\lVert g \rVert \le c`.

**Cross products.** X'X is symmetric, so its upper triangle is enough. Release :math:`x_i^2` and
:math:`\sqrt 2 x_i x_j` for i < j: a record moves it by
:math:`\sum_i x_i^4 + 2 \sum_{i<j} x_i^2 x_j^2 = \lVert x \rVert^4`, so by exactly :math:`\lVert x \rVert^2 \le R^2`.
The plain triangle can be moved as far (a row along one axis), with twice the variance off the diagonal. To
stay in integers the two weights are :math:`d = 169` and :math:`o = 239`, neighbours in Pell's sequence:
:math:`o^2 = 2 d^2 - 1`, so the weighted sum moves by at most :math:`d \lVert x \rVert^2`, and o / d falls short of
:math:`\sqrt 2` by less than a part in :math:`10^5`.
The weighted norm is at most d times the Frobenius norm for *every* symmetric matrix, so replacing x by y moves it by
at most :math:`d \sqrt{\lVert x \rVert^4 + \lVert y \rVert^4 - 2 (x'y)^2} \le d \sqrt 2 R^2`.

**Gradients.** x g' has norm :math:`\lVert x \rVert \lVert g \rVert \le R c`; two records of opposite signs are 2 R c
apart.

**Smallest eigenvalue.** By Weyl, adding xx' lifts it by 0 .. R^2, and replacing shifts it by at most R^2. It is
computed in floats: LAPACK's symmetric solver returns the eigenvalues of A + E with
:math:`\lVert E \rVert \le p^2 2^{-51} \lVert A \rVert` (a generous bound, the conversion to floats included). What is
released is therefore :math:`f = \max(0, \min(\lfloor \hat\lambda \rfloor, T - \operatorname{tr} A))` with the public
:math:`T = \lfloor 2^{42} R^2 / p^2 \rfloor`, for any number of records:

* If both neighbours have a trace of at most T, then :math:`\lVert A \rVert \le \operatorname{tr} A \le T` makes each
  :math:`\hat\lambda` exact to :math:`2^{-9} R^2`. The trace is an exact integer that a record moves by at most
  :math:`R^2`. The least of two such functions moves by no more than either: by :math:`R^2 (1 + 2^{-8}) + 1`.
* If one has a larger trace, its f is 0, and that of the other is at most :math:`T - \operatorname{tr} A < R^2`.

Since :math:`p \lambda \le \operatorname{tr} A`, the second term does nothing up to a trace of :math:`T p / (p + 1)`:
for 2^28 rows and a hundred columns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ledgerwood._rounding import float_up, sqrt_up

__all__ = ["DIAGONAL", "OFF_DIAGONAL", "RowBound", "packed", "smallest_eigenvalue", "unpacked"]


DIAGONAL, OFF_DIAGONAL = 169, 239

_EIGENVALUE_MARGIN = Fraction(1, 2**8)

_LARGEST_TRACE = 2**42


@dataclass(frozen=True, slots=True)
class RowBound:
    """Sensitivities of sums over rows with a squared norm of at most ``square`` (an integer, in steps of an entry).

    >>> RowBound(square=2, neighbours="add_remove").gram()
    338.0
    >>> RowBound(square=4, neighbours="replace_one").gradient_sum(10)
    40.0
    """

    square: int
    neighbours: str = "add_remove"

    @property
    def norm(self) -> float:
        """The norm, rounded up."""
        return sqrt_up(Fraction(self.square))

    def gram(self, *, plain: bool = False) -> float:
        """L2 sensitivity of :func:`packed` cross products; ``plain`` weighs the whole triangle alike."""
        squares = (self.square * (1 if plain else DIAGONAL)) ** 2
        return sqrt_up(Fraction(squares * (2 if self._replaces else 1)))

    def gradient_sum(self, clip: int, *, rounded: int = 0) -> float:
        """L2 sensitivity of gradients times rows, a record's gradients having a norm of at most ``clip``.

        ``rounded`` numbers are rounded after they were summed: each of them may move by one more.
        """
        squares = clip**2 * self.square
        exact = sqrt_up(Fraction(squares * (4 if self._replaces else 1)))
        return float_up(Fraction(exact) + Fraction(sqrt_up(Fraction(rounded))))

    def eigenvalue(self) -> float:
        """Sensitivity of :func:`smallest_eigenvalue`."""
        return float_up(self.square * (1 + _EIGENVALUE_MARGIN) + 1)

    @property
    def _replaces(self) -> bool:
        return self.neighbours == "replace_one"


def smallest_eigenvalue(gram: NDArray[np.int64], square: int) -> int:
    """The smallest eigenvalue of X'X for rows of squared norm at most ``square``, in a form whose sensitivity is known.

    >>> smallest_eigenvalue(np.diag([700, 900]), square=100)
    700
    """
    columns = gram.shape[0]
    limit = _LARGEST_TRACE * square // int(columns) ** 2
    trace = sum(map(int, np.diagonal(gram)))
    exact = math.floor(float(np.linalg.eigvalsh(gram.astype(np.float64))[0]))
    return max(0, min(exact, limit - trace))


def packed(gram: NDArray[np.int64], *, plain: bool = False) -> NDArray[np.int64]:
    """The upper triangle as a vector, weighted so that a row moves it by its squared norm and no more.

    >>> packed(np.array([[1, 2], [2, 4]])).tolist()
    [169, 478, 676]
    """
    upper = np.triu_indices(gram.shape[0])
    return gram[upper] * (1 if plain else _weights(gram.shape[0]))


def unpacked(vector: NDArray[np.int64], columns: int, *, plain: bool = False) -> NDArray[np.float64]:
    """The symmetric matrix of a released vector; the inverse of :func:`packed`.

    >>> unpacked(np.array([169, 478, 676]), 2).tolist()
    [[1.0, 2.0], [2.0, 4.0]]
    """
    matrix = np.zeros((columns, columns))
    matrix[np.triu_indices(columns)] = vector / (1 if plain else _weights(columns))
    return matrix + np.triu(matrix, 1).T


def _weights(columns: int) -> NDArray[np.int64]:
    rows, places = np.triu_indices(columns)
    return np.where(rows == places, DIAGONAL, OFF_DIAGONAL)
