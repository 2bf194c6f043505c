"""``serve``: the planner page."""

from __future__ import annotations

from typing import Annotated

import typer

from ledgerwood.app.options import examples
from ledgerwood.errors import MissingDependency


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        short_help="The planner page in a browser.",
        epilog=examples("ledgerwood serve", "ledgerwood serve --port 8080 --open"),
    )(serve)


def serve(
    host: Annotated[str, typer.Option(help="The address to listen on; other machines cannot reach 127.0.0.1.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8765,
    browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Show the planner page. It receives public facts only, never data, and asks nothing of the network."""
    try:
        from ledgerwood.app import server
    except ModuleNotFoundError as error:
        raise MissingDependency(str(error.name), "the planner page", "web") from None

    def announce(address: str) -> None:
        print(address, flush=True)
        if browser:
            import webbrowser

            webbrowser.open(address)

    if host not in ("127.0.0.1", "localhost", "::1"):
        typer.echo(f"ledgerwood: {host} lets other machines ask this server", err=True)
    server.serve(host, port, announce=announce)
