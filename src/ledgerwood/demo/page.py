"""The demo's one-page report: text and pictures in a single HTML file, nothing fetched from anywhere."""

from __future__ import annotations

import base64
import io
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ledgerwood._version import __version__

if TYPE_CHECKING:
    from ledgerwood.demo import Result

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.2rem; }
table { border-collapse: collapse; } td, th { padding: .25rem .8rem; text-align: left; border-bottom: 1px solid #ccc; }
pre { background: #f4f4f2; padding: 1rem; overflow-x: auto; font-size: .85rem; white-space: pre-wrap; }
.exact { background: #fff0d6; } .exact td:last-child { font-weight: 600; }
img { max-width: 100%; height: auto; } footer { margin-top: 3rem; font-size: .85rem; color: #555; }
"""


def write_page(result: Result, path: Path) -> Path:
    """Write the report and return its path."""
    statement = result.model.privacy_statement()
    body = [
        "<h1>Private boosted trees on Bank Marketing</h1>",
        f"<p>Trained by ledgerwood {escape(__version__)} at epsilon = {statement.epsilon:g},"
        f" delta = {statement.delta:g}. Rows on an orange ground are exact numbers about private rows: they are"
        " <strong>not private</strong> and are here because the data are public.</p>",
        "<h2>Area under the ROC curve, held-out clients</h2>",
        _scores(result),
        "<h2>Privacy statement</h2>",
        f"<pre>{escape(str(statement))}</pre>",
        "<h2>What each feature adds to the score</h2>",
        "<p>From released numbers only. Bands: two standard deviations of the noise that was added. Trees that use"
        " several features at once are left out here.</p>",
        _image(
            result.model.plot_shapes(features=9, interactions="leave_out"),
            "Shapes of the nine most important features with noise bands",
        ),
        "<h2>Importance of the features</h2>",
        _image(_importances(result.model), "Bar chart of the importance of the features, from released numbers"),
        "<h2>Where the budget went</h2>",
        _image(_spending(result.model), "Epsilon spent after each release, with the budget as a line"),
        "<h2>The first tree</h2>",
        "<p>The score of a client is the sum of one line of each tree.</p>",
        f"<pre>{escape(result.model.rules(trees=1))}</pre>",
        "<h2>An audit of the recipe</h2>",
        f"<pre>{escape(str(result.audit))}</pre>",
        "<p>One training with made-up clients put in or left out by coins. An audit can find a leak; it cannot prove"
        " that there is none. Its numbers are not private.</p>",
        "<footer>Data: Bank Marketing, S. Moro, P. Rita and P. Cortez, UCI Machine Learning Repository, CC BY 4.0,"
        " without the column <code>duration</code>.</footer>",
    ]
    text = (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Private boosted trees: report</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>\n'
        f"<body><main>{''.join(body)}</main></body></html>\n"
    )
    path.write_text(text, encoding="utf-8")
    return path


def _scores(result: Result) -> str:
    score = result.private_auc
    rows = [
        (
            "",
            "private model, released privately",
            f"{score.value:.3f} ± {score.error:.3f}",
            f"epsilon={score.epsilon:g}",
        ),
        ("exact", "private model, exact", f"{result.exact_auc:.3f}", "not private"),
    ]
    if result.xgboost_auc is not None:
        rows.append(("exact", "XGBoost without privacy, exact", f"{result.xgboost_auc:.3f}", "not private"))
    cells = "".join(f'<tr class="{kind}"><td>{a}</td><td>{b}</td><td>{c}</td></tr>' for kind, a, b, c in rows)
    return f"<table><thead><tr><th>model</th><th>AUC</th><th>privacy</th></tr></thead><tbody>{cells}</tbody></table>"


def _image(figure: Any, text: str) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    data = base64.b64encode(buffer.getvalue()).decode("ascii")
    return f'<img alt="{escape(text)}" src="data:image/png;base64,{data}">'


def _importances(model: Any) -> Any:
    from ledgerwood.learners.explain import _figure

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
    from ledgerwood.learners.explain import _figure

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
