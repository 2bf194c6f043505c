"""The auditor on the classic mechanisms, at 99 % and two million outputs per input, with the pair given.

Usage: python -m benchmarks.auditor [--runs 5] [--samples 2000000] [NAME ...]

Prints a markdown table: the median certified bound, DP-Sniper's bound measured on the same mechanisms at the same
confidence and number of outputs, and the CPU time of one audit (one thread).
"""

from __future__ import annotations

import argparse
import os
import time

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(DP_SNIPER), help="entries of the zoo")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--samples", type=int, default=2_000_000)
    arguments = parser.parse_args()

    import numpy as np

    from ledgerwood.verification import audit
    from ledgerwood.verification.zoo import ZOO

    print("| mechanism | certified, median | least | largest | DP-Sniper | CPU s | DP-Sniper CPU s |")
    print("|---|---|---|---|---|---|---|")
    for name in arguments.names:
        entry = ZOO[name]
        bounds, times = [], []
        for seed in range(arguments.runs):
            start = time.process_time()
            report = audit(entry, entry.claim, pair=entry.pair, samples=arguments.samples, seed=seed)
            times.append(time.process_time() - start)
            bounds.append(report.epsilon_lower)
        peer, peer_time = DP_SNIPER.get(name, (float("nan"), float("nan")))
        print(
            f"| {name} | {np.median(bounds):.4f} | {min(bounds):.4f} | {max(bounds):.4f} | {peer:.4g} "
            f"| {min(times):.1f} | {peer_time:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
