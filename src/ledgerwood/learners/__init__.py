"""Private models: plan from public metadata, release through a ledger, post-process.

Names are imported at first use, so that importing this package stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ledgerwood.learners.auto.estimators import PrivateClassifier, PrivateRegressor
    from ledgerwood.learners.auto.planner import plan_training
    from ledgerwood.learners.data.columns import Column
    from ledgerwood.learners.data.labels import Labels
    from ledgerwood.learners.data.schema import Schema
    from ledgerwood.learners.data.table import Table
    from ledgerwood.learners.evaluation import PrivateScore, private_score
    from ledgerwood.learners.linear.estimators import AdaSSPRegressor, BoostedAdaSSPClassifier, BoostedAdaSSPRegressor
    from ledgerwood.learners.search import PrivateSearch
    from ledgerwood.learners.storage import learners, load
    from ledgerwood.learners.training.estimator import PrivateClassifierBase, PrivateEstimator, PrivateRegressorBase
    from ledgerwood.learners.training.public_metadata import PublicMetadata
    from ledgerwood.learners.training.session import Progress, ReleaseSession
    from ledgerwood.learners.training.statement import PrivacyStatement, Receipt
    from ledgerwood.learners.trees.estimators import PrivateBoostingClassifier, PrivateBoostingRegressor
    from ledgerwood.learners.trees.plan import plan_boosting
    from ledgerwood.learners.trees.recipes import recipes

_HOME = {
    "AdaSSPRegressor": "linear.estimators",
    "BoostedAdaSSPClassifier": "linear.estimators",
    "BoostedAdaSSPRegressor": "linear.estimators",
    "Column": "data.columns",
    "Labels": "data.labels",
    "PrivacyStatement": "training.statement",
    "PrivateBoostingClassifier": "trees.estimators",
    "PrivateBoostingRegressor": "trees.estimators",
    "PrivateClassifier": "auto.estimators",
    "PrivateClassifierBase": "training.estimator",
    "PrivateEstimator": "training.estimator",
    "PrivateRegressor": "auto.estimators",
    "PrivateRegressorBase": "training.estimator",
    "PrivateScore": "evaluation",
    "PrivateSearch": "search",
    "Progress": "training.session",
    "PublicMetadata": "training.public_metadata",
    "Receipt": "training.statement",
    "ReleaseSession": "training.session",
    "Schema": "data.schema",
    "Table": "data.table",
    "learners": "storage",
    "load": "storage",
    "plan_boosting": "trees.plan",
    "plan_training": "auto.planner",
    "private_score": "evaluation",
    "recipes": "trees.recipes",
}

__all__ = [
    "AdaSSPRegressor",
    "BoostedAdaSSPClassifier",
    "BoostedAdaSSPRegressor",
    "Column",
    "Labels",
    "PrivacyStatement",
    "PrivateBoostingClassifier",
    "PrivateBoostingRegressor",
    "PrivateClassifier",
    "PrivateClassifierBase",
    "PrivateEstimator",
    "PrivateRegressor",
    "PrivateRegressorBase",
    "PrivateScore",
    "PrivateSearch",
    "Progress",
    "PublicMetadata",
    "Receipt",
    "ReleaseSession",
    "Schema",
    "Table",
    "learners",
    "load",
    "plan_boosting",
    "plan_training",
    "private_score",
    "recipes",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
