"""Exact profiles against claims: Hypothesis looks for a pair of values and an output that break one."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from ledgerwood._rounding import sum_up
from ledgerwood.accounting import PureDP, RandomizedResponse
from ledgerwood.errors import MethodUnavailable, ParameterError
from ledgerwood.mechanisms.local import (
    AdjMap,
    BoundedLaplace,
    ClampedLaplace,
    DistanceClaim,
    Domain,
    GeneralizedRandomizedResponse,
    GlobalMap,
    LaplaceMap,
    LocalMap,
    Partition,
    PartitionClaim,
    PiecewiseMechanism,
    UnaryEncoding,
)
from ledgerwood.mechanisms.local.base import OrderedMechanism


@pytest.fixture(autouse=True, scope="module")
def _digits():
    with mpmath.workdps(50):
        yield


epsilons = st.floats(1e-4, 20.0)


@st.composite
def domains(draw: st.DrawFn, smallest: int = 2) -> Domain:
    lower = draw(st.integers(-100, 100))
    return Domain(lower, lower + draw(st.integers(smallest, 64)) - 1)


@st.composite
def partitions(draw: st.DrawFn, size: int) -> Partition:
    cuts = sorted(draw(st.sets(st.integers(1, size - 1), max_size=12)))
    return Partition(tuple(np.diff([0, *cuts, size]).tolist()))


@st.composite
def adj_maps(draw: st.DrawFn) -> AdjMap:
    domain = draw(domains())
    if draw(st.booleans()):
        theta = draw(st.integers(1, domain.size))
        alpha = draw(st.floats(0.1, 20.0))
        return AdjMap.from_epsilon(domain, theta, epsilon=draw(epsilons), alpha=alpha)
    return AdjMap(domain, draw(partitions(domain.size)), draw(epsilons), draw(epsilons))


@st.composite
def local_maps(draw: st.DrawFn) -> LocalMap:
    domain = draw(domains())
    return LocalMap(domain, draw(partitions(domain.size)), draw(epsilons))


ordered_mechanisms = st.one_of(
    st.builds(GlobalMap, domains(), epsilons),
    st.builds(LaplaceMap, domains(), epsilons),
    st.builds(GeneralizedRandomizedResponse, domains(), epsilons),
    st.builds(PiecewiseMechanism, domains(), epsilons),
    adj_maps(),
    local_maps(),
)


@settings(max_examples=300, deadline=None)
@given(ordered_mechanisms)
def test_no_log_ratio_exceeds_the_claim_at_any_distance(mechanism: OrderedMechanism) -> None:
    assert mechanism.enumerated_profile().first_violation() is None


@settings(max_examples=200, deadline=None)
@given(ordered_mechanisms)
def test_the_fast_profile_is_the_enumerated_one(mechanism: OrderedMechanism) -> None:
    fast, slow = mechanism.profile, mechanism.enumerated_profile()
    finite = np.isfinite(slow.gaps)
    assert (np.isfinite(fast.gaps) == finite).all()
    assert np.abs(np.asarray(fast.gaps)[finite] - np.asarray(slow.gaps)[finite]).max() <= slow.error


@settings(max_examples=200, deadline=None)
@given(ordered_mechanisms)
def test_the_cost_is_the_profile_at_the_largest_distance(mechanism: OrderedMechanism) -> None:
    whole = mechanism.enumerated_profile().gaps[-1]
    if math.isinf(whole):
        with pytest.raises(MethodUnavailable, match="profile"):
            _ = mechanism.cost
    else:
        epsilon = mechanism.cost.epsilon(delta=0)
        assert whole - mechanism.enumerated_profile().error <= epsilon <= whole * (1 + 1e-9) + 1e-9


@settings(max_examples=150, deadline=None)
@given(ordered_mechanisms)
def test_probabilities_sum_to_one(mechanism: OrderedMechanism) -> None:
    p = mechanism.probabilities(mechanism.domain.values)
    assert p.shape == (mechanism.domain.size, mechanism.outputs.size)
    assert np.abs(p.sum(axis=1) - 1).max() < 1e-12


def log_ratio_by_definition(mechanism: OrderedMechanism, x: int, o: int) -> mpmath.mpf:
    """``log Pr[o | x]`` at 50 digits, from the algorithms as Li et al. print them (sums, not closed forms)."""

    def global_map(size: int, epsilon: float, centre: int, output: int) -> mpmath.mpf:
        weight = lambda d: mpmath.exp(-mpmath.mpf(epsilon) / 2 * abs(d))  # noqa: E731
        return weight(centre - output) / mpmath.fsum(weight(centre - j) for j in range(size))

    if isinstance(mechanism, GlobalMap):
        return mpmath.log(global_map(mechanism.domain.size, mechanism.epsilon, x, o))
    assert isinstance(mechanism, AdjMap | LocalMap)
    starts, widths = mechanism.partition.starts, mechanism.partition.widths
    part, own = (int(mechanism.partition.index(np.array(v))) for v in (o, x))
    # Li et al.'s inner step weighs |x - o| for o in the part, wherever x lies
    inner = global_map(widths[part], mechanism.epsilon_ner, x - int(starts[part]), o - int(starts[part]))
    if isinstance(mechanism, LocalMap):
        return mpmath.log(inner) if part == own else mpmath.ninf
    return mpmath.log(global_map(len(widths), mechanism.epsilon_prt, own, part) * inner)


@settings(max_examples=60, deadline=None)
@given(st.one_of(st.builds(GlobalMap, domains(), epsilons), adj_maps(), local_maps()), st.data())
def test_log_probabilities_are_those_of_the_algorithms(mechanism: OrderedMechanism, data: st.DataObject) -> None:
    x, o = (data.draw(st.integers(0, mechanism.domain.size - 1)) for _ in range(2))
    exact = log_ratio_by_definition(mechanism, x, o)
    found = float(mechanism.log_probabilities(x + mechanism.domain.lower)[o])
    assert found == exact if exact == mpmath.ninf else abs(found - exact) <= mechanism.profile.error / 2


@settings(max_examples=60, deadline=None)
@given(st.builds(LaplaceMap, domains(), epsilons), st.data())
def test_the_clamped_law_adds_up_the_tails(mechanism: LaplaceMap, data: st.DataObject) -> None:
    x, n = data.draw(st.integers(0, mechanism.domain.size - 1)), mechanism.domain.size
    q = mpmath.exp(-mpmath.mpf(mechanism.epsilon))
    noise = lambda z: (1 - q) / (1 + q) * q ** abs(z)  # noqa: E731
    distribution = [noise(o - x) for o in range(n)]
    distribution[0] += noise(x + 1) / (1 - q)
    distribution[-1] += noise(n - x) / (1 - q)
    found = mechanism.log_probabilities(x + mechanism.domain.lower)
    assert max(abs(mpmath.log(p) - f) for p, f in zip(distribution, found)) <= mechanism.enumerated_profile().error / 2


@dataclasses.dataclass(frozen=True)
class SlightlyTooSharp(GlobalMap):
    """A planted bug: one per cent less noise than claimed."""

    @property
    def distribution(self) -> BoundedLaplace:
        return BoundedLaplace(self.domain.size, 1.01 * self.epsilon / 2)


@dataclasses.dataclass(frozen=True)
class SlightlyTooSharpClamped(LaplaceMap):
    """The same bug in the other map."""

    @property
    def distribution(self) -> ClampedLaplace:
        return ClampedLaplace(self.domain.size, 1.01 * self.epsilon)


@dataclasses.dataclass(frozen=True)
class SharperParts(AdjMap):
    """The same bug in the choice of the part."""

    @property
    def part_distribution(self) -> BoundedLaplace:
        return BoundedLaplace(self.partition.count, 1.01 * self.epsilon_prt / 2)


@pytest.mark.parametrize("broken", [SlightlyTooSharp, SlightlyTooSharpClamped, SharperParts])
def test_one_per_cent_too_little_noise_is_found(broken: type[OrderedMechanism]) -> None:
    small = st.floats(1e-4, 1e-3)
    wide = st.builds(Domain, st.just(0), st.integers(200, 400))
    if broken is SharperParts:
        even = lambda d, e: SharperParts(d, Partition((1,) * d.size), e, e)  # noqa: E731
        strategy: st.SearchStrategy[OrderedMechanism] = st.builds(even, wide, small)
    else:
        strategy = st.builds(broken, wide, small)
    mechanism = find(
        strategy, lambda m: not m.enumerated_profile().satisfies(), settings=settings(max_examples=200, deadline=None)
    )
    assert mechanism.profile.first_violation() is not None


def test_claims_are_attained_within_one_per_cent_somewhere() -> None:
    tight = [
        GlobalMap(Domain(0, 999), 0.002),
        LaplaceMap(Domain(0, 63), 1.0),
        AdjMap(Domain(0, 255), Partition.even(256, 2), 1e-4, 1e-4),
        GeneralizedRandomizedResponse(Domain(0, 9), 1.0),
        PiecewiseMechanism(Domain(0, 9), 1.0),
    ]
    for mechanism in tight:
        profile = mechanism.profile
        ratios = [profile.gaps[t] / mechanism.claim.epsilon(t) for t in range(1, len(profile.gaps))]
        assert 0.99 < max(ratios) <= 1 + 1e-9, type(mechanism)
    within = LocalMap(Domain(0, 2047), Partition.even(2048, 1024), 0.002).within
    assert within.gaps[1] / 0.002 > 0.99


def test_adj_map_is_not_distance_ldp_across_a_boundary() -> None:
    """Li et al., §6.3 says that these parameters provide 0.1-dLDP."""
    mechanism = AdjMap.from_epsilon(Domain(1, 100), 10, epsilon=0.1, alpha=1.0)
    profile = mechanism.enumerated_profile()
    assert profile.epsilon(1) == pytest.approx(0.66, abs=5e-4)
    assert profile.first_violation(DistanceClaim(0.1)) == 1
    across = mechanism.log_probabilities(10) - mechanism.log_probabilities(11)
    inside = mechanism.log_probabilities(11) - mechanism.log_probabilities(12)
    assert np.abs(across).max() == pytest.approx(profile.gaps[1]) and np.abs(inside).max() < 0.1
    assert GlobalMap(Domain(1, 100), 0.1).profile.epsilon(1) == pytest.approx(0.0953, abs=5e-5)


@settings(max_examples=100, deadline=None)
@given(adj_maps())
def test_the_sharpened_claim_is_never_above_definition_4_4(mechanism: AdjMap) -> None:
    widths = mechanism.partition.widths
    if len(set(widths[:-1])) > 1 or widths[-1] > widths[0]:
        return
    theta = widths[0]
    for t in range(1, mechanism.domain.size):
        printed = math.ceil(t / theta) * mechanism.epsilon_prt + theta * mechanism.epsilon_ner
        assert mechanism.claim.epsilon(t) <= printed * (1 + 1e-12)


@settings(max_examples=60, deadline=None)
@given(domains().flatmap(lambda d: partitions(d.size)))
def test_the_most_boundaries_crossed_match_a_count_over_all_pairs(partition: Partition) -> None:
    index = partition.index(np.arange(partition.size))
    for t in range(partition.size):
        pairs = [index[x + d] - index[x] for d in range(t + 1) for x in range(partition.size - d)]
        assert partition.most_crossed(t) == max(pairs)


@settings(max_examples=40, deadline=None)
@given(adj_maps(), st.integers(1, 4))
def test_two_releases_compose_as_theorems_b1_and_b2_say(mechanism: AdjMap, distance: int) -> None:
    """The exact log-ratios of the pair of outputs are sums, so the joint maximum is the sum of the maxima."""
    again = dataclasses.replace(mechanism, epsilon_prt=mechanism.epsilon_prt / 2)
    both = mechanism.profile + again.profile
    x, y = 0, min(distance, mechanism.domain.size - 1)
    rows = np.array([x, y]) + mechanism.domain.lower
    first, second = (np.diff(m.log_probabilities(rows), axis=0)[0] for m in (mechanism, again))
    joint = np.abs(first[:, None] + second[None, :]).max()
    assert joint <= both.epsilon(y) * (1 + 1e-12)
    assert both.satisfies() and both.claim == mechanism.claim + again.claim
    assert (GlobalMap(mechanism.domain, 0.5).claim + DistanceClaim(0.25)).epsilon(3) == 2.25


def test_profiles_with_different_claims_compose_without_a_claim() -> None:
    domain = Domain(0, 9)
    mixed = GlobalMap(domain, 0.5).profile + AdjMap.from_epsilon(domain, 2, epsilon=0.5, alpha=1.0).profile
    assert mixed.claim is None and mixed.epsilon(9) > 0
    with pytest.raises(ParameterError, match="claim"):
        mixed.satisfies()
    with pytest.raises(ParameterError, match="same length"):
        _ = GlobalMap(domain, 0.5).profile + GlobalMap(Domain(0, 8), 0.5).profile
    with pytest.raises(ParameterError, match="same in both claims"):
        _ = PartitionClaim(Partition((2, 2)), 1.0, 1.0) + PartitionClaim(Partition((1, 3)), 1.0, 1.0)


def test_costs_are_typed_and_speak_of_replacing_a_value() -> None:
    domain = Domain(0, 9)
    cost = GeneralizedRandomizedResponse(domain, 0.5).cost
    assert cost == RandomizedResponse(0.5, k=10, neighbours="replace_one")
    assert UnaryEncoding(domain, 0.5).cost == PureDP(0.5, neighbours="replace_one")
    assert PiecewiseMechanism(domain, 0.5).cost == PureDP(0.5, neighbours="replace_one")
    assert isinstance(GlobalMap(domain, 0.5).cost, PureDP)
    # Global-map's whole cost is half of what dLDP says at the largest distance: both ends have one normaliser
    assert GlobalMap(domain, 0.5).cost.epsilon(delta=0) == pytest.approx(9 * 0.5 / 2)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 7), epsilons, st.sampled_from(["symmetric", "optimised"]))
def test_unary_encoding_loses_exactly_epsilon(k: int, epsilon: float, kind: str) -> None:
    table = UnaryEncoding(Domain(0, k - 1), epsilon, kind).log_probabilities(np.arange(k))  # type: ignore[arg-type]
    assert np.exp(table).sum(axis=1) == pytest.approx(np.ones(k))
    assert np.ptp(table, axis=0).max() == pytest.approx(epsilon, rel=1e-9)


def test_local_map_hides_nothing_between_parts_and_keeps_its_word_inside() -> None:
    mechanism = LocalMap(Domain(1, 10), Partition((4, 6)), 0.3)
    assert mechanism.profile.epsilon(1) == math.inf and mechanism.claim.epsilon(1) == math.inf
    assert mechanism.within.satisfies() and 0 < mechanism.within.epsilon(5) <= 1.5
    whole = LocalMap(Domain(1, 10), Partition((10,)), 0.3)
    assert whole.cost == GlobalMap(Domain(1, 10), 0.3).cost
    assert whole.claim.epsilon(3) == pytest.approx(0.9)


def test_costs_and_claims_need_no_enumeration_on_a_huge_domain() -> None:
    assert GlobalMap(Domain(0, 2**45), 1e-10, "laplace").cost.epsilon(delta=0) == pytest.approx(2**45 * 5e-11)
    assert LaplaceMap(Domain(0, 2**45), 1e-10, "laplace").cost.epsilon(delta=0) == pytest.approx(2**45 * 1e-10)
    mechanism = AdjMap.from_epsilon(Domain(0, 2**30 - 1), 2**24, epsilon=1e-8, alpha=1.0, sampling="laplace")
    between, inside = (2**6 - 1) * mechanism.epsilon_prt, (2**24 - 1) * mechanism.epsilon_ner
    assert mechanism.cost.epsilon(delta=0) == pytest.approx((between + inside) / 2)
    assert mechanism.claim.epsilon(2**24 + 1) == pytest.approx(2 * mechanism.epsilon_prt + inside)
    released = mechanism.release([0, 2**29, 2**30 - 1])
    assert ((released >= 0) & (released < 2**30)).all()


@settings(max_examples=100, deadline=None)
@given(domains(), epsilons)
def test_costs_are_upper_bounds_in_floating_point_too(domain: Domain, epsilon: float) -> None:
    """The whole-domain losses are rational: epsilon/2 a step for Global-map, epsilon for Laplace-map."""
    whole = Fraction(epsilon) * (domain.size - 1)
    for mechanism, exact in ((GlobalMap(domain, epsilon), whole / 2), (LaplaceMap(domain, epsilon), whole)):
        assert exact <= Fraction(mechanism.cost.epsilon(delta=0)) <= exact * (1 + Fraction(1, 10**8))
        assert exact <= Fraction(mechanism.profile.epsilon(domain.size - 1))


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 1000), epsilons, st.integers(0, 1000), epsilons)
def test_claims_round_up(a: int, x: float, b: int, y: float) -> None:
    exact = a * Fraction(x) + b * Fraction(y)
    assert sum_up(a, x, b, y) >= exact > Fraction(math.nextafter(sum_up(a, x, b, y), 0)) or exact == 0
    assert DistanceClaim(x).epsilon(a) >= a * Fraction(x)


def test_claims_refuse_a_negative_distance() -> None:
    for claim in (DistanceClaim(1.0), GeneralizedRandomizedResponse(Domain(0, 3), 1.0).claim):
        with pytest.raises(ParameterError, match="distance"):
            claim.epsilon(-1)
    assert PartitionClaim(Partition((2, 2)), 1.0, 1.0).epsilon(0) == 0
