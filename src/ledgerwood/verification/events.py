"""Choose the event to certify: cut each score where the promised bound is largest.

Directions count too: an event may be likely on the first input or on the second, above the cut or below it. Whatever is
chosen here is certified on outputs that nothing here has seen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ledgerwood.verification.features import Encoded, low_bit
from ledgerwood.verification.gates import Gated
from ledgerwood.verification.guessing import promise as promise_of_guesses
from ledgerwood.verification.rules import Event, Guess, Promise, Rule, scores_of
from ledgerwood.verification.scores import (
    REDUCTIONS,
    Atoms,
    Column,
    Design,
    Difference,
    Fixed,
    Histogram,
    Linear,
    LowBit,
    Pooled,
    Score,
    Tree,
)
from ledgerwood.verification.smoothing import smooth

__all__ = ["Candidate", "choose", "choose_atoms", "different", "low_bit_scores", "propose"]

Floats = NDArray[np.float64]

_QUICK = 20_000  # rows per input for the first comparison of scores
_LEARN = 60_000  # rows per input that scores of many fields are learned from before they are compared
_FEW_FIELDS = 6
_FINALISTS = 6  # scores compared again on all rows
_CUTS = 500
_ENOUGH = 4_000  # rows per input that say which fields differ most
_FEW_VALUES = 40  # of a field that is not cut into bins
_MARGIN = 2.33  # standard errors between an estimate and its bound
_CAUTIONS = (0.0, 1.4, 4.0)  # beyond the margin: bold cuts for rare events, careful ones for frequent events
_COMPARED = 12  # events among which different ones are sought
_AS_GOOD = 0.5  # standard errors by which an event may promise less than the best one and still be certified
_NEARLY = 0.2  # standard errors by which a surer rule may promise less than the best one
_SAME = 0.7  # correlation from which two events count as the same
_LUCK = 0.7  # standard errors taken off for the luckiest of the rules compared, beyond the margin of the certificate
_OUTRIGHT = 0.5  # standard errors beyond the margin, where a rule is learned, cut and compared on the same rows
_SHRUNK = 4.0  # standard errors by which log-ratios are drawn to 0 before outputs are ordered, there
_LEARNED = 0.5  # and more for a score that was learned: it has to beat the plain ones clearly


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A rule with its counts on the rows that chose it: hits on the likelier input and the other, or right and wrong.

    ``promise`` is a cautious estimate of its bound, ``error`` the standard error of that estimate. It was cut with
    ``caution`` standard errors beyond the margin.
    """

    rule: Rule
    promise: float
    error: float
    hits1: int
    hits2: int
    rows: int
    caution: float


def propose(first: Encoded, second: Encoded, *, plain: bool = True, classifiers: bool = True) -> list[Score]:
    """The ensemble of scores, learned from the given rows: of single fields and whole outputs, and of many fields."""
    numbers = np.concatenate([first.numbers, second.numbers])
    varying = [j for j, column in enumerate(numbers.T) if _varies(column)]
    if len(varying) > _FEW_FIELDS:
        first, second = (rows.part(0, _LEARN) for rows in (first, second))
    whole = Atoms.fit(None, first, second)
    scores = _few_fields(first, second, varying) + ([] if whole is None else [whole]) if plain else []
    if classifiers and len(varying) >= 2:
        scores += _many_fields(first, second, whole is not None)
    return scores


def _few_fields(first: Encoded, second: Encoded, varying: Sequence[int]) -> list[Score]:
    columns: list[Score] = [Column(j, first.names[j]) for j in _separating(first, second, varying, most=60)]
    if 2 <= len(varying) <= 12:
        pairs = [(i, j) for a, i in enumerate(varying) for j in varying[a + 1 :]]
        near = pairs if len(varying) <= 5 else [pair for pair in pairs if pair[1] - pair[0] == 1]
        columns += [Difference(i, j, f"{first.names[i]} - {first.names[j]}") for i, j in near]
    scores = list(columns)
    atoms = [Atoms.fit(column, first, second) for column in columns[:40]]
    # Few values need no bins: their own frequencies say more.
    few = [atom is not None and len(atom.keys) <= _FEW_VALUES for atom in atoms]
    binned = [column for j, column in enumerate(columns[:24]) if not few[j]]
    scores += [Histogram.fit(column, first, second) for column in binned]
    return scores + [atom for atom in atoms if atom is not None]


def _many_fields(first: Encoded, second: Encoded, repeated: bool) -> list[Score]:
    design = Design.fit(np.concatenate([first.numbers[:10_000], second.numbers[:10_000]]))
    scores: list[Score] = [Pooled(how) for how in REDUCTIONS]
    scores += Linear.equal(design)
    linear = Linear.fit(design, first, second)
    tree = Tree.fit(linear, first, second)
    learned: list[Score] = [linear] if tree is None else [linear, tree]
    scores += learned
    if (gated := Gated.fit(first, second)) is not None:
        scores.append(gated)
    scores.append(Histogram.fit(linear, first, second))
    if repeated:
        for prior in learned:
            for strength in (20.0, 200.0):
                shrunk = Atoms.fit(None, first, second, prior=prior, strength=strength)
                if shrunk is not None:
                    scores.append(shrunk)
    return scores


def low_bit_scores(first: Encoded, second: Encoded) -> list[Score]:
    """One score per field whose values are not all integers: which grid of floats it lies on."""
    values = first.numbers[:2000]
    with np.errstate(invalid="ignore"):
        floats = np.flatnonzero(np.any(np.isfinite(values) & (values != np.round(values)), axis=0)).tolist()
    bits1, bits2 = (Encoded(low_bit(side.numbers[:_ENOUGH]), side.names) for side in (first, second))
    told = _separating(bits1, bits2, floats, most=64)
    return [LowBit(j, f"lowest bit of {first.names[j]}") for j in told]


def choose(
    scores: Sequence[Score],
    first: Encoded,
    second: Encoded,
    promise: Promise,
    *,
    fresh: int,
    forgiven: float | None = None,
) -> list[Candidate]:
    """The most promising rules, best first: cut on one third of the rows, compared on the others.

    Among thousands of cuts the best looking one is often the luckiest, above all in the tails. So each score proposes
    a bold cut and careful ones, and fresh rows decide between them; guesses as well as events if the claim is one
    point, with a delta of ``forgiven``. ``fresh`` outputs per input await the rule.
    """
    third = len(first) // 3
    cut1, cut2 = first.part(0, third), second.part(0, third)
    rank1, rank2 = first.part(third, len(first)), second.part(third, len(second))
    kept = list(scores)
    if len(scores) > _FINALISTS:
        quick1, quick2 = cut1.part(0, _QUICK), cut2.part(0, _QUICK)
        worth = [_Cuts.of(score, quick1, quick2).promise(promise, 4.0) for score in scores]
        top = np.argsort(worth)[::-1][:_FINALISTS]
        kept = [scores[i] for i in sorted(top)]  # simple scores come first, and win a tie
    ranked = []
    for score in kept:
        cuts = _Cuts.of(score, cut1, cut2)
        margin = _margin(third, fresh)
        s1, s2 = scores_of(score, rank1), scores_of(score, rank2)
        for caution in _CAUTIONS:
            rules = cuts.rules(score, promise, margin + caution, forgiven)
            ranked += [_measure(rule, s1, s2, promise, fresh, caution) for rule in rules]
    ranked.sort(key=lambda candidate: candidate.promise, reverse=True)
    # Of those about as good as the best, the one that says so most surely.
    near = [c for c in ranked if c.promise >= ranked[0].promise - _NEARLY * ranked[0].error]
    surest = min(near, key=lambda candidate: candidate.error)
    ranked.remove(surest)
    return [_cut_again(surest, first, second, promise, fresh), *ranked]


def choose_atoms(
    first: Encoded, second: Encoded, promise: Promise, *, fresh: int, forgiven: float
) -> list[Candidate] | None:
    """The most promising rules on a small law, from the frequencies of its few outputs in all rows; None if not small.

    Every event is a set of outputs, so no other score can do better, and so few leave little to luck: no row is set
    aside to teach, to cut or to compare.
    """
    if first.distinct is None or second.distinct is None:
        return None
    keys = np.concatenate([rows.distinct[0].keys for rows in (first, second) if rows.distinct is not None])
    score = Atoms.fit(None, first, second, caution=_SHRUNK) if np.unique(keys).size <= _FEW_VALUES else None
    if score is None:
        return None
    caution = _margin(len(first), fresh) + _OUTRIGHT
    s1, s2 = (scores_of(score, rows) for rows in (first, second))
    rules = _Cuts.of(score, first, second).rules(score, promise, caution, forgiven)
    found = []
    for rule in rules:
        hits = _hits(rule, s1, s2)
        value = rule.promise(promise, hits, len(first), caution)
        found.append(Candidate(rule, value, 0.0, *hits, len(first), _OUTRIGHT))
    return sorted(found, key=lambda candidate: candidate.promise, reverse=True)


def _margin(rows: int, fresh: int) -> float:
    """The margin of a bound from ``fresh`` outputs, in standard errors of an estimate from so many rows."""
    return _MARGIN * math.sqrt(rows / fresh)


def _cut_again(candidate: Candidate, first: Encoded, second: Encoded, promise: Promise, fresh: int) -> Candidate:
    """The chosen kind of rule, cut with the same caution on all rows; an event of one input only stays as it is."""
    if not candidate.hits2:
        return candidate
    score, forgiven = candidate.rule.score, getattr(candidate.rule, "delta", None)
    caution = _margin(len(first), fresh) + candidate.caution
    rules = _Cuts.of(score, first, second).rules(score, promise, caution, forgiven)
    s1, s2 = (scores_of(score, rows) for rows in (first, second))
    return _measure(rules[-1], s1, s2, promise, fresh, candidate.caution)


def different(ranked: Sequence[Candidate], first: Encoded, second: Encoded, most: int) -> list[Candidate]:
    """The best event, and others about as good whose bounds vary apart: if the best was only lucky, they were not."""
    chosen: list[Candidate] = []
    masks: list[Floats] = []
    for candidate in ranked[:_COMPARED]:
        event = candidate.rule
        if not isinstance(event, Event) or candidate.promise < ranked[0].promise - _AS_GOOD * candidate.error:
            continue
        mask = np.concatenate([event(side.part(0, _QUICK)) for side in (first, second)]).astype(np.float64)
        if event.swapped:
            mask = 1.0 - mask  # an event and its complement, seen from the other input, are the same evidence
        if all(_correlation(mask, other) < _SAME for other in masks):
            chosen.append(candidate)
            masks.append(mask)
        if len(chosen) == most:
            break
    return chosen


def _correlation(a: Floats, b: Floats) -> float:
    spread = float(a.std() * b.std())
    return float((a * b).mean() - a.mean() * b.mean()) / spread if spread > 0.0 else 1.0


def _measure(rule: Rule, s1: Floats, s2: Floats, promise: Promise, fresh: int, caution: float) -> Candidate:
    hits = _hits(rule, s1, s2)
    errors = _margin(len(s1), fresh) + _LUCK + _LEARNED * (not isinstance(rule.score, Fixed))
    value, bolder = (rule.promise(promise, hits, len(s1), e) for e in (errors, errors - 1.0))
    return Candidate(rule, value, bolder - value if math.isfinite(value) else 0.0, *hits, len(s1), caution)


def _hits(rule: Rule, s1: Floats, s2: Floats) -> tuple[int, int]:
    counts = [rule.tally(s, side) for side, s in enumerate((s1, s2))]
    return counts[0][0] + counts[1][0], counts[0][1] + counts[1][1]


@dataclass(frozen=True, slots=True, eq=False)
class _Cuts:
    """Counts of a score's values around its possible cuts, smoothed in the four ways an event can use them."""

    cuts: Floats
    rows: int
    #: (above, swapped, hits on the likelier input, hits on the other) for every cut
    sides: list[tuple[bool, bool, Floats, Floats]]

    @classmethod
    def of(cls, score: Score, first: Encoded, second: Encoded) -> _Cuts:
        s1, s2 = scores_of(score, first), scores_of(score, second)
        cuts = _cuts(s1, s2)
        cells = smooth(_cells(s1, cuts), _cells(s2, cuts), _places(cuts))
        sides: list[tuple[bool, bool, Floats, Floats]] = []
        for rising in (True, False):  # does a large score favour the first input?
            for above in (True, False):
                # the total of a sample is kept only approximately
                a, b = (np.minimum(_at_or_above(c) if above else _at_or_below(c), len(s1)) for c in cells)
                swapped = above != rising
                sides.append((above, swapped, b, a) if swapped else (above, swapped, a, b))
        return cls(cuts, len(s1), sides)

    def promise(self, promise: Promise, caution: float) -> float:
        return max(float(np.max(promise(a, b, self.rows, caution))) for _, _, a, b in self.sides)

    def rules(self, score: Score, promise: Promise, caution: float, forgiven: float | None) -> list[Rule]:
        """The most promising event and, for a claim at one delta, the most promising guess."""
        found: list[Rule] = [Event(score, *self.event(promise, caution))]
        if forgiven is not None:
            found += [Guess(score, *guess, forgiven) for guess in self.guess(forgiven, caution)]
        return found

    def event(self, promise: Promise, caution: float) -> tuple[float, bool, bool]:
        """The cut, whether the event lies above it, and whether the second input makes it likely."""
        options = []
        for above, swapped, a, b in self.sides:
            values = promise(a, b, self.rows, caution)
            i = int(np.argmax(values))
            options.append((float(values[i]), (float(self.cuts[i]), above, swapped)))
        return max(options)[1]

    def guess(self, delta: float, caution: float) -> list[tuple[float, float, bool]]:
        """The low cut, the high cut, and whether a high score speaks for the first input; none if there is one cut.

        A good rule guesses wherever the likelihood ratio is beyond some value, in either direction: each high cut goes
        with the low cut that gains most at the ratio found there.
        """
        options = []
        for (_, swapped, a, b), (_, _, c, d) in (self.sides[:2], self.sides[2:]):
            more, less = (-np.diff(counts, append=0.0) for counts in (a, b))
            ratio = more / np.maximum(less, np.maximum(more, 1.0) / self.rows)
            gain = np.where(self.cuts < self.cuts[:, None], c - ratio[:, None] * d, -np.inf)
            low = np.argmax(gain, axis=1)
            values = promise_of_guesses(a + c[low], b + d[low], self.rows, delta, caution)
            values[self.cuts[low] >= self.cuts] = -np.inf
            i = int(np.argmax(values))
            options.append((float(values[i]), (float(self.cuts[low[i]]), float(self.cuts[i]), not swapped)))
        value, guess = max(options)
        return [guess] if value > -math.inf else []


def _cuts(s1: Floats, s2: Floats) -> Floats:
    """All values if they are few; else quantiles, dense in both tails and taken from each input."""
    sample = np.concatenate([s1[:20_000], s2[:20_000]])
    few = np.unique(sample)
    if few.size <= _CUTS:
        return few
    tail = np.geomspace(5.0 / s1.size, 0.02, 60)
    levels = np.concatenate([tail, np.linspace(0.02, 0.98, 240), 1.0 - tail])
    places = np.unique(np.clip((levels * s1.size).astype(np.int64), 0, s1.size - 1))
    return np.unique(np.concatenate([np.partition(s, places)[places] for s in (s1, s2)]))


def _cells(scores: Floats, cuts: Floats) -> Floats:
    """Counts below the first cut, at it, between it and the next, at the next, ..., above the last."""
    right = np.searchsorted(cuts, scores, side="right")
    at = cuts[np.maximum(right - 1, 0)] == scores
    return np.bincount(2 * right - at, minlength=2 * cuts.size + 1).astype(np.float64)


def _places(cuts: Floats) -> Floats:
    """Where the cells of :func:`_cells` lie."""
    places = np.empty(2 * cuts.size + 1)
    with np.errstate(invalid="ignore", over="ignore"):
        places[1::2], places[2:-1:2] = cuts, cuts[:-1] + 0.5 * np.diff(cuts)
    places[0], places[-1] = cuts[0], cuts[-1]
    return places


def _at_or_above(cells: Floats) -> Floats:
    return np.cumsum(cells[::-1])[::-1][1::2]


def _at_or_below(cells: Floats) -> Floats:
    return np.cumsum(cells)[1::2]


def _varies(column: Floats) -> bool:
    return not bool(np.all((column == column[0]) | (np.isnan(column) & np.isnan(column[0]))))


def _separating(first: Encoded, second: Encoded, columns: Sequence[int], most: int) -> list[int]:
    """The columns that differ most between the inputs (largest gap of the empirical distribution functions)."""
    if len(columns) <= most:
        return list(columns)
    gaps = []
    for j in columns:
        a, b = np.sort(first.numbers[:_ENOUGH, j]), np.sort(second.numbers[:_ENOUGH, j])
        grid = np.concatenate([a, b])
        gap = np.searchsorted(a, grid, side="right") / a.size - np.searchsorted(b, grid, side="right") / b.size
        gaps.append(float(np.max(np.abs(gap))))
    order = np.argsort(gaps)[::-1][:most]
    return sorted(columns[int(i)] for i in order)
