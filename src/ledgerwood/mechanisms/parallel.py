r"""One selection in each of many disjoint parts of the data, in one release: the nodes of a tree's level.

**Theorem (cost).** Let every record lie in at most one part, and let the scores of a part have range sensitivity R for
one record added to it or removed from it. Select in every part p, independently, candidate o with probability
proportional to exp(c s_p(o)). This is epsilon-bounded-range for c = epsilon / R under add/remove, and for
c = epsilon / (2 R) under replace-one.

*Proof.* The tuple (o_1, ..., o_k) has probability proportional to exp(c (s_1(o_1) + ... + s_k(o_k))): the release is
one exponential mechanism on tuples. Its loss is the sum over the parts of c (s_p(o_p) - s'_p(o_p)), minus a constant;
the o_p vary freely, so its range is the sum of the parts' ranges. Add/remove changes one part: at most c R.
Replace-one takes a record from one part and puts one into another: two parts change, by at most c R each. If both are
one part, its scores change by a removal followed by an addition, and ranges of successive changes add: at most 2 c R
again. ∎

Both bounds are attained. The simultaneity matters: parts chosen one after the other, the later ones with knowledge of
the earlier choices, may have a larger range under replace-one (an adaptive a-BR then b-BR choice: a + 2 b).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ledgerwood.accounting import BoundedRange
from ledgerwood.errors import ParameterError
from ledgerwood.mechanisms.base import finite_floats, integers, ratio_below, real_array, settle_floats
from ledgerwood.mechanisms.randomness import Rng, source_of
from ledgerwood.mechanisms.sampling import choice

__all__ = ["ParallelExponentialMechanism"]


@dataclass(frozen=True, slots=True)
class ParallelExponentialMechanism:
    r"""Selects one candidate in each disjoint part: row p of the scores chooses o with weight exp(c s_p(o)).

    c is epsilon / range_sensitivity under add/remove, where one record changes one part, and epsilon / (2
    range_sensitivity) under replace-one, where it may change two: either way the whole release is
    epsilon-bounded-range, however many parts there are.

    Parameters
    ----------
    epsilon : float
        Length of the interval that holds the privacy loss of the whole release.
    range_sensitivity : float
        R of the scores of one part when one record is added to it or removed from it, under either relation.
    neighbours : str
        ``"add_remove"`` or ``"replace_one"``.

    Examples
    --------
    >>> m = ParallelExponentialMechanism(epsilon=0.1, range_sensitivity=4.0)
    >>> m.cost
    BoundedRange(epsilon=0.1)
    >>> m.release([[0.0, 1e6, 0.0], [1e6, 0.0, 0.0]])
    array([1, 0])
    >>> m.probabilities([[0.0, 40.0], [40.0, 40.0]]).round(4)
    array([[0.2689, 0.7311],
           [0.5   , 0.5   ]])
    """

    epsilon: float
    range_sensitivity: float
    neighbours: str = "add_remove"

    def __post_init__(self) -> None:
        settle_floats(self, "epsilon")
        settle_floats(self, "range_sensitivity", upwards=True)
        _ = self.cost, self.coefficient

    @property
    def cost(self) -> BoundedRange:
        """epsilon-bounded-range, for all parts together."""
        return BoundedRange(self.epsilon, neighbours=self.neighbours)

    @property
    def coefficient(self) -> float:
        """The factor of the scores: epsilon over what one record can change, rounded down."""
        parts = 2 if self.neighbours == "replace_one" else 1
        return ratio_below(self.epsilon / parts, self.range_sensitivity)  # halving a float is exact

    def log_probabilities(self, scores: ArrayLike) -> NDArray[np.float64]:
        """Logarithms of the selection probabilities, each row a law of its own."""
        x = choice.behind_the_best(Fraction(self.coefficient), _score_matrix(scores))
        return np.asarray(-x - np.log(np.sum(np.exp(-x), axis=1, keepdims=True)))

    def probabilities(self, scores: ArrayLike) -> NDArray[np.float64]:
        """Selection probabilities, each row a law of its own."""
        return np.exp(self.log_probabilities(scores))

    def check(self, scores: ArrayLike) -> None:
        """Raise an error if the value breaks the contract; nothing is drawn. A ledger asks before it spends."""
        _score_matrix(scores)

    def release(self, scores: ArrayLike, rng: Rng = None) -> NDArray[np.int64]:
        """Return the index of the selected candidate of each part; ``scores`` has a row for each part."""
        return choice.choose_each(Fraction(self.coefficient), _score_matrix(scores), source_of(rng))


def _score_matrix(scores: ArrayLike) -> choice.Scores:
    """Scores as a matrix (parts, candidates) of integers (at most 2**60) or finite floats, neither side empty."""
    array = real_array("scores", scores)
    if array.ndim != 2 or array.size == 0:
        rule = "be a matrix with a row for each part and at least one candidate"
        raise ParameterError("scores", rule, f"<shape {array.shape}>")
    return integers("scores", array, limit=2**60) if array.dtype.kind in "iu" else finite_floats("scores", array)
