"""What the ledger's tests share: mechanisms without data, and a driver for processes that get killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ledgerwood
from ledgerwood.accounting.costs.base import Cost


@dataclass(frozen=True)
class Silent:
    """A mechanism that draws nothing and says nothing."""

    cost: Cost

    def release(self, value: Any, rng: Any = None) -> int:
        return 0


def run_driver(code: str, *arguments: object) -> Any:
    """Run code in a fresh single-threaded process (it may fork and kill) and return the JSON it prints last."""
    source = str(Path(ledgerwood.__file__).resolve().parents[1])
    environment = {**os.environ, "PYTHONPATH": source, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True, text=True, env=environment, cwd=Path(__file__).parent, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
