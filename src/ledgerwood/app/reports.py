"""One self-contained page per training: what was promised, what was spent, what came out, how to do it again."""

from __future__ import annotations

import base64
import contextlib
import html
import io
import json
import os
import platform
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ledgerwood._version import __version__
from ledgerwood.app import plots
from ledgerwood.app.show import shown
from ledgerwood.errors import ParameterError

if TYPE_CHECKING:
    from ledgerwood.verification import AuditReport

_STYLE = """
body { font: 16px/1.55 system-ui, "Segoe UI", Arial, sans-serif; color: #1d2421; background: #f6f4ee; margin: 0; }
main { max-width: 900px; margin: 0 auto; padding: 1.5rem; }
h1, h2 { font-family: Georgia, serif; line-height: 1.25; } h2 { margin-top: 2rem; }
section, blockquote { background: #fffefb; border: 1px solid #d9d6cb; border-radius: 12px; padding: .4rem 1.2rem 1rem; }
blockquote { border-left: 5px solid #17624a; margin: 0; padding: .9rem 1.2rem; white-space: pre-line; }
.warn { border-color: #9a3412; background: #fdeee4; color: #7c2d12; font-weight: 600; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .35rem .8rem .35rem 0; border-bottom: 1px solid #e8e5dc; vertical-align: top; }
pre { background: #f6f4ee; border: 1px solid #d9d6cb; border-radius: 8px; padding: .7rem; overflow-x: auto; }
figure { margin: 1rem 0 0; } img { max-width: 100%; } figcaption { color: #56615b; font-size: .9rem; }
@media (prefers-color-scheme: dark) {
  body { background: #12171a; color: #e9ece8; } section, blockquote { background: #1a2125; border-color: #323c40; }
  pre { background: #12171a; border-color: #323c40; } th, td { border-color: #323c40; }
  img { background: #fff; border-radius: 8px; } figcaption { color: #a9b5ae; }
  .warn { background: #3a231a; color: #ffb088; }
}
"""


_READABLE = 16  # leaves of a tree that is drawn


def report(model: Any, path: str | os.PathLike[str], *, audit: AuditReport | None = None) -> Path:
    """Write a report of a fitted private model as one HTML file that loads nothing.

    Parameters
    ----------
    model
        A fitted estimator of :mod:`ledgerwood.learners`.
    path
        The file to write.
    audit
        The result of an audit of this kind of training, if one was run.
    """
    if not hasattr(model, "receipt_"):
        raise ParameterError("model", "be a fitted private estimator", type(model).__name__)
    file = Path(path)
    file.write_text(page(model, audit=audit), encoding="utf-8")
    return file


def page(model: Any, *, audit: AuditReport | None = None) -> str:
    """Return the report as HTML."""
    statement = model.privacy_statement()
    name = _title(model)
    warning = "" if statement.private else '<p class="warn">This fit is not private: see the statement.</p>'
    body = [
        f"<h1>{_text(name)}</h1>",
        warning,
        f"<h2>What may be published</h2><blockquote>{_text(_joined(str(statement)))}</blockquote>",
        _section(
            "Plan and ledger", _plan_and_ledger(model) + _figure(lambda: plots.plot_plan(model.plan_), "The plan")
        ),
        _section("The guarantee", _guarantee(model)),
        _section("The model", _model(model)),
        _section("Audit", _audit(audit)),
        _section("Reproduce", _reproduce(model)),
    ]
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>{_text(name)}: privacy report</title><style>{_STYLE}</style></head>"
        f"<body><main>{''.join(body)}</main></body></html>\n"
    )


def _title(model: Any) -> str:
    choice = getattr(model, "choice_", None)
    name = type(model).__name__
    return name if choice is None else f"{name}: {choice.model}"


def _plan_and_ledger(model: Any) -> str:
    """The plan's releases beside what the journal says was released."""
    counts = model.receipt_.counts()
    rows = []
    for row in model.plan_.table():
        done = counts.get(row["label"], 0)
        noise = f"{row['noise'] or 'scale'} = {row['scale']:.6g}" if row["scale"] else ""
        rows.append((row["label"], row["cost"], noise, row["times"], done, "yes" if done == row["times"] else "no"))
    return _table(["Release", "Cost", "Noise", "Planned", "Released", "As planned"], rows)


def _guarantee(model: Any) -> str:
    from ledgerwood.app import curves

    plan = model.plan_
    account = plan.account()
    rows = []
    for method, value in account.table.items():
        epsilon = f"{value:.5g}" if isinstance(value, float) else ""
        rows.append((curves.NAMES[method], epsilon, "" if isinstance(value, float) else value))
    pictures = _figure(
        lambda: plots.plot_profile(plan.cost, delta=plan.delta), "The privacy profile: every point holds"
    )
    pictures += _figure(lambda: plots.plot_tradeoff(plan.cost, delta=plan.delta), "What an attacker must put up with")
    return _table(["Accountant", f"Epsilon at delta = {plan.delta:.3g}", "Remark"], rows) + pictures


def _model(model: Any) -> str:
    parts = []
    if hasattr(model, "choice_"):
        rows = [(reason.name, shown(reason.value) or "none", reason.why) for reason in model.choice_.reasons]
        parts.append(_table(["Chosen from public facts", "Value", "Why"], rows))
    if hasattr(model, "encoder_"):
        learner = model.fitted_learner() if hasattr(model, "fitted_learner") else model
        parts.append(_coefficients(getattr(learner, "linear", learner)))  # the first part of a linear start
    if hasattr(model, "forest_"):
        trees = len(model.forest_.trees)
        parts.append(f"<p>{trees} trees; everything shown here is made of released numbers.</p>")
    importances = getattr(model, "feature_importances_", None)
    names = getattr(model, "feature_names_in_", None)
    if importances is not None:
        columns = [str(n) for n in names] if names is not None else [f"column {i}" for i in range(len(importances))]
        ranked = sorted(zip(importances.tolist(), columns), reverse=True)[:12]
        parts.append(_table(["Feature", "Importance"], [(column, f"{value:.3f}") for value, column in ranked]))
    for method, caption in (("plot_shapes", "What the model says of each feature"), ("plot_tree", "The first tree")):
        draw = getattr(model, method, None)
        if callable(draw) and (method != "plot_tree" or _is_small(model)):
            with contextlib.suppress(ParameterError):  # shapes are for additive models
                parts.append(_figure(draw, caption))
    return "".join(parts) or "<p>This model has no pictures of its own.</p>"


def _is_small(model: Any) -> bool:
    """Whether the first tree can be read when it is drawn."""
    return hasattr(model, "forest_") and int(model.forest_.trees[0].weights.shape[-1]) <= _READABLE


def _coefficients(model: Any) -> str:
    """The largest coefficients of a linear model, as a table and a picture."""
    import numpy as np

    found = np.atleast_2d(model.coef_)
    largest = np.argsort(-np.abs(found).max(axis=0), kind="stable")[:12].tolist()
    names = [model.encoder_.names[i] for i in largest]
    outputs = ["Coefficient"] if len(found) == 1 else [f"Coefficient for {label}" for label in model.classes_]
    rows = [(name, *(f"{found[k, i]:.3g}" for k in range(len(found)))) for name, i in zip(names, largest)]
    picture = _figure(lambda: plots.bars(names, found[0, largest].tolist(), "coefficient"), "The largest coefficients")
    return _table(["Column of the design", *outputs], rows) + (picture if len(found) == 1 else "")


def _audit(audit: AuditReport | None) -> str:
    if audit is None:
        return "<p>No audit was attached. <code>ledgerwood audit</code> runs one.</p>"
    return _pre("The result of the audit", audit)


def _reproduce(model: Any) -> str:
    left_out = ("schema", "callbacks", "verbose")
    given = {k: v for k, v in model.get_params(deep=False).items() if v is not None and k not in left_out}
    arguments = ", ".join(f"{name}={value!r}" for name, value in given.items())
    code = f"from ledgerwood.learners import {type(model).__name__}\n\nmodel = {type(model).__name__}({arguments})"
    schema = getattr(model, "schema", None)
    to_json = getattr(schema, "to_json", None)
    declared = json.dumps(json.loads(to_json())) if callable(to_json) else ""
    listed = f"<p>The declared schema:</p>{_pre('The schema', declared)}" if declared else ""
    where = f"Ledgerwood {__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    fresh = "A new fit draws new noise and spends its budget again; the privacy statement does not change."
    plan = json.dumps(json.loads(model.plan_.to_json()))
    return f"{_pre('Python', code)}{listed}<p>{_text(where)}. {fresh}</p><p>The plan:</p>{_pre('The plan', plan)}"


# ---- pieces of HTML


def _text(value: Any) -> str:
    return html.escape(str(value))


def _pre(label: str, text: Any) -> str:
    """Text as it is; what may scroll is reached by keyboard and has a name."""
    return f'<pre tabindex="0" role="region" aria-label="{_text(label)}">{_text(text)}</pre>'


def _joined(text: str) -> str:
    """Undo the wrapping of a statement: the browser wraps."""
    return " ".join(text.split())


def _section(title: str, body: str) -> str:
    return f"<h2>{_text(title)}</h2><section>{body}</section>"


def _table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    head = "".join(f'<th scope="col">{_text(column)}</th>' for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _figure(draw: Callable[[], Any], caption: str) -> str:
    drawn = draw()
    figure = getattr(drawn, "figure", None) or drawn
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=110, bbox_inches="tight")
    picture = base64.b64encode(stream.getvalue()).decode()
    image = f'<img alt="{_text(caption)}" src="data:image/png;base64,{picture}">'
    return f"<figure>{image}<figcaption>{_text(caption)}</figcaption></figure>"
