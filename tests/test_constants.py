"""Numbers at module level: limits, formats, units and rounding errors. What was tuned is in a frozen dataclass.

A number that could as well be another one, for more speed or power, is in the ``TUNING`` of its subsystem
(``LearnerTuning``, ``AutoTuning``, ``SamplerTuning``, the auditor's ``Tuning``), with the benchmark that chose it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "ledgerwood"

#: Where each subsystem keeps what was tuned.
TUNED = [
    "ledgerwood.learners.auto.rule",
    "ledgerwood.learners.data.threads",
    "ledgerwood.mechanisms.sampling.draws",
    "ledgerwood.verification.auditor.tuning",
]

#: A limit, a format, a unit or a rounding error says so in its name.
LIMIT = r"_?(MOST|LARGEST|LONGEST|FEWEST|LEAST|MAX|SMALLEST|WIDEST|DEEPEST|LOWEST|HIGHEST|HARD)(_\w+)?|\w+_LIMIT"
FORMAT = r"_?(VERSION|FORMAT|GENESIS|PRIME|WITHHELD|_?PRIVATE)|\w+_VERSION"
UNIT = r"_?(ONE|UNIT|BITS|DIGITS|PRECISION|GRID)|\w+_(BITS|ONE|BYTES|SIZE|SHIFT|HALF|STEPS)"
ROUNDING = (
    r"_?(ULP|MARGIN|ROUNDING|SLACK|TINY|HUGE|EXACT|TOLERANCE|FLOOR|UNDERFLOW)|\w+_(ROUNDOFF|ERROR|MARGIN|ROUNDING)"
)
KINDS = re.compile("|".join(f"(?:{kind})" for kind in (LIMIT, FORMAT, UNIT, ROUNDING)))

#: Other numbers, each with the reason why it is not tuning. Those of the accountant trade time for digits; they stand
#: beside the algorithm whose error bound they enter, and are not gathered yet.
OTHERS = {
    "accounting": None,
    "app.cli.audit": "VIOLATION NOT_AUDITED _OUTPUTS _TRAININGS",  # exit codes, defaults of options
    "app.cli.main": "BAD_INPUT INTERRUPTED",  # exit codes
    "app.curves": "FALSE_ALARM",  # the false-positive rate of a sentence
    "app.leaf_noise": "_ANY_SCORE",  # a score at which noise is quoted
    "app.reports": "_DENSITY _READABLE _LISTED",  # what fits on a page
    "app.web.answers": "_LARGE",  # the plan's own limit
    "learners.data": "_QUOTE _COMMA _LF _CR _PLUS _MINUS _POINT _ZERO _NINE _NO_LIMIT _EVERYWHERE",  # characters
    "learners.engines.dask": "_RETRIES _WINDOW _POLL _PATIENCE",  # seconds and attempts on a network
    "learners.evaluation": "BINS _FINE _RANGE _FIRST _STEPS _DRAWS",  # of the released histogram
    "learners.federated": "_LOOK WIDTHS _SPOILED",  # seconds, words on the wire, a stated probability
    "learners.linear._kernels": "SQUARED LOGISTIC",  # codes of losses
    "learners.linear.integer_rows": "_GROUPS BLOCK_ROWS",  # places of 16 bits, sums below 2**53
    "learners.linear.loss": "_TABLE_REACH",  # of the table of a loss
    "learners.linear.sensitivity": "DIAGONAL OFF_DIAGONAL",  # of a proof
    "learners.search": "_SCORE_SLICE",  # a share of the budget
    "learners.training.discovery": "SLICE DELTA_SLICE FALLBACK _DOUBT",  # shares of the budget
    "learners.training.statement": "LARGE_EPSILON _FEW_ROWS",  # where a warning begins
    "learners.trees._kernels": "BLOCK TABLE SQUARED",  # compiled in; codes of losses
    "learners.trees.binning": "FINE_BINS",  # one byte
    "learners.trees.passes": "_PACKED_ROWS",  # of a proof
    "learners.trees.loss": "TYPICAL_WEIGHT _PARTS",  # of a formula
    "learners.trees.plan": "_SHARES _SAMPLED_TOLERANCE",  # the paper's shares, a tolerance that is stated
    "learners.trees.recipes": "FEW_FEATURES",  # of a recipe, which is published
    "learners.vertical": "_TAG _SMALL",  # bytes of a hash, a number of the paper
    "mechanisms.local": "_CHUNK _PROFILE_WORK _GUARD",  # limits of memory and time
    "mechanisms.sampling._kernels": "FINISHED EXHAUSTED UNDECIDED",  # codes
    "verification.auditor": None,  # certificate: of a proof; the rest is in its tuning
    "verification.exact": "_CURVE_EVALUATIONS _NARROW _REPLAYS",  # limits of time
    "verification.oracles": "_ADULT",  # the delta of a question
    "verification.strategies": "_HOSTILE",  # floats that break things
    "verification.training_audit": "_DELTA",  # where a claim is read
    "verification.zoo": "_ROWS",  # data
}


def is_number(value: ast.expr) -> bool:
    if isinstance(value, ast.UnaryOp):
        return is_number(value.operand)
    if isinstance(value, ast.BinOp):
        return is_number(value.left) and is_number(value.right)
    return isinstance(value, ast.Constant) and type(value.value) in (int, float)


def module_numbers(source: str) -> Iterator[str]:
    """The names of numbers, or of tuples with numbers, that a module assigns."""
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Assign):
            target = statement.targets[0]
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            target = statement.target
        else:
            continue
        value = statement.value
        values = value.elts if isinstance(value, ast.Tuple) else [value]
        if any(map(is_number, values)):
            yield from re.findall(r"\w+", ast.unparse(target))


def allowed(module: str, name: str) -> bool:
    for place, names in OTHERS.items():
        if f"{module}.".startswith(f"{place}.") and (names is None or name in names.split()):
            return True
    return KINDS.fullmatch(name) is not None


def strays(sources: dict[str, str]) -> list[str]:
    return [
        f"{module}.{name}"
        for module, source in sources.items()
        for name in module_numbers(source)
        if not allowed(module, name)
    ]


def every_source() -> dict[str, str]:
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path.read_text(encoding="utf-8")
        for path in sorted(ROOT.rglob("*.py"))
    }


def test_a_number_is_a_limit_a_format_a_unit_or_a_rounding_error() -> None:
    assert not strays(every_source()), "put it into the TUNING of its subsystem, or say in OTHERS why it is not tuned"


def test_a_stray_number_is_seen() -> None:
    source = "_WORTH_A_THREAD = 2**18\nMOST_ROWS: int = 10\nA, B = 0.5, -1\nNAME = 'x'\nFLAG = True\n"
    assert strays({"learners.trees.new": source}) == [
        f"learners.trees.new.{name}" for name in ("_WORTH_A_THREAD", "A", "B")
    ]


def test_every_exception_is_used() -> None:
    found = {(module, name) for module, source in every_source().items() for name in module_numbers(source)}
    unused = [
        f"{place}: {name}"
        for place, names in OTHERS.items()
        for name in (names or "").split()
        if not any(f"{module}.".startswith(f"{place}.") and name == other for module, other in found)
    ]
    assert not unused


@pytest.mark.parametrize("module", TUNED)
def test_tuning_is_a_frozen_dataclass_that_names_a_benchmark(module: str) -> None:
    loaded = import_module(module)
    tuning = type(loaded.TUNING)
    assert is_dataclass(tuning) and tuning.__dataclass_params__.frozen  # type: ignore[attr-defined]
    text = Path(str(loaded.__file__)).read_text(encoding="utf-8")
    named = re.findall(r"benchmarks/\w+(?:/\w+)?(?:\.py)?", text)
    assert named and all((ROOT.parents[1] / name).exists() for name in named), "say which benchmark chose the values"
