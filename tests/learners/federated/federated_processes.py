"""Parties and a server as real processes on loopback, over a transport of a page: for tests that kill them.

A party process answers one request per connection with the node of its TOML file, exactly as it would behind Flower.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Client, Listener
from pathlib import Path
from typing import Any

from ledgerwood.errors import LedgerwoodError
from ledgerwood.learners.federated.coordinator import Coordinator
from ledgerwood.learners.federated.party import REFUSED, Payload
from ledgerwood.learners.federated.task import FederatedTask

_spawn = multiprocessing.get_context("forkserver")
_spawn.set_forkserver_preload(["federated_warm"])
# The fork server finds modules by the environment alone, and skips silently what it cannot find.
os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])


def serve(party: str, told: Any) -> None:
    """Answer requests for ever: the body of a party's process."""
    from ledgerwood.learners.federated.flower import _public_reason, node_from

    state = b""
    with Listener(("127.0.0.1", 0)) as listener:
        told.send(listener.address[1])
        while True:
            with suppress(EOFError, OSError), listener.accept() as connection:
                kind, message = connection.recv()
                try:
                    reply, state = node_from(party).handle(kind, message, state)
                except Exception as error:
                    reply = {REFUSED: _public_reason(error)}
                connection.send(reply)


def coordinate(task: str, ports: dict[int, int], output: str) -> None:
    """Train and write the model, or the error: the body of a server's process."""
    told = Path(output)
    try:
        done = Coordinator(FederatedTask.from_json(Path(task).read_text()), Loopback(ports), progress=note(told))
        done.train(ports).save(output)
    except LedgerwoodError as error:
        told.with_suffix(".error").write_text(str(error))
        sys.exit(1)


def note(output: Path) -> Callable[[int, int], None]:
    """Write down each opened round."""
    return lambda done, parties: output.with_suffix(".rounds").write_text(f"{done} {parties}") and None


@dataclass
class Loopback:
    """An exchange: one connection per request; ``before`` and ``after`` are told what happens when."""

    ports: Mapping[int, int]
    patience: Callable[[str, int], float] = lambda kind, node: 120.0
    before: Callable[[str, int], None] = lambda kind, node: None
    after: Callable[[str, int], None] = lambda kind, node: None

    def __call__(self, kind: str, messages: Mapping[int, Payload]) -> dict[int, Payload]:
        asked: dict[int, Any] = {}
        for node, message in messages.items():
            self.before(kind, node)
            with suppress(OSError, EOFError):
                asked[node] = Client(("127.0.0.1", self.ports[node]))
                asked[node].send((kind, message))
            self.after(kind, node)
        replies = {}
        for node, connection in asked.items():
            with suppress(OSError, EOFError), connection:
                if connection.poll(self.patience(kind, node)):
                    replies[node] = connection.recv()
        return replies


@dataclass
class Parties:
    """Party processes; ``with Parties(...) as net: Coordinator(task, net.exchange()).train(...)``."""

    files: Mapping[int, Path]
    ports: dict[int, int] = field(default_factory=dict)
    running: dict[int, Any] = field(default_factory=dict)

    def __enter__(self) -> Parties:
        told = {}
        for number, file in self.files.items():
            told[number], theirs = _spawn.Pipe()
            self.running[number] = _spawn.Process(target=serve, args=(str(file), theirs), daemon=True)
            self.running[number].start()
            theirs.close()
        for number, pipe in told.items():
            with pipe:
                assert pipe.poll(120), f"party {number} did not start"
                self.ports[number] = pipe.recv()
        return self

    def __exit__(self, *exception: object) -> None:
        for number in self.running:
            self.kill(number)

    def signal(self, number: int, name: signal.Signals) -> None:
        """Send a party a signal."""
        os.kill(self.running[number].pid, name)

    def kill(self, number: int) -> None:
        """SIGKILL a party and wait until it is gone."""
        self.running[number].kill()
        self.running[number].join()


def server(task: Path, ports: dict[int, int], output: Path) -> Any:
    """Start a server's process."""
    process = _spawn.Process(target=coordinate, args=(str(task), ports, str(output)), daemon=True)
    process.start()
    return process
