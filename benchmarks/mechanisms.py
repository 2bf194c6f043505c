"""Speed of the exact mechanisms, as ratios against OpenDP, diffprivlib and numpy, in one run on one core.

    python -m benchmarks.mechanisms --opendp PYTHON --diffprivlib PYTHON [--write]

The two options name interpreters that have the peer installed (``opendp==0.16``; ``diffprivlib==0.6.6`` with
``scikit-learn<1.8``); a peer that is left out is not compared. Times are CPU seconds, the least of several runs.
numpy's generators are inexact (floating-point) and not private: they are the speed to aim at, not a peer. ``--write``
stores the results in ``benchmarks/results/mechanisms.json`` and ``docs/mechanisms/speed.md``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

DRAWS = 1_000_000
PEER_DRAWS = 50_000
RESULTS = Path(__file__).parent / "results" / "mechanisms.json"
PAGE = Path(__file__).parent.parent / "docs" / "mechanisms" / "speed.md"

OPENDP = """
import json, time
import opendp.prelude as dp
dp.enable_features("contrib")
vector = dp.vector_domain(dp.atom_domain(T=int))
zeros = [0] * COUNT
def least(make):
    m = make(); best = 1e9
    for _ in range(3):
        start = time.process_time(); x = m(zeros); best = min(best, time.process_time() - start)
    return best, x
out = {}
for s in (1.0, 45.0, 1e4):
    t, x = least(lambda: dp.m.make_laplace(vector, dp.l1_distance(T=int), scale=s))
    out[f"discrete Laplace {s:g}"] = {"seconds": t, "sample": x}
    t, x = least(lambda: dp.m.make_gaussian(vector, dp.l2_distance(T=float), scale=s))
    out[f"discrete Gaussian {s:g}"] = {"seconds": t, "sample": x}
print(json.dumps(out))
"""

DIFFPRIVLIB = """
import json, random, time
from diffprivlib.mechanisms import Exponential, PermuteAndFlip
out = {}
for n in (10**3, 10**6):
    random.seed(1)
    scores = [50 * random.random() for _ in range(n)]
    for name, kind in (("exponential", Exponential), ("permute-and-flip", PermuteAndFlip)):
        best = 1e9
        for _ in range(5 if n < 10**5 else 2):
            start = time.process_time()
            kind(epsilon=0.1, sensitivity=2.0, utility=scores).randomise()
            best = min(best, time.process_time() - start)
        out[f"{name} {n}"] = best
print(json.dumps(out))
"""

COLD = """
import time
start = time.process_time()
from ledgerwood.mechanisms import DiscreteLaplaceMechanism, GaussianMechanism
imported = time.process_time()
DiscreteLaplaceMechanism(scale=10.0).release(1)
GaussianMechanism(sigma=10.0).release(1.5)
print(imported - start, time.process_time() - imported)
"""


def least(work: Callable[[], Any], repeat: int = 7) -> float:
    best = float("inf")
    for _ in range(repeat):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def peer(interpreter: str | None, code: str) -> dict[str, Any]:
    if interpreter is None:
        return {}
    done = subprocess.run([interpreter, "-c", code], capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def first_calls() -> dict[str, list[float]]:
    """CPU seconds of (import, first release) in a fresh process, without and with compiled kernels in the cache."""
    with tempfile.TemporaryDirectory() as cache:
        env = {**os.environ, "NUMBA_CACHE_DIR": cache}
        runs = [
            subprocess.run([sys.executable, "-c", COLD], capture_output=True, text=True, check=True, env=env).stdout
            for _ in range(2)
        ]
    return {
        "no cache": [float(x) for x in runs[0].split()],
        "cached": [float(x) for x in runs[1].split()],
    }


def agreement(ours: np.ndarray, theirs: np.ndarray) -> float:
    """p-value of the chi-square test that two samples have one law, in about 40 cells."""
    from scipy import stats

    edges = np.unique(np.quantile(np.concatenate((ours, theirs)), np.linspace(0, 1, 41)[1:-1]))
    table = np.array([np.bincount(np.searchsorted(edges, x), minlength=len(edges) + 1) for x in (ours, theirs)])
    return float(stats.chi2_contingency(table[:, table.sum(axis=0) > 0])[1])


def additive(opendp: dict[str, Any]) -> list[dict[str, Any]]:
    from ledgerwood.mechanisms import SystemSource
    from ledgerwood.mechanisms.sampling import draws

    source, generator = SystemSource(), np.random.default_rng()
    inexact = {
        "Laplace": least(lambda: generator.laplace(size=DRAWS)),
        "Gaussian": least(lambda: generator.normal(size=DRAWS)),
    }
    rows = []
    for kind, sampler in (("Laplace", draws.discrete_laplace), ("Gaussian", draws.discrete_gaussian)):
        for s in (1.0, 45.0, 1e4):
            parameter = Fraction(s) if kind == "Laplace" else Fraction(s) ** 2
            sampler(parameter, 1, source)
            ours = least(lambda sampler=sampler, parameter=parameter: sampler(parameter, DRAWS, source))
            row = {
                "what": f"discrete {kind} {s:g}, {DRAWS} draws",
                "seconds": ours,
                "times numpy's inexact float generator": ours / inexact[kind],
            }
            theirs = opendp.get(f"discrete {kind} {s:g}")
            if theirs:
                row["OpenDP seconds (scaled)"] = theirs["seconds"] * DRAWS / PEER_DRAWS
                row["times faster than OpenDP"] = row["OpenDP seconds (scaled)"] / ours
                sample = np.array(theirs["sample"])
                row["p-value of one law with OpenDP"] = agreement(sampler(parameter, 10 * len(sample), source), sample)
            rows.append(row)
    return rows


def rounded() -> list[dict[str, Any]]:
    from ledgerwood.mechanisms import GaussianMechanism, LaplaceMechanism, Sensitivity, SkellamMechanism

    zeros = np.zeros(DRAWS)
    vector = SkellamMechanism(variance=1e4, sensitivity=Sensitivity(l1=1, dimension=DRAWS))
    cases: list[tuple[str, Callable[[], Any]]] = [
        ("GaussianMechanism, sigma 45", lambda: GaussianMechanism(sigma=45.0).release(zeros)),
        ("LaplaceMechanism, scale 45", lambda: LaplaceMechanism(scale=45.0).release(zeros)),
        ("SkellamMechanism, variance 1e4", lambda: vector.release(zeros.astype(np.int64))),
    ]
    rows = []
    for name, work in cases:
        work()
        rows.append({"what": f"{name}, {DRAWS} coordinates", "seconds": least(work, 5)})
    return rows


def selection(diffprivlib: dict[str, float]) -> list[dict[str, Any]]:
    from ledgerwood.mechanisms import ExponentialMechanism, ParallelExponentialMechanism, PermuteAndFlipMechanism

    level = 50 * np.random.default_rng(1).random((64, 7000))
    parallel = ParallelExponentialMechanism(epsilon=0.1, range_sensitivity=4.0)
    rows: list[dict[str, Any]] = [
        {
            "what": "exponential mechanism in 64 parts at once, 7000 candidates each",
            "seconds": least(lambda: parallel.release(level), 30),
        }
    ]
    for name, kind in (("exponential", ExponentialMechanism), ("permute-and-flip", PermuteAndFlipMechanism)):
        for n in (10**3, 10**6):
            scores = 50 * np.random.default_rng(1).random(n)
            m = kind(epsilon=0.1, range_sensitivity=4.0)
            m.release(scores)
            inner = 200 if n < 10**5 else 1
            ours = least(lambda m=m, scores=scores, inner=inner: [m.release(scores) for _ in range(inner)]) / inner
            row = {"what": f"{name} mechanism, {n} candidates", "seconds": ours}
            theirs = diffprivlib.get(f"{name} {n}")
            if theirs:
                row["diffprivlib seconds"] = theirs
                row["times faster than diffprivlib"] = theirs / ours
            rows.append(row)
    return rows


def page(results: dict[str, Any]) -> str:
    """The results as a page of the documentation."""

    def ratio(row: dict[str, Any], name: str) -> str:
        return f"{row[name]:.3g}" if name in row else ""

    cold, warm = (results["first release, CPU seconds [import, release]"][key] for key in ("no cache", "cached"))
    lines = [
        "# Speed of the mechanisms",
        "",
        "Measured by `python -m benchmarks.mechanisms`: CPU seconds on one core, ours and the peers' in one run. All "
        "draws",
        "are exact and use the operating system's randomness. numpy's generators are neither exact nor private.",
        "",
        "| what | ms | times numpy's float generator | times faster than the peer |",
        "|---|---|---|---|",
    ]
    for row in results["rows"]:
        faster = ratio(row, "times faster than OpenDP"), ratio(row, "times faster than diffprivlib")
        name = f"{faster[0]} (OpenDP)" if faster[0] else f"{faster[1]} (diffprivlib)" if faster[1] else ""
        inexact = ratio(row, "times numpy's inexact float generator")
        lines.append(f"| {row['what']} | {1000 * row['seconds']:.3g} | {inexact} | {name} |")
    lines += [
        "",
        f"The first release of a process takes {warm[1]:.1f} s (numba is loaded, kernels come from the cache), and",
        f"{cold[1]:.1f} s the very first time, when they are compiled.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--opendp", help="interpreter that has opendp")
    parser.add_argument("--diffprivlib", help="interpreter that has diffprivlib")
    parser.add_argument("--write", action="store_true", help="store the results")
    options = parser.parse_args()
    calls = first_calls()
    results: dict[str, Any] = {
        "first release, CPU seconds [import, release]": calls,
        "rows": [
            *additive(peer(options.opendp, OPENDP.replace("COUNT", str(PEER_DRAWS)))),
            *rounded(),
            *selection(peer(options.diffprivlib, DIFFPRIVLIB)),
        ],
    }
    text = json.dumps(results, indent=1, default=float)
    print(text)
    if options.write:
        RESULTS.write_text(text + "\n")
        PAGE.write_text(page(results))


if __name__ == "__main__":
    main()
