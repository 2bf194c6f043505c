"""The auditor on the zoo, at 99 % and two million outputs per input, with the pair given.

Usage: python -m benchmarks.auditor [--runs 20] [--samples 2000000] [--finite] [--keep FILE] [NAME ...]
       python -m benchmarks.auditor --false-flags [--runs 200] [--samples 2000] [--keep FILE] [NAME ...]

Prints a markdown table: the median certified bound, the oracle, DP-Sniper's bound measured on the same mechanisms at
the same confidence and number of outputs, and the least CPU time of one audit (one thread). With ``--finite`` every
entry whose true epsilon is finite is run, else the six that DP-Sniper was run on. ``--keep`` appends each audit to a
file as soon as it is done and skips those that are in it: a long run can be interrupted.

``--false-flags`` audits correct entries instead, at the pair that spends most of their claim, and counts how often they
are flagged at 99 % and at 99.99 %. Its seeds, and those of the medians, were not used to write the auditor.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# DP-Sniper, logistic classifier, 99 %, 2M outputs, both directions: bound and CPU seconds.
DP_SNIPER = {
    "laplace": (0.0715, 5.3),
    "report_noisy_max_3": (0.2078, 5.1),
    "svt_4": (0.1290, 10.9),
    "noisy_hist_2": (4.572, 5.1),
    "prefix_sum_all_differ": (0.4207, 7.9),
    "svt_5": (1.737, 4.1),
}
#: The split's law is not the histograms', from which its privacy is proved: it is estimated from this many outputs.
SIMULATED = {"noisy_hist_then_best_split": 8_000_000}
FIRST_SEED = 6000
#: What was worked on after the others were measured has seeds of its own.
LATER_SEEDS = {"random_split_tree": 9000}
#: Entries whose exact cells are coarser than what an audit sees: means of normal outputs, in standard deviations.
GAUSSIAN = {"analytic_gaussian": 1 / 3.730632, "boost_gaussian_sqrt2": math.sqrt(2) / 3.730632}


def oracle(entry: Any, samples: int, confidence: float = 0.99) -> float:
    """The largest bound of two Clopper-Pearson intervals at the expected counts of any likelihood-ratio event."""
    import numpy as np
    from scipy.special import betaincinv, ndtr

    from ledgerwood.verification.exact.intervals import interval

    if entry.name in GAUSSIAN:
        cuts = np.linspace(-6.0, 6.0, 4001)
        laws = [(ndtr(cuts), ndtr(cuts - GAUSSIAN[entry.name]))]
    else:
        laws = []
        if entry.name in SIMULATED:
            rng, size = np.random.default_rng(0), SIMULATED[entry.name]
            law = [
                sum(np.bincount(entry.sample(data, size // 80, rng), minlength=7) for _ in range(80))
                for data in entry.pair
            ]
            both = [np.array(side) / size for side in law]
        else:
            cells = entry.exact(*entry.pair).cells
            both = [np.array([interval(getattr(cell, side)).midpoint() for cell in cells]) for side in "pq"]
        for p, q in (both, both[::-1]):
            order = np.argsort(q / np.maximum(p, 1e-300), kind="stable")
            laws.append(tuple(np.minimum(np.cumsum(side[order]), 1.0) for side in (p, q)))
    best = -math.inf
    half = (1.0 - confidence) / 2.0
    for p, q in laws:
        x1, x2 = samples * p, samples * q
        low = np.where(x1 > 0, betaincinv(np.maximum(x1, 1e-9), samples - x1 + 1.0, half), 0.0)
        high = np.where(x2 < samples, betaincinv(x2 + 1.0, np.maximum(samples - x2, 1e-9), 1.0 - half), 1.0)
        excess = low - entry.claimed_delta
        best = max(best, float(np.max(np.where(excess > 0, np.log(np.maximum(excess, 1e-300) / high), -math.inf))))
    return best


def flagged_at(entry: Any, seed: int, samples: int) -> float:
    """The largest of two confidences at which a correct entry is flagged; 0 if at none.

    With the same seed, what is not flagged at 99 % is not flagged at 99.99 %.
    """
    from ledgerwood.verification import audit

    found = 0.0
    for confidence in (0.99, 0.9999):
        if not audit(entry, entry.claim, pair=entry.pair, samples=samples, seed=seed, confidence=confidence).flagged:
            break
        found = confidence
    return found


def count_false_flags(names: list[str], runs: int, samples: int, keep: Path | None) -> None:
    """Audit every entry ``runs`` times and print how often it was flagged."""
    from ledgerwood.verification.zoo import ZOO

    lines = [json.loads(line) for line in keep.read_text().splitlines()] if keep is not None and keep.exists() else []
    done = {(d["name"], d["seed"], d["samples"]): d["flagged"] for d in lines}
    places = {name: i for i, name in enumerate(ZOO)}
    print("| correct entry | audits | flagged at 99 % | at 99.99 % |")
    print("|---|---|---|---|")
    for name in names:
        found = []
        for seed in range(10_000 * places[name], 10_000 * places[name] + runs):  # no two audits share a random number
            key = (name, seed, samples)
            if key not in done:
                done[key] = flagged_at(ZOO[name], seed, samples)
                if keep is not None:
                    with keep.open("a") as file:
                        file.write(
                            json.dumps(dict(zip(("name", "seed", "samples", "flagged"), (*key, done[key])))) + "\n"
                        )
            found.append(done[key])
        print(f"| `{name}` | {runs} | {sum(f > 0 for f in found)} | {sum(f > 0.99 for f in found)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="entries of the zoo")
    parser.add_argument("--runs", type=int, help="audits of each entry: 5, or 200 for false flags")
    parser.add_argument("--samples", type=int, help="outputs per input: 2,000,000, or 2,000 for false flags")
    parser.add_argument("--false-flags", action="store_true", help="how often correct entries are flagged")
    parser.add_argument("--finite", action="store_true", help="all entries with a finite epsilon")
    parser.add_argument("--keep", type=Path, help="file of the audits done so far")
    arguments = parser.parse_args()

    import numpy as np

    from ledgerwood.verification import audit
    from ledgerwood.verification.zoo import ZOO

    if arguments.false_flags:
        names = arguments.names or [entry.name for entry in ZOO.values() if entry.correct]
        count_false_flags(names, arguments.runs or 200, arguments.samples or 2_000, arguments.keep)
        return
    runs, samples = arguments.runs or 5, arguments.samples or 2_000_000
    finite = [e.name for e in ZOO.values() if e.known_epsilon is not None and e.known_epsilon < math.inf]
    names = arguments.names or (finite if arguments.finite else list(DP_SNIPER))
    kept = arguments.keep if arguments.keep is not None and arguments.keep.exists() else None
    lines = [json.loads(line) for line in kept.read_text().splitlines()] if kept is not None else []
    done = {(d["name"], d["seed"], d["samples"]): (d["bound"], d["cpu"]) for d in lines}
    print("| mechanism | true ε | median | least – largest | oracle | of it | DP-Sniper | CPU s | its CPU s |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in names:
        entry = ZOO[name]
        first = LATER_SEEDS.get(name, FIRST_SEED)
        seeds = range(first, first + runs)
        for seed in seeds:
            key = (name, seed, samples)
            if key in done:
                continue
            start = time.process_time()
            report = audit(entry, entry.claim, pair=entry.pair, samples=samples, seed=seed)
            done[key] = report.epsilon_lower, time.process_time() - start
            if arguments.keep is not None:
                line = dict(zip(("name", "seed", "samples", "bound", "cpu"), (*key, *done[key])))
                with arguments.keep.open("a") as file:
                    file.write(json.dumps(line) + "\n")
        bounds, times = zip(*(done[name, seed, samples] for seed in seeds))
        peer, peer_time = (f"{value:.4g}" for value in DP_SNIPER[name]) if name in DP_SNIPER else ("–", "–")
        ceiling, median = oracle(entry, samples), float(np.median(bounds))
        print(
            f"| `{name}` | {entry.known_epsilon:.4g} | {median:.4f} | {min(bounds):.4f} – {max(bounds):.4f} "
            f"| {ceiling:.4f} | {100 * median / ceiling:.1f} % | {peer} | {min(times):.1f} | {peer_time} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
