"""The page of the papers is what its generator makes of the committed results."""

from __future__ import annotations

from pathlib import Path

from benchmarks.papers.jobs import STUDIES
from benchmarks.papers.report import PAGE, compared, page
from benchmarks.papers.run import evaluate, known, run


def test_the_page_equals_what_the_results_say(tmp_path: Path) -> None:
    assert PAGE.read_text(encoding="utf-8") == page(known(), tmp_path)


def test_every_result_names_the_commit_that_made_it() -> None:
    results = known()
    assert results and all(line["commit"] for line in results.values())


def test_a_rerun_goes_to_its_own_file_and_is_held_against_the_committed_numbers(tmp_path: Path) -> None:
    job = next(STUDIES["dp-xgb-figure-2"].jobs(quick=True))
    run([job], "", 1, tmp_path / "new" / "results.jsonl")
    rerun = known(tmp_path / "new" / "results.jsonl")
    assert list(rerun) == [job.key] and rerun[job.key]["auc"] == evaluate(job, "")["auc"]
    assert compared(rerun, rerun) == "1 of 1 fits have the committed number."
    other = {job.key: {**rerun[job.key], "auc": rerun[job.key]["auc"] - 0.25}}
    assert compared(rerun, other).endswith("the others are 0.2500 higher on average, at most 0.2500 apart.")
    assert compared(rerun, {}) == "No fit of the rerun is among the committed ones."
