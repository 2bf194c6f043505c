"""Batches of a fixed or limited size: sampling without replacement, and Poisson sampling with a limit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ledgerwood import _checks
from ledgerwood._checks import Array
from ledgerwood._rounding import MARGIN, ratio_up
from ledgerwood.accounting.adjacency import Neighbours, as_neighbours
from ledgerwood.accounting.costs.base import Atom, Cost, set_fields
from ledgerwood.accounting.costs.guarantees import RDP, PureDP, group_curve
from ledgerwood.accounting.costs.noise import Gaussian
from ledgerwood.accounting.costs.sampled_gaussians import amplified, replaced_pair, sampled_curve, sampled_gaussian
from ledgerwood.accounting.curves.dominating_pairs.base import (
    LossPair,
    MaxPair,
    SubsampledPair,
    intervals,
    log_normal_interval,
)
from ledgerwood.accounting.curves.dominating_pairs.composite import seen_outcomes
from ledgerwood.accounting.curves.dominating_pairs.continuous import GaussianPair
from ledgerwood.accounting.curves.dominating_pairs.mixtures import MixturePair, PublicChoicePair, TwoSidedPair
from ledgerwood.errors import ParameterError


@dataclass(frozen=True, slots=True, init=False, repr=False)
class WithoutReplacement(Atom):
    r"""A release computed on ``batch`` of ``population`` records, every set of that size as likely as any other.

    Under replace-one: the population is public and fixed. If the release on a batch has the profile δ, the whole has

    .. math:: \delta'(\log(1 + \gamma(e^\varepsilon - 1))) \le \gamma\,\delta(\varepsilon), \qquad \varepsilon \ge 0,

    with γ = batch / population (Balle, Barthe & Gaboardi 2018, arXiv:1807.01647, Theorem 9), and the same in the other
    direction. One symmetric pair says both, so it composes. Theory: docs/theory/batch-samplers.md.

    ``cost`` is what one *replaced* record of the batch costs. With gradients clipped to the norm C and noise of
    standard deviation z·C, a replaced record moves the sum by 2C: ``Gaussian(sigma=z, sensitivity=2.0,
    neighbours="replace_one")``.

    >>> from ledgerwood.accounting import Gaussian
    >>> step = WithoutReplacement(Gaussian(sigma=1.0, neighbours="replace_one"), population=1000, batch=100)
    >>> f"{(100 * step).epsilon(delta=1e-5):.2f}"
    '7.80'
    """

    cost: Cost
    population: int
    batch: int
    neighbours: Neighbours

    def __init__(self, cost: Cost, *, population: int, batch: int, neighbours: str | None = None) -> None:
        if not isinstance(cost, Cost):
            raise ParameterError("cost", "be a cost", cost)
        if cost.neighbours is not Neighbours.REPLACE_ONE:
            hint = (
                "Batches of a fixed size compare datasets of equal size. State what a replaced record costs, e.g. "
                "Gaussian(sigma=…, sensitivity=2.0, neighbours='replace_one') for gradients clipped to norm 1"
            )
            raise ParameterError("cost", "be a replace-one cost", str(cost.neighbours), hint)
        if neighbours is not None and neighbours != cost.neighbours:
            raise ParameterError("neighbours", f"equal those of the cost ({str(cost.neighbours)!r})", neighbours)
        if not cost.is_free() and (cost.infinite_mass() > 0 or _profile_pair(cost) is None):
            hint = "A cost known only by its Rényi curve, or by an approximate-DP statement, is not amplified here"
            raise ParameterError("cost", "have a dominating pair without infinite loss", cost, hint)
        whole = _checks.integer("population", population, 1)
        part = _checks.integer("batch", batch, 1)
        if part > whole:
            raise ParameterError("batch", f"be at most the population ({whole})", batch)
        set_fields(self, cost.neighbours, cost=cost, population=whole, batch=part)

    def parameters(self) -> dict[str, Any]:
        return {"cost": self.cost, "population": self.population, "batch": self.batch}

    @property
    def rate(self) -> float:
        """The chance of a record to be in the batch, rounded up."""
        return min(ratio_up(float(self.batch), float(self.population)), 1.0)

    def at_most(self, other: Cost) -> bool:
        return isinstance(other, WithoutReplacement) and self.cost == other.cost and self.rate <= other.rate

    def priced_terms(self) -> tuple[tuple[Cost, int], ...]:
        return self.cost.priced_terms() if self.rate == 1.0 else Atom.priced_terms(self)

    def is_tight(self) -> bool:
        return False  # one pair for both directions: no mechanism attains it in a composition

    def pure_epsilon(self) -> float:
        base = self.cost.pure_epsilon()
        if base == math.inf or self.rate == 1.0 or base == 0:
            return base
        return amplified(base, self.rate)

    def mu(self) -> float | None:
        return self.cost.mu() if self.rate == 1.0 else None

    def largest_order(self) -> float:
        return self.cost.largest_order()

    def renyi(self, alpha: Array) -> Array:
        pairs = self.pairs()
        if self.rate == 1.0 or self.is_free() or pairs is None:
            return self.cost.renyi(alpha)
        return sampled_curve(pairs, self.cost.renyi, alpha)

    def pairs(self) -> tuple[LossPair, ...] | None:
        if self.rate == 1.0:
            return self.cost.pairs()
        base = _profile_pair(self.cost)
        if base is None:
            return None
        return (TwoSidedPair(SubsampledPair(base, self.rate, "remove"), SubsampledPair(base, self.rate, "add")),)

    def lower_pairs(self) -> tuple[LossPair, ...] | None:
        """Of a release that only asks whether one special record is in the batch, or of three vectors far apart.

        Any two records may change places, so each release may be attacked in the direction that suits it.
        """
        base = _profile_pair(self.cost)
        if base is None or self.rate == 1.0 or not self.cost.is_tight():
            return None
        rate = self.batch / self.population * (1 - 1e-15)
        mu = self.cost.mu()
        other = _three_vectors(mu, rate) if mu else SubsampledPair(base, rate, "add")
        return SubsampledPair(base, rate, "remove"), other

    def _group(self, k: int) -> Cost:
        if self.pure_epsilon() < math.inf:
            return PureDP(k * self.pure_epsilon(), neighbours=self.neighbours)
        return RDP(group_curve(self.renyi, k), neighbours=self.neighbours)


def _profile_pair(cost: Cost) -> LossPair | None:
    """A pair whose profile at ε ≥ 0 bounds that of every ordered pair of neighbours."""
    mu = cost.mu()
    if mu:
        return GaussianPair(mu)
    pairs = cost.pairs()
    if not pairs:
        return None
    return pairs[0] if len(pairs) == 1 else MaxPair(pairs)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class TruncatedPoisson(Atom):
    r"""A Gaussian release on a Poisson sample of at most ``limit`` records: a larger sample is cut at random.

    Cutting makes the others' places depend on the record's, so plain Poisson prices are wrong (Ganesh 2025,
    arXiv:2508.15089). ``population`` is the public number of records. ``cost`` is what one record costs that is there
    or not: Gaussian noise with σ over the clipping norm. Under ``zero_out`` a record may be made void (it contributes
    nothing and keeps its place in the sampling); under ``replace_one`` it may become another. Theory:
    docs/theory/batch-samplers.md.

    >>> from ledgerwood.accounting import Gaussian
    >>> step = TruncatedPoisson(Gaussian(sigma=1.0), rate=0.1, limit=110, population=1000, neighbours="zero_out")
    >>> f"{(100 * step).epsilon(delta=1e-5):.2f}"
    '10.20'
    """

    cost: Cost
    rate: float
    limit: int
    population: int
    neighbours: Neighbours

    def __init__(self, cost: Cost, *, rate: float, limit: int, population: int, neighbours: str) -> None:
        relation = as_neighbours(neighbours)
        if relation is Neighbours.ADD_REMOVE:
            hint = "A record added can push another one out of the batch, so the size must be public: say zero_out"
            raise ParameterError("neighbours", "be 'zero_out' or 'replace_one' for a limited batch", neighbours, hint)
        sampled_gaussian("TruncatedPoisson", cost)
        set_fields(
            self,
            relation,
            cost=cost,
            rate=_checks.probability("rate", rate),
            limit=_checks.integer("limit", limit, 1),
            population=_checks.integer("population", population, 1),
        )

    def parameters(self) -> dict[str, Any]:
        return {"cost": self.cost, "rate": self.rate, "limit": self.limit, "population": self.population}

    @property
    def _moves(self) -> float:
        """How far one record moves the mean, in standard deviations of the noise."""
        mu = self.cost.mu()
        assert mu is not None
        return 2 * mu if self.neighbours is Neighbours.REPLACE_ONE else mu

    def is_tight(self) -> bool:
        return False  # the others are taken at their worst, and whether the batch was cut as known

    def pure_epsilon(self) -> float:
        return math.inf if self.rate and self._moves else 0.0

    def mu(self) -> float | None:
        whole = self.rate == 1.0 and self.limit >= self.population
        return self._moves if whole or self.is_free() else None

    def renyi(self, alpha: Array) -> Array:
        unsampled = Gaussian(mu=self._moves)
        pairs = self.pairs() if self.mu() is None else None
        if pairs is None:
            return unsampled.renyi(alpha)
        return sampled_curve(pairs, unsampled.renyi, alpha)

    def pairs(self) -> tuple[LossPair, ...] | None:
        mu = self.cost.mu()
        if self.mu() is not None or mu is None:
            return (GaussianPair(self._moves),)
        cut, share = truncation(self.population, self.rate, self.limit)
        if self.neighbours is Neighbours.REPLACE_ONE:
            base = GaussianPair(2 * mu)
            whole: LossPair = base if self.rate == 1.0 else replaced_pair(mu, self.rate)
            part = TwoSidedPair(SubsampledPair(base, share, "remove"), SubsampledPair(base, share, "add"))
            return (_choice(cut, whole, part),)
        base = GaussianPair(mu)
        whole = base if self.rate == 1.0 else SubsampledPair(base, self.rate, "remove")
        part = TwoSidedPair(_pushed_out(mu, share), SubsampledPair(base, share, "add"))
        pair = _choice(cut, whole, part)
        return pair, pair.reversed()

    def lower_pairs(self) -> tuple[LossPair, ...] | None:
        """Of data whose other records contribute nothing, or the opposite of the record: what shows more."""
        mu = self.cost.mu()
        if mu is None or self.is_free() or self.mu() is not None:
            return None
        cut, share = truncation(self.population, self.rate, self.limit)
        rate = (max(0.0, 1 - cut) * self.rate + cut * share) * (1 - 1e-9)
        void = self.neighbours is Neighbours.ZERO_OUT
        if self.rate < 1.0 and (found := _opposite_others(self.population, self.rate, self.limit, mu, void)):
            forward, backward, excess = found
            if excess > (
                rate * rate * math.expm1(min(mu * mu, 600.0))
                if void
                else 2 * rate * rate * math.sinh(min(mu * mu, 600.0))
            ):
                return forward, backward
        if not void:
            return (replaced_pair(mu, rate),)
        return SubsampledPair(GaussianPair(mu), rate, "remove"), SubsampledPair(GaussianPair(mu), rate, "add")

    def _group(self, k: int) -> Cost:
        return RDP(group_curve(self.renyi, k), neighbours=self.neighbours)


def _pushed_out(mu: float, share: float) -> LossPair:
    """In a batch that was cut, the record or, in its place, one that points the other way; made void: neither."""
    if share == 1.0:
        return MixturePair(((1.0, mu),), ((1.0, 0.0),))
    return MixturePair(((1 - share, -mu), (share, mu)), ((1 - share, -mu), (share, 0.0)), rising=False)


WINDOW, CELL, MOST_CELLS = 39.0, 0.06, 4 * 10**5
"""What is seen of a release for lower ends: cells this wide up to this far from all means, and how many at most."""


_SLACK = 1000 * MARGIN
"""Relative allowance for the rounding of sums of some thousand masses."""


@lru_cache(maxsize=16)
def _three_vectors(mu: float, rate: float) -> LossPair:
    """The record has one of two vectors, every other one none; all three are mu apart, in the plane."""
    across, along = mu / 2, mu * math.sqrt(3) / 2
    ends = [np.arange(-9.0 - across, 9.0 + across, 0.1), np.arange(-9.0, 9.0 + along, 0.1)]

    def log_mass(x: float, y: float) -> Array:
        parts = [
            log_normal_interval(*intervals(e - m), np.append(np.append(np.inf, np.diff(e)), np.inf))
            for e, m in zip(ends, (x, y), strict=True)
        ]
        return np.asarray(np.add.outer(*parts).ravel())

    absent = math.log1p(-rate) + log_mass(0.0, 0.0)
    p, q = (np.logaddexp(absent, math.log(rate) + log_mass(x, along)) for x in (across, -across))
    return seen_outcomes(p, q)


def _binomial(trials: int, rate: float, sizes: Array) -> tuple[Array, float]:
    """Probabilities of successive sizes, as shares of them all, and a bound of the logarithm of what they leave out.

    Ratios of neighbors are added from the likeliest size outwards: factorials of many trials would lose all digits.
    The rest is bounded by Chernoff's inequality for a Poisson number, which holds for a binomial one.
    """
    ratios = np.log(trials - sizes[:-1]) - np.log(sizes[1:]) + (math.log(rate) - math.log1p(-rate))
    top = int(np.searchsorted(-ratios, 0.0))  # the ratios fall
    logs = np.concatenate((-np.cumsum(ratios[:top][::-1])[::-1], [0.0], np.cumsum(ratios[top:])))
    chance = np.exp(logs)
    mean = trials * rate
    ends = [t for t, inside in ((sizes[0] - 1, sizes[0] > 0), (sizes[-1] + 1, sizes[-1] < trials)) if inside]
    tails = [t - mean - (t * math.log(t / mean) if t > 0 else 0.0) for t in ends]
    return chance / chance.sum(), max(-230.0, *(tail + math.log(2) for tail in tails), -230.0)


@lru_cache(maxsize=16)
def _opposite_others(
    population: int, rate: float, limit: int, mu: float, void: bool
) -> tuple[LossPair, LossPair, float] | None:
    """Every other record is the opposite of this one: the two directions, and how far P's moment under Q exceeds 1."""
    others = population - 1
    spread = math.sqrt(others * rate * (1 - rate))
    low = max(0, math.floor(others * rate - 15 * spread - 40))
    high = min(others, math.ceil(others * rate + 15 * spread + 40))
    if (min(high, limit) - min(low, limit)) * mu + 2 * WINDOW > MOST_CELLS * CELL or high - low > 10**4:
        return None
    sizes = np.arange(low, high + 1.0)
    chance, log_left_out = _binomial(others, rate, sizes)
    kept = rate * np.minimum(1.0, limit / (sizes + 1))  # the record is drawn, and stays
    before = np.minimum(sizes, limit - 1)  # how many others stay with it
    sums = [
        (chance * kept, 1 - before),
        (chance * kept, -before if void else -before - 1),
        (chance * (1 - kept), -np.minimum(sizes, limit)),
    ]
    first = -min(high, limit) * mu - WINDOW - mu
    edges = np.arange(first, -min(low, limit) * mu + WINDOW + 2 * mu, CELL)
    left, right = intervals(edges)
    width = np.append(np.append(np.inf, np.diff(edges)), np.inf)

    def masses(parts: list[tuple[Array, Array]]) -> Array:
        total: dict[float, float] = {}
        for weights, places in parts:
            for w, place in zip(weights.tolist(), places.tolist(), strict=True):
                total[place] = total.get(place, 0.0) + w
        found = np.full(len(left), -np.inf)
        for place, w in total.items():
            if w > 1e-300:
                near = slice(
                    max(0, int((place * mu - WINDOW - first) / CELL)), int((place * mu + WINDOW - first) / CELL) + 2
                )
                part = log_normal_interval(left[near] - place * mu, right[near] - place * mu, width[near])
                found[near] = np.logaddexp(found[near], math.log(w) + part)
        return found

    p, q = masses([sums[0], sums[2]]), masses([sums[1], sums[2]])
    # What was left out, of sizes and of far cells, may all be in any cell of the other side.
    p_safe, q_safe = (np.logaddexp(x + _SLACK, log_left_out) for x in (p, q))
    some = (p > -200) & (q > -200)
    p, q, p_safe, q_safe = p[some], q[some], p_safe[some], q_safe[some]
    excess = float(np.sum(np.exp(q) * np.expm1(np.clip(p - q, -50, 300)) ** 2))
    return seen_outcomes(p - _SLACK, q_safe), seen_outcomes(q - _SLACK, p_safe), excess


def _choice(cut: float, whole: LossPair, part: LossPair) -> LossPair:
    if cut == 0:
        return whole
    if cut == 1:
        return part
    # The weights add up to a hair more than 1: their rounding is on the safe side.
    return PublicChoicePair(((min((1 - cut) * (1 + 1e-9), 1.0), whole), (min(cut * (1 + 1e-9), 1.0), part)))


MOST_COUNTS = 2**22
"""Sample sizes whose probabilities are added up; beyond it the batch counts as always cut, which is dearer."""


@lru_cache(maxsize=64)
def truncation(population: int, rate: float, limit: int) -> tuple[float, float]:
    r"""The chance that the others alone fill the batch, and the record's chance to be in it then.

    With N ~ Bin(population − 1, rate) others in the sample: Pr[N ≥ limit], and the mean of rate·limit/(N + 1) given
    that. Both to a relative 1e-9, the second rounded up by as much.

    >>> cut, share = truncation(1000, 0.1, 110)
    >>> f"{cut:.6f} {share:.6f}"
    '0.155675 0.095233'
    """
    others = population - 1
    if limit > others or rate == 0.0:
        return 0.0, rate
    spread = math.sqrt(others * rate * (1 - rate))
    mode = min(math.floor((others + 1) * rate), others)
    reach = math.ceil(40 * spread + 800)
    if reach > MOST_COUNTS // 2:
        return 1.0, rate
    low, high = max(0, mode - reach), min(others, mode + reach)
    counts = np.arange(low, high, dtype=float)
    steps = np.log(others - counts) - np.log(counts + 1) + math.log(rate) - math.log1p(-rate) if rate < 1 else counts
    logs = np.append(0.0, np.cumsum(steps)) if rate < 1 else np.append(np.full(len(counts), -np.inf), 0.0)
    weights = np.exp(logs - np.max(logs))
    sizes = np.arange(low, high + 1, dtype=float)
    full = sizes >= limit
    cut = float(np.sum(weights[full]) / np.sum(weights))
    if cut < 1e-300:
        return 1e-300, rate
    mean = float(np.sum(weights[full] * (limit / (sizes[full] + 1))) / np.sum(weights[full]))
    return min(cut, 1.0), min(rate * mean * (1 + 1e-9), rate)
