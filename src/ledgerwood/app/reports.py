"""One self-contained page per training: what was promised, what was spent, what came out, how to do it again."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ledgerwood._version import __version__
from ledgerwood.app import curves, pieces, plots
from ledgerwood.app.show import price, shown
from ledgerwood.errors import ParameterError

if TYPE_CHECKING:
    from ledgerwood.accounting import Plan
    from ledgerwood.verification import AuditReport

_READABLE = 16  # leaves of a tree that is drawn
_LISTED = 12  # features or coefficients that are listed


def report(model: Any, path: str | os.PathLike[str], *, audit: AuditReport | None = None) -> Path:
    """Write a report of a fitted private model as one HTML file that loads nothing.

    Parameters
    ----------
    model
        A fitted estimator of :mod:`ledgerwood.learners`, a ``PrivateSearch``, a ``VerticalModel`` or a ``Federation``.
    path
        The file to write.
    audit
        The result of an audit of this kind of training, if one was run. It must name the same learner and recipe;
        what else differs is listed.
    """
    file = Path(path)
    file.write_text(page(model, audit=audit), encoding="utf-8")
    return file


def page(model: Any, *, audit: AuditReport | None = None) -> str:
    """Return the report as HTML."""
    kind = type(model).__name__
    model = getattr(model, "best_estimator_", model)  # a private search: the statement of its choice is about it all
    if hasattr(model, "receipt_"):
        name, body = _title(model), _of_estimator(model)
    elif kind in ("VerticalModel", "Federation"):
        from ledgerwood.app import party_reports

        name, body = party_reports.TITLES[kind], party_reports.PAGES[kind](model)
    else:
        raise ParameterError("model", "be a fitted private estimator", kind)
    audited = pieces.section("Audit", _audit(model, audit))  # first: it may be refused, and figures take their time
    return pieces.document(name, [*body, audited])


def _title(model: Any) -> str:
    choice = getattr(model, "choice_", None)
    name = type(model).__name__
    return name if choice is None else f"{name}: {choice.model}"


def _of_estimator(model: Any) -> Iterator[str]:
    statement = model.privacy_statement()
    if not statement.private:
        yield '<p class="warn">This fit is not private: see the statement.</p>'
    done, planned = len(model.receipt_), statement.planned
    yield pieces.facts(
        [
            ("Epsilon", price(statement.epsilon)),
            ("Delta", price(statement.delta)),
            ("Protected", statement.unit),
            ("Releases", f"{done}, as planned" if done == planned else f"{done} of {planned} planned"),
        ]
    )
    yield pieces.statement(statement.paragraphs())
    yield pieces.section("Plan and ledger", plan_table(model.plan_, model.receipt_.counts()))
    yield pieces.section("The guarantee", guarantee(model.plan_, _rows_of_a_unit(model)))
    yield pieces.section("The model", _model(model))
    yield pieces.section("Reproduce", _reproduce(model))


def plan_table(plan: Plan, counts: dict[str, int] | None = None) -> str:
    """Return the plan's releases, beside what a journal says was released, and where the budget goes."""
    rows = []
    for row in plan.table():
        noise = f"{row['noise'] or 'scale'} = {row['scale']:.6g}" if row["scale"] else ""
        planned = [row["label"], row["cost"], noise, row["times"]]
        done = [] if counts is None else [counts.get(row["label"], 0)]
        rows.append([*planned, *done, *("yes" if done[0] == row["times"] else "no" for _ in done)])
    columns = ["Release", "Cost", "Noise", "Planned", *(["Released", "As planned"] if counts is not None else [])]
    listed = pieces.table("The plan and what was released", columns, rows, numbers=("Planned", "Released"))
    return listed + pieces.figure(lambda: plots.plot_plan(plan), "Where the budget goes")


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
    listed = pieces.table("Epsilon by every accountant", ["Accountant", "Epsilon", "Note"], rows, numbers=("Epsilon",))
    listed = pieces.paragraph(f"Epsilon at delta = {price(delta)}, by every accountant that can price it:") + listed
    if others:
        listed += pieces.paragraph(f"Not for these releases: {'; '.join(others)}.")
    points = curves.profile(plan.cost, curves.grid(plan.epsilon or 1.0, 12), None)
    words = curves.attack_sentence(points, str(plan.neighbours), unit_rows)
    profile = pieces.figure(
        lambda: plots.plot_profile(plan.cost, delta=delta, axes=plots.new_axes(4.4, 3.6)),
        "The privacy profile: every point of it holds.",
        "The privacy profile: delta falls as epsilon grows.",
    )
    attack = pieces.figure(
        lambda: plots.plot_tradeoff(plan.cost, delta=delta, axes=plots.new_axes(4.4, 3.6)),
        "What an attacker must put up with: below the line nobody gets.",
        words,
    )
    return listed + pieces.paragraph(words) + pieces.side_by_side(profile, attack)


def _rows_of_a_unit(model: Any) -> int:
    return int(getattr(model.schema, "max_rows_per_unit", 1))  # it is a Schema, None or "data"


def _model(model: Any) -> str:
    parts = []
    if hasattr(model, "choice_"):
        rows = [(reason.name, shown(reason.value) or "none", reason.why) for reason in model.choice_.reasons]
        parts.append(pieces.table("What was chosen", ["Chosen from public facts", "Value", "Why"], rows))
    if hasattr(model, "encoder_"):
        learner = model.fitted_learner() if hasattr(model, "fitted_learner") else model
        linear = getattr(learner, "linear", learner)  # the first part of a linear start
        parts.append(_coefficients(linear, getattr(model, "classes_", None)))
    if hasattr(model, "forest_"):
        trees = len(model.forest_.trees)
        parts.append(pieces.paragraph(f"{trees} trees. Everything shown here is made of released numbers."))
    importances = getattr(model, "feature_importances_", None)
    if importances is not None:
        parts.append(_importances(importances.tolist(), getattr(model, "feature_names_in_", None)))
    for method, caption in (
        ("plot_shapes", "What each feature adds to the score; bands are two standard deviations of the noise"),
        ("plot_tree", "The first tree: up where the test holds; at the ends what is added to the score"),
    ):
        draw = getattr(model, method, None)
        if callable(draw) and (method != "plot_tree" or _is_small(model)):
            with contextlib.suppress(ParameterError):  # shapes are for additive models
                parts.append(pieces.figure(draw, caption))
    return "".join(parts) or pieces.paragraph("This model has no pictures of its own.")


def _importances(values: list[float], names: Any) -> str:
    columns = [str(n) for n in names] if names is not None else [f"column {i}" for i in range(len(values))]
    ranked = sorted(zip(columns, values, strict=True), key=lambda row: -row[1])
    listed = [row for row in ranked[:_LISTED] if row[1] >= 5e-4]
    if not listed:
        return pieces.paragraph("No feature stands out from the noise.")
    left = len(ranked) - len(listed)
    more = f"{left} more features have less, or nothing beyond the noise." if left > 1 else "One more feature has less."
    return pieces.bars("Importances", ("Feature", "Importance"), listed) + (pieces.paragraph(more) if left else "")


def _is_small(model: Any) -> bool:
    """Whether the first tree can be read when it is drawn."""
    return hasattr(model, "forest_") and int(model.forest_.trees[0].weights.shape[-1]) <= _READABLE


def _coefficients(model: Any, classes: Any) -> str:
    """The intercept and the largest coefficients of a linear model, as a table and a picture."""
    import numpy as np

    found, constants = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    columns = model.encoder_.names[1:] if model.encoder_.intercept else model.encoder_.names
    largest = np.argsort(-np.abs(found).max(axis=0), kind="stable")[:_LISTED].tolist()
    names = [columns[i] for i in largest]
    outputs = ["Coefficient"] if len(found) == 1 else [f"for {label}" for label in classes]
    rows = [("(intercept)", *(f"{value:.3g}" for value in constants))] if model.encoder_.intercept else []
    rows += [(name, *(f"{value:.3g}" for value in found[:, i])) for name, i in zip(names, largest, strict=True)]
    listed = pieces.table("Coefficients", ["Column of the design", *outputs], rows, numbers=outputs)
    left = len(columns) - len(largest)
    more = pieces.paragraph(f"{left} more columns have smaller coefficients.") if left else ""
    if len(found) > 1:
        return listed + more
    values = found[0, largest].tolist()
    return listed + more + pieces.figure(lambda: plots.bars(names, values, "coefficient"), "The largest coefficients")


def _audit(model: Any, audit: AuditReport | None) -> str:
    """The result of an audit, and how its trainings differ from this one; refused if they are of another kind."""
    if audit is None:
        return "<p>No audit was attached. <code>ledgerwood audit</code> runs one.</p>"
    from ledgerwood.verification.report import Subject

    own, audited = Subject.of(model), audit.subject
    if audited is None or (audited.learner, audited.recipe) != (own.learner, own.recipe):
        about = "one that names no learner (of a bare mechanism, or of an older version)"
        raise ParameterError(
            "audit", f"be of trainings of this kind: {own}", about if audited is None else str(audited),
            "Audit them with 'ledgerwood audit --recipe NAME', or with audit(..., subject=Subject.of(estimator))",
        )  # fmt: skip
    differences = audited.differences(own)
    words = "Trainings of this learner with these settings and this claim were audited."
    listed = ""
    if differences:
        words = (
            "Trainings of this learner and recipe were audited, but NOT with the settings and the claim of this model. "
            "What differs:"
        )
        listed = pieces.table("What differs", ["", "Audited", "This model"], differences)
    return (
        pieces.paragraph(words) + listed + pieces.pre("The result of the audit", audit)
        + pieces.paragraph(f"What was audited, as SHA-256: {audited.digest}.")
        + pieces.paragraph("An audit can show that a claim is broken. It cannot show that a claim holds.")
    )  # fmt: skip


def _reproduce(model: Any) -> str:
    name = type(model).__name__
    usual = {key: value.default for key, value in inspect.signature(type(model)).parameters.items()}
    left_out = ("schema", "callbacks", "verbose")
    given = [
        f"{key}={value!r}"
        for key, value in model.get_params(deep=False).items()
        if key not in left_out and (key == "epsilon" or repr(value) != repr(usual.get(key)))
    ]
    schema = None if model.schema is None or isinstance(model.schema, str) else model.schema.to_json()
    lines = [f"from ledgerwood.learners import {name}{', Schema' if schema else ''}", ""]
    if schema:
        lines.append('schema = Schema.from_json(open("schema.json").read())  # the declared schema, below')
        given.append("schema=schema")
    elif model.schema is not None:
        given.append(f"schema={model.schema!r}")
    lines += [f"model = {name}({', '.join(given)})", "model.fit(X, y)"]
    where = f"Ledgerwood {__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}."
    fresh = (
        "A new fit draws new noise and spends its budget again; the privacy statement does not change."
        if model.statement_.search is None
        else "These are the settings that a private search chose: this code trains one more model of that kind. It is "
        "another release, with a statement of its own, about that model and not about the choice."
    )
    return (
        pieces.pre("Python", "\n".join(lines))
        + (pieces.folded("The declared schema", _indented(schema)) if schema else "")
        + pieces.folded("The plan", _indented(model.plan_.to_json()))
        + pieces.paragraph(f"{where} {fresh}")
    )


def _indented(text: str) -> str:
    """JSON with a line for each entry of the two outer levels."""
    outer = json.loads(text)
    if not isinstance(outer, dict):
        return json.dumps(outer)
    lines = []
    for key, value in outer.items():
        if isinstance(value, list) and value and isinstance(value[0], list | dict):
            inner = ",\n".join(f"    {json.dumps(item, ensure_ascii=False)}" for item in value)
            lines.append(f"  {json.dumps(key)}: [\n{inner}\n  ]")
        else:
            lines.append(f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}")
    return "{\n" + ",\n".join(lines) + "\n}"
