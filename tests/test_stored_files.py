"""Files that older code wrote still load and still mean the same: models, plans, journals, checkpoints, audits.

The files are in ``tests/stored``, with what they must give in ``expected.json``. They are read through the public
packages only, so a change inside the library cannot hide behind a test that moved along.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import sys
import tomllib
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn

import ledgerwood
from ledgerwood.accounting import Cost, Ledger, Plan
from ledgerwood.errors import OffPlan, ParameterError
from ledgerwood.learners import PrivateBoostingClassifier, Schema, load
from ledgerwood.learners.federated import FederatedTask, Federation
from ledgerwood.learners.vertical import FeatureParty, OrderPreservingTransformer, VerticalModel, id_digest
from ledgerwood.mechanisms import GaussianMechanism, SeededSource
from ledgerwood.verification import AuditReport

pytestmark = pytest.mark.filterwarnings("ignore::ledgerwood.errors.LedgerwoodWarning")

STORED = Path(__file__).parent / "stored"
EXPECTED: dict[str, Any] = json.loads((STORED / "expected.json").read_text(encoding="utf-8"))
DELTAS, EPSILONS = (1e-6, 1e-3), (0.5, 2.0)


# ---- what a file gives, as plain values


def rounded(values: Any) -> Any:
    """Numbers to 12 digits after the point; labels as they are."""
    array = np.asarray(values)
    return np.round(array, 12).tolist() if array.dtype.kind == "f" else array.tolist()


def price(cost: Cost) -> dict[str, Any]:
    """What a cost is, and what it costs: epsilon at some deltas, delta at some epsilons."""
    return {
        "cost": repr(cost),
        "neighbours": str(cost.neighbours),
        "epsilon": [number(cost.epsilon(delta)) for delta in DELTAS],
        "delta": [number(cost.delta(epsilon)) for epsilon in EPSILONS],
    }


def number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def of_plan(plan: Plan) -> dict[str, Any]:
    """Return the releases of a plan with their noise, and the price of all if the noise is known."""
    releases = [[release.label, release.times, release.scale] for release in plan.releases()]
    found: dict[str, Any] = {"releases": releases, "epsilon": plan.epsilon, "delta": plan.delta}
    if plan.is_calibrated:
        found["price"] = number(plan.cost.epsilon(plan.delta or DELTAS[0]))
        found["runs"] = [[repr(run.cost), run.times] for run in plan.runs()]
    return found


def of_model(model: Any, X: Any) -> dict[str, Any]:
    """Return predictions, the statement's facts, the receipt in short, and the plan."""
    said = model.privacy_statement().to_dict()
    names = ("learner", "epsilon", "delta", "unit", "neighbours", "planned", "private", "stopped_early", "leaks")
    found = {
        "predict": rounded(model.predict(X)),
        "statement": {name: said[name] for name in names},
        "public": sorted(fact["name"] for fact in said["public"]),
        "learned": [[fact["name"], fact["value"]] for fact in said["learned"]],
        "searched": said["search"] is not None,
        "receipt": dict(Counter(line.label for line in model.receipt_)),
        "plan": of_plan(model.plan_),
    }
    for method in ("predict_proba", "decision_function"):
        if hasattr(model, method):
            found[method] = rounded(getattr(model, method)(X))
    return found


def of_ledger(ledger: Ledger) -> dict[str, Any]:
    """Return balances, the odometer, and every entry."""
    spent, left = ledger.spent(), ledger.remaining()
    return {
        "spent": [number(value) for value in (spent.amount, spent.limit, spent.epsilon, spent.fraction)],
        "remaining": [number(value) for value in (left.amount, left.limit, left.epsilon, left.fraction)],
        "odometer": [number(ledger.odometer()), number(ledger.odometer(1e-3))],
        "neighbours": str(ledger.neighbours),
        "id": ledger.id,
        "anchor": str(ledger.anchor),
        "entries": [
            [entry.kind, entry.label, None if entry.cost is None else repr(entry.cost), entry.private, entry.block,
             entry.part, entry.id]
            for entry in ledger.journal()
        ],
    }  # fmt: skip


def of_audit(report: AuditReport) -> dict[str, Any]:
    """Return what an audit found, and the counts behind it."""
    return {
        "verdict": report.verdict,
        "flagged": report.flagged,
        "claim": report.claim,
        "epsilon_lower": number(report.epsilon_lower),
        "epsilon_claimed": number(report.epsilon_claimed),
        "counts": [[c.quantity, c.event, number(c.bound), c.hits1, c.hits2, c.n] for c in report.certificates],
        "subject": None if report.subject is None else report.subject.digest,
    }


def table(name: str) -> pd.DataFrame:
    """One of the small tables that predictions are made for."""
    found: dict[str, Any] = EXPECTED["tables"][name]
    frame = pd.DataFrame(found)
    return frame.set_axis([int(c) if c.isdigit() else c for c in frame.columns], axis=1)


def same(found: Any, expected: Any, where: str = "") -> None:
    """Compare plain values; floats to a part in ten thousand million: machines round differently.

    Prices are upper bounds computed on a grid, which a later accountant chooses differently.
    """
    if isinstance(expected, dict):
        assert isinstance(found, dict) and list(found) == list(expected), where
        for key, value in expected.items():
            same(found[key], value, f"{where}/{key}")
    elif isinstance(expected, list):
        assert isinstance(found, list | tuple) and len(found) == len(expected), where
        for index, value in enumerate(expected):
            same(found[index], value, f"{where}/{index}")
    elif isinstance(expected, float):
        tolerance = 1e-5 if re.search("price|epsilon|delta|spent|remaining", where) else 1e-10
        assert found == pytest.approx(expected, rel=tolerance, abs=2e-12), where
    else:
        assert found == expected and type(found) is type(expected), where


# ---- the tests


def test_no_stored_file_is_forgotten() -> None:
    files = {path.relative_to(STORED).as_posix() for path in STORED.rglob("*") if path.is_file()}
    ours = {name for name in files if "__pycache__" not in name} - {"generate.py", "expected.json"}
    assert ours == set(EXPECTED["files"])
    assert {name for name in ours if name.startswith("models/")} == {f"models/{n}.json" for n in EXPECTED["models"]}


@pytest.mark.parametrize("name", EXPECTED["models"])
def test_models(name: str) -> None:
    expected = EXPECTED["models"][name]
    same(of_model(load(STORED / "models" / f"{name}.json"), table(expected["table"])), expected["gives"])


@pytest.mark.parametrize("name", EXPECTED["models"])
def test_a_model_that_is_saved_again_is_the_same_model(name: str, tmp_path: Path) -> None:
    expected = EXPECTED["models"][name]
    load(STORED / "models" / f"{name}.json").save(tmp_path / "again.json")
    same(of_model(load(tmp_path / "again.json"), table(expected["table"])), expected["gives"])


@pytest.mark.parametrize("name", EXPECTED["plans"])
def test_plans(name: str) -> None:
    plan = Plan.from_json((STORED / "plans" / f"{name}.json").read_text(encoding="utf-8"))
    same(of_plan(plan), EXPECTED["plans"][name])
    assert Plan.from_json(plan.to_json()) == plan


COSTS = json.loads((STORED / "costs.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", EXPECTED["costs"])
def test_costs(name: str) -> None:
    (release,) = Plan.from_json(json.dumps(COSTS[name])).releases()
    assert isinstance(release.cost, Cost)
    same(price(release.cost), EXPECTED["costs"][name])


def test_every_cost_has_its_price() -> None:
    assert list(COSTS) == list(EXPECTED["costs"])


def copied(name: str, tmp_path: Path) -> Path:
    shutil.copytree(STORED / name, tmp_path / name)
    return tmp_path / name


@pytest.mark.parametrize("name", EXPECTED["ledgers"])
def test_ledgers(name: str, tmp_path: Path) -> None:
    with Ledger.open(copied("ledgers", tmp_path) / f"{name}.jsonl") as ledger:
        same(of_ledger(ledger), EXPECTED["ledgers"][name])


def test_a_ledger_goes_on_and_takes_back_a_sub_ledger(tmp_path: Path) -> None:
    folder, expected = copied("ledgers", tmp_path), EXPECTED["continued"]
    with Ledger.open(folder / "rdp.jsonl", anchor=EXPECTED["ledgers"]["rdp"]["anchor"]) as ledger:
        before = ledger.remaining().amount
        ledger.merge(folder / expected["child"])
        assert ledger.remaining().amount > before
        source = SeededSource(np.random.default_rng(5))
        ledger.release(GaussianMechanism(sigma=40.0, grid=2.0**-20), 7.0, label="later", rng=source)
        found = of_ledger(ledger)
        same({name: found[name] for name in expected["rdp"]}, expected["rdp"])


def test_a_ledger_with_a_plan_goes_on_with_its_plan_only(tmp_path: Path) -> None:
    expected = EXPECTED["continued"]
    with Ledger.open(copied("ledgers", tmp_path) / "plan.jsonl") as ledger:
        assert ledger.plan is not None
        source = SeededSource(np.random.default_rng(6))
        leaf = GaussianMechanism(sigma=ledger.plan["leaf"].scale or 0.0, grid=2.0**-20)
        with pytest.raises(OffPlan):
            ledger.release(leaf, 1.0, label="not planned", rng=source)
        ledger.release(leaf, 1.0, label="leaf", rng=source)
        found = of_ledger(ledger)
        same({name: found[name] for name in expected["plan"]}, expected["plan"])


def resumed(folder: Path) -> tuple[Any, dict[str, Any]]:
    """Resume the stored fit, and return its model and its ledger's account."""
    rows = json.loads((STORED / "checkpoint" / "table.json").read_text(encoding="utf-8"))
    X = pd.DataFrame(rows["X"])
    schema = Schema.from_json((STORED / "checkpoint" / "schema.json").read_text(encoding="utf-8"))
    model = PrivateBoostingClassifier(schema=schema, **rows["parameters"])
    with Ledger.open(folder / "budget.jsonl") as ledger:
        model.fit(X, rows["y"], ledger=ledger, checkpoint=folder / "run")
        account = of_ledger(ledger)
    del account["anchor"]  # its new records have today's date
    return model, account


def versions() -> list[Any]:
    """What a run must be resumed with."""
    return [ledgerwood.__version__, np.__version__, list(sys.version_info[:2])]


def test_a_fit_of_another_meaning_is_not_resumed(tmp_path: Path) -> None:
    folder, expected = copied("checkpoint", tmp_path), EXPECTED["checkpoint"]
    (folder / "run").chmod(0o700)
    before = [json.loads(line) for line in (folder / "run" / "results.jsonl").read_text().splitlines()]
    assert 0 < len(before) < expected["releases"]
    if versions() != expected["versions"]:  # by intent: other versions may compute other bits
        with pytest.raises(ParameterError, match="not the same versions, got"):
            resumed(folder)
        return
    # By intent: that fit took the exact number of rows as public, which a fit no longer does without being told.
    with pytest.raises(ParameterError, match="not the same public facts, plan, got"):
        resumed(folder)


@pytest.mark.parametrize("name", EXPECTED["audits"])
def test_audits(name: str) -> None:
    text = (STORED / "audits" / f"{name}.json").read_text(encoding="utf-8")
    report = AuditReport.from_json(text)
    same(of_audit(report), EXPECTED["audits"][name])
    assert AuditReport.from_json(report.to_json()) == report


@pytest.mark.parametrize("name", EXPECTED["schemas"])
def test_schemas(name: str) -> None:
    text = (STORED / "schemas" / name).read_text(encoding="utf-8")
    schema = Schema(**tomllib.loads(text)) if name.endswith(".toml") else Schema.from_json(text)
    same(of_schema(schema), EXPECTED["schemas"][name])
    assert Schema.from_json(schema.to_json()) == schema


def of_schema(schema: Schema) -> dict[str, Any]:
    """Return the facts of a schema as JSON has them."""
    names = ("bounds", "categories", "kinds", "sources")
    facts = {name: [[k, v] for k, v in (getattr(schema, name) or {}).items()] for name in names}
    others = ("classes", "target_bounds", "rows", "unit", "max_rows_per_unit")
    facts |= {name: getattr(schema, name) for name in others} | {"neighbours": str(schema.neighbours)}
    found: dict[str, Any] = json.loads(json.dumps(facts))
    return found


@pytest.mark.parametrize("name", EXPECTED["federations"])
def test_federations(name: str) -> None:
    expected = EXPECTED["federations"][name]
    same(of_federation(Federation.load(STORED / "federations" / f"{name}.json")), expected)


def of_federation(found: Federation) -> dict[str, Any]:
    """Return what the totals of a federated training make of it, and what it cost."""
    X = np.array([[0.1, 0.9], [0.4, 0.2], [0.6, 0.5], [0.95, 0.05]])
    return {
        "probabilities": rounded(found.probabilities(X)),
        "rounds": found.rounds,
        "failed": found.failed,
        "survivors": [list(nodes) for nodes in found.survivors],
        "plan": of_plan(found.task.plan),
        "bits": found.task.bits,
    }


def test_a_federated_task(tmp_path: Path) -> None:
    text = (STORED / "federations" / "task.json").read_text(encoding="utf-8")
    task = FederatedTask.from_json(text)
    assert json.loads(task.to_json()) == json.loads(text)  # every message of a training quotes it
    same(of_plan(task.plan), EXPECTED["task"])


VERTICAL_KEY, VERTICAL_IDS = b"k" * 16, [f"id{i}" for i in range(40)]


def party_in(folder: Path) -> FeatureParty:
    def never() -> Any:
        raise AssertionError("the release is on disk: the table must not be read again")

    declared = OrderPreservingTransformer(
        epsilon=8.0, domain={"age": (0, 100), "color": ["red", "green", "blue"]}, levels=12
    ).declare(["age", "color"])
    return FeatureParty("bank", declared, never, folder, key=VERTICAL_KEY)


def of_party(party: FeatureParty) -> dict[str, Any]:
    """Return the columns that a party released, and what its ledger says."""
    stored = party.offer(len(VERTICAL_IDS), id_digest(VERTICAL_IDS, VERTICAL_KEY))
    said = party.statement().to_dict()
    return {
        "label": party.label,
        "columns": [column.tolist() for column in stored.mapped()],
        "values": [list(values) for values in stored.values],
        "splits": party.values([(0, 2), (0, 5)]),
        "spent": party.ledger.spent().epsilon,
        "private": said["private"],
    }


def test_a_released_table_of_a_vertical_party(tmp_path: Path) -> None:
    with closing(party_in(copied("vertical", tmp_path) / "party")) as party:
        same(of_party(party), EXPECTED["vertical"]["party"])


def of_vertical_model(model: VerticalModel) -> dict[str, Any]:
    """Return its predictions and the losses that it states."""
    theirs = pd.DataFrame({"age": [10.0, 30.0, 55.0, 90.0], "color": ["red", "blue", "green", "red"]})
    (party,) = model.parties
    return {
        "predict": rounded(model.predict(None, {"bank": theirs})),
        "predict_proba": rounded(model.predict_proba(None, {"bank": theirs})),
        "epsilon": party.transformer.privacy_statement().to_dict()["record_epsilon"],
    }


def test_a_vertical_model() -> None:
    if sklearn.__version__ != EXPECTED["vertical"]["sklearn"]:
        pytest.skip("its file is a pickle with a tree of another scikit-learn")
    same(of_vertical_model(VerticalModel.load(STORED / "vertical" / "model.pkl")), EXPECTED["vertical"]["model"])
