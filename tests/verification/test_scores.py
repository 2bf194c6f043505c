"""Scores that events are cut from: what they learn, and that each output is scored by itself."""

import math

import numpy as np
import pytest

from ledgerwood.verification.auditor.choice import propose
from ledgerwood.verification.auditor.encoding import Encoded
from ledgerwood.verification.auditor.scores import Atoms, Design, Linear, TreeScore


def one_field(values):
    return Encoded(np.asarray(values, float).reshape(len(values), -1), ("y",))


def test_an_output_scores_the_same_in_every_batch():
    """Else its hits would not be independent draws."""
    rng = np.random.default_rng(15)
    numbers = np.round(rng.laplace(size=(2, 2_000, 5)), 2) + 0.3 * np.arange(2)[:, None, None]
    numbers[:, ::11, 2], numbers[:, ::13, 3], numbers[:, ::17, 4] = np.nan, np.inf, 1e200
    first, second = (Encoded(side, tuple("abcde")) for side in numbers)
    for score in propose(first, second):
        whole = score(first)
        for start, stop in ((0, 1), (5, 6), (10, 17), (100, 400)):
            np.testing.assert_array_equal(score(first.part(start, stop)), whole[start:stop], err_msg=score.name)


def test_atoms_score_the_log_ratio_of_frequencies():
    first, second = one_field([0] * 900 + [1] * 100), one_field([0] * 300 + [1] * 700)
    score = Atoms.fit(None, first, second)
    assert score is not None
    assert score(one_field([0, 1, 5])) == pytest.approx([math.log(900.5 / 300.5), math.log(100.5 / 700.5), 0.0])


def test_values_that_hardly_repeat_have_no_frequencies():
    rng = np.random.default_rng(3)
    assert Atoms.fit(None, one_field(np.arange(1000.0)), one_field(np.arange(1000.0, 2000.0))) is None
    assert Atoms.fit(None, one_field(rng.normal(size=3000)), one_field(rng.normal(size=3000))) is None


def test_log_ratios_of_rare_values_are_drawn_to_zero():
    """Four rows against none look like infinite odds, and are luck."""
    first, second = (one_field(np.repeat([0.0, 1.0, 2.0], counts)) for counts in ((3_000, 1_000, 4), (1_000, 3_004, 0)))
    score = Atoms.fit(None, first, second, z_margin=4.0)
    frequent, rare, against = score(one_field([0.0, 2.0, 1.0]))
    assert frequent > rare >= 0.0 > against


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
    linear = Linear.fit(Design.fit(np.concatenate([a.numbers, b.numbers])), a, b)
    assert np.mean(linear(a) > 0) > 0.7
    assert np.mean(linear(b) < 0) > 0.7


def test_the_leaves_of_a_tree_score_their_log_odds():
    rng = np.random.default_rng(3)
    sides = ((rng.random((20_000, 2)) < chance).astype(float) for chance in ((0.6, 0.5), (0.2, 0.5)))
    first, second = (Encoded(side, ("y", "z")) for side in sides)
    linear = Linear.fit(Design.fit(np.concatenate([first.numbers, second.numbers])), first, second)
    tree = TreeScore.fit(linear, first, second)
    rows = Encoded(np.array([[1.0, 0.0], [0.0, 1.0]]), ("y", "z"))
    assert np.allclose(tree(rows), [np.log(3), -np.log(2)], atol=0.15)


def test_a_tree_of_many_rows_is_the_same_every_time_and_leaves_numpys_generator_alone():
    """Beyond 200,000 rows scikit-learn draws those that are binned."""
    rng = np.random.default_rng(14)
    first, second = (Encoded(rng.laplace(size=(101_000, 2)) + shift, tuple("ab")) for shift in (0.3, 0.0))
    linear = Linear.fit(Design.fit(first.numbers), first.part(0, 2_000), second.part(0, 2_000))
    before = np.random.get_state()[2]
    one, other = (TreeScore.fit(linear, first, second)(first) for _ in range(2))
    np.testing.assert_array_equal(one, other)
    assert np.random.get_state()[2] == before
