"""Choose the event to certify: cut each score where the promised bound is largest.

Directions count too: an event may be likely on the first input or on the second, above the cut or below it. Whatever is
chosen here is certified on outputs that nothing here has seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ledgerwood.verification.features import Encoded
from ledgerwood.verification.scores import (
    REDUCTIONS,
    Atoms,
    Column,
    Design,
    Difference,
    Histogram,
    Linear,
    LowBit,
    Memo,
    Pooled,
    Score,
    Tree,
)

__all__ = ["Candidate", "Event", "choose", "different", "low_bit_scores", "propose", "relearn"]

Floats = NDArray[np.float64]
Promise = Callable[[Floats, Floats, int, float], Floats]

_QUICK = 20_000  # rows per input for the first comparison of scores
_FINALISTS = 8  # scores compared again on all rows
_CUTS = 500
_FEW_VALUES = 40  # of a field that is not cut into bins
_CAUTIONS = (1.0, 2.0, 4.0, 8.0)  # standard errors: bold cuts for rare events, careful ones for frequent events
_COMPARED = 12  # events among which different ones are sought
_AS_GOOD = 0.5  # standard errors by which an event may promise less than the best one and still be certified
_SAME = 0.7  # correlation from which two events count as the same
_LUCK = 0.7  # standard errors taken off for the luckiest of the events compared, beyond the margin of the certificate


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """``score >= cut`` (or ``<=``); ``swapped`` if it is the second input that makes it likely."""

    score: Score
    cut: float
    above: bool
    swapped: bool

    def __call__(self, encoded: Encoded) -> NDArray[np.bool_]:
        return self.holds(_scores(self.score, encoded))

    def holds(self, scores: Floats) -> NDArray[np.bool_]:
        """Whether the event holds at each value of its score."""
        return scores >= self.cut if self.above else scores <= self.cut

    def __str__(self) -> str:
        return f"{self.score.name} {'>=' if self.above else '<='} {self.cut:.6g}"


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """An event with its counts on the rows that chose it; ``hits1`` belongs to the likelier input.

    ``promise`` is a cautious estimate of its bound, ``error`` the standard error of that estimate.
    """

    event: Event
    promise: float
    error: float
    hits1: int
    hits2: int
    rows: int


def propose(first: Encoded, second: Encoded, *, classifiers: bool = True) -> list[Score]:
    """The ensemble of scores, learned from the given rows."""
    numbers = np.concatenate([first.numbers, second.numbers])
    varying = [j for j, column in enumerate(numbers.T) if _varies(column)]
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
    whole = Atoms.fit(None, first, second)
    scores += [atom for atom in (*atoms, whole) if atom is not None]
    if classifiers and len(varying) >= 2:
        scores += _many_fields(first, second, whole is not None)
    return scores


def _many_fields(first: Encoded, second: Encoded, repeated: bool) -> list[Score]:
    design = Design.fit(np.concatenate([first.numbers[:20_000], second.numbers[:20_000]]))
    scores: list[Score] = [Pooled(how) for how in REDUCTIONS]
    scores += Linear.equal(design)
    linear = Linear.fit(design, first.part(0, 60_000), second.part(0, 60_000))
    tree = Tree.fit(linear, first.part(0, 12_000), second.part(0, 12_000))
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
    """One score per field whose values are not all integers: which grid of floats it lies on."""
    scores: list[Score] = []
    for j, name in enumerate(first.names[:64]):
        values = first.numbers[:2000, j]
        values = values[np.isfinite(values)]
        if values.size and np.any(values != np.round(values)):
            scores.append(LowBit(j, f"lowest bit of {name}"))
    return scores


def choose(
    scores: Sequence[Score], first: Encoded, second: Encoded, promise: Promise, *, fresh: int
) -> list[Candidate]:
    """The most promising events, best first: cut on one third of the rows, compared on the others.

    Among thousands of cuts the best looking one is often the luckiest, above all in the tails. So each score proposes
    a bold cut and careful ones, and fresh rows decide between them. ``fresh`` outputs per input await the event.
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
        events = dict.fromkeys(cuts.best(promise, caution) for caution in _CAUTIONS)
        s1, s2 = _scores(score, rank1), _scores(score, rank2)
        caution = 2.33 * math.sqrt(len(s1) / fresh) + _LUCK
        ranked += [_measure(Event(score, *event), s1, s2, promise, caution) for event in events]
    return sorted(ranked, key=lambda candidate: candidate.promise, reverse=True)


def different(ranked: Sequence[Candidate], first: Encoded, second: Encoded, most: int) -> list[Candidate]:
    """The best event, and others about as good whose bounds vary apart: if the best was only lucky, they were not."""
    chosen: list[Candidate] = []
    masks: list[Floats] = []
    for candidate in ranked[:_COMPARED]:
        if candidate.promise < ranked[0].promise - _AS_GOOD * candidate.error:
            continue
        mask = np.concatenate([candidate.event(side.part(0, _QUICK)) for side in (first, second)]).astype(np.float64)
        if candidate.event.swapped:
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


def _measure(event: Event, s1: Floats, s2: Floats, promise: Promise, caution: float) -> Candidate:
    hits1, hits2 = (int(np.count_nonzero(event.holds(s))) for s in (s1, s2))
    if event.swapped:
        hits1, hits2 = hits2, hits1
    counts = np.asarray([hits1]), np.asarray([hits2]), len(s1)
    value, bolder = (float(promise(*counts, c)[0]) for c in (caution, caution - 1.0))
    return Candidate(event, value, bolder - value if math.isfinite(value) else 0.0, hits1, hits2, len(s1))


def relearn(candidate: Candidate, first: Encoded, second: Encoded, memo: Memo) -> Event:
    """The chosen kind of event with its score learned from all rows, cut so that it is as frequent as before.

    An event that never happened on one input stays as it was if the new one does happen there; and so does any event
    that the new score, which may have few values, cannot make about as frequent.
    """
    event = candidate.event
    score = event.score.relearn(first, second, memo)
    if score is event.score:
        return event
    pooled = np.concatenate([_scores(score, first), _scores(score, second)])
    share = (candidate.hits1 + candidate.hits2) / (2 * candidate.rows)
    level = min(max(1.0 - share if event.above else share, 0.0), 1.0)
    cuts = [float(np.quantile(pooled, level, method=side)) for side in ("lower", "higher")]
    options = [Event(score, cut, event.above, event.swapped) for cut in cuts]
    relearned = min(options, key=lambda option: abs(float(np.mean(option.holds(pooled))) - share))
    if abs(float(np.mean(relearned.holds(pooled))) - share) > 0.1 * min(share, 1.0 - share):
        return event
    never = candidate.hits2 == 0
    return event if never and relearned(first if event.swapped else second).any() else relearned


@dataclass(frozen=True, slots=True, eq=False)
class _Cuts:
    """Counts of a score's values around its possible cuts, smoothed in the four ways an event can use them."""

    cuts: Floats
    rows: int
    #: (above, swapped, hits on the likelier input, hits on the other) for every cut
    sides: list[tuple[bool, bool, Floats, Floats]]

    @classmethod
    def of(cls, score: Score, first: Encoded, second: Encoded) -> _Cuts:
        s1, s2 = _scores(score, first), _scores(score, second)
        cuts = _cuts(s1, s2)
        cells1, cells2 = _cells(s1, cuts), _cells(s2, cuts)
        sides: list[tuple[bool, bool, Floats, Floats]] = []
        for rising in (True, False):  # does a large score favour the first input?
            c1, c2 = _monotone(cells1, cells2, rising=rising)
            for above in (True, False):
                a, b = (_at_or_above(c) if above else _at_or_below(c) for c in (c1, c2))
                swapped = above != rising
                sides.append((above, swapped, b, a) if swapped else (above, swapped, a, b))
        return cls(cuts, len(s1), sides)

    def promise(self, promise: Promise, caution: float) -> float:
        return max(float(np.max(promise(a, b, self.rows, caution))) for _, _, a, b in self.sides)

    def best(self, promise: Promise, caution: float) -> tuple[float, bool, bool]:
        """The cut, whether the event lies above it, and whether the second input makes it likely."""
        options = []
        for above, swapped, a, b in self.sides:
            values = promise(a, b, self.rows, caution)
            i = int(np.argmax(values))
            options.append((float(values[i]), (float(self.cuts[i]), above, swapped)))
        return max(options)[1]


def _monotone(cells1: Floats, cells2: Floats, *, rising: bool) -> tuple[Floats, Floats]:
    """Counts smoothed so that the first input's share rises (or falls) with the score: pool adjacent violators.

    A good score has a monotone likelihood ratio. Pooling removes the noise that makes one of many cuts look best by
    luck.
    """
    total = cells1 + cells2
    ones = cells1 if rising else cells2
    pooled: list[tuple[float, float, int]] = []  # hits, weight, cells
    for hits, weight in zip(ones.tolist(), total.tolist()):
        block = (hits, weight, 1)
        while pooled and pooled[-1][0] * block[1] >= block[0] * pooled[-1][1]:
            last = pooled.pop()
            block = (last[0] + block[0], last[1] + block[1], last[2] + block[2])
        pooled.append(block)
    shares = np.repeat([h / w if w else 0.5 for h, w, _ in pooled], [k for _, _, k in pooled])
    smooth = shares * total
    return (smooth, total - smooth) if rising else (total - smooth, smooth)


def _scores(score: Score, encoded: Encoded) -> Floats:
    """Scores with nan below every number, so that "absent" is an event as well; repeated outputs are scored once."""
    distinct = encoded.distinct
    values = score(encoded) if distinct is None else score(distinct[0])[distinct[1]]
    return np.where(np.isnan(values), -np.inf, values)


def _cuts(s1: Floats, s2: Floats) -> Floats:
    """All values if they are few; else quantiles, dense in both tails and taken from each input."""
    sample = np.concatenate([s1[:20_000], s2[:20_000]])
    few = np.unique(sample)
    if few.size <= _CUTS:
        return few
    tail = np.geomspace(5.0 / s1.size, 0.02, 60)
    levels = np.concatenate([tail, np.linspace(0.02, 0.98, 120), 1.0 - tail])
    places = np.unique(np.clip((levels * s1.size).astype(np.int64), 0, s1.size - 1))
    return np.unique(np.concatenate([np.partition(s, places)[places] for s in (s1, s2)]))


def _cells(scores: Floats, cuts: Floats) -> Floats:
    """Counts below the first cut, at it, between it and the next, at the next, ..., above the last."""
    right = np.searchsorted(cuts, scores, side="right")
    at = cuts[np.maximum(right - 1, 0)] == scores
    return np.bincount(2 * right - at, minlength=2 * cuts.size + 1).astype(np.float64)


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
        a, b = np.sort(first.numbers[:4000, j]), np.sort(second.numbers[:4000, j])
        grid = np.concatenate([a, b])
        gap = np.searchsorted(a, grid, side="right") / a.size - np.searchsorted(b, grid, side="right") / b.size
        gaps.append(float(np.max(np.abs(gap))))
    order = np.argsort(gaps)[::-1][:most]
    return sorted(columns[int(i)] for i in order)
