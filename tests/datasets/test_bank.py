"""The embedded data: whole, attributed, and within their public facts."""

from __future__ import annotations

import hashlib
import lzma
from importlib.resources import files

import pytest

from ledgerwood.datasets import load_bank
from ledgerwood.errors import ParameterError


def test_the_data_are_the_ones_that_were_committed() -> None:
    data = lzma.decompress(files("ledgerwood.datasets").joinpath("bank.csv.xz").read_bytes())
    assert hashlib.sha256(data).hexdigest() == "a78d2754fdc337f204cd36a15f46d611ec33211f4e8ef90ece3798221954daab"
    attribution = files("ledgerwood.datasets").joinpath("ATTRIBUTION.md").read_text()
    assert "CC BY 4.0" in attribution and "duration" in attribution


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_every_backend_gives_the_same_facts(backend: str) -> None:
    X, y, schema = load_bank(backend)
    assert type(X).__module__.split(".")[0] in (backend, "pyarrow") and X.shape == (45211, 15)
    assert "duration" not in (X.column_names if backend == "pyarrow" else X.columns)
    assert y.sum() == 5289 and not schema.check(X, y)


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(ParameterError, match="be one of pandas, polars, pyarrow"):
        load_bank("excel")
