"""What the ledger costs per release, and the ratio to OpenDP's privacy filter in the same run.

Run ``python -m benchmarks.ledger`` with OpenDP 0.16 installed (without it the ratio is left out). Overheads are what a
release costs beyond the mechanism's own draw: CPU time of the loop through the ledger minus that of the loop through
the mechanism alone, the least of several runs. The journal's cost is wall time, because fsync waits.
"""

from __future__ import annotations

import itertools
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from ledgerwood.accounting import BoundedRange, Gaussian, Laplace, Ledger, Plan, PureDP, Release

RESULTS = Path(__file__).parent / "results" / "ledger.json"


class Draw:
    """A mechanism whose draw is one normal number."""

    def __init__(self, sigma: float) -> None:
        self.cost = Gaussian(sigma=sigma)
        self._sigma = sigma
        self._rng = np.random.default_rng()

    def release(self, value: float, rng: Any = None) -> float:
        return value + self._rng.normal(0.0, self._sigma)


def cpu_seconds(work: Callable[[], None], repeats: int = 3) -> float:
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def ledger_overhead(releases: int, filter: str, repeats: int) -> float:
    """Microseconds per release beyond the draw, journal off."""
    draw = Draw(1e6)

    def through_ledger() -> None:
        ledger = Ledger(1.0, 1e-6, filter=filter)
        for _ in range(releases):
            ledger.release(draw, 1.0, label="r")

    def alone() -> None:
        for _ in range(releases):
            draw.release(1.0)

    return (cpu_seconds(through_ledger, repeats) - cpu_seconds(alone, repeats)) / releases * 1e6


def last_thousand(releases: int) -> float:
    """Microseconds per release of the last thousand of many, draw included: is it flat?"""
    draw, ledger = Draw(1e6), Ledger(1.0, 1e-6)
    for _ in range(releases - 1000):
        ledger.release(draw, 1.0, label="r")
    return cpu_seconds(lambda: _release_thousand(ledger, [draw] * 1000), 1) * 1e3


def distinct_costs() -> float:
    """Microseconds per release when every release has a cost never seen before."""
    ledger, first = Ledger(1.0, 1e-6), itertools.count(10**6, 1000)
    rounds = iter([[Draw(start + i) for i in range(1000)] for start, _ in zip(first, range(5))])
    return cpu_seconds(lambda: _release_thousand(ledger, next(rounds)), 5) * 1e3


def _release_thousand(ledger: Ledger, draws: Iterable[Draw]) -> None:
    for draw in draws:
        ledger.release(draw, 1.0, label="r")


def journal_wall(releases: int = 300) -> dict[str, float]:
    """Milliseconds of wall time per release with the journal on, and of two bare fsyncs beside it."""
    with tempfile.TemporaryDirectory(dir=os.getcwd()) as folder:
        ledger, draw = Ledger.open(Path(folder) / "budget.jsonl", 1.0, 1e-6), Draw(1e6)
        start = time.perf_counter()
        for _ in range(releases):
            ledger.release(draw, 1.0, label="r")
        journal = (time.perf_counter() - start) / releases * 1e3
        ledger.close()
        handle = os.open(Path(folder) / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        start = time.perf_counter()
        for _ in range(2 * releases):
            os.write(handle, b"x" * 250)
            os.fsync(handle)
        bare = (time.perf_counter() - start) / releases * 1e3
        os.close(handle)
    return {"release_ms": journal, "two_bare_fsyncs_ms": bare}


def opendp_overhead(releases: int) -> float | None:
    """Microseconds per release beyond the draw of OpenDP's zCDP filter; None when OpenDP is not installed."""
    try:
        import opendp.prelude as dp
    except ImportError:
        return None
    dp.enable_features("contrib", "honest-but-curious")
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    measurement = dp.m.make_gaussian(*space, scale=1e6)
    odometer = dp.c.make_fully_adaptive_composition(*space, dp.zero_concentrated_divergence())

    def through_filter() -> None:
        queryable = dp.c.make_privacy_filter(odometer, d_in=1.0, d_out=1.0)(1.0)
        for _ in range(releases):
            queryable(measurement)

    def alone() -> None:
        for _ in range(releases):
            measurement(1.0)

    return (cpu_seconds(through_filter, 2) - cpu_seconds(alone, 2)) / releases * 1e6


def calibration_seconds() -> dict[str, float]:
    """CPU seconds to calibrate a boosting plan, the same at a neighbouring epsilon, and 10 000 releases of 20 kinds."""
    boosting = Plan(
        [
            Release("split", BoundedRange, times=50 * 4, share=0.7),
            Release("leaf", Gaussian, times=50, share=0.3),
        ]
    )
    kinds = (BoundedRange, Gaussian, Laplace, PureDP)
    large = Plan([Release(f"kind {i}", kinds[i % 4], times=500, share=1 + i % 5) for i in range(20)])
    boosting.calibrate(epsilon=0.5, delta=1e-5)  # compiled kernels are loaded
    found = boosting.calibrate(epsilon=1.0, delta=1 / 32561)
    return {
        "boosting_50_trees_depth_4": cpu_seconds(lambda: _drop(boosting.calibrate(epsilon=1.0, delta=1 / 32561))),
        "the_same_again_at_1.02": cpu_seconds(lambda: _drop(found.calibrate(epsilon=1.02, delta=1 / 32561))),
        "10000_releases_of_20_kinds": cpu_seconds(lambda: _drop(large.calibrate(epsilon=1.0, delta=1e-6))),
    }


def _drop(_: object) -> None:
    """Make a function return nothing."""


def main() -> None:
    ledger_overhead(100, "rdp", 1)  # warm
    report: dict[str, Any] = {
        "python": platform.python_version(),
        "overhead_us": {
            str(n): ledger_overhead(n, "rdp", repeats)
            for n, repeats in ((1_000, 9), (10_000, 5), (100_000, 3), (1_000_000, 1))
        },
        "overhead_us_by_filter_at_1000": {f: ledger_overhead(1000, f, 9) for f in ("rdp", "gdp", "zcdp")},
        "last_1000_of_us_with_draw": {str(n): last_thousand(n) for n in (1_000, 100_000, 1_000_000)},
        "distinct_costs_us": distinct_costs(),
        "journal": journal_wall(),
        "calibration_cpu_seconds": calibration_seconds(),
        "opendp_overhead_us": {str(n): opendp_overhead(n) for n in (250, 1000)},
    }
    peer = report["opendp_overhead_us"]["1000"]
    if peer is not None:
        report["times_faster_than_opendp_at_1000"] = peer / report["overhead_us_by_filter_at_1000"]["zcdp"]
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(report, indent=2) + "\n")
    print(RESULTS.read_text())


if __name__ == "__main__":
    main()
