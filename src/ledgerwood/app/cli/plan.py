"""``plan``: what a training run would release, with how much noise, and what may be published about it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ledgerwood.app.cli.options import (
    Delta,
    Depth,
    Json,
    Relation,
    Target,
    Trees,
    examples,
    number_option,
    recipe_names,
    whole_option,
)
from ledgerwood.app.output import CommandOutput, price
from ledgerwood.errors import ParameterError

TASKS = ("classification", "regression")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        short_help="Noise, price and statement of a training run.",
        epilog=examples(
            "ledgerwood plan --rows 32561 --features 14 --categories 8 --epsilon 1 --explain",
            "ledgerwood plan --recipe xgb --rows 32561 --features 14 --trees 50 --depth 4 --epsilon 1",
            "ledgerwood plan --rows 1000000 --trees 20 --epsilon 0.5 --leaf-rows 50 --leaf-error 0.5",
            "ledgerwood plan --schema schema.json --rows 32561 --epsilon 2 --save plan.json --json",
        ),
    )(plan)


def plan(
    recipe: Annotated[
        str,
        typer.Option(
            autocompletion=recipe_names,
            help="auto (what train does by itself), linear, or a recipe: see compare --recipes all.",
        ),
    ] = "auto",
    rows: Annotated[
        int | None, whole_option("The public number of rows.", show_default="32561, or the schema's")
    ] = None,
    features: Annotated[int | None, whole_option("The number of columns.", show_default="14, or the schema's")] = None,
    categories: Annotated[int, whole_option("How many of the columns are categories.")] = 0,
    classes: Annotated[int, whole_option("The number of classes.")] = 2,
    task: Annotated[str | None, typer.Option(help="classification or regression.", show_default=False)] = None,
    schema: Annotated[
        str | None, typer.Option(metavar="FILE", help="Take columns, classes, unit and relation from a schema.")
    ] = None,
    trees: Trees = None,
    depth: Depth = None,
    epsilon: Target = 1.0,
    delta: Delta = None,
    share: Annotated[
        float | None,
        number_option("The part of the budget for choosing splits."),
    ] = None,
    neighbours: Relation = "add_remove",
    learned: Annotated[
        int, whole_option("How many columns of numbers, perhaps the target, have no public bounds: they are learned.")
    ] = 0,
    unit_rows: Annotated[int, whole_option("How many rows one person may have.")] = 1,
    leaf_rows: Annotated[int, whole_option("How wrong is a leaf with this many rows?")] = 50,
    leaf_error: Annotated[
        float | None,
        number_option("How many trees keep the error of such a leaf below this?"),
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Why this model, and what each part costs alone.")] = False,
    save: Annotated[str | None, typer.Option("--save", metavar="FILE", help="Write the plan as JSON.")] = None,
    json: Json = False,
) -> None:
    """Plan a training run from public metadata: noise, price by every method, and the sentence you may publish."""
    from ledgerwood.app.cli.files import check_output
    from ledgerwood.app.cli.price import method_rows, write_plan
    from ledgerwood.app.leaf_noise import LeafNoise, trees_for_error
    from ledgerwood.app.plan_request import PlanRequest

    if leaf_rows < 1:
        raise ParameterError("leaf-rows", "be at least 1", leaf_rows)
    if leaf_error is not None and leaf_error <= 0:
        raise ParameterError("leaf-error", "be positive", leaf_error)
    if task is not None and task not in TASKS:
        raise ParameterError("task", f"be {' or '.join(TASKS)}", task)
    check_output("save", save)
    given: dict[str, Any] = {"categories": categories, "learned": learned, "unit_rows": unit_rows}
    given["classes"] = 0 if task == "regression" else classes
    given |= {"rows": rows, "features": features, "neighbours": neighbours}
    if schema is not None:
        given = _from_schema(schema, given, task)
    given = {name: value for name, value in given.items() if value is not None}
    request = PlanRequest(recipe=recipe, epsilon=epsilon, delta=delta, trees=trees, depth=depth, share=share, **given)
    found = request.plan()
    if save is not None:
        write_plan(found, save)
    account = found.account(lower_end=False)
    data: dict[str, Any] = {
        "facts": request.to_dict(),
        "model": request.what(),
        "releases": list(found.table()),
        "account": {name: value for name, value in account.to_dict().items() if name != "lower"},
        "leaf": None,
        "statement": request.statement(found),
        "cautions": request.cautions(),
        "command": request.command(),
        "python": request.python(),
    }
    answer = CommandOutput(data)
    answer.say(
        f"{request.what()}, on {request.rows:,} rows and {request.features} features, "
        f"epsilon = {epsilon:g}, delta = {request.target_delta:.5g}"
    )
    answer.releases(data["releases"])
    answer.table(["method", "epsilon", "note"], method_rows(account))
    leaf = LeafNoise.of(request, found)
    if leaf is None:
        answer.say("A linear model has no leaves.")
    else:
        error = leaf.error(leaf_rows)
        data["leaf"] = {"rows": leaf_rows, "error": error, "unit": leaf.unit}
        answer.say(f"The weight of a leaf with {leaf_rows} rows is off by about {error:.3g} ({leaf.unit}).")
        if leaf_error is not None:
            most = trees_for_error(request, leaf_rows, leaf_error)
            data["leaf"] |= {"limit": leaf_error, "trees": most}
            answer.say(f"At most {most} trees keep it within {leaf_error:g} (by Rényi accounting).")
    if explain:
        _explain(answer, request, found)
    answer.say("You may publish:\n" + data["statement"])
    answer.print(as_json=json)


def _explain(answer: CommandOutput, request: Any, plan: Any) -> None:
    choice = request.training.choice
    if choice is not None:
        answer.data["choice"] = [{"name": r.name, "value": r.value, "why": r.why} for r in choice.reasons]
        answer.table(["setting", "value", "why"], [[r.name, r.value, r.why] for r in choice.reasons])
    alone = [row for row in plan.explain() if row["part"] != "whole plan"]
    answer.data["alone"] = alone
    cells = [[r["part"], price(r["epsilon"]), price(r["epsilon_of_the_rest"])] for r in alone]
    answer.table(["part", "epsilon alone", "epsilon of the rest"], cells)


def _from_schema(path: str, given: dict[str, Any], task: str | None) -> dict[str, Any]:
    """Return the fields of a request, with what a schema says in place of the flags."""
    from ledgerwood.app.cli.files import read_schema

    found = read_schema(path)
    assert found.bounds is not None and found.categories is not None and found.kinds is not None
    categories, declared = len(found.categories), len(found.bounds) + len(found.categories)
    open_ = [name for name, kind in found.kinds.items() if kind == "category" and name not in found.categories]
    if open_:
        raise ParameterError("schema", "declare the categories of every column of text for a plan", open_)
    features = declared if given["features"] is None else given["features"]
    if features < max(1, declared):
        raise ParameterError("features", f"be at least {max(1, declared)}, the columns of the schema", features)
    regression = task == "regression" or (task is None and found.target_bounds is not None)
    learned = features - declared + (regression and found.target_bounds is None)
    own = {"features": features, "categories": categories, "learned": learned, "neighbours": str(found.neighbours)}
    own["classes"] = 0 if regression else given["classes"] if found.classes is None else len(found.classes)
    rows = given["rows"] or (None if found.rows == "public" else found.rows)
    own |= {"unit_rows": found.max_rows_per_unit, "rows": rows}
    return own
