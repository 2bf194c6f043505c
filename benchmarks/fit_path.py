"""How much of the package a fit of two trees runs through: files and functions.

    PYTHONPATH=src python -m benchmarks.fit_path [--list]

Counted are the files of ledgerwood with a function that is called between ``fit`` and its return, in all threads; what
only runs at import does not count.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import ledgerwood
from ledgerwood.learners import PrivateBoostingClassifier, Schema

PACKAGE = Path(ledgerwood.__file__).parent


def functions_of_a_fit() -> set[tuple[str, int]]:
    """Return file and line of every function of the package that the fit calls."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(2000, 4))
    schema = Schema(bounds=dict.fromkeys(range(4), (0.0, 1.0)), classes=[0, 1])
    model = PrivateBoostingClassifier(epsilon=1.0, delta=1e-5, schema=schema, n_trees=2, max_depth=3, random_state=1)
    called: set[tuple[str, int]] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(PACKAGE)) and code.co_name != "<module>":
            called.add((code.co_filename, code.co_firstlineno))

    threading.setprofile(note)
    sys.setprofile(note)
    model.fit(X, X[:, 0] > 0.5)
    sys.setprofile(None)
    threading.setprofile(None)
    return called


def main() -> None:
    called = functions_of_a_fit()
    files = Counter(str(Path(name).relative_to(PACKAGE)) for name, _ in called)
    print(f"{len(files)} files, {len(called)} functions")
    if "--list" in sys.argv:
        for name, count in sorted(files.items()):
            print(f"{count:4} {name}")


if __name__ == "__main__":
    main()
