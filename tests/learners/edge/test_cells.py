"""The quick ways of reading cells give what the definition gives, one cell at a time."""

from __future__ import annotations

import csv
import io
import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from records import OBJECTS

from ledgerwood.errors import FormatError, ParameterError
from ledgerwood.learners.data.cells import (
    category_codes,
    number,
    numbers,
    numbers_of_text,
    scalar,
    scalars,
    scalars_of_text,
    texts_of,
)
from ledgerwood.learners.data.csv_text import Block, Fields, blocks, header, plain_columns
from ledgerwood.learners.data.files import open_files, read_training
from ledgerwood.learners.data.frames import raw_columns
from ledgerwood.learners.data.schema import Schema
from ledgerwood.learners.data.table import read_table

NUMBERS = st.one_of(
    st.floats().map(repr),
    st.integers(-(10**20), 10**20).map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=3).map(str),
    st.text("0123456789.+-eE naif_xtrue", max_size=12),
    st.text(max_size=4),
    st.from_regex(r"[+-]?[0-9]{0,25}\.?[0-9]{0,25}([eE][+-]?[0-9]{1,3})?", fullmatch=True),
)


def fields(texts: list[bytes]) -> Fields:
    """Texts as a block of one column, quoted where they must be."""
    lines = [b'"' + text.replace(b'"', b'""') + b'"' for text in texts]
    data = np.frombuffer(b"\n".join(lines) + b"\n", dtype=np.uint8)
    return Fields(Block(0, data, len(texts)), 1)


@given(st.lists(NUMBERS, min_size=1, max_size=8))
@example(["9007199254740993", "9007199254740992", "0.1", "123456789012345678", "5e-324", "1" + "0" * 30, ".", "-.", ""])
@example(["nan(1)", "infinity", "+INF", "TRUE", "1e400", "-0", "0x10", "١", "1d5", " 1", "00000000000000000000001"])
@settings(max_examples=400)
def test_numbers_written_as_text_are_the_nearest_floats(texts: list[str]) -> None:
    expected = np.array([number(text) for text in texts])
    np.testing.assert_array_equal(numbers_of_text(pa.chunked_array([texts])), expected)
    raw = [text.encode("utf-8") for text in texts]
    np.testing.assert_array_equal(fields(raw).numbers(0), expected)
    if not any(set(text) & set('",\r\n') for text in texts) and all(texts):
        bare = np.frombuffer(b"\n".join(raw) + b"\n", dtype=np.uint8)
        np.testing.assert_array_equal(Fields(Block(0, bare, len(raw)), 1).numbers(0), expected)
    assert math.copysign(1, numbers(["-0"])[0]) == math.copysign(1, float(number("-0")))


def test_a_long_cell_that_is_almost_a_number_is_read_at_all() -> None:
    """A pattern that matches digits in two ways tries all of them: it would not end within a day."""
    for text in ("1" * 10**6 + "x", "." + "1" * 10**6 + "x", "1e" + "1" * 10**6 + "x", "+" * 10**6):
        assert math.isnan(number(text))


@given(st.lists(st.binary(max_size=6) | st.text(max_size=4).map(lambda t: t.encode("utf-8", "ignore")), min_size=1))
def test_texts_of_arrow_are_read_one_by_one(cells: list[bytes]) -> None:
    binary = pa.array(cells, pa.large_binary())
    column = pa.chunked_array([pa.Array.from_buffers(pa.large_string(), len(cells), binary.buffers())])
    assert scalars_of_text(column).tolist() == [scalar(cell) for cell in cells]
    assert scalars(texts_of(column)).tolist() == [scalar(cell) for cell in cells]
    np.testing.assert_array_equal(numbers_of_text(column), [number(cell) for cell in cells])


@pytest.mark.parametrize(
    "categories", [[0, 1, 2**60 + 1], [0.5, 1], [False, True], ["0", "1", "red"], list(range(20)), ["a", "b"], [-0.0]]
)
def test_a_code_does_not_depend_on_how_a_cell_is_stored(categories: list[Any]) -> None:
    cells = [0, 1, 2, 0.5, 2**60 + 1, 2**60, -1, 19]
    one_by_one = [int(category_codes(scalars([cell]), categories)[0]) for cell in cells]
    assert category_codes(scalars(cells), categories).tolist() == one_by_one
    for dtype in (np.int64, np.float64, np.float32, np.uint8, np.longdouble):
        typed = np.array([c for c in cells if 0 <= c < 200 and (c == int(c) or dtype is not np.int64)]).astype(dtype)
        expected = [int(category_codes(scalars([cell]), categories)[0]) for cell in typed.tolist()]
        assert category_codes(typed, categories).tolist() == expected
    large = np.array([2**60 + 1, 2**60], dtype=np.int64)
    assert category_codes(large, categories).tolist() == [
        int(category_codes(scalars([cell]), categories)[0]) for cell in large.tolist()
    ]


@pytest.mark.parametrize("cell", OBJECTS, ids=lambda cell: type(cell).__name__)
@pytest.mark.filterwarnings("error")
def test_no_object_raises_and_each_is_read_alike_alone_and_among_others(cell: Any) -> None:
    alone = raw_columns([[cell]])[0]
    among = raw_columns([[1], [cell], ["x"]])[0]
    np.testing.assert_array_equal(alone.numbers(), among.numbers()[1:2])
    assert alone.values().tolist() == among.values().tolist()[1:2]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble, np.int64, np.uint8, bool])
def test_a_masked_cell_changes_no_other(dtype: type) -> None:
    """Beside a missing cell all others are read as doubles; half floats had rounded the bounds."""
    cells = np.ma.masked_array(np.arange(10).astype(dtype)[:, None], mask=False)
    more = np.ma.masked_array([*cells.data, [1]], mask=[[False]] * 10 + [[True]])
    for bounds in ((0, 0.1), (0.1, 5.3), (-1e6, 1e6)):
        alone, among = (read_table(X, Schema(bounds={0: bounds})).values[0] for X in (cells, more))
        assert among[:-1].tolist() == alone.tolist() and np.isnan(among[-1])


# ---- CSV

BYTES = st.lists(st.sampled_from([b"a", b"b", b",", b",", b'"', b'"', b"\n", b"\r", b" ", b"\0", b"\xff"]), max_size=40)


@given(BYTES.map(b"".join), st.sampled_from([1, 2, 5, 1 << 19]))
@settings(max_examples=400)
def test_records_and_fields_are_those_of_the_standard_library(tmp_path_factory: Any, content: bytes, size: int) -> None:
    path = tmp_path_factory.getbasetemp() / "random.csv"
    path.write_bytes(content)
    found = []
    for block in blocks(path, 0, size=size):
        texts = [texts_of(pa.chunked_array([Fields(block, 3).texts(j)])).tolist() for j in range(3)]
        found += list(zip(*texts, strict=True))
        plain = plain_columns(block, list("abc"), list("abc"), ())
        assert plain is None or [texts_of(plain[name]).tolist() for name in "abc"] == texts
    rows = [row for row in csv.reader(io.StringIO(content.decode("latin-1"), newline="")) if row]
    expected = [tuple((row + [""] * 3)[:3]) for row in rows]
    assert [tuple(_latin(cell) for cell in row) for row in found] == expected


CELLS = NUMBERS.map(str.encode) | st.sampled_from(
    [
        b"",
        b" ",
        b"\t",
        b" 1 ",
        b"1\t",
        b"nan",
        b"NaN",
        b"-inf",
        b"NULL",
        b"NA",
        b"true",
        b"x\0",
        b"\xff",
        b"#N/A",
        b"\x0b1",
        b"1\xa0",
        b"\xef\xbb\xbf",
        b"\xef\xbb\xbf1",
    ]
)


@given(
    st.integers(1, 3).flatmap(lambda d: st.lists(st.lists(CELLS, min_size=d, max_size=d), min_size=1, max_size=6)),
    st.sampled_from([b"\n", b"\r\n", b"\r", b"\n\n"]),
    st.booleans(),
)
@example([[b"\xef\xbb\xbf1", b"2"], [b"3", b"4"]], b"\n", True)
@settings(max_examples=400)
def test_blocks_without_quotes_are_read_by_arrow_as_by_us(records: list[list[bytes]], end: bytes, last: bool) -> None:
    content = end.join(b",".join(record) for record in records) + end * last
    names = ["a", "b", "c"][: len(records[0])]
    for block in _blocks_of(content):
        fields = Fields(block, len(names))
        for floats in (set(names), set(), {"b"}):
            found = plain_columns(block, names, names[::-1], floats)
            if found is None:
                continue
            assert found.column_names == names[::-1]
            for i, name in enumerate(names):
                if name in floats:
                    np.testing.assert_array_equal(found[name].to_numpy(), fields.numbers(i))
                else:
                    expected = texts_of(pa.chunked_array([fields.texts(i)])).tolist()
                    assert texts_of(found[name]).tolist() == expected


def _blocks_of(content: bytes) -> list[Block]:
    with tempfile.NamedTemporaryFile(suffix=".csv") as file:
        file.write(content)
        file.flush()
        return list(blocks(file.name, 0))


def test_arrow_reads_what_most_files_hold() -> None:
    [block] = _blocks_of(b"1,red\n2.5,\n,blue\n")
    found = plain_columns(block, ["x", "c"], ["c", "x"], {"x"})
    assert found is not None and found["c"].to_pylist() == ["red", None, "blue"]
    np.testing.assert_array_equal(found["x"].to_numpy(), [1, 2.5, np.nan])
    [quoted] = _blocks_of(b'1,"red"\n')
    assert plain_columns(quoted, ["x", "c"], ["x"], {"x"}) is None
    [ragged] = _blocks_of(b"1,red\n2\n")
    assert plain_columns(ragged, ["x", "c"], ["x"], {"x"}) is None


def _latin(cell: str | bytes | None) -> str:
    return "" if cell is None else cell.decode("latin-1") if isinstance(cell, bytes) else cell


@pytest.mark.parametrize("content", [b"", b"\n\n", b"a,,c\n1,2,3\n", b"a,a\n1,2\n", b"\xff,b\n1,2\n"])
def test_a_header_must_name_the_columns(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(FormatError, match="must name its columns"):
        open_files(tmp_path / "a.csv")


def test_a_header_may_be_quoted_marked_and_after_empty_lines(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b'\xef\xbb\xbf\r\n\n"a, b","two\nlines",c\r\n1,2,3')
    names, start = header(tmp_path / "a.csv")
    assert names == ["a, b", "two\nlines", "c"]
    assert [block.records for block in blocks(tmp_path / "a.csv", start)] == [1]


def test_a_folder_is_one_table_of_one_format(tmp_path: Path) -> None:
    for i in range(3):
        (tmp_path / f"{i}.csv").write_text("x,y\n" + "".join(f"{j},no\n" for j in range(i, i + 2)))
    (tmp_path / "_temporary").mkdir()
    (tmp_path / "_temporary" / "9.csv").write_text("x,y\n9,no\n")
    schema = Schema(bounds={"x": (0, 5)}, classes=["no"])
    told: list[tuple[int, int]] = []
    X, y = read_training(open_files(tmp_path), "y", schema, progress=lambda done, total: told.append((done, total)))
    assert X["x"].to_pylist() == [0, 1, 1, 2, 2, 3] and y.to_pylist() == ["no"] * 6
    assert told[-1][0] == told[-1][1] == sum(path.stat().st_size for path in tmp_path.glob("*.csv"))
    with pytest.raises(ParameterError, match="say what every column of a CSV file holds"):
        read_training(open_files(tmp_path), "y", Schema(classes=["no"]))
    (tmp_path / "3.csv").write_text("x,z\n1,2\n")
    with pytest.raises(FormatError, match="other columns or types"):
        open_files(tmp_path)
    (tmp_path / "3.csv").rename(tmp_path / "3.parquet")
    with pytest.raises(FormatError, match="several formats"):
        open_files(tmp_path)


def test_a_file_that_becomes_shorter_ends_the_reading(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"1,2\n" * (1 << 20))
    reading = blocks(path, 0, size=1 << 20)
    assert next(reading).records == 1 << 18
    path.write_bytes(b"1,2\n" * (3 << 17) + b"1,")
    assert [block.records for block in reading] == [(1 << 17) + 1]
