"""Private linear models: AdaSSP and its boosted forms (Rho et al. 2022).

Names are imported at first use, so that importing this package stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ledgerwood.learners.linear.estimators import AdaSSPRegressor, BoostedAdaSSPClassifier, BoostedAdaSSPRegressor
    from ledgerwood.learners.linear.model import to_sklearn

_HOME = {
    "AdaSSPRegressor": "estimators",
    "BoostedAdaSSPClassifier": "estimators",
    "BoostedAdaSSPRegressor": "estimators",
    "to_sklearn": "model",
}

__all__ = ["AdaSSPRegressor", "BoostedAdaSSPClassifier", "BoostedAdaSSPRegressor", "to_sklearn"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
