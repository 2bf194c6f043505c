"""Private models: plan from public metadata, release through a ledger, post-process.

Names are imported at first use, so that importing this package stays light.
"""

from typing import TYPE_CHECKING

from ledgerwood._imports import at_first_use

if TYPE_CHECKING:
    from ledgerwood.learners.auto.estimators import PrivateClassifier as PrivateClassifier
    from ledgerwood.learners.auto.estimators import PrivateRegressor as PrivateRegressor
    from ledgerwood.learners.auto.planner import plan_training as plan_training
    from ledgerwood.learners.data.columns import Column as Column
    from ledgerwood.learners.data.labels import Labels as Labels
    from ledgerwood.learners.data.schema import Schema as Schema
    from ledgerwood.learners.data.table import Table as Table
    from ledgerwood.learners.evaluation import PrivateScore as PrivateScore
    from ledgerwood.learners.evaluation import private_score as private_score
    from ledgerwood.learners.linear.estimators import AdaSSPRegressor as AdaSSPRegressor
    from ledgerwood.learners.linear.estimators import BoostedAdaSSPClassifier as BoostedAdaSSPClassifier
    from ledgerwood.learners.linear.estimators import BoostedAdaSSPRegressor as BoostedAdaSSPRegressor
    from ledgerwood.learners.search import PrivateSearch as PrivateSearch
    from ledgerwood.learners.storage import learners as learners
    from ledgerwood.learners.storage import load as load
    from ledgerwood.learners.training.estimator import PrivateClassifierBase as PrivateClassifierBase
    from ledgerwood.learners.training.estimator import PrivateEstimator as PrivateEstimator
    from ledgerwood.learners.training.estimator import PrivateRegressorBase as PrivateRegressorBase
    from ledgerwood.learners.training.public_metadata import PublicMetadata as PublicMetadata
    from ledgerwood.learners.training.session import Progress as Progress
    from ledgerwood.learners.training.session import ReleaseSession as ReleaseSession
    from ledgerwood.learners.training.statement import PrivacyStatement as PrivacyStatement
    from ledgerwood.learners.training.statement import Receipt as Receipt
    from ledgerwood.learners.trees.estimators import PrivateBoostingClassifier as PrivateBoostingClassifier
    from ledgerwood.learners.trees.estimators import PrivateBoostingRegressor as PrivateBoostingRegressor
    from ledgerwood.learners.trees.plan import plan_boosting as plan_boosting
    from ledgerwood.learners.trees.recipes import recipes as recipes

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

__all__ = sorted(_HOME)

__getattr__ = at_first_use(__name__, _HOME)
