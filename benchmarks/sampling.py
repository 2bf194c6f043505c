"""Sampled Gaussians over the whole box: 60 tasks, certified ends and CPU time, dp-accounting and prv-accountant beside.

    python -m benchmarks.sampling [--tasks 60] [--peers]

Half of the tasks are runs people ask for, half are drawn at random from the box (δ 1e-30…1e-1, σ .3…100, steps up to
1e8, rates 1e-9…1) with a fixed seed. Each task runs in a fresh process, so the first call counts; whoever takes over a
minute is stopped. One line of JSON a task.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from typing import Any

import numpy as np

SEED = 28
SECONDS = 60

#: (rate, sigma, steps, delta)
ASKED = (
    (1e-4, 0.8, 10**6, 1e-6),
    (1e-6, 0.6, 10**5, 1e-10),
    (1e-4, 0.8, 10**4, 1e-6),
    (1e-5, 1.0, 10**6, 1e-8),
    (0.01, 1.0, 10**4, 1e-5),
    (1e-3, 1.0, 9900, 1e-5),
    (1e-3, 1.0, 10**4, 1e-5),
    (1e-3, 1.0, 10100, 1e-5),
    (1e-3, 0.8, 100, 1e-6),
    (1e-4, 0.6, 10**6, 1e-6),
    (256 / 60000, 1.1, 14062, 1e-5),
    (256 / 60000, 2.025, 14062, 1e-5),
    (0.00315973, 0.970739, 20, 1e-5),
    (8.42135e-4, 1.66266, 204, 1e-6),
    (0.01, 1.0, 1000, 1e-5),
    (0.01, 1.0, 1000, 1e-9),
    (0.05, 2.0, 300, 1e-5),
    (0.1, 1.0, 100, 1e-5),
    (0.1, 5.0, 10**4, 1e-7),
    (0.2, 3.0, 50, 1 / 48000),
    (0.5, 4.0, 1000, 1e-6),
    (0.002, 1.0251, 10**4, 1e-5),
    (1e-3, 0.6, 1000, 1e-6),
    (1e-3, 2.0, 10**5, 1e-8),
    (1e-4, 1.0, 10**5, 1e-6),
    (1e-5, 0.7, 10**6, 1e-7),
    (0.03, 0.7, 500, 1e-5),
    (0.004, 0.5, 2000, 1e-5),
    (1e-3, 10.0, 10**7, 1e-6),
    (0.25, 20.0, 10**4, 1e-10),
)

OURS = """
import json, sys, time
start = time.process_time()
from ledgerwood.accounting import Gaussian, PoissonSubsampled
rate, sigma, steps, delta = json.loads(sys.argv[1])
step = PoissonSubsampled(Gaussian(sigma=sigma), rate=rate)
epsilon = (steps * step).epsilon(delta)
seconds = time.process_time() - start
lower = (steps * step).account(delta).lower
print(json.dumps({"epsilon": epsilon, "lower": lower, "seconds": seconds}))
"""

THEIRS = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
start = time.process_time()
from dp_accounting.pld import privacy_loss_distribution as pld
rate, sigma, steps, delta = json.loads(sys.argv[1])
grid = float(sys.argv[2])
law = pld.from_gaussian_mechanism(sigma, sampling_prob=rate, value_discretization_interval=grid).self_compose(steps)
print(json.dumps({"epsilon": law.get_epsilon_for_delta(delta), "seconds": time.process_time() - start}))
"""

PRV = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
start = time.process_time()
from prv_accountant import PRVAccountant, PoissonSubsampledGaussianMechanism
rate, sigma, steps, delta = json.loads(sys.argv[1])
step = PoissonSubsampledGaussianMechanism(noise_multiplier=sigma, sampling_probability=rate)
accountant = PRVAccountant(prvs=[step], max_self_compositions=[steps], eps_error=0.01, delta_error=delta / 1000)
_, _, upper = accountant.compute_epsilon(delta=delta, num_self_compositions=[steps])
print(json.dumps({"epsilon": upper, "seconds": time.process_time() - start}))
"""


def drawn(count: int) -> list[tuple[float, float, int, float]]:
    """Tasks drawn at random from the box, on logarithmic scales."""
    generator = np.random.default_rng(SEED)
    box = ((-9.0, 0.0), (np.log10(0.3), 2.0), (0.0, 8.0), (-30.0, -1.0))
    tasks = []
    for _ in range(count):
        rate, sigma, steps, delta = (10.0 ** generator.uniform(low, high) for low, high in box)
        tasks.append((float(rate), float(sigma), max(1, round(steps)), float(delta)))
    return tasks


def ask(program: str, task: tuple[float, float, int, float], *more: str) -> dict[str, Any]:
    """The answer of a program in a fresh process, or why there is none."""
    command = [sys.executable, "-c", program, json.dumps(task), *more]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    except subprocess.TimeoutExpired:
        return {"error": f"over {SECONDS} s"}
    except subprocess.CalledProcessError as error:
        return {"error": (error.stderr or "failed").strip().splitlines()[-1][:100]}
    return json.loads(done.stdout.strip().splitlines()[-1])  # type: ignore[no-any-return]


def main() -> None:
    """Run the tasks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=60)
    parser.add_argument("--peers", action="store_true")
    arguments = parser.parse_args()
    tasks = (list(ASKED) + drawn(len(ASKED)))[: arguments.tasks]
    total = {"ledgerwood": 0.0, "dp-accounting": 0.0}
    looser = []
    for task in tasks:
        line: dict[str, Any] = {"task": task, "ledgerwood": ask(OURS, task)}
        total["ledgerwood"] += line["ledgerwood"].get("seconds", SECONDS)
        if arguments.peers:
            coarse = "1e-4" if task[2] <= 300 else "1e-3"
            line["dp-accounting"] = ask(THEIRS, task, "1e-4")
            timed = line["dp-accounting"] if coarse == "1e-4" else ask(THEIRS, task, coarse)
            total["dp-accounting"] += timed.get("seconds", SECONDS)
            line["prv-accountant"] = ask(PRV, task)
            best = min(line[peer].get("epsilon", np.inf) for peer in ("dp-accounting", "prv-accountant"))
            if not line["ledgerwood"].get("epsilon", np.inf) <= best * (1 + 1e-6):
                looser.append(task)
        print(json.dumps(line), flush=True)
    print(json.dumps({"seconds": total, "looser than a peer": looser}))


if __name__ == "__main__":
    main()
