"""Every command, put together."""

from __future__ import annotations

from typing import Annotated

import typer

from ledgerwood._version import __version__
from ledgerwood.app import opboost
from ledgerwood.app.commands import audits, budgets, models, pages, plans, prices, schemas
from ledgerwood.app.options import App, examples


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

    for module in (plans, prices, schemas, models, budgets, audits, pages):
        module.register(app)
    app.add_typer(opboost.app, name="opboost")
    return app


def _version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit
