"""Claims against exact pairs: "holds" is a proof at the pair, "violated" comes with the event that shows it.

>>> from fractions import Fraction
>>> from ledgerwood.accounting import PureDP
>>> from ledgerwood.verification.exact.textbook import exponential_mechanism_pair
>>> first, second = [-3] + 8 * [0], [-2] + 8 * [-1]           # every score moves by at most 1
>>> print(check(exponential_mechanism_pair(first, second, Fraction(1, 2)), PureDP(1.0)))
PureDP(epsilon=1.0) holds at this pair: epsilon is at most 0.95443 (proved)
>>> print(check(exponential_mechanism_pair(first, second, Fraction(105, 200)), PureDP(1.0)))
PureDP(epsilon=1.0) is violated at this pair: epsilon is at least 1.00421
  second against first, output in {0}: probability 0.0688... against 0.0252...
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ledgerwood.accounting import RDP, ZCDP, ApproxDP, BoundedRange, Cost, PureDP, RandomizedResponse
from ledgerwood.errors import ParameterError
from ledgerwood.verification.exact.distributions import Event, Pair
from ledgerwood.verification.exact.intervals import Bounds, interval

Status: TypeAlias = Literal["holds", "violated", "undecided"]

#: A claim is a float, so it stands for a number rounded to 16 digits: slack in epsilon, relative slack in delta.
TOLERANCE = 1e-12
_CURVE_EVALUATIONS = 2000
_NARROW = 1e-9  # of the axis: where so small a cell proves nothing, claim and truth touch


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the exact verifier says of a claim at one pair, both directions.

    Attributes
    ----------
    status : "holds", "violated" or "undecided"
        "holds" is a proof (up to ``tolerance``), "violated" too; "undecided" means that the enclosure straddles
        the claim, or that unresolved mass (a truncated tail) leaves both possible.
    quantity : str
        The measured quantity, for example "epsilon" or "delta at epsilon=1".
    value : Bounds
        The quantity's enclosure, the worse of the two directions.
    event : Event or None
        For a violation of a pure or approximate claim, a smallest event that shows it.
    direction : str
        "first against second" or "second against first".

    >>> from ledgerwood.accounting import PureDP
    >>> from ledgerwood.verification import Pair
    >>> verdict = check(Pair.from_distributions({0: 0.75, 1: 0.25}, {0: 0.25, 1: 0.75}), PureDP(1.1))
    >>> verdict.status, str(verdict.value)
    ('holds', '1.09861')
    """

    claim: Cost
    status: Status
    quantity: str
    value: Bounds
    event: Event | None
    direction: str

    @property
    def holds(self) -> bool:
        """Whether the claim is proved at this pair."""
        return self.status == "holds"

    @property
    def violated(self) -> bool:
        """Whether the claim is refuted at this pair."""
        return self.status == "violated"

    def __str__(self) -> str:
        if self.status == "holds":
            return f"{self.claim!r} holds at this pair: {self.quantity} is at most {self.value.upper:.6g} (proved)"
        if self.status == "undecided":
            return f"{self.claim!r} is undecided at this pair: {self.quantity} lies in {self.value}"
        text = f"{self.claim!r} is violated at this pair: {self.quantity} is at least {self.value.lower:.6g}"
        return text if self.event is None else f"{text}\n  {self.direction}, {self.event}"


def check(pair: Pair, claim: Cost, *, tolerance: float = TOLERANCE) -> Verdict:
    """Prove or refute a claim at a pair, in both directions.

    Parameters
    ----------
    pair : Pair
        The exact distributions on the two inputs.
    claim : Cost
        PureDP, ApproxDP, BoundedRange and randomized response with two answers (whose profile says no more than its
        pure epsilon) are decided at their point. ZCDP and RDP are decided over all orders, any other cost over its
        whole profile ``claim.delta(epsilon)``, by covering the axis with cells on which monotonicity gives the proof:
        a profile that is exactly attained stays undecided.
    tolerance : float
        Slack in epsilon (relative in delta) granted to the claim as a rounded number; 0 is allowed.

    >>> from ledgerwood.accounting import ApproxDP
    >>> from ledgerwood.verification import Pair
    >>> pair = Pair.from_distributions({0: 0.75, 1: 0.25}, {0: 0.25, 1: 0.75})
    >>> check(pair, ApproxDP(0.5, 0.4)).status, check(pair, ApproxDP(0.5, 0.3)).status
    ('holds', 'violated')
    """
    if not tolerance >= 0:
        raise ParameterError("tolerance", "be non-negative", tolerance)
    if isinstance(claim, ApproxDP):
        return _check_approximate(pair, claim, tolerance)
    if isinstance(claim, PureDP) or (isinstance(claim, RandomizedResponse) and claim.k == 2):
        return _check_pure(pair, claim, tolerance)
    if isinstance(claim, BoundedRange):
        top, bottom = pair.max_divergence(), pair.min_loss()
        value = Bounds(top.lower - bottom.upper, top.upper - bottom.lower)
        status = _status(value, claim.size + tolerance)
        return Verdict(claim, status, "the range of the loss", value, None, "first against second")
    if isinstance(claim, (ZCDP, RDP)):
        return _worse(_check_orders(side, claim, tolerance, name) for side, name in _directions(pair))
    return _worse(_check_profile(side, claim, tolerance, name) for side, name in _directions(pair))


def _check_pure(pair: Pair, claim: PureDP | RandomizedResponse, tolerance: float) -> Verdict:
    limit = claim.size + tolerance
    verdicts = []
    for side, name in _directions(pair):
        value = side.max_divergence()
        status = _status(value, limit)
        event = side.worst_event(claim.size) if status == "violated" else None
        verdicts.append(Verdict(claim, status, "epsilon", value, event, name))
    return _worse(verdicts)


def _check_approximate(pair: Pair, claim: ApproxDP, tolerance: float) -> Verdict:
    limit = claim.mass * (1 + tolerance)
    quantity = f"delta at epsilon={claim.size:g}"
    verdicts = []
    for side, name in _directions(pair):
        value = side.delta(claim.size)
        status = _status(value, limit)
        event = side.worst_event(claim.size, claim.mass) if status == "violated" else None
        verdicts.append(Verdict(claim, status, quantity, value, event, name))
    return _worse(verdicts)


def _check_orders(pair: Pair, claim: Cost, tolerance: float, direction: str) -> Verdict:
    """Rényi divergence and curve both grow with the order: D(b) <= claim(a) proves every order of [a, b]."""
    largest = pair.max_divergence().upper

    def limit(order: float) -> float:
        return float(claim.rdp(order)) + tolerance

    def proved(a: float, b: float) -> bool:
        return pair.renyi(b).upper <= limit(a)

    def refuted(a: float) -> bool:
        return pair.renyi(a).lower > limit(a)

    end = 2.0
    while largest > limit(end) and not refuted(end) and end < 2.0**40:
        end *= 2
    status, where = _cover(1.0, end, proved, refuted)
    if largest > limit(end) and status == "holds":
        status = "undecided"
    return Verdict(claim, status, f"the Rényi divergence of order {where:g}", pair.renyi(where), None, direction)


def _check_profile(pair: Pair, claim: Cost, tolerance: float, direction: str) -> Verdict:
    """Both profiles fall with epsilon: delta(a) <= claim(b) proves every epsilon of [a, b]; 0 ends the axis."""

    def limit(epsilon: float) -> float:
        return claim.delta(epsilon) * (1 + tolerance)

    def proved(a: float, b: float) -> bool:
        return pair.delta(a).upper <= limit(b)

    def refuted(a: float) -> bool:
        return pair.delta(a).lower > limit(a)

    largest = pair.max_divergence().upper
    end = largest if math.isfinite(largest) else 1.0
    while not math.isfinite(largest) and not refuted(end) and end < 512:
        end *= 2
    status, where = _cover(0.0, max(end, 0.0), proved, refuted)
    if not math.isfinite(largest) and status == "holds":
        # beyond the axis: delta still falls, and the claim never falls below the mass it promises nothing for
        status = "holds" if pair.delta(end).upper <= claim.infinite_mass() * (1 + tolerance) else "undecided"
    event = pair.worst_event(where, claim.delta(where)) if status == "violated" else None
    return Verdict(claim, status, f"delta at epsilon={where:g}", pair.delta(where), event, direction)


def _cover(
    start: float, end: float, proved: Callable[[float, float], bool], refuted: Callable[[float], bool]
) -> tuple[Status, float]:
    """Prove a monotone comparison on [start, end] by bisection; the point is the refuting or the undecided one."""
    if refuted(start):
        return "violated", start
    if refuted(end):
        return "violated", end
    pending = [(start, end)]
    for _ in range(_CURVE_EVALUATIONS):
        if not pending:
            return "holds", end
        a, b = pending.pop()
        if a == b or proved(a, b):
            continue
        middle = a + (b - a) / 2
        if refuted(middle):
            return "violated", middle
        if b - a < _NARROW * (end - start) or not a < middle < b:
            return "undecided", a
        pending += [(middle, b), (a, middle)]
    return ("undecided", pending[-1][0]) if pending else ("holds", end)


def _directions(pair: Pair) -> tuple[tuple[Pair, str], tuple[Pair, str]]:
    return (pair, "first against second"), (pair.swapped(), "second against first")


def _worse(verdicts: object) -> Verdict:
    order = {"violated": 2, "undecided": 1, "holds": 0}
    return max(verdicts, key=lambda v: (order[v.status], v.value.upper, v.value.lower))  # type: ignore[call-overload,no-any-return]


def _status(value: Bounds, limit: float) -> Status:
    if value.upper <= limit:
        return "holds"
    return "violated" if interval(value.lower).surely_above(limit) else "undecided"
