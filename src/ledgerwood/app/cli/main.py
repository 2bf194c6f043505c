"""``ledgerwood`` on the command line."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from ledgerwood.errors import LedgerwoodError

BAD_INPUT, INTERRUPTED = 2, 130


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line; bad input is one line on standard error and exit code 2."""
    try:
        import typer

        from ledgerwood.app.cli.commands import build
    except ModuleNotFoundError:
        sys.exit(_complain("the command line needs the package 'typer': pip install 'ledgerwood[cli]'"))
    try:
        command = typer.main.get_command(build())
        code = command.main(list(arguments) if arguments is not None else None, "ledgerwood", standalone_mode=False)
        sys.stdout.flush()
    except typer.Exit as stop:
        code = stop.exit_code
    except (typer.Abort, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
        code = INTERRUPTED
    except BrokenPipeError:  # the reader went away, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except LedgerwoodError as error:
        code = _complain(str(error))
    except ModuleNotFoundError as error:  # an extra that is not installed; a module of our own is a bug
        if error.name is None or error.name.partition(".")[0] == "ledgerwood":
            raise
        code = _complain(f"this needs the package {error.name.partition('.')[0]!r}, which is not installed")
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        code = _complain(f"{where}{error.strerror or error}")
    except Exception as error:
        if not hasattr(error, "format_message"):  # typer's own errors about usage have it, bugs do not
            raise
        message = error.format_message()
        where = getattr(getattr(error, "ctx", None), "command_path", "ledgerwood")
        code = _complain(f"{message}{'' if message.endswith(('.', '?')) else '.'} See {where} --help")
    sys.exit(code if isinstance(code, int) else 0)


def _complain(message: str) -> int:
    print(f"ledgerwood: {' '.join(message.split())}", file=sys.stderr)
    return BAD_INPUT
