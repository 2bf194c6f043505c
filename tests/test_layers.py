"""The floor plan, enforced: imports point one way, class names are unique, and there is one way of doing each thing."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ledgerwood

ROOT = Path(ledgerwood.__file__).parent

#: The children of each package, lowest first: a module may import what stands before it, never what stands behind.
#: A subpackage counts as one child. Imports inside functions and under TYPE_CHECKING count.
ORDER = {
    package: names.split()
    for package, names in {
        "": "_version _imports errors _checks _rounding _files accounting mechanisms learners datasets verification "
        "_pytest_plugin app __main__",
        "accounting": "adjacency curves costs accountant plan ledger interop",
        "accounting.curves": "numerics gaussian renyi conversion dominating_pairs",
        "accounting.curves.dominating_pairs": "base continuous discrete composite allocation mixtures",
        "accounting.costs": "base guarantees noise selection discrete_noise sampled_gaussians subsampled "
        "allocation fixed_batches dp_sgd parallel correlated_noise serialization",
        "accounting.accountant": "closed_form pld bounded_range certified methods calibration filters",
        "accounting.accountant.pld": "discretization sketch tilted_fft blocks grid_choice composition",
        "accounting.accountant.bounded_range": "_kernels vectorized profile recursion",
        "accounting.plan": "releases serialization plan",
        "accounting.ledger": "odometer entries plan_state filter_state journal database records ledger individual",
        "mechanisms": "randomness keyed_randomness sampling base noise integer_noise running_sums selection noisy_max "
        "quantile sparse_vector subsampling local",
        "mechanisms.sampling": "_kernels arithmetic exact draws choice",
        "mechanisms.local": "_kernels domain distributions guarantees base samplers order_preserving randomizers "
        "utility",
        "learners": "data training engines evaluation search trees linear auto storage federated vertical",
        "learners.data": "_kernels columns threads cells series frames csv_text labels table schema files "
        "privacy_unit partitions",
        "learners.training": "public_metadata codec checkpoint session discovery statement model_checks "
        "sklearn_guard estimator",
        "learners.engines": "interface out_of_core dask partitioned",
        "learners.trees": "_kernels aggregator loss settings recipes plan binning candidates passes "
        "local_aggregator partitioned planned_noise leaves forest training_state grower boosting explain xgboost_json "
        "estimators",
        "learners.trees._kernels": "passes candidates",
        "learners.linear": "_kernels loss integer_rows encoding sensitivity ridge plan aggregator boosting model "
        "estimators",
        "learners.auto": "rule planner linear_start estimators",
        "learners.federated": "masking protocol secure_aggregation distributed_noise tree_job linear_job task "
        "lockstep party coordinator flower",
        "learners.vertical": "tls columns release transformer recommendation messages release_store feature_client "
        "feature_party model training",
        "verification": "exact auditor training_audit conformance decorator strategies oracles zoo",
        "verification.exact": "intervals distributions check exponential_sums textbook enumeration",
        "verification.auditor": "_kernels tuning certificate report encoding sampling determinism pilot scores "
        "smoothing events choice float_attacks pairs selection audit",
        "verification.auditor.certificate": "counts hypotheses bound",
        "verification.oracles": "high_precision peers agreement __main__",
        "verification.zoo": "entry noise selection sparse_vector boosting learners leaks scoreboard __main__",
        "app": "samples output curves plan_request leaf_noise reports web cli",
        "app.reports": "html plots sections report",
        "app.cli": "options files release_specs audit budget train dp_sgd price schema plan opboost commands main",
        "app.web": "answers worker server",
        "datasets": "__main__",
    }.items()
}

#: Neither knows the other.
INDEPENDENT = [
    ("learners.trees", "learners.linear"),
    ("learners.federated", "learners.vertical"),
    ("verification.exact", "verification.auditor"),
]

#: Only these may import verification or app besides themselves.
ONLY = {"verification": {"_pytest_plugin", "app"}, "app": {"__main__"}}


def sources() -> Iterator[tuple[str, bool, ast.Module]]:
    """Every module of the package: its name without ``ledgerwood.``, whether it is a package, its tree."""
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        yield name, is_package, ast.parse(path.read_text(encoding="utf-8"))


MODULES = {name for name, _, _ in sources()}


def imported(tree: ast.AST, module: str, is_package: bool = False) -> Iterator[tuple[str, int]]:
    """Every module of this package that a source names, also inside functions and type-checking blocks."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ["ledgerwood", *(module.split(".") if module else [])]
            if node.level:
                base = base[: len(base) - node.level + (1 if is_package else 0)]
                stem = ".".join([*base, node.module] if node.module else base)
            else:
                stem = node.module or ""
            names = [f"{stem}.{alias.name}" for alias in node.names]
            names = [name if name.removeprefix("ledgerwood.") in MODULES else stem for name in names]
        else:
            continue
        for name in names:
            top, _, rest = name.partition(".")
            if top == "ledgerwood":
                yield rest, node.lineno


def violations(source: str | ast.AST, module: str, *, is_package: bool = False) -> list[str]:
    """Return the imports of a module that point the wrong way."""
    tree = ast.parse(source) if isinstance(source, str) else source
    return [
        f"{module}:{line} imports {target or 'ledgerwood'}: {why}"
        for target, line in imported(tree, module, is_package)
        if (why := _wrong(module, target, is_package))
    ]


def _wrong(module: str, target: str, is_package: bool) -> str | None:
    here, there = (name.split(".") if name else [] for name in (module, target))
    common = 0
    while common < min(len(here), len(there)) and here[common] == there[common]:
        common += 1
    if common == len(there):  # an ancestor, or itself
        return None if is_package or here[-1] == "__main__" or not there else "a module of its own package's face"
    if common == len(here):
        return None if is_package else "a module is no package"
    children = ORDER.get(".".join(here[:common]), [])
    for name in (here[common], there[common]):
        if name not in children:
            return f"{name} has no place in the order of {'.'.join(here[:common]) or 'ledgerwood'}"
    if there[0] in ONLY and here[0] != there[0] and here[0] not in ONLY[there[0]]:
        return f"nothing looks at {there[0]}"
    return None if children.index(there[common]) < children.index(here[common]) else "against the order"


def test_imports_point_one_way() -> None:
    found = [line for name, is_package, tree in sources() for line in violations(tree, name, is_package=is_package)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(("one", "other"), INDEPENDENT)
def test_siblings_that_do_not_know_each_other(one: str, other: str) -> None:
    found = [
        f"{name}:{line} imports {target}"
        for name, is_package, tree in sources()
        for target, line in imported(tree, name, is_package)
        for mine, theirs in ((one, other), (other, one))
        if f"{name}.".startswith(f"{mine}.") and f"{target}.".startswith(f"{theirs}.")
    ]
    assert not found, "\n".join(found)


def test_the_certificate_imports_nothing_else_of_the_auditor() -> None:
    certificate = "verification.auditor.certificate"
    found = [
        f"{name}:{line} imports {target}"
        for name, is_package, tree in sources()
        if f"{name}.".startswith(f"{certificate}.")
        for target, line in imported(tree, name, is_package)
        if target.startswith("verification") and not f"{target}.".startswith(f"{certificate}.")
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("accounting.costs.noise", "from ledgerwood.mechanisms import base"),
        ("accounting.costs.noise", "from ledgerwood.accounting.accountant.methods import epsilon"),
        ("accounting.costs.noise", "def f():\n    from ledgerwood.accounting.plan.plan import Plan"),
        ("accounting.costs.noise", "if TYPE_CHECKING:\n    from ledgerwood.accounting.costs.parallel import parallel"),
        ("accounting.costs.noise", "from ledgerwood.accounting import Gaussian"),
        ("accounting.costs.noise", "def f():\n    from ledgerwood import verification"),
        ("mechanisms.base", "import ledgerwood.learners.trees"),
        ("mechanisms.base", "from ..verification import exact"),
        ("learners.trees.forest", "from ledgerwood.app.cli import main as cli"),
        ("verification.exact.distributions", "import ledgerwood.app"),
        ("errors", "from ledgerwood.accounting import PureDP"),
        ("datasets", "from ledgerwood.verification import audit"),
    ],
)
def test_an_import_in_the_wrong_direction_is_seen(module: str, source: str) -> None:
    assert violations(source, module)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("mechanisms.base", "from ledgerwood.accounting import PureDP"),
        ("mechanisms.base", "from ..accounting.costs.guarantees import PureDP"),
        ("accounting.costs.guarantees", "from ledgerwood.errors import ParameterError\nimport numpy"),
        ("app.cli.main", "from ledgerwood.verification import audit"),
    ],
)
def test_an_import_in_the_right_direction_is_allowed(module: str, source: str) -> None:
    assert not violations(source, module)


#: Imports of our own modules inside functions: compiled kernels may wait for their first use, and the app for its
#: command. Besides these only a module of the first package may import one of the second, for the reason given.
INSIDE_FUNCTIONS = {
    ("accounting.costs", "accounting.curves.dominating_pairs"): "needs scipy, which importing accounting must not load",
    ("accounting.accountant", "accounting.accountant.bounded_range"): "the same",
    ("accounting.accountant", "accounting.accountant.pld"): "the same",
    ("_pytest_plugin", "verification"): "loaded by every pytest run of the machine; only --dp-audit needs it",
    ("_pytest_plugin", "errors"): "the same",
    ("datasets", "learners"): "the learners are an optional extra",
    ("verification.conformance", "learners"): "the learners are an optional extra",
}


def inside_functions(tree: ast.AST, module: str, is_package: bool = False) -> Iterator[tuple[str, int]]:
    """Every module of this package that a source imports inside a function, but for kernels."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for target, line in imported(node, module, is_package):
                if target.rpartition(".")[2] != "_kernels" and "._kernels." not in target:
                    yield target, line


def within(name: str, package: str) -> bool:
    return f"{name}.".startswith(f"{package}.")


def test_imports_inside_functions() -> None:
    found = [
        f"{name}:{line} imports {target}"
        for name, is_package, tree in sources()
        for target, line in inside_functions(tree, name, is_package)
        if not within(name, "app")
        and not any(within(name, here) and within(target, there) for here, there in INSIDE_FUNCTIONS)
    ]
    assert not found, "\n".join(found)
    assert len(INSIDE_FUNCTIONS) <= 10


def test_an_import_inside_a_function_is_seen() -> None:
    method = "class A:\n    def f(self):\n        from ledgerwood.learners.data.schema import Schema"
    assert list(inside_functions(ast.parse(method), "learners.search")) == [("learners.data.schema", 3)]
    kernels = "def f():\n    from ledgerwood.learners.linear import _kernels\n    import numba"
    assert not list(inside_functions(ast.parse(kernels), "learners.linear.ridge"))
    assert not list(inside_functions(ast.parse("from ledgerwood.learners.data import schema"), "learners.search"))


def test_a_class_name_is_used_once() -> None:
    places = defaultdict(list)
    for name, _, tree in sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(name)
    twice = {name: found for name, found in places.items() if len(found) > 1}
    assert not twice


#: Modules whose own subject is floating-point error; everywhere else rounding is asked of ``_rounding``.
NUMERICS = [
    "_rounding",
    "accounting.curves",
    "accounting.costs.base",
    "accounting.costs.guarantees",
    "accounting.costs.subsampled",
    "accounting.accountant.pld",
    "accounting.accountant.bounded_range",
    "accounting.accountant.methods",
    "mechanisms.sampling",
    "mechanisms.local.guarantees",
    "mechanisms.noise",
    "mechanisms.noisy_max",
    "mechanisms.sparse_vector",
    "learners.linear.encoding",
    "learners.linear.loss",
    "learners.linear.ridge",
    "verification",
]


def checks_for_bool(tree: ast.AST) -> list[int]:
    """Lines with ``isinstance(_, bool)``, alone or among other types."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance"
        for part in ast.walk(node.args[1])
        if isinstance(part, ast.Name) and part.id == "bool"
    ]


def rounds_by_itself(tree: ast.AST) -> list[int]:
    """Lines with ``nextafter`` or ``2.0**-n``."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name):
            name = node.attr if isinstance(node, ast.Attribute) else node.id
            found += [node.lineno] if name == "nextafter" else []
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and isinstance(node.left, ast.Constant):
            negative = isinstance(node.right, ast.UnaryOp) and isinstance(node.right.op, ast.USub)
            found += [node.lineno] if node.left.value == 2.0 and negative else []
    return found


def probes(tree: ast.AST) -> list[int]:
    """Lines that ask by name whether a mechanism has a member."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("hasattr", "getattr")
        if "mechanism" in ast.unparse(node.args[0])
        if isinstance(node.args[1], ast.Constant)
    ]


def test_there_is_one_validator() -> None:
    found = {name: lines for name, _, tree in sources() if name != "_checks" and (lines := checks_for_bool(tree))}
    assert not found


def test_there_is_one_rounding_module() -> None:
    found = {
        name: lines
        for name, _, tree in sources()
        if not any(f"{name}.".startswith(f"{numerics}.") for numerics in NUMERICS) and (lines := rounds_by_itself(tree))
    }
    assert not found


def test_every_numerics_module_needs_its_place_in_the_list() -> None:
    used = {
        numerics
        for name, _, tree in sources()
        for numerics in NUMERICS
        if f"{name}.".startswith(f"{numerics}.") and rounds_by_itself(tree)
    }
    assert used == set(NUMERICS)


def test_no_mechanism_is_probed_for_its_members() -> None:
    """The protocol is declared once and whole. The auditor takes functions and samplers of users, not mechanisms."""
    found = {
        name: lines for name, _, tree in sources() if not name.startswith("verification") and (lines := probes(tree))
    }
    # The ledger takes mechanisms of users, which may have no check; two modules coerce fields by their names.
    assert not found.keys() - {"accounting.costs.base", "mechanisms.base", "mechanisms.local.domain"}, found


def test_the_mechanism_protocol_is_declared_once() -> None:
    members = {"cost", "check", "release"}
    found = [
        f"{name}.{node.name}"
        for name, _, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and any("Protocol" in ast.unparse(base) for base in node.bases)
        if members <= {child.name for child in node.body if isinstance(child, ast.FunctionDef)}
    ]
    assert found == ["accounting.costs.base.Mechanism"]


@pytest.mark.parametrize(
    ("rule", "source"),
    [
        (checks_for_bool, "x = isinstance(y, bool)"),
        (checks_for_bool, "x = isinstance(y, int | bool)"),
        (rounds_by_itself, "x = math.nextafter(y, 0.0)"),
        (rounds_by_itself, "x = y * (1 + 2.0**-50)"),
        (probes, "x = hasattr(mechanism, 'check')"),
        (probes, "x = getattr(self.mechanism, 'check', None)"),
    ],
)
def test_a_broken_rule_is_seen(rule: Callable[[ast.AST], list[int]], source: str) -> None:
    assert rule(ast.parse(source)) == [1]


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


@pytest.mark.parametrize(
    ("package", "absent"),
    [
        ("ledgerwood", ["ledgerwood.errors", "ledgerwood.accounting"]),
        ("ledgerwood.accounting", ["ledgerwood.accounting.curves.dominating_pairs", "ledgerwood.accounting.plan"]),
        ("ledgerwood.mechanisms", ["ledgerwood.accounting.ledger", "ledgerwood.accounting.curves.dominating_pairs"]),
    ],
)
def test_importing_leaves_out_what_it_can_do_without(package: str, absent: list[str]) -> None:
    code = f"import sys, {package}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert package in done.stdout.split()
    assert not set(absent) & set(done.stdout.split())


def test_the_module_list_would_show_a_heavy_import() -> None:
    assert "scipy" in modules_after("import ledgerwood.accounting, scipy")


def test_a_cost_in_a_fresh_process_has_an_accountant() -> None:
    code = "from ledgerwood.accounting.costs.noise import Gaussian; print(Gaussian(sigma=2.0).epsilon(1e-6))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 2.2 < float(done.stdout) < 2.3


#: Nouns of module names that any programmer knows. All others are terms of docs/glossary.md.
PLAIN = """
imports agreement answers app arithmetic attacks base bound cells check checks choice cli client codec columns commands
continuous core counts dask data datasets decorator draws encoding enumeration errors evaluation explain files
flower frames guard html interface intervals job json labels leaks learners main messages methods model numerics
options output passes peers plots plugin precision price protocol recommendation records recursion report reports
request rounding rows rule scoreboard search sections serialization series server settings smoothing specs start
state storage store sums table task text textbook threads tls train training transformer trees tuning utility
vectorized verification version web worker
"""


def glossary() -> set[str]:
    """Every word of a term, in lower case, without accents."""
    text = (Path(__file__).parents[1] / "docs" / "glossary.md").read_text(encoding="utf-8")
    terms = [line for line in text.split("```{glossary}")[1].split("```")[0].splitlines() if line[:1].strip()]
    return set(re.findall(r"[a-z]+", " ".join(terms).lower().replace("é", "e")))


def related(one: str, other: str) -> bool:
    """Whether two words have one stem: equal in their first five letters, or in all three or four of the shorter."""
    length = min(len(one), len(other), 5)
    return length >= 3 and one[:length] == other[:length]


def test_the_noun_of_a_module_is_in_the_glossary_or_plain() -> None:
    nouns = {name: name.split(".")[-1].strip("_").split("_")[-1] for name in MODULES if name}
    plain, known = set(PLAIN.split()), glossary()
    unknown = {
        name: noun for name, noun in nouns.items() if noun not in plain and not any(related(noun, k) for k in known)
    }
    assert not unknown, "define it in docs/glossary.md, or choose a word that is there"
    assert not plain - set(nouns.values()), "no module is called so"


def test_a_word_that_is_not_in_the_glossary_would_be_seen() -> None:
    assert not any(related(word, known) for word in ("door", "books", "seam") for known in glossary())


#: Modules under 80 lines, each with the reason why it does not join another.
SHORT = {
    "_imports": "what the packages share that load their names at first use, so it imports nothing",
    "_pytest_plugin": "an entry point that every pytest run loads, so it must import nothing",
    "_version": "read by the build without importing the package",
    "accounting.adjacency": "the lowest module of accounting, which all layers import",
    "accounting.ledger.odometer": "one theorem and its function, used by three modules",
    "app.cli.commands": "puts the commands together; main must be importable without typer",
    "app.cli.main": "the entry point: turns errors into exit codes, also where typer is not installed",
    "app.samples": "a mechanism that the documentation audits by its import path",
    "learners.data.columns": "what is public about a column, imported by most of learners",
    "learners.storage": "load() knows every learner, and no learner may know another",
}


def test_a_short_module_has_a_reason() -> None:
    short = {
        name
        for path in ROOT.rglob("*.py")
        if path.stem not in ("__init__", "__main__") and len(path.read_text(encoding="utf-8").splitlines()) < 80
        for name in [".".join(path.relative_to(ROOT).with_suffix("").parts)]
    }
    assert short == set(SHORT)
    assert len(SHORT) <= 10


#: Names that nothing in the package or its documentation uses, each with the reason why it ships all the same.
FOR_USERS = {
    "_pytest_plugin": "pytest_addoption pytest_pycollect_makeitem runtest reportinfo",  # called by pytest
    "accounting.accountant.pld.composition": "delta_upper delta_lower",  # the inverse of what is used, of one class
    "accounting.ledger.individual": "for_target active",  # of a public class
    "learners.federated.party": "_mask _confirm _unmask",  # found by the name of the message
    "learners.vertical.transformer": "n_releases_ n_charged_ fit_transform",  # of scikit-learn's interface
    "mechanisms.local.base": "enumerated_profile",  # the slow definition beside the quick one
    "mechanisms.noisy_max": "log_probability",  # the exact definition beside the sampler
}


def unused(sources: dict[str, str], elsewhere: str) -> dict[str, list[str]]:
    """Functions and classes by module whose name stands nowhere but in their own definition."""
    words = Counter(re.findall(r"\w+", "\n".join([*sources.values(), elsewhere])))
    found: dict[str, list[str]] = defaultdict(list)
    for name, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("__"):
                found[name] += [node.name] if words[node.name] == 1 else []
    return {name: names for name, names in found.items() if names}


def test_what_only_tests_use_does_not_ship() -> None:
    top = Path(__file__).parents[1]
    texts = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path.read_text(encoding="utf-8")
        for path in ROOT.rglob("*.py")
    }
    pages = [top / "README.md", *top.glob("docs/**/*.md")]
    found = unused(texts, "\n".join(page.read_text(encoding="utf-8") for page in pages))
    assert {name: set(names) for name, names in found.items()} == {k: set(v.split()) for k, v in FOR_USERS.items()}


def test_a_name_that_only_tests_use_would_be_seen() -> None:
    sources = {"a": "def used(): ...\ndef lost(): ...\nclass Shown: ...", "b": "from a import used\nused()"}
    assert unused(sources, "Use `Shown`.") == {"a": ["lost"]}
