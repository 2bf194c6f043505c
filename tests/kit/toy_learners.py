"""A tiny private classifier and regressor: class means of the table scaled to [0, 1], by one Gaussian release."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.accounting import Gaussian, Plan, Release
from ledgerwood.learners import (
    Labels,
    PrivateClassifierBase,
    PrivateRegressorBase,
    PublicMetadata,
    ReleaseSession,
    RowCount,
    Schema,
    Table,
)
from ledgerwood.mechanisms import GaussianMechanism

SCALE = 256


def scaled(table: Table) -> NDArray[np.int64]:
    """Every cell as an integer in 0 .. SCALE; missing is 0."""
    columns = []
    for column, cells in zip(table.columns, table.values, strict=True):
        if column.kind == "number":
            assert column.bounds is not None
            low, high = column.bounds
            unit = (cells.astype(np.float64) - low) / (high - low)
        else:
            unit = cells / max(1, len(column.categories or ()))
        columns.append(np.floor(SCALE * np.clip(np.nan_to_num(unit), 0, 1)))
    return np.stack(columns, axis=1).astype(np.int64)


def row_norm(metadata: PublicMetadata) -> float:
    """L2 norm of (cells, SCALE) at most; a replaced row moves two of them."""
    norm = SCALE * math.sqrt(metadata.n_features + 1)
    return norm if metadata.neighbours == "add_remove" else 2 * norm


class ToyClassifier(PrivateClassifierBase):
    """Class means, added up over ``rounds`` equal releases."""

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        schema: Schema | None = None,
        rounds: int = 2,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
        allow_leak: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.rounds = rounds
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks
        self.allow_leak = allow_leak

    def _plan(self, metadata: PublicMetadata) -> Plan:
        release = Release("means", Gaussian, times=self.rounds, share=1.0, sensitivity=row_norm(metadata))
        return Plan([release], neighbours=metadata.neighbours)

    def _train(self, table: Table, labels: Labels, plan: Plan, session: ReleaseSession) -> Mapping[str, Any]:
        metadata = PublicMetadata(table.columns, "classification", RowCount(1), 1.0, 0.5, plan.neighbours)
        scale = plan["means"].scale
        assert scale is not None and labels.classes is not None
        mechanism = GaussianMechanism(scale, row_norm(metadata), neighbours=plan.neighbours)
        cells = np.column_stack([scaled(table), np.full(len(table), SCALE)])
        sums = np.stack([cells[labels.values == c].sum(axis=0) for c in range(len(labels.classes))])
        total = np.zeros(sums.shape)
        for _ in range(self.rounds):
            total = total + session.release(mechanism, sums, "means")
            fitted = {"means_": total[:, :-1] / np.maximum(total[:, -1:], SCALE)}
            session.keep(fitted)
        return fitted

    def _probabilities(self, table: Table) -> NDArray[np.float64]:
        distance = ((scaled(table)[:, None, :] / SCALE - self.means_[None]) ** 2).sum(axis=2)
        weight: NDArray[np.float64] = np.exp(-(distance - distance.min(axis=1, keepdims=True)))
        return np.asarray(weight / weight.sum(axis=1, keepdims=True), np.float64)


class ToyRegressor(PrivateRegressorBase):
    """The mean of the target."""

    def __init__(
        self, epsilon: float = 1.0, delta: float | None = None, schema: Schema | None = None, random_state: Any = None
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.random_state = random_state

    def _plan(self, metadata: PublicMetadata) -> Plan:
        size = SCALE * math.sqrt(2) * (1 if metadata.neighbours == "add_remove" else 2)
        return Plan([Release("mean", Gaussian, share=1.0, sensitivity=size)], neighbours=metadata.neighbours)

    def _train(self, table: Table, labels: Labels, plan: Plan, session: ReleaseSession) -> Mapping[str, Any]:
        size = plan["mean"].fixed[0][1] if plan["mean"].fixed else SCALE * math.sqrt(2)
        scale = plan["mean"].scale
        assert scale is not None
        mechanism = GaussianMechanism(scale, size, neighbours=plan.neighbours)
        low, high = self.bounds_of(labels)
        units = np.floor(SCALE * (labels.values - low) / (high - low)).astype(np.int64)
        total, count = session.release(mechanism, np.array([units.sum(), SCALE * len(table)]), "mean")
        return {"mean_": low + (high - low) * min(1.0, max(0.0, total / max(count, SCALE)))}

    @staticmethod
    def bounds_of(labels: Labels) -> tuple[float, float]:
        assert labels.bounds is not None
        return labels.bounds

    def _values(self, table: Table) -> NDArray[np.float64]:
        return np.full(len(table), self.mean_)
