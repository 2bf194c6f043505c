"""``docs/benchmarks/federated.md`` and its figures, from the results."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.federated.jobs import NOISES, PARTIES, TABLE_5, TABLE_6, TABLES
from benchmarks.papers.maddock import TABLE_5 as TABLE_5_OF_MADDOCK
from benchmarks.papers.maddock import TABLE_6 as MADDOCK_TABLE_6
from benchmarks.papers.tables import lines, table

Found = Mapping[tuple[str, str, str], list[float]]
DOCS = Path(__file__).parents[2] / "docs" / "benchmarks"
HEAD = Path(__file__).parent / "head.md"
NAMES = {"bank": "Bank", "credit1": "Credit 1", "credit2": "Credit 2", "adult": "Adult"}
P2_TABLE_5 = {
    method: tuple(TABLE_5_OF_MADDOCK[problem][i] for problem in NAMES)
    for i, method in enumerate(("IH (s=5)", "Quantiles", "Log", "Uniform"))
}


def write(found: Found) -> None:
    """Write the page and its pictures."""
    pictures = DOCS / "federated"
    pictures.mkdir(exist_ok=True)
    parts = [
        HEAD.read_text(encoding="utf-8").rstrip(),
        _candidates(found),
        _batches(found),
        _noise(found),
        _parties(found),
    ]
    (DOCS / "federated.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    for experiment, methods, paper in (("table5", TABLE_5, P2_TABLE_5), ("table6", TABLE_6, MADDOCK_TABLE_6)):
        _dots(pictures / f"{experiment}.svg", found, experiment, list(methods), paper)
    panels = {}
    for problem in dict.fromkeys(key[1] for key in found if key[0] == "parties"):
        curves = {}
        for name in ("all", "two thirds", "each alone"):
            ys = [_mean(found.get(("parties", problem, f"{name} {n}"), [])) for n in PARTIES]
            curves[name] = (list(PARTIES), ys)
        panels[NAMES[problem]] = curves
    lines(pictures / "parties.svg", panels, "parties", "test AUC, ε = 0.1", log=True)


def _mean(aucs: list[float]) -> float:
    return statistics.mean(aucs) if aucs else math.nan


def _shown(aucs: list[float]) -> str:
    if not aucs:
        return "–"
    spread = f" ({_short(statistics.stdev(aucs), 3)})" if len(aucs) > 1 else ""
    return _short(statistics.mean(aucs)) + spread


def _short(number: float, digits: int = 4) -> str:
    return f"{number:.{digits}f}".removeprefix("0")


def _splits(found: Found, experiment: str) -> str:
    counts = {len(aucs) for key, aucs in found.items() if key[0] == experiment}
    return f"{min(counts)}" if len(counts) == 1 else f"{min(counts)} to {max(counts)}"


def _against_paper(found: Found, experiment: str, paper: Mapping[str, tuple[float, ...]]) -> str:
    rows = []
    for method, numbers in paper.items():
        cells = [
            " / ".join([
                _short(number),
                *(_shown(found.get((experiment, problem, f"{method} {form}"), [])) for form in ("paper", "tight")),
            ])
            for problem, number in zip(TABLES, numbers)
        ]  # fmt: skip
        rows.append([method, *cells])
    return table(["published / ours as published / ours", *(NAMES[problem] for problem in TABLES)], rows)


def _count(cases: Mapping[str, bool]) -> str:
    failed = [name for name, holds in cases.items() if not holds]
    text = f"{len(cases) - len(failed)} of {len(cases)}"
    return text + (f"; not {', '.join(failed)}" if failed else "")


def _each(holds: Callable[[str, str], bool], forms: tuple[str, ...] = ("paper", "tight")) -> str:
    said = {"paper": "as published", "tight": "ours"}
    return _count({f"{NAMES[t]} {said[form]}": holds(t, form) for t in TABLES for form in forms})


def _candidates(found: Found) -> str:
    def auc(problem: str, method: str, form: str) -> float:
        return _mean(found.get(("table5", problem, f"{method} {form}"), []))

    def best(problem: str, form: str) -> bool:
        return auc(problem, "IH (s=5)", form) >= max(auc(problem, m, form) for m in TABLE_5)

    near = _count({
        f"{m} on {NAMES[t]}": abs(auc(t, m, "paper") - number) <= 0.02
        for m, numbers in P2_TABLE_5.items() for t, number in zip(TABLES, numbers)
    })  # fmt: skip
    skewed = _count({
        f"{m} {form}": auc("credit1", m, form) > auc("credit1", "Uniform", form) + 0.03
        for m in ("IH (s=5)", "Quantiles", "Log") for form in ("paper", "tight")
    })  # fmt: skip
    return f"""## Split candidates (Table 5): T = 100, ε = 1

Splits: {_splits(found, "table5")}. Maddock et al.'s quantiles are exact and not private; ours are private quantiles of
a noisy fine histogram.

{_against_paper(found, "table5", P2_TABLE_5)}

![candidates](federated/table5.svg)

- **The published numbers, with the published noise in shares**: within .02 in {near}.
- **On skewed columns (Credit 1) uniform candidates lose**: more than three points to each of the others in {skewed}.
- **IH is the best of all** (Maddock et al.: on three of these four): {_each(best)}.
  Private quantiles and, where columns are skewed, logarithmic candidates are as good or better here, for one release
  instead of five."""


def _batches(found: Found) -> str:
    def auc(problem: str, method: str, form: str) -> float:
        return _mean(found.get(("table6", problem, f"{method} {form}"), []))

    def batch(problem: str, form: str) -> bool:
        return max(auc(problem, f"Batch (B={b})", form) for b in (10, 20)) >= auc(problem, "Newton (B=1)", form)

    def single(problem: str, form: str) -> bool:
        others = max(auc(problem, f"Batch (B={b})", form) for b in (10, 20))
        return auc(problem, "Batch (B=200)", form) >= others - 0.04

    return f"""## Batched updates (Table 6): T = 200, ε = 0.1

Splits: {_splits(found, "table6")}.

{_against_paper(found, "table6", MADDOCK_TABLE_6)}

![batches](federated/table6.svg)

- **A batch of 10 or 20 is at least as good as one tree at a time**, in 20 or 10 rounds instead of 200 (Maddock et al.:
  on three of these four): with the published noise {_each(batch, ("paper",))}; with ours, smaller and with shrinkage,
  {_each(batch, ("tight",))}. The less noise, the more batching is what it costs to have few rounds.
- **One round (B = 200) loses at most .04 against the other batches**: {_each(single)}."""


def _noise(found: Found) -> str:
    rows = []
    for problem in ("adult", "credit1"):
        for epsilon in ("0.1", "1"):
            cells = [_shown(found.get(("noise", problem, f"{noise} {epsilon}"), [])) for noise in NOISES]
            if set(cells) != {"–"}:
                rows.append([f"{NAMES[problem]}, ε = {epsilon}", *cells])
    return f"""## Who adds the noise

`tr_cyc`, 100 trees in four batches. Splits: {_splits(found, "noise")}.

{table(["", "central: a trusted server", "shares of three parties", "local: every record"], rows)}

Shares cost what accounting says, 7 to 9 % more noise than a trusted server, which the spread of splits hides. With
local noise every record adds all of it to a vector that also hides its leaf: little or nothing is learned from so few
records at these ε. Their own local baseline (5.3.2, in their Figure 5), which noises only the gradients of a record and
shows the server where it falls, is on [the papers' page](papers.md)."""


def _parties(found: Found) -> str:
    rows = []
    for problem in ("adult", "credit1"):
        for name in ("all", "two thirds", "each alone"):
            cells = [_shown(found.get(("parties", problem, f"{name} {n}"), [])) for n in PARTIES]
            if set(cells) != {"–"}:
                rows.append([f"{NAMES[problem]}: {name}", *cells])

    def kept(problem: str) -> bool:
        aucs = [_mean(found.get(("parties", problem, f"all {n}"), [])) for n in PARTIES]
        return max(aucs) - min(aucs) < 0.02

    def lost(problem: str) -> bool:
        few, many = (_mean(found.get(("parties", problem, f"each alone {n}"), [])) for n in (3, 30))
        return many < few - 0.02

    own = [t for t in ("adult", "credit1") if ("parties", t, "each alone 30") in found]
    return f"""## Number of parties

The noise of a total does not depend on how many parties share it, if all of them must answer ("all"). Sized for the
fewest survivors ("two thirds": a third may fall silent) a total in which all answer carries √1.5 times the noise.
Without secure aggregation each party must add all of it ("each alone"), √n times as much. `tr_cyc` in four batches,
ε = 0.1. Splits: {_splits(found, "parties")}.

{table(["parties", *map(str, PARTIES)], rows)}

![number of parties](federated/parties.svg)

- **With shares the number of parties costs nothing** (means within .02 from 3 to 100):
  {_count({NAMES[t]: kept(t) for t in own})}.
- **Without secure aggregation it costs accuracy** (30 parties lose more than .02 against 3):
  {_count({NAMES[t]: lost(t) for t in own})}."""


def _dots(
    path: Path, found: Found, experiment: str, methods: list[str], paper: Mapping[str, tuple[float, ...]]
) -> None:
    """Draw Maddock et al.'s numbers and ours side by side, one panel for each table."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 0.45 * len(methods) + 1.3), layout="constrained")
    FigureCanvasSVG(figure)
    places = list(range(len(methods)))[::-1]
    for i, (axis, problem) in enumerate(zip(figure.subplots(1, len(TABLES), sharey=True), TABLES)):
        axis.plot([paper[m][i] for m in methods], places, "k|", markersize=14, label="published")
        for form, label, marker in (("paper", "ours as published", "o"), ("tight", "ours", "D")):
            every = [found.get((experiment, problem, f"{m} {form}"), []) for m in methods]
            spread = [statistics.stdev(aucs) if len(aucs) > 1 else 0.0 for aucs in every]
            axis.errorbar([_mean(a) for a in every], places, xerr=spread, fmt=marker, markersize=4, lw=1, label=label)
        axis.set(title=NAMES[problem], xlabel="test AUC")
        axis.set_yticks(places, methods)
        axis.grid(alpha=0.3)
    axis.legend(fontsize=7)
    with matplotlib.rc_context({"svg.hashsalt": "ledgerwood", "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None})
