"""Where the random bits come from: the operating system, or (for tests) a seed or a given bit string.

A sampler sees randomness only as *words*: independent integers, uniform on ``0 .. 2**word_bits - 1``.

* :class:`SystemSource` reads the operating system's cryptographic generator in blocks, one block for a whole
  release. It has **no state**: no buffer outlives a call, so there is nothing that a forked child or a second
  thread could share, and nothing left in memory after the release. A block of a million words costs about
  as much as numpy's million *inexact* normals; a stream cipher of our own would save less than half of a
  release's time and add a key to protect.
* :class:`SeededSource` wraps a numpy generator. It is reproducible, hence **not private**: whoever knows the
  seed can subtract the noise. Its ``private`` is False, and a ledger writes that into its record.
* :class:`ReplaySource` plays back a given bit string in short words and raises :class:`OutOfBits` at its end,
  so that a test can feed *every* short bit string to the code of a sampler and add up exact probabilities.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ledgerwood.errors import NotPrivate, ParameterError

__all__ = ["OutOfBits", "RandomSource", "ReplaySource", "Rng", "SeededSource", "SystemSource", "source_of"]

Words: TypeAlias = NDArray[np.uint64]


@runtime_checkable
class RandomSource(Protocol):
    """Independent uniform words.

    Attributes
    ----------
    private : bool
        False if anybody could reproduce the words.
    word_bits : int
        Bits in a word: 64, except in a :class:`ReplaySource`.
    prefetch : bool
        May a sampler take more words at once than it is sure to use? Not from a :class:`ReplaySource`,
        which counts them.

    >>> SystemSource().private, SeededSource(7).private
    (True, False)
    """

    @property
    def private(self) -> bool:
        """False if anybody could reproduce the words."""

    @property
    def word_bits(self) -> int:
        """Bits in a word."""

    @property
    def prefetch(self) -> bool:
        """May a sampler take more words than it uses?"""

    def words(self, count: int) -> Words:
        """Exactly ``count`` fresh words."""


@dataclass(frozen=True, slots=True)
class SystemSource:
    """The operating system's cryptographic generator, read in blocks: no state, so safe in forks and threads.

    >>> len(SystemSource().words(3)), SystemSource().private
    (3, True)
    """

    private: bool = field(default=True, init=False)
    word_bits: int = field(default=64, init=False)
    prefetch: bool = field(default=True, init=False)

    def words(self, count: int) -> Words:
        """Exactly ``count`` fresh 64-bit words."""
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


@dataclass(frozen=True, slots=True)
class SeededSource:
    """Words of a numpy generator: reproducible, hence not private. For tests and demonstrations.

    >>> a, b = SeededSource(np.random.default_rng(1)), SeededSource(np.random.default_rng(1))
    >>> bool(np.all(a.words(4) == b.words(4))), a.private
    (True, False)
    """

    generator: np.random.Generator
    private: bool = field(default=False, init=False)
    word_bits: int = field(default=64, init=False)
    prefetch: bool = field(default=True, init=False)

    def words(self, count: int) -> Words:
        """Exactly ``count`` words from the generator."""
        return self.generator.integers(0, 2**64, size=count, dtype=np.uint64, endpoint=False)


class OutOfBits(Exception):
    """A :class:`ReplaySource` has no word left: no error, but the sign that a bit string was too short."""


@dataclass(slots=True)
class ReplaySource:
    """Plays back a list of short words, then raises :class:`OutOfBits`.

    ``position`` says how many words were used: a run that ended after ``position`` words happens with
    probability exactly ``2 ** -(position * word_bits)``.

    >>> source = ReplaySource([5, 7], word_bits=3)
    >>> int(source.words(1)[0]), source.position
    (5, 1)
    >>> source.words(2)
    Traceback (most recent call last):
    ...
    ledgerwood.mechanisms.randomness.OutOfBits
    """

    given: list[int]
    word_bits: int = 64
    position: int = 0
    private: bool = field(default=False, init=False)
    prefetch: bool = field(default=False, init=False)

    def words(self, count: int) -> Words:
        """The next ``count`` words of the list."""
        if self.position + count > len(self.given):
            raise OutOfBits
        taken = self.given[self.position : self.position + count]
        self.position += count
        return np.array(taken, dtype=np.uint64)


Rng: TypeAlias = RandomSource | np.random.Generator | None


def source_of(rng: Rng) -> RandomSource:
    """The source behind an ``rng=`` argument.

    ``None`` is the operating system. A bare numpy generator is accepted with the warning
    :class:`~ledgerwood.errors.NotPrivate`; a :class:`SeededSource`, which says the same by its name, without.

    >>> source_of(None).private
    True
    """
    if rng is None:
        return SystemSource()
    if isinstance(rng, np.random.Generator):
        warnings.warn(
            "this release draws its noise from a seeded numpy generator: it is reproducible and NOT private. "
            "Leave out rng to release data; pass SeededSource(generator) to say so and silence this warning",
            NotPrivate,
            stacklevel=3,
        )
        return SeededSource(rng)
    if isinstance(rng, RandomSource):
        return rng
    raise ParameterError("rng", "be None, a numpy Generator or a RandomSource", rng)
