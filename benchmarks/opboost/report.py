"""The tables of docs/benchmarks/opboost.md, Li et al.'s numbers beside ours, from the committed results.

Each is written between two comments of that page; ``--check`` only says whether the page is up to date.

    python -m benchmarks.opboost.report [--check]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.opboost.paper import METHODS, TABLE_4, TABLE_6, TABLE_7, TABLE_8
from benchmarks.opboost.tables import RESULTS, results

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "opboost.md"
TASKS = {"adult": "Adult", "pendigits": "Pen-digits", "powerplant": "Powerplant"}
CASES = [(0.08, 2), (0.08, 4), (1.28, 2), (1.28, 4)]


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def one(frame: Any, number: str, **where: Any) -> float:
    """The number of the one row that fits."""
    for name, value in where.items():
        frame = frame[frame[name] == value]
    assert len(frame) == 1, where
    return float(frame[number].iloc[0])


def table_6() -> str:
    """Ratios to the raw model; for the squared error, the raw model's over the map's."""
    frame = results("accuracy")
    parts = []
    for half, (first, second) in enumerate((CASES[:2], CASES[2:])):
        head = ["Li et al. → ours"]
        head += [f"ε = {e:g}, θ = {t}: {task}" for e, t in (first, second) for task in TASKS.values()]
        rows = []
        for (method, alpha), name in METHODS.items():
            printed = TABLE_6.get((method, alpha), (None,) * 12)[6 * half : 6 * half + 6]
            cells = []
            for place, (epsilon, theta) in enumerate((first, second)):
                for k, task in enumerate(TASKS):
                    width = theta if method in ("local_map", "adj_map") else 0
                    mean = one(frame, "mean", dataset=task, method=method, theta=width, alpha=alpha, epsilon=epsilon)
                    raw = one(frame, "mean", dataset=task, method="raw")
                    ours = f"{raw / mean if task == 'powerplant' else mean / raw:.3f}"
                    theirs = printed[3 * place + k]
                    cells.append(ours if theirs is None else f"{theirs:.3f} → {ours}")
            rows.append([name, *cells])
        parts.append(markdown(head, rows))
    return "\n\n".join(parts)


def table_4() -> str:
    """Seconds, by both samplers."""
    frame = results("speed")
    rows = []
    for (method, theta, alpha), printed in TABLE_4.items():
        label = METHODS[method, alpha].replace("(α = ", f"(θ = {theta}, α = ")
        label += f"(θ = {theta})" if method == "local_map" else ""
        cells = []
        for epsilon, theirs in zip((0.08, 1.28), printed, strict=True):
            key = {"method": method, "theta": theta, "alpha": alpha, "epsilon": epsilon}
            ours = [one(frame, "cpu_seconds", **key, sampler=s) for s in ("exponential", "bounded_discrete_laplace")]
            cells += [f"{theirs:.2f}", *(f"{seconds:.3f}" for seconds in ours)]
        rows.append([label, *cells])
    head = ["seconds"]
    for epsilon in ("0.08", "1.28"):
        head += [f"ε = {epsilon}: Li et al.", "ours, table", "ours, Laplace"]
    return markdown(head, rows)


def table_7() -> str:
    """Bytes on the wire, both directions, TLS included."""
    frame = results("training")
    rows = []
    for k, (task, title) in enumerate(TASKS.items()):
        for (method, alpha), printed in TABLE_7.items():
            key = {"dataset": task, "method": method, "alpha": alpha, "sampler": "exponential"}
            number = {n: one(frame, n, **key) for n in ("cells", "splits", "wire_a", "wire_b", "bound")}
            theirs = ["–", "–"] if task == "powerplant" else [f"{printed[k]:,}", f"{printed[3 + k]:,}"]
            total = number["wire_a"] + number["wire_b"]
            ours = [f"{number[n]:,.0f}" for n in ("cells", "splits", "wire_a", "wire_b")]
            verdict = f"{total:,.0f} {'≤' if total <= number['bound'] else '>'} {number['bound']:,.0f}"
            rows.append([title, METHODS[method, alpha], *theirs, *ours, verdict])
    head = [
        "",
        "",
        "Li et al.: A sends",
        "Li et al.: B sends",
        "cells",
        "splits",
        "A sends",
        "B sends",
        "all of it, and the bound",
    ]
    return markdown(head, rows)


def table_8() -> str:
    """Milliseconds of a whole training."""
    frame = results("training")
    rows = []
    for (method, alpha), printed in TABLE_8.items():
        cells = []
        for half, sampler in enumerate(("bounded_discrete_laplace", "exponential")):
            for k, task in enumerate(TASKS):
                drawn = "exponential" if method == "piecewise" else sampler
                key = {"dataset": task, "method": method, "alpha": alpha, "sampler": drawn}
                ours = f"{1000 * one(frame, 'seconds', **key):.0f}"
                cells.append(ours if task == "powerplant" else f"{printed[3 * half + k]:.0f} → {ours}")
        rows.append([METHODS[method, alpha], *cells])
    head = ["ms, Li et al. → ours"]
    head += [f"{sampler}: {task}" for sampler in ("Laplace", "table") for task in TASKS.values()]
    return markdown(head, rows)


def stream() -> str:
    """One sentence."""
    facts = json.loads((RESULTS / "stream.json").read_text())
    return (
        f"{facts['rows']:,} × {facts['columns']} ordinals between two processes, received, checked, digested and "
        f"synced to disk: **{facts['seconds']:.2f} s** ({facts['client_cpu_seconds']:.2f} s CPU to receive), "
        f"the best of three; {facts['wire_bytes']:,} bytes on the wire for {facts['rows'] * facts['columns']:,} cells."
    )


PARTS = {"table 6": table_6, "table 4": table_4, "table 7": table_7, "table 8": table_8, "stream": stream}


def page(text: str) -> str:
    """The page with every part made anew."""
    for name, make in PARTS.items():
        start, end = f"<!-- {name}: written by benchmarks.opboost.report -->", f"<!-- end of {name} -->"
        before, rest = text.split(start)
        text = f"{before}{start}\n\n{make()}\n\n{end}{rest.split(end)[1]}"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    old = PAGE.read_text()
    new = page(old)
    if parser.parse_args().check and new != old:
        raise SystemExit("docs/benchmarks/opboost.md does not show the committed results: run it without --check")
    PAGE.write_text(new)


if __name__ == "__main__":
    main()
