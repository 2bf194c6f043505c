"""Tables of the results, in Markdown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from benchmarks.auto.jobs import ABLATION, BUDGETS, FIRST, PAPERS, REPORTED, Job, jobs
from benchmarks.auto.strangers import STRANGERS

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


def _values(done: Results, of: Iterable[Job]) -> list[float]:
    found = (done.get(job.key, {}) for job in of)
    return [line["score"] for line in found if "score" in line]


def _cell(values: Sequence[float] | np.ndarray) -> str:
    return f"{np.mean(values):.4f}" if len(values) else "–"


def _is_number(cell: str) -> bool:
    return cell.lstrip("-").startswith("0.") or (cell.lstrip("-")[:1].isdigit() and "." in cell)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows of which nothing has run yet are left out."""
    lines = [head, ["---"] * len(head), *(row for row in rows if any(_is_number(cell) for cell in row[1:]))]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _grid(done: Results, of: Iterable[Job], learners: Sequence[str]) -> str:
    groups: dict[tuple[str, str], list[Job]] = defaultdict(list)
    for job in of:
        groups[job.learner, _dataset(job)].append(job)
    columns = list(dict.fromkeys(column for _, column in groups))
    rows = [[name, *(_cell(_values(done, groups[name, column])) for column in columns)] for name in learners]
    return _table(["", *columns], rows)


def _dataset(job: Job) -> str:
    return f"{job.problem} {job.epsilon:g}"


def _by_split(done: Results, of: Iterable[Job]) -> list[float]:
    """The mean of each split's runs."""
    groups: dict[int, list[float]] = defaultdict(list)
    for job in of:
        groups[job.split] += _values(done, [job])
    return [float(np.mean(values)) for values in groups.values() if values]


def _error_of(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def _main_table(done: Results, first: int) -> str:
    rows = []
    for problem in REPORTED:
        for epsilon, floor in zip(BUDGETS, FLOORS[problem]):
            own = [job for job in jobs("main", first) if (job.problem, job.epsilon) == (problem, epsilon)]
            values, splits = _values(done, own), _by_split(done, own)
            if not values:
                continue
            error = _error_of(splits)
            cpu = [line["cpu"] for j in own if "cpu" in (line := done.get(j.key, {}))]
            met = "–" if floor is None else "yes" if np.mean(splits) + error >= floor else "no"
            rows.append([
                f"{problem}, ε = {epsilon:g}", _cell(values), f"{error:.4f}", "–" if floor is None else f"{floor:g}",
                met, str(len(values)), f"{np.median(cpu):.2f}",
            ])  # fmt: skip
    return _table(["", "test AUC", "standard error", "floor", "met", "fits", "CPU s"], rows)


def _auto_table(done: Results, first: int) -> str:
    """``recipe="auto"`` against the best row of trees that was known before, at each budget."""
    rows = []
    for problem, best in BEST_TREES.items():
        for epsilon, before in zip(BUDGETS, best):
            own = [job for job in jobs("auto", first) if (job.problem, job.epsilon) == (problem, epsilon)]
            if values := _values(done, own):
                error = _error_of(values)
                met = "yes" if np.mean(values) >= before - error else "no"
                rows.append([f"{problem}, ε = {epsilon:g}", _cell(values), f"{error:.4f}", f"{before:.4f}", met])
    return _table(["", "test AUC", "standard error", "best known trees", "at least as good"], rows)


def _against(done: Results, of: Iterable[Job], others: Sequence[str] | None = None) -> str:
    """The front door and the best other learner, paired by split; of learners with the most splits in common."""
    groups: dict[tuple[str, float], dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for job in of:
        if values := _values(done, [job]):
            groups[job.problem, job.epsilon][job.learner][job.split] = values[0]
    rows = []
    for (problem, epsilon), learners in groups.items():
        own = learners.pop("front door", {})
        common = {
            name: sorted(own.keys() & its.keys())
            for name, its in learners.items()
            if others is None or name in others
        }  # fmt: skip
        most = max(map(len, common.values()), default=0)
        found = {name: np.array([learners[name][s] for s in its]) for name, its in common.items() if len(its) == most}
        if not most:
            continue
        best = max(found, key=lambda name: float(found[name].mean()))
        mine = np.array([own[split] for split in common[best]])
        gap = mine - found[best]
        error = _error_of(gap.tolist())
        rows.append([
            f"{problem}, ε = {epsilon:g}", _cell(mine), f"{best} {found[best].mean():.4f}", f"{gap.mean():+.4f}",
            f"{error:.4f}", "yes" if gap.mean() >= -error else "no", str(len(found)), str(most),
        ])  # fmt: skip
    head = ["", "front door", "best other", "difference", "standard error", "at least as good", "others", "splits"]
    return _table(head, rows)


def _by_budget(done: Results, part: str, first: int) -> dict[str, str]:
    """One table for each budget: learners by problems."""
    found = {}
    for epsilon in BUDGETS:
        own = [job for job in jobs(part, first) if job.epsilon == epsilon]
        problems = list(dict.fromkeys(job.problem for job in own))
        rows = [
            [name, *(_cell(_values(done, [j for j in own if (j.learner, j.problem) == (name, p)])) for p in problems)]
            for name in dict.fromkeys(job.learner for job in own)
        ]
        found[f"ε = {epsilon:g}"] = _table(["", *problems], rows)
    return found


def _strangers(done: Results, first: int) -> str:
    """Front door, trees and linear models on tables that the rule was not made on, and what a constant scores."""
    shown = ("front door", "auto", "linear", "linear, plain", "constant")
    rows = []
    for problem in STRANGERS:
        for epsilon in BUDGETS:
            own = [job for job in jobs("strangers", first) if (job.problem, job.epsilon) == (problem, epsilon)]
            values = {name: _values(done, [job for job in own if job.learner == name]) for name in shown}
            seeds = str(len(values["front door"]))
            rows.append([f"{problem}, ε = {epsilon:g}", *(_cell(values[name]) for name in shown), seeds])
    return _table(["", *shown, "seeds"], rows)


def _curves(done: Results, first: int) -> str:
    budgets = (0.05, 0.1, 0.5, 1.0, 4.0)
    rows = []
    for problem in ("adult", "bank"):
        for size in (500, 2000, 8000, None):
            for learner in ("front door", "auto", "linear"):
                own = [
                    j for j in jobs("curves", first) if (j.problem, j.rows, j.learner) == (problem, size, learner)
                ]  # fmt: skip
                cells = [_cell(_values(done, [j for j in own if j.epsilon == e])) for e in budgets]
                rows.append([problem, str(size or "all"), learner, *cells])
    return _table(["", "rows", "", *(f"ε = {e:g}" for e in budgets)], rows)


def _gap(done: Results, first: int) -> str:
    rows = []
    for problem in dict.fromkeys(job.problem for job in jobs("xgboost", first)):
        theirs = [job for job in jobs("xgboost", first) if job.problem == problem]
        without = _values(done, theirs)
        ours = _values(done, (Job(problem, "front door", 1.0, job.split, 0) for job in theirs))
        if len(ours) != len(without):
            continue
        gap = f"{np.mean(without) - np.mean(ours):.4f}" if without and len(ours) == len(without) else "–"
        rows.append([problem, _cell(without), _cell(ours), gap])
    return _table(["", "XGBoost", "front door, ε = 1", "gap"], rows)


def _splits(part: str, first: int) -> str:
    used = {job.split for job in jobs(part, first)}
    return f"split {min(used)}" if len(used) == 1 else f"splits {min(used)} to {max(used)}"


def report(done: Results, first: int = FIRST) -> str:
    """Return all tables; those of single learners only if all of their jobs are done."""

    def if_complete(part: str, made: dict[str, str]) -> dict[str, str]:
        return made if all(job.key in done for job in jobs(part, first)) else {}

    def by_budget(title: str, part: str) -> dict[str, str]:
        tables = _by_budget(done, part, first).items()
        return if_complete(part, {f"{title}, {_splits(part, first)}, {name}": table for name, table in tables})

    simulated = list(dict.fromkeys(job.learner for job in jobs("simulated", first)))
    parts = {
        f"Front door, {_splits('main', first)}, three runs each": _main_table(done, first),
        f"Trees alone, {_splits('auto', first)}": _auto_table(done, first),
        "Front door against the recipes of the papers at their defaults": _against(done, jobs("papers", first), PAPERS),
        **by_budget("All recipes", "papers"),
        "Regression, test R²: front door against all others": _against(done, jobs("regression", first)),
        **by_budget("Regression", "regression"),
        f"The DP-XGB paper's simulated problems, {_splits('simulated', first)}": _grid(
            done, jobs("simulated", first), simulated
        ),
        "Tables that the rule was not made on": _strangers(done, first),
        **if_complete(
            "ablation",
            {f"Ablation, {_splits('ablation', first)}": _grid(done, jobs("ablation", first), ABLATION)},
        ),
        **if_complete("curves", {f"Learning curves, {_splits('curves', first)}": _curves(done, first)}),
        "The gap to XGBoost without privacy, 300 trees": _gap(done, first),
    }
    return "\n\n".join(f"### {title}\n\n{body}" for title, body in parts.items() if body.count("\n") > 1)
