"""Selections in disjoint parts: each part's distribution, one price for all under both relations, the exact sampler."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample
from tests.kit.goodness_of_fit import assert_distribution, assert_fits, enumerate_bits

from ledgerwood.accounting import BoundedRange, Ledger
from ledgerwood.errors import ParameterError
from ledgerwood.mechanisms import ExponentialMechanism, ParallelExponentialMechanism, ReplaySource
from ledgerwood.mechanisms.sampling import choice, exact

ROUNDING = 1e-9
SCORES = [[0.0, 1.0, 2.5], [3.0, 3.0, -1.0]]


def loss_range(mechanism, before, after) -> float:
    """Range of the loss of the whole release: over all tuples of outcomes, one by one."""
    loss = mechanism.log_probabilities(before) - mechanism.log_probabilities(after)
    tuples = [sum(row) for row in itertools.product(*loss.tolist())]
    return max(tuples) - min(tuples)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.uint8])
def test_each_part_has_the_distribution_of_an_exponential_mechanism(dtype) -> None:
    scores = np.random.default_rng(4).integers(0, 40, (5, 300)).astype(dtype)
    m, one = ParallelExponentialMechanism(0.7, 3.0), ExponentialMechanism(0.7, 3.0)
    for row, p in zip(scores, m.log_probabilities(scores), strict=True):
        np.testing.assert_allclose(p, one.log_probabilities(row), rtol=0, atol=1e-12)
    halved = ParallelExponentialMechanism(0.7, 3.0, neighbours="replace_one")
    assert halved.coefficient == ExponentialMechanism(0.35, 3.0).coefficient
    assert halved.cost == BoundedRange(0.7, neighbours="replace_one")


@pytest.mark.parametrize(("word_bits", "depth", "left"), [(1, 14, 0.02), (7, 14, 0.15)])
def test_the_code_has_the_joint_distribution_by_every_bit_string(word_bits: int, depth: int, left: float) -> None:
    m = ParallelExponentialMechanism(1.0, 2.0)
    p = m.probabilities(SCORES)
    mass, undecided = enumerate_bits(lambda s: tuple(m.release(SCORES, s).tolist()), word_bits, depth)
    assert_distribution(mass, undecided, lambda o: p[0][o[0]] * p[1][o[1]], at_most=left)
    wrong = ParallelExponentialMechanism(1.1, 2.0).probabilities(SCORES)
    if left < 0.1:
        with pytest.raises(AssertionError):
            assert_distribution(mass, undecided, lambda o: wrong[0][o[0]] * wrong[1][o[1]], at_most=left)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_floats_and_integers_choose_alike_at_the_boundaries(data) -> None:
    """Words that begin exactly at, or beside, a boundary between candidates: the hardest to decide."""
    parts, m = data.draw(st.integers(1, 3)), data.draw(st.sampled_from([1, 2, 127, 128, 129, 300]))
    scores = np.random.default_rng(data.draw(st.integers(0, 10**6))).integers(0, 60, (parts, m)) / 8
    c = Fraction(0.3)
    words = []
    for row in scores:
        weights = np.cumsum(np.exp(0.3 * (row - row.max())))
        at = int(weights[data.draw(st.integers(0, m - 1))] / weights[-1] * 2**64) + data.draw(st.integers(-4000, 4000))
        words.append(data.draw(st.sampled_from([min(max(at, 0), 2**64 - 1), 0, 2**64 - 1])))
    decided = choice._locate_in_floats(np.exp(-choice.behind_the_best(c, scores)), np.array(words, np.uint64), 64)
    for row, word, found in zip(scores, words, decided, strict=True):
        if found >= 0:  # then no later digit may change it
            for tail in (0, 2**64 - 1):
                uniform = exact.Uniform(word, 64, exact.Reader(ReplaySource([tail] * 4)))
                assert found == choice._choose_exactly(choice.Exponents.below_the_best(c, row), uniform, None)


def test_many_parts_fit_their_distributions() -> None:
    m = ParallelExponentialMechanism(1.0, 4.0)
    scores = np.random.default_rng(2).random((3, 500)) * 20
    drawn = np.concatenate([m.release(np.tile(scores, (4000, 1))).reshape(-1, 3) for _ in range(10)])
    for part, p in enumerate(m.probabilities(scores)):
        assert_fits(np.bincount(drawn[:, part], minlength=500), p)
    pairs = 500 * drawn[:, 0] + drawn[:, 1] > 125_000  # a function of two parts: they are independent
    p, q, _ = m.probabilities(scores)
    wanted = np.add.outer(500 * np.arange(500), np.arange(500)) > 125_000
    chance = float((np.outer(p, q) * wanted).sum())
    assert_fits(np.array([(~pairs).sum(), pairs.sum()]), np.array([1 - chance, chance]))


parts_of_scores = st.integers(2, 3).flatmap(
    lambda m: st.lists(st.lists(st.floats(-20, 20), min_size=m, max_size=m), min_size=1, max_size=3)
)


@st.composite
def neighbours(draw, relation: str):
    """Scores of all parts on two neighbouring inputs, where a record changes one part by a range of at most 1."""
    before = np.array(draw(parts_of_scores))
    after = before.copy()
    share = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0, 1))
    for _ in range(2 if relation == "replace_one" else 1):
        part = draw(st.integers(0, len(before) - 1))
        m = before.shape[1]
        after[part] += draw(st.floats(-3, 3)) + np.array(draw(st.lists(share, min_size=m, max_size=m)))
    return before, after


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@settings(max_examples=150, deadline=None)
@given(data=st.data(), epsilon=st.floats(0.01, 5.0))
def test_the_whole_release_costs_epsilon(relation: str, data, epsilon: float) -> None:
    before, after = data.draw(neighbours(relation))
    m = ParallelExponentialMechanism(epsilon, 1.0, neighbours=relation)
    assert loss_range(m, before, after) <= epsilon + ROUNDING


SEARCH = settings(
    max_examples=3000,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_an_error_of_one_percent_is_found(relation: str) -> None:
    def breaks(wrong: float):
        m = ParallelExponentialMechanism(1.0, 1.0 / wrong, neighbours=relation)
        return lambda pair: loss_range(m, *pair) > 1.0 + ROUNDING

    find(neighbours(relation), breaks(1.01), settings=SEARCH)
    with pytest.raises(NoSuchExample):
        find(neighbours(relation), breaks(1.0), settings=settings(SEARCH, max_examples=300))


def test_forgetting_the_second_part_of_a_replaced_record_is_found() -> None:
    m = ParallelExponentialMechanism(1.0, 1.0)  # priced for add/remove
    before, after = find(neighbours("replace_one"), lambda p: loss_range(m, *p) > 1.01, settings=SEARCH)
    assert loss_range(m, before, after) > 1.01


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_all_small_tables_of_records_keep_the_cost_and_attain_it(relation: str) -> None:
    """Every table of at most three records in two parts; scores are counts of records, R = 1 for one record."""
    m = ParallelExponentialMechanism(1.0, 1.0, neighbours=relation)
    cells = list(itertools.product(range(2), range(2)))  # (part, candidate that the record votes for)

    def scores(records) -> np.ndarray:
        table = np.zeros((2, 2))
        for part, vote in records:
            table[part, vote] += 1
        return table

    worst = 0.0
    for size in range(3):
        for records in itertools.combinations_with_replacement(cells, size):
            for more in cells:
                if relation == "add_remove":
                    pairs = [(scores(records), scores([*records, more]))]
                else:
                    pairs = [(scores([*records, less]), scores([*records, more])) for less in cells]
                worst = max(worst, *(loss_range(m, before, after) for before, after in pairs))
    assert worst == pytest.approx(1.0, abs=1e-12)


def test_scores_of_any_size_are_chosen_among() -> None:
    m = ParallelExponentialMechanism(1.0, 1.0)
    far = np.array([[-1e308, 1e308], [0.0, 5e-324], [2.0**1000, -(2.0**1000)]])
    assert m.release(far)[[0, 2]].tolist() == [1, 0]
    assert m.probabilities(far)[1].tolist() == [0.5, 0.5]
    large = np.array([[2**60, -(2**60)], [2**60 - 1000, 2**60]])
    assert m.release(large).tolist() == [0, 1]
    assert m.release([[3.0]]).tolist() == [0]
    assert m.release(np.zeros((70_000, 1))).sum() == 0
    assert m.release([[0, 1]]).dtype == np.int64


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1.0, 2.0], "a row for each part"),
        (np.zeros((0, 3)), "a row for each part"),
        (np.zeros((3, 0)), "a row for each part"),
        ([[1.0, np.nan]], "finite numbers"),
        ([[2**61, 0]], "at most"),
        ([[True, False]], "real numbers"),
    ],
)
def test_bad_scores_are_refused_before_a_bit_is_drawn(value, message: str) -> None:
    m = ParallelExponentialMechanism(1.0, 1.0)
    with pytest.raises(ParameterError, match=message):
        m.release(value, ReplaySource([]))
    with pytest.raises(ParameterError, match=message):
        m.check(value)


@pytest.mark.parametrize("bad", [{"epsilon": 0.0}, {"range_sensitivity": 0.0}, {"neighbours": "friends"}])
def test_bad_parameters_are_refused(bad) -> None:
    with pytest.raises(ParameterError):
        ParallelExponentialMechanism(**{"epsilon": 1.0, "range_sensitivity": 1.0, **bad})


def test_a_ledger_charges_a_whole_level_once() -> None:
    amounts = []
    for mechanism, scores in (
        (ParallelExponentialMechanism(0.1, 1.0), np.zeros((32, 10))),
        (ExponentialMechanism(0.1, 1.0), np.zeros(10)),
    ):
        with Ledger(epsilon=1.0, delta=1e-6) as ledger:
            ledger.release(mechanism, scores, label="level 5")
            amounts.append(ledger.spent().amount)
    assert amounts[0] == amounts[1] > 0
