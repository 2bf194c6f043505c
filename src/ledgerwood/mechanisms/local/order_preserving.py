r"""The order-preserving maps of OpBoost (Li et al. 2022, arXiv:2210.01318), and one that it does not have.

- `GlobalMap`: :math:`\propto e^{-|x-o|\varepsilon/2}` on the domain; :math:`\varepsilon`-dLDP (Theorem 4.1).
- `AdjMap`: the same on parts, then inside the part drawn; partition-dLDP (Theorem 4.5).
- `LocalMap`: the same inside the part of the value; promises nothing beyond the part (Theorem 4.7).
- `LaplaceMap`: discrete Laplace noise, clamped to the domain; :math:`\varepsilon`-dLDP (Theorem 4.9).

Each is sampled in one of OpBoost's two ways, with one and the same distribution (`distributions`):
``sampling="exponential"`` inverts a table of cumulative probabilities (parts and domains of up to 1024 values),
``sampling="laplace"`` draws (bounded) discrete Laplace noise and needs no table.

Adj-map's parameters in OpBoost (§4.2) come from one :math:`\varepsilon` by
:math:`\varepsilon_{ner} = \varepsilon/(\alpha + \theta/|D|)`,
:math:`\varepsilon_{prt} = \alpha\theta\varepsilon_{ner}`, "to ensure :math:`\varepsilon`-dLDP" (§6.3). It
does not: two neighbours on both sides of a boundary differ by nearly :math:`\varepsilon_{prt}`. The exact
profile shows it.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from ledgerwood.errors import ParameterError
from ledgerwood.mechanisms.local.base import OrderedMechanism
from ledgerwood.mechanisms.local.distributions import BoundedLaplace, ClampedLaplace, FiniteDistribution, Floats
from ledgerwood.mechanisms.local.domain import Codes, Domain, Partition, coerce_epsilons, privacy_parameter
from ledgerwood.mechanisms.local.guarantees import DistanceClaim, DistanceProfile, PartitionClaim, rounding_error
from ledgerwood.mechanisms.local.samplers import LARGEST_TABLE, by_inversion, by_laplace_bits
from ledgerwood.mechanisms.randomness import RandomSource

Sampling = Literal["exponential", "laplace"]
_LONGEST_PROFILE = 2**20


def _check_sampling(sampling: str, width: int) -> None:
    if sampling not in ("exponential", "laplace"):
        raise ParameterError("sampling", "be 'exponential' or 'laplace'", sampling)
    if sampling == "exponential" and width > LARGEST_TABLE:
        raise ParameterError(
            "sampling",
            f"be 'laplace' for a domain, or a part, of more than {LARGEST_TABLE} values",
            sampling,
            f"The largest here has {width}; a table of its probabilities would be too large.",
        )


def _check_partition(domain: Domain, partition: Partition) -> None:
    if partition.size != domain.size:
        raise ParameterError("partition", f"cover the {domain.size} values of the domain", partition.size)


def _check_profile(domain: Domain) -> None:
    if domain.size > _LONGEST_PROFILE:
        raise ParameterError(
            "domain",
            f"have at most {_LONGEST_PROFILE} values for a profile",
            domain.size,
            "The claim and the cost have no such limit.",
        )


def _sample(sampling: Sampling, distribution: FiniteDistribution, rows: Codes, source: RandomSource) -> Codes:
    draw = by_inversion if sampling == "exponential" else by_laplace_bits
    return draw(distribution, rows, source)


@dataclass(frozen=True)
class _OffsetMap(OrderedMechanism):
    """A map that moves a value by an offset of one distribution, whose log-ratios are extreme at the domain's ends."""

    domain: Domain
    epsilon: float
    sampling: Sampling = "exponential"

    def __post_init__(self) -> None:
        coerce_epsilons(self, "epsilon")
        _check_sampling(self.sampling, self.domain.size)

    @property
    @abstractmethod
    def distribution(self) -> BoundedLaplace | ClampedLaplace:
        """The distribution of the offsets."""

    def _log_table(self, rows: Codes, columns: Codes) -> Floats:
        return self.distribution.log_probabilities(rows, columns)

    def _extremes(self) -> Codes:
        return np.array([0, self.domain.size - 1])

    def _draw(self, rows: Codes, source: RandomSource) -> Codes:
        return _sample(self.sampling, self.distribution, rows, source)


@dataclass(frozen=True)
class GlobalMap(_OffsetMap):
    r"""OpBoost, Algorithm 1: the exponential mechanism with the distance as score.

    The log-ratio of x and x' > x at an output o is
    :math:`\frac\varepsilon2(|x'-o| - |x-o|) + \log S(x') - \log S(x)`, monotone in o, so its extremes lie at
    the two ends of the domain, and the larger one at distance d is
    :math:`\frac\varepsilon2 d + |\log S(x+d) - \log S(x)|`. S is concave in x
    (:math:`a - q^{x+1} - q^{n-x}`), hence log-concave: its difference over d steps is largest at x = 0 and,
    by symmetry, smallest with the opposite value at the other end. So

    .. math:: \varepsilon(t) = \tfrac\varepsilon2\, t + \log S(t) - \log S(0),

    which grows with t because log S falls by at most :math:`\varepsilon/2` a step; at t = n - 1 it is
    :math:`\frac\varepsilon2 (n-1)`.

    >>> mechanism = GlobalMap(Domain(1, 100), epsilon=0.1)
    >>> f"{mechanism.profile.epsilon(1):.4f}", mechanism.profile.satisfies()
    ('0.0953', True)
    """

    @property
    def distribution(self) -> BoundedLaplace:
        """The distribution of the offsets; halving a double is exact."""
        return BoundedLaplace(self.domain.size, self.epsilon / 2)

    @property
    def claim(self) -> DistanceClaim:
        """OpBoost, Theorem 4.1."""
        return DistanceClaim(self.epsilon)

    @property
    def profile(self) -> DistanceProfile:
        """The exact profile in closed form."""
        _check_profile(self.domain)
        t, distribution = np.arange(self.domain.size), self.distribution
        log_sums = distribution.log_normaliser(t)
        gaps = np.maximum.accumulate(distribution.rate * t + (log_sums - log_sums[0]))
        return DistanceProfile(
            tuple(gaps.tolist()), rounding_error(distribution.log_probabilities(t[:1], t[-1:])), self.claim
        )


@dataclass(frozen=True)
class LaplaceMap(_OffsetMap):
    r"""Discrete Laplace noise of scale :math:`1/\varepsilon` (OpBoost, Theorem 4.9), clamped to the domain.

    OpBoost resamples noise that leaves the domain; the normaliser then depends on the value and doubles the loss
    (Theorem 4.11), so Global-map must use scale :math:`2/\varepsilon`. Clamping is post-processing and costs
    nothing: the same :math:`\varepsilon`-dLDP with half the noise. Its profile is exactly
    :math:`\varepsilon t`.

    >>> mechanism = LaplaceMap(Domain(1, 100), epsilon=0.1)
    >>> f"{mechanism.profile.epsilon(1):.4f}", mechanism.profile.satisfies()
    ('0.1000', True)
    """

    @property
    def distribution(self) -> ClampedLaplace:
        """The distribution of the offsets."""
        return ClampedLaplace(self.domain.size, self.epsilon)

    @property
    def claim(self) -> DistanceClaim:
        """OpBoost, Theorem 4.9, and post-processing."""
        return DistanceClaim(self.epsilon)

    @property
    def profile(self) -> DistanceProfile:
        """The exact profile: the claim itself, attained at both ends of the domain."""
        _check_profile(self.domain)
        gaps = self.distribution.rate * np.arange(self.domain.size)
        return DistanceProfile(tuple(gaps.tolist()), float(np.spacing(gaps[-1])), self.claim)


class _Partitioned(OrderedMechanism):
    """The step that Adj-map and Local-map share: Global-map inside one part, from the value clamped to it."""

    partition: Partition
    epsilon_ner: float
    sampling: Sampling

    def _inside_log_table(self, rows: Codes, columns: Codes) -> Floats:
        parts = self.partition.index(columns)
        starts, widths = self.partition.starts[parts], np.asarray(self.partition.widths)[parts]
        clamped = np.clip(rows - starts, 0, widths - 1)
        table = np.empty(np.broadcast_shapes(rows.shape, columns.shape))
        for width in sorted(set(self.partition.widths)):
            distribution, chosen = BoundedLaplace(width, self.epsilon_ner / 2), widths == width
            if chosen.any():
                table[..., chosen] = distribution.log_probabilities(clamped[..., chosen], (columns - starts)[chosen])
        return table

    def _draw_inside(self, rows: Codes, parts: Codes, source: RandomSource) -> Codes:
        starts, widths = self.partition.starts[parts], np.asarray(self.partition.widths)[parts]
        clamped = np.clip(rows - starts, 0, widths - 1)
        inside = np.zeros_like(rows)
        for width in sorted(set(self.partition.widths) - {1}):
            distribution, chosen = BoundedLaplace(width, self.epsilon_ner / 2), np.flatnonzero(widths == width)
            inside[chosen] = _sample(self.sampling, distribution, clamped[chosen], source)
        return starts + inside

    def _extremes(self) -> Codes:
        starts = self.partition.starts
        return np.unique(np.concatenate([starts, starts + np.asarray(self.partition.widths) - 1]))


@dataclass(frozen=True)
class AdjMap(_Partitioned):
    r"""OpBoost, Algorithm 2: draw a part by Global-map on the parts, then a value inside it by Global-map.

    Inside a part only the value clamped to it matters, and the log-ratio is monotone in o there: the profile
    needs the two ends of every part only.

    >>> mechanism = AdjMap.from_epsilon(Domain(1, 100), 10, epsilon=0.1, alpha=1.0)
    >>> f"{mechanism.profile.epsilon(1):.4f}", mechanism.profile.satisfies()
    ('0.6601', True)
    >>> mechanism.profile.first_violation(DistanceClaim(0.1))
    1
    """

    domain: Domain
    partition: Partition
    epsilon_prt: float
    epsilon_ner: float
    sampling: Sampling = "exponential"

    def __post_init__(self) -> None:
        _check_partition(self.domain, self.partition)
        coerce_epsilons(self, "epsilon_prt", "epsilon_ner")
        _check_sampling(self.sampling, max(self.partition.count, *self.partition.widths))

    @classmethod
    def from_epsilon(
        cls, domain: Domain, theta: int, *, epsilon: float, alpha: float, sampling: Sampling = "exponential"
    ) -> AdjMap:
        """OpBoost's parameters: even parts of width ``theta``, and one epsilon divided by ``alpha``."""
        privacy_parameter("epsilon", epsilon)
        privacy_parameter("alpha", alpha)
        partition = Partition.even(domain.size, theta)
        within = epsilon / (alpha + theta / domain.size)
        return cls(domain, partition, alpha * theta * within, within, sampling)

    @property
    def part_distribution(self) -> BoundedLaplace:
        """The distribution of the part's index."""
        return BoundedLaplace(self.partition.count, self.epsilon_prt / 2)

    @property
    def claim(self) -> PartitionClaim:
        """OpBoost, Theorem 4.5, sharpened."""
        return PartitionClaim(self.partition, self.epsilon_prt, self.epsilon_ner)

    def _log_table(self, rows: Codes, columns: Codes) -> Floats:
        parts = self.part_distribution.log_probabilities(self.partition.index(rows), self.partition.index(columns))
        return np.asarray(parts + self._inside_log_table(rows, columns))

    def _draw(self, rows: Codes, source: RandomSource) -> Codes:
        parts = _sample(self.sampling, self.part_distribution, self.partition.index(rows), source)
        return self._draw_inside(rows, parts, source)


@dataclass(frozen=True)
class LocalMap(_Partitioned):
    r"""Global-map inside the part of the value: Adj-map with :math:`\varepsilon_{prt} = \infty` (OpBoost, §4.2).

    Values of different parts are distinguished with certainty (Theorem 4.7), so there is no finite cost, and
    :math:`\varepsilon(t) = \infty` from the first pair that a boundary parts. ``within`` is the profile of
    pairs in one part.

    >>> mechanism = LocalMap(Domain(1, 100), Partition.even(100, 10), epsilon_ner=0.1)
    >>> mechanism.profile.epsilon(1), f"{mechanism.within.epsilon(1):.4f}"
    (inf, '0.0881')
    """

    domain: Domain
    partition: Partition
    epsilon_ner: float
    sampling: Sampling = "exponential"

    def __post_init__(self) -> None:
        _check_partition(self.domain, self.partition)
        coerce_epsilons(self, "epsilon_ner")
        _check_sampling(self.sampling, max(self.partition.widths))

    @property
    def claim(self) -> PartitionClaim:
        """OpBoost, Theorem 4.7."""
        return PartitionClaim(self.partition, math.inf, self.epsilon_ner)

    @cached_property
    def within(self) -> DistanceProfile:
        """The exact profile of pairs in one part, which is ``epsilon_ner``-dLDP (Theorem 4.7, part 2)."""
        widths = [width for width in set(self.partition.widths) if width > 1]
        profiles = [GlobalMap(Domain(0, width - 1), self.epsilon_ner, "laplace").profile for width in widths]
        gaps = np.zeros(max(self.partition.widths))
        for profile in profiles:
            gaps[: len(profile.gaps)] = np.maximum(gaps[: len(profile.gaps)], profile.gaps)
        error = max((profile.error for profile in profiles), default=0.0)
        longest = tuple(np.maximum.accumulate(gaps).tolist())
        return DistanceProfile(longest, error, DistanceClaim(self.epsilon_ner))

    def _log_table(self, rows: Codes, columns: Codes) -> Floats:
        same = self.partition.index(rows) == self.partition.index(columns)
        return np.where(same, self._inside_log_table(rows, columns), -np.inf)

    def _draw(self, rows: Codes, source: RandomSource) -> Codes:
        return self._draw_inside(rows, self.partition.index(rows), source)
