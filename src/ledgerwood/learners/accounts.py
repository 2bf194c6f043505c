"""From a fit to its statement."""

from __future__ import annotations

from typing import Any

from ledgerwood.accounting import Ledger, Plan
from ledgerwood.learners import discovery
from ledgerwood.learners.facts import Column, PublicFacts
from ledgerwood.learners.schema import Schema
from ledgerwood.learners.statement import Fact, PrivacyStatement, Receipt

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
    facts: PublicFacts,
    columns: tuple[Column, ...],
    shown: tuple[str, ...],
    plan: Plan,
    receipt: Receipt,
    leaks: tuple[str, ...],
    *,
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
        neighbours=str(facts.neighbours),
        unit=_unit(schema),
        accounting=_accounting(estimator, facts),
        receipt=receipt,
        planned=sum(run.times for run in plan.runs()),
        public=tuple(_public(schema, facts, shown, leaks, drops_unlabelled)),
        learned=tuple(_learned(facts, columns, plan)),
        conventions=(
            *_conventions(schema, facts, estimator),
            *((_STILL_KEYED if stopped else _KEYED,) if keyed else ()),
        ),
        leaks=leaks,
        charged_to=None if charged is None else "the ledger given to fit",
        stopped_early=stopped,
        details={"rows_per_unit": facts.rows_per_unit, "rows": facts.rows},
    )


def _accounting(estimator: Any, facts: PublicFacts) -> str:
    method = estimator._accounting(facts)
    way = "the tightest certified method" if method is None else f"the method {method!r}"
    groups = f", priced for groups of {facts.rows_per_unit} rows" if facts.rows_per_unit > 1 else ""
    return f"adaptive composition of the plan's releases in its order by {way}, an upper bound{groups}"


def _unit(schema: Schema) -> str:
    if schema.unit is None:
        return "one record"
    k = schema.max_rows_per_unit
    return (
        f"one unit (all rows with one value of {schema.unit!r}, of which at most {k} {'is' if k == 1 else 'are'} used)"
    )


def _public(
    schema: Schema, facts: PublicFacts, shown: tuple[str, ...], leaks: tuple[str, ...], drops_unlabelled: bool
) -> list[Fact]:
    assert schema.bounds is not None and schema.categories is not None and schema.kinds is not None
    found = [Fact("columns", f"{len(facts.columns)} names and types", _ASSUMED)]
    for column in facts.columns:
        if column.name in schema.kinds:
            found.append(Fact(f"kind of {column.name}", column.kind, schema.source(column.name)))
        if not column.is_known:
            continue
        kind = "bounds" if column.kind == "number" else "categories"
        declared = column.name in schema.bounds or column.name in schema.categories
        source = schema.source(column.name) if declared else "its type"
        text = _interval(column.bounds) if column.bounds is not None else f"{len(column.categories or ())} values"
        found.append(Fact(f"{kind} of {column.name}", text, "TAKEN FROM THE DATA" if kind in leaks else source))
    if facts.classes is not None:
        source = "taken from y and ASSUMED PUBLIC" if "classes" in shown else schema.source("classes")
        found.append(Fact("label values", ", ".join(map(repr, facts.classes)), source))
        found.append(_label_fact("labels", "label values", drops_unlabelled))
    else:
        if facts.target_bounds is not None:
            found.append(Fact("target bounds", _interval(facts.target_bounds), schema.source("target_bounds")))
        found.append(_label_fact("targets", "finite numbers", drops_unlabelled))
    if schema.rows is not None:
        found.append(Fact("rows", str(schema.rows), schema.source("rows")))
    return found


def _label_fact(name: str, what: str, drops_unlabelled: bool) -> Fact:
    if drops_unlabelled:
        return Fact(name, f"{what} or not", "a record whose label is none of them counts as absent")
    return Fact(name, f"all {what}", "ASSUMED: one that is not raises an error, which whoever sees it learns")


def _learned(facts: PublicFacts, columns: tuple[Column, ...], plan: Plan) -> list[Fact]:
    unknown = discovery.Unknown.of(facts)
    if not unknown:
        return []
    spends = {str(row["label"]): float(row["spend"]) for row in plan.table()}
    part = sum(spends.get(label, 0.0) for label in (discovery.BOUNDS, discovery.CATEGORIES))
    share = f"together {100 * part:.3g} % of the concentrated budget"
    found = []
    if unknown.bounds or unknown.target:
        what = f"{len(unknown.bounds)} column(s)" + (" and the target" if unknown.target else "")
        found.append(Fact("bounds", f"of {what}, by a log-scale histogram", share))
    if unknown.categories:
        delta = discovery.DELTA_SLICE * facts.delta
        found.append(Fact("categories", f"of {len(unknown.categories)} column(s)", f"{share}, and delta {delta:.3g}"))
    return found


def _conventions(schema: Schema, facts: PublicFacts, estimator: Any) -> list[str]:
    found = []
    if schema.rows is None and (facts.neighbours == "add_remove" or schema.unit is not None):
        change = "adding or removing a record" if facts.neighbours == "add_remove" else "a unit with more or fewer rows"
        use = "delta and the plan were" if estimator.delta is None else "the plan was"
        found.append(
            f"By convention the number of rows ({facts.rows}) is treated as public: {use} made from it, although "
            f"{change} changes it."
        )
    if schema.unit is not None:
        found.append("Rows without a value of the unit count together as one unit.")
    found.append("Values out of bounds were clipped, unknown categories and missing values have a code of their own.")
    return found


def _interval(bounds: tuple[float, float] | None) -> str:
    return "unknown" if bounds is None else f"[{bounds[0]:g}, {bounds[1]:g}]"
