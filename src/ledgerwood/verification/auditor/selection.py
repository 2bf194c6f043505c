"""From a selection sample to the few events that are worth a certificate, and their shares of the error."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ledgerwood.verification.auditor.certificate.hypotheses import ClaimedProfile, Hypothesis
from ledgerwood.verification.auditor.choice import (
    Candidate,
    are_few,
    choose,
    choose_atoms,
    different,
    low_bit_scores,
    propose,
)
from ledgerwood.verification.auditor.encoding import Encoded
from ledgerwood.verification.auditor.events import Guess, OutputEvent, Rule, relearn, scores_of
from ledgerwood.verification.auditor.float_attacks import find_lattice, hints_of
from ledgerwood.verification.auditor.report import Picture
from ledgerwood.verification.auditor.sampling import InputPair
from ledgerwood.verification.auditor.scores import Memo, Score

__all__ = ["SelectedEvent", "Selection", "is_small_law", "picture_of", "select"]

_FLOATING_SHARE = 0.1  # of the error: such a leak is all or nothing, and a tenth of the error costs it 0.4 of epsilon


_LATTICE_ROWS = 90_000  # rows per input on which such events are compared
_DRAWN = 1e150  # larger scores stand at the edge of a picture: their differences may be no floats
_EVENTS = 3  # events on values that share the error: a lucky choice costs more than a smaller share


@dataclass(frozen=True, slots=True)
class SelectedEvent:
    """A rule, the statement it may contradict, and its share of the error; the shares of a report sum to one.

    Of the finalists of one ``kind`` ("values", "mu", "floating point") the report keeps the one with the largest bound.
    """

    kind: str
    rule: Rule
    statement: Hypothesis
    share: float


@dataclass(frozen=True, slots=True)
class Selection:
    """What one selection sample suggests: events on values (best first), perhaps one for mu and one for the lattice."""

    values: list[tuple[Candidate, Hypothesis]]
    floating: tuple[Candidate, Hypothesis] | None

    @property
    def promise(self) -> float:
        """The best promise of any event."""
        return max((c.promise for c, _ in [*self.values, *self._lattice]), default=-math.inf)

    @property
    def worth(self) -> float:
        """The best worth of any event."""
        return max((c.worth for c, _ in [*self.values, *self._lattice]), default=-math.inf)

    @property
    def _lattice(self) -> list[tuple[Candidate, Hypothesis]]:
        return [] if self.floating is None else [self.floating]

    @property
    def is_never(self) -> bool:
        """Whether the best event was seen on one input only."""
        return bool(self.values) and self.values[0][0].hits2 == 0

    def or_better(self, other: Selection) -> Selection:
        """Another selection from the same outputs if it is worth more and no bit pattern is at stake, else this one."""
        better = other.worth > self.worth and self.floating is None
        return other if better else self

    def finalists(self, first: Encoded, second: Encoded, most: int | None = None) -> list[SelectedEvent]:
        """Events to certify (at most so many on values), their scores learned again from all rows of the selection."""
        memo: Memo = {}
        values = self.values[:most]
        share = (1.0 - _FLOATING_SHARE * len(self._lattice)) / max(1, len(values))
        chosen = [
            SelectedEvent(
                "mu" if statement.quantity == "mu" else "values",
                relearn(c.rule, first, second, memo, never=c.hits2 == 0),
                statement,
                share,
            )
            for c, statement in values
        ]
        lattice = [
            SelectedEvent("floating point", c.rule, statement, _FLOATING_SHARE) for c, statement in self._lattice
        ]
        return chosen + lattice


def is_small_law(first: Encoded, second: Encoded, claim: ClaimedProfile) -> bool:
    """Whether outputs are few and the claim is pure: with a delta, or a profile, tails of rare ones are at stake."""
    return claim.forgiven == 0.0 and are_few(first, second)


def select(
    first: Encoded,
    second: Encoded,
    pair: InputPair,
    claim: ClaimedProfile,
    fresh: int,
    *,
    plain: bool = True,
    classifiers: bool,
) -> Selection:
    """Learn scores on the first quarter (plain ones, classifiers or both), choose events on the rest.

    An event on floating-point patterns joins those on values if it promises a violation that they do not show; an event
    for mu if the claim is Gaussian. ``fresh`` outputs per input await the events.
    """
    if is_small_law(first, second, claim) and (ranked := choose_atoms(first, second, claim.promise, fresh=fresh)):
        return Selection([(ranked[0], claim.points[0])], None)
    quarter = len(first) // 4
    learn1, learn2 = first.part(0, quarter), second.part(0, quarter)
    cut1, cut2 = first.part(quarter, len(first)), second.part(quarter, len(second))
    scores = propose(learn1, learn2, plain=plain, classifiers=classifiers)
    if not scores:
        return Selection([], None)
    ranked = choose(scores, cut1, cut2, claim.promise, fresh=fresh, forgiven=claim.forgiven)
    best = ranked[0]
    floating = _floating(learn1, learn2, cut1, cut2, pair, claim, fresh) if plain else None
    if floating is not None and floating.promise <= max(best.promise, _alarm(claim)):
        floating = None
    if floating is not None:  # counted beside it, on as many outputs of either input
        ranked = [c for c in ranked if isinstance(c.rule, OutputEvent)]
    # Which point of a profile is tested depends on the event, so a few are certified; but one never seen on the other
    # input needs no company.
    few = different(ranked, cut1, cut2, _EVENTS) if claim.is_profile and best.hits2 else ranked[:1]
    chosen = [(c, _statement(c, claim)) for c in few]
    if claim.mu is not None:
        best = choose(scores, cut1, cut2, claim.mu.promise, fresh=fresh, alike=True)[0]
        chosen.append((best, claim.mu))
    return Selection(chosen, None if floating is None else (floating, _statement(floating, claim)))


def _statement(candidate: Candidate, claim: ClaimedProfile) -> Hypothesis:
    return claim.worst(candidate.hits1, candidate.hits2, candidate.rows)


def _alarm(claim: ClaimedProfile) -> float:
    """The promise from which an event is worth a share of the error: above the claim, or two standard errors."""
    return 2.0 if claim.is_profile else claim.points[0].claimed


def _floating(
    learn1: Encoded, learn2: Encoded, cut1: Encoded, cut2: Encoded, pair: InputPair, claim: ClaimedProfile, fresh: int
) -> Candidate | None:
    scores: list[Score] = [
        *find_lattice(learn1, hints_of(pair.first)),
        *find_lattice(learn2, hints_of(pair.second)),
        *low_bit_scores(learn1, learn2),
    ]
    few1, few2 = cut1.part(0, _LATTICE_ROWS), cut2.part(0, _LATTICE_ROWS)
    return choose(scores, few1, few2, claim.promise, fresh=fresh)[0] if scores else None


def picture_of(rule: Rule, first: Encoded, second: Encoded, bins: int = 60) -> Picture:
    """Histograms of the rule's score on both inputs."""
    most = 50_000
    s1, s2 = (scores_of(rule.score, side.part(0, most)) for side in (first, second))
    finite = np.concatenate([s1, s2])
    finite = finite[np.isfinite(finite)]
    low, high = (float(np.quantile(finite, q)) for q in (0.001, 0.999)) if finite.size else (0.0, 1.0)
    low, high = (min(max(end, -_DRAWN), _DRAWN) for end in (low, high))
    edges = np.linspace(low, high if high > low else low + max(1.0, 1e-3 * abs(low)), bins + 1)
    edges = np.maximum.accumulate(edges)  # among the smallest floats they may fall
    counts1, counts2 = (
        tuple(np.histogram(np.clip(s[np.isfinite(s)], edges[0], edges[-1]), edges)[0].tolist()) for s in (s1, s2)
    )
    cuts = (rule.high, True, rule.low) if isinstance(rule, Guess) else (rule.cut, rule.above)
    return Picture(rule.score.name, tuple(edges.tolist()), counts1, counts2, *cuts)
