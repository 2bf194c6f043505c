"""``make demo-federated``: Bank Marketing split among three parties, trained over Flower on this machine."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import numpy as np

from ledgerwood.learners.federated.coordinator import Federation
from ledgerwood.learners.federated.deployment import Loopback, identities, write_parties
from ledgerwood.learners.federated.task import FederatedTask


def main(folder: str = "demo-output/federated") -> None:
    """Run the demonstration and print what it took."""
    from sklearn.metrics import roc_auc_score

    from ledgerwood.datasets import load_bank

    here = Path(folder).resolve()
    shutil.rmtree(here, ignore_errors=True)
    bank = load_bank("pandas")
    order = np.random.default_rng(0).permutation(len(bank.y))
    cut = int(0.7 * len(order))
    train, test = order[:cut], order[cut:]
    keys, roster = identities(3)
    task = FederatedTask(
        bank.schema, tuple(bank.X.columns), roster, threshold=3, rows=50_000, recipe="tr_cyc",
        options={"n_trees": 100, "batch": 25, "learning_rate": 0.6}, epsilon=1.0, delta=1e-5,
    )  # fmt: skip
    parties = write_parties(here, task, keys, dict.fromkeys(keys, "rows.csv"), "y")
    for number, rows in zip(keys, np.array_split(train, 3)):
        frame = bank.X.iloc[rows].assign(y=bank.y[rows])
        frame.to_csv(here / f"party-{number}" / "rows.csv", index=False)
    (here / "task.json").write_text(task.to_json(), encoding="utf-8")
    print(f"three parties with {cut // 3} rows each; SuperLink and three SuperNodes on loopback")
    began = time.perf_counter()
    with Loopback(here / "run", parties) as net:
        net.train(here / "task.json", here / "model.json", timeout=1200)
    done = Federation.load(here / "model.json")
    auc = roc_auc_score(bank.y[test], done.probabilities(bank.X.iloc[test])[:, 1])
    print(f"AUC on held-out rows {auc:.4f} (computed on private rows: not covered by the statement)")
    print(f"{done.rounds} rounds, {done.bytes_received:,} bytes to the server, {time.perf_counter() - began:.0f} s")
    print(done.statement())


if __name__ == "__main__":
    main()
