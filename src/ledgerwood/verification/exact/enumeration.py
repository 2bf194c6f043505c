"""Whole programs by enumeration: replace the random source by one that tries every noise outcome.

A program ``f(data, source)`` draws its noise from ``source``. :func:`distribution_of` runs it once per sequence of
outcomes, by replaying a prefix and branching at the first new draw, and adds up the exact probabilities of its
outputs. What a run may depend on is its data and its draws, nothing else. Distributions with infinite support are cut
at a chosen reach; the mass cut off is reported and widens every later answer.

>>> from fractions import Fraction
>>> def two_coins(data, source):
...     return source.draw({0: Fraction(1, 2), 1: Fraction(1, 2)}) + source.draw({0: Fraction(1, 4), 1: Fraction(3, 4)})
>>> distribution = distribution_of(two_coins, None)
>>> {outcome: str(p) for outcome, p in sorted(distribution.probabilities.items())}
{0: '1/8', 1: '1/2', 2: '3/8'}
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np

from ledgerwood.errors import ParameterError
from ledgerwood.verification.exact.distributions import Pair
from ledgerwood.verification.exact.intervals import INFINITY, Bounds, logarithm, maximum

Outcome = TypeVar("Outcome", bound=Hashable)
Data = TypeVar("Data", bound=Hashable)
Program: TypeAlias = "Callable[[Any, Choices], Hashable]"


_MOST_DRAWS = 1000  # of one run: longer than any program meant to be enumerated, so a loop without end is refused
_REPLAYS = 3  # of the first run, to see that nothing else decides its output


@dataclass(frozen=True, slots=True)
class DiscreteDistribution(Generic[Outcome]):
    """Outcomes with exact probabilities; ``tail`` is the mass that was cut off."""

    outcomes: tuple[Outcome, ...]
    probabilities: tuple[Fraction, ...]
    tail: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if sum(self.probabilities, self.tail) != 1 or min(self.probabilities) < 0:
            raise ParameterError("probabilities", "be non-negative and sum to one with the tail", self.probabilities)


@dataclass(frozen=True, slots=True)
class ProgramDistribution:
    """The exact distribution of a program's output on one input; ``tail`` is unresolved mass."""

    probabilities: Mapping[Hashable, Fraction]
    tail: Fraction
    runs: int


class Choices:
    """The random source of an enumerated program: replays chosen outcomes, then takes the first of each new draw.

    >>> from fractions import Fraction
    >>> def flip(bit, source):
    ...     return bit ^ source.draw({0: Fraction(3, 4), 1: Fraction(1, 4)})
    >>> distribution_of(flip, 1).probabilities
    {1: Fraction(3, 4), 0: Fraction(1, 4)}
    """

    __slots__ = ("_position", "_script", "distributions")

    def __init__(self, script: Sequence[int]) -> None:
        self._script, self._position = script, 0
        self.distributions: list[DiscreteDistribution[Any]] = []

    def draw(self, distribution: DiscreteDistribution[Outcome] | Mapping[Outcome, Fraction]) -> Outcome:
        """One outcome of a finite distribution."""
        if not isinstance(distribution, DiscreteDistribution):
            distribution = DiscreteDistribution(tuple(distribution), tuple(distribution.values()))
        index = self._script[self._position] if self._position < len(self._script) else 0
        self._position += 1
        self.distributions.append(distribution)
        if len(self.distributions) > _MOST_DRAWS:
            raise ParameterError(
                "program",
                f"end after at most {_MOST_DRAWS} draws",
                len(self.distributions),
                "Bound its loops, and cut its noise.",
            )
        if index >= len(distribution.outcomes):  # the same draws led to another distribution before
            raise ParameterError("program", "depend on its data and its draws alone", f"draw {len(self.distributions)}")
        return distribution.outcomes[index]

    def select(self, weights: Sequence[Fraction | int]) -> int:
        """An index with probability proportional to its weight (an exponential mechanism in base 2, say)."""
        return self.draw(_normalized(tuple(weights)))

    def discrete_laplace(self, ratio: Fraction, reach: int) -> int:
        """Integer noise with P(k) ∝ ratio^|k|, cut at ``reach``: what lies beyond goes into the tail."""
        return self.draw(discrete_laplace(ratio, reach))


@lru_cache(maxsize=4096)
def _normalized(weights: tuple[Fraction | int, ...]) -> DiscreteDistribution[int]:
    mass = sum(weights, Fraction(0))
    return DiscreteDistribution(tuple(range(len(weights))), tuple(Fraction(w) / mass for w in weights))


@lru_cache(maxsize=256)
def discrete_laplace(ratio: Fraction, reach: int) -> DiscreteDistribution[int]:
    """Two-sided geometric distribution, P(k) = (1-r)/(1+r) r^|k|, cut at ``reach``; its epsilon per unit is -log r.

    >>> discrete_laplace(Fraction(1, 2), 3).tail
    Fraction(1, 12)
    """
    if not 0 < ratio < 1:
        raise ParameterError("ratio", "lie in (0, 1)", ratio)
    r = Fraction(ratio)
    support = tuple(range(-reach, reach + 1))
    probabilities = tuple((1 - r) / (1 + r) * r ** abs(k) for k in support)
    return DiscreteDistribution(support, probabilities, 2 * r ** (reach + 1) / (1 + r))


def distribution_of(program: Program, data: Any, *, limit: int = 10_000_000) -> ProgramDistribution:
    """The exact output distribution of ``program(data, source)``.

    Parameters
    ----------
    program : callable
        Deterministic but for the draws it takes from its second argument.
    data : any
        The input.
    limit : int
        Most runs to make before giving up with an error.

    >>> def noisy(count, source):
    ...     return count + source.discrete_laplace(Fraction(1, 2), reach=20)
    >>> distribution_of(noisy, 3).probabilities[3]
    Fraction(1, 3)
    """
    found: dict[Hashable, Fraction] = {}
    script: list[int] = []
    runs = 0
    while True:
        source = Choices(script)
        output = program(data, source)
        if not runs and any(program(data, Choices(script)) != output for _ in range(_REPLAYS)):
            raise ParameterError("program", "draw all its randomness from its source", _name(program))
        runs += 1
        if runs > limit:
            raise ParameterError("limit", "cover all sequences of outcomes", limit, "Use fewer draws or outcomes.")
        distributions = source.distributions
        script = script + [0] * (len(distributions) - len(script))
        mass = Fraction(
            math.prod(distribution.probabilities[i].numerator for distribution, i in zip(distributions, script)),
            math.prod(distribution.probabilities[i].denominator for distribution, i in zip(distributions, script)),
        )
        found[output] = found.get(output, Fraction(0)) + mass
        while script and script[-1] + 1 == len(distributions[len(script) - 1].outcomes):
            script.pop()
        if not script:
            return ProgramDistribution(found, 1 - sum(found.values(), Fraction(0)), runs)
        script[-1] += 1


def _name(program: Any) -> str:
    return getattr(program, "__name__", type(program).__name__)


def pair_of(program: Program, first: Any, second: Any) -> Pair:
    """The exact pair of a program on two inputs.

    >>> def flip(bit, source):
    ...     return bit ^ source.draw({0: Fraction(3, 4), 1: Fraction(1, 4)})
    >>> str(pair_of(flip, 0, 1).max_divergence())  # log 3
    '1.09861'
    """
    p, q = distribution_of(program, first), distribution_of(program, second)
    return Pair.from_distributions(p.probabilities, q.probabilities, tails=(p.tail, q.tail))


@dataclass(frozen=True, slots=True)
class DomainVerdict(Generic[Data]):
    """What enumeration proves of a program over a whole domain of neighbouring pairs.

    For every pair and either direction, P(S) <= ratio * Q(S) + delta for all sets S of outputs. Without cut-off tails
    delta is 0 and log(ratio) is the exact pure epsilon over the domain, attained at ``outcome`` on ``pair``.

    Attributes
    ----------
    ratio : Fraction or None
        Largest ratio of two resolved probabilities; None if one input gives an output that the other cannot.
    delta : float
        Largest mass that the ratio does not cover: the tail, and outputs resolved on one side only.
    epsilon : Bounds
        Enclosure of the pure epsilon over the domain; the upper end is infinite when ``delta`` is positive, and then
        the proved statement is the one with ``ratio`` and ``delta``.
    """

    ratio: Fraction | None
    delta: float
    epsilon: Bounds
    pair: tuple[Data, Data]
    outcome: Hashable
    pairs: int
    runs: int


def verify_domain(program: Program, neighbours: Iterable[tuple[Data, Data]]) -> DomainVerdict[Data]:
    """The exact epsilon of a program over **all** given neighbouring pairs, both directions.

    Each data set is enumerated once. Logarithms in double precision rank the pairs; those within 1e-9 of the largest
    are compared as rationals, so the answer is the exact maximum.

    >>> def flip(bit, source):
    ...     return bit ^ source.draw({0: Fraction(3, 4), 1: Fraction(1, 4)})
    >>> str(verify_domain(flip, [(0, 1)]).epsilon)
    '1.09861'
    """
    pairs = list(neighbours)
    if not pairs:
        raise ParameterError("neighbours", "hold at least one pair", pairs)
    distributions = {
        data: distribution_of(program, data) for data in dict.fromkeys(data for pair in pairs for data in pair)
    }
    row = {data: i for i, data in enumerate(distributions)}
    column: dict[Hashable, int] = {}
    for distribution in distributions.values():
        for outcome in distribution.probabilities:
            column.setdefault(outcome, len(column))
    logs = np.full((len(row), len(column)), -np.inf)
    for data, distribution in distributions.items():
        logs[row[data], [column[o] for o in distribution.probabilities]] = [
            _log(p) for p in distribution.probabilities.values()
        ]
    tails = np.array([float(distribution.tail) * (1 + 1e-15) for distribution in distributions.values()])

    both = [(a, b) for pair in pairs for a, b in (pair, pair[::-1])]
    best, sure, delta = (np.empty(len(both)) for _ in range(3))
    for start in range(0, len(both), 1024):
        block = both[start : start + 1024]
        p, q = (logs[[row[pair[side]] for pair in block]] for side in (0, 1))
        tail_p, tail_q = (tails[[row[pair[side]] for pair in block]] for side in (0, 1))
        uncovered = np.isneginf(q) & (tail_q > 0)[:, None]
        with np.errstate(invalid="ignore", divide="ignore"):
            loss = np.where(uncovered | np.isneginf(p), -np.inf, p - q)
            low = np.where(np.isneginf(p), -np.inf, p - np.logaddexp(q, np.log(tail_q)[:, None]))
        best[start : start + len(block)] = loss.max(axis=1)
        sure[start : start + len(block)] = low.max(axis=1)
        lost = np.where(uncovered, np.exp(p), 0.0).sum(axis=1)
        delta[start : start + len(block)] = lost * (1 + 1e-9) + tail_p

    runs = sum(distribution.runs for distribution in distributions.values())
    exact = [
        (*_largest_ratio(distributions[a], distributions[b]), a, b)
        for (a, b), loss in zip(both, best)
        if loss >= best.max() - 1e-9
    ]
    ratio, outcome, a, b = max(exact, key=lambda found: (found[0] is None, found[0] or 0))
    upper = math.inf if ratio is None or delta.max() > 0 else logarithm(ratio).bounds().upper
    bounds = Bounds(_sure_epsilon(*(distributions[data] for data in both[int(np.argmax(sure))])), upper)
    return DomainVerdict(ratio, float(delta.max()), bounds, (a, b), outcome, len(pairs), runs)


def _largest_ratio(first: ProgramDistribution, second: ProgramDistribution) -> tuple[Fraction | None, Hashable]:
    """Largest P/Q over the outcomes; None if Q surely cannot give one of them."""
    best: tuple[Fraction, Hashable] = (Fraction(0), None)
    for outcome, p in first.probabilities.items():
        q = second.probabilities.get(outcome, Fraction(0))
        if q == 0:
            if p > 0 and second.tail == 0:
                return None, outcome
        elif p / q > best[0]:
            best = (p / q, outcome)
    return best


def _sure_epsilon(first: ProgramDistribution, second: ProgramDistribution) -> float:
    """The epsilon that some outcome certifies even if all of Q's unresolved mass falls on it."""
    ratios = [
        INFINITY if q == 0 else logarithm(p / q)
        for outcome, p in first.probabilities.items()
        for q in [second.probabilities.get(outcome, Fraction(0)) + second.tail]
    ]
    return maximum(ratios).bounds().lower


def _log(p: Fraction) -> float:
    return math.log(p.numerator) - math.log(p.denominator) if p else -math.inf
