"""From a selection sample to the few events that are worth a certificate, and their shares of the error."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ledgerwood.verification.events import Candidate, Event, choose, different, low_bit_scores, propose, relearn
from ledgerwood.verification.features import Encoded
from ledgerwood.verification.lattice import find_lattice, hints_of
from ledgerwood.verification.report import Picture
from ledgerwood.verification.scores import Memo, Score
from ledgerwood.verification.search import Pair
from ledgerwood.verification.statements import Claim, Statement

__all__ = ["Finalist", "Selection", "picture_of", "select"]

_FLOATING_SHARE = 0.1  # of the error: such a leak is all or nothing, and a tenth of the error costs it 0.4 of epsilon


_LATTICE_ROWS = 90_000  # rows per input on which such events are compared
_EVENTS = 3  # events on values that share the error: a lucky choice costs more than a smaller share


@dataclass(frozen=True, slots=True)
class Finalist:
    """An event, the statement it may contradict, and its share of the error; the shares of a report sum to one.

    Of the finalists of one ``kind`` ("values", "mu", "floating point") the report keeps the one with the largest bound.
    """

    kind: str
    event: Event
    statement: Statement
    share: float


@dataclass(frozen=True, slots=True)
class Selection:
    """What one selection sample suggests: events on values (best first), perhaps one for mu and one for the lattice."""

    values: list[tuple[Candidate, Statement]]
    floating: tuple[Candidate, Statement] | None

    @property
    def promise(self) -> float:
        """The best promise of any event."""
        return max((c.promise for c, _ in [*self.values, *self._lattice]), default=-math.inf)

    @property
    def _lattice(self) -> list[tuple[Candidate, Statement]]:
        return [] if self.floating is None else [self.floating]

    @property
    def is_never(self) -> bool:
        """Whether the best event was seen on one input only."""
        return bool(self.values) and self.values[0][0].hits2 == 0

    def finalists(self, first: Encoded, second: Encoded, most: int | None = None) -> list[Finalist]:
        """Events to certify (at most so many on values), their scores learned again from all rows of the selection."""
        memo: Memo = {}
        values = self.values[:most]
        share = (1.0 - _FLOATING_SHARE * len(self._lattice)) / max(1, len(values))
        chosen = [
            Finalist(
                "mu" if statement.quantity == "mu" else "values", relearn(c, first, second, memo), statement, share
            )
            for c, statement in values
        ]
        lattice = [Finalist("floating point", c.event, statement, _FLOATING_SHARE) for c, statement in self._lattice]
        return chosen + lattice


def select(first: Encoded, second: Encoded, pair: Pair, claim: Claim, fresh: int, *, classifiers: bool) -> Selection:
    """Learn scores on the first quarter, choose events on the rest.

    An event on floating-point patterns joins those on values if it promises a violation that they do not show; an event
    for mu if the claim is Gaussian. ``fresh`` outputs per input await the events.
    """
    quarter = len(first) // 4
    learn1, learn2 = first.part(0, quarter), second.part(0, quarter)
    cut1, cut2 = first.part(quarter, len(first)), second.part(quarter, len(second))
    scores = propose(learn1, learn2, classifiers=classifiers)
    if not scores:
        return Selection([], None)
    ranked = choose(scores, cut1, cut2, claim.promise, fresh=fresh)
    best = ranked[0]
    never = best.hits2 == 0  # an event of one input only needs no company
    values = [best] if never else different(ranked, cut1, cut2, _EVENTS)
    chosen = [(c, _statement(c, claim)) for c in values]
    if claim.mu is not None:
        chosen.append((choose(scores, cut1, cut2, claim.mu.promise, fresh=fresh)[0], claim.mu))
    floating = _floating(learn1, learn2, cut1, cut2, pair, claim, fresh)
    if floating is None or floating.promise <= max(best.promise, _alarm(claim)):
        return Selection(chosen, None)
    return Selection(chosen, (floating, _statement(floating, claim)))


def _statement(candidate: Candidate, claim: Claim) -> Statement:
    return claim.worst(candidate.hits1, candidate.hits2, candidate.rows)


def _alarm(claim: Claim) -> float:
    """The promise from which an event is worth a share of the error: above the claim, or two standard errors."""
    return 2.0 if claim.is_profile else claim.points[0].claimed


def _floating(
    learn1: Encoded, learn2: Encoded, cut1: Encoded, cut2: Encoded, pair: Pair, claim: Claim, fresh: int
) -> Candidate | None:
    scores: list[Score] = [
        *find_lattice(learn1, hints_of(pair.first)),
        *find_lattice(learn2, hints_of(pair.second)),
        *low_bit_scores(learn1, learn2),
    ]
    few1, few2 = cut1.part(0, _LATTICE_ROWS), cut2.part(0, _LATTICE_ROWS)
    return choose(scores, few1, few2, claim.promise, fresh=fresh)[0] if scores else None


def picture_of(event: Event, first: Encoded, second: Encoded, bins: int = 60) -> Picture:
    """Histograms of the event's score on both inputs."""
    most = 50_000
    s1, s2 = (event.score(side.part(0, most)) for side in (first, second))
    finite = np.concatenate([s1, s2])
    finite = finite[np.isfinite(finite)]
    low, high = (float(np.quantile(finite, q)) for q in (0.001, 0.999)) if finite.size else (0.0, 1.0)
    edges = np.linspace(low, high if high > low else low + 1.0, bins + 1)
    counts = [np.histogram(np.clip(s[np.isfinite(s)], edges[0], edges[-1]), edges)[0] for s in (s1, s2)]
    return Picture(
        event.score.name,
        tuple(edges.tolist()),
        tuple(int(c) for c in counts[0]),
        tuple(int(c) for c in counts[1]),
        event.cut,
        event.above,
    )
