"""The sparse vector technique: which of many queries lie above a threshold, paying only for those that do.

Two correct variants (Lyu, Su & Li 2017 list six in use, most of them broken):

* Laplace noise (their Algorithm 7): one noisy threshold for the whole run, fresh noise for every query with scale
  proportional to the cutoff, a stop after ``cutoff`` positive answers. Pure epsilon-DP for any number of queries.
* Gaussian noise (Zhu & Wang 2020), with a fresh threshold after every positive answer and at most ``max_queries``
  queries per threshold.

Comparisons are between exact reals (:class:`~ledgerwood.mechanisms.sampling.draws.LazyReals`); only the answers,
never the noisy values, are released. A run is interactive: ``start()`` returns a :class:`SparseVectorRun` that
answers one query at a time, which may depend on earlier answers; ``release(values)`` asks a vector of queries.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ledgerwood import _checks
from ledgerwood.accounting import SparseVector
from ledgerwood.errors import ParameterError, ReleaseRefused
from ledgerwood.mechanisms.base import PaidRun, coerce_floats, finite_floats
from ledgerwood.mechanisms.randomness import RandomSource, Rng, source_of
from ledgerwood.mechanisms.sampling import draws

__all__ = ["GaussianSparseVectorMechanism", "SparseVectorMechanism", "SparseVectorRun"]


class SparseVectorRun(PaidRun):
    """One run: answers whether noisy query values exceed the noisy threshold, until it must stop.

    Not to be copied, pickled or used in a forked child; threads are answered one after the other.

    >>> from ledgerwood.mechanisms import SparseVectorMechanism
    >>> run = SparseVectorMechanism(epsilon=1.0, threshold=1000.0, cutoff=1).start()
    >>> run.ask(0.0), run.ask(2000.0), run.finished
    (False, True, True)
    """

    def __init__(
        self,
        threshold: float,
        threshold_scale: Fraction,
        query_scale: Fraction,
        cutoff: int,
        queries: int | None,
        draw: Callable[[int, RandomSource], draws.LazyReals],
        source: RandomSource,
        renew: bool,
    ) -> None:
        super().__init__()
        self._threshold, self._scales = threshold, (threshold_scale, query_scale)
        self._positives_left, self._queries, self._renew = cutoff, queries, renew
        self._draw, self._source = draw, source
        self._noise = draw(1, source)
        self._queries_left = queries

    @property
    def finished(self) -> bool:
        """Has the run given all the answers that were paid for?"""
        return self._positives_left == 0 or self._queries_left == 0

    def ask(self, value: float) -> bool:
        """Is value + noise >= threshold + noise?"""
        q = float(finite_floats("value", value))
        with self.turn():
            return self._answer(q)

    def _answer(self, q: float) -> bool:
        if self.finished:
            raise ReleaseRefused("this sparse vector run is finished: it gave all the answers that were paid for")
        above = self._compare(q, self._draw(1, self._source))
        if self._queries_left is not None:
            self._queries_left -= 1
        if above:
            self._positives_left -= 1
            if self._renew:
                self._noise, self._queries_left = self._draw(1, self._source), self._queries
        return above

    def _compare(self, q: float, noise: draws.LazyReals) -> bool:
        """Compare in floats if they leave no doubt (a dozen roundings), else in rationals, refining both noises."""
        rho, nu = self._noise, noise
        s, t = (float(scale) for scale in self._scales)
        left, right = t * float(nu.approximate()[0]), s * float(rho.approximate()[0])
        gap = (q - self._threshold) + (left - right)
        size = abs(q) + abs(self._threshold) + abs(left) + abs(right) + s + t
        if abs(gap) > (nu.slack() + 2.0**-49) * size:
            return gap > 0
        base = Fraction(q) - Fraction(self._threshold)
        while True:
            (nu_lo, nu_hi), (rho_lo, rho_hi) = nu.enclosure(0), rho.enclosure(0)
            if base + self._scales[1] * nu_lo - self._scales[0] * rho_hi >= 0:
                return True
            if base + self._scales[1] * nu_hi - self._scales[0] * rho_lo <= 0:
                return False
            nu.refine(0)
            rho.refine(0)


def _query_vector(values: ArrayLike) -> NDArray[np.float64]:
    array = finite_floats("values", values)
    if array.ndim != 1:
        raise ParameterError("values", "be a vector of query answers", f"<shape {array.shape}>")
    return array


class _AboveThreshold(ABC):
    """What both kinds of noise share: a run over queries in order."""

    __slots__ = ()
    threshold: float
    cutoff: int
    sensitivity: float
    monotone: bool
    neighbours: str

    @abstractmethod
    def start(self, rng: Rng = None) -> SparseVectorRun:
        """Begin a run; its whole price is due now."""

    def check(self, values: ArrayLike) -> None:
        """Raise an error if the value breaks the contract; nothing is drawn. A ledger asks before it spends."""
        _query_vector(values)

    def release(self, values: ArrayLike, rng: Rng = None) -> NDArray[np.bool_]:
        """Answer the queries in order, up to and including the last positive answer that was paid for."""
        answers = []
        queries, run = _query_vector(values), self.start(rng)
        for query in queries:
            if run.finished:
                break
            answers.append(run.ask(query))
        return np.array(answers, dtype=np.bool_)

    def _coerce(self) -> None:
        coerce_floats(self, "sensitivity", upwards=True)
        threshold = finite_floats("threshold", self.threshold)
        if threshold.ndim:
            raise ParameterError("threshold", "be one number", self.threshold)
        object.__setattr__(self, "threshold", float(threshold))


@dataclass(frozen=True, slots=True)
class SparseVectorMechanism(_AboveThreshold):
    """Sparse vector with Laplace noise: pure epsilon-DP, at most ``cutoff`` positive answers.

    epsilon is divided into epsilon_1 for the threshold and epsilon_2 for the queries in the ratio 1 : (2 cutoff)^(2/3)
    (1 : cutoff^(2/3) for monotone queries), which minimises the variance of the comparison. The threshold has noise
    Laplace(sensitivity / epsilon_1), each query Laplace(2 cutoff sensitivity / epsilon_2), or half of that scale if
    the queries are monotone: neighbours move all of them in one direction.

    Parameters
    ----------
    epsilon : float
        The price of the whole run.
    threshold : float
        Public.
    cutoff : int
        The run stops after that many positive answers.
    sensitivity : float
        How far neighbours can move one query.
    monotone : bool
        Do neighbours move all queries in the same direction?
    neighbours : str
        The relation that the sensitivity is stated for.

    Examples
    --------
    >>> m = SparseVectorMechanism(epsilon=1.0, threshold=1000.0, cutoff=1)
    >>> m.release([0.0, 10.0, 2000.0, 5.0]).tolist()
    [False, False, True]
    """

    epsilon: float
    threshold: float
    cutoff: int = 1
    sensitivity: float = 1.0
    monotone: bool = False
    neighbours: str = "add_remove"

    def __post_init__(self) -> None:
        coerce_floats(self, "epsilon")
        self._coerce()
        object.__setattr__(self, "cutoff", _checks.integer("cutoff", self.cutoff, 1))
        _ = self.cost
        if max(self.scales) > 2**900:
            raise ParameterError("epsilon", "not be negligible beside the sensitivity", self.epsilon)

    @property
    def cost(self) -> SparseVector:
        """Pure epsilon-DP, for any number of queries."""
        return SparseVector(
            self.epsilon,
            cutoff=self.cutoff,
            sensitivity=self.sensitivity,
            monotone=self.monotone,
            neighbours=self.neighbours,
        )

    @property
    def scales(self) -> tuple[Fraction, Fraction]:
        """Scales of the threshold's and of the queries' noise; epsilon_1 + epsilon_2 = epsilon exactly."""
        moves = self.cutoff if self.monotone else 2 * self.cutoff
        epsilon, delta = Fraction(self.epsilon), Fraction(self.sensitivity)
        first = epsilon / (1 + Fraction(moves ** (2 / 3)))
        return delta / first, moves * delta / (epsilon - first)

    def start(self, rng: Rng = None) -> SparseVectorRun:
        """Begin a run; its whole price is due now."""
        source = source_of(rng)
        scales = self.scales
        return SparseVectorRun(self.threshold, *scales, self.cutoff, None, draws.exponential, source, renew=False)


@dataclass(frozen=True, slots=True)
class GaussianSparseVectorMechanism(_AboveThreshold):
    """Sparse vector with Gaussian noise, a fresh noisy threshold after each positive answer.

    Parameters
    ----------
    sigma_threshold, sigma_query : float
        Standard deviations of the two noises.
    max_queries : int
        Queries that are answered with one threshold; then the run stops.
    threshold, cutoff, sensitivity, monotone, neighbours
        As in :class:`SparseVectorMechanism`.

    Examples
    --------
    >>> m = GaussianSparseVectorMechanism(10.0, 20.0, max_queries=100, threshold=1000.0)
    >>> m.release([0.0, 2000.0, 0.0]).tolist()
    [False, True]
    """

    sigma_threshold: float
    sigma_query: float
    max_queries: int
    threshold: float
    cutoff: int = 1
    sensitivity: float = 1.0
    monotone: bool = False
    neighbours: str = "add_remove"

    def __post_init__(self) -> None:
        coerce_floats(self, "sigma_threshold", "sigma_query")
        self._coerce()
        _ = self.cost

    @property
    def cost(self) -> SparseVector:
        """A Renyi curve (:class:`~ledgerwood.accounting.SparseVector`)."""
        return SparseVector(
            sigma_threshold=self.sigma_threshold,
            sigma_query=self.sigma_query,
            max_queries=self.max_queries,
            cutoff=self.cutoff,
            sensitivity=self.sensitivity,
            monotone=self.monotone,
            neighbours=self.neighbours,
        )

    def start(self, rng: Rng = None) -> SparseVectorRun:
        """Begin a run; its whole price is due now."""
        scales = Fraction(self.sigma_threshold), Fraction(self.sigma_query)
        return SparseVectorRun(
            self.threshold, *scales, self.cutoff, self.max_queries, draws.normal, source_of(rng), renew=True
        )
