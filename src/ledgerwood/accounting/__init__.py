"""What privacy costs: costs as an algebra, accountants that price them, calibration, plans and ledgers.

Plans and ledgers are imported at first use, so that pricing alone stays light.

>>> from ledgerwood.accounting import BoundedRange, Gaussian
>>> c = 200 * BoundedRange(0.0339) + 50 * Gaussian(sigma=45.0)
>>> 0.99 < c.epsilon(delta=1/32561) <= 1.0
True
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import ledgerwood.accounting.accountant.methods  # noqa: F401  (installs the accountant that prices every cost)
from ledgerwood.accounting.accountant.calibration import affordable, calibrate
from ledgerwood.accounting.adjacency import Neighbours
from ledgerwood.accounting.costs.allocation import RandomAllocation
from ledgerwood.accounting.costs.base import Account, Cost, sequence, zero
from ledgerwood.accounting.costs.discrete_noise import DiscreteGaussian, DiscreteLaplace, RandomizedResponse, Skellam
from ledgerwood.accounting.costs.dp_sgd import dp_sgd
from ledgerwood.accounting.costs.fixed_batches import TruncatedPoisson, WithoutReplacement
from ledgerwood.accounting.costs.guarantees import RDP, ZCDP, ApproxDP, PrivacyLoss, PureDP
from ledgerwood.accounting.costs.noise import Gaussian, Laplace
from ledgerwood.accounting.costs.parallel import parallel
from ledgerwood.accounting.costs.selection import BoundedRange, NoisyMax, PermuteAndFlip, SparseVector
from ledgerwood.accounting.costs.subsampled import PoissonSubsampled

if TYPE_CHECKING:
    from ledgerwood.accounting.ledger.ledger import Ledger, PaidPlan
    from ledgerwood.accounting.plan.plan import Plan
    from ledgerwood.accounting.plan.releases import InParallel, InSequence, Release

_HOME = {
    "InParallel": "plan.releases",
    "InSequence": "plan.releases",
    "Ledger": "ledger.ledger",
    "PaidPlan": "ledger.ledger",
    "Plan": "plan.plan",
    "Release": "plan.releases",
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


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
