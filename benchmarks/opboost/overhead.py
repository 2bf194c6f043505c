"""What two parties send and how long it takes: Tables 7 and 8 of Li et al. on ours, and the speed of the stream.

Bytes are counted by a proxy between the parties, TLS, handshakes and all else included; "cells" is rows x columns x one
or two bytes, before compression. Times are of a whole training: randomize, write, send, train, ask, finish.

    python -m benchmarks.opboost.overhead --data DIR [--rows 10000000]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import socket
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.opboost.accuracy import DATASETS, Task, learner
from benchmarks.opboost.tables import RESULTS, Table
from ledgerwood.learners.vertical import (
    Authority,
    FeatureClient,
    FeatureParty,
    FeatureServer,
    OrderPreservingTransformer,
    id_digest,
    train_vertical,
)
from ledgerwood.learners.vertical.messages import WireColumn
from ledgerwood.learners.vertical.release_store import Stored, file_digest

KEY, TOKEN = b"k" * 16, b"t" * 16


class Proxy:
    """Passes bytes on and counts them, by direction."""

    def __init__(self, target: int) -> None:
        self.to_server = self.to_client = 0
        self._target = target
        self._listener = socket.create_server(("localhost", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            near, _ = self._listener.accept()
            far = socket.create_connection(("localhost", self._target))
            threading.Thread(target=self._pump, args=(near, far, "to_server"), daemon=True).start()
            threading.Thread(target=self._pump, args=(far, near, "to_client"), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, counter: str) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                setattr(self, counter, getattr(self, counter) + len(data))
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


def training(folder: Path) -> None:
    """Tables 7 and 8 at epsilon 0.08, theta 4."""
    numbers = ["rows", "columns", "splits", "cells", "wire_a", "wire_b", "bound", "seconds", "cpu_seconds"]
    table = Table("training", ["dataset", "method", "alpha", "sampler"], numbers)
    authority = Authority("bench")
    for name in DATASETS:
        task = Task.load(folder, name)
        for method, alpha in (
            ("local_map", 0.0),
            ("global_map", 0.0),
            ("adj_map", 0.4),
            ("adj_map", 10.0),
            ("piecewise", 0.0),
        ):
            for sampler in ("exponential", "bounded_discrete_laplace"):
                key = (name, method, alpha, sampler)
                if key not in table and (method != "piecewise" or sampler == "exponential"):
                    table.add(key, one_training(task, authority, method, alpha, sampler))


def one_training(task: Task, authority: Authority, method: str, alpha: float, sampler: str) -> dict[str, float]:
    transformer = OrderPreservingTransformer(
        method, epsilon=0.08, split="each", theta=4, alpha=alpha or 2.0, sampler=sampler, domain=task.bounds,
        parts_public=True,
    ).fit(task.theirs)  # fmt: skip
    transformer.release_.release([c.encode(task.theirs[c.name]) for c in transformer.release_.columns])  # compiles
    ids = range(len(task.target))
    with tempfile.TemporaryDirectory() as place:
        started, cpu = time.perf_counter(), time.process_time()
        party = FeatureParty("b", transformer, lambda: (task.theirs, ids), Path(place, "b"), key=KEY)
        with (
            party,
            FeatureServer(party, "grpc+tls://localhost:0", authority.issue("b", ["localhost"]), TOKEN) as server,
        ):
            proxy = Proxy(server.port)
            client = FeatureClient(
                f"grpc+tls://localhost:{proxy.port}", authority.issue("a"), TOKEN, len(ids), id_digest(ids, KEY),
                Path(place, "a/b"),
            )  # fmt: skip
            own = task.own if task.own.shape[1] else None
            model = train_vertical(learner(task.kind), task.target, [client], Path(place, "a"), X=own)
            client.close()
            seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
            splits = sum(len(values) for values in model.parties[0].values)
            cells = party.stored.rows * party.stored.row_bytes
            server.shutdown()
    return {
        "rows": len(ids), "columns": len(model.parties[0].names), "splits": splits,
        "cells": cells, "wire_a": proxy.to_server, "wire_b": proxy.to_client,
        "bound": 1.1 * cells + 16 * splits, "seconds": seconds, "cpu_seconds": cpu,
    }  # fmt: skip


def _serve(place: str, rows: int, port: Any, identity: Any) -> None:
    folder = Path(place, "release")
    folder.mkdir()
    columns = tuple(WireColumn(f"c{i}", "uint8", 10) for i in range(28))
    rng = np.random.default_rng(0)
    with open(folder / "columns.bin", "wb") as file:
        for _ in columns:
            file.write(rng.integers(0, 10, rows, dtype=np.uint8).tobytes())
    digest = file_digest(folder / "columns.bin")
    stored = Stored(folder, rows, columns, tuple(tuple(map(float, range(10))) for _ in columns), digest, "")
    names = {column.name: (0, 1) for column in columns}
    made = OrderPreservingTransformer(domain=names).declare(list(names))
    party = FeatureParty("b", made, lambda: (None, []), Path(place, "b"), key=KEY)
    party.offer = lambda rows, ids: stored  # type: ignore[method-assign]
    party._stored = stored
    server = FeatureServer(party, "grpc+tls://localhost:0", identity, TOKEN)
    port.put(server.port)
    server.serve()


def stream(rows: int) -> None:
    """Rows x 28 ordinals between two processes: received, checked, digested and on disk."""
    authority = Authority("bench")
    context = multiprocessing.get_context("spawn")
    port = context.Queue()
    with tempfile.TemporaryDirectory() as place:
        server = context.Process(target=_serve, args=(place, rows, port, authority.issue("b", ["localhost"])))
        server.start()
        location = f"grpc+tls://localhost:{port.get()}"
        results = []
        proxy = Proxy(int(location.rsplit(":", 1)[1]))
        counted = f"grpc+tls://localhost:{proxy.port}"
        for attempt, where in enumerate((location, location, location, counted)):
            client = FeatureClient(where, authority.issue("a"), TOKEN, rows, "", Path(place, f"a{attempt}"))
            started, cpu = time.perf_counter(), time.process_time()
            client.columns()
            results.append({"seconds": time.perf_counter() - started, "client_cpu_seconds": time.process_time() - cpu})
            client.close()
            (client.state / "columns.bin").unlink()
            print(results[-1], flush=True)
        server.kill()
        server.join()
    best = min(results[:3], key=lambda result: result["seconds"])  # the fourth went through the proxy
    best["wire_bytes"] = proxy.to_server + proxy.to_client
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "stream.json").write_text(json.dumps({"rows": rows, "columns": 28, **best}, indent=1) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=10_000_000)
    arguments = parser.parse_args()
    training(arguments.data)
    stream(arguments.rows)
