"""The page of the papers: beside each number of a paper ours, and a verdict that is computed from them."""

from __future__ import annotations

from pathlib import Path

from benchmarks.papers import p0, p2, p3
from benchmarks.papers.run import Results
from benchmarks.papers.tables import Numbers

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "papers.md"
HEAD = Path(__file__).with_name("head.md")


def write_report(done: Results) -> None:
    """Write the page and its pictures."""
    numbers = Numbers(done)
    sections = [HEAD.read_text()]
    for paper in (p0, p2, p3):
        sections += paper.sections(numbers, PAGE.parent / "papers")
    PAGE.write_text("\n\n".join(section.strip() for section in sections) + "\n")
    print(f"{numbers.fits} fits; wrote docs/benchmarks/papers.md")
