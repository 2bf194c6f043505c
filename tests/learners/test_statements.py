"""Every kind of privacy statement, word for word: one golden file for each, in ``tests/learners/golden``.

A text that changes on purpose: delete its file and run this test, which writes it anew and fails once, so that somebody
reads it. What statements *mean* is tested elsewhere, by their fields.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.kit.toy_learners import ToyClassifier, ToyRegressor

from ledgerwood.accounting import Ledger
from ledgerwood.learners import AdaSSPRegressor, PrivateBoostingClassifier, PrivateSearch, Schema
from ledgerwood.learners.engines import Partitions
from ledgerwood.learners.federated import FederatedTask, Federation
from ledgerwood.learners.vertical import OrderPreservingTransformer
from ledgerwood.learners.vertical.model import PartyColumns, VerticalModel

GOLDEN = Path(__file__).parent / "golden"
RNG = np.random.default_rng(0)
X = RNG.uniform(size=(600, 2))
Y = (X[:, 0] > X[:, 1]).astype(int)
SCHEMA = Schema(bounds={0: (0, 1), 1: (0, 1)}, classes=[0, 1], rows=600)


def one_record() -> str:
    return str(ToyClassifier(schema=SCHEMA, epsilon=2.0).fit(X, Y).privacy_statement())


def charged_to_a_ledger() -> str:
    ledger = Ledger(epsilon=5.0, delta=1e-5)
    return str(ToyClassifier(schema=replace(SCHEMA, rows=600)).fit(X, Y, ledger=ledger).privacy_statement())


def learned_bounds_and_categories() -> str:
    frame = pd.DataFrame({"x": X[:, 0], "colour": np.where(X[:, 1] > 0.5, "red", "blue")})
    statement = ToyClassifier(epsilon=5.0).fit(frame, Y).privacy_statement()
    return str(statement).replace(f"about {statement.details['rows']},", "about 600,")


def exact_row_count(accounting: str) -> str:
    schema = Schema(bounds={0: (0, 1)}, target_bounds=(0, 1), rows="public" if accounting == "tight" else None)
    model = AdaSSPRegressor(epsilon=1.0, delta=1e-6, accounting=accounting, schema=schema)
    return str(model.fit(X[:, :1], X[:, 1]).privacy_statement())


def units_of_three_rows() -> str:
    frame = pd.DataFrame({"who": np.arange(600) // 3, "x": X[:, 0]})
    schema = Schema(bounds={"x": (0, 1)}, target_bounds=(0, 1), unit="who", max_rows_per_unit=3, rows=600)
    return str(ToyRegressor(schema=schema).fit(frame, X[:, 1]).privacy_statement())


def table_in_parts() -> str:
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": Y})
    schema = Schema(bounds={"a": (0, 1), "b": (0, 1)}, classes=[0, 1], neighbours="replace_one")
    model = PrivateBoostingClassifier(recipe="tr", n_trees=2, max_depth=2, epsilon=1.0, delta=1e-6, schema=schema)
    return str(model.fit(Partitions.of_frames([frame], target="y")).privacy_statement())


def seeded_and_behind_a_scaler() -> str:
    pipe = make_pipeline(StandardScaler(), ToyClassifier(schema=SCHEMA, random_state=0))
    return str(pipe.fit(X, Y)[-1].privacy_statement())


def stopped_early() -> str:
    model = ToyClassifier(schema=SCHEMA, rounds=3, callbacks=[lambda event: event.done == 2])
    return str(model.fit(X, Y).privacy_statement())


def private_search() -> str:
    search = PrivateSearch(ToyClassifier(schema=SCHEMA), {"rounds": [1, 3]}, epsilon=2.0, delta=1e-5, runs=3)
    return str(search.fit(X, Y).privacy_statement())


def federation(noise: str) -> str:
    relation = "replace_one" if noise == "local" else "add_remove"
    schema = Schema(bounds={0: (0, 1)}, classes=[0, 1], neighbours=relation, rows="public")
    identities = {1: "aa" * 32, 2: "bb" * 32, 3: "cc" * 32}
    task = FederatedTask(
        schema, (0,), identities, threshold=2, rows=100, recipe="tr_cyc", options={"n_trees": 2}, noise=noise
    )
    survivors = ((1, 2, 3), (1, 3))
    return Federation(
        task, None, (), rounds=2, failed=1, survivors=survivors, refusals=(), bytes_received=0
    ).statement()


def randomized_table(method: str) -> str:
    domain = {"age": (0, 100), "colour": ["red", "green"]}
    transformer = OrderPreservingTransformer(method, epsilon=1.0, levels=5, domain=domain).declare(["age", "colour"])
    transformer.transform(pd.DataFrame({"age": [20.0, 70.0], "colour": ["red", None]}))
    return str(transformer.privacy_statement())


def vertical_model() -> str:
    bank = OrderPreservingTransformer(epsilon=1.0, levels=5, domain={"age": (0, 100)}).declare(["age"])
    return VerticalModel(None, ("income",), (PartyColumns("bank", ("age",), bank, ({},)),)).statement()


STATEMENTS: dict[str, Callable[[], str]] = {
    make.__name__: make
    for make in (
        one_record, charged_to_a_ledger, learned_bounds_and_categories, units_of_three_rows, table_in_parts,
        seeded_and_behind_a_scaler, stopped_early, private_search, vertical_model,
    )
} | {
    **{f"exact_row_count_{way}": lambda way=way: exact_row_count(way) for way in ("tight", "paper")},
    **{f"federation_{noise}": lambda noise=noise: federation(noise) for noise in ("shares", "central", "local")},
    **{f"randomized_table_{m}": lambda m=m: randomized_table(m) for m in ("global_map", "local_map")},
}  # fmt: skip


@pytest.mark.parametrize("name", STATEMENTS)
@pytest.mark.filterwarnings("ignore::ledgerwood.errors.LedgerwoodWarning")
def test_a_statement_has_the_text_of_its_golden_file(name: str) -> None:
    file, text = GOLDEN / f"{name}.txt", STATEMENTS[name]() + "\n"
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
        pytest.fail(f"{file.name} was written: read it, and run the test again")
    assert text == file.read_text(encoding="utf-8")


def test_no_golden_file_is_forgotten() -> None:
    assert {file.stem for file in GOLDEN.iterdir()} == STATEMENTS.keys()
