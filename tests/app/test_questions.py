"""The six questions people ask: one documented command each, as ``docs/howto/command-line.md`` has it."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import pytest
from terminal import here

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "command-line.md"
ANSWERS = {
    "What ε for this noise?": r"All of it together is \(epsilon=0\.995\d*, delta=3\.0712e-05\)-differentially private",
    "What noise for this ε?": r"sigma\s+133\.596",
    "How many trees can I afford?": r"At most \d+ trees keep it within 1 ",
    "How wrong will a leaf of 50 rows be?": r"The weight of a leaf with 50 rows is off by about 4\.\d+ \(log-odds\)",
    "Which accountant is tightest, and what does it save?": r"needs less noise: .*% less than by 'rdp'",
    "What may I publish?": r"You may publish:\s.*is \(epsilon=1, delta=1e-06\)-differentially private for one record",
}


def _documented() -> dict[str, list[str]]:
    rows = re.findall(r"^\| ([^|]+\?) \| `(ledgerwood [^`]+)`", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {question: shlex.split(command)[1:] for question, command in rows}


@pytest.mark.parametrize("question", ANSWERS)
def test_a_question_has_one_documented_command_that_answers_it(question: str, tmp_path: Path) -> None:
    words = _documented()[question]
    text = " ".join(here(*words, cwd=tmp_path).split())
    assert re.search(ANSWERS[question], text), text
    assert json.loads(here(*words, "--json", cwd=tmp_path))


def test_a_missing_package_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    for name in [name for name in sys.modules if name.startswith("cryptography.")]:
        monkeypatch.delitem(sys.modules, name)
    for words in (["opboost", "certificates", "f", "bank"],):
        assert "needs the package 'cryptography'" in here(*words, cwd=tmp_path, code=2)
