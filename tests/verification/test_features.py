"""Outputs of any type become rows of numbers; equal outputs equal rows, different ones different rows."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerwood.verification.auditor.encoding import Encoded, OutputEncoder, Raised, has_nan, row_keys
from ledgerwood.verification.auditor.float_attacks import low_bit
from ledgerwood.verification.auditor.tuning import LIMITS

plain = st.one_of(st.integers(-(2**40), 2**40), st.text(max_size=5), st.booleans(), st.none())
nested = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
)


@settings(deadline=None)
@given(nested, nested)
def test_equal_outputs_have_equal_rows(a, b):
    encoder = OutputEncoder.fit([a, b])
    rows = encoder([a, b, a]).numbers
    assert np.array_equal(rows[0], rows[2], equal_nan=True)


@settings(deadline=None)
@given(st.lists(st.integers(-100, 100), max_size=4), st.lists(st.integers(-100, 100), max_size=4))
def test_different_lists_have_different_rows(a, b):
    encoder = OutputEncoder.fit([tuple(a), tuple(b)])
    rows = row_keys(encoder([tuple(a), tuple(b)]).numbers)
    assert (rows[0] == rows[1]) == (a == b)


def test_numbers_and_vectors_pass_through():
    assert OutputEncoder.fit([1.5, 2.5])([1.5, 2.5]).numbers.tolist() == [[1.5], [2.5]]
    matrix = np.arange(6.0).reshape(2, 3)
    assert OutputEncoder.fit(matrix)(matrix).numbers.tolist() == matrix.tolist()
    assert OutputEncoder.fit(matrix).names == ("y[0]", "y[1]", "y[2]")


def test_a_field_seen_for_the_first_time_changes_the_row():
    encoder = OutputEncoder.fit([{"a": 1}, {"a": 2}])
    known, extra = encoder([{"a": 1}, {"a": 1, "b": 5}]).numbers
    assert not np.array_equal(known, extra)


def test_an_exception_is_an_output_of_its_own():
    encoder = OutputEncoder.fit([1.0, Raised("ValueError")])
    rows = row_keys(encoder([1.0, Raised("ValueError"), Raised("KeyError")]).numbers)
    assert np.unique(rows).size == 3


def test_a_late_exception_among_numbers_does_not_stop_the_encoder():
    encoder = OutputEncoder.fit([1.0, 2.0])
    assert np.isnan(encoder([1.0, Raised("ValueError")]).numbers[1, 0])


@dataclass
class Stump:
    threshold: float
    leaves: tuple


class Booster:
    def save_raw(self, form):
        assert form == "json"
        return bytearray(b'{"trees": [{"sum_hessian": 20.0}]}')


def test_models_are_read_field_by_field():
    encoded = OutputEncoder.fit([Stump(0.5, (1.0, 2.0))])([Stump(0.5, (1.0, 2.0))])
    named = dict(zip(encoded.names, encoded.numbers[0].tolist()))
    assert named["y.threshold"] == 0.5 and named["y.leaves[1]"] == 2.0
    assert "y.trees[0].sum_hessian" in OutputEncoder.fit([Booster()]).names


def test_negative_zero_and_nan_payloads():
    rows = np.array([[0.0], [-0.0], [np.nan], [-np.nan]])
    keys = row_keys(rows)
    assert keys[0] != keys[1]
    assert keys[2] == keys[3]


@given(st.floats(allow_nan=False, allow_infinity=False, width=64).filter(lambda x: x == 0 or abs(x) > 1e-290))
def test_the_lowest_bit_divides_the_value_and_no_smaller_power_is_needed(x):
    exponent = int(low_bit(np.array([x]))[0])
    if x == 0:
        assert exponent == 2000
    else:
        whole = x / 2.0**exponent if exponent < 1000 else x * 2.0**-exponent
        assert whole == int(whole) and int(whole) % 2 == 1


def test_repeated_rows_are_kept_once():
    encoded = Encoded(np.array([[1.0], [2.0]] * 50), ("y",))
    distinct = encoded.distinct
    assert distinct is not None
    rows, place = distinct
    assert np.array_equal(rows.numbers[place], encoded.numbers)
    assert Encoded(np.random.default_rng(0).random((100, 1)), ("y",)).distinct is None


@pytest.mark.parametrize("outputs", [["a", "b"], [("x", 1), ("y", 2)], [None, 3], [{1, 2}, {3}], [b"ab", b"c"]])
def test_odd_types_are_distinguished(outputs):
    assert np.unique(row_keys(OutputEncoder.fit(outputs)(outputs).numbers)).size == 2


@pytest.mark.parametrize(
    "outputs",
    [
        np.array([2**60, 2**60 + 1]),
        [np.int64(2**60), np.int64(2**60 + 1)],
        [2**63 + 1, 2**63, -1],
        [10**40, 10**40 + 1, 0.5],
        [10**5000, 10**5000 + 1],
        [{10**5000}, {10**5000 + 1}],
        [np.longdouble(1), np.longdouble(1) + np.finfo(np.longdouble).eps],
        [np.complex128(1 + 1j), np.complex128(1 + 2j)],
    ],
)
def test_numbers_that_floats_would_merge_are_distinguished(outputs):
    if isinstance(outputs[0], np.longdouble) and np.finfo(np.longdouble).eps == np.finfo(np.float64).eps:
        pytest.skip("no wide long double")
    encoded = OutputEncoder.fit(outputs)(outputs)
    assert np.unique(row_keys(encoded.numbers)).size == len(outputs)


def test_low_digits_of_a_huge_integer_are_a_field():
    outputs = [10**40 + i for i in range(5)]
    encoded = OutputEncoder.fit(outputs)(outputs)
    low = encoded.numbers[:, encoded.names.index("y mod 2**32")]
    assert np.array_equal(np.diff(low), np.ones(4))


def test_of_too_many_fields_the_informative_ones_are_kept():
    rng = np.random.default_rng(1)
    many = LIMITS.most_columns + 100
    samples = [
        [{f"f{i}": value for i, value in enumerate(rng.integers(9, size=many).tolist())} | {"last": side}] * 20
        for side in (0, 1)
    ]
    encoder = OutputEncoder.fit(*samples)
    assert len(encoder.names) == LIMITS.most_columns and "y.last" in encoder.names


@pytest.mark.parametrize("make", [list, np.array])
def test_an_element_beyond_those_that_are_read_still_changes_the_row(make):
    outputs = [{"v": make([0] * LIMITS.most_items + [last])} for last in (0, 1)]
    assert np.unique(row_keys(OutputEncoder.fit(outputs[:1], outputs[1:])(outputs).numbers)).size == 2


def test_nan_is_seen_anywhere_and_an_output_may_hold_itself():
    circle = [1.0]
    circle.append(circle)
    assert not has_nan(circle)
    assert has_nan([{"a": (1, {"b": np.array([1.0, np.nan])})}])


@pytest.mark.parametrize("others", [[0.5], [np.float32(0.1), 3], [float("inf")], [np.int64(3), 1.5]])
@pytest.mark.parametrize("large", [2**53 + 1, np.int64(2**60), np.uint64(2**63 + 5)])
def test_the_code_of_an_output_does_not_depend_on_the_others_of_its_batch(large, others) -> None:
    """Counts of an event are binomial only if each output alone decides whether it belongs to it."""
    encoder = OutputEncoder.fit([0, 1, 2], [1, 2, 3])
    alone = encoder([large]).numbers[0]
    np.testing.assert_array_equal(encoder([*others, large]).numbers[-1], alone)


@pytest.mark.parametrize(
    ("output", "other"),
    [
        ([3.0, 4.0], np.array([1.0, 2.0])),
        ((3.0, 4.0), np.array([1.0, 2.0])),
        (np.array([2**60, 1]), np.array([1.0, 2.0])),
        (np.ma.array([3.0, 4.0], mask=[True, False]), np.array([1.0, 2.0])),
    ],
)
def test_nor_on_which_of_them_comes_first(output, other) -> None:
    """A mechanism that returns arrays and lists was once read by the type of a batch's first output."""
    encoder = OutputEncoder.fit([np.zeros(2)] * 3, [np.ones(2)] * 3)
    for batch, place in (([output, other], 0), ([other, output], 1), ([output], 0)):
        np.testing.assert_array_equal(encoder(batch).numbers[place], [np.nan, np.nan])


def test_a_text_of_half_a_character_is_a_text():
    outputs = ["\ud800", "\ud801"]
    assert np.unique(row_keys(OutputEncoder.fit(outputs)(outputs).numbers)).size == 2
