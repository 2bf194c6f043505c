"""Models in files: which learners there are, and how to read what one of them saved."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ledgerwood._files import parse_json
from ledgerwood.errors import FormatError, LedgerwoodError, ParameterError
from ledgerwood.learners.auto import estimators as _auto
from ledgerwood.learners.linear import estimators as _linear
from ledgerwood.learners.training.codec import MOST_BYTES, MOST_VALUES, model_of, registered
from ledgerwood.learners.training.estimator import PrivateEstimator
from ledgerwood.learners.trees import estimators as _trees

__all__ = ["learners", "load"]

_REGISTERED = (_auto, _linear, _trees)  # imported so that their estimators are known


def learners() -> dict[str, type[PrivateEstimator]]:
    """Return every learner by name: the library's, and those that installed packages declare as entry points.

    >>> "PrivateBoostingClassifier" in learners()
    True
    """
    found = registered()
    for name, kind in found.items():
        if not (isinstance(kind, type) and issubclass(kind, PrivateEstimator)):
            raise ParameterError(f"entry point {name!r}", "name a subclass of PrivateEstimator", kind)
    return found


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that :func:`save` wrote. Raises :class:`~ledgerwood.errors.FormatError` on anything else.

    >>> import tempfile
    >>> import numpy as np
    >>> from ledgerwood.learners import AdaSSPRegressor, Schema
    >>> schema = Schema(bounds={0: (0, 1)}, target_bounds=(0, 1))
    >>> model = AdaSSPRegressor(epsilon=1.0, delta=1e-6, schema=schema).fit(np.eye(1), [1.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/model.json")
    ...     again = load(f"{folder}/model.json")
    >>> bool(again.predict([[0.5]]) == model.predict([[0.5]]))
    True
    """
    file = Path(path)
    if file.stat().st_size > MOST_BYTES:
        raise FormatError(f"the file has more than {MOST_BYTES} bytes")
    data = file.read_bytes()
    if sum(map(data.count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise FormatError(f"the file has more than {MOST_VALUES} values")
    try:
        return model_of(parse_json(data))
    except FormatError:
        raise
    except (LedgerwoodError, ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
        raise FormatError(f"not a model of this library: {str(error)[:200]}") from None
