"""Nothing that leaves a fit tells tables apart that differ by one record: the number of rows is private too.

Every mechanism answers without looking at its value, so two fits have the same history, the count (:mod:`edge_kit`)
among it. All else that leaves must then be equal: model, plan, statement, report, receipt, journals,
progress, warnings, errors and files.
"""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from edge_kit import Observed, observe

from ledgerwood.accounting import Ledger
from ledgerwood.learners import (
    AdaSSPRegressor,
    BoostedAdaSSPClassifier,
    BoostedAdaSSPRegressor,
    PrivateBoostingClassifier,
    PrivateBoostingRegressor,
    PrivateClassifier,
    PrivateRegressor,
    PrivateSearch,
    Schema,
    private_score,
)
from ledgerwood.learners.engines import Partitions
from ledgerwood.learners.training.session import ReleaseSession
from ledgerwood.learners.trees.recipes import recipes
from ledgerwood.mechanisms import DiscreteLaplaceMechanism

ROWS = (641, 642)
BOUNDS: dict[Any, Any] = {"a": (0, 1), "b": (0, 1)}
CLASSES, NUMBER = Schema(bounds=BOUNDS, classes=[0, 1]), Schema(bounds=BOUNDS, target_bounds=(0, 1))
SMALL: dict[str, Any] = {"n_trees": 2, "max_depth": 2}
LEARNERS: dict[str, Callable[..., Any]] = {
    "auto": lambda **more: PrivateClassifier(schema=CLASSES, **more),
    "auto, nothing declared": lambda **more: PrivateClassifier(**more),
    "auto, three classes": lambda **more: PrivateClassifier(schema=Schema(bounds=BOUNDS, classes=[0, 1, 2]), **more),
    "auto regression": lambda **more: PrivateRegressor(schema=NUMBER, **more),
    "auto trees": lambda **more: PrivateBoostingClassifier(schema=CLASSES, **more),
    "tree regression": lambda **more: PrivateBoostingRegressor(recipe="tr", schema=NUMBER, **SMALL, **more),
    "linear": lambda **more: BoostedAdaSSPClassifier(schema=CLASSES, **more),
    "linear regression": lambda **more: BoostedAdaSSPRegressor(schema=NUMBER, **more),
    "ridge": lambda **more: AdaSSPRegressor(schema=NUMBER, **more),
    "units": lambda **more: PrivateBoostingClassifier(
        recipe="tr", schema=Schema(bounds=BOUNDS, classes=[0, 1], unit="who", max_rows_per_unit=3), **SMALL, **more
    ),
}


def table(rows: int) -> tuple[Any, Any]:
    """Return a table of which that of fewer rows is the beginning: what differs is one record and nothing else."""
    a = np.arange(rows) % 7 / 7
    return pd.DataFrame({"a": a, "b": np.arange(rows) % 3 / 3}), (a > 0.5).astype(int)


def of_units(rows: int) -> tuple[Any, Any]:
    X, y = table(rows)
    return X.assign(who=np.arange(rows) // 5), y


@pytest.fixture
def blind(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let every release of a fit be its mechanism's answer to nothing; note the exact counts."""
    draw, sessions, counted = DiscreteLaplaceMechanism.release, ReleaseSession._released, []

    def of_nothing(value: Any) -> Any:
        if isinstance(value, list):  # counts of values, by column
            return [type(counts)({"red": 10**6, "blue": 10**6}) for counts in value]
        return np.zeros_like(value)

    def released(self: Any, mechanism: Any, value: Any, label: str, **more: Any) -> Any:
        return sessions(self, mechanism, value if label == "row count" else of_nothing(value), label, **more)

    def count(self: Any, value: Any, rng: Any = None) -> Any:
        if not np.ndim(value):
            counted.append(int(value))
        return draw(self, value, rng)

    monkeypatch.setattr(ReleaseSession, "_released", released)
    monkeypatch.setattr(DiscreteLaplaceMechanism, "release", count)
    return counted


def all_that_leaves(model: Any, folder: Path, *data: Any, **options: Any) -> Any:
    """Fit, charging a ledger, and return what leaves."""
    told: list[str] = []
    ledger = Ledger(50.0, 1e-2, reserved_delta=1e-3)
    if "callbacks" in model.get_params():
        model.set_params(callbacks=[lambda e: told.append(f"{e.label} {e.done}/{e.total} {e.trees} {e.spent}")])
    model.fit(*data, ledger=ledger, **options)
    found = getattr(model, "best_estimator_", model)
    if told:
        found.set_params(callbacks=None)  # a local function
    found.save(folder / "model.json")
    statement = model.privacy_statement()
    journal = [re.sub(r"(id|digest|seal)='[^']*'", "", repr(entry)) for entry in ledger.journal()]
    return (
        told, journal, str(statement), json.dumps(statement.to_dict(), sort_keys=True), found.plan_.to_json(),
        repr(found.receipt_), ledger.remaining(), sorted(vars(found)), len(pickle.dumps(vars(found))),
        str(getattr(found, "choice_", "")), (folder / "model.json").read_bytes(),
    )  # fmt: skip


def same_for_neighbours(run: Callable[[int], Observed], counted: list[int], *ended: str) -> None:
    first, second = (run(rows) for rows in ROWS)
    assert list(first.rest.pop("error", [])) == list(second.rest.pop("error", [])) == list(ended)
    for name in first.rest:
        one, other = first.rest[name], second.rest[name]
        assert one == other, name
    assert len(counted) == 2 and counted[1] - counted[0] in (0, 1)  # a unit may have more rows than are used


@pytest.mark.parametrize("name", LEARNERS)
def test_all_that_leaves_a_fit(name: str, blind: list[int], tmp_path: Path) -> None:
    def run(rows: int) -> Observed:
        X, y = (of_units if name == "units" else table)(rows)
        return observe(lambda: all_that_leaves(LEARNERS[name](epsilon=2.0, delta=1e-2), tmp_path, X, y))

    same_for_neighbours(run, blind)


@pytest.mark.parametrize("recipe", [row["recipe"] for row in recipes() if row["recipe"] != "auto"])
def test_all_that_leaves_a_recipe(recipe: str, blind: list[int], tmp_path: Path) -> None:
    def run(rows: int) -> Observed:
        model = PrivateBoostingClassifier(recipe=recipe, schema=CLASSES, epsilon=2.0, delta=1e-2, **SMALL)
        return observe(lambda: all_that_leaves(model, tmp_path, *table(rows)))

    same_for_neighbours(run, blind)


def frame(rows: int) -> pd.DataFrame:
    X, y = table(rows)
    return X.assign(y=y)


def dask_frame(rows: int) -> Any:
    from dask import dataframe
    from dask.delayed import delayed

    whole = frame(rows)
    return dataframe.from_delayed([delayed(whole[:300]), delayed(whole[300:])], meta=whole[:0], verify_meta=False)


@pytest.mark.parametrize("kind", ["frames", "dask", "csv", "parquet"])
def test_all_that_leaves_a_table_in_parts(kind: str, blind: list[int], tmp_path: Path) -> None:
    def run(rows: int) -> Observed:
        whole = frame(rows)
        given: tuple[Any, ...] = (tmp_path / f"t.{kind}", "y")
        if kind == "frames":
            given = (Partitions.of_frames([whole[:300], whole[300:]], target="y"),)
        elif kind == "dask":
            given = (dask_frame(rows), "y")
        elif kind == "csv":
            whole.to_csv(given[0], index=False)
        else:
            whole.to_parquet(given[0])
        model = BoostedAdaSSPClassifier(schema=CLASSES, epsilon=2.0, delta=1e-2)
        return observe(lambda: all_that_leaves(model, tmp_path, *given))

    same_for_neighbours(run, blind)


def test_all_that_leaves_a_search(blind: list[int], tmp_path: Path) -> None:
    def run(rows: int) -> Observed:
        search = PrivateSearch(AdaSSPRegressor(schema=NUMBER), {"fit_intercept": [True, False]}, epsilon=2.0, runs=2)
        search.set_params(random_state=3)  # the number of runs and the parts
        return observe(lambda: all_that_leaves(search, tmp_path, *table(rows)))

    same_for_neighbours(run, blind)


def test_all_that_leaves_the_command_line_and_its_report(blind: list[int], tmp_path: Path) -> None:
    from ledgerwood.app.cli.main import main

    (tmp_path / "schema.json").write_text(CLASSES.to_json(), encoding="utf-8")
    outputs = [tmp_path / "model.json", tmp_path / "report.html"]

    def run(rows: int) -> Observed:
        frame(rows).to_csv(tmp_path / "t.csv", index=False)
        words = ["train", str(tmp_path / "t.csv"), "--target", "y", "--schema", str(tmp_path / "schema.json")]
        words += ["--recipe", "linear", "--model", str(outputs[0]), "--report", str(outputs[1]), "--json"]
        return observe(lambda: main(words), outputs)

    same_for_neighbours(run, blind, "SystemExit: 0\n")
    assert "row count" in outputs[1].read_text(encoding="utf-8")


def test_all_that_a_finished_checkpoint_keeps(blind: list[int], tmp_path: Path) -> None:
    def run(rows: int) -> Observed:
        folder = tmp_path / str(rows)
        model = BoostedAdaSSPClassifier(schema=CLASSES, epsilon=2.0, delta=1e-6)

        def train() -> Any:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("ledgerwood.learners.training.estimator.source_for", lambda _: None)
                model.fit(*table(rows), checkpoint=folder)
            kept = {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}
            begun = json.loads(kept.pop("run.json"))
            begun.pop("data")  # a digest under a key that is gone
            return kept, begun, str(model.privacy_statement())

        return observe(train)

    same_for_neighbours(run, blind)


@pytest.mark.parametrize(
    "problem",
    ["labels", "ledger", "plan", "parameter", "planned ledger", "score", "no features", "blocks", "columns of blocks"],
)
def test_no_error_has_the_number_of_rows(problem: str, blind: list[int]) -> None:
    def run(rows: int) -> Any:
        X, y = table(rows)
        model = PrivateBoostingClassifier(recipe="tr", schema=CLASSES, epsilon=2.0, delta=1e-2, **SMALL)
        if problem == "labels":
            return model.fit(X, y[1:])
        if problem == "ledger":
            return model.fit(X, y, ledger=Ledger(0.5, 1e-2))
        if problem == "plan":
            return model.plan(X, y)
        if problem == "parameter":
            return model.set_params(max_depth=-1).fit(X, y)
        if problem == "planned ledger":
            declared = Schema(bounds=BOUNDS, classes=[0, 1], rows=600)
            return model.fit(X, y, ledger=Ledger(plan=PrivateBoostingClassifier(schema=declared, **SMALL).plan(X, y)))
        if problem == "no features":
            return model.set_params(schema=Schema(classes=[0, 1])).fit(np.zeros((rows, 0)), y)
        if problem in ("blocks", "columns of blocks"):
            arrays = pytest.importorskip("dask.array")
            labels = y[1:] if problem == "blocks" else y[:, None]
            return model.fit(arrays.from_array(np.zeros((rows, 2))), arrays.from_array(np.asarray(labels)))
        return private_score(model.fit(*table(400)), X, y[1:])

    first, second = (observe(lambda rows=rows: run(rows)).rest for rows in ROWS)
    assert "error" in first and first == second


@pytest.mark.parametrize("at", [1, 2])
def test_whether_a_frame_is_empty_changes_no_error(at: int) -> None:
    """The types of all frames are compared: a single record does not decide which part is named."""

    def run(rows: int) -> Any:
        frames = [pd.DataFrame({"x": np.zeros(n), "y": np.zeros(n)}) for n in (30, rows, 40)]
        frames[at] = frames[at].astype("int64")
        return Partitions.of_frames(frames, "y")

    first, second = (observe(lambda rows=rows: run(rows)).rest for rows in (0, 1))
    assert "error" in first and first == second
