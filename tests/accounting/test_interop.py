"""Costs cross over to autodp and dp-accounting, and back, without losing their guarantee."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerwood.accounting import (
    ZCDP,
    ApproxDP,
    BoundedRange,
    Cost,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    PoissonSubsampled,
    PureDP,
    RandomAllocation,
    RandomizedResponse,
    TruncatedPoisson,
    WithoutReplacement,
    zero,
)
from ledgerwood.accounting.interop import from_autodp, from_dp_accounting, to_autodp, to_dp_accounting
from ledgerwood.errors import MissingDependency, ParameterError

autodp = pytest.importorskip("autodp")
dp = pytest.importorskip("dp_accounting")

EVENTS = [
    Gaussian(sigma=2.5),
    Gaussian(sigma=10.0, sensitivity=4.0),
    Laplace(scale=10.0),
    DiscreteLaplace(scale=5.0, sensitivity=2),
    RandomizedResponse(0.5, k=4, neighbours="replace_one"),
    ZCDP(0.1),
    ZCDP(0.1, neighbours="replace_one"),
    PoissonSubsampled(Gaussian(sigma=1.0), rate=0.01),
    200 * Laplace(scale=3.0) + 50 * Gaussian(sigma=45.0),
    7 * RandomizedResponse(0.1, neighbours="replace_one") + Gaussian(sigma=3.0, neighbours="replace_one"),
    zero(),
]


@pytest.mark.parametrize("cost", EVENTS, ids=repr)
def test_a_cost_becomes_an_event_and_comes_back_at_the_same_price(cost: Cost) -> None:
    back = from_dp_accounting(to_dp_accounting(cost), neighbours=cost.neighbours)
    assert back.rdp([1.0, 3.0, 32.0]) == pytest.approx(cost.rdp([1.0, 3.0, 32.0]), rel=1e-9)
    assert back.pure_epsilon() == pytest.approx(cost.pure_epsilon(), rel=1e-12)


@pytest.mark.parametrize("cost", [PureDP(1.0), BoundedRange(0.1), ApproxDP(1.0, 1e-6)], ids=repr)
def test_a_cost_without_an_event_is_refused_with_a_hint(cost: Cost) -> None:
    with pytest.raises(ParameterError, match=r"have an event in dp-accounting.*ZCDP"):
        to_dp_accounting(cost)


@pytest.mark.parametrize(
    "event",
    [dp.NonPrivateDpEvent(), dp.UnsupportedDpEvent(), dp.RandomizedResponseDpEvent(0.0, 3), "Gaussian"],
    ids=repr,
)
def test_an_event_without_a_cost_is_refused(event: Any) -> None:
    with pytest.raises(ParameterError, match="event must be a dp-accounting event"):
        from_dp_accounting(event, neighbours="replace_one")


def test_events_without_information_cost_nothing() -> None:
    for event in (dp.NoOpDpEvent(), dp.RandomizedResponseDpEvent(1.0, 3), dp.RandomizedResponseDpEvent(0.5, 1)):
        assert from_dp_accounting(event, neighbours="replace_one").epsilon(0.0) == 0.0


def test_the_xi_of_a_zcdp_event_is_kept() -> None:
    assert from_dp_accounting(dp.ZCDpEvent(rho=0.1, xi=0.3)).rdp(4.0) == pytest.approx(0.7)


def test_repeated_randomised_response_survives_the_peer_that_forgets_counts() -> None:
    from dp_accounting.pld import PLDAccountant

    cost = 200 * RandomizedResponse(0.1, neighbours="replace_one")
    accountant = PLDAccountant(dp.NeighboringRelation.REPLACE_ONE)
    accountant.compose(to_dp_accounting(cost))
    assert accountant.get_epsilon(1e-5) == pytest.approx(cost.epsilon(1e-5), rel=5e-3)


# What an event means, by dp-accounting's own definitions: the noise of a sum is measured in one record's bound C.
POSITIVE = st.floats(0.2, 50.0)
NOISE = st.one_of(
    POSITIVE.map(dp.GaussianDpEvent),
    POSITIVE.map(dp.LaplaceDpEvent),
    st.builds(dp.dp_event.DiscreteLaplaceDpEvent, st.floats(0.02, 3.0), st.integers(1, 4)),
    st.builds(dp.RandomizedResponseDpEvent, st.floats(0.05, 0.999), st.integers(1, 6)),  # at 1 theirs fails
    st.builds(dp.ZCDpEvent, st.floats(0.001, 1.0), st.sampled_from([0.0, 0.2])),
    st.builds(dp.PoissonSampledDpEvent, st.floats(0.01, 1.0), POSITIVE.map(dp.GaussianDpEvent)),
)
EVENT = st.recursive(
    NOISE,
    lambda inner: st.one_of(
        st.builds(dp.SelfComposedDpEvent, inner, st.integers(1, 4)),
        st.lists(inner, min_size=1, max_size=3).map(dp.ComposedDpEvent),
    ),
    max_leaves=4,
)
RELATIONS = {
    "add_remove": dp.NeighboringRelation.ADD_OR_REMOVE_ONE,
    "replace_one": dp.NeighboringRelation.REPLACE_ONE,
}


@settings(max_examples=60, deadline=None)
@given(event=EVENT, neighbours=st.sampled_from(sorted(RELATIONS)))
def test_an_event_never_costs_less_than_in_either_of_their_accountants(event: Any, neighbours: str) -> None:
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.rdp import RdpAccountant

    if neighbours == "add_remove" and "RandomizedResponse" in repr(event):
        with pytest.raises(ParameterError, match="neighbours must be"):
            from_dp_accounting(event, neighbours=neighbours)
        return
    cost = from_dp_accounting(event, neighbours=neighbours)
    orders = [1.5, 2.0, 4.0, 32.0]
    concentrated = RdpAccountant(orders=orders, neighboring_relation=RELATIONS[neighbours])
    if concentrated.supports(event):
        theirs = concentrated.compose(event)._rdp
        ours = cost.rdp(orders)
        # At fractional orders their subsampled curve is too large (docs/explanation/peers.md).
        compared = slice(1, None) if "Poisson" in repr(event) else slice(None)
        assert np.all(ours[compared] >= theirs[compared] * (1 - 1e-9) - 1e-14)  # theirs cancels near 0
    numeric = PLDAccountant(RELATIONS[neighbours], value_discretization_interval=1e-3)
    if numeric.supports(event):
        theirs = numeric.compose(event).get_epsilon(1e-3)
        assert cost.epsilon(1e-3) >= theirs - 0.01 - 0.01 * theirs  # their grid rounds up


@settings(max_examples=100, deadline=None)
@given(size=st.floats(1e-3, 20.0), sensitivity=st.integers(1, 5), neighbours=st.sampled_from(sorted(RELATIONS)))
def test_noise_goes_there_and_back_under_both_relations(size: float, sensitivity: int, neighbours: str) -> None:
    costs: list[Cost] = [Gaussian(sigma=size, sensitivity=sensitivity, neighbours=neighbours)]
    if neighbours == "add_remove":
        costs += [
            Laplace(scale=size, sensitivity=sensitivity),
            DiscreteLaplace(scale=size, sensitivity=sensitivity),
        ]
    else:
        costs.append(RandomizedResponse(size, k=1 + sensitivity, neighbours=neighbours))
    for cost in costs:
        back = from_dp_accounting(to_dp_accounting(cost), neighbours=neighbours)
        assert cost.rdp(3.0) * (1 - 1e-15) <= back.rdp(3.0) <= cost.rdp(3.0) * (1 + 1e-9)
        assert back.pure_epsilon() >= cost.pure_epsilon()


@pytest.mark.parametrize("kind", [Laplace, DiscreteLaplace])
def test_laplace_noise_under_replace_one_has_no_event_that_they_price_rightly(kind: Any) -> None:
    with pytest.raises(ParameterError, match=r"that dp-accounting prices rightly.*ZCDP"):
        to_dp_accounting(kind(scale=2.0, sensitivity=2, neighbours="replace_one"))


def test_randomised_response_is_about_a_record_that_is_there() -> None:
    for call in (
        lambda: to_dp_accounting(RandomizedResponse(0.5)),
        lambda: from_dp_accounting(dp.RandomizedResponseDpEvent(0.5, 3)),
    ):
        with pytest.raises(ParameterError, match="'replace_one' for randomized response"):
            call()


def test_a_count_that_is_no_integer_is_refused() -> None:
    with pytest.raises(ParameterError, match="be an integer"):
        from_dp_accounting(dp.SelfComposedDpEvent(dp.GaussianDpEvent(1.0), 2.9))


def test_the_neighbouring_relation_is_given_to_every_part() -> None:
    event = dp.ComposedDpEvent([dp.GaussianDpEvent(2.0), dp.SelfComposedDpEvent(dp.LaplaceDpEvent(3.0), 4)])
    assert str(from_dp_accounting(event, neighbours="replace_one").neighbours) == "replace_one"


@pytest.mark.parametrize("cost", [20 * BoundedRange(0.1), 5 * PureDP(0.3), Laplace(scale=2.0)], ids=repr)
def test_an_autodp_mechanism_answers_with_the_price_of_the_cost(cost: Cost) -> None:
    mechanism = to_autodp(cost)
    assert mechanism.get_approxDP(1e-6) == cost.epsilon(1e-6)
    assert mechanism.get_approx_delta(0.7) == cost.delta(0.7)
    assert mechanism.RenyiDP(3.0) == cost.rdp(3.0)
    assert mechanism.get_pureDP() == cost.pure_epsilon()


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # autodp starts its search at order 1
def test_autodp_composes_our_mechanism_with_its_own() -> None:
    from autodp.mechanism_zoo import GaussianMechanism
    from autodp.transformer_zoo import Composition

    both = Composition()([to_autodp(BoundedRange(0.1)), GaussianMechanism(45.0)], [20, 50])
    ours = 20 * BoundedRange(0.1) + 50 * Gaussian(sigma=45.0)
    # The same curve and the same conversion, each with its own search over orders.
    assert ours.epsilon(1e-5, method="rdp") == pytest.approx(both.get_approxDP(1e-5), rel=1e-7)


def test_an_approximate_cost_keeps_its_delta_in_autodp() -> None:
    mechanism = to_autodp(ApproxDP(0.5, 1e-6))
    assert mechanism.get_approxDP(2e-6) <= 0.5
    assert mechanism.get_approxDP(1e-7) == math.inf
    assert mechanism.delta0 == 1e-6


def test_an_autodp_mechanism_is_a_cost_of_ours() -> None:
    from autodp.mechanism_zoo import LaplaceMechanism

    cost = 100 * from_autodp(LaplaceMechanism(10.0))
    assert cost.epsilon(1e-5) == pytest.approx((100 * Laplace(scale=10.0)).epsilon(1e-5, method="rdp"), rel=1e-6)
    assert (cost + 10 * Gaussian(sigma=20.0)).rdp(4.0) > cost.rdp(4.0)


@pytest.mark.parametrize("size", [1e-8, 1e-9, 1e-12])
def test_an_unsound_autodp_curve_does_not_become_an_unsound_cost(size: float) -> None:
    from autodp.mechanism_zoo import ExponentialMechanism

    theirs = from_autodp(ExponentialMechanism(size))
    for order in (1.0, 1 + 1e-10, 1.5, 2.0, 8.0):
        assert theirs.rdp(order) >= BoundedRange(size).rdp(order)


def test_a_mechanism_that_reveals_nothing_costs_nothing() -> None:
    from autodp.mechanism_zoo import PureDP_Mechanism

    mechanism = PureDP_Mechanism(0.1)
    mechanism.eps_pureDP = 0
    assert from_autodp(mechanism).epsilon(0.0) == 0.0


def test_something_else_is_not_a_mechanism() -> None:
    with pytest.raises(ParameterError, match="be an autodp mechanism"):
        from_autodp(3.0)


@pytest.mark.parametrize(
    ("call", "package"),
    [
        (lambda: to_autodp(PureDP(1.0)), "autodp"),
        (lambda: from_autodp(None), "autodp"),
        (lambda: to_dp_accounting(PureDP(1.0)), "dp-accounting"),
        (lambda: from_dp_accounting(None), "dp-accounting"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch, call: Any, package: str) -> None:
    for name in [m for m in sys.modules if m.split(".")[0] in ("autodp", "dp_accounting")]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingDependency, match=rf"{package}.*ledgerwood\[peers\]"):
        call()


# -- batch samplers ---------------------------------------------------------------------------------------------------


def _their_epsilon(event: Any, relation: str, delta: float) -> float:
    accountant = dp.pld.PLDAccountant(dp.NeighboringRelation[relation])
    return float(accountant.compose(event).get_epsilon(delta))


@pytest.mark.parametrize(("neighbours", "relation"), [("zero_out", "REPLACE_SPECIAL"), ("replace_one", "REPLACE_ONE")])
def test_a_truncated_sample_goes_there_and_back(neighbours: str, relation: str) -> None:
    cost = 20 * TruncatedPoisson(Gaussian(sigma=2.0), rate=0.1, limit=110, population=1000, neighbours=neighbours)
    event = to_dp_accounting(cost)
    assert from_dp_accounting(event, neighbours=neighbours) == cost
    assert cost.account(1e-5).lower <= _their_epsilon(event, relation, 1e-5)
    with pytest.raises(ParameterError, match="zero_out"):
        from_dp_accounting(event)


def test_a_poisson_sample_under_replace_one_goes_there_and_back() -> None:
    cost = 100 * PoissonSubsampled(Gaussian(sigma=1.0), rate=0.1, neighbours="replace_one")
    event = to_dp_accounting(cost)
    assert from_dp_accounting(event, neighbours="replace_one") == cost
    assert cost.epsilon(1e-5) == pytest.approx(_their_epsilon(event, "REPLACE_ONE", 1e-5), rel=1e-4)


def test_a_group_in_a_poisson_sample_becomes_a_mixture() -> None:
    cost = PoissonSubsampled(Gaussian(sigma=1.0), rate=0.1).group(2)
    event = to_dp_accounting(5 * cost)
    assert (5 * cost).epsilon(1e-5) == pytest.approx(_their_epsilon(event, "ADD_OR_REMOVE_ONE", 1e-5), rel=1e-3)
    one = dp.dp_event.MixtureOfGaussiansDpEvent(2.0, [0.0, 3.0], [0.9, 0.1])
    assert from_dp_accounting(one) == PoissonSubsampled(Gaussian(sigma=2.0, sensitivity=3.0), rate=0.1)
    with pytest.raises(ParameterError, match="one sensitivity"):
        from_dp_accounting(dp.dp_event.MixtureOfGaussiansDpEvent(2.0, [0.0, 1.0, 2.0], [0.8, 0.1, 0.1]))


def test_samples_without_replacement_come_in_with_twice_the_sensitivity_and_do_not_go_out() -> None:
    event = dp.SampledWithoutReplacementDpEvent(1000, 100, dp.GaussianDpEvent(1.0))
    cost = from_dp_accounting(event, neighbours="replace_one")
    moved = Gaussian(sigma=1.0, sensitivity=2.0, neighbours="replace_one")
    assert cost == WithoutReplacement(moved, population=1000, batch=100)
    with pytest.raises(ParameterError, match="replace-one cost"):
        from_dp_accounting(event)
    with pytest.raises(ParameterError, match="half the sensitivity"):
        to_dp_accounting(cost)


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("NonPrivateDpEvent", (), "no finite price"),
        ("UnsupportedDpEvent", (), "says nothing"),
        ("SampledWithReplacementDpEvent", (100, 10, None), "twice"),
        ("SingleEpochTreeAggregationDpEvent", (1.0, 8), "levels"),
        ("RepeatAndSelectDpEvent", (None, 10.0, 1.0), "best of a random number"),
    ],
)
def test_other_events_are_refused_with_the_reason(name: str, arguments: tuple[Any, ...], reason: str) -> None:
    given = [dp.GaussianDpEvent(1.0) if x is None else x for x in arguments]
    with pytest.raises(ParameterError, match=reason):
        from_dp_accounting(getattr(dp.dp_event, name)(*given))


def test_random_allocation_has_no_event() -> None:
    with pytest.raises(ParameterError, match="random allocation"):
        to_dp_accounting(RandomAllocation(Gaussian(sigma=1.0), bins=10))
