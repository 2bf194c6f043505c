"""``train``, ``predict`` and ``report``: a table and its public facts in; a model, its journal and its report out."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from ledgerwood.app.options import Delta, Json, examples, number
from ledgerwood.app.show import Answer, progress
from ledgerwood.errors import FormatError, ParameterError

Table = Annotated[str, typer.Argument(metavar="TABLE", show_default=False, help="A .csv or .parquet file.")]
Model = Annotated[str, typer.Argument(metavar="MODEL", show_default=False, help="A model that train wrote.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(
        short_help="A private model from a table and its schema.",
        epilog=examples(
            "ledgerwood train adult.csv --target income --schema schema.json --epsilon 1 --model adult.json",
            "ledgerwood train adult.csv --target income --schema schema.json --recipe xgb --trees 10 --depth 3 "
            "--model small.json --report report.html --journal small.jsonl",
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
        short_help="One page about a model.", epilog=examples("ledgerwood report adult.json --output adult.html")
    )(report)


def train(
    table: Table,
    target: Annotated[str, typer.Option(help="The column to predict.")],
    model: Annotated[str, typer.Option("--model", "-m", metavar="FILE", help="Where the model goes.")],
    schema: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Public facts, as Schema.to_json() writes them; what it does not say is learned privately.",
        ),
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="classification or regression; read from the schema by default.")
    ] = None,
    recipe: Annotated[str, typer.Option(help="How trees are grown.")] = "auto",
    trees: Annotated[int | None, typer.Option(help="The number of trees.")] = None,
    depth: Annotated[int | None, typer.Option(help="The depth of a tree.")] = None,
    epsilon: Annotated[float, typer.Option("--epsilon", "-e", parser=number, metavar="NUMBER")] = 1.0,
    delta: Delta = None,
    journal: Annotated[
        str | None, typer.Option(metavar="FILE", help="Keep the ledger of this training in a new file.")
    ] = None,
    budget: Annotated[
        str | None, typer.Option(metavar="FILE", help="Charge a durable budget: see ledgerwood budget open.")
    ] = None,
    report: Annotated[str | None, typer.Option(metavar="FILE", help="Also write a report.")] = None,
    json: Json = False,
) -> None:
    """Train a private model on a TABLE, a .csv or .parquet file.

    The guarantee and the plan are shown, the model holds released numbers only.
    """
    from ledgerwood import learners

    if journal is not None and budget is not None:
        raise ParameterError("journal", "be given without a budget: the budget has a journal of its own", journal)
    facts = None if schema is None else learners.Schema.from_json(_read_text(schema))
    rows = read_table(table)
    if target not in rows.columns:
        raise ParameterError("target", f"be a column of {table}", target)
    X, y = rows.drop(columns=[target]), rows[target]
    kinds: dict[str, Any] = {
        "classification": learners.PrivateBoostingClassifier,
        "regression": learners.PrivateBoostingRegressor,
    }
    task = task or ("regression" if facts is not None and facts.target_bounds is not None else "classification")
    if task not in kinds:
        raise ParameterError("task", "be classification or regression", task)
    estimator = kinds[task](recipe=recipe, n_trees=trees, max_depth=depth, epsilon=epsilon, delta=delta, schema=facts)
    progress(f"training {recipe} on {table} ...")
    with contextlib.ExitStack() as closing:
        ledger = _ledger(estimator, X, y, journal, budget)
        if ledger is not None:
            closing.enter_context(contextlib.closing(ledger))
        estimator.fit(X, y, ledger=ledger)
    estimator.save(model)
    if report is not None:
        from ledgerwood.app import report as write

        write(estimator, report)
    statement = estimator.privacy_statement()
    data = {
        "model": model,
        "report": report,
        "journal": journal or budget,
        "releases": list(estimator.plan_.table()),
        "statement": statement.to_dict(),
    }
    answer = Answer(data)
    cells = [[r["label"], r["times"], r["noise"], r["scale"], f"{100 * r['spend']:.1f} %"] for r in data["releases"]]
    answer.table(["release", "times", "noise", "value", "budget"], cells)
    answer.say(str(statement))
    written = ", ".join(name for name in (model, report, journal) if name)
    answer.say(f"Written: {written}").print(as_json=json)


def predict(
    model: Model,
    table: Table,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="A .csv or .parquet file; else print.")
    ] = None,
    probabilities: Annotated[bool, typer.Option("--probabilities", help="One column per class.")] = False,
    json: Json = False,
) -> None:
    """Predict the rows of a .csv or .parquet TABLE; the columns of the model are found by name, others are left out."""
    import pandas as pd

    from ledgerwood import learners

    found = learners.load(model)
    rows = read_table(table)
    names = [str(name) for name in getattr(found, "feature_names_in_", rows.columns)]
    missing = [name for name in names if name not in rows.columns]
    if missing:
        raise FormatError(f"{table} has no column {missing[0]!r}, which the model needs")
    if probabilities:
        if not hasattr(found, "predict_proba"):
            raise ParameterError("probabilities", "be asked of a classifier", type(found).__name__)
        values = found.predict_proba(rows[names])
        frame = pd.DataFrame(values, columns=[str(label) for label in found.classes_])
    else:
        frame = pd.DataFrame({"prediction": found.predict(rows[names])})
    if output is not None:
        _write_table(frame, output)
        Answer({"rows": len(frame), "output": output}).say(f"{len(frame)} rows written to {output}").print(as_json=json)
    elif json:
        Answer(frame.to_dict(orient="list")).print(as_json=True)
    else:
        print(frame.to_csv(index=False), end="")


def report(
    model: Model,
    output: Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="Where the page goes.")] = "report.html",
    json: Json = False,
) -> None:
    """Write one self-contained page: statement, plan and ledger, the model in pictures, how to reproduce it."""
    from ledgerwood import learners
    from ledgerwood.app import report as write

    path = write(learners.load(model), output)
    Answer({"report": str(path)}).say(f"Written: {path}").print(as_json=json)


def read_table(path: str) -> Any:
    """Return a CSV or Parquet file as a pandas table."""
    import pandas as pd

    if not os.path.isfile(path):
        raise FormatError(f"there is no file {path!r}")
    kind = Path(path).suffix.lower()
    if kind not in (".csv", ".parquet", ".pq"):
        raise FormatError(f"{path} must end in .csv or .parquet")
    try:
        return pd.read_csv(path) if kind == ".csv" else pd.read_parquet(path)
    except (ValueError, OSError):  # the parser's message may quote data
        raise FormatError(f"{path} could not be read as {kind[1:]}") from None


def _write_table(frame: Any, path: str) -> None:
    kind = Path(path).suffix.lower()
    if kind in (".parquet", ".pq"):
        frame.to_parquet(path)
    elif kind == ".csv":
        frame.to_csv(path, index=False)
    else:
        raise FormatError(f"{path} must end in .csv or .parquet")


def _read_text(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def _ledger(estimator: Any, X: Any, y: Any, journal: str | None, budget: str | None) -> Any:
    from ledgerwood.accounting import Ledger

    if budget is not None:
        if not os.path.isfile(budget):
            raise FormatError(f"there is no journal {budget!r}; open one with 'ledgerwood budget open'")
        return Ledger.open(budget)
    if journal is None:
        return None
    if os.path.exists(journal):
        raise ParameterError("journal", "be a new file", journal)
    return Ledger.open(journal, plan=estimator.plan(X, y))
