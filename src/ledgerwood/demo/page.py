"""The demo's one-page report: text and pictures in a single HTML file, nothing fetched from anywhere."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ledgerwood._version import __version__

if TYPE_CHECKING:
    from ledgerwood.demo import Result

_STYLE = """
:root { --ink: #1c2430; --soft: #5b6675; --line: #d9dee5; --ground: #f6f7f9; --blue: #1f77b4; --exact: #fff1d9; }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 66rem; margin: auto; padding: 2rem 1.2rem; color: var(--ink); }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .4rem; } h2 { font-size: 1.25rem; margin: 2.4rem 0 .6rem; }
p { max-width: 46rem; } .lead, .note, figcaption, footer { color: var(--soft); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(12rem, 1fr)); gap: .8rem; margin: 1.4rem 0; }
.card { border: 1px solid var(--line); border-radius: .6rem; padding: .8rem 1rem; }
.card strong { display: block; font-size: 1.7rem; line-height: 1.3; font-variant-numeric: tabular-nums; }
.card small { color: var(--soft); } .exact { background: var(--exact); }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; }
td, th { padding: .3rem .9rem .3rem 0; text-align: left; border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 600; }
.statement { border-left: .3rem solid var(--blue); background: var(--ground); padding: .4rem 1.2rem; }
.statement p:first-child { font-weight: 600; }
pre { background: var(--ground); padding: 1rem; overflow-x: auto; font-size: .85rem; white-space: pre-wrap; }
.two { display: grid; grid-template-columns: repeat(auto-fit, minmax(26rem, 1fr)); gap: 1.5rem; }
figure { margin: 0; } img { max-width: 100%; height: auto; } footer { margin-top: 3rem; font-size: .85rem; }
"""


def write_page(result: Result, path: Path) -> Path:
    """Write the report and return its path."""
    statement = result.model.privacy_statement()
    body = [
        "<h1>Private boosted trees on Bank Marketing</h1>",
        f'<p class="lead">Will a client subscribe a term deposit? Trained by ledgerwood {escape(__version__)}. Numbers'
        " on an orange ground are exact numbers about private rows: they are <strong>not private</strong>, and shown"
        " because these data are public.</p>",
        _cards(result),
        "<h2>What may be published with the model</h2>",
        _statement(statement),
        "<h2>What each feature adds to the score</h2>",
        '<p class="note">From released numbers only. Bands: two standard deviations of the noise that was added. Trees'
        " that use several features at once are left out here.</p>",
        _image(
            result.model.plot_shapes(features=9, interactions="leave_out"),
            "Shapes of the nine most important features with noise bands",
        ),
        '<div class="two"><section><h2>Importance of the features</h2>',
        _image(_importances(result.model), "Bar chart of the importance of the features, from released numbers"),
        "</section><section><h2>Where the budget went</h2>",
        _image(_spending(result.model), "Epsilon spent after each release, with the budget as a line"),
        _spend_table(result.model),
        "</section></div>",
        "<h2>The first tree</h2>",
        '<p class="note">The score of a client is the sum of one line of each tree.</p>',
        f"<pre>{escape(result.model.rules(trees=1))}</pre>",
        "<h2>An audit of the recipe</h2>",
        f'<pre class="exact">{escape(str(result.audit))}</pre>',
        '<p class="note">One training with made-up clients put in or left out by coins. An audit can find a leak; it'
        " cannot prove that there is none. Its numbers are <strong>not private</strong>.</p>",
        "<footer>Data: Bank Marketing, S. Moro, P. Rita and P. Cortez, UCI Machine Learning Repository, CC BY 4.0,"
        " without the column <code>duration</code>.</footer>",
    ]
    text = (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Private boosted trees: report</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>\n'
        f"<body><main>{''.join(body)}</main></body></html>\n"
    )
    path.write_text(text, encoding="utf-8")
    return path


def _cards(result: Result) -> str:
    """The numbers to read first."""
    statement, score = result.model.privacy_statement(), result.private_auc
    cards = [
        ("", "privacy of the model", f"ε = {statement.epsilon:g}", f"δ = {statement.delta:g}, for {statement.unit}"),
        ("", "AUC, released privately", f"{score.value:.3f} ± {score.error:.3f}", f"costs ε = {score.epsilon:g} more"),
        ("exact", "AUC, exact", f"{result.exact_auc:.3f}", "not private"),
    ]
    if result.xgboost_auc is not None:
        cards.append(("exact", "AUC of XGBoost without privacy", f"{result.xgboost_auc:.3f}", "not private"))
    return (
        '<div class="cards">'
        + "".join(
            f'<div class="card {kind}">{what}<strong>{value}</strong><small>{escape(note)}</small></div>'
            for kind, what, value, note in cards
        )
        + '</div><p class="note">AUC: area under the ROC curve on held-out clients.</p>'
    )


def _statement(statement: Any) -> str:
    """The statement; its public facts as a table."""
    texts = [text for text in statement.paragraphs() if not text.startswith("Assumed public")]
    said = "".join(f"<p>{escape(text)}</p>" for text in texts)
    facts = [(fact.name, fact.value, fact.source) for fact in statement.public]
    return (
        f'<div class="statement">{said}</div><details open><summary>Assumed public, with the source of each fact'
        f"</summary>{_table(('fact', 'value', 'source'), facts)}</details>"
    )


def _spend_table(model: Any) -> str:
    rows = [
        (row["label"], row["times"], f"{row['noise']} = {row['scale']:.4g}", f"{100 * row['spend']:.1f} %")
        for row in model.plan_.table()
    ]
    return _table(("release", "times", "noise", "part of the spend"), rows)


def _table(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _image(figure: Any, text: str) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    data = base64.b64encode(buffer.getvalue()).decode("ascii")
    return f'<figure><img alt="{escape(text)}" src="data:image/png;base64,{data}"></figure>'


def _importances(model: Any) -> Any:
    from ledgerwood.learners.trees.explain import _figure

    parts = model.feature_importances_
    order = np.argsort(parts)
    figure = _figure(6.5, 4.0)
    axes = figure.add_subplot()
    axes.barh([str(model.columns_[i].name) for i in order], parts[order], color="tab:blue")
    axes.set_xlabel("part of the variance of the score, noise taken off", fontsize=8)
    axes.tick_params(labelsize=8)
    return figure


def _spending(model: Any) -> Any:
    """Epsilon of the first releases of the plan, at the plan's delta."""
    from ledgerwood.accounting import sequence
    from ledgerwood.learners.trees.explain import _figure

    plan = model.plan_
    runs = [run.cost for run in plan.runs() for _ in range(run.times)]
    counts = np.unique(np.linspace(1, len(runs), 9).astype(int))
    spent = [sequence([(cost, 1) for cost in runs[:n]]).epsilon(plan.delta) for n in counts]
    figure = _figure(6.5, 3.6)
    axes = figure.add_subplot()
    axes.plot(counts, spent, marker="o", color="tab:blue")
    axes.axhline(plan.epsilon, color="grey", linestyle=":", linewidth=1)
    axes.set(xlabel="releases made", ylabel=f"epsilon at delta = {plan.delta:g}", ylim=(0, None), xlim=(0, None))
    axes.tick_params(labelsize=8)
    return figure
