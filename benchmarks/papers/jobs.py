"""What is run: a job is one fit on one split, known by its name, so that results can be resumed.

``quick`` keeps the questions of a paper and thins its grid; the whole grid has the paper's splits and repeats.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["AUTO", "LOCAL", "OTHERS", "SKETCHED", "STUDIES", "XGBOOST", "Job", "Study"]

AUTO = "front door"  # the auto estimators' key in results.jsonl
OTHERS = XGBOOST, SKETCHED, LOCAL = "xgboost", "xgboost on a private sketch", "xgboost on local noise"
GREEDY = ("xgb", "xgb_cyc", "xgb_ada")
RANDOM = ("tr", "tr_cyc", "tr_ada", "tr_ada_cyc")
REAL = ("adult", "bank", "credit2", "california_binary", "higgs_18k", "credit1", "covtype_binary")
P2_REAL = ("bank", "credit1", "credit2", "adult")


@dataclass(frozen=True)
class Job:
    """One fit: the problem, the recipe and what is changed of it, the budget, the split and the repeat."""

    problem: str
    recipe: str
    options: tuple[tuple[str, Any], ...]
    epsilon: float
    split: int = 0
    run: int = 0

    @property
    def key(self) -> str:
        """Its name in the results."""
        return json.dumps([self.problem, self.recipe, dict(self.options), self.epsilon, self.split, self.run])

    @property
    def cell(self) -> tuple[Any, ...]:
        """What splits and repeats are averaged over."""
        return self.problem, self.recipe, self.options, self.epsilon


@dataclass(frozen=True)
class Study:
    """An experiment of a paper: which fits it needs, splits and repeats left out."""

    name: str
    title: str
    fits: Callable[[bool], Iterator[Job]]
    splits: int
    repeats: int

    def jobs(self, quick: bool, splits: int | None = None) -> Iterator[Job]:
        """Return its jobs; quick ones are a part of the whole."""
        for split in range(splits or (1 if quick else self.splits)):
            for run in range(1 if quick else self.repeats):
                for job in self.fits(quick):
                    yield Job(job.problem, job.recipe, job.options, job.epsilon, split, run)


def fit(problem: str, recipe: str, epsilon: float = 1.0, *, paper: bool = True, **options: Any) -> Job:
    """Return a job; ``paper`` takes the paper's own calibration and no noise-aware ridge."""
    if paper:
        options["accounting"] = "paper"
    return Job(problem, recipe, tuple(sorted(options.items())), epsilon)


def trees_and_depths(quick: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the DP-XGB paper's grid."""
    return ((10, 35, 50, 200), (2, 4, 6)) if quick else ((*range(5, 55, 5), 75, 100, 150, 200), (2, 3, 4, 5, 6))


def dp_xgb_figure_2(quick: bool) -> Iterator[Job]:
    trees, depths = trees_and_depths(quick)
    for problem in ("simulated1", "simulated2"):
        for t in trees:
            for d in depths:
                yield from (fit(problem, recipe, n_trees=t, max_depth=d) for recipe in (*GREEDY, *RANDOM))
        yield fit(problem, AUTO, paper=False)


def dp_xgb_table_1(quick: bool) -> Iterator[Job]:
    trees, depths = trees_and_depths(quick)
    for problem in REAL:
        for recipe in (*GREEDY, *RANDOM):
            for t in trees:
                for d in depths:
                    yield fit(problem, recipe, n_trees=t, max_depth=d)
                    if not quick or (t in (35, 200) and d in (2, 4)):
                        yield fit(problem, recipe, paper=False, n_trees=t, max_depth=d)
        yield fit(problem, AUTO, paper=False)


def dp_xgb_figure_5(quick: bool) -> Iterator[Job]:
    for informative in (2, 10, 30):
        for t in (5, 10, 50, 100):
            for d in (1, 2, 5):
                for recipe in ("xgb", "tr"):
                    yield fit(f"informative_{informative}", recipe, n_trees=t, max_depth=d)
        yield fit(f"informative_{informative}", AUTO, paper=False)


SPLIT_METHODS = {"hist": "feverless", "pr": "pr", "tr": "tr"}


def maddock_figure_2(quick: bool) -> Iterator[Job]:
    for recipe in SPLIT_METHODS.values():
        own = 300 if recipe == "tr" else 25
        for t in (25, 100, 300) if quick else range(25, 325, 25):
            yield fit("credit1", recipe, n_trees=t, max_depth=4)
        for d in (2, 4, 6) if quick else (2, 3, 4, 5, 6):
            yield fit("credit1", recipe, n_trees=own, max_depth=d)
        for epsilon in (0.1, 0.5, 1.0) if quick else (0.1, 0.25, 0.5, 0.75, 1.0):
            yield fit("credit1", recipe, epsilon, n_trees=own, max_depth=3)


def leaf_job(problem: str, recipe: str, leaf: str) -> Job:
    """Return a fit of Maddock et al.'s Table 4.

    Averages are those of a forest: no tree sees another one's scores. Where leaves come from the sums of the splits
    they are Newton weights at score 0, which are 4 * (share of class 1 - 1/2): the same order of rows.
    """
    options: dict[str, Any] = {"n_trees": 300 if recipe == "tr" else 25, "max_depth": 4}
    if leaf == "average":
        return fit(problem, recipe, 0.5, leaf="average" if recipe == "tr" else "newton", batch=1.0, **options)
    return fit(problem, recipe, 0.5, leaf=leaf, **options)


def maddock_table_4(quick: bool) -> Iterator[Job]:
    for problem in P2_REAL:
        for recipe in SPLIT_METHODS.values():
            yield from (leaf_job(problem, recipe, leaf) for leaf in ("gradient", "average", "newton"))


CANDIDATES = {"IH (s=5)": "hessian", "Quantiles": "quantiles", "Log": "log", "Uniform": "uniform"}


def _candidates(kind: str, rounds: int = 5) -> dict[str, Any]:
    return {"candidates": kind, **({"sketch_rounds": rounds} if kind == "hessian" else {})}


def maddock_table_5(quick: bool) -> Iterator[Job]:
    for problem in (*P2_REAL, "higgs_18k"):
        for kind in CANDIDATES.values():
            yield fit(problem, "tr", n_trees=100, max_depth=4, **_candidates(kind))
            yield fit(problem, "tr", paper=False, n_trees=100, max_depth=4, **_candidates(kind))


def maddock_figure_3(quick: bool) -> Iterator[Job]:
    for rounds in (5, 20, 100) if quick else (5, 10, 20, 30, 100):
        for epsilon in (0.1, 0.5, 1.0):
            yield fit("credit1", "tr", epsilon, n_trees=100, max_depth=4, **_candidates("hessian", rounds))
    for t in (100, 200, 300):
        for kind in CANDIDATES.values():
            yield fit("credit1", "tr", n_trees=t, max_depth=4, **_candidates(kind))
    for q in (2, 8, 32, 128) if quick else (2, 4, 8, 16, 32, 64, 128):
        for kind in ("hessian", "uniform"):
            yield fit("credit1", "tr", n_trees=100, max_depth=4, n_bins=q, **_candidates(kind))


BATCHES = {"Batch (B=10)": 10, "Batch (B=20)": 20, "Batch (B=200)": 200, "Newton (B=1)": 1}


def maddock_table_6(quick: bool) -> Iterator[Job]:
    for problem in P2_REAL:
        for paper in (True, False):
            for batch in BATCHES.values():
                yield fit(problem, "tr", 0.1, paper=paper, n_trees=200, max_depth=4, batch=batch)
            yield fit(problem, "dp_rf", 0.1, paper=paper, n_trees=200, max_depth=4)


def maddock_figure_4(quick: bool) -> Iterator[Job]:
    for epsilon in (0.1, 0.5):
        for part in (0.05, 0.1, 0.25, 0.5, 1.0):
            yield fit("credit1", "tr", epsilon, n_trees=200, max_depth=4, batch=part)
        yield fit("credit1", "tr", epsilon, n_trees=200, max_depth=4, batch=1)
        yield fit("credit1", "dp_rf", epsilon, n_trees=200, max_depth=4)


METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "DP-EBM": ("dp_ebm", {}),
    "DP-EBM Newton": ("dp_ebm_newton", {}),
    "DP-GBM": ("feverless", {"leaf": "gradient"}),
    "DP-RF": ("dp_rf", {}),
    "DP-TR Batch Newton IH EBM (p=0.25)": ("tr_ih_ebm_batched", {}),
    "DP-TR Batch Newton IH EBM (p=1)": ("tr_ih_ebm_batched", {"batch": 1.0}),
    "DP-TR Newton IH": ("tr_ada", {}),
    "DP-TR Newton IH EBM": ("tr_ih_ebm", {}),
    "FEVERLESS (uniform)": ("feverless", {}),
}


def maddock_table_7(quick: bool) -> Iterator[Job]:
    for epsilon in (0.1, 0.5, 1.0):
        for problem in (*P2_REAL, "higgs_18k"):
            for recipe, options in METHODS.values():
                yield fit(problem, recipe, epsilon, n_trees=100, max_depth=4, **options)
            yield fit(problem, AUTO, epsilon, paper=False)


def maddock_figure_5(quick: bool) -> Iterator[Job]:
    for t in (25, 100, 200) if quick else (25, 50, 75, 100, 150, 200):
        for recipe, options in METHODS.values():
            yield fit("credit1", recipe, n_trees=t, max_depth=4, **options)
        yield fit("credit1", LOCAL, paper=False, n_trees=t, max_depth=4)


P3_PROBLEMS = ("covtype_binary", "adult", "synthetic_cls", "synthetic_reg", "abalone")
P3_BUDGETS = (1.0, 2.0, 4.0, 6.0, 8.0, 10.0)
P3_FLOOR = {"min_child_weight": 50.0}


def grislain_figure_4(quick: bool) -> Iterator[Job]:
    for problem in P3_PROBLEMS:
        for epsilon in (1.0, 4.0, 10.0) if quick else P3_BUDGETS:
            yield fit(problem, "sarus", epsilon)
            yield fit(problem, "sarus", epsilon, **P3_FLOOR)
            yield fit(problem, "sarus", epsilon, paper=False)
            yield fit(problem, AUTO, epsilon, paper=False)
        yield fit(problem, XGBOOST, 0.0, paper=False)


P3_BINS = (10, 20, 50, 100, 200)


def grislain_figure_1(quick: bool) -> Iterator[Job]:
    yield fit("adult", XGBOOST, 0.0, paper=False, n_trees=20)
    for bins in (10, 50, 200) if quick else P3_BINS:
        yield fit("adult", SKETCHED, paper=False, n_trees=20, bins=bins)
        yield fit("adult", "sarus", n_bins=bins)
        yield fit("adult", "sarus", paper=False, n_bins=bins)


LEAVES: dict[str, dict[str, Any]] = {
    "Laplace on leaves, no floor": {"leaf": "laplace", "min_child_weight": 0.0},
    "Laplace on leaves, floor 200": {"leaf": "laplace", "min_child_weight": 200.0},
    "Laplace on leaves, floor 600": {"leaf": "laplace", "min_child_weight": 600.0},
    "noisy average": {"leaf": "noisy_average"},
}


def grislain_figure_2(quick: bool) -> Iterator[Job]:
    for epsilon in (1.0, 4.0, 10.0) if quick else P3_BUDGETS:
        for options in LEAVES.values():
            yield fit("covtype_binary", "sarus", epsilon, **options)


STUDIES = {
    study.name: study
    for study in (
        Study("dp-xgb-figure-2", "DP-XGB, Figure 2: simulated problems", dp_xgb_figure_2, 3, 5),
        Study("dp-xgb-table-1", "DP-XGB, Figure 3, Tables 1 and 2: real data", dp_xgb_table_1, 3, 5),
        Study("dp-xgb-figure-5", "DP-XGB, Figure 5: few informative features", dp_xgb_figure_5, 3, 5),
        Study("maddock-figure-2", "Maddock et al., Figure 2: split methods", maddock_figure_2, 5, 3),
        Study("maddock-table-4", "Maddock et al., Table 4: leaf weights", maddock_table_4, 5, 3),
        Study("maddock-table-5", "Maddock et al., Table 5: split candidates", maddock_table_5, 5, 3),
        Study("maddock-figure-3", "Maddock et al., Figure 3: split candidates on Credit 1", maddock_figure_3, 5, 3),
        Study("maddock-table-6", "Maddock et al., Table 6: batches", maddock_table_6, 5, 3),
        Study("maddock-figure-4", "Maddock et al., Figure 4: batches on Credit 1", maddock_figure_4, 5, 3),
        Study("maddock-table-7", "Maddock et al., Table 7: ranks of methods", maddock_table_7, 5, 3),
        Study("maddock-figure-5", "Maddock et al., Figure 5: methods on Credit 1", maddock_figure_5, 5, 3),
        Study("grislain-figure-4", "Grislain & Gonzalez, Figures 4 to 6: test error", grislain_figure_4, 5, 1),
        Study("grislain-figure-1", "Grislain & Gonzalez, Figure 1: bins of the sketch", grislain_figure_1, 5, 1),
        Study("grislain-figure-2", "Grislain & Gonzalez, Figure 2: noise of the leaves", grislain_figure_2, 5, 1),
    )
}
