"""The promises against distributions written anew from Li et al.'s definitions: no code of the mechanisms."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import numpy as np
import pytest
from benchmarks.opboost.split_survival import printed_beta, split_survives
from scipy.stats import chisquare

from ledgerwood.learners.vertical import OrderPreservingTransformer

Distribution = list[list[float]]
METHODS = ["global_map", "laplace_map", "local_map", "adj_map", "grr", "piecewise"]


def normalised(weights: Distribution) -> Distribution:
    return [[weight / math.fsum(row) for weight in row] for row in weights]


def exponential(size: int, epsilon: float) -> Distribution:
    return normalised([[math.exp(-abs(x - o) * epsilon / 2) for o in range(size)] for x in range(size)])


def distribution_of(method: str, n: int, epsilon: float, theta: int, alpha: float) -> Distribution:
    """Row x: the probability of each output for the level x."""
    if method == "global_map":  # Algorithm 1
        return exponential(n, epsilon)
    if method == "laplace_map":  # noise q^|z| (1 - q) / (1 + q), what leaves the domain moved to its ends
        q = math.exp(-epsilon)
        distribution = [[(1 - q) / (1 + q) * q ** abs(x - o) for o in range(n)] for x in range(n)]
        for x, row in enumerate(distribution):
            row[0], row[-1] = q**x / (1 + q), q ** (n - 1 - x) / (1 + q)
        return distribution
    if method == "grr":
        truth = math.exp(epsilon) / (math.exp(epsilon) + n - 1)
        return [[truth if x == o else (1 - truth) / (n - 1) for o in range(n)] for x in range(n)]
    if method == "piecewise":  # a window of w likely outputs that slides with x
        w = max(1, round((n - 1) * math.exp(-epsilon / 2)))
        return normalised([[math.exp(epsilon) if x <= o < x + w else 1.0 for o in range(n - 1 + w)] for x in range(n)])
    parts = [range(start, min(start + theta, n)) for start in range(0, n, theta)]
    near = epsilon if method == "local_map" else epsilon / (alpha + theta / n)
    between = exponential(len(parts), 0.0 if method == "local_map" else alpha * theta * near)
    distribution = []
    for x in range(n):
        row = [0.0] * n
        for j, part in enumerate(parts):
            inside = [math.exp(-abs(min(max(x, part[0]), part[-1]) - o) * near / 2) for o in part]
            chosen = float(j == x // theta) if method == "local_map" else between[x // theta][j]
            for o, weight in zip(part, inside, strict=True):
                row[o] = chosen * weight / math.fsum(inside)
        distribution.append(row)
    return distribution


def loss(first: list[float], second: list[float]) -> float:
    pairs = [(a, b) for a, b in zip(first, second, strict=True) if a != b]
    return max((math.inf if 0 in pair else abs(math.log(pair[0] / pair[1])) for pair in pairs), default=0.0)


@pytest.mark.parametrize("seed", range(36))
def test_every_statement_is_that_of_the_definition(seed: int) -> None:
    rng = random.Random(seed)
    method, n = METHODS[seed % 6], rng.randint(2, 24)
    epsilon, alpha = math.exp(rng.uniform(-4, 1.8)), math.exp(rng.uniform(-2, 2.5))
    theta = rng.randint(2, n)
    distribution = distribution_of(method, n, epsilon, theta, alpha)
    made = OrderPreservingTransformer(
        method, epsilon=epsilon, levels=n, theta=theta, alpha=alpha, split="each", domain={0: (0, 1)},
        sampler=rng.choice(["exponential", "bounded_discrete_laplace"]),
    ).declare([0])  # fmt: skip
    facts = made.privacy_statement().to_dict()["columns"][0]
    for t in range(n):
        largest = max(loss(distribution[x], distribution[y]) for x in range(n) for y in range(x, min(n, x + t + 1)))
        assert (math.inf if facts["profile"][t] is None else facts["profile"][t]) == pytest.approx(largest, rel=1e-9)
        kept = min(
            math.fsum(a * math.fsum(distribution[x + t][o + 1 :]) for o, a in enumerate(distribution[x]))
            for x in range(n - t)
        )  # ties do not count
        assert facts["order"][t] == pytest.approx(kept, abs=1e-10)


@pytest.mark.parametrize("sampler", ["exponential", "bounded_discrete_laplace"])
@pytest.mark.parametrize("method", METHODS)
def test_what_comes_out_follows_the_definition(method: str, sampler: str) -> None:
    n, records = 7, 6000
    made = OrderPreservingTransformer(
        method, epsilon=0.9, levels=n, theta=3, alpha=0.7, domain={0: (0, n - 1)}, sampler=sampler, random_state=4
    ).declare([0])
    for x, row in enumerate(distribution_of(method, n, 0.9, 3, 0.7)):
        outputs = made.release(np.full((records, 1), float(x)))[0]
        counts, expected = np.bincount(outputs, minlength=len(row)), records * np.array(row)
        seen = expected > 0
        assert counts[~seen].sum() == 0
        assert seen.sum() == 1 or chisquare(counts[seen], expected[seen]).pvalue > 1e-5  # seeded: always the same draw


@pytest.mark.parametrize("k", [None, 1, 2, 3])
def test_the_price_of_a_record_is_the_largest_loss_over_all_records_and_outputs(k: int | None) -> None:
    split = {"split": "each"} if k is None else {"split": "sample", "columns_per_record": k}
    domain = {"a": (0, 1), "b": (0, 1), "c": ["x"]}
    own = {"a": 0.7, "b": 0.4, "c": 1.1}
    made = OrderPreservingTransformer("global_map", epsilon=own, levels=3, domain=domain, **split).declare(list(domain))
    bits = {"x": (1 / 2, 1 / (1 + math.exp(1.1)))}  # Pr[bit set] at the value, and elsewhere

    def unary(value: int) -> list[float]:
        at, off = bits["x"]
        set_ = [at if i == value else off for i in range(2)]
        return [math.prod(p if bit else 1 - p for p, bit in zip(set_, out, strict=True))
                for out in itertools.product((0, 1), repeat=2)]  # fmt: skip

    distributions = [exponential(3, 0.7), exponential(3, 0.4), [unary(0), unary(1)]]
    subsets = list(itertools.combinations(range(3), 3 if k is None else k))

    def joint(record: tuple[int, ...]) -> list[float]:
        return [
            math.prod(drawn) / len(subsets)
            for subset in subsets
            for drawn in itertools.product(*(distributions[i][record[i]] for i in subset))
        ]

    records = list(itertools.product(range(3), range(3), range(2)))
    exact = max(loss(joint(x), joint(y)) for x, y in itertools.combinations(records, 2))
    assert made.release_.cost.epsilon(0.0) == pytest.approx(exact, rel=1e-9)
    assert made.privacy_statement().to_dict()["record_epsilon"] == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_a_split_survives_as_often_as_all_outcomes_say(method: str) -> None:
    n, left, right = 5, [0, 1, 1], [3, 4]
    distribution = distribution_of(method, n, 1.3, 2, 0.8)
    outcomes = list(itertools.product(range(len(distribution[0])), repeat=5))
    weigh: Any = lambda outcome: math.prod(distribution[x][o] for x, o in zip(left + right, outcome, strict=True))  # noqa: E731
    exact = math.fsum(weigh(o) for o in outcomes if max(o[:3]) < min(o[3:]))
    tied = math.fsum(weigh(o) * o[:3].count(max(o[:3])) for o in outcomes if max(o[:3]) < min(o[3:]))
    made = OrderPreservingTransformer(method, epsilon=1.3, levels=n, theta=2, alpha=0.8, domain={0: (1, n)}).declare(
        [0]
    )
    mechanism = made.release_.columns[0].mechanism
    sides = mechanism, np.array(left) + 1, np.array(right) + 1
    assert split_survives(*sides) == pytest.approx(exact, rel=1e-9)
    assert printed_beta(*sides) == pytest.approx(
        tied, rel=1e-9
    )  # Li et al.'s Theorem 5.1 counts every tie for the largest
