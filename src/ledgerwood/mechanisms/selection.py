r"""Choosing one of many candidates by score: the exponential mechanism and permute-and-flip, also in many parts.

Both are calibrated by the **range sensitivity** R of the scores: the supremum over neighbours of
max_o (s(o) - s'(o)) - min_o (s(o) - s'(o)). Always R <= 2 Delta, with Delta the largest change of one score; scores
that only move in one direction (counts, under add/remove) have R = Delta, and asymmetric ones lie between.

Scores are integers or floats, that is, exact rationals; the coefficient c = epsilon / R is rounded down to a
float. The sampled distribution is exactly the stated one for these numbers.

One release may hold a selection in each of many disjoint parts of the data: the nodes of a tree's level.

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

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ledgerwood._rounding import ratio_down
from ledgerwood.accounting import BoundedRange, NoisyMax, PermuteAndFlip
from ledgerwood.errors import ParameterError
from ledgerwood.mechanisms.base import coerce_floats, finite_floats, integers, real_array
from ledgerwood.mechanisms.randomness import Rng, source_of
from ledgerwood.mechanisms.sampling import choice, draws
from ledgerwood.mechanisms.sampling.exact import Reader

__all__ = [
    "ExponentialMechanism",
    "ParallelExponentialMechanism",
    "PermuteAndFlipMechanism",
    "ScoredSelection",
    "Scores",
    "score_vector",
]


Scores = NDArray[np.int64] | NDArray[np.float64]


def score_vector(scores: ArrayLike) -> Scores:
    """Scores as a non-empty vector of integers (at most 2**60) or finite floats."""
    array = real_array("scores", scores)
    if array.ndim != 1 or array.size == 0:
        raise ParameterError("scores", "be a vector with at least one candidate", f"<shape {array.shape}>")
    return integers("scores", array, limit=2**60) if array.dtype.kind in "iu" else finite_floats("scores", array)


@dataclass(frozen=True, slots=True, init=False)
class ScoredSelection(ABC):
    """What mechanisms that choose by scores of a known range sensitivity share."""

    epsilon: float
    range_sensitivity: float
    neighbours: str

    def __init__(
        self,
        epsilon: float,
        range_sensitivity: float | None = None,
        neighbours: str = "add_remove",
        *,
        sensitivity: float | None = None,
        monotone: bool = False,
    ) -> None:
        if (range_sensitivity is None) == (sensitivity is None):
            raise ParameterError("range_sensitivity", "be given, or else sensitivity (one of the two)", sensitivity)
        if range_sensitivity is not None and monotone:
            hint = "A range sensitivity says already how far scores move relative to each other"
            raise ParameterError("monotone", "go with sensitivity, not with range_sensitivity", monotone, hint)
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "range_sensitivity", sensitivity if range_sensitivity is None else range_sensitivity)
        object.__setattr__(self, "neighbours", neighbours)
        coerce_floats(self, "epsilon")
        coerce_floats(self, "range_sensitivity", upwards=True)
        if sensitivity is not None and not monotone:
            object.__setattr__(self, "range_sensitivity", 2 * self.range_sensitivity)  # exact
            coerce_floats(self, "range_sensitivity")
        _ = self.cost, self.coefficient

    @property
    @abstractmethod
    def cost(self) -> BoundedRange | NoisyMax:
        """The cost of one release."""

    @property
    def sensitivity(self) -> float:
        """The range sensitivity: what the scores of neighbouring data differ by, relative to each other."""
        return self.range_sensitivity

    @property
    def coefficient(self) -> float:
        """The factor of the scores, epsilon / range_sensitivity, rounded down."""
        return ratio_down(self.epsilon, self.range_sensitivity)

    @abstractmethod
    def log_probabilities(self, scores: ArrayLike) -> NDArray[np.float64]:
        """Logarithms of the selection probabilities."""

    def probabilities(self, scores: ArrayLike) -> NDArray[np.float64]:
        """Selection probabilities."""
        return np.exp(self.log_probabilities(scores))

    def check(self, scores: ArrayLike) -> None:
        """Raise an error if the value breaks the contract; nothing is drawn. A ledger asks before it spends."""
        score_vector(scores)


@dataclass(frozen=True, slots=True, init=False)
class ExponentialMechanism(ScoredSelection):
    r"""Selects candidate o with probability proportional to exp(c s(o)), c = epsilon / range_sensitivity.

    The loss is c (s(o) - s'(o)) minus a constant, so it lies in an interval of length c R <= epsilon: the mechanism is
    epsilon-bounded-range, a stronger guarantee than epsilon-DP, and its cost says so. Tight: the range is attained.

    Parameters
    ----------
    epsilon : float
        Length of the interval that holds the privacy loss.
    range_sensitivity : float
        R of the scores: how far neighbours move them relative to each other.
    neighbours : str
        The relation that the sensitivity is stated for.
    sensitivity : float
        In place of R: how far neighbours move one score. R is twice that, or that itself if the scores are monotone.
    monotone : bool
        Do neighbours move all scores in the same direction? Counts do under add/remove, not under replace-one.

    Examples
    --------
    >>> m = ExponentialMechanism(epsilon=0.1, range_sensitivity=4.0)
    >>> m.cost
    BoundedRange(epsilon=0.1)
    >>> m.probabilities([0.0, 40.0]).round(4)
    array([0.2689, 0.7311])
    >>> m.release([0.0, 1e6])
    1
    >>> m == ExponentialMechanism(epsilon=0.1, sensitivity=2.0)
    True
    >>> m == ExponentialMechanism(epsilon=0.1, sensitivity=4.0, monotone=True)
    True
    """

    @property
    def cost(self) -> BoundedRange:
        """epsilon-bounded-range."""
        return BoundedRange(self.epsilon, neighbours=self.neighbours)

    def log_probabilities(self, scores: ArrayLike) -> NDArray[np.float64]:
        """Logarithms of the selection probabilities."""
        x = choice.Exponents.below_the_best(Fraction(self.coefficient), score_vector(scores)).floats()
        return np.asarray(-x - np.log(np.sum(np.exp(-x))))

    def release(self, scores: ArrayLike, rng: Rng = None) -> int:
        """Return the index of the selected candidate."""
        exponents = choice.Exponents.below_the_best(Fraction(self.coefficient), score_vector(scores))
        return choice.choose(exponents, source_of(rng))

    def release_stream(self, chunks: Iterable[ArrayLike], rng: Rng = None) -> int:
        """Select from a stream of score chunks in one pass and constant memory; return the index in the stream.

        The racing sampler: candidate i arrives at time E_i exp(-c s_i) with E_i exponential, and the first to arrive
        wins. Only the leader is remembered. The distribution is that of :meth:`release` (the largest of c s_i plus
        Gumbel noise).

        >>> m = ExponentialMechanism(epsilon=1.0, range_sensitivity=1.0)
        >>> m.release_stream([[0.0, 1.0], [1000.0], [2.0, 3.0, 4.0]])
        2
        """
        source = source_of(rng)
        leader, best, seen = None, np.empty(0), 0
        winner = -1
        for chunk in chunks:
            scores = finite_floats("scores", score_vector(chunk))
            times = draws.exponential(len(scores), source)
            if leader is not None:
                scores, times = np.concatenate((best, scores)), leader.joined(0, times)
            j = choice.first_to_arrive(scores, self.coefficient, times)
            if leader is None or j > 0:
                winner = seen + j - (leader is not None)
            seen += len(scores) - (leader is not None)
            leader, best = times.joined(j, draws.exponential(0, source)), scores[j : j + 1]
        if leader is None:
            raise ParameterError("chunks", "hold at least one candidate", "<empty stream>")
        return winner


@dataclass(frozen=True, slots=True, init=False)
class PermuteAndFlipMechanism(ScoredSelection):
    """Goes through the candidates in random order and takes o with probability exp(-c (s_max - s(o))).

    Never worse than the exponential mechanism at equal pure epsilon, and epsilon-DP with c = epsilon / R. It is
    *not* epsilon-bounded-range: its loss has range up to almost 2 epsilon, so it costs more under composition. (Adding
    exponential noise of scale 1/c to the scores and reporting the largest has the same distribution.)

    The order is independent of the coins, so the first head in it is uniform among all heads: the sampler flips all
    coins (the best candidate's always shows heads) and picks one of the heads.

    Parameters are those of :class:`ExponentialMechanism`.

    Examples
    --------
    >>> m = PermuteAndFlipMechanism(epsilon=0.1, range_sensitivity=4.0)
    >>> m.cost
    PermuteAndFlip(epsilon=0.1)
    >>> m.probabilities([0.0, 40.0]).round(4)
    array([0.1839, 0.8161])
    """

    @property
    def cost(self) -> PermuteAndFlip:
        """Pure epsilon-DP, dominated by the Laplace pair."""
        return PermuteAndFlip(self.epsilon, neighbours=self.neighbours)

    def log_probabilities(self, scores: ArrayLike) -> NDArray[np.float64]:
        r"""Logarithms of the selection probabilities.

        Give each candidate a uniform time in place of its position in the order. Candidate i wins if its coin shows
        heads and no one before it does: Pr[i] = p_i integral_0^1 prod_{j != i} (1 - p_j t) dt. The integrand is a
        polynomial of degree m - 1, for which Gauss's rule with (m + 1) / 2 nodes is exact; all terms are positive,
        so nothing cancels.
        """
        x = choice.Exponents.below_the_best(Fraction(self.coefficient), score_vector(scores)).floats()
        p = np.exp(-x)
        nodes, weights = np.polynomial.legendre.leggauss(len(p) // 2 + 1)
        total = np.zeros(len(p))
        for t, w in zip((nodes + 1) / 2, weights / 2, strict=True):
            others = np.log1p(-p * t)
            total += w * np.exp(np.sum(others) - others)
        return np.asarray(np.log(total) - x)

    def release(self, scores: ArrayLike, rng: Rng = None) -> int:
        """Return the index of the selected candidate."""
        exponents = choice.Exponents.below_the_best(Fraction(self.coefficient), score_vector(scores))
        source = source_of(rng)
        heads = np.flatnonzero(choice.coins(exponents, source))
        return int(heads[Reader(source).below(len(heads))])


@dataclass(frozen=True, slots=True, init=False)
class ParallelExponentialMechanism(ScoredSelection):
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

    @property
    def cost(self) -> BoundedRange:
        """epsilon-bounded-range, for all parts together."""
        return BoundedRange(self.epsilon, neighbours=self.neighbours)

    @property
    def coefficient(self) -> float:
        """The factor of the scores: epsilon over what one record can change, rounded down."""
        parts = 2 if self.neighbours == "replace_one" else 1
        return ratio_down(self.epsilon / parts, self.range_sensitivity)  # halving a float is exact

    def log_probabilities(self, scores: ArrayLike) -> NDArray[np.float64]:
        """Logarithms of the selection probabilities, each row a distribution of its own."""
        x = choice.behind_the_best(Fraction(self.coefficient), _score_matrix(scores))
        return np.asarray(-x - np.log(np.sum(np.exp(-x), axis=1, keepdims=True)))

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
