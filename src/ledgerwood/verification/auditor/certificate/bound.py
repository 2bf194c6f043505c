r"""The joint certificate: from two counts to a lower bound on epsilon.

An event is fixed. On ``n`` fresh outputs for each input it happened ``hits1`` and ``hits2`` times, two independent
binomial counts :math:`X_i \sim \mathrm{Bin}(n, p_i)`. A privacy claim bounds :math:`p_1` by :math:`p_2`:

.. math:: H_\lambda:\; p_1 \le g_\lambda(p_2), \qquad g \text{ increasing in } \lambda \text{ and in } p_2,

with :math:`g_\varepsilon(p) = e^{\varepsilon} p + \delta` for :math:`(\varepsilon, \delta)`-DP and
:math:`g_\mu(p) = \Phi(\Phi^{-1}(p) + \mu)` for :math:`\mu`-GDP. The least :math:`\lambda` with
:math:`H_\lambda` is what we bound from below, at error at most :math:`\alpha`.

**Theorem.** Let :math:`R_t = \{y : T(y) \ge t\}` for a fixed statistic :math:`T` (increasing in :math:`y_1`, decreasing
in :math:`y_2`) and :math:`I(x_2)` a Clopper–Pearson interval for :math:`p_2` of error :math:`\beta < \alpha`. Then

.. math:: L(x) = \sup\Big\{\lambda : \sup_{p_2 \in I(x_2),\; p_1 \le g_\lambda(p_2)} P_{p_1,p_2}\big(R_{T(x)}\big)
          \le \alpha - \beta \Big\}

satisfies :math:`P(L(X) > \lambda) \le \alpha` whenever :math:`H_\lambda` holds, for every ``n`` and every
:math:`(p_1, p_2)`.

*Proof.* The inner supremum grows with :math:`\lambda`, so :math:`L(X) > \lambda` and :math:`p_2 \in I(X_2)` together
imply :math:`S(T(X)) \le \alpha - \beta` with :math:`S(t) = P_{p_1,p_2}(T(Y) \ge t)` at the true :math:`(p_1, p_2)`. A
survival function at its own variable is at most :math:`u` with probability at most :math:`u`; so that event has
probability at most :math:`\alpha - \beta`, and :math:`p_2 \notin I(X_2)` at most :math:`\beta`. ∎

This is Buehler's bound (1957) for the ordering :math:`T`, with the nuisance confined as Berger and Boos (1994) do.
The supremum over :math:`p_2` is computed with a proof, not on a grid of points: :math:`R` is monotone, so on a cell
:math:`p_2 \in [a, b]` the probability is at most its value at :math:`(g_\lambda(b), a)`; and a block of consecutive
:math:`y_2` is replaced by its least element. Both replacements only lower the bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ledgerwood.errors import ParameterError
from ledgerwood.verification.auditor.certificate.counts import Binomial, CountDistribution, Guesses, PoissonCount
from ledgerwood.verification.auditor.certificate.hypotheses import NullHypothesis, RatioHypothesis

__all__ = [
    "Counts",
    "certified_bound",
    "lower_bound",
]

Floats = NDArray[np.float64]

_NUISANCE_SHARE = 0.01  # beta / alpha: what the interval for p2 may cost
_CELL = 0.04  # width of a nuisance cell, in standard deviations of the estimate of p2
_BLOCK = 0.05  # width of a block of y2, in standard deviations of Y2
_ROUNDING = 1e-9  # relative slack for the special functions


def _normal_quantile(p: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(p))


def lower_bound(
    hits1: int, hits2: int, n: int, *, null: NullHypothesis | None = None, confidence: float = 0.99
) -> float:
    r"""Lower confidence bound on the parameter of ``null``, valid in finite samples (theorem of this module).

    Parameters
    ----------
    hits1, hits2:
        How often the event happened in ``n`` independent outputs on each input.
    n:
        Outputs per input.
    null:
        The family of hypotheses; ``RatioHypothesis()`` (pure epsilon) by default.
    confidence:
        One minus the error of the certificate.

    Returns
    -------
    float
        The bound; ``-inf`` if the counts bound nothing.

    Examples
    --------
    An event seen 500 times against 100 times out of 10,000 (two Clopper-Pearson intervals would certify 1.243):

    >>> round(lower_bound(500, 100, 10_000), 3)
    1.358

    Never seen on the second input, always on the first: about ln(n) - 1.53.

    >>> round(lower_bound(10_000, 0, 10_000), 2)
    7.68
    """
    return certified_bound(Counts(hits1, hits2, n), null=null, confidence=confidence)


@dataclass(frozen=True, slots=True)
class Counts:
    """How often a block's event happened in ``n`` fresh outputs on each input."""

    hits1: int
    hits2: int
    n: int

    def __post_init__(self) -> None:
        if self.n < 1 or not (0 <= self.hits1 <= self.n and 0 <= self.hits2 <= self.n):
            raise ParameterError("hits", "lie between 0 and n", (self.hits1, self.hits2, self.n))


def certified_bound(block: Counts | Guesses, *, null: NullHypothesis | None = None, confidence: float = 0.99) -> float:
    """Lower confidence bound from the counts of an event or of guesses.

    >>> round(certified_bound(Counts(500, 100, 10_000)), 3)
    1.358
    >>> round(certified_bound(Guesses(1000, 200, 10_000)), 3)  # the same ratio seen in both directions
    1.429
    """
    if not 0.5 <= confidence < 1:
        raise ParameterError("confidence", "lie in [0.5, 1)", confidence)
    family: NullHypothesis = RatioHypothesis() if null is None else null
    alpha = 1.0 - confidence
    evidence = _evidence(block, family, alpha, _normal_quantile(1.0 - alpha))
    start = evidence.statistic
    if not math.isfinite(start):
        return -math.inf
    target = alpha * (1.0 - 1e-6)
    # Follow the worst cell down until none is worse: each pass lowers the bound, the last one checks all cells.
    bound = start + 0.25 * (1.0 + abs(start))
    cell = evidence.middle
    while math.isfinite(bound):
        bound = _largest_below(lambda value, chosen=cell: evidence.tail_at(value, chosen), target, bound)  # type: ignore[misc]
        if not math.isfinite(bound):
            break
        cell, tail = evidence.worst(bound)
        if tail <= target:
            break
    return bound


class _Evidence(Protocol):
    """P_b of one block, by cells of its nuisance."""

    @property
    def statistic(self) -> float: ...

    @property
    def middle(self) -> int: ...

    def tail_at(self, parameter: float, k: int) -> float:
        """P_b with the supremum replaced by one cell."""
        ...

    def worst(self, parameter: float) -> tuple[int, float]:
        """The cell with the largest probability, and P_b."""
        ...


def _evidence(block: Counts | Guesses, family: NullHypothesis, alpha: float, z: float) -> _Evidence:
    if isinstance(block, Counts):
        return _Counted.of(block.hits1, block.hits2, Binomial(block.n), family, alpha, z)
    if not isinstance(family, RatioHypothesis):
        raise ParameterError("null", "be a ratio for guesses", family)
    if family.delta == 0.0:
        return _Guessed(block)
    return _Counted.of(block.right, block.wrong, PoissonCount(2 * block.n), family, alpha, z)


@dataclass(frozen=True, slots=True)
class _Guessed:
    """P_b of guesses: no nuisance, so there is one cell."""

    block: Guesses
    middle: int = 0

    @property
    def statistic(self) -> float:
        return self.block.statistic

    def tail_at(self, parameter: float, k: int) -> float:
        return self.block.tail(parameter)

    def worst(self, parameter: float) -> tuple[int, float]:
        return 0, self.block.tail(parameter)


@dataclass(frozen=True, slots=True)
class _Counted:
    """P_b of one block as a function of the parameter: the supremum over the nuisance's cells, plus beta."""

    statistic: float
    family: NullHypothesis
    region: _Region
    upper_ends: Floats
    weights: Floats
    beta: float

    @classmethod
    def of(
        cls, hits1: int, hits2: int, distribution: CountDistribution, family: NullHypothesis, alpha: float, z: float
    ) -> _Counted:
        n = distribution.n
        statistic = float(family.estimate(np.float64(hits1), np.float64(hits2), n, z))  # type: ignore[arg-type]
        beta = alpha * _NUISANCE_SHARE
        p_low, p_high = distribution.interval(hits2, beta)
        lower_ends, upper_ends = _cells(p_low, p_high, n)
        edges = _edges(p_low, p_high, n)
        # Counts that bound nothing say nothing: the whole sample space is as extreme as they are.
        reached = family.boundary(statistic, edges, n, z) if math.isfinite(statistic) else np.zeros(edges.size)
        region = _Region(edges, np.ceil(reached * (1.0 - 1e-12) - 1e-6), distribution)
        return cls(statistic, family, region, upper_ends, region.below(lower_ends), beta)

    @property
    def middle(self) -> int:
        return self.upper_ends.size // 2

    def tail_at(self, parameter: float, k: int) -> float:
        largest = self.family.largest(parameter, self.upper_ends[k : k + 1])
        return float(self.region.probability(largest, self.weights[k : k + 1])[0]) + self.beta

    def worst(self, parameter: float) -> tuple[int, float]:
        tails = self.region.probability(self.family.largest(parameter, self.upper_ends), self.weights)
        k = int(np.argmax(tails))
        return k, float(tails[k]) + self.beta


def _largest_below(probability: Callable[[float], float], target: float, start: float) -> float:
    """The largest parameter below ``start`` (to 1e-7) whose probability is at most ``target``."""
    if probability(start) <= target:
        return start
    high, step = start, 0.05
    low = start - step
    while probability(low) > target:
        high, step = low, 2.0 * step
        low -= step
        if low < -60.0:
            return -math.inf
    while high - low > 1e-7:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if probability(middle) <= target else (low, middle)
    return low


def _cells(low: float, high: float, n: int) -> tuple[Floats, Floats]:
    """Cut [low, high] into cells of equal width in arcsin(sqrt(p)), where p2's estimate has deviation 1/(2 sqrt n)."""
    a, b = math.asin(math.sqrt(low)), math.asin(math.sqrt(high))
    count = max(1, math.ceil((b - a) / (_CELL / (2.0 * math.sqrt(n)))))
    ends = np.sin(np.linspace(a, b, count + 1)) ** 2
    ends[0], ends[-1] = low, high
    return ends[:-1] * (1.0 - 1e-12), np.minimum(ends[1:] * (1.0 + 1e-12), 1.0)


def _edges(low: float, high: float, n: int) -> Floats:
    """Left ends of the blocks of y2, fine where Y2 can fall; the first block starts at 0, the last never ends."""
    deviation = math.sqrt(n * max(high * (1.0 - low), 1.0 / n))
    first = max(0, math.floor(n * low - 6.0 * deviation - 10))
    last = min(n, math.ceil(n * high + 6.0 * deviation + 10))
    step = max(1, math.floor(_BLOCK * deviation))
    return np.unique(np.append(np.arange(first, last + 1, step, dtype=np.float64), 0.0))


@dataclass(frozen=True, slots=True)
class _Region:
    """``y1 >= thresholds[j]`` for ``y2`` in block ``j``: an outer cover of {T(y) >= T(x)}."""

    edges: Floats
    thresholds: Floats
    distribution: CountDistribution

    def below(self, p2: Floats) -> Floats:
        """P(Y2 < next edge) for every cell and block; 1 for the last block."""
        cumulative = np.ones((p2.size, self.edges.size))
        cumulative[:, :-1] = self.distribution.below(self.edges[1:], p2)
        return cumulative

    def probability(self, p1: Floats, below: Floats) -> Floats:
        """P(R) for every cell, by summation by parts: all terms are positive."""
        tails = np.zeros((p1.size, self.edges.size + 1))
        tails[:, :-1] = self.distribution.at_least(self.thresholds, p1)
        drops = np.maximum(tails[:, :-1] - tails[:, 1:], 0.0)
        return np.asarray((drops * below).sum(axis=1) * (1.0 + _ROUNDING) + 1e-13, dtype=np.float64)
