"""Li et al.'s maps: speed (Table 4), order kept (Figure 11) and range queries (Figure 12), on synthetic values.

Run as ``python -m benchmarks.local_maps``; writes ``benchmarks/results/local_maps.json`` and ``.md``. Speed
is CPU time, the least of seven runs, with randomness from the operating system; the first call, which makes
the tables, is apart, and so is compiling the kernels (or loading them from their cache). The yardstick in
the same run is a *float* sampler in numpy: the same inversion with doubles and a seeded generator, neither
exact nor private.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from ledgerwood.mechanisms.local import (
    AdjMap,
    Domain,
    GeneralizedRandomizedResponse,
    GlobalMap,
    LaplaceMap,
    LocalMap,
    Partition,
    PiecewiseMechanism,
    RangeQueries,
    order_probabilities,
    weighted_kendall,
)
from ledgerwood.mechanisms.local.base import OrderedMechanism
from ledgerwood.mechanisms.randomness import SeededSource

RESULTS = Path(__file__).parent / "results"
# Li et al., Table 4: seconds for 100 000 values on [1, 100] at epsilon 0.08 and 1.28 (an i7-9700 at 3 GHz)
TABLE_4 = {
    "Global-map": (1.3874, 1.2764),
    "Local-map(4)": (3.0140, 3.0189),
    "Local-map(10)": (5.8893, 5.7287),
    "Adj-map(4, 0.4)": (4.1220, 3.0685),
    "Adj-map(4, 1)": (4.1060, 2.9861),
    "Adj-map(4, 10)": (4.0763, 3.0060),
    "Adj-map(10, 0.4)": (5.6929, 3.4936),
    "Adj-map(10, 1)": (5.5541, 3.5944),
    "Adj-map(10, 10)": (5.5308, 3.4848),
}


def maps(domain: Domain, epsilon: float, sampling: str) -> Iterator[tuple[str, OrderedMechanism]]:
    yield "Global-map", GlobalMap(domain, epsilon, sampling)  # type: ignore[arg-type]
    yield "Laplace-map", LaplaceMap(domain, epsilon, sampling)  # type: ignore[arg-type]
    for theta in (4, 10):
        even = Partition.even(domain.size, theta)
        yield f"Local-map({theta})", LocalMap(domain, even, epsilon, sampling)  # type: ignore[arg-type]
    for theta in (4, 10):
        for alpha in (0.4, 1, 10):
            mechanism = AdjMap.from_epsilon(domain, theta, epsilon=epsilon, alpha=alpha, sampling=sampling)  # type: ignore[arg-type]
            yield f"Adj-map({theta}, {alpha})", mechanism


def cpu(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def float_sampler(mechanism: OrderedMechanism, values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    cumulative = np.cumsum(mechanism.probabilities(mechanism.domain.values), axis=1)
    rows = mechanism.domain.encode(values)
    drawn = np.empty_like(rows)
    order = np.argsort(rows, kind="stable")
    uniform = rng.random(rows.size)
    for row, some in enumerate(np.split(order, np.searchsorted(rows[order], np.arange(1, mechanism.domain.size)))):
        drawn[some] = np.searchsorted(cumulative[row], uniform[some])
    return drawn


def speed() -> list[dict[str, object]]:
    domain, rng = Domain(1, 100), np.random.default_rng(0)
    values = rng.integers(1, 101, 100_000)
    rows: list[dict[str, object]] = []
    for column, epsilon in enumerate((0.08, 1.28)):
        for sampling in ("exponential", "laplace"):
            for name, mechanism in maps(domain, epsilon, sampling):
                first = cpu(lambda m=mechanism: m.release(values))  # type: ignore[misc]
                best = min(cpu(lambda m=mechanism: m.release(values)) for _ in range(7))  # type: ignore[misc]
                floats = min(cpu(lambda m=mechanism: float_sampler(m, values, rng)) for _ in range(3))  # type: ignore[misc]
                printed = TABLE_4.get(name)
                rows.append(
                    {
                        "epsilon": epsilon,
                        "map": name,
                        "sampling": sampling,
                        "first_call_s": round(first, 3),
                        "cpu_s": round(best, 4),
                        "float_numpy_s": round(floats, 4),
                        "ratio_to_float": round(best / floats, 2),
                        "paper_s": printed[column] if printed else None,
                    }
                )
    return rows


def utility() -> list[dict[str, object]]:
    domain, rng = Domain(1, 100), np.random.default_rng(1)
    uniform = rng.integers(1, 101, 10_000)
    peaked = np.clip(np.rint(rng.normal(30, 8, 10_000)), 1, 100).astype(np.int64)
    starts = rng.integers(1, 101, 10_000)
    stops = rng.integers(starts, 101)
    exact = GlobalMap(domain, 1.0)
    rows: list[dict[str, object]] = []
    for epsilon in (0.08, 0.32, 1.28):
        candidates = [*maps(domain, epsilon, "exponential")]
        candidates += [("GRR", GeneralizedRandomizedResponse(domain, epsilon))]
        candidates += [("Piecewise", PiecewiseMechanism(domain, epsilon))]
        for name, mechanism in candidates:
            row: dict[str, object] = {"epsilon": epsilon, "map": name}
            row["exact_epsilon_1"] = round(mechanism.profile.epsilon(1), 4)
            for label, values in (("uniform", uniform), ("peaked", peaked)):
                truth = RangeQueries.from_released(exact, values).answer(starts, stops)
                kendall, raw, likely = [], [], []
                for seed in range(5):
                    released = mechanism.release(values, SeededSource(np.random.default_rng(seed)))
                    kendall.append(weighted_kendall(values, released))
                    answers = RangeQueries.most_likely(mechanism, released).answer(starts, stops)
                    likely.append(np.mean((answers - truth) ** 2))
                    if mechanism.outputs.size == domain.size:
                        answers = RangeQueries.from_released(mechanism, released).answer(starts, stops)
                        raw.append(np.mean((answers - truth) ** 2))
                row[f"kendall_{label}"] = round(float(np.mean(kendall)), 4)
                row[f"mse_released_{label}"] = float(f"{np.mean(raw):.3g}") if raw else None
                row[f"mse_likelihood_{label}"] = float(f"{np.mean(likely):.3g}")
            rows.append(row)
    return rows


def expected_order(mechanism: OrderedMechanism) -> float:
    """Concordant less discordant probability, weighted by distance: Li et al.'s Kendall without ties, exactly."""
    kept, distances = order_probabilities(mechanism), range(1, mechanism.domain.size)
    balance = [t * float(np.diagonal(kept, t).sum() - np.diagonal(kept.T, t).sum()) for t in distances]
    return sum(balance) / sum(t * (mechanism.domain.size - t) for t in distances)


def at_equal_privacy() -> list[dict[str, object]]:
    """Each map calibrated to one exact loss: between neighbours, then over the whole domain."""
    domain = Domain(1, 100)
    losses: dict[str, tuple[float, Callable[[OrderedMechanism], float]]] = {
        "epsilon(1) = 0.08": (0.08, lambda m: m.profile.epsilon(1)),
        "whole domain = 5": (5.0, lambda m: m.cost.epsilon(delta=0)),
    }
    rows: list[dict[str, object]] = []
    for label, (target, loss) in losses.items():
        for name in [name for name, _ in maps(domain, 1.0, "laplace") if not name.startswith("Local")]:
            low, high = 1e-6, 50.0
            for _ in range(50):
                middle = (low * high) ** 0.5
                at_most = loss(dict(maps(domain, middle, "laplace"))[name]) <= target
                low, high = (middle, high) if at_most else (low, middle)
            mechanism = dict(maps(domain, low, "laplace"))[name]
            rows.append(
                {
                    "equal": label,
                    "map": name,
                    "parameter_epsilon": round(low, 4),
                    "exact_epsilon_1": round(mechanism.profile.epsilon(1), 4),
                    "exact_whole_domain": round(mechanism.cost.epsilon(delta=0), 3),
                    "expected_order": round(expected_order(mechanism), 4),
                }
            )
    return rows


def table(rows: list[dict[str, object]]) -> str:
    names = list(rows[0])
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    return "\n".join(lines + ["| " + " | ".join(str(row[n]) for n in names) + " |" for row in rows])


def main() -> None:
    domain, value = Domain(1, 3), np.array([1])
    compile_s = cpu(lambda: [GlobalMap(domain, 1.0, s).release(value) for s in ("exponential", "laplace")])
    timed, useful, fair = speed(), utility(), at_equal_privacy()
    RESULTS.mkdir(exist_ok=True)
    results = {
        "compile_or_load_s": round(compile_s, 2),
        "speed": timed,
        "utility": useful,
        "at_equal_privacy": fair,
    }
    (RESULTS / "local_maps.json").write_text(json.dumps(results, indent=1) + "\n")
    text = (
        "# Li et al.'s maps: speed and utility\n\nMade by `python -m benchmarks.local_maps`. 100 000 values on "
        "1..100; CPU seconds on one shared core. Compiling or loading the kernels took "
        f"{compile_s:.2f} s.\n\n## Speed\n\n{table(timed)}\n\n"
        "## Order and range queries\n\n10 000 values on 1..100, uniform (as in Li et al.) or peaked (normal, "
        "mean 30, deviation 8); 10 000 random ranges, five seeds. `exact_epsilon_1` is the exact loss "
        "between neighbours: compare rows where it agrees, not where Li et al.'s epsilon does. The likelihood "
        "corrects the flattening of a peaked distribution; on uniform values there is little to correct and "
        "it may add variance.\n\n"
        f"{table(useful)}\n\n"
        "## Order at equal privacy\n\nEach map calibrated to one exact loss; `expected_order` is the exact "
        "expectation of concordant less discordant pairs, weighted by distance, for uniform values.\n\n"
        f"{table(fair)}\n"
    )
    (RESULTS / "local_maps.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
