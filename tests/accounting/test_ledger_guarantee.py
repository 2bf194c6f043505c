"""The filters' and the odometer's guarantees, by enumeration of every adaptive strategy on small mechanisms.

An adversary holds a few binary mechanisms, each a worst case of its cost, and after every output chooses the next
one or stops. What it can reach is a finite game: the value of a state (how often each mechanism ran, with which
outputs) is the best over its choices. Acceptance is asked of a real ledger. The game is solved exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import pytest
from ledger_cases import Silent
from scipy.special import ndtr

from ledgerwood.accounting import BoundedRange, Cost, Gaussian, Ledger, PureDP
from ledgerwood.accounting.accountant.filters import make_filter
from ledgerwood.errors import BudgetExceeded


@dataclass(frozen=True)
class Binary:
    """Output 1 has probability p on one dataset and q on its neighbour."""

    cost: Cost
    p: float
    q: float

    def outcomes(self) -> tuple[tuple[float, float], ...]:
        """(probability under P, loss) of each output."""
        pairs = [(self.p, self.q), (1 - self.p, 1 - self.q)]
        return tuple((p, math.log(p / q)) for p, q in pairs)


def response(epsilon: float) -> Binary:
    """Randomised response: the worst pure mechanism."""
    p = 1 / (1 + math.exp(-epsilon))
    return Binary(PureDP(epsilon), p, 1 - p)


def selection(epsilon: float, t: float) -> Binary:
    """A bounded-range pair with losses t and t - epsilon: theory.md, section 2."""
    q = (1 - math.exp(t - epsilon)) / (1 - math.exp(-epsilon))
    return Binary(BoundedRange(epsilon), q, q * math.exp(-t))


def threshold(mu: float, cut: float) -> Binary:
    """Gaussian noise, of which only the side of a cut is shown."""
    return Binary(Gaussian(mu=mu), float(ndtr(cut + mu)), float(ndtr(cut)))


GAMES = {
    "pure": [response(0.3), response(0.5)],
    "rdp": [response(0.6), selection(0.9, 0.3), selection(0.9, 0.7)],
    "zcdp": [response(0.6), selection(1.0, 0.5), threshold(0.4, 0.3)],
    "gdp": [threshold(0.3, -0.2), threshold(0.5, 0.4), threshold(0.8, 0.0)],
}


def game_value(filter: str, epsilon: float, delta: float, steps: int, accepting: float | None = None) -> float:
    """The largest delta at ``epsilon`` over all adaptive strategies against a ledger of budget ``accepting``."""
    mechanisms = GAMES[filter]

    @cache
    def accepts(counts: tuple[int, ...], choice: int) -> bool:
        ledger = Ledger(accepting or epsilon, delta, filter=filter)
        for mechanism, count in zip(mechanisms, counts, strict=True):
            for _ in range(count):
                ledger.release(Silent(mechanism.cost), None, label="r")
        try:
            ledger.release(Silent(mechanisms[choice].cost), None, label="r")
        except BudgetExceeded:
            return False
        return True

    @cache
    def value(counts: tuple[int, ...], ones: tuple[int, ...]) -> float:
        loss = sum(
            k * m.outcomes()[0][1] + (n - k) * m.outcomes()[1][1]
            for m, n, k in zip(mechanisms, counts, ones, strict=True)
        )
        best = max(0.0, -math.expm1(epsilon - loss))  # stop here
        if sum(counts) == steps:
            return best
        for i, mechanism in enumerate(mechanisms):
            if accepts(counts, i):
                after = tuple(n + (j == i) for j, n in enumerate(counts))
                (p1, _), (p0, _) = mechanism.outcomes()
                hit = tuple(k + (j == i) for j, k in enumerate(ones))
                best = max(best, p1 * value(after, hit) + p0 * value(after, ones))
        return best

    return value((0,) * len(mechanisms), (0,) * len(mechanisms))


@pytest.mark.parametrize("filter", ["rdp", "zcdp", "gdp"])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.2), (1.0, 0.1), (2.0, 0.03)])
def test_no_adaptive_strategy_beats_a_filter(filter: str, epsilon: float, delta: float) -> None:
    assert game_value(filter, epsilon, delta, steps=9) <= delta


def test_no_adaptive_strategy_beats_the_pure_filter() -> None:
    assert game_value("pure", 1.0, 0.0, steps=9) <= 1e-15


@pytest.mark.parametrize("filter", ["rdp", "zcdp", "gdp", "pure"])
def test_the_enumeration_notices_a_ledger_that_grants_too_much(filter: str) -> None:
    delta = 0.0 if filter == "pure" else 0.03
    assert game_value(filter, 1.0, delta, steps=9, accepting=2.5) > max(delta, 1e-3)


def test_the_gaussian_filter_is_nearly_attained() -> None:
    """Not just safe: the games come within a factor of three of delta at once."""
    assert game_value("gdp", 1.0, 0.1, steps=9) > 0.1 / 3


@pytest.mark.parametrize("order", [1.5, 3.0, 8.0, 40.0])
def test_the_renyi_divergence_of_every_adaptive_strategy_stays_within_the_limit(order: float) -> None:
    """Theorem 2 itself, before any conversion: max over strategies of E_P[exp((a-1) L)] is at most exp((a-1) B)."""
    mechanisms, limit = GAMES["rdp"], 1.3
    prices = [float(m.cost.rdp(order)) for m in mechanisms]

    @cache
    def moment(counts: tuple[int, ...]) -> float:
        best = 1.0
        for i, mechanism in enumerate(mechanisms):
            after = tuple(n + (j == i) for j, n in enumerate(counts))
            if sum(n * price for n, price in zip(after, prices, strict=True)) <= limit:
                step = sum(p * math.exp((order - 1) * loss) for p, loss in mechanism.outcomes())
                best = max(best, step * moment(after))
        return best

    assert math.log(moment((0, 0, 0))) / (order - 1) <= limit * (1 + 1e-12)


@pytest.mark.parametrize("delta", [0.3, 0.05])
@pytest.mark.parametrize("steps", [30])
def test_the_odometer_is_exceeded_at_any_time_with_probability_at_most_delta(delta: float, steps: int) -> None:
    """The adversary chooses mechanisms and the moment to look; it wins if the loss ever tops the reading."""
    small, large = response(0.35), selection(0.6, 0.25)
    readings: dict[tuple[int, int], float] = {}
    for first in range(steps + 1):
        ledger = Ledger(1000.0, 1e-3)
        for _ in range(first):
            ledger.release(Silent(small.cost), None, label="r")
        for second in range(steps + 1 - first):
            readings[first, second] = ledger.odometer(delta)
            ledger.release(Silent(large.cost), None, label="r")
    sure = steps * 0.35
    assert readings[steps, 0] < sure  # the time-uniform bound is at work, not only the sum

    def exceeded(readings: dict[tuple[int, int], float]) -> float:
        @cache
        def value(first: int, second: int, ones: int, hits: int) -> float:
            up, down = small.outcomes()[0][1], small.outcomes()[1][1]
            high, low = large.outcomes()[0][1], large.outcomes()[1][1]
            loss = ones * up + (first - ones) * down + hits * high + (second - hits) * low
            if loss > readings[first, second] + 1e-12:
                return 1.0
            if first + second == steps:
                return 0.0
            p, q = small.p, large.p
            return max(
                p * value(first + 1, second, ones + 1, hits) + (1 - p) * value(first + 1, second, ones, hits),
                q * value(first, second + 1, ones, hits + 1) + (1 - q) * value(first, second + 1, ones, hits),
            )

        return value(0, 0, 0, 0)

    assert exceeded(readings) <= delta
    assert exceeded({key: reading / 3 for key, reading in readings.items()}) > delta  # the game can be lost


@pytest.mark.parametrize("name", ["rdp", "zcdp", "gdp"])
@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 8.0, 100.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.1])
def test_a_limit_is_worth_no_more_than_epsilon(name: str, epsilon: float, delta: float) -> None:
    rule = make_filter(name, epsilon, delta)
    assert 0 < rule.epsilon_of(rule.limit) <= epsilon
    assert rule.epsilon_of(rule.limit * 1.001) > epsilon
