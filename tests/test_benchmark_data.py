"""Tables of the benchmarks are parsed from the formats of their originals: small files in those formats."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks import data

FILES = {
    "adult.data": "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, "
    "2174, 0, 40, United-States, <=50K\n\n",
    "adult.test": "|1x3 Cross validator\n25, ?, 226802, 11th, 7, Never-married, ?, Own-child, Black, Male, 0, 0, 40, "
    "United-States, >50K.\n",
    "a9a": "-1 3:1 11:1 123:1 \n",
    "a9a.t": "+1 1:1 2:1\n",
    "bank-full.csv": '"age";"job";"balance";"y"\n58;"management";2143;"no"\n44;"unknown";29;"yes"\n',
    "credit-card-clients.csv": "X,X1,X2,Y\nID,LIMIT_BAL,SEX,EDUCATION,MARRIAGE,default payment next month\n"
    "1,20000,2,2,1,1\n2,120000,2,2,2,0\n",
    "cs-training.csv": ",SeriousDlqin2yrs,age,MonthlyIncome\n1,1,45,9120\n2,0,40,\n",
    "abalone.data": "M,0.455,0.365,0.095,0.514,0.2245,0.101,0.15,15\n",
    "powerplant.csv": "AT,V,AP,RH,PE\n14.96,41.76,1024.07,73.17,463.26\n",
    "pendigits.tra": " 47,100, 27, 81, 57, 37, 26,  0,  0, 23, 56, 53,100, 90, 40, 98, 8\n",
    "pendigits.tes": "  0, 89, 27,100, 42, 75, 29, 45, 15, 15, 37,  0, 69,  2,100,  6, 2\n",
    "cadata.txt": "text\n" * 27 + "  4.526000e+05  8.325200e+00  4.1e+01  8.8e+02  1.29e+02  3.22e+02  1.26e+02  "
    "3.788e+01 -1.2223e+02\n",
}
EXPECTED = {
    "adult": ([39, 25], [0, 1]),
    "a9a": ([0, 1], [0, 1]),
    "bank": ([58, 44], [0, 1]),
    "credit2": ([20000, 120000], [1, 0]),
    "credit1": ([45, 40], [1, 0]),
    "abalone": (["M"], [15.0]),
    "powerplant": ([14.96], [463.26]),
    "pendigits": ([47, 0], [8, 2]),
    "california": ([-122.23], [452600.0]),
}


@pytest.fixture
def originals(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize("name", EXPECTED)
def test_an_original_becomes_a_table(name: str, originals: Path) -> None:
    frame = data.typed(data.TABLES[name](originals))
    first, target = EXPECTED[name]
    column = frame[frame.columns[0]]
    assert column.tolist() == first if column.dtype.kind != "f" else np.allclose(column, first)
    assert frame.columns[-1] == "target" and np.allclose(frame["target"], target)
    assert all(dtype in ("int32", "float32", "object", "str") for dtype in map(str, frame.dtypes))


def test_what_is_missing_is_said_and_other_values_are_noticed(
    originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data.rebuild(originals, tmp_path / "out")
    said = capsys.readouterr().out
    assert "covtype_100k: no covtype.data" in said and "bank: 2 rows, OTHER VALUES" in said
    assert not data.check(tmp_path / "out")


def test_a_digest_is_of_values_not_of_types() -> None:
    one = pd.DataFrame({"a": np.array([1, 2], dtype=np.int32), "b": ["x", "y"]})
    assert data.digest(one) == data.digest(one.astype({"a": np.float32}))
    assert data.digest(one) != data.digest(one.assign(a=[1, 3])) != data.digest(one.rename(columns={"a": "c"}))
