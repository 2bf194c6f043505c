"""Options that several commands share, and how numbers are read."""

from __future__ import annotations

import math
from typing import Annotated, Any

import typer


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


def examples(*lines: str) -> str:
    r"""Return the closing lines of a help text; the tests run every line that begins with a dollar sign."""
    return "\b\nExamples:\n" + "\n".join(f"  $ {line}" for line in lines)


def _number(help: str, *names: str, **extra: Any) -> Any:
    return typer.Option(*names, parser=number, metavar="NUMBER", help=help, **extra)


Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Delta = Annotated[float | None, _number("The delta of the guarantee, such as 1e-6 or 1/32561.", "--delta", "-d")]
Epsilon = Annotated[float | None, _number("The epsilon of the guarantee.", "--epsilon", "-e")]
Relation = Annotated[
    str,
    typer.Option("--neighbours", help="add_remove (one record more or less) or replace_one (one record changed)."),
]
