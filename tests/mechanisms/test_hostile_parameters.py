"""Numbers that nobody means to pass but somebody does: numpy scalars, fractions, extremes of the floats."""

from __future__ import annotations

import math
import threading
from fractions import Fraction

import numpy as np
import pytest

from ledgerwood.accounting import Ledger
from ledgerwood.errors import ParameterError, ReleaseRefused
from ledgerwood.mechanisms import (
    BoundedDiscreteLaplaceMechanism,
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    ExponentialMechanism,
    GaussianMechanism,
    GaussianSparseVectorMechanism,
    LaplaceMechanism,
    NoisyMaxMechanism,
    PermuteAndFlipMechanism,
    PoissonSubsampledMechanism,
    QuantileMechanism,
    RankMechanism,
    SeededSource,
    Sensitivity,
    SkellamMechanism,
    SparseVectorMechanism,
    TopKMechanism,
)
from ledgerwood.mechanisms.local import Domain, GeneralizedRandomizedResponse, GlobalMap, UnaryEncoding


def seeded(seed: int = 1) -> SeededSource:
    return SeededSource(np.random.default_rng(seed))


SCALARS = [np.int64(3), np.int32(3), np.float32(3.0), np.float64(3.0), Fraction(3), 3]


@pytest.mark.parametrize("three", SCALARS, ids=lambda v: type(v).__name__)
def test_every_kind_of_number_makes_the_same_mechanism(three) -> None:
    domain = Domain(0, 9)
    makers = [
        (GaussianMechanism, 5.0),
        (LaplaceMechanism, 5.0),
        (DiscreteGaussianMechanism, 5),
        (DiscreteLaplaceMechanism, 5),
        (SkellamMechanism, 5),
        (lambda v: BoundedDiscreteLaplaceMechanism(v, 0, 100), 5),
        (lambda v: ExponentialMechanism(v, v), [1.0, 2.0]),
        (lambda v: PermuteAndFlipMechanism(v, v), [1.0, 2.0]),
        (lambda v: NoisyMaxMechanism(v, v), [1.0, 2.0]),
        (lambda v: SparseVectorMechanism(v, 3.0, sensitivity=v), [1.0, 9.0]),
        (lambda v: GaussianSparseVectorMechanism(v, v, 5, 3.0, sensitivity=v), [1.0, 9.0]),
        (lambda v: QuantileMechanism(v, 0.5, 0.0, 9.0, v), [1.0, 9.0]),
        (lambda v: GeneralizedRandomizedResponse(domain, v), [1, 2]),
        (lambda v: UnaryEncoding(domain, v), [1, 2]),
        (lambda v: GlobalMap(domain, v), [1, 2]),
        (lambda v: GlobalMap(domain, v, "laplace"), [1, 2]),
    ]
    for make, value in makers:
        ours, plain = make(three), make(3.0)
        assert ours == plain and ours.cost == plain.cost
        assert np.array_equal(ours.release(value, seeded()), plain.release(value, seeded()))


def test_a_fraction_as_a_scale_is_priced_as_it_is_sampled() -> None:
    third = Fraction(7, 3)  # its float is larger: priced as a float, sampled as a fraction it would cost too little
    assert Fraction(float(third)) > third
    assert GaussianMechanism(third).sigma == GaussianMechanism(third).cost.sigma == float(third)


def test_a_sensitivity_that_is_no_float_is_rounded_up() -> None:
    for exact in (Fraction(1, 3), Fraction(2, 3), Fraction(1, 7), 2**53 + 1):
        stated = Sensitivity(linf=exact)
        assert min(Fraction(stated.in_l1), Fraction(stated.in_l2), Fraction(stated.in_linf)) >= exact
        assert Fraction(GaussianMechanism(1.0, sensitivity=exact).sensitivity) >= exact
        m = ExponentialMechanism(1.0, exact)
        assert Fraction(m.coefficient) * exact <= 1


def test_norms_of_extreme_size_are_bounded_without_overflow_or_endless_search() -> None:
    for size in (1e-200, 5e-324, 1e200, 1e308):
        stated = Sensitivity(l1=size, l2=size, linf=size)
        assert stated.in_l1 == stated.in_l2 == stated.in_linf == size
    assert Sensitivity(linf=1e-300, dimension=4).in_l2 == 2e-300
    with pytest.raises(ParameterError):
        _ = Sensitivity(linf=1e308, dimension=10**9).in_l1


@pytest.mark.parametrize(
    "make",
    [
        lambda: ExponentialMechanism(1e308, 1e-10),
        lambda: ExponentialMechanism(1e-308, 1e30),
        lambda: BoundedDiscreteLaplaceMechanism(1e-310, 0, 3),
        lambda: DiscreteLaplaceMechanism(1e-310, Sensitivity(l1=3, dimension=2)),
        lambda: RankMechanism(1.0, 2**64, 0.0, 10.0, 1.0),
        lambda: QuantileMechanism(1.0, 0.5, -1.7e308, 1.7e308, 1e308),
        lambda: SparseVectorMechanism(1e-10, 0.0, sensitivity=1e308),
        lambda: SparseVectorMechanism(1.0, [0.0, 1.0]),
        lambda: GaussianSparseVectorMechanism(1.0, 1.0, 5, [0.0]),
        lambda: GaussianMechanism(1.0, bounds=(0, 10**400)),
        lambda: GaussianMechanism(1.0, bounds=(0, 1, 2)),
        lambda: GaussianMechanism(1.0, bounds="ab"),
        lambda: GaussianMechanism(1.0, bounds=3.0),
        lambda: DiscreteGaussianMechanism(1.0, bounds=(0, 1, 2)),
    ],
)
def test_impossible_parameters_are_refused_when_the_mechanism_is_made(make) -> None:
    with pytest.raises(ParameterError):
        make()


@pytest.mark.parametrize("order", ["<", ">"])
def test_unsigned_values_of_either_byte_order_are_clamped_and_do_not_wrap(order: str) -> None:
    values = np.array([2**63 - 1, 2**63, 2**64 - 1], dtype=f"{order}u8")
    bounded = BoundedDiscreteLaplaceMechanism(0.01, 0, 9)
    assert bounded.release(values, seeded()).tolist() == [9, 9, 9]
    assert Domain(0, 9).encode(values).tolist() == [9, 9, 9]


def test_scores_further_apart_than_the_largest_float_keep_their_probabilities() -> None:
    m = ExponentialMechanism(1.0, 1e308)
    scores = [-1.7e308, 1.7e308]
    odds = math.exp(-3.4)
    assert m.probabilities(scores) == pytest.approx([odds / (1 + odds), 1 / (1 + odds)], rel=1e-9)
    source = seeded()
    lesser = sum(m.release(scores, source) == 0 for _ in range(2000))
    assert 20 < lesser < 140  # 65 expected; 0 when an infinite difference was taken for a weight of zero


@pytest.mark.parametrize("scores", [[1e300, -1e300, 0.0], [1e25, 1e25 * (1 - 1e-14), 0.0], [1e25, 0.0, -1e12]])
@pytest.mark.parametrize("coefficient", [1.0, 1e20])
def test_huge_scores_neither_fail_nor_hang_a_race(scores: list[float], coefficient: float) -> None:
    best_first = np.argsort(scores)[::-1].tolist()
    base = ExponentialMechanism(coefficient, 1.0)
    assert TopKMechanism(base, 3).release(scores, seeded()).tolist() == best_first
    assert base.release_stream([[s] for s in scores], seeded()) == best_first[0]
    assert NoisyMaxMechanism(coefficient, 1.0).release(scores, seeded()) == best_first[0]


def test_single_precision_records_beside_bounds_that_only_doubles_hold() -> None:
    m = QuantileMechanism(1.0, 0.5, 1e300, 2e300, 1e299)
    assert 1e300 <= m.release(np.array([1.0, 2.0], dtype=np.float32), seeded()) <= 2e300


def test_threads_that_share_a_sparse_vector_run_get_no_answer_too_many() -> None:
    for seed in range(20):
        run = SparseVectorMechanism(1.0, 0.0, cutoff=3).start(seeded(seed))
        positives, barrier = [], threading.Barrier(8)

        def ask(run=run, positives=positives, barrier=barrier) -> None:
            barrier.wait()
            for _ in range(5):
                try:
                    positives.append(run.ask(1e9))
                except ReleaseRefused:
                    return

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(positives) == 3


@pytest.mark.parametrize(
    ("mechanism", "bad"),
    [
        (GlobalMap(Domain(0, 9), 1.0), ["young", "old"]),
        (GeneralizedRandomizedResponse(Domain(0, 9), 1.0), [[1], [2, 3]]),
        (UnaryEncoding(Domain(0, 9), 1.0), np.array([None])),
        (PoissonSubsampledMechanism(DiscreteLaplaceMechanism(10.0), 0.1, np.sum), np.ones(5)),
        (PoissonSubsampledMechanism(DiscreteLaplaceMechanism(10.0), 0.1, np.max), np.ones(5, dtype=int)),
        (PoissonSubsampledMechanism(DiscreteLaplaceMechanism(10.0), 0.1, len), 7),
    ],
)
def test_nothing_is_spent_on_a_value_of_the_wrong_kind(mechanism, bad) -> None:
    ledger = Ledger(epsilon=100.0, delta=1e-6)
    with pytest.raises(ParameterError):
        ledger.release(mechanism, bad, label="wrong")
    assert ledger.spent().amount == 0
    with pytest.raises(ParameterError):
        mechanism.release(bad)
