"""``ledgerwood plan`` shows what ``ledgerwood train`` spends: releases, noise and order, for every kind of model."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from terminal import here

from ledgerwood.accounting import Gaussian, Ledger, Plan
from ledgerwood.learners import Schema

ROWS = 1200
NUMBERS = ["a", "b", "c", "d", "e", "f"]


def _table(folder: Path, target: str, *, categories: bool = False) -> None:
    rng = np.random.default_rng(1)
    table = pd.DataFrame(rng.uniform(size=(ROWS, len(NUMBERS))), columns=NUMBERS)
    score = table["a"] + table["b"]
    if categories:
        table["colour"] = rng.choice(["red", "green"], ROWS)
    targets = {"two": (score > 1).astype(int), "four": (score * 2).astype(int).clip(0, 3), "number": score}
    table["y"] = targets[target]
    table.to_csv(folder / "t.csv", index=False)


def _schema(folder: Path, target: str, *, categories: bool = False, **more: Any) -> None:
    facts: dict[str, Any] = {"two": {"classes": [0, 1]}, "four": {"classes": [0, 1, 2, 3]}}.get(
        target, {"target_bounds": (0, 2)}
    )
    if categories:
        facts["categories"] = {"colour": ["red", "green"]}
    (folder / "s.json").write_text(
        Schema(**{"bounds": dict.fromkeys(NUMBERS, (0, 1)), "rows": ROWS, **facts, **more}).to_json()
    )


def _spent(folder: Path) -> list[tuple[str, int, Any]]:
    """The journal's releases in the order of their first time: label, how often, cost."""
    with Ledger.open(folder / "j.jsonl") as ledger:
        counts = Counter((entry.label, entry.cost) for entry in ledger.journal())
    return [(label, times, cost) for (label, cost), times in counts.items()]


SMALL = ["--trees", "3", "--depth", "2"]
CASES = [
    # what is trained, target, categories, words of both commands, words of plan alone
    ("boosted AdaSSP, then boosted random grids", "two", False, ["-e", "2"], []),
    ("boosted random grids", "two", True, ["-e", "2"], ["--categories", "1"]),
    ("boosted AdaSSP, a linear model", "two", False, ["-e", "0.05"], []),
    ("boosted AdaSSP, then boosted random grids", "number", False, ["-e", "1"], ["--task", "regression"]),
    ("boosted random grids", "four", False, ["-e", "1"], ["--classes", "4"]),
    ("boosted AdaSSP", "two", False, ["--recipe", "linear"], []),
    ("auto: 9 trees of depth 3", "two", False, ["--trees", "9"], []),
    ("xgb: 3 trees of depth 2", "two", True, ["--recipe", "xgb", *SMALL], ["--categories", "1"]),
    ("sarus: 3 trees of depth 2", "two", False, ["--recipe", "sarus", *SMALL], []),
    ("tr_ada: 3 trees of depth 2", "number", False, ["--recipe", "tr_ada", *SMALL], ["--task", "regression"]),
]  # fmt: skip


@pytest.mark.parametrize(("model", "target", "categories", "both", "alone"), CASES)
def test_the_plan_is_the_ledger_of_the_training(
    model: str, target: str, categories: bool, both: list[str], alone: list[str], tmp_path: Path
) -> None:
    _table(tmp_path, target, categories=categories)
    _schema(tmp_path, target, categories=categories)
    size = ["--rows", str(ROWS), "--features", str(len(NUMBERS) + categories)]
    planned = json.loads(here("plan", *size, *both, *alone, "--save", "p.json", "--json", cwd=tmp_path))
    plan = Plan.from_json((tmp_path / "p.json").read_text())
    by_schema = json.loads(here("plan", "--schema", "s.json", "--rows", str(ROWS), *both, "--json", cwd=tmp_path))
    assert by_schema == planned
    assert planned["model"].startswith(model)
    files = ["--schema", "s.json", "--model", "m.json", "--journal", "j.jsonl"]
    trained = json.loads(here("train", "t.csv", "--target", "y", *files, *both, "--json", cwd=tmp_path))
    assert trained["releases"] == planned["releases"]
    spent = _spent(tmp_path)
    assert [(label, times) for label, times, _ in spent] == [(r["label"], r["times"]) for r in planned["releases"]]
    for label, _, cost in spent:
        stated = plan[label].priced(plan.neighbours)
        if isinstance(cost, Gaussian):  # a linear model states its noise in units of its own sums
            assert isinstance(stated, Gaussian) and cost.ratio == pytest.approx(stated.ratio, rel=1e-9)
        else:
            assert cost == stated
    assert trained["statement"]["epsilon"] == planned["facts"]["epsilon"]


def test_what_is_not_declared_and_who_has_several_rows(tmp_path: Path) -> None:
    _table(tmp_path, "number")
    table = pd.read_csv(tmp_path / "t.csv")
    table["person"] = np.arange(ROWS) // 2
    table.to_csv(tmp_path / "t.csv", index=False)
    some = dict.fromkeys(NUMBERS[:4], (0, 1))
    schema = Schema(bounds=some, kinds=dict.fromkeys(NUMBERS[4:], "number"), unit="person", max_rows_per_unit=2)
    (tmp_path / "s.json").write_text(schema.to_json())
    words = ["--rows", str(ROWS), "--task", "regression"]
    by_flags = here("plan", *words, "--features", "6", "--learned", "3", "--unit-rows", "2", "--json", cwd=tmp_path)
    planned = json.loads(by_flags)
    assert json.loads(here("plan", *words, "--schema", "s.json", "--features", "6", "--json", cwd=tmp_path)) == planned
    assert "one person, of whom at most 2 rows are used, added or removed" in planned["statement"]
    files = ["--schema", "s.json", "--model", "m.json", *words]
    trained = json.loads(here("train", "t.csv", "--target", "y", *files, "--json", cwd=tmp_path))
    assert trained["releases"] == planned["releases"]
    assert planned["releases"][0]["label"] == "bounds"
    assert "at least 4, the columns of the schema" in here(
        "plan", "--schema", "s.json", "--features", "3", cwd=tmp_path, code=2
    )
