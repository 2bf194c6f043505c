"""A made-up table, its parties over real sockets, and a proxy that counts their bytes."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import GradientBoostingClassifier

from ledgerwood.learners.vertical import (
    Authority,
    FeatureClient,
    FeatureParty,
    FeatureServer,
    OrderPreservingTransformer,
    id_digest,
)

KEY, TOKEN = b"k" * 16, b"t" * 16
AUTHORITY = Authority("test")
A, B = AUTHORITY.issue("a"), AUTHORITY.issue("b", ["localhost"])
ROWS = 3000
rng = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {"age": rng.uniform(0, 100, ROWS), "colour": rng.choice(["red", "green"], ROWS), "hours": rng.uniform(0, 40, ROWS)}
)
DOMAIN = {"age": (0, 100), "colour": ["red", "green"], "hours": (0, 40)}
LABELS = (TABLE["age"] / 100 + (TABLE["colour"] == "red") + rng.normal(0, 0.3, ROWS) > 1).to_numpy().astype(int)
IDS = [f"id{i}" for i in range(ROWS)]
DIGEST = id_digest(IDS, KEY)


def transformer(names: list[str], **kwargs: Any) -> OrderPreservingTransformer:
    options = {"epsilon": 2.0, "split": "each", "domain": {name: DOMAIN[name] for name in names}, **kwargs}
    return OrderPreservingTransformer(**options).declare(names)


def party(folder: Path, names: list[str] | None = None, name: str = "b", **kwargs: Any) -> FeatureParty:
    names = names or list(DOMAIN)
    limits = {name: kwargs.pop(name) for name in ("budget", "refusals") if name in kwargs}
    made = transformer(names, **kwargs)
    return FeatureParty(name, made, lambda: (TABLE[names], IDS), folder, key=KEY, **limits)


@contextlib.contextmanager
def serving(folder: Path, server: Any = FeatureServer, **kwargs: Any) -> Iterator[tuple[FeatureParty, str]]:
    with party(folder, **kwargs) as own, server(own, "grpc+tls://localhost:0", B, TOKEN) as running:
        yield own, f"grpc+tls://localhost:{running.port}"
        running.shutdown()


def client(location: str, state: Path, **kwargs: Any) -> FeatureClient:
    options = {"identity": A, "token": TOKEN, "rows": ROWS, "ids": DIGEST, "attempts": 0, "wait": 0.01, **kwargs}
    return FeatureClient(location, state=state, **options)


def learner() -> Any:
    return GradientBoostingClassifier(n_estimators=5, max_depth=3, random_state=0)


class CountingProxy:
    """Passes bytes between a client and a server, and counts them."""

    def __init__(self, target: int) -> None:
        self.bytes, self._target = 0, target
        self._listener = socket.create_server(("localhost", 0))
        self.port = self._listener.getsockname()[1]
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

        self._sockets: list[socket.socket] = [self._listener]

    def _start(self, work: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("localhost", self._target))
                self._sockets += [near, far]
                self._start(self._pump, near, far)
                self._start(self._pump, far, near)

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self.bytes += len(data)
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for each in self._sockets:
            each.close()
