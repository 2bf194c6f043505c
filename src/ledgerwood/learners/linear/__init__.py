"""Private linear models: AdaSSP and its boosted forms (P4).

Names are imported at first use, so that importing this package stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ledgerwood.learners.linear.export import to_sklearn
    from ledgerwood.learners.linear.models import AdaSSPRegressor, BoostedAdaSSPClassifier, BoostedAdaSSPRegressor

_HOME = {
    "AdaSSPRegressor": "models",
    "BoostedAdaSSPClassifier": "models",
    "BoostedAdaSSPRegressor": "models",
    "to_sklearn": "export",
}

__all__ = ["AdaSSPRegressor", "BoostedAdaSSPClassifier", "BoostedAdaSSPRegressor", "to_sklearn"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
