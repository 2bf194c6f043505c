"""What a release carries: one version, typed, with its papers in order."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

import pytest

import ledgerwood

ROOT = Path(__file__).parent.parent


def test_the_version_stands_in_one_place() -> None:
    assert version("ledgerwood") == ledgerwood.__version__
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert cited is not None and cited[1] == ledgerwood.__version__


def test_the_package_is_marked_as_typed() -> None:
    assert (Path(ledgerwood.__file__).parent / "py.typed").exists()


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE"])
def test_links_between_the_papers_of_the_repository_lead_somewhere(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    targets = [t for t in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in t]
    missing = [t for t in targets if not (ROOT / t).exists()]
    assert not missing


def test_links_of_the_documentation_lead_somewhere() -> None:
    """Relative links and pictures of every page; Sphinx checks its own references."""
    missing = []
    for page in (ROOT / "docs").rglob("*.md"):
        if "_build" in page.parts:
            continue
        text = re.sub(r"```.*?```|\$[^$]*\$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
            if "\\" not in target and "://" not in target and not (page.parent / target).exists():
                missing.append(f"{page.relative_to(ROOT)}: {target}")
    assert not missing
