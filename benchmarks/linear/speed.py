"""Speed: a thousand rounds against interpret's DP-EBM in the same run, linear in n, a round against its two products.

    python -m benchmarks.linear.speed --data DIR [--peers peers/bin/python]

CPU and wall seconds of whole fits on the training rows of a9a, all threads counted; the best of three of ours, one of
interpret's. Writes
``benchmarks/results/linear/speed.json``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.linear.cases import DELTA, RESULTS, Case
from ledgerwood.learners import Schema
from ledgerwood.learners.data.table import read_table
from ledgerwood.learners.linear import BoostedAdaSSPClassifier
from ledgerwood.learners.linear import integer_rows as rows_module
from ledgerwood.learners.linear.encoding import RowEncoder
from ledgerwood.learners.linear.loss import loss_named

ROWS, ROUNDS = 32561, 1000
PEER = """
import sys, time, warnings
from pathlib import Path
warnings.simplefilter("ignore")
from benchmarks.linear.cases import Case
from benchmarks.linear.peers import dp_ebm
import numpy as np
case = Case(Path(sys.argv[1]), "a9a")
wall, cpu = time.perf_counter(), time.process_time()
dp_ebm(case, np.arange(int(sys.argv[2])), 1.0, 0, int(sys.argv[3]))
print(time.process_time() - cpu, time.perf_counter() - wall)
"""


def timed(run: Callable[[], Any]) -> dict[str, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    run()
    return {"cpu": round(time.process_time() - cpu, 3), "wall": round(time.perf_counter() - wall, 3)}


def best(run: Callable[[], Any], times: int) -> float:
    """The least CPU time of one call, in milliseconds."""
    run()
    found = []
    for _ in range(times):
        began = time.process_time()
        run()
        found.append(time.process_time() - began)
    return round(1000 * min(found), 4)


def fits(case: Case) -> dict[str, dict[str, float]]:
    schema = Schema(categories=case.categories, classes=[0, 1])
    found = {}
    kinds: dict[str, dict[str, Any]] = {loss: {"loss": loss} for loss in ("logistic", "squared", "hinge")}
    kinds["squared, not clipped"] = {"loss": "squared", "gradient_clip": 16.0}
    for loss, options in kinds.items():

        def model(rounds: int, options: dict[str, Any] = options) -> BoostedAdaSSPClassifier:
            return BoostedAdaSSPClassifier(
                epsilon=1.0, delta=DELTA, n_rounds=rounds, schema=schema, row_norm=case.row_norm, **options
            )

        model(20).fit(case.X[:2000], case.y[:2000])  # kernels from the cache
        tries = [timed(lambda model=model: model(ROUNDS).fit(case.X[:ROWS], case.y[:ROWS])) for _ in range(3)]  # type: ignore[misc]
        found[loss] = min(tries, key=lambda times: times["wall"])
    return found


def rounds(case: Case) -> list[dict[str, float]]:
    """One exact round, and the two float64 products of the same design, for growing n; one thread."""
    rows_module._WORTH_A_THREAD = 2**60
    whole = read_table(case.X[:ROWS], Schema(categories=case.categories))
    loss, found = loss_named("logistic"), []
    for copies in (1, 2, 4, 8):
        table = replace(whole, values=tuple(np.tile(c, copies) for c in whole.values), rows=ROWS * copies)
        labels = np.tile(case.y[:ROWS].astype(np.int64), copies)
        rows = RowEncoder(table.columns, row_norm=case.row_norm).encode(table, labels, coded=True)
        weights = np.random.default_rng(0).integers(-(2**20), 2**20, (1, rows.columns))
        dense, w, g = rows.dense(), np.ones(rows.columns), np.ones(rows.count)

        def round_(rows: rows_module.IntegerRows = rows, weights: np.ndarray = weights) -> Any:
            return rows.gradient_sum(loss, weights, 2**16)

        first = best(round_, 5)
        for _ in range(rows_module._WORTH_GROUPING):
            round_()
        found.append({
            "rows": rows.count, "first_rounds_ms": first, "later_rounds_ms": best(round_, 15),
            "products_ms": best(lambda dense=dense, w=w, g=g: (dense @ w, g @ dense), 5),  # type: ignore[misc]
        })  # fmt: skip
        del dense
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--peers", type=Path)
    given = parser.parse_args()
    case = Case(given.data, "a9a")
    body: dict[str, Any] = {"rows": ROWS, "rounds": ROUNDS, "ours": fits(case), "one round": rounds(case)}
    if given.peers is not None:
        command = [str(given.peers), "-c", PEER, str(given.data), str(ROWS), str(ROUNDS)]
        cpu, wall = map(float, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
        body["interpret DP-EBM"] = {"cpu": round(cpu, 3), "wall": round(wall, 3)}
        for clock, whole in (("cpu", cpu), ("wall", wall)):
            body[f"ratio ({clock})"] = {loss: round(whole / times[clock], 1) for loss, times in body["ours"].items()}
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "speed.json").write_text(json.dumps(body, indent=1) + "\n")
    print(json.dumps(body, indent=1))


if __name__ == "__main__":
    main()
