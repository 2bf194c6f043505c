"""Random allocation: each record is in a fixed number of the batches of an epoch, which ones is random."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ledgerwood import _checks
from ledgerwood._checks import Array
from ledgerwood.accounting.adjacency import Neighbours
from ledgerwood.accounting.costs.base import Atom, Cost, set_fields
from ledgerwood.accounting.costs.guarantees import RDP, PureDP, group_curve
from ledgerwood.accounting.costs.selection import BoundedRange
from ledgerwood.accounting.curves.dominating_pairs.allocation import (
    AllocationPair,
    renyi_of_allocation,
    within_reach,
)
from ledgerwood.accounting.curves.dominating_pairs.base import LossPair
from ledgerwood.accounting.curves.dominating_pairs.continuous import GaussianPair
from ledgerwood.errors import ParameterError


@dataclass(frozen=True, slots=True, init=False, repr=False)
class RandomAllocation(Atom):
    r"""One epoch of ``bins`` releases of the cost ``cost``: each record is in ``picks`` of them, chosen at random.

    Every record chooses its bins independently of the other records, afresh in every epoch: ``k * RandomAllocation(…)``
    is k epochs. With ``picks=1`` this is *balls in bins*. With more, the price is that of ``picks`` allocations to
    one of ``bins // picks`` bins, which dominates (Feldman & Shenfeld 2025, arXiv:2502.08202).

    Two things it does not price. Batches cut from a *shuffled* dataset: there a record's place says something about
    the others' places, and the privacy can be much worse (Chua et al. 2024, arXiv:2411.04205). Bins that are drawn once
    and *reused* in E epochs: then the record is in the same bin E times, and the cost is one allocation of a release of
    the cost ``E * cost``.

    Theory: docs/theory/random-allocation.md.

    >>> from ledgerwood.accounting import Gaussian
    >>> epoch = RandomAllocation(Gaussian(sigma=1.0), bins=100)
    >>> f"{epoch.epsilon(delta=1e-5):.3f}"
    '0.621'
    """

    cost: Cost
    bins: int
    picks: int
    neighbours: Neighbours

    def __init__(self, cost: Cost, *, bins: int, picks: int = 1, neighbours: str | None = None) -> None:
        if not isinstance(cost, Cost):
            raise ParameterError("cost", "be a cost", cost)
        if cost.neighbours is Neighbours.REPLACE_ONE:
            hint = (
                "Price one bin under add_remove or zero_out: a replaced record is in a bin of its own choice either way"
            )
            raise ParameterError("cost", "speak of a record that is there or not", str(cost.neighbours), hint)
        if neighbours is not None and neighbours != cost.neighbours:
            raise ParameterError("neighbours", f"equal those of the cost ({str(cost.neighbours)!r})", neighbours)
        if cost.infinite_mass() > 0:
            raise ParameterError("cost", "have no mass of infinite loss", cost)
        if not cost.is_free() and release_pair(cost) is None:
            hint = "A cost known only by its Rényi curve cannot be allocated; use PoissonSubsampled"
            raise ParameterError("cost", "have one dominating pair", cost, hint)
        count = _checks.integer("bins", bins, 1)
        chosen = _checks.integer("picks", picks, 1)
        if chosen > count:
            raise ParameterError("picks", f"be at most the number of bins ({count})", picks)
        set_fields(self, cost.neighbours, cost=cost, bins=count, picks=chosen)

    def parameters(self) -> dict[str, Any]:
        return {"cost": self.cost, "bins": self.bins, "picks": self.picks}

    def at_most(self, other: Cost) -> bool:
        return (
            isinstance(other, RandomAllocation)
            and (self.cost == other.cost)
            and self.picks <= other.picks
            and self.bins // self.picks >= other.bins // other.picks
        )

    @property
    def block(self) -> int:
        """How many bins there are for each pick."""
        return self.bins // self.picks

    def priced_terms(self) -> tuple[tuple[Cost, int], ...]:
        if self.is_free():
            return ()
        if self.picks == self.bins:
            return tuple((part, self.picks * n) for part, n in self.cost.priced_terms())
        if self.picks == 1 and self._gains():
            return ((self, 1),)
        return ((_AllocationBlock(self.cost, bins=self.block if self._gains() else 1), self.picks),)

    def _gains(self) -> bool:
        """Whether allocating is priced below no allocation at all: not if the noise is next to nothing."""
        base = release_pair(self.cost)
        return self.block > 1 and base is not None and within_reach(base)

    def is_tight(self) -> bool:
        # One pair bounds a selection, but no single selection attains it in a composition.
        tight = all(part.is_tight() and not isinstance(part, BoundedRange) for part, _ in self.cost.priced_terms())
        return self.picks == 1 and tight

    def pure_epsilon(self) -> float:
        return self.picks * self.cost.pure_epsilon()

    def mu(self) -> float | None:
        mu = self.cost.mu() if self.block == 1 else None
        return None if mu is None else math.sqrt(self.picks) * mu

    def largest_order(self) -> float:
        return self.cost.largest_order()

    def renyi(self, alpha: Array) -> Array:
        pair = None if self.is_free() or not self._gains() else release_pair(self.cost)
        if pair is None:
            return np.asarray(self.picks * self.cost.renyi(alpha))
        orders = np.asarray(alpha, dtype=np.float64)
        found = renyi_of_allocation(pair, self.block, self.cost.renyi, tuple(orders.ravel().tolist()))
        return np.asarray(self.picks * found.reshape(orders.shape))

    def pairs(self) -> tuple[LossPair, ...] | None:
        base = release_pair(self.cost)
        if base is None or self.picks > 1:
            return None
        if not self._gains():
            return self.cost.pairs() if self.cost.mu() is None else (base,)
        return AllocationPair(base, self.bins, "remove"), AllocationPair(base, self.bins, "add")

    def lower_pairs(self) -> tuple[LossPair, ...] | None:
        base = release_pair(self.cost)
        if base is None or not self.is_tight():
            return None
        if not self._gains():
            return self.pairs() if self.bins == 1 else None
        return (AllocationPair(base, self.bins, "remove", upper=False),)

    def _group(self, k: int) -> Cost:
        if self.pure_epsilon() < math.inf:
            return PureDP(k * self.pure_epsilon(), neighbours=self.neighbours)
        return RDP(group_curve(self.renyi, k), neighbours=self.neighbours)


class _AllocationBlock(RandomAllocation):
    """One pick of several: dominates its share, and no mechanism attains it."""

    __slots__ = ()

    def priced_terms(self) -> tuple[tuple[Cost, int], ...]:
        return ((self, 1),)

    def is_tight(self) -> bool:
        return False


def release_pair(cost: Cost) -> LossPair | None:
    """The pair (with the record, without it) that dominates one release, if there is one."""
    mu = cost.mu()
    if mu:
        return GaussianPair(mu)
    pairs = cost.pairs()
    return pairs[0] if pairs else None
