"""Public facts are checked, private values never raise."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ledgerwood.errors import NotPrivate, ParameterError
from ledgerwood.mechanisms.local import (
    AdjMap,
    DistanceClaim,
    Domain,
    DomainMapping,
    GeneralizedRandomizedResponse,
    GlobalMap,
    LaplaceMap,
    LocalMap,
    Partition,
    PiecewiseMechanism,
    UnaryEncoding,
)
from ledgerwood.mechanisms.randomness import SeededSource

TEN = Domain(1, 10, missing=4)
EVERY = [
    GlobalMap(TEN, 1.0),
    GlobalMap(TEN, 1.0, "laplace"),
    LaplaceMap(TEN, 1.0),
    AdjMap.from_epsilon(TEN, 3, epsilon=1.0, alpha=1.0),
    LocalMap(TEN, Partition((2, 8)), 1.0, "laplace"),
    GeneralizedRandomizedResponse(TEN, 1.0),
    PiecewiseMechanism(TEN, 1.0),
    UnaryEncoding(TEN, 1.0),
]
numbers = hnp.arrays(
    st.one_of(
        hnp.floating_dtypes(sizes=(16, 32, 64)),
        hnp.integer_dtypes(),
        hnp.unsigned_integer_dtypes(),
        st.just(bool),
    ),
    hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=5),
)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(EVERY), numbers)
def test_no_value_makes_a_release_fail(mechanism, values):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        released = np.asarray(mechanism.release(values, SeededSource(np.random.default_rng(0))))
    extra = (TEN.size,) if isinstance(mechanism, UnaryEncoding) else ()
    assert released.shape == values.shape + extra
    assert released.dtype == (bool if extra else np.int64)
    if released.size and not extra:
        assert mechanism.outputs[0] <= released.min() and released.max() <= mechanism.outputs[-1]


@pytest.mark.parametrize("mechanism", EVERY)
def test_a_release_depends_on_the_clamped_value_only(mechanism):
    pairs = [
        (-1e300, 1),
        (math.inf, 10),
        (np.uint64(2**64 - 1), 10),
        (np.int8(-128), 1),
        (math.nan, 4),
        (6.4, 6),
        (-0.0, 1),
    ]
    for raw, clamped in pairs:
        one, two = (mechanism.release(np.full(50, v), SeededSource(np.random.default_rng(9))) for v in (raw, clamped))
        assert (one == two).all()


@pytest.mark.parametrize("mechanism", EVERY)
def test_python_integers_of_any_size_are_clamped(mechanism):
    for raw in ([2**64, -(10**400)], np.array([2**63, -1], dtype=object), [2**63, -1], [10**400, -0.5]):
        one, two = (mechanism.release(v, SeededSource(np.random.default_rng(9))) for v in (raw, [10, 1]))
        assert (one == two).all()


def test_values_too_large_for_a_double_do_not_even_warn():
    wide = np.array([np.longdouble("1e4000"), np.longdouble("-1e4000"), np.longdouble("nan")])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert TEN.encode(wide).tolist() == [9, 0, 3]
        assert DomainMapping(0.0, 1.0, TEN).forward(wide).tolist() == [10, 1, 4]


def test_missing_is_the_lower_end_unless_declared():
    assert Domain(5, 9).encode([math.nan]).tolist() == [0]
    assert Domain(5, 9, missing=7).encode([math.nan]).tolist() == [2]


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Domain(1.0, 5), "lower"),
        (lambda: Domain(5, 5), "upper"),
        (lambda: Domain(0, 2**53), "upper"),
        (lambda: Domain(0, True), "upper"),
        (lambda: Domain(0, 5, missing=6), "missing"),
        (lambda: Partition(()), "widths"),
        (lambda: Partition((3, 0)), "widths"),
        (lambda: Partition([3, 1]), "widths"),
        (lambda: Partition.even(10, 11), "theta"),
        (lambda: Partition.even(10, 2.5), "theta"),
        (lambda: DomainMapping(1.0, 1.0, TEN), "upper"),
        (lambda: DomainMapping(0.0, math.inf, TEN), "upper"),
        (lambda: DomainMapping(-1e308, 1e308, TEN), "upper"),
        (lambda: GlobalMap(TEN, 0.0), "epsilon"),
        (lambda: GlobalMap(TEN, math.nan), "epsilon"),
        (lambda: GlobalMap(TEN, 1e7), "epsilon"),
        (lambda: GlobalMap(TEN, "1"), "epsilon"),
        (lambda: GlobalMap(TEN, 1.0, "magic"), "sampling"),
        (lambda: GlobalMap(Domain(0, 5000), 1.0), "sampling"),
        (lambda: LaplaceMap(TEN, -1.0), "epsilon"),
        (lambda: AdjMap(TEN, Partition((5, 6)), 1.0, 1.0), "partition"),
        (lambda: AdjMap(TEN, Partition((5, 5)), 0.0, 1.0), "epsilon_prt"),
        (lambda: AdjMap(TEN, Partition((5, 5)), 1.0, math.inf), "epsilon_ner"),
        (lambda: AdjMap.from_epsilon(TEN, 5, epsilon=1.0, alpha=0.0), "alpha"),
        (lambda: LocalMap(TEN, Partition((9,)), 1.0), "partition"),
        (lambda: GeneralizedRandomizedResponse(TEN, math.inf), "epsilon"),
        (lambda: UnaryEncoding(TEN, 1.0, "other"), "kind"),
        (lambda: PiecewiseMechanism(TEN, 0), "epsilon"),
        (lambda: DistanceClaim(-1.0), "per_step"),
        (lambda: GlobalMap(TEN, 1.0).release(["a"]), "values"),
        (lambda: GlobalMap(TEN, 1.0).release([None]), "values"),
        (lambda: GlobalMap(TEN, 1.0).release([1 + 2j]), "values"),
        (lambda: GlobalMap(TEN, 1.0).release([1], rng=7), "rng"),
        (lambda: UnaryEncoding(Domain(0, 30), 1.0).probabilities(1), "domain"),
        (lambda: GlobalMap(Domain(0, 2**20), 1.0, "laplace").profile, "domain"),
        (lambda: LaplaceMap(Domain(0, 2**20), 1.0, "laplace").profile, "domain"),
        (lambda: GlobalMap(Domain(0, 5000), 1.0, "laplace").enumerated_profile(), "domain"),
        (lambda: GlobalMap(TEN, 1.0).release([[1], [2, 3]]), "values"),
        (lambda: Partition.even(2**40, 1), "theta"),
    ],
)
def test_bad_public_metadata_is_refused_by_name(make, name):
    with pytest.raises(ParameterError) as caught:
        make()
    assert caught.value.name == name


def test_a_seeded_generator_is_marked_not_private():
    with pytest.warns(NotPrivate):
        GlobalMap(TEN, 1.0).release([1, 2], rng=np.random.default_rng(0))


def test_a_scalar_gives_a_scalar():
    assert isinstance(GlobalMap(TEN, 1.0).release(3), np.int64)


@settings(max_examples=100, deadline=None)
@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.lists(st.floats(allow_nan=False), min_size=2, max_size=20))
def test_the_mapping_keeps_order_and_hits_both_ends(lower, length, values):
    mapping = DomainMapping(lower, lower + length, Domain(1, 100))
    mapped = mapping.forward(np.sort(values))
    assert (np.diff(mapped) >= 0).all() and mapped.min() >= 1 and mapped.max() <= 100
    assert mapping.forward([lower, lower + length]).tolist() == [1, 100]
    assert (mapping.forward(mapping.backward(np.arange(1, 101))) == np.arange(1, 101)).all()


def test_the_mapping_sends_nan_to_the_declared_value():
    assert DomainMapping(0.0, 1.0, Domain(1, 10, missing=3)).forward([math.nan, math.inf]).tolist() == [3, 10]
