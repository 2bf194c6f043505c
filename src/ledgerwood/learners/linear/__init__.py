"""Private linear models: AdaSSP and its boosted forms (Rho et al. 2022).

Names are imported at first use, so that importing this package stays light.
"""

from typing import TYPE_CHECKING

from ledgerwood._imports import at_first_use

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

__getattr__ = at_first_use(__name__, _HOME)
