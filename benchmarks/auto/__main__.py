"""Run what is missing, write ``RESULTS.md`` and print it.

    python -m benchmarks.auto --data DIR [--only main,ablation] [--report]

Results are appended to ``results.jsonl`` beside this file; a job that is there is not run again.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.auto.jobs import LEARNERS, PARTS, Job, jobs
from benchmarks.auto.problems import SIMULATED, load
from benchmarks.auto.report import report

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
    from sklearn.metrics import accuracy_score, r2_score, roc_auc_score

    problem = load(job.problem, folder, job.split if job.problem in SIMULATED else 0)
    X, y, X_test, y_test = problem.split(job.split, job.rows)
    regression = problem.task == "regression"
    began = time.process_time(), time.perf_counter()
    if job.learner == "xgboost":
        model = _xgboost(regression)
        codes = {c: X[c].astype("category") for c in X.columns if X[c].dtype.kind not in "iufb"}
        X = X.assign(**codes)
        X_test = X_test.assign(**{c: X_test[c].astype(codes[c].dtype) for c in codes})
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


def known() -> dict[str, dict[str, Any]]:
    """Return the results so far, by job."""
    if not RESULTS.exists():
        return {}
    lines = (json.loads(line) for line in RESULTS.read_text().splitlines() if line)
    return {line["key"]: line for line in lines}


def main() -> None:
    """Run the parts asked for, then print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="data", help="folder of datasets.json and its files")
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--report", action="store_true", help="run nothing")
    arguments = parser.parse_args()
    done = known()
    if not arguments.report:
        for part in arguments.only.split(","):
            for job in jobs(part):
                if job.key in done:
                    continue
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        done[job.key] = evaluate(job, arguments.data)
                    except Exception as error:  # a recipe that cannot run on a task is a result too
                        done[job.key] = {"key": job.key, "error": f"{type(error).__name__}: {error}"[:300]}
                with RESULTS.open("a") as file:
                    file.write(json.dumps(done[job.key]) + "\n")
    text = report(done)
    RESULTS.with_name("RESULTS.md").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
