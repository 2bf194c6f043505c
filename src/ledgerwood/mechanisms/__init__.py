"""How a value is released: exact mechanisms, each a frozen value that knows its sensitivity and its cost.

>>> m = DiscreteLaplaceMechanism(scale=10.0)
>>> m.cost.epsilon(delta=0.0)
0.1
"""

from ledgerwood.mechanisms.base import Mechanism, Sensitivity
from ledgerwood.mechanisms.discrete import DiscreteGaussianMechanism, DiscreteLaplaceMechanism, SkellamMechanism
from ledgerwood.mechanisms.grid import GaussianMechanism, LaplaceMechanism
from ledgerwood.mechanisms.randomness import RandomSource, ReplaySource, SeededSource, SystemSource

__all__ = [
    "DiscreteGaussianMechanism",
    "DiscreteLaplaceMechanism",
    "GaussianMechanism",
    "LaplaceMechanism",
    "Mechanism",
    "RandomSource",
    "ReplaySource",
    "SeededSource",
    "Sensitivity",
    "SkellamMechanism",
    "SystemSource",
]
