"""Which steps of scikit-learn learn from the rows that they transform?

Behind such a step a row is no longer a function of its own record: one record moves a mean, a bound or a list of
categories, and with it every other row, while a mechanism's noise is made for one row that moves. scikit-learn's tag
``requires_fit`` does not tell: an encoder with given categories has it and learns nothing. So the classes known to
depend on their parameters alone are listed here, each with its condition; any other class that has the tag counts as
learning. A step without the tag, or in a ``FrozenEstimator``, is the caller's promise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["learning_steps", "sklearn_kinds"]


def _given_categories(step: Any) -> bool:
    """Rare categories are merged by count, so a limit on them is learned even if the categories are given."""
    return not isinstance(step.categories, str) and step.min_frequency is None and step.max_categories is None


#: Classes whose tag says that they must be fitted, and when that looks at shapes and types only.
_BY_PARAMETERS: dict[str, Callable[[Any], bool]] = {
    "CountVectorizer": lambda step: step.vocabulary is not None,
    "GaussianRandomProjection": lambda step: True,
    "MissingIndicator": lambda step: step.features == "all",
    "OneHotEncoder": _given_categories,
    "OrderPreservingTransformer": lambda step: True,  # our own: each row is randomised by itself
    "OrdinalEncoder": _given_categories,
    "PolynomialFeatures": lambda step: True,
    # from scikit-learn 1.8 on a column without a value is dropped unless it is asked for
    "SimpleImputer": lambda step: step.strategy == "constant" and step.keep_empty_features and not step.add_indicator,
    "SparseRandomProjection": lambda step: True,
    "SplineTransformer": lambda step: not isinstance(step.knots, str),
}


def sklearn_kinds(value: Any) -> set[str]:
    """Return the names of the classes of scikit-learn that a value is of."""
    return {kind.__name__ for kind in type(value).__mro__ if kind.__module__.startswith("sklearn.")}


def learning_steps(step: Any) -> Iterator[str]:
    """Yield the class names of all steps that learn from rows: the step itself, or those inside a composite.

    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import Normalizer, OrdinalEncoder, StandardScaler
    >>> list(learning_steps(make_pipeline(Normalizer(), StandardScaler())))
    ['StandardScaler']
    >>> list(learning_steps(OrdinalEncoder(categories=[["no", "yes"]])))
    []
    """
    if step is None or isinstance(step, str):  # "passthrough" and "drop"
        return
    kinds = sklearn_kinds(step)
    if "FrozenEstimator" in kinds:
        return
    if "Pipeline" in kinds:
        inside = [each for _, each in step.steps]
    elif "FeatureUnion" in kinds:
        inside = [each for _, each in step.transformer_list]
    elif "ColumnTransformer" in kinds:
        inside = [*(each for _, each, _ in step.transformers), step.remainder]
    else:
        if _learns(step):
            yield type(step).__name__
        return
    for each in inside:
        yield from learning_steps(each)


def _learns(step: Any) -> bool:
    kind = type(step)
    known = kind.__module__.startswith(("sklearn.", "ledgerwood.")) and kind.__name__ in _BY_PARAMETERS
    if known:  # of a subclass nothing is known
        return not _BY_PARAMETERS[kind.__name__](step)
    try:
        return bool(step.__sklearn_tags__().requires_fit)
    except AttributeError:  # it has no tags
        return True
