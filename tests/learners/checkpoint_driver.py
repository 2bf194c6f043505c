"""Train in processes that kill themselves (SIGKILL) in the middle of their work, until one of them gets through.

Run as ``checkpoint_driver.py FOLDER RECIPE TABLE SEED STRIDE``. A child dies at its n-th call of the operating system
that writes something (write, fsync, replace), n random up to STRIDE, after a random part of the bytes. The next one
resumes. Prints what the last one left and what a run that was never disturbed left.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ledgerwood.accounting import Ledger
from ledgerwood.errors import ParameterError
from ledgerwood.learners import PrivateBoostingClassifier, Schema
from ledgerwood.learners.engines import Partitions

CALLS = ("write", "fsync", "replace")
rng = np.random.default_rng(0)
DATA = pd.DataFrame({"a": rng.uniform(size=300), "b": rng.uniform(size=300)})
TARGET = (DATA["a"] > 0.4).astype(int)


def fit(folder: Path, recipe: str, table: str) -> None:
    schema = Schema(bounds={"a": (0, 1), "b": (0, 1)}, classes=[0, 1])
    options: dict[str, Any] = {"n_trees": 4, "max_depth": 2, "n_bins": 8, "epsilon": 2.0, "delta": 1e-5, "n_threads": 1}
    model = PrivateBoostingClassifier(recipe=recipe, schema=schema, **options)
    with Ledger.open(folder / "budget.jsonl") as ledger:
        given: Any = (DATA, TARGET)
        if table == "parts":
            whole = DATA.assign(y=TARGET)
            given = (Partitions.of_frames([whole.iloc[:120], whole.iloc[120:]], target="y"),)
        model.fit(*given, ledger=ledger, checkpoint=folder / "run")


def die(at: int, part: float) -> None:
    """Kill this process at its at-th writing call, after that part of it."""
    calls, real = 0, {name: getattr(os, name) for name in CALLS}

    def wrap(name: str) -> Any:
        def call(*arguments: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls < at:
                return real[name](*arguments)
            if name == "write":
                data = bytes(arguments[1])
                real[name](arguments[0], data[: int(len(data) * part)])
            elif part > 0.5:
                real[name](*arguments)
            os.kill(os.getpid(), signal.SIGKILL)

        return call

    for name in CALLS:
        setattr(os, name, wrap(name))


def child(folder: Path, recipe: str, table: str, at: int | None, part: float = 0.0) -> bool:
    """Fit in a child that dies at a call; return whether it got through."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            if at is not None:
                die(at, part)
            fit(folder, recipe, table)
            code = 0
        except ParameterError as error:
            if "not finished" in str(error):  # the one before died after its model was in place
                code = 0
            else:
                print(error, file=sys.stderr)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
        os._exit(code)
    status = os.waitpid(pid, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "a child failed otherwise than by the signal"
    return not os.WIFSIGNALED(status)


def left(folder: Path) -> dict[str, Any]:
    with Ledger.open(folder / "budget.jsonl") as ledger:
        spent, journal = ledger.spent().fraction, ledger.journal()
    return {
        "model": (folder / "run" / "model.json").read_text(),
        "files": sorted(file.name for file in (folder / "run").iterdir()),
        "spent": spent,
        "releases": sum(entry.kind == "release" for entry in journal),
        "names": len({entry.id for entry in journal if entry.id and entry.kind == "release"}),
    }


def main() -> None:
    folder, recipe, table = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    seed, stride = int(sys.argv[4]), int(sys.argv[5])
    random.seed(seed)
    disturbed, undisturbed, warm = folder / "disturbed", folder / "undisturbed", folder / "warm"
    warm.mkdir()
    Ledger.open(warm / "budget.jsonl", 10.0, 1e-4).close()
    fit(warm, recipe, table)  # loads in this process, once, what every child needs
    disturbed.mkdir()
    Ledger.open(disturbed / "budget.jsonl", 10.0, 1e-4).close()
    at = 1
    while not (disturbed / "run" / "run.json").exists():  # the key may be lost with what was not yet begun
        child(disturbed, recipe, table, at, random.random())
        at += 1
    shutil.copytree(disturbed, undisturbed)  # one key, two runs: what the kills change would show
    deaths = 0
    while not child(disturbed, recipe, table, random.randint(1, stride), random.random()):
        deaths += 1
        assert deaths < 2000
    assert child(undisturbed, recipe, table, None)
    print(json.dumps({"deaths": deaths + at, "disturbed": left(disturbed), "undisturbed": left(undisturbed)}))


if __name__ == "__main__":
    main()
