"""What keeps the repository in order: workflows that call make, hooks of the environment, changelog fragments."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from changes.assemble import KINDS, section

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_a_workflow_runs_make_targets_that_exist_and_nothing_else(file: Path) -> None:
    jobs = yaml.safe_load(file.read_text(encoding="utf-8"))["jobs"].values()
    lines = [step["run"].split() for job in jobs for step in job["steps"] if "run" in step]
    assert lines
    assert not [line for line in lines if line[0] != "make" or not set(line[1:]) <= TARGETS]


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_a_workflow_has_the_form_that_github_asks_for(file: Path) -> None:
    pytest.importorskip("check_jsonschema")
    schema = ["--builtin-schema", "vendor.github-workflows"]
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", *schema, str(file)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


def test_every_version_of_python_that_the_package_names_is_tested() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))["jobs"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [found[1] for line in project["classifiers"] if (found := re.fullmatch(r".*Python :: (3\.\d+)", line))]
    assert set(named) <= set(jobs["test"]["strategy"]["matrix"]["python"])


def test_the_hooks_before_a_commit_come_from_the_environment() -> None:
    repos = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert [repo["repo"] for repo in repos] == ["local"]
    assert {hook["id"] for hook in repos[0]["hooks"]} == {"ruff-check", "ruff-format", "mypy"}


def test_the_form_for_a_privacy_bug_asks_for_what_security_says() -> None:
    form = yaml.safe_load((ROOT / ".github/ISSUE_TEMPLATE/privacy-bug.yml").read_text(encoding="utf-8"))
    fields = [part["id"] for part in form["body"] if "id" in part]
    assert {"claimed", "actual", "shown"} <= set(fields) and len(fields) == len(set(fields))
    assert "SECURITY.md" in form["body"][0]["attributes"]["value"]


def test_the_fragments_of_the_changelog_have_their_form() -> None:
    section(ROOT / "changes")


def test_fragments_become_a_section_by_kind(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# rules")
    (tmp_path / "b.fixed.md").write_text("A wrong\nlabel.\n")
    (tmp_path / "a.privacy.md").write_text("Delta was too small.")
    assert section(tmp_path) == "### Privacy\n\n- Delta was too small.\n\n### Fixed\n\n- A wrong label."


@pytest.mark.parametrize(
    ("name", "text"), [("a.md", "x"), ("a.new.md", "x"), ("a.fixed.md", ""), ("a.fixed.md", "- x")]
)
def test_a_fragment_of_another_form_is_refused(tmp_path: Path, name: str, text: str) -> None:
    assert "new" not in KINDS
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=re.escape(name)):
        section(tmp_path)
