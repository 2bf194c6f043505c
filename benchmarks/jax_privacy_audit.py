"""jax_privacy's bounds on the mechanisms that DP-Sniper was run on, and its one-run bounds beside ours.

An optional script, like ``dp_xgboost_audit``: in an environment of its own,

    pip install jax-privacy numba mpmath
    PYTHONPATH=src python -m benchmarks.jax_privacy_audit

``CanaryScoreAuditor`` takes scores of two inputs and bounds epsilon by Clopper-Pearson intervals at corrected
thresholds. It finds no scores, so it is given good ones: the exact log-likelihood ratio for noise that is added, and
for the sparse vectors the one that the first 15 % of the outputs suggest.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from ledgerwood.verification.auditor.encoding import row_keys
from ledgerwood.verification.training_audit import _gaussian_epsilon, gdp_one_run_bound, one_run_bound
from ledgerwood.verification.zoo import ZOO

OUTPUTS = 2_000_000
LEARN = 300_000
ERROR = 0.01
ENTRIES = ("laplace", "report_noisy_max_3", "svt_4", "noisy_hist_2", "prefix_sum_all_differ", "svt_5")
COUNTS = ((1000, 1000, 700), (1000, 100, 95), (300, 300, 265), (5000, 50, 50))


def scores(name: str, seed: int) -> tuple[Any, Any]:
    """Scores of outputs on either input, larger on the first."""
    entry, rng = ZOO[name], np.random.default_rng(seed)
    first, second = (
        np.asarray(entry.sample(data, OUTPUTS, rng), dtype=float).reshape(OUTPUTS, -1) for data in entry.pair
    )
    if name.startswith("svt"):
        place = np.unique(np.concatenate([row_keys(first), row_keys(second)]), return_inverse=True)[1]
        a, b = place[:OUTPUTS], place[OUTPUTS:]
        counts = [np.bincount(side[:LEARN], minlength=place.max() + 1) + 0.5 for side in (a, b)]
        ratio = np.log(counts[0] / counts[1])
        return ratio[a[LEARN:]], ratio[b[LEARN:]]
    if name == "prefix_sum_all_differ":  # sums of noisy answers: their differences are the noisy answers
        x1, x2 = (np.asarray(data, dtype=float) for data in entry.pair)
        parts = (np.diff(side, prepend=0.0, axis=1) for side in (first, second))
        one, other = ((np.abs(part - x2) - np.abs(part - x1)).sum(axis=1) for part in parts)
        return one, other
    one, other = first[:, 0], second[:, 0]
    return (one, other) if one.mean() >= other.mean() else (-one, -other)


def main() -> None:
    from jax_privacy import auditing

    strategies = {"Bonferroni": auditing.Bonferroni, "Split": lambda: auditing.Split(seed=0)}
    print("entry, strategy: median of five, least, largest, CPU seconds of one")
    for name in ENTRIES:
        found: dict[str, list[tuple[float, float]]] = {strategy: [] for strategy in strategies}
        for seed in range(5):
            one, other = scores(name, seed)
            for strategy, make in strategies.items():
                start = time.process_time()
                auditor = auditing.CanaryScoreAuditor(one, other)
                bound = auditor.epsilon_clopper_pearson(ERROR, 0.0, one_sided=False, threshold_strategy=make())
                found[strategy].append((float(bound), time.process_time() - start))
        for strategy, runs in found.items():
            bounds = sorted(bound for bound, _ in runs)
            print(
                f"{name}, {strategy}: {bounds[2]:.4f}, {bounds[0]:.4f}, {bounds[-1]:.4f}, {min(s for _, s in runs):.1f}"
            )
    print("one run (canaries, guesses, right): theirs and ours at delta = 1e-5, theirs and ours for Gaussian DP")
    for m, k, v in COUNTS:
        theirs = [f(0, m, k, v, ERROR, 1e-5) for f in (auditing._epsilon_one_run, auditing._epsilon_one_run_fdp)]
        mu = gdp_one_run_bound(m, k, v, confidence=1 - ERROR)
        ours = one_run_bound(m, k, v, delta=1e-5, confidence=1 - ERROR), _gaussian_epsilon(mu, 1e-5)
        print(f"{(m, k, v)}: {theirs[0]:.4f} {ours[0]:.4f}, {theirs[1]:.4f} {ours[1]:.4f}")


if __name__ == "__main__":
    main()
