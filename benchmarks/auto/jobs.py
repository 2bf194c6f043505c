"""What is run: every job is one fit of one learner on one split, by name, so that results can be resumed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.auto.strangers import STRANGERS

REPORTED = ("adult", "bank", "credit2", "credit1")
REGRESSION = ("abalone", "california", "powerplant")
CLASSIFICATION = (*REPORTED, "california_binary", "higgs_18k", "covtype_binary", "a9a", "pendigits")
BUDGETS = (0.1, 0.5, 1.0)
FIRST = 16
"""The first reported split: 16 to 23 were run once, with the rule as it is. 0 to 15 and 1000 and up led to it."""

LEARNERS: dict[str, dict[str, Any]] = {
    "front door": {},
    "auto": {"recipe": "auto"},
    # one lever of auto taken away, or put to another value
    "uniform candidates": {"recipe": "auto", "candidates": "uniform"},
    "free trees": {"recipe": "auto", "structure": "free", "interactions": 0.0},
    "no clipping": {"recipe": "auto", "gradient_clip": 1.0},
    "no shrinkage": {"recipe": "auto", "shrink": 0.0},
    "ridge 1": {"recipe": "auto", "ridge": 1.0},
    "no ridge": {"recipe": "auto", "ridge": 0.0},
    "no ridge, no shrinkage": {"recipe": "auto", "ridge": 0.0, "shrink": 0.0},
    "no interactions": {"recipe": "auto", "interactions": 0.0},
    "half interactions": {"recipe": "auto", "interactions": 0.5},
    "100 trees": {"recipe": "auto", "n_trees": 100},
    "depth 4": {"recipe": "auto", "max_depth": 4},
    "linear": {"recipe": "linear", "bins": 8},
    "linear, plain": {"recipe": "linear"},
}
PAPERS = (
    "xgb", "xgb_cyc", "xgb_ada", "tr", "tr_cyc", "tr_ada", "tr_ada_cyc", "dp_ebm", "dp_ebm_newton", "dp_rf",
    "feverless", "pr", "tr_ih_ebm", "tr_ih_ebm_batched", "sarus",
)  # fmt: skip
LEARNERS |= {name: {"recipe": name} for name in PAPERS}
ABLATION = (
    "front door",
    *(name for name in LEARNERS if name not in (*PAPERS, "front door", "linear", "linear, plain")),
)


@dataclass(frozen=True)
class Job:
    """One fit."""

    problem: str
    learner: str
    epsilon: float
    split: int
    run: int
    rows: int | None = None

    @property
    def key(self) -> str:
        """Its name in the results."""
        return "|".join(str(value) for value in asdict(self).values())


def jobs(part: str, first: int = FIRST) -> Iterator[Job]:
    """Return the jobs of a part, the most informative first, on splits from ``first`` on."""
    match part:
        case "main":
            for run in range(3):
                for split in range(first, first + 8):
                    for problem in REPORTED:
                        yield from (Job(problem, "front door", epsilon, split, run) for epsilon in BUDGETS)
        case "auto":
            for split in range(first, first + 8):
                for problem in REPORTED:
                    yield from (Job(problem, "auto", epsilon, split, 0) for epsilon in BUDGETS)
        case "regression":
            for split in range(first, first + 4):
                for problem in REGRESSION:
                    for epsilon in BUDGETS:
                        for learner in ("front door", "auto", "linear", "linear, plain", *PAPERS):
                            yield Job(problem, learner, epsilon, split, 0)
        case "simulated":
            for split in range(first, first + 3):
                for problem in ("simulated1", "simulated2"):
                    for epsilon in (0.1, 1.0):
                        for learner in ("front door", "xgb", "xgb_cyc", "xgb_ada", "tr", "tr_cyc"):
                            yield Job(problem, learner, epsilon, split, 0)
        case "papers":
            for split in range(first, first + 4):
                for problem in CLASSIFICATION:
                    for epsilon in BUDGETS:
                        for learner in ("front door", *PAPERS):
                            yield Job(problem, learner, epsilon, split, 0)
        case "strangers":
            for split in range(first, first + 1):
                for problem in STRANGERS:
                    for epsilon in BUDGETS:
                        for learner in ("front door", "auto", "linear", "linear, plain", "constant"):
                            yield Job(problem, learner, epsilon, split, 0)
        case "ablation":
            for split in range(first, first + 1):
                for problem in (*REPORTED, "california_binary", "higgs_18k", "covtype_binary", *REGRESSION):
                    for epsilon in (0.1, 1.0):
                        yield from (Job(problem, learner, epsilon, split, 0) for learner in ABLATION)
        case "curves":
            for split in range(first, first + 1):
                for problem in ("adult", "bank"):
                    for rows in (500, 2000, 8000, None):
                        for epsilon in (0.05, 0.1, 0.5, 1.0, 4.0):
                            for learner in ("front door", "auto", "linear"):
                                yield Job(problem, learner, epsilon, split, 0, rows)
        case "xgboost":
            for split in range(first, first + 4):
                for problem in (*CLASSIFICATION, *REGRESSION, "simulated1", "simulated2"):
                    yield Job(problem, "xgboost", 0.0, split, 0)


PARTS = ("main", "auto", "simulated", "papers", "regression", "strangers", "xgboost", "ablation", "curves")
