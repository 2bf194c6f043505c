r"""The auto estimators: one private classifier and one private regressor that need no tuning.

They hold a learner chosen from public metadata: boosted random grids (``recipe="auto"``); where the budget is too small
for trees a boosted linear model on indicators of public bins; for regression a linear model and then trees. The plan,
the ledger and the statement are those of the learner inside.

**Probabilities.** With clipped gradients the loss that is minimized is no longer the logistic one, and the sigmoid of
its score is not the probability of the class. But the score where the expected clipped gradient is zero still
determines that probability: with :math:`u = \sigma(F)` and :math:`s(u)` the factor that shortens a record's pair
:math:`(u, \kappa u (1 - u))`,

.. math:: (1 - q)\, u\, s(u) = q\, (1 - u)\, s(1 - u)

gives :math:`q`. It is increasing in F and agrees with the sigmoid at 1/2, so it changes no ranking and no decision; it
is post-processing and costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ledgerwood.accounting import Plan
from ledgerwood.learners.auto.linear_start import LinearStart
from ledgerwood.learners.auto.planner import plan_of_choice
from ledgerwood.learners.auto.rule import choice_of_learner
from ledgerwood.learners.data.labels import Labels
from ledgerwood.learners.data.table import Table
from ledgerwood.learners.linear.encoding import RowEncoder
from ledgerwood.learners.linear.estimators import BoostedAdaSSPClassifier, BoostedAdaSSPRegressor
from ledgerwood.learners.linear.integer_rows import MAX_ROWS
from ledgerwood.learners.training.codec import learner, require
from ledgerwood.learners.training.estimator import PrivateClassifierBase, PrivateEstimator, PrivateRegressorBase
from ledgerwood.learners.training.public_metadata import PublicMetadata
from ledgerwood.learners.training.session import ReleaseSession
from ledgerwood.learners.trees.estimators import PrivateBoostingClassifier, PrivateBoostingRegressor, TreeModelMixin
from ledgerwood.learners.trees.forest import Forest
from ledgerwood.learners.trees.recipes import AutoChoice

__all__ = ["PrivateClassifier", "PrivateRegressor", "probability"]


class _AutoEstimator(TreeModelMixin, PrivateEstimator):
    """Plan and train by the chosen learner; keep what it made."""

    _most_rows = MAX_ROWS
    choice_: AutoChoice
    _linear: ClassVar[Any]
    _trees: ClassVar[Any]

    def _check_stored(self) -> None:
        super()._check_stored()
        fitted = vars(self)
        if (choice := fitted.get("choice_")) is not None:
            require(isinstance(choice, AutoChoice), "choice_ is not a choice")
            require(choice.settings is not None or choice.linear is not None, "nothing was chosen")
            require(choice.linear is None or "encoder_" in fitted, "encoder_ is missing")
        if "settings_" in fitted and (choice is None or choice.linear is None):
            require(isinstance(fitted.get("forest_"), Forest), "forest_ is missing")
        require("weights_" not in fitted or isinstance(fitted.get("encoder_"), RowEncoder), "encoder_ is missing")

    def explain_choice(self, X: Any = None, y: Any = None) -> AutoChoice:
        """Return what was chosen and why: of the fitted model, or for the public metadata of ``X`` and ``y``.

        It prints as a text. Nothing is spent: the rule sees how many rows and features there are, the task, the budget.
        """
        if X is None:
            check_is_fitted(self, "choice_")
            return self.choice_
        return choice_of_learner(self.public_metadata(X, y))

    def _learner(self, choice: AutoChoice) -> Any:
        common: dict[str, Any] = {"epsilon": self.epsilon, "delta": self.delta, "schema": self.schema}
        linear = None if choice.linear is None else self._linear(**common, **dict(choice.linear))
        if choice.settings is None:
            return linear
        trees = self._trees(recipe="auto", n_threads=self.n_threads, **common)
        if linear is None:
            return trees
        own = choice.settings
        trees.set_params(gradient_clip=own.gradient_clip, ridge=own.ridge, max_depth=own.max_depth)
        return LinearStart(linear, trees, choice.linear_share)

    def _plan(self, metadata: PublicMetadata) -> Plan:
        return plan_of_choice(choice_of_learner(metadata), metadata)

    def _train(self, table: Table, labels: Labels, plan: Plan, session: ReleaseSession) -> Mapping[str, Any]:
        assert session.metadata is not None
        choice = choice_of_learner(session.metadata)
        session.always["choice_"] = choice
        return {**self._learner(choice)._train(table, labels, plan, session), "choice_": choice}

    def fitted_learner(self) -> Any:
        """Return the learner inside with what it learned: for exports, explanations and all else that it can do."""
        check_is_fitted(self, "receipt_")
        learner = self._learner(self.choice_)
        for part in learner.parts if isinstance(learner, LinearStart) else (learner,):
            for name, value in vars(self).items():
                if name.endswith("_") and not name.startswith("_"):
                    setattr(part, name, value)
        return learner


@learner
class PrivateClassifier(_AutoEstimator, PrivateClassifierBase):
    """Differentially private classification without tuning: the model is chosen from public metadata.

    Parameters
    ----------
    epsilon, delta
        The budget; ``delta=None`` is 1e-6, or a tenth of 1/n if that is less.
    schema
        Public metadata: bounds, categories, classes, the neighbouring relation, the privacy unit. What is not declared
        is learned privately and charged to the budget.
    n_threads
        Threads for the sums; all processors by default.
    random_state
        For tests only: a seeded fit is reproducible and not private.
    verbose, callbacks, allow_leak
        As in every private estimator.

    Notes
    -----
    Gradients are clipped, so the sigmoid of ``decision_function`` is not a probability; ``predict_proba`` applies the
    link of the clipped loss (:mod:`ledgerwood.learners.auto.estimators`).

    Examples
    --------
    >>> import numpy as np
    >>> from ledgerwood.learners import PrivateClassifier, Schema
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(3000, 2))
    >>> y = (X[:, 0] > X[:, 1]).astype(int)
    >>> schema = Schema(bounds={0: (0, 1), 1: (0, 1)}, classes=[0, 1], rows=3000)
    >>> model = PrivateClassifier(epsilon=2.0, delta=1e-5, schema=schema).fit(X, y)
    >>> bool(model.score(X, y) > 0.8)
    True
    >>> print(model.explain_choice())
    boosted random grids, chosen from public metadata: rows = 3000, features = 2, ...
    """

    _linear = BoostedAdaSSPClassifier
    _trees = PrivateBoostingClassifier

    def _probabilities(self, table: Table) -> NDArray[np.float64]:
        found = np.asarray(self.fitted_learner()._probabilities(table))
        link = self.probability_link()
        if link is None:
            return found
        one = probability(found[:, 1], *link)
        return np.stack([1 - one, one], axis=1)

    def probability_link(self) -> tuple[float, float] | None:
        """Return what leads from the sigmoid of a score to its probability.

        The ``clip`` and ``kappa`` of :func:`probability`, or None where the sigmoid is
        the probability.
        """
        check_is_fitted(self, "receipt_")
        clip = dict(self.choice_.options).get("gradient_clip")
        if clip is None or len(self.classes_) != 2:
            return None
        trees = self.choice_.settings
        return float(clip), 0.0 if trees is None else float(trees.make_loss().kappa)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return raw scores: one for two classes, else one for each class."""
        check_is_fitted(self, "receipt_")
        return np.asarray(self.fitted_learner().decision_function(X))


@learner
class PrivateRegressor(_AutoEstimator, PrivateRegressorBase):
    """Differentially private regression without tuning, of a number with public bounds.

    Parameters are those of :class:`PrivateClassifier`. Declare ``Schema(target_bounds=(low, high))``, or let the bounds
    be learned privately, charged to the budget.

    Examples
    --------
    >>> import numpy as np
    >>> from ledgerwood.learners import PrivateRegressor, Schema
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(4000, 2))
    >>> schema = Schema(bounds={0: (0, 1), 1: (0, 1)}, target_bounds=(0, 2))
    >>> model = PrivateRegressor(epsilon=4.0, delta=1e-5, schema=schema).fit(X, X.sum(axis=1))
    >>> bool(model.score(X, X.sum(axis=1)) > 0.6)
    True
    """

    _linear = BoostedAdaSSPRegressor
    _trees = PrivateBoostingRegressor

    def _values(self, table: Table) -> NDArray[np.float64]:
        return np.asarray(self.fitted_learner()._values(table))


def probability(sigmoid: NDArray[np.float64], clip: float, kappa: float) -> NDArray[np.float64]:
    """Return the probability that belongs to the sigmoid of a score.

    Parameters
    ----------
    sigmoid
        The sigmoid of the score.
    clip
        What the norm of a record's pair was shortened to.
    kappa
        The factor of the hessian in the pair; 0 if the gradient alone was clipped.

    Examples
    --------
    >>> probability(np.array([0.1, 0.5, 0.9]), clip=0.5, kappa=0.0).round(3).tolist()
    [0.167, 0.5, 0.833]
    >>> probability(np.array([0.1]), clip=10.0, kappa=3.33).tolist()
    [0.1]
    """
    zero, one = _size(sigmoid, clip, kappa), _size(1 - sigmoid, clip, kappa)
    return np.asarray(zero / (zero + one))


def _size(u: NDArray[np.float64], clip: float, kappa: float) -> NDArray[np.float64]:
    """Size of the clipped gradient of a record that is wrong by ``u``."""
    u = np.clip(u, 1e-12, 1.0)
    return u * np.minimum(1.0, clip / np.hypot(u, kappa * u * (1 - u)))
