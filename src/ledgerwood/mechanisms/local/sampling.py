r"""Exact samplers: random bits in, integers compared, the stated law out.

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
    comparison lazy. Since ``F_{o-1} <= U < F_o`` has probability ``F_o - F_{o-1}``, the law is exact.

Independent bits (`by_laplace_bits`)
    If G is geometric, ``Pr[G = g]`` proportional to ``q**g = prod_j (q**(2**j))**(bit j of g)``, its binary
    digits are independent, digit j being one with odds ``q**(2**j)``; the first J digits are G modulo
    ``2**J``, geometric on ``0, ..., 2**J - 1``. With a fair sign, and (minus, 0) rejected, the noise z has
    weight ``q**|z|``; rejecting what falls outside leaves ``q**|z|`` on the range: P1's bounded discrete
    Laplace (Lemma 4.10). J is chosen per input (the least with ``2**J`` above the longer side), so an attempt
    succeeds with probability above 1/4 for *every* rate, where plain resampling takes about ``2 / (rate *
    width)`` attempts as the rate falls. Memory does not grow with the domain. For the clamped law one more
    digit says ``G >= 2**J``, and nothing but (minus, 0) is rejected.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.mechanisms.randomness import RandomSource

from .domain import Codes
from .fixed_point import Ball
from .laws import ClampedLaplace, Law

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


class LazyUniform:
    """A uniform number in [0, 1) of which only the bits asked for have been drawn."""

    def __init__(self, word: int, bits: int, source: RandomSource) -> None:
        self._prefix, self._bits, self._source = word, bits, source

    def below(self, enclose: Callable[[int], Ball]) -> bool:
        """Whether the number is less than the one enclosed; draws more bits until that is certain."""
        while True:
            ball = enclose(self._bits + _GUARD)
            if (self._prefix + 1) << _GUARD <= ball.lower:
                return True
            if self._prefix << _GUARD >= ball.upper:
                return False
            more = self._source.word_bits
            self._prefix = self._prefix << more | int(self._source.words(1)[0])
            self._bits += more


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
        happens[i] = LazyUniform(int(words[i]), bits, source).below(enclose)
    return happens


def uniform_below(bounds: Codes, source: RandomSource) -> Codes:
    """Independent uniform integers in ``0, ..., bound - 1``, bounds at most ``2**word_bits``.

    A word is reduced modulo the bound when it lies below the largest multiple of it, else drawn again.
    """
    result = np.empty(bounds.size, dtype=np.int64)
    waiting = np.arange(bounds.size)
    while waiting.size:
        bound = bounds[waiting].astype(np.uint64)
        words = source.words(waiting.size)
        last = np.uint64(2**source.word_bits - 1)
        accepted = words <= last - (last % bound + np.uint64(1)) % bound
        result[waiting[accepted]] = (words % bound)[accepted].astype(np.int64)
        waiting = waiting[~accepted]
    return result


@lru_cache(maxsize=16)
def inversion_table(law: Law, bits: int) -> Words:
    """Lower bounds of all cumulative probabilities, in units of ``2**-bits``, less than two units off."""
    table = np.empty((law.width, law.width - 1), dtype=np.uint64)
    for row in range(law.width):
        lower, upper = law.cumulative(row, bits + _GUARD)
        table[row] = [_floor(low, high, bits) for low, high in zip(lower, upper, strict=True)]
    return table


def by_inversion(law: Law, rows: Codes, source: RandomSource) -> Codes:
    """Draw an output for each row, by inverting its cumulative probabilities."""
    from ._kernels import invert

    words, bits = source.words(rows.size), source.word_bits
    outputs, undecided = np.empty(rows.size, dtype=np.int64), np.empty(rows.size, dtype=np.int64)
    waiting = invert(inversion_table(law, bits), rows, words, outputs, undecided)
    for i in undecided[:waiting]:
        outputs[i] = _invert_exactly(law, int(rows[i]), LazyUniform(int(words[i]), bits, source))
    return outputs


def _invert_exactly(law: Law, row: int, uniform: LazyUniform) -> int:
    low, high = 0, law.width - 1
    while low < high:
        middle = (low + high) // 2
        if uniform.below(lambda precision, i=middle: _boundary(law, row, i, precision)):  # type: ignore[misc]
            high = middle
        else:
            low = middle + 1
    return low


def _boundary(law: Law, row: int, index: int, precision: int) -> Ball:
    lower, upper = law.cumulative(row, precision)
    return Ball(lower[index], upper[index], precision)


@lru_cache(maxsize=1024)
def _digit(law: Law, index: int, precision: int) -> Ball:
    return law.magnitude_bit(index, precision)


@lru_cache(maxsize=32)
def _digit_thresholds(law: Law, bits: int, dtype: str) -> Words:
    digits = range(law.magnitude_bits())
    thresholds = [threshold(lambda p, j=j: _digit(law, j, p), bits) for j in digits]  # type: ignore[misc]
    return np.array(thresholds, dtype=dtype)


def by_laplace_bits(law: Law, rows: Codes, source: RandomSource) -> Codes:
    """Draw an output for each row, from the independent binary digits of the noise."""
    from ._kernels import settle

    result = np.empty(rows.size, dtype=np.int64)
    waiting = np.arange(rows.size)
    while waiting.size:
        outputs = laplace_attempts(law, rows[waiting], source)
        waiting = waiting[: settle(outputs, waiting, result)]
    return result


def laplace_attempts(law: Law, rows: Codes, source: RandomSource) -> Codes:
    """One attempt for each row: its output, or -1 where it is rejected and must be made anew."""
    from . import _kernels

    digits, clamp = law.magnitude_bits(), isinstance(law, ClampedLaplace)
    drawn, bits = short_words(source, rows.size * (digits + 1))
    words = drawn.reshape(rows.size, digits + 1)
    outputs, undecided = np.empty(rows.size, dtype=np.int64), np.empty(rows.size, dtype=np.int64)
    thresholds = _digit_thresholds(law, bits, words.dtype.str)
    waiting = _kernels.laplace_attempts(thresholds, clamp, law.width, rows, words, outputs, undecided)
    for i in undecided[:waiting]:
        outputs[i] = _attempt_exactly(law, int(rows[i]), words[i], bits, source)
    return outputs


def _attempt_exactly(law: Law, row: int, words: Words, bits: int, source: RandomSource) -> int:
    from ._kernels import finish

    clamp = isinstance(law, ClampedLaplace)
    count = law.magnitude_bits() if clamp else max(row, law.width - 1 - row).bit_length()
    magnitude = 0
    for j in range(count):
        uniform = LazyUniform(int(words[j + 1]), bits, source)
        if uniform.below(lambda precision, j=j: _digit(law, j, precision)):  # type: ignore[misc]
            magnitude |= 1 << j
    return int(finish(row, magnitude, bool(int(words[0]) & 1), law.width, clamp))
