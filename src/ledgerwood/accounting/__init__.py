"""What privacy costs: costs as an algebra, accountants that price them, calibration, plans and ledgers.

Plans and ledgers are imported at first use, so that pricing alone stays light.

>>> from ledgerwood.accounting import BoundedRange, Gaussian
>>> c = 200 * BoundedRange(0.0339) + 50 * Gaussian(sigma=45.0)
>>> 0.99 < c.epsilon(delta=1/32561) <= 1.0
True
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
from ledgerwood.accounting.neighbours import Neighbours
from ledgerwood.accounting.privacy_loss import PrivacyLoss
from ledgerwood.accounting.sparse import SparseVector
from ledgerwood.accounting.subsampling import PoissonSubsampled

if TYPE_CHECKING:
    from ledgerwood.accounting.ledger import Ledger
    from ledgerwood.accounting.plan import Plan
    from ledgerwood.accounting.releases import InParallel, InSequence, Release

_HOME = {"InParallel": "releases", "InSequence": "releases", "Ledger": "ledger", "Plan": "plan", "Release": "releases"}

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


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
