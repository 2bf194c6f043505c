"""Runs the command line as people do: a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


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


def ask(*words: str, cwd: Path | None = None, code: int = 0) -> Any:
    """Run with ``--json`` and read the answer, strictly."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(run(*words, "--json", cwd=cwd, code=code), parse_constant=refuse)
