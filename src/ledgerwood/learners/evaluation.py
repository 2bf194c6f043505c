r"""Scores on private rows, released: a number with an error bar instead of an exact leak.

Accuracy is read off two noisy counts (right, wrong). The area under the ROC curve is
:math:`\Pr[s_+ > s_-] + \tfrac12\Pr[s_+ = s_-]` over the bins of a noisy histogram of the scores of each class; the bins
are about equally full, by a first noisy histogram of all scores on a fine grid of log odds, which takes a quarter of
epsilon. The mean absolute error is read off a noisy sum of errors, clipped to the target's range, and a noisy count.
A record is counted in one bin, so with integer Laplace noise of scale :math:`c/\varepsilon`, c the records that a unit
changes (k, or 2 under replace-one), a histogram is :math:`\varepsilon`-DP.

No label raises, and each is read by itself (:mod:`.data.labels`). One that is not a class counts as wrong in
the accuracy, and has no place on the curve: it is left out of its histograms. One that is not a finite number counts as
the largest error. So a record adds at most what is said above, whatever its label.

The error bar is one standard error: the noise's, by simulating it around the released counts, and the sampling error of
that many test rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from ledgerwood._rounding import format_up
from ledgerwood.accounting import Ledger
from ledgerwood.errors import ParameterError
from ledgerwood.learners.data.columns import Scalar
from ledgerwood.learners.data.frames import unit_column
from ledgerwood.learners.data.labels import label_codes, label_numbers
from ledgerwood.learners.data.privacy_unit import keep_rows
from ledgerwood.learners.data.schema import Schema
from ledgerwood.learners.training.estimator import PrivateEstimator, source_for
from ledgerwood.learners.training.public_metadata import checked_budget
from ledgerwood.learners.training.session import ReleaseSession
from ledgerwood.learners.training.statement import Receipt
from ledgerwood.mechanisms import DiscreteLaplaceMechanism, Sensitivity

Metric = Literal["accuracy", "auc", "mae"]
BINS = 20
"""Every bin adds noise, too few tie rows of different scores."""
_FINE, _RANGE = 1024, 8.0
"""The fine histogram has this many bins of log odds from -8 to 8."""
_FIRST = 0.25
_STEPS = 1024
"""Steps of the error's range in which absolute errors are counted."""
_DRAWS = 400
ROUNDING = 1 + 1e-9
"""Costs of a score that add up to epsilon may do so a little above it in floating point, never by this factor."""


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
            f"epsilon={format_up(self.epsilon)} for {self.unit}, {self.neighbours}, about the test rows.{warning}"
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
        A fitted private estimator; its schema gives the neighbouring relation and the privacy unit.
    X, y
        The test rows. A label that is none of the classes counts as wrong (``"auc"`` leaves it out), one that is not
        a finite number as the largest error; none raises.
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
    return score_of_rows(model, X, y, metric=metric, epsilon=epsilon, ledger=ledger, random_state=random_state)


def score_of_rows(
    model: Any,
    X: Any,
    y: Any,
    rows: NDArray[np.bool_] | None = None,
    *,
    metric: Metric | None = None,
    epsilon: float,
    ledger: Ledger | None = None,
    random_state: Any = None,
) -> PrivateScore:
    """Score a fitted model on some rows of a table, all by default. There may be none: that is a score too."""
    check_is_fitted(model, "receipt_")
    if not isinstance(model, PrivateEstimator):
        raise ParameterError("model", "be a fitted private estimator", type(model).__name__)
    epsilon, _ = checked_budget(epsilon, 0.0, 2)
    metric = checked_metric(model, metric, getattr(model, "classes_", ()))
    schema = model.schema if isinstance(model.schema, Schema) else Schema()
    most = schema.max_rows_per_unit
    touched = most if schema.neighbours == "add_remove" else 2
    own = Ledger(epsilon * ROUNDING, 0.0, neighbours=schema.neighbours)
    session = ReleaseSession(own, source_for(random_state), charge=ledger, name="score")

    def release(exact: NDArray[np.int64], moved: int, part: float, label: str) -> tuple[NDArray[np.float64], float]:
        mechanism = DiscreteLaplaceMechanism(
            scale=touched * moved / (part * epsilon),
            sensitivity=Sensitivity(l1=touched * moved, dimension=exact.size),
            neighbours=schema.neighbours,
        )
        return np.asarray(session.release(mechanism, exact, label), dtype=np.float64), mechanism.scale

    if metric == "auc":
        fine, positive, counted = _fine_scores(model, X, y)
        kept = counted & _kept(X, len(counted), rows, schema, session)
        fine, positive = fine[kept], positive[kept]
        first, _ = release(np.bincount(fine, minlength=_FINE).astype(np.int64), 1, _FIRST, "bins")
        place = _equal_bins(first)[fine]
        both = np.bincount(place + BINS * positive, minlength=2 * BINS).astype(np.int64)
        noisy, scale = release(both, 1, 1 - _FIRST, "auc")
    else:
        each, moved = _contributions(model, X, y, metric)
        kept = _kept(X, len(each), rows, schema, session)
        noisy, scale = release(each[kept].sum(axis=0), moved, 1.0, metric)
    value, error = _estimate(noisy, metric, scale, _width(model))
    unit = "one record" if schema.unit is None else f"one value of {schema.unit!r} (at most {most} rows)"
    change = "added or removed" if schema.neighbours == "add_remove" else "replaced by another"
    return PrivateScore(metric, value, error, epsilon, unit, change, Receipt.of(own))


def checked_metric(model: Any, metric: Metric | None, classes: Sequence[Scalar]) -> Metric:
    """Return the metric, the model's own by default, or raise if it does not apply to such a model."""
    metric = metric or ("accuracy" if is_classifier(model) else "mae")
    if metric not in ("accuracy", "auc", "mae") or (metric == "mae") == is_classifier(model):
        raise ParameterError("metric", "be 'accuracy' or 'auc' for a classifier, 'mae' for a regressor", metric)
    if metric == "auc" and len(classes) != 2:
        raise ParameterError("metric", "be 'accuracy' for a model of other than two classes", "auc")
    return metric


def _kept(X: Any, n: int, rows: NDArray[np.bool_] | None, schema: Schema, session: ReleaseSession) -> NDArray[np.bool_]:
    """Which rows count: at most ``max_rows_per_unit`` of each privacy unit, by a rule that looks at that unit alone."""
    wanted = np.ones(n, dtype=bool) if rows is None else rows
    if schema.unit is None:
        return wanted
    kept = np.zeros(n, dtype=bool)
    kept[keep_rows(unit_column(X, schema.unit), schema.max_rows_per_unit, session.generator().bytes(32))] = True
    return wanted & kept


def _same_rows(predicted: Any, labels: NDArray[Any]) -> NDArray[Any]:
    found = np.asarray(predicted)
    if len(found) != len(labels):
        raise ValueError("X and y have different numbers of rows: there must be one label for each row")
    return found


def _contributions(model: Any, X: Any, y: Any, metric: str) -> tuple[NDArray[np.int64], int]:
    """Return the integers that each row adds, and how far one row moves their sums in L1."""
    if metric == "accuracy":
        classes = model.classes_.tolist()
        truth = label_codes(y, classes)
        right = (label_codes(_same_rows(model.predict(X), truth), classes) == truth) & (truth >= 0)
        return np.stack([right, ~right], axis=1).astype(np.int64), 1
    width = _width(model)
    numbers = label_numbers(y)
    off = np.abs(_same_rows(model.predict(X), numbers) - numbers)
    off = np.minimum(np.where(np.isnan(off), width, off), width)
    steps = np.floor(off / width * _STEPS).astype(np.int64)
    # a sum of steps (at most _STEPS) and a count weighted alike, so that both are about as exact
    return np.stack([steps, np.full(len(steps), _STEPS)], axis=1), 2 * _STEPS


def _fine_scores(model: Any, X: Any, y: Any) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """The fine bin of every row's score, 1 for rows of the second class, and which rows are of a class at all."""
    truth = label_codes(y, model.classes_.tolist())
    scores = _same_rows(model.predict_proba(X), truth)[:, 1]
    p = np.clip(np.nan_to_num(scores, nan=0.5), 1e-9, 1 - 1e-9)
    odds = np.clip(np.log(p / (1 - p)), -_RANGE, _RANGE)
    bins = np.minimum(((odds + _RANGE) / (2 * _RANGE) * _FINE).astype(np.int64), _FINE - 1)
    return bins, (truth == 1).astype(np.int64), truth >= 0


def _equal_bins(counts: NDArray[np.float64]) -> NDArray[np.int64]:
    """The bin of each fine bin, so that bins are about equally full: post-processing of the first histogram."""
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
