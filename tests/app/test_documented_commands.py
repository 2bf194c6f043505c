"""Commands of the documentation: those of ours run, modules and targets that are named exist."""

from __future__ import annotations

import importlib.util
import re
import shlex
import tomllib
from pathlib import Path

import pytest
from tables import adult
from terminal import here

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
TEXT = {page: page.read_text(encoding="utf-8") for page in PAGES if "_build" not in page.parts}
ELSEWHERE = ("serve", "opboost")  # tests/browser and tests/app/test_opboost_commands.py run them
NEED_MORE = ("census.jsonl", "mypackage", "budget open", "plan --save")  # test_command_line runs them with their files


def commands() -> list[str]:
    """Every line and every inline piece of code that begins with ``ledgerwood`` and has an argument."""
    found: dict[str, None] = {}
    for text in TEXT.values():
        lines = re.findall(r"^\$ (ledgerwood .+)$", text, re.MULTILINE)
        found |= dict.fromkeys(lines + re.findall(r"`(ledgerwood [a-z]+ [^`]+)`", text))
    words = {line: shlex.split(line, comments=True) for line in found}
    return [line for line in found if words[line][1] not in ELSEWHERE and not any(part in line for part in NEED_MORE)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a reader would be: the table, and the files that the pages show."""
    made = tmp_path_factory.mktemp("reader")
    adult(made)
    blocks = [
        block for text in TEXT.values() for block in re.findall(r"```toml\n(# \S+\.toml\n.*?)```", text, re.DOTALL)
    ]
    assert len(blocks) >= 2
    for block in blocks:
        tomllib.loads(block)
        (made / block.split()[1]).write_text(block)
    here(*shlex.split("train adult.csv --target income --schema schema.toml --epsilon 1 --model adult.json"), cwd=made)
    return made


@pytest.mark.parametrize("line", commands())
def test_every_command_of_the_pages_runs(line: str, folder: Path) -> None:
    command, _, output = line.partition(" > ")
    words = shlex.split(command, comments=True)[1:]
    if words[0] == "audit":  # quick, and without the false flag in a hundred
        words += ["--seed", "1", "--confidence", "0.999999", *(() if "--samples" in words else ("--samples", "200"))]
    shown = here(*words, cwd=folder)
    assert shown.strip()
    if output:
        (folder / output).write_text(shown)


def test_modules_and_targets_of_the_pages_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    missing = []
    for page, text in TEXT.items():
        for module in set(re.findall(r"python -m ([a-z_]+(?:\.[a-z_]+)+)", text)):
            if importlib.util.find_spec(module) is None:
                missing.append(f"{page.name}: {module}")
        code = "\n".join(re.findall(r"```.*?```|`[^`\n]+`|^ {4}.+$", text, re.DOTALL | re.MULTILINE))
        for target in set(re.findall(r"\bmake ([a-z][a-z-]+)", code)):
            if not re.search(rf"^{target}:", makefile, re.MULTILINE):
                missing.append(f"{page.name}: make {target}")
    assert not missing


def test_extras_of_the_pages_exist() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = set(",".join(re.findall(r"ledgerwood\[([a-z,]+)\]", "\n".join(TEXT.values()))).split(","))
    assert named and named <= set(extras)
