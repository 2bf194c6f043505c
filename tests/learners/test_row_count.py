"""The number of rows is private: what leaves is equal on tables that differ by a record, given the released count."""

from __future__ import annotations

import json
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from ledgerwood.accounting import ApproxDP, DiscreteLaplace, Gaussian, Ledger, Plan, Release
from ledgerwood.errors import BudgetExceeded, ParameterError
from ledgerwood.learners import (
    AdaSSPRegressor,
    BoostedAdaSSPClassifier,
    PrivateBoostingClassifier,
    PrivateClassifier,
    PrivateRegressor,
    PrivateSearch,
    Schema,
)
from ledgerwood.learners.engines import Partitions
from ledgerwood.learners.training.public_metadata import MAX_ROWS, ROW_COUNT, RowCount
from ledgerwood.mechanisms import DiscreteLaplaceMechanism
from ledgerwood.verification import audit

CLASSES = Schema(bounds={0: (0, 1), 1: (0, 1)}, classes=[0, 1])
NUMBER = Schema(bounds={0: (0, 1), 1: (0, 1)}, target_bounds=(0, 1))
LEARNERS = {
    "trees": lambda **more: PrivateBoostingClassifier(schema=CLASSES, **more),
    "recipe": lambda **more: PrivateBoostingClassifier(recipe="xgb", n_trees=3, schema=CLASSES, **more),
    "auto": lambda **more: PrivateClassifier(schema=CLASSES, **more),
    "linear": lambda **more: BoostedAdaSSPClassifier(schema=CLASSES, **more),
    "ridge": lambda **more: AdaSSPRegressor(schema=NUMBER, **more),
    "auto regression": lambda **more: PrivateRegressor(schema=NUMBER, **more),
}


def table(rows: int) -> tuple[Any, Any]:
    X = np.full((rows, 2), 0.25)
    X[::2] = 0.75
    return X, (X[:, 0] > 0.5).astype(int)


@pytest.fixture
def fixed_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every count is released as 700: the same output of its mechanism on both tables of a pair."""
    draw = DiscreteLaplaceMechanism.release

    def release(self: Any, value: Any, rng: Any = None) -> Any:
        drawn = draw(self, value, rng)  # consumes the same words
        return 700 if np.ndim(value) == 0 else drawn

    monkeypatch.setattr(DiscreteLaplaceMechanism, "release", release)


def left(make: Any, rows: int) -> str:
    """Everything that leaves a fit but the released sums: texts, settings, plan, receipt, journal, warnings."""
    lines: list[str] = []
    ledger = Ledger(50.0, 1e-3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = make(epsilon=2.0, delta=1e-2, callbacks=[lambda e: lines.append(f"{e.label} {e.done}/{e.total}")])
        model.fit(*table(rows), ledger=ledger)
    lines += [str(warning.message) for warning in caught]
    statement = model.privacy_statement()
    lines += [str(statement), json.dumps(statement.to_dict(), sort_keys=True), model.plan_.to_json()]
    lines += [repr(entry) for entry in ledger.journal()] + [repr(model.receipt_)]
    lines += [f"{name}: {getattr(model, name, None)!r}" for name in ("choice_", "settings_", "columns_")]
    lines += sorted(vars(model))
    return "\n".join(lines)


@pytest.mark.parametrize("name", LEARNERS)
def test_all_that_leaves_is_the_same_with_one_record_more(name: str, fixed_count: None) -> None:
    first, second = (left(LEARNERS[name], rows) for rows in (641, 642))
    assert first == second
    assert "641" not in first and "642" not in first


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("noisy", [-5000, 1, 350, 1400, 2**50])
def test_a_count_that_is_far_off_is_no_crash(name: str, noisy: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DiscreteLaplaceMechanism, "release", lambda self, value, rng=None: noisy)
    model = LEARNERS[name](epsilon=1.0, delta=1e-13).fit(*table(300))
    assert 1 <= model.privacy_statement().details["rows"] <= MAX_ROWS
    assert model.plan_.is_within_target() and model.plan_.epsilon == 1.0


def test_plan_ledger_and_statement_agree() -> None:
    ledger = Ledger(3.0, 1e-5)
    model = PrivateBoostingClassifier(n_trees=5, epsilon=1.0, delta=1e-6, schema=CLASSES)
    model.fit(*table(500), ledger=ledger)
    plan, statement = model.plan_, model.privacy_statement()
    opening = plan.opening.priced()
    assert (plan.runs()[0].label, statement.epsilon, plan.epsilon) == (ROW_COUNT, 1.0, 1.0)
    assert Fraction(opening.pure_epsilon()) + Fraction(plan.rest().epsilon) <= 1
    assert plan.rest().cost.epsilon(1e-6) <= plan.rest().epsilon
    assert plan.cost.epsilon(1e-6) <= 1.0 + 1e-9
    assert ledger.journal()[0].cost == opening and len(ledger.journal()) == len(model.receipt_)
    assert Plan.from_json(plan.to_json()) == plan


def test_the_opening_is_added_and_not_composed_by_loss_distributions() -> None:
    count = Release(ROW_COUNT, DiscreteLaplace(scale=10.0, sensitivity=1))
    plan = Plan([Release("leaf", Gaussian, times=5, share=1.0)], opening=count).calibrate(epsilon=1.0, delta=1e-6)
    assert plan.cost == count.priced() + ApproxDP(plan.rest().epsilon, 1e-6)
    together = (count.priced() + plan.rest().cost).epsilon(1e-6)
    assert together < 0.99  # what composition by loss distributions would say, were the plan fixed before the count
    assert Ledger(plan=plan).remaining().epsilon == pytest.approx(1.0, abs=1e-6)
    with pytest.raises(ParameterError):
        plan.rest().after(count, epsilon=0.95)


def test_declared_public_and_replace_one_counts_are_not_released() -> None:
    X, y = table(300)
    for schema, rows, said in (
        (Schema(bounds={0: (0, 1), 1: (0, 1)}, classes=[0, 1], rows=1000), 1000, "declared in the schema"),
        (Schema(bounds={0: (0, 1), 1: (0, 1)}, classes=[0, 1], rows="public"), 300, "tables whose"),
        (Schema(bounds={0: (0, 1), 1: (0, 1)}, classes=[0, 1], neighbours="replace_one"), 300, "same for all neighb"),
    ):
        model = BoostedAdaSSPClassifier(epsilon=1.0, schema=schema).fit(X, y)
        statement = model.privacy_statement()
        assert statement.details["rows"] == rows and said in str(statement).replace("\n", " ")
        assert ROW_COUNT not in model.receipt_.counts() and model.plan_.opening is None


def test_paper_mode_says_in_its_first_lines_that_the_number_is_public() -> None:
    model = AdaSSPRegressor(schema=NUMBER, accounting="paper", delta=1e-6).fit(*table(300))
    first = next(model.privacy_statement().paragraphs())
    assert first.startswith("By the convention of the paper") and "300" in first


def test_a_plan_before_the_fit_needs_a_declared_number() -> None:
    with pytest.raises(ParameterError, match="Declare it: Schema"):
        PrivateClassifier(schema=CLASSES).plan(*table(300))
    planned = PrivateBoostingClassifier(schema=Schema(**{**vars(CLASSES), "rows": 300}), n_trees=3).plan(*table(300))
    with pytest.raises(ParameterError, match="Declare it: Schema"):
        PrivateBoostingClassifier(schema=CLASSES, n_trees=3).fit(*table(300), ledger=Ledger(plan=planned))


def test_a_small_ledger_is_refused_before_the_count_is_out() -> None:
    ledger = Ledger(0.5, 1e-6)
    with pytest.raises(BudgetExceeded, match="not begun"):
        PrivateBoostingClassifier(schema=CLASSES, n_trees=3).fit(*table(300), ledger=ledger)
    assert len(ledger.journal()) == 0


def test_a_unit_moves_the_count_by_its_rows_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []
    draw = DiscreteLaplaceMechanism.release

    def release(self: Any, value: Any, rng: Any = None) -> Any:
        seen.append((int(value), int(self.sensitivity)))
        return draw(self, value, rng)

    monkeypatch.setattr(DiscreteLaplaceMechanism, "release", release)
    X, y = table(90)
    who = np.r_[np.zeros(60), np.arange(1, 31)]
    schema = Schema(bounds={0: (0, 1), 1: (0, 1)}, classes=[0, 1], unit=2, max_rows_per_unit=3)
    BoostedAdaSSPClassifier(schema=schema).fit(np.column_stack([X, who]), y)
    assert seen == [(33, 3)]


def test_the_default_delta_ignores_a_private_count(fixed_count: None) -> None:
    deltas = {BoostedAdaSSPClassifier(schema=CLASSES).fit(*table(n)).plan_.delta for n in (50, 900)}
    assert deltas == {1e-6}
    assert RowCount.of(Schema(rows=10**7), 5, 1.0).number == 10**7


def test_tables_in_parts_and_searches_release_it_once(fixed_count: None) -> None:
    import pandas as pd

    X, y = table(640)
    frame = pd.DataFrame({"a": X[:, 0], "y": y})
    schema = Schema(bounds={"a": (0, 1)}, classes=[0, 1])
    parts = Partitions.of_frames([frame[:300], frame[300:]], target="y")
    model = BoostedAdaSSPClassifier(schema=schema, epsilon=1.0).fit(parts)
    assert model.receipt_.counts()[ROW_COUNT] == 1 and "640" not in str(model.privacy_statement())
    search = PrivateSearch(AdaSSPRegressor(schema=NUMBER), {"fit_intercept": [True]}, epsilon=2.0, delta=1e-6, runs=2)
    best = search.fit(X, y).best_estimator_
    assert best.plan_.opening is not None and best.plan_.is_within_target() and len(best.receipt_) == 2
    assert "640" not in str(search.privacy_statement()) and best.plan_.epsilon == 2.0


@pytest.mark.parametrize(("rows", "flagged"), [("public", True), (None, False)])
def test_an_audit_of_many_runs_sees_an_exact_count_and_no_released_one(rows: Any, flagged: bool) -> None:
    X, y = table(13)

    def train(data: tuple[Any, Any], rng: np.random.Generator) -> list[float]:
        schema = Schema(bounds={0: (0, 1), 1: (0, 1)}, target_bounds=(0, 1), rows=rows)
        model = AdaSSPRegressor(delta=1e-3, schema=schema, random_state=int(rng.integers(2**31))).fit(*data)
        told = model.privacy_statement()
        return [
            float(told.details["rows"]),
            told.delta,
            *(r.scale or 0.0 for r in model.plan_.releases()),
            *model.coef_,
        ]

    report = audit(train, ApproxDP(1.0, 1e-3), pair=((X[:12], y[:12]), (X, y)), samples=120, seed=1)
    assert report.flagged == flagged
