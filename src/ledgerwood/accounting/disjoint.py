"""Parallel composition: releases on disjoint records, and the worst of several costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from ledgerwood.accounting.algebra import Atom, Composition, Cost, common_neighbours, compose, sort_key
from ledgerwood.accounting.checks import Array
from ledgerwood.accounting.neighbours import Neighbours
from ledgerwood.errors import ParameterError

if TYPE_CHECKING:
    from ledgerwood.accounting.pairs import LossPair


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
    """The worst of several costs, whichever it turns out to be: every curve is the pointwise maximum."""

    options: tuple[Cost, ...]
    neighbours: Neighbours = Neighbours.ADD_REMOVE

    def priced_terms(self) -> tuple[tuple[Cost, int], ...]:
        return self.options[0].priced_terms() if len(self.options) == 1 else ((self, 1),)

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
        from ledgerwood.accounting.pairs import MaxPair

        found = [f for c in self.options if (f := c.pairs()) is not None]
        if len(found) < len(self.options):
            return None
        remove = MaxPair(tuple(f[0] for f in found))
        if all(len(f) == 1 for f in found):
            return (remove,)
        return remove, MaxPair(tuple(f[-1] for f in found))

    def _group(self, k: int) -> Cost:
        return worst(c.group(k) for c in self.options)


def worst(costs: Iterable[Cost]) -> Cost:
    """The worst of several costs; a plain cost when one of them dominates the others."""
    kept = _undominated(costs)
    return kept[0] if len(kept) == 1 else Worst(kept, common_neighbours(kept))


@dataclass(frozen=True, slots=True)
class Parallel(Worst):
    """Releases on disjoint records. ``options`` is what one changed record can cost; ``parts`` counts the parts."""

    parts: tuple[tuple[Cost, int], ...] = field(default=())

    def __repr__(self) -> str:
        return f"parallel({', '.join(repr(part) if n == 1 else f'*{n} * [{part!r}]' for part, n in self.parts)})"

    def _group(self, k: int) -> Cost:
        """Price k changed records, wherever they lie.

        A changed record touches one part, or two under replace-one. n touches of one part are a group of n there;
        touches of different parts compose. Every way of spreading the touches over the parts is an option.
        """
        touches = k if self.neighbours is Neighbours.ADD_REMOVE else 2 * k
        ways: list[tuple[int, list[Cost]]] = [(touches, [])]
        for part, available in self.parts:
            ways = [
                (rest - n, [*chosen, *(part.group(size) for size in sizes)])
                for rest, chosen in ways
                for n in range(rest + 1)
                for sizes in _partitions(n, available, n)
            ]
            if len(ways) > 20_000:
                hint = "Merge parts of equal cost, or price each record's rows as one record"
                raise ParameterError("k", "leave few enough ways to spread k records over the parts", k, hint)
        return worst(
            compose([t for c in chosen for t in c.terms], neighbours=self.neighbours)
            for rest, chosen in ways
            if rest == 0
        )


def _partitions(n: int, most: int, largest: int) -> Iterator[tuple[int, ...]]:
    """Ways to write n as a sum of at most ``most`` positive parts, each at most ``largest``, decreasing."""
    if n == 0:
        yield ()
    elif most > 0:
        for first in range(min(n, largest), 0, -1):
            for rest in _partitions(n - first, most - 1, first):
                yield (first, *rest)


def parallel(*costs: Cost) -> Cost:
    """Releases on disjoint records.

    Under ``add_remove`` one record touches one part, so the worst part counts. Under ``replace_one`` the record may
    move from one part to another, so the worst *pair* of parts counts, added. That the parts are disjoint, and that
    the part of a record is a function of that record and of what was released, is the caller's promise.

    >>> from ledgerwood.accounting import PureDP
    >>> parallel(PureDP(0.5), PureDP(0.2)).epsilon(delta=0)
    0.5
    >>> parts = [PureDP(e, neighbours="replace_one") for e in (0.5, 0.2, 0.1)]
    >>> parallel(*parts).epsilon(delta=0)
    0.7
    """
    if not costs or not all(isinstance(c, Cost) for c in costs):
        raise ParameterError("costs", "be one or more costs", costs)
    relation = common_neighbours(costs)
    if len(costs) == 1:
        return costs[0]
    counts: dict[Cost, int] = {}
    for c in costs:
        counts[c] = counts.get(c, 0) + 1
    parts = tuple(sorted(counts.items(), key=lambda item: sort_key(item[0])))
    options: list[Cost] = list(counts)
    if relation is Neighbours.REPLACE_ONE:
        options = [a + b for (a, _), (b, _) in combinations(parts, 2)] + [2 * a for a, n in parts if n > 1]
    return Parallel(_undominated(options), relation, parts)
