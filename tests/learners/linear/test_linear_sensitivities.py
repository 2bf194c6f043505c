"""Sensitivities by brute force, under both neighbouring relations."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from linear_designs import rows_of
from tests.kit.linear_parts import SumOfParts

from ledgerwood.learners.data.columns import Ints
from ledgerwood.learners.linear.integer_rows import IntegerRows
from ledgerwood.learners.linear.loss import ENTRY_ONE, GRADIENT_ONE, LOSSES, loss_named
from ledgerwood.learners.linear.ridge import unclipped_gradient_sum
from ledgerwood.learners.linear.sensitivity import (
    DIAGONAL,
    OFF_DIAGONAL,
    RowBound,
    packed,
    smallest_eigenvalue,
    unpacked,
)

GRID = list(itertools.product(range(-3, 4), repeat=3))
SQUARE = 9
INSIDE = [x for x in GRID if sum(v * v for v in x) <= SQUARE]


def contribution(x: tuple[int, ...], *, plain: bool = False) -> list[int]:
    return packed(np.outer(x, x).astype(np.int64), plain=plain).tolist()


def squared(values: list[int]) -> int:
    return sum(v * v for v in values)


@pytest.mark.parametrize("plain", [False, True])
def test_cross_products_move_by_at_most_the_stated_amount(plain: bool) -> None:
    moved = {x: contribution(x, plain=plain) for x in INSIDE}
    one = max(squared(v) for v in moved.values())
    bound = Fraction(RowBound(SQUARE).gram(plain=plain)) ** 2
    assert one <= bound
    assert one == bound  # attained: a row along an axis
    two = max(squared([a - b for a, b in zip(v, w, strict=True)]) for v in moved.values() for w in moved.values())
    stated = Fraction(RowBound(SQUARE, "replace_one").gram(plain=plain)) ** 2
    assert two <= stated <= Fraction(2**50 + 1, 2**50) * 2 * bound
    assert two >= stated * Fraction(999, 1000)


def test_the_weights_are_neighbours_in_pells_sequence() -> None:
    assert OFF_DIAGONAL**2 == 2 * DIAGONAL**2 - 1
    assert 0 < math.sqrt(2) - OFF_DIAGONAL / DIAGONAL < 2e-5


def test_weights_any_larger_would_break_the_bound() -> None:
    x = (2, 2, 1)
    heavier = [v * (1 if i in (0, 3, 5) else 240) for i, v in enumerate(packed(np.outer(x, x), plain=True).tolist())]
    heavier = [v * 169 if i in (0, 3, 5) else v for i, v in enumerate(heavier)]
    assert squared(heavier) > Fraction(RowBound(SQUARE).gram()) ** 2


@given(st.lists(st.tuples(*[st.integers(-50, 50)] * 4), min_size=1, max_size=3))
@settings(deadline=None, max_examples=50)
def test_packing_loses_nothing(rows: list[tuple[int, ...]]) -> None:
    gram = sum(np.outer(x, x) for x in rows)
    for plain in (False, True):
        assert unpacked(packed(gram, plain=plain), 4, plain=plain).tolist() == gram.tolist()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("outputs", [1, 3])
def test_gradients_times_rows_move_by_at_most_the_stated_amount(loss: str, outputs: int) -> None:
    """Every record of a grid, at many weights: the exact move against the bound of that round."""
    rng = np.random.default_rng(3)
    square = 3 * ENTRY_ONE**2  # intercept and two columns
    bounds = {name: RowBound(square, name) for name in ("add_remove", "replace_one")}
    steps = [-ENTRY_ONE, 0, ENTRY_ONE]
    classes = 2 if outputs == 1 else outputs
    tight = 0.0
    for scale in (0.0, 0.1, 1.0, 10.0):
        weights = (rng.normal(size=(outputs, 3)) * scale * 2**20).astype(np.int64)
        size = float(np.linalg.norm(weights, axis=1).max()) / 2**20
        clip = 1.0 if outputs == 1 else 1.2
        limit = loss_named(loss).gradient_bound(math.sqrt(3), size * (1 + 2**-40), outputs)
        limit = min(limit, math.ceil(clip * GRADIENT_ONE))
        moves = [
            rows_of([x], [label], intercept=ENTRY_ONE).gradient_sum(loss_named(loss), weights, limit)
            for x in itertools.product(steps, repeat=2)
            for label in range(classes)
        ]
        unclipped = [
            rows_of([x], [label], intercept=ENTRY_ONE).gradient_sum(loss_named(loss), weights, 2**20)
            for x in itertools.product(steps, repeat=2)
            for label in range(classes)
        ]
        if loss == "logistic" and outputs == 1:  # the round's bound clips nothing, it is only known sooner
            assert all(np.array_equal(a, b) for a, b in zip(moves, unclipped, strict=True))
        largest = max(float(np.linalg.norm(move)) for move in moves)
        apart = max(float(np.linalg.norm(a - b)) for a in moves for b in moves)
        assert largest <= bounds["add_remove"].gradient_sum(limit)
        assert apart <= bounds["replace_one"].gradient_sum(limit)
        tight = max(
            tight, largest / bounds["add_remove"].gradient_sum(limit), apart / bounds["replace_one"].gradient_sum(limit)
        )
    assert tight > 0.99


@pytest.mark.parametrize("outputs", [1, 3])
def test_unclipped_residuals_times_rows_move_by_at_most_the_stated_amount(outputs: int) -> None:
    """The sum without a pass, for every record of a grid beside a few others, at many weights."""
    rng = np.random.default_rng(4)
    bounds = {name: RowBound(3 * ENTRY_ONE**2, name) for name in ("add_remove", "replace_one")}
    steps, classes, loss, tight = [-ENTRY_ONE, 1, ENTRY_ONE], max(2, outputs), loss_named("squared"), 0.0
    common = rows_of(rng.integers(-ENTRY_ONE, ENTRY_ONE, (5, 2)), rng.integers(0, classes, 5), intercept=ENTRY_ONE)
    for scale in (0.0, 0.3, 3.0):
        weights = (rng.normal(size=(outputs, 3)) * scale * 2**20).astype(np.int64)
        weights[:, 1:] = np.abs(weights[:, 1:])
        limit = loss.gradient_bound(math.sqrt(3), float(np.linalg.norm(weights, axis=1).max()) / 2**20, outputs)

        def asked(*parts: IntegerRows, weights: Ints = weights) -> Ints:
            together = SumOfParts(parts)
            moments = together.gradient_sum(loss, np.zeros_like(weights), 2**20)
            return unclipped_gradient_sum(moments, together.gram(), weights)

        before = asked(common)
        after = [
            asked(common, rows_of([x], [label], intercept=ENTRY_ONE))
            for x in itertools.product(steps, repeat=2)
            for label in range(classes)
        ]
        largest = max(float(np.linalg.norm(move - before)) for move in after)
        apart = max(float(np.linalg.norm(a - b)) for a in after for b in after)
        assert largest <= bounds["add_remove"].gradient_sum(limit, rounded=weights.size)
        assert apart <= bounds["replace_one"].gradient_sum(limit, rounded=weights.size)
        tight = max(tight, largest / bounds["add_remove"].gradient_sum(limit))
    assert tight > 0.9


@given(st.data(), st.sampled_from([1, 2**10, 2**24, 2**30, 2**40, 2**52]))
@settings(deadline=None, max_examples=60)
def test_unclipped_sums_are_those_of_integers(data: st.DataObject, largest: int) -> None:
    columns, outputs = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 2))
    numbers = hnp.arrays(np.int64, (columns, columns), elements=st.integers(-largest, largest))
    half = data.draw(numbers)
    gram = half + half.T
    most = min(2**30, 2**76 // largest)
    weights = data.draw(hnp.arrays(np.int64, (outputs, columns), elements=st.integers(-most, most)))
    found = unclipped_gradient_sum(np.full((outputs, columns), 7), gram, weights)
    exact = weights.astype(object) @ gram.astype(object)
    assert found.tolist() == [[7 - ((int(v) + 2**15) >> 16) for v in row] for row in exact]


def test_the_first_logistic_round_has_half_the_sensitivity() -> None:
    half = loss_named("logistic").gradient_bound(4.0, 0.0, 1)
    assert GRADIENT_ONE / 2 <= half < 0.501 * GRADIENT_ONE


@given(
    st.lists(st.tuples(*[st.integers(-4096, 4096)] * 3), min_size=0, max_size=6),
    st.tuples(*[st.integers(-4096, 4096)] * 3),
    st.tuples(*[st.integers(-4096, 4096)] * 3),
)
@settings(deadline=None, max_examples=80)
def test_the_smallest_eigenvalue_moves_by_at_most_the_stated_amount(
    rows: list[tuple[int, ...]], x: tuple[int, ...], y: tuple[int, ...]
) -> None:
    def smallest(data: list[tuple[int, ...]]) -> int:
        gram = sum((np.outer(row, row) for row in data), np.zeros((3, 3), dtype=np.int64))
        return smallest_eigenvalue(gram, 3 * 4096**2)

    bound = RowBound(3 * 4096**2).eigenvalue()
    assert abs(smallest([*rows, x]) - smallest(rows)) <= bound
    assert abs(smallest([*rows, x]) - smallest([*rows, y])) <= bound


def test_the_smallest_eigenvalue_is_safe_for_any_number_of_records() -> None:
    """Around the trace from which floats could not be trusted: a record still moves it by no more than stated."""
    columns = 64
    square = columns * 4096**2
    x = np.full((1, columns), 4096)
    limit = 2**42 * square // columns**2
    found = []
    for trace in (limit // 2, limit - 2 * square, limit, limit + square, 4 * limit):
        gram = np.eye(columns, dtype=np.int64) * (trace // columns)
        before, after = smallest_eigenvalue(gram, square), smallest_eigenvalue(gram + x.T @ x, square)
        assert abs(after - before) <= RowBound(square).eigenvalue()
        found.append(before)
    assert found[0] == pytest.approx(limit / 2 / columns)
    assert found[1:] == [2 * square, 0, 0, 0]
