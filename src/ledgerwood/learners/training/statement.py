"""What a fitted model says about itself: a full sentence, and every release in machine-readable form.

A statement names the guarantee and the privacy unit, the public metadata that it rests on with their sources, what was
learned privately and at what price, and what was taken from the private data. Where a guarantee is true and says
little, because epsilon or delta is very large, it says so (:func:`cautions`). It holds released numbers and public
metadata only.
"""

from __future__ import annotations

import math
import textwrap
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from ledgerwood._rounding import format_up
from ledgerwood.accounting import Ledger, Plan, Release
from ledgerwood.accounting.adjacency import Neighbours
from ledgerwood.accounting.costs import serialization
from ledgerwood.accounting.costs.base import Cost
from ledgerwood.errors import WeakGuarantee
from ledgerwood.learners.data.columns import Column
from ledgerwood.learners.data.schema import Schema
from ledgerwood.learners.training import discovery
from ledgerwood.learners.training.codec import OMITTED_IF_DEFAULT, stored
from ledgerwood.learners.training.public_metadata import PublicMetadata, RowCount, delta_of

__all__ = ["LARGE_EPSILON", "cautions", "warn_if_weak"]


ROWS_ASSUMED = (
    "each row given, its label and whether it is given depend on its own record and public metadata only, and no "
    "record gives more than one row"
)


@stored("Line")
@dataclass(frozen=True)
class Line:
    """One release: its label, what it cost (as plain values), whether its noise was private, or not drawn here."""

    label: str
    cost: dict[str, Any]
    private: bool
    drawn_elsewhere: bool = field(default=False, metadata=OMITTED_IF_DEFAULT)


@stored("Receipt")
@dataclass(frozen=True)
class Receipt:
    """A frozen copy of a journal: it pickles, and spends nothing.

    >>> len(Receipt(()))
    0
    """

    lines: tuple[Line, ...]

    @classmethod
    def of(cls, ledger: Ledger) -> Receipt:
        """Copy a ledger's journal."""
        written: dict[int, dict[str, Any]] = {}  # by identity: equal costs may state different sensitivities
        lines = []
        for entry in ledger.journal():
            if entry.kind in ("release", "charge") and entry.cost is not None:
                if id(entry.cost) not in written:
                    written[id(entry.cost)] = serialization.to_dict(entry.cost)
                cost = dict(written[id(entry.cost)])
                lines.append(Line(entry.label, cost, entry.private, drawn_elsewhere=entry.kind == "charge"))
        return cls(tuple(lines))

    def __len__(self) -> int:
        return len(self.lines)

    def __iter__(self) -> Iterator[Line]:
        return iter(self.lines)

    @property
    def private(self) -> bool:
        """Whether all noise came from a private source."""
        return all(line.private for line in self.lines)

    def counts(self) -> dict[str, int]:
        """How often each label was released."""
        return dict(Counter(line.label for line in self.lines))

    def to_dict(self) -> list[dict[str, Any]]:
        """Every release, oldest first."""
        written = [asdict(line) for line in self.lines]
        return [{k: v for k, v in line.items() if v or k != "drawn_elsewhere"} for line in written]


@stored("Fact")
@dataclass(frozen=True)
class MetadataItem:
    """A piece of metadata that the guarantee rests on, and where it comes from."""

    name: str
    value: str
    source: str


@stored("PrivacyStatement")
@dataclass(frozen=True)
class PrivacyStatement:
    """The guarantee of one fitted model. ``str()`` is the full text, :meth:`to_dict` the record of every release.

    Attributes
    ----------
    epsilon, delta
        The guarantee of everything this fit released, by the plan's price (a fit that stopped early is covered).
    unit
        What is protected: a row, or the rows with one value of a column.
    public, learned
        What is assumed public, with its sources, and what was learned privately, with what was spent on it.
    leaks
        What was taken from the private data, by this fit or by what scikit-learn did to the rows before it.
    unseen
        Why leaks could not be looked for, if so: part of ``cautions``.

    >>> import numpy as np
    >>> from ledgerwood.learners import AdaSSPRegressor, Schema
    >>> schema = Schema(bounds={0: (0, 1)}, target_bounds=(0, 1))
    >>> model = AdaSSPRegressor(epsilon=1.0, delta=1e-6, schema=schema).fit(np.eye(1), [1.0])
    >>> statement = model.privacy_statement()
    >>> statement.private, statement.unit
    (True, 'one record')
    """

    learner: str
    epsilon: float
    delta: float
    neighbours: str
    unit: str
    accounting: str
    receipt: Receipt
    planned: int
    public: tuple[MetadataItem, ...] = ()
    learned: tuple[MetadataItem, ...] = ()
    conventions: tuple[str, ...] = ()
    leaks: tuple[str, ...] = ()
    unseen: tuple[str, ...] = field(default=(), metadata=OMITTED_IF_DEFAULT)
    charged_to: str | None = None
    stopped_early: bool = False
    search: str | None = None
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def private(self) -> bool:
        """Whether the guarantee holds: private noise, and nothing taken from the data."""
        return self.receipt.private and not self.leaks

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the caller vouches for and no fit can see; a violation that is seen is among the leaks."""
        return (ROWS_ASSUMED,)

    @property
    def cautions(self) -> tuple[str, ...]:
        """Why this guarantee says little, if epsilon or delta is very large; and what could not be checked."""
        rows = self.details.get("rows")
        return (*cautions(self.epsilon, self.delta, rows if isinstance(rows, int) else None), *self.unseen)

    def __str__(self) -> str:
        return "\n".join(textwrap.fill(part, 110) for part in self.paragraphs())

    def paragraphs(self) -> Iterator[str]:
        """The text, paragraph by paragraph and not yet wrapped."""
        if self.leaks:
            yield (
                f"NOT PRIVATE: THIS WAS TAKEN FROM THE PRIVATE DATA: {', '.join(self.leaks).upper()}. One "
                f"record may change it, and no noise covers that."
            )
        if not self.receipt.private:
            yield "NOT PRIVATE: a random_state was set, so the noise can be reproduced and taken away."
        claim = "is" if self.private else "would be"
        counts = ", ".join(f"{n} x {label}" for label, n in self.receipt.counts().items()) or "nothing"
        why = _EXACT.get(self.details.get("row_count", ""))
        if why is not None:
            yield _exact_rows(why, self.details["rows"], self.neighbours, self.unit)
        yield (
            f"This {self.learner} {claim} (epsilon={format_up(self.epsilon)}, delta={format_up(self.delta)})-"
            f"differentially private for {self.unit} {_change(self.neighbours)}; accounting: {self.accounting}."
        )
        yield from self.cautions
        if self.search:
            yield self.search
        yield (
            f"Released: {counts}, each by an exactly sampled mechanism; the model is a function of these numbers, of "
            f"the public metadata and of coin tosses that ignore the data."
        )
        if self.stopped_early:
            yield (
                f"Training stopped after {len(self.receipt)} of {self.planned} releases; the price is that of the "
                f"whole plan."
            )
        for title, metadata in (("Assumed public", self.public), ("Learned privately", self.learned)):
            if metadata:
                yield f"{title}: " + "; ".join(f"{item.name} = {item.value} ({item.source})" for item in metadata) + "."
        yield f"Assumed of the caller: {'; '.join(self.assumptions)}."
        yield from self.conventions
        if self.charged_to:
            yield f"Every release was also charged to {self.charged_to}."
        elsewhere = sum(line.drawn_elsewhere for line in self.receipt)
        if elsewhere:
            yield f"The noise of {elsewhere} of them was drawn elsewhere; that it has the cost charged is assumed."
        source = "the operating system's generator" if self.receipt.private else "a seeded generator"
        yield (
            f"Randomness: {source}. Not covered: scores computed on private rows (see private_score), and what is "
            f"fitted to them around this model, such as a calibration or a threshold."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the statement with every release."""
        body = {name: getattr(self, name) for name in ("learner", "epsilon", "delta", "unit", "accounting", "planned")}
        return {
            "format": "ledgerwood.statement",
            "version": 1,
            **body,
            "neighbours": str(self.neighbours),
            "private": self.private,
            "stopped_early": self.stopped_early,
            "charged_to": self.charged_to,
            "search": self.search,
            "leaks": list(self.leaks),
            "cautions": list(self.cautions),
            "assumptions": list(self.assumptions),
            "conventions": list(self.conventions),
            "public": [asdict(item) for item in self.public],
            "learned": [asdict(item) for item in self.learned],
            "details": self.details,
            "text": str(self),
            "releases": self.receipt.to_dict(),
        }


def _change(neighbours: str) -> str:
    return "added or removed" if neighbours == Neighbours.ADD_REMOVE else "replaced by another"


_EXACT = {
    "public": "As the schema says",
    "paper": "By the convention of the paper that is followed",
}


def _exact_rows(why: str, rows: int, neighbours: str, unit: str) -> str:
    one = unit.split(" (")[0]
    twice = (
        f"; between two tables of this size that differ in {one}, epsilon counts twice and delta 1 + e^epsilon times"
        if neighbours == Neighbours.ADD_REMOVE
        else ""
    )
    return (
        f"{why}, the exact number of rows ({rows}) is taken as public: what follows holds for tables whose size is "
        f"known. Whoever can see that number change sees that rows came or went{twice}."
    )


_ASSUMED = "read from what was given and assumed public"

_KEYED = (
    "Noise was a stream cipher's output under a key of the operating system's generator, kept in a checkpoint and "
    "removed when the fit was done."
)

_STILL_KEYED = (
    "Noise was a stream cipher's output under a key of the operating system's generator. The fit was stopped: until it "
    "is resumed and done, or the folder removed, its checkpoint may still hold that key: it is as sensitive as the "
    "data."
)


def statement_for(
    estimator: Any,
    schema: Schema,
    metadata: PublicMetadata,
    columns: tuple[Column, ...],
    shown: tuple[str, ...],
    plan: Plan,
    receipt: Receipt,
    leaks: tuple[str, ...],
    *,
    unseen: tuple[str, ...] = (),
    charged: Ledger | None,
    stopped: bool,
    keyed: bool = False,
    drops_unlabelled: bool = False,
) -> PrivacyStatement:
    """Return the statement of a fit; ``drops_unlabelled``: a label that cannot be used raised nothing."""
    assert plan.epsilon is not None and plan.delta is not None
    return PrivacyStatement(
        learner=type(estimator).__name__,
        epsilon=plan.epsilon,
        delta=plan.delta,
        neighbours=str(metadata.neighbours),
        unit=_unit(schema),
        accounting=_accounting(estimator, metadata),
        receipt=receipt,
        planned=sum(run.times for run in plan.runs()),
        public=tuple(_public(schema, metadata, shown, leaks, drops_unlabelled)),
        learned=tuple(_learned(metadata, columns, plan)),
        conventions=(
            *_conventions(schema, metadata),
            *((_STILL_KEYED if stopped else _KEYED,) if keyed else ()),
        ),
        leaks=leaks,
        unseen=unseen,
        charged_to=None if charged is None else "the ledger given to fit",
        stopped_early=stopped,
        details={
            "rows_per_unit": metadata.max_rows_per_unit,
            "rows": metadata.rows,
            "row_count": metadata.count.source,
        },
    )


def _accounting(estimator: Any, metadata: PublicMetadata) -> str:
    method = estimator._accounting(metadata)
    way = "the tightest certified method" if method is None else f"the method {method!r}"
    groups = f", priced for groups of {metadata.max_rows_per_unit} rows" if metadata.max_rows_per_unit > 1 else ""
    first = ", added to that of the row count" if metadata.count.source == "released" else ""
    return f"adaptive composition of the plan's releases in its order by {way}, an upper bound{groups}{first}"


def _unit(schema: Schema) -> str:
    if schema.unit is None:
        return "one record"
    most = schema.max_rows_per_unit
    used = f"at most {most} {'is' if most == 1 else 'are'} used"
    return f"one unit (all rows with one value of {schema.unit!r}, of which {used})"


def _public(
    schema: Schema, metadata: PublicMetadata, shown: tuple[str, ...], leaks: tuple[str, ...], drops_unlabelled: bool
) -> list[MetadataItem]:
    assert schema.bounds is not None and schema.categories is not None and schema.kinds is not None
    found = [MetadataItem("columns", f"{len(metadata.columns)} names and types", _ASSUMED)]
    for column in metadata.columns:
        if column.name in schema.kinds:
            found.append(MetadataItem(f"kind of {column.name}", column.kind, schema.source(column.name)))
        if not column.is_known:
            continue
        kind = "bounds" if column.kind == "number" else "categories"
        declared = column.name in schema.bounds or column.name in schema.categories
        source = schema.source(column.name) if declared else "its type"
        text = _interval(column.bounds) if column.bounds is not None else f"{len(column.categories or ())} values"
        found.append(MetadataItem(f"{kind} of {column.name}", text, "TAKEN FROM THE DATA" if kind in leaks else source))
    if metadata.classes is not None:
        source = "taken from y and ASSUMED PUBLIC" if "classes" in shown else schema.source("classes")
        found.append(MetadataItem("label values", ", ".join(map(repr, metadata.classes)), source))
        found.append(_label_item("labels", "label values", drops_unlabelled))
    else:
        if metadata.target_bounds is not None:
            found.append(
                MetadataItem("target bounds", _interval(metadata.target_bounds), schema.source("target_bounds"))
            )
        found.append(_label_item("targets", "finite numbers", drops_unlabelled))
    if metadata.count.source != "released":
        why = {
            "declared": schema.source("rows"),
            "replace_one": "the same for all neighbours",
            "public": "exact, and said to be public",
            "paper": "exact, and public by the paper's convention",
        }
        found.append(MetadataItem("rows", str(metadata.rows), why[metadata.count.source]))
    return found


def _label_item(name: str, what: str, drops_unlabelled: bool) -> MetadataItem:
    if drops_unlabelled:
        return MetadataItem(name, f"{what} or not", "a record whose label is none of them counts as absent")
    return MetadataItem(name, f"all {what}", "ASSUMED: one that is not raises an error, which whoever sees it learns")


def _learned(metadata: PublicMetadata, columns: tuple[Column, ...], plan: Plan) -> list[MetadataItem]:
    unknown, count = discovery.Unknown.of(metadata), metadata.count
    found = [released_rows(count)[0]] if count.source == "released" else []
    if not unknown:
        return found
    spends = {str(row["label"]): float(row["spend"]) for row in plan.rest().table()}
    part = sum(spends.get(label, 0.0) for label in (discovery.BOUNDS, discovery.CATEGORIES))
    share = f"together {100 * part:.3g} % of the concentrated budget"
    if unknown.bounds or unknown.target:
        what = f"{len(unknown.bounds)} column(s)" + (" and the target" if unknown.target else "")
        found.append(MetadataItem("bounds", f"of {what}, by a log-scale histogram", share))
    if unknown.categories:
        delta = discovery.DELTA_SLICE * metadata.delta
        found.append(
            MetadataItem("categories", f"of {len(unknown.categories)} column(s)", f"{share}, and delta {delta:.3g}")
        )
    return found


def released_rows(count: RowCount) -> tuple[MetadataItem, str]:
    """Return what a statement says of a released number of rows: what was learned, and a paragraph."""
    noise = f"about {count.number}, by discrete Laplace noise of scale {count.scale:.6g}"
    return MetadataItem("number of rows", noise, f"epsilon {format_up(count.epsilon)}"), (
        f"The number of rows is private. A noisy count was released first, with epsilon={format_up(count.epsilon)}; "
        "all settings and noise were chosen by it, for what it left of epsilon, and the two epsilons are added. "
        "Declaring a public number of rows would save the first."
    )


def _conventions(schema: Schema, metadata: PublicMetadata) -> list[str]:
    found = []
    if metadata.count.source == "released":
        found.append(released_rows(metadata.count)[1])
    if schema.unit is not None:
        found.append("Rows without a value of the unit count together as one unit.")
    found.append("Values out of bounds were clipped, unknown categories and missing values have a code of their own.")
    return found


def _interval(bounds: tuple[float, float] | None) -> str:
    return "unknown" if bounds is None else f"[{bounds[0]:g}, {bounds[1]:g}]"


LARGE_EPSILON = 20.0
"""More than this hardly constrains what an attacker learns; the 2020 census of the United States spent 19.61."""

_FEW_ROWS = 100
"""A probability of one in this many is not small for anybody, however few the rows are."""


def cautions(epsilon: float, delta: float, rows: int | None = None) -> tuple[str, ...]:
    """Return why a guarantee says little, in words for its reader; nothing if it is an ordinary one.

    Parameters
    ----------
    epsilon, delta
        The guarantee.
    rows
        The public number of rows, if it is known.

    Examples
    --------
    >>> cautions(1.0, 1e-6, 30_000)
    ()
    >>> print(*cautions(1.0, 0.1, 500))
    CAUTION: delta=0.1 is not small: publishing whole records of about 50 of 500 people at random would be allowed. ...
    """
    found = []
    if epsilon > LARGE_EPSILON:
        found.append(
            f"CAUTION: epsilon={epsilon:g} is so large that the guarantee says little: the model may make a suspicion "
            f"about one person up to 10^{math.floor(epsilon / math.log(10))} times as likely as it was. Common values "
            "lie between 0.1 and 10."
        )
    if delta * max(rows or 0, _FEW_ROWS) >= 1:
        allowed = (
            "with that probability it may fail altogether"
            if rows is None
            else f"publishing whole records of about {delta * rows:.3g} of {rows} people at random would be allowed"
        )
        found.append(
            f"CAUTION: delta={delta:g} is not small: {allowed}. Choose it well below one over the number of people, "
            f"such as {delta_of(rows or _FEW_ROWS):g}."
        )
    return tuple(found)


def warn_if_weak(epsilon: float, delta: float, rows: int) -> None:
    """Warn of a guarantee that says little; it is never refused."""
    found = cautions(epsilon, delta, rows)
    if found:
        warnings.warn(" ".join(found), WeakGuarantee, stacklevel=4)


def search_plan(cost: Cost, epsilon: float, delta: float) -> Plan:
    """Return the plan of a whole search: one release, of the best run."""
    return Plan([Release("search", cost)], neighbours=str(cost.neighbours)).calibrate(epsilon, delta)
