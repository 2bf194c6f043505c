"""Commands of the documentation: those of ours run, modules and targets that are named exist."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tables import adult
from terminal import here

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
TEXT = {page: page.read_text(encoding="utf-8") for page in PAGES if "_build" not in page.parts}
ELSEWHERE = ("serve", "opboost")  # tests/browser and tests/app/test_opboost_commands.py run them
NEED_MORE = (
    "postgresql:",
    "census.jsonl",
    "mypackage",
    "budget open",
    "plan --save",
)  # test_command_line runs them with their files


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


AS_SHOWN = {  # commands of others that no test runs, and why
    "python3.11 -m venv": "makes the environment of a package that does not install beside ours",
    "dpxgb/bin/pip install": "the same: it needs an old numpy and an index",
    "PYTHONPATH=src dpxgb/bin/python": "runs in it; options and module are checked",
    "pip install '.[web]'": "make dist installs the wheel; the extra is checked",
    "pytest --dp-audit": "tests/verification runs pytest with the option",
}


def shell_lines() -> list[str]:
    """Every line of a block of commands; comments are cut off, and so is what a command prints."""
    found: dict[str, None] = {}
    for text in TEXT.values():
        blocks = re.findall(r"^```(\S*)[^\n]*\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
        fenced = [block for language, block in blocks if language in ("", "console")]
        rest = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
        indented = re.findall(r"^    ((?:make|python|pip|ledgerwood) .+)$", rest, re.MULTILINE)
        for block in [*fenced, *indented]:
            joined = re.sub(r"\\\n *", "", block).splitlines()
            shown = [line for line in joined if line.startswith("$ ")] or joined
            found |= dict.fromkeys(line.removeprefix("$ ").split("  #")[0].strip() for line in shown if line.strip())
    return list(found)


def test_every_line_of_a_shell_block_is_run_or_checked_or_has_a_reason() -> None:
    lines = shell_lines()
    checked = ("ledgerwood ", "make ", "python -m benchmarks.", "python -m ledgerwood.", "flower-")
    assert len(lines) > 20
    assert not [line for line in lines if not line.startswith((*checked, *AS_SHOWN))]
    assert not [known for known in AS_SHOWN if not any(line.startswith(known) for line in lines)]


def test_options_that_the_pages_give_to_our_modules_exist() -> None:
    unknown = []
    for line in shell_lines():
        if module := re.search(r"python -m (ledgerwood\.\S+|benchmarks\.\S+|benchmarks)", line):
            spec = importlib.util.find_spec(module[1])
            assert spec is not None and spec.origin is not None
            home = Path(spec.origin)
            sources = [home, home.with_name("__main__.py")] if home.name == "__init__.py" else [home]
            source = "".join(file.read_text(encoding="utf-8") for file in sources if file.exists())
            options = re.findall(r" (--[a-z-]+)", line[module.end() :])
            unknown += [f"{line}: {option}" for option in options if f'"{option}"' not in source]
    assert not unknown


@pytest.mark.parametrize("command", ["flower-superlink", "flower-supernode"])
def test_options_that_the_pages_give_to_flower_exist(command: str) -> None:
    pytest.importorskip("flwr")
    line = next(line for line in shell_lines() if line.startswith(command))
    shown = subprocess.run(
        [str(Path(sys.executable).with_name(command)), "--help"],
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    ).stdout
    options = re.findall(r" (--[a-z-]+)", line)
    assert len(options) >= 3
    assert not [option for option in options if not re.search(rf"{option}\b", shown)]
