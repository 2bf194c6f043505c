"""Requests for a plan, and lists of releases: what they say and what they refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ledgerwood.accounting import Gaussian, Plan, Release
from ledgerwood.app.cli.release_specs import read_releases
from ledgerwood.app.plan_request import PlanRequest
from ledgerwood.errors import FormatError


@pytest.mark.parametrize("unit_rows", [1, 3])
def test_the_statement_names_the_privacy_unit_and_no_other(unit_rows: int) -> None:
    request = PlanRequest(recipe="tr", trees=2, depth=2, unit_rows=unit_rows)
    said = request.statement(request.plan("rdp"))
    record, person = (
        "one record added or removed",
        f"one person, of whom at most {unit_rows} rows are used, added or removed",
    )
    assert (record in said, person in said) == (unit_rows == 1, unit_rows > 1)


def _plan() -> Plan:
    return Plan([Release("sum", Gaussian, times=5, share=1.0)]).calibrate(epsilon=1.0, delta=1e-6)


def test_a_saved_plan_is_read_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(_plan().to_json())
    found = read_releases([str(tmp_path / "plan.json")])
    assert found.plan() == _plan() and found.target == {"delta": 1e-6, "epsilon": 1.0}


@pytest.mark.parametrize("first", [True, False])
def test_a_plan_is_given_alone(tmp_path: Path, first: bool) -> None:
    (tmp_path / "plan.json").write_text(_plan().to_json())
    texts = [str(tmp_path / "plan.json"), "50 Gaussian sigma=45"]
    with pytest.raises(FormatError, match="is a whole plan: give it alone"):
        read_releases(texts if first else texts[::-1])


def test_lines_and_files_are_mixed_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "more.toml").write_text(
        'delta = 1e-6\nrelease = ["2 Laplace scale=10", {mechanism = "pure", epsilon = 0.1}]\n'
    )
    found = read_releases(["5 Gaussian sigma=45", str(tmp_path / "more.toml"), "Gaussian sigma=9"])
    assert [spec.label for spec in found.specs] == ["Gaussian", "Laplace", "PureDP", "Gaussian 2"]
    assert [spec.times for spec in found.specs] == [5, 2, 1, 1] and found.target == {"delta": 1e-6}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("sigma = 1\n", "unknown field 'sigma'"),
        ("delta = 0.1\n", "must be a list of releases"),
        ("release = []\n", "list of"),
    ],
)
def test_a_file_of_another_form_is_refused(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "bad.toml").write_text(content)
    with pytest.raises(FormatError, match=said):
        read_releases([str(tmp_path / "bad.toml")])


@pytest.mark.parametrize("fields", [{}, {"unit_rows": 3, "learned": 2}, {"neighbours": "replace_one", "categories": 1}])
def test_the_python_of_a_request_makes_its_plan(fields: dict[str, Any]) -> None:
    request = PlanRequest(recipe="tr", trees=2, depth=2, features=4, **fields)
    names: dict[str, Any] = {}
    exec(request.python().replace("print(plan.table())", ""), names)
    assert names["plan"] == request.plan()
