"""What privacy costs: costs as an algebra, accountants that price them, calibration, plans and ledgers.

Plans, ledgers and the costs of batch samplers are imported at first use, so that pricing alone stays light.

>>> from ledgerwood.accounting import BoundedRange, Gaussian
>>> c = 200 * BoundedRange(0.0339) + 50 * Gaussian(sigma=45.0)
>>> 0.99 < c.epsilon(delta=1/32561) <= 1.0
True
"""

from typing import TYPE_CHECKING

import ledgerwood.accounting.accountant.methods  # noqa: F401  (installs the accountant that prices every cost)
from ledgerwood._imports import at_first_use
from ledgerwood.accounting.accountant.calibration import affordable, calibrate
from ledgerwood.accounting.adjacency import Neighbours
from ledgerwood.accounting.costs.base import Account, Cost, sequence, zero
from ledgerwood.accounting.costs.discrete_noise import DiscreteGaussian, DiscreteLaplace, RandomizedResponse, Skellam
from ledgerwood.accounting.costs.guarantees import RDP, ZCDP, ApproxDP, PrivacyLoss, PureDP
from ledgerwood.accounting.costs.noise import Gaussian, Laplace
from ledgerwood.accounting.costs.parallel import parallel
from ledgerwood.accounting.costs.selection import BoundedRange, NoisyMax, PermuteAndFlip, SparseVector
from ledgerwood.accounting.costs.subsampled import PoissonSubsampled

if TYPE_CHECKING:
    from ledgerwood.accounting.costs.allocation import RandomAllocation
    from ledgerwood.accounting.costs.correlated_noise import MatrixMechanism
    from ledgerwood.accounting.costs.dp_sgd import dp_sgd
    from ledgerwood.accounting.costs.fixed_batches import TruncatedPoisson, WithoutReplacement
    from ledgerwood.accounting.ledger.ledger import Ledger, PaidPlan
    from ledgerwood.accounting.plan.plan import Plan
    from ledgerwood.accounting.plan.releases import InParallel, InSequence, Release

_HOME = {
    "InParallel": "plan.releases",
    "InSequence": "plan.releases",
    "Ledger": "ledger.ledger",
    "MatrixMechanism": "costs.correlated_noise",
    "PaidPlan": "ledger.ledger",
    "Plan": "plan.plan",
    "RandomAllocation": "costs.allocation",
    "Release": "plan.releases",
    "TruncatedPoisson": "costs.fixed_batches",
    "WithoutReplacement": "costs.fixed_batches",
    "dp_sgd": "costs.dp_sgd",
}

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
    "MatrixMechanism",
    "Neighbours",
    "NoisyMax",
    "PaidPlan",
    "PermuteAndFlip",
    "Plan",
    "PoissonSubsampled",
    "PrivacyLoss",
    "PureDP",
    "RandomAllocation",
    "RandomizedResponse",
    "Release",
    "Skellam",
    "SparseVector",
    "TruncatedPoisson",
    "WithoutReplacement",
    "affordable",
    "calibrate",
    "dp_sgd",
    "parallel",
    "sequence",
    "zero",
]

__getattr__ = at_first_use(__name__, _HOME)
