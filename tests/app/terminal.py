"""Runs the command line as people do: a process of its own."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ledgerwood.app.cli.main import main


def run(*words: str, cwd: Path | None = None, code: int = 0, env: dict[str, str] | None = None) -> str:
    """Run ``ledgerwood``; return standard output, or standard error if it must fail."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-m", "ledgerwood", *words],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "COLUMNS": "120", **(env or {})},
        timeout=300,
    )
    assert done.returncode == code, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    if code == 2:
        assert done.stdout == ""
        assert done.stderr.count("\n") == 1, done.stderr
        return done.stderr
    return done.stdout


def here(*words: str, cwd: Path, code: int = 0) -> str:
    """Run ``ledgerwood`` in this process, which is quicker; return what :func:`run` returns."""
    out, err = io.StringIO(), io.StringIO()
    streams = contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)
    with contextlib.chdir(cwd), streams[0], streams[1], pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == code, f"{stop.value.code}\n{out.getvalue()}\n{err.getvalue()}"
    if code == 2:
        assert out.getvalue() == "" and err.getvalue().count("\n") == 1, err.getvalue()
        return err.getvalue()
    return out.getvalue()


def ask(*words: str, cwd: Path | None = None, code: int = 0) -> Any:
    """Run with ``--json`` and read the answer, strictly."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(run(*words, "--json", cwd=cwd, code=code), parse_constant=refuse)
