r"""Audit a learner in one training: canaries in or out at random, and how many the model betrays.

Each of ``m`` canaries is included by a fair coin. From the trained model every canary gets a score; the ``guesses``
with the largest (and, two-sided, the smallest) scores are guessed in (out), the others are left open. The number of
right guesses bounds the privacy parameter from below, in two ways that are reported side by side:

**Steinke, Nasr and Jagielski 2023** (arXiv:2305.08846, Thm 5.2). If the learner is :math:`(\varepsilon, \delta)`-DP,
the number of right guesses W among r is dominated by a binomial up to :math:`\delta`: with
:math:`B \sim \mathrm{Bin}(r, e^\varepsilon/(1+e^\varepsilon))`,

.. math:: P(W \ge v) \le P(B \ge v) + 2 m \delta \max_{1 \le i \le v} \frac{1}{i} P(v - i \le B < v).

**Mahloujifar, Melis and Chaudhuri 2024** (arXiv:2410.22235). Under f-DP let :math:`r_i` be the probability that a
canary drawn at random is guessed rightly and at least i guesses are right, and :math:`h_i` the same for wrongly. The
trade-off curve forces :math:`h_{i} \ge \bar f(r_{i+1})` with :math:`\bar f(x) = \Phi(\Phi^{-1}(x) - \mu)` for
:math:`\mu`-GDP, and :math:`r_i = r_{i+1} + \frac{i}{k - i}(h_i - h_{i+1})`. Starting from :math:`P(W \ge v) = \alpha`
these relations are run down to i = 0; if the total mass :math:`r_0 + h_0` exceeds the share of canaries that were
guessed, k/m, no such learner exists. Derived, with a proof that this start is the least, in
``docs/theory/one-run-audit.md``.

Both are lower bounds at the stated confidence. They are looser than an audit by many trainings, because canaries share
the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

from ledgerwood.errors import ParameterError

__all__ = ["OneRunReport", "audit_one_run", "gdp_one_run_bound", "one_run_bound", "one_run_p_value"]

Floats = NDArray[np.float64]


def one_run_p_value(canaries: int, guesses: int, right: int, epsilon: float, delta: float = 0.0) -> float:
    """Probability at most with which an (epsilon, delta)-DP learner allows so many right guesses.

    >>> round(one_run_p_value(100, 20, 20, 1.0), 6)
    0.001901
    """
    _check_counts(canaries, guesses, right)
    from scipy.special import betainc
    from scipy.stats import binom

    q = 1.0 / (1.0 + math.exp(-epsilon))
    beta = 1.0 if right == 0 else float(betainc(right, guesses - right + 1, q))
    if delta == 0.0 or right == 0:
        return min(beta, 1.0)
    below = np.cumsum(binom.pmf(np.arange(right - 1, -1, -1), guesses, q))
    worst = float(np.max(below / np.arange(1, right + 1)))
    return min(beta + 2.0 * canaries * delta * worst, 1.0)


def one_run_bound(canaries: int, guesses: int, right: int, *, delta: float = 0.0, confidence: float = 0.99) -> float:
    """Lower bound on epsilon at ``delta`` from one training (Steinke, Nasr and Jagielski).

    >>> round(one_run_bound(1000, 100, 99), 3)
    2.674
    """
    return _largest(
        lambda epsilon: one_run_p_value(canaries, guesses, right, epsilon, delta) <= 1.0 - confidence, most=60.0
    )


def gdp_one_run_bound(canaries: int, guesses: int, right: int, *, confidence: float = 0.99) -> float:
    """Lower bound on mu from one training (Mahloujifar, Melis and Chaudhuri, Gaussian trade-off curve).

    >>> 0.0 < gdp_one_run_bound(1000, 1000, 700) < 2.0
    True
    """
    _check_counts(canaries, guesses, right)
    return _largest(lambda mu: _impossible(canaries, guesses, right, mu, 1.0 - confidence), most=20.0)


def _impossible(canaries: int, guesses: int, right: int, mu: float, alpha: float) -> bool:
    from scipy.special import ndtr, ndtri

    r = alpha * right / canaries
    h = alpha * (guesses - right) / canaries
    for i in range(right - 1, -1, -1):
        raised = max(h, float(ndtr(ndtri(min(r, 1.0)) - mu)))
        if raised == h:
            break  # neither number can change any more
        r = min(r + i / (guesses - i) * (raised - h), 1.0)
        h = raised
    return r + h > guesses / canaries


def _largest(holds: Callable[[float], bool], most: float) -> float:
    """The largest parameter that is still ruled out, to 1e-6, 0 if none is."""
    if not holds(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while holds(high):
        low, high = high, 2.0 * high
        if high > most:
            return low
    while high - low > 1e-6:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _check_counts(canaries: int, guesses: int, right: int) -> None:
    if not 0 <= right <= guesses <= canaries:
        raise ParameterError("right", "satisfy 0 <= right <= guesses <= canaries", (right, guesses, canaries))


@dataclass(frozen=True, slots=True)
class OneRunReport:
    """Both bounds of one training, at the claim's delta, and whether they contradict the claim."""

    canaries: int
    guesses: int
    right: int
    epsilon_lower: float
    delta: float
    epsilon_claimed: float
    mu_lower: float
    epsilon_lower_gdp: float
    flagged: bool
    confidence: float

    def __str__(self) -> str:
        return (
            f"{'violation' if self.flagged else 'no violation found'}: {self.right} of {self.guesses} guesses right "
            f"({self.canaries} canaries, one training)\n"
            f"  epsilon >= {self.epsilon_lower:.4f} at delta={self.delta:.3g} (claimed {self.epsilon_claimed:.6g}), "
            f"for any (epsilon, delta)-DP learner\n"
            f"  mu >= {self.mu_lower:.4f}, that is epsilon >= {self.epsilon_lower_gdp:.4f} at that delta, "
            f"if it is Gaussian DP"
        )


def audit_one_run(
    train: Callable[[Sequence[Any], Generator], Any],
    canaries: Sequence[Any],
    score: Callable[[Any, Sequence[Any]], Any],
    claim: Any,
    *,
    delta: float = 1e-5,
    guesses: int | None = None,
    two_sided: bool = True,
    confidence: float = 0.99,
    seed: int | None = None,
) -> OneRunReport:
    """Train once with a random half of the canaries and bound the privacy parameters from the guesses.

    Parameters
    ----------
    train:
        ``train(included, rng)`` returns a model of the data with the canaries ``included``.
    canaries:
        Records that may be added, each on its own neighbouring (add/remove).
    score:
        ``score(model, canaries)`` returns one number per canary, larger if it looks included. It must not know the
        coins.
    claim:
        A cost of ``ledgerwood.accounting``.
    delta:
        Where epsilon is bounded; a pure claim is read at this delta too.
    guesses:
        How many canaries are guessed; all by default. It must be fixed before the training.
    two_sided:
        Guess the largest scores in and the smallest out; otherwise only "in".

    Examples
    --------
    A learner that publishes the sum of orthogonal canaries with far too little noise:

    >>> import numpy as np
    >>> from ledgerwood.accounting import PureDP
    >>> train = lambda included, rng: sum(included) + rng.normal(0, 0.3, 200)
    >>> canaries = list(np.eye(200))
    >>> report = audit_one_run(train, canaries, lambda model, c: [model @ v for v in c], PureDP(1.0), seed=1)
    >>> report.flagged, report.epsilon_lower > 2
    (True, True)
    """
    m = len(canaries)
    count = m if guesses is None else int(guesses)
    _check_counts(m, count, 0)
    if count == 0:
        raise ParameterError("guesses", "be at least 1", guesses)
    rng = default_rng(seed)
    included = rng.random(m) < 0.5
    model = train([canary for canary, inside in zip(canaries, included) if inside], rng)
    scores = np.asarray(score(model, canaries), dtype=np.float64)
    if scores.shape != (m,) or np.isnan(scores).any():
        raise ParameterError("score", "return one number per canary", scores.shape)
    order = np.argsort(scores, kind="stable")
    outside = count // 2 if two_sided else 0
    right = int(
        np.count_nonzero(included[order[m - (count - outside) :]]) + np.count_nonzero(~included[order[:outside]])
    )
    level = 1.0 - (1.0 - confidence) / 2.0  # the two bounds share the error
    epsilon = one_run_bound(m, count, right, delta=delta, confidence=level)
    mu = gdp_one_run_bound(m, count, right, confidence=level)
    claimed = float(claim.epsilon(delta))
    claimed_mu = getattr(claim, "mu", None)
    claimed_mu = claimed_mu() if callable(claimed_mu) else claimed_mu
    flagged = epsilon > claimed or (claimed_mu is not None and mu > claimed_mu)
    return OneRunReport(m, count, right, epsilon, delta, claimed, mu, _gaussian_epsilon(mu, delta), flagged, confidence)


def _gaussian_epsilon(mu: float, delta: float) -> float:
    """Epsilon of mu-GDP at delta, by bisection on the closed profile; the low end of the bracket."""
    from scipy.special import ndtr

    if mu == 0.0:
        return 0.0
    low, high = 0.0, mu * mu / 2 + 12.0 * mu
    for _ in range(100):
        middle = 0.5 * (low + high)
        profile = float(ndtr(mu / 2 - middle / mu)) - math.exp(middle) * float(ndtr(-mu / 2 - middle / mu))
        low, high = (middle, high) if profile > delta else (low, middle)
    return low
