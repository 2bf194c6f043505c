r"""The release of a whole table, as one mechanism that a ledger can charge.

Every cell is randomised on its own, so one record's release is the composition of its columns' mechanisms, and
replacing the record moves nothing else: the cost is the sum of the columns' costs, under ``replace_one``.

With ``columns_per_record = k`` each record first draws k of its d columns, uniformly and without looking at it;
the other cells come out as missing (P1 §7.1). Which columns were drawn is visible and independent of the data,
so the loss is that of the columns drawn: at most the k dearest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood.accounting import Cost, PureDP
from ledgerwood.errors import ParameterError
from ledgerwood.mechanisms.local.domain import Codes, within
from ledgerwood.mechanisms.randomness import RandomSource, source_of
from ledgerwood.mechanisms.sampling.draws import uniform_below

from .columns import Column

#: The output of a cell that was not drawn.
WITHHELD = -1


@dataclass(frozen=True)
class TableRelease:
    """All the columns of a table through their mechanisms.

    >>> from ledgerwood.learners.vertical.columns import OrderedColumn, Settings
    >>> ages = OrderedColumn("age", 0, 100, Settings().mechanism(0.5))
    >>> release = TableRelease((ages,))
    >>> f"{release.cost.epsilon(delta=0.0):.3f}", release.release([ages.encode([20, 70])]).shape
    ('2.250', (1, 2))
    """

    columns: tuple[Column, ...]
    columns_per_record: int | None = None
    parts_public: bool = False

    def __post_init__(self) -> None:
        if not self.columns:
            raise ParameterError("columns", "be at least one", 0)
        if self.columns_per_record is not None:
            within("columns_per_record", self.columns_per_record, at_least=1, at_most=len(self.columns))

    @property
    def cost(self) -> Cost:
        """Of one record: the sum over its columns, or over the k dearest of them."""
        costs = [column.cost(parts_public=self.parts_public) for column in self.columns]
        if self.columns_per_record is None:
            return reduce(add, costs)
        dearest = sorted((cost.epsilon(0.0) for cost in costs), reverse=True)[: self.columns_per_record]
        return reduce(add, [PureDP(epsilon, neighbours="replace_one") for epsilon in dearest])

    def check(self, value: Sequence[Codes]) -> None:
        """Raise an error if the shapes are wrong; nothing is drawn."""
        if len(value) != len(self.columns) or len({codes.shape for codes in value}) != 1 or value[0].ndim != 1:
            raise ParameterError("value", f"be {len(self.columns)} columns of one length", len(value))

    def release(self, value: Sequence[Codes], rng: Any = None) -> NDArray[np.int32]:
        """Outputs from 0, or `WITHHELD`: one row for each output column, one entry for each record."""
        self.check(value)
        source = source_of(rng)
        outputs = np.empty((sum(len(column.names) for column in self.columns), value[0].size), dtype=np.int32)
        ends = np.cumsum([len(column.names) for column in self.columns])
        places = np.split(outputs, ends[:-1])  # views: a column is written where it belongs
        for column, codes, place in zip(self.columns, value, places, strict=True):
            place[:] = column.draw(codes, source)
        if self.columns_per_record is not None:
            kept = chosen_columns(value[0].size, len(self.columns), self.columns_per_record, source)
            for place, keep in zip(places, kept, strict=True):
                place[:, ~keep] = WITHHELD
        return outputs


def chosen_columns(records: int, columns: int, chosen: int, source: RandomSource) -> NDArray[np.bool_]:
    """A uniform subset of the columns for each record: the first steps of a shuffle, by exact draws."""
    order = np.tile(np.arange(columns, dtype=np.int32), (records, 1))
    rows = np.arange(records)
    for j in range(chosen):
        other = j + uniform_below(np.full(records, columns - j), source)
        order[rows, other], order[:, j] = order[:, j].copy(), order[rows, other]
    kept = np.zeros((columns, records), dtype=np.bool_)
    for j in range(chosen):
        kept[order[:, j], rows] = True
    return kept
