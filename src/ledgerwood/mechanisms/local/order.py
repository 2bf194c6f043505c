r"""How much order a map keeps: exact probabilities and P1's lower bounds.

For a pair :math:`x_1 < x_2` randomised independently, order is kept when :math:`o_1 < o_2` (ties do not
count). P1's Definition 2.4 asks for a bound over pairs "at most t apart"; its theorems and tables speak of
pairs *exactly* t apart, and so does :math:`\gamma(t)` here, the least probability over those pairs.
"""

from __future__ import annotations

import math

import numpy as np

from ledgerwood.errors import ParameterError

from .domain import within
from .laws import Floats
from .maps import AdjMap, GlobalMap
from .nominal import GeneralisedRandomisedResponse
from .ordered import OrderedMechanism


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
    r"""P1 Theorem 4.2, with :math:`q = e^{-\varepsilon/2}`:

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


def randomised_response_order(mechanism: GeneralisedRandomisedResponse, distance: int) -> float:
    r"""P1 Theorem 4.3, exact: all pairs t apart have the same probability.

    .. math:: \gamma(t) = p_1^2 + p_1 p_2 (|D| - 3) + p_2^2 \left(\tfrac12 |D|(|D|-3) + 2\right)
              + p_2 (p_1 - p_2)\, t

    >>> from ledgerwood.mechanisms.local import Domain, GeneralisedRandomisedResponse
    >>> mechanism = GeneralisedRandomisedResponse(Domain(0, 9), epsilon=2.0)
    >>> f"{randomised_response_order(mechanism, 1):.3f} {randomised_response_order(mechanism, 9):.3f}"
    '0.557 0.748'
    """
    n = mechanism.domain.size
    t = within("distance", distance, at_least=1, at_most=n - 1)
    p2 = 1 / (n - 1 + math.exp(mechanism.epsilon)) if mechanism.epsilon < 700 else 0.0
    p1 = 1 / (1 + (n - 1) * math.exp(-mechanism.epsilon))
    return p1 * p1 + p1 * p2 * (n - 3) + p2 * p2 * (n * (n - 3) / 2 + 2) + p2 * (p1 - p2) * t


def adj_map_bound(mechanism: AdjMap, distance: int) -> float:
    r"""P1 Theorem 4.6, corrected, for even parts of width :math:`\theta`.

    With :math:`T = \lfloor t/\theta \rfloor` and :math:`q = e^{-\varepsilon_{prt}/2}`,

    .. math:: \gamma(t) \ge 1 - q^T \left( \frac{(1-q^2)\,T + 1}{(1+q-q^{T+1}-q^{k-T})(1+q)}
              - (1 - \mu)\,\frac{(1-q)^2 (T+1)}{2 (1+q)^2} \right), \qquad
              \mu = \frac{1 - e^{-\varepsilon_{ner}/2}}{1 - e^{-\theta\varepsilon_{ner}/2}}

    The second term counts pairs sent to one part. P1 prints it without :math:`1-\mu`, as if half of those
    pairs kept their order; but ties inside the part do not, and one has at least half of the *untied* ones.
    The tie probability :math:`\sum_o p_1(o) p_2(o)` is at most the largest probability of a value in a part,
    which is :math:`\mu` (a value at its end). P1's form fails when the parts are small or
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
