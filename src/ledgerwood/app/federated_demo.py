"""``make demo-federated``: a table split among three parties, trained over Flower on this machine.

``--data DIR`` takes Adult from a folder with ``datasets.json`` and ``adult.parquet``. Without it the demonstration uses
Bank Marketing, the table that comes with the package (Adult does not).
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np

from ledgerwood.learners.federated.coordinator import Federation
from ledgerwood.learners.federated.deployment import Loopback, identities, write_parties
from ledgerwood.learners.federated.task import FederatedTask
from ledgerwood.learners.schema import Schema

ROUNDS = 3


def main(arguments: list[str] | None = None) -> None:
    """Run the demonstration and print what it took."""
    from sklearn.metrics import roc_auc_score

    parser = argparse.ArgumentParser(prog="federated_demo", description=__doc__)
    parser.add_argument("--data", help="a folder with Adult; without it Bank Marketing is used")
    parser.add_argument("--output", default="demo-output/federated")
    given = parser.parse_args(arguments)
    name, X, y, schema = _bank() if given.data is None else _adult(Path(given.data))
    here = Path(given.output).resolve()
    shutil.rmtree(here, ignore_errors=True)
    order = np.random.default_rng(0).permutation(len(y))
    cut = int(0.7 * len(order))
    train, test = order[:cut], order[cut:]
    keys, roster = identities(3)
    task = FederatedTask(
        schema, tuple(X.columns), roster, threshold=3, rows=50_000, recipe="boosted_adassp",
        options={"n_rounds": ROUNDS, "bins": 16}, epsilon=1.0, delta=1e-5,
    )  # fmt: skip
    parties = write_parties(here, task, keys, dict.fromkeys(keys, "rows.csv"), "y")
    for number, rows in zip(keys, np.array_split(train, 3)):
        X.iloc[rows].assign(y=y[rows]).to_csv(here / f"party-{number}" / "rows.csv", index=False)
    (here / "task.json").write_text(task.to_json(), encoding="utf-8")
    print(f"{name}: three parties with {cut // 3} rows each; SuperLink and three SuperNodes on loopback", flush=True)
    began = time.perf_counter()
    with Loopback(here / "run", parties) as net:
        net.train(here / "task.json", here / "model.json", timeout=1200)
        took = time.perf_counter() - began
    done = Federation.load(here / "model.json")
    auc = roc_auc_score(y[test], done.probabilities(X.iloc[test])[:, 1])
    print(f"AUC on held-out rows {auc:.4f} (computed on private rows: not covered by the statement)")
    print(f"{done.rounds} rounds, {done.bytes_received:,} bytes to the server, {took:.0f} s")
    print(done.statement())


def _bank() -> tuple[str, Any, Any, Schema]:
    from ledgerwood.datasets import load_bank

    bank = load_bank("pandas")
    return "Bank Marketing (without the length of the call)", bank.X, bank.y, bank.schema


def _adult(folder: Path) -> tuple[str, Any, Any, Schema]:
    import pandas as pd

    listed = json.loads((folder / "datasets.json").read_text(encoding="utf-8"))["datasets"]
    facts = next(one for one in listed if one["name"] == "adult")
    frame = pd.read_parquet(folder / facts["file"])
    y = frame.pop("target").to_numpy().astype(int)
    bounds = {column: (limits["min"], limits["max"]) for column, limits in facts["bounds"].items()}
    return "Adult", frame, y, Schema(bounds=bounds, categories=facts["categorical"], classes=[0, 1])


if __name__ == "__main__":
    main()
