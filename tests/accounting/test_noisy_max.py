"""Noisy max and permute-and-flip: the Laplace pair holds for every set of candidates, and two of them attain it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerwood.accounting import BoundedRange, Laplace, NoisyMax, PermuteAndFlip, PoissonSubsampled, PureDP
from ledgerwood.accounting.costs.serialization import from_dict, to_dict
from ledgerwood.mechanisms import NoisyMaxMechanism, PermuteAndFlipMechanism

scores = st.integers(2, 6).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(-6, 6), min_size=n, max_size=n), st.lists(st.integers(0, 4), min_size=n, max_size=n)
    )
)


def profile(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.sum(np.maximum(p - math.exp(epsilon) * q, 0.0)))


@pytest.mark.parametrize("kind", [PermuteAndFlipMechanism, NoisyMaxMechanism])
@settings(max_examples=60, deadline=None)
@given(scores, st.sampled_from([0.05, 0.5, 2.0, 6.0]))
def test_no_set_of_candidates_beats_the_laplace_pair(kind, case: tuple[list[int], list[int]], epsilon: float) -> None:
    first, moves = case
    mechanism = kind(epsilon=epsilon, range_sensitivity=4.0)
    p = mechanism.probabilities(np.array(first, dtype=float))
    q = mechanism.probabilities(np.array(first, dtype=float) + moves)
    for gamma in epsilon * np.linspace(0, 1, 9)[:-1]:
        claimed = mechanism.cost.delta(gamma)
        assert claimed <= PureDP(epsilon).delta(gamma) * (1 + 1e-9)
        assert profile(p, q, gamma) <= claimed + 1e-11 and profile(q, p, gamma) <= claimed + 1e-11


@given(st.floats(0.01, 5.0), st.floats(0.0, 0.95))
@settings(max_examples=60, deadline=None)
def test_two_candidates_of_permute_and_flip_attain_the_pair(epsilon: float, share: float) -> None:
    """At γ = share · ε the best test puts the threshold where the loss is γ: the lead is (ε − γ)/2 before."""
    gamma = share * epsilon
    mechanism = PermuteAndFlipMechanism(epsilon=epsilon, range_sensitivity=1.0)
    lead = (epsilon - gamma) / 2 / epsilon
    p, q = mechanism.probabilities([lead, 0.0]), mechanism.probabilities([lead - 1, 0.0])
    assert profile(p, q, gamma) == pytest.approx(mechanism.cost.delta(gamma), rel=1e-6)


def test_prices_of_many_selections() -> None:
    for kind in (PermuteAndFlip, NoisyMax):
        assert (100 * kind(0.1)).epsilon(1e-5) <= 4.2204
        assert (100 * kind(0.1)).epsilon(1e-5) == pytest.approx((100 * Laplace(scale=10.0)).epsilon(1e-5), rel=1e-6)
        assert (50 * kind(0.1)).epsilon(1e-5) > 1.5 * (50 * BoundedRange(0.1)).epsilon(1e-5)
        assert kind(0.1).group(3) == kind(0.1 * 3) and from_dict(to_dict(3 * kind(0.1))) == 3 * kind(0.1)
        sampled = PoissonSubsampled(kind(0.5), rate=0.1)
        assert sampled.epsilon(1e-6) == pytest.approx(PoissonSubsampled(Laplace(scale=2.0), rate=0.1).epsilon(1e-6))
        assert sampled.rdp(8.0) == pytest.approx(PoissonSubsampled(Laplace(scale=2.0), rate=0.1).rdp(8.0))


def test_what_dominates_what() -> None:
    assert BoundedRange(0.1).at_most(NoisyMax(0.1)) and NoisyMax(0.1).at_most(PureDP(0.1))
    assert not PureDP(0.1).at_most(NoisyMax(0.1)) and not NoisyMax(0.1).at_most(BoundedRange(0.2))


@pytest.mark.parametrize(("epsilon", "count"), [(0.1, 1), (0.1, 2), (1.0, 3), (4.0, 2), (0.02, 400)])
def test_the_lower_end_is_that_of_two_candidates_that_pass_each_other(epsilon: float, count: int) -> None:
    mechanism = PermuteAndFlipMechanism(epsilon=epsilon, range_sensitivity=1.0)
    p = mechanism.probabilities([0.0, 0.5])
    response = PureDP(math.log(p[1] / p[0]))
    account = (count * mechanism.cost).account(1e-4)
    assert 0 < account.lower <= (count * response).epsilon(1e-4) * (1 + 1e-9)
    assert account.lower == pytest.approx((count * response).epsilon(1e-4), rel=2e-3)
    assert account.lower <= account.epsilon
    assert (count * NoisyMax(epsilon)).account(1e-4).lower == 0
