"""Mechanisms drawn at random, for ablations of the auditor: nothing about them was known when it was written.

Usage: python -m benchmarks.auditor_generated [--sizes N ...] [--runs 3] [--seed 1] [--zoo] [--keep FILE] [NAME ...]
       python -m benchmarks.auditor_generated --compare OLD NEW

Runs the auditor that is on the path and appends a line per audit to a file; run it with two versions of the sources
and compare the files. A mechanism is a kind and a seed: the seed draws its parameters and the audit's noise.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from numpy.random import Generator, default_rng

Sampler = Callable[[int, int, Generator], Any]


@dataclass(frozen=True)
class Generated:
    """A mechanism on inputs 0 and 1 that draws many outputs at once."""

    sample: Sampler


def _on_a_grid(values: Any) -> Any:
    """Multiples of 2^-10: the last bits of floats are another question."""
    return np.round(values * 1024.0) / 1024.0


def discrete(rng: Generator) -> Sampler:
    """A random distribution on a few or many values, with random log-ratios."""
    k = int(rng.choice([3, 6, 12, 40, 150, 400]))
    base = rng.dirichlet(np.full(k, rng.choice([0.5, 1.0, 5.0])))
    tilted = base * np.exp(rng.uniform(-1, 1, k) * rng.uniform(0.1, 1.0))
    p = [base, tilted / tilted.sum()]
    return lambda x, n, noise: noise.choice(k, n, p=p[x]).astype(float)


def laplaces(rng: Generator) -> Sampler:
    """A vector with Laplace noise, each field moved by a part of the sensitivity."""
    d = int(rng.integers(1, 12))
    shift = rng.dirichlet(np.ones(d)) * rng.uniform(0.1, 2.0) * rng.choice([-1, 1], d)
    return lambda x, n, noise: _on_a_grid(noise.laplace(size=(n, d)) + x * shift)


def gaussians(rng: Generator) -> Sampler:
    """A vector with Gaussian noise."""
    d = int(rng.integers(1, 8))
    shift = rng.normal(size=d)
    shift *= rng.uniform(0.1, 0.8) / np.linalg.norm(shift)
    return lambda x, n, noise: _on_a_grid(noise.normal(size=(n, d)) + x * shift)


def noisy_max(rng: Generator) -> Sampler:
    """The place of the largest of some noisy counts, perhaps with its value."""
    k, epsilon, shown = int(rng.integers(2, 9)), rng.uniform(0.2, 1.5), bool(rng.random() < 0.5)
    queries = [np.zeros(k), rng.choice([-1.0, 1.0], k)]

    def sample(x: int, n: int, noise: Generator) -> Any:
        noisy = queries[x] + noise.laplace(0, 2 / epsilon, (n, k))
        place = noisy.argmax(axis=1).astype(float)
        return np.stack([place, _on_a_grid(noisy.max(axis=1))], axis=1) if shown else place

    return sample


def flag_and_real(rng: Generator) -> Sampler:
    """A randomized flag, and a noisy value whose meaning depends on it."""
    keep, shift = rng.uniform(0.5, 0.7), rng.uniform(0.3, 1.0)

    def sample(x: int, n: int, noise: Generator) -> Any:
        flag = (noise.random(n) < (keep if x else 1 - keep)).astype(float)
        return np.stack([flag, _on_a_grid(noise.laplace(size=n) + x * shift * (2 * flag - 1))], axis=1)

    return sample


def behind_a_coin(rng: Generator) -> Sampler:
    """One of some fields leaks; public coins of the same output say which."""
    d, shift = int(rng.integers(2, 5)), rng.uniform(0.5, 1.5)

    def sample(x: int, n: int, noise: Generator) -> Any:
        which = noise.integers(d, size=n)
        values = noise.laplace(size=(n, d))
        values[np.arange(n), which] += x * shift
        return np.column_stack([which, _on_a_grid(values)])

    return sample


def geometric(rng: Generator) -> Sampler:
    """Two-sided geometric noise, perhaps clamped."""
    p, reach = 1 - math.exp(-rng.uniform(0.1, 1.5)), int(rng.choice([2, 5, 1000]))
    return lambda x, n, noise: np.clip(x + noise.geometric(p, n) - noise.geometric(p, n), -reach, reach).astype(float)


def atom(rng: Generator) -> Sampler:
    """Continuous noise with one value that has a probability of its own, common or rare."""
    share, ratio = 10 ** rng.uniform(-3, -0.3), math.exp(rng.uniform(0.3, 2.0))

    def sample(x: int, n: int, noise: Generator) -> Any:
        hit = noise.random(n) < (share if x else share / ratio)
        return np.where(hit, 0.25, _on_a_grid(noise.normal(0.1 * x, 1, n)))

    return sample


def labels(rng: Generator) -> Sampler:
    """Two labels with a joint distribution whose margins say little."""
    k = int(rng.integers(3, 15))
    base = rng.dirichlet(np.ones(k * k))
    tilted = base * np.exp(rng.normal(size=k * k) * rng.uniform(0.1, 0.5))
    p = [base, tilted / tilted.sum()]
    return lambda x, n, noise: np.stack(np.divmod(noise.choice(k * k, n, p=p[x]), k), axis=1).astype(float)


def shared_noise(rng: Generator) -> Sampler:
    """Fields that share most of their noise: a difference or a sum tells more than either."""
    d, rest, shift = int(rng.integers(2, 6)), rng.uniform(0.1, 0.5), rng.uniform(0.05, 0.3)
    move = shift * rng.choice([-1, 0, 1], d)
    move[0] = shift
    return lambda x, n, noise: _on_a_grid(noise.normal(0, 3, (n, 1)) + noise.laplace(0, rest, (n, d)) + x * move)


def prefix_sums(rng: Generator) -> Sampler:
    """Running sums of noisy steps."""
    d, epsilon = int(rng.integers(3, 16)), rng.uniform(0.2, 1.5)
    move = rng.choice([-1.0, 1.0], d) * epsilon / d
    return lambda x, n, noise: _on_a_grid(np.cumsum(noise.laplace(size=(n, d)) + x * move, axis=1))


def mixture(rng: Generator) -> Sampler:
    """A value now and then drawn from somewhere else: a subsampled release."""
    rate, shift = rng.uniform(0.02, 0.3), rng.uniform(1.0, 4.0)
    return lambda x, n, noise: _on_a_grid(noise.laplace(size=n) + x * shift * (noise.random(n) < rate))


KINDS: dict[str, Callable[[Generator], Sampler]] = {
    kind.__name__: kind
    for kind in (
        discrete, laplaces, gaussians, noisy_max, flag_and_real, behind_a_coin, geometric, atom, labels, shared_noise,
        prefix_sums, mixture,
    )
}  # fmt: skip


def bound_of(name: str, samples: int, seed: int) -> float:
    """The certified bound of one audit of a generated mechanism, or of an entry of the zoo."""
    from ledgerwood.accounting import ApproxDP, PureDP
    from ledgerwood.verification import audit
    from ledgerwood.verification.zoo import ZOO

    if name in ZOO:
        entry = ZOO[name]
        return audit(entry, entry.claim, pair=entry.pair, samples=samples, seed=seed).epsilon_lower
    rng = default_rng([seed, *name.encode()])
    sampler = KINDS[name](rng)
    claim = ApproxDP(1.0, 1e-5) if name == "gaussians" else PureDP(1.0)
    pair = (0, 1) if rng.random() < 0.5 else (1, 0)
    return audit(Generated(sampler), claim, pair=pair, samples=samples, seed=seed).epsilon_lower


def compare(old: Path, new: Path) -> None:
    """Medians and means of the ratios of two files of bounds, by number of outputs."""
    both = [
        {(d["name"], d["samples"], d["seed"]): d for d in map(json.loads, path.read_text().splitlines())}
        for path in (old, new)
    ]
    print("| outputs | audits | informative | median | geometric mean | > 10 % worse | > 10 % better | CPU |")
    print("|---|---|---|---|---|---|---|---|")
    keys = [key for key in both[0] if key in both[1]]
    groups = [[key for key in keys if key[1] == size] for size in sorted({key[1] for key in keys})] + [keys]
    for group in groups:
        pairs = [(both[0][key]["bound"], both[1][key]["bound"]) for key in group]
        cpu = sum(both[1][key]["cpu"] for key in group) / sum(both[0][key]["cpu"] for key in group)
        logs = np.array(
            [np.clip(np.log(max(b, 1e-9) / max(a, 1e-9)), -1, 1) for a, b in pairs if max(a, b) > 0.02 and a < math.inf]
        )
        size = f"{group[0][1]:,}" if group is not keys else "all"
        print(
            f"| {size} | {len(group)} | {logs.size} | {np.exp(np.median(logs)):.3f} | {np.exp(np.mean(logs)):.3f} "
            f"| {int(np.sum(logs < -math.log(1.1)))} | {int(np.sum(logs > math.log(1.1)))} | {cpu:.2f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="kinds of mechanisms, or entries of the zoo")
    parser.add_argument("--sizes", type=int, nargs="+", default=[2_000, 20_000])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--zoo", action="store_true", help="the entries of the zoo as well")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--compare", type=Path, nargs=2, metavar=("OLD", "NEW"))
    arguments = parser.parse_args()
    if arguments.compare:
        compare(*arguments.compare)
        return
    from ledgerwood.verification.zoo import ZOO

    names = arguments.names or [*KINDS, *(ZOO if arguments.zoo else ())]
    keep: Path | None = arguments.keep
    lines = [json.loads(line) for line in keep.read_text().splitlines()] if keep is not None and keep.exists() else []
    done = {(d["name"], d["samples"], d["seed"]) for d in lines}
    for samples in arguments.sizes:
        for seed in range(arguments.seed, arguments.seed + arguments.runs):
            for name in names:
                if (name, samples, seed) in done:
                    continue
                start = time.process_time()
                bound = bound_of(name, samples, seed)
                line = {"name": name, "samples": samples, "seed": seed, "bound": bound}
                line["cpu"] = round(time.process_time() - start, 3)
                print(json.dumps(line), flush=True)
                if keep is not None:
                    with keep.open("a") as file:
                        file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
