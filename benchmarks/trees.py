"""Speed and memory of private trees, as ratios against xgboost, LightGBM and interpret, in one run.

    python -m benchmarks.trees [--rows 1000000] [--trees 100] [--interpret PYTHON] [--only fit,predict,...] [--write]

The peers xgboost (``hist``) and LightGBM are not private; interpret's DP-EBM is, and is compared if ``--interpret``
names an interpreter that has it. Every fit starts from a float32 array and includes reading, binning, planning, noise
and selection. Fits of different libraries alternate; the least of the repeats counts, in CPU time and in wall time;
a speed-up by threads is the median over pairs of fits, one right after the other.
``--write`` stores ``benchmarks/results/trees.json`` and ``docs/benchmarks/trees.md``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

# Waiting OpenMP threads of the peers sleep: spinning would count as their CPU time.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np

FEATURES = 28
DEPTH = 6
BINS = {32: 32, 256: 253}  # ours: one byte holds the bins and the code of missing cells
RESULTS = Path(__file__).parent / "results" / "trees.json"
PAGE = Path(__file__).parent.parent / "docs" / "benchmarks" / "trees.md"
OURS = {
    "greedy": {"recipe": "xgb"},
    "totally random": {"recipe": "tr"},
    "symmetric totally random": {"recipe": "tr", "structure": "symmetric"},
}

PLANS = {
    "greedy": {"recipe": "xgb", "n_trees": 100, "max_depth": DEPTH},
    "greedy, 300 trees": {"recipe": "xgb", "n_trees": 300, "max_depth": DEPTH},
    "totally random": {"recipe": "tr", "n_trees": 100, "max_depth": DEPTH},
    "row samples (sarus)": {"recipe": "sarus"},
}

_PAIRS = 5  # of fits by one thread and by two

Timing = dict[str, float]


def data(n: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, FEATURES), dtype=np.float32)
    y = X[:, 0] + X[:, 1] * X[:, 2] + rng.standard_normal(n, dtype=np.float32) > 0
    return X, y.astype(np.int32)


def ours(name: str, n: int, trees: int, bins: int, threads: int) -> Any:
    from ledgerwood.learners import PrivateBoostingClassifier, Schema

    schema = Schema(bounds=dict.fromkeys(range(FEATURES), (-4, 4)), classes=[0, 1], rows=n)
    settings = {"n_trees": trees, "max_depth": DEPTH, "n_bins": BINS[bins], "n_threads": threads}
    return PrivateBoostingClassifier(**OURS[name], **settings, epsilon=1.0, delta=1e-7, schema=schema)


def fit(library: str, X: Any, y: Any, trees: int, bins: int, threads: int) -> Callable[[Any], Any]:
    """Fit and return the function that predicts probabilities from an array."""
    if library == "xgboost":
        import xgboost

        settings = {"tree_method": "hist", "max_depth": DEPTH, "max_bin": bins, "nthread": threads}
        booster = xgboost.train(
            settings | {"objective": "binary:logistic"}, xgboost.DMatrix(X, y, nthread=threads), trees
        )
        return lambda X: booster.predict(xgboost.DMatrix(X, nthread=threads))
    if library == "LightGBM":
        import lightgbm

        settings = {"objective": "binary", "num_leaves": 1 << DEPTH, "max_depth": DEPTH, "max_bin": bins - 1}
        settings |= {"num_threads": threads, "verbosity": -1}
        booster = lightgbm.train(settings, lightgbm.Dataset(X, y), trees)
        return lambda X: booster.predict(X, num_threads=threads)
    model = ours(library, len(X), trees, bins, threads).fit(X, y)
    return model.predict_proba


def timed(do: Callable[[], Any]) -> tuple[Timing, Any]:
    wall, cpu = time.perf_counter(), time.process_time()
    result = do()
    return {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}, result


def least(old: Timing | None, new: Timing) -> Timing:
    return new if old is None else {key: min(old[key], new[key]) for key in new}


def interleaved(tasks: dict[str, Callable[[], Any]], repeats: int) -> dict[str, Timing]:
    found: dict[str, Timing] = {}
    for _ in range(repeats):
        for name, task in tasks.items():
            found[name] = least(found.get(name), timed(task)[0])
    return found


def against(found: dict[str, Timing], peer: str) -> dict[str, Timing]:
    """Add the ratios to a peer's times."""
    return {
        name: {
            **times,
            "cpu ratio": times["cpu"] / found[peer]["cpu"],
            "wall ratio": times["wall"] / found[peer]["wall"],
        }
        for name, times in found.items()
    }


def warm() -> None:
    """Compile and load every kernel, so that no fit below pays for it."""
    X, y = data(3000)
    for name in (*OURS, "xgboost", "LightGBM"):
        fit(name, X, y, 2, 32, 2)(X)


def bench_fit(args: argparse.Namespace) -> dict[str, Any]:
    X, y = data(args.rows)
    found = {}
    for bins in BINS:
        libraries = (*args.peers.split(","), *OURS)
        tasks = {
            name: lambda name=name, bins=bins: fit(name, X, y, args.trees, bins, args.threads) for name in libraries
        }
        found[str(bins)] = against(interleaved(tasks, args.repeats), "xgboost")
    return found


def bench_predict(args: argparse.Namespace) -> dict[str, Any]:
    X, y = data(args.rows)
    part = slice(0, min(args.rows, 200_000))
    found = {}
    for bins in BINS:
        models = {
            name: fit(name, X[part], y[part], args.trees, bins, args.threads)
            for name in (*args.peers.split(","), *OURS)
        }
        tasks = {name: lambda model=model: model(X) for name, model in models.items()}
        found[str(bins)] = against(interleaved(tasks, args.repeats), "xgboost")
    return found


def bench_threads(args: argparse.Namespace) -> dict[str, Any]:
    X, y = data(args.rows)
    found: dict[str, Any] = {}
    for name in (*OURS, "xgboost"):
        one, two = zip(
            *(
                [timed(lambda name=name, t=t: fit(name, X, y, args.trees, 32, t))[0]["wall"] for t in (1, 2)]
                for _ in range(_PAIRS)
            ),
            strict=True,
        )
        ratios = [a / b for a, b in zip(one, two, strict=True)]
        found[name] = {
            "one": min(one),
            "two": min(two),
            "speed-up": median(ratios),
            "from": min(ratios),
            "to": max(ratios),
        }
    return found


def bench_rows(args: argparse.Namespace) -> dict[str, Any]:
    """CPU nanoseconds per row and tree, for growing n."""
    found: dict[str, Any] = {}
    trees = 20
    for n in (10**5, 10**6, 10**7):
        if n > 10 * args.rows:
            continue
        X, y = data(n)
        for name in OURS:
            times = interleaved(
                {name: lambda name=name, X=X, y=y, n=n: fit(name, X, y, trees, 32, args.threads)},
                args.repeats if n < 10**7 else 1,
            )[name]
            found.setdefault(name, {})[str(n)] = {
                **times,
                "ns per row and tree": 1e9 * times["cpu"] / n / trees,
            }
    return found


def bench_small(args: argparse.Namespace) -> dict[str, Any]:
    """Milliseconds per tree at 100 000 rows."""
    X, y = data(100_000)
    tasks = {name: lambda name=name: fit(name, X, y, args.trees, 32, args.threads) for name in ("xgboost", *OURS)}
    times = interleaved(tasks, 3)
    return {
        name: {
            **one,
            "cpu ms per tree": 1e3 * one["cpu"] / args.trees,
            "wall ms per tree": 1e3 * one["wall"] / args.trees,
        }
        for name, one in times.items()
    }


def bench_memory(args: argparse.Namespace) -> dict[str, Any]:
    """Peak resident megabytes of a child process that makes the data and fits."""
    return {
        name: child(["--child", "memory", "--library", name, "--rows", str(args.rows)])
        for name in ("nothing", "xgboost", "LightGBM", *OURS)
    }


def bench_start(args: argparse.Namespace) -> dict[str, Any]:
    """CPU seconds of the first and the second fit of a process, with no compiled kernels and with them."""
    found = {}
    for name in OURS:
        with tempfile.TemporaryDirectory() as cache:
            runs = [child(["--child", "start", "--library", name], cache) for _ in range(3)]
        found[name] = {"cold": runs[0], "cached": min(runs[1:], key=lambda run: run["first"] - run["second"])}
    return found


def bench_plan(args: argparse.Namespace) -> dict[str, Any]:
    """Seconds to plan, in a process that has nothing loaded, and in one that has what a fit loads anyway."""
    return {
        name: {
            **child(["--child", "plan", "--library", name]),
            "loaded": child(["--child", "plan", "--library", name, "--loaded"])["first"],
        }
        for name in PLANS
    }


INTERPRET = """
import json, sys, time, warnings
import numpy as np
warnings.filterwarnings("ignore")
from interpret.privacy import DPExplainableBoostingClassifier as Model
n, rounds, features = map(int, sys.argv[1:4])
rng = np.random.default_rng(0)
X = rng.standard_normal((n, features), dtype=np.float32)
y = (X[:, 0] + X[:, 1] * X[:, 2] + rng.standard_normal(n, dtype=np.float32) > 0).astype(np.int32)
best = {}
for _ in range(2):
    wall, cpu = time.perf_counter(), time.process_time()
    model = Model(
        epsilon=1.0, delta=1e-6, max_rounds=rounds, max_bins=32, outer_bags=1, n_jobs=1,
        privacy_bounds=np.array([[-4.0, 4.0]] * features),
    ).fit(X, y)
    one = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
    best = {k: min(one[k], best.get(k, one[k])) for k in one}
print(json.dumps(best))
"""


def bench_interpret(args: argparse.Namespace) -> dict[str, Any]:
    """DP-EBM: the same rows, and as many trees of one feature each (both count them in rounds over the features)."""
    from ledgerwood.learners import PrivateBoostingClassifier, Schema

    n = 100_000
    X, y = data(n)
    schema = Schema(bounds=dict.fromkeys(range(FEATURES), (-4, 4)), classes=[0, 1], rows=n)
    found = {}
    for rounds in (4, 10, 20, 40, 100):
        command = [args.interpret, "-c", INTERPRET, str(n), str(rounds), str(FEATURES)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        theirs = json.loads(done.stdout.splitlines()[-1])
        model = PrivateBoostingClassifier(
            recipe="dp_ebm", n_trees=rounds, n_bins=32, epsilon=1.0, delta=1e-6, schema=schema
        )
        mine = interleaved({"ours": lambda model=model: model.fit(X, y)}, 2)["ours"]
        found[str(rounds * FEATURES)] = {
            **{"interpret": theirs, "ours": mine},
            **{f"{clock} ratio": theirs[clock] / mine[clock] for clock in ("cpu", "wall")},
        }
    return found


# ---- children


def child(options: list[str], cache: str | None = None) -> Any:
    environment = dict(os.environ) | ({"NUMBA_CACHE_DIR": cache} if cache else {})
    command = [sys.executable, "-m", "benchmarks.trees", *options]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


def peak_kilobytes() -> int:
    """The most resident memory of this process so far; getrusage would report its parent's if that was more."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])


def child_memory(args: argparse.Namespace) -> Any:
    X, y = data(args.rows)
    before = peak_kilobytes()
    if args.library != "nothing":
        fit(args.library, X, y, 10, 256, args.threads)
    peak = peak_kilobytes()
    return {"megabytes": peak / 1024, "beyond the data": (peak - before) / 1024}


def child_start(args: argparse.Namespace) -> Any:
    from ledgerwood.learners import PrivateBoostingClassifier

    imported = time.process_time()
    assert PrivateBoostingClassifier
    X, y = data(20_000)
    first, second = (timed(lambda: fit(args.library, X, y, 10, 32, args.threads))[0] for _ in range(2))
    return {
        **{"import": imported, "first": first["cpu"], "second": second["cpu"]},
        **{"first wall": first["wall"], "second wall": second["wall"]},
    }


def child_plan(args: argparse.Namespace) -> Any:
    from ledgerwood.learners.trees.plan import plan_boosting
    from ledgerwood.learners.trees.recipes import recipe_settings

    if args.loaded:  # scikit-learn, scipy and numba, with the kernels of a fit
        X, y = data(1000)
        fit("totally random", X, y, 1, 32, args.threads)
    given = dict(PLANS[args.library])
    settings = recipe_settings(given.pop("recipe"), **given)
    first, other, again = (
        timed(lambda epsilon=epsilon: plan_boosting(settings, n_features=FEATURES, epsilon=epsilon, delta=1e-6))[0]
        for epsilon in (1.0, 2.0, 1.0)
    )
    return {"first": first, "other": other, "again": again}


# ---- report


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def times_table(found: dict[str, Any]) -> str:
    rows = [
        [name, *(f"{one[key]:.3g}" for key in ("cpu", "wall", "cpu ratio", "wall ratio"))]
        for name, one in found.items()
    ]
    return table(["", "CPU s", "wall s", "CPU, of xgboost's", "wall, of xgboost's"], rows)


def report(found: dict[str, Any]) -> str:
    parts = ["# Private trees: speed and memory"]
    about = found["about"]
    size = f"{about['rows']:,}".replace(",", " ")
    loads = ", ".join(f"{name} {load:.1f}" for name, load in about["load"].items())
    parts.append(
        "Written by `python -m benchmarks.trees --write --interpret PYTHON`, where the interpreter has `interpret`"
        " installed. Data: standard normal float32, 28 features, a label with an interaction. Depth 6, two threads. A"
        " fit starts from the array: reading, planning, binning, sums, exact noise and selection are all in it. The"
        " peers xgboost and LightGBM are not private. Libraries alternate in one run; the least of"
        f" {about['repeats']} repeats counts. Compare numbers within this page only: one shared machine of two cores,"
        f" Python {about['python']}, xgboost {about['xgboost']}, LightGBM {about['lightgbm']}. CPU time is the fairer"
        f" column: wall times lie on a busy machine (load at the start of each part: {loads}).\n\n"
        "Where it says 256 bins, ours are 253 and the code of missing cells. Parts may come from separate runs"
        " (`--only fit,predict,threads,rows,small,memory,start,plan,interpret`)."
    )
    if "fit" in found:
        parts.append(f"## Fit: {size} rows, {about['trees']} trees")
        parts += [f"**{bins} bins**\n\n{times_table(one)}" for bins, one in found["fit"].items()]
    if "predict" in found:
        parts.append(f"## Predict: {size} rows, {about['trees']} trees, from the array")
        parts += [f"**{bins} bins**\n\n{times_table(one)}" for bins, one in found["predict"].items()]
    if "threads" in found:
        rows = [
            [
                name,
                f"{one['one']:.3g}",
                f"{one['two']:.3g}",
                f"{one['speed-up']:.2f}",
                f"{one['from']:.2f} to {one['to']:.2f}",
            ]
            for name, one in found["threads"].items()
        ]
        text = (
            f"Wall times, so only as good as the machine was quiet: see the load above. {_PAIRS} pairs of fits, one"
            " right after the other: the least times, and the median of the ratios."
        )
        head = ["", "one, wall s", "two, wall s", "speed-up", "range"]
        parts.append("## Two threads against one\n\n" + text + "\n\n" + table(head, rows))
    if "rows" in found:
        sizes = list(next(iter(found["rows"].values())))
        rows = [[name, *(f"{one[n]['ns per row and tree']:.1f}" for n in sizes)] for name, one in found["rows"].items()]
        head = ["CPU ns per row and tree", *(f"n = {int(n):.0e}" for n in sizes)]
        parts.append("## Linear in the rows\n\n20 trees, 32 bins, whole fits.\n\n" + table(head, rows))
    if "small" in found:
        rows = [
            [name, f"{one['cpu ms per tree']:.2f}", f"{one['wall ms per tree']:.2f}"]
            for name, one in found["small"].items()
        ]
        head = ["100 000 rows, 32 bins", "CPU ms per tree", "wall ms per tree"]
        parts.append("## Small tables\n\n" + table(head, rows))
    if "memory" in found:
        rows = [
            [name, f"{one['megabytes']:.0f}", f"{one['beyond the data']:.0f}"] for name, one in found["memory"].items()
        ]
        head = ["256 bins", "peak MB of the process", "beyond the data and the imports before it"]
        parts.append("## Memory\n\n" + table(head, rows))
    if "start" in found:
        rows = [
            [
                name,
                *(f"{one[kind][fit]:.2f}" for kind in ("cold", "cached") for fit in ("first", "second")),
                f"{one['cached']['import']:.2f}",
            ]
            for name, one in found["start"].items()
        ]
        head = ["CPU s", "first fit, nothing compiled", "second", "first fit, kernels cached", "second", "import"]
        text = "20 000 rows, 10 trees. The import of the estimator (scikit-learn, scipy, pandas) comes before the fits."
        parts.append("## First fit of a process\n\n" + text + "\n\n" + table(head, rows))
    if "plan" in found:
        rows = [
            [
                name,
                *(f"{one[kind]['cpu']:.2f}" for kind in ("loaded", "first", "other")),
                f"{1e3 * one['again']['wall']:.1f}",
            ]
            for name, one in found["plan"].items()
        ]
        text = (
            "The first plan of a process, where the libraries of a fit (scikit-learn, scipy, numba) are loaded, and"
            " where nothing is: then the import of scipy, and for selections of numba, is in it."
        )
        head = [
            *("", "first, libraries loaded, CPU s", "first, nothing loaded, CPU s"),
            *("another target, CPU s", "the same again, ms"),
        ]
        parts.append("## Planning\n\n" + text + "\n\n" + table(head, rows))
    if "interpret" in found:
        rows = [
            [
                trees,
                f"{one['interpret']['cpu']:.3g}",
                f"{one['ours']['cpu']:.3g}",
                f"{one['cpu ratio']:.1f}",
                f"{one['wall ratio']:.1f}",
            ]
            for trees, one in found["interpret"].items()
        ]
        head = ["trees of one feature", "interpret, CPU s", "ours, CPU s", "times less CPU", "times less wall"]
        text = (
            "100 000 rows; Maddock et al.'s recipe has 10 trees for each feature, 280 here. interpret spends most of a"
            " short fit before its first tree; a tree of its own loop is cheap, and each of ours takes a pass over the"
            " rows (a score, a gradient and a sum, 1.4 ns for each row at best: 0.4 s in 2800 trees) and a release"
            " through the ledger. So the ratio falls with the number of trees."
        )
        parts.append("## DP-EBM against interpret\n\n" + text + "\n\n" + table(head, rows))
    return "\n\n".join(parts) + "\n"


BENCHES = {
    "fit": bench_fit,
    "predict": bench_predict,
    "threads": bench_threads,
    "rows": bench_rows,
    "small": bench_small,
    "memory": bench_memory,
    "start": bench_start,
    "plan": bench_plan,
    "interpret": bench_interpret,
}
CHILDREN = {"memory": child_memory, "start": child_start, "plan": child_plan}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--interpret", help="an interpreter that has interpret installed")
    parser.add_argument("--peers", default="xgboost,LightGBM", help="of fit and predict; xgboost is always needed")
    parser.add_argument("--only", help="comma-separated names of parts")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--child", choices=CHILDREN, help=argparse.SUPPRESS)
    parser.add_argument("--library", help=argparse.SUPPRESS)
    parser.add_argument("--loaded", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(CHILDREN[args.child](args)))
        return
    found: dict[str, Any] = json.loads(RESULTS.read_text()) if args.only and RESULTS.exists() else {}
    found["about"] = {
        **{"rows": args.rows, "trees": args.trees, "repeats": args.repeats},
        **{"load": found.get("about", {}).get("load", {})},
        **{"python": platform.python_version(), "xgboost": version("xgboost-cpu"), "lightgbm": version("lightgbm")},
    }
    warm()
    for name, bench in BENCHES.items():
        if (args.only and name not in args.only.split(",")) or (name == "interpret" and not args.interpret):
            continue
        found["about"]["load"][name] = os.getloadavg()[0]
        found[name] = bench(args)
        print(name, json.dumps(found[name], indent=1), flush=True)
        if args.write:  # after each part: a run may be cut short
            RESULTS.write_text(json.dumps(found, indent=1) + "\n")
            PAGE.write_text(report(found))
    print(report(found))


if __name__ == "__main__":
    main()
