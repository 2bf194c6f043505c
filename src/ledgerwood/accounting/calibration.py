"""Calibration: the least noise that meets a target, on the safe side."""

from __future__ import annotations

import math
from collections.abc import Callable

from ledgerwood.accounting import checks
from ledgerwood.accounting.algebra import Cost
from ledgerwood.accounting.search import boundary
from ledgerwood.errors import CalibrationError, LedgerwoodError, MethodUnavailable, ParameterError

#: Relative width of the final bracket around the boundary between too little and enough noise.
_TOLERANCE = 1e-7


def calibrate(
    cost: Callable[[float], Cost],
    *,
    epsilon: float,
    delta: float,
    method: str | None = None,
    guess: float = 1.0,
) -> float:
    """The scale nearest to "no noise" whose cost is at most (ε, δ).

    Parameters
    ----------
    cost
        A function from a positive scale to a cost, monotone in either direction: ``sigma`` makes a cost smaller as
        it grows, ``epsilon`` makes it larger. The direction is found out.
    epsilon, delta
        The target.
    method
        Accounting method; the tightest certified one by default.
    guess
        Where the search starts; any positive number works, a good one saves time.

    Returns
    -------
    float
        A scale ``s`` with ``cost(s).epsilon(delta) <= epsilon``, tested with the very call a user would make, and
        within a relative 1e-7 of a scale that fails.

    >>> from ledgerwood.accounting import Gaussian
    >>> f"{calibrate(lambda s: 1000 * Gaussian(sigma=s), epsilon=1.0, delta=1e-6):.4f}"
    '133.5818'
    """
    target = checks.non_negative("epsilon", epsilon)
    allowed = checks.delta_value(delta)
    start = checks.positive("guess", guess)
    if not callable(cost):
        raise ParameterError("cost", "be a function from a scale to a cost", cost)
    if method is None and allowed > 0:
        # Theorem 1 is quick and close: it finds the direction and the place where the exact search starts.
        try:
            start, sign = _search(cost, target, allowed, "rdp", start, 0.0)
        except MethodUnavailable:
            sign = 0.0
        start, sign = _search(cost, target, allowed, None, start, sign)
    else:
        start, sign = _search(cost, target, allowed, method, start, 0.0)
    return _confirmed(cost, start, sign, target, allowed, method)


def _search(
    cost: Callable[[float], Cost], epsilon: float, delta: float, method: str | None, start: float, sign: float
) -> tuple[float, float]:
    """A scale that meets the target next to one that does not, and the direction of more noise (+1 or −1)."""
    prices: dict[float, float] = {}

    def price(u: float) -> float:
        if u not in prices:
            prices[u] = _gap(cost, math.exp(u), epsilon, delta, method)
        return prices[u]

    good, bad = _bracket(price, math.log(start), sign, f"epsilon={epsilon:g} at delta={delta:g}")
    best = boundary(price, good=good, bad=bad, tolerance=_TOLERANCE)
    return math.exp(best), math.copysign(1.0, good - bad)


def _gap(cost: Callable[[float], Cost], scale: float, epsilon: float, delta: float, method: str | None) -> float:
    try:
        value = cost(scale)
    except LedgerwoodError:
        raise
    except (TypeError, ValueError, ArithmeticError) as error:
        raise CalibrationError(f"the cost function failed at scale={scale!r}: {error}") from error
    if not isinstance(value, Cost):
        raise CalibrationError(f"the cost function must return a cost, got {type(value).__name__} at scale={scale!r}")
    if delta == 0:
        price = value.epsilon(0.0, method)
        return (price - epsilon) / max(epsilon, 1.0) if math.isfinite(price) else math.inf
    reached = value.delta(epsilon, method)
    return math.log(reached) - math.log(delta) if reached > 0 else -math.inf


def _bracket(price: Callable[[float], float], start: float, sign: float, target: str) -> tuple[float, float]:
    """A probe that meets the target and a neighbouring one that fails; ``sign`` ≠ 0 says where more noise lies."""
    met = price(start) <= 0
    if sign:
        sides = [-sign if met else sign]
    else:
        sides = [-1.0, 1.0]
    ends = dict.fromkeys(sides, start)
    step = 0.03
    while step < 800:
        found: list[tuple[float, float]] = []
        for side in sides:
            before, ends[side] = ends[side], min(max(ends[side] + side * step, -650.0), 650.0)
            if (price(ends[side]) <= 0) != met:
                found.append((before, ends[side]))
        if len(found) > 1:
            raise CalibrationError(
                "the cost function is not monotone: it meets the target on one side of a scale and on the other, but "
                "not between (or the reverse). Give a cost that only grows, or only shrinks, with the scale"
            )
        if found:
            before, after = found[0]
            return (before, after) if met else (after, before)
        step *= 2
    if met:
        raise CalibrationError(
            f"every scale from 1e-282 to 1e282 meets {target}: there is nothing to calibrate. Does the cost depend on "
            f"the scale?"
        )
    raise CalibrationError(
        f"no scale meets {target}: what does not depend on the scale already costs more, or delta is 0 for a release "
        f"that has no pure epsilon. Raise epsilon or delta, or use fewer releases"
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
