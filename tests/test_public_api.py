"""Every public name has a docstring with an example that the tests run, and stands in the reference."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

REFERENCE = Path(__file__).parent.parent / "docs" / "reference"
PACKAGES = (
    "ledgerwood.accounting",
    "ledgerwood.accounting.interop",
    "ledgerwood.datasets",
    "ledgerwood.learners",
    "ledgerwood.learners.engines",
    "ledgerwood.learners.federated",
    "ledgerwood.learners.linear",
    "ledgerwood.learners.vertical",
    "ledgerwood.mechanisms",
    "ledgerwood.mechanisms.local",
    "ledgerwood.verification",
    "ledgerwood.verification.oracles",
    "ledgerwood.verification.zoo",
)


def names_of(package: str) -> list[tuple[str, object]]:
    module = importlib.import_module(package)
    every = ((name, getattr(module, name)) for name in module.__all__)
    return [(name, found) for name, found in every if inspect.isclass(found) or inspect.isfunction(found)]


def docstrings(found: object) -> list[str]:
    """Its own, and for a class those of its methods."""
    parts = (
        [found, *(getattr(part, "fget", part) for part in vars(found).values())] if inspect.isclass(found) else [found]
    )
    return [getattr(part, "__doc__", None) or "" for part in parts]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_has_an_example(package: str) -> None:
    without = [name for name, found in names_of(package) if not any(">>>" in text for text in docstrings(found))]
    assert not without


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_stands_in_the_reference(package: str) -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in REFERENCE.glob("*.md"))
    listed = set(re.findall(r"auto(?:class|function):: ledgerwood\.(?:\w+\.)*(\w+)", text))
    for module, members in re.findall(r"automodule:: (ledgerwood\S*)\n +:members:([\w, ]*)\n", text):
        listed |= set(members.replace(",", " ").split()) or set(vars(importlib.import_module(module)))
    assert not [name for name, _ in names_of(package) if name not in listed]
