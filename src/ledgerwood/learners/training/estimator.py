"""What every private estimator shares: metadata -> plan (pure) -> ledger -> session -> train -> receipt and statement.

A learner subclasses :class:`PrivateClassifierBase` or :class:`PrivateRegressorBase` and says two things: ``_plan``,
what it will release (from public metadata alone), and ``_train``, how it makes a model of what the session releases.
Everything around that is here: reading tables, learning undeclared metadata, the privacy unit, charging a ledger,
interruption, the receipt and the statement.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from ledgerwood.accounting import Ledger, PaidPlan, Plan
from ledgerwood.errors import FitStopped, ParameterError
from ledgerwood.learners.data.columns import Column, Task
from ledgerwood.learners.data.frames import raw_columns, without_unit
from ledgerwood.learners.data.labels import Labels, as_numbers, read_labels, read_target, trainable
from ledgerwood.learners.data.partitions import by_parts
from ledgerwood.learners.data.privacy_unit import identities, kept, record_numbers
from ledgerwood.learners.data.schema import Schema
from ledgerwood.learners.data.table import Columns, Table, read_as, read_columns
from ledgerwood.learners.training import discovery, sklearn_guard
from ledgerwood.learners.training.checkpoint import Checkpoint, digest_of, fingerprint, opened
from ledgerwood.learners.training.codec import save
from ledgerwood.learners.training.discovery import whole_plan
from ledgerwood.learners.training.model_checks import check_model
from ledgerwood.learners.training.public_metadata import MAX_ROWS, PublicMetadata, check_rows, checked_budget
from ledgerwood.learners.training.session import ReleaseSession, Stopped, with_progress_bar
from ledgerwood.learners.training.statement import PrivacyStatement, Receipt, statement_for, warn_if_weak
from ledgerwood.mechanisms.randomness import RandomSource, SeededSource

REFUSED = {
    "sample_weight": "weights would multiply a record's influence. Repeat rows under a unit with max_rows_per_unit",
    "class_weight": "weights would multiply a record's influence. Move the decision threshold after training",
}


class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """Base of all private estimators. Parameters that a subclass leaves out of ``__init__`` have these defaults."""

    epsilon: float = 1.0
    delta: float | None = None
    schema: Schema | str | None = None
    random_state: Any = None
    verbose: int = 0
    callbacks: Any = None
    allow_leak: bool = False
    _task: ClassVar[Task]
    _most_rows: ClassVar[int] = MAX_ROWS

    # ---- what a learner says

    def _plan(self, metadata: PublicMetadata) -> Plan:
        """Return what will be released, from public metadata alone; calibrated or with shares."""
        raise NotImplementedError

    def _accounting(self, metadata: PublicMetadata) -> str | None:
        """Return the accounting method that calibrates the plan; None is the tightest certified one."""
        return None

    def _train(self, table: Table, labels: Labels, plan: Plan, session: ReleaseSession) -> Mapping[str, Any]:
        """Return the fitted attributes (names that end in ``_``), made of public metadata and released values.

        ``session.keep(attributes)`` keeps a valid smaller model on the way: what an interrupted fit leaves.
        """
        raise NotImplementedError

    # ---- fit

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        ledger: Ledger | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        **refused: Any,
    ) -> Self:
        """Train privately.

        Parameters
        ----------
        X, y
            A table (numpy, pandas, polars, Arrow) and its labels.
        ledger
            A ledger that pays for every release of the plan. Without one the fit opens its own.
        checkpoint
            A folder of this fit. If the process dies, the same call resumes it, spends nothing twice and gives the same
            model. Until the fit is done the folder is as sensitive as the data (:mod:`.checkpoint`).
        """
        for name in refused:
            reason = REFUSED.get(name, "fit takes X, y, ledger and checkpoint")
            raise TypeError(f"{type(self).__name__}.fit does not take {name!r}: {reason}")
        self._forget()
        try:
            self._fit(X, y, ledger, checkpoint)
        except KeyboardInterrupt:  # leaves the smaller model if one was kept, else nothing
            if not hasattr(self, "receipt_"):
                self._forget()
            raise
        except BaseException:
            self._forget()
            raise
        return self

    def plan(self, X: Any, y: Any = None) -> Plan:
        """Return the plan that ``fit(X, y)`` would follow; of the data it uses public metadata only. Spends nothing."""
        return self._planned(self.public_metadata(X, y))

    def public_metadata(self, X: Any, y: Any = None) -> PublicMetadata:
        """Return the public metadata of ``X`` and ``y``: all that a plan may depend on."""
        fresh = clone(self)  # reading sets attributes, and a fitted model must keep its own
        metadata: PublicMetadata = fresh._read(X, y, fresh._resolved_schema(X, y)[0])[2]
        return metadata

    def _fit(
        self,
        X: Any,
        y: Any,
        ledger: Ledger | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        rows: NDArray[np.bool_] | None = None,
        *,
        drops_unlabelled: bool = False,
    ) -> None:
        """Fit on some ``rows`` by the public metadata of the whole table: those that a search draws, or those of a file
        that have a label (``drops_unlabelled``). There may be none: that must not decide whether there is a model.
        """
        schema, leaks = self._resolved_schema(X, y)
        leaks += sklearn_guard.leaks()
        given, target, metadata, assumed = self._read(X, y, schema)
        if rows is not None:
            given, target = given.take(np.flatnonzero(rows)), target[rows]
        plan = self._planned(metadata)
        if not sklearn_guard.in_private_search():
            warn_if_weak(metadata.epsilon, metadata.delta, metadata.rows)
        rng = source_for(self.random_state)
        if checkpoint is not None and rng is not None:
            raise ParameterError("random_state", "be None with a checkpoint, which has its own key", self.random_state)
        with (
            nullcontext()
            if checkpoint is None
            else opened(
                checkpoint,
                lambda: fingerprint(self, metadata, plan, ledger),
                lambda key: self._digest(given, target, key),
            ) as saved,
            with_progress_bar(self.verbose, self.callbacks) as callbacks,
        ):
            plan = plan.frozen()  # as the ledger follows it, and as a file keeps it
            journal, charge = self._ledgers(plan, ledger, saved, rng)
            session = ReleaseSession(
                journal, rng, charge=charge, plan=plan, callbacks=callbacks,
                name=type(self).__name__, metadata=metadata, checkpoint=saved,
            )  # fmt: skip
            fit = _Fit(
                self, schema, metadata, assumed, leaks, journal, session, plan,
                charged=ledger, keyed=saved is not None, drops_unlabelled=drops_unlabelled or given.drops_unlabelled,
            )  # fmt: skip
            fit.run(given, target)
            if saved is not None:
                saved.finish(self)

    def privacy_statement(self) -> PrivacyStatement:
        """Return the guarantee of the fitted model: ``str()`` is the text, ``to_dict()`` the record."""
        check_is_fitted(self, "receipt_")
        found: PrivacyStatement = self.statement_
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model as JSON that :func:`ledgerwood.learners.load` reads; nothing is ever unpickled."""
        save(self, path)

    def _check_stored(self) -> None:
        """Raise :class:`FormatError` if this model, read from a file, breaks its own rules."""
        check_model(self)

    # ---- inside

    def _forget(self) -> None:
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)

    def _resolved_schema(self, X: Any, y: Any) -> tuple[Schema, tuple[str, ...]]:
        schema = self.schema
        if schema is None:
            return Schema(), ()
        if isinstance(schema, Schema):
            return schema, ()
        if schema != "data":
            raise ParameterError("schema", 'be a Schema, None, or "data" with allow_leak=True', schema)
        if self.allow_leak is not True:
            raise ParameterError(
                "schema", "be public: bounds and categories read from the data are a leak", "data",
                "Leave it out (they are then learned privately), declare a Schema, or say allow_leak=True",
            )  # fmt: skip
        return Schema.draft(X), ("bounds", "categories")

    def _read(self, X: Any, y: Any, schema: Schema) -> tuple[Columns, NDArray[Any], PublicMetadata, tuple[str, ...]]:
        """Read X and y into columns, a checked target, the public metadata, and what of them was assumed."""
        given = read_columns(X, schema)
        regression = self._task == "regression"
        vector = as_numbers(trainable(y)) if regression else trainable(y)
        if schema.classes is not None and vector is not None:  # each label by itself, before anything looks at them all
            vector = np.array(schema.classes)[read_labels(vector, schema.classes).values]
        target = validate_data(self, y=vector, y_numeric=regression)
        # after y: checking y alone would make scikit-learn forget the names
        validate_data(self, without_unit(X, schema.unit), skip_check_array=True, reset=True)
        if len(target) != given.rows:
            raise ValueError(
                f"Found input variables with inconsistent numbers of samples: {[given.rows, len(target)]}: "
                "X and y must have one row for each record"
            )
        metadata, shown = self._metadata(given, target, schema)
        return given, target, metadata, shown

    def _metadata(self, given: Columns, target: NDArray[Any], schema: Schema) -> tuple[PublicMetadata, tuple[str, ...]]:
        """Return the public metadata, and which of them were assumed; of the target only its values count."""
        classes, shown = self._classes(target, schema)
        rows = given.rows if schema.rows is None else schema.rows
        check_rows(max(rows, given.rows), self._most_rows)
        epsilon, delta = checked_budget(self.epsilon, self.delta, rows)
        metadata = PublicMetadata(
            given.columns, self._task, rows, epsilon, delta, schema.neighbours, classes,
            schema.target_bounds, schema.max_rows_per_unit,
        )  # fmt: skip
        return metadata, shown

    def _classes(self, target: NDArray[Any], schema: Schema) -> tuple[tuple[Any, ...] | None, tuple[str, ...]]:
        return None, ()

    def _labels(
        self, target: NDArray[Any], metadata: PublicMetadata, target_bounds: tuple[float, float] | None
    ) -> Labels:
        if metadata.classes is not None:
            return read_labels(target, metadata.classes)
        assert target_bounds is not None
        return read_target(target, target_bounds)

    def _digest(self, given: Columns, target: NDArray[Any], key: bytes) -> str:
        """Return a keyed digest of the data, by which a checkpoint knows them again."""
        return digest_of([*given.values, given.units, target], key)

    def _planned(self, metadata: PublicMetadata) -> Plan:
        return whole_plan(self._plan(metadata), metadata, self._accounting(metadata))

    def _ledgers(
        self, plan: Plan, ledger: Ledger | None, saved: Checkpoint | None, rng: RandomSource | None
    ) -> tuple[Ledger, Ledger | PaidPlan | None]:
        """Return the ledger that keeps the plan, and the one that pays besides."""
        resumed = saved is not None and saved.resumed
        if ledger is None:
            sklearn_guard.warn_if_untracked(type(self).__name__, plan)
            return Ledger(plan=plan), None
        if not isinstance(ledger, Ledger):
            raise ParameterError("ledger", "be a ledgerwood.accounting.Ledger", type(ledger).__name__)
        if ledger.plan is not None:
            if not plan.same_charges(ledger.plan) or not all(saved and saved.owns(e.id) for e in ledger.journal()):
                raise ParameterError(
                    "ledger", "follow this fit's plan from its beginning, or have a filter", "<another plan>",
                    "Open it with Ledger(plan=estimator.plan(X, y)), or with Ledger(epsilon=..., delta=...)",
                )  # fmt: skip
            return ledger, None
        if ledger.neighbours != plan.neighbours:
            raise ParameterError(
                "ledger", f"be stated for the schema's neighbours {plan.neighbours!r}", ledger.neighbours
            )
        own, left = Ledger(plan=plan), ledger.remaining()
        if not left.is_chosen or (left.filter is not None and left.filter.name == "pure"):
            return own, ledger.pay(
                plan, type(self).__name__, id=None if saved is None else saved.choices("plan").release_id,
                private=rng is None or rng.private,
            )  # fmt: skip
        if not resumed and not plan.fits(left):  # a resumed run has paid for a part of it
            raise plan.refusal(left, type(self).__name__)
        return own, ledger

    def _within_units(
        self, given: Columns, target: NDArray[Any], schema: Schema, session: ReleaseSession
    ) -> tuple[Columns, NDArray[Any]]:
        if given.units is None:
            return given, target
        key, most = session.generator().bytes(32), schema.max_rows_per_unit
        units = identities(given.units, key)
        rows = np.flatnonzero(kept(units, most, key))
        return given.take(rows, record_numbers(units[rows]) if most == 1 else None), target[rows]

    def _table(self, X: Any) -> Table:
        """Read X at predict."""
        check_is_fitted(self, "receipt_")
        schema = self.schema if isinstance(self.schema, Schema) else Schema()
        X = without_unit(X, schema.unit, self.n_features_in_)
        raw_columns(X)
        validate_data(self, X, skip_check_array=True, reset=False)
        return read_as(X, self.columns_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True  # a missing value has its own bin
        tags.input_tags.string = tags.input_tags.categorical = True  # data frames
        tags.non_deterministic = True  # fresh noise each time is what makes a fit private
        return tags


@dataclass
class _Fit:
    """One fit once its plan and its ledgers are there: learn what is undeclared, train, set the fitted attributes.

    Attributes
    ----------
    columns, target_bounds
        Those of the metadata; what was undeclared is filled in when it is learned.
    """

    estimator: PrivateEstimator
    schema: Schema
    metadata: PublicMetadata
    assumed: tuple[str, ...]
    leaks: tuple[str, ...]
    journal: Ledger
    session: ReleaseSession
    plan: Plan
    charged: Ledger | None
    keyed: bool
    drops_unlabelled: bool
    columns: tuple[Column, ...] = field(init=False)
    target_bounds: tuple[float, float] | None = field(init=False)

    def __post_init__(self) -> None:
        self.columns, self.target_bounds = self.metadata.columns, self.metadata.target_bounds

    def run(self, given: Columns, target: NDArray[Any]) -> None:
        """Train and set the fitted attributes: those of the smaller model that was kept, if the training is stopped."""
        session = self.session
        try:
            fitted = self.trained(given, target)
        except (Stopped, KeyboardInterrupt) as stop:
            if session.fitted is not None:
                self.set_fitted_attributes(session.fitted, stopped=True)
            if isinstance(stop, KeyboardInterrupt):
                raise
            if session.fitted is None:
                raise FitStopped(
                    f"a callback stopped the fit after {session.done} of {session.total} releases, before there was "
                    "a model; what was released is spent"
                ) from None
        else:
            self.set_fitted_attributes(fitted, stopped=False)

    def trained(self, given: Columns, target: NDArray[Any]) -> Mapping[str, Any]:
        """Return the fitted attributes of the learner; all releases happen here."""
        model = self.estimator
        given, target = model._within_units(given, target, self.schema, self.session)
        self.columns, self.target_bounds = discovery.learn(given, target, self.metadata, self.plan, self.session)
        labels = model._labels(target, self.metadata, self.target_bounds)
        table = given.table(self.columns, n_threads=getattr(model, "n_threads", None))
        return model._train(table, labels, self.plan, self.session)

    def set_fitted_attributes(self, fitted: Mapping[str, Any], *, stopped: bool) -> None:
        """Give the estimator what was fitted, the plan, the statement and, last of all, the receipt."""
        receipt = Receipt.of(self.journal)
        statement = statement_for(
            self.estimator, self.schema, self.metadata, self.columns, self.assumed, self.plan, receipt, self.leaks,
            unseen=sklearn_guard.unseen_callers(), charged=self.charged, stopped=stopped, keyed=self.keyed,
            drops_unlabelled=self.drops_unlabelled,
        )  # fmt: skip
        shared: dict[str, Any] = {"columns_": self.columns, "plan_": self.plan, "statement_": statement}
        if self.estimator._task == "regression":
            shared["target_bounds_"] = self.target_bounds
        for name, value in {**fitted, **shared, "receipt_": receipt}.items():
            setattr(self.estimator, name, value)


class PrivateClassifierBase(ClassifierMixin, PrivateEstimator):  # type: ignore[misc]
    """Base of private classifiers: a learner adds ``_probabilities(table) -> (rows, classes)``.

    >>> from ledgerwood.learners import PrivateBoostingClassifier, PrivateClassifierBase
    >>> issubclass(PrivateBoostingClassifier, PrivateClassifierBase)
    True
    """

    _task: ClassVar[Task] = "classification"

    def _probabilities(self, table: Table) -> NDArray[np.float64]:
        raise NotImplementedError

    @by_parts
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class, in the order of ``classes_``."""
        table = self._table(X)
        if len(self.classes_) == 1:
            return np.ones((len(table), 1))
        return np.asarray(self._probabilities(table), dtype=np.float64)

    @by_parts
    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class."""
        best = np.argmax(self.predict_proba(X), axis=1)
        found: NDArray[Any] = self.classes_[best]
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # A hundred rows at epsilon = 1 hold less signal than noise: no private learner reaches the checks' scores.
        tags.classifier_tags.poor_score = True
        return tags

    def _classes(self, target: NDArray[Any], schema: Schema) -> tuple[tuple[Any, ...] | None, tuple[str, ...]]:
        with warnings.catch_warnings():  # scikit-learn's says how many distinct labels there are: exact, about y
            warnings.simplefilter("ignore", UserWarning)
            check_classification_targets(target)
        self.classes_ = np.unique(target if schema.classes is None else np.array(schema.classes))
        return tuple(self.classes_.tolist()), () if schema.classes is not None else ("classes",)


class PrivateRegressorBase(RegressorMixin, PrivateEstimator):  # type: ignore[misc]
    """Base of private regressors: a learner adds ``_values(table) -> (rows,)``.

    >>> from ledgerwood.learners import AdaSSPRegressor, PrivateRegressorBase
    >>> issubclass(AdaSSPRegressor, PrivateRegressorBase)
    True
    """

    _task: ClassVar[Task] = "regression"

    def _values(self, table: Table) -> NDArray[np.float64]:
        raise NotImplementedError

    @by_parts
    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the predicted number."""
        return np.asarray(self._values(self._table(X)), dtype=np.float64)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # see PrivateClassifierBase
        return tags


def keep_parameters(estimator: Any, given: Mapping[str, Any]) -> None:
    """Keep the arguments of a constructor (its ``locals()``) untouched, as scikit-learn wants them."""
    for name, value in given.items():
        if name not in ("self", "__class__"):
            setattr(estimator, name, value)


def source_for(random_state: Any) -> RandomSource | None:
    """None is the operating system. Anything else is a seed: reproducible, not private."""
    if random_state is None:
        return None
    if isinstance(random_state, np.random.Generator):
        return SeededSource(random_state)
    from sklearn.utils import check_random_state

    return SeededSource(np.random.default_rng(check_random_state(random_state).randint(2**31 - 1, size=4)))
