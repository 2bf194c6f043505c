"""Calibration: the least noise that meets a target, on the safe side."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from functools import partial

from ledgerwood import _checks
from ledgerwood.accounting.accountant import risk as risks
from ledgerwood.accounting.accountant.certified import coarse_log_delta, grid_of, rough_log_delta
from ledgerwood.accounting.costs.base import Cost
from ledgerwood.accounting.curves.numerics import boundary
from ledgerwood.errors import CalibrationError, LedgerwoodError, MethodUnavailable, ParameterError

#: Relative width of the final bracket around the boundary between too little and enough noise; and of one that only
#: says where to look.
_TOLERANCE, _ROUGH = 1e-7, 1e-4
#: The same for a risk, whose price takes longer.
_RISK_TOLERANCE = 1e-5
_ONE_TARGET = "be given with delta, or one of advantage, tpr and mu instead of both (and then no method)"
#: How far on the safe side of the boundary the answer on a slow grid is aimed at, and may lie, also on a very slow one.
_AIM, _ALLOWED, _ALLOWED_IF_LONG = 1e-5, 8e-5, 9e-4
#: The same where privacy-loss distributions are the price.
_AIM_OF_LOSSES, _ALLOWED_OF_LOSSES = 2e-6, 8e-6
#: How far from the start a search goes, in powers of e: by Theorem 1 (1e100) and by the exact methods (1e15).
_FAR, _NEAR = 230.0, 35.0
#: Cell evaluations (1e9 a second) of a price that is searched for on coarser grids first; and of one not asked twice.
_QUICK, _LONG = 5e6, 1e8
#: By how much more the answer moves from 8 to 16 cells than from 4 to 8, and from 16 to that many than from 8 to 16:
#: measured, the latter at the lower end.
_TO_SIXTEEN, _BEYOND_SIXTEEN = 0.28, {16: 0.0, 32: 0.265, 64: 0.315}


def calibrate(
    cost: Callable[[float], Cost],
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    advantage: float | None = None,
    tpr: tuple[float, float] | None = None,
    mu: float | None = None,
    method: str | None = None,
    guess: float = 1.0,
    tolerance: float = _TOLERANCE,
) -> float:
    """The scale nearest to "no noise" whose cost is at most (ε, δ), or whose risk is at most the one asked for.

    Parameters
    ----------
    cost
        A function from a positive scale to a cost, monotone in either direction: ``sigma`` makes a cost smaller as
        it grows, ``epsilon`` makes it larger. The direction is found out.
    epsilon, delta
        The target; or one of the next three instead.
    advantage
        The most that ``cost.advantage()`` may be.
    tpr
        A false-positive rate and the most that ``cost.tpr`` may be there.
    mu
        The most that ``cost.dominating_mu().mu`` may be, over the range of false-positive rates that is its default.
    method
        Accounting method; the tightest certified one by default. A risk is always by that one.
    guess
        Where the search starts; any positive number works, a good one saves time.
    tolerance
        How far above the least noise the answer may lie, as a part of it: more saves time where a price takes long.

    Returns
    -------
    float
        A scale ``s`` with ``cost(s).epsilon(delta) <= epsilon``, tested with the very call a user would make, and
        within a relative ``tolerance`` of the least noise (within 1e-5 where privacy-loss distributions are composed;
        for hundreds of selections within 8e-5, or 1e-3 if one price takes over 0.1 s).

    >>> from ledgerwood.accounting import Gaussian
    >>> f"{calibrate(lambda s: 1000 * Gaussian(sigma=s), epsilon=1.0, delta=1e-6):.4f}"
    '133.5961'
    >>> f"{calibrate(lambda s: Gaussian(sigma=s), advantage=0.1):.4f}"
    '3.9790'
    """
    if epsilon is None or delta is None:
        return _for_risk(cost, (epsilon, delta, method), advantage, tpr, mu, _checks.positive("guess", guess))
    if (advantage, tpr, mu) != (None, None, None):
        raise ParameterError("epsilon", _ONE_TARGET, epsilon)
    target = _checks.non_negative("epsilon", epsilon)
    allowed = _checks.delta_value(delta)
    start = _checks.positive("guess", guess)
    if not callable(cost):
        raise ParameterError("cost", "be a function from a scale to a cost", cost)
    # Theorem 1 is quick and close: it finds the direction, and the place where the exact search starts.
    quick = "rdp" if method is None and allowed > 0 else method
    try:
        sign = _direction(_Prices(cost, target, allowed, quick), math.log(start), _FAR)
        if quick != method:
            with contextlib.suppress(CalibrationError):  # what Theorem 1 cannot meet a tighter method may
                rough = _Prices(cost, target, allowed, quick)
                start = _search(rough, math.log(start), sign, _FAR, tolerance=_ROUGH)
    except MethodUnavailable:
        sign = _direction(_Prices(cost, target, allowed, method), math.log(start), _NEAR)
    exact, step = _Prices(cost, target, allowed, method), 0.03
    if method is None and quick == "rdp":
        outlook = _from_coarse_grids(cost, target, allowed, math.log(start), sign)
        if outlook is not None:
            there, step, slope, within = outlook
            found = _next_to(exact, there, slope, sign, within)
            if found is not None:
                return _confirmed(cost, math.exp(found), sign, target, allowed, method)
            start = math.exp(there)
        rough_place = _from_rough_losses(cost, target, allowed, math.log(start), sign)
        if rough_place is not None:
            there, slope = rough_place
            found = _next_to(exact, there, slope, sign, _ALLOWED_OF_LOSSES, _AIM_OF_LOSSES)
            if found is not None:
                return _confirmed(cost, math.exp(found), sign, target, allowed, method)
            start = math.exp(there)
    best = _search(exact, math.log(start), sign, _NEAR, step=step, tolerance=tolerance)
    return _confirmed(cost, best, sign, target, allowed, method)


def _for_risk(
    cost: Callable[[float], Cost],
    unused: tuple[float | None, float | None, str | None],
    advantage: float | None,
    tpr: tuple[float, float] | None,
    mu: float | None,
    guess: float,
) -> float:
    """The scale nearest to "no noise" whose risk is at most the target."""
    if unused != (None, None, None) or sum(target is not None for target in (advantage, tpr, mu)) != 1:
        raise ParameterError("epsilon", _ONE_TARGET, unused[0])
    if not callable(cost):
        raise ParameterError("cost", "be a function from a scale to a cost", cost)
    if advantage is not None:
        words, most = f"advantage={advantage:g}", _share("advantage", advantage)

        def risk(c: Cost, rough: bool) -> float:
            return risks.advantage(c, rough=True)[1] if rough else c.advantage()
    elif tpr is not None:
        rate, most = _share("tpr[0]", tpr[0]), _share("tpr[1]", tpr[1])
        words = f"tpr={tpr}"
        if not rate < most:
            raise ParameterError("tpr", "be a false-positive rate and a larger true-positive rate", tpr)

        def risk(c: Cost, rough: bool) -> float:
            return risks.risk(c, rate, rough=True).tpr(rate) if rough else c.tpr(rate)
    else:
        words, most = f"mu={mu}", _checks.positive("mu", mu)

        def risk(c: Cost, rough: bool) -> float:
            fit = risks.risk(c, 1e-6, rough=True).gaussian(1e-6, 1 - 1e-6, ends=False) if rough else c.dominating_mu()
            return fit.mu

    rough = _RiskPrices(cost, words, lambda c: risk(c, True), most)
    exact = _RiskPrices(cost, words, lambda c: risk(c, False), most)
    start = math.log(guess)
    try:  # Theorem 1 finds the direction quicker
        sign = _direction(_Prices(cost, 0.0, 0.5, "rdp"), start, _FAR)
    except MethodUnavailable:
        sign = _direction(rough, start, _NEAR)
    # The rough boundary is on the safe side of the exact one and close to it; then a few exact questions do.
    there = math.log(_search(rough, start, sign, _NEAR, step=0.3, tolerance=2 * _RISK_TOLERANCE))
    slope = (rough(there + 0.01) - rough(there)) / 0.01
    found = _next_to(exact, there, slope, sign, _ALLOWED) if slope * sign < 0 else None
    return math.exp(found) if found is not None else _search(exact, there, sign, _NEAR, tolerance=_RISK_TOLERANCE)


def _share(name: str, value: float) -> float:
    if not 0 < _checks.probability(name, value) < 1:
        raise ParameterError(name, "lie in (0, 1)", value)
    return float(value)


def affordable(
    cost: Callable[[int], Cost], *, epsilon: float, delta: float, method: str | None = None, most: int = 10**9
) -> int:
    """How many? The largest count whose cost is at most (ε, δ), up to ``most``; 0 if not even one is.

    Parameters
    ----------
    cost
        A function from a count of at least 1 to a cost that only grows with it: steps of a training, rounds, queries.
    epsilon, delta
        The target.
    method
        Accounting method; the tightest certified one by default.
    most
        The largest count to look at.

    Returns
    -------
    int
        A count n with ``cost(n).epsilon(delta) <= epsilon``, tested with the very call a user would make.

    >>> from ledgerwood.accounting import Gaussian
    >>> affordable(lambda n: n * Gaussian(sigma=50.0), epsilon=1.0, delta=1e-6)
    140
    """
    target, allowed = _checks.non_negative("epsilon", epsilon), _checks.delta_value(delta)
    ceiling = _checks.integer("most", most, 1)
    if not callable(cost):
        raise ParameterError("cost", "be a function from a count to a cost", cost)
    start = 1
    if method is None and allowed > 0:  # Theorem 1 is quick, and no tighter method affords less
        with contextlib.suppress(MethodUnavailable):
            start = max(_most(lambda n: cost(n).epsilon(allowed, "rdp"), target, 1, 2.0, ceiling), 1)
    return _most(lambda n: cost(n).epsilon(allowed, method), target, start, 1.1, ceiling)


def _most(price: Callable[[int], float], target: float, start: int, growth: float, ceiling: int) -> int:
    """The largest count with a price of at most the target: upwards by a factor, then between the two ends."""
    good, cheap, bad, dear = 0, 0.0, min(start, ceiling), price(min(start, ceiling))
    while dear <= target:
        good, cheap = bad, dear
        if good == ceiling:
            return good
        bad = min(max(math.ceil(good * growth), good + 1), ceiling)
        dear = price(bad)
        growth *= growth
    turn = 0
    while bad - good > 1:
        # In turns: where a straight line through both ends says, next to it, and in the middle.
        share = (target - cheap) / (dear - cheap) if cheap < dear < math.inf and turn % 3 < 2 else 0.5
        middle = min(max(good + math.floor(share * (bad - good)) + turn % 3 % 2, good + 1), bad - 1)
        value = price(middle)
        good, cheap, bad, dear = (middle, value, bad, dear) if value <= target else (good, cheap, middle, value)
        turn += 1
    return good


def _from_coarse_grids(
    cost: Callable[[float], Cost], epsilon: float, delta: float, start: float, sign: float
) -> tuple[float, float, float, float] | None:
    """Where the search on the fine grid will end, as seen from coarser ones; None if there is no slow grid.

    Every grid gives an upper bound, and on c cells per ε the bound is off by nearly a constant / c^1.8. So the answers
    for 4, 8 and 16 cells tell the one for 32 or 64; each costs a fraction of it. It gains a factor of 3.7 on a plan of
    300 trees (0.21 s of CPU instead of 0.79 s) and of 2 on one of 100 trees.

    Returns
    -------
    float
        Log scale, on the safe side of what is expected by a few per cent of the way from 8 to 16 cells.
    float
        How far around it to look first.
    float
        The slope of log δ there.
    float
        How far on the safe side of the boundary an answer there may lie: farther if the fine grid takes long.
    """
    theorem = _Prices(cost, epsilon, delta, "rdp")
    four, eight, sixteen = (
        _Prices(cost, epsilon, delta, None, partial(coarse_log_delta, cells=cells)) for cells in (4, 8, 16)
    )
    try:
        grid = grid_of(cost(math.exp(start)), epsilon)
        if grid is None or grid.work < _QUICK or grid.cells < 16:
            return None
        from ledgerwood.accounting.accountant.bounded_range.recursion import prepare

        prepare(grid.work)
        # Theorem 1 asks for some 5 % more noise than the coarse grid does, and falls as steeply.
        at_four = start - 0.05 * sign
        slope = (theorem(start) - theorem(at_four)) / (start - at_four)
        for _ in range(8):
            before, at_four = at_four, at_four - four(at_four) / slope
            if abs(at_four - before) < 1e-3:  # what is left of it does not reach the answer for 8 cells
                break
            slope = (four(at_four) - four(before)) / (at_four - before)
        first = at_four - eight(at_four) / slope
        at_eight = first - eight(first) / slope
        second = at_eight - _TO_SIXTEEN * (at_four - at_eight)
        at_sixteen = second if grid.cells == 16 else second - sixteen(second) / slope
    except (MethodUnavailable, CalibrationError, ZeroDivisionError):
        return None
    way = sign * (at_eight - at_sixteen)
    if not 0 < way < 0.02:
        return None
    there = at_sixteen - sign * way * _BEYOND_SIXTEEN[grid.cells]
    return there, 0.05 * way, slope, _ALLOWED_IF_LONG if grid.work > _LONG else _ALLOWED


def _from_rough_losses(
    cost: Callable[[float], Cost], epsilon: float, delta: float, start: float, sign: float
) -> tuple[float, float] | None:
    """Log scale where the coarse price meets the target, and the slope of log δ there; None if there is none.

    A coarse price takes a tenth of the time, and is off by less than a thousandth.
    """
    theorem = _Prices(cost, epsilon, delta, "rdp")
    rough = _Prices(cost, epsilon, delta, None, rough_log_delta)
    try:
        if rough_log_delta(cost(math.exp(start)), epsilon) is None:
            return None
        slope = (theorem(start) - theorem(start - 0.05 * sign)) / (0.05 * sign)
        there = start
        for _ in range(10):
            before, there = there, there - max(-0.5, min(rough(there) / slope, 0.5))
            if abs(there - before) < 1e-4:
                return there, slope
            slope = (rough(there) - rough(before)) / (there - before)
    except (MethodUnavailable, CalibrationError, ZeroDivisionError):
        return None
    return None


def _next_to(exact: _Prices, start: float, slope: float, sign: float, within: float, aim: float = _AIM) -> float | None:
    """A log scale that meets the target next to the boundary, by Newton's method; None if a few prices find none."""
    there, met = start, None
    for _ in range(4):
        beyond = sign * exact(there) / slope  # how far on the safe side, as far as the slope tells
        if beyond >= 0:
            met = there
        if 0 <= beyond <= within:
            break
        there -= sign * (beyond - aim)
    return met


class _Prices:
    """Remembered gaps to the target as a function of log scale: at most 0 where the target is met."""

    def __init__(
        self,
        cost: Callable[[float], Cost],
        epsilon: float,
        delta: float,
        method: str | None,
        rough: Callable[[Cost, float], float | None] | None = None,
    ) -> None:
        self._question = cost, epsilon, delta, method, rough
        self._found: dict[float, float] = {}
        self.target = f"epsilon={epsilon:g} at delta={delta:g}"

    def __call__(self, u: float) -> float:
        if u not in self._found:
            self._found[u] = _gap(math.exp(u), *self._question)
        return self._found[u]


class _RiskPrices(_Prices):
    """The same for a risk: log of what it is, less log of what it may be."""

    def __init__(self, cost: Callable[[float], Cost], words: str, risk: Callable[[Cost], float], target: float) -> None:
        self._cost, self._risk, self._most = cost, risk, target
        self._found = {}
        self.target = words

    def __call__(self, u: float) -> float:
        if u not in self._found:
            scale = math.exp(u)
            reached = self._risk(_made(scale, self._cost))
            gap = math.log(reached) - math.log(self._most) if reached > 0 else -math.inf
            self._found[u] = (
                gap if (gap <= 0) == (reached <= self._most) else math.copysign(1e-15, reached - self._most)
            )
        return self._found[u]


def _search(
    price: _Prices, start: float, sign: float, reach: float, *, step: float = 0.03, tolerance: float = _TOLERANCE
) -> float:
    """The scale with the least noise that meets the target, near e^start first."""
    good, bad = _bracket(price, start, sign, reach, step)
    return math.exp(boundary(price, good=good, bad=bad, tolerance=tolerance))


def _gap(
    scale: float,
    cost: Callable[[float], Cost],
    epsilon: float,
    delta: float,
    method: str | None,
    rough: Callable[[Cost, float], float | None] | None,
) -> float:
    value = _made(scale, cost)
    if rough is not None:
        found = rough(value, epsilon)
        return (-math.inf if found is None else found) - math.log(delta)
    if delta == 0:
        price = value.epsilon(0.0, method)
        return (price - epsilon) / max(epsilon, 1.0) if math.isfinite(price) else math.inf
    reached = value.delta(epsilon, method)
    return math.log(reached) - math.log(delta) if reached > 0 else -math.inf


def _made(scale: float, cost: Callable[[float], Cost]) -> Cost:
    try:
        value = cost(scale)
    except LedgerwoodError:
        raise
    except (TypeError, ValueError, ArithmeticError) as error:
        raise CalibrationError(f"the cost function failed at scale={scale!r}: {error}") from error
    if not isinstance(value, Cost):
        raise CalibrationError(f"the cost function must return a cost, got {type(value).__name__} at scale={scale!r}")
    return value


def _direction(price: _Prices, start: float, reach: float) -> float:
    """+1 if a larger scale costs less, −1 if it costs more."""
    step = 2.0
    while True:
        left, middle, right = price(start - step), price(start), price(start + step)
        if left >= middle >= right and left > right:
            return 1.0
        if left <= middle <= right and left < right:
            return -1.0
        if not left == middle == right:
            raise CalibrationError(
                "the cost function is not monotone: a scale costs more, or less, than a smaller and a larger one. "
                "Give a cost that only grows, or only shrinks, with the scale"
            )
        if step == reach:
            raise _unreachable(price, met=middle <= 0)
        step = min(4 * step, reach)


def _bracket(price: _Prices, start: float, sign: float, reach: float, step: float) -> tuple[float, float]:
    """A log scale that meets the target and a neighbouring one that fails."""
    met = price(start) <= 0
    toward = -sign if met else sign  # to less noise while the target is met, else to more
    before = start
    while abs(before - start) < reach:
        after = before + toward * step
        if (price(after) <= 0) != met:
            return (before, after) if met else (after, before)
        before, step = after, step * (2 if step >= 0.03 else 8)
    raise _unreachable(price, met=met)


def _unreachable(price: _Prices, *, met: bool) -> CalibrationError:
    if met:
        return CalibrationError(
            f"every scale meets {price.target}: there is nothing to calibrate. Does the cost depend on the scale?"
        )
    return CalibrationError(
        f"no scale meets {price.target}: what does not depend on the scale already costs more, or delta is 0 for a "
        f"release that has no pure epsilon. Raise epsilon or delta, or use fewer releases"
    )


def _confirmed(
    cost: Callable[[float], Cost], scale: float, sign: float, epsilon: float, delta: float, method: str | None
) -> float:
    """Move to the safe side until the public question itself is answered with yes."""
    step = 1e-12
    while not cost(scale).epsilon(delta, method) <= epsilon:
        scale *= 1 + sign * step
        step *= 4
        if step > 0.1:
            raise CalibrationError("the two ends of the search disagree; please report this cost")
    return scale
