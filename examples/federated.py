"""``make demo-federated``: Adult split among three parties, trained over Flower on this machine."""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path

import numpy as np

from ledgerwood.datasets import load_adult
from ledgerwood.learners.federated.coordinator import Federation
from ledgerwood.learners.federated.flower import Loopback, identities, write_parties
from ledgerwood.learners.federated.task import FederatedTask

ROUNDS = 3


def main(arguments: list[str] | None = None) -> None:
    """Run the demonstration and print what it took."""
    from sklearn.metrics import roc_auc_score

    parser = argparse.ArgumentParser(prog="federated_demo", description=__doc__)
    parser.add_argument("--output", default="demo-output/federated")
    given = parser.parse_args(arguments)
    X, y, schema = load_adult("pandas")
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
    print(f"Adult: three parties with {cut // 3} rows each; SuperLink and three SuperNodes on loopback", flush=True)
    began = time.perf_counter()
    with Loopback(here / "run", parties) as net:
        net.train(here / "task.json", here / "model.json", timeout=1200)
        took = time.perf_counter() - began
    done = Federation.load(here / "model.json")
    auc = roc_auc_score(y[test], done.probabilities(X.iloc[test])[:, 1])
    print(f"AUC on held-out rows {auc:.4f} (computed on private rows: not covered by the statement)")
    print(f"{done.rounds} rounds, {done.bytes_received:,} bytes to the server, {took:.0f} s")
    print(done.statement())


if __name__ == "__main__":
    main()
