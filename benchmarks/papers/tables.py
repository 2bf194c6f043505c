"""Means over splits and repeats, Markdown tables, verdicts, pictures."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

from benchmarks.papers.jobs import Job
from benchmarks.papers.run import Results

__all__ = ["Gap", "Numbers", "averaged", "cell", "lines", "logarithms", "mean_ranks", "pair", "table", "verdict"]

Scores = dict[int, float]


class Gap(NamedTuple):
    """A mean over splits, its standard error (nan if there is only one), and how many there are."""

    mean: float
    error: float = float("nan")
    count: int = 1

    @property
    def known(self) -> bool:
        """Whether there is a number."""
        return not np.isnan(self.mean)

    def plus(self, margin: float) -> Gap:
        """Return the gap with a margin in its favour."""
        return self._replace(mean=self.mean + margin)


def averaged(values: Iterable[float]) -> Gap:
    """Return the mean and its standard error."""
    known = np.array(list(values), dtype=float)
    if len(known) < 2:
        return Gap(float(known.mean()) if len(known) else float("nan"))
    return Gap(float(known.mean()), float(known.std(ddof=1) / len(known) ** 0.5), len(known))


class Numbers:
    """Results, averaged over splits and repeats."""

    def __init__(self, done: Results) -> None:
        self._lines: dict[str, dict[int, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
        for key, line in done.items():
            problem, recipe, options, epsilon, split, _ = json.loads(key)
            if "failed" not in line:
                self._lines[json.dumps([problem, recipe, options, epsilon])][split].append(line)

    @property
    def fits(self) -> int:
        """How many fits there are."""
        return sum(len(repeats) for found in self._lines.values() for repeats in found.values())

    def of(self, job: Job, score: str = "auc") -> Scores:
        """Return the score of a fit on each split, its mean over repeats: these share the test rows."""
        key = json.dumps([job.problem, job.recipe, dict(job.options), job.epsilon])
        found = self._lines.get(key, {})
        return {
            split: sum(line[score] for line in repeats) / len(repeats)
            for split, repeats in found.items()
            if all(score in line for line in repeats)
        }

    def mean(self, job: Job, score: str = "auc") -> float:
        """Return the mean score, nan if it was not run."""
        return averaged(self.of(job, score).values()).mean

    def shown(self, job: Job, digits: int = 4, score: str = "auc") -> str:
        """Return the mean score and its standard error for a table."""
        return cell(averaged(self.of(job, score).values()), digits)

    def gap(self, one: Job, other: Job, score: str = "auc", *, relative: bool = False) -> Gap:
        """Return by how much the first is higher, on the splits that both have; ``relative`` takes logarithms."""
        first, second = self.of(one, score), self.of(other, score)
        if relative:
            first, second = logarithms(first), logarithms(second)
        return pair(first, second)

    def splits(self, jobs: Iterable[Job], score: str = "auc") -> str:
        """Say how many splits these fits have."""
        counts = {len(found) for job in jobs if (found := self.of(job, score))}
        if not counts:
            return "Not run yet."
        least, most = min(counts), max(counts)
        return f"Splits: {least}." if least == most else f"Splits: {least} to {most}."


def logarithms(scores: Scores) -> Scores:
    """Return the logarithm of each score."""
    return {at: float(np.log(value)) for at, value in scores.items()}


def pair(one: Scores, other: Scores) -> Gap:
    """Return the mean difference over what both have."""
    return averaged(one[at] - other[at] for at in one if at in other)


def cell(value: Gap | float, digits: int = 4) -> str:
    """Return a number for a table, with its standard error if it has one."""
    mean, error, _ = value if isinstance(value, Gap) else Gap(value)
    if np.isnan(mean):
        return "–"
    return f"{mean:.{digits}f}" + ("" if np.isnan(error) else f" ± {error:.{digits}f}".replace(" 0.", " ."))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    body = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in body)


def verdict(claim: str, cases: Mapping[str, Gap | bool | None], *, ours: bool = False) -> str:
    """Say in how many cases a claim holds, in which it does not, and which are open.

    A gap holds if it is positive and is open if zero lies in its 95 % interval; None is a case that was not run. A
    paper's claim is reproduced, one of ``ours`` holds.
    """
    yes, no = ("Holds", "Does not hold") if ours else ("Reproduced", "Not reproduced")
    known = {name: case for name, case in cases.items() if case is not None and (isinstance(case, bool) or case.known)}
    if not known:
        return f"**{claim}** Not run yet."
    opened = _open({name: case for name, case in known.items() if isinstance(case, Gap)})
    held = [name for name, case in known.items() if name not in opened and _holds(case)]
    failed = [name for name in known if name not in opened and name not in held]
    if len(held) == len(known):
        return f"**{claim}** {yes} ({len(held)} of {len(held)})."
    parts = [f"{yes} in {len(held)} of {len(known)}"] if held else []
    parts += [f"{no if not parts else 'not'} in {len(failed)} of {len(known)}"] if failed else []
    with_it = sum(_holds(known[name]) for name in opened)
    parts += [f"open in {len(opened)} of {len(known)}, {with_it} with its sign"] if opened else []
    words = ", ".join(parts)
    named = [f"Not: {', '.join(failed)}."] if failed else []
    named += [f"Open: {', '.join(opened)}."] if opened else []
    return " ".join([f"**{claim}** {words[0].upper()}{words[1:]}.", *named])


def _holds(case: Gap | bool) -> bool:
    return case if isinstance(case, bool) else case.mean > 0


def _open(gaps: Mapping[str, Gap]) -> list[str]:
    """Return the cases with zero in their 95 % interval, by the spread of one split pooled over all of them."""
    several = [gap for gap in gaps.values() if gap.count > 1]
    freedom = sum(gap.count - 1 for gap in several)
    if not freedom:
        return list(gaps)
    spread = sum((gap.count - 1) * gap.count * gap.error**2 for gap in several) / freedom
    reach = float(stdtrit(freedom, 0.975)) * spread**0.5
    return [name for name, gap in gaps.items() if abs(gap.mean) <= reach / gap.count**0.5]


def mean_ranks(scores: Mapping[str, Sequence[Scores]]) -> dict[str, Scores]:
    """Return each method's mean rank over problems, for every split that all of them have; 1 is the highest score."""
    columns = [column for column in zip(*scores.values()) if all(column)]
    if not columns:
        return {name: {} for name in scores}
    shared = set.intersection(*(set(found) for column in columns for found in column))
    found: dict[str, Scores] = {name: {} for name in scores}
    for at in sorted(shared):
        matrix = np.array([[values[at] for values in column] for column in columns])
        order = (-matrix).argsort(axis=1).argsort(axis=1) + 1
        for name, rank in zip(scores, order.mean(axis=0).tolist()):
            found[name][at] = rank
    return found


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
    shared = axes[-1].get_legend_handles_labels()[1]
    for axis in axes:
        names = axis.get_legend_handles_labels()[1]
        if names and (axis is axes[-1] or names != shared):
            axis.legend(fontsize=6, framealpha=0.6)
    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": "ledgerwood", "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None})
