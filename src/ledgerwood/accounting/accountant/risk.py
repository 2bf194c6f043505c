"""The trade-off curve of a cost, from both sides: one composition, from which every question of risk is read.

Costs with dominating pairs are composed once in each direction, and the profile is read off the composed loss at every
point of its grid. Gaussian sums, single releases and selections have a profile that can be asked at any ε; what is
known by a Rényi curve only is asked by the tightest method, and has no lower end.
Proofs: docs/theory/trade-off-curves.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from ledgerwood._checks import Array
from ledgerwood.accounting.accountant import methods
from ledgerwood.accounting.accountant.certified import ProfileEnds, profile_ends
from ledgerwood.accounting.costs.base import Cost, Pricing, install_accountant
from ledgerwood.accounting.costs.parallel import Worst
from ledgerwood.accounting.curves.tradeoff import ProfileTable, RiskCurve, TradeOff
from ledgerwood.errors import MethodUnavailable

#: False-positive rates from here on are answered by one composition; smaller ones by one of their own.
_USUAL_DECADE = -6
#: Places at which a profile is asked before the search between them: of a closed form, and of a slower one.
_PLACES, _FEW_PLACES = 2000, 240
#: The longest stretch of losses whose exponentials are floats.
_LONGEST = 500.0


def risk(cost: Cost, alpha: float, lower: bool) -> RiskCurve:
    """The curve of a cost, sharp for error rates of at least ``alpha``; with its lower ends if they are wanted."""
    decade = max(min(_USUAL_DECADE, math.floor(math.log10(max(alpha, 1e-300)))), -290)
    return _curve(cost, decade, lower)


@lru_cache(maxsize=8)
def _curve(cost: Cost, decade: int, lower: bool) -> RiskCurve:
    terms = cost.priced_terms()
    if len(terms) == 1 and terms[0][1] == 1 and isinstance(terms[0][0], Worst):
        options = [_curve(option, decade, lower) for option in terms[0][0].options]
        return RiskCurve(tuple(side for option in options for side in option.sides))
    if not terms:
        return RiskCurve((_both(ProfileTable(np.array([0.0]), np.array([0.0]))),))
    try:
        tables = [_table(cost, ends, decade, lower) for ends in profile_ends(cost, 10.0**decade)]
    except MethodUnavailable:  # no pair, or none that fits a grid
        tables = [_asked(cost, lambda e: methods.delta(cost, e), None, decade, _FEW_PLACES)]
    if len(tables) == 1:
        return RiskCurve((_both(tables[0]),))
    return RiskCurve((TradeOff(tables[0], tables[1]), TradeOff(tables[1], tables[0])))


def _both(table: ProfileTable) -> TradeOff:
    return TradeOff(table, table)


def _table(cost: Cost, ends: ProfileEnds, decade: int, lower: bool) -> ProfileTable:
    below = ends.lower if lower else None
    if ends.pmf is None:
        assert ends.upper is not None
        return _asked(cost, ends.upper, below, decade, _FEW_PLACES if ends.slow else _PLACES)
    pmf = ends.pmf()
    return ProfileTable(*_from_pmf(pmf.losses, pmf.probabilities, pmf.infinite_mass), lower=below)


def _asked(
    cost: Cost, upper: Callable[[float], float], lower: Callable[[Array], Array] | None, decade: int, places_asked: int
) -> ProfileTable:
    """A table of a profile that can be asked at any ε ≥ 0."""
    top = methods.epsilon(cost, min(cost.infinite_mass() + 10.0 ** (decade - 4), 0.5))
    if cost.pure_epsilon() <= 2 * top:  # the profile may end in a corner
        top = cost.pure_epsilon()
    if not math.isfinite(top):
        top = _LONGEST / 10
    places = np.linspace(0.0, max(top, 1e-12), places_asked)
    return ProfileTable(places, np.array([upper(e) for e in places.tolist()]), upper, lower)


def _from_pmf(losses: Array, probabilities: Array, infinite_mass: float) -> tuple[Array, Array]:
    r"""ε ≥ 0 and δ at the points of an even grid, without cancellation.

    With S the mass above a point, :math:`\delta_j = (1 - e^{-h})S_j + e^{-h}\delta_{j+1}`: all terms are positive.
    """
    step = float(losses[-1] - losses[0]) / max(len(losses) - 1, 1) or 1.0
    first = int(np.searchsorted(losses, 0.0, side="right")) - 1  # the last point at or below 0
    if first < 0:  # every loss is positive
        missing = math.ceil(float(losses[0]) / step)
        losses = np.concatenate((losses[0] - step * np.arange(missing, 0, -1), losses))
        probabilities = np.concatenate((np.zeros(missing), probabilities))
        first = 0
    losses, probabilities = losses[first:], probabilities[first:]
    keep = min(len(losses), int(_LONGEST / step) + 1)
    above = np.append(np.cumsum(probabilities[:0:-1])[::-1], 0.0)  # the mass above each point
    last = float(above[keep - 1])
    scale = np.exp(-step * np.arange(keep))
    weighted = -math.expm1(-step) * scale * above[:keep]
    weighted[-1] = scale[-1] * last
    deltas = np.cumsum(weighted[::-1])[::-1] / scale + infinite_mass
    deltas = np.minimum(deltas * (1 + 2.0**-50 * (keep + len(losses) + 64)), 1.0)
    epsilons = losses[:keep].copy()
    if epsilons[0] < 0:  # the chord in e^ε between the neighbours of 0
        if keep > 1:
            share = math.expm1(-epsilons[0]) / math.expm1(epsilons[1] - epsilons[0])
            deltas[0] = min(((1 - share) * deltas[0] + share * deltas[1]) * (1 + 2.0**-48), 1.0)
        epsilons[0] = 0.0
    return epsilons, deltas


install_accountant(Pricing(methods.epsilon, methods.delta, methods.account, risk))
