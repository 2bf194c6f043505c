"""``train``, ``predict`` and ``report``: a table and its public metadata in; a model, its journal and a report out."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ledgerwood.app.cli.files import check_output, read_schema, reading, write_table
from ledgerwood.app.cli.options import Delta, Depth, Json, Target, Trees, examples, recipe_names
from ledgerwood.app.output import CommandOutput
from ledgerwood.errors import FormatError, ParameterError, WeakGuarantee, did_you_mean

if TYPE_CHECKING:
    from ledgerwood.learners import Schema

AUTO, LINEAR = "auto", "linear"

Table = Annotated[
    str, typer.Argument(metavar="TABLE", show_default=False, help="A .csv or .parquet file, or a folder.")
]
Model = Annotated[str, typer.Argument(metavar="MODEL", show_default=False, help="A model that train wrote.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(
        short_help="A private model from a table and its schema.",
        epilog=examples(
            "ledgerwood train adult.csv --target income --schema schema.json --epsilon 1 --model adult.json",
            "ledgerwood train adult.csv --target income --schema schema.json --recipe xgb --trees 10 --depth 3 "
            "--model small.json --report report.html --journal small.jsonl",
            "ledgerwood train adult.csv --target income --schema schema.toml --recipe linear --model lin.json --json",
        ),
    )(train)
    app.command(
        short_help="Predictions of a model for a table.",
        epilog=examples(
            "ledgerwood predict adult.json adult.csv --output predictions.csv",
            "ledgerwood predict adult.json adult.csv --probabilities --json",
        ),
    )(predict)
    app.command(
        short_help="One page about a model.",
        epilog=examples(
            "ledgerwood report adult.json --output adult.html",
            "ledgerwood report small.json --audit audit.json --output small.html --json",
        ),
    )(report)


def train(
    table: Table,
    target: Annotated[str, typer.Option(help="The column to predict.")],
    model: Annotated[str, typer.Option("--model", "-m", metavar="FILE", help="Where the model goes.")],
    schema: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Public metadata, a .toml or .json file; what it does not say is learned privately.",
        ),
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="classification or regression; by default as the schema says.")
    ] = None,
    recipe: Annotated[
        str,
        typer.Option(
            autocompletion=recipe_names,
            help="auto (chosen from public metadata), linear, or a recipe for trees: see compare --recipes all.",
        ),
    ] = AUTO,
    trees: Trees = None,
    depth: Depth = None,
    epsilon: Target = 1.0,
    delta: Delta = None,
    journal: Annotated[
        str | None, typer.Option(metavar="FILE", help="Keep the ledger of this training in a new file.")
    ] = None,
    budget: Annotated[
        str | None, typer.Option(metavar="FILE", help="Charge a durable budget: see ledgerwood budget open.")
    ] = None,
    budget_name: Annotated[
        str | None, typer.Option(metavar="NAME", help="The budget's name, if --budget is a database's URL.")
    ] = None,
    report: Annotated[str | None, typer.Option(metavar="FILE", help="Also write a report.")] = None,
    json: Json = False,
) -> None:
    """Train a private model on a TABLE: a .csv, .parquet or .arrow file, or a folder of them.

    Each cell is read by itself, by what the schema or the file says of its column; values out of bounds are clipped,
    and records without a usable label are left out. The guarantee and the plan are shown; the model holds released
    numbers only.
    """
    if journal is not None and budget is not None:
        raise ParameterError("journal", "be given without a budget: the budget has a journal of its own", journal)
    for name, path in (("model", model), ("report", report), ("journal", journal)):
        check_output(name, path)
    import numpy as np

    from ledgerwood.learners import Schema
    from ledgerwood.learners.data.files import open_files, read_training
    from ledgerwood.learners.data.labels import usable_labels

    declared = Schema() if schema is None else read_schema(schema)
    files = open_files(table)
    if target not in files.names:
        raise ParameterError("target", f"be a column of {table}", target, did_you_mean(target, files.names))
    estimator = _estimator(_task(task, declared, schema), recipe, trees, depth)
    with reading(table) as progress:
        X, labels = read_training(files, target, declared, progress=progress)
    y, usable = usable_labels(labels, declared.classes)
    if declared.classes is not None:
        y = np.array(declared.classes)[y]
    estimator.set_params(epsilon=epsilon, delta=delta, schema=declared, verbose=int(sys.stderr.isatty()))
    with contextlib.ExitStack() as closing:
        ledger = _ledger(estimator, X, y, journal, budget, budget_name)
        if ledger is not None:
            closing.enter_context(contextlib.closing(ledger))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WeakGuarantee)  # the statement, which is shown, says it
            estimator._fit(X, y, ledger, rows=usable, drops_unlabelled=True)
    estimator.save(model)
    if report is not None:
        from ledgerwood.app.reports.report import report as write

        write(estimator, report)
    statement = estimator.privacy_statement()
    choice = getattr(estimator, "choice_", None)
    data = {
        "model": model,
        "report": report,
        "journal": journal or budget,
        "learner": type(estimator).__name__,
        "choice": None if choice is None else choice.model,
        "releases": list(estimator.plan_.table()),
        "statement": statement.to_dict(),
    }
    answer = CommandOutput(data)
    if choice is not None:
        answer.say(f"The model: {choice.model}.")
    answer.releases(data["releases"])
    answer.say(str(statement))
    written = ", ".join(name for name in (model, report, journal) if name)
    answer.say(f"Written: {written}").print(as_json=json)


def _task(asked: str | None, declared: Schema, schema: str | None) -> str:
    """Return the task that was asked for, or that of the schema. The target is not looked at: it is private."""
    if asked not in (None, "classification", "regression"):
        raise ParameterError("task", "be classification or regression", asked)
    if asked == "regression" and declared.classes is not None:
        raise ParameterError("task", "be classification: the schema declares classes", asked)
    if asked == "classification" and declared.classes is None:
        raise ParameterError(
            "schema", "declare the classes of a classification", schema,
            'Write them into the schema: classes = ["no", "yes"]. They are shown in the model, so they must be public',
        )  # fmt: skip
    if asked is None and declared.classes is None and declared.target_bounds is None:
        raise ParameterError(
            "schema", "declare the classes or the target_bounds", schema,
            'Write classes = ["no", "yes"] or target_bounds = [0, 100] into the schema; --task regression without '
            'target_bounds has them learned privately. "ledgerwood schema draft" writes a first version of a schema',
        )  # fmt: skip
    return "regression" if declared.classes is None else "classification"


def _estimator(task: str, recipe: str, trees: int | None, depth: int | None) -> Any:
    from ledgerwood import learners

    classify = task == "classification"
    if recipe == LINEAR:
        if trees is not None or depth is not None:
            raise ParameterError("trees", "be left out: a linear model has none", trees if depth is None else depth)
        return learners.BoostedAdaSSPClassifier() if classify else learners.BoostedAdaSSPRegressor()
    if recipe == AUTO and trees is None and depth is None:
        return learners.PrivateClassifier() if classify else learners.PrivateRegressor()
    kind: Any = learners.PrivateBoostingClassifier if classify else learners.PrivateBoostingRegressor
    return kind(recipe=recipe, n_trees=trees, max_depth=depth)


def predict(
    model: Model,
    table: Table,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="A .csv or .parquet file; else print.")
    ] = None,
    probabilities: Annotated[bool, typer.Option("--probabilities", help="One column per class.")] = False,
    json: Json = False,
) -> None:
    """Predict the rows of a TABLE, read as train reads it; the model's columns are found by name, others left out."""
    import pandas as pd

    check_output("output", output, ".csv", ".parquet", ".pq")
    from ledgerwood.learners.data.files import open_files

    found = _loaded(model)
    files = open_files(table)
    names = [str(name) for name in getattr(found, "feature_names_in_", files.names)]
    missing = [name for name in names if name not in files.names]
    if missing:
        raise FormatError(f"{table} has no column {missing[0]!r}, which the model needs")
    numbers = frozenset(str(column.name) for column in found.columns_ if column.kind == "number")
    with reading(table) as progress:
        rows = files.read(names, numbers=numbers, progress=progress)
    if not len(rows):
        raise FormatError(f"{table} has no rows")
    if probabilities:
        if not hasattr(found, "predict_proba"):
            raise ParameterError("probabilities", "be asked of a classifier", type(found).__name__)
        values = found.predict_proba(rows)
        frame = pd.DataFrame(values, columns=[str(label) for label in found.classes_])
    else:
        frame = pd.DataFrame({"prediction": found.predict(rows)})
    if output is not None:
        write_table(frame, output)
        CommandOutput({"rows": len(frame), "output": output}).say(f"{len(frame)} rows written to {output}").print(
            as_json=json
        )
    elif json:
        CommandOutput(frame.to_dict(orient="list")).print(as_json=True)
    else:
        print(frame.to_csv(index=False), end="")


def report(
    model: Model,
    output: Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="Where the page goes.")] = "report.html",
    audit: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="An audit of the model's learner and recipe: what ledgerwood audit --json printed."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Write one self-contained page: statement, plan and ledger, the model in pictures, how to reproduce it.

    MODEL is a file that train wrote, or a federated model.
    """
    from ledgerwood.app.reports.report import report as write

    check_output("output", output)
    result = None
    if audit is not None:
        from ledgerwood.verification import AuditReport

        with open(audit, encoding="utf-8", errors="replace") as file:
            result = AuditReport.from_json(file.read())
    path = write(_federation(model) or _loaded(model), output, audit=result)
    CommandOutput({"report": str(path)}).say(f"Written: {path}").print(as_json=json)


def _federation(model: str) -> Any:
    """Return a federated model if the file holds one."""
    with open(model, "rb") as file:
        if b'"ledgerwood.federation"' not in file.read(200):
            return None
    from ledgerwood.learners.federated.coordinator import Federation

    return Federation.load(model)


def _loaded(model: str) -> Any:
    from ledgerwood import learners

    try:
        return learners.load(model)
    except FormatError as error:
        raise FormatError(f"{model} is not a model that 'ledgerwood train' or save() wrote: {error}") from None


def _ledger(estimator: Any, X: Any, y: Any, journal: str | None, budget: str | None, name: str | None) -> Any:
    from ledgerwood.accounting import Ledger
    from ledgerwood.accounting.ledger.database import is_database

    if budget is not None:
        if is_database(budget):
            return Ledger.open(budget, name=name)
        if not os.path.isfile(budget):
            raise FormatError(f"there is no journal {budget!r}; open one with 'ledgerwood budget open'")
        return Ledger.open(budget)
    if journal is None:
        return None
    if os.path.exists(journal):
        raise ParameterError("journal", "be a new file", journal)
    return Ledger.open(journal, plan=estimator.plan(X, y))
