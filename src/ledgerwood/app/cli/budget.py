"""``budget``: a durable ledger on disk, opened, read and remembered."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ledgerwood.app.cli.options import App, Delta, Epsilon, Json, Relation, examples
from ledgerwood.app.output import CommandOutput, price
from ledgerwood.errors import FormatError, ParameterError

if TYPE_CHECKING:
    from ledgerwood.accounting import Ledger

File = Annotated[str, typer.Argument(metavar="JOURNAL", show_default=False, help="The journal's file.")]
Anchored = Annotated[
    str | None, typer.Option("--anchor", metavar="ANCHOR", help="An anchor kept elsewhere that the journal must match.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    budget = App(
        short_help="Open, show and remember a durable budget.",
        help="A budget that survives crashes and cannot be overspent: open it, look at it, see what was spent.",
        epilog=examples("ledgerwood budget open census.jsonl --epsilon 1 --delta 1e-6"),
    )
    budget.command(
        "open",
        short_help="Open a new budget.",
        epilog=examples(
            "ledgerwood budget open census.jsonl --epsilon 1 --delta 1e-6",
            "ledgerwood budget open counts.jsonl -e 0.5 -d 0 --filter pure --json",
        ),
    )(open_budget)
    budget.command(
        "show", short_help="What is spent and what is left.", epilog=examples("ledgerwood budget show census.jsonl")
    )(show)
    budget.command(
        "history",
        short_help="Every entry of the journal.",
        epilog=examples("ledgerwood budget history census.jsonl --json"),
    )(history)
    app.add_typer(budget, name="budget")


def open_budget(
    journal: File,
    epsilon: Epsilon = None,
    delta: Delta = None,
    plan: Annotated[
        str | None, typer.Option("--plan", metavar="FILE", help="A plan.json instead: its releases and nothing else.")
    ] = None,
    filter: Annotated[str | None, typer.Option("--filter", help="rdp (default), gdp, zcdp or pure.")] = None,
    neighbours: Relation = "add_remove",
    json: Json = False,
) -> None:
    """Open a new budget; every later release is recorded in the journal before it comes out."""
    from ledgerwood.accounting import Ledger, Plan

    if os.path.exists(journal):
        raise ParameterError("journal", "be a new file", journal, "See 'ledgerwood budget show' for an existing one")
    found = None
    if plan is not None:
        with open(plan, encoding="utf-8") as file:
            found = Plan.from_json(file.read())
    with contextlib.closing(
        Ledger.open(journal, epsilon, delta, neighbours=neighbours, filter=filter, plan=found)
    ) as ledger:
        _state(ledger).print(as_json=json)


def show(journal: File, anchor: Anchored = None, json: Json = False) -> None:
    """What is spent, what is left, and what may be said about it."""
    with contextlib.closing(_opened(journal, anchor)) as ledger:
        _state(ledger).print(as_json=json)


def history(journal: File, anchor: Anchored = None, json: Json = False) -> None:
    """Every entry of the journal, oldest first."""
    from ledgerwood.accounting.costs import serialization

    with contextlib.closing(_opened(journal, anchor)) as ledger:
        entries = ledger.journal()
    rows: list[dict[str, Any]] = []
    for number, entry in enumerate(entries, start=1):
        place = "" if entry.block is None else f"block {entry.block}, part {entry.part}"
        cost = None if entry.cost is None else serialization.to_dict(entry.cost)
        rows.append({"entry": number, "kind": entry.kind, "label": entry.label, "cost": cost})
        rows[-1] |= {"private": entry.private, "place": place}
    answer = CommandOutput(rows)
    if rows:
        costs = [repr(entry.cost) if entry.cost is not None else "" for entry in entries]
        cells = [[r["entry"], r["kind"], r["label"], c, r["place"]] for r, c in zip(rows, costs)]
        answer.table(["entry", "kind", "label", "cost", "place"], cells)
    else:
        answer.say("Nothing has been released yet.")
    answer.print(as_json=json)


def _opened(journal: str, anchor: str | None) -> Ledger:
    from ledgerwood.accounting import Ledger

    if not os.path.isfile(journal):
        raise FormatError(f"there is no journal {journal!r}; open one with 'ledgerwood budget open'")
    if os.path.getsize(journal) == 0:
        raise FormatError(f"{journal!r} is empty: no budget was opened in it")
    return Ledger.open(journal, anchor=anchor)


def _state(ledger: Ledger) -> CommandOutput:
    spent, left = ledger.spent(), ledger.remaining()
    planned = ledger.plan is not None
    unit = "share of the plan" if planned else (type(spent.filter).__name__ if spent.filter else "")
    entries = ledger.journal()
    data = {
        "journal": str(ledger.path),
        "spent": {"amount": spent.amount, "epsilon": spent.epsilon, "fraction": spent.fraction},
        "remaining": {"amount": left.amount, "epsilon": left.epsilon, "fraction": left.fraction},
        "limit": spent.limit,
        "delta": spent.delta,
        "filter": unit,
        "entries": len(entries),
        "releases": sum(entry.kind == "release" for entry in entries),
        "odometer": ledger.odometer(),
        "anchor": str(ledger.anchor),
        "statement": ledger.statement(),
    }
    answer = CommandOutput(data)
    rows = [
        ["spent", f"{100 * spent.fraction:.2f} %", price(spent.epsilon)],
        ["left", f"{100 * left.fraction:.2f} %", price(left.epsilon)],
    ]
    answer.table(["budget", "part", f"epsilon at delta = {spent.delta:.5g}"], rows)
    answer.say(f"{data['releases']} releases. Anchor, to be kept elsewhere: {data['anchor']}")
    return answer.say(ledger.statement())
