"""Several releases on one Poisson sample: their composed loss becomes the base of the sampled pair.

If (P', Q') dominates the composition (P, Q) at every γ, then ((1-q)Q' + qP', Q') dominates ((1-q)Q + qP, Q), and so do
the reverses, for both profiles are those of the base at another γ (Zhu, Dong & Wang 2022, Theorem 11). From below the
two directions need a law each: what is dominated in one is not in the other, once mass was dropped or moved.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from ledgerwood.accounting.accountant.pld.composition import LossPmf, compose
from ledgerwood.accounting.curves.dominating_pairs.base import LossPair, MaxPair, SubsampledPair
from ledgerwood.accounting.curves.dominating_pairs.composite import BoundedLossPair, ProductPair

__all__ = ["with_cells"]

BASE_TOLERANCE = 1e-7
"""How much the grid of the base may add to its epsilon."""


def with_cells(pair: LossPair, count: int, log_delta: float) -> LossPair:
    """The pair with composed bases in place of products, sharp for so many releases at such a delta."""
    if isinstance(pair, MaxPair):
        return MaxPair([with_cells(option, count, log_delta) for option in pair.pairs])
    if not isinstance(pair, SubsampledPair) or not isinstance(pair.base, ProductPair):
        return pair
    decade = round((log_delta - math.log(count) - math.log(pair.rate) - 14) / math.log(10))
    base = _composed(pair.base, max(min(decade, -6), -290), pair.direction == "add")
    return SubsampledPair(base, pair.rate, pair.direction)


@lru_cache(maxsize=16)
def _composed(product: ProductPair, decade: int, add: bool) -> BoundedLossPair:
    delta = 10.0**decade
    parts = tuple((with_cells(pair, n, math.log(delta)), n) for pair, n in product.parts)
    law = compose(parts, delta=delta, tolerance=BASE_TOLERANCE, whole=True)
    below = law
    if add:
        backward = tuple((with_cells(pair.reversed(), n, math.log(delta)), n) for pair, n in product.parts)
        below = compose(backward, delta=delta, tolerance=BASE_TOLERANCE, whole=True)
    lower = below.pmf(upper=False)
    keep = lower.probabilities > 0
    loss, log_p = lower.losses[keep], np.log(lower.probabilities[keep])
    if add:  # the law of log dQ/dP under Q, turned round; what Q has and P has not is at infinite loss there
        lowest = BoundedLossPair(-loss[::-1], (log_p - loss)[::-1], 0.0, lower.infinite_mass)
    else:  # moved to smaller losses, the masses of Q may exceed 1: the sampled pair has Q in both places
        q_mass = math.fsum(np.exp(log_p - loss).tolist()) * (1 + 2.0**-40)
        lowest = BoundedLossPair(loss, log_p - math.log(max(q_mass, 1.0)), lower.infinite_mass, 0.0)
    return _from_above(law.pmf(upper=True), lowest)


def _from_above(pmf: LossPmf, lower: LossPair) -> BoundedLossPair:
    keep = pmf.probabilities > 0
    loss, p = pmf.losses[keep], pmf.probabilities[keep]
    q_mass = math.fsum((p * np.exp(-np.maximum(loss, -700.0))).tolist())
    lost = max(0.0, 1.0 - q_mass) + pmf.q_slack
    return BoundedLossPair(loss, np.log(p), pmf.infinite_mass, lost, lower)
