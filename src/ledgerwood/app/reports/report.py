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
from ledgerwood.app.output import price, shown
from ledgerwood.app.reports import html, plots
from ledgerwood.app.reports.sections import _LISTED, _READABLE, _rows_of_a_unit, guarantee, plan_table
from ledgerwood.errors import ParameterError

if TYPE_CHECKING:
    from ledgerwood.verification import AuditReport


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
        from ledgerwood.app.reports import sections

        name, body = sections.TITLES[kind], sections.PAGES[kind](model)
    else:
        raise ParameterError("model", "be a fitted private estimator", kind)
    audited = html.section("Audit", _audit(model, audit))  # first: it may be refused, and figures take their time
    return html.document(name, [*body, audited])


def _title(model: Any) -> str:
    choice = getattr(model, "choice_", None)
    name = type(model).__name__
    return name if choice is None else f"{name}: {choice.model}"


def _of_estimator(model: Any) -> Iterator[str]:
    statement = model.privacy_statement()
    if not statement.private:
        yield '<p class="warn">This fit is not private: see the statement.</p>'
    done, planned = len(model.receipt_), statement.planned
    yield html.key_values(
        [
            ("Epsilon", price(statement.epsilon)),
            ("Delta", price(statement.delta)),
            ("Protected", statement.unit),
            ("Releases", f"{done}, as planned" if done == planned else f"{done} of {planned} planned"),
        ]
    )
    yield html.statement(statement.paragraphs())
    yield html.section("Plan and ledger", plan_table(model.plan_, model.receipt_.counts()))
    yield html.section("The guarantee", guarantee(model.plan_, _rows_of_a_unit(model)))
    yield html.section("The model", _model(model))
    yield html.section("Reproduce", _reproduce(model))


def _model(model: Any) -> str:
    parts = []
    if hasattr(model, "choice_"):
        rows = [(reason.name, shown(reason.value) or "none", reason.why) for reason in model.choice_.reasons]
        parts.append(html.table("What was chosen", ["Chosen from public metadata", "Value", "Why"], rows))
    if hasattr(model, "encoder_"):
        learner = model.fitted_learner() if hasattr(model, "fitted_learner") else model
        linear = getattr(learner, "linear", learner)  # the first part of a linear start
        parts.append(_coefficients(linear, getattr(model, "classes_", None)))
    if hasattr(model, "forest_"):
        trees = len(model.forest_.trees)
        parts.append(html.paragraph(f"{trees} trees. Everything shown here is made of released numbers."))
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
                parts.append(html.figure(draw, caption))
    return "".join(parts) or html.paragraph("This model has no pictures of its own.")


def _importances(values: list[float], names: Any) -> str:
    columns = [str(n) for n in names] if names is not None else [f"column {i}" for i in range(len(values))]
    ranked = sorted(zip(columns, values, strict=True), key=lambda row: -row[1])
    listed = [row for row in ranked[:_LISTED] if row[1] >= 5e-4]
    if not listed:
        return html.paragraph("No feature stands out from the noise.")
    left = len(ranked) - len(listed)
    more = f"{left} more features have less, or nothing beyond the noise." if left > 1 else "One more feature has less."
    return html.bars("Importances", ("Feature", "Importance"), listed) + (html.paragraph(more) if left else "")


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
    listed = html.table("Coefficients", ["Column of the design", *outputs], rows, numbers=outputs)
    left = len(columns) - len(largest)
    more = html.paragraph(f"{left} more columns have smaller coefficients.") if left else ""
    if len(found) > 1:
        return listed + more
    values = found[0, largest].tolist()
    return listed + more + html.figure(lambda: plots.bars(names, values, "coefficient"), "The largest coefficients")


def _audit(model: Any, audit: AuditReport | None) -> str:
    """The result of an audit, and how its trainings differ from this one; refused if they are of another kind."""
    if audit is None:
        return "<p>No audit was attached. <code>ledgerwood audit</code> runs one.</p>"
    from ledgerwood.verification.auditor.report import Subject

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
        listed = html.table("What differs", ["", "Audited", "This model"], differences)
    return (
        html.paragraph(words) + listed + html.pre("The result of the audit", audit)
        + html.paragraph(f"What was audited, as SHA-256: {audited.digest}.")
        + html.paragraph("An audit can show that a claim is broken. It cannot show that a claim holds.")
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
        html.pre("Python", "\n".join(lines))
        + (html.folded("The declared schema", _indented(schema)) if schema else "")
        + html.folded("The plan", _indented(model.plan_.to_json()))
        + html.paragraph(f"{where} {fresh}")
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
