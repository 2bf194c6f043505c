"""Two judges for samplers: exact enumeration of bit strings, and a chi-square test with a stated false-alarm rate."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from fractions import Fraction

import numpy as np
from scipy import stats
from tests.kit.sampler_distribution import distribution_of_sampler

from ledgerwood.mechanisms.randomness import RandomSource

FALSE_ALARM = 1e-9
"""Chance that one goodness-of-fit test fails although the sampler is right. Fewer than 100 of them run in CI."""


def enumerate_bits(
    sampler: Callable[[RandomSource], Hashable], word_bits: int, depth: int
) -> tuple[Mapping[Hashable, Fraction], Fraction]:
    """Run the sampler on every string of words of at most ``depth`` bits.

    Returns the exact probability of each output by runs that end in time, and the probability of all others.
    """
    found = distribution_of_sampler(sampler, word_bits=word_bits, most_bits=depth)
    assert sum(found.probabilities.values()) + found.unresolved == 1
    return found.probabilities, found.unresolved


def assert_distribution(
    mass: Mapping[Hashable, Fraction], undecided: Fraction, probability: Callable[..., float], at_most: float
) -> None:
    """Every output's probability lies between its mass and its mass plus what is undecided."""
    assert undecided <= at_most, float(undecided)
    for output, known in mass.items():
        p = probability(output)
        assert float(known) * (1 - 1e-9) <= p <= float(known + undecided) * (1 + 1e-9), (output, float(known), p)


def assert_fits(counts: np.ndarray, probabilities: np.ndarray) -> None:
    """Pearson's test; cells with fewer than 50 expected are pooled."""
    expected = counts.sum() * np.asarray(probabilities, dtype=float)
    small = expected < 50
    seen = np.append(counts[~small], counts[small].sum())
    wanted = np.append(expected[~small], max(counts.sum() - expected[~small].sum(), 0.0))
    if wanted[-1] < 50:
        keep = int(np.argmax(wanted[:-1]))
        seen[keep] += seen[-1]
        wanted[keep] += wanted[-1]
        seen, wanted = seen[:-1], wanted[:-1]
    statistic = float(np.sum((seen - wanted) ** 2 / wanted))
    assert stats.chi2.sf(statistic, len(seen) - 1) > FALSE_ALARM, (statistic, len(seen) - 1)


def counts_of(values: np.ndarray, low: int, high: int) -> np.ndarray:
    """Counts of low, ..., high, everything beyond counted at a last, extra cell."""
    inside = values[(values >= low) & (values <= high)]
    return np.append(np.bincount(inside - low, minlength=high - low + 1), len(values) - len(inside))
