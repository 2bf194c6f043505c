"""Choose the event to certify: cut each score where the promised bound is largest.

Directions count too: an event may be likely on the first input or on the second, above the cut or below it. Whatever is
chosen here is certified on outputs that nothing here has seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ledgerwood.verification.features import Encoded
from ledgerwood.verification.scores import (
    POOLINGS,
    Atoms,
    Column,
    Design,
    Difference,
    Histogram,
    Linear,
    LowBit,
    Pooled,
    Score,
    Tree,
)

__all__ = ["Candidate", "Event", "choose", "low_bit_scores", "propose"]

Floats = NDArray[np.float64]
Promise = Callable[[Floats, Floats, int], Floats]

_QUICK = 40_000  # rows per input for the first comparison of scores
_FINALISTS = 6  # scores compared again on all rows
_CUTS = 500


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """``score >= cut`` (or ``<=``); ``swapped`` if it is the second input that makes it likely."""

    score: Score
    cut: float
    above: bool
    swapped: bool

    def __call__(self, encoded: Encoded) -> NDArray[np.bool_]:
        scores = _scores(self.score, encoded)
        return scores >= self.cut if self.above else scores <= self.cut

    def __str__(self) -> str:
        return f"{self.score.name} {'>=' if self.above else '<='} {self.cut:.6g}"


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """An event with its counts on the rows that chose it; ``hits1`` belongs to the likelier input."""

    event: Event
    promise: float
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
    scores += [Histogram.fit(column, first, second) for column in columns[:24]]
    atoms = [Atoms.fit(column, first, second) for column in columns[:40]]
    whole = Atoms.fit(None, first, second)
    scores += [atom for atom in (*atoms, whole) if atom is not None]
    if classifiers and len(varying) >= 2:
        scores += _many_fields(first, second, whole is not None)
    return scores


def _many_fields(first: Encoded, second: Encoded, repeated: bool) -> list[Score]:
    design = Design.fit(np.concatenate([first.numbers[:20_000], second.numbers[:20_000]]))
    pooled: list[Score] = [Pooled(how, design) for how in POOLINGS]
    scores = list(pooled)
    scores += [Histogram.fit(score, first, second) for score in pooled[-4:]]
    linear = Linear.fit(design, first.part(0, 150_000), second.part(0, 150_000))
    tree = Tree.fit(linear, first.part(0, 60_000), second.part(0, 60_000))
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
    scores: Sequence[Score], first: Encoded, second: Encoded, promise: Promise, *, most: int = 1
) -> list[Candidate]:
    """The most promising events, best first, at most one per score."""
    quick1, quick2 = first.part(0, _QUICK), second.part(0, _QUICK)
    ranked = sorted(
        ((_best_cut(score, quick1, quick2, promise), score) for score in scores),
        key=lambda pair: pair[0].promise,
        reverse=True,
    )
    if len(first) > _QUICK:
        again = [_best_cut(score, first, second, promise) for _, score in ranked[:_FINALISTS]]
    else:
        again = [candidate for candidate, _ in ranked]
    return sorted(again, key=lambda candidate: candidate.promise, reverse=True)[:most]


def _best_cut(score: Score, first: Encoded, second: Encoded, promise: Promise) -> Candidate:
    s1, s2 = _scores(score, first), _scores(score, second)
    n = len(s1)
    cuts = _cuts(s1, s2)
    cells1, cells2 = _cells(s1, cuts), _cells(s2, cuts)
    best: Candidate | None = None
    for rising in (True, False):  # does the score favour the first input?
        c1, c2 = _monotone(cells1, cells2, rising=rising)
        for above in (True, False):
            a, b = (_at_or_above(c) if above else _at_or_below(c) for c in (c1, c2))
            swapped = above != rising
            values = promise(*((b, a) if swapped else (a, b)), n)
            i = int(np.argmax(values))
            if best is None or values[i] > best.promise:
                hits = [int((_at_or_above(c) if above else _at_or_below(c))[i]) for c in (cells1, cells2)]
                event = Event(score, float(cuts[i]), above, swapped)
                best = Candidate(event, float(values[i]), *(hits[::-1] if swapped else hits), n)
    assert best is not None
    return best


def _monotone(cells1: Floats, cells2: Floats, *, rising: bool) -> tuple[Floats, Floats]:
    """Counts smoothed so that the first input's share rises (or falls) with the score: pool adjacent violators.

    A good score has a monotone likelihood ratio. Pooling removes the noise that makes one of many cuts look best by luck.
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
