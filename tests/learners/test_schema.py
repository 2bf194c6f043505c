"""Schemas: validated, written and read, drafted; and a report that says what it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from ledgerwood.errors import FormatError, ParameterError
from ledgerwood.learners import Schema

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"bounds": {"a": (1, 1)}}, "bounds['a'] must be two finite numbers (low, high) with low < high"),
    ({"bounds": {"a": (0, float("inf"))}}, "within the range of float32"),
    ({"bounds": {"a": (0, 1e300)}}, "within the range of float32"),
    ({"bounds": {"a": 3}}, "be two finite numbers"),
    ({"bounds": [(0, 1)]}, "bounds must be a mapping from columns"),
    ({"bounds": {1.5: (0, 1)}}, "column must be a name or a column number"),
    ({"bounds": {"a": (0, 1)}, "categories": {"a": [1]}}, "bounds or categories, not both"),
    ({"categories": {"a": "abc"}}, "be distinct strings, numbers or booleans"),
    ({"categories": {"a": []}}, "be distinct strings"),
    ({"categories": {"a": [10**400]}}, "within the range of floats"),
    ({"categories": {"a": [1, 1]}}, "be distinct"),
    ({"categories": {"a": [float("nan")]}}, "be distinct strings"),
    ({"categories": {"a": [1, "b"]}}, "be all strings or all numbers"),
    ({"categories": {"a": range(255)}}, "be at most 254"),
    ({"classes": [None, 1]}, "classes must be distinct"),
    ({"classes": [0, 1], "target_bounds": (0, 1)}, "classes or target_bounds, not both"),
    ({"rows": 0}, "rows must be an integer that is at least 1"),
    ({"neighbours": "swap"}, "neighbours must be 'add_remove' or 'replace_one'"),
    ({"max_rows_per_unit": 2}, "max_rows_per_unit must be 1 without a unit"),
    ({"unit": "p", "max_rows_per_unit": 2.5}, "be an integer"),
    ({"unit": "p", "bounds": {"p": (0, 1)}}, "it is not a feature"),
    ({"unit": "p", "max_rows_per_unit": 2, "neighbours": "replace_one"}, "use neighbours='add_remove'"),
]


@pytest.mark.parametrize(("facts", "text"), WRONG)
def test_a_wrong_fact_is_named_with_its_rule(facts: dict[str, Any], text: str) -> None:
    with pytest.raises(ParameterError) as caught:
        Schema(**facts)
    assert text in str(caught.value)


def test_json_keeps_names_and_numbers_apart() -> None:
    schema = Schema(bounds={0: (0, 1), "0": (2, 3)}, classes=["a", "b"], rows=9, unit="p", sources={0: "a law"})
    assert Schema.from_json(schema.to_json()) == schema
    assert schema.source(0) == "a law" and schema.source("0") == "declared in the schema"


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", '{"format": "ledgerwood.schema"}', '{"format": "ledgerwood.schema", "version": 2}',
        '{"format": "ledgerwood.schema", "version": 1, "more": 1}',
        '{"format": "ledgerwood.schema", "version": 1, "bounds": {"a": [0, 1]}}',
        '{"format": "ledgerwood.schema", "version": 1, "bounds": [[[1], [0, 1]]]}',
        "[" * 100_000,
    ],
)  # fmt: skip
def test_hostile_json_is_a_format_error(text: str) -> None:
    with pytest.raises(FormatError):
        Schema.from_json(text)


def test_a_draft_of_a_public_table_says_so() -> None:
    public = pd.DataFrame({"age": [20, 60], "sex": ["f", "m"], "label": ["no", "yes"], "constant": [3.0, 3.0]})
    schema = Schema.draft(public, target="label")
    assert schema.bounds == {"age": (20.0, 60.0), "constant": (1.5, 4.5)}
    assert schema.categories == {"sex": ("f", "m")} and schema.classes == ("no", "yes")
    assert schema.source("age") == "drafted from a public table"


def test_templates_of_types() -> None:
    kinds = pd.DataFrame({"a": pd.Categorical(["x"], ["x", "y"]), "b": np.zeros(1, np.uint8), "c": [1.5]}).dtypes
    schema = Schema.from_template(kinds)
    assert schema.categories == {"a": ("x", "y")} and schema.bounds == {"b": (0.0, 255.0)}
    enums = Schema.from_template(pl.Schema({"a": pl.Enum(["x", "y"]), "b": pl.Boolean}))
    assert enums.categories == {"a": ("x", "y")} and enums.bounds == {"b": (0.0, 1.0)}


def test_the_report_to_the_data_holder_says_that_it_is_outside_the_guarantee() -> None:
    schema = Schema(bounds={"age": (0, 50)}, categories={"sex": ["f"]}, classes=[0, 1])
    report = str(schema.check(pd.DataFrame({"age": [1.0, 60.0, np.nan], "sex": ["f", "x", "f"]}), [0, 1, 7]))
    assert report.startswith("OUTSIDE THE PRIVACY GUARANTEE")
    for line in (
        "'age': 1 of 3 values out of bounds",
        "'age': 1 of 3 values missing",
        "'sex': 1 of 3",
        "labels: 1 of 3",
    ):
        assert line in report
