"""Local and distance-based mechanisms: each value is randomised on its own, before anyone collects it."""

from .claims import ConstantClaim, DistanceClaim, DistanceProfile, PartitionClaim
from .domain import Domain, DomainMapping, Partition
from .kendall import weighted_kendall
from .laws import BoundedLaplace, ClampedLaplace, bounded_laplace_tau
from .maps import AdjMap, GlobalMap, LaplaceMap, LocalMap
from .nominal import GeneralisedRandomisedResponse, UnaryEncoding
from .order import (
    adj_map_bound,
    global_map_bound,
    order_preservation,
    order_probabilities,
    randomised_response_order,
)
from .piecewise import PiecewiseMechanism
from .queries import RangeQueries

__all__ = [
    "AdjMap",
    "BoundedLaplace",
    "ClampedLaplace",
    "ConstantClaim",
    "DistanceClaim",
    "DistanceProfile",
    "Domain",
    "DomainMapping",
    "GeneralisedRandomisedResponse",
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
    "randomised_response_order",
    "weighted_kendall",
]
