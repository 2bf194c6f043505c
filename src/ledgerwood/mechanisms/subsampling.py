"""Sampling: release a statistic of a random part of the records, and pay less."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood import _checks, accounting
from ledgerwood.accounting import PoissonSubsampled
from ledgerwood.accounting.costs.base import check_value
from ledgerwood.errors import ParameterError
from ledgerwood.mechanisms.base import Mechanism, coerce_floats
from ledgerwood.mechanisms.randomness import RandomSource, Rng, source_of
from ledgerwood.mechanisms.sampling import draws, exact

__all__ = ["FixedSizeSubsampledMechanism", "PoissonSubsampledMechanism", "fixed_size_sample", "poisson_sample"]


def poisson_sample(records: int, rate: float, source: RandomSource) -> NDArray[np.bool_]:
    """Mark each record with probability exactly ``rate``, independently.

    The word w decides unless it equals the leading bits of the rate; then further digits are compared.
    """
    q = Fraction(rate)
    words = source.words(records)
    scaled = q * 2**source.word_bits
    level = int(scaled)
    if level >= 2**source.word_bits:
        return np.ones(records, dtype=np.bool_)
    kept = words < np.uint64(level)

    def boundaries(precision: int) -> tuple[list[int], list[int]]:
        at = q * 2**precision
        return [int(at)], [-int(-at // 1)]

    if scaled.denominator > 1:
        for i in np.flatnonzero(words == np.uint64(level)):
            uniform = exact.Uniform(level, source.word_bits, exact.Reader(source))
            kept[i] = exact.locate(uniform, boundaries) == 0
    return kept


@dataclass(frozen=True, slots=True)
class PoissonSubsampledMechanism:
    """Keeps each record with probability ``rate``, computes ``query`` on those kept, and releases it by ``mechanism``.

    The sample is secret and drawn afresh for every release; its cost is the mechanism's, amplified.

    Parameters
    ----------
    mechanism : Mechanism
        Priced under add/remove, for ``query`` on any set of records.
    rate : float
        Probability, in (0, 1].
    query : callable
        From the kept records (``records[mask]``, possibly none) to the value that ``mechanism`` releases.

    Examples
    --------
    >>> from ledgerwood.mechanisms import DiscreteLaplaceMechanism
    >>> m = PoissonSubsampledMechanism(DiscreteLaplaceMechanism(scale=1.0), rate=0.01, query=len)
    >>> m.cost.epsilon(delta=0.0) < 0.02
    True
    >>> isinstance(m.release(np.zeros(1000)), int)
    True
    """

    mechanism: Mechanism[Any, Any]
    rate: float
    query: Callable[[Any], Any]

    def __post_init__(self) -> None:
        coerce_floats(self, "rate")
        if self.rate > 1:
            raise ParameterError("rate", "lie in (0, 1]", self.rate)
        if not callable(self.query):
            raise ParameterError("query", "be a function of the kept records", self.query)
        _ = self.cost

    @property
    def sensitivity(self) -> Any:
        """The mechanism's: that of the query on any set of records."""
        return self.mechanism.sensitivity

    @property
    def cost(self) -> PoissonSubsampled:
        """The amplified cost."""
        return PoissonSubsampled(self.mechanism.cost, rate=self.rate)

    def check(self, records: Any) -> None:
        """Raise an error unless the query of an empty sample can be released; nothing is drawn.

        An empty sample has the type that every sample has, and nobody's data: the error tells nothing.
        """
        self._rows(records)

    def _rows(self, records: Any) -> NDArray[Any]:
        rows = _as_rows(records)
        _try_nothing(self.mechanism, self.query, rows)
        return rows

    def release(self, records: Any, rng: Rng = None) -> Any:
        """Sample, query, release."""
        source = source_of(rng)
        rows = self._rows(records)
        return self.mechanism.release(self.query(rows[poisson_sample(len(rows), self.rate, source)]), source)


def _as_rows(records: Any) -> NDArray[Any]:
    rows = np.asarray(records)
    if rows.ndim == 0:
        raise ParameterError("records", "be an array with a row for each record", "<shape ()>")
    return rows


def _try_nothing(mechanism: Mechanism[Any, Any], query: Callable[[Any], Any], rows: NDArray[Any]) -> None:
    """Raise an error unless the query of no records at all can be released."""
    try:
        nothing = query(rows[:0])
    except Exception as error:
        raise ParameterError("query", "have a value for an empty sample", query) from error
    check_value(mechanism, nothing)


def fixed_size_sample(records: int, batch: int, source: RandomSource) -> NDArray[np.bool_]:
    """Mark exactly ``batch`` records, every set of that size with the same probability.

    The first steps of a shuffle, with exact uniform integers; the records left out are drawn where they are fewer.
    """
    few = min(batch, records - batch)
    places = draws.uniform_below(np.arange(records, records - few, -1, dtype=np.int64), source)
    order = np.arange(records)
    for i, place in enumerate(places.tolist()):
        order[i], order[i + place] = order[i + place], order[i]
    marked = np.zeros(records, dtype=np.bool_)
    marked[order[:few]] = True
    return marked if few == batch else ~marked


@dataclass(frozen=True, slots=True)
class FixedSizeSubsampledMechanism:
    """Draws exactly ``batch`` of ``population`` records, computes ``query`` on them, and releases it by ``mechanism``.

    The sample is secret and drawn afresh for every release. Neighbours replace one record: the number of records is
    public, and ``mechanism`` must be priced for a *replaced* record of the batch (``neighbours="replace_one"``; a sum
    of values of norm at most C then has the sensitivity 2C).

    Parameters
    ----------
    mechanism : Mechanism
        Priced under replace-one, for ``query`` on any ``batch`` records.
    population : int
        The public number of records; data with another number is refused.
    batch : int
        How many are drawn, without replacement.
    query : callable
        From the drawn records (``records[mask]``) to the value that ``mechanism`` releases.

    Examples
    --------
    >>> from ledgerwood.mechanisms import DiscreteLaplaceMechanism
    >>> noise = DiscreteLaplaceMechanism(scale=2.0, neighbours="replace_one")
    >>> ones = FixedSizeSubsampledMechanism(noise, population=1000, batch=10, query=lambda x: int(x.sum()))
    >>> ones.cost.epsilon(delta=0.0) < 0.01
    True
    >>> isinstance(ones.release(np.ones(1000, dtype=int)), int)
    True
    """

    mechanism: Mechanism[Any, Any]
    population: int
    batch: int
    query: Callable[[Any], Any]

    def __post_init__(self) -> None:
        for name in ("population", "batch"):
            object.__setattr__(self, name, _checks.integer(name, getattr(self, name), 1))
        if not callable(self.query):
            raise ParameterError("query", "be a function of the drawn records", self.query)
        _ = self.cost

    @property
    def sensitivity(self) -> Any:
        """The mechanism's: that of the query on any batch of which one record is replaced."""
        return self.mechanism.sensitivity

    @property
    def cost(self) -> accounting.WithoutReplacement:
        """The amplified cost."""
        return accounting.WithoutReplacement(self.mechanism.cost, population=self.population, batch=self.batch)

    def check(self, records: Any) -> None:
        """Raise an error unless there are as many records as was said and the query of none can be released."""
        self._rows(records)

    def _rows(self, records: Any) -> NDArray[Any]:
        rows = _as_rows(records)
        if len(rows) != self.population:
            raise ParameterError("records", f"be the {self.population} that the population was said to have", len(rows))
        _try_nothing(self.mechanism, self.query, rows)
        return rows

    def release(self, records: Any, rng: Rng = None) -> Any:
        """Sample, query, release."""
        source = source_of(rng)
        rows = self._rows(records)
        return self.mechanism.release(self.query(rows[fixed_size_sample(len(rows), self.batch, source)]), source)
