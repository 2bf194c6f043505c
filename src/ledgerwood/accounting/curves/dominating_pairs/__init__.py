r"""Dominating pairs: each mechanism as the distribution of one privacy loss.

An ordered pair :math:`(P, Q)` *dominates* a mechanism when its profile
:math:`\delta(\varepsilon) = \sup_S P(S) - e^{\varepsilon} Q(S)` is at least that of every pair of output
distributions on neighbouring
inputs. Composition acts on the distribution of the loss :math:`L = \log dP/dQ` alone, so a pair is described by the
masses that P and
Q give to cells of the loss axis, in logs and without cancellation (:meth:`LossPair.log_cells`).

Every pair is exact for its mechanism (its profile is attained) unless its docstring says *bound*.
Derivations: ``docs/theory/privacy-loss-distributions.md``.
"""

from ledgerwood.accounting.curves.dominating_pairs.allocation import AllocationPair, renyi_of_allocation
from ledgerwood.accounting.curves.dominating_pairs.base import Array, Cells, LossPair, MaxPair, SubsampledPair
from ledgerwood.accounting.curves.dominating_pairs.composite import BoundedLossPair, ProductPair
from ledgerwood.accounting.curves.dominating_pairs.continuous import BoundedRangePair, GaussianPair, LaplacePair
from ledgerwood.accounting.curves.dominating_pairs.discrete import (
    ApproxDPPair,
    DiscreteGaussianPair,
    DiscreteLaplacePair,
    PmfPair,
    PureDPPair,
    RandomizedResponsePair,
    SkellamPair,
)
from ledgerwood.accounting.curves.dominating_pairs.mixtures import (
    MixturePair,
    PublicChoicePair,
    TwoSidedPair,
    renyi_above,
)

__all__ = [
    "AllocationPair",
    "ApproxDPPair",
    "Array",
    "BoundedLossPair",
    "BoundedRangePair",
    "Cells",
    "DiscreteGaussianPair",
    "DiscreteLaplacePair",
    "GaussianPair",
    "LaplacePair",
    "LossPair",
    "MaxPair",
    "MixturePair",
    "PmfPair",
    "ProductPair",
    "PublicChoicePair",
    "PureDPPair",
    "RandomizedResponsePair",
    "SkellamPair",
    "SubsampledPair",
    "TwoSidedPair",
    "renyi_above",
    "renyi_of_allocation",
]
