"""Pages about the code name code that exists; works are cited by author and year and listed once."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from ledgerwood.app.plan_request import recipe_table

ROOT = Path(__file__).parent.parent
ARCHITECTURE = ROOT / "docs" / "explanation" / "architecture.md"
REFERENCES = ROOT / "docs" / "references.md"
LINK = re.compile(r"\[`([\w.]+)`\]\(([^)]+\.py)\)")


def defines(source: str, symbol: str) -> bool:
    """Whether a source defines a function, a class, or a member of a class, at its top level."""
    body: list[ast.stmt] = ast.parse(source).body
    for part in symbol.split("."):
        found = [
            node
            for node in body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == part
        ]
        if not found:
            return False
        body = found[0].body
    return True


def journeys() -> dict[str, list[str]]:
    """The numbered lists of the page, by the heading before them."""
    sections = re.split(r"^## (.+)$", ARCHITECTURE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    stops = {
        name: re.split(r"^\d+\. ", text, flags=re.MULTILINE)[1:] for name, text in zip(sections[::2], sections[1::2])
    }
    return {name: found for name, found in stops.items() if found}


def test_there_are_three_journeys_of_at_most_twelve_stops() -> None:
    assert list(journeys()) == ["A fit", "A price", "An audit"]
    assert all(len(stops) <= 12 and all(LINK.search(stop) for stop in stops) for stops in journeys().values())


@pytest.mark.parametrize(("symbol", "target"), LINK.findall(ARCHITECTURE.read_text(encoding="utf-8")))
def test_a_stop_of_a_journey_leads_to_its_code(symbol: str, target: str) -> None:
    file = (ARCHITECTURE.parent / target).resolve()
    assert file.is_relative_to(ROOT / "src"), target
    assert defines(file.read_text(encoding="utf-8"), symbol), f"{target} does not define {symbol}"


def test_a_dead_link_would_be_seen() -> None:
    assert defines("class A:\n    def f(self): ...", "A.f")
    assert not defines("class A:\n    def f(self): ...", "A.g")
    assert not defines("def f():\n    def g(): ...", "g")


def test_the_tree_of_the_page_names_every_package() -> None:
    tree = re.search(
        r"^```text\n(src/ledgerwood/.+?)^```", ARCHITECTURE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    assert tree is not None
    packages = {
        f"{file.parent.name}/"
        for file in (ROOT / "src" / "ledgerwood").rglob("__init__.py")
        if file.parent.name not in ("_kernels", "dominating_pairs", "certificate", "datasets")
    }
    assert not [name for name in packages if name not in tree[1]]


def pages() -> list[Path]:
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").rglob("*.md")]
    return [page for page in found if "_build" not in page.parts]


def test_papers_are_cited_by_author_and_year() -> None:
    files = [*pages(), *(ROOT / "benchmarks").rglob("*.py"), *(ROOT / "src" / "ledgerwood" / "app").rglob("*.py")]
    numbered = [file.name for file in files if re.search(r"\bP[0-4]\b", file.read_text(encoding="utf-8"))]
    assert not numbered
    assert not [row for row in recipe_table() if re.search(r"\bP[0-4]\b", row["paper"])]


def test_every_preprint_that_is_cited_stands_in_the_references() -> None:
    listed = set(re.findall(r"arXiv:(\d{4}\.\d{4,5})", REFERENCES.read_text(encoding="utf-8")))
    files = [*pages(), *(ROOT / "src").rglob("*.py")]
    cited = {
        number for file in files for number in re.findall(r"arXiv:(\d{4}\.\d{4,5})", file.read_text(encoding="utf-8"))
    }
    assert len(listed) > 10
    assert not cited - listed


def test_the_five_papers_stand_in_references_bibtex_and_citation() -> None:
    texts = [
        re.sub(r"[{}]", "", (ROOT / name).read_text(encoding="utf-8"))
        for name in ("docs/references.md", "docs/references.bib", "CITATION.cff")
    ]
    for title in (
        "Revisiting Differentially Private XGBoost: Are Random Decision Trees Really Better than Greedy Ones?",
        "OpBoost: A Vertical Federated Tree Boosting Framework Based on Order-Preserving Desensitization",
        "Federated Boosted Decision Trees with Differential Privacy",
        "DP-XGBoost: Private Machine Learning at Scale",
        "Differentially Private Gradient Boosting on Linear Learners for Tabular Data Analysis",
    ):
        assert all(title in text for text in texts), title
