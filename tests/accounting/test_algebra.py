"""Laws of the algebra of costs, and the errors of bad input."""

from __future__ import annotations

import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerwood.accounting import (
    RDP,
    ZCDP,
    ApproxDP,
    BoundedRange,
    Cost,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    NoisyMax,
    PermuteAndFlip,
    PoissonSubsampled,
    PrivacyLoss,
    PureDP,
    RandomizedResponse,
    Skellam,
    SparseVector,
    parallel,
    sequence,
    zero,
)
from ledgerwood.accounting.costs.serialization import from_dict, to_dict
from ledgerwood.errors import FormatError, LedgerwoodError, MethodUnavailable, NeighboursMismatch, ParameterError

EVERY_COST = [
    PureDP(0.3),
    ApproxDP(0.3, 1e-7),
    BoundedRange(0.3),
    Gaussian(sigma=4.0),
    Gaussian(mu=0.3),
    Laplace(scale=4.0),
    ZCDP(0.02),
    RDP(lambda alpha: 0.02 * alpha),
    RDP({1.5: 0.01, 2.0: 0.02, 8.0: 0.09, 64.0: 0.8, 512.0: 9.0}),
    DiscreteLaplace(scale=4.0),
    DiscreteGaussian(sigma=4.0),
    DiscreteGaussian(sigma=4.0, sensitivity=math.sqrt(2), dimension=2),
    Skellam(variance=16.0),
    Skellam(variance=16.0, l1_sensitivity=4, l2_sensitivity=2),
    RandomizedResponse(0.3, k=3),
    NoisyMax(0.3),
    PermuteAndFlip(0.3),
    SparseVector(0.3),
    SparseVector(sigma_threshold=10.0, sigma_query=20.0, max_queries=10),
    PrivacyLoss([0.2, -0.2], [1 / (1 + math.exp(-0.2)), 1 / (1 + math.exp(0.2))]),
    PoissonSubsampled(Gaussian(sigma=2.0), rate=0.1),
    PoissonSubsampled(PureDP(0.5), rate=0.1),
    PoissonSubsampled(ZCDP(0.1), rate=0.1),
    parallel(PureDP(0.3), Gaussian(sigma=9.0)),
]
names = [f"{i}-{type(c).__name__}" for i, c in enumerate(EVERY_COST)]

sizes = st.floats(1e-3, 2.0)
cheap_costs = st.one_of(
    sizes.map(PureDP),
    sizes.map(BoundedRange),
    sizes.map(lambda m: Gaussian(mu=m)),
    sizes.map(ZCDP),
    sizes.map(lambda e: Laplace(scale=1 / e)),
    st.tuples(sizes, st.floats(0, 1e-6)).map(lambda t: ApproxDP(*t)),
)


@pytest.mark.parametrize("cost", EVERY_COST, ids=names)
def test_k_times_c_equals_c_added_k_times(cost: Cost) -> None:
    summed = cost + cost + cost
    assert summed == 3 * cost == cost * 3 == sum([cost] * 3)
    assert hash(summed) == hash(3 * cost)


@given(st.lists(cheap_costs, min_size=1, max_size=5), st.randoms())
@settings(max_examples=60, deadline=None)
def test_the_order_of_a_sum_is_irrelevant(costs: list[Cost], random: object) -> None:
    shuffled = list(costs)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert sum(costs) == sum(shuffled)
    assert sum(costs).epsilon(1e-6, "rdp") == sum(shuffled).epsilon(1e-6, "rdp")


@pytest.mark.parametrize("cost", EVERY_COST, ids=names)
def test_zero_costs_and_counts_change_nothing(cost: Cost) -> None:
    assert cost + 0 * cost == cost == cost + zero() == 0 + cost
    assert (0 * cost).epsilon(delta=0) == 0 == (0 * cost).delta(epsilon=0)
    with_free = cost + 5 * PureDP(0.0) + Gaussian(mu=0.0) + BoundedRange(0.0)
    assert with_free.epsilon(1e-4) == pytest.approx(cost.epsilon(1e-4), rel=1e-6)


@pytest.mark.parametrize("cost", EVERY_COST, ids=names)
def test_every_cost_has_a_rising_curve_and_a_price(cost: Cost) -> None:
    orders = np.array([1.0, 1.01, 1.5, 2.0, 2.5, 3.0, 7.7, 32.0])
    if cost.infinite_mass() == 0:
        curve = cost.rdp(orders)
        assert np.all(np.diff(curve) >= -1e-15) and np.all(curve >= 0)
    price = cost.epsilon(1e-5)
    assert 0 < price < math.inf
    assert cost.delta(price) <= 1e-5
    assert cost.account(1e-5).lower <= price


@pytest.mark.parametrize("cost", EVERY_COST, ids=names)
def test_a_group_of_k_costs_more_and_a_group_of_one_the_same(cost: Cost) -> None:
    assert cost.group(1) == cost
    try:
        grouped = cost.group(3)
    except ParameterError:
        assert isinstance(cost, PoissonSubsampled) and cost.infinite_mass() > 0
        return
    assert grouped.epsilon(1e-4) >= cost.epsilon(1e-4)


def test_group_prices_of_the_exact_families() -> None:
    assert PureDP(0.2).group(5) == PureDP(1.0)
    assert BoundedRange(0.25).group(4) == BoundedRange(1.0)
    assert Gaussian(mu=0.25).group(4) == Gaussian(mu=1.0)
    assert Laplace(scale=4.0).group(2) == Laplace(scale=4.0, sensitivity=2.0)
    assert ZCDP(0.1).group(3) == ZCDP(0.9)
    grouped = ApproxDP(1.0, 1e-6).group(3)
    assert grouped.size == 3.0 and grouped.mass == pytest.approx(1e-6 * (1 + math.e + math.e**2))


def test_rdp_group_is_an_upper_bound_of_the_gaussian_group() -> None:
    curve = RDP(lambda alpha: alpha * 0.005)  # a Gaussian with mu = 0.1
    for k in (2, 3, 5, 8):
        assert np.all(curve.group(k).rdp([2.0, 4.0, 16.0]) >= Gaussian(mu=0.1 * k).rdp([2.0, 4.0, 16.0]))


def test_parallel_takes_the_worst_part_and_replace_one_the_worst_of_two_parts_and_two_records() -> None:
    assert parallel(PureDP(0.5), PureDP(0.2)).epsilon(delta=0) == 0.5
    mixed = parallel(Gaussian(sigma=2.0), 3 * BoundedRange(0.2))
    for alpha in (1.5, 8.0):
        assert mixed.rdp(alpha) == max(Gaussian(sigma=2.0).rdp(alpha), (3 * BoundedRange(0.2)).rdp(alpha))
    moved = parallel(Gaussian(sigma=2.0), 3 * BoundedRange(0.2), neighbours="replace_one")
    assert str(moved.neighbours) == "replace_one"
    for alpha in (1.5, 8.0):
        ways = (Gaussian(sigma=1.0), 3 * BoundedRange(0.4), Gaussian(sigma=2.0) + 3 * BoundedRange(0.2))
        assert moved.rdp(alpha) == pytest.approx(max(way.rdp(alpha) for way in ways), rel=1e-14)
    assert parallel(PureDP(0.5), PureDP(0.2), neighbours="replace_one").epsilon(delta=0) == 1.0
    assert parallel(PureDP(0.5), neighbours="replace_one").epsilon(delta=0) == 1.0  # it may come from no part at all
    many = parallel(*[Gaussian(sigma=2.0)] * 5, neighbours="replace_one")
    assert many.epsilon(1e-5) == Gaussian(sigma=1.0).epsilon(1e-5)
    assert (many + Gaussian(sigma=3.0, neighbours="replace_one")).epsilon(1e-5) == pytest.approx(
        (Gaussian(sigma=1.0) + Gaussian(sigma=3.0)).epsilon(1e-5)
    )
    assert many.group(2).epsilon(1e-5) == pytest.approx(Gaussian(sigma=0.5).epsilon(1e-5))
    for cost in (moved, many, many.group(2), moved.group(2)):
        assert from_dict(to_dict(cost)) == cost
    assert eval(repr(moved)) == moved


def test_replace_one_costs_say_nothing_of_a_record_that_moves_between_parts() -> None:
    for attempt in (
        lambda: parallel(PureDP(0.0, neighbours="replace_one"), PureDP(0.0, neighbours="replace_one")),
        lambda: from_dict({"kind": "parallel", "neighbours": "replace_one", "parts": [
            [{"kind": "PureDP", "epsilon": 0.0, "neighbours": "replace_one"}, 2],
        ]}),
    ):  # fmt: skip
        with pytest.raises(ParameterError, match=r"when one record is added or removed.*leaves one part and enters"):
            attempt()


def test_parallel_levels_of_selections_are_priced_as_single_selections() -> None:
    level = parallel(*[BoundedRange(0.1)] * 8)
    assert (20 * level).epsilon(1e-5) == (20 * BoundedRange(0.1)).epsilon(1e-5)


def test_parallel_groups_count_records_in_one_part_and_in_many() -> None:
    leaves = parallel(*[PureDP(0.1)] * 4)
    assert leaves.group(3).epsilon(delta=0) == pytest.approx(0.3)
    # Two records in two parts compose, which is not a group of two: 2*BR(0.1) has more range than BR(0.2).
    selections = parallel(BoundedRange(0.1), BoundedRange(0.1)).group(2)
    for delta in (1e-3, 1e-6):
        least = max((2 * BoundedRange(0.1)).epsilon(delta), BoundedRange(0.2).epsilon(delta))
        assert selections.epsilon(delta) >= least * (1 - 1e-9)


def test_a_sequence_keeps_its_order_and_a_sum_forgets_it() -> None:
    a, b = BoundedRange(0.5), BoundedRange(1.0)
    assert sequence([a, b]) != sequence([b, a])
    assert sequence([a, (a, 2), b]) == sequence([(a, 3), b])
    up, down, any_order = (c.delta(0.0) for c in (sequence([a, b]), sequence([b, a]), a + b))
    assert up == pytest.approx(0.25981, abs=2e-5) and down == pytest.approx(0.24492, abs=2e-5)
    assert any_order >= max(up, down) * (1 - 1e-9)


def test_mixed_neighbouring_relations_are_an_error() -> None:
    with pytest.raises(NeighboursMismatch, match=r"add_remove.*replace_one"):
        PureDP(1.0) + PureDP(1.0, neighbours="replace_one")
    with pytest.raises(NeighboursMismatch):
        parallel(PureDP(1.0), PureDP(1.0, neighbours="replace_one"))
    with pytest.raises(NeighboursMismatch):
        sequence([PureDP(1.0), PureDP(1.0, neighbours="replace_one")])
    assert (3 * PureDP(1.0, neighbours="replace_one")).neighbours == "replace_one"
    assert (0 * PureDP(1.0, neighbours="replace_one")).neighbours == "replace_one"


BAD = [
    (lambda: PureDP(-1.0), "epsilon"),
    (lambda: PureDP(math.nan), "epsilon"),
    (lambda: PureDP(math.inf), "epsilon"),
    (lambda: PureDP("1"), "epsilon"),  # type: ignore[arg-type]
    (lambda: PureDP(True), "epsilon"),
    (lambda: BoundedRange(-0.1), "epsilon"),
    (lambda: ApproxDP(1.0, 1.0), "delta"),
    (lambda: ApproxDP(1.0, -1e-9), "delta"),
    (lambda: Gaussian(), "sigma"),
    (lambda: Gaussian(sigma=0.0), "sigma"),
    (lambda: Gaussian(sigma=1.0, mu=1.0), "sigma"),
    (lambda: Gaussian(mu=1.0, sensitivity=2.0), "sensitivity"),
    (lambda: Laplace(scale=-1.0), "scale"),
    (lambda: ZCDP(-1.0), "rho"),
    (lambda: RDP({1.0: 0.1}), "curve"),
    (lambda: RDP({0.5: 0.1}), "alpha"),
    (lambda: DiscreteGaussian(sigma=1.0, sensitivity=0.5), "sensitivity"),
    (lambda: DiscreteLaplace(scale=1.0, sensitivity=1.5), "sensitivity"),  # type: ignore[arg-type]
    (lambda: Skellam(variance=1.0, l1_sensitivity=1, l2_sensitivity=2), "l2_sensitivity"),
    (lambda: RandomizedResponse(1.0, k=1), "k"),
    (lambda: SparseVector(), "epsilon"),
    (lambda: SparseVector(1.0, sigma_query=2.0), "epsilon"),
    (lambda: PrivacyLoss([1.0], [0.5]), "probabilities"),
    (lambda: PrivacyLoss([0.0, 1.0], [1.0]), "probabilities"),
    (lambda: PrivacyLoss([-1.0], [1.0]), "probabilities"),
    (lambda: PoissonSubsampled(PureDP(1.0), rate=1.5), "rate"),
    (lambda: PoissonSubsampled(PureDP(1.0, neighbours="replace_one"), rate=0.5), "neighbours"),
    (lambda: PureDP(1.0, neighbours="swap"), "neighbours"),
    (lambda: PureDP(1.0) * 1.5, "count"),
    (lambda: PureDP(1.0) * -1, "count"),
    (lambda: PureDP(1.0).epsilon(1.0), "delta"),
    (lambda: PureDP(1.0).epsilon(-0.1), "delta"),
    (lambda: PureDP(1.0).epsilon(math.nan), "delta"),
    (lambda: PureDP(1.0).delta(math.nan), "epsilon"),
    (lambda: PureDP(1.0).rdp(0.5), "alpha"),
    (lambda: PureDP(1.0).rdp([2.0, math.nan]), "alpha"),
    (lambda: PureDP(1.0).rdp("2"), "alpha"),  # type: ignore[arg-type]
    (lambda: PureDP(1.0).epsilon(1e-5, method="magic"), "method"),
    (lambda: PureDP(1.0).group(0), "k"),
    (lambda: parallel(), "costs"),
]


@pytest.mark.parametrize(("call", "name"), BAD, ids=range(len(BAD)))
def test_bad_input_names_the_value_and_the_rule(call: object, name: str) -> None:
    with pytest.raises(ParameterError) as caught:
        call()  # type: ignore[operator]
    assert isinstance(caught.value, (LedgerwoodError, ValueError))
    assert caught.value.name == name
    assert f"{name} must " in str(caught.value) and "got" in str(caught.value)


def test_a_method_that_cannot_price_says_why() -> None:
    for cost, method, why in [
        (Gaussian(sigma=1.0), "pure", "no finite pure epsilon"),
        (PureDP(1.0) + PureDP(0.5), "kov", "pld"),
        (PureDP(1.0), "gdp", "Gaussian"),
        (RDP(lambda a: a), "pld", "dominating pair"),
        (ZCDP(1.0) + BoundedRange(1.0), "optimal", "dominating pair"),
        (Skellam(variance=4.0), "zcdp", "rdp"),
    ]:
        with pytest.raises(MethodUnavailable, match=why):
            cost.epsilon(1e-5, method=method)


@pytest.mark.parametrize("cost", EVERY_COST, ids=names)
def test_costs_are_immutable_picklable_and_survive_json(cost: Cost) -> None:
    with pytest.raises((AttributeError, TypeError)):
        cost.neighbours = "replace_one"  # type: ignore[assignment]
    if isinstance(cost, RDP) and callable(cost.curve):
        with pytest.raises(ParameterError, match="table"):
            to_dict(cost)
        return
    assert pickle.loads(pickle.dumps(cost)) == cost
    assert from_dict(json.loads(json.dumps(to_dict(cost)))) == cost
    twice = sequence([cost, BoundedRange(0.1), cost])
    assert from_dict(json.loads(json.dumps(to_dict(twice)))) == twice


def test_json_of_the_wrong_form_is_a_clear_error() -> None:
    for data, why in [
        ({}, "kind"),
        ({"kind": "Magic"}, "unknown cost kind"),
        ({"kind": "PureDP", "epsilon": 1.0, "extra": 2}, "unknown field"),
        ({"kind": "PureDP"}, "missing"),
        ({"kind": "sum", "parts": [], "extra": 1}, "unknown field"),
    ]:
        with pytest.raises(FormatError, match=why):
            from_dict(data)


def test_repr_shows_how_to_write_the_cost() -> None:
    assert repr(PureDP(0.5)) == "PureDP(epsilon=0.5)"
    assert eval(repr(Gaussian(sigma=45.0, neighbours="replace_one"))) == Gaussian(sigma=45.0, neighbours="replace_one")
    assert repr(2 * PureDP(0.5) + Gaussian(mu=0.1)) == "Gaussian(mu=0.1) + 2 * PureDP(epsilon=0.5)"
