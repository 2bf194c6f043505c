"""What a private number of rows costs in accuracy, by the share of epsilon that its release takes.

python -m benchmarks.row_count [--seeds 20] [--sizes 700 5000 50000] [--laws linear rules number] [--out FILE]

Every table is drawn from a law written down here, and models are tested on 50,000 fresh rows. A fit with a released
count is the fit that declares the released number and has what is left of epsilon, so the released number is taken at
eight quantiles of its distribution, each with the same seeds as the fit that declares the true number: the
difference of the two has little noise of its own. The score is accuracy, or R² for the regression.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from ledgerwood.learners import PrivateClassifier, PrivateRegressor, Schema

SHARES = (0.005, 0.01, 0.02, 0.05)
SIZES = (700, 5_000, 50_000)
EPSILONS = (0.1, 1.0)
LAWS = ("linear", "rules", "number")
QUANTILES = 8
TEST = 50_000


def table(law: str, rows: int, seed: int) -> tuple[Any, Any]:
    """Draw a table: ten numbers in [0, 1] and a label, or a number."""
    rng = np.random.default_rng([seed, rows])
    X = rng.uniform(size=(rows, 10))
    if law == "linear":
        score = 4 * (X[:, :5] - 0.5).sum(axis=1)
    elif law == "rules":
        score = 3 * ((X[:, 0] > 0.3) & (X[:, 1] < 0.6)) - 2 * (X[:, 2] > 0.7) + 2 * np.sin(6 * X[:, 3]) - 0.8
    else:
        value = 0.4 * X[:, 0] + 0.3 * np.sin(5 * X[:, 1]) + 0.2 * X[:, 2] * X[:, 3] + rng.normal(0, 0.1, rows)
        return X, np.clip(value, -1, 1)
    return X, (rng.uniform(size=rows) < 1 / (1 + np.exp(-score))).astype(np.int64)


def released(rows: int, epsilon: float, share: float) -> list[int]:
    """Return the released number at mid-quantiles of its distribution, at least 1."""
    scale, found = 1 / (share * epsilon), []
    for i in range(QUANTILES):
        u = (i + 0.5) / QUANTILES - 0.5
        found.append(max(1, round(rows - math.copysign(scale, u) * math.log1p(-2 * abs(u)))))
    return found


def score(law: str, rows: int, number: int, epsilon: float, seed: int, test: tuple[Any, Any]) -> float:
    """Return the score of one fit that declares a number of rows."""
    kind: Any = PrivateRegressor if law == "number" else PrivateClassifier
    target: dict[str, Any] = {"target_bounds": (-1, 1)} if law == "number" else {"classes": [0, 1]}
    schema = Schema(bounds=dict.fromkeys(range(10), (0, 1)), rows=number, **target)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = kind(epsilon=epsilon, delta=1e-6, schema=schema, random_state=seed).fit(*table(law, rows, seed))
    return float(model.score(*test))


def main() -> None:
    """Write one line for each table, size and epsilon, and print it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--laws", nargs="+", default=LAWS)
    parser.add_argument("--shares", type=float, nargs="+", default=SHARES)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/row_count.jsonl"))
    given = parser.parse_args()
    with given.out.open("a", encoding="utf-8") as file:
        for law, rows, epsilon in product(given.laws, given.sizes, EPSILONS):
            test = table(law, TEST, 10**6)
            seeds = range(given.seeds)
            known = np.array([score(law, rows, rows, epsilon, seed, test) for seed in seeds])
            line: dict[str, Any] = {"law": law, "rows": rows, "epsilon": epsilon, "seeds": given.seeds}
            line["declared"] = round(known.mean(), 4)
            line["spread"] = round(known.std(ddof=1), 4)
            for share in given.shares:
                numbers = released(rows, epsilon, share)
                left = epsilon * (1 - share)
                other = np.array([[score(law, rows, m, left, seed, test) for m in numbers] for seed in seeds])
                lost = known - other.mean(axis=1)
                line[f"lost at {share}"] = [round(lost.mean(), 4), round(lost.std(ddof=1) / math.sqrt(len(lost)), 4)]
            file.write(json.dumps(line) + "\n")
            file.flush()
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
