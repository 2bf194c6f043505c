"""Matrix mechanisms: sensitivities by enumeration, prices of trees and cyclic samples, exact integer noise."""

from __future__ import annotations

import copy
import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerwood.accounting import Gaussian, Ledger, MatrixMechanism, PoissonSubsampled
from ledgerwood.accounting.costs.correlated_noise import GRID, _gram, _most, grid_matrix, round_norms
from ledgerwood.accounting.costs.serialization import from_dict, to_dict
from ledgerwood.errors import ParameterError, ReleaseRefused
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


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 7), st.integers(1, 7), st.integers(1, 3), st.integers(1, 4), st.booleans(), st.randoms())
def test_the_sensitivity_bounds_all_patterns_and_is_attained_where_it_says_so(
    steps: int, bands: int, apart: int, times: int, signed: bool, random
) -> None:
    low = -4 if signed else 0
    matrix = np.array(
        [[random.randint(low, 4) if 0 <= i - j < bands else 0 for j in range(steps)] for i in range(steps)]
    )
    cost = MatrixMechanism(matrix, sigma=1.0, participations=times, min_separation=apart)
    exact = enumerated(matrix, times, apart)
    assert cost.sensitivity**2 >= exact * (1 - 1e-12)
    assert cost.exact or (bands > 2 * apart and times > 1)
    if cost.exact:
        assert cost.sensitivity**2 <= exact * (1 + 1e-12)
    assert (cost.account(1e-5).lower > 0) == (cost.exact and exact > 0)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(0, 8), min_size=1, max_size=7).map(lambda found: sorted(found, reverse=True)),
    st.integers(1, 8),
    st.integers(1, 3),
    st.integers(1, 8),
)
def test_falling_toeplitz_columns_are_attained_by_the_first_steps(
    column: list[int], steps: int, apart: int, times: int
) -> None:
    cost = MatrixMechanism(column, steps=steps, sigma=1.0, participations=times, min_separation=apart)
    assert cost.exact
    exact = enumerated(grid_matrix(cost.matrix, steps) / GRID, times, apart)
    assert cost.sensitivity**2 == pytest.approx(exact, rel=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 60), st.integers(1, 5), st.integers(1, 12), st.randoms())
def test_the_best_choice_of_steps_is_the_enumerated_one(size: int, apart: int, times: int, random) -> None:
    size = min(size, 9)
    weights = np.array([[random.randint(0, 9) for _ in range(size)] for _ in range(3)])
    for row, found in zip(weights, _most(weights, times, apart), strict=True):
        patterns = itertools.chain.from_iterable(itertools.combinations(range(size), k) for k in range(times + 1))
        apart_ones = (p for p in patterns if all(b - a >= apart for a, b in itertools.pairwise(p)))
        assert found == max(sum(row[list(p)]) for p in apart_ones)


def test_inner_products_are_exact_beyond_the_bits_of_a_float() -> None:
    matrix = np.random.default_rng(5).integers(-(2**26), 2**26 + 1, size=(40, 7))
    assert (_gram(matrix) == matrix.T @ matrix).all()
    assert int(_gram(np.full((2, 1), 2**26 - 1))[0, 0]) == 2 * (2**26 - 1) ** 2


def test_long_streams_are_priced_without_writing_out_the_matrix() -> None:
    tree = MatrixMechanism("tree", steps=2**20, sigma=5.0)
    assert tree.sensitivity**2 == pytest.approx(21)
    twice = MatrixMechanism("tree", steps=2**20, sigma=5.0, participations=2)
    assert twice.sensitivity == pytest.approx(2 * 21**0.5) and not twice.exact
    long = MatrixMechanism([1.0, 0.5], steps=2**20, sigma=5.0, participations=4, min_separation=1)
    assert long.sensitivity**2 == pytest.approx(1 + 3 * 1.5**2 + 0.25)
    with pytest.raises(ParameterError, match="repeated participation"):
        MatrixMechanism([0.5, 1.0], steps=2**13, sigma=5.0, participations=2)


def test_known_prices() -> None:
    tree = MatrixMechanism("tree", steps=1000, sigma=5.0)
    assert tree.epsilon(1e-6) <= 2.9217 and tree.sensitivity**2 == pytest.approx(10)
    assert tree.epsilon(1e-6) == pytest.approx(Gaussian(sigma=5.0, sensitivity=10**0.5).epsilon(1e-6), rel=1e-9)
    assert MatrixMechanism(np.eye(8), sigma=2.0, participations=4, min_separation=2).mu() == pytest.approx(1.0)
    cyclic = MatrixMechanism([1.0, 0.5], steps=901, sigma=2.0, min_separation=3, rate=0.02)
    one = PoissonSubsampled(Gaussian(sigma=2.0, sensitivity=1.25**0.5), rate=0.02)
    last = PoissonSubsampled(Gaussian(sigma=2.0), rate=0.02)  # nothing follows the last step
    account = cyclic.account(1e-5)
    assert account.epsilon == pytest.approx((300 * one + last).epsilon(1e-5), rel=1e-7)
    assert 0.99 * account.epsilon < account.lower <= account.epsilon
    whole = MatrixMechanism([1.0, 0.5], steps=900, sigma=2.0, min_separation=3, rate=1.0)
    assert whole.mu() == pytest.approx((300 * 1.25 / 4) ** 0.5)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 9), st.integers(1, 4), st.randoms())
def test_rounds_are_no_less_than_the_columns_of_any_group(steps: int, groups: int, random) -> None:
    matrix = np.array(
        [[random.randint(-3, 3) if 0 <= i - j < groups else 0 for j in range(steps)] for i in range(steps)]
    )
    cost = MatrixMechanism(matrix, sigma=1.0, min_separation=groups, rate=0.5)
    rounds, attained = round_norms(cost.matrix, steps, groups)
    sizes = sorted((size for size, n in rounds for _ in range(n)), reverse=True)
    norms = (matrix**2).sum(axis=0) * GRID**2
    for group in range(groups):
        own = sorted(norms[group::groups].tolist(), reverse=True)
        assert all(a <= b for a, b in zip(own, sizes, strict=False)) and len(own) <= len(sizes)
    assert not attained or sorted(norms[::groups].tolist(), reverse=True) == sizes
    assert attained or cost.account(1e-3).lower == 0


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
    for wrong in (
        {"bounds": (0, 2**31), "column": (16.0,) * 3000}, {"bounds": (1, 0)}, {"bounds": (0.5, 1)}, {"sigma": 1e-4},
        {"column": (0.0, 1.0)}, {"column": ()}, {"steps": 0}, {"sensitivity": 0},
    ):  # fmt: skip
        with pytest.raises(ParameterError):
            RunningSumMechanism(**({"sigma": 1.0, "steps": 3000, "bounds": (0, 1)} | wrong))


def test_a_run_gives_the_sums_one_by_one_and_then_no_more() -> None:
    mechanism = RunningSumMechanism(sigma=0.002, steps=6, bounds=(0, 9), column=(1.0, 0.5, 0.25))
    run = mechanism.start(SeededSource(np.random.default_rng(4)))
    values = [3, 100, -7, 0, 2, 1]
    sums = [run.add(value) for value in values]
    np.testing.assert_allclose(sums, np.cumsum(np.clip(values, 0, 9)), atol=0.1)
    assert run.finished
    with pytest.raises(ReleaseRefused, match="finished"):
        run.add(1)
    with pytest.raises(TypeError, match="cannot be copied"):
        copy.copy(run)
    with pytest.raises(ParameterError, match="one integer"):
        mechanism.start().add([1, 2])


def test_the_release_is_the_matrix_product_with_noise_of_the_stated_distribution() -> None:
    mechanism = RunningSumMechanism(sigma=2.0, steps=3, bounds=(0, 9), column=(1.0, -0.5))
    noise = mechanism.noise(3, SeededSource(np.random.default_rng(7)))
    sums = mechanism.release([4, 2, 9], SeededSource(np.random.default_rng(7)))
    c = grid_matrix(mechanism.matrix, 3) / GRID
    np.testing.assert_allclose(np.diff(sums, prepend=0.0), np.linalg.solve(c, c @ [4, 2, 9] + noise / GRID), rtol=1e-12)
    one = RunningSumMechanism(sigma=2.0, steps=1, bounds=(0, 9), sensitivity=3)
    assert (one.cost.sensitivity, one.cost.sigma, one.cost.dimension) == (3 * GRID, 2 * GRID, 1)
