"""Flaws of implementations: an aggregate that floors its own noise, floating point, and running time."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.accounting import PureDP
from ledgerwood.verification.exact import textbook
from ledgerwood.verification.exact.distributions import Cell, Pair
from ledgerwood.verification.exact.intervals import ONE, Interval, exponential, hull, interval
from ledgerwood.verification.zoo.entry import Entry
from ledgerwood.verification.zoo.noise import on_grid

Array = NDArray[Any]


def _mean_with_noised_count(data: Sequence[float], n: int, rng: np.random.Generator) -> Array:
    """A mean of values in [0, 1] whose noisy count also sets the scale of the noise, floored at 1e-12."""
    count = len(data) + rng.laplace(scale=2.0, size=n)
    scale = np.maximum(1e-12, 1.0 / (count * 0.5))
    return math.fsum(data) / count + scale * rng.laplace(size=n)


def _near_zero(data: Sequence[float]) -> Interval:
    r"""Enclosure of P(|mean| < 1e-9).

    A negative noisy count c (probability ½ exp(-n/2)) floors the scale: the output is sum/c + Lap(1e-12). If the sum
    is 0 that is inside with probability at least 1 - exp(-1000); if the sum is at least ½, it is inside only for c <
    -1e8 or noise beyond 1e-9, together less than exp(-900). A positive count has density at most c/4 near 0, so it
    adds at most 1e-9 E[c+]/2 <= 1e-9 (n + 2)/2.
    """
    n, total = len(data), math.fsum(data)
    assert total == 0 or total >= 0.5
    spread = interval(Fraction(n + 2, 2 * 10**9))
    negative = exponential(Fraction(-n, 2)) / 2
    if total == 0:
        return hull(negative * (ONE - exponential(-1000)), negative + spread)
    return hull(0, spread + exponential(-900))


def _mean_exact(first: Sequence[float], second: Sequence[float]) -> Pair:
    p, q = _near_zero(first), _near_zero(second)
    return Pair((Cell("|mean| < 1e-9", p, q), Cell("elsewhere", ONE - p, ONE - q, hull(-math.inf, math.inf))))


def _float_laplace(data: Sequence[float], n: int, rng: np.random.Generator) -> Array:
    return data[0] + rng.laplace(scale=10.0, size=n)


def grid_preimages(output: float, center: float, scale: float) -> int:
    """How many points of numpy's uniform grid make ``center + laplace(scale)`` equal to ``output``.

    numpy draws U = k 2^-53 and returns scale*log(U+U) for U < ½, -scale*log(2-U-U) above, in floats. Both branches are
    monotone in k up to a few units in the last place, so all solutions lie in a short window around the real one.

    >>> y = 1.0 + 10.0 * math.log(2 * (123456789 * 2.0**-30))
    >>> grid_preimages(y, 1.0, 10.0) > 0, grid_preimages(y, 0.0, 10.0)
    (True, 0)
    """
    noise = output - center
    below = math.exp(-abs(noise) / scale) * 2.0**52  # k of the lower branch; the upper branch mirrors it
    blur = 4 * (math.ulp(output) + math.ulp(center) + math.ulp(noise))
    reach = math.ceil(below * blur / scale) + 16
    points: set[int] = set()
    if noise <= blur:
        points |= set(range(max(1, int(below) - reach), min(2**52 - 1, int(below) + reach) + 1))
    if noise >= -blur:
        mirrored = 2**53 - int(below)
        points |= set(range(max(2**52, mirrored - reach), min(2**53 - 1, mirrored + reach) + 1))
    return sum(center + _numpy_laplace(k * 2.0**-53, scale) == output for k in points)


def _numpy_laplace(u: float, scale: float) -> float:
    """The operations of numpy's sampler on its uniform, for location 0."""
    return -(scale * math.log(2.0 - u - u)) if u >= 0.5 else scale * math.log(u + u)


def _float_laplace_exact(first: Sequence[float], second: Sequence[float]) -> Pair:
    """A witness: an output of the second input that no point of the grid gives under the first."""
    for k in range(3 * 10**15, 3 * 10**15 + 1000):
        output = second[0] + _numpy_laplace(k * 2.0**-53, 10.0)
        if grid_preimages(output, first[0], 10.0) == 0:
            q = Fraction(grid_preimages(output, second[0], 10.0), 2**53)
            return Pair.from_distributions({"another": 1}, {output.hex(): q, "another": 1 - q})
    raise AssertionError("every output tried is attainable from both inputs")


def _half_precision_sum(data: Sequence[float]) -> float:
    """Row by row in float16, as an accelerator may do it."""
    return float(np.add.accumulate(np.asarray(data, dtype=np.float16))[-1])


def _float_sum(data: Sequence[float], n: int, rng: np.random.Generator) -> Array:
    return on_grid(_half_precision_sum(np.clip(data, -1, 1).tolist()) + rng.laplace(size=n))


def _float_sum_exact(first: Sequence[float], second: Sequence[float]) -> Pair:
    sums = [_half_precision_sum(np.clip(data, -1, 1).tolist()) for data in (first, second)]
    return textbook.laplace_pair(sums[0], sums[1], 1)


#: 2048 rows of 0.5 make 1024, where the spacing of float16 goes from 0.5 to 1. The next row lifts the sum to 1025, but
#: without the first row only to 1024. Then each row of -0.49976 is rounded away in the first case and counts for 0.5
#: in the second.
_ROWS = (*(2048 * (0.5,)), 0.50048828125, *(40 * (-0.499755859375,)))


def _timed_discrete_laplace(data: Sequence[int], n: int, rng: np.random.Generator) -> Array:
    """(value, coin flips used): the magnitude is found by flipping until the first failure."""
    values = np.empty((n, 2), dtype=np.int64)
    pending = np.arange(n)
    while pending.size:
        magnitude = rng.geometric(-math.expm1(-1.0), size=pending.size) - 1
        negative = rng.random(pending.size) < 0.5
        done = ~(negative & (magnitude == 0))  # minus zero is rejected
        values[pending[done], 0] = data[0] + np.where(negative, -magnitude, magnitude)[done]
        values[pending[done], 1] = magnitude[done] + 1
        pending = pending[~done]
    return values


def _timed_distribution(data: Sequence[int], reach: int = 40) -> tuple[dict[Hashable, Interval], Interval]:
    r = exponential(-1)
    unit = (ONE - r) / (ONE + r)
    distribution: dict[Hashable, Interval] = {
        (data[0] + z, abs(z) + 1): unit * exponential(-abs(z)) for z in range(-reach, reach + 1)
    }
    return distribution, 2 * exponential(-reach - 1) / (ONE + r)


def _timed_exact(first: Sequence[int], second: Sequence[int]) -> Pair:
    """Values far out join the unresolved tail; a value and a time that no noise can explain have probability zero."""
    (p, tail_p), (q, tail_q) = _timed_distribution(first), _timed_distribution(second)
    near = {outcome for outcome in {*p, *q} if abs(outcome[0]) <= 20}  # type: ignore[index]
    cells = tuple(Cell(o, p.get(o, interval(0)), q.get(o, interval(0))) for o in sorted(near))  # type: ignore[type-var]
    far = [
        sum((m for o, m in distribution.items() if o not in near), start=tail)
        for distribution, tail in ((p, tail_p), (q, tail_q))
    ]
    return Pair((*cells, Cell("farther than 20", far[0], far[1], hull(-math.inf, math.inf))))


ENTRIES = (
    Entry(
        name="dpaud_mean_noised",
        family="aggregate",
        correct=False,
        summary="mean with a noisy count that also scales the noise (DP-Auditorium's documented configuration)",
        claim=PureDP(1.0),
        relation="one row added or removed, rows in [0, 1]",
        pair=((0.0,), (0.0, 1.0)),
        sampler=_mean_with_noised_count,
        exact=_mean_exact,
        reason="A negative noisy count makes the scale negative and it is floored at 1e-12: sum/count is released all "
        "but exactly.",
        known_epsilon=None,
    ),
    Entry(
        name="float64_laplace_lattice",
        family="floating point",
        correct=False,
        summary="x + numpy's float64 Laplace noise",
        claim=PureDP(0.1),
        relation="each query moves by at most 1",
        pair=((0.0,), (1.0,)),
        sampler=_float_laplace,
        exact=_float_laplace_exact,
        reason="The noise takes values on a grid, so that most outputs of one input cannot come from the other "
        "(Mironov 2012).",
        known_epsilon=math.inf,
    ),
    Entry(
        name="float_sum_reordering",
        family="floating point",
        correct=False,
        summary="sum of clipped rows in half precision + Lap(1/eps)",
        claim=PureDP(1.0),
        relation="one row added or removed, rows in [-1, 1]",
        pair=(_ROWS, _ROWS[1:]),
        sampler=_float_sum,
        exact=_float_sum_exact,
        reason="Rounding makes the sum move by more than the clip bound, the more the longer the data (Casacuberta et "
        "al. 2022).",
        known_epsilon=21.0,
    ),
    Entry(
        name="timing_discrete_laplace",
        family="side channel",
        correct=False,
        summary="discrete Laplace whose number of coin flips is seen (Jin et al. 2022)",
        claim=PureDP(1.0),
        relation="each query moves by at most 1",
        pair=((0,), (1,)),
        sampler=_timed_discrete_laplace,
        exact=_timed_exact,
        reason="The time is the size of the noise plus one, so value and time together leave two candidates for the "
        "input.",
        known_epsilon=math.inf,
    ),
)
