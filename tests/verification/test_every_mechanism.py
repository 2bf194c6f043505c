"""Every exported mechanism under the statistical auditor: its price passes, a tenth of it is refuted.

The seeds are fixed, so nothing here fails by chance. Exact checks of the same mechanisms are in test_our_mechanisms.
"""

import numpy as np
import pytest

import ledgerwood.mechanisms as exported
from ledgerwood.accounting import ApproxDP, PureDP
from ledgerwood.mechanisms import (
    BoundedDiscreteLaplaceMechanism,
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    ExponentialMechanism,
    FixedSizeSubsampledMechanism,
    GaussianMechanism,
    GaussianSparseVectorMechanism,
    LaplaceMechanism,
    NoisyMaxMechanism,
    ParallelExponentialMechanism,
    PermuteAndFlipMechanism,
    PoissonSubsampledMechanism,
    QuantileMechanism,
    RankMechanism,
    RunningSumMechanism,
    SeededSource,
    SkellamMechanism,
    SparseVectorMechanism,
    ThresholdedCountsMechanism,
    TopKMechanism,
)
from ledgerwood.verification import audit

EM = ExponentialMechanism(epsilon=3.0, range_sensitivity=2.0)
SCORES = ([0.0, 1.0, 0.0], [1.0, 0.0, 0.0])
VALUES = np.array([1.0, 2.0, 6.0, 7.0])


def _ones(records):
    return int(records.sum())


EVERY = [
    (GaussianMechanism(sigma=0.5, grid=0.25), (0.0, 1.0)),
    (LaplaceMechanism(scale=0.5, grid=0.25), (0.0, 1.0)),
    (DiscreteLaplaceMechanism(scale=0.5), (0, 1)),
    (DiscreteGaussianMechanism(sigma=0.7), (0, 1)),
    (SkellamMechanism(variance=1.0), (0, 1)),
    (BoundedDiscreteLaplaceMechanism(scale=0.7, lower=0, upper=5), (2, 3)),
    (RunningSumMechanism(sigma=0.5, steps=2, bounds=(0, 3)), ([0, 0], [1, 0])),
    (ThresholdedCountsMechanism("discrete_laplace", 0.7, threshold=3, max_keys=2), ({"a": 3, "b": 1}, {"a": 2})),
    (EM, SCORES),
    (
        ParallelExponentialMechanism(epsilon=3.0, range_sensitivity=2.0),
        ([SCORES[0], SCORES[0]], [SCORES[1], SCORES[0]]),
    ),
    (PermuteAndFlipMechanism(epsilon=3.0, range_sensitivity=2.0), SCORES),
    (NoisyMaxMechanism(epsilon=3.0, range_sensitivity=2.0), SCORES),
    (TopKMechanism(EM, k=2), SCORES),
    (QuantileMechanism(epsilon=3.0, quantile=0.5, lower=0.0, upper=8.0, step=1.0), (VALUES, VALUES[1:])),
    (RankMechanism(epsilon=3.0, rank=2, lower=0.0, upper=8.0, step=1.0), (VALUES, VALUES[1:])),
    (SparseVectorMechanism(epsilon=3.0, threshold=1.0), ([0.0, 1.0, 1.0], [1.0, 0.0, 0.0])),
    (GaussianSparseVectorMechanism(0.7, 0.7, max_queries=3, threshold=1.0), ([0.0, 1.0, 1.0], [1.0, 0.0, 0.0])),
    (PoissonSubsampledMechanism(DiscreteLaplaceMechanism(scale=0.3), rate=0.9, query=len), (VALUES, VALUES[1:])),
    (
        FixedSizeSubsampledMechanism(
            DiscreteLaplaceMechanism(scale=0.3, neighbours="replace_one"), population=4, batch=3, query=_ones
        ),
        (np.array([1, 0, 0, 0]), np.array([0, 0, 0, 0])),
    ),
]


class Released:
    """A mechanism as the auditor calls it."""

    def __init__(self, mechanism):
        self.mechanism = mechanism

    def __call__(self, value, rng):
        return self.mechanism.release(value, SeededSource(rng))


def test_no_exported_mechanism_is_missing():
    with_cost = {
        name
        for name in exported.__all__
        if name.endswith("Mechanism") and name != "Mechanism" and hasattr(getattr(exported, name), "release")
    }
    assert with_cost == {type(mechanism).__name__ for mechanism, _ in EVERY}


@pytest.mark.parametrize(("mechanism", "pair"), EVERY, ids=lambda x: type(x).__name__)
def test_the_price_of_a_mechanism_passes(mechanism, pair):
    report = audit(Released(mechanism), mechanism.cost, pair=pair, samples=1_000, seed=1, confidence=1 - 1e-6)
    assert report.passed, str(report)


@pytest.mark.parametrize(("mechanism", "pair"), EVERY, ids=lambda x: type(x).__name__)
def test_a_tenth_of_the_price_is_refuted(mechanism, pair):
    pure = mechanism.cost.epsilon(0.0)
    delta = max(1e-3, 2 * mechanism.cost.infinite_mass())
    claim = PureDP(pure / 10) if pure < np.inf else ApproxDP(mechanism.cost.epsilon(delta) / 10, delta)
    report = audit(Released(mechanism), claim, pair=pair, samples=1_000, seed=1)
    assert report.flagged, str(report)
