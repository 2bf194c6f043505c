r"""Scores on private rows, released: a number with an error bar instead of an exact leak.

Accuracy is read off two noisy counts (right, wrong). The area under the ROC curve is
:math:`\Pr[s_+ > s_-] + \tfrac12\Pr[s_+ = s_-]` over the bins of a noisy histogram of the scores of each class; the bins
are about equally full, by a first noisy histogram of all scores on a fine grid of log odds, which takes a quarter of
epsilon. The mean absolute error is read off a noisy sum of errors, clipped to the target's range, and a noisy count.
A record is counted in one bin, so with integer Laplace noise of scale :math:`c/\varepsilon`, c the records that a unit
changes (k, or 2 under replace-one), a histogram is :math:`\varepsilon`-DP.

The error bar is one standard error: the noise's, by simulating it around the released counts, and the sampling error of
that many test rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from ledgerwood.accounting import Ledger
from ledgerwood.accounting.books import round_up
from ledgerwood.errors import ParameterError
from ledgerwood.learners.base import PrivateEstimator, source_for
from ledgerwood.learners.facts import checked_budget
from ledgerwood.learners.data.frames import take_rows, unit_column
from ledgerwood.learners.labels import as_numbers, as_vector
from ledgerwood.learners.schema import Schema
from ledgerwood.learners.statement import Receipt
from ledgerwood.learners.units import keep_rows
from ledgerwood.mechanisms import DiscreteLaplaceMechanism, Sensitivity

Metric = Literal["accuracy", "auc", "mae"]
BINS = 20
"""Every bin adds noise, too few tie rows of different scores."""
_FINE, _RANGE = 1024, 8.0
"""The fine grid has so many cells of log odds from -8 to 8."""
_FIRST = 0.25
_STEPS = 1024
"""Steps of the error's range in which absolute errors are counted."""
_DRAWS = 400


@dataclass(frozen=True)
class PrivateScore:
    """A released score.

    Attributes
    ----------
    metric, value, error
        The estimate and one standard error (noise and sampling).
    epsilon, unit
        What it cost, for whom.
    receipt
        The releases.

    >>> import numpy as np
    >>> from ledgerwood.learners import AdaSSPRegressor, Schema, private_score
    >>> x = np.linspace(0, 1, 500)[:, None]
    >>> schema = Schema(bounds={0: (0, 1)}, target_bounds=(0, 1))
    >>> model = AdaSSPRegressor(epsilon=1.0, delta=1e-6, schema=schema).fit(x, x[:, 0])
    >>> score = private_score(model, x, x[:, 0], epsilon=0.5)
    >>> score.metric, score.epsilon, score.error > 0
    ('mae', 0.5, True)
    """

    metric: str
    value: float
    error: float
    epsilon: float
    unit: str
    neighbours: str
    receipt: Receipt

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        warning = "" if self.receipt.private else " NOT PRIVATE: a random_state was set."
        return (
            f"{self.metric} = {self.value:.3f} ± {self.error:.3f} (one standard error), released with "
            f"epsilon={round_up(self.epsilon)} for {self.unit}, {self.neighbours}, about the test rows.{warning}"
        )


def private_score(
    model: Any,
    X: Any,
    y: Any,
    *,
    metric: Metric | None = None,
    epsilon: float = 0.1,
    ledger: Ledger | None = None,
    random_state: Any = None,
) -> PrivateScore:
    """Score a fitted model on private rows, privately.

    Parameters
    ----------
    model
        A fitted private estimator; its schema says the neighbours and the unit.
    X, y
        The test rows.
    metric
        ``"accuracy"`` (default of classifiers), ``"auc"`` (two classes) or ``"mae"`` (default of regressors).
    epsilon
        What the score may cost.
    ledger
        Pays for it. If the test rows took part in training, give the ledger of the fit: the costs add.

    Examples
    --------
    >>> import numpy as np
    >>> from ledgerwood.learners import BoostedAdaSSPClassifier, Schema, private_score
    >>> x = np.linspace(0, 1, 2000)[:, None]
    >>> y = (x[:, 0] > 0.5).astype(int)
    >>> schema = Schema(bounds={0: (0, 1)}, classes=[0, 1])
    >>> model = BoostedAdaSSPClassifier(epsilon=1.0, delta=1e-6, schema=schema).fit(x, y)
    >>> print(private_score(model, x, y, metric="auc", epsilon=1.0))
    auc = ... ± ... (one standard error), released with epsilon=1 for one record, ...
    """
    check_is_fitted(model, "receipt_")
    if not isinstance(model, PrivateEstimator):
        raise ParameterError("model", "be a fitted private estimator", type(model).__name__)
    epsilon, _ = checked_budget(epsilon, 0.0, 2)
    metric = metric or ("accuracy" if is_classifier(model) else "mae")
    if metric not in ("accuracy", "auc", "mae") or (metric == "mae") == is_classifier(model):
        raise ParameterError("metric", "be 'accuracy' or 'auc' for a classifier, 'mae' for a regressor", metric)
    schema = model.schema if isinstance(model.schema, Schema) else Schema()
    k = schema.max_rows_per_unit
    touched = k if schema.neighbours == "add_remove" else 2
    rng = source_for(random_state)
    X, y = _rows(X, as_vector(y), schema, rng)
    journal = Ledger(epsilon * (1 + 1e-9), 0.0, neighbours=schema.neighbours) if ledger is None else ledger
    before = len(journal.journal())

    def release(exact: NDArray[np.int64], moved: int, part: float, label: str) -> tuple[NDArray[np.float64], float]:
        mechanism = DiscreteLaplaceMechanism(
            scale=touched * moved / (part * epsilon),
            sensitivity=Sensitivity(l1=touched * moved, dimension=exact.size),
            neighbours=schema.neighbours,
        )
        found = journal.release(mechanism, exact, label=label, rng=rng)
        return np.asarray(found, dtype=np.float64), mechanism.scale

    if metric == "auc":
        fine, positive = _fine_scores(model, X, y)
        first, _ = release(np.bincount(fine, minlength=_FINE).astype(np.int64), 1, _FIRST, "score: bins")
        place = _equal_bins(first)[fine]
        both = np.bincount(place + BINS * positive, minlength=2 * BINS).astype(np.int64)
        noisy, scale = release(both, 1, 1 - _FIRST, "score: auc")
    else:
        exact, moved = _counts(model, X, y, metric)
        noisy, scale = release(exact, moved, 1.0, f"score: {metric}")
    value, error = _estimate(noisy, metric, scale, _width(model))
    unit = "one record" if schema.unit is None else f"one value of {schema.unit!r} (at most {k} rows)"
    lines = Receipt.of(journal).lines[before:]
    change = "added or removed" if schema.neighbours == "add_remove" else "replaced by another"
    return PrivateScore(metric, value, error, epsilon, unit, change, Receipt(lines))


def _rows(X: Any, y: Any, schema: Schema, rng: Any) -> tuple[Any, NDArray[Any]]:
    """At most k rows of each unit."""
    y = np.asarray(y)
    if schema.unit is None:
        return X, y
    key = np.random.default_rng(None if rng is None else [int(w) for w in rng.words(2)]).bytes(32)
    kept = keep_rows(unit_column(X, schema.unit), schema.max_rows_per_unit, key)
    return take_rows(X, kept), y[kept]


def _counts(model: Any, X: Any, y: NDArray[Any], metric: str) -> tuple[NDArray[np.int64], int]:
    """Return exact integers and how far one record moves them in L1. Any label may come: values never raise."""
    if metric == "accuracy":
        right = int(np.count_nonzero(model.predict(X) == y))
        return np.array([right, len(y) - right]), 1
    width = _width(model)
    truth = np.asarray(as_numbers(y), dtype=np.float64)  # None becomes nan, and nan the largest error
    off = np.nan_to_num(np.abs(model.predict(X) - truth), nan=width)
    steps = np.floor(np.clip(off / width, 0, 1) * _STEPS).astype(np.int64)
    # sum of steps (at most _STEPS) and a count weighted alike, so that both are about as exact
    return np.array([steps.sum(), _STEPS * len(y)]), 2 * _STEPS


def _fine_scores(model: Any, X: Any, y: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The cell of every row's score, and 1 for rows of the second class."""
    if len(model.classes_) != 2:
        raise ParameterError("metric", "be 'accuracy' for a model of other than two classes", "auc")
    p = np.clip(model.predict_proba(X)[:, 1], 1e-9, 1 - 1e-9)
    odds = np.clip(np.log(p / (1 - p)), -_RANGE, _RANGE)
    cells = np.minimum(((odds + _RANGE) / (2 * _RANGE) * _FINE).astype(np.int64), _FINE - 1)
    return cells, (y == model.classes_[1]).astype(np.int64)


def _equal_bins(counts: NDArray[np.float64]) -> NDArray[np.int64]:
    """The bin of each fine cell, so that bins are about equally full: post-processing of the first histogram."""
    total = np.maximum.accumulate(np.cumsum(counts))
    if total[-1] <= 0:
        return np.arange(len(counts)) * BINS // len(counts)
    middle = (total - np.maximum(counts, 0) / 2) / total[-1]
    return np.asarray(np.clip(middle * BINS, 0, BINS - 1), dtype=np.int64)


def _width(model: Any) -> float:
    low, high = getattr(model, "target_bounds_", None) or (0.0, 1.0)
    return float(high - low)


def _estimate(noisy: NDArray[np.float64], metric: str, scale: float, width: float) -> tuple[float, float]:
    """The score of noisy counts and its standard error: post-processing."""
    rng = np.random.default_rng(0)  # simulates noise around released numbers: no privacy rests on it
    noise = rng.laplace(0, scale, size=(_DRAWS, noisy.size))
    value, rows = _score(noisy, metric, width)
    simulated = [_score(noisy + row, metric, width)[0] for row in noise]
    return value, math.hypot(float(np.std(simulated)), _sampling(value, metric, rows, noisy, width))


def _score(counts: NDArray[np.float64], metric: str, width: float) -> tuple[float, float]:
    if metric == "accuracy":
        rows = max(1.0, float(counts.sum()))
        return float(np.clip(counts[0] / rows, 0, 1)), rows
    if metric == "mae":
        rows = max(1.0, float(counts[1]) / _STEPS)
        return width * float(np.clip((counts[0] / _STEPS + rows / (2 * _STEPS)) / rows, 0, 1)), rows
    negative, positive = counts[:BINS], counts[BINS:]  # negative counts stay: cutting them off would be a bias
    if min(negative.sum(), positive.sum()) < 1:
        return 0.5, 1.0
    pairs = float(negative.sum() * positive.sum())
    below = np.cumsum(negative) - negative / 2
    return float(np.clip((positive * below).sum() / pairs, 0, 1)), float(counts.sum())


def _sampling(value: float, metric: str, rows: float, counts: NDArray[np.float64], width: float) -> float:
    """The standard error of the score of that many rows (for the area: Hanley and McNeil 1982)."""
    if metric == "accuracy":
        return math.sqrt(value * (1 - value) / rows)
    if metric == "mae":
        return width / math.sqrt(12 * rows)
    m, n = (max(1.0, float(np.maximum(half, 0).sum())) for half in (counts[:BINS], counts[BINS:]))
    a, b = value / (2 - value), 2 * value**2 / (1 + value)
    variance = value * (1 - value) + (n - 1) * (a - value**2) + (m - 1) * (b - value**2)
    return math.sqrt(max(0.0, variance) / (m * n))
