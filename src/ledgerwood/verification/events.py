"""Choose the event to certify: cut each score where the promised bound is largest.

Directions count too: an event may be likely on the first input or on the second, above the cut or below it. Whatever is
chosen here is certified on outputs that nothing here has seen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

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
from ledgerwood.verification.smoothing import FEW, smooth

__all__ = ["Candidate", "are_few", "choose", "choose_atoms", "different", "low_bit_scores", "propose"]

Floats = NDArray[np.float64]

_QUICK = 20_000  # rows per input for the first comparison of scores
_FAINT = 0.1  # a promise below which that takes more rows
_LEARN = 60_000  # rows per input that scores of many fields are learned from before they are compared
_FEW_FIELDS = 6
_FINALISTS = 6  # scores compared again on all rows
_CUTS = 500
_MANY = 0.2  # different values of so many outputs, from which frequencies say little
_LEVELS = 50  # of a learned ratio: each stands for itself, and the worst event may be one alone
_ENOUGH = 4_000  # rows per input that say which fields differ most
_FEW_VALUES = 40  # of a field that is not cut into bins
_MARGIN = 2.33  # standard errors between an estimate and its bound
_CAUTIONS = (0.0, 1.4, 4.0)  # beyond the margin: bold cuts for rare events, careful ones for frequent events
_COMPARED = 12  # events among which different ones are sought
_AS_GOOD = 0.5  # standard errors by which an event may promise less than the best one and still be certified
_NEARLY = 0.2  # standard errors by which a surer rule may promise less than the best one
_ALIKE = 3.0  # and where rules are expected to be about as good
_UNSURE = 10.0  # standard errors of a promise below which counts are smoothed before rules are compared
_SAME = 0.7  # correlation from which two events count as the same
_LUCK = 0.7  # standard errors taken off for the luckiest of the rules compared, beyond the margin of the certificate
_OUTRIGHT = 1.0  # standard errors beyond the margin, where a rule is learned, cut and compared on the same rows
_SHRUNK = 4.0  # standard errors by which log-ratios are drawn to 0 before outputs are ordered, there
_LEARNED = 1.0  # and more for a score that was learned: it has to beat the plain ones clearly


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

    @property
    def worth(self) -> float:
        """What the promise is worth (see :func:`_worth`)."""
        return float(_worth(np.asarray(self.promise), np.asarray(self.promise + self.error)))


def _worth(promised: Floats, bolder: Floats) -> Floats:
    """A positive promise itself; of any other, how many standard errors are missing. ``bolder`` promises one more.

    What holds almost always promises nearly 0 and proves nothing: it must not win where every promise is below 0.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        missing = promised / (bolder - promised)
    return np.where(promised > 0.0, promised, np.where(np.isfinite(missing), missing, -math.inf))


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
    """One score per field whose values are not all integers, or integers that hardly repeat: on which grid they lie."""
    values = first.numbers[:2000]
    with np.errstate(invalid="ignore"):
        floats = np.flatnonzero(np.any(np.isfinite(values) & (values != np.round(values)), axis=0)).tolist()
    floats = sorted({*floats, *(j for j, name in enumerate(first.names) if _hardly_repeats(name, values[:, j]))})
    bits1, bits2 = (Encoded(low_bit(side.numbers[:_ENOUGH]), side.names) for side in (first, second))
    told = _separating(bits1, bits2, floats, most=64)
    return [LowBit(j, f"lowest bit of {first.names[j]}") for j in told]


def _hardly_repeats(name: str, column: Floats) -> bool:
    """Whether a field has so many values that their frequencies say little; not of a hash, whose bits mean nothing."""
    return not name.endswith((".text", "fields")) and bool(np.unique(column).size > _MANY * column.size)


def choose(
    scores: Sequence[Score],
    first: Encoded,
    second: Encoded,
    promise: Promise,
    *,
    fresh: int,
    forgiven: float | None = None,
    alike: bool = False,
) -> list[Candidate]:
    """The most promising rules, best first: cut on one third of the rows, compared on the others.

    Among thousands of cuts the best looking one is often the luckiest, above all in the tails. So each score proposes
    a bold cut and careful ones, and fresh rows decide between them; guesses as well as events if the claim is one
    point, with a delta of ``forgiven``. ``fresh`` outputs per input await the rule. ``alike``: rules are expected to be
    about as good, as mu is the same at every cut of Gaussian noise; the surest wins unless another is clearly better.
    """
    third = len(first) // 3
    kept = list(scores)
    if len(scores) > _FINALISTS:
        cut1, cut2 = first.part(0, third), second.part(0, third)
        worth = [_worth_of(score, cut1.part(0, _QUICK), cut2.part(0, _QUICK), promise) for score in scores]
        if max(worth) < _FAINT and third > _QUICK:
            worth = [_worth_of(score, cut1, cut2, promise) for score in scores]
        top = np.argsort(worth)[::-1][:_FINALISTS]
        kept = [scores[i] for i in sorted(top)]  # simple scores come first, and win a tie
    ranked: list[Candidate] = []
    values = {}
    margin = _margin(third, fresh)
    for score in kept:
        s1, s2 = values[id(score)] = scores_of(score, first), scores_of(score, second)
        cuts = _Cuts.of(s1[:third], s2[:third], few=_few(score))
        for caution in _CAUTIONS:
            rules = cuts.rules(score, promise, margin + caution, forgiven)
            ranked += [_measure(rule, s1[third:], s2[third:], promise, fresh, caution) for rule in rules]
    best = max(ranked, key=lambda candidate: candidate.worth)
    if not alike and best.promise < _UNSURE * best.error:
        ranked = _smoothed(ranked, {key: (s1[third:], s2[third:]) for key, (s1, s2) in values.items()}, promise, fresh)
    ranked.sort(key=lambda candidate: candidate.worth, reverse=True)
    # Of those about as good as the best, the one that says so most surely.
    best = ranked[0]
    least = max(best.promise - (_ALIKE if alike else _NEARLY) * best.error, 0.0)
    surest = min([c for c in ranked if c.promise >= least] or [best], key=lambda candidate: candidate.error)
    ranked.remove(surest)
    # Cut again, it could end in a lucky tail: mu is large where hits are few.
    return [surest if alike else _cut_again(surest, *values[id(surest.rule.score)], promise, fresh), *ranked]


def _smoothed(
    candidates: Sequence[Candidate], values: Mapping[int, tuple[Floats, Floats]], promise: Promise, fresh: int
) -> list[Candidate]:
    """The candidates with promises from counts that are smoothed along their scores, whose values are given.

    Where promises are hardly more than their errors, raw counts would choose between the cuts of one score by luck.
    """
    at = {key: [r for c in candidates if id(c.rule.score) == key for r in c.rule.cuts] for key in values}
    few = {id(candidate.rule.score): _few(candidate.rule.score) for candidate in candidates}
    cuts = {key: _Cuts.of(*both, few=few[key], at=at[key]) for key, both in values.items()}
    found = []
    for candidate in candidates:
        counts = cuts[id(candidate.rule.score)].hits(candidate.rule)
        promised = _promised(candidate.rule, counts, candidate.rows, promise, fresh)
        found.append(replace(candidate, promise=promised[0], error=promised[1]))
    return found


def _worth_of(score: Score, first: Encoded, second: Encoded, promise: Promise) -> float:
    """What the best event of a score is worth on a few rows."""
    return _Cuts.of(scores_of(score, first), scores_of(score, second), few=None).worth(promise, 4.0)


def _few(score: Score) -> int:
    """Values of a score that are counted as they are, not smoothed."""
    return _LEVELS if isinstance(score, (Atoms, Histogram)) else FEW


def are_few(first: Encoded, second: Encoded) -> bool:
    """Whether the outputs take few values."""
    if first.distinct is None or second.distinct is None:
        return False
    keys = np.concatenate([first.distinct[0].keys, second.distinct[0].keys])
    return bool(np.unique(keys).size <= _FEW_VALUES)


def choose_atoms(first: Encoded, second: Encoded, promise: Promise, *, fresh: int) -> list[Candidate]:
    """The most promising rules on a small law under a pure claim, by the frequencies in all rows; none if rows are few.

    Every event is a set of outputs, so no other score can do better, and so few leave little to luck: no row is set
    aside to teach, to cut or to compare.
    """
    score = Atoms.fit(None, first, second, caution=_SHRUNK)
    if score is None:
        return []
    caution = _margin(len(first), fresh) + _OUTRIGHT
    s1, s2 = (scores_of(score, rows) for rows in (first, second))
    rules = _Cuts.of(s1, s2, few=None).rules(score, promise, caution, 0.0)
    found = []
    for rule in rules:
        hits = _hits(rule, s1, s2)
        promised = _with_error(rule, hits, len(first), promise, caution)
        found.append(Candidate(rule, *promised, *hits, len(first), _OUTRIGHT))
    return sorted(found, key=lambda candidate: candidate.worth, reverse=True)


def _margin(rows: int, fresh: int) -> float:
    """The margin of a bound from ``fresh`` outputs, in standard errors of an estimate from so many rows."""
    return _MARGIN * math.sqrt(rows / fresh)


def _cut_again(candidate: Candidate, s1: Floats, s2: Floats, promise: Promise, fresh: int) -> Candidate:
    """The chosen kind of rule, cut with the same caution on all rows; an event of one input only stays as it is."""
    if not candidate.hits2:
        return candidate
    score, forgiven = candidate.rule.score, getattr(candidate.rule, "delta", None)
    caution = _margin(len(s1), fresh) + candidate.caution
    rules = _Cuts.of(s1, s2, few=_few(score)).rules(score, promise, caution, forgiven)
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
    return Candidate(rule, *_promised(rule, hits, len(s1), promise, fresh), *hits, len(s1), caution)


def _promised(rule: Rule, hits: tuple[float, float], rows: int, promise: Promise, fresh: int) -> tuple[float, float]:
    """The promise of one rule among many, and its standard error."""
    luck = _LUCK + _LEARNED * (not isinstance(rule.score, Fixed))
    return _with_error(rule, hits, rows, promise, _margin(rows, fresh) + luck)


def _with_error(
    rule: Rule, hits: tuple[float, float], rows: int, promise: Promise, caution: float
) -> tuple[float, float]:
    value, bolder = (rule.promise(promise, hits, rows, errors) for errors in (caution, caution - 1.0))
    return value, bolder - value if math.isfinite(value) else 0.0


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
    def of(cls, s1: Floats, s2: Floats, *, few: int | None = FEW, at: Sequence[float] = ()) -> _Cuts:
        """From the score's values on both inputs, smoothed if there are more than ``few`` (None: never).

        ``at`` are cuts beside those that the values suggest.
        """
        s1, s2 = np.sort(s1), np.sort(s2)
        cuts = np.union1d(_cuts(s1, s2), at)
        cells = _cells(s1, cuts), _cells(s2, cuts)
        if few is not None:
            cells = smooth(*cells, _places(cuts), few)
        sides: list[tuple[bool, bool, Floats, Floats]] = []
        for rising in (True, False):  # does a large score favour the first input?
            for above in (True, False):
                # the total of a sample is kept only approximately
                a, b = (np.minimum(_at_or_above(c) if above else _at_or_below(c), len(s1)) for c in cells)
                swapped = above != rising
                sides.append((above, swapped, b, a) if swapped else (above, swapped, a, b))
        return cls(cuts, len(s1), sides)

    def hits(self, rule: Rule) -> tuple[float, float]:
        """The counts of a rule that is cut here: hits on the likelier input and on the other, or guesses."""
        (_, _, *high), _, _, (_, _, *low) = self.sides  # at or above a cut, and at or below it, on either input
        if isinstance(rule, Guess):
            i, j = np.searchsorted(self.cuts, (rule.high, rule.low))
            right, wrong = high[0][i] + low[1][j], high[1][i] + low[0][j]
            return (right, wrong) if rule.rising else (wrong, right)
        i = int(np.searchsorted(self.cuts, rule.cut))
        first, second = (side[i] for side in (high if rule.above else low))
        return (second, first) if rule.swapped else (first, second)

    def worth(self, promise: Promise, caution: float) -> float:
        """Of the best event."""
        return max(float(np.max(self._worths(promise, a, b, caution))) for _, _, a, b in self.sides)

    def _worths(self, promise: Promise, a: Floats, b: Floats, caution: float) -> Floats:
        return _worth(*(promise(a, b, self.rows, errors) for errors in (caution, caution - 1.0)))

    def rules(self, score: Score, promise: Promise, caution: float, forgiven: float | None) -> list[Rule]:
        """The most promising event and, for a claim at one delta, the most promising guess."""
        guesses = (
            [] if forgiven is None else [Guess(score, *guess, forgiven) for guess in self.guess(forgiven, caution)]
        )
        if guesses and isinstance(score, Gated) and score.balanced:  # either of its events would win by luck
            return [*guesses]
        return [Event(score, *self.event(promise, caution)), *guesses]

    def event(self, promise: Promise, caution: float) -> tuple[float, bool, bool]:
        """The cut, whether the event lies above it, and whether the second input makes it likely."""
        options = []
        for above, swapped, a, b in self.sides:
            values = self._worths(promise, a, b, caution)
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
            right, wrong = a + c[low], b + d[low]
            both = (promise_of_guesses(right, wrong, self.rows, delta, errors) for errors in (caution, caution - 1.0))
            values = _worth(*both)
            values[self.cuts[low] >= self.cuts] = -np.inf
            i = int(np.argmax(values))
            options.append((float(values[i]), (float(self.cuts[low[i]]), float(self.cuts[i]), not swapped)))
        value, guess = max(options)
        return [guess] if value > -math.inf else []


def _cuts(s1: Floats, s2: Floats) -> Floats:
    """All values if they are few; else quantiles, dense in both tails and taken from each input. Scores are sorted."""
    few = np.unique(np.concatenate([s[np.append(True, s[1:] != s[:-1])] for s in (s1, s2)]))
    if few.size <= _CUTS:
        return few
    tail = np.geomspace(5.0 / s1.size, 0.02, 60)
    levels = np.concatenate([tail, np.linspace(0.02, 0.98, 240), 1.0 - tail])
    places = np.clip((levels * s1.size).astype(np.int64), 0, s1.size - 1)
    return np.unique(np.concatenate([s1[places], s2[places]]))


def _cells(scores: Floats, cuts: Floats) -> Floats:
    """How many sorted scores lie below the first cut, at it, between it and the next, ..., above the last."""
    edges = np.stack([np.searchsorted(scores, cuts, side=side) for side in ("left", "right")], axis=1).ravel()
    return np.diff(edges, prepend=0, append=scores.size).astype(np.float64)


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
