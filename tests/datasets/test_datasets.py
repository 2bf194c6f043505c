"""The embedded data: whole, attributed, and within their public facts."""

from __future__ import annotations

import hashlib
import lzma
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest

from ledgerwood.datasets import Dataset, load_adult, load_bank
from ledgerwood.datasets.__main__ import main
from ledgerwood.errors import ParameterError
from ledgerwood.learners import Schema

DIGESTS = {
    "bank.csv.xz": "a78d2754fdc337f204cd36a15f46d611ec33211f4e8ef90ece3798221954daab",
    "adult.csv.xz": "6f519c67ccd70e0c9d4f616b15d338aa6e44b336a20962f5010fb01bee0d12d4",
}


@pytest.mark.parametrize("name", DIGESTS)
def test_the_data_are_the_ones_that_were_committed(name: str) -> None:
    data = lzma.decompress(files("ledgerwood.datasets").joinpath(name).read_bytes())
    assert hashlib.sha256(data).hexdigest() == DIGESTS[name]
    attribution = files("ledgerwood.datasets").joinpath("ATTRIBUTION.md").read_text()
    assert f"`{name}` is" in attribution and attribution.count("CC BY 4.0") == len(DIGESTS)


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize(
    ("load", "shape", "positive"), [(load_bank, (45211, 15), 5289), (load_adult, (48842, 14), 11687)]
)
def test_every_backend_gives_the_same_metadata(
    backend: str, load: Callable[[str], Dataset], shape: tuple[int, int], positive: int
) -> None:
    X, y, schema = load(backend)
    assert type(X).__module__.split(".")[0] in (backend, "pyarrow") and X.shape == shape
    assert "duration" not in (X.column_names if backend == "pyarrow" else X.columns)
    assert y.sum() == positive and not schema.check(X, y)


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(ParameterError, match="be one of pandas, polars, pyarrow"):
        load_bank("excel")


def test_a_table_is_written_for_the_command_line_but_nothing_is_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pandas as pd

    monkeypatch.chdir(tmp_path)
    main(["bank"])
    table = pd.read_csv("bank.csv")
    assert table.shape == (45211, 16) and table["subscribed"].sum() == 5289
    schema = Schema.from_json((tmp_path / "schema.json").read_text())
    assert not schema.check(table.drop(columns="subscribed"), table["subscribed"])
    with pytest.raises(SystemExit):
        main(["bank"])
