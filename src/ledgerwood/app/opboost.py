"""``ledgerwood opboost``: boosting between parties that hold different columns of the same records."""

from __future__ import annotations

import logging
import secrets
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Annotated, Any

import typer

from ledgerwood.app import opboost_config as config
from ledgerwood.app.options import App, Json, examples
from ledgerwood.app.show import Answer
from ledgerwood.app.tables import check_output
from ledgerwood.errors import FormatError, ParameterError

app = App(
    short_help="Train across parties with different columns.",
    help="Vertical boosting between parties: order-preserving desensitisation, then any learner.",
    epilog=examples("ledgerwood opboost demo --rows 2000 --json"),
    no_args_is_help=True,
)
Config = Annotated[Path, typer.Option("--config", "-c", help="The party's TOML file.", exists=True, dir_okay=False)]


@app.command(epilog=examples("ledgerwood opboost serve --config bank/b.toml"))
def serve(file: Config, json: Json = False) -> None:
    """Party B: release the columns once, over mutual TLS, and answer for split values until interrupted."""
    from ledgerwood.learners.vertical import FeatureParty, FeatureServer
    from ledgerwood.learners.vertical.certificates import tls_location

    required = {"name", "listen", "data", "id", "state", "tls", "secrets", "desensitise", "domain"}
    settings = config.Settings.read(file, required)
    listen = tls_location(settings.text("listen"), "listen")
    transformer, budget = config.transformer(settings)
    token, key = config.secrets_of(settings)
    identity = config.identity(settings)

    config.check_columns(settings)

    def table() -> tuple[Any, Any]:
        return config.read_table(settings.path("data"), settings.text("id"), guess_types=False)

    _log_to_stderr()
    party = FeatureParty(settings.text("name"), transformer, table, settings.path("state"), key=key, budget=budget)
    with party, FeatureServer(party, listen, identity, token) as server:
        answer = Answer({"statement": str(party.statement()), "port": server.port})
        answer.say(f"{party.statement()}\nlistening on port {server.port}").print(as_json=json)
        sys.stdout.flush()
        stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        while not stop.wait(0.2):
            pass
        server.shutdown()


@app.command(epilog=examples("ledgerwood opboost train --config lender/a.toml"))
def train(
    file: Config,
    report: Annotated[str | None, typer.Option(metavar="FILE", help="Also write a report.")] = None,
    json: Json = False,
) -> None:
    """Party A: fetch the columns, train, ask for the split values, write the model. Run it again after a crash."""
    from ledgerwood.learners.vertical import FeatureClient, id_digest, train_vertical

    check_output("report", report)
    settings = config.Settings.read(file, {"data", "id", "label", "state", "tls", "secrets", "learner", "party"})
    table, ids = config.read_table(settings.path("data"), settings.text("id"), guess_types=True)
    label = settings.text("label")
    if label not in table.column_names:
        raise ParameterError("label", "name a column of the data", label)
    y, own = table[label].to_numpy(), table.drop_columns([label])
    token, key = config.secrets_of(settings)
    identity, state, digest = config.identity(settings), settings.path("state"), id_digest(ids, key)
    clients = [
        FeatureClient(party.text("location"), identity, token, len(ids), digest, state / f"party-{number}")
        for number, party in enumerate(settings.tables("party", {"location"}))
    ]
    learner = config.learner(settings)
    _log_to_stderr()
    model = train_vertical(learner, y, clients, state, X=own if own.num_columns else None)
    if type(model.learner).__module__.startswith("xgboost"):
        model.to_xgboost().save_model(state / "model.json")
    if report is not None:
        from ledgerwood.app import report as write

        write(model, report)
    counts = [
        {"party": p.party, "columns": len(p.names), "split_values": sum(map(len, p.values))} for p in model.parties
    ]
    lines = [f"{row['party']}: {row['columns']} columns, {row['split_values']} split values" for row in counts]
    answer = Answer({"model": str(state / "model.pkl"), "report": report, "parties": counts})
    answer.say("\n".join([*lines, f"model written to {state / 'model.pkl'}"])).print(as_json=json)


@app.command(epilog=examples("ledgerwood opboost certificates federation bank lender"))
def certificates(
    folder: Annotated[Path, typer.Argument(help="Where to write one folder for each party.")],
    parties: Annotated[list[str], typer.Argument(help="The names of the parties.")],
    host: Annotated[list[str], typer.Option(help="A host under which the parties are reached.")] = ["localhost"],  # noqa: B006
    json: Json = False,
) -> None:
    """Make an authority, and for each party a certificate, the shared token and the shared key of the ids."""
    from ledgerwood.learners.vertical import Authority

    for party in parties:
        if not party or Path(party).name != party:
            raise ParameterError("parties", "be plain names, of which folders are made", party)
        if (folder / party / "key.pem").exists():  # a release is bound to the key of the ids
            raise ParameterError("parties", "have no keys in this folder yet", party, "Choose another folder.")
    authority = Authority("opboost")
    shared = {"token": secrets.token_hex(32), "ids.key": secrets.token_hex(32)}
    for party in parties:
        authority.issue(party, host).write(folder / party)
        for name, text in shared.items():
            path = folder / party / name
            path.touch(mode=0o600)
            path.write_text(text + "\n")
    answer = Answer({"folder": str(folder), "parties": parties})
    answer.say(f"wrote {', '.join(parties)} to {folder}; the authority's own key was not kept").print(as_json=json)


@app.command(epilog=examples("ledgerwood opboost demo --rows 2000 --json"))
def demo(
    rows: Annotated[int, typer.Option(help="Records to make up.")] = 20_000,
    folder: Annotated[Path | None, typer.Option(help="Where to work; a temporary folder unless given.")] = None,
    json: Json = False,
) -> None:
    """Two feature parties and one label party as processes on this machine, with certificates made on the spot."""
    from ledgerwood.app.opboost_demo import run
    from ledgerwood.learners.vertical import Authority

    Authority("opboost")  # fails at once, not in a process of a party, if a package is missing
    if rows < 2:
        raise ParameterError("rows", "be at least 2", rows)
    try:
        found = run(rows, folder, told=sys.stderr if json else sys.stdout)
    except subprocess.CalledProcessError as error:
        raise FormatError(f"{' '.join(error.cmd[3:])} ended with exit code {error.returncode}: see above") from None
    if json:
        Answer(found).print(as_json=True)


def _log_to_stderr() -> None:
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(message)s", force=True)


if __name__ == "__main__":
    from ledgerwood.app.cli import main

    main(["opboost", *sys.argv[1:]])
