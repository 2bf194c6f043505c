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
:math:`\lVert E \rVert \le p^2 2^{-51} \lVert A \rVert` (a generous bound), and :math:`\lVert A \rVert \le n R^2`, so a
margin of :math:`2^{-8} R^2` covers two evaluations for :math:`p^2 n \le 2^{42}`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

__all__ = ["DIAGONAL", "OFF_DIAGONAL", "RowBound", "packed", "unpacked"]

DIAGONAL, OFF_DIAGONAL = 169, 239
_EIGENVALUE_MARGIN = Fraction(1, 2**8)


@dataclass(frozen=True, slots=True)
class RowBound:
    """Sensitivities of sums over rows with a squared norm of at most ``square`` (an integer, in cell steps).

    >>> RowBound(square=2, neighbours="add_remove").gram()
    338.0
    >>> RowBound(square=4, neighbours="replace_one").pull(10)
    40.0
    """

    square: int
    neighbours: str = "add_remove"

    @property
    def norm(self) -> float:
        """The norm, rounded up."""
        return _root_above(Fraction(self.square))

    def gram(self, *, plain: bool = False) -> float:
        """L2 sensitivity of :func:`packed` cross products; ``plain`` weighs the whole triangle alike."""
        squares = (self.square * (1 if plain else DIAGONAL)) ** 2
        return _root_above(Fraction(squares * (2 if self._replaces else 1)))

    def pull(self, clip: int) -> float:
        """L2 sensitivity of gradients times rows, a record's gradients having a norm of at most ``clip``."""
        squares = clip**2 * self.square
        return _root_above(Fraction(squares * (4 if self._replaces else 1)))

    def eigenvalue(self) -> float:
        """Sensitivity of the smallest eigenvalue of X'X, as computed."""
        return float(self.square * (1 + _EIGENVALUE_MARGIN))

    @property
    def _replaces(self) -> bool:
        return self.neighbours == "replace_one"


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


def _root_above(square: Fraction) -> float:
    root = math.sqrt(square)
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    return root
