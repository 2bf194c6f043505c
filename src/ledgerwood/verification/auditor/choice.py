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

from ledgerwood.verification.auditor.encoding import Encoded, low_bit
from ledgerwood.verification.auditor.events import (
    _LEVELS,
    _MANY,
    OutputEvent,
    Promise,
    Rule,
    _hits,
    _selection_score,
    _Thresholds,
    scores_of,
)
from ledgerwood.verification.auditor.scores import (
    REDUCTIONS,
    Atoms,
    ColumnScore,
    Design,
    Difference,
    Fixed,
    Histogram,
    Linear,
    LowBit,
    Pooled,
    Score,
    TreeScore,
)
from ledgerwood.verification.auditor.smoothing import FEW

__all__ = ["Candidate", "are_few", "choose", "choose_atoms", "different", "low_bit_scores", "propose"]


Floats = NDArray[np.float64]

_QUICK = 20_000  # rows per input for the first comparison of scores

_WEAK = 0.1  # a promise below which that takes more rows

_LEARN = 60_000  # rows per input that scores of many fields are learned from before they are compared

_FEW_FIELDS = 6

_FINALISTS = 6  # scores compared again on all rows

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

_CERTAIN = 1.0  # standard errors beyond the margin, where a rule is learned, cut and compared on the same rows

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
        """What the promise is worth (see :func:`_selection_score`)."""
        return float(_selection_score(np.asarray(self.promise), np.asarray(self.promise + self.error)))


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
    columns: list[Score] = [ColumnScore(j, first.names[j]) for j in _separating(first, second, varying, most=60)]
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
    tree = TreeScore.fit(linear, first, second)
    learned: list[Score] = [linear] if tree is None else [linear, tree]
    scores += learned
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
        if max(worth) < _WEAK and third > _QUICK:
            worth = [_worth_of(score, cut1, cut2, promise) for score in scores]
        top = np.argsort(worth)[::-1][:_FINALISTS]
        kept = [scores[i] for i in sorted(top)]  # simple scores come first, and win a tie
    ranked: list[Candidate] = []
    values = {}
    margin = _margin(third, fresh)
    for score in kept:
        s1, s2 = values[id(score)] = scores_of(score, first), scores_of(score, second)
        cuts = _Thresholds.of(s1[:third], s2[:third], few=_few(score))
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
    cuts = {key: _Thresholds.of(*both, few=few[key], at=at[key]) for key, both in values.items()}
    found = []
    for candidate in candidates:
        counts = cuts[id(candidate.rule.score)].hits(candidate.rule)
        promised = _promised(candidate.rule, counts, candidate.rows, promise, fresh)
        found.append(replace(candidate, promise=promised[0], error=promised[1]))
    return found


def _worth_of(score: Score, first: Encoded, second: Encoded, promise: Promise) -> float:
    """What the best event of a score is worth on a few rows."""
    return _Thresholds.of(scores_of(score, first), scores_of(score, second), few=None).worth(promise, 4.0)


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
    caution = _margin(len(first), fresh) + _CERTAIN
    s1, s2 = (scores_of(score, rows) for rows in (first, second))
    rules = _Thresholds.of(s1, s2, few=None).rules(score, promise, caution, 0.0)
    found = []
    for rule in rules:
        hits = _hits(rule, s1, s2)
        promised = _with_error(rule, hits, len(first), promise, caution)
        found.append(Candidate(rule, *promised, *hits, len(first), _CERTAIN))
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
    rules = _Thresholds.of(s1, s2, few=_few(score)).rules(score, promise, caution, forgiven)
    return _measure(rules[-1], s1, s2, promise, fresh, candidate.caution)


def different(ranked: Sequence[Candidate], first: Encoded, second: Encoded, most: int) -> list[Candidate]:
    """The best event, and others about as good whose bounds vary apart: if the best was only lucky, they were not."""
    chosen: list[Candidate] = []
    masks: list[Floats] = []
    for candidate in ranked[:_COMPARED]:
        event = candidate.rule
        if not isinstance(event, OutputEvent) or candidate.promise < ranked[0].promise - _AS_GOOD * candidate.error:
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
