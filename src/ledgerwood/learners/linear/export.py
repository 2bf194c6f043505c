"""A fitted linear model as plain JSON, and scikit-learn's own models rebuilt from it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ledgerwood.accounting import strict_json
from ledgerwood.errors import FormatError

if TYPE_CHECKING:
    from ledgerwood.learners.linear.base import LinearModel

__all__ = ["coefficients", "to_json", "to_sklearn"]

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
    """Return released numbers and public facts, nothing else."""
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
        body = strict_json.read(text)
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
