"""From a selection sample to the few events that are worth a certificate, and their shares of the error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ledgerwood.verification.events import Candidate, Event, choose, low_bit_scores, propose, relearn
from ledgerwood.verification.features import Encoded
from ledgerwood.verification.lattice import find_lattice, hints_of
from ledgerwood.verification.report import Picture
from ledgerwood.verification.scores import Score
from ledgerwood.verification.search import Pair
from ledgerwood.verification.statements import Claim, Statement

__all__ = ["Finalist", "choose_finalists", "picture_of"]

_FLOATING_SHARE = 0.1  # of the error: such a leak is all or nothing, and a tenth of the error costs it 0.4 of epsilon


@dataclass(frozen=True, slots=True)
class Finalist:
    """An event, the statement it may contradict, and its share of the error; the shares of a report sum to one."""

    event: Event
    promise: float
    statement: Statement
    share: float


def choose_finalists(first: Encoded, second: Encoded, pair: Pair, claim: Claim, fresh: int) -> list[Finalist]:
    """Learn scores on the first quarter, choose events on the rest; the best event on values comes first.

    An event on floating-point patterns joins it if it promises a violation that the values do not show; an event for mu
    if the claim is Gaussian. The chosen scores are learned again from all rows. ``fresh`` outputs per input await them.
    """
    quarter = len(first) // 4
    learn1, learn2 = first.part(0, quarter), second.part(0, quarter)
    cut1, cut2 = first.part(quarter, len(first)), second.part(quarter, len(second))
    scores = propose(learn1, learn2)
    if not scores:
        return []
    value = choose(scores, cut1, cut2, claim.promise, fresh=fresh)
    chosen: list[tuple[Candidate, Statement]] = [(value, _statement(value, claim))]
    if claim.mu is not None:
        best = choose(scores, cut1, cut2, claim.mu.promise, fresh=fresh)
        chosen.append((best, claim.mu))
    floating = _floating(learn1, learn2, cut1, cut2, pair, claim, fresh)
    if floating is not None and floating.promise <= max(value.promise, _alarm(claim)):
        floating = None
    share = (1.0 if floating is None else 1.0 - _FLOATING_SHARE) / len(chosen)
    finalists = [Finalist(relearn(c, first, second), c.promise, statement, share) for c, statement in chosen]
    if floating is not None:
        statement = _statement(floating, claim)
        finalists.append(Finalist(floating.event, floating.promise, statement, _FLOATING_SHARE))
    return finalists


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
    return choose(scores, cut1, cut2, claim.promise, fresh=fresh) if scores else None


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
