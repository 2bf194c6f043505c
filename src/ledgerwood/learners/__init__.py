"""Private models: plan from public facts, release through a ledger, post-process.

Names are imported at first use, so that importing this package stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ledgerwood.learners.base import PrivateClassifierBase, PrivateEstimator, PrivateRegressorBase
    from ledgerwood.learners.boosting import PrivateBoostingClassifier, PrivateBoostingRegressor
    from ledgerwood.learners.door import Door, Progress
    from ledgerwood.learners.evaluation import PrivateScore, private_score
    from ledgerwood.learners.facts import Column, PublicFacts
    from ledgerwood.learners.front_door import PrivateClassifier, PrivateRegressor
    from ledgerwood.learners.linear.models import AdaSSPRegressor, BoostedAdaSSPClassifier, BoostedAdaSSPRegressor
    from ledgerwood.learners.planning import plan_training
    from ledgerwood.learners.schema import Schema
    from ledgerwood.learners.search import PrivateSearch
    from ledgerwood.learners.statement import PrivacyStatement, Receipt
    from ledgerwood.learners.storage import learners, load
    from ledgerwood.learners.tables import Labels, Table
    from ledgerwood.learners.trees.plan import plan_boosting
    from ledgerwood.learners.trees.recipes import recipes

_HOME = {
    "AdaSSPRegressor": "linear.models",
    "BoostedAdaSSPClassifier": "linear.models",
    "BoostedAdaSSPRegressor": "linear.models",
    "Column": "facts",
    "Door": "door",
    "Labels": "tables",
    "PrivacyStatement": "statement",
    "PrivateBoostingClassifier": "boosting",
    "PrivateBoostingRegressor": "boosting",
    "PrivateClassifier": "front_door",
    "PrivateClassifierBase": "base",
    "PrivateEstimator": "base",
    "PrivateRegressor": "front_door",
    "PrivateRegressorBase": "base",
    "PrivateScore": "evaluation",
    "PrivateSearch": "search",
    "Progress": "door",
    "PublicFacts": "facts",
    "Receipt": "statement",
    "Schema": "schema",
    "Table": "tables",
    "learners": "storage",
    "load": "storage",
    "plan_boosting": "trees.plan",
    "plan_training": "planning",
    "private_score": "evaluation",
    "recipes": "trees.recipes",
}

__all__ = [
    "AdaSSPRegressor",
    "BoostedAdaSSPClassifier",
    "BoostedAdaSSPRegressor",
    "Column",
    "Door",
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
    "PublicFacts",
    "Receipt",
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
