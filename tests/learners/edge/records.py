"""Records of a small table, clean and hostile: ``x`` is a number, ``c`` and ``t`` categories, ``who`` an id."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

from ledgerwood.learners import Schema

COLUMNS = ("x", "c", "t", "who", "y")
N = 60
FACTS: dict[str, Any] = {"classes": ["no", "yes"], "unit": "who"}
DECLARED = Schema(bounds={"x": (0, 10)}, categories={"c": [1, 2, 3], "t": ["red", "green"]}, **FACTS)
LEARNED = Schema(kinds={"x": "number", "c": "number", "t": "category"}, **FACTS)
REGRESSION = Schema(
    bounds={"x": (0, 10)}, categories={"c": [1, 2, 3], "t": ["red", "green"]}, target_bounds=(0, 1), unit="who"
)


def clean(target: str = "class") -> list[tuple[Any, ...]]:
    """Records as Python values."""
    rng = np.random.default_rng(3)
    rows = []
    for i in range(N - 1):
        label: Any = ("no", "yes")[i % 2] if target == "class" else round(float(rng.random()), 3)
        x = round(float(rng.uniform(-1, 11)), 3)
        rows.append((x, int(rng.integers(1, 4)), ("red", "green")[int(rng.integers(2))], 2**60 + i, label))
    return rows


class Loud:
    """An object that raises whatever is asked of it."""

    def _raise(self, *_: Any) -> Any:
        raise RuntimeError("SECRET")

    __str__ = __repr__ = __hash__ = __eq__ = __float__ = __int__ = __bool__ = __index__ = __len__ = _raise  # type: ignore[assignment]
    __lt__ = __gt__ = __array__ = __iter__ = _raise  # type: ignore[assignment]


#: Cells of Python objects.
OBJECTS: list[Any] = [
    None, float("nan"), float("inf"), -0.0, 0.5, 1, True, 10**5000, -(10**400), 2**53 + 1, 2.0**60, "", "x", "1", "01",
    "1.0", " 1 ", "nan", "1e400", "yes", "red", "\ud800", "\0", b"\xff", b"yes", [1], (1, 2), {}, {"a": [1]}, 1j,
    Decimal("sNaN"), Decimal("1e999999999"), Fraction(1, 3), Fraction(10**400, 3),
    np.longdouble("1e4000"), np.int64(3), np.complex128(1), np.float16(1),
    np.datetime64("2020"), pd.NA, pd.NaT, pd.Timestamp(0), Loud(), np.array([1, 2]), np.ma.masked,
]  # fmt: skip

#: Bytes of a cell that no block of a reader holds, neither ours nor Arrow's.
LONG = 1_200_000

#: Cells of text, as bytes of a CSV file.
TEXTS = [
    b"", b"x", b"1", b"01", b"1.0", b" 1 ", b"+1e0", b"nan", b"inf", b"-1e999", b"1_0", b"0x1", b"true", b"yes", b"red",
    b"\xff\xfe", b"caf\xe9", b"\x00", b"\xef\xbb\xbf", b'"a ""quoted"" one"', b'"two\nlines"', b'"comma, inside"',
    b'"red"', b'"red"x', b'5" pipe', b"'", b"9" * 5000, b"7" * 100_000, str(2**60 + 7).encode(), b"0.1e1",
    b"2020-01-01", b"\xd9\xa1", b"NA", b"NULL", b"[1, 2]", b"=1+1", b"8" * LONG,
    b'"' + b"two\nlines" * (LONG // 9) + b'"',
]  # fmt: skip

#: Whole lines of a CSV file that are framed unlike the others.
LINES = [
    b"", b"   ", b"1", b"1,2", b"1,2,red,5,no,6,7,8", b",,,,", b",", b'"', b'1,"2,red,9,no', b'"1,2,red,9,no"', b"\x00",
    b",,,,,,,,,,,,,", b'1,2,"red,9,yes\n', b"a\rb", b"\xff" * 50, b"x" * LONG, b"1,2,red,9,no" + b"," * LONG,
]  # fmt: skip


def as_csv(rows: list[tuple[Any, ...]], lines: dict[int, bytes] | None = None) -> bytes:
    """Write records as a CSV file; ``lines`` stand before the records of these numbers."""
    found = [",".join(COLUMNS).encode()]
    for i, row in enumerate(rows):
        found += [lines[i]] if lines and i in lines else []
        found.append(b",".join(cell if isinstance(cell, bytes) else str(cell).encode() for cell in row))
    return b"\n".join(found + ([lines[len(rows)]] if lines and len(rows) in lines else [])) + b"\n"
