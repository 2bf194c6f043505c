"""Small designs that every test of the linear learners shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ledgerwood.accounting import Ledger, Plan
from ledgerwood.learners.data.threads import TUNING
from ledgerwood.learners.linear.integer_rows import IntegerRows


def rows_of(
    matrix: Any, labels: Sequence[int] | None = None, *, intercept: int = 0, coded: bool = True, **tuning: int
) -> IntegerRows:
    """Rows of a dense integer matrix; column 0 is the intercept's."""
    cells = np.asarray(matrix, dtype=np.int16)
    kept = cells != 0
    starts = np.concatenate([[0], np.cumsum(kept.sum(axis=1))]).astype(np.uint64)
    indices = (np.nonzero(kept)[1] + 1).astype(np.uint16)
    targets = None if labels is None else np.asarray(labels, dtype=np.int64)
    return IntegerRows(
        starts, indices, cells[kept], cells.shape[1] + 1, intercept, targets, coded, replace(TUNING, **tuning)
    )


class ExactSession:
    """A session that releases the exact value, and remembers what passed: for noise-free limits only."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Any, Any]] = []

    def release(self, mechanism: Any, value: Any, label: str) -> Any:
        self.seen.append((label, mechanism, value))
        return value


class LedgerSession:
    """A session of a plan's ledger, seeded."""

    def __init__(self, plan: Plan, rng: Any = None) -> None:
        self.ledger, self.rng = Ledger(plan=plan), rng

    def release(self, mechanism: Any, value: Any, label: str) -> Any:
        return self.ledger.release(mechanism, value, label=label, rng=self.rng)
