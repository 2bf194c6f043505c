"""``plan``: what a training run would release, with how much noise, and what may be published about it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ledgerwood.app.options import Delta, Depth, Features, Json, Relation, Rows, Target, Trees, examples, number, whole
from ledgerwood.app.show import Answer, price
from ledgerwood.errors import ParameterError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        short_help="Noise, price and statement of a training run.",
        epilog=examples(
            "ledgerwood plan --recipe xgb --rows 32561 --features 14 --trees 50 --depth 4 --epsilon 1",
            "ledgerwood plan --rows 1000000 --trees 20 --epsilon 0.5 --leaf-rows 50 --leaf-error 0.5",
            "ledgerwood plan --rows 32561 --epsilon 2 --save plan.json --json",
        ),
    )(plan)


def plan(
    recipe: Annotated[str, typer.Option(help="How trees are grown; see ledgerwood compare --recipes.")] = "auto",
    rows: Rows = 32561,
    features: Features = 14,
    trees: Trees = None,
    depth: Depth = None,
    epsilon: Target = 1.0,
    delta: Delta = None,
    share: Annotated[
        float | None,
        typer.Option(parser=number, metavar="NUMBER", help="The part of the budget for choosing splits."),
    ] = None,
    neighbours: Relation = "add_remove",
    leaf_rows: Annotated[
        int, typer.Option(parser=whole, metavar="INTEGER", help="How wrong is a leaf with so many rows?")
    ] = 50,
    leaf_error: Annotated[
        float | None,
        typer.Option(parser=number, metavar="NUMBER", help="How many trees keep the error of such a leaf below this?"),
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="What each part costs alone.")] = False,
    save: Annotated[str | None, typer.Option("--save", metavar="FILE", help="Write the plan as JSON.")] = None,
    json: Json = False,
) -> None:
    """Plan a training run from public facts: noise, price by every method, and the sentence you may publish."""
    from ledgerwood.app import planning
    from ledgerwood.app.commands.prices import method_rows, write_plan

    if leaf_rows < 1:
        raise ParameterError("leaf-rows", "be at least 1", leaf_rows)
    if leaf_error is not None and leaf_error <= 0:
        raise ParameterError("leaf-error", "be positive", leaf_error)
    given = {"rows": rows, "features": features, "epsilon": epsilon, "delta": delta}
    facts = planning.Facts.of_recipe(recipe, trees, depth, **given, share=share, neighbours=neighbours)
    found = facts.plan()
    if save is not None:
        write_plan(found, save)
    account = found.account()
    error = planning.LeafNoise.of(facts, found).error(leaf_rows)
    data: dict[str, Any] = {
        "facts": facts.to_dict(),
        "releases": list(found.table()),
        "account": account.to_dict(),
        "leaf": {"rows": leaf_rows, "error": error},
        "statement": found.statement(),
        "command": facts.command(),
    }
    answer = Answer(data)
    if trees is None and depth is None and (other := facts.elsewhere()) is not None:
        data["train_chooses"] = other
        answer.say(f"For so little budget 'ledgerwood train' chooses {other}; this is a plan for trees.")
    answer.say(
        f"{recipe}: {facts.trees} trees of depth {facts.depth} on {rows:,} rows and {features} features, "
        f"epsilon = {epsilon:g}, delta = {facts.target_delta:.5g}"
    )
    parts = [[r["label"], r["times"], r["noise"], r["scale"], f"{100 * r['spend']:.1f} %"] for r in data["releases"]]
    answer.table(["release", "times", "noise", "value", "budget"], parts)
    answer.table(["method", "epsilon", "note"], method_rows(account))
    answer.say(f"The weight of a leaf with {leaf_rows} rows is off by about {error:.3g} (log-odds).")
    if leaf_error is not None:
        most = planning.trees_for_error(facts, leaf_rows, leaf_error)
        data["leaf"] |= {"limit": leaf_error, "trees": most}
        answer.say(f"At most {most} trees keep it within {leaf_error:g} (by Rényi accounting).")
    if explain:
        rows_of = [row for row in found.explain() if row["part"] != "whole plan"]
        data["alone"] = rows_of
        cells = [[r["part"], price(r["epsilon"]), price(r["epsilon_of_the_rest"])] for r in rows_of]
        answer.table(["part", "epsilon alone", "epsilon of the rest"], cells)
    answer.say("You may publish:\n" + found.statement())
    answer.print(as_json=json)
