"""Choose what to certify: the score, and the cut of it, with the largest bound that its counts can be trusted for.

Each proposed score is learned and cut on outputs of a selection sample: those that learn, out of fold, so that no row
is scored by what it taught. Every event and every guess of every score is a candidate. Its value is the bound of the
certificate itself at the number of fresh outputs to come, less the luck of the best of K scores:

    ln(hits1 / (hits2 + 1)) - (z sqrt(m / n) + sqrt(2 ln(K + 1))) standard errors

with m selection rows, n fresh ones and z the certificate's own quantile (the claimed delta is taken off the hits
first). Where no value is positive, the one that lacks the fewest standard errors is taken. The score is then learned
from the whole sample and the cut kept; whatever is chosen, it is certified on outputs that nothing here has seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from ledgerwood.verification.auditor.certificate.counts import estimated_bound_of_guesses
from ledgerwood.verification.auditor.encoding import Encoded
from ledgerwood.verification.auditor.events import Guess, OutputEvent, Rule
from ledgerwood.verification.auditor.float_attacks import LowBit, low_bit
from ledgerwood.verification.auditor.scores import (
    BoostedTrees,
    Difference,
    Field,
    FrequencyRatios,
    Linear,
    Score,
    scores_of,
)
from ledgerwood.verification.auditor.tuning import TUNING

__all__ = ["BoundEstimate", "Candidate", "choose", "learned", "propose"]


Floats = NDArray[np.float64]

#: A rough bound from counts on either input, n and a margin in standard errors.
BoundEstimate = Callable[[Floats, Floats, int, float], Floats]
#: A score to be learned from rows of either input, or one that learns nothing.
Proposal = Field | Difference | LowBit | Callable[[Encoded, Encoded], Score]

_GIVEN = (Field, Difference, LowBit)
_NORMAL_99 = 2.33  # standard errors between an estimate and its bound at 99 %


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A rule with its counts on ``rows`` outputs of either input: hits on the likelier input and the other, or guesses.

    ``bound`` is what it may be trusted to certify, ``value`` what candidates are ranked by.
    """

    proposal: Proposal
    rule: Rule
    bound: float
    value: float
    hits1: int
    hits2: int
    rows: int

    @property
    def settles(self) -> bool:
        """Whether no other event can certify much more: it is seen on one input only, and often."""
        return self.bound > 0.0 and not self.hits2 and 2 * self.hits1 >= self.rows


def propose(first: Encoded, second: Encoded, *, classifiers: bool) -> list[Proposal]:
    """The scores to compare: fields, cells of fields, whole outputs, lowest bits, and classifiers of many fields."""
    varying = [
        j for j in range(len(first.names)) if _varies(np.concatenate([s.numbers[:, j] for s in (first, second)]))
    ]
    fields = _separating(first, second, varying)
    names = first.names
    proposals: list[Proposal] = [Field(j, names[j]) for j in fields]
    proposals += [partial(FrequencyRatios.fit, j, names[j]) for j in fields]
    if 2 <= len(varying) <= TUNING.few_fields:
        proposals += [Difference(i, j, f"{names[i]} - {names[j]}") for i, j in combinations(varying, 2)]
    if len(varying) >= 2 and first.distinct is not None:
        proposals.append(partial(FrequencyRatios.fit, None, "whole output"))
    proposals += [LowBit(j, f"lowest bit of {names[j]}") for j in _on_grids(first, second, varying)]
    if classifiers and len(varying) >= 2:
        proposals += [Linear.fit, BoostedTrees.fit]
    return proposals


def choose(
    proposals: Sequence[Proposal],
    first: Encoded,
    second: Encoded,
    estimate: BoundEstimate,
    *,
    fresh: int,
    claimed_delta: float | None = None,
) -> list[Candidate]:
    """The best event, and for a claim at one delta the best guess, of each proposed score; the best of all first.

    ``fresh`` outputs per input will certify it. ``claimed_delta``: of a claim at one point; guesses speak of no other.
    """
    luck = math.sqrt(2.0 * math.log(len(proposals) + 1.0))
    if len(proposals) > TUNING.compared_scores and len(first) > TUNING.quick_rows:
        few1, few2 = (side.part(0, TUNING.quick_rows) for side in (first, second))
        quick = choose(proposals, few1, few2, estimate, fresh=fresh, claimed_delta=claimed_delta)
        kept = list(dict.fromkeys(id(candidate.proposal) for candidate in quick))[: TUNING.compared_scores]
        proposals = [proposal for proposal in proposals if id(proposal) in kept]
    margin = _NORMAL_99 * math.sqrt(len(first) / fresh) + luck
    found: list[Candidate] = []
    for proposal in proposals:
        found += _candidates(proposal, *_values(proposal, first, second), estimate, margin, claimed_delta)
    return sorted(found, key=lambda candidate: candidate.value, reverse=True)  # of equal ones the first


def learned(candidate: Candidate, first: Encoded, second: Encoded) -> Rule:
    """The rule of a candidate with its score learned from these rows."""
    if isinstance(candidate.proposal, _GIVEN):
        return candidate.rule
    most = TUNING.classifier_rows
    return replace(candidate.rule, score=candidate.proposal(first.part(0, most), second.part(0, most)))


def _values(proposal: Proposal, first: Encoded, second: Encoded) -> tuple[Floats, Floats]:
    """The score of every row, learned from rows of the other folds."""
    if isinstance(proposal, _GIVEN):
        return scores_of(proposal, first), scores_of(proposal, second)
    ends = np.linspace(0, len(first), TUNING.folds + 1).astype(int)
    values = []
    for start, stop in pairwise(ends):
        others = (_without(side, start, stop) for side in (first, second))
        score = proposal(*others)
        values.append([scores_of(score, side.part(start, stop)) for side in (first, second)])
    s1, s2 = (np.concatenate(side) for side in zip(*values))
    return s1, s2


def _without(rows: Encoded, start: int, stop: int) -> Encoded:
    most = TUNING.classifier_rows
    return Encoded(np.concatenate([rows.numbers[:start], rows.numbers[stop:]])[:most], rows.names)


def _candidates(
    proposal: Proposal, s1: Floats, s2: Floats, estimate: BoundEstimate, margin: float, claimed_delta: float | None
) -> list[Candidate]:
    """The best event and the best guess of one score, given its values on either input."""
    s1, s2 = np.sort(s1), np.sort(s2)
    rows = len(s1)
    pooled = np.sort(np.concatenate([s1, s2]))
    cuts = _cuts(pooled)
    above = [len(s) - np.searchsorted(s, cuts, side="left").astype(np.float64) for s in (s1, s2)]
    below = [np.searchsorted(s, cuts, side="right").astype(np.float64) for s in (s1, s2)]
    score = proposal if isinstance(proposal, _GIVEN) else _UNLEARNED
    # A learned score moves a little when it is learned again: cut it between the values that the cut tells apart.
    rising_cuts = cuts if score is not _UNLEARNED else _between(pooled, cuts, "left")
    falling_cuts = cuts if score is not _UNLEARNED else _between(pooled, cuts, "right")
    options: list[tuple[float, float, int, int, Rule]] = []
    for swapped in (False, True):
        for is_above, counts, places in ((True, above, rising_cuts), (False, below, falling_cuts)):
            hits, others = counts[::-1] if swapped else counts
            value, bound = _value(partial(estimate, hits, others, rows), margin)
            i = int(np.argmax(value))
            event = OutputEvent(score, float(places[i]), is_above, swapped)
            options.append((float(value[i]), float(bound[i]), int(hits[i]), int(others[i]), event))
    best = [max(options, key=lambda option: option[0])]
    if claimed_delta is not None and cuts.size > 1:
        options = []
        for rising in (True, False):
            up, down = (above, below[::-1]) if rising else (above[::-1], below)
            right, wrong = up[0][:, None] + down[0], up[1][:, None] + down[1]
            right[cuts[:, None] <= cuts] = 0.0  # the high cut comes first
            value, bound = _value(partial(estimated_bound_of_guesses, right, wrong, rows, claimed_delta), margin)
            i, j = divmod(int(np.argmax(value)), cuts.size)
            guess = Guess(score, float(falling_cuts[j]), float(rising_cuts[i]), rising)
            options.append((float(value[i, j]), float(bound[i, j]), int(right[i, j]), int(wrong[i, j]), guess))
        best.append(max(options, key=lambda option: option[0]))
    return [
        Candidate(proposal, rule, bound, value, hits, others, rows)
        for value, bound, hits, others, rule in best
        if value > -math.inf
    ]


def _value(bound_at: Callable[[float], Floats], margin: float) -> tuple[Floats, Floats]:
    """A positive bound itself; of any other, how many standard errors are missing. And the bound.

    What holds almost always has a bound of nearly 0 and proves nothing: it must not win where every bound is below 0.
    """
    bound = bound_at(margin)
    with np.errstate(divide="ignore", invalid="ignore"):
        missing = bound / (bound_at(margin - 1.0) - bound)
    return np.where(bound > 0.0, bound, np.where(np.isfinite(missing), missing, -math.inf)), bound


def _cuts(pooled: Floats) -> Floats:
    """Values at which a score may be cut: all if they are few; else quantiles, dense in both tails."""
    values: Floats = pooled[np.append(True, pooled[1:] != pooled[:-1])]
    if values.size <= TUNING.cuts:
        return values
    tail = np.geomspace(3.0 / pooled.size, 0.05, TUNING.cuts // 4)
    levels = np.concatenate([tail, np.linspace(0.05, 0.95, TUNING.cuts // 2), 1.0 - tail])
    places = np.clip((levels * pooled.size).astype(np.int64), 0, pooled.size - 1)
    return np.asarray(np.unique(pooled[places]), dtype=np.float64)


def _between(pooled: Floats, cuts: Floats, side: str) -> Floats:
    """Halfway from each cut to the next value below it ("left") or above it ("right")."""
    if side == "left":
        places = np.searchsorted(pooled, cuts, side="left") - 1
    else:
        places = np.searchsorted(pooled, cuts, side="right")
    inside = (places >= 0) & (places < pooled.size)
    neighbors = pooled[np.clip(places, 0, pooled.size - 1)]
    usable = inside & np.isfinite(neighbors) & np.isfinite(cuts)
    return np.asarray(np.where(usable, 0.5 * cuts + 0.5 * np.where(usable, neighbors, 0.0), cuts), dtype=np.float64)


class _Unlearned:
    """Stands for a score until it is learned from the whole sample."""

    name = "a score to be learned"

    def __call__(self, encoded: Encoded) -> Floats:
        raise NotImplementedError


_UNLEARNED: Score = _Unlearned()


def _varies(column: Floats) -> bool:
    return not bool(np.all((column == column[0]) | (np.isnan(column) & np.isnan(column[0]))))


def _separating(first: Encoded, second: Encoded, columns: Sequence[int]) -> list[int]:
    """The columns that differ most between the inputs (largest gap of the empirical distribution functions)."""
    if len(columns) <= TUNING.separate_fields:
        return list(columns)
    gaps = []
    for j in columns:
        a, b = (np.sort(side.numbers[: TUNING.quick_rows, j]) for side in (first, second))
        grid = np.concatenate([a, b])
        gap = np.searchsorted(a, grid, side="right") / a.size - np.searchsorted(b, grid, side="right") / b.size
        gaps.append(float(np.max(np.abs(gap))))
    return sorted(columns[int(i)] for i in np.argsort(gaps)[::-1][: TUNING.separate_fields])


def _on_grids(first: Encoded, second: Encoded, columns: Sequence[int]) -> list[int]:
    """Fields whose lowest bit may tell: floats, or integers that hardly repeat; never a hash."""
    values = first.numbers[:2000]
    with np.errstate(invalid="ignore"):
        floats = np.any(np.isfinite(values) & (values != np.round(values)), axis=0)
    distinct = [
        not name.endswith((".text", "fields")) and np.unique(column).size > 0.2 * column.size
        for name, column in zip(first.names, values.T)
    ]
    bits1, bits2 = (Encoded(low_bit(side.numbers[: TUNING.quick_rows]), side.names) for side in (first, second))
    return _separating(bits1, bits2, [j for j in columns if floats[j] or distinct[j]])
