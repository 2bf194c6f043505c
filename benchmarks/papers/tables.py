"""Means over splits and repeats, Markdown tables, verdicts, pictures."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.papers.jobs import Job
from benchmarks.papers.run import Results

__all__ = ["Numbers", "cell", "lines", "ranks", "table", "verdict"]


class Numbers:
    """Results, averaged over splits and repeats."""

    def __init__(self, done: Results) -> None:
        self._values: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for key, line in done.items():
            problem, recipe, options, epsilon, _, _ = json.loads(key)
            if "failed" not in line:
                self._values[json.dumps([problem, recipe, options, epsilon])].append(line)

    @property
    def fits(self) -> int:
        """How many fits there are."""
        return sum(map(len, self._values.values()))

    def of(self, job: Job, score: str = "auc") -> list[float]:
        """Return all scores of a fit."""
        key = json.dumps([job.problem, job.recipe, dict(job.options), job.epsilon])
        return [line[score] for line in self._values.get(key, ()) if score in line]

    def mean(self, job: Job, score: str = "auc") -> float:
        """Return the mean score, nan if it was not run."""
        values = self.of(job, score)
        return float(np.mean(values)) if values else float("nan")


def cell(value: float, digits: int = 4) -> str:
    """Return a number for a table."""
    return "–" if np.isnan(value) else f"{value:.{digits}f}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    body = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in body)


def verdict(claim: str, cases: Mapping[str, bool | None]) -> str:
    """Say whether a claim holds, and where it does not; None is a case that was not run."""
    known = {name: holds for name, holds in cases.items() if holds is not None}
    if not known:
        return f"**{claim}** Not run yet."
    failed = [name for name, holds in known.items() if not holds]
    if not failed:
        return f"**{claim}** Reproduced ({len(known)} of {len(known)})."
    if len(failed) == len(known):
        return f"**{claim}** Not reproduced in any of {len(known)} cases."
    return f"**{claim}** Reproduced in {len(known) - len(failed)} of {len(known)}; not: {', '.join(failed)}."


def ranks(scores: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return the mean rank of each method, 1 for the highest score; columns with a missing score are left out."""
    matrix = np.array(list(scores.values()), dtype=float)
    full = matrix[:, ~np.isnan(matrix).any(axis=0)]
    if not full.shape[1]:
        return dict.fromkeys(scores, float("nan"))
    order = (-full).argsort(axis=0).argsort(axis=0) + 1
    return dict(zip(scores, order.mean(axis=1).tolist()))


def lines(
    path: Path, panels: Mapping[str, Mapping[str, tuple[Sequence[float], Sequence[float]]]], x: str, y: str,
    *, log: bool = False,
) -> None:  # fmt: skip
    """Draw curves, one panel for each name, into an SVG file that is the same for the same numbers."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * len(panels), 3.4), layout="constrained")
    FigureCanvasSVG(figure)
    axes = np.atleast_1d(figure.subplots(1, len(panels)))
    for axis, (name, curves) in zip(axes, panels.items()):
        for label, (xs, ys) in curves.items():
            kept = [(a, b) for a, b in zip(xs, ys) if not np.isnan(b)]
            if kept:
                axis.plot(*zip(*kept), marker="o", markersize=3, label=label)
        axis.set(title=name, xlabel=x, ylabel=y)
        if log:
            axis.set_xscale("log")
        axis.grid(alpha=0.3)
    if axes[-1].get_legend_handles_labels()[0]:
        axes[-1].legend(fontsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": "ledgerwood", "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None})
