"""``make demo-opboost``: a bank, a shop, and a lender who knows who paid back, as three processes with certificates."""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

PARTY_B = """
name = "{name}"
listen = "grpc+tls://localhost:{port}"
data = "features.parquet"
id = "customer"
state = "state"
[tls]
certificate = "certificate.pem"
key = "key.pem"
authority = "authority.pem"
[secrets]
token = "token"
ids = "ids.key"
[randomize]
method = "{method}"
epsilon = {epsilon}
[domain]
{domain}
"""
PARTY_A = """
data = "labels.parquet"
id = "customer"
label = "target"
state = "state"
[tls]
certificate = "certificate.pem"
key = "key.pem"
authority = "authority.pem"
[secrets]
token = "token"
ids = "ids.key"
[learner]
kind = "xgboost"
n_estimators = 80
learning_rate = 0.1
max_depth = 3
n_jobs = 1
"""
DOMAINS = {
    "bank": {"income": "{ bounds = [0, 100000] }", "debt": "{ bounds = [0, 50000] }"},
    "shop": {"orders": "{ bounds = [0, 40] }", "delivery": '{ categories = ["home", "shop"] }'},
}


def ledgerwood(*arguments: str) -> list[str]:
    """The command that runs ``ledgerwood opboost`` with this interpreter."""
    return [sys.executable, "-m", "ledgerwood", "opboost", *arguments]


def make_tables(rows: int, seed: int = 0) -> dict[str, Any]:
    """Made-up customers: features of the bank and the shop, labels and one feature of the lender."""
    import pyarrow as pa

    rng = np.random.default_rng(seed)
    income, debt = rng.gamma(4.0, 9000.0, rows), rng.gamma(2.0, 6000.0, rows)
    orders, home = rng.poisson(8.0, rows), rng.random(rows) < 0.6
    age = rng.integers(18, 80, rows)
    risk = debt / 6000 - income / 20000 - orders / 8 + 0.5 * home + (age < 30) + rng.normal(0, 0.7, rows)
    customer = [f"c{i:07}" for i in range(rows)]
    delivery = np.where(home, "home", "shop")
    return {
        "bank": pa.table({"customer": customer, "income": income, "debt": debt}),
        "shop": pa.table({"customer": customer, "orders": orders, "delivery": delivery}),
        "lender": pa.table({"customer": customer, "age": age, "target": (risk > 0).astype(np.int64)}),
    }


def write_party(
    folder: Path, name: str, table: Any, *, port: int = 0, method: str = "global_map", epsilon: float = 4.0
) -> Path:
    """A feature party's data and configuration beside its certificate."""
    from pyarrow import parquet

    parquet.write_table(table, folder / "features.parquet")
    domain = "\n".join(f"{column} = {declared}" for column, declared in DOMAINS[name].items())
    path = folder / "b.toml"
    path.write_text(PARTY_B.format(name=name, port=port, method=method, epsilon=epsilon, domain=domain))
    return path


def write_lender(folder: Path, table: Any, ports: Sequence[int]) -> Path:
    """The label party's data and configuration."""
    from pyarrow import parquet

    parquet.write_table(table, folder / "labels.parquet")
    parties = "".join(f'[[party]]\nlocation = "grpc+tls://localhost:{port}"\n' for port in ports)
    path = folder / "a.toml"
    path.write_text(PARTY_A + parties)
    return path


@contextlib.contextmanager
def serving(config: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A serving process and its port; ended on leaving."""
    process = subprocess.Popen(ledgerwood("serve", "-c", str(config)), stdout=subprocess.PIPE, text=True)
    try:
        yield process, wait_for_port(process)
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def wait_for_port(process: subprocess.Popen[str]) -> int:
    """Read what a serving process prints until it says where it listens."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("listening on port "):
            return int(line.rsplit(" ", 1)[1])
    raise RuntimeError("the party did not start; its messages are above")


def run(rows: int, folder: Path | None, *, output: TextIO) -> dict[str, Any]:
    """Set everything up, train across processes, and say what happened on the stream ``output``."""
    with contextlib.ExitStack() as stack:
        place = folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if not (place / "lender" / "key.pem").exists():  # else a demonstration that was begun before goes on
            subprocess.run(ledgerwood("certificates", str(place), "bank", "shop", "lender"), check=True, stdout=output)
        tables = make_tables(rows)
        configs = [write_party(place / name, name, tables[name]) for name in ("bank", "shop")]
        parties = [stack.enter_context(serving(config)) for config in configs]
        lender = write_lender(place / "lender", tables["lender"], [port for _, port in parties])
        started = time.perf_counter()
        subprocess.run(ledgerwood("train", "-c", str(lender)), check=True, stdout=output)
        print(f"trained on {rows} customers of three parties in {time.perf_counter() - started:.1f} s", file=output)
        for process, _ in parties:
            process.terminate()
        print("bank and shop are offline; the lender predicts alone:", file=output)
        return _report(place / "lender" / "state", make_tables(5000, seed=1), output)


def _report(state: Path, fresh: dict[str, Any], output: TextIO) -> dict[str, Any]:
    from ledgerwood.learners.vertical import VerticalModel

    model = VerticalModel.load(state / "model.pkl")
    theirs = {name: fresh[name].drop_columns(["customer"]) for name in ("bank", "shop")}
    predicted = model.predict(fresh["lender"].select(["age"]), theirs)
    truth = fresh["lender"]["target"].to_numpy()
    accuracy, largest = float(np.mean(predicted == truth)), float(max(truth.mean(), 1 - truth.mean()))
    promised = {party.party: str(party.transformer.privacy_statement()) for party in model.parties}
    print(f"accuracy on 5000 new customers: {accuracy:.3f} (the larger class: {largest:.3f})", file=output)
    for name, statement in promised.items():
        print(f"what {name} promised its customers:\n{statement}", file=output)
    return {"accuracy": accuracy, "largest_class": largest, "statements": promised}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the demonstration from the command line."""
    parser = argparse.ArgumentParser(prog="opboost.py", description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000, help="records to make up, at least 2")
    parser.add_argument("--folder", type=Path, help="where to work; a temporary folder unless given")
    chosen = parser.parse_args(arguments)
    run(chosen.rows, chosen.folder, output=sys.stdout)


if __name__ == "__main__":
    main()
