"""The page of the papers: beside each number of a paper ours, and a verdict that is computed from them."""

from __future__ import annotations

from pathlib import Path

from benchmarks.papers import p0, p2, p3
from benchmarks.papers.run import Results
from benchmarks.papers.tables import Numbers

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "papers.md"
HEAD = Path(__file__).with_name("head.md")


def page(done: Results, pictures: Path) -> str:
    """Return the page; its pictures go to a folder."""
    numbers = Numbers(done)
    sections = [HEAD.read_text(encoding="utf-8")]
    for paper in (p0, p2, p3):
        sections += paper.sections(numbers, pictures)
    return "\n\n".join(section.strip() for section in sections) + "\n"


def write_report(done: Results) -> None:
    """Write the page and its pictures."""
    PAGE.write_text(page(done, PAGE.parent / "papers"), encoding="utf-8")
    print(f"{Numbers(done).fits} fits; wrote docs/benchmarks/papers.md")
