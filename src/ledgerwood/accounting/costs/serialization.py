"""Costs as plain JSON values, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ledgerwood import _checks
from ledgerwood.accounting.costs.allocation import RandomAllocation
from ledgerwood.accounting.costs.base import Atom, Composition, Cost, compose, sequence
from ledgerwood.accounting.costs.correlated_noise import MatrixMechanism
from ledgerwood.accounting.costs.discrete_noise import DiscreteGaussian, DiscreteLaplace, RandomizedResponse, Skellam
from ledgerwood.accounting.costs.fixed_batches import TruncatedPoisson, WithoutReplacement
from ledgerwood.accounting.costs.guarantees import RDP, ZCDP, ApproxDP, PrivacyLoss, PureDP
from ledgerwood.accounting.costs.noise import Gaussian, Laplace
from ledgerwood.accounting.costs.parallel import Parallel, Worst, parallel, worst
from ledgerwood.accounting.costs.sampled_gaussians import PoissonSubsampledGroup
from ledgerwood.accounting.costs.selection import BoundedRange, NoisyMax, PermuteAndFlip, SparseVector
from ledgerwood.accounting.costs.subsampled import PoissonSubsampled
from ledgerwood.errors import FormatError, LedgerwoodError, ParameterError

KINDS: dict[str, Callable[..., Atom]] = {
    kind.__name__: kind
    for kind in (
        PureDP,
        ApproxDP,
        BoundedRange,
        NoisyMax,
        PermuteAndFlip,
        Gaussian,
        Laplace,
        ZCDP,
        RDP,
        DiscreteLaplace,
        DiscreteGaussian,
        Skellam,
        RandomizedResponse,
        SparseVector,
        PrivacyLoss,
        PoissonSubsampled,
        PoissonSubsampledGroup,
        RandomAllocation,
        WithoutReplacement,
        TruncatedPoisson,
        MatrixMechanism,
    )
}

SAMPLED = (PoissonSubsampled, PoissonSubsampledGroup, RandomAllocation, WithoutReplacement, TruncatedPoisson)
"""Kinds with a cost inside."""

MOST_PARTS = 10**7
"""How many parts a cost that is read may have: those of a parallel one are listed one by one."""


def to_dict(cost: Cost) -> dict[str, Any]:
    """A cost as plain values; floats survive exactly.

    >>> to_dict(2 * PureDP(0.5))
    {'kind': 'sum', 'parts': [[{'kind': 'PureDP', 'epsilon': 0.5}, 2]]}
    """
    found = _body(cost)
    if str(cost.neighbours) != "add_remove":
        found["neighbours"] = str(cost.neighbours)
    return found


def _body(cost: Cost) -> dict[str, Any]:
    if isinstance(cost, Composition):
        kind = "sequence" if cost.ordered else "sum"
        return {"kind": kind, "parts": [[to_dict(part), n] for part, n in cost.parts]}
    if isinstance(cost, Parallel):
        return {"kind": "parallel", "parts": [[to_dict(part), n] for part, n in cost.parts]}
    if isinstance(cost, Worst):
        return {"kind": "worst", "parts": [to_dict(part) for part in cost.options]}
    if isinstance(cost, SAMPLED):
        return {"kind": type(cost).__name__, **cost.parameters(), "cost": to_dict(cost.cost)}
    if isinstance(cost, RDP):
        if not isinstance(cost.curve, tuple):
            hint = "Give the curve as a table {order: value}"
            raise ParameterError("cost", "be free of Python functions to be written as JSON", "RDP(function)", hint)
        return {"kind": "RDP", "curve": [list(row) for row in cost.curve]}
    if isinstance(cost, Atom) and type(cost).__name__ in KINDS:
        return {"kind": type(cost).__name__, **cost.parameters()}
    raise ParameterError("cost", "be a cost of this library to be written as JSON", type(cost).__name__)


def from_dict(data: Any) -> Cost:
    """The cost that :func:`to_dict` wrote.

    >>> from_dict({"kind": "Gaussian", "sigma": 45.0, "sensitivity": 1.0})
    Gaussian(sigma=45.0, sensitivity=1.0)
    """
    if not isinstance(data, dict) or "kind" not in data:
        raise FormatError("a cost must be an object with the field 'kind'")
    fields = dict(data)
    kind = fields.pop("kind")
    relation = fields.pop("neighbours", "add_remove")
    try:
        if kind in ("sum", "sequence", "parallel", "worst"):
            parts = fields.pop("parts")
            if fields:
                raise FormatError(f"unknown field {next(iter(fields))!r} in a cost of kind {kind!r}")
            return _composite(kind, parts, relation)
        if kind not in KINDS:
            raise FormatError(f"unknown cost kind {kind!r}; this version knows {', '.join(sorted(KINDS))}")
        if kind in {sampled.__name__ for sampled in SAMPLED}:
            fields["cost"] = from_dict(fields["cost"])
        if kind == "RDP":
            fields["curve"] = [tuple(row) for row in fields["curve"]]
        return KINDS[kind](**fields, neighbours=relation)
    except LedgerwoodError:
        raise
    except (TypeError, KeyError, ValueError, AttributeError, OverflowError) as error:
        raise FormatError(f"a cost of kind {kind!r} has a missing or unknown field: {error}") from None


def _composite(kind: str, parts: Any, relation: str) -> Cost:
    if kind == "worst":
        return worst((from_dict(part) for part in parts), neighbours=relation)
    counted = [(from_dict(part), _checks.integer("count", n, 1)) for part, n in parts]
    if sum(n for _, n in counted) > MOST_PARTS:
        raise FormatError(f"a cost of kind {kind!r} has at most {MOST_PARTS} parts")
    if kind == "parallel":
        return parallel(*(part for part, n in counted for _ in range(n)), neighbours=relation)
    return (sequence if kind == "sequence" else compose)(counted, neighbours=relation)
