"""From a sampler's code to its distribution: feed it every bit string.

A sampler that reads its randomness as words from a source is a function of a bit string.
:func:`distribution_of_sampler` runs it on longer and longer strings; a run that ends after b bits has probability
exactly 2^-b. What has not ended at the depth limit is the unresolved mass, which bounds the distance of the found
distribution to the true one from above.

>>> def die(source):
...     while True:
...         word = int(source.words(1)[0])
...         if word < 6:
...             return word + 1
>>> distribution = distribution_of_sampler(die, word_bits=3, most_bits=9)
>>> distribution.probabilities[6], distribution.unresolved
(Fraction(21, 128), Fraction(1, 64))
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from ledgerwood.errors import ParameterError
from ledgerwood.mechanisms.randomness import OutOfBits, RandomSource, ReplaySource
from ledgerwood.verification.exact.distributions import Pair
from ledgerwood.verification.exact.intervals import Bounds, Number, hull, interval


@dataclass(frozen=True, slots=True)
class SamplerDistribution:
    """Probabilities found so far, the mass still open, and the number of runs.

    The true probability of an output lies between ``probabilities[output]`` and that plus ``unresolved``.
    """

    probabilities: Mapping[Hashable, Fraction]
    unresolved: Fraction
    runs: int

    def probability(self, outcome: Hashable) -> Bounds:
        """Bounds on the true probability of an output."""
        found = self.probabilities.get(outcome, Fraction(0))
        return hull(found, found + self.unresolved).bounds()

    def contradicts(self, distribution: Mapping[Hashable, Number]) -> Hashable | None:
        """An output whose found probability no completion of the open runs can bring to ``distribution``, or None."""
        for outcome in {**distribution, **self.probabilities}:
            found = interval(self.probabilities.get(outcome, Fraction(0)))
            claimed = interval(distribution.get(outcome, Fraction(0)))
            if found.surely_above(claimed) or claimed.surely_above(found + self.unresolved):
                return outcome
        return None


def distribution_of_sampler(
    sampler: Callable[[RandomSource], Hashable], *, word_bits: int = 1, most_bits: int = 16, observe_bits: bool = False
) -> SamplerDistribution:
    """The distribution of a sampler's output, from its code.

    Parameters
    ----------
    sampler : callable
        ``sampler(source)`` takes all its randomness from ``source.words(count)`` and honours ``source.word_bits``.
    word_bits : int
        Bits in a word of the replayed source.
    most_bits : int
        Longest bit string to try; the number of runs is at most about ``2**most_bits``.
    observe_bits : bool
        The outcome is (output, bits used): what an observer of the running time sees.
    """
    if word_bits < 1 or most_bits < word_bits:
        raise ParameterError("most_bits", "be at least word_bits, which is at least 1", (most_bits, word_bits))
    found: dict[Hashable, Fraction] = {}
    runs = 0
    open_strings: list[list[int]] = [[]]
    unresolved = Fraction(0)
    while open_strings:
        words = open_strings.pop()
        source = ReplaySource(words, word_bits=word_bits)
        runs += 1
        try:
            output = sampler(source)
        except OutOfBits:
            if (len(words) + 1) * word_bits > most_bits:
                unresolved += Fraction(1, 1 << (len(words) * word_bits))
            else:
                open_strings += [[*words, word] for word in range(1 << word_bits)]
            continue
        used = source.position * word_bits
        key = (output, used) if observe_bits else output
        found[key] = found.get(key, Fraction(0)) + Fraction(1, 1 << used)
    return SamplerDistribution(found, unresolved, runs)


def sampler_pair(first: SamplerDistribution, second: SamplerDistribution) -> Pair:
    """The exact pair of two enumerated samplers; open runs are its tails."""
    return Pair.from_distributions(
        first.probabilities, second.probabilities, tails=(first.unresolved, second.unresolved)
    )
