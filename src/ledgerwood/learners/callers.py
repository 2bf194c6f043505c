"""Who asked for a fit: searches, cross-validations and ensembles of scikit-learn fit many times on the same rows.

Each fit states its own price; nobody adds them up unless a ledger does, so without one the total is warned about. And
what a search of scikit-learn chooses, it chooses by exact scores: the settings of its best model are data, and the
statement of that model says so (:class:`~ledgerwood.learners.PrivateSearch` chooses privately).
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from typing import Any

from ledgerwood.accounting import Plan
from ledgerwood.errors import UntrackedFits

# Modules of scikit-learn that fit an estimator once.
_ONCE = ("sklearn.base", "sklearn.pipeline", "sklearn.compose", "sklearn.utils", "sklearn.callback")
_untracked = {"fits": 0, "epsilon": 0.0}


def _frames() -> Iterator[Any]:
    """The callers of this fit; none inside a private search, whose runs are secret and priced as a whole."""
    frame: Any = sys._getframe(1)
    found = []
    while frame is not None:
        if frame.f_code.co_name == "_runs" and frame.f_globals.get("__name__") == "ledgerwood.learners.search":
            return
        found.append(frame)
        frame = frame.f_back
    yield from found


def _choosing_frame() -> Any:
    """The ``fit`` of a search of scikit-learn that fits its choice now. Candidates are fitted by other functions."""
    for frame in _frames():
        if frame.f_code.co_name == "_fit_and_score":
            return None
        search = frame.f_locals.get("self") if frame.f_code.co_name == "fit" else None
        if "best_params_" in getattr(search, "__dict__", {}) and type(search).__module__.startswith("sklearn."):
            return frame
    return None


def chosen_by_a_search() -> str | None:
    """Return the name of the search of scikit-learn whose choice is being fitted now, if there is one."""
    frame = _choosing_frame()
    return None if frame is None else type(frame.f_locals["self"]).__name__


def warn_if_untracked(name: str, plan: Plan) -> None:
    """Warn when scikit-learn fits models that no ledger adds up: at each doubling, and when a search ends."""
    callers = [str(frame.f_globals.get("__name__")) for frame in _frames()]
    if not any(caller.startswith("sklearn.") and not caller.startswith(_ONCE) for caller in callers):
        return
    epsilon = plan.epsilon or 0.0
    _untracked["fits"] += 1
    _untracked["epsilon"] += epsilon
    fits, total = int(_untracked["fits"]), _untracked["epsilon"]
    last = _choosing_frame()
    if last is not None:  # its candidates may have been fitted in other processes
        prices = _prices(last, epsilon)
        fits, total = max(fits, len(prices)), max(total, sum(prices))
    if fits >= 2 and (last is not None or fits & (fits - 1) == 0):
        warnings.warn(
            f"scikit-learn asked for {fits} fits of {name} and others without a ledger: each alone is private as it "
            f"states, all {fits} together cost up to epsilon={total:.6g}. Pass one ledger to every fit "
            "(params={'ledger': ledger}), or use PrivateSearch",
            UntrackedFits,
            stacklevel=2,
        )


def _prices(frame: Any, epsilon: float) -> list[float]:
    """What every fit of a search cost, the last one included."""
    tried = (frame.f_locals.get("results") or {}).get("params", ())
    splits = int(getattr(frame.f_locals["self"], "n_splits_", 1))
    return [_price(setting, epsilon) for setting in tried for _ in range(splits)] + [epsilon]


def _price(setting: dict[str, Any], epsilon: float) -> float:
    return next((float(value) for name, value in setting.items() if name.split("__")[-1] == "epsilon"), epsilon)
