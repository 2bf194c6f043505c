"""What the linear estimators share: settings, plan, training on exact sums, and export to JSON or scikit-learn."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ledgerwood import _checks, _files
from ledgerwood.accounting import Plan
from ledgerwood.errors import FormatError, ParameterError
from ledgerwood.learners.data.labels import Labels
from ledgerwood.learners.data.table import Table
from ledgerwood.learners.engines.partitioned import PartitionedEstimator, PartitionedTable
from ledgerwood.learners.linear.aggregator import (
    LinearParts,
    LinearRecords,
    LinearSums,
    ReplayingLinearSums,
    encoded_rows,
)
from ledgerwood.learners.linear.boosting import boost
from ledgerwood.learners.linear.encoding import MAX_BINS, RowEncoder
from ledgerwood.learners.linear.integer_rows import MAX_CLIP, MAX_ROWS
from ledgerwood.learners.linear.loss import ENTRY_ONE, loss_named
from ledgerwood.learners.linear.plan import (
    GRADIENTS,
    LinearSettings,
    automatic_clip,
    automatic_loss,
    automatic_rounds,
    automatic_shares,
    plan_linear,
)
from ledgerwood.learners.linear.sensitivity import RowBound
from ledgerwood.learners.training.codec import require
from ledgerwood.learners.training.public_metadata import PublicMetadata
from ledgerwood.learners.training.session import ReleaseSession

__all__ = ["LinearModel", "Shares", "coefficients", "to_json", "to_sklearn"]


Shares = tuple[float, float, float] | str


class LinearModel(PartitionedEstimator):
    """Plan, training and export of a private linear model; parameters that a subclass leaves out have these values."""

    _most_rows = MAX_ROWS
    loss: str = "auto"
    n_rounds: int | str = 1
    step_size: float | str = "auto"
    gradient_clip: float | str = "auto"
    clip_decay: float = 1.0
    ridge: float = 1.0
    shares: Shares = "auto"
    bins: int | None = None
    row_norm: float | None = None
    fit_intercept: bool = True
    accounting: str = "tight"

    weights_: NDArray[np.float64]
    encoder_: RowEncoder

    def _check_stored(self) -> None:
        super()._check_stored()
        fitted = vars(self)
        require("weights_" not in fitted or isinstance(fitted.get("encoder_"), RowEncoder), "encoder_ is missing")

    # ---- what PrivateEstimator asks

    def _plan(self, metadata: PublicMetadata) -> Plan:
        rounds = (
            automatic_rounds(metadata) if self.n_rounds == "auto" else _checks.integer("n_rounds", self.n_rounds, 1)
        )
        return plan_linear(self._settings(rounds, metadata.n_outputs), metadata.neighbours)

    def _follows_paper(self) -> bool:
        return self.accounting == "paper"

    def _train(self, table: Table, labels: Labels, plan: Plan, session: ReleaseSession) -> Mapping[str, Any]:
        encoder = RowEncoder(table.columns, self.bins, self.fit_intercept, self.row_norm)
        bound = RowBound(encoder.square_bound, str(plan.neighbours))
        classes = len(labels.classes or ())
        outputs = classes if classes > 2 else 1
        known: dict[str, Any] = {"encoder_": encoder}
        if labels.bounds is not None:
            known["target_bounds_"] = labels.bounds

        def fitted(weights: NDArray[np.float64]) -> dict[str, Any]:
            return {"weights_": weights, **known}

        def opened() -> LinearSums:
            return self._sums(encoder, table, labels)

        # Opened before anything is spent, but where a training is resumed.
        sums = ReplayingLinearSums(opened, encoder.width, session) if session.recalling else opened()
        weights = boost(
            sums, bound, self._settings(plan[GRADIENTS].times, outputs), plan, session, outputs,
            after_round=lambda so_far: session.keep(fitted(so_far)),
        )  # fmt: skip
        return fitted(weights)

    def _sums(self, encoder: RowEncoder, table: Table, labels: Labels) -> LinearSums:
        """Return who answers for the records of this fit."""
        if isinstance(table, PartitionedTable):
            about = encoder, table.target, labels.classes, labels.bounds
            records = [LinearRecords(part, *about, rows) for part, _, rows in table.parts()]
            return LinearParts(self._engine.sums(records), encoder.width)
        return encoded_rows(encoder, table, labels)

    # ---- reading the fitted model

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Coefficients of the columns of :meth:`design`, per unit of a number and per indicator; one row per output."""
        return coefficients(self)[0]

    @property
    def intercept_(self) -> Any:
        """Intercepts that belong to ``coef_``."""
        return coefficients(self)[1]

    def design(self, X: Any) -> NDArray[np.float64]:
        """Return the matrix that ``coef_`` multiplies: clipped numbers, indicators of categories or bins."""
        table = self._table(X)
        return self.encoder_.design(table)

    def to_json(self) -> str:
        """Return the model as plain JSON: released numbers and public metadata; see :func:`to_sklearn`."""
        return to_json(self)

    # ---- parameters

    @property
    def _loss_name(self) -> str:
        if self.loss == "auto":
            return automatic_loss(self._task)
        if self._task == "regression" and self.loss != "squared":
            raise ParameterError("loss", "be squared for regression", self.loss)
        return self.loss

    def _settings(self, rounds: int, outputs: int) -> LinearSettings:
        loss = loss_named(self._loss_name)
        if self.accounting not in ("tight", "paper"):
            raise ParameterError("accounting", "be 'tight' or 'paper'", self.accounting)
        paper = self.accounting == "paper"
        step: Any = self.step_size
        if step == "auto":
            step = 1.0 if paper else 1 / loss.hessian_bound
        clip: Any = self.gradient_clip
        if clip == "auto":
            coded = self._task == "classification"
            clip = (
                math.sqrt(outputs) if paper else automatic_clip(loss.name, coded=coded, rounds=rounds, outputs=outputs)
            )
        if self.bins is not None and not 2 <= _checks.integer("bins", self.bins, 1) <= MAX_BINS:
            raise ParameterError("bins", f"lie in 2 .. {MAX_BINS}, or be None", self.bins)
        if self.row_norm is not None and _positive("row_norm", self.row_norm) < 1 / ENTRY_ONE:
            raise ParameterError("row_norm", "be at least 2**-12, one step of an entry", self.row_norm)
        return LinearSettings(
            loss, rounds, self._resolved_shares(paper, rounds), _positive("step_size", step),
            _positive("gradient_clip", clip, MAX_CLIP), _positive("clip_decay", self.clip_decay, 1.0),
            _positive("ridge", self.ridge), paper,
        )  # fmt: skip

    def _resolved_shares(self, paper: bool, rounds: int) -> tuple[float, float, float]:
        if isinstance(self.shares, str):
            if self.shares != "auto":
                raise ParameterError("shares", "be three numbers a : b : c, or 'auto'", self.shares)
            return (1.0, 1.0, 1.0) if paper else automatic_shares(rounds)
        try:
            a, b, c = (float(share) for share in self.shares)
        except (TypeError, ValueError):
            raise ParameterError("shares", "be three numbers a : b : c, or 'auto'", self.shares) from None
        if not (0 < a < math.inf and 0 < b < math.inf and 0 <= c < math.inf) or (c > 0 and not paper):
            raise ParameterError(
                "shares", "be positive, the last one 0 unless accounting='paper'", self.shares,
                "Only the paper's ridge uses the smallest eigenvalue",
            )  # fmt: skip
        return a, b, c


def _positive(name: str, value: Any, most: float = math.inf) -> float:
    if not _checks.is_real(value) or not 0 < value <= most or value == math.inf:
        limit = "" if most == math.inf else f" of at most {most:g}"
        raise ParameterError(name, f"be a positive finite number{limit}", value)
    return float(value)


FORMAT, VERSION = "ledgerwood.linear", 1


def coefficients(model: LinearModel) -> tuple[NDArray[np.float64], Any]:
    """Return coefficients and intercepts in the shapes of scikit-learn: a vector and a number for a regression."""
    if "weights_" not in vars(model):  # a property must raise AttributeError for hasattr to say no
        raise AttributeError(f"this {type(model).__name__} is not fitted yet")
    slopes, constants = model.encoder_.in_units(model.weights_)
    bounds = getattr(model, "target_bounds_", None)
    if bounds is None:
        return slopes, constants
    half = (bounds[1] - bounds[0]) / 2
    return slopes[0] * half, float(constants[0] * half + bounds[0] + half)


def to_json(model: LinearModel) -> str:
    """Return released numbers and public metadata, nothing else."""
    check_is_fitted(model, "receipt_")
    slopes, constants = coefficients(model)
    bounds, classes = getattr(model, "target_bounds_", None), getattr(model, "classes_", None)
    statement = model.privacy_statement()
    body = {
        "format": FORMAT,
        "version": VERSION,
        "task": "regression" if classes is None else "classification",
        "loss": model._loss_name,
        "classes": None if classes is None else classes.tolist(),
        "target_bounds": None if bounds is None else list(bounds),
        "columns": model.encoder_.parts(),
        "coefficients": np.atleast_2d(slopes).tolist(),
        "intercepts": np.atleast_1d(constants).tolist(),
        "privacy": statement.to_dict(),
    }
    return json.dumps(body, indent=1, allow_nan=False)


def to_sklearn(text: str) -> Any:
    """Return scikit-learn's LinearRegression or LogisticRegression with the coefficients of :func:`to_json`.

    Its columns are those of ``model.design(X)``; where all columns are plain numbers, those of X itself. A regression's
    predictions are not clipped to the target's bounds as the private estimator clips them; the probabilities of a
    LogisticRegression are those of the logistic loss, and for three and more classes a softmax over the scores.

    >>> import numpy as np
    >>> from ledgerwood.learners import Schema
    >>> from ledgerwood.learners.linear import AdaSSPRegressor
    >>> X = np.random.default_rng(0).uniform(0, 1, (500, 2))
    >>> schema = Schema(bounds={0: (0, 1), 1: (0, 1)}, target_bounds=(0, 1))
    >>> model = AdaSSPRegressor(schema=schema, random_state=0).fit(X, X[:, 0])
    >>> rebuilt = to_sklearn(model.to_json())
    >>> type(rebuilt).__name__, bool(np.allclose(np.clip(rebuilt.predict(X), 0, 1), model.predict(X)))
    ('LinearRegression', True)
    """
    from sklearn.linear_model import LinearRegression, LogisticRegression

    try:
        body = _files.parse_json(text)
        if body["format"] != FORMAT:
            raise FormatError(f"a linear model must have the field 'format': {FORMAT!r}")
        if body["version"] != VERSION:
            raise FormatError(f"this library reads linear models of version {VERSION}. Update ledgerwood")
        slopes, constants = np.array(body["coefficients"]), np.array(body["intercepts"])
        classes, width = body["classes"], len(body["columns"])
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"not a linear model in JSON: {error!r}") from None
    if classes is None:
        model = LinearRegression()
        model.coef_, model.intercept_ = slopes[0], float(constants[0])
    else:
        model = LogisticRegression()
        model.coef_, model.intercept_, model.classes_ = slopes, constants, np.array(classes)
    model.n_features_in_ = width
    return model
