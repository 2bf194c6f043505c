"""What scikit-learn does around a fit: it fits many times on the same rows, and passes on rows that it has changed.

Each fit states its own price. Nobody adds them up unless a ledger does, so without one the total is warned about. And
a guarantee is about rows that depend on their own records: what scikit-learn learned from all rows on the way to a fit
(settings by exact scores, the mean of a column, which columns to keep) is not covered, and the statement says so. After
such a step a row is no longer a function of its own record: one record moves a mean, a bound or a list of categories,
and with it every other row, while the noise of a mechanism is made for one row that moves.

**The probe.** scikit-learn does not say for what it calls a fit, so :func:`_callers` looks at the frames of the
interpreter's stack: the one place that does. A fit that scikit-learn hands to a worker (``n_jobs``) has another stack:
what called it there is seen, what called the worker is not, and the statement says so (:func:`unseen_callers`). Other
calls from another process or thread are covered by the assumption that every statement carries.

**Which steps learn.** scikit-learn's tag ``requires_fit`` does not say: an encoder with given categories has it and
learns nothing. So the classes known to depend on their parameters alone are listed here, each with its condition; any
other class that has the tag counts as learning. A step without the tag, or in a ``FrozenEstimator``, is the caller's
responsibility.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ledgerwood.accounting import Plan
from ledgerwood.errors import UntrackedFits

__all__ = [
    "in_private_search",
    "leaks",
    "learning_steps",
    "private_search",
    "sklearn_kinds",
    "unseen_callers",
    "warn_if_untracked",
]


# Modules of scikit-learn that fit an estimator once.
_ONCE = ("sklearn.base", "sklearn.pipeline", "sklearn.compose", "sklearn.utils", "sklearn.callback")

# Local variables in which functions of scikit-learn keep the rows of a fold.
_FOLDS = ("train", "train_idx")

_UNSEEN = (
    "CAUTION: scikit-learn ran this fit in a worker (n_jobs), where what called it cannot be seen. So it was not "
    "checked whether a step before it learned from all rows, and other fits of the same call are not counted. Both are "
    "with n_jobs=1."
)

_PRICES = "_ledgerwood_prices"
"""The local variable of a call of scikit-learn that lists what its untracked fits cost; it ends with the call."""

_searching: ContextVar[bool] = ContextVar("private search", default=False)


@contextmanager
def private_search() -> Iterator[None]:
    """Mark the runs of a private search: their number is secret and they are priced as a whole, so none may warn."""
    before = _searching.set(True)
    try:
        yield
    finally:
        _searching.reset(before)


def in_private_search() -> bool:
    """Whether this fit is a run of a private search."""
    return _searching.get()


def _callers() -> list[Any]:
    """Return the frames of the callers of this fit, innermost first; none inside a private search."""
    frame: Any = None if in_private_search() else sys._getframe(1)
    found = []
    while frame is not None:
        found.append(frame)
        frame = frame.f_back
    return found


def _choosing_frame() -> Any:
    """The ``fit`` of a search of scikit-learn that fits its choice now. Candidates are fitted by other functions."""
    for frame in _callers():
        if frame.f_code.co_name == "_fit_and_score":
            return None
        search = frame.f_locals.get("self") if frame.f_code.co_name == "fit" else None
        if "best_params_" in getattr(search, "__dict__", {}) and type(search).__module__.startswith("sklearn."):
            return frame
    return None


def leaks() -> tuple[str, ...]:
    """Return what scikit-learn took from the private rows on the way to this fit, in the words of a statement."""
    found, seen = [], set()
    choosing = _choosing_frame()
    if choosing is not None:
        found.append(f"settings chosen by {type(choosing.f_locals['self']).__name__} on exact scores")
    for frame in _callers():
        caller = frame.f_locals.get("self")
        if caller is not None and id(caller) not in seen:  # of several frames of one caller the innermost counts
            seen.add(id(caller))
            found += _taken(caller, frame.f_locals)
        if _module(frame).startswith("sklearn.") and any(frame.f_locals.get(name) is not None for name in _FOLDS):
            # One record more shifts the folds, or by its label those of a stratified division: others leave or enter.
            found.append("which rows are in a fold of all rows")
    return tuple(dict.fromkeys(found))


def unseen_callers() -> tuple[str, ...]:
    """Return a caution for the statement if this fit runs in a worker of scikit-learn's; nothing elsewhere."""
    wrapped = called = 0  # a task runs inside the call that made it, unless a worker runs it
    for frame in _callers():
        wrapped += frame.f_code.co_qualname == "_FuncWrapper.__call__" and _module(frame) == "sklearn.utils.parallel"
        called += frame.f_code.co_qualname == "Parallel.__call__" and _module(frame) == "sklearn.utils.parallel"
    return (_UNSEEN,) if wrapped > called else ()


def _module(frame: Any) -> str:
    return str(frame.f_globals.get("__name__"))


def _taken(caller: Any, local: Mapping[str, Any]) -> Iterator[str]:
    """What one caller took from all rows before it gave them on. (A bagged model is seeded, and says so itself.)"""
    kinds, name = sklearn_kinds(caller), type(caller).__name__
    if "Pipeline" in kinds:
        for _, step in caller.steps[: local.get("step_idx", len(caller.steps) - 1)]:
            yield from map(_learned, learning_steps(step))
    elif "TransformedTargetRegressor" in kinds:
        yield from map(_learned, learning_steps(caller.transformer))
    elif kinds & {"RFE", "SequentialFeatureSelector"}:
        yield f"columns chosen by {name}"
    elif "IterativeImputer" in kinds:
        yield f"cells that {name} filled in from other rows"
    elif "RANSACRegressor" in kinds:
        yield f"rows chosen by {name}"
    elif "SelfTrainingClassifier" in kinds:
        yield f"labels made by {name} from earlier fits"
    elif ("_BaseStacking" in kinds and "X_meta" in local and caller.cv != "prefit") or (
        "_BaseChain" in kinds and caller.cv is not None
    ):
        yield f"predictions that {name} made of fits on the same rows"


def _learned(step: str) -> str:
    return f"what {step} learned from all rows"


def warn_if_untracked(name: str, plan: Plan) -> None:
    """Warn when one call of scikit-learn fits models that no ledger adds up: at each doubling, and when it chooses."""
    several = [frame for frame in _callers() if _fits_several(_module(frame))]
    if not several:
        return
    prices: list[float] = several[-1].f_locals.setdefault(_PRICES, [])
    prices.append(plan.epsilon or 0.0)
    fits, total = len(prices), sum(prices)
    last = _choosing_frame()
    if last is not None:  # its candidates may have been fitted in other processes
        expected = _prices(last, prices[-1])
        fits, total = max(fits, len(expected)), max(total, sum(expected))
    if fits >= 2 and (last is not None or fits & (fits - 1) == 0):
        warnings.warn(
            f"scikit-learn asked for {fits} fits of {name} and others without a ledger: each states the "
            f"price of itself alone, all {fits} together cost up to epsilon={total:.6g}. Pass one ledger to every fit "
            "(params={'ledger': ledger}), or use PrivateSearch",
            UntrackedFits,
            stacklevel=2,
        )


def _fits_several(module: str) -> bool:
    """Whether functions of a module fit an estimator several times."""
    return module.startswith("sklearn.") and not module.startswith(_ONCE)


def _prices(frame: Any, epsilon: float) -> list[float]:
    """What every fit of a search cost, the last one included."""
    tried = (frame.f_locals.get("results") or {}).get("params", ())
    splits = int(getattr(frame.f_locals["self"], "n_splits_", 1))
    return [_price(setting, epsilon) for setting in tried for _ in range(splits)] + [epsilon]


def _price(setting: dict[str, Any], epsilon: float) -> float:
    return next((float(value) for name, value in setting.items() if name.split("__")[-1] == "epsilon"), epsilon)


def _given_categories(step: Any) -> bool:
    """Rare categories are merged by count, so a limit on them is learned even if the categories are given."""
    return not isinstance(step.categories, str) and step.min_frequency is None and step.max_categories is None


#: Classes whose tag says that they must be fitted, and when that looks at shapes and types only.
_BY_PARAMETERS: dict[str, Callable[[Any], bool]] = {
    "CountVectorizer": lambda step: step.vocabulary is not None,
    "GaussianRandomProjection": lambda step: True,
    "MissingIndicator": lambda step: step.features == "all",
    "OneHotEncoder": _given_categories,
    "OrderPreservingTransformer": lambda step: True,  # our own: each row is randomized by itself
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
