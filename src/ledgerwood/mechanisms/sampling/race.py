"""Comparing lazily known reals: who comes first, when every contestant is only enclosed?

A contest is decided in floats if one contestant's enclosure lies beyond all others; otherwise the few that overlap are
refined, digit by digit, in exact rationals. The contestants are continuous and independent: ties have probability 0.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ledgerwood.mechanisms.sampling.arithmetic import exp_minus
from ledgerwood.mechanisms.sampling.choice import Exponents
from ledgerwood.mechanisms.sampling.draws import LazyReals

__all__ = ["first_to_arrive", "largest", "order_of_arrival"]

Floats = NDArray[np.float64]
Scores = NDArray[np.int64] | NDArray[np.float64]


def largest(
    floats: Floats,
    slack: Floats,
    enclose: Callable[[int, int], tuple[Fraction, Fraction]],
    refine: Callable[[int], None],
    among: NDArray[np.int64],
) -> int:
    """Index of the largest of the reals ``among`` some, given floats within ``slack`` of them.

    ``enclose(i, precision)`` encloses the i-th real; ``refine(i)`` draws more digits of it.
    """
    high, low = floats[among] + slack[among], floats[among] - slack[among]
    rivals: list[int] = among[high >= np.max(low)].tolist()
    precision = 128
    while len(rivals) > 1:
        ends = {i: enclose(i, precision) for i in rivals}
        leader = max(rivals, key=lambda i: ends[i][0])
        rivals = [i for i in rivals if i == leader or ends[i][1] > ends[leader][0]]
        if len(rivals) > 1:
            for i in rivals:
                refine(i)
            precision *= 2
    return rivals[0]


def order_of_arrival(scores: Scores, coefficient: float, times: LazyReals, places: int) -> list[int]:
    """The first ``places`` candidates by arrival time E_i exp(-c s_i), with E_i the sizes of ``times``.

    Arrival times are exponential with rates exp(c s_i): the first to arrive is i with probability proportional to
    exp(c s_i), and the next ones are chosen likewise among those that remain. In logarithms:
    log E_i + x_i with x_i = c (best - s_i), best the largest score that remains, where E_i is known within a step, and
    the rest within a few roundings, covered by 2**-47 (1 + x_i + |log E_i|). Measured from the best, a doubtful x_i is
    small (its rival's is 0), however large the scores: exp(-x_i) is enclosed with few digits.
    """
    size = np.abs(times.approximate())
    step = times.slack()
    log_size = np.log(np.maximum(size, step))
    log_slack = 2.0**-47 * (1 + np.abs(log_size))
    log_slack += np.where(size > 4 * step, 2 * step / np.maximum(size, step), np.inf)
    c = Fraction(coefficient)
    places_taken: list[int] = []

    def enclose(exponents: Exponents, i: int, precision: int) -> tuple[Fraction, Fraction]:
        lo, hi = sorted(abs(end) for end in times.enclosure(i))
        x = exponents.exact(i)
        down, up = exp_minus(x, precision)
        while down == 0:
            precision *= 2
            down, up = exp_minus(x, precision)
        return -hi * (1 << precision) / down, -lo * (1 << precision) / up

    running = np.arange(len(scores))
    for _ in range(places):
        exponents = Exponents(c, scores, scores[running].max().item())
        x = np.zeros(len(scores))
        x[running] = Exponents(c, scores[running], exponents.top).capped()
        floats, slack = -x - log_size, log_slack + 2.0**-47 * x  # the largest of these arrives first
        winner = largest(floats, slack, partial(enclose, exponents), times.refine, running)
        places_taken.append(winner)
        running = running[running != winner]
    return places_taken


def first_to_arrive(scores: Scores, coefficient: float, times: LazyReals) -> int:
    """The candidate that arrives first."""
    return order_of_arrival(scores, coefficient, times, 1)[0]
