"""Parallel composition: releases on disjoint records, and the worst of several costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from ledgerwood._checks import Array
from ledgerwood.accounting.adjacency import Neighbours, as_neighbours
from ledgerwood.accounting.costs.base import Atom, Composition, Cost, common_neighbours, compose, sort_key
from ledgerwood.errors import ParameterError

if TYPE_CHECKING:
    from ledgerwood.accounting.curves.dominating_pairs.base import LossPair

PART_RULE = "state what a part costs when one record is added or removed (neighbours='add_remove')"
PART_HINT = (
    "A record that moves leaves one part and enters another, which a replace-one cost does not bound. State the "
    "add/remove costs of the parts"
)


def _dominates(big: Cost, small: Cost) -> bool:
    """Whether ``big`` is known to dominate ``small``, release by release (False when unsure)."""
    if big == small or small.is_free():
        return True
    if any(isinstance(c, Composition) and c.ordered for c in (big, small)):
        return False
    room = dict(big.terms)
    for part, n in small.terms:
        for other in room:
            if n and isinstance(part, Atom) and part.at_most(other):
                taken = min(room[other], n)
                room[other] -= taken
                n -= taken
        if n:
            return False
    return True


def _undominated(costs: Iterable[Cost]) -> tuple[Cost, ...]:
    """The costs that no other one dominates, in canonical order."""
    kept: list[Cost] = []
    for c in costs:
        if not any(_dominates(k, c) for k in kept):
            kept = [k for k in kept if not _dominates(c, k)] + [c]
    return tuple(sorted(kept, key=sort_key))


@dataclass(frozen=True, slots=True)
class Worst(Cost):
    """The worst of several costs, whichever it turns out to be: every curve is the pointwise maximum.

    The options of a parallel composition under replace-one speak of records added and removed; the whole does not.
    """

    options: tuple[Cost, ...]
    neighbours: Neighbours = Neighbours.ADD_REMOVE

    def priced_terms(self) -> tuple[tuple[Cost, int], ...]:
        if len(self.options) > 1:
            return ((self, 1),)
        return tuple((_under(part, self.neighbours), n) for part, n in self.options[0].priced_terms())

    def is_tight(self) -> bool:
        return False  # the pointwise maximum of several profiles is a bound in a composition

    def pure_epsilon(self) -> float:
        return max(c.pure_epsilon() for c in self.options)

    def infinite_mass(self) -> float:
        return max(c.infinite_mass() for c in self.options)

    def rho(self) -> float | None:
        rhos = [r for c in self.options if (r := c.rho()) is not None]
        return max(rhos) if len(rhos) == len(self.options) else None

    def mu(self) -> float | None:
        mus = [m for c in self.options if (m := c.mu()) is not None]
        return max(mus) if len(mus) == len(self.options) else None

    def largest_order(self) -> float:
        return min(c.largest_order() for c in self.options)

    def renyi(self, alpha: Array) -> Array:
        return np.asarray(np.max(np.stack([c.renyi(alpha) for c in self.options]), axis=0))

    def pairs(self) -> tuple[LossPair, ...] | None:
        from ledgerwood.accounting.curves.dominating_pairs.base import MaxPair

        found = [f for c in self.options if (f := c.pairs()) is not None]
        if len(found) < len(self.options):
            return None
        remove = MaxPair(tuple(f[0] for f in found))
        if all(len(f) == 1 for f in found):
            return (remove,)
        return remove, MaxPair(tuple(f[-1] for f in found))

    def _group(self, k: int) -> Cost:
        return worst((c.group(k) for c in self.options), neighbours=self.neighbours)


def _under(cost: Cost, neighbours: Neighbours) -> Cost:
    """The same cost, said of another relation."""
    if cost.neighbours is neighbours:
        return cost
    found = copy(cost)
    object.__setattr__(found, "neighbours", neighbours)
    return found


def worst(costs: Iterable[Cost], *, neighbours: str | None = None) -> Cost:
    """The worst of several costs; a plain cost when one of them dominates the others."""
    kept = _undominated(costs)
    relation = common_neighbours(kept) if neighbours is None else as_neighbours(neighbours)
    return kept[0] if len(kept) == 1 and kept[0].neighbours is relation else Worst(kept, relation)


@dataclass(frozen=True, slots=True)
class Parallel(Worst):
    """Releases on disjoint records. ``options`` is what one changed record can cost; ``parts`` counts the parts."""

    parts: tuple[tuple[Cost, int], ...] = field(default=())

    def __repr__(self) -> str:
        arguments = [repr(part) if n == 1 else f"*{n} * [{part!r}]" for part, n in self.parts]
        if self.neighbours is not Neighbours.ADD_REMOVE:
            arguments.append(f"neighbours={str(self.neighbours)!r}")
        return f"parallel({', '.join(arguments)})"

    def _group(self, k: int) -> Cost:
        """Price k changed records, wherever they lie."""
        ways = list(islice(_touched(self.parts, k * _touches(self.neighbours)), 20_001))
        if len(ways) > 20_000:
            hint = "Merge parts of equal cost, or price each record's rows as one record"
            raise ParameterError("k", "leave few enough ways to spread k records over the parts", k, hint)
        return worst(ways, neighbours=self.neighbours)


def _touches(neighbours: Neighbours) -> int:
    """How often one changed record is added to a part or removed from one."""
    return 1 if neighbours is Neighbours.ADD_REMOVE else 2


def _touched(parts: tuple[tuple[Cost, int], ...], touches: int) -> Iterator[Cost]:
    """The cost of every way to spread this many touches over the parts.

    n touches of one part are a group of n there; touches of different parts compose.
    """
    for ways in _spread(parts, touches):
        yield compose([term for cost in ways for term in cost.terms])


def _spread(parts: tuple[tuple[Cost, int], ...], touches: int) -> Iterator[list[Cost]]:
    if touches == 0:
        yield []
    for i, (part, available) in enumerate(parts):
        for n in range(1, touches + 1):
            for sizes in _partitions(n, available, n):
                here = [part.group(size) for size in sizes]
                for rest in _spread(parts[i + 1 :], touches - n):
                    yield here + rest


def _partitions(n: int, most: int, largest: int) -> Iterator[tuple[int, ...]]:
    """Ways to write n as a sum of at most ``most`` positive parts, each at most ``largest``, decreasing."""
    if n == 0:
        yield ()
    elif most > 0:
        for first in range(min(n, largest), 0, -1):
            for rest in _partitions(n - first, most - 1, first):
                yield (first, *rest)


def parallel(*costs: Cost, neighbours: str | None = None) -> Cost:
    """Releases on disjoint records: what each part costs when one record is added to it or removed from it.

    Under ``add_remove``, the default, one record touches one part, so the worst part counts. Under ``replace_one`` a
    record may leave one part and enter another, or be replaced inside one: the worst counts of two parts added and
    of a group of two records in one part. The costs of the parts speak of records added and removed all the same:
    what a part costs when a record is *replaced* does not bound what it costs when one leaves (a count costs nothing
    when a record is replaced). Proof: docs/theory/parallel-composition.md.

    That the parts are disjoint, and that the part of a record is a function of that record and of what was released,
    is the caller's promise.

    >>> from ledgerwood.accounting import PureDP
    >>> parallel(PureDP(0.5), PureDP(0.2)).epsilon(delta=0)
    0.5
    >>> parallel(PureDP(0.5), PureDP(0.2), neighbours="replace_one").epsilon(delta=0)
    1.0
    """
    if not costs or not all(isinstance(c, Cost) for c in costs):
        raise ParameterError("costs", "be one or more costs", costs)
    if common_neighbours(costs) is not Neighbours.ADD_REMOVE:
        hint = f"{PART_HINT}: parallel(..., neighbours='replace_one')"
        raise ParameterError("costs", PART_RULE, str(common_neighbours(costs)), hint)
    relation = Neighbours.ADD_REMOVE if neighbours is None else as_neighbours(neighbours)
    if len(costs) == 1 and relation is Neighbours.ADD_REMOVE:
        return costs[0]
    counts: dict[Cost, int] = {}
    for c in costs:
        counts[c] = counts.get(c, 0) + 1
    parts = tuple(sorted(counts.items(), key=lambda item: sort_key(item[0])))
    return Parallel(_undominated(_touched(parts, _touches(relation))), relation, parts)
