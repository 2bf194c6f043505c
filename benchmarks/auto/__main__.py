"""Run what is missing, write ``RESULTS.md`` and print it.

    python -m benchmarks.auto --data DIR [--only main,ablation] [--report]
    python -m benchmarks.auto --data DIR --only strangers --first 2000 --results FILE    # development splits

Results are appended to ``results.jsonl`` beside this file with the commit that made them; a job that is there is not
run again. Development splits need a file of their own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.auto.jobs import FIRST, LEARNERS, PARTS, Job, jobs
from benchmarks.auto.problems import SIMULATED, load
from benchmarks.auto.report import report
from benchmarks.auto.strangers import STRANGERS, stranger

RESULTS = Path(__file__).with_name("results.jsonl")


def learner_of(job: Job, regression: bool, delta: float, schema: Any) -> Any:
    """Return the estimator of a job."""
    from ledgerwood import learners as lw

    common: dict[str, Any] = {
        "epsilon": job.epsilon, "delta": delta, "schema": schema, "random_state": 1000 * job.split + job.run,
    }  # fmt: skip
    options = LEARNERS[job.learner]
    if not options:
        return (lw.PrivateRegressor if regression else lw.PrivateClassifier)(**common, n_threads=1)
    if options["recipe"] == "linear":
        kind = lw.BoostedAdaSSPRegressor if regression else lw.BoostedAdaSSPClassifier
        return kind(bins=options.get("bins"), **common)
    made = lw.PrivateBoostingRegressor if regression else lw.PrivateBoostingClassifier
    return made(**common, **options, n_threads=1)


def evaluate(job: Job, folder: str) -> dict[str, Any]:
    """Fit and score: test AUC (accuracy for more than two classes), or R squared."""
    from sklearn.dummy import DummyClassifier, DummyRegressor
    from sklearn.metrics import accuracy_score, r2_score, roc_auc_score

    if job.problem in STRANGERS:
        problem = stranger(job.problem, job.split)
    else:
        problem = load(job.problem, folder, job.split if job.problem in SIMULATED else 0)
    X, y, X_test, y_test = problem.split(job.split, job.rows)
    regression = problem.task == "regression"
    began = time.process_time(), time.perf_counter()
    if job.learner == "xgboost":
        model = _xgboost(regression)
        codes = {c: X[c].astype("category") for c in X.columns if X[c].dtype.kind not in "iufb"}
        X = X.assign(**codes)
        X_test = X_test.assign(**{c: X_test[c].astype(codes[c].dtype) for c in codes})
    elif job.learner == "constant":
        model = DummyRegressor() if regression else DummyClassifier()
    else:
        model = learner_of(job, regression, 1 / len(y), problem.schema)
    model.fit(X, y)
    spent = time.process_time() - began[0], time.perf_counter() - began[1]
    if regression:
        score = r2_score(y_test, model.predict(X_test))
    elif len(np.unique(problem.y)) > 2:
        score = accuracy_score(y_test, model.predict(X_test))
    else:
        score = roc_auc_score(y_test, model.predict_proba(X_test)[:, 1])
    return {"key": job.key, "score": round(float(score), 5), "cpu": round(spent[0], 3), "wall": round(spent[1], 3)}


def _xgboost(regression: bool) -> Any:
    import xgboost

    made = xgboost.XGBRegressor if regression else xgboost.XGBClassifier
    return made(n_estimators=300, max_depth=4, learning_rate=0.1, enable_categorical=True, n_jobs=1)


def known(results: Path) -> dict[str, dict[str, Any]]:
    """Return the results so far, by job."""
    if not results.exists():
        return {}
    lines = (json.loads(line) for line in results.read_text().splitlines() if line)
    return {line["key"]: line for line in lines}


def commit() -> str:
    """Return the commit that runs, with a star if the library was changed since."""
    here = Path(__file__).parents[2]
    ask = ["git", "-C", str(here)]
    name = subprocess.run([*ask, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout
    changed = subprocess.run([*ask, "status", "--short", "src"], capture_output=True, text=True, check=True).stdout
    return name.strip() + ("*" if changed else "")


def main() -> None:
    """Run the parts asked for, then print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="data", help="folder of datasets.json and its files")
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--report", action="store_true", help="run nothing")
    parser.add_argument("--first", type=int, default=FIRST, help="the first split")
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    if arguments.first != FIRST and arguments.results == RESULTS:
        parser.error("development splits need --results FILE")
    done = known(arguments.results)
    if not arguments.report:
        here = commit()
        for part in arguments.only.split(","):
            for job in jobs(part, arguments.first):
                if job.key in done:
                    continue
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        done[job.key] = evaluate(job, arguments.data)
                    except Exception as error:  # a recipe that cannot run on a task is a result too
                        done[job.key] = {"key": job.key, "error": f"{type(error).__name__}: {error}"[:300]}
                with arguments.results.open("a") as file:
                    file.write(json.dumps({**done[job.key], "commit": here}) + "\n")
    text = report(done, arguments.first)
    if arguments.results == RESULTS:
        RESULTS.with_name("RESULTS.md").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
