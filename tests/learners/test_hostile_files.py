"""Files that anybody may have written: reading one works or is a FormatError, and takes memory by its own size."""

from __future__ import annotations

import copy
import json
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledgerwood import _files
from ledgerwood._files import read_json
from ledgerwood.accounting import Plan
from ledgerwood.accounting.costs import serialization
from ledgerwood.accounting.ledger.journal import GENESIS, seal, unseal
from ledgerwood.errors import FormatError, JournalTampered, LedgerwoodError, ParameterError
from ledgerwood.learners import (
    BoostedAdaSSPClassifier,
    PrivateBoostingClassifier,
    PrivateBoostingRegressor,
    PrivateClassifier,
    Schema,
    load,
)
from ledgerwood.learners.federated import FederatedTask, Federation
from ledgerwood.learners.linear.encoding import MAX_BINS, RowEncoder
from ledgerwood.learners.linear.model import to_sklearn
from ledgerwood.verification.auditor.report import AuditReport

pytestmark = pytest.mark.filterwarnings("ignore")
RNG = np.random.default_rng(0)
X, Y = RNG.uniform(size=(60, 3)), np.arange(60) % 2
SCHEMA = Schema(bounds={0: (0, 1), 1: (0, 1)}, categories={2: [0, 1]}, classes=[0, 1])
NUMBERS = Schema(bounds=dict.fromkeys(range(3), (0, 1)), target_bounds=(0, 1))
MOST_MEMORY = 300 << 20
"""Bytes that reading a file of some kilobytes may take: what pricing the plan of a model needs."""


def models() -> dict[str, Any]:
    given: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-5}
    return {
        "trees": PrivateBoostingClassifier(recipe="xgb", n_trees=2, max_depth=2, schema=SCHEMA, **given).fit(X, Y),
        "numbers": PrivateBoostingRegressor(recipe="tr", n_trees=2, schema=NUMBERS, **given).fit(X, X[:, 0]),
        "sampled": PrivateBoostingClassifier(recipe="sarus", n_trees=1, max_depth=1, schema=SCHEMA, **given).fit(X, Y),
        "linear": BoostedAdaSSPClassifier(bins=4, n_rounds=2, schema=SCHEMA, **given).fit(X, Y),
        "auto": PrivateClassifier(schema=SCHEMA, **given).fit(X, Y),
    }  # fmt: skip


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path, found = tmp_path_factory.mktemp("saved") / "model.json", {}
    for name, model in models().items():
        model.save(path)
        found[name] = json.loads(path.read_text())
    return found


def read_text(text: str | bytes, folder: Path) -> Any:
    path = folder / "hostile.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load(path)


# ---- what the review found, and what was found beside it


def item(cost: Any, times: int = 1, label: str = "split") -> dict[str, Any]:
    return {"label": label, "cost": cost, "times": times, "share": None, "scale": None, "fixed": {}}


def group(times: int) -> dict[str, Any]:
    own = [item({"kind": "BoundedRange", "epsilon": size}, label=f"r{size}") for size in (0.1, 0.2)]
    return {"sequence": {"label": "tree", "times": times, "releases": own}}


def cost_of(kind: str, **fields: Any) -> dict[str, Any]:
    return {"kind": kind, **fields}


GAUSSIAN = cost_of("Gaussian", sigma=50.0, sensitivity=1.0)
PLANS: dict[str, Any] = {
    "two thousand sizes": [
        item(cost_of("BoundedRange", epsilon=1e-4 * (1 + i * 1e-3)), 10**5, f"r{i}") for i in range(2000)
    ],
    "a hundred sizes": [item(cost_of("BoundedRange", epsilon=1e-4 * (1 + i)), label=f"r{i}") for i in range(100)],
    "a trillion runs": [item(GAUSSIAN, 10**12)],
    "a trillion rounds": [group(10**12)],
    "a million rounds": [group(10**6)],
    "a trillion parts": [item(cost_of("parallel", parts=[[GAUSSIAN, 10**12]]))],
    "a sum of a trillion": [item(cost_of("sum", parts=[[GAUSSIAN, 10**12]]))],
    "a part less than none": [item(cost_of("sum", parts=[[GAUSSIAN, 5], [cost_of("PureDP", epsilon=0.1), -4]]))],
    "half a part": [item(cost_of("sum", parts=[[GAUSSIAN, 0.5]]))],
    "a wide discrete Laplace": [item(cost_of("DiscreteLaplace", scale=1e9, sensitivity=10**9))],
    "a wide discrete Gaussian": [item(cost_of("DiscreteGaussian", sigma=1e9, sensitivity=10**9, dimension=1))],
    "a sample without noise": [
        item(cost_of("PoissonSubsampled", cost=cost_of("Gaussian", sigma=0.001, sensitivity=1.0), rate=0.1))
    ],
    "a long curve": [item(cost_of("RDP", curve=[[1 + i / 100, i / 1e9] for i in range(20_000)]))],
    "a sum of a hundred sizes": [
        item(cost_of("sum", parts=[[cost_of("BoundedRange", epsilon=1e-4 * (1 + i)), 1] for i in range(100)]))
    ],
}


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_that_takes_long_to_price_is_refused_unpriced(
    name: str, documents: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = copy.deepcopy(documents["trees"])
    document["fitted"]["plan_"]["$plan"]["items"] = PLANS[name]
    monkeypatch.setattr(Plan, "is_within_target", lambda self: pytest.fail("it is priced"))
    with pytest.raises(FormatError):
        read_text(json.dumps(document), tmp_path)


def test_parts_of_a_cost_are_counted_in_whole_numbers() -> None:
    """A part that is taken away would make the sum cheaper than what was released."""
    for count in (-4, 0, 0.5, True, "1", None):
        with pytest.raises((ParameterError, FormatError)):
            serialization.from_dict(cost_of("sum", parts=[[GAUSSIAN, 5], [cost_of("PureDP", epsilon=0.1), count]]))


@pytest.mark.parametrize("bins", [2 * 10**9, 10**400, MAX_BINS + 1, 1, 0, -1])
def test_bins_are_bounded_before_their_edges_are_made(
    bins: int, documents: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def edges(low: float, high: float, bins: int) -> Any:
        raise AssertionError(f"{bins} edges are made")

    document = copy.deepcopy(documents["linear"])
    document["fitted"]["encoder_"]["$value"][1]["bins"] = bins
    monkeypatch.setattr("ledgerwood.learners.linear.encoding.bin_edges", edges)
    with pytest.raises(FormatError, match="bins must lie in 2"):
        read_text(json.dumps(document), tmp_path)


def test_one_long_string_does_not_make_all_strings_long(documents: dict[str, Any], tmp_path: Path) -> None:
    document = copy.deepcopy(documents["trees"])
    texts = ["x" * 30_000, *[""] * 30_000]
    document["fitted"]["feature_names_in_"] = {"$strings": texts, "shape": [len(texts)]}
    with pytest.raises(FormatError, match="letters"):
        read_text(json.dumps(document), tmp_path)


def test_a_file_of_brackets_is_not_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledgerwood.learners.storage.MOST_VALUES", 1000)
    monkeypatch.setattr("ledgerwood.learners.storage.parse_json", lambda text: pytest.fail("it is parsed"))
    with pytest.raises(FormatError, match="more than 1000 values"):
        read_text("[" + "[]," * 1000 + "[]]", tmp_path)


def test_weights_of_another_shape_are_refused(documents: dict[str, Any], tmp_path: Path) -> None:
    document = copy.deepcopy(documents["linear"])
    document["fitted"]["weights_"]["shape"].reverse()
    with pytest.raises(FormatError, match="weights of another width"):
        read_text(json.dumps(document), tmp_path)


def test_an_encoder_of_a_norm_that_is_none_is_refused() -> None:
    for norm in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(ParameterError, match="row_norm"):
            RowEncoder((), row_norm=norm)


# ---- what is JSON for Python and for nobody else


TEXTS = {
    "a number with a name": '{"a": NaN}',
    "an infinity": "[Infinity]",
    "a float beyond floats": "[1e999]",
    "a long integer": f"[1{'0' * 5000}]",
    "a name twice": '{"a": {"b": 1, "c": 2, "b": 3}}',
    "deep lists": "[" * 100_000,
    "deep lists that end": "[" * 150 + "]" * 150,
    "deep objects": '{"a":' * 150 + "1" + "}" * 150,
    "no UTF-8": b'["\xff"]',
    "nothing": "",
}


@pytest.mark.parametrize("name", TEXTS)
def test_every_reader_refuses_what_is_no_plain_json(name: str, tmp_path: Path) -> None:
    text: Any = TEXTS[name]
    as_text = text.decode("latin-1") if isinstance(text, bytes) and name != "no UTF-8" else text
    path = tmp_path / "hostile.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    readers: list[Callable[[], Any]] = [
        lambda: _files.parse_json(text),
        lambda: load(path),
        lambda: Federation.load(path),
        lambda: read_json(path),
    ]
    for read in (Plan.from_json, Schema.from_json, AuditReport.from_json, FederatedTask.from_json, to_sklearn):
        readers.append(lambda read=read: read(as_text))  # type: ignore[misc]
    for reader in readers:
        with pytest.raises(FormatError):
            reader()


def test_a_journal_of_such_a_line_is_broken() -> None:
    import hashlib

    for rest in (b'"n":0,"x":NaN}', b'"n":0,"n":1}', b'"x":' + b"[" * 100_000):
        digest = hashlib.sha256(GENESIS.encode() + rest).hexdigest()
        with pytest.raises((JournalTampered, FormatError)):
            unseal(GENESIS, b'{"hash":"' + digest.encode() + b'",' + rest)
    line, _ = seal(GENESIS, {"n": 0})
    assert unseal(GENESIS, line[:-1])[0] == {"n": 0}


def test_what_json_allows_is_read() -> None:
    text = '{"a": [1, -2.5e3, true, null, "\\u00e9"], "b": {"c": {}}}'
    assert _files.parse_json(text) == _files.parse_json(text.encode()) == json.loads(text)
    assert _files.parse_json("[" * 100 + "]" * 100) == json.loads("[" * 100 + "]" * 100)


# ---- mutations of what is valid


NUMBERS_THAT_HURT = [0, 1, -1, 2, 255, 256, 10**5, 2**31, 2 * 10**9, 2**63, 10**18, -(10**18), 10**400]
VALUES = st.one_of(
    st.sampled_from(NUMBERS_THAT_HURT),
    st.sampled_from([0.5, -0.0, 1e-300, 1e300, -1e300]),
    st.sampled_from([None, True, False, "", "x", "NaN", "age", "\x00", "BoundedRange", "y" * 500]),
    st.sampled_from([[], {}, [[]], {"$tuple": []}, {"$dict": []}, {"$float": "inf"}, {"$float": "nan"}, [1, 2, 3]]),
    st.sampled_from([{"$array": "", "dtype": "<i4", "shape": [0, 10**18]}, {"$strings": [], "shape": [0]}]),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place of a document, but the inside of receipts, of which there are many alike."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value[:4]):
            yield from places(inner, (*path, number))


def at(document: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        document = document[key]
    return document


def mutated(document: Any, data: st.DataObject) -> str:
    document = copy.deepcopy(document)
    for _ in range(data.draw(st.integers(1, 2))):
        every = list(places(document))
        path = data.draw(st.sampled_from(every))
        outer, key = at(document, path[:-1]), path[-1]
        match data.draw(st.sampled_from(["replace", "replace", "replace", "remove", "repeat", "move"])):
            case "replace":
                outer[key] = copy.deepcopy(data.draw(VALUES))
            case "remove":
                del outer[key]
            case "repeat" if isinstance(outer, list):
                outer.insert(key, copy.deepcopy(outer[key]))
            case "move":
                outer[key] = copy.deepcopy(at(document, data.draw(st.sampled_from(every))))
    return json.dumps(document)


def read_within_bounds(read: Callable[[], Any], errors: tuple[type[Exception], ...]) -> None:
    tracemalloc.start()
    try:
        read()
    except errors:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < MOST_MEMORY


def check_models(documents: dict[str, Any], folder: Path, data: st.DataObject) -> None:
    text = mutated(documents[data.draw(st.sampled_from(sorted(documents)))], data)

    def read() -> None:
        try:
            model = read_text(text, folder)
        except FormatError:
            return
        model.predict(X)  # what was let in does no harm; X may not fit the types of its columns

    read_within_bounds(read, (TypeError, ValueError))


QUICK = settings(
    max_examples=60, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
LONG = settings(QUICK, max_examples=2000, derandomize=False)


@QUICK
@given(data=st.data())
def test_a_mutated_model_is_read_or_refused(documents: dict[str, Any], tmp_path: Path, data: st.DataObject) -> None:
    check_models(documents, tmp_path, data)


@pytest.mark.slow
@LONG
@given(data=st.data())
def test_many_mutated_models(documents: dict[str, Any], tmp_path: Path, data: st.DataObject) -> None:
    check_models(documents, tmp_path, data)


def others(documents: dict[str, Any]) -> dict[str, tuple[Any, Callable[[str], Any]]]:
    plan = documents["sampled"]["fitted"]["plan_"]["$plan"]
    rounds = {**plan, "items": [group(3), item(GAUSSIAN, 4), item(cost_of("parallel", parts=[[GAUSSIAN, 2]]), 1, "p")]}
    task = FederatedTask(SCHEMA, (0, 1, 2), {1: "aa" * 32, 2: "bb" * 32}, threshold=2, rows=100, recipe="tr_cyc",
                         options={"n_trees": 2})  # fmt: skip
    return {
        "plan": (plan, Plan.from_json),
        "rounds": (rounds, Plan.from_json),
        "schema": (json.loads(SCHEMA.to_json()), Schema.from_json),
        "task": (json.loads(task.to_json()), FederatedTask.from_json),
    }


def check_others(documents: dict[str, Any], data: st.DataObject) -> None:
    several = others(documents)
    document, read = several[data.draw(st.sampled_from(sorted(several)))]
    text = mutated(document, data)
    read_within_bounds(lambda: read(text), (LedgerwoodError,))  # such as a task that no noise can meet


@QUICK
@given(data=st.data())
def test_a_mutated_plan_schema_or_task_is_read_or_refused(documents: dict[str, Any], data: st.DataObject) -> None:
    check_others(documents, data)


@pytest.mark.slow
@LONG
@given(data=st.data())
def test_many_mutated_plans_schemas_and_tasks(documents: dict[str, Any], data: st.DataObject) -> None:
    check_others(documents, data)
