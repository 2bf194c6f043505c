"""``import ledgerwood``: the README's names at first use, listed by ``dir()`` and ``help()``, and light."""

from __future__ import annotations

import importlib
import pydoc
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ledgerwood

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
PARTS = ["accounting", "datasets", "errors", "learners", "mechanisms", "verification"]


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(("name", "home"), sorted(ledgerwood._HOME.items()))
def test_a_name_is_the_one_of_its_package(name: str, home: str) -> None:
    assert getattr(ledgerwood, name) is getattr(importlib.import_module(f"ledgerwood.{home}"), name)


def test_every_name_that_the_readme_imports_is_offered() -> None:
    lines = re.findall(r"^>>> from ledgerwood(?:\.\w+)? import ([\w, ]+)", README, re.MULTILINE)
    imported = {name.strip() for line in lines for name in line.split(",")}
    assert len(imported) > 10
    assert imported <= set(ledgerwood._HOME)


def test_every_name_that_is_offered_stands_in_the_readme() -> None:
    assert not [name for name in ledgerwood._HOME if not re.search(rf"\b{name}\b", README)]


def test_dir_and_star_list_the_same_names() -> None:
    assert set(ledgerwood.__all__) == {*ledgerwood._HOME, *PARTS, "__version__"}
    assert set(ledgerwood.__all__) <= set(dir(ledgerwood))
    assert run("from ledgerwood import *; print(Gaussian.__name__, learners.__name__)").split() == [
        "Gaussian",
        "ledgerwood.learners",
    ]


def test_the_parts_are_reached_without_an_import_of_their_own() -> None:
    assert "0.1" in run("import ledgerwood; print(ledgerwood.accounting.PureDP(0.1).epsilon(0))")
    for part in PARTS:
        assert getattr(ledgerwood, part) is importlib.import_module(f"ledgerwood.{part}")


def test_tab_completion_lists_the_names_and_imports_none_of_them() -> None:
    code = (
        "import rlcompleter, sys, ledgerwood\n"
        "found = rlcompleter.Completer({'ledgerwood': ledgerwood}).attr_matches('ledgerwood.Private')\n"
        "print(len(found))"
    )
    assert int(run(code)) >= 5
    assert "[]" in run(
        "import sys, ledgerwood; dir(ledgerwood); print([m for m in sys.modules if 'ledgerwood.l' in m])"
    )


def test_help_mentions_all_parts_and_names() -> None:
    text = pydoc.render_doc(ledgerwood, renderer=pydoc.plaintext)
    assert not [part for part in PARTS if f"ledgerwood.{part}" not in text]
    assert not [name for name in ledgerwood._HOME if name not in text]


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    assert not hasattr(ledgerwood, "Ledgers")
    with pytest.raises(ImportError, match="Ledgers"):
        exec("from ledgerwood import Ledgers")


WITHOUT_EXTRAS = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("sklearn", "narwhals", "mpmath", "hypothesis", "matplotlib"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
import importlib.util
found = importlib.util.find_spec
def find_spec(name, package=None):
    try:
        return found(name, package)
    except ModuleNotFoundError:
        return None
importlib.util.find_spec = find_spec
"""


def test_without_the_extras_help_works_and_a_name_says_what_to_install() -> None:
    text = run(WITHOUT_EXTRAS + "import ledgerwood, pydoc; print(pydoc.render_doc(ledgerwood))")
    assert "ledgerwood.learners" in text and "class Gaussian" in re.sub(".\b", "", text)
    code = "\ntry:\n    from ledgerwood import {}\nexcept ImportError as error:\n    print(error)"
    assert "pip install 'ledgerwood[learners]'" in run(WITHOUT_EXTRAS + code.format("PrivateClassifier"))
    assert "pip install 'ledgerwood[verification]'" in run(WITHOUT_EXTRAS + code.format("check"))
