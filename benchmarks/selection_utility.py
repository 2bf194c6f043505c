"""Exponential mechanism against permute-and-flip: expected loss of score, under pure and under optimal composition.

    python -m benchmarks.selection_utility

k selections share a budget. Under pure accounting each gets epsilon / k. Under optimal composition each gets as much
as the tightest accountant allows at (epsilon, delta): the exponential mechanism is priced as bounded range,
permute-and-flip as pure DP. The expected loss (best score minus selected score, in units of the range sensitivity) is
computed from the exact probabilities, not sampled. Writes ``benchmarks/results/selection_utility.json``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from ledgerwood.accounting import BoundedRange, PermuteAndFlip, calibrate
from ledgerwood.mechanisms import ExponentialMechanism, PermuteAndFlipMechanism

RESULTS = Path(__file__).parent / "results" / "selection_utility.json"
DELTA = 1e-6
BUDGET = 1.0
ROUNDS = (1, 2, 3, 5, 10, 30, 100)
CANDIDATES = 100


def score_sets() -> dict[str, np.ndarray]:
    """Three shapes of the score vector: close together, spread out, one clear winner."""
    rng = np.random.default_rng(0)
    spread = np.sort(rng.exponential(40.0, CANDIDATES))
    winner = np.concatenate((np.zeros(CANDIDATES - 1), [200.0]))
    return {
        "close (normal, sd 5)": rng.normal(0.0, 5.0, CANDIDATES),
        "spread (exponential, 40)": spread,
        "one winner (gap 200)": winner,
    }


def expected_loss(kind: Any, epsilon: float, scores: np.ndarray) -> float:
    p = kind(epsilon=epsilon, range_sensitivity=1.0).probabilities(scores)
    return float(np.sum(p * (scores.max() - scores)))


def per_round(rounds: int) -> dict[str, float]:
    """What one of ``rounds`` selections may spend."""
    budget = {"epsilon": BUDGET, "delta": DELTA, "guess": BUDGET / rounds}
    return {
        "pure": BUDGET / rounds,
        "optimal, exponential": calibrate(lambda e: rounds * BoundedRange(e), **budget),
        "optimal, permute-and-flip": calibrate(lambda e: rounds * PermuteAndFlip(e), **budget),
    }


def main() -> None:
    rows = []
    for rounds in ROUNDS:
        spent = per_round(rounds)
        for name, scores in score_sets().items():
            em, pf = ExponentialMechanism, PermuteAndFlipMechanism
            rows.append(
                {
                    "rounds": rounds,
                    "scores": name,
                    "epsilon per selection": spent,
                    "pure": {
                        "exponential": expected_loss(em, spent["pure"], scores),
                        "permute-and-flip": expected_loss(pf, spent["pure"], scores),
                    },
                    "optimal": {
                        "exponential": expected_loss(em, spent["optimal, exponential"], scores),
                        "permute-and-flip": expected_loss(pf, spent["optimal, permute-and-flip"], scores),
                    },
                }
            )
            print(rounds, name, rows[-1]["pure"], rows[-1]["optimal"])
    document = {"epsilon": BUDGET, "delta": DELTA, "candidates": CANDIDATES, "rows": rows}
    RESULTS.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
