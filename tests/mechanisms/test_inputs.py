"""Bad parameters and values are refused before a bit is drawn; outputs reveal nothing by their form."""

from __future__ import annotations

import copy
import dataclasses
import math
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerwood.accounting import Cost
from ledgerwood.errors import ParameterError, ReleaseRefused
from ledgerwood.mechanisms import (
    BoundedDiscreteLaplaceMechanism,
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    ExponentialMechanism,
    GaussianMechanism,
    GaussianSparseVectorMechanism,
    LaplaceMechanism,
    Mechanism,
    NoisyMaxMechanism,
    ParallelExponentialMechanism,
    PermuteAndFlipMechanism,
    PoissonSubsampledMechanism,
    QuantileMechanism,
    RankMechanism,
    ReplaySource,
    RunningSumMechanism,
    SeededSource,
    Sensitivity,
    SkellamMechanism,
    SparseVectorMechanism,
    TopKMechanism,
)

EM = ExponentialMechanism(epsilon=1.0, range_sensitivity=1.0)
EVERY = [
    (GaussianMechanism(sigma=2.0), 3),
    (LaplaceMechanism(scale=2.0, grid=0.5), 3.25),
    (DiscreteLaplaceMechanism(scale=2.0), 3),
    (DiscreteGaussianMechanism(sigma=2.0), 3),
    (SkellamMechanism(variance=9.0), 3),
    (BoundedDiscreteLaplaceMechanism(scale=2.0, lower=0, upper=9), 3),
    (RunningSumMechanism(sigma=2.0, steps=3, bounds=(0, 9)), [3, 0, 2]),
    (EM, [1.0, 2.0]),
    (ParallelExponentialMechanism(epsilon=1.0, range_sensitivity=1.0), [[1.0, 2.0], [3.0, 2.0]]),
    (PermuteAndFlipMechanism(epsilon=1.0, range_sensitivity=1.0), [1.0, 2.0]),
    (NoisyMaxMechanism(epsilon=1.0, range_sensitivity=1.0), [1.0, 2.0]),
    (TopKMechanism(EM, k=1), [1.0, 2.0]),
    (QuantileMechanism(epsilon=1.0, quantile=0.5, lower=0.0, upper=8.0, step=1.0), [1.0, 2.0]),
    (RankMechanism(epsilon=1.0, rank=1, lower=0.0, upper=8.0, step=1.0), [1.0, 2.0]),
    (SparseVectorMechanism(epsilon=1.0, threshold=1.0), [1.0, 2.0]),
    (GaussianSparseVectorMechanism(2.0, 2.0, max_queries=5, threshold=1.0), [1.0, 2.0]),
    (PoissonSubsampledMechanism(DiscreteLaplaceMechanism(scale=2.0), rate=0.5, query=len), [1.0, 2.0]),
]


@pytest.mark.parametrize(("mechanism", "value"), EVERY, ids=lambda x: type(x).__name__)
def test_every_mechanism_is_a_frozen_value_with_a_cost(mechanism, value) -> None:
    assert isinstance(mechanism, Mechanism)
    assert isinstance(mechanism.cost, Cost)
    assert mechanism == dataclasses.replace(mechanism)
    assert hash(mechanism) == hash(dataclasses.replace(mechanism))
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(mechanism, dataclasses.fields(mechanism)[0].name, 1)
    a, b = (mechanism.release(value, SeededSource(np.random.default_rng(8))) for _ in range(2))
    assert np.array_equal(a, b)
    mechanism.release(value)
    mechanism.check(value)


NONE = ReplaySource([])  # raises OutOfBits if a bit is drawn


@pytest.mark.parametrize(
    ("mechanism", "value", "message"),
    [
        (GaussianMechanism(sigma=1.0), math.nan, "finite numbers"),
        (GaussianMechanism(sigma=1.0), [1.0, -math.inf], "finite numbers"),
        (GaussianMechanism(sigma=1.0), 1e30, "steps of the grid"),
        (GaussianMechanism(sigma=1.0), 2**62, "at most"),
        (GaussianMechanism(sigma=1.0), "3", "real numbers"),
        (GaussianMechanism(sigma=1.0), True, "real numbers"),
        (GaussianMechanism(sigma=1.0), [[1.0], [1.0, 2.0]], "regular array"),
        (GaussianMechanism(sigma=1.0), np.array([1 + 2j]), "real numbers"),
        (GaussianMechanism(sigma=1.0, sensitivity=Sensitivity(l2=1.0, dimension=3)), [1.0, 2.0], "3 coordinates"),
        (LaplaceMechanism(scale=1.0, grid=0.5), 2**54, "2\\*\\*53"),
        (DiscreteLaplaceMechanism(scale=1.0), 1.5, "hold integers"),
        (DiscreteLaplaceMechanism(scale=1.0), [1, 2], "1 coordinates"),
        (DiscreteLaplaceMechanism(scale=1.0), 2**62, "at most"),
        (DiscreteGaussianMechanism(sigma=1.0), 10**30, "at most"),
        (SkellamMechanism(variance=1.0), np.float32(1.0), "hold integers"),
        (BoundedDiscreteLaplaceMechanism(scale=1.0, lower=0, upper=3), 0.5, "hold integers"),
        (EM, [], "at least one candidate"),
        (EM, [[1.0]], "vector"),
        (EM, [1.0, math.nan], "finite numbers"),
        (PermuteAndFlipMechanism(epsilon=1.0, range_sensitivity=1.0), [math.inf], "finite numbers"),
        (NoisyMaxMechanism(epsilon=1.0, range_sensitivity=1.0), 3.0, "vector"),
        (TopKMechanism(EM, k=3), [1.0, 2.0], "at least k=3"),
        (SparseVectorMechanism(epsilon=1.0, threshold=1.0), [[1.0]], "vector"),
        (SparseVectorMechanism(epsilon=1.0, threshold=1.0), [math.nan], "finite numbers"),
        (QuantileMechanism(epsilon=1.0, quantile=0.5, lower=0.0, upper=1.0, step=0.5), [[1.0]], "vector"),
    ],
)
def test_bad_values_are_refused_before_a_bit_is_drawn(mechanism, value, message: str) -> None:
    with pytest.raises(ParameterError, match=message) as caught:
        mechanism.release(value, NONE)
    with pytest.raises(ParameterError, match=message):
        mechanism.check(value)
    assert "1e+30" not in str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: GaussianMechanism(sigma=0.0),
        lambda: GaussianMechanism(sigma=math.nan),
        lambda: GaussianMechanism(sigma="1"),
        lambda: GaussianMechanism(sigma=1.0, sensitivity=-1.0),
        lambda: GaussianMechanism(sigma=1.0, grid=0.1),
        lambda: GaussianMechanism(sigma=2.0**60),
        lambda: GaussianMechanism(sigma=1.0, bounds=(2.0, 1.0)),
        lambda: GaussianMechanism(sigma=1.0, bounds=(0.0, math.inf)),
        lambda: GaussianMechanism(sigma=1.0, neighbours="friends"),
        lambda: LaplaceMechanism(scale=-1.0),
        lambda: DiscreteLaplaceMechanism(scale=1.0, sensitivity=1.5),
        lambda: DiscreteLaplaceMechanism(scale=1.0, sensitivity=0),
        lambda: DiscreteLaplaceMechanism(scale=2.0**60),
        lambda: DiscreteGaussianMechanism(sigma=1.0, bounds=(0.5, 1)),
        lambda: SkellamMechanism(variance=2.0**40),
        lambda: SkellamMechanism(variance=1.0).share(1, parties=0),
        lambda: BoundedDiscreteLaplaceMechanism(scale=1.0, lower=3, upper=1),
        lambda: ExponentialMechanism(epsilon=0.0, range_sensitivity=1.0),
        lambda: ExponentialMechanism(epsilon=1.0, range_sensitivity=math.inf),
        lambda: ExponentialMechanism(epsilon=1e-300, range_sensitivity=1e300),
        lambda: TopKMechanism(EM, k=0),
        lambda: TopKMechanism(3, k=1),
        lambda: QuantileMechanism(epsilon=1.0, quantile=1.0, lower=0.0, upper=1.0, step=0.1),
        lambda: QuantileMechanism(epsilon=1.0, quantile=0.5, lower=1.0, upper=0.0, step=0.1),
        lambda: RankMechanism(epsilon=1.0, rank=1, side="left", lower=0.0, upper=1.0, step=0.1),
        lambda: RankMechanism(epsilon=1.0, rank=-1, lower=0.0, upper=1.0, step=0.1),
        lambda: RankMechanism(epsilon=1.0, rank=1, lower=0.0, upper=1.0, step=1e-20),
        lambda: SparseVectorMechanism(epsilon=1.0, threshold=math.nan),
        lambda: SparseVectorMechanism(epsilon=1.0, threshold=0.0, cutoff=0),
        lambda: PoissonSubsampledMechanism(EM, rate=1.5, query=len),
        lambda: PoissonSubsampledMechanism(EM, rate=0.5, query=3),
        lambda: Sensitivity(),
        lambda: Sensitivity(l1=-1.0),
        lambda: Sensitivity(l1=1.0, dimension=0),
        lambda: EM.release_stream([]),
    ],
)
def test_bad_parameters_are_refused(make) -> None:
    with pytest.raises(ParameterError):
        make()


def test_declared_bounds_clamp_every_number() -> None:
    m = GaussianMechanism(sigma=0.001, grid=2.0**-4, bounds=(-1.0, 1.0))
    released = m.release([math.nan, math.inf, -math.inf, 1e300, 0.25])
    assert released.tolist() == [-1.0, 1.0, -1.0, 1.0, 0.25]
    d = DiscreteGaussianMechanism(sigma=0.01, bounds=(0, 5))
    assert [d.release(v) for v in (-(2**62), 3, 2**62)] == [0, 3, 5]
    assert BoundedDiscreteLaplaceMechanism(scale=0.01, lower=0, upper=5).release(2**62) == 5
    small = np.array(200, dtype=np.uint8)
    assert DiscreteGaussianMechanism(sigma=0.01, bounds=(-500, 500)).release(small) == 200
    assert DiscreteLaplaceMechanism(scale=0.01, bounds=(-5, 500)).release(np.uint64(2**64 - 1)) == 500
    assert GaussianMechanism(sigma=0.001, bounds=(-0.5, 7.5)).release(np.array([9, 3], dtype=np.uint64)).tolist() == [
        7,
        3,
    ]


ANY_INTEGER = st.one_of(
    st.integers(-(2**70), 2**70),
    st.sampled_from([2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**400, -(10**400), 0]),
)
ANY_NUMBER = st.one_of(ANY_INTEGER, st.floats(), st.fractions(), st.sampled_from([1e308, -1e308, 5e-324, -0.0]))
BOUNDED_INTEGERS = [
    DiscreteLaplaceMechanism(scale=2.0, sensitivity=Sensitivity(l1=1, dimension=3), bounds=(-5, 500)),
    DiscreteGaussianMechanism(sigma=2.0, sensitivity=Sensitivity(l2=1, dimension=3), bounds=(-5, 500)),
    SkellamMechanism(variance=9.0, sensitivity=Sensitivity(l1=1, dimension=3), bounds=(-5, 500)),
    BoundedDiscreteLaplaceMechanism(scale=2.0, lower=-5, upper=500),
    GaussianMechanism(sigma=2.0, bounds=(-5, 500)),
    LaplaceMechanism(scale=2.0, bounds=(-5, 500)),
]
BOUNDED_REALS = [
    GaussianMechanism(sigma=2.0, grid=0.5, bounds=(-5.0, 500.0)),
    GaussianMechanism(sigma=2.0, bounds=(-5.0, 500.0)),
    LaplaceMechanism(scale=2.0, grid=4.0, bounds=(-5.0, 500.0)),
    QuantileMechanism(epsilon=1.0, quantile=0.5, lower=-5.0, upper=500.0, step=1.0),
    RankMechanism(epsilon=1.0, rank=1, lower=-5.0, upper=500.0, step=1.0),
]


def in_every_form(numbers: list) -> list:
    """As a list, a tuple, and an array of objects."""
    return [numbers, tuple(numbers), np.array(numbers, dtype=object)]


def seeded() -> SeededSource:
    return SeededSource(np.random.default_rng(5))


@pytest.mark.parametrize("mechanism", BOUNDED_INTEGERS, ids=lambda m: type(m).__name__)
@settings(max_examples=40, deadline=None)
@given(numbers=st.lists(ANY_INTEGER, min_size=3, max_size=3))
def test_a_bounded_release_is_total_on_integers_of_any_size(mechanism, numbers) -> None:
    clamped = [min(max(number, -5), 500) for number in numbers]
    wanted = mechanism.release(np.array(clamped), seeded())
    for value in in_every_form(numbers):
        mechanism.check(value)
        released = mechanism.release(value, seeded())
        assert released.dtype == np.int64  # also the type tells nothing about the numbers
        assert np.array_equal(released, wanted)


@pytest.mark.parametrize("mechanism", BOUNDED_REALS, ids=lambda m: type(m).__name__)
@settings(max_examples=40, deadline=None)
@given(numbers=st.lists(ANY_NUMBER, min_size=2, max_size=4))
def test_a_bounded_release_is_total_on_numbers_of_any_kind(mechanism, numbers) -> None:
    numbers = [*numbers, 0.25]  # one float makes floats of them all, whatever the others
    clamped = [-5.0 if number != number else float(min(max(number, -5), 500)) for number in numbers]
    wanted = mechanism.release(np.array(clamped), seeded())
    for value in in_every_form(numbers):
        mechanism.check(value)
        assert np.array_equal(mechanism.release(value, seeded()), wanted)


@pytest.mark.parametrize("value", [2**64, -(10**400), np.array(2**64, dtype=object)])
def test_a_single_integer_of_any_size_is_clamped(value) -> None:
    end = 500 if value > 0 else -5
    for m in (GaussianMechanism(sigma=0.001, bounds=(-5, 500)), DiscreteLaplaceMechanism(scale=0.01, bounds=(-5, 500))):
        assert m.release(value) == end
        assert type(m.release(value)) is int


@pytest.mark.parametrize("bad", [[1, "2"], [1, None], [True, 1 << 70], [1 << 70, 2j], [object()]])
def test_what_is_no_number_is_refused_by_its_type(bad) -> None:
    with pytest.raises(ParameterError, match="real numbers"):
        GaussianMechanism(sigma=1.0, bounds=(0, 1)).release(bad, NONE)


def test_integers_on_a_grid_are_refused_where_floats_would_move_them_apart() -> None:
    """2**53 + 1 and 2**53 + 2 are one apart, but two apart as floats."""
    m = GaussianMechanism(sigma=1.0, grid=0.5, bounds=(0.0, 2.0**60))
    for value in (3, 2**53 + 1, 2**70):
        with pytest.raises(ParameterError, match="within 2\\*\\*53"):
            m.release(value, NONE)
    assert m.release(2.0**54) > 0


@pytest.mark.parametrize("grid", [1.0, 2.0, 2.0**20, 2.0**52])
@pytest.mark.parametrize("bounded", [False, True])
def test_integers_on_a_whole_grid_are_rounded_as_integers(grid: float, bounded: bool) -> None:
    """Noise far below the grid leaves the nearest multiple, for integers that no float can tell apart too."""
    bounds = (-(2.0**61) * grid, 2.0**61 * grid) if bounded else None
    m = GaussianMechanism(sigma=grid / 64, sensitivity=1.0, grid=grid, bounds=bounds)
    step = int(grid)
    for place in (0, 3, -5, 2**53 // step + 7):
        for off in {0, step // 4, -(step // 4)}:
            released = m.release(place * step + off)
            assert isinstance(released, int)
            assert released == place * step
    many = m.release(np.array([2**61, -(2**61)]))
    assert many.dtype == np.int64
    assert np.abs(many).max() <= 2**62


def test_quantiles_accept_any_number_and_no_records() -> None:
    m = QuantileMechanism(epsilon=200.0, quantile=0.5, lower=0.0, upper=8.0, step=1.0)
    assert m.release([math.nan, math.inf, 5.0, 1e308, -5.0]) == 5.0
    assert 0.0 <= m.release([]) <= 8.0


def test_releases_lie_on_the_grid_and_never_show_minus_zero() -> None:
    m = GaussianMechanism(sigma=0.4, grid=0.5)
    x = np.asarray(m.release(np.full(2000, -0.1)))
    assert x.dtype == np.float64
    assert np.all(x * 2 == np.rint(x * 2))
    zeros = x[x == 0]
    assert len(zeros) > 0 and not np.signbit(zeros).any()
    q = QuantileMechanism(epsilon=9.0, quantile=0.5, lower=-0.0, upper=1.0, step=1.0)
    assert not np.signbit([q.release([0.0, 0.0]) for _ in range(20)]).any()


def test_types_and_shapes_follow_the_value_only() -> None:
    m = GaussianMechanism(sigma=2.0)
    assert type(m.release(3)) is int
    assert type(m.release(3.0)) is float
    assert np.asarray(m.release(np.zeros((2, 3)))).shape == (2, 3)
    assert np.asarray(m.release(np.zeros((2, 3), dtype=np.uint8))).dtype == np.int64
    assert np.asarray(m.release(np.zeros(0))).shape == (0,)


def test_the_noise_on_huge_values_is_not_rounded_away() -> None:
    value = 2**53
    m = DiscreteGaussianMechanism(sigma=3.0)
    assert {(m.release(value) - value) % 2 for _ in range(100)} == {0, 1}
    g = GaussianMechanism(sigma=3.0)
    assert {(g.release(2**60) - 2**60) % 2 for _ in range(100)} == {0, 1}


def test_a_finished_run_answers_no_more() -> None:
    run = SparseVectorMechanism(epsilon=1.0, threshold=0.0).start()
    assert run.ask(1e6)
    assert run.finished
    with pytest.raises(ReleaseRefused, match="finished"):
        run.ask(0.0)
    gauss = GaussianSparseVectorMechanism(1.0, 1.0, max_queries=2, threshold=0.0, cutoff=2)
    assert gauss.release([-1e6, 1e6, -1e6, -1e6, 1e6]).tolist() == [False, True, False, False]


def test_a_run_cannot_be_copied_or_carried_into_a_fork(monkeypatch) -> None:
    run = SparseVectorMechanism(epsilon=1.0, threshold=0.0).start()
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied"):
            attempt(run)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(ReleaseRefused, match="another process"):
        run.ask(0.0)


def test_the_coefficient_is_rounded_down() -> None:
    from fractions import Fraction

    for epsilon, r in ((0.1, 3.0), (1.0, 7.0), (0.3, 0.1), (5e-324, 1e-300)):
        c = ExponentialMechanism(epsilon=epsilon, range_sensitivity=r).coefficient
        assert Fraction(c) * Fraction(r) <= Fraction(epsilon)


def test_importing_mechanisms_does_not_import_numba_or_scipy() -> None:
    code = "import sys, ledgerwood.mechanisms; print({'numba', 'scipy'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"
