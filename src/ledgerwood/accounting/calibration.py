"""Calibration: the least noise that meets a target, on the safe side."""

from __future__ import annotations

import math
from collections.abc import Callable

from ledgerwood.accounting import checks
from ledgerwood.accounting.algebra import Cost
from ledgerwood.accounting.search import boundary
from ledgerwood.errors import CalibrationError, LedgerwoodError, ParameterError

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
    prices: dict[float, float] = {}

    def price(u: float) -> float:
        """Log δ at the target ε minus log of the allowed δ (or ε minus ε when δ = 0), at scale e^u."""
        if u not in prices:
            prices[u] = _gap(cost, math.exp(u), target, allowed, method)
        return prices[u]

    low, high = _bracket(price, math.log(start), target, allowed)
    good, bad = (low, high) if price(low) <= 0 else (high, low)
    best = boundary(price, good=good, bad=bad, tolerance=_TOLERANCE)
    return _confirmed(cost, math.exp(best), math.copysign(1.0, good - bad), target, allowed, method)


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


def _bracket(price: Callable[[float], float], start: float, epsilon: float, delta: float) -> tuple[float, float]:
    """Two neighbouring probes, one that meets the target and one that fails, in increasing order."""
    reached = f"epsilon={epsilon:g} at delta={delta:g}"
    first = price(start)
    step = 0.05
    left = right = start
    while step < 800:
        left, right = max(left - step, -650.0), min(right + step, 650.0)
        at_left, at_right = price(left), price(right)
        if (first <= 0) != (at_left <= 0) and (first <= 0) != (at_right <= 0):
            raise CalibrationError(
                "the cost function is not monotone: it meets the target on both sides of a scale that fails, or the "
                "reverse. Give a cost that only grows, or only shrinks, with the scale"
            )
        if (first <= 0) != (at_left <= 0):
            return left, min((u for u in (start, left + step) if u > left), key=lambda u: u - left)
        if (first <= 0) != (at_right <= 0):
            return max((u for u in (start, right - step) if u < right), key=lambda u: u - right), right
        step *= 2
    if first <= 0:
        raise CalibrationError(
            f"every scale from e^-650 to e^650 meets {reached}: there is nothing to calibrate. Does the cost depend "
            f"on the scale?"
        )
    raise CalibrationError(
        f"no scale meets {reached}: what does not depend on the scale already costs more, or delta is 0 for a "
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
