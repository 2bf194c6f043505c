"""What an audit counts: how often an event happens on either input, or how often a guess of the input is right.

Both are rules on a score of the output: an event has one cut, a guess has two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ledgerwood.verification.auditor.encoding import Encoded
from ledgerwood.verification.auditor.report import Picture
from ledgerwood.verification.auditor.scores import Score, scores_of

__all__ = ["Guess", "OutputEvent", "Rule", "picture_of"]


Floats = NDArray[np.float64]

_DRAWN = 1e150  # larger scores stand at the edge of a picture: their differences may overflow


@dataclass(frozen=True, slots=True, eq=False)
class OutputEvent:
    """``score >= threshold`` (or ``<=``); ``swapped`` if it is the second input that makes it likely."""

    score: Score
    threshold: float
    above: bool
    swapped: bool

    def tally(self, scores: Floats, side: int) -> tuple[int, int]:
        """What outputs of one input add to the hits on the likelier input and to those on the other."""
        hits = int(np.count_nonzero(scores >= self.threshold if self.above else scores <= self.threshold))
        return (hits, 0) if (side == 1) == self.swapped else (0, hits)

    @property
    def on(self) -> str:
        """The likelier input."""
        return "the second input" if self.swapped else "the first input"

    def __str__(self) -> str:
        return f"{self.score.name} {'>=' if self.above else '<='} {self.threshold:.6g}"


@dataclass(frozen=True, slots=True, eq=False)
class Guess:
    """One input where ``score >= high``, the other where ``score <= low``, else none.

    ``rising`` if a high score speaks for the first input.
    """

    score: Score
    low: float
    high: float
    rising: bool

    def tally(self, scores: Floats, side: int) -> tuple[int, int]:
        """How many guesses are right and how many wrong on outputs of one input."""
        high, low = int(np.count_nonzero(scores >= self.high)), int(np.count_nonzero(scores <= self.low))
        return (high, low) if (side == 0) == self.rising else (low, high)

    @property
    def on(self) -> str:
        """Both directions are read."""
        return "either input"

    def __str__(self) -> str:
        high, low = ("first", "second") if self.rising else ("second", "first")
        return f"{high} input if {self.score.name} >= {self.high:.6g}, {low} if <= {self.low:.6g}"


Rule = OutputEvent | Guess


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
