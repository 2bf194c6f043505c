r"""What released values are good for: the order they keep, and range queries.

OpBoost is Li et al. 2022 (arXiv:2210.01318).

**Pairs.** For a pair :math:`x_1 < x_2` randomized independently, order is kept when :math:`o_1 < o_2` (ties do not
count). OpBoost's Definition 2.4 asks for a bound over pairs "at most t apart"; its theorems and tables are about
pairs *exactly* t apart, and so is :math:`\gamma(t)` here, the least probability over those pairs.

**OpBoost's weighted Kendall coefficient**, in O(n log n): Definition 6.1 with the weight that OpBoost chooses, the
distance of the ordinal numbers of :math:`r`:

.. math:: \tau_w(r, s) = \frac{\langle r, s\rangle_w}
          {\sqrt{\langle r, r\rangle_w \langle s, s\rangle_w}}, \qquad
          \langle r, s \rangle_w
          = \sum_{i<j} \mathrm{sgn}(r_i - r_j)\,\mathrm{sgn}(s_i - s_j)\,|\rho_i - \rho_j|

:math:`\rho` are the ranks of r. Equal values get their mean rank, so the coefficient does not depend on the
order of the records; OpBoost does not say. (`scipy.stats.weightedtau` has additive weights :math:`1/(1+rank)`:
another coefficient.)

Since :math:`\mathrm{sgn}(r_i - r_j)|\rho_i - \rho_j| = \rho_i - \rho_j`, the numerator needs no pairs:

.. math:: \langle r, s\rangle_w = \sum_i \rho_i \bigl(\#\{s_j < s_i\} - \#\{s_j > s_i\}\bigr)
          = 2 \sum_i \rho_i \left(\sigma_i - \tfrac{n+1}{2}\right)

with :math:`\sigma` the mean ranks of s: twice n times the covariance of the ranks. And
:math:`\langle s, s\rangle_w` is :math:`\langle r, r\rangle_w` less the weight of pairs tied in s. So
**without ties in s, OpBoost's coefficient is Spearman's rank correlation**, which says in one line what it
measures.

**Range queries**: what share of the values lies in [a, b]? OpBoost (§6.2) answers with the share of *released* values
in the range, which randomization flattens. The mechanism's probabilities are public, so the released values also have
a likelihood; its maximum (the EM algorithm, post-processing, no cost) estimates the shares of the raw values and
answers every range.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ledgerwood.errors import ParameterError
from ledgerwood.mechanisms.local.base import OrderedMechanism
from ledgerwood.mechanisms.local.distributions import Floats
from ledgerwood.mechanisms.local.domain import Codes, numeric, within
from ledgerwood.mechanisms.local.order_preserving import AdjMap, GlobalMap
from ledgerwood.mechanisms.local.randomizers import GeneralizedRandomizedResponse


def order_probabilities(mechanism: OrderedMechanism) -> Floats:
    r"""``result[x1, x2]`` = :math:`\Pr[o_1 < o_2]` exactly, for all pairs of inputs: one matrix product.

    >>> from ledgerwood.mechanisms.local import Domain, GlobalMap
    >>> order_probabilities(GlobalMap(Domain(0, 2), epsilon=2.0)).round(2).tolist()
    [[0.24, 0.58, 0.77], [0.12, 0.29, 0.58], [0.05, 0.12, 0.24]]
    """
    p = mechanism.probabilities(mechanism.domain.values)
    below = np.cumsum(p, axis=1) - p
    return np.asarray(below @ p.T)


def order_preservation(mechanism: OrderedMechanism) -> Floats:
    r""":math:`\gamma(t)` for t = 0, ..., size - 1: the least probability that a pair t apart keeps its order.

    >>> from ledgerwood.mechanisms.local import Domain
    >>> gamma = order_preservation(GlobalMap(Domain(1, 100), epsilon=0.1))
    >>> f"{gamma[5]:.4f} {gamma[50]:.4f}"
    '0.5133 0.8708'
    """
    kept = order_probabilities(mechanism)
    return np.array([np.diagonal(kept, t).min() for t in range(kept.shape[0])])


def global_map_bound(mechanism: GlobalMap, distance: int) -> float:
    r"""OpBoost, Theorem 4.2, with :math:`q = e^{-\varepsilon/2}`:

    .. math:: \gamma(t) \ge 1 - \frac{(1-q^2)\,t + 1}{(1 + q - q^{t+1} - q^{|D|-t})(1+q)}\; q^t

    >>> from ledgerwood.mechanisms.local import Domain, GlobalMap, order_preservation
    >>> mechanism = GlobalMap(Domain(0, 99), epsilon=0.5)
    >>> bool(global_map_bound(mechanism, 20) <= order_preservation(mechanism)[20])
    True
    """
    t = within("distance", distance, at_least=1, at_most=mechanism.domain.size - 1)
    return _theorem_4_2(mechanism.epsilon / 2, mechanism.domain.size, t)


def _theorem_4_2(rate: float, size: int, t: int) -> float:
    q = math.exp(-rate)
    # 1 + q - q**(t+1) - q**(size-t), without cancellation for a small rate
    spread = -math.expm1(-rate * (size - t)) - q * math.expm1(-rate * t)
    return 1 - ((1 - q * q) * t + 1) / (spread * (1 + q)) * math.exp(-rate * t)


def randomized_response_order(mechanism: GeneralizedRandomizedResponse, distance: int) -> float:
    r"""OpBoost, Theorem 4.3, exact: all pairs t apart have the same probability.

    .. math:: \gamma(t) = p_1^2 + p_1 p_2 (|D| - 3) + p_2^2 \left(\tfrac12 |D|(|D|-3) + 2\right)
              + p_2 (p_1 - p_2)\, t

    >>> from ledgerwood.mechanisms.local import Domain, GeneralizedRandomizedResponse
    >>> mechanism = GeneralizedRandomizedResponse(Domain(0, 9), epsilon=2.0)
    >>> f"{randomized_response_order(mechanism, 1):.3f} {randomized_response_order(mechanism, 9):.3f}"
    '0.557 0.748'
    """
    n = mechanism.domain.size
    t = within("distance", distance, at_least=1, at_most=n - 1)
    p2 = 1 / (n - 1 + math.exp(mechanism.epsilon)) if mechanism.epsilon < 700 else 0.0
    p1 = 1 / (1 + (n - 1) * math.exp(-mechanism.epsilon))
    return p1 * p1 + p1 * p2 * (n - 3) + p2 * p2 * (n * (n - 3) / 2 + 2) + p2 * (p1 - p2) * t


def adj_map_bound(mechanism: AdjMap, distance: int) -> float:
    r"""OpBoost, Theorem 4.6, corrected, for even parts of width :math:`\theta`.

    With :math:`T = \lfloor t/\theta \rfloor` and :math:`q = e^{-\varepsilon_{prt}/2}`,

    .. math:: \gamma(t) \ge 1 - q^T \left( \frac{(1-q^2)\,T + 1}{(1+q-q^{T+1}-q^{k-T})(1+q)}
              - (1 - \mu)\,\frac{(1-q)^2 (T+1)}{2 (1+q)^2} \right), \qquad
              \mu = \frac{1 - e^{-\varepsilon_{ner}/2}}{1 - e^{-\theta\varepsilon_{ner}/2}}

    The second term counts pairs sent to one part. OpBoost prints it without :math:`1-\mu`, as if half of those
    pairs kept their order; but ties inside the part do not, and one has at least half of the *untied* ones.
    The tie probability :math:`\sum_o p_1(o) p_2(o)` is at most the largest probability of a value in a part,
    which is :math:`\mu` (a value at its end). OpBoost's form fails when the parts are small or
    :math:`\varepsilon_{ner}` is large: :math:`|D| = 40, \theta = 2, \alpha = 20, \varepsilon = 3` has
    :math:`\gamma(1)` 0.17 below it.

    >>> from ledgerwood.mechanisms.local import AdjMap, Domain, order_preservation
    >>> mechanism = AdjMap.from_epsilon(Domain(0, 99), 10, epsilon=0.5, alpha=1.0)
    >>> bool(adj_map_bound(mechanism, 50) <= order_preservation(mechanism)[50])
    True
    """
    widths = mechanism.partition.widths
    if len(set(widths[:-1])) > 1 or widths[-1] > widths[0]:
        raise ParameterError("partition", "be even for this bound", widths, "Use order_preservation: it is exact.")
    t = within("distance", distance, at_least=1, at_most=mechanism.domain.size - 1)
    k, theta, rate = mechanism.partition.count, widths[0], mechanism.epsilon_prt / 2
    T, q = t // theta, math.exp(-rate)
    tied = math.expm1(-mechanism.epsilon_ner / 2) / math.expm1(-widths[-1] * mechanism.epsilon_ner / 2)
    together = (1 - tied) * (T + 1) / 2 * ((1 - q) / (1 + q)) ** 2 * math.exp(-rate * T)
    return _theorem_4_2(rate, k, T) + together if k > 1 else together


def weighted_kendall(raw: ArrayLike, released: ArrayLike) -> float:
    """OpBoost's measure of the order that released values keep; nan if either side has one value only.

    >>> weighted_kendall([1, 2, 3, 4], [10, 20, 20, 90])
    0.948683298...
    """
    r, s = numeric("raw", raw).ravel(), numeric("released", released).ravel()
    if r.size != s.size:
        raise ParameterError("released", f"have as many values as raw, {r.size}", s.size)
    rho, sigma = _mean_ranks(r), _mean_ranks(s)
    centre = (r.size + 1) / 2
    both = 2 * float(np.dot(rho, sigma - centre))
    of_raw = 2 * float(np.dot(rho, rho - centre))
    of_released = of_raw - _weight_of_ties(rho, s)
    if of_raw <= 0 or of_released <= 0:
        return math.nan
    return both / (math.sqrt(of_raw) * math.sqrt(of_released))


def _mean_ranks(values: Floats) -> Floats:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[inverse])


def _weight_of_ties(rho: Floats, s: Floats) -> float:
    """Sum of ``|rho_i - rho_j|`` over pairs tied in s; the j-th of a group counts 2j - size + 1 times."""
    order = np.lexsort((rho, s))
    ranks, groups = rho[order], s[order]
    starts = np.flatnonzero(np.concatenate([[True], groups[1:] != groups[:-1]]))
    sizes = np.diff(np.append(starts, s.size))
    place = np.arange(s.size) - np.repeat(starts, sizes)
    return float(np.dot(ranks, 2 * place - np.repeat(sizes, sizes) + 1))


@dataclass(frozen=True)
class RangeQueries:
    """Answers to range queries from estimated shares of the values of a domain.

    >>> from ledgerwood.mechanisms.local import Domain, GlobalMap
    >>> mechanism = GlobalMap(Domain(1, 4), epsilon=3.0)
    >>> queries = RangeQueries.from_released(mechanism, [1, 1, 2, 4])
    >>> queries.share(1, 2)
    0.75
    """

    lower: int
    shares: tuple[float, ...]

    @classmethod
    def from_released(cls, mechanism: OrderedMechanism, released: ArrayLike) -> RangeQueries:
        """OpBoost's estimator: the shares of the released values themselves (outputs must be domain values)."""
        _check_outputs(mechanism)
        return cls(mechanism.domain.lower, tuple(_shares(mechanism.domain.encode(released), mechanism.domain.size)))

    @classmethod
    def most_likely(cls, mechanism: OrderedMechanism, released: ArrayLike, *, iterations: int = 200) -> RangeQueries:
        r"""The maximum-likelihood shares by EM from the uniform ones.

        Each step, :math:`\pi_x \leftarrow \pi_x \sum_o f_o \Pr[o|x] / (\pi P)_o`, f the shares of the
        outputs, never lowers the likelihood; stopping early regularises.
        """
        within("iterations", iterations, at_least=1)
        p = mechanism.probabilities(mechanism.domain.values)
        codes = np.clip(numeric("released", released).astype(np.int64) - mechanism.outputs[0], 0, p.shape[1] - 1)
        observed = _shares(codes, p.shape[1])
        shares = np.full(p.shape[0], 1 / p.shape[0])
        for _ in range(iterations):
            expected = shares @ p
            ratio = np.divide(observed, expected, out=np.zeros_like(observed), where=expected > 0)
            shares = shares * (p @ ratio)
        return cls(mechanism.domain.lower, tuple((shares / shares.sum()).tolist()))

    def share(self, start: int, stop: int) -> float:
        """The estimated share of values in ``start, ..., stop``, both included."""
        top = self.lower + len(self.shares) - 1
        start = within("start", start, at_least=self.lower, at_most=top)
        stop = within("stop", stop, at_least=start, at_most=top)
        return float(np.sum(self.shares[start - self.lower : stop - self.lower + 1]))

    def answer(self, starts: ArrayLike, stops: ArrayLike) -> Floats:
        """The estimated shares of many ranges at once."""
        first, last = np.asarray(starts), np.asarray(stops)
        top = self.lower + len(self.shares) - 1
        if first.dtype.kind not in "iu" or last.dtype.kind not in "iu" or first.shape != last.shape:
            raise ParameterError("starts", "be integers, as many as stops", first.shape)
        if first.size and not (self.lower <= first.min() and (first <= last).all() and last.max() <= top):
            raise ParameterError("starts", f"give ranges inside [{self.lower}, {top}]", "an empty or outer range")
        total = np.concatenate([[0.0], np.cumsum(self.shares)])
        return np.asarray(total[last - self.lower + 1] - total[first - self.lower])


def _check_outputs(mechanism: OrderedMechanism) -> None:
    if mechanism.outputs.size != mechanism.domain.size:
        raise ParameterError(
            "mechanism", "release values of its domain", type(mechanism).__name__, "Use most_likely instead."
        )


def _shares(codes: Codes, size: int) -> Floats:
    counts = np.bincount(codes.ravel(), minlength=size)
    return np.asarray(counts / max(1, counts.sum()))
