"""Every command put together, and ``serve``, which shows the planner page."""

from __future__ import annotations

import errno
import sys
from typing import Annotated

import typer

from ledgerwood._version import __version__
from ledgerwood.app.cli import audit, budget, opboost, plan, price, schema, train
from ledgerwood.app.cli.options import App, Json, examples
from ledgerwood.app.output import CommandOutput
from ledgerwood.errors import MissingDependency, ParameterError


def build() -> typer.Typer:
    """Return the typer application."""
    app = App(
        name="ledgerwood",
        help="Differential privacy: decide a budget before anyone touches data, and hold everybody to it.",
        epilog=examples("ledgerwood --version", "ledgerwood account '50 Gaussian sigma=45' --delta 1e-6"),
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    )

    @app.callback()
    def root(
        version: Annotated[bool, typer.Option("--version", help="Print the version.", callback=_version)] = False,
    ) -> None:
        pass

    for module in (plan, price, schema, train, budget, audit):
        module.register(app)
    app.command(
        short_help="The planner page in a browser.",
        epilog=examples("ledgerwood serve", "ledgerwood serve --port 8080 --open"),
    )(serve)
    app.add_typer(opboost.app, name="opboost")
    return app


def _version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


def serve(
    host: Annotated[str, typer.Option(help="The address to listen on; other machines cannot reach 127.0.0.1.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8765,
    browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    json: Json = False,
) -> None:
    """Show the planner page. It receives public metadata only, never data, and asks nothing of the network."""
    if not host.strip():  # an empty address would listen to every machine
        raise ParameterError("host", "be an address such as 127.0.0.1", host)
    try:
        from ledgerwood.app.web import server
    except ModuleNotFoundError as error:
        raise MissingDependency(str(error.name), "the planner page", "web") from None

    def announce(address: str) -> None:
        if host not in ("127.0.0.1", "localhost", "::1"):
            print(f"ledgerwood: {host} lets other machines ask this server", file=sys.stderr)
        CommandOutput({"address": address}).say(address).print(as_json=json)
        sys.stdout.flush()
        if browser:
            import webbrowser

            webbrowser.open(address)

    try:
        server.serve(host, port, announce=announce)
    except OSError as error:
        hint = "Take another with --port, or any free one with --port 0" if error.errno == errno.EADDRINUSE else None
        raise ParameterError("address", f"be free to listen on ({error.strerror})", f"{host}:{port}", hint) from None
