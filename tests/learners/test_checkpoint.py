"""A fit that is killed and resumed: the same model, the same spend, one release for each of its plan."""

from __future__ import annotations

import base64
import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import ledgerwood
from ledgerwood.accounting import Ledger
from ledgerwood.errors import EngineLost, FormatError, ParameterError, ReleaseRefused
from ledgerwood.learners import (
    BoostedAdaSSPClassifier,
    BoostedAdaSSPRegressor,
    PrivateBoostingClassifier,
    PrivateBoostingRegressor,
    PrivateClassifier,
    PrivateRegressor,
    Schema,
    load,
)
from ledgerwood.learners.engines import Partitions
from ledgerwood.learners.engines.out_of_core import OutOfCoreEngine
from ledgerwood.learners.training.checkpoint import digest_of
from ledgerwood.learners.trees.partitioned import ReplayingAggregator
from ledgerwood.mechanisms import keyed_randomness

pytestmark = pytest.mark.filterwarnings("ignore::ledgerwood.errors.LedgerwoodWarning")
COLUMNS = ["a", "b", "c"]


def frame(n: int = 300, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    data = pd.DataFrame({"a": rng.uniform(size=n), "b": rng.uniform(size=n), "c": rng.choice(["x", "y", "z"], n)})
    return data.assign(y=(data["a"] > 0.4).astype(int))


SCHEMA = Schema(bounds={"a": (0, 1), "b": (0, 1)}, categories={"c": ["x", "y", "z"]}, classes=[0, 1])


def model(recipe: str = "xgb", **options: Any) -> PrivateBoostingClassifier:
    sizes = {"n_trees": 4, "max_depth": 2, "n_bins": 8, "epsilon": 2.0, "delta": 1e-5, "schema": SCHEMA, **options}
    return PrivateBoostingClassifier(recipe=recipe, **sizes)


class Killed(Exception):
    """What a callback raises to end a fit."""


def killing(at: int) -> Any:
    def callback(progress: Any) -> None:
        if progress.done == at:
            raise Killed

    return callback


def killed(estimator: Any, at: int, *given: Any, **options: Any) -> None:
    """Fit until the at-th release, then lose all but the disk."""
    with pytest.raises(Killed):
        estimator.set_params(callbacks=[killing(at)]).fit(*given, **options)
    assert not hasattr(estimator, "receipt_")
    estimator.set_params(callbacks=None)


def document(path: Path) -> Any:
    return json.loads((path / "model.json").read_text())


# ---- real processes, real signals


def drive(folder: Path, *arguments: object) -> dict[str, Any]:
    source = str(Path(ledgerwood.__file__).resolve().parents[1])
    environment = {**os.environ, "PYTHONPATH": source, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    driver = Path(__file__).parent / "checkpoint_driver.py"
    done = subprocess.run(
        [sys.executable, str(driver), str(folder), *map(str, arguments)],
        capture_output=True, text=True, env=environment, timeout=550, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def check_drive(found: dict[str, Any]) -> None:
    disturbed, undisturbed = found["disturbed"], found["undisturbed"]
    assert disturbed == undisturbed
    assert disturbed["releases"] == disturbed["names"] > 0
    assert disturbed["files"] == ["lock", "model.json", "run.json"]


@pytest.mark.parametrize("table", ["memory", "parts"])
def test_sigkill_at_any_write_changes_neither_model_nor_spend(tmp_path: Path, table: str) -> None:
    found = drive(tmp_path, "xgb", table, 1, 60)
    check_drive(found)
    assert found["deaths"] >= 8


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["xgb", "tr_ih_ebm_batched", "sarus", "pr", "feverless"])
@pytest.mark.parametrize("table", ["memory", "parts"])
@pytest.mark.parametrize("seed", [0, 1])
def test_sigkill_again_and_again(tmp_path: Path, recipe: str, table: str, seed: int) -> None:
    check_drive(drive(tmp_path, recipe, table, seed, 25))


# ---- in one process: every recipe and learner


RECIPES = [
    "xgb", "xgb_cyc", "xgb_ada", "tr", "tr_cyc", "tr_ada", "tr_ada_cyc", "dp_ebm", "dp_ebm_newton", "dp_rf",
    "feverless", "pr", "tr_ih_ebm", "tr_ih_ebm_batched", "sarus",
]  # fmt: skip


def resumed_equals_undisturbed(make: Any, given: tuple[Any, ...], folder: Path, total: int) -> None:
    run, copy = folder / "run", folder / "copy"
    killed(make(), 1, *given, checkpoint=run)
    shutil.copytree(run, copy)
    make().fit(*given, checkpoint=copy)
    for at in {total // 2, total - 1} - {0, 1}:
        killed(make(), at, *given, checkpoint=run)
    make().fit(*given, checkpoint=run)
    assert document(run) == document(copy)


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_resumes_to_the_same_model(recipe: str, tmp_path: Path) -> None:
    data = frame(200)
    given = data[COLUMNS], data["y"]
    planned = sum(run.times for run in model(recipe).plan(*given).runs())
    resumed_equals_undisturbed(lambda: model(recipe), given, tmp_path, planned)


def test_sampled_rows_undeclared_metadata_units_and_other_learners_resume_too(tmp_path: Path) -> None:
    data = frame()
    given = data[COLUMNS], data["y"]
    resumed_equals_undisturbed(lambda: model("tr", rows=0.5), given, tmp_path / "sampled", 4)
    loose = Schema(classes=[0, 1])
    resumed_equals_undisturbed(lambda: model("tr", schema=loose, epsilon=8.0), given, tmp_path / "undeclared", 6)
    owned = data[COLUMNS].assign(who=np.arange(len(data)) // 3)
    units = Schema(
        bounds={"a": (0, 1), "b": (0, 1)}, categories={"c": ["x", "y", "z"]}, classes=[0, 1], unit="who",
        max_rows_per_unit=2,
    )  # fmt: skip
    resumed_equals_undisturbed(lambda: model("tr", schema=units), (owned, data["y"]), tmp_path / "units", 4)
    common: dict[str, Any] = {"epsilon": 4.0, "delta": 1e-5, "schema": SCHEMA}
    linear = BoostedAdaSSPClassifier(**common)
    planned = sum(run.times for run in linear.plan(*given).runs())
    resumed_equals_undisturbed(lambda: BoostedAdaSSPClassifier(**common), given, tmp_path / "linear", planned)
    resumed_equals_undisturbed(lambda: PrivateClassifier(**common), given, tmp_path / "front", 4)
    # Rounds that need no pass use X'X and X'y of the first ones, which a resumed run must not take for zero.
    wide: dict[str, Any] = {"epsilon": 4.0, "delta": 1e-5, "n_rounds": 6, "gradient_clip": 4.0}
    whole = Schema(bounds={"a": (0, 1), "b": (0, 1)}, categories={"c": ["x", "y", "z"]}, target_bounds=(0, 1))
    resumed_equals_undisturbed(
        lambda: BoostedAdaSSPRegressor(**wide, schema=whole), given, tmp_path / "unclipped", 7
    )  # fmt: skip
    numbers = Schema(bounds={"a": (0, 1), "b": (0, 1)}, categories={"c": ["x", "y", "z"]}, target_bounds=(0, 1))
    options: dict[str, Any] = {"recipe": "tr", "n_trees": 4, "schema": numbers, "delta": 1e-5}
    resumed_equals_undisturbed(lambda: PrivateBoostingRegressor(**options), given, tmp_path / "numbers", 4)
    auto: dict[str, Any] = {"epsilon": 8.0, "delta": 1e-5, "schema": numbers}
    resumed_equals_undisturbed(lambda: PrivateRegressor(**auto), given, tmp_path / "auto", 6)


def test_finished_rounds_are_recalled_without_a_look_at_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = frame()
    given = data[COLUMNS], data["y"]
    killed(model("xgb"), 10, *given, checkpoint=tmp_path / "run")  # 3 releases a tree: in the fourth
    asked = []
    opened = ReplayingAggregator._opened

    def counting(self: ReplayingAggregator) -> Any:
        asked.append(1)
        return opened(self)

    monkeypatch.setattr(ReplayingAggregator, "_opened", counting)
    model("xgb").fit(*given, checkpoint=tmp_path / "run")
    assert len(asked) == 3


# ---- what is kept, charged and refused


def test_the_key_is_the_owners_alone_and_gone_when_the_fit_is_done(tmp_path: Path) -> None:
    data, run = frame(), tmp_path / "run"
    given = data[COLUMNS], data["y"]
    killed(model(), 2, *given, checkpoint=run)
    assert len((run / "key").read_bytes()) == 32
    for file in run.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(run.stat().st_mode) == 0o700
    fitted = model().fit(*given, checkpoint=run)
    assert sorted(file.name for file in run.iterdir()) == ["lock", "model.json", "run.json"]
    assert fitted.privacy_statement().private and "checkpoint" in str(fitted.privacy_statement())
    assert np.array_equal(load(run / "model.json").predict_proba(data[COLUMNS]), fitted.predict_proba(data[COLUMNS]))
    with pytest.raises(ParameterError, match="not finished"):
        model().fit(*given, checkpoint=run)


def test_without_a_checkpoint_no_key_is_written_and_a_lost_release_stays_spent(tmp_path: Path) -> None:
    data = frame()
    given = data[COLUMNS], data["y"]
    with Ledger.open(tmp_path / "budget.jsonl", 20.0, 1e-4) as ledger:
        killed(model(), 3, *given, ledger=ledger)
        once = ledger.spent().amount
        model().fit(*given, ledger=ledger)
        assert len(ledger.journal()) == 2 + 3 + 12  # each fit paid for its plan first
        assert ledger.spent().amount > once
    assert sorted(os.listdir(tmp_path)) == ["budget.jsonl", "budget.jsonl.anchor"]


def test_ledgers_are_charged_once(tmp_path: Path) -> None:
    data = frame()
    given = data[COLUMNS], data["y"]
    budget = tmp_path / "budget.jsonl"
    with Ledger.open(budget, 2.5, 1e-4) as ledger:  # pays for one fit, not for one and a half
        killed(model(), 9, *given, ledger=ledger, checkpoint=tmp_path / "run")
        with pytest.raises(ParameterError, match="not the same ledger"):
            model().fit(*given, checkpoint=tmp_path / "run")
        model().fit(*given, ledger=ledger, checkpoint=tmp_path / "run")
        assert len(ledger.journal()) == 1 + 12  # the plan is paid once, with its own name
    plan = model().plan(*given)
    with Ledger.open(tmp_path / "plan.jsonl", plan=plan) as ledger:
        killed(model(), 5, *given, ledger=ledger, checkpoint=tmp_path / "planned")
    with Ledger.open(tmp_path / "plan.jsonl") as ledger:
        model().fit(*given, ledger=ledger, checkpoint=tmp_path / "planned")
        assert len(ledger.journal()) == 12
        with pytest.raises(ParameterError, match="follow this fit's plan"):
            model().fit(*given, ledger=ledger, checkpoint=tmp_path / "other")


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("data", lambda d, o: d.loc.__setitem__((7, "a"), 0.123)),
        ("data", lambda d, o: d.loc.__setitem__((7, "c"), "x" if d.loc[7, "c"] != "x" else "y")),
        ("data", lambda d, o: d.loc.__setitem__((7, "y"), 1 - d.loc[7, "y"])),
        ("public facts, plan", lambda d, o: d.loc.__setitem__(len(d), d.loc[0])),
        ("parameters", lambda d, o: o.update(learning_rate=0.1)),
        ("parameters, public facts, plan", lambda d, o: o.update(epsilon=1.9)),
    ],
)
def test_another_table_or_plan_is_refused(what: str, change: Any, tmp_path: Path) -> None:
    data, options = frame(), {}
    killed(model(), 2, data[COLUMNS], data["y"], checkpoint=tmp_path / "run")
    change(data, options)
    with pytest.raises(ParameterError, match=f"not the same .*{what.split(',')[0]}"):
        model(**options).fit(data[COLUMNS], data["y"], checkpoint=tmp_path / "run")


def test_parts_are_known_again_and_changed_parts_are_refused(tmp_path: Path) -> None:
    data = frame()
    table = Partitions.of_frames([data.iloc[:100], data.iloc[100:]], target="y")
    killed(model(), 4, table, checkpoint=tmp_path / "run")
    changed = data.copy()
    changed.loc[250, "b"] = 0.5
    other = Partitions.of_frames([changed.iloc[:100], changed.iloc[100:]], target="y")
    with pytest.raises(ParameterError, match="not the same data"):
        model().fit(other, checkpoint=tmp_path / "run")
    model().fit(table, checkpoint=tmp_path / "run")


def results(folder: Path) -> list[Any]:
    """The released values on record, as they are in the file."""
    records = [
        json.loads(line.partition(" ")[2] or line) for line in (folder / "results.jsonl").read_text().splitlines()
    ]
    return [record["value"] for record in records if "value" in record]


def test_two_copies_of_a_checkpoint_with_one_record_changed_share_no_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attacker who gets past the digest of the data, and finishes two copies, gets two releases with two noises."""
    monkeypatch.setattr(PrivateBoostingClassifier, "_digest", lambda self, given, target, key: "always the same")
    data, run, copy = frame(), tmp_path / "run", tmp_path / "copy"
    other = data.assign(y=data["y"].where(data.index != 7, 1 - data["y"]))
    killed(model("tr"), 1, data[COLUMNS], data["y"], checkpoint=run)
    shutil.copytree(run, copy)
    budget = tmp_path / "budget.jsonl"
    for table, folder in ((data, run), (other, copy)):
        killed(model("tr"), 2, table[COLUMNS], table["y"], checkpoint=folder)
    (first, second), (third, fourth) = results(run), results(copy)
    assert first == third and second != fourth
    noisy = [np.frombuffer(base64.b64decode(value["$array"]), dtype=value["dtype"]) for value in (second, fourth)]
    assert (np.abs(noisy[0] - noisy[1]) > 4096).sum() > 2  # one record moves one leaf, by less than this
    with Ledger.open(budget, 2.5, 1e-4) as ledger:  # a ledger that pays for both notices the second value
        shared, twin = tmp_path / "shared", tmp_path / "twin"
        killed(model("tr"), 1, data[COLUMNS], data["y"], checkpoint=shared, ledger=ledger)
        shutil.copytree(shared, twin)
        killed(model("tr"), 3, data[COLUMNS], data["y"], checkpoint=shared, ledger=ledger)
        with pytest.raises(ReleaseRefused, match="another value"):
            model("tr").fit(other[COLUMNS], other["y"], checkpoint=twin, ledger=ledger)
        assert len(ledger.journal()) == 1 + 3 and len(results(twin)) == 1
        model("tr").fit(data[COLUMNS], data["y"], checkpoint=twin, ledger=ledger)  # the same data: the same releases
        assert len(ledger.journal()) == 1 + 4


def test_seals_know_a_mechanism_again_in_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No address of an object, nor anything fresh, may be part of a seal: a resumed run would not be known again."""
    seen: list[bytes] = []
    pieces = keyed_randomness._pieces

    def watched(value: Any) -> Any:
        for piece in pieces(value):
            seen.append(bytes(piece))
            yield piece

    monkeypatch.setattr(keyed_randomness, "_pieces", watched)
    monkeypatch.setattr(keyed_randomness, "fresh_key", lambda: pytest.fail("a part of a mechanism cannot be sealed"))
    data = frame(200)
    given = data[COLUMNS], data["y"]
    for number, recipe in enumerate(["xgb", "sarus", "feverless", "tr_ih_ebm", "pr"]):
        model(recipe, n_trees=1, rows=0.5).fit(*given, checkpoint=tmp_path / f"{number}")
    BoostedAdaSSPClassifier(epsilon=8.0, delta=1e-5, schema=Schema(classes=[0, 1])).fit(
        *given, checkpoint=tmp_path / "linear"
    )
    assert seen and not any(b" at 0x" in piece for piece in seen)


class Losing:
    """An engine that is lost at some question."""

    def __init__(self, at: int) -> None:
        self.at = at

    def digests(self, parts: Any, key: bytes) -> list[str]:
        return OutOfCoreEngine().digests(parts, key)

    def sums(self, records: Any) -> Any:
        inner = OutOfCoreEngine().sums(records)
        query, asked = inner.query, []

        def losing(*question: Any) -> Any:
            asked.append(1)
            if len(asked) > self.at:
                raise EngineLost("the scheduler is gone")
            return query(*question)

        inner.query = losing  # type: ignore[method-assign]
        return inner


def test_a_lost_engine_is_replaced_by_another(tmp_path: Path) -> None:
    data = frame()
    table = Partitions.of_frames([data.iloc[:100], data.iloc[100:]], target="y")
    with Ledger.open(tmp_path / "budget.jsonl", 2.5, 1e-4) as ledger:
        for engine in (Losing(5), Losing(0), Losing(4)):
            with pytest.raises(EngineLost):
                model(engine=engine).fit(table, ledger=ledger, checkpoint=tmp_path / "run")
        assert (
            len(ledger.journal()) == 1 + 5 + 0 + 2
        )  # the plan; two of four questions were about the round begun before
        model(engine="out_of_core").fit(table, ledger=ledger, checkpoint=tmp_path / "run")
        assert len(ledger.journal()) == 1 + 12


def test_a_seed_a_lost_key_and_a_second_process_are_refused(tmp_path: Path) -> None:
    data = frame()
    given = data[COLUMNS], data["y"]
    with pytest.raises(ParameterError, match="be None with a checkpoint"):
        model(random_state=1).fit(*given, checkpoint=tmp_path / "run")
    refusals = []

    def again(progress: Any) -> None:
        if progress.done == 2:
            with pytest.raises(ParameterError, match="no other process is using"):
                model().fit(*given, checkpoint=tmp_path / "run")
            refusals.append(progress.done)
            raise Killed

    with pytest.raises(Killed):
        model(callbacks=[again]).fit(*given, checkpoint=tmp_path / "run")
    assert refusals == [2]
    os.unlink(tmp_path / "run" / "key")
    with pytest.raises(ParameterError, match="have its key"):
        model().fit(*given, checkpoint=tmp_path / "run")


def test_a_place_that_others_can_write_to_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever owns the folder could have put a file there for the key to be written into."""
    data, run = frame(50), tmp_path / "run"
    given = data[COLUMNS], data["y"]
    run.mkdir()
    for mode in (0o777, 0o770):
        run.chmod(mode)
        with pytest.raises(ParameterError, match="nobody else can write to"):
            model().fit(*given, checkpoint=run)
    run.chmod(0o755)
    with monkeypatch.context() as patched:
        patched.setattr(os, "geteuid", lambda: run.stat().st_uid + 1)
        with pytest.raises(ParameterError, match="nobody else can write to"):
            model().fit(*given, checkpoint=run)
    assert not list(run.iterdir())
    (tmp_path / "file").touch()
    with pytest.raises(ParameterError, match="be a folder"):
        model().fit(*given, checkpoint=tmp_path / "file")


def test_files_of_somebody_else_stay_as_they_are(tmp_path: Path) -> None:
    data = frame(50)
    given = data[COLUMNS], data["y"]
    (tmp_path / "key").write_text("mine")
    (tmp_path / "model.json").write_text("mine")
    with pytest.raises(ParameterError, match="be a new or empty folder"):
        model().fit(*given, checkpoint=tmp_path)
    assert (tmp_path / "key").read_text() == (tmp_path / "model.json").read_text() == "mine"


@pytest.mark.parametrize("content", ["[]", "{}", '{"format":"ledgerwood.checkpoint","version":2}', "{", ""])
def test_a_run_that_cannot_be_read_is_refused(tmp_path: Path, content: str) -> None:
    data, run = frame(50), tmp_path / "run"
    given = data[COLUMNS], data["y"]
    killed(model(), 2, *given, checkpoint=run)
    (run / "run.json").write_text(content)
    with pytest.raises((ParameterError, FormatError)):
        model().fit(*given, checkpoint=run)
    assert len((run / "key").read_bytes()) == 32


def test_a_damaged_key_is_refused_and_lost_results_are_drawn_again(tmp_path: Path) -> None:
    data, run, copy = frame(50), tmp_path / "run", tmp_path / "copy"
    given = data[COLUMNS], data["y"]
    killed(model(), 5, *given, checkpoint=run)
    shutil.copytree(run, copy)
    key = (run / "key").read_bytes()
    for bad in (b"", key[:31], bytes(64)):
        (run / "key").write_bytes(bad)
        with pytest.raises(ParameterError, match="have its key"):
            model().fit(*given, checkpoint=run)
    (run / "key").write_bytes(bytes(32))
    with pytest.raises(ParameterError, match="not the same data"):
        model().fit(*given, checkpoint=run)
    (run / "key").write_bytes(key)
    for name in ("results.jsonl", "results.jsonl.anchor"):
        (run / name).unlink()
    model().fit(*given, checkpoint=run)
    model().fit(*given, checkpoint=copy)
    assert document(run) == document(copy)


def test_a_learner_that_has_no_file_format_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    class Own(PrivateBoostingClassifier):
        pass

    data = frame()
    with pytest.raises(ParameterError, match="be a learner of this library"):
        Own(schema=SCHEMA, delta=1e-5).fit(data[COLUMNS], data["y"], checkpoint=tmp_path / "run")
    assert not (tmp_path / "run" / "key").exists()


def test_the_digest_sees_every_cell_and_the_key() -> None:
    columns = [np.array([1.0, 2.0]), np.array(["a", "b"], dtype=object), np.array(["p", "q"]), None]
    base = digest_of(columns, bytes(32))
    assert base == digest_of([np.array([1.0, 2.0]), *columns[1:]], bytes(32))
    others = [
        digest_of(columns, bytes([1] * 32)),
        digest_of([np.array([1.0, 2.5]), *columns[1:]], bytes(32)),
        digest_of([columns[0], np.array(["a", "c"], dtype=object), *columns[2:]], bytes(32)),
        digest_of([*columns[:2], np.array(["p", "r"]), None], bytes(32)),
        digest_of([*columns[:3], np.array([1])], bytes(32)),
    ]
    assert len({base, *others}) == 6
