"""Predicting a table in parts: the same method on every part, where the parts are."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from ledgerwood.learners.engines.partitions import as_table, is_parted

__all__ = ["by_parts"]


def by_parts(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method of a fitted model take tables in parts too.

    A Dask collection gives a Dask array that is computed when it is asked for; other tables in parts give an array, on
    the workers of the model's engine if it has some.
    """

    @wraps(method)
    def over(self: Any, X: Any) -> Any:
        if not is_parted(X):
            return method(self, X)
        if hasattr(X, "to_delayed"):
            return _lazily(self, method.__name__, X)
        parts = as_table(X).parts
        engine: Any = getattr(self, "engine", None)
        if hasattr(engine, "each"):
            return np.concatenate(engine.each(_of_part, parts, self, method.__name__))
        return np.concatenate([_of_part(part, self, method.__name__) for part in parts])

    return over


def _of_part(part: Any, model: Any, name: str) -> Any:
    return _of_rows(part.load(), model, name)


def _of_rows(rows: Any, model: Any, name: str) -> Any:
    """Predict loaded rows; columns that the model does not know (the target, say) are left out."""
    wanted = getattr(model, "feature_names_in_", None)
    if isinstance(rows, tuple):
        rows = rows[0]
    elif wanted is not None:
        rows = rows.select(list(wanted)) if hasattr(rows, "select") else rows[list(wanted)]
    return getattr(model, name)(rows)


def _lazily(model: Any, name: str, X: Any) -> Any:
    from dask import array
    from dask.delayed import delayed

    classes = getattr(model, "classes_", np.empty(0))
    wide = name == "predict_proba" or (name == "decision_function" and len(classes) > 2)
    dtype = classes.dtype if name == "predict" and len(classes) else np.dtype(np.float64)
    if not hasattr(X, "columns"):
        X = X.rechunk({1: -1})
        sizes = X.chunks[0]
    else:
        sizes = (np.nan,) * X.npartitions
    blocks = []
    for piece, rows in zip(np.ravel(X.to_delayed()), sizes, strict=True):
        shape = (rows, len(classes)) if wide else (rows,)
        found = delayed(_of_rows)(piece, model, name)
        blocks.append(array.from_delayed(found, shape=shape, dtype=dtype))  # type: ignore[no-untyped-call]
    return array.concatenate(blocks)  # type: ignore[no-untyped-call]
