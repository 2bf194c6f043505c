r"""Exact samplers: random bits in, integers compared, the stated distribution out.

Lazy comparison
---------------
A uniform number U in [0, 1) is an infinite string of bits of which only the first few are drawn. To decide
``U < p`` for a real ``p``, compare the first word ``u`` (so that ``u <= 2**b U < u + 1``) with an integer
``T`` such that ``T <= 2**b p < T + 2``:

- ``u < T``: then ``2**b U < u + 1 <= T <= 2**b p``, so U < p;
- ``u > T + 1``: then ``2**b U >= u >= T + 2 > 2**b p``, so U >= p;
- otherwise (probability at most ``2 / 2**b``) draw more bits and enclose ``p`` more narrowly, until decided.

The answer is that of the infinite string, so the event has probability exactly ``p``, whatever the word size
``b``; the word size only says how often the slow path is taken. Tests run the same code with words of a few
bits and add up the probabilities of all bit strings.

Inversion (`by_inversion`)
    The output is the number of cumulative probabilities ``F_0 <= F_1 <= ...`` that are at most U, each
    comparison lazy. Since ``F_{o-1} <= U < F_o`` has probability ``F_o - F_{o-1}``, the distribution is exact.

Independent bits (`by_laplace_bits`)
    If G is geometric, ``Pr[G = g]`` proportional to ``q**g = prod_j (q**(2**j))**(bit j of g)``, its binary
    digits are independent, digit j being one with odds ``q**(2**j)``; the first J digits are G modulo
    ``2**J``, geometric on ``0, ..., 2**J - 1``. With a fair sign, and (minus, 0) rejected, the noise z has
    weight ``q**|z|``; rejecting what falls outside leaves ``q**|z|`` on the range: OpBoost's bounded discrete
    Laplace (Lemma 4.10). J is chosen per input (the least with ``2**J`` above the longer side), so an attempt
    succeeds with probability above 1/4 for *every* rate, where plain resampling takes about ``2 / (rate *
    width)`` attempts as the rate falls. Memory does not grow with the domain. For the clamped distribution one more
    digit says ``G >= 2**J``, and nothing but (minus, 0) is rejected.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.mechanisms.local.distributions import Ball, ClampedLaplace, FiniteDistribution
from ledgerwood.mechanisms.local.domain import Codes
from ledgerwood.mechanisms.randomness import RandomSource
from ledgerwood.mechanisms.sampling import exact

Words = NDArray[np.unsignedinteger[Any]]
LARGEST_TABLE = 1024
_GUARD = 64
# Reading the system's generator is most of the work, so words are short: one comparison in 32768 needs more.
_SHORT_BITS = 16


def short_words(source: RandomSource, count: int) -> tuple[Words, int]:
    """``count`` uniform integers of 16 bits, cut from whole words, and the number of their bits.

    A source of shorter words (the tests' bit strings) gives those instead: every sampler is exact for every
    size.
    """
    if source.word_bits != 64:
        return source.words(count), source.word_bits
    return source.words(-(-count * _SHORT_BITS // 64)).view(np.uint16)[:count], _SHORT_BITS


def _below(word: int, bits: int, enclose: Callable[[int], Ball], source: RandomSource) -> bool:
    """Whether the uniform number that begins with this word is less than the one enclosed."""

    def boundaries(precision: int) -> tuple[list[int], list[int]]:
        ball = enclose(precision)
        return [ball.lower], [ball.upper]

    return exact.locate(exact.Uniform(word, bits, exact.Reader(source)), boundaries) == 0


def threshold(enclose: Callable[[int], Ball], bits: int) -> int:
    """The integer T with ``T <= 2**bits p < T + 2``, and at most ``2**bits - 1``."""
    ball = enclose(bits + _GUARD)
    return _floor(ball.lower, ball.upper, bits)


def _floor(lower: int, upper: int, bits: int) -> int:
    floor = lower >> _GUARD
    if upper >> _GUARD > floor + 1:
        raise ArithmeticError("the enclosure of a probability is too wide")  # cannot happen: 64 guard bits
    return min(floor, (1 << bits) - 1)


def bernoulli(enclose: Callable[[int], Ball], count: int, source: RandomSource) -> NDArray[np.bool_]:
    """``count`` independent events of the probability enclosed."""
    words, bits = short_words(source, count)
    limit = words.dtype.type(threshold(enclose, bits))
    happens = words < limit
    near = words == limit
    if limit < np.iinfo(words.dtype).max:
        near |= words == limit + words.dtype.type(1)
    for i in np.flatnonzero(near):
        happens[i] = _below(int(words[i]), bits, enclose, source)
    return happens


@lru_cache(maxsize=16)
def inversion_table(distribution: FiniteDistribution, bits: int) -> Words:
    """Lower bounds of all cumulative probabilities, in units of ``2**-bits``, less than two units off."""
    table = np.empty((distribution.width, distribution.width - 1), dtype=np.uint64)
    for row in range(distribution.width):
        lower, upper = distribution.cumulative(row, bits + _GUARD)
        table[row] = [_floor(low, high, bits) for low, high in zip(lower, upper, strict=True)]
    return table


def by_inversion(distribution: FiniteDistribution, rows: Codes, source: RandomSource) -> Codes:
    """Draw an output for each row, by inverting its cumulative probabilities."""
    from ledgerwood.mechanisms.local._kernels import invert

    words, bits = source.words(rows.size), source.word_bits
    outputs, undecided = np.empty(rows.size, dtype=np.int64), np.empty(rows.size, dtype=np.int64)
    waiting = invert(inversion_table(distribution, bits), rows, words, outputs, undecided)
    for i in undecided[:waiting]:
        uniform = exact.Uniform(int(words[i]), bits, exact.Reader(source))
        outputs[i] = exact.locate(uniform, partial(distribution.cumulative, int(rows[i])))
    return outputs


@lru_cache(maxsize=1024)
def _digit(distribution: FiniteDistribution, index: int, precision: int) -> Ball:
    return distribution.magnitude_bit(index, precision)


@lru_cache(maxsize=32)
def _digit_thresholds(distribution: FiniteDistribution, bits: int, dtype: str) -> Words:
    digits = range(distribution.magnitude_bits())
    thresholds = [threshold(partial(_digit, distribution, j), bits) for j in digits]
    return np.array(thresholds, dtype=dtype)


def by_laplace_bits(distribution: FiniteDistribution, rows: Codes, source: RandomSource) -> Codes:
    """Draw an output for each row, from the independent binary digits of the noise."""
    from ledgerwood.mechanisms.local._kernels import keep_undecided

    result = np.empty(rows.size, dtype=np.int64)
    waiting = np.arange(rows.size)
    while waiting.size:
        outputs = laplace_attempts(distribution, rows[waiting], source)
        waiting = waiting[: keep_undecided(outputs, waiting, result)]
    return result


def laplace_attempts(distribution: FiniteDistribution, rows: Codes, source: RandomSource) -> Codes:
    """One attempt for each row: its output, or -1 where it is rejected and must be made anew."""
    from ledgerwood.mechanisms.local import _kernels

    digits, clamp = distribution.magnitude_bits(), isinstance(distribution, ClampedLaplace)
    drawn, bits = short_words(source, rows.size * (digits + 1))
    words = drawn.reshape(rows.size, digits + 1)
    outputs, undecided = np.empty(rows.size, dtype=np.int64), np.empty(rows.size, dtype=np.int64)
    thresholds = _digit_thresholds(distribution, bits, words.dtype.str)
    waiting = _kernels.laplace_attempts(thresholds, clamp, distribution.width, rows, words, outputs, undecided)
    for i in undecided[:waiting]:
        outputs[i] = _attempt_exactly(distribution, int(rows[i]), words[i], bits, source)
    return outputs


def _attempt_exactly(distribution: FiniteDistribution, row: int, words: Words, bits: int, source: RandomSource) -> int:
    from ledgerwood.mechanisms.local._kernels import finish

    clamp = isinstance(distribution, ClampedLaplace)
    count = distribution.magnitude_bits() if clamp else max(row, distribution.width - 1 - row).bit_length()
    magnitude = 0
    for j in range(count):
        if _below(int(words[j + 1]), bits, partial(_digit, distribution, j), source):
            magnitude |= 1 << j
    return int(finish(row, magnitude, bool(int(words[0]) & 1), distribution.width, clamp))
