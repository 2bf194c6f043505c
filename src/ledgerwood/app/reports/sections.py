"""Sections of a report: the guarantee, the plan, and for models of several parties what each of them released."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ledgerwood.app import curves
from ledgerwood.app.output import price
from ledgerwood.app.reports import html, plots

if TYPE_CHECKING:
    from ledgerwood.accounting import Plan
    from ledgerwood.learners.federated.coordinator import Federation
    from ledgerwood.learners.vertical import VerticalModel


_READABLE = 16  # leaves of a tree that is drawn

_LISTED = 12  # features or coefficients that are listed


def plan_table(plan: Plan, counts: dict[str, int] | None = None) -> str:
    """Return the plan's releases, beside what a journal says was released, and where the budget goes."""
    rows = []
    for row in plan.table():
        noise = f"{row['noise'] or 'scale'} = {row['scale']:.6g}" if row["scale"] else ""
        planned = [row["label"], row["cost"], noise, row["times"]]
        done = [] if counts is None else [counts.get(row["label"], 0)]
        rows.append([*planned, *done, *("yes" if done[0] == row["times"] else "no" for _ in done)])
    columns = ["Release", "Cost", "Noise", "Planned", *(["Released", "As planned"] if counts is not None else [])]
    listed = html.table("The plan and what was released", columns, rows, numbers=("Planned", "Released"))
    return listed + html.figure(lambda: plots.plot_plan(plan), "Where the budget goes")


def guarantee(plan: Plan, unit_rows: int = 1) -> str:
    """Return the price by every accountant, what an attacker could tell, and both curves."""
    account = plan.account()
    delta = plan.delta or 0.0
    rows = [
        (curves.NAMES[name], price(value), "the tightest" if name == account.method else "")
        for name, value in account.table.items()
        if isinstance(value, float)
    ]
    others = [curves.NAMES[name] for name, value in account.table.items() if not isinstance(value, float)]
    listed = html.table("Epsilon by every accountant", ["Accountant", "Epsilon", "Note"], rows, numbers=("Epsilon",))
    listed = html.paragraph(f"Epsilon at delta = {price(delta)}, by every accountant that can price it:") + listed
    if others:
        listed += html.paragraph(f"Not for these releases: {'; '.join(others)}.")
    words = curves.attack_sentence(plan.cost.tpr(curves.FALSE_ALARM), str(plan.neighbours), unit_rows)
    profile = html.figure(
        lambda: plots.plot_profile(plan.cost, delta=delta, axes=plots.new_axes(4.4, 3.6)),
        "The privacy profile: every point of it holds.",
        "The privacy profile: delta falls as epsilon grows.",
    )
    attack = html.figure(
        lambda: plots.plot_tradeoff(plan.cost, delta=delta, axes=plots.new_axes(4.4, 3.6)),
        "What an attacker must put up with: below the line nobody gets.",
        words,
    )
    return listed + html.paragraph(words) + html.side_by_side(profile, attack)


def _rows_of_a_unit(model: Any) -> int:
    return int(getattr(model.schema, "max_rows_per_unit", 1))  # it is a Schema, None or "data"


def _vertical(model: VerticalModel) -> Iterator[str]:
    theirs = sum(len(party.transformer.release_.columns) for party in model.parties)
    yield html.key_values(
        [
            ("Parties that sent columns", str(len(model.parties))),
            ("Randomised columns", str(theirs)),
            ("Columns of the party that trained", str(len(model.own))),
        ]
    )
    yield html.statement(model.statement().splitlines())
    for party in model.parties:
        yield html.section(f"What {party.party} released", _released(party))
    yield html.section("The model", _splits(model))


def _released(party: Any) -> str:
    """Exact losses and order of every column that a party sent."""
    from ledgerwood._rounding import format_up_short
    from ledgerwood.learners.vertical.release import column_summary

    ordered, nominal = [], []
    for column in party.transformer.release_.columns:
        summary = column_summary(column)
        if summary["kind"] == "nominal":
            nominal.append([summary["name"], len(summary["categories"]), format_up_short(summary["epsilon"])])
            continue
        far = summary["levels"] - 1
        profile = summary["profile"]
        losses = ["infinite" if profile[t] is None else format_up_short(profile[t]) for t in (1, far)]
        kept = f"{math.floor(1e4 * summary['order'][far]) / 1e4:.4f}"
        ordered.append([summary["name"], summary["levels"], *losses, kept, summary["mechanism"]])
    parts = []
    if ordered:
        columns = ["Column", "Levels", "Epsilon, one level apart", "Epsilon, any two", "Extremes keep order", "Map"]
        parts.append(html.table("Ordered columns", columns, ordered, numbers=columns[1:5]))
    if nominal:
        columns = ["Column", "Categories", "Epsilon, any two"]
        parts.append(html.table("Columns of categories", columns, nominal, numbers=columns[1:]))
    record = party.transformer.privacy_statement().to_dict()["record_epsilon"]
    whole = "has no finite epsilon" if record is None else f"costs epsilon = {format_up_short(record)} at most"
    return "".join(parts) + html.paragraph(f"One whole record, all columns together, {whole}.")


def _splits(model: VerticalModel) -> str:
    rows = [
        (party.party, name, len(values))
        for party in model.parties
        for name, values in zip(party.names, party.values, strict=True)
    ]
    listed = html.table(
        "Split values", ["Party", "Column", "Split values asked for"], rows, numbers=("Split values asked for",)
    )
    learner = html.paragraph(f"{type(model.learner).__name__}, trained on ranks of randomized values.")
    return (
        learner
        + listed
        + html.paragraph("A split value is one of the randomized values; asking for it costs nothing more.")
    )


_NOISE = {"shares": "a share by each party", "central": "by the server", "local": "by each record"}


def _federated(federation: Federation) -> Iterator[str]:
    task = federation.task
    yield html.key_values(
        [
            ("Epsilon", price(task.epsilon)),
            ("Delta", price(task.delta)),
            ("Parties", f"{len(task.identities)}, sums of {task.threshold} or more"),
            ("Noise", _NOISE[task.noise]),
        ]
    )
    yield html.statement([federation.statement()])
    yield html.section("The plan", plan_table(task.plan))
    yield html.section("The guarantee", guarantee(task.plan))
    yield html.section("The rounds", _rounds(federation))


def _rounds(federation: Federation) -> str:
    rows = [(number, len(one), ", ".join(map(str, one))) for number, one in enumerate(federation.survivors, start=1)]
    many = rows if len(rows) <= 20 else [*rows[:10], ("…", "…", "…"), *rows[-5:]]
    listed = html.table("Rounds", ["Round", "Parties", "Who answered"], many, numbers=("Round", "Parties"))
    summary = (
        f"Recipe {federation.task.recipe}. {federation.rounds} rounds were opened, {federation.failed} failed; "
        f"{federation.bytes_received:,} bytes reached the server."
    )
    refused = "".join(html.paragraph(f"Refused: {reason}") for reason in federation.refusals)
    return html.paragraph(summary) + listed + refused


TITLES = {"VerticalModel": "A model across parties with different columns", "Federation": "A federated model"}

PAGES: dict[str, Callable[[Any], Iterator[str]]] = {"VerticalModel": _vertical, "Federation": _federated}
