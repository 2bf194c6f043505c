"""The three linear estimators. They differ in the loss, the number of rounds, and how a score is read."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.learners.data.partitions import by_parts
from ledgerwood.learners.data.schema import Schema
from ledgerwood.learners.data.table import Table
from ledgerwood.learners.linear.loss import loss_named
from ledgerwood.learners.linear.model import LinearModel, Shares
from ledgerwood.learners.training.codec import learner
from ledgerwood.learners.training.estimator import PrivateClassifierBase, PrivateRegressorBase, keep_parameters

__all__ = ["AdaSSPRegressor", "BoostedAdaSSPClassifier", "BoostedAdaSSPRegressor"]


class _Regressor(PrivateRegressorBase, LinearModel):
    """A linear model of a number between public bounds, learned on the scale -1 .. 1."""

    target_bounds_: tuple[float, float]

    def _values(self, table: Table) -> NDArray[np.float64]:
        low, high = self.target_bounds_
        scores = self.encoder_.scores(table, self.weights_)[:, 0]
        return np.clip(low + (high - low) * (scores + 1) / 2, low, high)


@learner
class AdaSSPRegressor(_Regressor):
    """Private ridge regression from noisy sufficient statistics: X'X and X'y, each released once.

    Parameters
    ----------
    epsilon, delta
        The guarantee; ``delta=None`` is 1e-6, or a tenth of 1/n if that is less.
    ridge : float
        The ridge, in units of the size of the noise on X'X.
    shares : (a, b, c) or "auto"
        Ratio of the Gaussian DP parameters of X'X, X'y and, for ``accounting="paper"``, the smallest eigenvalue.
    bins : int, optional
        Replace each number by indicators of this many bins, with edges from its bounds.
    row_norm : float, optional
        A public bound on the norm of an encoded row without its intercept; longer rows are scaled down to it.
    fit_intercept : bool
        Whether to learn a constant.
    accounting : "tight" or "paper"
        ``"paper"``: AdaSSP as published, with its own ridge and the equal split. With c = 0 the smallest eigenvalue
        is read off the noisy X'X instead of being released.
    engine
        For tables in parts, as in :class:`~ledgerwood.learners.PrivateBoostingClassifier`.
    schema, random_state, verbose, callbacks, allow_leak
        As for every private estimator.

    Examples
    --------
    >>> import numpy as np
    >>> from ledgerwood.learners import Schema
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, (5000, 2)); y = X[:, 0] - 0.5 * X[:, 1]
    >>> schema = Schema(bounds={0: (0, 10), 1: (0, 10)}, target_bounds=(-5, 10))
    >>> model = AdaSSPRegressor(epsilon=5.0, delta=1e-6, schema=schema, random_state=0).fit(X, y)
    >>> model.coef_.round(1).tolist(), model.score(X, y) > 0.9
    ([1.0, -0.5], True)
    """

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float | None = None,
        ridge: float = 1.0,
        shares: Shares = "auto",
        bins: int | None = None,
        row_norm: float | None = None,
        fit_intercept: bool = True,
        accounting: str = "tight",
        schema: Schema | str | None = None,
        engine: Any = None,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
        allow_leak: bool = False,
    ) -> None:
        keep_parameters(self, locals())


class _Boosted(LinearModel):
    """The parameters of a boosted linear model."""

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float | None = None,
        loss: str = "auto",
        n_rounds: int | str = "auto",
        step_size: float | str = "auto",
        gradient_clip: float | str = "auto",
        clip_decay: float = 1.0,
        ridge: float = 1.0,
        shares: Shares = "auto",
        bins: int | None = None,
        row_norm: float | None = None,
        fit_intercept: bool = True,
        accounting: str = "tight",
        schema: Schema | str | None = None,
        engine: Any = None,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
        allow_leak: bool = False,
    ) -> None:
        keep_parameters(self, locals())


@learner
class BoostedAdaSSPRegressor(_Boosted, _Regressor):
    """Private linear regression by boosting: X'X once, then residuals times rows in every round.

    A round corrects what the noise on X'X made of the last one: use it where that noise matters.

    Parameters
    ----------
    loss : "auto" or "squared"
        Residuals: the squared loss.
    n_rounds : int or "auto"
        How often the residuals are released.
    step_size : float or "auto"
        Factor on every step (Rho et al. 2022, section 4); "auto" is 1.
    gradient_clip : float or "auto"
        Residuals are clipped to ``gradient_clip * clip_decay**t`` in round t, in units of half the target's range.
    clip_decay : float
        How the clip shrinks from round to round.
    epsilon, delta, ridge, shares, bins, row_norm, fit_intercept, accounting, engine, schema, random_state, verbose
        As in :class:`AdaSSPRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from ledgerwood.learners import Schema
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, (5000, 2)); y = X[:, 0] - 0.5 * X[:, 1]
    >>> schema = Schema(bounds={0: (0, 10), 1: (0, 10)}, target_bounds=(-5, 10))
    >>> model = BoostedAdaSSPRegressor(epsilon=5.0, delta=1e-6, schema=schema, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    """


@learner
class BoostedAdaSSPClassifier(_Boosted, PrivateClassifierBase):
    """Private linear classification by boosting (Rho et al. 2022): X'X once, then gradients times rows in every round.

    Parameters
    ----------
    loss : "auto", "logistic", "squared" or "hinge"
        One score for two classes; one against the rest for more. "auto" is logistic.
    n_rounds : int or "auto"
        How often gradients are released. One logistic round is logistic regression by its quadratic approximation at
        zero: private sufficient statistics.
    step_size : float or "auto"
        Factor on every step. "auto" is one over the bound on the loss's hessian (4 for the logistic loss), the
        longest step that never overshoots without noise; 1 for ``accounting="paper"``.
    gradient_clip : float or "auto"
        A record's gradients are scaled to norm at most ``gradient_clip * clip_decay**t`` in round t. "auto" is 1/2 for
        the logistic loss and two classes, which is where every gradient starts, and 1 otherwise.
    clip_decay : float
        How the clip shrinks from round to round (Rho et al. 2022, section 4).
    epsilon, delta, ridge, shares, bins, row_norm, fit_intercept, accounting, engine, schema, random_state, verbose
        As in :class:`AdaSSPRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from ledgerwood.learners import Schema
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (4000, 2)); y = X[:, 0] > X[:, 1]
    >>> schema = Schema(bounds={0: (-1, 1), 1: (-1, 1)}, classes=[False, True])
    >>> model = BoostedAdaSSPClassifier(epsilon=1.0, delta=1e-6, schema=schema, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    """

    @by_parts
    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the scores: above 0 means the second of two classes; one column for each of more."""
        table = self._table(X)
        scores = self.encoder_.scores(table, self.weights_)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def _probabilities(self, table: Table) -> NDArray[np.float64]:
        return loss_named(self._loss_name).probabilities(self.encoder_.scores(table, self.weights_))
