"""Scores that events are cut from: what they learn, and that each output is scored by itself."""

import math

import numpy as np
import pytest

from ledgerwood.verification.auditor.choice import propose
from ledgerwood.verification.auditor.encoding import Encoded
from ledgerwood.verification.auditor.scores import BoostedTrees, Design, FrequencyRatios, Linear


def one_field(values):
    return Encoded(np.asarray(values, float).reshape(len(values), -1), ("y",))


def test_an_output_scores_the_same_in_every_batch():
    """Else its hits would not be independent draws."""
    rng = np.random.default_rng(15)
    numbers = np.round(rng.laplace(size=(2, 2_000, 5)), 2) + 0.3 * np.arange(2)[:, None, None]
    numbers[:, ::11, 2], numbers[:, ::13, 3], numbers[:, ::17, 4] = np.nan, np.inf, 1e200
    first, second = (Encoded(side, tuple("abcde")) for side in numbers)
    for proposal in propose(first, second, classifiers=True):
        score = proposal if hasattr(proposal, "name") else proposal(first, second)
        whole = score(first)
        for start, stop in ((0, 1), (5, 6), (10, 17), (100, 400)):
            np.testing.assert_array_equal(score(first.part(start, stop)), whole[start:stop], err_msg=score.name)


@pytest.mark.parametrize("index", [0, None])
def test_cells_score_the_log_ratio_of_frequencies(index):
    first, second = one_field([0] * 900 + [1] * 100), one_field([0] * 300 + [1] * 700)
    score = FrequencyRatios.fit(index, "y", first, second)
    assert score(one_field([0, 1])) == pytest.approx([math.log(900.5 / 300.5), math.log(100.5 / 700.5)], rel=0.02)
    assert score(one_field([5])) == pytest.approx(0.0, abs=1e-9)  # a value never seen says nothing


def test_the_cells_of_values_that_differ_by_luck_are_drawn_to_zero():
    """But for those few that stand out by more than two standard errors."""
    rng = np.random.default_rng(3)
    score = FrequencyRatios.fit(0, "y", *(one_field(rng.integers(500, size=5_000)) for _ in range(2)))
    assert np.quantile(np.abs(score.ratios), 0.9) < 0.05 and np.abs(score.ratios).mean() < 0.1


def test_a_rare_value_is_drawn_to_zero_more_than_a_frequent_one():
    """Four rows against none look like infinite odds, and are luck."""
    first, second = (one_field(np.repeat([0.0, 1.0, 2.0], counts)) for counts in ((3_000, 1_000, 4), (1_000, 3_004, 0)))
    frequent, rare, against = FrequencyRatios.fit(0, "y", first, second)(one_field([0.0, 2.0, 1.0]))
    assert frequent > 0 > against and rare < math.log(4.5 / 0.5) - 0.5


def test_a_value_among_many_that_never_repeat_is_a_cell_of_its_own():
    rng = np.random.default_rng(3)
    first, second = (one_field(np.append(rng.normal(size=1_000), np.full(k, 0.7))) for k in (60, 6))
    score = FrequencyRatios.fit(0, "y", first, second)
    assert score(one_field([0.7])) > 1.0 > score(one_field([0.7001]))


def test_nan_is_a_cell_below_every_number():
    first, second = one_field([math.nan] * 50 + [0.0] * 50), one_field([math.nan] * 5 + [0.0] * 95)
    assert np.diff(FrequencyRatios.fit(0, "y", first, second)(one_field([0.0, math.nan]))) > 1.0


def test_the_compiled_linear_score_is_the_matrix_product():
    rng = np.random.default_rng(4)
    rows = Encoded(rng.normal(size=(500, 4)), ("a", "b", "c", "d"))
    rows.numbers[3, 1] = math.nan
    design = Design.fit(rows.numbers)
    weights = rng.normal(size=2 * design.width + 1)
    assert Linear(design, weights)(rows) == pytest.approx(design(rows) @ weights[:-1] + weights[-1], abs=1e-4)


def test_logistic_regression_finds_the_direction():
    rng = np.random.default_rng(5)
    a, b = (Encoded(rng.normal(mean, size=(4000, 3)), tuple("abc")) for mean in ([0.0] * 3, [1.0, 0.0, -1.0]))
    linear = Linear.fit(a, b)
    assert np.mean(linear(a) > 0) > 0.7
    assert np.mean(linear(b) < 0) > 0.7


def test_a_forest_scores_log_odds_and_finds_an_interaction():
    """Which sign of the second field speaks for the first input is told by the first field."""
    rng = np.random.default_rng(3)
    fields = rng.choice([-1.0, 1.0], size=(2, 20_000, 2))
    agree = rng.random((2, 20_000)) < np.array([[0.75], [0.25]])
    fields[:, :, 1] = np.where(agree, fields[:, :, 0], -fields[:, :, 0])
    first, second = (Encoded(side, ("y", "z")) for side in fields)
    rows = Encoded(np.array([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]]), ("y", "z"))
    assert BoostedTrees.fit(first, second)(rows) == pytest.approx([np.log(3), np.log(3), -np.log(3)], abs=0.2)


def test_a_forest_of_many_rows_is_the_same_every_time_and_leaves_numpys_generator_alone():
    """Beyond 200,000 rows scikit-learn draws those that are binned."""
    rng = np.random.default_rng(14)
    first, second = (Encoded(rng.laplace(size=(101_000, 2)) + shift, tuple("ab")) for shift in (0.3, 0.0))
    before = np.random.get_state()[2]
    one, other = (BoostedTrees.fit(first, second)(first) for _ in range(2))
    np.testing.assert_array_equal(one, other)
    assert np.random.get_state()[2] == before
