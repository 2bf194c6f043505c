"""Choose the event to certify: cut each score at the threshold whose estimated bound is largest.

Directions count too: an event may be likely on the first input or on the second, above its threshold or below it.
Whatever is chosen here is certified on outputs that nothing here has seen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ledgerwood.verification.auditor.encoding import Encoded, low_bit
from ledgerwood.verification.auditor.events import (
    BoundEstimate,
    OutputEvent,
    Rule,
    Thresholds,
    hits_of,
    scores_of,
    selection_score,
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
from ledgerwood.verification.auditor.tuning import TUNING

__all__ = ["Candidate", "are_few", "choose", "choose_atoms", "different", "low_bit_scores", "propose"]


Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A rule with its counts on the rows that chose it: hits on the likelier input and the other, or right and wrong.

    ``estimated_bound`` is a low estimate of the bound it will certify, ``error`` the standard error of that estimate.
    Its threshold was chosen with ``extra_margin`` standard errors beyond those of a certificate.
    """

    rule: Rule
    estimated_bound: float
    error: float
    hits1: int
    hits2: int
    rows: int
    extra_margin: float

    @property
    def selection_score(self) -> float:
        """By which rules are ranked: see :func:`selection_score`."""
        return float(selection_score(np.asarray(self.estimated_bound), np.asarray(self.estimated_bound + self.error)))


def propose(first: Encoded, second: Encoded, *, plain: bool = True, classifiers: bool = True) -> list[Score]:
    """The ensemble of scores, learned from the given rows: of single fields and whole outputs, and of many fields."""
    numbers = np.concatenate([first.numbers, second.numbers])
    varying = [j for j, column in enumerate(numbers.T) if _varies(column)]
    if len(varying) > TUNING.few_fields:
        first, second = (rows.part(0, TUNING.learning_rows) for rows in (first, second))
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
    few = [atom is not None and len(atom.keys) <= TUNING.few_values for atom in atoms]
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
    bits1, bits2 = (Encoded(low_bit(side.numbers[: TUNING.separating_rows]), side.names) for side in (first, second))
    informative = _separating(bits1, bits2, floats, most=64)
    return [LowBit(j, f"lowest bit of {first.names[j]}") for j in informative]


def _hardly_repeats(name: str, column: Floats) -> bool:
    """Whether most values of a field are different; never true of a hash, whose bits mean nothing."""
    return not name.endswith((".text", "fields")) and bool(
        np.unique(column).size > TUNING.hardly_repeating * column.size
    )


def choose(
    scores: Sequence[Score],
    first: Encoded,
    second: Encoded,
    estimate: BoundEstimate,
    *,
    fresh: int,
    claimed_delta: float | None = None,
    alike: bool = False,
) -> list[Candidate]:
    """The most promising rules, best first: cut on one third of the rows, compared on the others.

    Among thousands of thresholds the best looking one is often the luckiest, above all in the tails. So each score
    proposes a bold threshold and careful ones, and fresh rows decide between them; guesses as well as events if the
    claim is one point, with a delta of ``claimed_delta``. ``fresh`` outputs per input will certify the rule.
    ``alike``: rules are expected to be about as good, as mu is the same at every threshold of Gaussian noise; the
    surest wins unless another is clearly better.
    """
    third = len(first) // 3
    kept = list(scores)
    if len(scores) > TUNING.compared_scores:
        cut1, cut2 = first.part(0, third), second.part(0, third)
        quick = [
            _quick_score(score, cut1.part(0, TUNING.quick_rows), cut2.part(0, TUNING.quick_rows), estimate)
            for score in scores
        ]
        if max(quick) < TUNING.weak_bound and third > TUNING.quick_rows:
            quick = [_quick_score(score, cut1, cut2, estimate) for score in scores]
        top = np.argsort(quick)[::-1][: TUNING.compared_scores]
        kept = [scores[i] for i in sorted(top)]  # simple scores come first, and win a tie
    ranked: list[Candidate] = []
    values = {}
    margin = _margin(third, fresh)
    for score in kept:
        s1, s2 = values[id(score)] = scores_of(score, first), scores_of(score, second)
        thresholds = Thresholds.of(s1[:third], s2[:third], few=_few(score))
        for extra_margin in TUNING.extra_margins:
            rules = thresholds.rules(score, estimate, margin + extra_margin, claimed_delta)
            ranked += [_measure(rule, s1[third:], s2[third:], estimate, fresh, extra_margin) for rule in rules]
    best = max(ranked, key=lambda candidate: candidate.selection_score)
    if not alike and best.estimated_bound < TUNING.unsure * best.error:
        ranked = _smoothed(ranked, {key: (s1[third:], s2[third:]) for key, (s1, s2) in values.items()}, estimate, fresh)
    ranked.sort(key=lambda candidate: candidate.selection_score, reverse=True)
    # Of those about as good as the best, the one that says so most surely.
    best = ranked[0]
    least = max(best.estimated_bound - (TUNING.nearly_alike if alike else TUNING.nearly) * best.error, 0.0)
    surest = min([c for c in ranked if c.estimated_bound >= least] or [best], key=lambda candidate: candidate.error)
    ranked.remove(surest)
    # Cut again, it could end in a lucky tail: mu is large where hits are few.
    return [surest if alike else _cut_again(surest, *values[id(surest.rule.score)], estimate, fresh), *ranked]


def _smoothed(
    candidates: Sequence[Candidate], values: Mapping[int, tuple[Floats, Floats]], estimate: BoundEstimate, fresh: int
) -> list[Candidate]:
    """The candidates with bounds estimated from counts that are smoothed along their scores, whose values are given.

    Where estimates are hardly more than their errors, raw counts would choose between thresholds of one score by luck.
    """
    at = {key: [r for c in candidates if id(c.rule.score) == key for r in c.rule.thresholds] for key in values}
    few = {id(candidate.rule.score): _few(candidate.rule.score) for candidate in candidates}
    thresholds = {key: Thresholds.of(*both, few=few[key], at=at[key]) for key, both in values.items()}
    found = []
    for candidate in candidates:
        counts = thresholds[id(candidate.rule.score)].hits(candidate.rule)
        bound = _bound_among_many(candidate.rule, counts, candidate.rows, estimate, fresh)
        found.append(replace(candidate, estimated_bound=bound[0], error=bound[1]))
    return found


def _quick_score(score: Score, first: Encoded, second: Encoded, estimate: BoundEstimate) -> float:
    """The selection score of the best event of a score, on a few rows."""
    return Thresholds.of(scores_of(score, first), scores_of(score, second), few=None).selection_score(estimate, 4.0)


def _few(score: Score) -> int:
    """Values of a score that are counted as they are, not smoothed."""
    return TUNING.unsmoothed_ratios if isinstance(score, (Atoms, Histogram)) else TUNING.unsmoothed_cells


def are_few(first: Encoded, second: Encoded) -> bool:
    """Whether the outputs take few values."""
    if first.distinct is None or second.distinct is None:
        return False
    keys = np.concatenate([first.distinct[0].keys, second.distinct[0].keys])
    return bool(np.unique(keys).size <= TUNING.few_values)


def choose_atoms(first: Encoded, second: Encoded, estimate: BoundEstimate, *, fresh: int) -> list[Candidate]:
    """The most promising rules where outputs take few values and the claim is pure; none if rows are few.

    Rules are chosen by the frequencies in all rows. Every event is a set of outputs, so no other score can do better,
    and few outputs leave little to luck: no row is set aside to teach, to cut or to compare.
    """
    score = Atoms.fit(None, first, second, z_margin=TUNING.few_outputs_shrinkage)
    if score is None:
        return []
    z_margin = _margin(len(first), fresh) + TUNING.few_outputs_margin
    s1, s2 = (scores_of(score, rows) for rows in (first, second))
    rules = Thresholds.of(s1, s2, few=None).rules(score, estimate, z_margin, 0.0)
    found = []
    for rule in rules:
        hits = hits_of(rule, s1, s2)
        bound = _with_error(rule, hits, len(first), estimate, z_margin)
        found.append(Candidate(rule, *bound, *hits, len(first), TUNING.few_outputs_margin))
    return sorted(found, key=lambda candidate: candidate.selection_score, reverse=True)


def _margin(rows: int, fresh: int) -> float:
    """The margin of a bound from ``fresh`` outputs, in standard errors of an estimate from ``rows``."""
    return TUNING.margin * math.sqrt(rows / fresh)


def _cut_again(candidate: Candidate, s1: Floats, s2: Floats, estimate: BoundEstimate, fresh: int) -> Candidate:
    """The chosen kind of rule, cut with the same margin on all rows; an event of one input only stays as it is."""
    if not candidate.hits2:
        return candidate
    score, claimed_delta = candidate.rule.score, getattr(candidate.rule, "delta", None)
    z_margin = _margin(len(s1), fresh) + candidate.extra_margin
    rules = Thresholds.of(s1, s2, few=_few(score)).rules(score, estimate, z_margin, claimed_delta)
    return _measure(rules[-1], s1, s2, estimate, fresh, candidate.extra_margin)


def different(ranked: Sequence[Candidate], first: Encoded, second: Encoded, most: int) -> list[Candidate]:
    """The best event, and others about as good whose bounds vary apart: if the best was only lucky, they were not."""
    chosen: list[Candidate] = []
    masks: list[Floats] = []
    for candidate in ranked[: TUNING.compared_events]:
        event = candidate.rule
        if (
            not isinstance(event, OutputEvent)
            or candidate.estimated_bound < ranked[0].estimated_bound - TUNING.as_good * candidate.error
        ):
            continue
        mask = np.concatenate([event(side.part(0, TUNING.quick_rows)) for side in (first, second)]).astype(np.float64)
        if event.swapped:
            mask = 1.0 - mask  # an event and its complement, seen from the other input, are the same evidence
        if all(_correlation(mask, other) < TUNING.same_event for other in masks):
            chosen.append(candidate)
            masks.append(mask)
        if len(chosen) == most:
            break
    return chosen


def _correlation(a: Floats, b: Floats) -> float:
    spread = float(a.std() * b.std())
    return float((a * b).mean() - a.mean() * b.mean()) / spread if spread > 0.0 else 1.0


def _measure(rule: Rule, s1: Floats, s2: Floats, estimate: BoundEstimate, fresh: int, extra_margin: float) -> Candidate:
    hits = hits_of(rule, s1, s2)
    return Candidate(rule, *_bound_among_many(rule, hits, len(s1), estimate, fresh), *hits, len(s1), extra_margin)


def _bound_among_many(
    rule: Rule, hits: tuple[float, float], rows: int, estimate: BoundEstimate, fresh: int
) -> tuple[float, float]:
    """The estimated bound of one rule among many, and its standard error."""
    luck = TUNING.luck + TUNING.learned_luck * (not isinstance(rule.score, Fixed))
    return _with_error(rule, hits, rows, estimate, _margin(rows, fresh) + luck)


def _with_error(
    rule: Rule, hits: tuple[float, float], rows: int, estimate: BoundEstimate, z_margin: float
) -> tuple[float, float]:
    value, bolder = (rule.estimated_bound(estimate, hits, rows, errors) for errors in (z_margin, z_margin - 1.0))
    return value, bolder - value if math.isfinite(value) else 0.0


def _varies(column: Floats) -> bool:
    return not bool(np.all((column == column[0]) | (np.isnan(column) & np.isnan(column[0]))))


def _separating(first: Encoded, second: Encoded, columns: Sequence[int], most: int) -> list[int]:
    """The columns that differ most between the inputs (largest gap of the empirical distribution functions)."""
    if len(columns) <= most:
        return list(columns)
    gaps = []
    for j in columns:
        a, b = np.sort(first.numbers[: TUNING.separating_rows, j]), np.sort(second.numbers[: TUNING.separating_rows, j])
        grid = np.concatenate([a, b])
        gap = np.searchsorted(a, grid, side="right") / a.size - np.searchsorted(b, grid, side="right") / b.size
        gaps.append(float(np.max(np.abs(gap))))
    order = np.argsort(gaps)[::-1][:most]
    return sorted(columns[int(i)] for i in order)
