"""Tables of the results, in Markdown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from benchmarks.auto.jobs import ABLATION, BUDGETS, REPORTED, Job, jobs

Results = dict[str, dict[str, Any]]
FLOORS = {
    "adult": (0.884, 0.904, 0.909),
    "bank": (0.854, 0.898, 0.904),
    "credit2": (0.750, 0.759, 0.762),
    "credit1": (None, None, 0.8435),
}
BEST_TREES = {
    "adult": (0.8841, 0.9049, 0.9093),
    "bank": (0.8545, 0.8985, 0.9044),
    "credit2": (0.7372, 0.7553, 0.7588),
}
"""The best trees of an earlier study in the same set-up, at each budget."""
OURS = ("auto", "linear")


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


def _auto_table(done: Results) -> str:
    """``recipe="auto"`` against the best row of trees that was known before, on splits 0 to 7."""
    rows = []
    for problem, best in BEST_TREES.items():
        for epsilon, before in zip(BUDGETS, best):
            values = _values(done, (Job(problem, "auto", epsilon, split, 0) for split in range(8)))
            rows.append([f"{problem}, ε = {epsilon:g}", _cell(values), _error(values), f"{before:.4f}"])
    return _table(["", "test AUC", "standard error", "best known trees"], rows)


def _error(values: Sequence[float]) -> str:
    return f"{np.std(values, ddof=1) / np.sqrt(len(values)):.4f}" if len(values) > 1 else "–"


def _against(done: Results, part: str) -> str:
    """The front door and the best other learner of a part, paired by split."""
    jobs_of: dict[tuple[str, float], dict[str, list[Job]]] = defaultdict(lambda: defaultdict(list))
    for job in jobs(part):
        jobs_of[job.problem, job.epsilon][job.learner].append(job)
    rows = []
    for (problem, epsilon), learners in jobs_of.items():
        own = _values(done, learners.pop("front door"))
        others = {name: _values(done, found) for name, found in learners.items() if name not in OURS}
        others = {name: values for name, values in others.items() if values and len(values) == len(own)}
        if not own or not others:
            continue
        best = max(others, key=lambda name: float(np.mean(others[name])))
        gap = np.array(own) - np.array(others[best])
        error = float(np.std(gap, ddof=1) / np.sqrt(len(gap))) if len(gap) > 1 else 0.0
        verdict = "yes" if gap.mean() >= -error else "no"
        rows.append([
            f"{problem}, ε = {epsilon:g}", _cell(own), f"{best} {np.mean(others[best]):.4f}", f"{gap.mean():+.4f}",
            f"{error:.4f}", verdict, str(len(own)),
        ])  # fmt: skip
    head = ["", "front door", "best other", "difference", "standard error", "at least as good", "splits"]
    return _table(head, rows)


def _by_budget(done: Results, part: str) -> dict[str, str]:
    """One table for each budget: learners by problems."""
    found = {}
    for epsilon in BUDGETS:
        own = [job for job in jobs(part) if job.epsilon == epsilon]
        problems = list(dict.fromkeys(job.problem for job in own))
        rows = [
            [name, *(_cell(_values(done, [j for j in own if (j.learner, j.problem) == (name, p)])) for p in problems)]
            for name in dict.fromkeys(job.learner for job in own)
        ]
        found[f"ε = {epsilon:g}"] = _table(["", *problems], rows)
    return found


def report(done: Results) -> str:
    """Return all tables."""
    both = ("front door", "auto", "linear")
    curves = []
    for problem in ("adult", "bank"):
        for rows in (500, 2000, 8000, None):
            for learner in both:
                own = [j for j in jobs("curves") if (j.problem, j.rows, j.learner) == (problem, rows, learner)]
                cells = [_cell(_values(done, [j for j in own if j.epsilon == e])) for e in (0.05, 0.1, 0.5, 1.0, 4.0)]
                curves.append([problem, str(rows or "all"), learner, *cells])
    cap = []
    for problem in dict.fromkeys(job.problem for job in jobs("xgboost")):
        without = _values(done, [j for j in jobs("xgboost") if j.problem == problem])
        ours = _values(done, (Job(problem, "front door", 1.0, split, 0) for split in range(len(without))))
        gap = f"{np.mean(without) - np.mean(ours):.4f}" if without and len(ours) == len(without) else "–"
        cap.append([problem, _cell(without), _cell(ours), gap])
    simulated = list(dict.fromkeys(job.learner for job in jobs("simulated")))
    parts = {
        "Front door, splits 0 to 7, up to three runs each": _main_table(done),
        "Trees alone, splits 0 to 7": _auto_table(done),
        "Front door against the recipes of the papers at their defaults": _against(done, "papers"),
        **{f"All recipes, splits 0 to 3, {name}": table for name, table in _by_budget(done, "papers").items()},
        "Regression, test R²: front door against all others": _against(done, "regression"),
        **{f"Regression, splits 0 to 5, {name}": table for name, table in _by_budget(done, "regression").items()},
        "P0's simulated problems, 3 splits": _grid(done, "simulated", _dataset, simulated),
        "Ablation, splits 0 to 3": _grid(done, "ablation", _dataset, ABLATION),
        "Learning curves, splits 0 to 2": _table(
            ["", "rows", "", *(f"ε = {e:g}" for e in (0.05, 0.1, 0.5, 1.0, 4.0))], curves
        ),
        "The gap to XGBoost without privacy, 300 trees, splits 0 to 3": _table(
            ["", "XGBoost", "front door, ε = 1", "gap"], cap
        ),
    }
    return "\n\n".join(f"### {title}\n\n{body}" for title, body in parts.items() if body.count("\n") > 1)
