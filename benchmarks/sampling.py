"""Sampled Gaussians over the whole box: 60 tasks, certified ends and CPU time, dp-accounting and prv-accountant beside.

    python -m benchmarks.sampling [--redo ledgerwood] [--only ledgerwood] [--seconds 600]
    python -m benchmarks.sampling --goals

Half of the tasks are runs people ask for, half are drawn at random from the box (δ 1e-30…1e-1, σ .3…100, steps up to
1e8, rates 1e-9…1) with a fixed seed. Each task runs in a fresh process, so the first call counts; whoever takes over a
minute of CPU time is stopped. Answers are kept in benchmarks/results/sampling.jsonl, so a run that was stopped goes on
where it was. dp-accounting's answer is that of its default grid (1e-4), its time that of 1e-3 beyond 300 steps.
With ``--goals``: both ends, and the CPU time of a first call and of the next with slightly more noise, beside what was
to be reached.
"""

from __future__ import annotations

import argparse
import json
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

Task = tuple[float, float, int, float]
"""Rate, sigma, steps and delta."""

SEED = 28
SECONDS = 60
FEW_STEPS = 300
MEMORY = 6 * 2**30

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

#: What is priced, with a factor k of the noise; delta; the epsilon and the seconds to reach.
GOALS = (
    ("10**6 * S(G(sigma=0.8 * k), rate=1e-4)", 1e-6, 0.8161, 1.0),
    ("10**5 * S(G(sigma=0.6 * k), rate=1e-6)", 1e-10, 0.0559, 2.0),
    ("10**4 * S(G(sigma=0.8 * k), rate=1e-4)", 1e-6, 0.0795, 0.5),
    ("10**6 * S(G(sigma=1.0 * k), rate=1e-5)", 1e-8, 0.0592, 1.0),
    ("10**4 * S(G(sigma=1.0 * k), rate=0.01)", 1e-5, 6.18772, 0.3),
    ("100 * S(G(sigma=2.0 * k) + Laplace(scale=2.0), rate=0.01)", 1e-5, 0.284, 1.0),
    ("S(S(G(sigma=1.0 * k), rate=0.1), rate=0.1)", 1e-5, 0.199451, 1.0),
    ("(100 * S(G(sigma=1.0 * k), rate=0.1)).group(2)", 1e-5, 16.232, 1.0),
    (
        "sum((200 * S(G(sigma=k + 0.01 * i), rate=0.01) for i in range(1, 50)), 200 * S(G(sigma=k), rate=0.01))",
        1e-5,
        4.4461,
        1.0,
    ),
    (
        "sum((200 * S(G(sigma=k + 0.1 * i), rate=0.01) for i in range(1, 5)), 200 * S(G(sigma=k), rate=0.01))",
        1e-5,
        1.40432,
        0.4,
    ),
    ("10**4 * S(G(sigma=1.0 * k), rate=1e-3)", 1e-5, 0.4760, 0.3),
    ("100 * S(G(sigma=0.8 * k), rate=1e-3)", 1e-6, 0.26034, 0.2),
    ("10**6 * S(G(sigma=0.6 * k), rate=1e-4)", 1e-6, 1.92233, 0.5),
    ("14062 * S(G(sigma=1.1 * k), rate=256 / 60000)", 1e-5, 2.3816, 0.2),
)
#: The run of a sigma, epsilon, delta; the sigma and the seconds to reach.
CALIBRATED = (
    ("14062 * S(G(sigma=s), rate=256 / 60000)", 1.0, 1e-5, 2.0252, 0.5),
    ("100 * S(G(sigma=s), rate=1e-3)", 0.5, 1e-6, 0.7168, 0.5),
    ("1000 * S(G(sigma=s), rate=1e-3)", 0.3, 1e-5, 0.8021, 0.5),
)

GOAL = """
import json, sys, time
from ledgerwood.accounting import Gaussian as G, Laplace, PoissonSubsampled as S, calibrate
what, *numbers = json.loads(sys.argv[1])
start = time.process_time()
if len(numbers) == 1:
    price = eval("lambda k: " + what)
    found, delta = price(1.0).epsilon(numbers[0]), numbers[0]
    first = time.process_time() - start
    price(1.001).epsilon(delta)
    warm = time.process_time() - start - first
    print(json.dumps([found, price(1.0).account(delta).lower, first, warm]))
else:
    run = eval("lambda s: " + what)
    found = calibrate(run, epsilon=numbers[0], delta=numbers[1])
    first = time.process_time() - start
    assert run(found).epsilon(numbers[1]) <= numbers[0]
    calibrate(run, epsilon=numbers[0] * 1.001, delta=numbers[1])
    print(json.dumps([found, 0.0, first, time.process_time() - start - first]))
"""

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


def goals() -> None:
    """Print what was to be reached, as Markdown: both ends (or the sigma), CPU seconds, and whether it is."""
    print("| what | lower | found | to reach | first call | next call | to reach | |")
    print("|---|---|---|---|---|---|---|---|")
    for what, *numbers in (*GOALS, *CALIBRATED):
        *asked, most, limit = numbers
        command = [sys.executable, "-c", GOAL, json.dumps([what, *asked])]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found, lower, first, warm = json.loads(done.stdout)
        reached = found <= most and warm <= limit and (len(asked) > 1 or lower >= 0.99 * found)
        cells = [
            f"`{what}`",
            f"{lower:.6g}",
            f"{found:.6g}",
            f"{most:.6g}",
            f"{first:.2f}",
            f"{warm:.2f}",
            f"{limit:.1f}",
        ]
        print("| " + " | ".join([*cells, "yes" if reached else "no"]) + " |", flush=True)


def drawn(count: int) -> list[Task]:
    """Tasks drawn at random from the box, on logarithmic scales."""
    generator = np.random.default_rng(SEED)
    box = ((-9.0, 0.0), (np.log10(0.3), 2.0), (0.0, 8.0), (-30.0, -1.0))
    tasks = []
    for _ in range(count):
        rate, sigma, steps, delta = (10.0 ** generator.uniform(low, high) for low, high in box)
        tasks.append((float(rate), float(sigma), max(1, round(steps)), float(delta)))
    return tasks


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def ask(program: str, task: Task, *more: str) -> dict[str, Any]:
    """The answer of a program in a fresh process, or why there is none."""
    command = [sys.executable, "-c", program, json.dumps(task), *more]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, preexec_fn=_limited)
    except subprocess.CalledProcessError as error:
        if error.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
            return {"error": f"over {SECONDS} s"}
        return {"error": (error.stderr or "failed").strip().splitlines()[-1][:100]}
    return json.loads(done.stdout.strip().splitlines()[-1])  # type: ignore[no-any-return]


def programs(task: Task) -> dict[str, tuple[str, ...]]:
    """Who is asked, by name: the program and its further arguments."""
    timed = "1e-4" if task[2] <= FEW_STEPS else "1e-3"
    return {
        "ledgerwood": (OURS,),
        "dp-accounting": (THEIRS, "1e-4"),
        "dp-accounting, timed": (THEIRS, timed),
        "prv-accountant": (PRV,),
    }


def kept(path: Path) -> dict[tuple[str, Task], dict[str, Any]]:
    """Answers of earlier runs, by name and task."""
    if not path.exists():
        return {}
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {(line["who"], tuple(line["task"])): line["answer"] for line in lines}


def write(path: Path, answers: dict[tuple[str, Task], dict[str, Any]]) -> None:
    """Keep the answers, in the order of tasks and names."""
    lines = [json.dumps({"task": task, "who": who, "answer": answers[who, task]}) for who, task in sorted(answers)]
    path.write_text("".join(line + "\n" for line in lines))


def table(tasks: list[Task], answers: dict[tuple[str, Task], dict[str, Any]]) -> str:
    """The tasks as Markdown, one line each, and what they add up to."""
    lines = [
        "| rate | σ | steps | δ | lower | ε | CPU s | dp-accounting | CPU s | prv-accountant | |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    seconds = dict.fromkeys(("ledgerwood", "dp-accounting, timed"), 0.0)
    looser = 0
    for task in tasks:
        found = {who: answers.get((who, task), {"error": "not run"}) for who in programs(task)}
        ours, *peers = (found[who].get("epsilon", np.inf) for who in ("ledgerwood", "dp-accounting", "prv-accountant"))
        worse = not ours <= min(peers) * (1 + 1e-6)
        looser += worse
        for who in seconds:
            seconds[who] += found[who].get("seconds", SECONDS)
        cells = [f"{x:.4g}" for x in task]
        cells += [_shown(found["ledgerwood"], key) for key in ("lower", "epsilon", "seconds")]
        cells += [_shown(found["dp-accounting"], "epsilon"), _shown(found["dp-accounting, timed"], "seconds")]
        cells += [_shown(found["prv-accountant"], "epsilon"), "looser" if worse else ""]
        lines.append("| " + " | ".join(cells) + " |")
    ours, theirs = seconds.values()
    lines += [
        "",
        f"CPU in all: {ours:.1f} s, dp-accounting {theirs:.1f} s. Looser than a peer: {looser} of {len(tasks)}.",
    ]
    return "\n".join(lines)


def _shown(answer: dict[str, Any], key: str) -> str:
    if "error" in answer:
        return "–" if key != "epsilon" else answer["error"]
    return f"{answer[key]:.2f}" if key == "seconds" else f"{answer[key]:.6g}"


def main() -> None:
    """Run what has not been run, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=2 * len(ASKED))
    parser.add_argument("--keep", type=Path, default=Path(__file__).parent / "results" / "sampling.jsonl")
    parser.add_argument("--redo", action="append", default=[], help="forget the answers of this one first")
    parser.add_argument("--only", action="append", default=[], help="ask this one only")
    parser.add_argument("--seconds", type=float, default=np.inf, help="stop asking after this long")
    parser.add_argument("--goals", action="store_true", help="print what was to be reached, and what is")
    arguments = parser.parse_args()
    if arguments.goals:
        goals()
        return
    tasks = (list(ASKED) + drawn(len(ASKED)))[: arguments.tasks]
    answers = {key: answer for key, answer in kept(arguments.keep).items() if key[0] not in arguments.redo}
    end = time.monotonic() + arguments.seconds
    for task in tasks:
        for who, program in programs(task).items():
            wanted = not arguments.only or who in arguments.only
            if wanted and (who, task) not in answers and time.monotonic() < end:
                answers[who, task] = ask(program[0], task, *program[1:])
                write(arguments.keep, answers)
    print(table(tasks, answers))


if __name__ == "__main__":
    main()
