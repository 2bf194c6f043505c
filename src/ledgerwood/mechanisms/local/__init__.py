"""Local and distance-based mechanisms: each value is randomized on its own, before anyone collects it."""

from ledgerwood.mechanisms.local.distributions import BoundedLaplace, ClampedLaplace, bounded_laplace_tau
from ledgerwood.mechanisms.local.domain import Domain, DomainMapping, Partition
from ledgerwood.mechanisms.local.guarantees import ConstantClaim, DistanceClaim, DistanceProfile, PartitionClaim
from ledgerwood.mechanisms.local.order_preserving import AdjMap, GlobalMap, LaplaceMap, LocalMap
from ledgerwood.mechanisms.local.randomizers import GeneralizedRandomizedResponse, PiecewiseMechanism, UnaryEncoding
from ledgerwood.mechanisms.local.utility import (
    RangeQueries,
    adj_map_bound,
    global_map_bound,
    order_preservation,
    order_probabilities,
    randomized_response_order,
    weighted_kendall,
)

__all__ = [
    "AdjMap",
    "BoundedLaplace",
    "ClampedLaplace",
    "ConstantClaim",
    "DistanceClaim",
    "DistanceProfile",
    "Domain",
    "DomainMapping",
    "GeneralizedRandomizedResponse",
    "GlobalMap",
    "LaplaceMap",
    "LocalMap",
    "Partition",
    "PartitionClaim",
    "PiecewiseMechanism",
    "RangeQueries",
    "UnaryEncoding",
    "adj_map_bound",
    "bounded_laplace_tau",
    "global_map_bound",
    "order_preservation",
    "order_probabilities",
    "randomized_response_order",
    "weighted_kendall",
]
