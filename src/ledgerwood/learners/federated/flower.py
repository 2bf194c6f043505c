"""Federated training on Flower: a ServerApp and a ClientApp around the coordinator and the nodes.

Flower carries the messages, knows who is connected and starts the processes; masks, noise and accounting are ours.
The server is configured by its run configuration (``task``, ``output``, optionally ``wait`` and ``timeout`` in
seconds), a party by its node configuration (``party``: the path of a TOML file with ``number``, ``task``,
``identity``, ``data``, ``target``, ``ledger``).

``examples/federated.py`` runs one SuperLink, a SuperNode for each party and one run on one machine. A real deployment
starts the same commands on different machines, with TLS and Flower's node authentication (``docs/howto/federate.md``).
"""

from __future__ import annotations

import logging
import time
import tomllib
from collections.abc import Mapping
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

__all__ = ["client_app", "identities", "server_app", "write_app", "write_parties"]


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
