"""The trade-off curve of a cost, from both sides: one composition, from which every question of risk is read.

Costs with dominating pairs are composed once in each direction, and the profile is read off the composed loss at every
point of its grid. Gaussian sums, single releases and selections have a profile that can be asked at any ε; what is
known by a Rényi curve only is asked by the tightest method, and has no lower end.
Proofs: docs/theory/trade-off-curves.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import zip_longest

import numpy as np

from ledgerwood._checks import Array
from ledgerwood.accounting.accountant import methods
from ledgerwood.accounting.accountant.certified import ProfileEnds, advantage_ends, composed, profile_ends
from ledgerwood.accounting.costs.base import Cost, Pricing, install_accountant
from ledgerwood.accounting.costs.parallel import Worst
from ledgerwood.accounting.curves.tradeoff import ProfileTable, RiskCurve, TradeOff
from ledgerwood.errors import MethodUnavailable

#: False-positive rates from here on are answered by one composition; smaller ones by one of their own.
_USUAL_DECADE = -3
#: Places at which a profile is asked before the search between them: of a closed form, and of a slower one.
_PLACES, _FEW_PLACES = 2000, 80
#: The longest stretch of losses whose exponentials are floats.
_LONGEST = 500.0


def risk(cost: Cost, alpha: float, lower: bool = False, rough: bool = False) -> RiskCurve:
    """The curve of a cost, sharp for error rates of at least ``alpha``; with its lower ends if they are wanted."""
    decade = max(min(_USUAL_DECADE, math.floor(math.log10(max(alpha, 1e-300)))), -290)
    return _curve(cost, decade, lower, rough)


def advantage(cost: Cost, lower: bool = False, rough: bool = False) -> tuple[float, float]:
    """Both ends of the total variation distance; of a composed loss one direction will do."""
    options = _options(cost)
    if options:
        found = [advantage(option, lower, rough) for option in options]
        return max(low for low, _ in found), max(high for _, high in found)
    with suppress(MethodUnavailable):
        if composed(cost):
            low, high = advantage_ends(cost, lower=lower, rough=rough)
            return min(low, high), high
    curve = risk(cost, 1.0, lower, rough)
    high = curve.advantage()
    return (min(curve.delta_lower(0.0), high) if lower else 0.0), high


def _options(cost: Cost) -> tuple[Cost, ...]:
    terms = cost.priced_terms()
    one = len(terms) == 1 and terms[0][1] == 1
    return terms[0][0].options if one and isinstance(terms[0][0], Worst) else ()


@lru_cache(maxsize=8)
def _curve(cost: Cost, decade: int, lower: bool, rough: bool) -> RiskCurve:
    if options := _options(cost):
        curves = [_curve(option, decade, lower, rough) for option in options]
        return RiskCurve(tuple(side for curve in curves for side in curve.sides), len(options))
    if not cost.priced_terms():
        return RiskCurve((_both(ProfileTable(np.array([0.0]), np.array([0.0]))),))
    try:
        found = profile_ends(cost, 10.0**decade, rough=rough)
        bulk: tuple[ProfileTable, ...] = ()
        if decade < _USUAL_DECADE and found[0].pmf is not None:
            bulk = tuple(side.forward for side in _curve(cost, _USUAL_DECADE, lower, rough).sides)
        tables = [_table(cost, ends, decade, lower, table) for ends, table in zip_longest(found, bulk)]
    except MethodUnavailable:  # no pair, or none that fits a grid
        tables = [_asked(cost, lambda e: methods.delta(cost, e), None, decade, _FEW_PLACES)]
    if len(tables) == 1:
        return RiskCurve((_both(tables[0]),))
    return RiskCurve((TradeOff(tables[0], tables[1]), TradeOff(tables[1], tables[0])))


def _both(table: ProfileTable) -> TradeOff:
    return TradeOff(table, table)


def _table(cost: Cost, ends: ProfileEnds, decade: int, lower: bool, bulk: ProfileTable | None) -> ProfileTable:
    below = ends.lower if lower else None
    if ends.pmf is None:
        assert ends.upper is not None
        # A recursion bounds the greater profile of both directions and of all orders: no single pair has it.
        return replace(
            _asked(cost, ends.upper, below, decade, _FEW_PLACES if ends.slow else _PLACES), one_pair=ends.one_pair
        )
    pmf = ends.pmf()
    epsilons, deltas = _from_pmf(pmf.losses, pmf.probabilities, pmf.infinite_mass)
    if bulk is not None:  # a composition that is sharp far out may be vague where most of the loss is
        deltas = np.minimum(deltas, bulk.at(epsilons))
    return ProfileTable(epsilons, deltas, lower=below)


def _asked(
    cost: Cost, upper: Callable[[float], float], lower: Callable[[Array], Array] | None, decade: int, places_asked: int
) -> ProfileTable:
    """A table of a profile that can be asked at any ε ≥ 0."""
    top = methods.epsilon(cost, min(cost.infinite_mass() + 10.0 ** (decade - 4), 0.5))
    if cost.pure_epsilon() <= 2 * top:  # the profile may end in a corner
        top = cost.pure_epsilon()
    if not math.isfinite(top):
        top = _LONGEST / 10
    places = np.linspace(0.0, max(min(top, _LONGEST), 1e-12), places_asked)
    return ProfileTable(places, np.array([upper(e) for e in places.tolist()]), upper, lower)


def _from_pmf(losses: Array, probabilities: Array, infinite_mass: float) -> tuple[Array, Array]:
    r"""ε ≥ 0 and δ at the points of an even grid, without cancellation.

    With S the mass above a point, :math:`\delta_j = (1 - e^{-h})S_j + e^{-h}\delta_{j+1}`: all terms are positive.
    δ grows with h and falls with ε, so what rounding may take from either is added to it.
    """
    most = 2.0**-50 * max(abs(float(losses[0])), abs(float(losses[-1])), 1.0)
    step = float(losses[-1] - losses[0]) / max(len(losses) - 1, 1)
    step = step * (1 + 2.0**-50) + most / (len(losses) - 1) if len(losses) > 1 else 1.0
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
    # n positive terms lose less than n units in the last place; an exponent of up to 500 loses 2^-44 of its power.
    deltas = np.minimum(deltas * (1 + 2.0**-52 * (keep + len(losses)) + 2.0**-42), 1.0)
    epsilons = losses[:keep] + most
    if epsilons[0] < 0:  # the chord in e^ε between the neighbours of 0
        if keep > 1:
            share = math.expm1(-epsilons[0]) / math.expm1(epsilons[1] - epsilons[0])
            deltas[0] = min(((1 - share) * deltas[0] + share * deltas[1]) * (1 + 2.0**-48), 1.0)
    else:  # at 0 itself, which lies less than 2 * most to the left: δ rises by no more than that
        deltas[0] = min(deltas[0] + 4 * most, 1.0)
    epsilons[0] = 0.0
    return epsilons, deltas


install_accountant(Pricing(methods.epsilon, methods.delta, methods.account, risk, advantage))
