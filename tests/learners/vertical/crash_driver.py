"""Run both parties as processes that kill themselves (SIGKILL) at their k-th durable step, for every k.

A step is a sync, a renaming, a batch taken or a batch sent, and the kill falls before or after it. After each kill the
dead party is started again, until party A has its model. Prints what happened as JSON; run by ``test_crashes.py``.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import GradientBoostingClassifier
from vertical_ports import free_port

from ledgerwood.accounting import Ledger
from ledgerwood.learners.vertical import (
    Authority,
    FeatureClient,
    FeatureParty,
    FeatureServer,
    OrderPreservingTransformer,
    VerticalModel,
    feature_client,
    feature_party,
    id_digest,
    train_vertical,
)
from ledgerwood.learners.vertical.messages import WireColumn
from ledgerwood.learners.vertical.release_store import map_columns

ROWS, KEY, TOKEN = 5000, b"k" * 16, b"t" * 16
AUTHORITY = Authority("test")
IDENTITY = {name: AUTHORITY.issue(name, ["localhost"]) for name in ("a", "b")}
rng = np.random.default_rng(0)
TABLE = pd.DataFrame({"age": rng.uniform(0, 100, ROWS), "colour": rng.choice(["red", "green"], ROWS)})
LABELS = (TABLE["age"] + rng.normal(0, 20, ROWS) > 50).to_numpy().astype(int)
IDS = [f"id{i}" for i in range(ROWS)]
TRANSFORMER = OrderPreservingTransformer(epsilon=2.0, domain={"age": (0, 100), "colour": ["red", "green"]}).fit(TABLE)
TRANSFORMER.release_.release([c.encode(TABLE[c.name]) for c in TRANSFORMER.release_.columns])  # compile before forking
GradientBoostingClassifier(n_estimators=2).fit(TABLE[["age"]], LABELS)


def dying(at: int, after: bool) -> None:
    """Kill this process at its at-th step; 0 never."""
    count = 0

    def step(real: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            nonlocal count
            count += 1
            if count == at and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            result = real(*arguments, **options)
            if count == at:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return wrapped

    os.fsync, os.replace = step(os.fsync), step(os.replace)
    feature_client._take = step(feature_client._take)
    sent = step(lambda batch: batch)
    real_batches = feature_party._batches
    feature_party._batches = lambda *arguments: (sent(batch) for batch in real_batches(*arguments))


def child(work: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            work()
            code = 0
        finally:
            os._exit(code)
    return pid


def serve(folder: Path, port: int, at: int, after: bool) -> None:
    dying(at, after)
    feature_party._BATCH_BYTES = 1  # the least: 1024 rows
    party = FeatureParty("b", TRANSFORMER, lambda: (TABLE, IDS), folder / "b", key=KEY)
    server = FeatureServer(party, f"grpc+tls://localhost:{port}", IDENTITY["b"], TOKEN)
    server.serve()


def train(folder: Path, port: int, at: int, after: bool) -> None:
    dying(at, after)
    feature_client._SYNC_BYTES = 1
    client = FeatureClient(
        f"grpc+tls://localhost:{port}", IDENTITY["a"], TOKEN, ROWS, id_digest(IDS, KEY), folder / "a" / "b",
        attempts=60, wait=0.02,
    )  # fmt: skip
    learner = GradientBoostingClassifier(n_estimators=3, max_depth=2, random_state=0)
    train_vertical(learner, LABELS, [client], folder / "a")


def scenario(folder: Path, side: str, at: int, after: bool) -> dict[str, Any]:
    """One crash of one side, and all the starts it takes to finish."""
    port, kills, starts = free_port(), 0, 0
    seen: list[tuple[int, bytes]] = []
    b = child(lambda: serve(folder, port, at if side == "b" else 0, after))
    a = child(lambda: train(folder, port, at if side == "a" else 0, after))
    try:
        deadline = time.monotonic() + 180
        while True:
            if time.monotonic() > deadline:
                raise SystemExit(f"{side} {at} {after}: no end in sight")
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                time.sleep(0.005)
                continue
            if pid == a and os.WIFEXITED(status):
                if os.WEXITSTATUS(status):
                    raise SystemExit(f"{side} {at} {after}: party A failed without a kill")
                break
            kills, starts = kills + 1, starts + 1
            if os.WIFEXITED(status) or starts > 5:
                raise SystemExit(f"{side} {at} {after}: party failed without a kill")
            if pid == b:
                b = child(lambda: serve(folder, port, 0, False))
            else:
                seen += note(folder)
                a = child(lambda: train(folder, port, 0, False))
    finally:  # a child left behind would hold the pipe to the test open
        for pid in (a, b):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while True:
                os.wait()
    return {"kills": kills, **verdict(folder, seen)}


def note(folder: Path) -> list[tuple[int, bytes]]:
    """What party A holds of the columns when it dies: (rows, their bytes)."""
    state = folder / "a" / "b"
    if not (state / "progress.json").exists() or not (state / "columns.part").exists():
        return []
    rows = json.loads((state / "progress.json").read_text())["rows"]
    manifest = json.loads((state / "manifest.json").read_text())["manifest"]
    return [(rows, first_rows(state / "columns.part", manifest, rows))]


def first_rows(path: Path, manifest: Any, rows: int) -> bytes:
    columns = [WireColumn.from_json(column) for column in manifest["columns"]]
    return b"".join(column[:rows].tobytes() for column in map_columns(path, columns, ROWS))


def verdict(folder: Path, seen: list[tuple[int, bytes]]) -> dict[str, Any]:
    with Ledger.open(folder / "b" / "ledger.jsonl") as ledger:
        labels = [entry.label for entry in ledger.journal() if entry.kind == "release"]
        spent = ledger.spent().epsilon
    once = TRANSFORMER.release_.cost.epsilon(0.0)
    sent = (folder / "b" / "release" / "columns.bin").read_bytes()
    got = (folder / "a" / "b" / "columns.bin").read_bytes()
    manifest = json.loads((folder / "b" / "release" / "manifest.json").read_text())
    columns = [WireColumn.from_json(column) for column in manifest["columns"]]
    final = map_columns(folder / "a" / "b" / "columns.bin", columns, ROWS)
    partial = [first_rows(folder / "a" / "b" / "columns.bin", manifest, rows) == held for rows, held in seen]
    model = VerticalModel.load(folder / "a" / "model.pkl")
    values = np.column_stack([np.array(t)[c] for t, c in zip(manifest["values"], final, strict=True)])
    joint = model.learner.predict(np.column_stack(final).astype(np.float32))
    return {
        "charges": len([label for label in labels if "written" not in label]),
        "notes": len([label for label in labels if "written" in label]),
        "spent_once": abs(spent - once) < 1e-6,
        "same_bytes": sent == got,
        "partial_bytes_agree": all(partial),
        "predicts_alone": bool((model.predict_released(None, {"b": values}) == joint).all()),
    }


def main() -> None:
    folder, step = Path(sys.argv[1]), int(sys.argv[2])
    results = []
    for side in ("b", "a"):
        for after in (False, True):
            at, kills = 1, 1
            while kills:
                result = scenario(folder / f"{side}-{at}-{after}", side, at, after)
                kills = result["kills"]
                results.append({"side": side, "at": at, "after": after, **result})
                at += step
    print(json.dumps(results))


if __name__ == "__main__":
    main()
