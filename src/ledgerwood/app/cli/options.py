"""Options that several commands share, and how numbers are read."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import CommandFunctionType


def number(text: str | float) -> float:
    """Read ``0.5``, ``1e-6`` or ``1/32561``.

    >>> number("1/4")
    0.25
    """
    if not isinstance(text, str):
        return float(text)
    top, slash, bottom = text.partition("/")
    try:
        value = float(top) / float(bottom) if slash else float(top)
    except (ValueError, ZeroDivisionError):
        raise typer.BadParameter(f"{text!r} is not a number such as 0.5, 1e-6 or 1/32561") from None
    if not math.isfinite(value):
        raise typer.BadParameter(f"{text!r} is not a finite number")
    return value


def whole(text: str | int) -> int:
    """Read ``1000000``, ``1_000_000`` or ``1e6``.

    >>> whole("1e6")
    1000000
    """
    try:
        return int(text)
    except ValueError:
        pass
    with contextlib.suppress(ValueError, OverflowError):
        value = float(text)
        if value == int(value):
            return int(value)
    raise typer.BadParameter(f"{text!r} is not a whole number such as 32561 or 1e6")


class Command(TyperCommand):
    """A command whose help shows brackets as they are: typer escapes them for rich even when it prints plain text."""

    def get_help(self, ctx: Any) -> str:
        """Return the help text."""
        return str(super().get_help(ctx)).replace("\\[", "[")


class Group(TyperGroup):
    """A group of commands, with the same help."""

    def get_help(self, ctx: Any) -> str:
        """Return the help text."""
        return str(super().get_help(ctx)).replace("\\[", "[")


class App(typer.Typer):
    """A typer application in plain text."""

    def __init__(self, **given: Any) -> None:
        super().__init__(cls=Group, rich_markup_mode=None, pretty_exceptions_enable=False, **given)

    def command(self, name: str | None = None, **given: Any) -> Callable[[CommandFunctionType], CommandFunctionType]:
        """Add a command."""
        return super().command(name, cls=Command, **given)


def examples(*lines: str) -> str:
    r"""Return the closing lines of a help text; the tests run every line that begins with a dollar sign."""
    return "\b\nExamples:\n" + "\n".join(f"  $ {line}" for line in lines)


def number_option(help: str, *names: str, **extra: Any) -> Any:
    """Return an option that reads a number."""
    return typer.Option(*names, parser=number, metavar="NUMBER", help=help, **extra)


def whole_option(help: str, *names: str, **extra: Any) -> Any:
    """Return an option that reads a whole number."""
    return typer.Option(*names, parser=whole, metavar="INTEGER", help=help, **extra)


def recipe_names(incomplete: str) -> list[str]:
    """Return the recipes that begin so, for the shell's completion."""
    from ledgerwood.app.plan_request import recipe_table

    return [row["name"] for row in recipe_table() if row["name"].startswith(incomplete)]


Rows = Annotated[int, whole_option("The public number of rows.", "--rows")]
Features = Annotated[int, whole_option("The number of columns.", "--features")]
Trees = Annotated[int | None, whole_option("The number of trees; the recipe's own by default.", "--trees")]
Depth = Annotated[int | None, whole_option("The depth of a tree; the recipe's own by default.", "--depth")]
Target = Annotated[float, number_option("The epsilon of the guarantee.", "--epsilon", "-e")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Delta = Annotated[float | None, number_option("The delta of the guarantee, such as 1e-6 or 1/32561.", "--delta", "-d")]
Epsilon = Annotated[float | None, number_option("The epsilon of the guarantee.", "--epsilon", "-e")]
Relation = Annotated[
    str,
    typer.Option("--neighbours", help="add_remove (one record more or less) or replace_one (one record changed)."),
]
