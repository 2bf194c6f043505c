r"""Private choice of hyper-parameters: the best of a random number of private runs (Papernot and Steinke 2022).

Let Q be one run: draw a candidate at random, train it privately on a part of the rows, score it privately on the
others, return (model, score). Draw K from the geometric distribution
:math:`\Pr[K=k]=\gamma(1-\gamma)^{k-1}`, run Q that often, keep only the best. The whole costs
:class:`~ledgerwood.accounting.Selected` of the run's cost, with mean 1/γ. This price holds for the best run alone: K,
the other models and their scores are never kept.

**A run costs the worse of its training and its scoring.** A coin for each record (for each unit if there is one) says
whether it trains or scores; coins ignore the data, are independent and all alike. Let D' be D with a unit more. Fix all
coins: the unit trains or scores, so the tables of that part are neighbours and those of the other part are equal; the
output of the run is then as close as the training is, or the scoring. Let D' be D with a unit u replaced by v. Coins
are alike, so a run on D' is the same run if v gets the coin that u had; then again the tables of one part are
neighbours, with u replaced by v, and those of the other are equal. The run is a mixture over coins and settings, and
the δ(ε) of mixtures is at most the worst of their components. ∎

**No part is too small.** A part may hold few units, no unit or not all classes; if such a part failed, a failure would
reveal the number of units. So the whole table is read for its public metadata, every learner trains on any of its rows,
none included, and a score of no rows is noise around zero counts.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ledgerwood import _checks
from ledgerwood._rounding import format_up
from ledgerwood.accounting import Cost, Ledger, Plan, PureDP, Release, Selected
from ledgerwood.accounting.costs import serialization
from ledgerwood.accounting.costs.parallel import worst
from ledgerwood.errors import ParameterError
from ledgerwood.learners.data.frames import unit_column
from ledgerwood.learners.data.labels import trainable
from ledgerwood.learners.data.privacy_unit import identities, keep_rows
from ledgerwood.learners.data.schema import Schema
from ledgerwood.learners.evaluation import ROUNDING, Metric, checked_metric, score_of_rows
from ledgerwood.learners.training import sklearn_guard
from ledgerwood.learners.training.estimator import PrivateEstimator, source_for
from ledgerwood.learners.training.public_metadata import ROW_COUNT, TUNING, RowCount, checked_budget, left_after
from ledgerwood.learners.training.statement import (
    Line,
    PrivacyStatement,
    Receipt,
    released_rows,
    search_plan,
    warn_if_weak,
)
from ledgerwood.mechanisms.randomness import RandomSource, SystemSource
from ledgerwood.mechanisms.sampling.exact import Reader

_FEWEST_ROWS = 100
"""Fewer, by the public number of rows, are not worth dividing into training and scoring rows."""
_SCORE_SLICE = 0.15
"""The score of a run gets this part of the run's epsilon; training and scoring rows are disjoint."""


@dataclass(frozen=True)
class _Best:
    """The search as one mechanism: what a ledger is charged for is the best run alone."""

    cost: Cost
    run: Any
    sensitivity: None = None

    def check(self, value: Any) -> None:
        """Every table was checked before the search began."""

    def release(self, value: Any, rng: RandomSource | None = None) -> Any:
        return self.run(value, rng)


def _has(name: str) -> Any:
    return available_if(lambda self: hasattr(getattr(self, "best_estimator_", self.estimator), name))


class PrivateSearch(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Choose hyper-parameters privately; the statement is about the whole search.

    Parameters
    ----------
    estimator
        A private estimator with a schema that declares every category. Its own epsilon is ignored, and so are its
        ``verbose`` and ``callbacks``: they would reveal the number of runs.
    candidates
        A list of parameter settings, or a grid (mapping to lists).
    epsilon, delta
        The guarantee of the whole search.
    runs
        The mean number of runs, at least 2; the number itself is random and secret.
    metric
        As in :func:`~ledgerwood.learners.private_score`.
    random_state
        A seed: reproducible and not private.

    Attributes
    ----------
    best_estimator_, best_params_, best_score_
        The chosen model, its setting and its noisy score. Its statement and its plan are those of the search.

    >>> import numpy as np
    >>> from ledgerwood.learners import AdaSSPRegressor, PrivateSearch, Schema
    >>> x = np.linspace(0, 1, 500)[:, None]
    >>> learner = AdaSSPRegressor(schema=Schema(bounds={0: (0, 1)}, target_bounds=(0, 1)))
    >>> search = PrivateSearch(learner, {"fit_intercept": [True, False]}, epsilon=2.0, delta=1e-6, runs=2)
    >>> search.fit(x, x[:, 0]).best_params_["fit_intercept"] in (True, False)
    True
    """

    def __init__(
        self,
        estimator: Any,
        candidates: Any,
        *,
        epsilon: float = 1.0,
        delta: float | None = None,
        runs: int = 5,
        metric: Metric | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.candidates = candidates
        self.epsilon = epsilon
        self.delta = delta
        self.runs = runs
        self.metric = metric
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, ledger: Ledger | None = None) -> Self:
        """Search; ``ledger`` pays for the whole as one release."""
        if not isinstance(self.estimator, PrivateEstimator):
            raise ParameterError("estimator", "be a private estimator", type(self.estimator).__name__)
        _checks.integer("runs", self.runs, 2)
        if not isinstance(self.estimator.schema, Schema):
            raise ParameterError("schema", "be declared for a search", self.estimator.schema, "Give a Schema")
        for name in [name for name in vars(self) if name.endswith("_")]:  # an interrupted search leaves no model
            delattr(self, name)
        settings = _settings(self.candidates)
        target = trainable(y)
        if target is None:
            raise ValueError("a search requires y to be passed, but the target y is None")
        schema = self.estimator.schema
        count = RowCount.of(schema, len(target), _checks.positive("epsilon", self.epsilon))
        epsilon, delta = checked_budget(self.epsilon, self.delta, count.number)
        left, classifier = left_after(count, epsilon), is_classifier(self.estimator)
        rng, name = source_for(self.random_state), f"PrivateSearch of {type(self.estimator).__name__}"
        opening = None
        if count.number is None:
            opening = Release(ROW_COUNT, count.mechanism(schema.max_rows_per_unit, schema.neighbours).cost)
            # What would be refused whatever the count is, is refused before it is out.
            self._schema = _fixed(schema, count.released(TUNING.supposed), target, classifier)
            checked_metric(self.estimator, self.metric, self._schema.classes or ())
            self._calibrated(settings, left, delta, X, target)
            count = _released(count, opening, X, len(target), schema, rng, ledger, f"{name}: {ROW_COUNT}")
        self._schema = _fixed(schema, count, target, classifier)
        checked_metric(self.estimator, self.metric, self._schema.classes or ())
        if opening is None and count.known() < _FEWEST_ROWS:  # a released count is too noisy to refuse by
            raise ParameterError("X", f"have at least {_FEWEST_ROWS} rows for a search", count.number)
        warn_if_weak(epsilon, delta, count.known())
        each, cost = self._calibrated(settings, left, delta, X, target)

        def run(data: tuple[Any, Any], source: RandomSource | None) -> tuple[float, dict[str, Any], Any]:
            with sklearn_guard.private_search():
                return self._runs(settings, each, delta, data[0], data[1], source)

        mechanism = _Best(cost, run)
        plan = search_plan(cost, left, delta)
        if opening is not None:
            plan = plan.after(opening, epsilon)
        if ledger is None:
            sklearn_guard.warn_if_untracked(type(self).__name__, plan)
        own = Ledger(plan=plan)
        journal = own if ledger is None else ledger
        label = "search" if ledger is None else name
        score, setting, best = journal.release(mechanism, (X, target), label=label, rng=rng)
        private = rng is None or rng.private
        lines = [] if opening is None else [Line(opening.label, serialization.to_dict(opening.priced()), private)]
        lines.append(Line("search", serialization.to_dict(cost), private))
        best.statement_ = self._statement(best, count, epsilon, delta, Receipt(tuple(lines)), ledger)
        best.plan_, best.receipt_ = plan, best.statement_.receipt
        self.best_estimator_, self.best_params_, self.best_score_ = best, setting, score
        if hasattr(best, "classes_"):
            self.classes_ = best.classes_
        self.n_features_in_ = best.n_features_in_
        return self

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        for name in ("estimator_type", "classifier_tags", "regressor_tags", "input_tags", "target_tags"):
            setattr(tags, name, getattr(inner, name))
        tags.non_deterministic = True
        return tags

    def privacy_statement(self) -> PrivacyStatement:
        """Return the guarantee of the whole search."""
        check_is_fitted(self, "best_estimator_")
        found: PrivacyStatement = self.best_estimator_.statement_
        return found

    def predict(self, X: Any) -> Any:
        """Predict with the chosen model."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.predict(X)

    @_has("predict_proba")  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Predict with the chosen model."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.predict_proba(X)

    # ---- inside

    def _made(self, setting: Mapping[str, Any], epsilon: float, delta: float) -> Any:
        model = clone(self.estimator).set_params(**setting)
        # The price holds while the number of runs is secret, so no run may show that it happens.
        quiet = {name: value for name, value in (("verbose", 0), ("callbacks", None)) if name in model.get_params()}
        return model.set_params(epsilon=epsilon, delta=delta, schema=self._schema, **quiet)

    def _calibrated(
        self, settings: Sequence[Mapping[str, Any]], epsilon: float, delta: float, X: Any, y: Any
    ) -> tuple[float, Cost]:
        """Return the epsilon of a run for which the search meets the target, and the search's cost there."""

        def cost(each: float) -> Cost:
            models = [self._made(setting, each, delta) for setting in settings]
            score = PureDP(ROUNDING * _SCORE_SLICE * each, neighbours=models[0].schema.neighbours)
            self._priced = [model.plan(X, y).cost for model in models]
            run = worst([*self._priced, score])
            if run.infinite_mass() > 0:
                rule = "declare all categories for a search: learning them spends delta in every run"
                raise ParameterError("schema", rule, "undeclared")
            return Selected(run, mean=self.runs)

        good, bad, each = 0.0, epsilon, epsilon / 3
        for _ in range(12):
            price = cost(each).epsilon(delta)
            if price <= epsilon:
                good = each
            else:
                bad = each
            if good and (bad / good < 1.02 or epsilon / 1.02 < price <= epsilon):
                break
            each *= 0.995 * epsilon / price  # prices rise about in proportion
            if not good < each < bad:
                each = (good + bad) / 2 if good else bad / 3
        if not good:
            raise ParameterError("epsilon", f"be larger for a search of {self.runs} runs on average", epsilon)
        return good, cost(good)

    def _runs(
        self, settings: Sequence[Mapping[str, Any]], each: float, delta: float, X: Any, y: Any, source: Any
    ) -> tuple[float, dict[str, Any], Any]:
        drawn = SystemSource() if source is None else source
        coins = Reader(drawn)  # exact, as the distribution of K must be; all choices here ignore the data
        best: tuple[float, dict[str, Any], Any] | None = None
        while True:
            setting = dict(settings[coins.below(len(settings))])
            seed = None if self.random_state is None else coins.below(2**31)
            model = self._made(setting, each, delta).set_params(random_state=seed)
            train = _part(X, model.schema, drawn.words(4).tobytes(), len(y))
            model._fit(X, y, rows=train)
            if model.plan_.cost not in self._priced:  # a learner whose plan looks at more than public metadata
                raise ParameterError("estimator", "plan from public metadata alone", type(model).__name__)
            found = score_of_rows(
                model, X, y, ~train, metric=self.metric, epsilon=_SCORE_SLICE * each, random_state=seed
            )
            score = -found.value if found.metric == "mae" else found.value
            if best is None or score > best[0]:
                best = score, setting, model
            if coins.below(self.runs) == 0:  # K is geometric with mean ``runs``
                return best

    def _statement(
        self, best: Any, count: RowCount, epsilon: float, delta: float, receipt: Receipt, ledger: Ledger | None
    ) -> PrivacyStatement:
        inner: PrivacyStatement = best.statement_
        text = (
            f"It is the best of a random, secret number of private runs ({self.runs} on average) over "
            f"{len(_settings(self.candidates))} settings; one run alone is epsilon={format_up(inner.epsilon)}, and the "
            f"statement is about the whole search, its choice and its score (Papernot and Steinke 2022; Koskela, "
            f"Redberg and Wang 2024)."
        )
        first, told = "", dict[str, Any]()
        if count.source == "released":  # to the runs it is declared
            learned, paragraph = released_rows(count)
            first = ", added to that of the row count"
            told = {
                "public": tuple(item for item in inner.public if item.name != "rows"),
                "learned": (learned, *inner.learned),
                "conventions": (paragraph, *inner.conventions),
                "details": {**inner.details, "row_count": count.source},
            }
        return replace(
            inner,
            **told,
            epsilon=epsilon,
            delta=delta,
            accounting=f"the best of a geometric number of runs{first}",
            receipt=receipt,
            planned=len(receipt),
            search=text,
            charged_to=None if ledger is None else "the ledger given to fit",
            leaks=inner.leaks + sklearn_guard.leaks(),
            unseen=sklearn_guard.unseen_callers(),
        )


def _released(
    count: RowCount,
    opening: Release,
    X: Any,
    rows: int,
    schema: Schema,
    rng: RandomSource | None,
    ledger: Ledger | None,
    label: str,
) -> RowCount:
    """Release the number of rows, at most ``max_rows_per_unit`` of each unit, before anything is chosen by it."""
    if schema.unit is not None:
        key = secrets.token_bytes(32)  # which rows are kept depends on it, how many does not
        rows = len(keep_rows(unit_column(X, schema.unit), schema.max_rows_per_unit, key))
    if ledger is None:
        ledger = Ledger(plan=Plan([opening], neighbours=schema.neighbours).calibrate(count.epsilon, 0.0))
        label = ROW_COUNT
    mechanism = count.mechanism(schema.max_rows_per_unit, schema.neighbours)
    return count.released(int(ledger.release(mechanism, rows, label=label, rng=rng)))


def _fixed(schema: Schema, count: RowCount, y: Any, classifier: bool) -> Schema:
    """Return the schema with all that a plan depends on, so that it is the same for any part of the rows."""
    fixed: dict[str, Any] = {"rows": "public" if count.is_exact else count.number}
    sources = dict(schema.sources or {})
    if count.source == "replace_one":
        sources["rows"] = "the same for all neighbours"
    if count.source == "released":
        sources["rows"] = "released before the search"
    if classifier and schema.classes is None:
        fixed["classes"] = np.unique(y).tolist()
        sources["classes"] = "taken from y and ASSUMED PUBLIC"
    return replace(schema, **fixed, sources=sources)


def _settings(candidates: Any) -> list[dict[str, Any]]:
    if isinstance(candidates, Mapping):
        names = list(candidates)
        found = [dict(zip(names, values)) for values in product(*(candidates[name] for name in names))]
    else:
        found = [dict(setting) for setting in candidates]
    forbidden = {"epsilon", "delta", "schema", "random_state"} & {name for setting in found for name in setting}
    if not found or forbidden:
        raise ParameterError(
            "candidates", "be one or more settings without epsilon, delta, schema or random_state", sorted(forbidden)
        )
    return found


def _part(X: Any, schema: Schema, key: bytes, rows: int) -> NDArray[np.bool_]:
    """Which rows train: three quarters, by a coin for each unit that ignores the data."""
    if schema.unit is None:
        coins = np.random.default_rng(int.from_bytes(key, "little"))
        return np.asarray(coins.integers(4, size=rows) > 0)
    return np.asarray(identities(unit_column(X, schema.unit), key)[:, 0] % 4 > 0)
