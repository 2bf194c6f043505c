"""The three estimators over one base: what they differ in is a loss, a number of rounds, and how a score is read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.errors import ParameterError
from ledgerwood.learners.base import PrivateClassifierBase, PrivateEstimator, PrivateRegressorBase
from ledgerwood.learners.linear import export
from ledgerwood.learners.linear.boost import GRADIENTS, Settings, boost, plan_linear
from ledgerwood.learners.linear.defaults import automatic_clip, automatic_rounds, automatic_shares
from ledgerwood.learners.linear.encoding import Encoder
from ledgerwood.learners.linear.losses import loss_named
from ledgerwood.learners.linear.rows import GRADIENT_ONE, Ints
from ledgerwood.learners.linear.sensitivities import RowBound

if TYPE_CHECKING:
    from ledgerwood.accounting import Plan
    from ledgerwood.learners.door import Door
    from ledgerwood.learners.facts import PublicFacts
    from ledgerwood.learners.schema import Schema
    from ledgerwood.learners.tables import Labels, Table

__all__ = ["AdaSSPRegressor", "BoostedAdaSSPClassifier", "BoostedAdaSSPRegressor"]

Shares = tuple[float, float, float] | str


class _LinearModel(PrivateEstimator):
    """Plan, training and export of a private linear model; parameters that a subclass leaves out have these values."""

    loss: str = "squared"
    n_rounds: int | str = 1
    step_size: float | str = "auto"
    gradient_clip: float | str = "auto"
    clip_decay: float = 1.0
    ridge: float = 1.0
    shares: Shares = "auto"
    bins: int | None = None
    row_norm: float | None = None
    fit_intercept: bool = True
    accounting: str = "tight"

    weights_: NDArray[np.float64]
    encoder_: Encoder

    # ---- what PrivateEstimator asks

    def _plan(self, facts: PublicFacts) -> Plan:
        rounds = self.n_rounds
        if rounds == "auto":
            rounds = automatic_rounds(facts)
        return plan_linear(self._settings(_whole("n_rounds", rounds), facts.n_outputs), facts.neighbours)

    def _train(self, table: Table, labels: Labels, plan: Plan, door: Door) -> Mapping[str, Any]:
        encoder = Encoder(table.columns, self.bins, self.fit_intercept, self.row_norm)
        targets, coded = self._targets(labels)
        rows = encoder.encode(table, targets, coded=coded)
        bound = RowBound(encoder.square_bound, str(plan.neighbours))
        known = {"encoder_": encoder, **self._scale(labels)}

        def fitted(weights: NDArray[np.float64]) -> dict[str, Any]:
            return {"weights_": weights, **known}

        outputs = self._outputs(labels)
        weights = boost(
            rows, bound, self._settings(plan[GRADIENTS].times, outputs), plan, door, outputs,
            after_round=lambda so_far: door.keep(fitted(so_far)),
        )  # fmt: skip
        return fitted(weights)

    # ---- what the three differ in

    def _targets(self, labels: Labels) -> tuple[Ints, bool]:
        raise NotImplementedError

    def _outputs(self, labels: Labels) -> int:
        return 1

    def _scale(self, labels: Labels) -> dict[str, Any]:
        return {}

    # ---- reading the fitted model

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Coefficients of the columns of :meth:`design`, per unit of a number and per indicator; one row per output."""
        return export.coefficients(self)[0]

    @property
    def intercept_(self) -> Any:
        """Intercepts that belong to ``coef_``."""
        return export.coefficients(self)[1]

    def design(self, X: Any) -> NDArray[np.float64]:
        """Return the matrix that ``coef_`` multiplies: clipped numbers, indicators of categories or bins."""
        table = self._table(X)
        return self.encoder_.design(table)

    def to_json(self) -> str:
        """Return the model as plain JSON: released numbers and public facts; see :func:`to_sklearn`."""
        return export.to_json(self)

    # ---- parameters

    def _settings(self, rounds: int, outputs: int) -> Settings:
        loss = loss_named(self.loss)
        if self.accounting not in ("tight", "paper"):
            raise ParameterError("accounting", "be 'tight' or 'paper'", self.accounting)
        paper = self.accounting == "paper"
        step = self.step_size
        if step == "auto":
            step = 1.0 if paper else 1 / loss.curvature
        clip = self.gradient_clip
        if clip == "auto":
            coded = self._task == "classification"
            clip = (
                math.sqrt(outputs) if paper else automatic_clip(loss.name, coded=coded, rounds=rounds, outputs=outputs)
            )
        bins = self.bins
        if bins is not None and not 2 <= _whole("bins", bins) <= 128:
            raise ParameterError("bins", "lie in 2 .. 128, or be None", bins)
        if self.row_norm is not None:
            _positive("row_norm", self.row_norm)
        return Settings(
            loss, rounds, self._resolved_shares(paper, rounds), _positive("step_size", step),
            _positive("gradient_clip", clip, 16.0), _positive("clip_decay", self.clip_decay, 1.0),
            _positive("ridge", self.ridge), paper,
        )  # fmt: skip

    def _resolved_shares(self, paper: bool, rounds: int) -> tuple[float, float, float]:
        if isinstance(self.shares, str):
            if self.shares != "auto":
                raise ParameterError("shares", "be three numbers a : b : c, or 'auto'", self.shares)
            return (1.0, 1.0, 1.0) if paper else automatic_shares(rounds)
        try:
            a, b, c = (float(share) for share in self.shares)
        except (TypeError, ValueError):
            raise ParameterError("shares", "be three numbers a : b : c, or 'auto'", self.shares) from None
        if not (0 < a < math.inf and 0 < b < math.inf and 0 <= c < math.inf) or (c > 0 and not paper):
            raise ParameterError(
                "shares", "be positive, the last one 0 unless accounting='paper'", self.shares,
                "Only the paper's ridge uses the smallest eigenvalue",
            )  # fmt: skip
        return a, b, c


class _LinearRegressor(PrivateRegressorBase, _LinearModel):
    """A linear model of a number between public bounds, learned on the scale -1 .. 1."""

    target_bounds_: tuple[float, float]

    def _targets(self, labels: Labels) -> tuple[Ints, bool]:
        low, high = self._scale(labels)["target_bounds_"]
        unit = np.clip((labels.values - low) / (high - low) * 2 - 1, -1.0, 1.0)
        return np.rint(unit * GRADIENT_ONE).astype(np.int64), False

    def _scale(self, labels: Labels) -> dict[str, Any]:
        assert labels.bounds is not None
        return {"target_bounds_": labels.bounds}

    def _values(self, table: Table) -> NDArray[np.float64]:
        low, high = self.target_bounds_
        scores = self.encoder_.scores(table, self.weights_)[:, 0]
        return np.clip(low + (high - low) * (scores + 1) / 2, low, high)


class AdaSSPRegressor(_LinearRegressor):
    """Private ridge regression from noisy sufficient statistics: X'X and X'y, each released once.

    Parameters
    ----------
    epsilon, delta
        The guarantee; ``delta=None`` is about 1/n.
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
        ``"paper"``: AdaSSP as published, with its own ridge and the equal split.
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
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
        allow_leak: bool = False,
    ) -> None:
        _keep(self, locals())


class BoostedAdaSSPRegressor(_LinearRegressor):
    """Private linear regression by boosting: X'X once, then residuals times rows in every round.

    A round corrects what the noise on X'X made of the last one: use it where that noise matters.

    Parameters
    ----------
    n_rounds : int or "auto"
        How often the residuals are released.
    step_size : float or "auto"
        Factor on every step (P4, section 4); "auto" is 1.
    gradient_clip : float or "auto"
        Residuals are clipped to ``gradient_clip * clip_decay**t`` in round t, in units of half the target's range.
    clip_decay : float
        How the clip shrinks from round to round.
    epsilon, delta, ridge, shares, bins, row_norm, fit_intercept, accounting, schema, random_state, verbose, callbacks
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

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float | None = None,
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
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
        allow_leak: bool = False,
    ) -> None:
        _keep(self, locals())


class BoostedAdaSSPClassifier(PrivateClassifierBase, _LinearModel):
    """Private linear classification by boosting (P4): X'X once, then gradients times rows in every round.

    Parameters
    ----------
    loss : "logistic", "squared" or "hinge"
        One score for two classes; one against the rest for more.
    n_rounds : int or "auto"
        How often gradients are released. One logistic round is logistic regression by its quadratic approximation at
        zero: private sufficient statistics.
    step_size : float or "auto"
        Factor on every step. "auto" is one over the bound on the loss's curvature (4 for the logistic loss), the
        longest step that never overshoots without noise; 1 for ``accounting="paper"``.
    gradient_clip : float or "auto"
        A record's gradients are scaled to norm at most ``gradient_clip * clip_decay**t`` in round t. "auto" is 1/2 for
        the logistic loss and two classes, which is where every gradient starts, and 1 otherwise.
    clip_decay : float
        How the clip shrinks from round to round (P4, section 4).
    epsilon, delta, ridge, shares, bins, row_norm, fit_intercept, accounting, schema, random_state, verbose, callbacks
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

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float | None = None,
        loss: str = "logistic",
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
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
        allow_leak: bool = False,
    ) -> None:
        _keep(self, locals())

    def _targets(self, labels: Labels) -> tuple[Ints, bool]:
        return labels.values.astype(np.int64), True

    def _outputs(self, labels: Labels) -> int:
        classes = len(labels.classes or ())
        return classes if classes > 2 else 1

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the scores: above 0 means the second of two classes; one column for each of more."""
        table = self._table(X)
        scores = self.encoder_.scores(table, self.weights_)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def _probabilities(self, table: Table) -> NDArray[np.float64]:
        scores = self.encoder_.scores(table, self.weights_)
        # A squared or hinge score aims at -1 and 1: read as a probability it is ordered, not calibrated.
        if self.loss == "logistic":
            each = 1 / (1 + np.exp(-np.clip(scores, -700, 700)))
        else:
            each = np.clip((scores + 1) / 2, 0.0, 1.0)
        if each.shape[1] == 1:
            return np.hstack([1 - each, each])
        total = each.sum(axis=1, keepdims=True)
        return np.where(total > 0, each / np.where(total > 0, total, 1.0), 1 / each.shape[1])


def _keep(model: _LinearModel, given: dict[str, Any]) -> None:
    """Store the arguments of a constructor untouched, as scikit-learn wants them."""
    for name, value in given.items():
        if name != "self":
            setattr(model, name, value)


def _whole(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ParameterError(name, "be a whole number of at least 1", value)
    return int(value)


def _positive(name: str, value: Any, most: float = math.inf) -> float:
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not 0 < value <= most or value == math.inf:
        limit = "" if most == math.inf else f" of at most {most:g}"
        raise ParameterError(name, f"be a positive finite number{limit}", value)
    return float(value)
