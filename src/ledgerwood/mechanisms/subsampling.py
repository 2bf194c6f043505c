"""Poisson subsampling: release a statistic of a random subset of the records, and pay less."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.accounting import PoissonSubsampled
from ledgerwood.errors import ParameterError
from ledgerwood.mechanisms.base import Mechanism, coerce_floats
from ledgerwood.mechanisms.randomness import RandomSource, Rng, source_of
from ledgerwood.mechanisms.sampling import exact

__all__ = ["PoissonSubsampledMechanism", "poisson_sample"]


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

    mechanism: Mechanism
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
    def cost(self) -> PoissonSubsampled:
        """The amplified cost."""
        return PoissonSubsampled(self.mechanism.cost, rate=self.rate)

    def check(self, records: Any) -> None:
        """Raise an error unless the query of an empty sample can be released; nothing is drawn.

        An empty sample has the type that every sample has, and nobody's data: the error tells nothing.
        """
        self._rows(records)

    def _rows(self, records: Any) -> NDArray[Any]:
        rows = np.asarray(records)
        if rows.ndim == 0:
            raise ParameterError("records", "be an array with a row for each record", "<shape ()>")
        try:
            nothing = self.query(rows[:0])
        except Exception as error:
            raise ParameterError("query", "have a value for an empty sample", self.query) from error
        check = getattr(self.mechanism, "check", None)
        if check is not None:
            check(nothing)
        return rows

    def release(self, records: Any, rng: Rng = None) -> Any:
        """Sample, query, release."""
        source = source_of(rng)
        rows = self._rows(records)
        return self.mechanism.release(self.query(rows[poisson_sample(len(rows), self.rate, source)]), source)
