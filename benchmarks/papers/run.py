"""Run jobs: fit, score on the test rows, remember."""

from __future__ import annotations

import json
import subprocess
import time
import warnings
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.auto.problems import SIMULATED, Problem, load
from benchmarks.papers.jobs import AUTO, OTHERS, Job
from ledgerwood.learners import Schema

RESULTS = Path(__file__).with_name("results.jsonl")
Results = dict[str, dict[str, Any]]


@lru_cache(maxsize=4)
def problem_of(name: str, folder: str, seed: int) -> Problem:
    """Return a problem: a table of the folder, or one that is drawn anew for every split."""
    if name.startswith("informative_"):
        return _informative(int(name.removeprefix("informative_")), seed)
    if name.startswith("synthetic_"):
        return _synthetic(name, seed)
    return load(name, folder, seed if name in SIMULATED else 0)


def _framed(X: np.ndarray, y: np.ndarray, width: float, task: str) -> Problem:
    """Bounds are a public guess, wide enough for what the generator makes."""
    columns = [f"x{i}" for i in range(X.shape[1])]
    facts: dict[str, Any] = {"bounds": dict.fromkeys(columns, (-width, width))}
    if task == "regression":
        most = float(np.ceil(np.abs(y).max() / 100) * 100)
        facts["target_bounds"] = (-most, most)
    else:
        facts["classes"] = [0, 1]
    return Problem(pd.DataFrame(X, columns=columns), y, Schema(**facts), task)


def _informative(count: int, seed: int) -> Problem:
    """The DP-XGB paper, D.3: 100 features, few of them informative, the others Gaussian noise; 10 000 rows."""
    from sklearn.datasets import make_classification

    X, y = make_classification(
        10_000, count, n_informative=count, n_redundant=0, n_repeated=0, random_state=seed, shuffle=False
    )
    noise = np.random.default_rng(seed).normal(size=(len(X), 100 - count))
    return _framed(np.hstack([X, noise]), y, 8.0, "binary")


def _synthetic(name: str, seed: int) -> Problem:
    """Grislain & Gonzalez take two synthetic sets from an earlier paper; sizes are ours: 50 000 rows, 20 features."""
    from sklearn.datasets import make_classification, make_regression

    if name == "synthetic_cls":
        X, y = make_classification(50_000, 20, n_informative=10, random_state=seed)
        return _framed(X, y, 10.0, "binary")
    X, y = make_regression(50_000, 20, n_informative=10, noise=10.0, random_state=seed)
    return _framed(X, y, 5.0, "regression")


def evaluate(job: Job, folder: str) -> dict[str, Any]:
    """Fit and score: AUC and error in % for two classes, RMSE for numbers."""
    from sklearn.metrics import roc_auc_score

    problem = problem_of(job.problem, folder, job.split)
    X, y, X_test, y_test = problem.split(job.split)
    regression = problem.task == "regression"
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = _learner(job, problem, regression, len(y))
        model.fit(X, y)
        predicted = model.predict(X_test)
    found: dict[str, Any] = {"key": job.key, "cpu": round(time.process_time() - began, 2)}
    if regression:
        found["rmse"] = round(float(np.sqrt(np.mean((predicted - y_test) ** 2))), 4)
    else:
        found["auc"] = round(float(roc_auc_score(y_test, model.predict_proba(X_test)[:, 1])), 5)
        found["error"] = round(100 * float(np.mean(predicted != y_test)), 3)
    return found


def _learner(job: Job, problem: Problem, regression: bool, rows: int) -> Any:
    from ledgerwood import learners as lw

    if job.recipe in OTHERS:
        from benchmarks.papers.others import other

        return other(job, problem, rows)
    common: dict[str, Any] = {
        "epsilon": job.epsilon, "delta": 1 / rows, "schema": problem.schema, "n_threads": 1,
        "random_state": 1000 * job.split + job.run,
    }  # fmt: skip
    if job.recipe == AUTO:
        return (lw.PrivateRegressor if regression else lw.PrivateClassifier)(**common)
    made = lw.PrivateBoostingRegressor if regression else lw.PrivateBoostingClassifier
    return made(recipe=job.recipe, **common, **dict(job.options))


def known(results: Path = RESULTS) -> Results:
    """Return the results so far, by job."""
    if not results.exists():
        return {}
    return {line["key"]: line for line in map(json.loads, results.read_text().splitlines())}


def run(jobs: Iterable[Job], folder: str, workers: int, results: Path = RESULTS) -> None:
    """Run what is missing, with a progress bar; each result is on disk before the next begins."""
    from rich.progress import Progress

    done = known(results)
    results.parent.mkdir(parents=True, exist_ok=True)
    missing = list({job.key: job for job in jobs if job.key not in done}.values())
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    with Progress() as progress, ProcessPoolExecutor(workers) as pool, results.open("a") as file:
        bar = progress.add_task("fits", total=len(missing))
        for future in as_completed([pool.submit(_safely, job, folder) for job in missing]):
            file.write(json.dumps({**future.result(), "commit": commit}) + "\n")
            file.flush()
            progress.advance(bar)


def _safely(job: Job, folder: str) -> dict[str, Any]:
    try:
        return evaluate(job, folder)
    except Exception as error:  # a recipe that cannot run on a task is a result too
        return {"key": job.key, "failed": f"{type(error).__name__}: {error}"[:300]}
