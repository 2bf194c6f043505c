r"""The exact verifier: two output distributions, and everything differential privacy asks of them, with proof.

A :class:`Pair` holds the distributions P and Q of a mechanism on two neighbouring inputs, outcome by outcome. Rational
probabilities stay rational; the rest is enclosed in intervals that round outwards. Each answer is a
:class:`~ledgerwood.verification.exact.intervals.Bounds` that surely contains the real number:

=====================  ==================================================================================
``max_divergence``     :math:`\sup_o \log P(o)/Q(o)`, the pure epsilon of this direction
``delta(epsilon)``     hockey stick :math:`\sup_S P(S) - e^{\varepsilon} Q(S)`
``epsilon(delta)``     its inverse
``renyi(order)``       :math:`\frac{1}{\alpha-1} \log \sum_o P(o)^\alpha Q(o)^{1-\alpha}`
``worst_event``        a smallest set of outcomes that shows it
=====================  ==================================================================================

An outcome may also stand for a whole cell of a continuous output space: it then carries the range of the privacy
loss inside the cell, and the bounds stay valid (a cell's lower bound is that of the coarser mechanism "which cell",
a post-processing; its upper bound is the chord of a convex function). Mass that an enumeration did not resolve goes
into ``tails`` and widens every answer.

>>> from fractions import Fraction
>>> half = Fraction(1, 2)
>>> coin = Pair.from_distributions({"heads": Fraction(3, 4), "tails": Fraction(1, 4)}, {"heads": half, "tails": half})
>>> coin.max_ratio()
Fraction(3, 2)
>>> coin.delta(0.0)
Bounds(lower=0.25, upper=0.25)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ledgerwood.errors import ParameterError
from ledgerwood.verification.exact.intervals import (
    INFINITY,
    ONE,
    ZERO,
    Bounds,
    Interval,
    Number,
    exponential,
    hull,
    interval,
    logarithm,
    maximum,
    minimum,
    real_power,
    total,
)


@dataclass(frozen=True, slots=True)
class Cell:
    """One outcome, or one cell of outcomes, with its two probabilities.

    ``loss`` encloses the privacy loss log dP/dQ at every point of the cell; None means a single outcome, whose loss
    is log p/q.
    """

    outcome: Hashable
    p: Fraction | Interval
    q: Fraction | Interval
    loss: Interval | None = None

    def losses(self) -> Interval:
        """Enclosure of the privacy loss on the cell."""
        if self.loss is not None:
            return self.loss
        return _log_ratio(interval(self.p), interval(self.q))

    def swapped(self) -> Cell:
        return Cell(self.outcome, self.q, self.p, None if self.loss is None else -self.loss)


@dataclass(frozen=True, slots=True)
class Event:
    """A set of outcomes with its probability on either side, and the epsilon it certifies.

    >>> from ledgerwood.accounting import PureDP
    >>> from ledgerwood.verification import Pair, check
    >>> verdict = check(Pair.from_distributions({0: 0.9, 1: 0.1}, {0: 0.5, 1: 0.5}), PureDP(1.0))
    >>> print(verdict.event)
    output in {1}: probability 0.5 against 0.1
    """

    outcomes: tuple[Hashable, ...]
    p: Bounds
    q: Bounds
    epsilon_lower: float

    def __str__(self) -> str:
        shown = ", ".join(repr(outcome) for outcome in self.outcomes[:6])
        more = f", … {len(self.outcomes) - 6} more" if len(self.outcomes) > 6 else ""
        return f"output in {{{shown}{more}}}: probability {self.p} against {self.q}"


@dataclass(frozen=True, slots=True)
class Pair:
    """The distributions of a mechanism on two neighbouring inputs.

    Parameters
    ----------
    cells : tuple of Cell
        Disjoint; outcomes of probability zero on both sides are left out.
    tails : tuple of Fraction or Interval
        Mass of P and of Q that no cell accounts for.
    """

    cells: tuple[Cell, ...]
    tails: tuple[Fraction | Interval, Fraction | Interval] = (Fraction(0), Fraction(0))

    @classmethod
    def from_distributions(
        cls,
        first: Mapping[Hashable, Number],
        second: Mapping[Hashable, Number],
        *,
        tails: tuple[Number, Number] = (Fraction(0), Fraction(0)),
    ) -> Pair:
        """Pair two distributions given as mappings from outcome to probability.

        Probabilities may be Fractions, integers, intervals or floats. A float is taken at its exact binary value, and
        a distribution of floats only has to sum to one within 1e-9; use Fractions or intervals for a proof.
        """
        for name, distribution, tail in (("first", first, tails[0]), ("second", second, tails[1])):
            if not isinstance(distribution, Mapping):
                raise ParameterError(
                    name, "be a distribution: a mapping from outcome to probability", type(distribution).__name__
                )
            _check_distribution(name, list(distribution.values()), tail)
        outcomes = list(first) + [outcome for outcome in second if outcome not in first]
        zero = Fraction(0)
        cells = (Cell(o, _exact(first.get(o, zero)), _exact(second.get(o, zero))) for o in outcomes)
        kept = tuple(cell for cell in cells if not (cell.p == 0 and cell.q == 0))
        return cls(kept, (_exact(tails[0]), _exact(tails[1])))

    @classmethod
    def from_losses(cls, losses: Sequence[Number], probabilities: Sequence[Number]) -> Pair:
        """Pair given by a privacy-loss distribution: P takes the loss l with probability p, and Q(l) = p exp(-l).

        What Q lacks to one sits on an outcome that P never gives.

        >>> Pair.from_losses([1.0, -1.0], [0.75, 0.25]).max_divergence().upper
        1.0
        """
        cells = []
        _check_distribution("probabilities", probabilities, Fraction(0))
        for i, (loss, p) in enumerate(zip(losses, probabilities, strict=True)):
            exact = interval(loss)
            q = ZERO if loss == math.inf else interval(p) * exponential(-exact)
            cells.append(Cell((i, loss), _exact(p), q, exact))
        missing = ONE - total(interval(cell.q) for cell in cells)
        if missing.bounds().upper < -1e-9:
            raise ParameterError("losses", "have E[exp(-loss)] <= 1 under their distribution", losses)
        if missing.surely_above(0):
            cells.append(Cell("never under P", Fraction(0), missing, -INFINITY))
        return cls(tuple(cells))

    def swapped(self) -> Pair:
        """The same pair read the other way round."""
        return Pair(tuple(cell.swapped() for cell in self.cells), (self.tails[1], self.tails[0]))

    def max_ratio(self) -> Fraction | None:
        """The exact largest P(o)/Q(o), or None if it is infinite or the distributions are not rational."""
        if not all(_is_zero(tail) for tail in self.tails):
            return None
        best = Fraction(0)
        for cell in self.cells:
            if not isinstance(cell.p, Fraction) or not isinstance(cell.q, Fraction) or cell.q == 0:
                return None
            best = max(best, cell.p / cell.q)
        return best

    def max_divergence(self) -> Bounds:
        """Bounds on the largest privacy loss, the pure epsilon of P against Q."""
        tail_p, tail_q = (interval(tail) for tail in self.tails)
        closed = _is_zero(tail_p) and _is_zero(tail_q)
        lower, upper = [-INFINITY], [-INFINITY]
        for cell in self.cells:
            p = interval(cell.p)
            if _is_zero(p):
                continue
            loss = cell.losses()
            upper.append(loss)
            if _has_mass(p):
                # A single outcome attains its loss; a cell's mass ratio is one of a post-processing.
                attained = closed and (cell.loss is None or _is_narrow(loss))
                lower.append(loss if attained else _log_ratio(p.lower_end(), interval(cell.q) + tail_q))
        top = maximum(upper).bounds().upper if _is_zero(tail_p) else math.inf
        return Bounds(maximum(lower).bounds().lower, top)

    def min_loss(self) -> Bounds:
        """Bounds on the least privacy loss (minus the max-divergence of Q against P)."""
        other = self.swapped().max_divergence()
        return Bounds(-other.upper, -other.lower)

    def delta(self, epsilon: Number) -> Bounds:
        """Bounds on the hockey-stick divergence at ``epsilon`` (any real number).

        Lower: the event "every cell where P exceeds e^epsilon Q". Upper: inside a cell (1 - e^epsilon dQ/dP)+ is
        convex in dQ/dP, so its mean is at most the chord between the ends of the cell's loss range. Unresolved mass is
        charged in full to P above and to Q below.
        """
        return self._delta(exponential(epsilon)).bounds()

    def knots(self) -> tuple[float, ...]:
        """Distinct finite losses in increasing order: between two of them delta is linear in exp(epsilon)."""
        return tuple(sorted({loss for cell in self.cells if math.isfinite(loss := cell.losses().midpoint())}))

    def epsilon(self, delta: Number) -> Bounds:
        """Bounds on the least epsilon (possibly negative) whose hockey stick is at most ``delta``."""
        if not 0 <= delta < 1:  # type: ignore[operator]
            raise ParameterError("delta", "lie in [0, 1)", delta)
        if delta == 0:
            return self.max_divergence()
        goal = interval(delta)
        ranked = sorted(self.cells, key=lambda cell: -cell.losses().midpoint())
        p, q, best = ZERO, interval(self.tails[1]), -INFINITY
        for cell in ranked:
            p, q = p + interval(cell.p), q + interval(cell.q)
            gain = p - goal
            if gain.surely_above(0):
                best = maximum([best, _log_ratio(gain, q).lower_end()])
        lower = best.bounds().lower
        return Bounds(lower, self._least_epsilon_above(lower, goal))

    def renyi(self, order: float) -> Bounds:
        """Bounds on the Rényi divergence of ``order`` >= 1 (order 1 is Kullback–Leibler, infinity the maximum)."""
        if not order >= 1:
            raise ParameterError("order", "be at least 1", order)
        if order == math.inf:
            return self.max_divergence()
        if any(_has_mass(interval(tail).upper_end()) for tail in self.tails):
            raise ParameterError("tails", "be zero for a Rényi divergence", self.tails, "Use delta() instead.")
        if any(_has_mass(interval(c.p)) and not _has_mass(interval(c.q).upper_end()) for c in self.cells):
            return Bounds(math.inf, math.inf)
        parts = [_renyi_term(cell, order) for cell in self.cells if not _is_zero(cell.p)]
        moment = total(parts)
        value = moment if order == 1 else logarithm(moment) / (interval(order) - 1)
        return Bounds(max(0.0, value.bounds().lower), value.bounds().upper)

    def worst_event(self, epsilon: float, delta: float = 0.0) -> Event | None:
        """A smallest set of outcomes with P(S) > e^epsilon Q(S) + delta, or None if no set is certain to be one.

        For delta = 0 it is the single outcome of largest loss; else outcomes join in order of their excess until the
        claim breaks, so nothing in the event can be spared at its size.
        """
        x, goal = exponential(epsilon), interval(delta)
        if delta == 0:
            ranked = sorted(self.cells, key=lambda cell: -_certain_loss(cell, self.tails[1]))
        else:
            ranked = sorted(self.cells, key=lambda cell: -(interval(cell.p) - x * interval(cell.q)).midpoint())
        p, q, chosen = ZERO, interval(self.tails[1]), []
        for cell in ranked:
            p, q = p + interval(cell.p), q + interval(cell.q)
            chosen.append(cell.outcome)
            if (p - x * q).surely_above(goal):
                return Event(tuple(chosen), p.bounds(), q.bounds(), _log_ratio(p - goal, q).bounds().lower)
        return None

    def _delta(self, x: Interval) -> Interval:
        low, high = ZERO, interval(self.tails[0]).upper_end()
        for cell in self.cells:
            p, q = interval(cell.p), interval(cell.q)
            low = low + (p - x * q).positive_part().lower_end()
            high = high + _cell_delta_upper(cell, p, q, x)
        low = (low - x * interval(self.tails[1])).positive_part()
        return hull(low.lower_end(), minimum([high.upper_end(), ONE]))

    def _least_epsilon_above(self, lower: float, goal: Interval) -> float:
        def proved(candidate: float) -> bool:
            return self._delta(exponential(candidate)).surely_at_most(goal)

        if lower == math.inf or interval(self.tails[0]).surely_above(goal):
            return math.inf
        base = lower if math.isfinite(lower) else -1.0
        step = 2.0**-50 * max(1.0, abs(base))
        while not proved(base + step):
            step *= 2
            if base + step > 1e6:
                return math.inf
        return _bisect(proved, base, base + step)


def _bisect(proved: Callable[[float], bool], low: float, high: float) -> float:
    for _ in range(40):
        middle = low + (high - low) / 2
        if not low < middle < high:
            break
        low, high = (low, middle) if proved(middle) else (middle, high)
    return high


def _cell_delta_upper(cell: Cell, p: Interval, q: Interval, x: Interval) -> Interval:
    if cell.loss is None:
        return (p - x * q).positive_part().upper_end()
    if _is_narrow(cell.loss):
        return (p * (ONE - x * exponential(-cell.loss.upper_end()))).positive_part().upper_end()
    # r = dQ/dP lies in [r0, r1] with P-mean q/p; (1 - x r)+ is convex in r, hence below its chord.
    r0, r1 = exponential(-cell.loss.upper_end()), exponential(-cell.loss.lower_end())
    f0, f1 = (ONE - x * r0).positive_part(), (ONE - x * r1).positive_part()
    if not f0.surely_above(0):
        return (p * f0).upper_end()
    if f1.surely_above(0):
        return (p - x * q).positive_part().upper_end()
    weight = (q - p * r0) / (r1 - r0)
    return (p * f0 + weight * (f1 - f0)).positive_part().upper_end()


def _renyi_term(cell: Cell, order: float) -> Interval:
    """Enclosure of the cell's part of E_Q[phi(dP/dQ)], phi(x) = x^order, or x log x at order 1."""
    p, q = interval(cell.p), interval(cell.q)
    if not _has_mass(p) or not _has_mass(q):  # a zero is possible: x^order >= 0 and x log x >= -1/e
        top = _log_ratio(p.upper_end(), q.lower_end()).positive_part()
        high = p.upper_end() * (top if order == 1 else exponential((interval(order) - 1) * top))
        return hull(-q.upper_end() / 2 if order == 1 else ZERO, high)
    loss = logarithm(p) - logarithm(q)
    jensen = p * loss if order == 1 else p * exponential((interval(order) - 1) * loss)
    if cell.loss is None:
        return jensen
    if _is_narrow(cell.loss):
        top = cell.loss.upper_end()
        return hull(jensen, p * top if order == 1 else p * exponential((interval(order) - 1) * top))
    x0, x1 = exponential(cell.loss.lower_end()), exponential(cell.loss.upper_end())
    phi0, phi1 = (x * logarithm(x) if order == 1 else real_power(x, order) for x in (x0, x1))
    chord = q * phi0 + (p - q * x0) * (phi1 - phi0) / (x1 - x0)
    return hull(jensen, chord)


def _log_ratio(p: Interval, q: Interval) -> Interval:
    """Enclosure of log p/q; infinite only if q is surely zero."""
    return INFINITY if q.surely_at_most(0) else logarithm(p) - logarithm(q)


def _certain_loss(cell: Cell, tail: Fraction | Interval) -> float:
    p, q = interval(cell.p), interval(cell.q) + tail
    return _log_ratio(p.lower_end(), q.upper_end()).midpoint() if _has_mass(p) else -math.inf


def _check_distribution(name: str, distribution: Sequence[Number], tail: Number) -> None:
    if any(interval(p).bounds().lower < 0 for p in distribution):
        raise ParameterError(name, "have no negative probability", distribution)
    if all(isinstance(p, (Fraction, int)) for p in [*distribution, tail]):
        mass = sum((Fraction(p) for p in distribution), Fraction(tail))  # type: ignore[arg-type]
        if mass != 1:
            raise ParameterError(name, "sum to one exactly", mass, "Pass the missing mass as tails=.")
        return
    sum_bounds = (total(interval(p) for p in distribution) + tail).bounds()
    if not sum_bounds.lower - 1e-9 <= 1 <= sum_bounds.upper + 1e-9:
        raise ParameterError(name, "sum to one", sum_bounds, "Pass the missing mass as tails=.")


def _exact(value: Number) -> Fraction | Interval:
    if isinstance(value, Interval):
        return value
    return Fraction(value) if isinstance(value, (Fraction, int)) else interval(value)


def _is_zero(value: Fraction | Interval) -> bool:
    return interval(value).surely_at_most(0)


def _has_mass(value: Interval) -> bool:
    return value.surely_above(0)


def _is_narrow(loss: Interval) -> bool:
    """Whether the loss is constant up to rounding, so that a chord over it would divide by nothing."""
    ends = loss.bounds()
    return ends.lower == ends.upper or 0 <= ends.upper - ends.lower <= 1e-15 * abs(ends.upper) < math.inf
