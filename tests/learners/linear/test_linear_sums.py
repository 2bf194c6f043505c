"""Exact sums: equal to Python's integers, whatever the order, the partition or the size of the cells."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from linear_designs import rows_of
from tests.kit.linear_parts import SumOfParts

from ledgerwood.learners.data.threads import TUNING
from ledgerwood.learners.linear import integer_rows
from ledgerwood.learners.linear.loss import ENTRY_ONE, GRADIENT_ONE, LOSSES, WEIGHT_BITS, fixed_point, loss_named

cells = st.integers(-ENTRY_ONE, ENTRY_ONE)
designs = hnp.arrays(np.int64, st.tuples(st.integers(0, 6), st.integers(1, 5)), elements=cells)


def python_gradient(loss: str, label: int, score: int) -> int:
    """Negative derivative in Python's integers and floats; ``label`` is 0 or 1, ``score`` in gradient steps."""
    sign = 2 * label - 1
    if loss == "squared":
        return sign * GRADIENT_ONE - score
    if loss == "hinge":
        return sign * GRADIENT_ONE if sign * score < GRADIENT_ONE else 0
    place = min(max((score + 32) >> 6, -(2**14)), 2**14)
    return label * GRADIENT_ONE - round(GRADIENT_ONE / (1 + math.exp(-place / 1024)))


@given(designs, st.integers(0, ENTRY_ONE))
@settings(deadline=None, max_examples=40)
def test_cross_products_are_those_of_integers(design: np.ndarray, intercept: int) -> None:
    full = [[intercept, *map(int, row)] for row in design.tolist()]
    width = design.shape[1] + 1
    expected = [[sum(row[i] * row[j] for row in full) for j in range(width)] for i in range(width)]
    for short in (0, 10**9):  # cell by cell, and by blocks
        assert rows_of(design, intercept=intercept, short_rows=short).gram().tolist() == expected


def test_full_blocks_of_the_largest_cells_are_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    count = integer_rows.BLOCK_ROWS + 3
    design = np.full((count, 2), ENTRY_ONE)
    design[:, 1] = np.where(np.arange(count) % 2, ENTRY_ONE, ENTRY_ONE - 1)
    odd = count // 2
    expected = ENTRY_ONE * (odd * ENTRY_ONE + (count - odd) * (ENTRY_ONE - 1))
    assert rows_of(design).gram()[1, 2] == expected
    assert integer_rows.BLOCK_ROWS * ENTRY_ONE**2 < 2**53


@given(designs, st.data(), st.sampled_from(LOSSES), st.integers(1, 2 * GRADIENT_ONE))
@settings(deadline=None, max_examples=60)
def test_gradients_times_rows_are_those_of_integers(
    design: np.ndarray, data: st.DataObject, loss: str, clip: int
) -> None:
    labels = data.draw(st.lists(st.integers(0, 1), min_size=len(design), max_size=len(design)))
    width = design.shape[1] + 1
    weights = data.draw(hnp.arrays(np.int64, (1, width), elements=st.integers(-(2**24), 2**24)))
    expected = [0] * width
    for row, label in zip(design.tolist(), labels, strict=True):
        full = [ENTRY_ONE, *row]
        total = sum(w * z for w, z in zip(weights[0].tolist(), full, strict=True))
        g = python_gradient(loss, label, (total + 2**15) >> 16)
        g = min(max(g, -clip), clip)
        expected = [e + g * z for e, z in zip(expected, full, strict=True)]
    found = rows_of(design, labels, intercept=ENTRY_ONE).gradient_sum(loss_named(loss), weights, clip)
    assert found.tolist() == [expected]


@pytest.mark.parametrize("loss", LOSSES)
def test_partitions_threads_and_order_give_the_same_bits(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    rows = 40_000  # the whole is shared out among threads, a part is not worth it
    rng = np.random.default_rng(1)
    design, labels = rng.integers(-ENTRY_ONE, ENTRY_ONE + 1, (rows, 7)), rng.integers(0, 3, rows)
    weights = rng.integers(-(2**22), 2**22, (3, 8))
    whole = rows_of(design, labels, intercept=ENTRY_ONE)
    mixed = rng.permutation(rows)
    parts = [rows_of(design[own], labels[own], intercept=ENTRY_ONE) for own in np.array_split(mixed, 20)]
    apart = SumOfParts(parts)
    assert apart.columns == whole.columns
    assert np.array_equal(apart.gram(), whole.gram())
    expected = whole.gradient_sum(loss_named(loss), weights, 70_000)
    assert np.array_equal(apart.gradient_sum(loss_named(loss), weights, 70_000), expected)


columns_of_few_values = hnp.arrays(
    np.int64, st.tuples(st.integers(1, 30), st.integers(1, 8)), elements=st.sampled_from([0, 0, 0, ENTRY_ONE, -7])
)


@given(
    columns_of_few_values, st.data(), st.sampled_from(LOSSES), st.sampled_from([1, 3]), st.sampled_from([2, 4, 4096])
)
@settings(deadline=None, max_examples=60)
def test_patterns_give_the_bits_of_cells(
    design: np.ndarray, data: st.DataObject, loss: str, outputs: int, most: int
) -> None:
    """Columns in groups, in as many as it takes, some of them left loose: the same sums."""
    count, width = design.shape
    design[:, 0] = data.draw(hnp.arrays(np.int64, count, elements=cells))
    labels = data.draw(hnp.arrays(np.int64, count, elements=st.integers(0, 2 if outputs > 1 else 1)))
    weights = data.draw(hnp.arrays(np.int64, (outputs, width + 1), elements=st.integers(-(2**24), 2**24)))
    plain, other = (rows_of(design, labels, intercept=ENTRY_ONE) for _ in range(2))
    other._passes.held = integer_rows.grown(other.starts, other.indices, other.entries, other.width, most)
    expected = plain.gradient_sum(loss_named(loss), weights, GRADIENT_ONE)
    assert np.array_equal(other.gradient_sum(loss_named(loss), weights, GRADIENT_ONE), expected)


def test_many_passes_are_answered_from_patterns() -> None:
    rng = np.random.default_rng(3)
    design = np.where(rng.random((3000, 40)) < 0.3, ENTRY_ONE, 0)
    design[:, 0] = rng.integers(-ENTRY_ONE, ENTRY_ONE, 3000)  # too many values for a group
    rows = rows_of(design[:, :12], rng.integers(0, 2, 3000), intercept=ENTRY_ONE)
    weights = rng.integers(-(2**20), 2**20, (1, 13))
    answers = [rows.gradient_sum(loss_named("logistic"), weights, 2**15) for _ in range(TUNING.grouping_pass + 1)]
    held = rows._passes.held
    assert held is not None
    assert held.codes.shape[1] > 0
    assert held.work < rows.entries.size
    assert all(np.array_equal(answer, answers[0]) for answer in answers)


def test_one_against_the_rest_is_a_binary_problem_for_each_class() -> None:
    rng = np.random.default_rng(2)
    design, labels = rng.integers(-ENTRY_ONE, ENTRY_ONE + 1, (60, 4)), rng.integers(0, 3, 60)
    weights = rng.integers(-(2**20), 2**20, (3, 5))
    far = 2**19  # no vector of gradients is that long
    together = rows_of(design, labels, intercept=ENTRY_ONE).gradient_sum(loss_named("logistic"), weights, far)
    for k in range(3):
        alone = rows_of(design, (labels == k).astype(int), intercept=ENTRY_ONE)
        assert np.array_equal(alone.gradient_sum(loss_named("logistic"), weights[[k]], far)[0], together[k])


@given(designs, st.integers(1, 3 * ENTRY_ONE))
@settings(deadline=None, max_examples=60)
def test_shortened_rows_obey_the_bound_and_short_rows_stay(design: np.ndarray, bound: int) -> None:
    short = rows_of(design).shortened(bound**2).dense()[:, 1:]
    for before, after in zip(design.tolist(), short.astype(int).tolist(), strict=True):
        assert sum(z * z for z in after) <= bound**2
        if sum(z * z for z in before) <= bound**2:
            assert after == before


def test_weights_beyond_the_range_are_forced_into_it() -> None:
    steps = fixed_point(np.array([[np.nan, np.inf, -1e300, 0.25]]))
    assert steps.tolist() == [[0, 2**30, -(2**30), 2 ** (WEIGHT_BITS - 2)]]
