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
the model; ``audit_training`` makes both audits of one learner and reports them side by side.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.random import Generator, default_rng
from numpy.typing import NDArray

from ledgerwood.accounting import Gaussian
from ledgerwood.errors import ParameterError
from ledgerwood.verification.auditor.audit import audit
from ledgerwood.verification.auditor.certificate.hypotheses import read_claim
from ledgerwood.verification.auditor.report import AuditReport, plain

__all__ = [
    "OneRunReport",
    "TrainingReport",
    "audit_one_run",
    "audit_training",
    "gdp_one_run_bound",
    "one_run_bound",
    "one_run_p_value",
]

Floats = NDArray[np.float64]

_DELTA = 1e-5  # where a claim that is a whole profile is read


def one_run_p_value(canaries: int, guesses: int, right: int, epsilon: float, delta: float = 0.0) -> float:
    """Probability at most with which an (epsilon, delta)-DP learner allows this many right guesses.

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
            break  # from here on both repeat
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
    """Both bounds of one training, at ``delta``, and whether they contradict the claim."""

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
        at = f" at delta={self.delta:.3g}" if self.delta > 0 else ""
        same = f", that is epsilon >= {self.epsilon_lower_gdp:.4f} at that delta," if self.delta > 0 else ""
        return (
            f"{'violation' if self.flagged else 'no violation found'}: {self.right} of {self.guesses} guesses right "
            f"({self.canaries} canaries, one training)\n"
            f"  epsilon >= {self.epsilon_lower:.4f}{at} (claimed {self.epsilon_claimed:.6g}), for any DP learner\n"
            f"  mu >= {self.mu_lower:.4f}{same} if it is Gaussian DP"
        )

    def to_json(self) -> str:
        """The report as a JSON text; infinite numbers are written as the string "inf"."""
        return json.dumps(plain(asdict(self)), allow_nan=False, sort_keys=True)


def audit_one_run(
    train: Callable[[Sequence[Any], Generator], Any],
    canaries: Sequence[Any],
    score: Callable[[Any, Sequence[Any]], Any],
    claim: Any,
    *,
    delta: float | None = None,
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
        A cost of ``ledgerwood.accounting``, for neighbours with one record added or removed.
    delta:
        Where epsilon is bounded. By default at the claim's own delta, which is 0 for a pure claim; for a profile at
        1e-5, or at the least delta at which it bounds epsilon if that is larger.
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
    if m == 0:
        raise ParameterError("canaries", "be at least one record", m)
    if not 0.5 <= confidence < 1:
        raise ParameterError("confidence", "lie in [0.5, 1)", confidence)
    count = m if guesses is None else int(guesses)
    _check_counts(m, count, 0)
    if count == 0:
        raise ParameterError("guesses", "be at least 1", guesses)
    reading = read_claim(claim)
    if getattr(claim, "neighbours", None) == "replace_one":
        raise ParameterError("claim", "be about records added or removed, as canaries are", claim)
    if delta is None:
        # A claim at one point says nothing at a smaller delta, and less than it could at a larger one.
        delta = max(_DELTA, reading.points[-1].delta) if reading.claimed_delta is None else reading.claimed_delta
    elif not 0 <= delta < 1:
        raise ParameterError("delta", "lie in [0, 1)", delta)
    rng = default_rng(seed)
    included = rng.random(m) < 0.5
    model = train([canary for canary, inside in zip(canaries, included) if inside], rng)
    scores = np.asarray(score(model, canaries), dtype=np.float64)
    if scores.shape != (m,):
        raise ParameterError("score", f"return one number for each of {m} canaries", scores.shape)
    if np.isnan(scores).any():
        raise ParameterError("score", "return numbers", "nan")
    order = np.argsort(scores, kind="stable")
    outside = count // 2 if two_sided else 0
    right = int(
        np.count_nonzero(included[order[m - (count - outside) :]]) + np.count_nonzero(~included[order[:outside]])
    )
    level = 1.0 - (1.0 - confidence) / 2.0  # the two bounds share the error
    epsilon = one_run_bound(m, count, right, delta=delta, confidence=level)
    mu = gdp_one_run_bound(m, count, right, confidence=level)
    claimed = float(claim.epsilon(delta))
    flagged = epsilon > claimed or (reading.mu is not None and mu > reading.mu.claimed)
    return OneRunReport(m, count, right, epsilon, delta, claimed, mu, _gaussian_epsilon(mu, delta), flagged, confidence)


@dataclass(frozen=True, slots=True)
class TrainingReport:
    """A learner audited by many trainings and by one, side by side; both hold together at ``confidence``."""

    many: AuditReport
    one: OneRunReport
    confidence: float

    @property
    def flagged(self) -> bool:
        """Whether either audit contradicts the claim."""
        return self.many.flagged or self.one.flagged

    @property
    def passed(self) -> bool:
        """Whether both audits are complete and contradict nothing."""
        return self.many.passed and not self.one.flagged

    def __str__(self) -> str:
        return f"many trainings: {self.many}\none training: {self.one}"

    def to_json(self) -> str:
        """Both reports as one JSON text."""
        both = {"many": json.loads(self.many.to_json()), "one": json.loads(self.one.to_json())}
        verdict = {"flagged": self.flagged, "passed": self.passed, "confidence": self.confidence}
        return json.dumps({**both, **verdict}, allow_nan=False, sort_keys=True)


def audit_training(
    train: Callable[[Sequence[Any], Generator], Any],
    canaries: Sequence[Any],
    score: Callable[[Any, Sequence[Any]], Any],
    claim: Any,
    *,
    samples: int = 2000,
    seconds: float | None = None,
    confidence: float = 0.99,
    seed: int | None = None,
    **options: Any,
) -> TrainingReport:
    """Audit a learner by many trainings and in one training, side by side.

    The many trainings are of all canaries against all but the first. Their output is the model, every field of it as it
    would be saved, and what it says of that canary. The one training is that of :func:`audit_one_run`. Each has half of
    the error.

    Parameters
    ----------
    train, canaries, score, claim:
        As for :func:`audit_one_run`.
    samples, seconds:
        Trainings on each of the two inputs, and the time they may take.
    options:
        Passed on to :func:`audit_one_run`: ``delta``, ``guesses``, ``two_sided``.

    Examples
    --------
    >>> import numpy as np
    >>> from ledgerwood.accounting import Gaussian
    >>> train = lambda included, rng: np.round(sum(included) + rng.normal(0, 0.4, 50), 6)
    >>> score = lambda model, canaries: [float(model @ canary) for canary in canaries]
    >>> report = audit_training(train, list(np.eye(50)), score, Gaussian(mu=0.5), samples=1000, seed=1)
    >>> report.many.flagged, 0.5 < report.many.mu_lower <= 2.5, report.one.mu_lower < report.many.mu_lower
    (True, True, True)
    """
    if not 0.5 <= confidence < 1:
        raise ParameterError("confidence", "lie in [0.5, 1)", confidence)
    level = 1.0 - (1.0 - confidence) / 2.0
    one = audit_one_run(train, canaries, score, claim, confidence=level, seed=seed, **options)
    seen = list(canaries[:1])

    def trained(included: Sequence[Any], rng: Generator) -> dict[str, Any]:
        model = train(included, rng)
        return {"model": model, "prediction": score(model, seen)}

    pair = (list(canaries), list(canaries[1:]))
    many = audit(trained, claim, pair=pair, confidence=level, samples=samples, seed=seed, seconds=seconds)
    return TrainingReport(many, one, confidence)


def _gaussian_epsilon(mu: float, delta: float) -> float:
    """A certified lower end of the epsilon of mu-GDP at delta."""
    if delta == 0.0:
        return math.inf if mu else 0.0
    return Gaussian(mu=mu).account(delta).lower
