"""A ledger's journal records: the opening one, which fixes the guarantee, and one per entry."""

from __future__ import annotations

import os
from datetime import UTC, datetime

from ledgerwood import _checks
from ledgerwood.accounting.accountant.filters import make_filter, to_units
from ledgerwood.accounting.adjacency import as_neighbours
from ledgerwood.accounting.costs import serialization
from ledgerwood.accounting.ledger.entries import KINDS, LedgerEntry
from ledgerwood.accounting.ledger.filter_state import FilterState
from ledgerwood.accounting.ledger.journal import Record
from ledgerwood.accounting.ledger.plan_state import PlanState
from ledgerwood.accounting.plan.plan import Plan
from ledgerwood.errors import FormatError, ParameterError

VERSION = 1
TERMS = ("neighbours", "filter", "epsilon", "delta", "outright", "order", "plan", "parent", "child")
"""What must agree when a journal is opened with parameters."""


def fresh_id() -> str:
    """Return a name no other ledger has."""
    return os.urandom(8).hex()


def opening(
    epsilon: float | None,
    delta: float | None,
    *,
    neighbours: str,
    filter: str | None,
    order: float | None,
    outright: float,
    plan: Plan | None,
) -> Record:
    """Return the opening record: every public fact the guarantee depends on."""
    start = {"kind": "open", "version": VERSION, "id": fresh_id()}
    if plan is not None:
        if epsilon is not None or delta is not None or filter is not None or order is not None or outright:
            raise ParameterError("plan", "be given alone: it fixes the budget and the accounting", plan)
        if plan.epsilon is None or not plan.is_calibrated:
            raise ParameterError("plan", "be calibrated first: plan.calibrate(epsilon=..., delta=...)", plan)
        written = plan.to_dict()  # what the ledger will follow: a cost function is not asked again
        if not Plan.from_dict(written).is_within_target():
            raise ParameterError("plan", f"cost at most the epsilon={plan.epsilon} that it states", plan)
        return {**start, "neighbours": str(plan.neighbours), "plan": written}
    if epsilon is None or delta is None:
        missing = "epsilon" if epsilon is None else "delta"
        raise ParameterError(missing, "be given (or a calibrated plan)", None)
    rule = make_filter(
        filter,
        _checks.positive("epsilon", epsilon),
        _checks.delta_value(delta),
        outright=_checks.non_negative("outright", outright),
        order=order,
    )
    budget = to_units(rule.limit, up=False), to_units(rule.outright, up=False)
    return {
        **start,
        "neighbours": str(as_neighbours(neighbours)),
        **rule.to_dict(),
        "budget": [str(budget[0]), str(budget[1])],
    }


def checked_opening(record: Record) -> Record:
    """Return the opening record without its number, or say why it is none."""
    if record.get("kind") != "open":
        raise FormatError(f"a journal begins with a record of kind 'open', not {record.get('kind')!r}")
    if not isinstance(record.get("version"), int) or record["version"] > VERSION:
        raise FormatError(
            f"the journal has version {record.get('version')!r}; this library reads up to {VERSION}. Update ledgerwood"
        )
    return {key: value for key, value in record.items() if key != "n"}


def state_for(header: Record) -> FilterState | PlanState:
    """Return empty books for an opening record."""
    if "plan" in header:
        return PlanState(Plan.from_dict(header["plan"]))
    rule = make_filter(
        header["filter"],
        header["epsilon"],
        header["delta"],
        outright=header.get("outright", 0.0),
        order=header.get("order"),
    )
    units, outright = header["budget"]
    return FilterState(rule, header["neighbours"], (int(units), int(outright)))


def to_record(entry: LedgerEntry) -> Record:
    """Return an entry as a journal record, without what has its usual value."""
    record: Record = {"kind": entry.kind, "at": datetime.now(UTC).isoformat(timespec="seconds")}
    if entry.label:
        record["label"] = entry.label
    if entry.cost is not None:
        record["cost"] = serialization.to_dict(entry.cost)
    if entry.cost is not None or not entry.private:
        record["private"] = entry.private
    for name in ("block", "part", "data", "id"):
        if (value := getattr(entry, name)) is not None:
            record[name] = value
    return record


_FIELDS = {"n", "at", "kind", "label", "cost", "private", "block", "part", "data", "id", "bytes"}


def from_record(record: Record) -> LedgerEntry:
    """Read what :func:`to_record` wrote."""
    if record.get("kind") not in KINDS or not record.keys() <= _FIELDS:
        raise FormatError(f"record {record.get('n')} of the journal has a form this library does not know")
    if not isinstance(record.get("id", ""), str):
        raise FormatError(f"record {record.get('n')} of the journal has an id that is no text")
    cost = record.get("cost")
    return LedgerEntry(
        record["kind"],
        record.get("label", ""),
        None if cost is None else serialization.from_dict(cost),
        record.get("private", True),
        record.get("block"),
        record.get("part"),
        {"bytes": record["bytes"]} if "bytes" in record else record.get("data"),
        record.get("id"),
    )
