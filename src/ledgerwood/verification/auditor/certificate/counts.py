r"""What a certificate counts, and how the counts are distributed: hits of an event, or right and wrong guesses.

How many of a block's fresh outputs fall into an event of unknown probability? A certificate needs an interval for the
probability and both tails of the count. With a fixed number of outputs the count is binomial. If their number is drawn
from a Poisson distribution first, the count is Poisson too, and the counts of disjoint events are independent.

Guesses of the input behind an output read both directions at once. A rule fixed beforehand looks at each fresh output
and guesses the first input, the second, or passes. The numbers of fresh outputs on either input are drawn first,
independently, from a Poisson distribution of mean ``n``.

**Lemma.** Let the rule guess the first input with probability :math:`a_i` on input ``i`` and the second with
:math:`b_i`. Then the numbers of right and wrong guesses are independent and Poisson, with means :math:`2 n r` and
:math:`2 n w`, where :math:`r = (a_1 + b_2)/2` and :math:`w = (a_2 + b_1)/2`. If the mechanism is :math:`(\varepsilon,
\delta)`-DP on the pair, :math:`r \le e^\varepsilon w + \delta`.

*Proof.* A Poisson number of independent outputs, sorted by what the rule says of them, gives independent Poisson counts
of means :math:`n a_i`, :math:`n b_i`; the right guesses add :math:`a_1` and :math:`b_2`, the wrong ones the other two.
And :math:`a_1 \le e^\varepsilon a_2 + \delta`, :math:`b_2 \le e^\varepsilon b_1 + \delta`. ∎

So guesses are counts of an event of probabilities ``r`` and ``w`` in ``2 n`` outputs, Poisson instead of binomial, and
the theorem of ``bound`` holds for them as it stands. For a pure claim nothing unknown is left:

**Theorem.** If :math:`\delta = 0` then, given the number of guesses :math:`m`, the right ones are stochastically at
most :math:`\mathrm{Bin}(m, \sigma(\varepsilon))`, :math:`\sigma(\varepsilon) = e^\varepsilon / (1 + e^\varepsilon)`. So
:math:`P(\lambda) = P(\mathrm{Bin}(m, \sigma(\lambda)) \ge \text{right})` grows with :math:`\lambda`, and
:math:`P(P(\lambda) \le u) \le u` whenever :math:`\lambda`-DP is true.

*Proof.* Given the sum, the first of two independent Poisson counts is binomial with probability :math:`r / (r + w) \le
\sigma(\varepsilon)`. The rest is the survival function at its own variable. ∎

Where one event in each direction is as informative as the other (most noise is symmetric), the rare hits of both are
pooled: twice as many as any single event has.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ledgerwood.errors import ParameterError

__all__ = [
    "Binomial",
    "CountDistribution",
    "Guesses",
    "PoissonCount",
    "estimated_bound",
    "estimated_bound_of_guesses",
    "sizes",
]


Floats = NDArray[np.float64]

_ROUNDING = 1e-9  # relative slack for the incomplete beta and gamma functions


class CountDistribution(Protocol):
    """The distribution of a count out of ``n`` outputs (on average)."""

    @property
    def n(self) -> int: ...

    def interval(self, hits: int, error: float) -> tuple[float, float]:
        """Two-sided interval for the probability; each side errs with probability at most ``error / 2``."""
        ...

    def at_least(self, counts: Floats, p: Floats) -> Floats:
        """P(count >= c) for every probability (rows) and every c (columns)."""
        ...

    def below(self, counts: Floats, p: Floats) -> Floats:
        """P(count < c) for every probability (rows) and every c >= 1 (columns)."""
        ...


@dataclass(frozen=True, slots=True)
class Binomial:
    """``n`` outputs. The interval is Clopper's and Pearson's (1934).

    >>> low, high = Binomial(100).interval(0, 0.05)
    >>> low, round(high, 4)
    (0.0, 0.0362)
    """

    n: int

    def interval(self, hits: int, error: float) -> tuple[float, float]:
        from scipy.special import betaincinv

        n = self.n
        low = 0.0 if hits == 0 else float(betaincinv(hits, n - hits + 1, error / 2)) * (1 - _ROUNDING)
        high = 1.0 if hits == n else float(betaincinv(hits + 1, n - hits, 1 - error / 2)) * (1 + _ROUNDING)
        return low, min(high, 1.0)

    def at_least(self, counts: Floats, p: Floats) -> Floats:
        from scipy.special import betainc

        tails = np.zeros((p.size, counts.size))
        tails[:, counts < 1.0] = 1.0
        inner = (counts >= 1.0) & (counts <= self.n)
        tails[:, inner] = betainc(counts[inner], self.n - counts[inner] + 1.0, p[:, None])
        return tails

    def below(self, counts: Floats, p: Floats) -> Floats:
        from scipy.special import betaincc

        return np.asarray(betaincc(counts, self.n - counts + 1.0, p[:, None]), np.float64)


@dataclass(frozen=True, slots=True)
class PoissonCount:
    """A Poisson number of outputs, ``n`` on average. The interval is Garwood's (1936).

    >>> low, high = PoissonCount(100).interval(0, 0.05)
    >>> low, round(high, 4)
    (0.0, 0.0369)
    """

    n: int

    def interval(self, hits: int, error: float) -> tuple[float, float]:
        from scipy.special import gammaincinv

        low = 0.0 if hits == 0 else float(gammaincinv(hits, error / 2)) / self.n * (1 - _ROUNDING)
        high = float(gammaincinv(hits + 1, 1 - error / 2)) / self.n * (1 + _ROUNDING)
        return min(low, 1.0), min(high, 1.0)

    def at_least(self, counts: Floats, p: Floats) -> Floats:
        from scipy.special import gammainc

        tails = np.ones((p.size, counts.size))
        inner = counts >= 1.0
        tails[:, inner] = gammainc(counts[inner], self.n * p[:, None])
        return tails

    def below(self, counts: Floats, p: Floats) -> Floats:
        from scipy.special import gammaincc

        return np.asarray(gammaincc(counts, self.n * p[:, None]), np.float64)


@dataclass(frozen=True, slots=True)
class Guesses:
    """How many guesses were right and how many wrong, on a Poisson number of outputs of each input, ``n`` on average.

    >>> f"{Guesses(600, 400, 10_000).tail(0.3):.4f}"
    '0.0542'
    """

    right: int
    wrong: int
    n: int

    def __post_init__(self) -> None:
        if self.right < 0 or self.wrong < 0 or self.n < 1:
            raise ParameterError("guesses", "be numbers of guesses and of outputs", (self.right, self.wrong, self.n))

    @property
    def statistic(self) -> float:
        """The log-odds of the guesses; minus infinity if none was right."""
        return math.log(self.right / (self.wrong + 1.0)) if self.right else -math.inf

    def tail(self, epsilon: float) -> float:
        """P(lambda) of the theorem, rounded up."""
        from scipy.special import betainc

        if not self.right:
            return 1.0
        odds = math.exp(min(epsilon, 700.0))
        return min(1.0, float(betainc(self.right, self.wrong + 1.0, odds / (1.0 + odds))) * (1.0 + _ROUNDING) + 1e-13)


def estimated_bound(excess: Floats, variance: Floats, others: Floats, variance2: Floats, z: float) -> Floats:
    r"""The logarithm of the ratio that a certificate at ``z`` standard errors would find, about; for choosing only.

    The root of :math:`y_1 = \rho B + z \sqrt{v_1 + \rho^2 v_2}`, :math:`B = y_2 + 1 + z^2/3`: the score boundary of
    ``hypotheses.RatioHypothesis`` with the variances as observed (Fieller 1954). Minus infinity if there is none.
    """
    center = others + 1.0 + z * z / 3.0
    inner = center**2 * variance + excess**2 * variance2 - z * z * variance * variance2
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (center * excess - z * np.sqrt(np.maximum(inner, 0.0))) / (center**2 - z * z * variance2)
        bound = np.log(ratio)
    return np.where((excess > 0.0) & (inner >= 0.0) & (ratio > 0.0), bound, -math.inf)


def estimated_bound_of_guesses(right: Floats, wrong: Floats, n: int, delta: float, z_margin: float) -> Floats:
    """A rough bound from these guesses, less ``z_margin`` standard errors; for choosing rules only."""
    return estimated_bound(right - 2.0 * n * delta, right, wrong, wrong + 1.0, z_margin)


def sizes(n: int, rng: np.random.Generator) -> tuple[int, int]:
    """How many outputs to draw on either input: ``n`` on average."""
    first, second = rng.poisson(n, size=2)
    return int(first), int(second)
