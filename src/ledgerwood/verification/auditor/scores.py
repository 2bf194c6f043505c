"""Scores: numbers that are large where an output is likelier on the first input.

Four kinds estimate a likelihood ratio: a single field as it is, the log-ratios of the cells of a field (or of whole
outputs), a logistic regression and boosted trees on many fields. A score is learned on outputs that neither cut it nor
certify it: an odd score costs power, never validity.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ledgerwood.verification.auditor.encoding import Encoded
from ledgerwood.verification.auditor.tuning import TUNING

__all__ = ["BoostedTrees", "Design", "Difference", "Field", "FrequencyRatios", "Linear", "Score", "scores_of"]

Floats = NDArray[np.float64]

_REPEATED = 5  # times that a value is seen before its own frequency says something
_LARGEST = 1e150  # larger values count as this: their differences do not overflow


class Score(Protocol):
    """A statistic of one output."""

    @property
    def name(self) -> str:
        """How a report calls it."""
        ...

    def __call__(self, encoded: Encoded) -> Floats:
        """The statistic of every output."""
        ...


def scores_of(score: Score, encoded: Encoded) -> Floats:
    """Scores with nan below every number, so that "absent" is an event as well; repeated outputs are scored once."""
    distinct = encoded.distinct
    values = score(encoded) if distinct is None else score(distinct[0])[distinct[1]]
    return np.where(np.isnan(values), -np.inf, values)


@dataclass(frozen=True, slots=True)
class Field:
    """One field as it is."""

    index: int
    name: str

    def __call__(self, encoded: Encoded) -> Floats:
        return encoded.numbers[:, self.index]


@dataclass(frozen=True, slots=True)
class Difference:
    """One field minus another: noise that both share cancels."""

    left: int
    right: int
    name: str

    def __call__(self, encoded: Encoded) -> Floats:
        with np.errstate(invalid="ignore", over="ignore"):
            return encoded.numbers[:, self.left] - encoded.numbers[:, self.right]


@dataclass(frozen=True, slots=True, eq=False)
class FrequencyRatios:
    r"""The log-ratios of the frequencies of the cells of a field, or of whole outputs (``index`` None).

    A value seen several times is a cell of its own; the others are cut at pooled quantiles. With :math:`l =
    \ln\frac{c_1 + 1/2}{c_2 + 1/2}` of variance :math:`v = \frac{1}{c_1 + 1/2} + \frac{1}{c_2 + 1/2}` a cell's score is
    :math:`l\,t/(t + v)`, the posterior mean of a log-ratio of variance ``t``: the mean of :math:`l^2 - v` over all
    rows, or :math:`l^2 - 4 v` of the cell itself if that is larger. So rare cells are drawn to 0, and one that stands
    out by more than two standard errors is not, whatever the others are like.
    """

    index: int | None
    field: str
    edges: NDArray[Any]
    ratios: Floats

    @property
    def name(self) -> str:
        return f"frequency ratio of {self.field}"

    @classmethod
    def fit(cls, index: int | None, field: str, first: Encoded, second: Encoded) -> FrequencyRatios:
        """Count the cells of a field in rows of either input."""
        both = [_values(index, side) for side in (first, second)]
        pooled = np.sort(np.concatenate(both))
        starts = np.flatnonzero(np.append(True, pooled[1:] != pooled[:-1]))
        repeated = pooled[starts][np.diff(starts, append=pooled.size) >= _REPEATED]
        levels = np.linspace(0, pooled.size - 1, int(2 * len(first) ** (1 / 3)) + 2).astype(np.int64)[1:-1]
        edges = np.union1d(repeated, pooled[levels])
        c1, c2 = (np.bincount(_cells(edges, side), minlength=2 * edges.size + 1) + 0.5 for side in both)
        ratios, errors = np.log(c1 / c2), 1.0 / c1 + 1.0 / c2
        spread = max(float(np.average(ratios**2 - errors, weights=c1 + c2 - 1.0)), 1e-12)
        spreads = np.maximum(spread, ratios**2 - 4.0 * errors)
        return cls(index, field, edges, ratios * (spreads / (spreads + errors)))

    def __call__(self, encoded: Encoded) -> Floats:
        return self.ratios[_cells(self.edges, _values(self.index, encoded))]


def _values(index: int | None, encoded: Encoded) -> NDArray[Any]:
    """A field with nan below every number, or a hash of whole outputs."""
    if index is None:
        return encoded.keys
    column = encoded.numbers[:, index]
    return np.where(np.isnan(column), -np.inf, column)


def _cells(edges: NDArray[Any], values: NDArray[Any]) -> NDArray[np.int64]:
    """0 below the first edge, 1 at it, 2 above it and below the next, ..."""
    left = np.searchsorted(edges, values, side="left")
    return np.asarray(2 * left + (edges[np.minimum(left, edges.size - 1)] == values), dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """Features of a row: each field and each step between neighbouring fields, scaled and clipped, and their signs."""

    columns: NDArray[np.int64]
    centers: Floats
    scales: Floats
    cuts: Floats

    @classmethod
    def fit(cls, numbers: Floats) -> Design:
        """Center at the median, scale by half the spread of the middle half."""
        columns = np.flatnonzero([np.unique(column[:2000]).size > 1 for column in numbers.T])[: TUNING.learned_fields]
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
    """Finite values of moderate size; nan becomes 0."""
    with np.errstate(invalid="ignore"):
        tame = bool(np.all(np.abs(values) <= _LARGEST))
    if tame:
        return values
    finite = np.nan_to_num(values, nan=0.0, posinf=_LARGEST, neginf=-_LARGEST)
    return np.clip(finite, -_LARGEST, _LARGEST)


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """A logistic regression (ridge) on the design's features."""

    design: Design
    weights: Floats
    name: str = "logistic regression"

    @classmethod
    def fit(cls, first: Encoded, second: Encoded, steps: int = 12) -> Linear:
        """Separate the rows of ``first`` from those of ``second``."""
        design = Design.fit(np.concatenate([first.numbers[:10_000], second.numbers[:10_000]]))
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


@dataclass(frozen=True, slots=True, eq=False)
class BoostedTrees:
    """The log-odds of boosted trees on the fields and on the linear score, with as many trees as held-out rows want."""

    linear: Linear
    model: Any = field(repr=False)
    name: str = "boosted trees"

    @classmethod
    def fit(cls, first: Encoded, second: Encoded) -> BoostedTrees:
        """Separate the rows of ``first`` from those of ``second``."""
        from sklearn.ensemble import HistGradientBoostingClassifier

        linear = Linear.fit(first, second)
        rows = np.concatenate([cls._rows(linear, side) for side in (first, second)])
        labels = np.concatenate([np.ones(len(first)), np.zeros(len(second))])
        model = HistGradientBoostingClassifier(
            learning_rate=TUNING.tree_rate,
            max_iter=TUNING.trees,
            max_leaf_nodes=TUNING.tree_leaves,
            early_stopping=True,
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
            return np.asarray(self.model.decision_function(self._rows(self.linear, encoded)), dtype=np.float64)


def _one_thread() -> Any:
    """OpenMP threads once started do not survive a fork, and the mechanism under audit may need both."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1, user_api="openmp")
