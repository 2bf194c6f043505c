"""Rerun the papers.

    python -m benchmarks.papers --data DIR [--results FILE] [--quick] [--splits 3] [--only dp-xgb-figure-2] [--report]

Results are appended to FILE; a job that is there is not run again. The page and its pictures are written beside it, and
its numbers are held against the committed ones. Without ``--results`` the committed results are continued and the page
is that of the documentation. Without ``--data`` only problems that are drawn here are run.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.papers.jobs import STUDIES
from benchmarks.papers.report import PAGE, compared, write_report
from benchmarks.papers.run import RESULTS, known, run

DRAWN = ("simulated", "informative_", "synthetic_")


def main() -> None:
    """Run the studies asked for, then write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of datasets.json and its files")
    parser.add_argument("--results", type=Path, default=RESULTS, help="file of results; a new one reruns everything")
    parser.add_argument("--quick", action="store_true", help="one split of a thinned grid")
    parser.add_argument("--splits", type=int, help="splits, if not those of the paper (or the one of --quick)")
    parser.add_argument("--only", default=",".join(STUDIES), help="studies, by name")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--report", action="store_true", help="run nothing, write the report")
    given = parser.parse_args()
    if not given.report:
        jobs = [job for name in given.only.split(",") for job in STUDIES[name].jobs(given.quick, given.splits)]
        jobs.sort(key=lambda job: (job.split, job.run))  # what is stopped early has whole splits
        if given.data is None:
            jobs = [job for job in jobs if job.problem.startswith(DRAWN)]
        run(jobs, given.data or "", given.workers, given.results)
    own = given.results.resolve() != RESULTS
    write_report(known(given.results), given.results.with_suffix(".md") if own else PAGE)
    if own:
        print(compared(known(given.results), known()))


if __name__ == "__main__":
    main()
