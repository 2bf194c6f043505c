"""Drivers: from a source of words to arrays of exact draws."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.mechanisms.randomness import RandomSource, Words
from ledgerwood.mechanisms.sampling import exact
from ledgerwood.mechanisms.sampling.arithmetic import Geometric, HalfGaussian, Poisson, SampledDistribution, thresholds

__all__ = [
    "LARGEST_SCALE",
    "LazyReals",
    "discrete_gaussian",
    "discrete_laplace",
    "exponential",
    "normal",
    "skellam",
    "uniform_below",
]

LARGEST_SCALE = 2**50
"""Largest sigma or scale, in units of the grid: noise then stays below 2**57."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplerTuning:
    """How samplers divide their work: time and memory, never a distribution. Chosen by ``benchmarks/mechanisms.py``.

    Up to the direct scales one table holds all magnitudes, some 2500 entries made in a few milliseconds. Above them the
    coarse part has a scale in [64, 128) or [16, 32): a smaller table, and one proposal in 200 or 50 rejected.
    """

    direct_gaussian: int = 256
    coarse_gaussian: int = 7  # bits
    direct_laplace: int = 64
    coarse_laplace: int = 5  # bits
    poisson_part: int = 2**24  # largest mean of one table: about 80 000 entries
    lazy_steps: int = 256  # of a lazy real per unit
    choice_block: int = 1024  # weights that are summed before one is looked for
    choices_at_once: int = 2**16  # weights that stay in the cache, and in memory that the process already has


TUNING = SamplerTuning()


@dataclass(frozen=True, slots=True)
class _Table:
    """Thresholds of a distribution for the kernels, with a guide to where each leading bit pattern begins."""

    offset: int
    entries: Words
    guide: NDArray[np.int64]
    shift: np.uint64


@lru_cache(maxsize=64)
def _table(distribution: SampledDistribution, bits: int) -> _Table:
    offset, entries = thresholds(distribution, bits)
    guide_bits = min(bits, max(1, len(entries).bit_length() + 1))
    starts = np.arange(1 << guide_bits, dtype=np.uint64) << np.uint64(bits - guide_bits)
    guide = np.searchsorted(entries, starts, side="left").astype(np.int64)
    return _Table(offset, entries, np.append(guide, len(entries) - 1), np.uint64(bits - guide_bits))


def _blocks(source: RandomSource, left: Words, needed: int) -> Words:
    """What is left, and about as many fresh words as are needed (one, if the source counts them)."""
    fresh = source.words(max(needed, 1) if source.prefetch else 1)
    return np.concatenate((left, fresh)) if len(left) else fresh


def _direct(distribution: SampledDistribution, signed: bool, count: int, source: RandomSource) -> NDArray[np.int64]:
    from ledgerwood.mechanisms.sampling import _kernels

    table = _table(distribution, source.word_bits - signed)
    out = np.empty(count, dtype=np.int64)
    done, words = 0, np.empty(0, dtype=np.uint64)
    while done < count:
        done, used, status = _kernels.direct(
            out, done, words, table.entries, table.guide, table.shift, table.offset, signed
        )
        words = words[used:]
        if status == _kernels.EXHAUSTED:
            words = _blocks(source, words, min(count - done, 2**20))
        elif status == _kernels.UNDECIDED:
            reader = exact.Reader(source, words)
            out[done] = exact.direct(distribution, signed, reader)
            done, words = done + 1, words[reader.used :]
    return out


@dataclass(slots=True)
class LazyReals:
    """Independent reals s (i + u) / 256 with u known to half a word (``digits``), and to more on demand.

    ``approximate()`` is within ``slack() (1 + |x|)`` of the real number; ``enclosure(j)`` is certain.
    """

    negative: NDArray[np.bool_]
    coarse: NDArray[np.int64]
    fine: Words
    digits: int
    source: RandomSource
    longer: dict[int, exact.Uniform] = field(default_factory=dict)

    def approximate(self) -> NDArray[np.float64]:
        """Floats near the reals; they decide nothing, they only save work."""
        size = (self.coarse + self.fine * 2.0**-self.digits) * (1 / TUNING.lazy_steps)
        return np.where(self.negative, -size, size)

    def slack(self) -> float:
        """Bound on |approximate - real| / (1 + |real|)."""
        return 2.0**-49 + 2.0**-self.digits / TUNING.lazy_steps

    def rounded_sums(self, fraction: NDArray[np.float64], scale: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return floor(fraction + scale X + 1/2), and the indices where floats leave that in doubt.

        Float error: X within ``slack() (1 + |X|)``, then three roundings of numbers below scale |X| + 2.
        """
        from ledgerwood.mechanisms.sampling import _kernels

        out, doubtful = np.empty(len(self.coarse), dtype=np.int64), np.empty(len(self.coarse), dtype=np.bool_)
        reals = self.negative, self.coarse, self.fine
        unit, slack = 2.0**-self.digits, self.slack() + 2.0**-49
        _kernels.rounded_sums(out, doubtful, fraction, scale, 1 / TUNING.lazy_steps, reals, unit, slack)
        return out, np.flatnonzero(doubtful)

    def enclosure(self, j: int) -> tuple[Fraction, Fraction]:
        """Both ends of the interval in which the j-th real lies."""
        lo, hi = self._uniform(j).enclosure()
        i = int(self.coarse[j])
        near, far = (i + lo) / TUNING.lazy_steps, (i + hi) / TUNING.lazy_steps
        return (-far, -near) if self.negative[j] else (near, far)

    def refine(self, j: int) -> None:
        """Draw one more word of digits for the j-th real."""
        self._uniform(j).refine()

    def joined(self, j: int, others: LazyReals) -> LazyReals:
        """The j-th of these, followed by others from the same source."""
        longer = {k + 1: uniform for k, uniform in others.longer.items()}
        if j in self.longer:
            longer[0] = self.longer[j]
        return LazyReals(
            np.concatenate((self.negative[j : j + 1], others.negative)),
            np.concatenate((self.coarse[j : j + 1], others.coarse)),
            np.concatenate((self.fine[j : j + 1], others.fine)),
            self.digits,
            self.source,
            longer,
        )

    def _uniform(self, j: int) -> exact.Uniform:
        if j not in self.longer:
            reader = exact.Reader(self.source)
            self.longer[j] = exact.Uniform(int(self.fine[j]), self.digits, reader)
        return self.longer[j]


@lru_cache(maxsize=64)
def _constants(shape: exact.LazyShape, word_bits: int) -> tuple[Any, ...]:
    """Return the table and the numbers of a refined draw, as its kernel takes them."""
    table, m = _table(shape.distribution, word_bits - 1), shape.fine_digits(word_bits)
    return (
        *(table.entries, table.guide, table.shift),
        *(float(shape.product), float(shape.square), float(shape.linear)),
        *(np.uint64(m), shape.fine_bits is None, 2.0**-m, 2.0 ** (m - word_bits)),
    )


@lru_cache(maxsize=8)
def _lazy_shape(normal: bool, steps: int, word_bits: int) -> tuple[exact.LazyShape, tuple[Any, ...]]:
    """Return the shape of a lazy real with that many steps per unit, and its constants; hashing rationals is slow."""
    if normal:
        a = Fraction(1, steps**2)
        shape = exact.LazyShape(HalfGaussian(1 / a, False), a, a / 2, Fraction(0), None)
    else:
        r = Fraction(1, steps)
        shape = exact.LazyShape(Geometric(r, False), Fraction(0), Fraction(0), r, None)
    return shape, _constants(shape, word_bits)


def _refined(
    shape: exact.LazyShape, count: int, source: RandomSource, constants: tuple[Any, ...] | None = None
) -> LazyReals:
    from ledgerwood.mechanisms.sampling import _kernels

    negative, coarse = np.empty(count, dtype=np.bool_), np.empty(count, dtype=np.int64)
    fine = np.empty(count, dtype=np.uint64)
    m = shape.fine_digits(source.word_bits)
    reals = LazyReals(negative, coarse, fine, m, source)
    constants = constants or _constants(shape, source.word_bits)
    done, words = 0, np.empty(0, dtype=np.uint64)
    while done < count:
        done, used, status = _kernels.refined(negative, coarse, fine, done, words, *constants)
        words = words[used:]
        if status == _kernels.EXHAUSTED:
            words = _blocks(source, words, min(2 * (count - done) + (count - done) // 64 + 2, 2**20))
        elif status == _kernels.UNDECIDED:
            reader = exact.Reader(source, words)
            negative[done], coarse[done], u = exact.refined(shape, reader)
            words = words[reader.used :]
            fine[done] = u.prefix >> (u.bits - m)
            if u.bits > m:
                reals.longer[done] = exact.Uniform(u.prefix, u.bits, exact.Reader(source))
            done += 1
    return reals


def exponential(count: int, source: RandomSource) -> LazyReals:
    """Standard exponential variables with a random sign: standard Laplace variables."""
    shape, constants = _lazy_shape(False, TUNING.lazy_steps, source.word_bits)
    return _refined(shape, count, source, constants)


def normal(count: int, source: RandomSource) -> LazyReals:
    """Standard normal variables."""
    shape, constants = _lazy_shape(True, TUNING.lazy_steps, source.word_bits)
    return _refined(shape, count, source, constants)


def _whole(reals: LazyReals, fine_bits: int) -> NDArray[np.int64]:
    size = (reals.coarse << fine_bits) + reals.fine.astype(np.int64)
    return np.where(reals.negative, -size, size)


def discrete_gaussian(variance: Fraction, count: int, source: RandomSource) -> NDArray[np.int64]:
    """Integers with probability proportional to exp(-k^2 / (2 variance))."""
    if variance <= TUNING.direct_gaussian**2:
        return _direct(HalfGaussian(variance, True), True, count, source)
    m = _fine_bits(float(variance) ** 0.5, TUNING.coarse_gaussian)
    v = variance / 4**m
    shape = exact.LazyShape(HalfGaussian(v, False), 1 / v, 1 / (2 * v), Fraction(0), m)
    return _whole(_refined(shape, count, source), m)


def discrete_laplace(scale: Fraction, count: int, source: RandomSource) -> NDArray[np.int64]:
    """Integers with probability proportional to exp(-|k| / scale)."""
    if scale <= TUNING.direct_laplace:
        return _direct(Geometric(1 / scale, True), True, count, source)
    m = _fine_bits(float(scale), TUNING.coarse_laplace)
    r = 2**m / scale
    shape = exact.LazyShape(Geometric(r, False), Fraction(0), Fraction(0), r, m)
    return _whole(_refined(shape, count, source), m)


def _fine_bits(scale: float, coarse_bits: int) -> int:
    return max(0, int(np.frexp(scale)[1]) - coarse_bits)


def skellam(variance: Fraction, count: int, source: RandomSource) -> NDArray[np.int64]:
    """Difference of two Poisson variables of mean variance / 2 each.

    A Poisson variable of large mean is drawn as a sum of equal independent parts, each from a table.
    """
    mean = variance / 2
    parts = -(-mean.numerator // (mean.denominator * TUNING.poisson_part))
    distribution = Poisson(mean / parts)
    total = np.zeros(count, dtype=np.int64)
    for _ in range(parts):
        total += _direct(distribution, False, count, source)
        total -= _direct(distribution, False, count, source)
    return total


def uniform_below(bounds: NDArray[np.int64], source: RandomSource) -> NDArray[np.int64]:
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
