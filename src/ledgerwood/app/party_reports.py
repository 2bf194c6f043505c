"""Reports of models that several parties made: what each of them gave away, and what the model is made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ledgerwood.app import pieces
from ledgerwood.app.show import price

if TYPE_CHECKING:
    from ledgerwood.learners.federated.coordinator import Federation
    from ledgerwood.learners.vertical import VerticalModel


def _vertical(model: VerticalModel) -> Iterator[str]:
    theirs = sum(len(party.transformer.release_.columns) for party in model.parties)
    yield pieces.facts(
        [
            ("Parties that sent columns", str(len(model.parties))),
            ("Randomised columns", str(theirs)),
            ("Columns of the party that trained", str(len(model.own))),
        ]
    )
    yield pieces.statement(model.statement().splitlines())
    for party in model.parties:
        yield pieces.section(f"What {party.party} released", _released(party))
    yield pieces.section("The model", _splits(model))


def _released(party: Any) -> str:
    """Exact losses and order of every column that a party sent."""
    from ledgerwood.learners.vertical.statement import column_facts, rounded_up

    ordered, nominal = [], []
    for column in party.transformer.release_.columns:
        facts = column_facts(column)
        if facts["kind"] == "nominal":
            nominal.append([facts["name"], len(facts["categories"]), rounded_up(facts["epsilon"])])
            continue
        far = facts["levels"] - 1
        losses = ["infinite" if facts["profile"][t] is None else rounded_up(facts["profile"][t]) for t in (1, far)]
        kept = f"{math.floor(1e4 * facts['order'][far]) / 1e4:.4f}"
        ordered.append([facts["name"], facts["levels"], *losses, kept, facts["mechanism"]])
    parts = []
    if ordered:
        columns = ["Column", "Levels", "Epsilon, one level apart", "Epsilon, any two", "Extremes keep order", "Map"]
        parts.append(pieces.table("Ordered columns", columns, ordered, numbers=columns[1:5]))
    if nominal:
        columns = ["Column", "Categories", "Epsilon, any two"]
        parts.append(pieces.table("Columns of categories", columns, nominal, numbers=columns[1:]))
    record = party.transformer.privacy_statement().to_dict()["record_epsilon"]
    whole = "has no finite epsilon" if record is None else f"costs epsilon = {rounded_up(record)} at most"
    return "".join(parts) + pieces.paragraph(f"One whole record, all columns together, {whole}.")


def _splits(model: VerticalModel) -> str:
    rows = [
        (party.party, name, len(values))
        for party in model.parties
        for name, values in zip(party.names, party.values, strict=True)
    ]
    listed = pieces.table(
        "Split values", ["Party", "Column", "Split values asked for"], rows, numbers=("Split values asked for",)
    )
    learner = pieces.paragraph(f"{type(model.learner).__name__}, trained on ranks of randomised values.")
    return (
        learner
        + listed
        + pieces.paragraph("A split value is one of the randomised values; asking for it costs nothing more.")
    )


_NOISE = {"shares": "a share by each party", "central": "by the server", "local": "by each record"}


def _federated(federation: Federation) -> Iterator[str]:
    from ledgerwood.app.reports import guarantee, plan_table

    task = federation.task
    yield pieces.facts(
        [
            ("Epsilon", price(task.epsilon)),
            ("Delta", price(task.delta)),
            ("Parties", f"{len(task.identities)}, sums of {task.threshold} or more"),
            ("Noise", _NOISE[task.noise]),
        ]
    )
    yield pieces.statement([federation.statement()])
    yield pieces.section("The plan", plan_table(task.plan))
    yield pieces.section("The guarantee", guarantee(task.plan))
    yield pieces.section("The rounds", _rounds(federation))


def _rounds(federation: Federation) -> str:
    rows = [(number, len(one), ", ".join(map(str, one))) for number, one in enumerate(federation.survivors, start=1)]
    many = rows if len(rows) <= 20 else [*rows[:10], ("…", "…", "…"), *rows[-5:]]
    listed = pieces.table("Rounds", ["Round", "Parties", "Who answered"], many, numbers=("Round", "Parties"))
    facts = (
        f"Recipe {federation.task.recipe}. {federation.rounds} rounds were opened, {federation.failed} failed; "
        f"{federation.bytes_received:,} bytes reached the server."
    )
    refused = "".join(pieces.paragraph(f"Refused: {reason}") for reason in federation.refusals)
    return pieces.paragraph(facts) + listed + refused


TITLES = {"VerticalModel": "A model across parties with different columns", "Federation": "A federated model"}
PAGES: dict[str, Callable[[Any], Iterator[str]]] = {"VerticalModel": _vertical, "Federation": _federated}
