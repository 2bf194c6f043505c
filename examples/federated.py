"""``make demo-federated``: Adult split among three parties, trained over Flower on this machine."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ledgerwood.datasets import load_adult
from ledgerwood.errors import AggregationFailed
from ledgerwood.learners.federated.coordinator import Federation
from ledgerwood.learners.federated.flower import identities, write_app, write_parties
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


if __name__ == "__main__":
    main()
