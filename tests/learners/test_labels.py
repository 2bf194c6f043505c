"""Labels are read one by one: no cell raises, warns, or changes how another is read."""

from __future__ import annotations

import datetime
import random
import warnings
from collections import deque
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.kit.toy_learners import ToyClassifier, ToyRegressor

from ledgerwood.errors import ParameterError
from ledgerwood.learners import Schema, private_score
from ledgerwood.learners.data.labels import label_codes, label_numbers
from ledgerwood.mechanisms import DiscreteLaplaceMechanism

pytestmark = pytest.mark.filterwarnings("error")
NAN = float("nan")


def _raises(self: Any, *_: Any) -> Any:
    raise RuntimeError("SECRET")


def hostile(base: type, *arguments: Any) -> Any:
    """An object of a subclass whose own methods all raise."""
    names = ("str", "repr", "eq", "ne", "hash", "float", "bool", "int", "index", "len", "iter", "array")
    methods = {f"__{name}__": _raises for name in names} | dict.fromkeys(("item", "strip", "lower"), _raises)
    return type("Hostile", (base,), methods)(*arguments)


LARGE = 2**60 + 1
#: cell, its code among [0, 1, LARGE], its code among [False, True], its code among ["0", "1"], its number
CELLS: list[tuple[Any, int, int, int, float]] = [
    (0, 0, 0, 0, 0.0),
    (1, 1, 1, 1, 1.0),
    (True, 1, 1, 1, 1.0),
    (np.True_, 1, 1, 1, 1.0),
    (np.uint8(1), 1, 1, 1, 1.0),
    (1.0, 1, 1, 1, 1.0),
    (-0.0, 0, 0, 0, 0.0),
    (0.5, -1, -1, -1, 0.5),
    (LARGE, 2, -1, -1, 2.0**60),
    (2.0**60, -1, -1, -1, 2.0**60),
    (np.float32(0.1), -1, -1, -1, float(np.float32(0.1))),
    (np.longdouble(1), 1, 1, 1, 1.0),
    (np.longdouble(2) ** 60 + 1, 2, -1, -1, 2.0**60),
    (np.longdouble("1e4000"), -1, -1, -1, NAN),
    (10**5000, -1, -1, -1, NAN),
    (Decimal("1.00"), 1, 1, 1, 1.0),
    (Decimal(LARGE), 2, -1, -1, 2.0**60),
    (Decimal("1e999999999"), -1, -1, -1, NAN),
    (Decimal("sNaN"), -1, -1, -1, NAN),
    (Fraction(1, 2), -1, -1, -1, 0.5),
    (Fraction(10**400, 3), -1, -1, -1, NAN),
    (NAN, -1, -1, -1, NAN),
    (float("inf"), -1, -1, -1, NAN),
    ("1", 1, 1, 1, 1.0),
    ("01", 1, 1, -1, 1.0),
    (" 1\t", 1, 1, -1, 1.0),
    ("+1.0", 1, 1, -1, 1.0),
    ("1e0", 1, 1, -1, 1.0),
    (str(LARGE), 2, -1, -1, 2.0**60),
    ("0" * 5000 + "1", 1, 1, -1, 1.0),
    ("9" * 5000, -1, -1, -1, NAN),
    ("true", 1, 1, -1, 1.0),
    (" FALSE ", 0, 0, -1, 0.0),
    ("0_0", -1, -1, -1, NAN),
    ("nan", -1, -1, -1, NAN),
    ("inf", -1, -1, -1, NAN),
    ("\uff11", -1, -1, -1, NAN),
    ("", -1, -1, -1, NAN),
    ("\0", -1, -1, -1, NAN),
    ("\ud800", -1, -1, -1, NAN),
    (b"1", 1, 1, 1, 1.0),
    (b"\xff", -1, -1, -1, NAN),
    (hostile(int, 1), 1, 1, 1, 1.0),
    (hostile(str, "1"), 1, 1, 1, 1.0),
    (hostile(Decimal, 1), 1, 1, 1, 1.0),
    (hostile(np.int64, 1), -1, -1, -1, NAN),
    (hostile(object), -1, -1, -1, NAN),
    *(
        (cell, -1, -1, -1, NAN)
        for cell in (
            None, pd.NA, pd.NaT, [1], (1,), {}, 1 + 0j, np.array(1), np.datetime64(1, "D"), np.timedelta64(1, "D"),
            datetime.date(2020, 1, 1), pd.Timestamp(1), pa.scalar(1), object(),
        )
    ),
]  # fmt: skip


def column_of(cells: list[Any]) -> Any:
    found = np.empty(len(cells), dtype=object)
    for i, cell in enumerate(cells):
        found[i] = cell
    return found


@pytest.mark.parametrize("make", [list, tuple, column_of, lambda cells: pd.Series(column_of(cells), dtype=object)])
def test_every_cell_is_read_by_one_rule_whatever_is_beside_it(make: Any) -> None:
    order = random.Random(0).sample(CELLS, len(CELLS))
    y = make([cell for cell, *_ in order])
    for place, classes in enumerate(([0, 1, LARGE], [False, True], ["0", "1"]), start=1):
        assert label_codes(y, classes).tolist() == [case[place] for case in order]
    np.testing.assert_array_equal(label_numbers(y), [case[4] for case in order])
    for cell, code, _, _, number in CELLS:
        assert label_codes(make([cell]), [0, 1, LARGE]).tolist() == [code]
        np.testing.assert_array_equal(label_numbers(make([cell])), [number])


def bad_text(kind: pa.DataType) -> pa.Array:
    offsets = np.array([0, 2, 4, 7], dtype=np.int32 if kind == pa.string() else np.int64)
    return pa.Array.from_buffers(kind, 3, [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(b"no\xff\xfeyes")])


arrow = pd.ArrowDtype
COLUMNS: dict[str, tuple[Any, list[Any], list[int]]] = {
    "masked": (np.ma.masked_array([LARGE, 1, 0], mask=[0, 1, 0]), [0, LARGE], [1, -1, 0]),
    "pandas Int64": (pd.Series([LARGE, None, 0], dtype="Int64"), [0, LARGE], [1, -1, 0]),
    "pandas array": (pd.array([LARGE, None, 0], dtype="UInt64"), [0, LARGE], [1, -1, 0]),
    "pandas index": (pd.Index([LARGE, 7, 0]), [0, LARGE], [1, -1, 0]),
    "pandas boolean": (pd.Series([True, pd.NA, False], dtype="boolean"), [0, 1], [1, -1, 0]),
    "pandas text": (pd.Series(["yes", None, "no"]), ["no", "yes"], [1, -1, 0]),
    "pandas categories": (pd.Series(pd.Categorical([LARGE, None, 0])), [0, LARGE], [1, -1, 0]),
    "pandas no categories": (pd.Series(pd.Categorical([None, None])), [0, 1], [-1, -1]),
    "pandas dates": (pd.Series(pd.to_datetime(["2020-01-01", None])), [0, 1], [-1, -1]),
    "pandas Arrow": (pd.Series([LARGE, None, 0], dtype=arrow(pa.int64())), [0, LARGE], [1, -1, 0]),
    "pandas Arrow text": (
        pd.Series(pd.array(pa.chunked_array([bad_text(pa.string())]), dtype=arrow(pa.string()))),
        ["no", "yes"],
        [0, -1, 1],
    ),
    "pandas frame": (pd.DataFrame({"y": pd.Series([LARGE, None, 0], dtype="Int64")}), [0, LARGE], [1, -1, 0]),
    "polars": (pl.Series([LARGE, None, 0]), [0, LARGE], [1, -1, 0]),
    "polars text": (pl.Series(["yes", None, "no"]), ["no", "yes"], [1, -1, 0]),
    "polars categories": (pl.Series(["yes", None, "no"], dtype=pl.Categorical), ["no", "yes"], [1, -1, 0]),
    "polars boolean": (pl.Series([True, None, False]), [0, 1], [1, -1, 0]),
    "polars decimal": (pl.Series([Decimal(LARGE), None], dtype=pl.Decimal(38, 0)), [0, LARGE], [1, -1]),
    "polars objects": (pl.Series([LARGE, "0", None], dtype=pl.Object), [0, LARGE], [1, 0, -1]),
    "polars lists": (pl.Series([[1], [0]]), [0, 1], [-1, -1]),
    "Arrow": (pa.array([LARGE, None, 0]), [0, LARGE], [1, -1, 0]),
    "Arrow table": (pa.table({"y": [LARGE, None, 0]}), [0, LARGE], [1, -1, 0]),
    "Arrow chunks": (pa.chunked_array([[LARGE], [None, 0]]), [0, LARGE], [1, -1, 0]),
    "Arrow no chunks": (pa.chunked_array([], pa.int64()), [0, 1], []),
    "Arrow boolean": (pa.array([True, None, False]), [0, 1], [1, -1, 0]),
    "Arrow half floats": (pa.array([1.0, None, 0.0], pa.float16()), [0, 1], [1, -1, 0]),
    "Arrow decimal": (pa.array([Decimal(LARGE), None], pa.decimal128(38, 0)), [0, LARGE], [1, -1]),
    "Arrow text": (bad_text(pa.string()), ["no", "yes"], [0, -1, 1]),
    "Arrow large text": (bad_text(pa.large_string()), ["no", "yes"], [0, -1, 1]),
    "Arrow text view": (pa.array(["no", None], pa.string_view()), ["no", "yes"], [0, -1]),
    "Arrow bytes": (pa.array([b"no", b"\xff", None]), ["no", "yes"], [0, -1, -1]),
    "Arrow dictionary": (bad_text(pa.string()).dictionary_encode(), ["no", "yes"], [0, -1, 1]),
    "Arrow dictionary with nulls": (pa.array([LARGE, None, 0]).dictionary_encode(), [0, LARGE], [1, -1, 0]),
    "Arrow dates": (pa.array([2**40, None], pa.timestamp("s")), [0, 1], [-1, -1]),
    "Arrow lists": (pa.array([[1], None]), [0, 1], [-1, -1]),
    "Arrow structs": (pa.array([{"a": 1}]), [0, 1], [-1]),
    "Arrow nulls": (pa.nulls(2), [0, 1], [-1, -1]),
    "dates": (np.array([1, 0], dtype="M8[ns]"), [0, 1], [-1, -1]),
    "complex": (np.array([1, 0j]), [0, 1], [-1, -1]),
    "long doubles": (np.array(["1", "1e4000", "0"], dtype=np.longdouble), [0, 1], [1, -1, 0]),
    "bytes": (np.array([b"1", b"\xff", b"0"]), [0, 1], [1, -1, 0]),
    "text": (np.array(["1.0", "x", "0"]), [0, 1], [1, -1, 0]),
    "one column": (np.array([[1], [0]]), [0, 1], [1, 0]),
    "a sequence": (deque([2**60 + 1, 0.5, "x", [1], 1j, b"\xff"]), [2**60 + 1, 0.5], [0, 1, -1, -1, -1, -1]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_every_kind_of_column_is_read(name: str) -> None:
    y, classes, codes = COLUMNS[name]
    assert label_codes(y, classes).tolist() == codes
    numbers = label_numbers(y)
    assert numbers.dtype == np.float64 and len(numbers) == len(codes)


@pytest.mark.parametrize("many", [False, True])
def test_columns_of_numbers_are_read_as_their_cells_are(many: bool) -> None:
    classes = [*range(20)] if many else [1, 0.5, "1"]
    for dtype in (bool, np.int8, np.uint64, np.float16, np.float64, np.longdouble):
        y = np.array([0, 1, 1, 0, 1]).astype(dtype) * dtype(1)
        assert label_codes(y, classes).tolist() == label_codes(list(y), classes).tolist()
    assert label_codes(np.array([0.5, 1.0, NAN, 3e300]), [1, 0.5]).tolist() == [1, 0, -1, -1]


def test_one_float_in_a_list_rounds_no_label_of_the_others() -> None:
    classes = [2**53, 2**53 + 1, 0.5]
    X = np.arange(3)[:, None] / 3
    model = ToyClassifier(schema=Schema(bounds={0: (0, 1)}, classes=classes), delta=1e-5)
    with pytest.raises(ParameterError, match="declared classes only") as caught:
        model.fit(X, [2**53, 2**53 + 1, "SECRET"])
    assert "SECRET" not in str(caught.value)
    assert label_codes([2**53, 2**53 + 1, 0.5], classes).tolist() == [0, 1, 2]


# ---- private scores

N = 12
X = (np.arange(N) / N)[:, None]
SCHEMAS = {
    "accuracy": Schema(bounds={0: (0, 1)}, classes=[0, 1]),
    "auc": Schema(bounds={0: (0, 1)}, classes=[False, True]),
    "mae": Schema(bounds={0: (0, 1)}, target_bounds=(0, 1)),
}


def reaching(monkeypatch: pytest.MonkeyPatch, model: Any, X: Any, y: Any, metric: Any) -> list[tuple[Any, float]]:
    """What a score hands to its mechanisms, and the sensitivity they claim; answers do not depend on the values."""
    found: list[tuple[Any, float]] = []

    def release(self: Any, value: Any, rng: Any = None) -> Any:
        found.append((np.asarray(value), float(self.sensitivity.l1)))
        return np.random.default_rng(3).integers(9, size=np.shape(value))

    with monkeypatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("error")
        patch.setattr(DiscreteLaplaceMechanism, "release", release)
        private_score(model, X, y, metric=metric, epsilon=1.0)
    return found


@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
@pytest.mark.parametrize("metric", ["accuracy", "auc", "mae"])
def test_no_label_moves_a_score_by_more_than_its_sensitivity(
    monkeypatch: pytest.MonkeyPatch, metric: str, neighbours: str
) -> None:
    from dataclasses import replace

    schema = replace(SCHEMAS[metric], neighbours=neighbours)
    learner = ToyRegressor if metric == "mae" else ToyClassifier
    model = learner(schema=schema, delta=1e-5, random_state=1).fit(X, np.arange(N) % 2)
    rng = random.Random(5)
    cells = [case[0] for case in CELLS]
    for last in cells:
        others = rng.choices([0, 1, "1", 0.5, LARGE, last], k=N - 1)
        make = rng.choice([list, column_of])
        whole = reaching(monkeypatch, model, X, make([*others, last]), metric)
        if neighbours == "add_remove":
            other = reaching(monkeypatch, model, X[:-1], make(others), metric)
        else:
            other = reaching(monkeypatch, model, X, make([*others, rng.choice(cells)]), metric)
        assert [value.shape for value, _ in whole] == [value.shape for value, _ in other]
        for (a, claimed), (b, same) in zip(whole, other, strict=True):
            assert claimed == same and np.abs(a - b).sum() <= claimed


@pytest.mark.parametrize("name", [name for name in COLUMNS if len(COLUMNS[name][2]) == 3])
def test_a_score_takes_every_kind_of_column(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    y, classes, codes = COLUMNS[name]
    model = ToyClassifier(schema=Schema(bounds={0: (0, 1)}, classes=classes), delta=1e-5, random_state=1)
    model.fit(X, np.array(classes)[np.arange(N) % 2])
    ((counts, _),) = reaching(monkeypatch, model, X[:3], y, "accuracy")
    predicted = label_codes(model.predict(X[:3]), model.classes_.tolist())
    right = int(np.sum(predicted == codes))
    assert counts.tolist() == [right, 3 - right]


def test_rows_and_labels_must_be_as_many() -> None:
    model = ToyClassifier(schema=SCHEMAS["accuracy"], delta=1e-5).fit(X, np.arange(N) % 2)
    with pytest.raises(ValueError, match="one label for each row"):
        private_score(model, X, [0, 1])
    for wrong in (np.zeros((N, 2)), pd.DataFrame(np.zeros((N, 2))), pa.table({"a": [1] * N, "b": [1] * N})):
        with pytest.raises(ValueError, match="one column of labels"):
            private_score(model, X, wrong)
