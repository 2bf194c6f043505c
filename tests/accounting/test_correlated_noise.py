"""Matrix mechanisms: sensitivities by enumeration, prices of trees and cyclic samples, exact integer noise."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerwood.accounting import Gaussian, Ledger, MatrixMechanism, PoissonSubsampled
from ledgerwood.accounting.costs.correlated_noise import GRID, grid_matrix
from ledgerwood.accounting.costs.serialization import from_dict, to_dict
from ledgerwood.errors import ParameterError
from ledgerwood.mechanisms import RunningSumMechanism, SeededSource


def enumerated(matrix: np.ndarray, times: int, apart: int) -> float:
    """The largest squared norm over all patterns and all signs."""
    best = 0.0
    for size in range(1, times + 1):
        for steps in itertools.combinations(range(matrix.shape[1]), size):
            if all(b - a >= apart for a, b in itertools.pairwise(steps)):
                for signs in itertools.product((-1, 1), repeat=size):
                    best = max(best, float(np.sum((matrix[:, steps] @ np.array(signs)) ** 2)))
    return best


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 7), st.integers(1, 7), st.integers(1, 3), st.integers(1, 4), st.booleans(), st.randoms())
def test_the_sensitivity_bounds_all_patterns_and_is_exact_for_few_bands(
    steps: int, bands: int, apart: int, times: int, signed: bool, random
) -> None:
    low = -4 if signed else 0
    matrix = np.array(
        [[random.randint(low, 4) if 0 <= i - j < bands else 0 for j in range(steps)] for i in range(steps)]
    )
    cost = MatrixMechanism(matrix, sigma=1.0, participations=times, min_separation=apart)
    exact = enumerated(matrix, times, apart)
    assert cost.sensitivity**2 >= exact * (1 - 1e-12)
    if not signed and (bands <= 2 * apart or times == 1):
        assert cost.sensitivity**2 <= exact * (1 + 1e-12)


def test_known_prices() -> None:
    tree = MatrixMechanism("tree", steps=1000, sigma=5.0)
    assert tree.epsilon(1e-6) <= 2.9217 and tree.sensitivity**2 == pytest.approx(10)
    assert tree.epsilon(1e-6) == pytest.approx(Gaussian(sigma=5.0, sensitivity=10**0.5).epsilon(1e-6), rel=1e-9)
    assert MatrixMechanism(np.eye(8), sigma=2.0, participations=4, min_separation=2).mu() == pytest.approx(1.0)
    cyclic = MatrixMechanism([1.0, 0.5], steps=901, sigma=2.0, min_separation=3, rate=0.02)
    one = PoissonSubsampled(Gaussian(sigma=2.0, sensitivity=1.25**0.5), rate=0.02)
    assert cyclic.epsilon(1e-5) == pytest.approx((301 * one).epsilon(1e-5), rel=1e-9)


@pytest.mark.parametrize("steps", [1, 2, 5, 8, 13])
def test_a_tree_has_whole_nodes_that_give_every_running_sum(steps: int) -> None:
    rows = grid_matrix("tree", steps)
    assert int(np.max(rows.sum(axis=0))) == steps.bit_length()
    for end in range(1, steps + 1):
        target, rest, start = (np.arange(steps) < end).astype(int), end, 0
        made = np.zeros(steps, dtype=int)
        while rest:
            width = 1 << (rest.bit_length() - 1)
            node = ((np.arange(steps) >= start) & (np.arange(steps) < start + width)).astype(int)
            assert any((row == node).all() for row in rows)
            made, start, rest = made + node, start + width, rest - width
        assert (made == target).all()


def test_values_survive_json_repr_and_a_ledger() -> None:
    for cost in (
        MatrixMechanism("tree", steps=16, sigma=5.0, participations=2),
        MatrixMechanism([1.0, 1 / 3], steps=9, sigma=2.0, min_separation=2, rate=0.5),
        MatrixMechanism([[1.0, 0.0], [0.5, 1.0]], sigma=1.0),
    ):
        again = from_dict(json.loads(json.dumps(to_dict(2 * cost))))
        assert again == 2 * cost and eval(repr(cost)) == cost
        assert cost.group(2).epsilon(1e-5) >= cost.epsilon(1e-5)
        ledger = Ledger(epsilon=100.0, delta=1e-5)
        ledger.charge(cost, label="days")
        assert ledger.spent().epsilon <= 100.0


@pytest.mark.parametrize(
    ("matrix", "options"),
    [("trees", {"steps": 4}), ([1.0], {}), ([], {"steps": 3}), ([[1.0, 2000.0]], {}), ([[1.0, float("nan")]], {}),
     ([1.0, 1.0, 1.0], {"steps": 9, "rate": 0.1, "min_separation": 2}), ([1.0], {"steps": 4, "participations": 0}),
     ([1.0], {"steps": 4, "rate": 0.1, "neighbours": "replace_one"})],
)  # fmt: skip
def test_what_is_refused(matrix, options) -> None:
    with pytest.raises(ParameterError):
        MatrixMechanism(matrix, sigma=1.0, **options)


def test_running_sums_are_those_of_the_noisy_release_and_their_cost_is_that_of_the_matrix() -> None:
    mechanism = RunningSumMechanism(sigma=0.01, steps=40, bounds=(0, 1000))
    values = np.arange(40) * 7 % 31
    sums = mechanism.release(values, SeededSource(np.random.default_rng(3)))
    assert np.abs(sums - np.cumsum(values)).max() < 0.2
    cost = RunningSumMechanism(sigma=4.0, steps=40, bounds=(0, 10), participations=3, min_separation=10).cost
    same = MatrixMechanism(mechanism.matrix, steps=40, sigma=4.0, participations=3, min_separation=10)
    assert cost.epsilon(1e-6) == pytest.approx(same.epsilon(1e-6), rel=1e-4)
    assert cost.sensitivity >= same.sensitivity * GRID


def test_errors_of_running_sums_are_as_stated() -> None:
    mechanism = RunningSumMechanism(sigma=3.0, steps=12, bounds=(0, 5))
    found = np.array(
        [mechanism.release(np.zeros(12, dtype=int), SeededSource(np.random.default_rng(s))) for s in range(400)]
    )
    np.testing.assert_allclose(found.std(axis=0), mechanism.errors(), rtol=0.15)
    assert mechanism.errors()[-1] < 2.2 * mechanism.errors()[0]


def test_no_private_value_makes_running_sums_fail() -> None:
    mechanism = RunningSumMechanism(sigma=1.0, steps=3, bounds=(0, 2**31))
    for values in ([0, 0, 0], [2**62, -(2**62), 5], [2**63, -1, 0]):
        assert np.isfinite(mechanism.release(values)).all()
    with pytest.raises(ParameterError):
        mechanism.check([1, 2])
    with pytest.raises(ParameterError):
        RunningSumMechanism(sigma=1.0, steps=3000, bounds=(0, 2**31), column=(16.0,) * 3000)
