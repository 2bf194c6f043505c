r"""The release of a whole table, as one mechanism that a ledger can charge.

Every cell is randomized on its own, so one record's release is the composition of its columns' mechanisms, and
replacing the record moves nothing else: the cost is the sum of the columns' costs, under ``replace_one``.

With ``columns_per_record = k`` each record first draws k of its d columns, uniformly and without looking at it;
the other cells come out as missing (Li et al. 2022, §7.1). Which columns were drawn is visible and independent of the
data, so the loss is that of the columns drawn: at most the k dearest. :class:`ReleaseStatement` says what a released
table guarantees: a full sentence, and every number behind it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledgerwood._rounding import format_up_short
from ledgerwood.accounting import Cost, PureDP
from ledgerwood.errors import ParameterError
from ledgerwood.learners.training.statement import ROWS_ASSUMED
from ledgerwood.learners.vertical.columns import Column, NominalColumn, OrderedColumn
from ledgerwood.mechanisms.local import LocalMap
from ledgerwood.mechanisms.local.domain import Codes, within
from ledgerwood.mechanisms.randomness import RandomSource, source_of
from ledgerwood.mechanisms.sampling.draws import uniform_below

#: The output of a cell that was not drawn.
WITHHELD = -1


@dataclass(frozen=True)
class TableRelease:
    """All the columns of a table through their mechanisms.

    >>> from ledgerwood.learners.vertical.columns import OrderedColumn, ColumnSettings
    >>> ages = OrderedColumn("age", 0, 100, ColumnSettings().mechanism(0.5))
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

    @property
    def sensitivity(self) -> None:
        """None: the cost holds for any two records."""

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


@dataclass(frozen=True)
class ReleaseStatement:
    """The exact distance-based guarantee of every column, and how often it was given; ``mixed`` if not always the same.

    ``refusals`` is how many wrong lists of ids a party compares with its own; None where there are no partners.
    ``str()`` is for people, `to_dict` for machines. Both hold public metadata only.

    >>> from ledgerwood.learners.vertical import OrderPreservingTransformer
    >>> transformer = OrderPreservingTransformer(epsilon=1.0, domain={0: (0, 100)})
    >>> released = transformer.fit([[23.0]]).transform([[23.0]])
    >>> transformer.privacy_statement().uncharged
    1
    """

    release: TableRelease
    method: str
    releases: int
    charged: int
    seeded: bool = False
    mixed: bool = False
    refusals: int | None = None
    leaks: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()

    @property
    def private(self) -> bool:
        """Whether the guarantee holds: private noise, and no row changed by what was learned from others."""
        return not self.seeded and not self.leaks

    @property
    def uncharged(self) -> int:
        """Releases that no ledger has counted."""
        return self.releases - self.charged

    def to_dict(self) -> dict[str, Any]:
        """Every column with its exact profile and order probabilities."""
        return {
            "version": 1,
            "neighbours": "replace_one",
            "unit": "one record",
            "method": self.method,
            "columns_per_record": self.release.columns_per_record,
            "parts_public": self.release.parts_public,
            "releases": self.releases,
            "charged": self.charged,
            "private": self.private,
            "leaks": list(self.leaks),
            "cautions": list(self.unseen),
            "assumptions": [ROWS_ASSUMED],
            "mixed": self.mixed,
            "refused_offers": self.refusals,
            "record_epsilon": _finite(_record_epsilon(self.release)),
            "columns": [column_summary(column) for column in self.release.columns],
        }

    def __str__(self) -> str:
        lines = [self._sentence(), *(_column_line(column) for column in self.release.columns)]
        if self.releases > 1:
            lines.append(
                f"This transformer and its copies have released {self.releases} tables, {self.uncharged} of them "
                f"without a ledger: a record may have been released {self.releases} times, and its losses add up."
            )
        elif self.uncharged:
            lines.append("One table was released without a ledger: release a record again and its losses add up.")
        if self.mixed:
            lines.append("Not all of them were made with these parameters: each has the losses of its own.")
        if self.refusals is not None:
            lines.append(
                "The ids are not randomized: a partner with the token and the key of the ids learns whether its whole "
                f"list is this party's, and {self.refusals} lists that are not it are refused, over all partners, "
                "before none is compared."
            )
        lines += self.unseen
        if self.seeded:
            lines.insert(0, "NOT PRIVATE: the noise came from a seed and can be subtracted by whoever knows it.")
        if self.leaks:
            taken = ", ".join(self.leaks).upper()
            lines.insert(0, f"NOT PRIVATE: THIS WAS TAKEN FROM THE PRIVATE DATA: {taken}.")
        return "\n".join(lines)

    def _sentence(self) -> str:
        total, per_record = _record_epsilon(self.release), self.release.columns_per_record
        size = format_up_short(total)
        whole = f"one release is epsilon={size} locally differentially private (delta=0) for any two records"
        drawn = "" if per_record is None else f", {per_record} of them drawn at random for each record,"
        bound = (
            "values of different parts are separated with certainty, so no finite epsilon holds for whole records"
            if total == math.inf
            else whole
            + (" that agree on the public parts" if self.release.parts_public and self.method == "local_map" else "")
        )
        return (
            f"Every cell of {len(self.release.columns)} declared columns{drawn} is randomized on its own by "
            f"{self.method} before it leaves: replacing one record changes that record's cells only, and {bound}. "
            f"The number of records is public. Assumed of the caller: {ROWS_ASSUMED}. Exact by enumeration, for values "
            "at most t levels apart:"
        )


def column_summary(column: Column) -> dict[str, Any]:
    """The public metadata and exact guarantees of one column; what is infinite is None."""
    if isinstance(column, NominalColumn):
        return {
            "name": column.name,
            "kind": "nominal",
            "categories": list(column.categories),
            "mechanism": "unary encoding",
            "epsilon": column.epsilon,
        }
    mechanism, profile = column.mechanism, column.profile
    size = mechanism.domain.size
    return {
        "name": column.name,
        "kind": "ordered",
        "lower": column.lower,
        "upper": column.upper,
        "levels": size,
        "mechanism": type(mechanism).__name__,
        "claim": [_finite(mechanism.claim.epsilon(t)) for t in range(size)],
        "profile": [_finite(profile.epsilon(t)) for t in range(size)],
        "within_parts": (
            [mechanism.within.epsilon(t) for t in range(max(mechanism.partition.widths))]
            if isinstance(mechanism, LocalMap)
            else None
        ),
        "order": [float(gamma) for gamma in column.order],
    }


def _record_epsilon(release: TableRelease) -> float:
    """The loss of one whole record, infinite for Local-map unless its parts are public."""
    revealing = any(isinstance(column, OrderedColumn) and column.reveals_part for column in release.columns)
    return math.inf if revealing and not release.parts_public else float(release.cost.epsilon(0.0))


def _column_line(column: Column) -> str:
    if isinstance(column, NominalColumn):
        return (
            f"- {column.name}: {len(column.categories)} categories and one for all else, unary encoding, "
            f"epsilon={format_up_short(column.epsilon)} for any two."
        )
    size, profile, order = column.mechanism.domain.size, column.profile, column.order
    shown = sorted({1, 2, 4, size - 1} & set(range(1, size)))
    losses = ", ".join(f"epsilon({t})={format_up_short(profile.epsilon(t))}" for t in shown)
    kept = ", ".join(f"gamma({t})={math.floor(order[t] * 1e4) / 1e4:.4f}" for t in shown)
    text = f"- {column.name}: {size} levels on [{column.lower:g}, {column.upper:g}]; {losses}; order kept: {kept}."
    if isinstance(column.mechanism, LocalMap):
        within = column.mechanism.within
        text += f" Inside one part epsilon(1)={format_up_short(within.epsilon(1))}; the part itself is revealed."
    return text


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
