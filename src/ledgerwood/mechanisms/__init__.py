"""How a value is released: exact mechanisms, each a frozen value that knows its sensitivity and its cost.

>>> m = DiscreteLaplaceMechanism(scale=10.0)
>>> m.cost.epsilon(delta=0.0)
0.1
"""

from ledgerwood.mechanisms.base import Mechanism, Sensitivity
from ledgerwood.mechanisms.integer_noise import (
    BoundedDiscreteLaplaceMechanism,
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    SkellamMechanism,
)
from ledgerwood.mechanisms.noise import GaussianMechanism, LaplaceMechanism
from ledgerwood.mechanisms.noisy_max import NoisyMaxMechanism, TopKMechanism
from ledgerwood.mechanisms.quantile import QuantileMechanism, RankMechanism
from ledgerwood.mechanisms.randomness import RandomSource, ReplaySource, SeededSource, SystemSource
from ledgerwood.mechanisms.running_sums import RunningSumMechanism, RunningSumRun
from ledgerwood.mechanisms.selection import ExponentialMechanism, ParallelExponentialMechanism, PermuteAndFlipMechanism
from ledgerwood.mechanisms.sparse_vector import GaussianSparseVectorMechanism, SparseVectorMechanism, SparseVectorRun
from ledgerwood.mechanisms.subsampling import FixedSizeSubsampledMechanism, PoissonSubsampledMechanism

__all__ = [
    "BoundedDiscreteLaplaceMechanism",
    "DiscreteGaussianMechanism",
    "DiscreteLaplaceMechanism",
    "ExponentialMechanism",
    "FixedSizeSubsampledMechanism",
    "GaussianMechanism",
    "GaussianSparseVectorMechanism",
    "LaplaceMechanism",
    "Mechanism",
    "NoisyMaxMechanism",
    "ParallelExponentialMechanism",
    "PermuteAndFlipMechanism",
    "PoissonSubsampledMechanism",
    "QuantileMechanism",
    "RandomSource",
    "RankMechanism",
    "ReplaySource",
    "RunningSumMechanism",
    "RunningSumRun",
    "SeededSource",
    "Sensitivity",
    "SkellamMechanism",
    "SparseVectorMechanism",
    "SparseVectorRun",
    "SystemSource",
    "TopKMechanism",
]
