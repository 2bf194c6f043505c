"""Audit the published package dp-xgboost 0.2.10 from its public API; the neighbouring tables are searched.

Usage: python -m benchmarks.dp_xgboost_audit [--samples 2400] [--seed 1] [--output FILE]

Needs an environment of its own with dp-xgboost (docs/howto/audit-dp-xgboost.md) and a C compiler. The script

1. trains as shipped, and looks whether the noise changes within one second of the clock;
2. starts itself again with the function ``time`` replaced by a number drawn from the auditor's generator. The package
   seeds all its noise with ``time(0)``: trainings of one second are copies of each other, and a certificate needs
   independent ones. The replacement is kinder to the package than the truth: it audits the package with a good seed;
3. declares the public parameters (two columns in [0, 1], a least child weight of 500) and lets the auditor find the
   tables and the event. The output is what the package needs to predict, the splits and the leaves; the exact
   statistics that a saved model also carries are left out.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from ledgerwood.accounting import PureDP
from ledgerwood.verification import audit, check_determinism
from ledgerwood.verification.auditor.pairs import candidate_pairs

CLAIMED = 0.1
LEAST_CHILD_WEIGHT = 500
PARAMETERS = {
    "objective": "reg:squarederror",
    "tree_method": "approxDP",
    "dp_epsilon_per_tree": CLAIMED,
    "max_depth": 2,
    "min_child_weight": LEAST_CHILD_WEIGHT,
    "subsample": 1.0,
    "learning_rate": 0.3,
    "base_score": 0.5,
    "nthread": 1,
    "verbosity": 0,
}
SCHEMA = {"columns": [(0.0, 1.0), (0.0, 1.0)], "rows": 2 * LEAST_CHILD_WEIGHT, "thresholds": [LEAST_CHILD_WEIGHT]}
CLOCK = """
static long now = 1;
void set_clock(long second) { now = second; }
long time(long *out) { if (out) *out = now; return now; }
"""


def train(table: Any, _: np.random.Generator) -> Any:
    """One tree on a table whose last column is the label; the tree as the package dumps it."""
    import dp_xgboost

    features, labels = np.ascontiguousarray(table[:, :-1]), np.ascontiguousarray(table[:, -1])
    data = dp_xgboost.DMatrix(features, label=labels, feature_min=[0.0], feature_max=[1.0])
    booster = dp_xgboost.train(PARAMETERS, data, num_boost_round=1)
    return json.loads(booster.get_dump(dump_format="json")[0])


def train_at_random_second(table: Any, rng: np.random.Generator) -> Any:
    """The same, the clock set from the auditor's generator."""
    ctypes.CDLL(None).set_clock(ctypes.c_long(int(rng.integers(1, 2**31))))
    return train(table, rng)


def certify(samples: int, seed: int) -> dict[str, Any]:
    start, cpu = time.monotonic(), time.process_time()
    report = audit(train_at_random_second, PureDP(CLAIMED), schema=SCHEMA, samples=samples, seed=seed)
    print(report, file=sys.stderr)
    return {
        "claimed": CLAIMED,
        "certified": report.epsilon_lower,
        "flagged": report.flagged,
        "confidence": report.confidence,
        "event": report.event,
        "pair": report.pair_origin,
        "pairs_tried": report.pairs_tried,
        "trainings_per_input": report.samples,
        "hits": [[c.hits1, c.hits2, c.n] for c in report.certificates],
        "problems": list(report.problems),
        "seconds": round(time.monotonic() - start, 1),
        "cpu_seconds_of_this_process": round(time.process_time() - cpu, 1),
        "seed": seed,
    }


def with_clock_replaced(samples: int, seed: int) -> dict[str, Any]:
    """Run :func:`certify` in a process whose ``time`` is ours."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "clock.c"), Path(folder, "clock.so")
        source.write_text(CLOCK, encoding="ascii")
        subprocess.run(["cc", "-shared", "-fPIC", "-fno-builtin", "-o", library, source], check=True)
        command = [sys.executable, "-m", "benchmarks.dp_xgboost_audit", "--certify"]
        command += ["--samples", str(samples), "--seed", str(seed)]
        found = subprocess.run(
            command, env={**os.environ, "LD_PRELOAD": str(library)}, check=True, stdout=subprocess.PIPE, text=True
        )
        content: dict[str, Any] = json.loads(found.stdout)
        return content


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=2_400, help="trainings per input, search included")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--certify", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.certify:
        print(json.dumps(certify(arguments.samples, arguments.seed)))
        return
    as_shipped = check_determinism(train, candidate_pairs(SCHEMA)[0].first)
    results = {
        "package": "dp-xgboost 0.2.10",
        "as_shipped": str(as_shipped),
        "audit": with_clock_replaced(arguments.samples, arguments.seed),
    }
    text = json.dumps(results, indent=1)
    print(text)
    if arguments.output is not None:
        arguments.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
