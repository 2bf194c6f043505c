"""The samplers in plain integers: slow, exact, and the definition of what the kernels must return."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from ledgerwood.mechanisms.randomness import RandomSource, Words
from ledgerwood.mechanisms.sampling.arithmetic import Cumulative, SampledDistribution, cumulative, exp_minus

__all__ = ["LazyShape", "Reader", "Uniform", "bernoulli", "direct", "locate", "refined"]


class Reader:
    """Reads words one by one: first those at hand, then fresh ones from the source."""

    def __init__(self, source: RandomSource, at_hand: Words | None = None) -> None:
        self.source, self.at_hand, self.used = source, at_hand, 0

    @property
    def word_bits(self) -> int:
        """Bits in a word."""
        return self.source.word_bits

    def word(self) -> int:
        """The next word."""
        self.used += 1
        if self.at_hand is not None and self.used <= len(self.at_hand):
            return int(self.at_hand[self.used - 1])
        return int(self.source.words(1)[0])

    def below(self, n: int) -> int:
        """A uniform integer in 0 .. n-1, exactly: as many bits as n - 1 has, again if they show n or more."""
        bits = (n - 1).bit_length()
        words = -(-bits // self.word_bits)
        while True:
            value = 0
            for _ in range(words):
                value = value << self.word_bits | self.word()
            value >>= words * self.word_bits - bits
            if value < n:
                return value


class Uniform:
    """A uniform real in [0, 1) of which ``bits`` binary digits are known: it lies in [prefix, prefix + 1) / 2**bits."""

    __slots__ = ("bits", "prefix", "reader")

    def __init__(self, prefix: int, bits: int, reader: Reader) -> None:
        self.prefix, self.bits, self.reader = prefix, bits, reader

    @classmethod
    def fresh(cls, reader: Reader) -> Uniform:
        """A new one, one word of it known."""
        return cls(reader.word(), reader.word_bits, reader)

    def refine(self) -> None:
        """Draw one more word of digits."""
        self.prefix = self.prefix << self.reader.word_bits | self.reader.word()
        self.bits += self.reader.word_bits

    def enclosure(self) -> tuple[Fraction, Fraction]:
        """Both ends of the interval that it lies in."""
        return Fraction(self.prefix, 1 << self.bits), Fraction(self.prefix + 1, 1 << self.bits)


def locate(uniform: Uniform, boundaries: Callable[[int], tuple[list[int], list[int]]]) -> int:
    """Return the number of boundaries at or below the uniform, drawing digits until that is certain.

    ``boundaries(precision)`` encloses the sorted boundaries; it is asked again at a higher precision for each word
    that had to be drawn. The answer j is returned only if upper end j-1 <= U's interval <= lower end j.
    """
    while True:
        precision = -(-(uniform.bits + 32) // 32) * 32
        lo, hi = boundaries(precision)
        shift = precision - uniform.bits
        left, right = uniform.prefix << shift, (uniform.prefix + 1) << shift
        j = bisect_left(lo, right)
        if j == 0 or hi[j - 1] <= left:
            return j
        uniform.refine()


def direct(distribution: SampledDistribution, signed: bool, reader: Reader) -> int:
    """Invert the distribution function of ``distribution``; ``signed``: the lowest bit of the first word is a sign."""
    bits = reader.word_bits
    word = reader.word()
    uniform = Uniform(word >> 1, bits - 1, reader) if signed else Uniform(word, bits, reader)
    k = invert(distribution, uniform)
    return -k if signed and word & 1 else k


def invert(distribution: SampledDistribution, uniform: Uniform) -> int:
    """Return the k with F(k-1) <= U < F(k)."""
    table: Cumulative = cumulative(distribution, -(-(uniform.bits + 32) // 32) * 32)

    def boundaries(precision: int) -> tuple[list[int], list[int]]:
        nonlocal table
        table = cumulative(distribution, precision)
        # F(first - 1) is a boundary unless nothing lies below; the last one bounds the tail, where the answer
        # must not be given at this precision: a boundary at 1 can never be passed.
        return ([*table.lo, 1 << precision], [*table.hi, 1 << precision])

    while True:
        j = locate(uniform, boundaries)
        if (j > 0 or table.first == 0) and j < len(table.lo):
            return table.first - 1 + j
        uniform.refine()


def bernoulli(uniform: Uniform, exponent: Callable[[], tuple[Fraction, Fraction]]) -> bool:
    """U < exp(-x), with x enclosed by ``exponent()``, more closely each time it is asked."""

    def boundaries(precision: int) -> tuple[list[int], list[int]]:
        least, most = exponent()
        return [exp_minus(most, precision)[0]], [exp_minus(least, precision)[1]]

    return locate(uniform, boundaries) == 0


@dataclass(frozen=True, slots=True)
class LazyShape:
    """How a refined draw is made: index i by ``distribution``, u beside it, kept with probability exp(-x(i, u)), where

    x = product i u + square u^2 + linear u.

    Half-normal: distribution exp(-i^2 a) and x = a (2 i u + u^2) give i + u the density exp(-a (i+u)^2).
    Exponential: distribution exp(-r i) and x = r u give i + u the density exp(-r (i+u)).
    If ``fine_bits`` is not None, u is a multiple of 2**-fine_bits and (i + u) 2**fine_bits is the discrete
    variable with those weights on 0, 1, 2, ...; a minus sign at zero is rejected, so that zero counts once.
    """

    distribution: SampledDistribution
    product: Fraction
    square: Fraction
    linear: Fraction
    fine_bits: int | None

    def fine_digits(self, word_bits: int) -> int:
        """How many bits of the second word belong to u; the others begin the acceptance test."""
        return word_bits // 2 if self.fine_bits is None else self.fine_bits


def refined(shape: LazyShape, reader: Reader) -> tuple[bool, int, Uniform]:
    """Return (negative, i, u).

    Two words an attempt, each followed by words for more digits where a comparison is undecided: the first holds the
    sign (lowest bit) and i, the second u (lowest bits) and the acceptance test.
    """
    m = shape.fine_digits(reader.word_bits)
    while True:
        word = reader.word()
        i = invert(shape.distribution, Uniform(word >> 1, reader.word_bits - 1, reader))
        negative = bool(word & 1)
        word = reader.word()
        u = Uniform(word & ((1 << m) - 1), m, reader)
        if shape.fine_bits is not None and negative and i == u.prefix == 0:
            continue
        if bernoulli(Uniform(word >> m, reader.word_bits - m, reader), _Exponent(shape, i, u)):
            return negative, i, u


class _Exponent:
    """Encloses x(i, u); asked again, because the first answer did not decide, it draws more digits of u first."""

    def __init__(self, shape: LazyShape, i: int, u: Uniform) -> None:
        self.slope, self.square = shape.product * i + shape.linear, shape.square
        self.u, self.lazy, self.asked = u, shape.fine_bits is None, False

    def __call__(self) -> tuple[Fraction, Fraction]:
        if self.lazy and self.asked:
            self.u.refine()
        self.asked = True
        lo, hi = self.u.enclosure()
        if not self.lazy:
            hi = lo
        return self.slope * lo + self.square * lo * lo, self.slope * hi + self.square * hi * hi
