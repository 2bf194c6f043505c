"""What privacy costs: costs as an algebra, accountants that price them, and calibration.

>>> from ledgerwood.accounting import BoundedRange, Gaussian
>>> c = 200 * BoundedRange(0.0339) + 50 * Gaussian(sigma=45.0)
>>> 0.99 < c.epsilon(delta=1/32561) <= 1.0
True
"""

from ledgerwood.accounting.account import Account
from ledgerwood.accounting.algebra import Cost, sequence, zero
from ledgerwood.accounting.calibration import calibrate
from ledgerwood.accounting.costs import (
    RDP,
    ZCDP,
    ApproxDP,
    BoundedRange,
    Gaussian,
    Laplace,
    PermuteAndFlip,
    PureDP,
)
from ledgerwood.accounting.discrete import DiscreteGaussian, DiscreteLaplace, RandomizedResponse, Skellam
from ledgerwood.accounting.disjoint import parallel
from ledgerwood.accounting.ledger import Ledger
from ledgerwood.accounting.neighbours import Neighbours
from ledgerwood.accounting.plan import Plan
from ledgerwood.accounting.privacy_loss import PrivacyLoss
from ledgerwood.accounting.releases import InParallel, InSequence, Release
from ledgerwood.accounting.sparse import SparseVector
from ledgerwood.accounting.subsampling import PoissonSubsampled

__all__ = [
    "RDP",
    "ZCDP",
    "Account",
    "ApproxDP",
    "BoundedRange",
    "Cost",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Gaussian",
    "InParallel",
    "InSequence",
    "Laplace",
    "Ledger",
    "Neighbours",
    "PermuteAndFlip",
    "Plan",
    "PoissonSubsampled",
    "PrivacyLoss",
    "PureDP",
    "RandomizedResponse",
    "Release",
    "Skellam",
    "SparseVector",
    "calibrate",
    "parallel",
    "sequence",
    "zero",
]
