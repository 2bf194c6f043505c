"""The direction of imports: accounting <- mechanisms <- learners <- app; nothing looks at verification or app."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import ledgerwood

ROOT = Path(ledgerwood.__file__).parent
LAYERS = ["accounting", "mechanisms", "learners", "app"]  # each may import those before it
#: What each part of the package may import besides itself.
ALLOWED = {layer: set(LAYERS[:i]) for i, layer in enumerate(LAYERS)}
ALLOWED["app"] |= {"verification", "demo", "datasets"}
ALLOWED["verification"] = set(LAYERS) - {"app"}
ALLOWED["demo"] = {"accounting", "mechanisms", "learners", "verification", "app", "datasets"}
ALLOWED["__main__"] = {"app"}
ALLOWED["datasets"] = {"learners"}
COMMON = {"errors", "_version"}


def part_of(module: str) -> str:
    """``ledgerwood.accounting.costs.guarantees`` lies in ``accounting``."""
    pieces = module.split(".")
    return pieces[1] if len(pieces) > 1 else ""


def imported(tree: ast.AST, module: str, is_package: bool) -> Iterator[tuple[str, int]]:
    """Every module of this package that the source names, also inside functions and type-checking blocks."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = module.split(".")
            if node.level:
                base = base[: len(base) - node.level + (1 if is_package else 0)]
                stem = ".".join([*base, node.module] if node.module else base)
            else:
                stem = node.module or ""
            names = [f"{stem}.{alias.name}" for alias in node.names] if stem == "ledgerwood" else [stem]
        else:
            continue
        for name in names:
            if name.split(".")[0] == "ledgerwood":
                yield name, node.lineno


def violations(source: str, module: str, *, is_package: bool = False) -> list[str]:
    here = part_of(module)
    permitted = COMMON | {here} | ALLOWED.get(here, set())
    return [
        f"{module}:{line} imports {name}"
        for name, line in imported(ast.parse(source), module, is_package)
        if part_of(name) not in permitted
    ]


def test_imports_point_one_way() -> None:
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        relative = path.relative_to(ROOT.parent).with_suffix("")
        is_package = path.name == "__init__.py"
        module = ".".join(relative.parts[:-1] if is_package else relative.parts)
        found += violations(path.read_text(encoding="utf-8"), module, is_package=is_package)
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("ledgerwood.accounting.costs.guarantees", "from ledgerwood.mechanisms import base"),
        ("ledgerwood.accounting.costs.guarantees", "def f():\n    from ledgerwood import verification"),
        ("ledgerwood.mechanisms.base", "import ledgerwood.learners.trees"),
        ("ledgerwood.mechanisms.base", "from ..verification import exact"),
        ("ledgerwood.learners.trees", "from ledgerwood.app.cli import main as cli"),
        ("ledgerwood.verification.exact.distributions", "import ledgerwood.app"),
        ("ledgerwood.errors", "from ledgerwood.accounting import PureDP"),
        ("ledgerwood", "from ledgerwood import accounting"),
    ],
)
def test_an_import_in_the_wrong_direction_is_seen(module: str, source: str) -> None:
    assert violations(source, module)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("ledgerwood.mechanisms.base", "from ledgerwood.accounting import PureDP"),
        ("ledgerwood.mechanisms.base", "from ..accounting.costs import PureDP"),
        ("ledgerwood.accounting.costs.guarantees", "from ledgerwood.errors import ParameterError\nimport numpy"),
        ("ledgerwood.app.cli.main", "from ledgerwood.verification import audit"),
    ],
)
def test_an_import_in_the_right_direction_is_allowed(module: str, source: str) -> None:
    assert not violations(source, module)


HEAVY = ["pandas", "sklearn", "numba", "matplotlib", "scipy", "mpmath", "hypothesis", "autodp", "dp_accounting"]


def modules_after(statement: str) -> set[str]:
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(m.split('.')[0] for m in sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("package", ["ledgerwood", "ledgerwood.accounting", "ledgerwood.verification"])
def test_importing_pulls_in_nothing_heavy(package: str) -> None:
    loaded = modules_after(f"import {package}")
    assert "ledgerwood" in loaded
    assert loaded.isdisjoint(HEAVY), sorted(loaded & set(HEAVY))


def test_the_module_list_would_show_a_heavy_import() -> None:
    assert "scipy" in modules_after("import ledgerwood.accounting, scipy")
