"""A ledger's journal records: the opening one, which fixes the guarantee, and one per entry."""

from __future__ import annotations

import os
from datetime import UTC, datetime

from ledgerwood import _checks
from ledgerwood.accounting.accountant.filters import PureFilter, make_filter
from ledgerwood.accounting.adjacency import as_neighbours
from ledgerwood.accounting.costs import serialization
from ledgerwood.accounting.ledger.entries import KINDS, LedgerEntry
from ledgerwood.accounting.ledger.filter_state import FilterState, read_filter, written_filter
from ledgerwood.accounting.ledger.journal import Record
from ledgerwood.accounting.ledger.plan_state import PlanState
from ledgerwood.accounting.plan.plan import Plan
from ledgerwood.errors import FormatError, ParameterError

VERSION = 1
AUTO = "auto"
"""The filter of a ledger that chooses at its first admitted request."""

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
    reserved_delta: float,
    plan: Plan | None,
) -> Record:
    """Return the opening record: all public metadata that the guarantee depends on.

    A plan is in it as it is; for a journal :func:`written` makes plain values of it.
    """
    start = {"kind": "open", "version": VERSION, "id": fresh_id()}
    if plan is not None:
        if epsilon is not None or delta is not None or filter is not None or order is not None or reserved_delta:
            raise ParameterError("plan", "be given alone: it fixes the budget and the accounting", plan)
        return {**start, "neighbours": str(plan.neighbours), "plan": checked_plan(plan)}
    if epsilon is None or delta is None:
        missing = "epsilon" if epsilon is None else "delta"
        raise ParameterError(missing, "be given (or a calibrated plan)", None)
    epsilon, delta = _checks.positive("epsilon", epsilon), _checks.delta_value(delta)
    reserved_delta = _checks.non_negative("reserved_delta", reserved_delta)
    start["neighbours"] = str(as_neighbours(neighbours))
    if filter is None and delta == 0 and order is None:
        filter = "pure"
    elif filter is None and (order is not None or reserved_delta):
        filter = "rdp"
    if filter is None:
        PureFilter(epsilon, delta)  # refuses what is no budget
        return {**start, "filter": AUTO, "epsilon": epsilon, "delta": delta}
    return {**start, **written_filter(make_filter(filter, epsilon, delta, reserved_delta=reserved_delta, order=order))}


def checked_plan(plan: Plan) -> Plan:
    """Return a plan as a ledger follows it, or say why none can."""
    if plan.epsilon is None or not plan.is_calibrated:
        raise ParameterError("plan", "be calibrated first: plan.calibrate(epsilon=..., delta=...)", plan)
    followed = plan.frozen()  # a cost function is not called again
    if not followed.is_within_target():
        raise ParameterError("plan", f"cost at most the epsilon={plan.epsilon} that it states", plan)
    return followed


def different_terms(found: Record, wanted: Record | None) -> list[str]:
    """Return the names of the terms in which a journal differs from what was asked for."""
    if wanted is None:
        return []
    chosen = ("filter", "outright", "order") if wanted.get("filter") == AUTO else ()  # left to the ledger
    return [k for k in TERMS if k not in chosen and found.get(k) != wanted.get(k)]


def written(header: Record) -> Record:
    """Return the opening record as plain values."""
    plan = header.get("plan")
    return {**header, "plan": plan.to_dict()} if isinstance(plan, Plan) else header


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
    """Return the empty state for an opening record."""
    if "plan" in header:
        plan = header["plan"]
        return PlanState(plan if isinstance(plan, Plan) else Plan.from_dict(plan))
    if header["filter"] == AUTO:
        return FilterState(None, neighbours=header["neighbours"], terms=(header["epsilon"], header["delta"]))
    return FilterState(*read_filter(header), neighbours=header["neighbours"])


def to_record(entry: LedgerEntry) -> Record:
    """Return an entry as a journal record, without what has its usual value."""
    record: Record = {"kind": entry.kind, "at": entry.at}
    if entry.label:
        record["label"] = entry.label
    if entry.cost is not None:
        record["cost"] = serialization.to_dict(entry.cost)
    if entry.cost is not None or not entry.private:
        record["private"] = entry.private
    for name in ("block", "part", "data", "id", "who", "rule"):
        if (value := getattr(entry, name)) is not None:
            record[name] = value
    if entry.charged is not None:
        record["charged"] = [str(units) for units in entry.charged]
    return record


def now() -> str:
    """Return the time for a record."""
    return datetime.now(UTC).isoformat(timespec="seconds")


_FIELDS = {
    "n", "at", "kind", "label", "cost", "private", "block", "part", "data", "id", "bytes", "who", "charged", "rule",
}  # fmt: skip


def from_record(record: Record) -> LedgerEntry:
    """Read what :func:`to_record` wrote."""
    if record.get("kind") not in KINDS or not record.keys() <= _FIELDS:
        raise FormatError(f"record {record.get('n')} of the journal has a form this library does not know")
    if not isinstance(record.get("id", ""), str):
        raise FormatError(f"record {record.get('n')} of the journal has an id that is not text")
    cost, charged = record.get("cost"), record.get("charged")
    return LedgerEntry(
        record["kind"],
        record.get("label", ""),
        None if cost is None else serialization.from_dict(cost),
        record.get("private", True),
        record.get("block"),
        record.get("part"),
        {"bytes": record["bytes"]} if "bytes" in record else record.get("data"),
        record.get("id"),
        record.get("at"),
        record.get("who"),
        None if charged is None else (int(charged[0]), int(charged[1])),
        record.get("rule"),
    )
