"""What every mechanism on an ordered domain shares: exact probabilities, exact profile, cost, release."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ledgerwood.accounting import Cost, PureDP
from ledgerwood.errors import MethodUnavailable, ParameterError
from ledgerwood.mechanisms.local.distributions import Floats
from ledgerwood.mechanisms.local.domain import Codes, Domain
from ledgerwood.mechanisms.local.guarantees import DistanceProfile, LocalClaim, enumerated_gaps, rounding_error
from ledgerwood.mechanisms.randomness import RandomSource, Rng, source_of

_CHUNK = 2**22  # log-probabilities held at a time
_PROFILE_WORK = 2**34  # pairs of inputs times outputs that a profile may take: some ten seconds


class OrderedMechanism(ABC):
    """A randomized map from an ordered domain to ordered integers, one value at a time.

    A release never raises on a value: values are rounded, clamped to the domain, and nan becomes the domain's
    ``missing`` value. Neighbours are two values of one record (``replace_one``).
    """

    domain: Domain

    @property
    def outputs(self) -> Codes:
        """All possible outputs, in order."""
        return self.domain.values

    @property
    @abstractmethod
    def claim(self) -> LocalClaim:
        """The distance-based guarantee that the mechanism is proven to keep."""

    @abstractmethod
    def _log_table(self, rows: Codes, columns: Codes) -> Floats:
        """``log Pr[output | input]`` for offsets of inputs and of outputs, broadcast."""

    @abstractmethod
    def _extremes(self) -> Codes:
        """Offsets among which, as outputs, the log-ratio of any two inputs takes its extremes.

        The same offsets, as inputs, hold the extremes of each such output's log-probability.
        """

    @abstractmethod
    def _draw(self, rows: Codes, source: RandomSource) -> Codes:
        """Offsets of outputs, one for each offset of an input."""

    def log_probabilities(self, value: ArrayLike) -> Floats:
        """Exact log-probabilities of all outputs (last axis) for each value."""
        rows = self.domain.encode(value)
        return self._log_table(rows[..., None], np.arange(self.outputs.size))

    def probabilities(self, value: ArrayLike) -> Floats:
        """Exact probabilities of all outputs (last axis) for each value."""
        return np.asarray(np.exp(self.log_probabilities(value)))

    def enumerated_profile(self) -> DistanceProfile:
        """The exact profile by brute force: every pair of inputs, every output."""
        return self._profile(np.arange(self.outputs.size))

    @property
    def profile(self) -> DistanceProfile:
        """The exact profile, from the outputs that can attain it: the same numbers, sooner."""
        return self._profile(self._extremes())

    def _profile(self, columns: Codes) -> DistanceProfile:
        if self.domain.size**2 * columns.size > _PROFILE_WORK:
            raise ParameterError(
                "domain",
                "be small enough to enumerate its pairs",
                self.domain.size,
                "The claim and the cost have no such limit.",
            )
        table = self._log_table(np.arange(self.domain.size)[:, None], columns)
        return DistanceProfile(tuple(enumerated_gaps(table).tolist()), rounding_error(table), self.claim)

    @property
    def sensitivity(self) -> None:
        """None: the cost holds for any two values of the domain."""
        return None

    @property
    def cost(self) -> Cost:
        """Pure DP, exact over the whole domain: the largest spread of an output's log-probability."""
        extremes = self._extremes()
        epsilon = 0.0
        for some in np.array_split(extremes, -(-(extremes.size**2) // _CHUNK)):
            table = self._log_table(extremes[:, None], some)
            if not np.isfinite(table).all():
                raise MethodUnavailable(
                    "pure",
                    "some outputs distinguish values with certainty, so no finite epsilon holds over the "
                    "whole domain; read the guarantee from the profile instead",
                )
            epsilon = max(epsilon, float(np.ptp(table, axis=0).max()) + rounding_error(table))
        return PureDP(epsilon, neighbours="replace_one")

    def check(self, value: ArrayLike) -> None:
        """Raise an error if the value is not an array of numbers; nothing is drawn. A ledger asks before it spends."""
        self.domain.encode(value)

    def release(self, value: ArrayLike, rng: Rng = None) -> Any:
        """Release each value on its own; the shape is kept."""
        source = source_of(rng)
        rows = self.domain.encode(value)
        drawn = self._draw(np.ascontiguousarray(rows.ravel()), source).reshape(rows.shape)
        return self._decode(drawn)[()]

    def _decode(self, columns: Codes) -> Codes:
        return self.domain.decode(columns)
