"""Report-noisy-max with Laplace noise, and selection of the k best.

Three kinds of noise make three mechanisms out of "add noise to every score and report the largest": Gumbel noise is
:class:`~ledgerwood.mechanisms.ExponentialMechanism`, exponential noise is
:class:`~ledgerwood.mechanisms.PermuteAndFlipMechanism` (the tests show both equalities), Laplace noise is here.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ledgerwood import _checks
from ledgerwood.accounting import Cost, NoisyMax
from ledgerwood.errors import ParameterError
from ledgerwood.mechanisms.randomness import Rng, source_of
from ledgerwood.mechanisms.sampling import choice, draws
from ledgerwood.mechanisms.selection import (
    ExponentialMechanism,
    PermuteAndFlipMechanism,
    ScoredSelection,
    Scores,
    score_vector,
)

__all__ = ["NoisyMaxMechanism", "TopKMechanism"]


@dataclass(frozen=True, slots=True, init=False)
class NoisyMaxMechanism(ScoredSelection):
    """Reports the largest of s(o) + Laplace(R / epsilon), comparing exact reals.

    epsilon-DP, and no easier to attack than one release with Laplace noise of that epsilon
    (docs/theory/noisy-max.md). It is kept for comparison: at equal epsilon
    :class:`~ledgerwood.mechanisms.PermuteAndFlipMechanism` is better, under composition
    :class:`~ledgerwood.mechanisms.ExponentialMechanism` is.

    Parameters are those of :class:`~ledgerwood.mechanisms.ExponentialMechanism`.

    Examples
    --------
    >>> m = NoisyMaxMechanism(epsilon=0.1, range_sensitivity=4.0)
    >>> m.cost
    NoisyMax(epsilon=0.1)
    >>> m.probabilities([0.0, 40.0]).round(4)
    array([0.2759, 0.7241])
    """

    @property
    def cost(self) -> NoisyMax:
        """Pure epsilon-DP, dominated by the Laplace pair."""
        return NoisyMax(self.epsilon, neighbours=self.neighbours)

    def log_probabilities(self, scores: ArrayLike) -> NDArray[np.float64]:
        """Logarithms of the selection probabilities, to about 1e-13 relative.

        Pr[i] is the integral of the i-th density times all other distribution functions. Between neighbouring scores
        the integrand is a polynomial in exp(t); it is integrated there by Gauss's rule on pieces at most one scale
        long, from 40 scales below the least to 40 above the largest score.
        """
        s = score_vector(scores)
        a = -self.coefficient * (s.max() - s).astype(np.float64)
        edges = np.unique(np.concatenate((np.maximum(a, -745.0), [-785.0, 40.0])))
        cuts = np.concatenate(
            [np.linspace(a0, a1, int(np.ceil(a1 - a0)), endpoint=False) for a0, a1 in itertools.pairwise(edges)]
        )
        half = np.diff(np.append(cuts, edges[-1])) / 2
        nodes, weights = np.polynomial.legendre.leggauss(24)
        total = np.zeros(len(a))
        for part in range(0, len(cuts), 64):  # a few pieces at a time: memory stays small for many candidates
            h = half[part : part + 64, None]
            d = (cuts[part : part + 64, None] + h * (nodes + 1)).ravel()[:, None] - a
            log_cdf = np.where(d < 0, d - np.log(2), np.log1p(-np.exp(-np.abs(d)) / 2))
            log_density = -np.abs(d) - np.log(2)
            others = log_cdf.sum(axis=1, keepdims=True) - log_cdf
            total += (h * weights).ravel() @ np.exp(log_density + others)
        with np.errstate(divide="ignore"):
            return np.log(total)

    def release(self, scores: ArrayLike, rng: Rng = None) -> int:
        """Return the index of the selected candidate.

        Floats decide unless two candidates are closer than the error bound: c (s - best) is rounded four times, its
        sum with the noise once.
        """
        s = score_vector(scores)
        noise = draws.exponential(len(s), source_of(rng))
        c = Fraction(self.coefficient)
        x, behind = noise.approximate(), choice.Exponents.below_the_best(c, s).capped()
        slack = (noise.slack() + 2.0**-50) * (1 + np.abs(x) + behind)

        def enclose(i: int, precision: int) -> tuple[Fraction, Fraction]:
            lo, hi = noise.enclosure(i)
            return c * Fraction(s[i].item()) + lo, c * Fraction(s[i].item()) + hi

        return choice.largest(x - behind, slack, enclose, noise.refine, np.arange(len(s)))


@dataclass(frozen=True, slots=True)
class TopKMechanism:
    """The k best candidates in order, by k selections without replacement ("peeling").

    Each selection is one run of ``base`` among the remaining candidates, so the cost is k times its cost (adaptive
    composition). For the exponential mechanism one shot suffices: the k first arrivals of one race (the k largest
    of scores plus Gumbel noise) have exactly the distribution of k rounds of peeling, because after the first arrival
    the rest run on without memory; that is how it is sampled. No such identity holds for permute-and-flip, which is
    peeled round by round.

    Parameters
    ----------
    base : ExponentialMechanism or PermuteAndFlipMechanism
        The mechanism of one selection.
    k : int
        How many to select.

    Examples
    --------
    >>> m = TopKMechanism(ExponentialMechanism(epsilon=1.0, range_sensitivity=1.0), k=2)
    >>> m.release([0.0, 2000.0, 0.0, 1000.0]).tolist()
    [1, 3]
    >>> m.cost
    2 * BoundedRange(epsilon=1.0)
    """

    base: ExponentialMechanism | PermuteAndFlipMechanism
    k: int

    def __post_init__(self) -> None:
        if not isinstance(self.base, ExponentialMechanism | PermuteAndFlipMechanism):
            raise ParameterError("base", "be an exponential or a permute-and-flip mechanism", self.base)
        _checks.integer("k", self.k, 1)

    @property
    def sensitivity(self) -> float:
        """The range sensitivity of the selections."""
        return self.base.sensitivity

    @property
    def cost(self) -> Cost:
        """K times the cost of one selection."""
        return self.k * self.base.cost

    def log_probability(self, scores: ArrayLike, chosen: ArrayLike) -> float:
        """Logarithm of the probability of one ordered outcome."""
        s, left = score_vector(scores), list(range(len(score_vector(scores))))
        total = 0.0
        for index in np.asarray(chosen).tolist():
            place = left.index(index)
            total += float(self.base.log_probabilities(s[left])[place])
            left.pop(place)
        return total

    def check(self, scores: ArrayLike) -> None:
        """Raise an error if the value breaks the contract; nothing is drawn. A ledger asks before it spends."""
        self._enough(scores)

    def release(self, scores: ArrayLike, rng: Rng = None) -> NDArray[np.int64]:
        """Return the indices of the k selected candidates, best first."""
        s = self._enough(scores)
        source = source_of(rng)
        if isinstance(self.base, ExponentialMechanism):
            times = draws.exponential(len(s), source)
            return np.array(choice.order_of_arrival(s, self.base.coefficient, times, self.k), dtype=np.int64)
        left = np.arange(len(s))
        chosen = []
        for _ in range(self.k):
            j = self.base.release(s[left], source)
            chosen.append(int(left[j]))
            left = np.delete(left, j)
        return np.array(chosen, dtype=np.int64)

    def _enough(self, scores: ArrayLike) -> Scores:
        s = score_vector(scores)
        if self.k > len(s):
            raise ParameterError("scores", f"hold at least k={self.k} candidates", f"<{len(s)}>")
        return s
