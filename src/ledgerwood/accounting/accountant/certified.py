"""The tightest certified accountants: privacy-loss distributions, and the optimal adaptive recursion.

``optimal`` looks at what the cost is made of:

- only Gaussian releases: the exact Gaussian profile;
- one release with a dominating pair: its exact profile;
- equal pure or approximate steps: the exact composition of Kairouz, Oh & Viswanath;
- bounded-range steps (selections) next to anything that has a dominating pair: the recursion of
  :mod:`~ledgerwood.accounting.accountant.bounded_range.recursion` for the selections, convolved with the rest
  (docs/theory/optimal-composition.md);
- otherwise: privacy-loss distributions (``pld``).

Every answer is an upper bound in floating point, and a certified lower end comes with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ledgerwood._checks import Array
from ledgerwood.accounting.accountant.closed_form import CLOSED_FORMS, Method, Price
from ledgerwood.accounting.costs.base import Composition, Cost, compose, sequence
from ledgerwood.accounting.costs.guarantees import ApproxDP, PureDP
from ledgerwood.accounting.costs.parallel import Worst
from ledgerwood.accounting.costs.selection import BoundedRange
from ledgerwood.accounting.curves.conversion import epsilon_from_rdp, log_delta_from_rdp
from ledgerwood.accounting.curves.gaussian import log_delta as log_gaussian
from ledgerwood.accounting.curves.numerics import boundary, least
from ledgerwood.errors import MethodUnavailable

if TYPE_CHECKING:
    from ledgerwood.accounting.accountant.bounded_range.profile import RangeProfile
    from ledgerwood.accounting.accountant.pld.composition import ComposedLoss, LossPmf
    from ledgerwood.accounting.curves.dominating_pairs.base import LossPair

_CLOSED = {method.name: method for method in CLOSED_FORMS}
#: Grid points of the rest's loss: its discretisation adds about 1e-5 of its own spread.
_MIXED_POINTS = 2**15
_TOO_DIFFERENT = "its releases differ by too many orders of magnitude for one grid; use 'rdp'"
#: Relative rounding of a pair's closed-form profile, added to log δ.
_PROFILE_ROUNDING = 1e-10


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf


def _directions(terms: tuple[tuple[Cost, int], ...], method: str) -> list[list[tuple[LossPair, int]]]:
    """The (pair, count) lists to compose: one if everything is symmetric, else both directions."""
    found: list[tuple[tuple[LossPair, ...], int]] = []
    for part, n in terms:
        pairs = part.pairs()
        if pairs is None:
            reason = f"{part!r} is known only by its Rényi curve, which has no dominating pair; use 'rdp'"
            raise MethodUnavailable(method, reason)
        found.append((pairs, n))
    if all(len(pairs) == 1 for pairs, _ in found):
        return [[(pairs[0], n) for pairs, n in found]]
    return [[(pairs[0], n) for pairs, n in found], [(pairs[-1], n) for pairs, n in found]]


# -- privacy-loss distributions -------------------------------------------------------------------------------------


def _with_cells(directions: list[list[tuple[LossPair, int]]], log_delta: float) -> list[list[tuple[LossPair, int]]]:
    from ledgerwood.accounting.accountant.pld.composition import with_cells

    return [[(with_cells(pair, n, log_delta), n) for pair, n in pairs] for pairs in directions]


class _Losses:
    """The composed losses of all directions on grids for one decade of δ: coarse, and finer where it counts."""

    def __init__(self, cost: Cost, decade: int) -> None:
        self._delta = 10.0**decade
        self._pairs = _with_cells(_directions(cost.priced_terms(), "pld"), math.log(self._delta))
        self._rough = [self._compose(i, None) for i in range(len(self._pairs))]
        self._fine: dict[int, ComposedLoss] = {}

    def _compose(self, index: int, rough: ComposedLoss | None) -> ComposedLoss:
        from ledgerwood.accounting.accountant.pld.composition import ROUGH, compose
        from ledgerwood.accounting.accountant.pld.grid_choice import TOLERANCE

        try:
            tolerance = ROUGH if rough is None else TOLERANCE
            return compose(self._pairs[index], delta=self._delta, tolerance=tolerance, rough=rough)
        except (ArithmeticError, MemoryError, ValueError):
            raise MethodUnavailable("pld", _TOO_DIFFERENT) from None

    def _at(self, index: int) -> ComposedLoss:
        if index not in self._fine:
            self._fine[index] = self._compose(index, self._rough[index])
        return self._fine[index]

    def worst(self, question: Callable[[ComposedLoss], float]) -> float:
        """The greatest answer of all directions; the coarse ones are upper bounds, and rule most of them out."""
        answers = sorted(((question(loss), i) for i, loss in enumerate(self._rough)), reverse=True)
        worst = -math.inf
        for coarse, i in answers:
            if coarse > worst:
                worst = max(worst, min(coarse, question(self._at(i))))
        return worst

    def sharp(self, delta: float) -> bool:
        """Whether rounding moves the answer at δ by little."""
        return all(loss.sharp_at(delta) for loss in self._fine.values())

    def lower(self, delta: float) -> float:
        """The lower end of ε, of the directions that count."""
        self.worst(lambda loss: loss.epsilon_upper(delta))
        return max(loss.epsilon_lower(delta) for loss in self._fine.values())


@lru_cache(maxsize=8)
def _losses(cost: Cost, decade: int) -> _Losses:
    return _Losses(cost, decade)


def _decade(log_delta: float) -> int:
    """The power of ten nearest to δ: ε(δ) and δ(ε) of the same point are read off the same grid."""
    return max(min(round(log_delta / math.log(10)), -1), -300)


@lru_cache(maxsize=8)
def _mixed_losses(cost: Cost, log_delta: float, largest_tilt: float) -> tuple[ComposedLoss, ...]:
    from ledgerwood.accounting.accountant.pld.composition import compose

    delta = math.exp(max(log_delta, -700.0))
    return tuple(
        compose(pairs, delta=delta, most_points=_MIXED_POINTS, largest_tilt=largest_tilt, whole=True)
        for pairs in _with_cells(_directions(cost.priced_terms(), "pld"), math.log(delta))
    )


def _pld_epsilon(cost: Cost, delta: float) -> Price:
    if not cost.priced_terms():
        return Price(0.0)
    if delta == 0.0 or delta < cost.infinite_mass():
        _directions(cost.priced_terms(), "pld")
        return Price(cost.pure_epsilon() if cost.infinite_mass() <= delta else math.inf)
    losses = _losses(cost, _decade(math.log(delta)))
    value = max(0.0, min(losses.worst(lambda loss: loss.epsilon_upper(delta)), cost.pure_epsilon()))
    if 0 < value < math.inf and not losses.sharp(delta):
        value = _least_epsilon(cost, delta, value)
    return Price(value)


def _least_epsilon(cost: Cost, delta: float, start: float) -> float:
    """The least ε whose δ is within the target on any decade's grid; for a grid whose own answer is not sharp."""

    def gap(epsilon: float) -> float:
        return _pld_log_delta(cost, epsilon).value - math.log(delta)

    if gap(start * (1 - 1e-3)) > 0:
        return start
    good = start * (1 - 1e-3)
    for _ in range(8):
        bad = good / 2
        if gap(bad) > 0:
            return boundary(gap, good=good, bad=bad, tolerance=1e-4 * good)
        good = bad
    return good


def _pld_lower(cost: Cost, delta: float) -> float:
    if not cost.priced_terms() or delta == 0.0:
        return 0.0
    return max(0.0, _losses(cost, _decade(math.log(delta))).lower(delta))


def _pld_log_delta(cost: Cost, epsilon: float) -> Price:
    if not cost.priced_terms():
        return Price(-math.inf)
    if epsilon >= cost.pure_epsilon():
        return Price(_log(cost.infinite_mass()))
    decade = _decade(_rough_log_delta(cost, epsilon))
    value = math.inf
    for _ in range(3):
        value = _losses(cost, decade).worst(lambda loss: loss.log_delta_upper(epsilon))
        if _decade(value) == decade:
            break
        decade = _decade(value)
    return Price(value)


def _rough_log_delta(cost: Cost, epsilon: float) -> float:
    from ledgerwood.accounting.accountant.pld.composition import ROUGH, compose

    try:
        directions = _with_cells(_directions(cost.priced_terms(), "pld"), -30.0)
        return max(compose(pairs, epsilon=epsilon, tolerance=ROUGH).log_delta_upper(epsilon) for pairs in directions)
    except (ArithmeticError, MemoryError, ValueError):
        raise MethodUnavailable("pld", _TOO_DIFFERENT) from None


def rough_log_delta(cost: Cost, epsilon: float) -> float | None:
    """Log δ at ε on coarse grids, quickly: an upper bound; None where no privacy-loss distributions are composed."""
    if _options(cost) or epsilon >= cost.pure_epsilon() or _route(cost) != "pld":
        return None
    return _rough_log_delta(cost, epsilon)


# -- the recursion, convolved with the rest ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Mixed:
    """Selections by the recursion, then the rest by convolution: nothing, a Gaussian, or loss distributions."""

    profile: RangeProfile
    mu: float
    upper_losses: tuple[LossPmf, ...]
    lower_losses: tuple[LossPmf, ...]

    def log_upper(self, gamma: float) -> float:
        if self.upper_losses:
            values = [
                float(self.profile.pmf_upper(pmf.losses, pmf.probabilities, pmf.infinite_mass, gamma))
                for pmf in self.upper_losses
            ]
        elif self.mu:
            values = [float(self.profile.gaussian_upper(self.mu, gamma))]
        else:
            values = [float(self.profile.upper(gamma))]
        return min(0.0, _log(max(values)))

    def log_lower(self, gamma: float) -> float:
        if self.lower_losses:
            values = [
                float(self.profile.pmf_lower(pmf.losses, pmf.probabilities, pmf.infinite_mass, gamma))
                for pmf in self.lower_losses
            ]
        elif self.mu:
            values = [float(self.profile.gaussian_lower(self.mu, gamma))]
        else:
            values = [float(self.profile.lower(gamma))]
        return _log(max(values))


def _parts(cost: Cost) -> tuple[list[tuple[float, int]], Cost]:
    """The selections in their order (equal ones that follow each other together), and everything else."""
    steps: list[tuple[float, int]] = []
    for part, n in cost.priced_terms():
        if isinstance(part, BoundedRange) and part.size > 0:
            if steps and steps[-1][0] == part.size:
                steps[-1] = part.size, steps[-1][1] + n
            else:
                steps.append((part.size, n))
    rest = [(part, n) for part, n in cost.priced_terms() if not isinstance(part, BoundedRange)]
    return steps, compose(rest, neighbours=cost.neighbours)


#: (grid cells per ε, most cell evaluations): the finest grid that fits is used; about 1e9 evaluations take a second.
_GRIDS = ((64, 6e7), (32, 9e8), (16, 1.2e9), (8, 1.5e9), (4, 2e9))


def _grid(steps: tuple[tuple[float, int], ...], ordered: bool, gamma_max: float) -> tuple[int, float]:
    """Cells per ε of the finest grid that fits, and its number of cell evaluations."""
    from ledgerwood.accounting.accountant.bounded_range.recursion import TooLarge, estimated_work

    for cells, most in _GRIDS:
        try:
            work = estimated_work(steps, ordered=ordered, gamma_max=gamma_max, cells=cells)
        except TooLarge:
            continue
        if work <= most:
            return cells, work
    reason = "the recursion over this many selections would take too long; use 'rdp', or merge selections of equal size"
    raise MethodUnavailable("optimal", reason)


@lru_cache(maxsize=16)
def _range_profile(
    steps: tuple[tuple[float, int], ...], ordered: bool, gamma_max: float, lower: bool, cells: int | None
) -> RangeProfile:
    from ledgerwood.accounting.accountant.bounded_range.recursion import bounded_range_profile

    finest = _grid(steps, ordered, gamma_max)[0]
    chosen = finest if cells is None else min(cells, finest)
    upper = _range_profile(steps, ordered, gamma_max, False, cells) if lower else None
    return bounded_range_profile(
        steps, ordered=ordered, gamma_max=gamma_max, cells=chosen, lower=lower, upper=upper
    )  # fmt: skip


def _selections(cost: Cost, log_floor: float) -> tuple[tuple[tuple[float, int], ...], bool, float]:
    """The selections, whether their order is fixed, and the gamma up to which their profile is needed.

    Beyond it the profile is bounded by its value there, which Theorem 1 puts below the floor.
    """
    steps, _ = _parts(cost)
    selections = compose([(BoundedRange(e), n) for e, n in steps])
    widest = max(e for e, _ in steps)
    gamma_max = min(max(_epsilon_at(selections, log_floor), widest), selections.pure_epsilon())
    return tuple(steps), isinstance(cost, Composition) and cost.ordered, gamma_max


@lru_cache(maxsize=16)
def _mixed(cost: Cost, log_floor: float, *, lower: bool = False, cells: int | None = None) -> _Mixed:
    """The composition, sharp for δ down to e^log_floor; on the finest grid that fits, or on a coarser one."""
    profile = _range_profile(*_selections(cost, log_floor), lower, cells)
    _, rest = _parts(cost)
    mu = rest.mu()
    if mu is not None:
        return _Mixed(profile, mu, (), ())
    tilt = _CLOSED["rdp"].epsilon(cost, math.exp(max(log_floor, -700.0))).order
    losses = _mixed_losses(rest, log_floor, 1e4 if tilt is None else min(tilt, 1e4))
    lower_losses = tuple(x.pmf(upper=False) for x in losses) if lower else ()
    return _Mixed(profile, 0.0, tuple(x.pmf() for x in losses), lower_losses)


def _epsilon_at(cost: Cost, log_delta: float) -> float:
    """ε by Theorem 1 at a δ that may be too small for a float."""
    if log_delta > -690:
        return epsilon_from_rdp(cost.renyi, math.exp(log_delta))[0]
    return least(lambda e: log_delta_from_rdp(cost.renyi, e)[0] <= log_delta, guess=1.0, tolerance=1e-3)


def _floor(log_delta: float) -> float:
    """How far below log δ the profile stays sharp; in coarse steps, so that neighbouring questions share it."""
    return 7.0 * math.floor((log_delta - 7.0) / 7.0)


def _recursion_epsilon(cost: Cost, delta: float) -> Price:
    target = math.log(delta)
    top = min(_CLOSED["rdp"].epsilon(cost, delta).value, cost.pure_epsilon())
    if delta <= cost.infinite_mass() or not math.isfinite(top):
        return Price(top)
    mixed = _mixed(cost, _floor(target))

    def gap(gamma: float) -> float:
        return mixed.log_upper(gamma) - target

    if gap(0.0) <= 0:
        return Price(0.0)
    if gap(top) > 0:
        return Price(top)
    good, bad = top, 0.0
    trial = 0.85 * top
    if gap(trial) > 0:
        bad = trial
    else:
        good = trial
    return Price(boundary(gap, good=good, bad=bad, tolerance=1e-9 * top))


def _recursion_lower(cost: Cost, delta: float) -> float:
    if delta <= cost.infinite_mass():
        return 0.0
    target = math.log(delta)
    top = _recursion_epsilon(cost, delta).value
    mixed = _mixed(cost, _floor(target), lower=True)

    def gap(gamma: float) -> float:  # accepted where even the lower end of δ exceeds the target
        return target - mixed.log_lower(gamma)

    if top == 0 or gap(0.0) > 0:
        return 0.0
    if gap(top) <= 0:
        return top
    return boundary(gap, good=0.0, bad=top, tolerance=1e-9 * top)


def _recursion_log_delta(cost: Cost, epsilon: float) -> Price:
    if epsilon >= cost.pure_epsilon():
        return Price(_log(cost.infinite_mass()))
    bound = _CLOSED["rdp"].log_delta(cost, epsilon).value
    return Price(min(bound, _mixed(cost, _floor(bound)).log_upper(epsilon)))


@dataclass(frozen=True, slots=True)
class RecursionGrid:
    """The grid on which a cost's selections are priced: cells per ε, and cell evaluations (about 1e9 a second)."""

    cells: int
    work: float


def grid_of(cost: Cost, epsilon: float) -> RecursionGrid | None:
    """The grid behind ``optimal``'s δ at ε, or None if no recursion is needed."""
    if _options(cost) or epsilon >= cost.pure_epsilon() or _route(cost) != "recursion":
        return None
    log_floor = _floor(_CLOSED["rdp"].log_delta(cost, epsilon).value)
    return RecursionGrid(*_grid(*_selections(cost, log_floor)))


def coarse_log_delta(cost: Cost, epsilon: float, cells: int) -> float:
    """Log δ at ε on a grid of at most this many cells per ε: an upper bound, quicker and looser than ``optimal``'s."""
    bound = _CLOSED["rdp"].log_delta(cost, epsilon).value
    return min(bound, _mixed(cost, _floor(bound), cells=cells).log_upper(epsilon))


# -- the choice -----------------------------------------------------------------------------------------------------


def _route(cost: Cost) -> str:
    terms = cost.priced_terms()
    if cost.mu() is not None:
        return "gdp"
    if len(terms) == 1 and terms[0][1] == 1 and all(p.closed_form for p in terms[0][0].pairs() or ()):
        return "profile" if terms[0][0].pairs() is not None else "pld"
    stated = {(part.pure_epsilon(), part.infinite_mass()) for part, _ in terms}
    if all(isinstance(part, (PureDP, ApproxDP)) for part, _ in terms) and len(stated) == 1:
        return "kov"
    if any(isinstance(part, BoundedRange) and part.size > 0 for part, _ in terms):
        _directions(terms, "optimal")
        return "recursion"
    return "pld"


def _profile_log_delta(cost: Cost, epsilon: float) -> Price:
    if epsilon >= cost.pure_epsilon():
        return Price(_log(cost.infinite_mass()))
    return Price(min(0.0, max(float(pair.log_delta(epsilon)) for pair in _own_pairs(cost)) + _PROFILE_ROUNDING))


def _own_pairs(cost: Cost) -> tuple[LossPair, ...]:
    pairs = cost.priced_terms()[0][0].pairs()
    assert pairs is not None
    return pairs


def _profile_epsilon(cost: Cost, delta: float) -> Price:
    if delta <= cost.infinite_mass():
        return Price(cost.pure_epsilon() if delta == cost.infinite_mass() else math.inf)
    return Price(_profile_root(_own_pairs(cost), cost.pure_epsilon(), math.log(delta) - _PROFILE_ROUNDING))


def _profile_root(pairs: tuple[LossPair, ...], top: float, target: float) -> float:
    """The least ε at which the worst of the profiles is within the target."""

    def gap(epsilon: float) -> float:
        return -math.inf if epsilon >= top else max(float(pair.log_delta(epsilon)) for pair in pairs) - target

    if gap(0.0) <= 0:
        return 0.0
    good, bad = (top, 0.0) if math.isfinite(top) else (1.0, 0.0)
    while gap(good) > 0:
        good, bad = 2 * good, good
        if good > 1e300:
            return math.inf
    while good < top and bad == 0.0 and good > 1e-300 and gap(good / 16) <= 0:
        good /= 16
    if bad == 0.0 and good < top:
        bad = good / 16
    return boundary(gap, good=good, bad=bad, tolerance=1e-13 * good)


def _options(cost: Cost) -> tuple[Cost, ...]:
    """The costs of which the worst counts, where the whole cost is such a choice; else none.

    The part of a record is fixed before the only block of releases there is, so each option is priced by itself.
    """
    terms = cost.priced_terms()
    if len(terms) == 1 and terms[0][1] == 1 and isinstance(terms[0][0], Worst):
        return terms[0][0].options
    return ()


def _optimal_epsilon(cost: Cost, delta: float) -> Price:
    if options := _options(cost):
        return Price(max(_optimal_epsilon(option, delta).value for option in options))
    if delta < cost.infinite_mass():
        return Price(math.inf)
    if delta == 0.0 or cost.pure_epsilon() == 0:
        return Price(cost.pure_epsilon())
    route = _route(cost)
    if route in _CLOSED:
        return _CLOSED[route].epsilon(cost, delta)
    return {"profile": _profile_epsilon, "recursion": _recursion_epsilon, "pld": _pld_epsilon}[route](cost, delta)


def _optimal_log_delta(cost: Cost, epsilon: float) -> Price:
    if options := _options(cost):
        return Price(max(_optimal_log_delta(option, epsilon).value for option in options))
    route = _route(cost)
    if cost.pure_epsilon() == 0:
        return Price(_log(cost.infinite_mass()))
    if route in _CLOSED:
        return _CLOSED[route].log_delta(cost, epsilon)
    routes = {"profile": _profile_log_delta, "recursion": _recursion_log_delta, "pld": _pld_log_delta}
    return routes[route](cost, epsilon)


def optimal_lower(cost: Cost, delta: float) -> float:
    """A certified lower end of ε: no valid accountant can report less for this class of mechanisms (0 if unknown)."""
    if options := _options(cost):
        return max(optimal_lower(option, delta) for option in options)
    if delta == 0.0 or cost.pure_epsilon() == 0 or delta < cost.infinite_mass():
        return 0.0
    kept = [(part, pairs, n) for part, n in cost.priced_terms() if (pairs := part.lower_pairs())]
    if not kept:
        return 0.0
    if any(pairs != part.pairs() for part, pairs, _ in kept):
        return _lower_of_pairs([(pairs, n) for part, pairs, n in kept if not isinstance(part, BoundedRange)], delta)
    if len(kept) < len(cost.priced_terms()):  # without the releases of which nothing is known from below
        parts = [(part, n) for part, _, n in kept]
        ordered = isinstance(cost, Composition) and cost.ordered
        cost = sequence(parts) if ordered else compose(parts, neighbours=cost.neighbours)
    route = _route(cost)
    if route == "recursion":
        # Leaving releases out lowers the price, so what the others cost by themselves is a lower end too.
        return max(_recursion_lower(cost, delta), optimal_lower(_parts(cost)[1], delta))
    if route == "pld":
        return _pld_lower(cost, delta)
    # Exact up to rounding, which moves log δ by far less than 1e-6.
    roomy = min(delta * (1 + 1e-6), 1.0)
    if route in _CLOSED:
        return _CLOSED[route].epsilon(cost, roomy).value * (1 - 1e-12)
    below = tuple(pair.below() for pair in _own_pairs(cost))
    return _profile_root(below, cost.pure_epsilon(), math.log(roomy)) * (1 - 1e-12)


def _lower_of_pairs(found: list[tuple[tuple[LossPair, ...], int]], delta: float) -> float:
    """The lower end by pairs of their own for it; releases without are left out, which lowers it."""
    from ledgerwood.accounting.accountant.pld.composition import compose as compose_losses

    if not found:
        return 0.0
    directions = [[(pairs[0], n) for pairs, n in found]]
    if all(len(pairs) > 1 or pairs[0].symmetric for pairs, _ in found):
        directions.append([(pairs[-1], n) for pairs, n in found])
    if len(found) == 1 and found[0][1] == 1 and found[0][0][0].closed_form:
        goal = math.log(min(delta * (1 + 1e-6), 1.0))
        return max(_least_at(way[0][0].below(), goal) for way in directions) * (1 - 1e-12)
    return max(0.0, *(compose_losses(way, delta=delta).epsilon_lower(delta) for way in directions))


def _least_at(pair: LossPair, log_delta: float) -> float:
    return least(lambda e: float(pair.log_delta(e)) <= log_delta, guess=pair.rough_epsilon(log_delta))


CERTIFIED = (
    Method("pld", "privacy-loss distributions, connect-the-dots", _pld_epsilon, _pld_log_delta),
    Method("optimal", "the tightest certified: exact or optimal adaptive", _optimal_epsilon, _optimal_log_delta),
)


# -- one profile for each direction -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ProfileEnds:
    """The profile of one direction at ε ≥ 0: an upper end or a composed loss from above, and a lower end."""

    upper: Callable[[float], float] | None
    pmf: Callable[[], LossPmf] | None
    lower: Callable[[Array], Array] | None
    slow: bool = False
    one_pair: bool = True


def profile_ends(cost: Cost, delta: float, *, rough: bool = False) -> tuple[ProfileEnds, ...]:
    """The profiles of a cost that is no choice of several, sharp for δ down to ``delta`` unless a rough one will do.

    One if both directions are the same, else that of (with the record, without it) and that of the reverse.
    """
    tight = all(part.is_tight() for part, _ in cost.priced_terms())
    route = _route(cost)
    if route == "kov":
        kov = _CLOSED["kov"].log_delta
        return (_closed_ends(lambda e: kov(cost, e).value, lambda e: kov(cost, e).value if tight else None),)
    mu = cost.mu()
    if mu is not None:
        return (_closed_ends(lambda e: log_gaussian(mu, e), lambda e: log_gaussian(mu, e) if tight else None),)
    if route == "profile":
        return tuple(_pair_ends(pair, tight) for pair in _own_pairs(cost))
    if route == "recursion":
        floor = _floor(math.log(delta))
        mixed = _mixed(cost, floor)
        ends = _closed_ends(mixed.log_upper, lambda e: _mixed(cost, floor, lower=True).log_lower(e) if tight else None)
        return (replace(ends, slow=True, one_pair=False),)
    losses = [_composed_once(tuple(pairs), delta, rough) for pairs in _directions(cost.priced_terms(), "pld")]
    if not all(_exact_pairs(part) for part, _ in cost.priced_terms()):
        return tuple(ProfileEnds(None, loss.pmf, None) for loss in losses)
    return tuple(ProfileEnds(None, loss.pmf, loss.deltas_lower) for loss in losses)


def _closed_ends(upper: Callable[[float], float], lower: Callable[[float], float | None]) -> ProfileEnds:
    """The ends of a profile that is known by its logarithm; no lower one where that is None."""

    def above(epsilon: float) -> float:
        return min(1.0, math.exp(min(upper(epsilon), 0.0)) * (1 + 2 * _PROFILE_ROUNDING))

    def below(epsilons: Array) -> Array:
        values = [lower(e) for e in epsilons.tolist()]
        return np.array([0.0 if v is None else math.exp(min(v, 0.0)) * (1 - 2 * _PROFILE_ROUNDING) for v in values])

    return ProfileEnds(above, None, below)


def _pair_ends(pair: LossPair, tight: bool) -> ProfileEnds:
    below = pair.below()
    ends = _closed_ends(lambda e: float(pair.log_delta(e)), lambda e: float(below.log_delta(e)) if tight else None)
    return replace(ends, slow=pair.slow)


def _exact_pairs(part: Cost) -> bool:
    """Whether the pairs of a part are attained, so that a lower end of their composition is one of the cost."""
    return part.is_tight() and part.lower_pairs() == part.pairs()


def composed(cost: Cost) -> bool:
    """Whether the price of a cost is read off a composed loss: no formula and no recursion is as tight."""
    return _route(cost) == "pld"


def advantage_ends(cost: Cost, *, lower: bool, rough: bool = False) -> tuple[float, float]:
    """Both ends of δ at ε = 0, the same in both directions, by loss distributions; 0 for an unknown lower end."""
    from ledgerwood.accounting.accountant.pld.composition import ROUGH, compose
    from ledgerwood.accounting.accountant.pld.grid_choice import TOLERANCE

    terms = cost.priced_terms()
    tight = all(_exact_pairs(part) for part, _ in terms)
    pairs = _with_cells(_directions(terms, "pld"), math.log(1e-2))[0]
    try:
        found = [
            compose(pairs, epsilon=0.0, tolerance=tolerance)
            for tolerance in ((ROUGH,) if rough else (ROUGH, TOLERANCE))
        ]
        upper = min(loss.delta_upper(0.0) for loss in found)
        return (max(loss.delta_lower(0.0) for loss in found) if lower and tight else 0.0), upper
    except (ArithmeticError, MemoryError, ValueError):
        raise MethodUnavailable("pld", _TOO_DIFFERENT) from None


@lru_cache(maxsize=8)
def _composed_once(pairs: tuple[tuple[LossPair, int], ...], delta: float, rough: bool) -> ComposedLoss:
    from ledgerwood.accounting.accountant.pld.composition import ROUGH
    from ledgerwood.accounting.accountant.pld.composition import compose as compose_losses
    from ledgerwood.accounting.accountant.pld.grid_choice import TOLERANCE

    try:
        within = _with_cells([list(pairs)], math.log(delta))[0]
        return compose_losses(within, delta=delta, whole=True, tolerance=ROUGH if rough else TOLERANCE)
    except (ArithmeticError, MemoryError, ValueError):
        raise MethodUnavailable("pld", _TOO_DIFFERENT) from None
