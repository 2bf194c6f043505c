"""Tables of the results, in Markdown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from benchmarks.auto.jobs import ABLATION, BUDGETS, PAPERS, REPORTED, Job, jobs

Results = dict[str, dict[str, Any]]
FLOORS = {
    "adult": (0.884, 0.904, 0.909),
    "bank": (0.854, 0.898, 0.904),
    "credit2": (0.750, 0.759, 0.762),
    "credit1": (None, None, 0.8435),
}


def _values(done: Results, of: Iterable[Job]) -> list[float]:
    found = (done.get(job.key, {}) for job in of)
    return [line["score"] for line in found if "score" in line]


def _cell(values: Sequence[float]) -> str:
    return f"{np.mean(values):.4f}" if values else "–"


def _is_number(cell: str) -> bool:
    return cell.lstrip("-").startswith("0.") or (cell.lstrip("-")[:1].isdigit() and "." in cell)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows of which nothing has run yet are left out."""
    lines = [head, ["---"] * len(head), *(row for row in rows if any(_is_number(cell) for cell in row[1:]))]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _grid(done: Results, part: str, by: Any, learners: Sequence[str]) -> str:
    groups: dict[tuple[str, str], list[Job]] = defaultdict(list)
    columns: list[str] = []
    for job in jobs(part):
        column = by(job)
        if column not in columns:
            columns.append(column)
        groups[job.learner, column].append(job)
    rows = [[name, *(_cell(_values(done, groups[name, column])) for column in columns)] for name in learners]
    return _table(["", *columns], rows)


def _dataset(job: Job) -> str:
    return f"{job.problem} {job.epsilon:g}"


def _main_table(done: Results) -> str:
    rows = []
    for problem in REPORTED:
        for epsilon, floor in zip(BUDGETS, FLOORS[problem]):
            own = [job for job in jobs("main") if (job.problem, job.epsilon) == (problem, epsilon)]
            values = _values(done, own)
            splits = [np.mean(v) for s in range(8) if (v := _values(done, [j for j in own if j.split == s]))]
            error = np.std(splits, ddof=1) / np.sqrt(len(splits)) if len(splits) > 1 else np.nan
            cpu = [line["cpu"] for j in own if "cpu" in (line := done.get(j.key, {}))]
            rows.append([
                f"{problem}, ε = {epsilon:g}", _cell(values), f"{error:.4f}", "–" if floor is None else f"{floor:g}",
                str(len(values)), f"{np.median(cpu):.2f}" if cpu else "–",
            ])  # fmt: skip
    return _table(["", "test AUC", "standard error", "floor", "fits", "CPU s"], rows)


def report(done: Results) -> str:
    """Return all tables."""
    both = ("front door", "auto", "linear")
    learners = {
        part: list(dict.fromkeys(job.learner for job in jobs(part))) for part in ("regression", "simulated", "others")
    }
    curves = []
    for problem in ("adult", "bank"):
        for rows in (500, 2000, 8000, None):
            for learner in both:
                own = [j for j in jobs("curves") if (j.problem, j.rows, j.learner) == (problem, rows, learner)]
                cells = [_cell(_values(done, [j for j in own if j.epsilon == e])) for e in (0.05, 0.1, 0.5, 1.0, 4.0)]
                curves.append([problem, str(rows or "all"), learner, *cells])
    cap = [
        [problem, _cell(_values(done, [j for j in jobs("xgboost") if j.problem == problem]))]
        for problem in dict.fromkeys(job.problem for job in jobs("xgboost"))
    ]
    papers = ["front door", *PAPERS]
    of_papers = {(j.problem, j.epsilon, j.split) for j in jobs("papers")}
    columns = list(dict.fromkeys((j.problem, j.epsilon) for j in jobs("papers")))
    paper_rows = []
    for name in papers:
        cells = []
        for problem, epsilon in columns:
            splits = [s for p, e, s in of_papers if (p, e) == (problem, epsilon)]
            cells.append(_cell(_values(done, (Job(problem, name, epsilon, s, 0) for s in splits))))
        paper_rows.append([name, *cells])
    parts = {
        "Front door, splits 0 to 7, up to three runs each": _main_table(done),
        "Recipes of the papers at their defaults, up to splits 0 and 1": _table(
            ["", *(f"{p} {e:g}" for p, e in columns)], paper_rows
        ),
        "Ablation, up to splits 0 to 3": _grid(done, "ablation", _dataset, ABLATION),
        "Regression, test R², up to splits 0 to 3": _grid(done, "regression", _dataset, learners["regression"]),
        "P0's simulated problems, 3 splits": _grid(done, "simulated", _dataset, learners["simulated"]),
        "Other tables, splits 0 and 1 (pendigits: accuracy)": _grid(done, "others", _dataset, learners["others"]),
        "Learning curves, up to splits 0 to 2": _table(
            ["", "rows", "", *(f"ε = {e:g}" for e in (0.05, 0.1, 0.5, 1.0, 4.0))], curves
        ),
        "XGBoost without privacy, 300 trees, splits 0 to 3": _table(["", "score"], cap),
    }
    return "\n\n".join(f"### {title}\n\n{body}" for title, body in parts.items() if body.count("\n") > 1)
