"""Train on a running cluster, with a checkpoint, in a process that kills itself (SIGKILL) while tasks are under way.

Run as ``dask_driver.py ADDRESS FOLDER TASKS``: the process dies after it has submitted this many tasks; 0 for never.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from distributed import Client
from test_engines import frame, model, pieces

from ledgerwood.accounting import Ledger
from ledgerwood.learners.engines import DaskEngine, Partitions
from ledgerwood.learners.engines.dask import DaskSums


def main() -> None:
    address, folder, tasks = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    submit, submitted = DaskSums._submit, 0

    def counting(self: Any, *arguments: Any) -> Any:
        nonlocal submitted
        found = submit(self, *arguments)
        submitted += 1
        if submitted == tasks:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    DaskSums._submit = counting  # type: ignore[method-assign]
    parts = Partitions.of_frames(pieces(frame(), [100, 200]), target="y")
    with Client(address, timeout=200) as client, Ledger.open(folder / "budget.jsonl") as ledger:
        fitted = model("xgb", engine=DaskEngine(client), n_trees=6, random_state=None)
        fitted.fit(parts, ledger=ledger, checkpoint=folder / "run")


if __name__ == "__main__":
    main()
