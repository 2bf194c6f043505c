"""What an audit counts: how often an event happens on either input, or how often a guess of the input is right.

Both are rules on a score of the output: an event has one threshold, a guess has two. ``Thresholds`` finds the best ones
for the counts of two samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ledgerwood.verification.auditor.certificate.counts import estimated_bound_of_guesses
from ledgerwood.verification.auditor.encoding import Encoded
from ledgerwood.verification.auditor.scores import Memo, Score
from ledgerwood.verification.auditor.smoothing import smooth
from ledgerwood.verification.auditor.tuning import TUNING

__all__ = [
    "BoundEstimate",
    "Guess",
    "OutputEvent",
    "Rule",
    "Thresholds",
    "hits_of",
    "relearn",
    "scores_of",
    "selection_score",
]


Floats = NDArray[np.float64]

#: A rough bound from counts on either input, n and a margin in standard errors.
BoundEstimate = Callable[[Floats, Floats, int, float], Floats]


def scores_of(score: Score, encoded: Encoded) -> Floats:
    """Scores with nan below every number, so that "absent" is an event as well; repeated outputs are scored once."""
    distinct = encoded.distinct
    values = score(encoded) if distinct is None else score(distinct[0])[distinct[1]]
    return np.where(np.isnan(values), -np.inf, values)


@dataclass(frozen=True, slots=True, eq=False)
class OutputEvent:
    """``score >= threshold`` (or ``<=``); ``swapped`` if it is the second input that makes it likely."""

    score: Score
    threshold: float
    above: bool
    swapped: bool

    def __call__(self, encoded: Encoded) -> NDArray[np.bool_]:
        return self.holds(scores_of(self.score, encoded))

    def holds(self, scores: Floats) -> NDArray[np.bool_]:
        """Whether the event holds at each value of its score."""
        return scores >= self.threshold if self.above else scores <= self.threshold

    @property
    def thresholds(self) -> tuple[float, ...]:
        """Where the score is cut."""
        return (self.threshold,)

    def tally(self, scores: Floats, side: int) -> tuple[int, int]:
        """What outputs of one input add to the hits on the likelier input and to those on the other."""
        hits = int(np.count_nonzero(self.holds(scores)))
        return (hits, 0) if (side == 1) == self.swapped else (0, hits)

    def estimated_bound(self, estimate: BoundEstimate, hits: tuple[float, float], rows: int, z_margin: float) -> float:
        """A rough bound from such counts."""
        return float(estimate(np.asarray([hits[0]]), np.asarray([hits[1]]), rows, z_margin)[0])

    @property
    def on(self) -> str:
        """The likelier input."""
        return "the second input" if self.swapped else "the first input"

    def relearned(self, score: Score, first: Encoded, second: Encoded, *, zero_count: bool) -> OutputEvent:
        """The event with a new score, cut to be as frequent as before; itself if that cannot be.

        ``zero_count``: it was not seen on the other input, and stays as it was if the new one is.
        """
        threshold = _same_share(self.score, score, self.threshold, self.above, first, second)
        if threshold is None:
            return self
        event = OutputEvent(score, threshold, self.above, self.swapped)
        return self if zero_count and event(first if self.swapped else second).any() else event

    def __str__(self) -> str:
        return f"{self.score.name} {'>=' if self.above else '<='} {self.threshold:.6g}"


@dataclass(frozen=True, slots=True, eq=False)
class Guess:
    """One input where ``score >= high``, the other where ``score <= low``, else none.

    ``rising`` if a high score speaks for the first input; ``delta`` is the claimed delta.
    """

    score: Score
    low: float
    high: float
    rising: bool
    delta: float = 0.0

    @property
    def thresholds(self) -> tuple[float, ...]:
        """Where the score is cut."""
        return (self.low, self.high)

    def tally(self, scores: Floats, side: int) -> tuple[int, int]:
        """How many guesses are right and how many wrong on outputs of one input."""
        high, low = int(np.count_nonzero(scores >= self.high)), int(np.count_nonzero(scores <= self.low))
        return (high, low) if (side == 0) == self.rising else (low, high)

    def estimated_bound(self, estimate: BoundEstimate, hits: tuple[float, float], rows: int, z_margin: float) -> float:
        """A rough bound from such counts."""
        right, wrong = (np.asarray([float(count)]) for count in hits)
        return float(estimated_bound_of_guesses(right, wrong, rows, self.delta, z_margin)[0])

    @property
    def on(self) -> str:
        """Both directions are read."""
        return "either input"

    def relearned(self, score: Score, first: Encoded, second: Encoded, *, zero_count: bool) -> Guess:
        """The rule with a new score, cut so that each guess is as frequent as before; itself if that cannot be."""
        high = _same_share(self.score, score, self.high, True, first, second)
        low = _same_share(self.score, score, self.low, False, first, second)
        if high is None or low is None or low >= high:
            return self
        rule = replace(self, score=score, low=low, high=high)
        wrong = sum(rule.tally(scores_of(score, rows), side)[1] for side, rows in enumerate((first, second)))
        return self if zero_count and wrong else rule

    def __str__(self) -> str:
        high, low = ("first", "second") if self.rising else ("second", "first")
        return f"{high} input if {self.score.name} >= {self.high:.6g}, {low} if <= {self.low:.6g}"


Rule = OutputEvent | Guess


def relearn(rule: Rule, first: Encoded, second: Encoded, memo: Memo, *, zero_count: bool) -> Rule:
    """The same kind of rule with its score learned from all rows."""
    score = rule.score.relearn(first, second, memo)
    return rule if score is rule.score else rule.relearned(score, first, second, zero_count=zero_count)


def _same_share(old: Score, new: Score, threshold: float, above: bool, first: Encoded, second: Encoded) -> float | None:
    """Where to cut a new score to hold about as often as the old one did; None if its few values do not allow it."""
    before, after = (np.concatenate([scores_of(score, rows) for rows in (first, second)]) for score in (old, new))
    share = float(np.mean(before >= threshold if above else before <= threshold))
    level = 1.0 - share if above else share
    options = [float(np.quantile(after, level, method=side)) for side in ("lower", "higher")]
    shares = [float(np.mean(after >= option if above else after <= option)) for option in options]
    best = min((0, 1), key=lambda i: abs(shares[i] - share))
    return options[best] if abs(shares[best] - share) <= 0.1 * min(share, 1.0 - share) else None


def selection_score(bound: Floats, bolder: Floats) -> Floats:
    """A positive bound itself; of any other, how many standard errors are missing. ``bolder`` is one error larger.

    What holds almost always has a bound of nearly 0 and proves nothing: it must not win where every bound is below 0.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        missing = bound / (bolder - bound)
    return np.where(bound > 0.0, bound, np.where(np.isfinite(missing), missing, -math.inf))


def hits_of(rule: Rule, s1: Floats, s2: Floats) -> tuple[int, int]:
    """The counts of a rule on scores of both inputs: hits on the likelier and on the other, or right and wrong."""
    counts = [rule.tally(s, side) for side, s in enumerate((s1, s2))]
    return counts[0][0] + counts[1][0], counts[0][1] + counts[1][1]


@dataclass(frozen=True, slots=True, eq=False)
class Thresholds:
    """Counts of a score's values at its possible thresholds, smoothed, in the four ways an event can use them."""

    thresholds: Floats
    rows: int
    #: (above, swapped, hits on the likelier input, hits on the other) for every threshold
    sides: list[tuple[bool, bool, Floats, Floats]]

    @classmethod
    def of(
        cls, s1: Floats, s2: Floats, *, few: int | None = TUNING.unsmoothed_cells, at: Sequence[float] = ()
    ) -> Thresholds:
        """From the score's values on both inputs, smoothed if there are more than ``few`` (None: never).

        ``at`` are thresholds beside those that the values suggest.
        """
        s1, s2 = np.sort(s1), np.sort(s2)
        thresholds = np.union1d(_possible_thresholds(s1, s2), at)
        cells = _cells(s1, thresholds), _cells(s2, thresholds)
        if few is not None:
            cells = smooth(*cells, _places(thresholds), few)
        sides: list[tuple[bool, bool, Floats, Floats]] = []
        for rising in (True, False):  # does a large score favor the first input?
            for above in (True, False):
                # the total of a sample is kept only approximately
                a, b = (np.minimum(_at_or_above(c) if above else _at_or_below(c), len(s1)) for c in cells)
                swapped = above != rising
                sides.append((above, swapped, b, a) if swapped else (above, swapped, a, b))
        return cls(thresholds, len(s1), sides)

    def hits(self, rule: Rule) -> tuple[float, float]:
        """The counts of a rule that is cut here: hits on the likelier input and on the other, or guesses."""
        (_, _, *high), _, _, (_, _, *low) = self.sides  # at or above a threshold, and at or below, on either input
        if isinstance(rule, Guess):
            i, j = np.searchsorted(self.thresholds, (rule.high, rule.low))
            right, wrong = high[0][i] + low[1][j], high[1][i] + low[0][j]
            return (right, wrong) if rule.rising else (wrong, right)
        i = int(np.searchsorted(self.thresholds, rule.threshold))
        first, second = (side[i] for side in (high if rule.above else low))
        return (second, first) if rule.swapped else (first, second)

    def selection_score(self, estimate: BoundEstimate, z_margin: float) -> float:
        """The selection score of the best event."""
        return max(float(np.max(self._selection_scores(estimate, a, b, z_margin))) for _, _, a, b in self.sides)

    def _selection_scores(self, estimate: BoundEstimate, a: Floats, b: Floats, z_margin: float) -> Floats:
        return selection_score(*(estimate(a, b, self.rows, errors) for errors in (z_margin, z_margin - 1.0)))

    def rules(self, score: Score, estimate: BoundEstimate, z_margin: float, claimed_delta: float | None) -> list[Rule]:
        """The most promising event and, for a claim at one delta, the most promising guess."""
        guesses = (
            []
            if claimed_delta is None
            else [Guess(score, *guess, claimed_delta) for guess in self.guess(claimed_delta, z_margin)]
        )
        return [OutputEvent(score, *self.event(estimate, z_margin)), *guesses]

    def event(self, estimate: BoundEstimate, z_margin: float) -> tuple[float, bool, bool]:
        """The threshold, whether the event lies above it, and whether the second input makes it likely."""
        options = []
        for above, swapped, a, b in self.sides:
            values = self._selection_scores(estimate, a, b, z_margin)
            i = int(np.argmax(values))
            options.append((float(values[i]), (float(self.thresholds[i]), above, swapped)))
        return max(options)[1]

    def guess(self, delta: float, z_margin: float) -> list[tuple[float, float, bool]]:
        """The low and the high threshold, and whether a high score speaks for the first input; none if there is one.

        A good rule guesses wherever the likelihood ratio is beyond some value, in either direction: each high threshold
        goes with the low one that gains most at the ratio found there.
        """
        options = []
        for (_, swapped, a, b), (_, _, c, d) in (self.sides[:2], self.sides[2:]):
            more, less = (-np.diff(counts, append=0.0) for counts in (a, b))
            ratio = more / np.maximum(less, np.maximum(more, 1.0) / self.rows)
            gain = np.where(self.thresholds < self.thresholds[:, None], c - ratio[:, None] * d, -np.inf)
            low = np.argmax(gain, axis=1)
            right, wrong = a + c[low], b + d[low]
            both = (
                estimated_bound_of_guesses(right, wrong, self.rows, delta, errors)
                for errors in (z_margin, z_margin - 1.0)
            )
            values = selection_score(*both)
            values[self.thresholds[low] >= self.thresholds] = -np.inf
            i = int(np.argmax(values))
            options.append((float(values[i]), (float(self.thresholds[low[i]]), float(self.thresholds[i]), not swapped)))
        value, guess = max(options)
        return [guess] if value > -math.inf else []


def _possible_thresholds(s1: Floats, s2: Floats) -> Floats:
    """All values if they are few; else quantiles, dense in both tails and taken from each input. Scores are sorted."""
    few = np.unique(np.concatenate([s[np.append(True, s[1:] != s[:-1])] for s in (s1, s2)]))
    if few.size <= TUNING.most_thresholds:
        return few
    tail = np.geomspace(5.0 / s1.size, 0.02, 60)
    levels = np.concatenate([tail, np.linspace(0.02, 0.98, 240), 1.0 - tail])
    places = np.clip((levels * s1.size).astype(np.int64), 0, s1.size - 1)
    return np.unique(np.concatenate([s1[places], s2[places]]))


def _cells(scores: Floats, thresholds: Floats) -> Floats:
    """How many sorted scores lie below the first threshold, at it, between it and the next, ..., above the last."""
    edges = np.stack([np.searchsorted(scores, thresholds, side=side) for side in ("left", "right")], axis=1).ravel()
    return np.diff(edges, prepend=0, append=scores.size).astype(np.float64)


def _places(thresholds: Floats) -> Floats:
    """Where the cells of :func:`_cells` lie."""
    places = np.empty(2 * thresholds.size + 1)
    with np.errstate(invalid="ignore", over="ignore"):
        places[1::2], places[2:-1:2] = thresholds, thresholds[:-1] + 0.5 * np.diff(thresholds)
    places[0], places[-1] = thresholds[0], thresholds[-1]
    return places


def _at_or_above(cells: Floats) -> Floats:
    return np.cumsum(cells[::-1])[::-1][1::2]


def _at_or_below(cells: Floats) -> Floats:
    return np.cumsum(cells)[1::2]
