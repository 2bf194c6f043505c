"""The page of the papers is what its generator makes of the committed results."""

from __future__ import annotations

from pathlib import Path

from benchmarks.papers.report import PAGE, page
from benchmarks.papers.run import known


def test_the_page_equals_what_the_results_say(tmp_path: Path) -> None:
    assert PAGE.read_text(encoding="utf-8") == page(known(), tmp_path)


def test_every_result_names_the_commit_that_made_it() -> None:
    results = known()
    assert results and all(line["commit"] for line in results.values())
