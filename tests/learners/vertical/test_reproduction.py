"""The page of Li et al.'s experiments shows the committed results, and they keep the floors that were asked for."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "benchmarks" / "opboost" / "results"


def rows(name: str) -> list[dict[str, str]]:
    with (RESULTS / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_page_shows_the_committed_results() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.opboost.report", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_the_committed_results_keep_the_floors() -> None:
    assert all(float(row["cpu_seconds"]) < 0.05 for row in rows("speed"))
    for row in rows("training"):  # every byte on the wire, handshake included
        assert float(row["wire_a"]) + float(row["wire_b"]) <= float(row["bound"]), row
    stream = json.loads((RESULTS / "stream.json").read_text())
    assert stream["seconds"] < 5 and stream["wire_bytes"] <= 1.1 * stream["rows"] * stream["columns"]
    repeats = {row["repeats"] for name in ("accuracy", "kendall", "gap") for row in rows(name)}
    assert repeats == {"10"}
