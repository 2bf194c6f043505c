"""``budget``: a durable ledger on disk, opened, read and remembered."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ledgerwood.app.cli.options import App, Delta, Epsilon, Json, Relation, examples
from ledgerwood.app.output import CommandOutput
from ledgerwood.errors import FormatError, ParameterError

if TYPE_CHECKING:
    from ledgerwood.accounting import Ledger

File = Annotated[
    str, typer.Argument(metavar="JOURNAL", show_default=False, help="The journal's file, or a database's URL.")
]
Url = Annotated[str, typer.Argument(metavar="URL", show_default=False, help="postgresql://host/database")]
Named = Annotated[str | None, typer.Option("--name", metavar="NAME", help="The budget's name in a database.")]
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
    budget.command(
        "init",
        short_help="Prepare a database for budgets that many machines share.",
        epilog=examples("ledgerwood budget init postgresql://localhost/privacy"),
    )(init)
    budget.command(
        "import",
        short_help="Move a journal file into a database.",
        epilog=examples("ledgerwood budget import census.jsonl postgresql://localhost/privacy --name census"),
    )(move)
    app.add_typer(budget, name="budget")


def init(url: Url, json: Json = False) -> None:
    """Make the tables, the triggers and the roles in a PostgreSQL database; harmless when repeated."""
    from ledgerwood.accounting.ledger import database

    missing = database.initialize(url)
    answer = CommandOutput({"roles": list(database.ROLES), "missing": missing})
    answer.table(["role", "may"], [[role, what] for role, what in database.ROLES.items()])
    if missing:
        answer.say(f"You may not make roles here. Ask for {', '.join(missing)} and run this again.")
    answer.print(as_json=json)


def move(
    journal: Annotated[str, typer.Argument(metavar="JOURNAL", show_default=False, help="The journal's file.")],
    url: Url,
    name: Named = None,
    json: Json = False,
) -> None:
    """Move a journal file into a database: it continues there under a name, and the file is closed for good."""
    from ledgerwood.accounting import Ledger

    if name is None:
        raise ParameterError("name", "be given: the budget's name in the database", name)
    with contextlib.closing(_opened(journal, None, None)) as ledger:
        ledger.move_to(url, name)
    with contextlib.closing(Ledger.open(url, name=name)) as ledger:
        _state(ledger).print(as_json=json)


def open_budget(
    journal: File,
    epsilon: Epsilon = None,
    delta: Delta = None,
    plan: Annotated[
        str | None, typer.Option("--plan", metavar="FILE", help="A plan.json instead: its releases and nothing else.")
    ] = None,
    filter: Annotated[
        str | None,
        typer.Option("--filter", help="pure, rdp, gdp or zcdp; left out, the first request chooses pure or rdp."),
    ] = None,
    reserved_delta: Annotated[
        float,
        typer.Option("--reserved-delta", help="With rdp, gdp, zcdp: the part of delta for costs with their own."),
    ] = 0.0,
    neighbours: Relation = "add_remove",
    name: Named = None,
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
    ledger = Ledger.open(
        journal, epsilon, delta, neighbours=neighbours, filter=filter, reserved_delta=reserved_delta, plan=found,
        name=name,
    )  # fmt: skip
    with contextlib.closing(ledger):
        _state(ledger).print(as_json=json)


def show(journal: File, name: Named = None, anchor: Anchored = None, json: Json = False) -> None:
    """What is spent, what is left, and what may be said about it."""
    with contextlib.closing(_opened(journal, name, anchor)) as ledger:
        _state(ledger).print(as_json=json)


def history(journal: File, name: Named = None, anchor: Anchored = None, json: Json = False) -> None:
    """Every entry of the journal, oldest first."""
    from ledgerwood.accounting.costs import serialization

    with contextlib.closing(_opened(journal, name, anchor)) as ledger:
        entries = ledger.journal()
    rows: list[dict[str, Any]] = []
    for number, entry in enumerate(entries, start=1):
        place = "" if entry.block is None else f"block {entry.block}, part {entry.part}"
        cost = None if entry.cost is None else serialization.to_dict(entry.cost)
        rows.append({"entry": number, "at": entry.at, "kind": entry.kind, "label": entry.label, "cost": cost})
        rows[-1] |= {"private": entry.private, "place": place, "who": entry.who}
    answer = CommandOutput(rows)
    if rows:
        costs = [repr(entry.cost) if entry.cost is not None else "" for entry in entries]
        cells = [[r["entry"], r["at"], r["kind"], r["label"], c, r["place"]] for r, c in zip(rows, costs)]
        answer.table(["entry", "time (UTC)", "kind", "label", "cost", "place"], cells)
    else:
        answer.say("Nothing has been released yet.")
    answer.print(as_json=json)


def _opened(journal: str, name: str | None, anchor: str | None) -> Ledger:
    from ledgerwood.accounting import Ledger
    from ledgerwood.accounting.ledger.database import is_database

    if is_database(journal):
        return Ledger.open(journal, name=name, anchor=anchor)
    if not os.path.isfile(journal):
        raise FormatError(f"there is no journal {journal!r}; open one with 'ledgerwood budget open'")
    if os.path.getsize(journal) == 0:
        raise FormatError(f"{journal!r} is empty: no budget was opened in it")
    return Ledger.open(journal, anchor=anchor)


def _state(ledger: Ledger) -> CommandOutput:
    spent, left = ledger.spent(), ledger.remaining()
    unit = "share of the plan" if spent.filter is None else spent.filter.unit
    entries = ledger.journal()
    data = {
        "journal": ledger.place,
        "spent": {"amount": spent.amount, "epsilon": spent.epsilon, "fraction": spent.fraction},
        "remaining": {"amount": left.amount, "epsilon": left.epsilon, "fraction": left.fraction},
        "limit": spent.limit,
        "delta": spent.delta,
        "filter": None if spent.filter is None or not spent.is_chosen else spent.filter.name,
        "unit": unit,
        "entries": len(entries),
        "releases": sum(entry.kind == "release" for entry in entries),
        "odometer": ledger.odometer(),
        "anchor": str(ledger.anchor),
        "statement": ledger.statement(),
    }
    answer = CommandOutput(data)
    rows = [
        ["spent", f"{100 * spent.fraction:.2f} %", f"{spent.amount:.6g}"],
        ["left", f"{100 * left.fraction:.2f} %", f"{left.amount:.6g}"],
        ["limit", "100.00 %", f"{spent.limit:.6g}"],
    ]
    if spent.filter is not None and spent.filter.name == "pure" and spent.delta:
        for row, balance in zip(rows, (spent.reserved_delta, left.reserved_delta, spent.delta)):
            row.append(f"{balance:.3g}")
    answer.table(["budget", "part", unit, "delta"][: len(rows[0])], rows)
    if not spent.is_chosen:
        answer.say("The first request chooses how the budget is counted: a training, in epsilon and delta.")
    answer.say(f"{data['releases']} releases. Anchor, to be kept elsewhere: {data['anchor']}")
    return answer.say(ledger.statement())
