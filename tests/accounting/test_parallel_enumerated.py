"""Parallel composition against enumeration: every replace-one neighbour of small tables, also across parts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from ledgerwood.accounting import BoundedRange, Cost, DiscreteLaplace, PureDP, parallel

Distribution = dict[int, float]
Rows = tuple[int, ...]


@dataclass(frozen=True)
class Discrete:
    """A release on one part with a finite distribution, and its cost for one row added or removed."""

    cost: Cost
    distribution: Callable[[Rows], Distribution]


def _count(scale: float) -> Discrete:
    """A noisy count, clamped to 0..3: nothing changes when a row is replaced."""

    def distribution(rows: Rows) -> Distribution:
        ratio = math.exp(-1 / scale)
        head = {k: (1 - ratio) / (1 + ratio) * ratio ** abs(k - len(rows)) for k in (1, 2)}
        low = sum((1 - ratio) / (1 + ratio) * ratio ** abs(k - len(rows)) for k in range(-400, 1))
        return {0: low, **head, 3: 1 - low - sum(head.values())}

    return Discrete(DiscreteLaplace(scale=scale), distribution)


def _vote(epsilon: float, options: int = 3) -> Discrete:
    """The exponential mechanism on votes: one row raises one score by one, so its range sensitivity is 1."""

    def distribution(rows: Rows) -> Distribution:
        weight = [math.exp(epsilon * rows.count(v)) for v in range(options)]
        return {v: w / sum(weight) for v, w in enumerate(weight)}

    return Discrete(BoundedRange(epsilon), distribution)


def _presence(epsilon: float) -> Discrete:
    """Randomised response about whether the part has any row."""
    lie = 1 / (1 + math.exp(epsilon))
    return Discrete(PureDP(epsilon), lambda rows: {int(not rows): lie, int(bool(rows)): 1 - lie})


def _profile(first: list[Distribution], second: list[Distribution], epsilon: float) -> float:
    """δ(ε) of independent releases, by summing over every joint output."""
    total = 0.0
    for output in itertools.product(*first):
        p, q = (
            math.prod(distribution[o] for distribution, o in zip(distributions, output, strict=True))
            for distributions in (first, second)
        )
        total += max(0.0, p - math.exp(epsilon) * q)
    return total


BLOCKS = {
    "two counts": [_count(2.0), _count(2.0)],
    "a count and a vote": [_count(1.5), _vote(0.7)],
    "two votes": [_vote(0.5), _vote(0.9)],
    "three kinds": [_count(2.0), _vote(0.6), _presence(0.8)],
    "one part": [_vote(0.8)],
}
EPSILONS = (0.0, 0.2, 0.5, 0.9, 1.3)


@pytest.mark.parametrize("name", BLOCKS)
def test_no_neighbour_has_a_larger_profile_than_the_price(name: str) -> None:
    block = BLOCKS[name]
    price = parallel(*(part.cost for part in block), neighbours="replace_one")
    places = [(part, value) for part in range(len(block)) for value in range(3)] + [(-1, 0)]  # -1 lies in no part
    pairs = set()
    for others in itertools.combinations_with_replacement(places, 2):
        for old, new in itertools.permutations(places, 2):
            tables = tuple(
                tuple(tuple(v for part, v in sorted((*others, row)) if part == i) for i in range(len(block)))
                for row in (old, new)
            )
            pairs.add(tables)
    worst = dict.fromkeys(EPSILONS, 0.0)
    for first, second in pairs:
        distributions = [
            [part.distribution(rows) for part, rows in zip(block, table, strict=True)] for table in (first, second)
        ]
        for epsilon in EPSILONS:
            worst[epsilon] = max(worst[epsilon], _profile(*distributions, epsilon))
    for epsilon, exact in worst.items():
        assert exact <= price.delta(epsilon) * (1 + 1e-9) + 1e-12
    assert worst[0.0] > 0.1  # the neighbours did move


def test_the_sum_of_replace_one_costs_would_have_been_broken_by_a_record_that_moves() -> None:
    """Two counts have replace-one cost 0 each; a record that moves shows."""
    counts = [_count(2.0), _count(2.0)]
    here, there = (
        [part.distribution(rows) for part, rows in zip(counts, rows, strict=True)] for rows in (((0,), ()), ((), (0,)))
    )
    assert _profile(here, there, 0.5) > 0.1
