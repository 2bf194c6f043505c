"""A conformance kit for private learners: does a learner keep the rules of its base class?

Each check tries to catch one mistake: a plan that looks at data, a release that the plan does not know, a value that
makes ``fit`` raise, an exact number kept in the model, a statement that is not true. The last one audits the learner by
many trainings on two adjacent tables: all numbers of the fitted model are the output.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.accounting import ApproxDP, Ledger
from ledgerwood.verification.auditor.audit import audit

__all__ = ["LearnerReport", "check_learner"]

_SHARED = {"columns_", "plan_", "statement_", "receipt_", "classes_", "n_features_in_", "target_bounds_"}


@dataclass(frozen=True)
class Finding:
    """One check: whether it passed, and what was seen."""

    check: str
    passed: bool
    seen: str


@dataclass(frozen=True)
class LearnerReport:
    """What :func:`check_learner` found; ``passed`` if nothing is wrong.

    >>> report = LearnerReport("Mine", (Finding("every release is charged", True, "3 of 3"),))
    >>> print(report)
    Mine: passed
    ok    every release is charged: 3 of 3
    """

    learner: str
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(finding.passed for finding in self.findings)

    def __str__(self) -> str:
        lines = [f"{'ok  ' if f.passed else 'FAIL'}  {f.check}: {f.seen}" for f in self.findings]
        return "\n".join([f"{self.learner}: {'passed' if self.passed else 'FAILED'}", *lines])


class _Failed(Exception):
    """A check failed, with what was seen."""


def check_learner(
    estimator: Any, *, epsilon: float = 1.0, samples: int = 400, seconds: float | None = None, seed: int = 1
) -> LearnerReport:
    """Try to catch a private estimator breaking the rules of its base class.

    Parameters
    ----------
    estimator
        A subclass of ``PrivateEstimator``, unfitted, for two classes or for a regression. Its parameters are kept,
        except epsilon, delta, schema and random_state.
    epsilon
        The budget of the audited trainings.
    samples, seconds
        Trainings on each of the two tables, and the time they may take (no limit by default). An audit that time
        cuts short does not pass.
    seed
        Makes the audit reproducible.

    Examples
    --------
    >>> from ledgerwood.learners import AdaSSPRegressor
    >>> report = check_learner(AdaSSPRegressor(), samples=100)
    >>> report.passed
    True
    """
    trial = _Trial(estimator, epsilon, seed)
    checks: list[tuple[str, Callable[[], str]]] = [
        ("the plan depends on public metadata only", trial.plan_is_pure),
        ("every release is planned and charged", trial.releases_are_charged),
        ("values never raise", trial.values_never_raise),
        ("the statement is true", trial.statement_is_true),
        ("the model keeps no rows", trial.size_is_public),
        ("a unit costs its rows", trial.units_are_priced),
        ("an audit finds no more than was stated", lambda: trial.audited(samples, seconds)),
    ]
    findings = []
    for name, run in checks:
        try:
            findings.append(Finding(name, True, run()))
        except _Failed as failure:
            findings.append(Finding(name, False, str(failure)))
        except Exception as error:
            findings.append(Finding(name, False, f"raised {type(error).__name__}: {str(error)[:200]}"))
    return LearnerReport(type(estimator).__name__, tuple(findings))


class _Trial:
    """One learner and the tables that it is tried on."""

    def __init__(self, estimator: Any, epsilon: float, seed: int) -> None:
        from sklearn.base import is_regressor

        self.estimator, self.epsilon = estimator, epsilon
        self.regression = is_regressor(estimator)
        self.rng = np.random.default_rng(seed)

    # ---- tables

    def table(self, rows: int) -> tuple[NDArray[np.float64], NDArray[Any]]:
        X = self.rng.uniform(0, 1, size=(rows, 2))
        y = X[:, 0] if self.regression else (X[:, 0] > 0.5).astype(np.int64)
        if not self.regression and rows > 1:
            y[:2] = [0, 1]
        return X, y

    def made(self, *, rows: int | None = 100, random_state: Any = None, **metadata: Any) -> Any:
        from sklearn.base import clone

        from ledgerwood.learners import Schema

        target = {"target_bounds": (0, 1)} if self.regression else {"classes": [0, 1]}
        schema = Schema(**{"bounds": {0: (0, 1), 1: (0, 1)}, "rows": rows, **target, **metadata})
        return clone(self.estimator).set_params(
            epsilon=self.epsilon, delta=1e-3, schema=schema, random_state=random_state
        )

    # ---- checks

    def plan_is_pure(self) -> str:
        first, second = self.table(40), self.table(40)
        plans = [self.made().plan(*data) for data in (first, second, (1 - first[0], first[1][::-1]))]
        if any(plan != plans[0] for plan in plans):
            raise _Failed("two tables with the same public metadata have different plans")
        return f"{sum(run.times for run in plans[0].runs())} releases"

    def releases_are_charged(self) -> str:
        X, y = self.table(60)
        model = self.made()
        ledger = Ledger(plan=model.plan(X, y))
        model.fit(X, y, ledger=ledger)
        released = sum(entry.kind == "release" for entry in ledger.journal())
        if released == 0 or released != len(model.receipt_):
            raise _Failed(f"{released} releases in the ledger, {len(model.receipt_)} in the receipt")
        planned = {run.label for run in model.plan_.runs()}
        if not set(model.receipt_.counts()) <= planned:
            raise _Failed("a release that the plan does not know")
        return f"{released} of {sum(run.times for run in model.plan_.runs())}"

    def values_never_raise(self) -> str:
        X, y = self.table(30)
        strange = []
        for value in (np.nan, np.inf, -np.inf, 1e300, -7.0, 0.0):
            odd = X.copy()
            odd[3] = value
            strange.append((odd, y))
        strange += [(np.full_like(X, np.nan), y), (X, np.zeros_like(y)), (X[:1], y[:1])]
        for data in strange:
            model = self.made().fit(*data)
            found = np.asarray(model.predict(np.array([[np.nan, np.inf], [0.5, 0.5]])))
            if found.dtype.kind == "f" and not np.isfinite(found).all():
                raise _Failed("a prediction is not finite")
        return f"{len(strange)} strange tables"

    def statement_is_true(self) -> str:
        X, y = self.table(60)
        model = self.made().fit(X, y)
        statement = model.privacy_statement()
        price = model.plan_.cost.epsilon(statement.delta)
        if price > statement.epsilon * (1 + 1e-9):
            raise _Failed(f"stated epsilon={statement.epsilon}, the plan costs {price}")
        if not statement.private or self.made(random_state=3).fit(X, y).privacy_statement().private:
            raise _Failed("private noise and seeded noise are not distinguished")
        return f"epsilon={statement.epsilon}, the plan costs {price:.4g}"

    def size_is_public(self) -> str:
        sizes = [len(pickle.dumps(vars(self.made(rows=100).fit(*self.table(n))))) for n in (40, 4000)]
        if abs(sizes[1] - sizes[0]) > 0.2 * sizes[0] + 2000:
            raise _Failed(f"the pickled model has {sizes[0]} bytes for 40 rows and {sizes[1]} for 4000")
        return f"{sizes[0]} and {sizes[1]} bytes pickled for 40 and 4000 rows"

    def units_are_priced(self) -> str:
        X, y = self.table(60)
        ids = np.column_stack([X, np.arange(60) // 4])
        one = self.made().plan(X, y)
        four = self.made(unit=2, max_rows_per_unit=4).fit(ids, y).plan_
        rows = {run.label: run.cost for run in one.runs()}
        for run in four.runs():
            if run.cost.rdp(2.0) > rows[run.label].rdp(2.0) * (1 + 1e-6):
                raise _Failed("a unit of four rows is planned at more than the budget of one")
            scale, own = four[run.label].scale, one[run.label].scale
            if scale == own:
                raise _Failed("the noise for four rows is that for one row")
        return "four rows cost more noise than one"

    def audited(self, samples: int, seconds: float | None) -> str:
        """Train many times on a table and on the same with one more record, and let the auditor tell them apart.

        The number of rows is not declared, so it must not leave either.
        """
        X, y = np.full((12, 2), 0.3), np.zeros(12, dtype=np.float64 if self.regression else np.int64)
        y[:6] = 1
        pair = ((X, y), (np.vstack([X, [[1.0, 1.0]]]), np.append(y, y.dtype.type(1))))

        def train(data: tuple[Any, Any], rng: np.random.Generator) -> list[float]:
            model = self.made(rows=None, random_state=int(rng.integers(2**31))).fit(*data)
            return [*_chosen_by_rows(model), *_numbers(model)]

        report = audit(
            train,
            ApproxDP(self.epsilon, 1e-3),
            pair=pair,
            samples=samples,
            seconds=seconds,
            seed=int(self.rng.integers(2**31)),
        )
        if report.flagged:
            raise _Failed(f"epsilon >= {report.epsilon_lower:.3g} certified at a stated {self.epsilon}")
        if not report.passed:
            raise _Failed("the audit did not finish: give it more seconds or fewer samples")
        return f"epsilon >= {report.epsilon_lower:.3g} certified, {self.epsilon} stated"


def _chosen_by_rows(model: Any) -> Iterator[float]:
    """What a statement and a plan say that may depend on the number of rows."""
    yield float(model.privacy_statement().details["rows"])
    yield model.privacy_statement().delta
    yield from (release.scale or 0.0 for release in list(model.plan_.releases())[:3])


def _numbers(model: Any) -> Iterator[float]:
    """Every number of a fitted model that is not part of its public metadata."""
    for name in sorted(vars(model)):
        if name.endswith("_") and not name.startswith("_") and name not in _SHARED:
            yield from _flat(vars(model)[name], 0)


def _flat(value: Any, depth: int) -> Iterator[float]:
    if isinstance(value, int | float | np.generic):
        yield float(value)
    elif isinstance(value, np.ndarray):
        if value.dtype.kind in "biuf" and value.size <= 4096:
            yield from value.astype(np.float64).ravel().tolist()
    elif isinstance(value, dict) and depth < 6:
        for item in value.values():
            yield from _flat(item, depth + 1)
    elif isinstance(value, list | tuple) and depth < 6:
        for item in value:
            yield from _flat(item, depth + 1)
    elif hasattr(type(value), "__dataclass_fields__") and depth < 6:
        for name in type(value).__dataclass_fields__:
            yield from _flat(getattr(value, name), depth + 1)
