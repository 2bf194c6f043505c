"""The page of the papers: beside each number of a paper ours, and a verdict that is computed from them."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.papers import dp_xgb, grislain, maddock
from benchmarks.papers.run import Results
from benchmarks.papers.tables import Numbers, averaged, cell, table

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "papers.md"
HEAD = Path(__file__).with_name("head.md")


def page(done: Results, pictures: Path) -> str:
    """Return the page; its pictures go to a folder."""
    numbers = Numbers(done)
    head, found = HEAD.read_text(encoding="utf-8"), []
    for paper in (dp_xgb, maddock, grislain):
        found += paper.sections(numbers, pictures)
    sections = [head, "## In short", _short("\n\n".join(found)), *found]
    return "\n\n".join(section.strip() for section in sections) + "\n"


def _short(text: str) -> str:
    """Return a table of all claims with their verdicts, in the order of the page."""
    rows, paper, place = [], "", ""
    for line in text.splitlines():
        if line.startswith("## "):
            paper = line.removeprefix("## ").split(":")[0]
        elif line.startswith("### "):
            place = line.removeprefix("### ").split(":")[0]
        elif told := re.match(r"\*\*(.+?)\*\* ([^.]+)", line):
            rows.append([f"{paper}, {place}", *told.groups()])
    return table(["where", "claim", "verdict"], rows)


def write_report(done: Results, to: Path = PAGE) -> None:
    """Write the page and its pictures."""
    to.write_text(page(done, to.parent / "papers"), encoding="utf-8")
    print(f"{Numbers(done).fits} fits; wrote {to}")


def compared(rerun: Results, committed: Results) -> str:
    """Say how a rerun agrees with the committed results, fit by fit.

    A seed fixes the splits, the trees and the noise: the same code gives the same numbers. Code that draws in another
    order gives other ones, of which the mean over many fits is what can be compared.
    """
    gaps = [
        rerun[key][score] - committed[key][score]
        for key in rerun.keys() & committed.keys()
        for score in ("auc", "rmse")
        if score in rerun[key] and score in committed[key]
    ]
    if not gaps:
        return "No fit of the rerun is among the committed ones."
    same, apart = sum(gap == 0 for gap in gaps), averaged(gap for gap in gaps if gap != 0)
    told = f"{same} of {len(gaps)} fits have the committed number"
    if same == len(gaps):
        return told + "."
    return f"{told}; the others are {cell(apart)} higher on average, at most {max(map(abs, gaps)):.4f} apart."
