"""Order preservation: enumeration, Li et al.'s theorems, and the numbers that Li et al. print."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerwood.errors import ParameterError
from ledgerwood.mechanisms.local import (
    AdjMap,
    Domain,
    GeneralizedRandomizedResponse,
    GlobalMap,
    LaplaceMap,
    LocalMap,
    Partition,
    adj_map_bound,
    global_map_bound,
    order_preservation,
    order_probabilities,
    randomized_response_order,
)

HUNDRED = Domain(1, 100)
ALPHAS = (0.2, 0.5, 1.0, 2.0, 5.0)

# Li et al., Table 5: |D| = 100, theta = 10, epsilon = 0.1; columns dist = 0, ..., 9
TABLE_5 = {
    "GRR(eps)": [0.4950, 0.4951, 0.4953, 0.4954, 0.4955, 0.4956, 0.4957, 0.4958, 0.4959, 0.4960],
    "GRR(theta eps)": [0.4958, 0.4975, 0.4991, 0.5008, 0.5025, 0.5041, 0.5058, 0.5074, 0.5091, 0.5108],
    "Local-map": [0.5024] + [1.0] * 9,
    0.2: [0.4312, 0.5036, 0.5829, 0.6565, 0.7210, 0.7757, 0.8213, 0.8586, 0.8890, 0.9133],
    0.5: [0.4185, 0.5198, 0.6206, 0.7071, 0.7776, 0.8332, 0.8763, 0.9092, 0.9339, 0.9522],
    1.0: [0.4133, 0.5282, 0.6378, 0.7287, 0.8004, 0.8551, 0.8962, 0.9263, 0.9482, 0.9639],
    2.0: [0.4105, 0.5332, 0.6476, 0.7406, 0.8126, 0.8666, 0.9062, 0.9348, 0.9551, 0.9693],
    5.0: [0.4087, 0.5365, 0.6539, 0.7482, 0.8201, 0.8735, 0.9122, 0.9398, 0.9591, 0.9724],
}


def printed_theorem_4_6(q: float, T: int, k: float) -> float:
    """Li et al., Theorem 4.6 as printed; k = inf drops the term q**(k - T)."""
    first = ((1 - q * q) * T + 1) / ((1 + q - q ** (T + 1) - q ** (k - T)) * (1 + q))
    return 1 - q**T * (first - (1 - q) ** 2 * (T + 1) / (2 * (1 + q) ** 2))


def adj(alpha: float) -> AdjMap:
    return AdjMap.from_epsilon(HUNDRED, 10, epsilon=0.1, alpha=alpha)


def order_by_counting(table: np.ndarray, x1: int, x2: int) -> float:
    return math.fsum(table[x1, a] * table[x2, b] for a in range(table.shape[1]) for b in range(a + 1, table.shape[1]))


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 12), st.floats(0.01, 5.0), st.data())
def test_order_probabilities_match_a_count_over_all_outputs(size: int, epsilon: float, data: st.DataObject) -> None:
    mechanism = data.draw(st.sampled_from([GlobalMap, LaplaceMap, GeneralizedRandomizedResponse]))(
        Domain(0, size - 1), epsilon
    )
    table = mechanism.probabilities(np.arange(size))
    kept, gamma = order_probabilities(mechanism), order_preservation(mechanism)
    for t in range(1, size):
        pairs = [order_by_counting(table, x, x + t) for x in range(size - t)]
        assert gamma[t] == pytest.approx(min(pairs), abs=1e-13)
        assert kept[0, t] == pytest.approx(pairs[0], abs=1e-13)


@settings(max_examples=150, deadline=None)
@given(st.integers(2, 64), st.floats(1e-3, 10.0))
def test_theorem_4_2_is_a_lower_bound(size: int, epsilon: float) -> None:
    mechanism = GlobalMap(Domain(0, size - 1), epsilon)
    gamma = order_preservation(mechanism)
    for t in range(1, size):
        assert global_map_bound(mechanism, t) <= gamma[t] + 1e-12


def test_theorem_4_2_is_nearly_attained_on_a_large_domain() -> None:
    mechanism = GlobalMap(HUNDRED, 1.0)
    gamma = order_preservation(mechanism)
    assert all(gamma[t] - global_map_bound(mechanism, t) < 1e-6 for t in range(1, 60))


@settings(max_examples=100, deadline=None)
@given(st.integers(2, 64), st.floats(1e-3, 50.0))
def test_theorem_4_3_is_exact(size: int, epsilon: float) -> None:
    mechanism = GeneralizedRandomizedResponse(Domain(0, size - 1), epsilon)
    kept = order_probabilities(mechanism)
    for t in range(1, size):
        pairs = np.diagonal(kept, t)
        assert np.abs(pairs - randomized_response_order(mechanism, t)).max() < 1e-12


@settings(max_examples=200, deadline=None)
@given(st.integers(2, 8), st.integers(1, 8), st.floats(1e-3, 10.0), st.floats(0.1, 20.0), st.integers(0, 7))
def test_the_corrected_theorem_4_6_is_a_lower_bound(
    parts: int, theta: int, epsilon: float, alpha: float, missing: int
) -> None:
    size = parts * theta - min(missing, theta - 1)  # the last part may be shorter
    mechanism = AdjMap.from_epsilon(Domain(0, size - 1), theta, epsilon=epsilon, alpha=alpha)
    gamma = order_preservation(mechanism)
    for t in range(1, size):
        assert adj_map_bound(mechanism, t) <= gamma[t] + 1e-12


def test_theorem_4_6_as_printed_is_false_for_small_parts() -> None:
    mechanism = AdjMap.from_epsilon(Domain(1, 40), 2, epsilon=3.0, alpha=20.0)
    printed = printed_theorem_4_6(math.exp(-mechanism.epsilon_prt / 2), 0, 20)
    assert order_preservation(mechanism)[1] < printed - 0.16
    assert adj_map_bound(mechanism, 1) <= order_preservation(mechanism)[1]
    ones = AdjMap.from_epsilon(Domain(1, 8), 1, epsilon=3.0, alpha=1.0)  # parts of one value: all pairs in one are tied
    q = math.exp(-ones.epsilon_prt / 2)
    assert any(order_preservation(ones)[t] < printed_theorem_4_6(q, t, 8) - 0.005 for t in range(1, 8))


@pytest.mark.parametrize("alpha", ALPHAS)
def test_table_5_is_theorem_4_6_without_a_term_and_with_99_for_100(alpha: float) -> None:
    within = 0.1 / (alpha + 10 / 99)  # Li et al., §4.2 says theta / |D| = 10 / 100
    q = math.exp(-alpha * 10 * within / 2)
    assert [round(printed_theorem_4_6(q, T, math.inf), 4) for T in range(10)] == TABLE_5[alpha]


@pytest.mark.parametrize("alpha", ALPHAS)
def test_table_5_does_not_follow_from_the_printed_formula(alpha: float) -> None:
    q = math.exp(-adj(alpha).epsilon_prt / 2)
    printed = [round(printed_theorem_4_6(q, T, 10), 4) for T in range(10)]
    assert all(ours < theirs for ours, theirs in zip(printed, TABLE_5[alpha]))
    if alpha == 1.0:
        assert printed[0] == 0.4067


def test_the_other_rows_of_table_5_are_at_distance_4_plus_10_dist_not_5() -> None:
    for row, epsilon in (("GRR(eps)", 0.1), ("GRR(theta eps)", 1.0)):
        mechanism = GeneralizedRandomizedResponse(HUNDRED, epsilon)
        at = {off: [round(randomized_response_order(mechanism, 10 * d + off), 4) for d in range(10)] for off in (4, 5)}
        assert at[4] == TABLE_5[row] and at[5] != TABLE_5[row]
    # Local-map's first entry is Theorem 4.2 on all of D at t = 4; on a part of ten it says nothing
    assert round(global_map_bound(GlobalMap(HUNDRED, 0.1), 4), 4) == TABLE_5["Local-map"][0]
    assert global_map_bound(GlobalMap(Domain(1, 10), 0.1), 5) < 0
    assert order_preservation(LocalMap(HUNDRED, Partition.even(100, 10), 0.1))[5] == pytest.approx(0.4985, abs=5e-5)


def test_figure_10_by_enumeration() -> None:
    """GRR near 1/2; Local-map 1 from theta on; Adj-map(1) near Global-map; alpha's order turns at theta."""
    for epsilon in (0.1, 1.0):
        assert np.abs(order_preservation(GeneralizedRandomizedResponse(HUNDRED, epsilon))[1:] - 0.5).max() < 0.012
    local = order_preservation(LocalMap(HUNDRED, Partition.even(100, 10), 0.1))
    assert (local[10:] > 1 - 1e-12).all() and local[9] < 0.54
    gamma = {alpha: order_preservation(adj(alpha)) for alpha in ALPHAS}
    whole = order_preservation(GlobalMap(HUNDRED, 0.1))
    assert np.abs(gamma[1.0] - whole)[1:].max() < 0.06
    for smaller, larger in pairwise(ALPHAS):
        assert (gamma[larger][10:] > gamma[smaller][10:]).all()  # Li et al.'s text says the opposite, Table 5 this
        assert (gamma[larger][1:10] < gamma[smaller][1:10]).all()
    means = [
        np.array([np.diagonal(kept, t).mean() for t in range(1, 100)])
        for kept in map(order_probabilities, (GlobalMap(HUNDRED, 0.1), adj(1.0)))
    ]
    assert np.abs(means[0] - means[1]).max() < 0.018


def test_figure_3_adj_map_with_alpha_1_overlaps_global_map_for_a_value_in_the_middle_of_its_part() -> None:
    domain = Domain(-50, 50)
    reference = GlobalMap(domain, 0.1).probabilities(0)

    def distance(alpha: float, partition: Partition) -> float:
        source = AdjMap.from_epsilon(domain, 10, epsilon=0.1, alpha=alpha)
        mechanism = AdjMap(domain, partition, source.epsilon_prt, source.epsilon_ner)
        return float(np.abs(mechanism.probabilities(0) - reference).sum() / 2)

    centred = Partition((5, 10, 10, 10, 10, 11, 10, 10, 10, 10, 5))
    assert distance(1.0, centred) < 0.04
    assert distance(0.2, centred) > 4 * distance(1.0, centred) and distance(5.0, centred) > 1.4 * distance(1.0, centred)
    assert distance(1.0, Partition.even(101, 10)) > 0.1  # 0 is then the first value of its part


def test_bounds_refuse_what_they_do_not_cover() -> None:
    with pytest.raises(ParameterError, match="distance must be an integer"):
        global_map_bound(GlobalMap(HUNDRED, 1.0), 100)
    with pytest.raises(ParameterError, match="partition must be even"):
        adj_map_bound(AdjMap(Domain(0, 5), Partition((1, 3, 2)), 1.0, 1.0), 1)


def test_half_the_noise_keeps_more_order_at_the_same_claim() -> None:
    """Both maps are 0.1-dLDP; from distance 5 on the clamped one keeps more order at its worst pair."""
    clamped, resampled = (order_preservation(kind(HUNDRED, 0.1)) for kind in (LaplaceMap, GlobalMap))
    assert (clamped[5:] > resampled[5:]).all()
    assert clamped[1] < resampled[1]  # ties at the ends, where clamped noise piles up
