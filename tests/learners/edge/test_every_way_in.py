"""One record more, whatever it holds, moves what reaches the mechanisms by what they claim at most; nothing else."""

from __future__ import annotations

import json
import random
import struct
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from edge_kit import Observed, check_neighbours, facts_of, observe
from pyarrow import parquet
from records import COLUMNS, DECLARED, LEARNED, LINES, LONG, OBJECTS, REGRESSION, TEXTS, as_csv, clean

from ledgerwood.learners import AdaSSPRegressor, PrivateBoostingClassifier, PrivateClassifier, Schema
from ledgerwood.learners.data.privacy_unit import unit_names
from ledgerwood.learners.data.threads import TUNING
from ledgerwood.learners.engines import Partitions

FEATURES = list(COLUMNS[:-1])
NO_TARGET = replace(REGRESSION, target_bounds=None)
TREES: dict[str, Any] = {"recipe": "tr_cyc", "n_trees": 3, "max_depth": 1}
"""One tree for each feature: what is read wrongly in any column reaches a mechanism."""
PLACES = (0, 20, 59)
"""Where the record stands that one of two neighbours has more: first, within, last."""


@pytest.fixture(params=[1, pytest.param(20, marks=pytest.mark.slow)], ids=["quick", "long"])
def times(request: pytest.FixtureRequest) -> int:
    """How many times as many records are tried."""
    found: int = request.param
    return found


def boosting(schema: Schema) -> Any:
    return PrivateBoostingClassifier(schema=schema, delta=1e-6, **TREES)


def with_record(rows: list[Any], record: Any, place: int) -> list[Any]:
    return [*rows[:place], record, *rows[place:]]


def hostile(cells: list[Any], seed: int, count: int, times: int) -> list[tuple[Any, ...]]:
    """Some records of hostile cells, among as many as there are cells each one once in every column.

    Each is of a unit of its own: one of a known unit would replace that unit's row.
    """
    rng = random.Random(f"{seed} {times}")
    if times > 1 and isinstance(cells[0], bytes):
        cells = [*cells, *(quoted(rng.randbytes(rng.randrange(12))) for _ in range(300))]
    known = {str(row[3]) for row in clean()}
    strangers = [cell for cell in cells if unit_names([cell])[0] not in known]
    columns = []
    for column in range(5):
        choice, found = (strangers if column == 3 else cells), []
        while len(found) < count * times:
            found += rng.sample(choice, len(choice))
        columns.append(found[: count * times])
    return list(zip(*columns, strict=True))


# ---- files


def quoted(text: bytes) -> bytes:
    """Text as a field of a CSV file: framed, whatever it holds."""
    return b'"' + text.replace(b'"', b'""') + b'"'


def write_csv(folder: Path, content: bytes) -> Path:
    path = folder / "rows.csv"
    path.write_bytes(content)
    return path


def trained_by_command(folder: Path, table: Path, schema: Schema, *more: str) -> Observed:
    from ledgerwood.app.cli.main import main

    (folder / "schema.json").write_text(schema.to_json(), encoding="utf-8")
    outputs = [folder / "model.json"]
    outputs[0].unlink(missing_ok=True)
    words = ["train", str(table), "--target", "y", "--schema", str(folder / "schema.json"), "--recipe", "tr_cyc"]
    words += ["--trees", "3", "--depth", "1", "--delta", "1e-6", "--model", str(outputs[0]), "--json", *more]
    return observe(lambda: main(words), outputs)


@pytest.mark.parametrize("column", range(5))
def test_a_column_that_is_lost_is_seen(column: int, tmp_path: Path) -> None:
    """The kit can fail: whatever column is read as missing for all records, a mechanism gets more than it claims."""
    rows = clean()
    lost = [(*row[:column], "", *row[column + 1 :]) for row in rows]
    plain, other = (trained_by_command(tmp_path, write_csv(tmp_path, as_csv(t)), DECLARED) for t in (rows, lost))
    assert plain.values and plain.rest == other.rest
    with pytest.raises(AssertionError):
        check_neighbours(plain, other)


@pytest.mark.parametrize("schema", [DECLARED, LEARNED], ids=["declared", "learned"])
def test_a_csv_file_given_to_the_command_line(schema: Schema, tmp_path: Path, times: int) -> None:
    rows = clean()
    plain = trained_by_command(tmp_path, write_csv(tmp_path, as_csv(rows)), schema)
    assert plain.values and plain.rest["files"]
    for i, record in enumerate(hostile(TEXTS, 1, 60, times)):
        table = write_csv(tmp_path, as_csv(with_record(rows, record, PLACES[i % 3])))
        check_neighbours(plain, trained_by_command(tmp_path, table, schema))


@pytest.mark.parametrize("schema", [REGRESSION, NO_TARGET], ids=["declared", "learned"])
def test_a_csv_file_with_numbers_to_predict(schema: Schema, tmp_path: Path, times: int) -> None:
    rows = clean("number")
    plain = trained_by_command(tmp_path, write_csv(tmp_path, as_csv(rows)), schema, "--task", "regression")
    assert plain.values and plain.rest["files"]
    for i, record in enumerate(hostile(TEXTS, 10, 40, times)):
        table = write_csv(tmp_path, as_csv(with_record(rows, record, PLACES[i % 3])))
        check_neighbours(plain, trained_by_command(tmp_path, table, schema, "--task", "regression"))


def test_nobody_with_a_usable_label_is_a_table_too(tmp_path: Path) -> None:
    bad = [(*row[:-1], "maybe") for row in clean()[:3]]
    plain = trained_by_command(tmp_path, write_csv(tmp_path, as_csv(bad)), DECLARED)
    assert plain.values
    more = write_csv(tmp_path, as_csv([*bad, clean()[5]]))
    check_neighbours(plain, trained_by_command(tmp_path, more, DECLARED))


def test_some_cells_are_longer_than_a_block() -> None:
    assert max(TUNING.csv_block, 1 << 20) < LONG  # the second is Arrow's own


def test_odd_lines_of_a_csv_file_raise_nothing(tmp_path: Path) -> None:
    rows = clean()
    plain = trained_by_command(tmp_path, write_csv(tmp_path, as_csv(rows)), DECLARED)
    for line in LINES:
        found = trained_by_command(tmp_path, write_csv(tmp_path, as_csv(rows, {len(rows): line})), DECLARED)
        check_neighbours(plain, found)  # a quote that is not closed takes nothing with it at the end of the file
        inside = trained_by_command(tmp_path, write_csv(tmp_path, as_csv(rows, {20: line})), DECLARED)
        assert inside.rest == plain.rest
        if line.count(b'"') % 2 == 0:
            check_neighbours(plain, inside)


def typed(record: dict[str, Any] | None, place: int) -> pa.Table:
    """A table with types, one record more."""
    rows = clean()
    text = [None if row is None else row.encode() for row in (r[2] for r in rows)]
    columns: dict[str, list[Any]] = {name: [row[j] for row in rows] for j, name in enumerate(COLUMNS)}
    columns["t"] = text
    if record is not None:
        for name, cells in columns.items():
            cells.insert(place, record.get(name))
    raw = pa.array(columns["t"], pa.binary())
    buffers = raw.buffers()
    columns["t"] = pa.Array.from_buffers(pa.string(), len(raw), buffers)
    types = {"x": pa.float64(), "c": pa.int64(), "who": pa.int64(), "y": pa.string()}
    return pa.table({name: cells if name == "t" else pa.array(cells, types[name]) for name, cells in columns.items()})


TYPED: list[dict[str, Any]] = [
    {},
    {"x": float("nan"), "c": 2**62, "who": -1, "y": "yes"},
    {"x": float("inf"), "t": b"\xff", "who": 2**60 + 300, "y": "no"},
    {"x": -1e300, "c": 1, "t": b"SECRET\xff", "who": None, "y": "maybe"},
    {"x": 5e-324, "c": 3, "t": b"red", "who": 0, "y": ""},
    {"c": -(2**63), "t": b"\x00", "who": 2**63 - 1, "y": "yes"},
]


def random_typed(seed: int, count: int) -> list[dict[str, Any]]:
    """Records of random bits in every column that has a type, some cells missing; only long runs have any."""
    rng = random.Random(f"typed {seed}")

    def cell(made: Any) -> Any:
        return None if rng.random() < 0.2 else made

    def integer() -> int:
        return rng.getrandbits(rng.randrange(1, 64)) * rng.choice((1, -1))

    return [
        {
            "x": cell(struct.unpack("<d", rng.randbytes(8))[0]),
            "c": cell(rng.choice((1, 2, 3, integer()))),
            "t": cell(rng.choice((b"red", rng.randbytes(rng.randrange(9))))),
            "who": cell(2**62 + rng.getrandbits(61)),  # a unit of its own
            "y": cell(rng.choice(("yes", "no", rng.randbytes(3).decode("latin-1")))),
        }
        for _ in range(count)
    ]


def test_a_parquet_file_given_to_the_command_line(tmp_path: Path, times: int) -> None:
    def run(record: dict[str, Any] | None, place: int) -> Observed:
        parquet.write_table(typed(record, place), tmp_path / "rows.parquet")
        return trained_by_command(tmp_path, tmp_path / "rows.parquet", DECLARED)

    plain = run(None, 0)
    assert plain.values
    for i, record in enumerate(TYPED + random_typed(1, 10 * (times - 1))):
        check_neighbours(plain, run(record, PLACES[i % 3]))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("regression", [False, True])
def test_a_folder_of_files(kind: str, regression: bool, tmp_path: Path, times: int) -> None:
    from ledgerwood.learners import PrivateBoostingRegressor

    rows = clean("number" if regression else "class")

    def run(record: Any, place: int) -> Observed:
        halves = [rows[:30], rows[30:]]
        for number, half in enumerate(halves):
            more = with_record(half, record, place) if record is not None and number == place % 2 else half
            path = tmp_path / f"{number}.{kind}"
            if kind == "csv":
                path.write_bytes(as_csv(more))
            else:
                frame = {name: [row[j] for row in more] for j, name in enumerate(COLUMNS)}
                types = {"x": pa.float64(), "c": pa.int64(), "t": pa.string(), "who": pa.int64()}
                label = pa.float64() if regression else pa.string()
                table = pa.table({n: pa.array(cells, types.get(n, label)) for n, cells in frame.items()})
                parquet.write_table(table, path)

        def train() -> Any:
            if regression:
                return facts_of(PrivateBoostingRegressor(schema=REGRESSION, delta=1e-6, **TREES).fit(tmp_path, "y"))
            return facts_of(boosting(DECLARED).fit(str(tmp_path), "y"))

        return observe(train)

    plain = run(None, 0)
    assert plain.values
    if kind == "csv":
        records: list[Any] = hostile(TEXTS, 2, 50, times)
    else:
        label: list[Any] = [None, float("nan"), float("inf"), 1e300] if regression else [None, "maybe", "", "\0"]
        records = [(float("inf"), None, "x", None, label[0]), (None, 2**62, None, -5, label[1]),
                   (-1e300, 1, "red", 7, label[2]), (0.5, 2, "\0", 2**61, label[3])]  # fmt: skip
        for cells in random_typed(2 + regression, 20 * (times - 1)):
            text, y = cells["t"], cells["x"] if regression else cells["y"]
            records.append((cells["x"], cells["c"], text and text.decode("latin-1"), cells["who"], y))
    for i, record in enumerate(records):
        check_neighbours(plain, run(record, (0, 15, 29)[i % 3]))


# ---- tables in memory


def as_lists(rows: list[Any]) -> Any:
    return [list(row) for row in rows]


def as_deque(rows: list[Any]) -> Any:
    return deque(list(row) for row in rows)


def as_objects(rows: list[Any]) -> Any:
    found = np.empty((len(rows), len(rows[0])), dtype=object)
    for i, row in enumerate(rows):
        for j, cell in enumerate(row):
            found[i, j] = cell
    return found


def as_pandas(rows: list[Any], names: Sequence[str] = FEATURES) -> Any:
    cells = as_objects(rows)
    return pd.DataFrame({name: pd.Series(cells[:, j], dtype=object) for j, name in enumerate(names)})


def as_polars(rows: list[Any]) -> Any:
    array = as_objects(rows)
    return pl.DataFrame({name: pl.Series(list(array[:, j]), dtype=pl.Object) for j, name in enumerate(FEATURES)})


NUMBERED = Schema(bounds={0: (0, 10)}, categories={1: [1, 2, 3], 2: ["red", "green"]}, classes=["no", "yes"], unit=3)


@pytest.mark.parametrize("make", [as_lists, as_deque, as_objects, as_pandas, as_polars])
def test_a_table_of_objects(make: Callable[[list[Any]], Any], times: int) -> None:
    rows = [row[:-1] for row in clean()]
    labels = [("no", "yes")[i % 2] for i in range(len(rows))]
    schema = DECLARED if make in (as_pandas, as_polars) else NUMBERED

    def run(records: list[Any], y: list[str]) -> Observed:
        return observe(lambda: facts_of(boosting(schema).fit(make(records), y)))

    plain = run(rows, labels)
    assert plain.values
    for i, record in enumerate(hostile(OBJECTS, 4, 100, times)):
        place = PLACES[i % 3]
        check_neighbours(plain, run(with_record(rows, record[:4], place), with_record(labels, "yes", place)))


class Closed:
    """An object that cannot even be asked for its class."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("SECRET")


def test_no_object_is_asked_for_the_type_of_its_column() -> None:
    rows = [row[:-1] for row in clean()]
    labels = [row[-1] for row in clean()]
    plain = observe(lambda: facts_of(boosting(DECLARED).fit(as_pandas(rows), labels)))
    for column in range(4):
        record: list[Any] = [1.0, 1, "red", 5]
        record[column] = Closed()
        more = as_pandas([record, *rows])
        check_neighbours(plain, observe(lambda m=more: facts_of(boosting(DECLARED).fit(m, ["yes", *labels]))))


def test_what_is_learned_of_a_table_of_objects(times: int) -> None:
    rows = [row[:-1] for row in clean()]
    labels = [("no", "yes")[i % 2] for i in range(len(rows))]

    def run(records: list[Any], y: list[str]) -> Observed:
        return observe(lambda: facts_of(boosting(LEARNED).fit(as_pandas(records), y)))

    plain = run(rows, labels)
    assert len(plain.values) > 2
    for i, record in enumerate(hostile(OBJECTS, 5, 50, times)):
        place = PLACES[i % 3]
        check_neighbours(plain, run(with_record(rows, record[:4], place), with_record(labels, "no", place)))


def test_an_arrow_table_with_text_that_is_no_utf8() -> None:
    labels = [row[-1] for row in clean()]

    def run(record: dict[str, Any] | None, place: int) -> Observed:
        y = labels if record is None else with_record(labels, "yes", place)
        table = typed(record, place).drop_columns(["y"])
        return observe(lambda: facts_of(boosting(DECLARED).fit(table, y)))

    plain = run(None, 0)
    for i, record in enumerate(TYPED):
        check_neighbours(plain, run(record, PLACES[i % 3]))


def test_an_arrow_chunk_without_ids_leaves_those_of_other_chunks_as_they_are() -> None:
    """A chunk whose dictionary is empty has no values to take a type from: large ids must not become floats by it."""
    table = typed(None, 0).drop_columns(["y"])
    coded = table.set_column(table.column_names.index("who"), "who", table["who"].dictionary_encode())
    nobody = pa.DictionaryArray.from_arrays(pa.array([None], pa.int32()), pa.array([], pa.int64()))
    more = pa.concat_tables([coded, coded.slice(0, 1).set_column(coded.column_names.index("who"), "who", nobody)])
    labels = [row[-1] for row in clean()]
    plain = observe(lambda: facts_of(boosting(DECLARED).fit(coded, labels)))
    assert plain.values
    check_neighbours(plain, observe(lambda: facts_of(boosting(DECLARED).fit(more, [*labels, "yes"]))))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_text_in_numbers_is_missing_whatever_type_of_text_it_has(kind: pa.DataType) -> None:
    rows, labels = clean(), [row[-1] for row in clean()]

    def run(cells: list[bytes], y: list[str]) -> Observed:
        views = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view()}
        raw = pa.array(cells, views[kind])
        table = pa.table({"x": pa.Array.from_buffers(kind, len(raw), raw.buffers())})
        schema = Schema(bounds={"x": (0, 10)}, classes=["no", "yes"])
        return observe(lambda: facts_of(boosting(schema).fit(table, y)))

    numbers = [str(row[0]).encode() for row in rows]
    plain = run(numbers, labels)
    assert plain.values
    for cell in (b"oops", b"", b"\xff", b" 1 ", b"TRUE", b"a text of more than twelve bytes \xff"):
        check_neighbours(plain, run([*numbers, cell], [*labels, "yes"]))


@pytest.mark.parametrize("learner", ["linear", "auto"])
def test_other_learners_read_alike(learner: str, times: int) -> None:
    rows = [row[:-1] for row in clean()]
    numbers = [row[-1] for row in clean("number")]
    labels = [("no", "yes")[i % 2] for i in range(len(rows))]

    def run(records: list[Any], y: list[Any]) -> Observed:
        if learner == "linear":
            return observe(lambda: facts_of(AdaSSPRegressor(schema=REGRESSION, delta=1e-6).fit(as_pandas(records), y)))
        return observe(lambda: facts_of(PrivateClassifier(schema=DECLARED, delta=1e-6).fit(as_pandas(records), y)))

    y: list[Any] = numbers if learner == "linear" else labels
    plain = run(rows, y)
    for i, record in enumerate(hostile(OBJECTS, 6, 50, times)):
        place = PLACES[i % 3]
        check_neighbours(plain, run(with_record(rows, record[:4], place), with_record(y, y[0], place)))


# ---- Dask


def dask_frame(parts: list[pd.DataFrame], meta: pd.DataFrame) -> Any:
    from dask import dataframe
    from dask.delayed import delayed

    return dataframe.from_delayed([delayed(part) for part in parts], meta=meta, verify_meta=False)


def test_a_dask_frame_whose_partitions_have_other_types() -> None:
    rows = clean()
    frame = pd.DataFrame(rows, columns=list(COLUMNS)).astype({"who": "Int64", "c": "int64"})
    meta = frame.iloc[:0]

    def run(last: pd.DataFrame) -> Observed:
        table = dask_frame([frame.iloc[:30], last], meta)
        return observe(lambda: facts_of(boosting(DECLARED).fit(table, "y")))

    rest = frame.iloc[30:]
    plain = run(rest)
    assert plain.values
    for cell in (None, "x", "1", 2.5, 2**60, float("inf")):
        for column in ("x", "c", "t", "y"):
            more = rest.astype(object)
            more.loc[len(rows)] = rest.iloc[0].astype(object)
            more.loc[len(rows), "who"] = 5
            more.loc[len(rows), column] = cell
            check_neighbours(plain, run(more))
    nobody = pd.concat([rest, rest.iloc[:1].assign(who=pd.array([None], dtype="Int64"))], ignore_index=True)
    check_neighbours(plain, run(nobody))


def test_objects_of_a_dask_frame(times: int) -> None:
    """Objects as they are: left to itself Dask makes texts of them, and its graph fails at one of which it cannot."""
    import dask

    rows = clean()
    frame = as_pandas(rows, COLUMNS)

    def run(records: list[Any]) -> Observed:
        more = as_pandas(records, COLUMNS)
        with dask.config.set({"dataframe.convert-string": False}):
            table = dask_frame([frame.iloc[:30], more], frame.iloc[:0])
            return observe(lambda: facts_of(boosting(DECLARED).fit(table, "y")))

    plain = run(rows[30:])
    assert plain.values
    for i, record in enumerate(hostile(OBJECTS, 11, 50, times)):
        check_neighbours(plain, run(with_record(rows[30:], record, (0, 15, 29)[i % 3])))


@pytest.mark.parametrize("cell", [pd.Timestamp(0), pd.Timedelta(1), 1j, pd.Period("2020"), pd.Interval(0, 1)], ids=repr)
def test_a_record_that_is_a_partition_of_its_own_type(cell: Any) -> None:
    """Pandas gives a partition of one record the type of its cell, and that must not raise."""
    frame = pd.DataFrame(clean(), columns=list(COLUMNS)).astype({"who": "Int64"})

    def run(*more: pd.DataFrame) -> Observed:
        return observe(lambda: facts_of(boosting(DECLARED).fit(dask_frame([frame, *more], frame.iloc[:0]), "y")))

    plain = run()
    assert plain.values
    for column in COLUMNS:
        record = dict(zip(COLUMNS, (1.0, 1, "red", 5, "yes"), strict=True))
        check_neighbours(plain, run(pd.DataFrame([{**record, column: cell}])))


def test_blocks_of_a_dask_array_have_types_and_masks_of_their_own() -> None:
    from dask import array
    from dask.delayed import delayed

    rows = np.array([[row[0], row[1], i] for i, row in enumerate(clean())])
    labels = np.array([("no", "yes")[i % 2] for i in range(len(rows))])
    schema = Schema(bounds={0: (0, 10)}, categories={1: [1, 2, 3]}, classes=["no", "yes"], unit=2)

    def run(*more: Any) -> Observed:
        X = array.concatenate([array.from_delayed(delayed(block), block.shape, rows.dtype) for block in (rows, *more)])
        y = array.from_array(np.array([*labels, *["yes"] * (len(X) - len(rows))]), chunks=X.chunks[0])
        return observe(lambda: facts_of(boosting(schema).fit(X, y)))

    plain = run()
    assert plain.values
    hidden = np.ma.masked_array([[1.0, 1.0, 0.0]], mask=True)  # what it hides is the id of another
    for block in (np.zeros((1, 3), "M8[s]"), np.zeros((1, 3), complex), np.array([["x", "1", "77"]]), hidden):
        check_neighbours(plain, run(block))


def test_integers_of_a_dask_array_are_no_ids() -> None:
    """One missing value makes floats of its block, and the ids of others merge by rounding."""
    from dask import array
    from dask.delayed import delayed

    rows = np.array([[row[1], row[3]] for row in clean()])
    rounded = np.array([*rows.astype(float).tolist(), [np.nan, 5]])
    schema = Schema(categories={0: [1, 2, 3]}, classes=["no", "yes"], unit=1)
    for block in (rows, rounded):
        X = array.from_delayed(delayed(block), block.shape, rows.dtype)
        y = array.from_array(np.array(["yes"] * len(block)))
        found = observe(lambda X=X, y=y: boosting(schema).fit(X, y))
        assert not found.values
        assert "have a type that can hold missing values in a Dask frame or array" in found.rest["error"][0]


def test_ids_that_a_missing_value_would_round_are_refused_by_their_type() -> None:
    frame = pd.DataFrame(clean(), columns=list(COLUMNS))
    table = dask_frame([frame.iloc[:30], frame.iloc[30:].astype({"who": "float64"})], frame.iloc[:0])
    large = Schema(bounds={"x": (0, 10)}, categories={"c": [1, 2**53], "t": ["red"], "who": [1]}, classes=["no", "yes"])
    for model in (boosting(DECLARED), boosting(large)):
        found = observe(partial(model.fit, table, "y"))
        assert not found.values
        assert "have a type that can hold missing values in a Dask frame" in found.rest["error"][0]


# ---- parties


def test_a_federated_party_reads_its_file_cell_by_cell(tmp_path: Path, times: int) -> None:
    from ledgerwood.learners.federated import FederatedTask
    from ledgerwood.learners.federated.flower import identities, node_from, write_parties

    keys, roster = identities(2)
    schema = Schema(bounds={"x": (0, 10)}, categories={"c": [1, 2, 3], "t": ["red", "green"]}, classes=["no", "yes"])
    options = {"n_trees": 3, "max_depth": 1, "batch": 3}
    task = FederatedTask(schema, ("x", "c", "t"), roster, threshold=2, rows=200, recipe="tr_cyc", options=options)
    party = write_parties(tmp_path, task, keys, dict.fromkeys(keys, "rows.csv"), "y")[1]

    def run(content: bytes) -> Observed:
        (party.parent / "rows.csv").write_bytes(content)
        asked: list[Any] = []

        def step() -> Any:
            asked.extend(node_from(party).party().step([]).queries)
            return [(query.label, query.grid) for query in asked]

        found = observe(step)
        found.values = [np.array(query.value) for query in asked]
        found.claims = [query.grid.l2 for query in asked]
        return found

    rows = clean()
    plain = run(as_csv(rows))
    assert plain.values
    for i, record in enumerate(hostile(TEXTS, 7, 60, times)):
        check_neighbours(plain, run(as_csv(with_record(rows, record, PLACES[i % 3]))))
    for line in LINES:
        found = run(as_csv(rows, {len(rows): line}))
        check_neighbours(plain, found)


def test_an_opboost_party_reads_its_file_cell_by_cell(tmp_path: Path, times: int) -> None:
    from ledgerwood.app.cli.opboost import read_table
    from ledgerwood.learners.vertical import OrderPreservingTransformer

    domain = {"x": (0, 10), "c": [1, 2, 3], "t": ["red", "green"], "y": ["no", "yes"]}
    made = OrderPreservingTransformer(domain=domain).declare(list(domain))

    def run(content: bytes) -> tuple[Any, list[Any], Any]:
        read: list[Any] = []

        def snap() -> None:
            table, ids = read_table(write_csv(tmp_path, content), "who", guess_types=False)
            read.extend([made.snap(table), list(ids)])

        rest = observe(snap).rest
        assert "error" not in rest
        return read[0], read[1], rest

    rows = clean()
    plain, ids, rest = run(as_csv(rows))
    for i, record in enumerate(hostile(TEXTS, 8, 100, times)):
        place = PLACES[i % 3]
        more, all_ids, all_else = run(as_csv(with_record(rows, record, place)))
        assert np.array_equal(np.delete(more, place, axis=0), plain)
        assert [*all_ids[:place], *all_ids[place + 1 :]] == ids
        assert all_else == rest
    for line in LINES:
        more, all_ids, all_else = run(as_csv(rows, {len(rows): line}))
        assert np.array_equal(more[: len(plain)], plain) and all_ids[: len(ids)] == ids and all_else == rest


def test_a_score_is_read_by_the_same_rule(tmp_path: Path, times: int) -> None:
    """What a model predicts for a record does not depend on who asks beside it, nor on how the table is stored."""
    from ledgerwood.app.cli.main import main

    rows = clean()
    model = boosting(DECLARED).fit(as_pandas([row[:-1] for row in rows]), [row[-1] for row in rows])
    whole = model.predict_proba(as_pandas([row[:-1] for row in rows]))
    for record in hostile(OBJECTS, 9, 50, times):
        found = model.predict_proba(as_pandas([*[row[:-1] for row in rows], record[:4]]))
        assert np.array_equal(found[:-1], whole)
    model.save(tmp_path / "m.json")
    table = write_csv(tmp_path, as_csv([*rows, (b"x", b"\xff", b"", b"", b"")]))
    found_ = observe(lambda: main(["predict", str(tmp_path / "m.json"), str(table), "--probabilities", "--json"]))
    told = json.loads(found_.rest["printed"][0])
    assert np.allclose(np.array([told["no"], told["yes"]]).T[:-1], whole)


def test_partitions_of_frames_keep_their_types_public() -> None:
    frame = pd.DataFrame(clean(), columns=list(COLUMNS))
    with pytest.raises(Exception, match="same columns and types"):
        Partitions.of_frames([frame, frame.astype({"who": "float64"})], target="y")
