r"""Distance-based guarantees: what is claimed, what holds exactly, and how claims compose.

A local mechanism with distribution :math:`\Pr[o \mid x]` has the exact profile

.. math:: \varepsilon(t) = \max_{|x - x'| \le t,\; o} \left| \log \frac{\Pr[o \mid x]}{\Pr[o \mid x']} \right|

A *claim* is a function of :math:`t` that is said to bound it. `DistanceProfile` holds the first beside the
second.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ledgerwood._rounding import sum_up
from ledgerwood.errors import ParameterError
from ledgerwood.mechanisms.local.distributions import Floats
from ledgerwood.mechanisms.local.domain import Partition, coerce_epsilons, within


class LocalClaim(Protocol):
    """A bound on the profile, as a function of the distance."""

    def epsilon(self, distance: int) -> float:
        """The bound for values at most ``distance`` apart."""


@dataclass(frozen=True)
class ConstantClaim:
    r""":math:`\varepsilon`-LDP: the same bound at every distance.

    >>> ConstantClaim(1.0).epsilon(1), ConstantClaim(1.0).epsilon(99)
    (1.0, 1.0)
    """

    size: float

    def epsilon(self, distance: int) -> float:
        """The bound, whatever the distance."""
        return self.size if within("distance", distance, at_least=0) else 0.0


@dataclass(frozen=True)
class DistanceClaim:
    r""":math:`\varepsilon`-dLDP (OpBoost, Definition 2.2): values t apart differ by at most :math:`t\varepsilon`.

    Releases of one value add up (OpBoost, Theorem B.1):

    >>> (DistanceClaim(0.25) + DistanceClaim(0.5)).epsilon(4)
    3.0
    """

    per_step: float

    def __post_init__(self) -> None:
        coerce_epsilons(self, "per_step")

    def epsilon(self, distance: int) -> float:
        """``distance * per_step``."""
        return sum_up(within("distance", distance, at_least=0), self.per_step)

    def __add__(self, other: DistanceClaim) -> DistanceClaim:
        return DistanceClaim(sum_up(1, self.per_step, 1, other.per_step))


@dataclass(frozen=True)
class PartitionClaim:
    r"""Partition-dLDP (OpBoost, Definition 4.4), sharpened and for uneven partitions too.

    OpBoost claims :math:`\lceil t/\theta \rceil\,\varepsilon_{prt} + \theta\,\varepsilon_{ner}`. Its proof (A.4)
    shows more. With :math:`h` part boundaries between the values, the choice of the part changes by at most
    :math:`e^{h \varepsilon_{prt}}`. Inside a part only the *clamped* values matter (:math:`q^{|x-o|}` over
    its sum is the same for every x on one side), so that step changes by at most
    :math:`e^{d \varepsilon_{ner}}`, d the steps between the values that lie inside that one part: no more
    than the width less one, and none of the h steps across boundaries. Hence

    .. math:: \varepsilon(t) \le \max_{0 \le h \le H(t)}\; h\,\varepsilon_{prt}
              + \min(t - h,\, w_{max} - 1)\,\varepsilon_{ner}

    with :math:`H(t)` the most boundaries that t steps can cross, :math:`\lceil t/\theta \rceil` or one less
    for even parts. The objective is concave in h: the maximum is at H or where :math:`t - h = w_{max} - 1`.
    ``between = inf`` is Local-map: nothing is promised across a boundary.

    Releases of one value through the same partition add up (OpBoost, Theorem B.2):

    >>> claim = PartitionClaim(Partition.even(100, 10), between=0.5, within=0.125)
    >>> claim.epsilon(1), (claim + claim).epsilon(11)
    (0.5, 4.25)
    """

    partition: Partition
    between: float
    within: float

    def __post_init__(self) -> None:
        if self.between != math.inf:
            coerce_epsilons(self, "between")
        coerce_epsilons(self, "within")

    def epsilon(self, distance: int) -> float:
        """The bound for values at most ``distance`` apart."""
        t = min(within("distance", distance, at_least=0), self.partition.size - 1)
        wide = max(self.partition.widths) - 1
        most = self.partition.most_crossed(t)
        candidates = {most, min(most, max(0, t - wide))}
        steps = ((h, min(t - h, wide)) for h in candidates)
        return max(sum_up(h, self.between, d, self.within) for h, d in steps)

    def __add__(self, other: PartitionClaim) -> PartitionClaim:
        if self.partition != other.partition:
            raise ParameterError(
                "partition",
                "be the same in both claims",
                other.partition,
                "Compose the exact profiles instead.",
            )
        between = sum_up(1, self.between, 1, other.between)
        return PartitionClaim(self.partition, between, sum_up(1, self.within, 1, other.within))


@dataclass(frozen=True)
class DistanceProfile:
    r"""The exact :math:`\varepsilon(t)` of a mechanism on a finite domain, beside what it claims.

    Attributes
    ----------
    gaps
        :math:`\varepsilon(t)` for t = 0, ..., size - 1, in doubles.
    error
        A bound on the rounding error of each of them.
    claim
        What the mechanism promises; None when profiles with different kinds of claims were composed.

    Independent releases of one value compose by adding profiles (the maxima may sit at different outputs, so
    this is an upper bound).

    >>> from ledgerwood.mechanisms.local import Domain, GlobalMap
    >>> profile = GlobalMap(Domain(0, 9), epsilon=1.0).profile
    >>> f"{profile.epsilon(1):.3f} {profile.epsilon(9):.3f}"
    '0.712 4.500'
    """

    gaps: tuple[float, ...]
    error: float
    claim: LocalClaim | None = None

    def epsilon(self, distance: int) -> float:
        """An upper bound on the loss between values at most ``distance`` apart, tight up to rounding."""
        t = min(within("distance", distance, at_least=0), len(self.gaps) - 1)
        return self.gaps[t] + self.error if t else 0.0

    def first_violation(self, claim: LocalClaim | None = None) -> int | None:
        """The least distance at which ``claim`` (its own unless given) is certainly false, or None."""
        checked = self.claim if claim is None else claim
        if checked is None:
            raise ParameterError("claim", "be given for a profile without a claim of its own", claim)
        for distance in range(1, len(self.gaps)):
            if self.gaps[distance] - self.error > checked.epsilon(distance):
                return distance
        return None

    def satisfies(self, claim: LocalClaim | None = None) -> bool:
        """Whether the claim (its own unless given) holds at every distance, up to the rounding error."""
        return self.first_violation(claim) is None

    def __add__(self, other: DistanceProfile) -> DistanceProfile:
        if len(self.gaps) != len(other.gaps):
            raise ParameterError("gaps", f"have the same length, {len(self.gaps)}", len(other.gaps))
        total = np.asarray(self.gaps) + np.asarray(other.gaps)
        mine, theirs = self.claim, other.claim
        claim: LocalClaim | None = None
        if isinstance(mine, DistanceClaim) and isinstance(theirs, DistanceClaim):
            claim = mine + theirs
        elif isinstance(mine, PartitionClaim) and isinstance(theirs, PartitionClaim):
            claim = mine + theirs if mine.partition == theirs.partition else None
        largest = float(total[np.isfinite(total)].max())
        return DistanceProfile(tuple(total.tolist()), self.error + other.error + 2**-52 * largest, claim)


def rounding_error(log_probabilities: Floats) -> float:
    r"""A bound on the error of a difference of two log-probabilities computed in doubles.

    Each is a sum of at most two terms :math:`-cd - \log S` with :math:`c\,d, \log S \ge 0`, hence each at
    most the result in size. The product costs half an ulp, ``log S`` at most 10 units of :math:`2^{-53}`
    absolute and two relative, the sums one relative each: in all less than :math:`2^{-53}(8\,|\log p| + 20)`
    for one log-probability of two stages, twice that for a difference; returned is twice more.
    """
    finite = log_probabilities[np.isfinite(log_probabilities)]
    return float(2.0**-48 * (np.abs(finite).max() + 2))


def enumerated_gaps(log_probabilities: Floats) -> Floats:
    """Exact profile of a table of log-probabilities, inputs by outputs: every pair, every output given."""
    from ledgerwood.mechanisms.local._kernels import largest_gaps

    gaps = np.zeros(log_probabilities.shape[0])
    largest_gaps(np.ascontiguousarray(log_probabilities), gaps)
    return np.asarray(np.maximum.accumulate(gaps))
