r"""Guessing the input behind an output: a certificate for pure epsilon that reads both directions at once.

``total`` fresh outputs are drawn, each on the first or the second input as a fair coin :math:`B_i` says. A rule fixed
beforehand looks at each output and guesses the first input, the second, or passes.

**Theorem.** If the mechanism is :math:`\varepsilon`-DP on the pair then, given all the outputs, the number of right
guesses among ``r`` guesses is stochastically at most :math:`\mathrm{Bin}(r, \sigma(\varepsilon))`,
:math:`\sigma(\varepsilon) = e^\varepsilon / (1 + e^\varepsilon)`. So :math:`P(\lambda) = P(\mathrm{Bin}(r,
\sigma(\lambda)) \ge \text{right})` grows with :math:`\lambda`, and :math:`P(P(\lambda) \le u) \le u` whenever
:math:`\lambda`-DP is true.

*Proof.* The pairs :math:`(B_i, Y_i)` are independent. With the densities :math:`f_1, f_2` of the outputs, Bayes' rule
gives :math:`P(B_i = 1 \mid Y_i = y) = f_1(y) / (f_1(y) + f_2(y))`, which lies between :math:`\sigma(-\varepsilon)` and
:math:`\sigma(\varepsilon)` because :math:`f_1 \le e^\varepsilon f_2` and :math:`f_2 \le e^\varepsilon f_1` almost
everywhere. Given the outputs the guesses are fixed, and each is right, independently, with probability at most
:math:`\sigma(\varepsilon)`. The rest is the survival function at its own variable. ∎

No probability is left unknown, so nothing is lost to a nuisance. Where one event in each direction is as telling as the
other (most noise is symmetric), the rare hits of both are pooled: twice as many as any single event has.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ledgerwood.errors import ParameterError

__all__ = ["Guesses", "promise", "split"]

Floats = NDArray[np.float64]

_ROUNDING = 1e-9  # relative slack for the incomplete beta function


@dataclass(frozen=True, slots=True)
class Guesses:
    """How many guesses were right and how many wrong, each output's input chosen by a fair coin (see :func:`split`).

    >>> f"{Guesses(600, 400).tail(0.3):.4f}"
    '0.0542'
    """

    right: int
    wrong: int

    def __post_init__(self) -> None:
        if self.right < 0 or self.wrong < 0:
            raise ParameterError("guesses", "be numbers of guesses", (self.right, self.wrong))

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


def promise(right: Floats, wrong: Floats, caution: float) -> Floats:
    """The bound that these guesses promise, less ``caution`` standard errors; to choose rules only."""
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = np.log(right / (wrong + 1.0)) - caution * np.sqrt(1.0 / right + 1.0 / (wrong + 1.0))
    return np.where(right > 0.0, bound, -math.inf)


def split(total: int, rng: np.random.Generator) -> tuple[int, int]:
    """How many of ``total`` outputs a fair coin gives to either input; their order does not matter."""
    first = int(rng.binomial(total, 0.5))
    return first, total - first
