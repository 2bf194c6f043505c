"""Imported once by the process that party processes are forked from: libraries and compiled kernels are there."""

import numpy as np
import pandas as pd  # noqa: F401

from ledgerwood.learners import Schema
from ledgerwood.learners.federated import flower  # noqa: F401
from ledgerwood.learners.federated.party import Party
from ledgerwood.learners.federated.task import FederatedTask

_task = FederatedTask(
    Schema(bounds={0: (0, 1)}, classes=[0, 1]), (0,), {1: "aa" * 32, 2: "bb" * 32}, threshold=2, rows=10,
    recipe="tr_cyc", options={"n_trees": 2, "batch": 1}, epsilon=8.0, delta=1e-5,
)  # fmt: skip
_party = Party(_task, np.zeros((2, 1)), [0, 1])
_first = _party.step([])
_party.noisy(_party.step([q.value.ravel() for q in _first.queries]).queries)
