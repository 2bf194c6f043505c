"""Statistics of an output: columns, pooled columns, atoms, histograms and learned classifiers.

A score maps every output to a number that should be large where the first input is more likely. It is learned on one
part of the selection sample, cut into an event on another part (``events``) and certified on fresh outputs: an odd
score costs power, never validity.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ledgerwood.verification.auditor.encoding import Encoded, low_bit, row_keys
from ledgerwood.verification.auditor.tuning import TUNING

__all__ = [
    "Atoms",
    "ColumnScore",
    "Design",
    "Difference",
    "Fixed",
    "Histogram",
    "Linear",
    "LowBit",
    "Pooled",
    "Score",
    "TreeScore",
]

Floats = NDArray[np.float64]

_LOGISTIC = "logistic regression"


class Score(Protocol):
    """A statistic of one output."""

    @property
    def name(self) -> str:
        """How a report calls it."""
        ...

    def __call__(self, encoded: Encoded) -> Floats:
        """The statistic of every output."""
        ...

    def relearn(self, first: Encoded, second: Encoded, memo: Memo) -> Score:
        """The same kind of score learned from more rows, once per ``memo``; itself if nothing is learned."""
        ...


Memo = dict[int, Any]


class Fixed:
    """A score that learns nothing."""

    __slots__ = ()

    def relearn(self, first: Encoded, second: Encoded, memo: Memo) -> Any:
        return self


@dataclass(frozen=True, slots=True)
class ColumnScore(Fixed):
    """One field."""

    index: int
    name: str

    def __call__(self, encoded: Encoded) -> Floats:
        return encoded.numbers[:, self.index]


@dataclass(frozen=True, slots=True)
class Difference(Fixed):
    """One field minus another: shared noise cancels."""

    left: int
    right: int
    name: str

    def __call__(self, encoded: Encoded) -> Floats:
        with np.errstate(invalid="ignore", over="ignore"):
            return encoded.numbers[:, self.left] - encoded.numbers[:, self.right]


@dataclass(frozen=True, slots=True)
class LowBit(Fixed):
    """The finest power of two that divides a field: which grid the float lies on."""

    index: int
    name: str

    def __call__(self, encoded: Encoded) -> Floats:
        return low_bit(encoded.numbers[:, self.index])


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """Features of a row: each field and each step between neighbouring fields, scaled and clipped, and their signs."""

    columns: NDArray[np.int64]
    centers: Floats
    scales: Floats
    cuts: Floats

    @classmethod
    def fit(cls, numbers: Floats, most: int = 40) -> Design:
        """Centre at the median, scale by half the spread of the middle half."""
        columns = np.flatnonzero([np.unique(column[:2000]).size > 1 for column in numbers.T])[:most]
        steps = _with_steps(numbers, columns)
        centers = np.median(steps, axis=0)
        low, high = np.quantile(steps, [0.25, 0.75], axis=0)
        spread = np.where(high > low, (high - low) / 2, np.std(steps, axis=0))
        above = np.mean(steps > centers, axis=0)
        cuts = np.where(above > 0.1, centers, np.nextafter(centers, -np.inf))  # a bit that is mostly 1 keeps two signs
        return cls(columns, centers, np.where(spread > 0, spread, 1.0), cuts)

    def __call__(self, encoded: Encoded) -> NDArray[np.float32]:
        steps = _with_steps(encoded.numbers, self.columns)
        features = np.empty((steps.shape[0], 2 * self.width), dtype=np.float32)
        np.greater(steps, self.cuts, out=features[:, self.width :], casting="unsafe")
        features[:, self.width :] -= 0.5
        steps -= self.centers
        steps /= self.scales
        np.clip(steps, -3, 3, out=features[:, : self.width], casting="unsafe")
        return features

    def combine(self, encoded: Encoded, weights: Floats) -> Floats:
        """``self(encoded) @ weights`` in one pass."""
        from ledgerwood.verification.auditor._kernels import linear_scores

        rates = 1.0 / np.maximum(self.scales, 1e-300)  # finite
        scores: Floats = linear_scores(encoded.numbers, self.columns, self.centers, rates, self.cuts, weights)
        return scores

    @property
    def width(self) -> int:
        """Scaled values come first, then as many signs."""
        return int(self.centers.size)


def _with_steps(numbers: Floats, columns: NDArray[np.int64]) -> Floats:
    values = _tame(numbers[:, columns])
    return np.concatenate([values, np.diff(values, axis=1)], axis=1)


def _tame(values: Floats) -> Floats:
    """Finite values of at most 1e150; nan becomes 0."""
    with np.errstate(invalid="ignore"):
        tame = bool(np.all(np.abs(values) <= 1e150))
    return values if tame else np.clip(np.nan_to_num(values, nan=0.0, posinf=1e150, neginf=-1e150), -1e150, 1e150)


@dataclass(frozen=True, slots=True)
class Pooled(Fixed):
    """One number from all fields: ``how`` names the reduction."""

    how: str

    @property
    def name(self) -> str:
        return f"{self.how} of the fields"

    def __call__(self, encoded: Encoded) -> Floats:
        return np.asarray(REDUCTIONS[self.how](_tame(encoded.numbers)), dtype=np.float64)


REDUCTIONS: dict[str, Callable[[Floats], NDArray[Any]]] = {
    "sum": lambda v: v.sum(axis=1),
    "least": lambda v: v.min(axis=1),
    "largest": lambda v: v.max(axis=1),
    "range": lambda v: v.max(axis=1) - v.min(axis=1),
    "place of the largest": lambda v: v.argmax(axis=1),
}


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """A weighted sum of the design's features: equal weights, or a logistic regression (ridge)."""

    design: Design
    weights: Floats
    name: str = _LOGISTIC

    @classmethod
    def equal(cls, design: Design) -> list[Linear]:
        """Sums with equal weights, right for exchangeable fields: clipped values or signs, of fields or of steps."""
        d, k = design.columns.size, design.width
        parts = {
            "clipped sum of the fields": range(d),
            "sign sum of the fields": range(k, k + d),
            "clipped sum of the steps": [0, *range(d, k)],
            "sign sum of the steps": [k, *range(k + d, 2 * k)],
        }
        sums = []
        for name, places in parts.items():
            weights = np.zeros(2 * k + 1)
            weights[list(places)] = 1.0
            sums.append(cls(design, weights, name))
        return sums

    @classmethod
    def fit(cls, design: Design, first: Encoded, second: Encoded, steps: int = 12) -> Linear:
        """Separate the rows of ``first`` from those of ``second``."""
        features = np.concatenate([design(first), design(second)])
        features = np.concatenate([features, np.ones((features.shape[0], 1), np.float32)], axis=1)
        labels = np.concatenate([np.ones(len(first)), np.zeros(len(second))])
        few = features[:: max(1, len(features) // 50_000)]
        # A quarter of the second moments bounds the Hessian everywhere (Boehning 1992): every step goes uphill.
        bound = (few.T @ few).astype(np.float64) * (len(features) / (4 * len(few))) + np.eye(features.shape[1])
        weights = np.zeros(features.shape[1])
        for _ in range(steps):
            p = 1.0 / (1.0 + np.exp(-np.clip(features @ weights.astype(np.float32), -30, 30)))
            step = np.linalg.solve(bound, features.T @ (labels - p).astype(np.float32) - weights)
            weights += step
            if np.max(np.abs(step)) < 1e-3 * np.max(np.abs(weights)):
                break
        return cls(design, weights)

    def __call__(self, encoded: Encoded) -> Floats:
        return self.design.combine(encoded, self.weights) + float(self.weights[-1])

    def relearn(self, first: Encoded, second: Encoded, memo: Memo) -> Linear:
        if self.name != _LOGISTIC:
            return self
        if id(self) not in memo:
            memo[id(self)] = Linear.fit(
                self.design, first.part(0, TUNING.classifier_rows), second.part(0, TUNING.classifier_rows)
            )
        relearned: Linear = memo[id(self)]
        return relearned


@dataclass(frozen=True, slots=True, eq=False)
class TreeScore:
    """The log-odds of the leaves of one tree on the fields and the linear score.

    scikit-learn grows it on binned features: many rows cost little, and where fields interact, rows decide how clean
    the leaves are.
    """

    linear: Linear
    model: Any = field(repr=False)
    name: str = "small tree"

    @classmethod
    def fit(cls, linear: Linear, first: Encoded, second: Encoded) -> TreeScore | None:
        """Separate as many rows of either input; None without scikit-learn."""
        try:
            from sklearn.ensemble import HistGradientBoostingClassifier
        except ImportError:
            return None
        rows = np.concatenate([cls._rows(linear, side) for side in (first, second)])
        labels = np.concatenate([np.ones(len(first)), np.zeros(len(second))])
        least = max(TUNING.leaf_rows, len(rows) // TUNING.leaf_share)
        model = HistGradientBoostingClassifier(
            learning_rate=1.0,
            max_iter=1,
            max_leaf_nodes=TUNING.tree_leaves,
            min_samples_leaf=least,
            early_stopping=False,
            random_state=0,  # many rows are binned by some of them: numpy's global generator is the mechanism's
        )
        with _one_thread():
            return cls(linear, model.fit(rows, labels))

    @staticmethod
    def _rows(linear: Linear, encoded: Encoded) -> Floats:
        fields = _tame(encoded.numbers[:, linear.design.columns])
        return np.concatenate([fields, linear(encoded)[:, None]], axis=1)

    def __call__(self, encoded: Encoded) -> Floats:
        with _one_thread():
            step = self.model.decision_function(self._rows(self.linear, encoded))
        # One step of Newton's method from even odds is four times what a leaf's share lies above one half.
        share = np.clip(0.5 + step / 4.0, 1e-6, 1.0 - 1e-6)
        return np.asarray(np.log(share / (1.0 - share)), dtype=np.float64)

    def relearn(self, first: Encoded, second: Encoded, memo: Memo) -> TreeScore:
        if id(self) not in memo:
            linear = self.linear.relearn(first, second, memo)
            few1, few2 = first.part(0, TUNING.tree_rows), second.part(0, TUNING.tree_rows)
            memo[id(self)] = TreeScore.fit(linear, few1, few2) or self
        relearned: TreeScore = memo[id(self)]
        return relearned


def _one_thread() -> Any:
    """OpenMP threads once started do not survive a fork, and the mechanism under audit may need both."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1, user_api="openmp")


@dataclass(frozen=True, slots=True, eq=False)
class Atoms:
    """The smoothed log-ratio of the frequencies of each value seen; 0 (or the base score) for values never seen.

    ``base`` is the score whose values are the atoms, or None for whole outputs. ``prior`` is a score on the log-odds
    scale towards which rare atoms shrink, worth ``strength`` observations. Log-ratios are drawn to 0 by ``z_margin``
    standard errors.
    """

    base: Score | None
    prior: Score | None
    strength: float
    keys: NDArray[Any]
    ratios: Floats
    counts: Floats
    z_margin: float = 0.0

    @property
    def name(self) -> str:
        what = "whole output" if self.base is None else self.base.name
        return f"frequency ratio of {what}" + ("" if self.prior is None else f", shrunk to the {self.prior.name}")

    @staticmethod
    def _keys(base: Score | None, encoded: Encoded) -> NDArray[Any]:
        if base is None:
            return encoded.keys
        return row_keys(base(encoded)[:, None])

    @classmethod
    def fit(
        cls,
        base: Score | None,
        first: Encoded,
        second: Encoded,
        *,
        prior: Score | None = None,
        strength: float = 1.0,
        z_margin: float = 0.0,
    ) -> Atoms | None:
        """Count values; None if almost none is seen twice, and none often.

        Log-ratios are drawn to 0 by ``z_margin`` standard errors.
        """
        early = np.concatenate([cls._keys(base, side.part(0, 4000)) for side in (first, second)])
        times = np.unique(early, return_counts=True)[1]
        if times.size > 0.99 * early.size and times.max() < TUNING.repeated_value:
            return None
        keys1, keys2 = (cls._keys(base, side) for side in (first, second))
        seen = [np.unique(side, return_counts=True) for side in (keys1, keys2)]
        keys = np.union1d(seen[0][0], seen[1][0])
        c1, c2 = (np.zeros(keys.size) for _ in seen)
        for counts, (own, times) in zip((c1, c2), seen, strict=True):
            counts[np.searchsorted(keys, own)] = times
        often = (c1 + c2) >= 3
        if not often.any():
            return None
        c1, c2, keys = c1[often], c2[often], keys[often]
        ratios = np.log((c1 + strength / 2) / (c2 + strength / 2))
        if z_margin:
            (low1, high1), (low2, high2) = (_count_bounds(c, z_margin / np.sqrt(2.0)) for c in (c1, c2))
            ratios = np.maximum(np.log(low1 / high2), 0.0) - np.maximum(np.log(low2 / high1), 0.0)
        return cls(base, prior, strength, keys, ratios, np.stack([c1, c2]), z_margin)

    def __call__(self, encoded: Encoded) -> Floats:
        keys = self._keys(self.base, encoded)
        place = np.minimum(np.searchsorted(self.keys, keys), self.keys.size - 1)
        known = self.keys[place] == keys
        if self.prior is None:
            return np.where(known, self.ratios[place], 0.0)
        odds = self.prior(encoded)
        share = 1.0 / (1.0 + np.exp(-np.clip(odds, -30, 30)))
        c1, c2 = self.counts[0, place], self.counts[1, place]
        shrunk = np.log((c1 + self.strength * share + 1e-9) / (c2 + self.strength * (1 - share) + 1e-9))
        return np.asarray(np.round(np.where(known, shrunk, odds), 9), dtype=np.float64)

    def relearn(self, first: Encoded, second: Encoded, memo: Memo) -> Atoms:
        base = None if self.base is None else self.base.relearn(first, second, memo)
        prior = None if self.prior is None else self.prior.relearn(first, second, memo)
        return Atoms.fit(base, first, second, prior=prior, strength=self.strength, z_margin=self.z_margin) or self


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """The smoothed log-ratio of the frequencies of the bins of another score (bins of equal frequency)."""

    base: Score
    edges: Floats
    ratios: Floats

    @property
    def name(self) -> str:
        return f"histogram ratio of {self.base.name}"

    @classmethod
    def fit(cls, base: Score, first: Encoded, second: Encoded, bins: int = 48) -> Histogram:
        """Bins from the pooled quantiles."""
        s1, s2 = _finite(base(first)), _finite(base(second))
        edges = np.unique(np.quantile(np.concatenate([s1, s2]), np.linspace(0, 1, bins + 1)[1:-1]))
        c1 = np.bincount(np.searchsorted(edges, s1, side="right"), minlength=edges.size + 1)
        c2 = np.bincount(np.searchsorted(edges, s2, side="right"), minlength=edges.size + 1)
        return cls(base, edges, np.log((c1 + 1.0) / (c2 + 1.0)))

    def __call__(self, encoded: Encoded) -> Floats:
        return self.ratios[np.searchsorted(self.edges, _finite(self.base(encoded)), side="right")]

    def relearn(self, first: Encoded, second: Encoded, memo: Memo) -> Histogram:
        return Histogram.fit(self.base.relearn(first, second, memo), first, second)


def _count_bounds(counts: Floats, errors: float) -> tuple[Floats, Floats]:
    """Means ``errors`` of their standard errors below and above Poisson counts; a count of 0 has an upper one too."""
    middle, spread = counts + errors**2 / 2.0, errors * np.sqrt(counts + errors**2 / 4.0)
    return np.maximum(middle - spread, 1e-12), middle + spread


def _finite(scores: Floats) -> Floats:
    return np.nan_to_num(scores, nan=-1e308, posinf=1e308, neginf=-1e308)
