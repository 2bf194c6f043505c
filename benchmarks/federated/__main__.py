"""``python -m benchmarks.federated --data DIR``: run the jobs that have no result yet; ``--write``: make the page."""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from pathlib import Path

from benchmarks.federated.jobs import all_jobs
from benchmarks.federated.report import write

RESULTS = Path(__file__).parent / "results.jsonl"


def results(path: Path) -> dict[str, float]:
    """Return the AUC of every job that has run."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {row["key"]: row["auc"] for row in map(json.loads, lines)}


def summary(path: Path) -> dict[tuple[str, str, str], list[float]]:
    """Return the AUCs of all splits by experiment, table and method."""
    found = defaultdict(list)
    for key, auc in results(path).items():
        experiment, table, method, _ = key.split("|")
        found[experiment, table, method].append(auc)
    return found


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", help="a folder with datasets.json and its files")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1e9, help="start no job after this time")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--write", action="store_true", help="docs/benchmarks/federated.md from the results")
    given = parser.parse_args()
    if given.write:
        write(summary(given.results))
        return
    began, done = time.monotonic(), results(given.results)
    for job in all_jobs(given.splits):
        if job.key in done or time.monotonic() - began > given.seconds:
            continue
        found = job.run(given.data)
        with given.results.open("a") as out:
            out.write(json.dumps(found) + "\n")
        print(found, flush=True)


if __name__ == "__main__":
    main()
