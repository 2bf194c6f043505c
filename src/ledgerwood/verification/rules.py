"""What an audit counts: how often an event happens on either input, or how often a guess of the input is right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ledgerwood.verification.features import Encoded
from ledgerwood.verification.guessing import promise as promise_of_guesses
from ledgerwood.verification.scores import Memo, Score

__all__ = ["Event", "Guess", "Promise", "Rule", "relearn", "scores_of"]

Floats = NDArray[np.float64]
Promise = Callable[[Floats, Floats, int, float], Floats]  # of counts, n and caution


def scores_of(score: Score, encoded: Encoded) -> Floats:
    """Scores with nan below every number, so that "absent" is an event as well; repeated outputs are scored once."""
    distinct = encoded.distinct
    values = score(encoded) if distinct is None else score(distinct[0])[distinct[1]]
    return np.where(np.isnan(values), -np.inf, values)


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """``score >= cut`` (or ``<=``); ``swapped`` if it is the second input that makes it likely."""

    score: Score
    cut: float
    above: bool
    swapped: bool

    def __call__(self, encoded: Encoded) -> NDArray[np.bool_]:
        return self.holds(scores_of(self.score, encoded))

    def holds(self, scores: Floats) -> NDArray[np.bool_]:
        """Whether the event holds at each value of its score."""
        return scores >= self.cut if self.above else scores <= self.cut

    @property
    def cuts(self) -> tuple[float, ...]:
        """Where the score is cut."""
        return (self.cut,)

    def tally(self, scores: Floats, side: int) -> tuple[int, int]:
        """What outputs of one input add to the hits on the likelier input and to those on the other."""
        hits = int(np.count_nonzero(self.holds(scores)))
        return (hits, 0) if (side == 1) == self.swapped else (0, hits)

    def promise(self, promise: Promise, hits: tuple[float, float], rows: int, caution: float) -> float:
        """The bound that such counts promise."""
        return float(promise(np.asarray([hits[0]]), np.asarray([hits[1]]), rows, caution)[0])

    @property
    def on(self) -> str:
        """The likelier input."""
        return "the second input" if self.swapped else "the first input"

    def relearned(self, score: Score, first: Encoded, second: Encoded, *, never: bool) -> Event:
        """The event with a new score, cut to be as frequent as before; itself if that cannot be.

        ``never``: it was not seen on the other input, and stays as it was if the new one is.
        """
        cut = _same_share(self.score, score, self.cut, self.above, first, second)
        if cut is None:
            return self
        event = Event(score, cut, self.above, self.swapped)
        return self if never and event(first if self.swapped else second).any() else event

    def __str__(self) -> str:
        return f"{self.score.name} {'>=' if self.above else '<='} {self.cut:.6g}"


@dataclass(frozen=True, slots=True, eq=False)
class Guess:
    """One input where ``score >= high``, the other where ``score <= low``, else none.

    ``rising`` if a high score speaks for the first input; ``delta`` is what the claim forgives.
    """

    score: Score
    low: float
    high: float
    rising: bool
    delta: float = 0.0

    @property
    def cuts(self) -> tuple[float, ...]:
        """Where the score is cut."""
        return (self.low, self.high)

    def tally(self, scores: Floats, side: int) -> tuple[int, int]:
        """How many guesses are right and how many wrong on outputs of one input."""
        high, low = int(np.count_nonzero(scores >= self.high)), int(np.count_nonzero(scores <= self.low))
        return (high, low) if (side == 0) == self.rising else (low, high)

    def promise(self, promise: Promise, hits: tuple[float, float], rows: int, caution: float) -> float:
        """The bound that such counts promise."""
        right, wrong = (np.asarray([float(count)]) for count in hits)
        return float(promise_of_guesses(right, wrong, rows, self.delta, caution)[0])

    @property
    def on(self) -> str:
        """Both directions are read."""
        return "either input"

    def relearned(self, score: Score, first: Encoded, second: Encoded, *, never: bool) -> Guess:
        """The rule with a new score, cut so that each guess is as frequent as before; itself if that cannot be."""
        high = _same_share(self.score, score, self.high, True, first, second)
        low = _same_share(self.score, score, self.low, False, first, second)
        if high is None or low is None or low >= high:
            return self
        rule = replace(self, score=score, low=low, high=high)
        wrong = sum(rule.tally(scores_of(score, rows), side)[1] for side, rows in enumerate((first, second)))
        return self if never and wrong else rule

    def __str__(self) -> str:
        high, low = ("first", "second") if self.rising else ("second", "first")
        return f"{high} input if {self.score.name} >= {self.high:.6g}, {low} if <= {self.low:.6g}"


Rule = Event | Guess


def relearn(rule: Rule, first: Encoded, second: Encoded, memo: Memo, *, never: bool) -> Rule:
    """The same kind of rule with its score learned from all rows."""
    score = rule.score.relearn(first, second, memo)
    return rule if score is rule.score else rule.relearned(score, first, second, never=never)


def _same_share(old: Score, new: Score, cut: float, above: bool, first: Encoded, second: Encoded) -> float | None:
    """Where to cut a new score to hold about as often as the old one did; None if its few values do not allow it."""
    before, after = (np.concatenate([scores_of(score, rows) for rows in (first, second)]) for score in (old, new))
    share = float(np.mean(before >= cut if above else before <= cut))
    level = 1.0 - share if above else share
    options = [float(np.quantile(after, level, method=side)) for side in ("lower", "higher")]
    shares = [float(np.mean(after >= option if above else after <= option)) for option in options]
    best = min((0, 1), key=lambda i: abs(shares[i] - share))
    return options[best] if abs(shares[best] - share) <= 0.1 * min(share, 1.0 - share) else None
