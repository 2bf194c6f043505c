"""Federated training on Flower: a ServerApp and a ClientApp around the coordinator and the nodes.

Flower carries the messages, knows who is connected and starts the processes; masks, noise and accounting are ours.
The server is configured by its run configuration (``task``, ``output``, optionally ``wait`` and ``timeout`` in
seconds), a party by its node configuration (``party``: the path of a TOML file with ``number``, ``task``,
``identity``, ``data``, ``target``, ``ledger``).

:class:`Loopback` runs a federation of real processes on one machine, for demonstrations and tests: one SuperLink, a
SuperNode for each party, one run. A real deployment starts the same commands on different machines, with TLS and
Flower's node authentication (``docs/howto/federate.md``).
"""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from ledgerwood.accounting import Ledger
from ledgerwood.errors import AggregationFailed, LedgerwoodError, ParameterError
from ledgerwood.learners.data.files import open_files, read_training
from ledgerwood.learners.federated.coordinator import Coordinator
from ledgerwood.learners.federated.party import KINDS, REFUSED, Node, Once, Party, Payload
from ledgerwood.learners.federated.task import FederatedTask

__all__ = ["Loopback", "client_app", "identities", "server_app", "write_app", "write_parties"]


_KEY = "ledgerwood"

_LOOK = 0.2

_log = logging.getLogger("ledgerwood.federated")


def node_from(path: str | Path) -> Node:
    """Return the node that a party's TOML file describes; paths in it are relative to the file."""
    here = Path(path).parent
    config = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    missing = {"number", "task", "identity", "data", "target", "ledger"} - config.keys()
    if missing:
        raise ParameterError("party", f"have {', '.join(sorted(missing))}", str(path))
    task = FederatedTask.from_json((here / config["task"]).read_text(encoding="utf-8"))
    identity = Ed25519PrivateKey.from_private_bytes(bytes.fromhex((here / config["identity"]).read_text().strip()))

    def party() -> Party:
        files = open_files(here / config["data"])
        X, y = read_training(files, config["target"], task.schema, columns=[str(name) for name in task.columns])
        ledger = here / config["ledger"]
        opened = Ledger.open(ledger) if ledger.exists() else Ledger.open(ledger, plan=task.plan)
        return Party(task, X, y, ledger=opened)

    return Node(task, int(config["number"]), identity, party, Once(here / "rounds"))


def client_app() -> ClientApp:
    """Return a ClientApp that answers for the party of its node configuration."""
    app = ClientApp()

    @app.query("hello")
    def hello(message: Message, context: Context) -> Message:
        number = node_from(str(context.node_config["party"])).number
        return Message(_record({"number": number}), reply_to=message)

    def answer(kind: str) -> Any:
        def run(message: Message, context: Context) -> Message:
            state = context.state.config_records.get(_KEY)
            before = b"" if state is None else bytes(state["round"])  # type: ignore[arg-type]
            try:
                node = node_from(str(context.node_config["party"]))
                reply, after = node.handle(kind, _payload(message), before)
            except Exception as error:
                _log.exception("party: %s was not answered", kind)
                return Message(_record({REFUSED: _public_reason(error)}), reply_to=message)
            context.state[_KEY] = ConfigRecord({"round": after})
            return Message(_record(reply), reply_to=message)

        return run

    for kind in KINDS:
        app.query(kind)(answer(kind))
    return app


def _public_reason(error: Exception) -> str:
    """Return what the server may see of an error: our own texts hold public metadata, others may quote data."""
    return str(error) if isinstance(error, LedgerwoodError) else f"{type(error).__name__}; see the party's own log"


class FlowerExchange:
    """Asks nodes over a Flower grid; a node that fails or does not answer in time is silent."""

    def __init__(self, grid: Grid, timeout: float) -> None:
        self.grid, self.timeout = grid, timeout
        self.address: dict[int, int] = {}

    def gather(self, expected: int, wait: float) -> list[int]:
        """Return the numbers of the parties that are connected, all of them or those that came within ``wait``."""
        end = time.monotonic() + wait
        while len(found := list(self.grid.get_node_ids())) < expected and time.monotonic() < end:
            time.sleep(1.0)
        for reply in self._exchanged([_message({}, "query.hello", node) for node in found]):
            number = _payload(reply).get("number")
            if isinstance(number, int):  # whether it is that party its signatures will show
                self.address[number] = reply.metadata.src_node_id
        return sorted(self.address)

    def __call__(self, kind: str, messages: Mapping[int, Payload]) -> dict[int, Payload]:
        numbers = {address: number for number, address in self.address.items()}
        sent = [_message(message, f"query.{kind}", self.address[node]) for node, message in messages.items()]
        return {numbers[reply.metadata.src_node_id]: _payload(reply) for reply in self._exchanged(sent)}

    def _exchanged(self, messages: list[Message]) -> list[Message]:
        """Return the replies that come in time. Flower's own loop looks every three seconds; this one more often."""
        waiting = set(self.grid.push_messages(messages))
        end, found = time.monotonic() + self.timeout, []
        while waiting and time.monotonic() < end:
            time.sleep(_LOOK)
            for reply in self.grid.pull_messages(waiting):
                waiting.discard(reply.metadata.reply_to_message_id)
                if not reply.has_error():
                    found.append(reply)
        return found


def server_app() -> ServerApp:
    """Return a ServerApp that trains the task of its run configuration and writes the federation."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        config = context.run_config
        task = FederatedTask.from_json(Path(str(config["task"])).read_text(encoding="utf-8"))
        exchange = FlowerExchange(grid, float(config.get("timeout", 300.0)))
        nodes = exchange.gather(len(task.identities), float(config.get("wait", 60.0)))
        if len(nodes) < task.threshold:
            raise AggregationFailed(f"server: {len(nodes)} parties are connected, {task.threshold} are needed")
        done = Coordinator(task, exchange, progress=lambda n, k: print(f"round {n}: {k} parties", flush=True)).train(
            nodes
        )
        done.save(str(config["output"]))

    return app


def write_app(folder: str | Path, *, task: str | Path, output: str | Path, **config: float) -> Path:
    """Write a Flower app that ``flwr run`` accepts: a server and a client of two lines each.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     app = write_app(folder, task="task.json", output="model.json")
    ...     sorted(tomllib.loads((app / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"])
    ['output', 'task']
    """
    folder = Path(folder)
    (folder / "ledgerwood_federation").mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{name} = {value}\n" for name, value in config.items())
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n\n'
        '[project]\nname = "ledgerwood-federation"\nversion = "1.0.0"\ndescription = "Private federated boosting"\n'
        'license = "Apache-2.0"\ndependencies = []\n\n'
        '[tool.flwr.app]\npublisher = "ledgerwood"\n\n'
        '[tool.flwr.app.components]\nserverapp = "ledgerwood_federation.apps:server"\n'
        'clientapp = "ledgerwood_federation.apps:client"\n\n'
        f"[tool.flwr.app.config]\ntask = {str(task)!r}\noutput = {str(output)!r}\n{lines}",
        encoding="utf-8",
    )
    (folder / "ledgerwood_federation" / "__init__.py").write_text('"""A federated training."""\n', encoding="utf-8")
    (folder / "ledgerwood_federation" / "apps.py").write_text(
        '"""The two sides."""\n\nfrom ledgerwood.learners.federated.flower import client_app, server_app\n\n'
        "server = server_app()\nclient = client_app()\n",
        encoding="utf-8",
    )
    return folder


def _record(payload: Mapping[str, Any]) -> RecordDict:
    return RecordDict({_KEY: ConfigRecord(dict(payload))})


def _payload(message: Message) -> Payload:
    record = message.content.config_records.get(_KEY)
    return {} if record is None else dict(record)


def _message(payload: Mapping[str, Any], kind: str, node: int) -> Message:
    return Message(content=_record(payload), message_type=kind, dst_node_id=node)


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
    """Return an environment in which Flower finds its own helpers, looks for work often, and sends no telemetry."""
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
