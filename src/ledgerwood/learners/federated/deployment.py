"""A federation of real processes on loopback: one SuperLink, a SuperNode for each party, one run.

For demonstrations and tests. A real deployment starts the same commands on different machines, with TLS and Flower's
node authentication (``docs/howto/federate.md``).
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ledgerwood.errors import AggregationFailed
from ledgerwood.learners.federated.flower import write_app
from ledgerwood.learners.federated.task import FederatedTask

__all__ = ["Loopback", "identities", "write_parties"]


def identities(count: int) -> tuple[dict[int, Ed25519PrivateKey], dict[int, str]]:
    """Return fresh identity keys of parties 1 .. count, and the roster of their public halves.

    >>> keys, roster = identities(3)
    >>> list(keys), len(bytes.fromhex(roster[1]))
    ([1, 2, 3], 32)
    """
    keys = {number: Ed25519PrivateKey.generate() for number in range(1, count + 1)}
    return keys, {number: key.public_key().public_bytes_raw().hex() for number, key in keys.items()}


def write_parties(
    folder: str | Path, task: FederatedTask, keys: Mapping[int, Ed25519PrivateKey], data: Mapping[int, str], target: str
) -> dict[int, Path]:
    """Write each party's folder: its copy of the task, its identity (mode 0600), and its TOML file.

    >>> import tempfile
    >>> from ledgerwood.learners import Schema
    >>> keys, roster = identities(2)
    >>> schema = Schema(bounds={"age": (0, 100)}, classes=[0, 1])
    >>> task = FederatedTask(schema, ("age",), roster, threshold=2, rows=1000, recipe="tr_cyc")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = write_parties(folder, task, keys, {1: "rows.csv", 2: "rows.parquet"}, target="income")
    ...     sorted(file.name for file in written[2].parent.iterdir())
    ['identity.key', 'party.toml', 'task.json']
    """
    written = {}
    for number, key in keys.items():
        here = Path(folder) / f"party-{number}"
        here.mkdir(parents=True, exist_ok=True)
        (here / "task.json").write_text(task.to_json(), encoding="utf-8")
        secret = here / "identity.key"
        secret.touch(mode=0o600)
        secret.write_text(key.private_bytes_raw().hex(), encoding="utf-8")
        written[number] = here / "party.toml"
        written[number].write_text(
            f'number = {number}\ntask = "task.json"\nidentity = "identity.key"\ndata = "{data[number]}"\n'
            f'target = "{target}"\nledger = "ledger.jsonl"\n',
            encoding="utf-8",
        )
    return written


@dataclass
class Loopback:
    """SuperLink and SuperNodes as child processes; ``with Loopback(...) as f: f.train(...)``."""

    folder: Path
    parties: Mapping[int, Path]
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    ports: tuple[int, ...] = ()

    def __enter__(self) -> Loopback:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.ports = _free_ports(1 + len(self.parties))
        link, *nodes = self.ports
        self._start(
            "superlink", "flower-superlink", "--insecure", "--disable-runtime-dependency-installation",
            "--port", str(link),
        )  # fmt: skip
        _wait_for(link)
        for port, (number, party) in zip(nodes, self.parties.items()):
            self._start(
                f"supernode-{number}", "flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{link}",
                "--port", str(port), "--node-config", f'party="{party}"',
            )  # fmt: skip
        return self

    def __exit__(self, *exception: object) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=20)
            with suppress(ProcessLookupError):  # the processes that Flower started for its apps
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def kill(self, name: str) -> None:
        """SIGKILL one of the processes and all that it started."""
        os.killpg(self.processes[name].pid, signal.SIGKILL)
        self.processes[name].wait()

    def run(self, app: Path, timeout: float) -> str:
        """Submit a Flower app, wait for its end and return its log."""
        home = self.folder / "flwr-home"
        home.mkdir(exist_ok=True)
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "loopback"\n\n[superlink.loopback]\naddress = "127.0.0.1:{self.ports[0]}"\n'
            f"insecure = true\n",
            encoding="utf-8",
        )
        environment = {**_environment(), "FLWR_HOME": str(home), "NO_COLOR": "1"}
        done = subprocess.run(
            [_command("flwr"), "run", str(app), "loopback", "--stream"],
            env=environment, capture_output=True, text=True, timeout=timeout, check=False,
        )  # fmt: skip
        log = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
        if done.returncode:
            raise AggregationFailed(f"flwr run ended with {done.returncode}: {log[-2000:]}")
        return log

    def train(self, task: Path, output: Path, *, timeout: float = 600.0) -> str:
        """Train the task and write the federation; return the log. A run without an output is an error."""
        app = write_app(self.folder / "app", task=task, output=output)
        log = self.run(app, timeout)
        if not output.exists():
            raise AggregationFailed(f"the run ended without a model: {log[-2000:]}")
        return log

    def _start(self, name: str, command: str, *arguments: str) -> None:
        log = (self.folder / f"{name}.log").open("wb")
        with log:
            self.processes[name] = subprocess.Popen(
                [_command(command), *arguments], env=_environment(), stdout=log, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip


def _environment() -> dict[str, str]:
    """Return an environment in which Flower finds its own helpers, looks for work often, and tells no one else."""
    here = str(Path(sys.executable).parent)
    return {
        **os.environ,
        "PATH": os.pathsep.join((here, os.environ.get("PATH", ""))),
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1",
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
    }


def _command(name: str) -> str:
    found = Path(sys.executable).parent / name
    return str(found) if found.exists() else name


@contextmanager
def _listening() -> Iterator[socket.socket]:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        yield found


def _free_ports(count: int) -> tuple[int, ...]:
    with ExitStack() as stack:
        return tuple(stack.enter_context(_listening()).getsockname()[1] for _ in range(count))


def _wait_for(port: int, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1):
                return
        except OSError:
            time.sleep(0.2)
    raise AggregationFailed("the SuperLink did not start; see its log")
