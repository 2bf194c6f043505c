"""Up to a public number of rows no sum of any values is too large for its mechanism; beyond it nothing begins."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.kit.parts import LazyPart

from ledgerwood.accounting import Ledger
from ledgerwood.errors import ParameterError
from ledgerwood.learners import (
    AdaSSPRegressor,
    BoostedAdaSSPClassifier,
    PrivateBoostingClassifier,
    PrivateClassifier,
    Schema,
    plan_training,
)
from ledgerwood.learners.data.columns import Ints
from ledgerwood.learners.engines import Partitions
from ledgerwood.learners.federated import FederatedTask, Party
from ledgerwood.learners.linear.boosting import boost
from ledgerwood.learners.linear.integer_rows import MAX_CLIP, MAX_ROWS
from ledgerwood.learners.linear.loss import ENTRY_ONE, GRADIENT_ONE, LOSSES, WEIGHT_BITS, LinearLoss, loss_named
from ledgerwood.learners.linear.plan import LinearSettings, plan_linear
from ledgerwood.learners.linear.ridge import unclipped_gradient_sum
from ledgerwood.learners.linear.sensitivity import RowBound, packed, smallest_eigenvalue
from ledgerwood.learners.training import public_metadata
from ledgerwood.learners.trees.aggregator import ONE
from ledgerwood.learners.trees.candidates import level_scores
from ledgerwood.mechanisms.base import LARGEST_INTEGER

pytestmark = pytest.mark.filterwarnings("ignore::ledgerwood.errors.LedgerwoodWarning")


# ---- at the limit every sum is taken


@dataclass(frozen=True)
class SameRows:
    """``count`` records that are all alike and as large as cells, gradients and labels can be, with a sign each."""

    count: int
    columns: int
    sign: int

    @property
    def row(self) -> list[int]:
        return [ENTRY_ONE * (self.sign if i % 2 else 1) for i in range(self.columns)]

    def gram(self) -> Ints:
        return np.array([[self.count * a * b for b in self.row] for a in self.row], dtype=np.int64)

    def gradient_sum(self, loss: LinearLoss, weights: Ints, clip: int) -> Ints:
        one = [self.sign * self.count * min(clip, MOST_STEPS) * cell for cell in self.row]
        return np.array([one] * len(weights), dtype=np.int64)


MOST_STEPS = int(MAX_CLIP * GRADIENT_ONE)


class Taken:
    """A session that checks values as every mechanism does, and adds no noise."""

    def __init__(self) -> None:
        self.largest = 0

    def release(self, mechanism: Any, value: Any, label: str) -> Any:
        mechanism.check(value)
        self.largest = max(self.largest, int(np.abs(value).max()))
        mechanism.release(value)
        return value


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("paper", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_linear_sums_of_the_most_rows_are_released(loss: str, paper: bool, sign: int) -> None:
    shares = (1.0, 1.0, 1.0) if paper else (1.0, 1.0, 0.0)
    settings = LinearSettings(loss_named(loss), rounds=2, shares=shares, clip=MAX_CLIP, paper=paper)
    plan = plan_linear(settings).calibrate(1.0, 1e-6)
    bound, session = RowBound(3 * ENTRY_ONE**2), Taken()
    boost(SameRows(MAX_ROWS, 3, sign), bound, settings, plan, session)  # type: ignore[arg-type]
    assert LARGEST_INTEGER // 4 < session.largest <= LARGEST_INTEGER
    with pytest.raises(ParameterError, match="at most"):  # the limit is where it must be, to a factor of two
        boost(SameRows(2 * MAX_ROWS, 3, sign), bound, settings, plan, Taken())  # type: ignore[arg-type]


def test_the_bounds_of_the_docstring() -> None:
    rows = SameRows(MAX_ROWS, 2, -1)
    assert int(np.abs(packed(rows.gram())).max()) == 239 * 2**53 < LARGEST_INTEGER
    assert int(np.abs(rows.gradient_sum(loss_named("squared"), np.zeros((1, 2), np.int64), MOST_STEPS)).max()) == 2**61
    diagonal = np.diag([MAX_ROWS * ENTRY_ONE**2] * 2)
    assert 0 <= smallest_eigenvalue(diagonal, 2 * ENTRY_ONE**2) <= 2**53 + 1


@pytest.mark.parametrize("size", [1, 2**16, 2**20, 2**30])
def test_residuals_without_a_pass_are_exact_for_the_most_rows(size: int) -> None:
    rows = SameRows(MAX_ROWS, 4, -1)
    gram, row = rows.gram(), rows.row
    shift = WEIGHT_BITS + 12 - 16
    for signs in itertools.product((1, -1), repeat=2):
        # weights that cancel in the score, so that the residual stays within the clip
        weights = np.array([[signs[0] * size, signs[0] * size, signs[1] * size, signs[1] * size + 1]], dtype=np.int64)
        moments = np.array([[MAX_ROWS * GRADIENT_ONE * cell for cell in row]], dtype=np.int64)
        score = sum(int(w) * cell for w, cell in zip(weights[0], row))
        exact = [
            [int(m) - ((MAX_ROWS * cell * score + (1 << (shift - 1))) >> shift) for m, cell in zip(moments[0], row)]
        ]
        assert unclipped_gradient_sum(moments, gram, weights).tolist() == exact


@pytest.mark.parametrize("outputs", [1, 3])
def test_scores_of_splits_of_the_most_rows_are_exact(outputs: int) -> None:
    """Two outputs are as far from zero as a record can bring them: the squares of its gradients add up to 2**25."""
    n = public_metadata.MAX_ROWS
    histogram = np.zeros((outputs, 1, 1, 3, 2), dtype=np.int64)
    for k, gradient in enumerate([ONE, -ONE, 0][:outputs]):
        histogram[k, 0, 0, :, 0] = [gradient * (n - 3), gradient * 3, 0]
    histogram[:, 0, 0, :, 1] = [n - 3, 3, 0]
    one = np.array([0]), np.array([1]), np.array([False]), np.array([False]), np.array([2])
    score = level_scores(histogram, *one, l2=0.0).item()
    assert score == n * min(outputs, 2) * ONE**2 <= LARGEST_INTEGER


# ---- beyond it nothing begins


BOUNDS = Schema(bounds={"a": (0, 1)}, classes=[0, 1])
FRAME = pd.DataFrame({"a": np.linspace(0, 1, 30), "y": np.arange(30) % 2})
LIMITS = [
    (BoostedAdaSSPClassifier, MAX_ROWS),
    (PrivateClassifier, MAX_ROWS),
    (PrivateBoostingClassifier, public_metadata.MAX_ROWS),
]


@pytest.mark.parametrize(("kind", "most"), LIMITS)
def test_more_declared_rows_are_refused_before_anything_is_spent(kind: Any, most: int) -> None:
    ledger = Ledger(10.0, 1e-4)
    schema = Schema(bounds={"a": (0, 1)}, classes=[0, 1], rows=most + 1)
    with pytest.raises(ParameterError, match=f"rows must be at most {most}.*nothing was spent"):
        kind(schema=schema, epsilon=1.0, delta=1e-6).fit(FRAME[["a"]], FRAME["y"], ledger=ledger)
    assert not ledger.journal()
    allowed = Schema(bounds={"a": (0, 1)}, classes=[0, 1], rows=most)
    kind(schema=allowed, epsilon=1.0, delta=1e-6).plan(FRAME[["a"]], FRAME["y"])


@pytest.mark.parametrize("kind", [BoostedAdaSSPClassifier, PrivateBoostingClassifier])
@pytest.mark.parametrize("declared", [None, 1000])
def test_more_rows_than_that_are_refused_unread(kind: Any, declared: int | None) -> None:
    """Whatever the schema says of their number."""

    def load() -> Any:
        raise AssertionError("a part was read")

    ledger = Ledger(10.0, 1e-4)
    table = Partitions(tuple(LazyPart(load, 2**35) for _ in range(3)), "y", FRAME.iloc[:2])
    schema = Schema(bounds={"a": (0, 1)}, classes=[0, 1], rows=declared)
    with pytest.raises(ParameterError, match="rows must be at most"):
        kind(schema=schema, epsilon=1.0, delta=1e-6).fit(table, ledger=ledger)
    assert not ledger.journal()


def test_what_learns_bounds_first_is_refused_before_that() -> None:
    ledger = Ledger(10.0, 1e-4)
    schema = Schema(rows=MAX_ROWS + 1, target_bounds=(0, 1))
    with pytest.raises(ParameterError, match="rows must be at most"):
        AdaSSPRegressor(schema=schema, epsilon=1.0, delta=1e-6).fit(FRAME[["a"]], FRAME["y"], ledger=ledger)
    assert not ledger.journal()


def test_a_plan_of_a_linear_model_says_so_too() -> None:
    given: dict[str, Any] = {"n_features": 3, "epsilon": 1.0, "delta": 1e-9}
    plan_training("linear", n_rows=MAX_ROWS, **given)
    with pytest.raises(ParameterError, match="rows must be at most"):
        plan_training("linear", n_rows=MAX_ROWS + 1, **given)


def test_a_party_of_a_federation_has_the_same_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    task = FederatedTask(BOUNDS, ("a",), {1: "aa" * 32, 2: "bb" * 32}, threshold=2, rows=100, recipe="tr_cyc")
    monkeypatch.setattr("ledgerwood.learners.federated.party.MAX_ROWS", 29)
    with pytest.raises(ParameterError, match="rows must be at most 29"):
        Party(task, FRAME[["a"]], FRAME["y"])
    with pytest.raises(ParameterError, match="gradient_clip must be at most 16"):
        FederatedTask(
            BOUNDS, ("a",), {1: "aa" * 32, 2: "bb" * 32}, threshold=2, rows=100, recipe="boosted_adassp",
            options={"gradient_clip": 17.0},
        )  # fmt: skip
    with pytest.raises(ParameterError, match="rows must be few enough for sums of 40 bits"):
        _ = FederatedTask(BOUNDS, ("a",), {1: "aa" * 32, 2: "bb" * 32}, threshold=2, rows=2**31, recipe="tr_cyc").bits
