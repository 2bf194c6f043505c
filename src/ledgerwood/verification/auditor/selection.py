"""From a selection sample to the few events that are to be certified, and their shares of the error."""

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
from ledgerwood.verification.auditor.tuning import TUNING

__all__ = ["SelectedEvent", "Selection", "has_few_outputs", "picture_of", "select"]


_DRAWN = 1e150  # larger scores stand at the edge of a picture: their differences may overflow


@dataclass(frozen=True, slots=True)
class SelectedEvent:
    """A rule, the hypothesis it may contradict, and its share of the error; the shares of a report sum to one.

    Of the events of one ``kind`` ("values", "mu", "floating point") the report keeps the one with the largest bound.
    """

    kind: str
    rule: Rule
    hypothesis: Hypothesis
    share: float


@dataclass(frozen=True, slots=True)
class Selection:
    """What one selection sample suggests: events on values (best first), perhaps one for mu and one for the lattice."""

    values: list[tuple[Candidate, Hypothesis]]
    floating: tuple[Candidate, Hypothesis] | None

    @property
    def estimated_bound(self) -> float:
        """The largest of any event."""
        return max((c.estimated_bound for c, _ in [*self.values, *self._lattice]), default=-math.inf)

    @property
    def selection_score(self) -> float:
        """The largest of any event."""
        return max((c.selection_score for c, _ in [*self.values, *self._lattice]), default=-math.inf)

    @property
    def _lattice(self) -> list[tuple[Candidate, Hypothesis]]:
        return [] if self.floating is None else [self.floating]

    @property
    def has_zero_count(self) -> bool:
        """Whether the best event was seen on one input only."""
        return bool(self.values) and self.values[0][0].hits2 == 0

    def or_better(self, other: Selection) -> Selection:
        """Another selection from the same outputs if it scores higher and no bit pattern is at stake, else this one."""
        better = other.selection_score > self.selection_score and self.floating is None
        return other if better else self

    def selected_events(self, first: Encoded, second: Encoded, most: int | None = None) -> list[SelectedEvent]:
        """Events to certify (at most ``most`` on values), their scores learned again from all rows of the selection."""
        memo: Memo = {}
        values = self.values[:most]
        share = (1.0 - TUNING.lattice_share * len(self._lattice)) / max(1, len(values))
        chosen = [
            SelectedEvent(
                "mu" if hypothesis.quantity == "mu" else "values",
                relearn(c.rule, first, second, memo, zero_count=c.hits2 == 0),
                hypothesis,
                share,
            )
            for c, hypothesis in values
        ]
        lattice = [
            SelectedEvent("floating point", c.rule, hypothesis, TUNING.lattice_share) for c, hypothesis in self._lattice
        ]
        return chosen + lattice


def has_few_outputs(first: Encoded, second: Encoded, claim: ClaimedProfile) -> bool:
    """Whether outputs are few and the claim is pure: with a delta, or a profile, tails of rare ones are at stake."""
    return claim.claimed_delta == 0.0 and are_few(first, second)


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

    An event on floating-point patterns joins those on values if it suggests a violation that they do not show; an event
    for mu if the claim is Gaussian. ``fresh`` outputs per input will certify the events.
    """
    if has_few_outputs(first, second, claim) and (
        ranked := choose_atoms(first, second, claim.estimated_bound, fresh=fresh)
    ):
        return Selection([(ranked[0], claim.points[0])], None)
    quarter = len(first) // 4
    learn1, learn2 = first.part(0, quarter), second.part(0, quarter)
    cut1, cut2 = first.part(quarter, len(first)), second.part(quarter, len(second))
    scores = propose(learn1, learn2, plain=plain, classifiers=classifiers)
    if not scores:
        return Selection([], None)
    ranked = choose(scores, cut1, cut2, claim.estimated_bound, fresh=fresh, claimed_delta=claim.claimed_delta)
    best = ranked[0]
    floating = _floating(learn1, learn2, cut1, cut2, pair, claim, fresh) if plain else None
    if floating is not None and floating.estimated_bound <= max(best.estimated_bound, _alarm(claim)):
        floating = None
    if floating is not None:  # counted beside it, on as many outputs of either input
        ranked = [c for c in ranked if isinstance(c.rule, OutputEvent)]
    # Which point of a profile is tested depends on the event, so a few are certified; but one never seen on the other
    # input needs no company.
    few = different(ranked, cut1, cut2, TUNING.most_events) if claim.is_profile and best.hits2 else ranked[:1]
    chosen = [(c, _hypothesis(c, claim)) for c in few]
    if claim.mu is not None:
        best = choose(scores, cut1, cut2, claim.mu.estimated_bound, fresh=fresh, alike=True)[0]
        chosen.append((best, claim.mu))
    return Selection(chosen, None if floating is None else (floating, _hypothesis(floating, claim)))


def _hypothesis(candidate: Candidate, claim: ClaimedProfile) -> Hypothesis:
    return claim.worst(candidate.hits1, candidate.hits2, candidate.rows)


def _alarm(claim: ClaimedProfile) -> float:
    """The estimated bound from which an event gets a share of the error: the claim, or two standard errors."""
    return 2.0 if claim.is_profile else claim.points[0].claimed


def _floating(
    learn1: Encoded, learn2: Encoded, cut1: Encoded, cut2: Encoded, pair: InputPair, claim: ClaimedProfile, fresh: int
) -> Candidate | None:
    scores: list[Score] = [
        *find_lattice(learn1, hints_of(pair.first)),
        *find_lattice(learn2, hints_of(pair.second)),
        *low_bit_scores(learn1, learn2),
    ]
    few1, few2 = cut1.part(0, TUNING.lattice_rows), cut2.part(0, TUNING.lattice_rows)
    return choose(scores, few1, few2, claim.estimated_bound, fresh=fresh)[0] if scores else None


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
    thresholds = (rule.high, True, rule.low) if isinstance(rule, Guess) else (rule.threshold, rule.above)
    return Picture(rule.score.name, tuple(edges.tolist()), counts1, counts2, *thresholds)
